/*
 * Berkeley DB: B-trees with page locks, a log and checkpoints.
 *
 * - sync: its default. buffered: DB_TXN_WRITE_NOSYNC, each commit writes the log to the operating system. relaxed:
 *   DB_TXN_NOSYNC, the log waits in the process's buffer.
 * - Transactions are serializable, by locks on pages that they keep; a deadlock is found at once, and one of it rolled back. Reads
 *   outside transactions keep no lock.
 * - It takes no checkpoint by itself, and is asked for one when it is to come to rest, not in a timed phase: that does not pay for
 *   one, however long it is, and its log grows. A program would take one now and then.
 * - The cache is its memory pool. Pages have 4 KiB, the log's buffer 4 MiB.
 * - A bulk load is sorted puts, for which Berkeley DB fills pages, in transactions of many rows that do not log what comes to new
 *   pages (DB_TXN_BULK).
 */
#include "engine.h"

#include <db.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAGE_BYTES = 4096,
    LOG_BUFFER_BYTES = 4 << 20,
    LOG_FILE_BYTES = 64 << 20,
    LOCKS_MAX = 2000000, /* a scan of a whole table in a transaction locks each of its pages */
    KEY_BYTES_MAX = 1 << 11,
    VALUE_BYTES_MAX = 1 << 20,
    BULK_ROWS = 100000,
};

struct Table {
    DB *db;
    Table *next;
};

struct Store {
    DB_ENV *environment;
    Table *tables;
};

struct Session {
    Store *store;
    DB_TXN *transaction;
    DBC *cursor;
    int is_reverse;
    Table *bulk_table;
    int bulk_rows;
    char key[KEY_BYTES_MAX];
    char value[VALUE_BYTES_MAX];
};

static int outcome(int code) {
    switch (code) {
    case 0: return DONE;
    case DB_NOTFOUND:
    case DB_KEYEMPTY: return ABSENT;
    case DB_LOCK_DEADLOCK:
    case DB_LOCK_NOTGRANTED: return CONFLICT;
    default: return peer_failed("berkeleydb", db_strerror(code));
    }
}

static DBT given(Bytes bytes) {
    return (DBT){.data = (void *)bytes.data, .size = (u_int32_t)bytes.size};
}

static DBT room(char *bytes, u_int32_t size) {
    return (DBT){.data = bytes, .ulen = size, .flags = DB_DBT_USERMEM};
}

static int configure(DB_ENV *environment, const Options *options) {
    static const u_int32_t how[] = {
        [SYNC] = 0, [BUFFERED] = DB_TXN_WRITE_NOSYNC, [RELAXED] = DB_TXN_NOSYNC};
    u_int32_t gigabytes = (u_int32_t)(options->cache_bytes >> 30);
    u_int32_t rest = (u_int32_t)(options->cache_bytes & ((1u << 30) - 1));
    int code = environment->set_cachesize(environment, gigabytes, rest, 1);
    if (code == 0) code = environment->set_lk_detect(environment, DB_LOCK_MINWRITE);
    if (code == 0) code = environment->set_lk_max_locks(environment, LOCKS_MAX);
    if (code == 0) code = environment->set_lk_max_objects(environment, LOCKS_MAX);
    if (code == 0) code = environment->set_lk_max_lockers(environment, 10000 + options->threads);
    if (code == 0) code = environment->set_lg_bsize(environment, LOG_BUFFER_BYTES);
    if (code == 0) code = environment->set_lg_max(environment, LOG_FILE_BYTES);
    if (code == 0) code = environment->log_set_config(environment, DB_LOG_AUTO_REMOVE, 1);
    if (code == 0 && how[options->durability] != 0)
        code = environment->set_flags(environment, how[options->durability], 1);
    if (code == 0)
        code = environment->open(environment, options->dir,
                                 DB_CREATE | DB_INIT_MPOOL | DB_INIT_TXN | DB_INIT_LOCK | DB_INIT_LOG |
                                     DB_THREAD | DB_PRIVATE,
                                 0);
    return code;
}

static void version(char *text, size_t size) {
    int major, minor, patch;
    db_version(&major, &minor, &patch);
    snprintf(text, size, "%d.%d.%d", major, minor, patch);
}

static int store_open(const Options *options, Store **out) {
    Store *store = peer_made("berkeleydb", sizeof *store);
    if (store == NULL) return FAILED;
    int code = db_env_create(&store->environment, 0);
    if (code == 0) {
        code = configure(store->environment, options);
        if (code != 0) store->environment->close(store->environment, 0);
    }
    *out = store;
    if (code != 0) free(store);
    return outcome(code);
}

static void store_close(Store *store) {
    while (store->tables != NULL) {
        Table *table = store->tables;
        store->tables = table->next;
        table->db->close(table->db, DB_NOSYNC);
        free(table);
    }
    store->environment->close(store->environment, 0);
    free(store);
}

static int store_settle(Store *store) {
    return outcome(store->environment->txn_checkpoint(store->environment, 0, 0, DB_FORCE));
}

