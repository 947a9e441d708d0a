/*
 * Kyoto Cabinet, TreeDB: a B+-tree in a file of hash buckets, without transactions that several threads could run at once.
 *
 * - sync: automatic transactions and automatic sync, so that each write is a transaction of the file, then synced.
 *   buffered: automatic transactions alone. relaxed: its default, changed pages wait in the process's page cache.
 * - The cache is its page cache. Pages have 8 KiB, its default; its linear option is on, as it advises for speed.
 * - A table is a file of its own. A bulk load is sorted puts in transactions of many rows.
 */
#include "engine.h"

#include <kclangc.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum { VALUE_BYTES_MAX = 1 << 20, BULK_ROWS = 10000 };

struct Table {
    KCDB *db;
    int is_synced; /* is each commit? */
    Table *next;
};

struct Store {
    Options options;
    Table *tables;
    char dir[PATH_MAX];
};

struct Session {
    KCCUR *cursor;
    int is_reverse;
    char *row; /* of the cursor */
    Table *bulk_table;
    int bulk_rows;
    char value[VALUE_BYTES_MAX];
};

static int failed(KCDB *db) {
    return peer_failed("kyoto", kcdbemsg(db));
}

static void version(char *text, size_t size) {
    snprintf(text, size, "%s", KCVERSION);
}

static int store_open(const Options *options, Store **out) {
    Store *store = peer_made("kyoto", sizeof *store);
    if (store == NULL) return FAILED;
    store->options = *options;
    snprintf(store->dir, sizeof store->dir, "%s", options->dir);
    *out = store;
    return DONE;
}

static void store_close(Store *store) {
    while (store->tables != NULL) {
        Table *table = store->tables;
        store->tables = table->next;
        kcdbclose(table->db);
        kcdbdel(table->db);
        free(table);
    }
    free(store);
}

static int store_settle(Store *store) {
    for (Table *table = store->tables; table != NULL; table = table->next)
        if (!kcdbsync(table->db, 1, NULL, NULL)) return failed(table->db);
    return DONE;
}

static int store_table(Store *store, const char *name, Table **out) {
    static const uint32_t how[] = {
        [SYNC] = KCOAUTOTRAN | KCOAUTOSYNC, [BUFFERED] = KCOAUTOTRAN, [RELAXED] = 0};
    char path[PATH_MAX + 256];
    snprintf(path, sizeof path, "%s/%s.kct#opts=l#pccap=%llu", store->dir, name,
             (unsigned long long)store->options.cache_bytes);
    Table *table = peer_made("kyoto", sizeof *table);
    if (table == NULL) return FAILED;
    table->db = kcdbnew();
    table->is_synced = store->options.durability == SYNC;
    if (!kcdbopen(table->db, path, KCOWRITER | KCOCREATE | how[store->options.durability])) {
        failed(table->db);
        kcdbdel(table->db);
        free(table);
        return FAILED;
    }
    return PEER_ADD_TABLE(store, table, out);
}

static int begin_session(Store *store, Session **out) {
    (void)store;
    Session *session = peer_made("kyoto", sizeof *session);
    if (session == NULL) return FAILED;
    *out = session;
    return DONE;
}

static void end_session(Session *session) {
    free(session);
}

static int get(Session *session, Table *table, Bytes key, int is_for_update, Bytes *value) {
    (void)is_for_update;
    int32_t size = kcdbgetbuf(table->db, key.data, key.size, session->value, sizeof session->value);
    if (size < 0) return kcdbecode(table->db) == KCENOREC ? ABSENT : failed(table->db);
    if ((size_t)size > sizeof session->value) return peer_failed("kyoto", "a value is above a MiB");
    *value = (Bytes){session->value, (size_t)size};
    return DONE;
}

static int put(Session *session, Table *table, Bytes key, Bytes value) {
    (void)session;
    return kcdbset(table->db, key.data, key.size, value.data, value.size) ? DONE : failed(table->db);
}

static int insert(Session *session, Table *table, Bytes key, Bytes value) {
    (void)session;
    if (kcdbadd(table->db, key.data, key.size, value.data, value.size)) return DONE;
    return kcdbecode(table->db) == KCEDUPREC ? PRESENT : failed(table->db);
}

static int remove_row(Session *session, Table *table, Bytes key) {
    (void)session;
    if (kcdbremove(table->db, key.data, key.size)) return DONE;
    return kcdbecode(table->db) == KCENOREC ? ABSENT : failed(table->db);
}

static int cursor_moved(Session *session, int32_t has_moved) {
    if (has_moved) return DONE;
    return kccurecode(session->cursor) == KCENOREC ? ABSENT : failed(kccurdb(session->cursor));
}

/* The cursor's row, from which it then steps forwards. */
static int row(Session *session, Bytes *key, Bytes *value) {
    const char *bytes;
    kcfree(session->row);
    session->row = kccurget(session->cursor, &key->size, &bytes, &value->size, !session->is_reverse);
    if (session->row == NULL) return cursor_moved(session, 0);
    key->data = session->row;
    value->data = bytes;
    return DONE;
}

/* Of the two ways to jump, the one backwards stops at the bound too, which is not below it. */
static int32_t jump_below(Session *session, Bytes bound) {
    if (!kccurjumpkey(session->cursor, bound.data, bound.size)) return kccurjumpback(session->cursor);
    return kccurstepback(session->cursor);
}

static int scan(Session *session, Table *table, Bytes bound, int is_reverse, Bytes *key, Bytes *value) {
    session->cursor = kcdbcursor(table->db);
    session->is_reverse = is_reverse;
    session->row = NULL;
    int32_t has_moved = is_reverse ? jump_below(session, bound)
                                   : kccurjumpkey(session->cursor, bound.data, bound.size);
    int moved = cursor_moved(session, has_moved);
    return moved == DONE ? row(session, key, value) : moved;
}

static int scan_next(Session *session, Bytes *key, Bytes *value) {
    int moved = session->is_reverse ? cursor_moved(session, kccurstepback(session->cursor)) : DONE;
    return moved == DONE ? row(session, key, value) : moved;
}

static void scan_end(Session *session) {
    kcfree(session->row);
    kccurdel(session->cursor);
}

static int bulk_begin(Session *session, Table *table) {
    session->bulk_table = table;
    session->bulk_rows = 0;
    return kcdbbegintran(table->db, table->is_synced) ? DONE : failed(table->db);
}

static int bulk_end(Session *session) {
    KCDB *db = session->bulk_table->db;
    return kcdbendtran(db, 1) ? DONE : failed(db);
}

static int bulk_row(Session *session, Bytes key, Bytes value) {
    int done = put(session, session->bulk_table, key, value);
    if (done != DONE || ++session->bulk_rows < BULK_ROWS) return done;
    done = bulk_end(session);
    return done == DONE ? bulk_begin(session, session->bulk_table) : done;
}

const Engine peer_kyoto = {
    PEER_FUNCTIONS,
    .insert = insert,
    .isolation = NO_TRANSACTIONS,
    .counters = peer_no_counters,
};
