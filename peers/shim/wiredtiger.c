/*
 * WiredTiger: B-trees with versions in memory, a log and checkpoints.
 *
 * - sync: each commit syncs the log. buffered: each commit writes the log to the operating system (method=none). relaxed: the
 *   log waits in the process's buffers.
 * - Transactions run under snapshot isolation, the strongest there is in which it lets anyone write. One that finds a row
 *   changed since its snapshot is rolled back and run again.
 * - The cache is its cache, of uncompressed pages. Checkpoints every minute, as in MongoDB.
 * - A session keeps a cursor per table, and one to insert by. A bulk load is a bulk cursor, which
 *   writes no log: but for relaxed, a checkpoint follows.
 */
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wiredtiger.h>

enum { TABLES_MAX = 256 };

struct Table {
    int at; /* its place among the store's tables */
    Table *next;
    char uri[80];
};

struct Store {
    WT_CONNECTION *connection;
    int is_relaxed;
    Table *tables;
    int table_count;
};

struct Session {
    WT_SESSION *session;
    int is_relaxed;
    WT_CURSOR *cursors[TABLES_MAX];
    WT_CURSOR *inserters[TABLES_MAX]; /* refuse to overwrite */
    WT_CURSOR *positioned; /* holds a page, and outside transactions the snapshot, until it is reset */
    WT_CURSOR *bulk;
    int is_reverse;
};

static int outcome(int code) {
    switch (code) {
    case 0: return DONE;
    case WT_NOTFOUND: return ABSENT;
    case WT_ROLLBACK: return CONFLICT;
    default: return peer_failed("wiredtiger", wiredtiger_strerror(code));
    }
}

static void version(char *text, size_t size) {
    int major, minor, patch;
    wiredtiger_version(&major, &minor, &patch);
    snprintf(text, size, "%d.%d.%d", major, minor, patch);
}

static int store_open(const Options *options, Store **out) {
    static const char *const how[] = {[SYNC] = "(enabled=true,method=fsync)",
                                      [BUFFERED] = "(enabled=true,method=none)",
                                      [RELAXED] = "(enabled=false)"};
    /* Less than this and WiredTiger waits for eviction before it has begun. */
    const uint64_t cache_bytes_min = 16 << 20;
    uint64_t cache_bytes =
        options->cache_bytes > cache_bytes_min ? options->cache_bytes : cache_bytes_min;
    char config[256];
    snprintf(config, sizeof config,
             "create,cache_size=%llu,session_max=%u,log=(enabled=true),transaction_sync=%s,"
             "checkpoint=(wait=60)",
             (unsigned long long)cache_bytes, options->threads + 32, how[options->durability]);
    Store *store = peer_made("wiredtiger", sizeof *store);
    if (store == NULL) return FAILED;
    int opened = outcome(wiredtiger_open(options->dir, NULL, config, &store->connection));
    store->is_relaxed = options->durability == RELAXED;
    *out = store;
    if (opened != DONE) free(store);
    return opened;
}

static void store_close(Store *store) {
    store->connection->close(store->connection, NULL);
    while (store->tables != NULL) {
        Table *table = store->tables;
        store->tables = table->next;
        free(table);
    }
    free(store);
}

static int store_settle(Store *store) {
    WT_SESSION *session;
    int code = store->connection->open_session(store->connection, NULL, NULL, &session);
    if (code != 0) return outcome(code);
    code = session->checkpoint(session, NULL);
    session->close(session, NULL);
    return outcome(code);
}

static int store_table(Store *store, const char *name, Table **out) {
    char uri[80];
    snprintf(uri, sizeof uri, "table:%s", name);
    for (*out = store->tables; *out != NULL; *out = (*out)->next)
        if (strcmp((*out)->uri, uri) == 0) return DONE;
    if (store->table_count == TABLES_MAX) return peer_failed("wiredtiger", "more tables than the shim holds");
    WT_SESSION *session;
    int code = store->connection->open_session(store->connection, NULL, NULL, &session);
    if (code != 0) return outcome(code);
    code = session->create(session, uri, "key_format=u,value_format=u");
    session->close(session, NULL);
    if (code != 0) return outcome(code);
    Table *table = peer_made("wiredtiger", sizeof *table);
    if (table == NULL) return FAILED;
    memcpy(table->uri, uri, sizeof uri);
    table->at = store->table_count++;
    return PEER_ADD_TABLE(store, table, out);
}

static int begin_session(Store *store, Session **out) {
    Session *session = peer_made("wiredtiger", sizeof *session);
    if (session == NULL) return FAILED;
    int code = store->connection->open_session(store->connection, NULL, NULL, &session->session);
    session->is_relaxed = store->is_relaxed;
    *out = session;
    if (code != 0) free(session);
    return outcome(code);
}

static void end_session(Session *session) {
    session->session->close(session->session, NULL);
    free(session);
}

static void unposition(Session *session) {
    if (session->positioned != NULL) session->positioned->reset(session->positioned);
    session->positioned = NULL;
}

/* With no cursor positioned: reads see the newest, or the transaction's snapshot. */
static int opened_on(Session *session, Table *table, WT_CURSOR **cursor, const char *how, WT_CURSOR **out) {
    unposition(session);
    int code = 0;
    if (*cursor == NULL)
        code = session->session->open_cursor(session->session, table->uri, NULL, how, cursor);
    *out = *cursor;
    return outcome(code);
}

/* The session's cursor on a table. */
static int cursor_on(Session *session, Table *table, WT_CURSOR **out) {
    return opened_on(session, table, &session->cursors[table->at], "overwrite=true", out);
}