static void store_counters(Store *store, Counters *counters) {
    *counters = (Counters){-1, -1};
    DB_LOG_STAT *statistics;
    if (store->environment->log_stat(store->environment, &statistics, 0) != 0) return;
    counters->log_bytes = ((int64_t)statistics->st_w_mbytes << 20) + statistics->st_w_bytes;
    counters->syncs = (int64_t)statistics->st_scount;
    free(statistics);
}

static int store_table(Store *store, const char *name, Table **out) {
    Table *table = peer_made("berkeleydb", sizeof *table);
    if (table == NULL) return FAILED;
    int code = db_create(&table->db, store->environment, 0);
    if (code == 0) {
        table->db->set_pagesize(table->db, PAGE_BYTES);
        code = table->db->open(table->db, NULL, name, NULL, DB_BTREE, DB_CREATE | DB_AUTO_COMMIT | DB_THREAD,
                               0);
        if (code != 0) table->db->close(table->db, 0);
    }
    if (code != 0) {
        free(table);
        return outcome(code);
    }
    return PEER_ADD_TABLE(store, table, out);
}

static int begin_session(Store *store, Session **out) {
    Session *session = peer_made("berkeleydb", sizeof *session);
    if (session == NULL) return FAILED;
    session->store = store;
    *out = session;
    return DONE;
}

static void end_session(Session *session) {
    free(session);
}

static int begin(Session *session, int is_read_only) {
    (void)is_read_only;
    DB_ENV *environment = session->store->environment;
    return outcome(environment->txn_begin(environment, NULL, &session->transaction, 0));
}

static int commit(Session *session) {
    DB_TXN *transaction = session->transaction;
    session->transaction = NULL;
    return outcome(transaction->commit(transaction, 0));
}

static void rollback(Session *session) {
    DB_TXN *transaction = session->transaction;
    session->transaction = NULL;
    transaction->abort(transaction);
}

static int get(Session *session, Table *table, Bytes key, int is_for_update, Bytes *value) {
    DBT wanted = given(key), found = room(session->value, sizeof session->value);
    u_int32_t flags = is_for_update && session->transaction != NULL ? DB_RMW : 0;
    int code = table->db->get(table->db, session->transaction, &wanted, &found, flags);
    *value = (Bytes){found.data, found.size};
    return outcome(code);
}

static int put(Session *session, Table *table, Bytes key, Bytes value) {
    DBT at = given(key), bytes = given(value);
    return outcome(table->db->put(table->db, session->transaction, &at, &bytes, 0));
}

static int insert(Session *session, Table *table, Bytes key, Bytes value) {
    DBT at = given(key), bytes = given(value);
    int code = table->db->put(table->db, session->transaction, &at, &bytes, DB_NOOVERWRITE);
    return code == DB_KEYEXIST ? PRESENT : outcome(code);
}

static int remove_row(Session *session, Table *table, Bytes key) {
    DBT at = given(key);
    return outcome(table->db->del(table->db, session->transaction, &at, 0));
}

static int move_to(Session *session, Bytes bound, u_int32_t where, Bytes *key, Bytes *value) {
    DBT at = room(session->key, sizeof session->key), found = room(session->value, sizeof session->value);
    memcpy(session->key, bound.data, bound.size);
    at.size = (u_int32_t)bound.size;
    int code = session->cursor->get(session->cursor, &at, &found, where);
    *key = (Bytes){at.data, at.size};
    *value = (Bytes){found.data, found.size};
    return outcome(code);
}

static int scan(Session *session, Table *table, Bytes bound, int is_reverse, Bytes *key, Bytes *value) {
    session->is_reverse = is_reverse;
    if (bound.size > sizeof session->key) return peer_failed("berkeleydb", "a key is above 2 KiB");
    int code = table->db->cursor(table->db, session->transaction, &session->cursor, 0);
    if (code != 0) {
        session->cursor = NULL;
        return outcome(code);
    }
    int moved = move_to(session, bound, DB_SET_RANGE, key, value);
    if (!is_reverse || moved == CONFLICT || moved == FAILED) return moved;
    return move_to(session, (Bytes){"", 0}, moved == DONE ? DB_PREV : DB_LAST, key, value);
}

static int scan_next(Session *session, Bytes *key, Bytes *value) {
    return move_to(session, (Bytes){"", 0}, session->is_reverse ? DB_PREV : DB_NEXT, key, value);
}

static void scan_end(Session *session) {
    if (session->cursor != NULL) session->cursor->close(session->cursor);
    session->cursor = NULL;
}

static int bulk_begin(Session *session, Table *table) {
    session->bulk_table = table;
    session->bulk_rows = 0;
    DB_ENV *environment = session->store->environment;
    return outcome(environment->txn_begin(environment, NULL, &session->transaction, DB_TXN_BULK));
}

static int bulk_row(Session *session, Bytes key, Bytes value) {
    int done = put(session, session->bulk_table, key, value);
    if (done != DONE || ++session->bulk_rows < BULK_ROWS) return done;
    done = commit(session);
    return done == DONE ? bulk_begin(session, session->bulk_table) : done;
}

static int bulk_end(Session *session) {
    return commit(session);
}

const Engine peer_berkeleydb = {
    PEER_FUNCTIONS,
    PEER_TRANSACTIONS,
    .insert = insert,
    .isolation = SERIALIZABLE,
    .counters = store_counters,
};
