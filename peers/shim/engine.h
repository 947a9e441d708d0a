/*
 * What a C engine must do to stand beside the Rust ones: the interface between its shim and `src/c_engine`.
 *
 * Why shims: two of these engines are structures of function pointers and macros in C, and all five differ in who owns a
 * value and for how long. Here they look alike. A shim adds one call to an operation, as the dynamic linker does.
 *
 * Rules, beyond those of the workloads' Store and TxStore:
 * - Functions return one of `enum Outcome`. After FAILED, `peer_error` says why.
 * - Bytes handed out live until the next call on the same session.
 * - A session is used by one thread. Without `begin`, each write is a transaction of its own and each read sees the newest.
 */
#ifndef PEER_ENGINE_H
#define PEER_ENGINE_H

#include <stddef.h>
#include <stdint.h>

enum Outcome { DONE, ABSENT, CONFLICT, FAILED, PRESENT };

enum Durability { SYNC, BUFFERED, RELAXED };

enum Isolation { SERIALIZABLE, SNAPSHOT, NO_TRANSACTIONS };

typedef struct Store Store;
typedef struct Table Table;
typedef struct Session Session;

typedef struct Bytes {
    const void *data;
    size_t size;
} Bytes;

typedef struct Options {
    const char *dir; /* empty, and the store's own */
    uint64_t cache_bytes;
    uint32_t threads;
    enum Durability durability;
    int finds_all; /* Is what is looked for always there? */
} Options;

/* Since the store was opened; -1 where the engine does not say. */
typedef struct Counters {
    int64_t log_bytes;
    int64_t syncs;
} Counters;

typedef struct Engine {
    enum Isolation isolation;
    /* Writes the library's version, such as 1.2.3. */
    void (*version)(char *text, size_t size);

    int (*open)(const Options *options, Store **store);
    /* No session is left. */
    void (*close)(Store *store);
    int (*settle)(Store *store);
    void (*counters)(Store *store, Counters *counters);
    /* Created if there is none; lives as long as the store. */
    int (*table)(Store *store, const char *name, Table **table);

    int (*begin_session)(Store *store, Session **session);
    void (*end_session)(Session *session);

    /* Transactions; null with NO_TRANSACTIONS. A commit that does not return DONE has rolled back. */
    int (*begin)(Session *session, int is_read_only);
    int (*commit)(Session *session);
    void (*rollback)(Session *session);

    int (*get)(Session *session, Table *table, Bytes key, int is_for_update, Bytes *value);
    int (*put)(Session *session, Table *table, Bytes key, Bytes value);
    /* As put, unless there is a row with this key: PRESENT then. Null where the engine has no call for it. */
    int (*insert)(Session *session, Table *table, Bytes key, Bytes value);
    int (*remove)(Session *session, Table *table, Bytes key);

    /* The first row at or above `bound` or, in reverse, the last one below it; then its neighbours, one after the other.
     * A session has one scan at a time, and does nothing else before its end. */
    int (*scan)(Session *session, Table *table, Bytes bound, int is_reverse, Bytes *key, Bytes *value);
    int (*scan_next)(Session *session, Bytes *key, Bytes *value);
    void (*scan_end)(Session *session);

    /* The engine's fastest way to load sorted rows into an empty table: rows, then the end. */
    int (*bulk_begin)(Session *session, Table *table);
    int (*bulk_row)(Session *session, Bytes key, Bytes value);
    int (*bulk_end)(Session *session);
} Engine;

/* Why this thread's last call FAILED. */
const char *peer_error(void);

/* Notes why a call fails; returns FAILED. */
int peer_failed(const char *engine, const char *what);

/* Zeroed memory; null, and the failure noted, if there is none. */
void *peer_made(const char *engine, size_t size);

/* For an engine that counts nothing. */
void peer_no_counters(Store *store, Counters *counters);

/* Adds a new table to the store's list, and hands it out. */
#define PEER_ADD_TABLE(store, table, out) \
    ((table)->next = (store)->tables, (store)->tables = *(out) = (table), DONE)

/* What each shim calls its functions; `counters` and transactions are named by those that have them. */
#define PEER_FUNCTIONS                                                                            \
    .version = version, .open = store_open, .close = store_close, .settle = store_settle,         \
    .table = store_table,                                                                         \
    .begin_session = begin_session, .end_session = end_session, .get = get, .put = put,           \
    .remove = remove_row, .scan = scan, .scan_next = scan_next, .scan_end = scan_end,             \
    .bulk_begin = bulk_begin, .bulk_row = bulk_row, .bulk_end = bulk_end
#define PEER_TRANSACTIONS .begin = begin, .commit = commit, .rollback = rollback

#endif