static int begin(Session *session, int is_read_only) {
    (void)is_read_only;
    unposition(session);
    return outcome(session->session->begin_transaction(session->session, "isolation=snapshot"));
}

static int commit(Session *session) {
    session->positioned = NULL; /* the end of a transaction resets all cursors */
    return outcome(session->session->commit_transaction(session->session, NULL));
}

static void rollback(Session *session) {
    session->positioned = NULL;
    session->session->rollback_transaction(session->session, NULL);
}

static void set_key(WT_CURSOR *cursor, Bytes key) {
    cursor->set_key(cursor, &(WT_ITEM){.data = key.data, .size = key.size});
}

static int get(Session *session, Table *table, Bytes key, int is_for_update, Bytes *value) {
    (void)is_for_update; /* WiredTiger has no locks to take beforehand */
    WT_CURSOR *cursor;
    int opened = cursor_on(session, table, &cursor);
    if (opened != DONE) return opened;
    set_key(cursor, key);
    int code = cursor->search(cursor);
    if (code != 0) return outcome(code);
    session->positioned = cursor;
    WT_ITEM item;
    code = cursor->get_value(cursor, &item);
    *value = (Bytes){item.data, item.size};
    return outcome(code);
}

/* Outside transactions an update may lose against another, too; nothing has happened then. */
static int put(Session *session, Table *table, Bytes key, Bytes value) {
    WT_CURSOR *cursor;
    int opened = cursor_on(session, table, &cursor);
    if (opened != DONE) return opened;
    set_key(cursor, key);
    cursor->set_value(cursor, &(WT_ITEM){.data = value.data, .size = value.size});
    return outcome(cursor->insert(cursor));
}

static int insert(Session *session, Table *table, Bytes key, Bytes value) {
    WT_CURSOR *cursor;
    int opened = opened_on(session, table, &session->inserters[table->at], "overwrite=false", &cursor);
    if (opened != DONE) return opened;
    set_key(cursor, key);
    cursor->set_value(cursor, &(WT_ITEM){.data = value.data, .size = value.size});
    int code = cursor->insert(cursor);
    if (code != WT_DUPLICATE_KEY) return outcome(code);
    cursor->reset(cursor);
    return PRESENT;
}

static int remove_row(Session *session, Table *table, Bytes key) {
    Bytes value;
    int found = get(session, table, key, 1, &value);
    if (found != DONE) return found;
    WT_CURSOR *cursor = session->positioned;
    session->positioned = NULL;
    set_key(cursor, key);
    int code = cursor->remove(cursor);
    cursor->reset(cursor);
    return outcome(code);
}

static int row(Session *session, int code, Bytes *key, Bytes *value) {
    if (code != 0) return outcome(code);
    WT_CURSOR *cursor = session->positioned;
    WT_ITEM items[2];
    code = cursor->get_key(cursor, &items[0]);
    if (code == 0) code = cursor->get_value(cursor, &items[1]);
    *key = (Bytes){items[0].data, items[0].size};
    *value = (Bytes){items[1].data, items[1].size};
    return outcome(code);
}

static int step(WT_CURSOR *cursor, int is_reverse) {
    return is_reverse ? cursor->prev(cursor) : cursor->next(cursor);
}

static int scan(Session *session, Table *table, Bytes bound, int is_reverse, Bytes *key, Bytes *value) {
    WT_CURSOR *cursor;
    int opened = cursor_on(session, table, &cursor);
    if (opened != DONE) return opened;
    session->positioned = cursor;
    session->is_reverse = is_reverse;
    if (bound.size == 0) return is_reverse ? ABSENT : row(session, step(cursor, 0), key, value); /* no key is empty */
    int side;
    set_key(cursor, bound);
    int code = cursor->search_near(cursor, &side);
    if (code == WT_NOTFOUND) return ABSENT; /* an empty table */
    int is_beside = is_reverse ? side >= 0 : side < 0;
    if (code == 0 && is_beside) code = step(cursor, is_reverse);
    return row(session, code, key, value);
}

static int scan_next(Session *session, Bytes *key, Bytes *value) {
    return row(session, step(session->positioned, session->is_reverse), key, value);
}

static void scan_end(Session *session) {
    unposition(session);
}

/* A bulk cursor wants the table for itself, so the session's own cursors are closed. */
static int bulk_begin(Session *session, Table *table) {
    unposition(session);
    for (int at = 0; at < TABLES_MAX; at++) {
        if (session->cursors[at] != NULL) session->cursors[at]->close(session->cursors[at]);
        if (session->inserters[at] != NULL) session->inserters[at]->close(session->inserters[at]);
        session->cursors[at] = session->inserters[at] = NULL;
    }
    return outcome(
        session->session->open_cursor(session->session, table->uri, NULL, "bulk", &session->bulk));
}

static int bulk_row(Session *session, Bytes key, Bytes value) {
    set_key(session->bulk, key);
    session->bulk->set_value(session->bulk, &(WT_ITEM){.data = value.data, .size = value.size});
    return outcome(session->bulk->insert(session->bulk));
}

static int bulk_end(Session *session) {
    int code = session->bulk->close(session->bulk);
    if (code == 0 && !session->is_relaxed) code = session->session->checkpoint(session->session, NULL);
    return outcome(code);
}

const Engine peer_wiredtiger = {
    PEER_FUNCTIONS,
    PEER_TRANSACTIONS,
    .insert = insert,
    .isolation = SNAPSHOT,
    .counters = peer_no_counters,
};
