/*
 * LevelDB: a log-structured merge tree, without transactions.
 *
 * - sync: WriteOptions.sync. buffered, relaxed: its default, each write reaches the operating system.
 * - The cache is its block cache, of uncompressed blocks; the filter has ten bits a key, as its documentation advises.
 * - A table is a database of its own.
 */
#include "engine.h"

#include <leveldb/c.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BULK_ROWS = 10000 };

struct Table {
    leveldb_t *db;
    Table *next;
};

struct Store {
    leveldb_options_t *options;
    leveldb_cache_t *cache;
    leveldb_filterpolicy_t *filter;
    leveldb_readoptions_t *read;
    leveldb_writeoptions_t *write;
    Table *tables;
    char dir[PATH_MAX];
};

struct Session {
    Store *store;
    char *value;
    leveldb_iterator_t *iterator;
    int is_reverse;
    leveldb_writebatch_t *batch;
    Table *bulk_table;
    int batch_rows;
};

static int outcome(char *error) {
    if (error == NULL) return DONE;
    peer_failed("leveldb", error);
    leveldb_free(error);
    return FAILED;
}

static void version(char *text, size_t size) {
    snprintf(text, size, "%d.%d", leveldb_major_version(), leveldb_minor_version());
}

static int store_open(const Options *options, Store **out) {
    Store *store = peer_made("leveldb", sizeof *store);
    if (store == NULL) return FAILED;
    snprintf(store->dir, sizeof store->dir, "%s", options->dir);
    store->cache = leveldb_cache_create_lru(options->cache_bytes);
    store->filter = leveldb_filterpolicy_create_bloom(10);
    store->options = leveldb_options_create();
    leveldb_options_set_create_if_missing(store->options, 1);
    leveldb_options_set_cache(store->options, store->cache);
    leveldb_options_set_filter_policy(store->options, store->filter);
    store->read = leveldb_readoptions_create();
    store->write = leveldb_writeoptions_create();
    leveldb_writeoptions_set_sync(store->write, options->durability == SYNC);
    *out = store;
    return DONE;
}

static void store_close(Store *store) {
    while (store->tables != NULL) {
        Table *table = store->tables;
        store->tables = table->next;
        leveldb_close(table->db);
        free(table);
    }
    leveldb_writeoptions_destroy(store->write);
    leveldb_readoptions_destroy(store->read);
    leveldb_options_destroy(store->options);
    leveldb_filterpolicy_destroy(store->filter);
    leveldb_cache_destroy(store->cache);
    free(store);
}

/* LevelDB does not say when its compaction is idle; a full one leaves it nothing to do. */
static int store_settle(Store *store) {
    for (Table *table = store->tables; table != NULL; table = table->next)
        leveldb_compact_range(table->db, NULL, 0, NULL, 0);
    return DONE;
}

static int store_table(Store *store, const char *name, Table **out) {
    char path[PATH_MAX + 256];
    snprintf(path, sizeof path, "%s/%s", store->dir, name);
    Table *table = peer_made("leveldb", sizeof *table);
    if (table == NULL) return FAILED;
    char *error = NULL;
    table->db = leveldb_open(store->options, path, &error);
    if (error != NULL) {
        free(table);
        return outcome(error);
    }
    return PEER_ADD_TABLE(store, table, out);
}

static int begin_session(Store *store, Session **out) {
    Session *session = peer_made("leveldb", sizeof *session);
    if (session == NULL) return FAILED;
    session->store = store;
    *out = session;
    return DONE;
}

static void end_session(Session *session) {
    leveldb_free(session->value);
    free(session);
}

static int get(Session *session, Table *table, Bytes key, int is_for_update, Bytes *value) {
    (void)is_for_update;
    leveldb_free(session->value);
    char *error = NULL;
    session->value =
        leveldb_get(table->db, session->store->read, key.data, key.size, &value->size, &error);
    value->data = session->value;
    if (error != NULL) return outcome(error);
    return session->value == NULL ? ABSENT : DONE;
}

static int put(Session *session, Table *table, Bytes key, Bytes value) {
    char *error = NULL;
    leveldb_put(table->db, session->store->write, key.data, key.size, value.data, value.size, &error);
    return outcome(error);
}

/* LevelDB removes without looking; who must know whether there was a row looks first. */
static int remove_row(Session *session, Table *table, Bytes key) {
    Bytes value;
    int found = get(session, table, key, 1, &value);
    if (found != DONE) return found;
    char *error = NULL;
    leveldb_delete(table->db, session->store->write, key.data, key.size, &error);
    return outcome(error);
}

static int row(Session *session, Bytes *key, Bytes *value) {
    if (!leveldb_iter_valid(session->iterator)) {
        char *error = NULL;
        leveldb_iter_get_error(session->iterator, &error);
        return error == NULL ? ABSENT : outcome(error);
    }
    key->data = leveldb_iter_key(session->iterator, &key->size);
    value->data = leveldb_iter_value(session->iterator, &value->size);
    return DONE;
}

static int scan(Session *session, Table *table, Bytes bound, int is_reverse, Bytes *key, Bytes *value) {
    leveldb_iterator_t *iterator = leveldb_create_iterator(table->db, session->store->read);
    session->iterator = iterator;
    session->is_reverse = is_reverse;
    leveldb_iter_seek(iterator, bound.data, bound.size);
    if (is_reverse) {
        if (leveldb_iter_valid(iterator)) leveldb_iter_prev(iterator);
        else leveldb_iter_seek_to_last(iterator);
    }
    return row(session, key, value);
}

static int scan_next(Session *session, Bytes *key, Bytes *value) {
    if (session->is_reverse) leveldb_iter_prev(session->iterator);
    else leveldb_iter_next(session->iterator);
    return row(session, key, value);
}

static void scan_end(Session *session) {
    leveldb_iter_destroy(session->iterator);
}

static int bulk_begin(Session *session, Table *table) {
    session->batch = leveldb_writebatch_create();
    session->bulk_table = table;
    session->batch_rows = 0;
    return DONE;
}

static int write_batch(Session *session) {
    char *error = NULL;
    leveldb_write(session->bulk_table->db, session->store->write, session->batch, &error);
    leveldb_writebatch_clear(session->batch);
    session->batch_rows = 0;
    return outcome(error);
}

static int bulk_row(Session *session, Bytes key, Bytes value) {
    leveldb_writebatch_put(session->batch, key.data, key.size, value.data, value.size);
    return ++session->batch_rows < BULK_ROWS ? DONE : write_batch(session);
}

static int bulk_end(Session *session) {
    int written = write_batch(session);
    leveldb_writebatch_destroy(session->batch);
    return written;
}

const Engine peer_leveldb = {
    PEER_FUNCTIONS,
    .isolation = NO_TRANSACTIONS,
    .counters = peer_no_counters,
};
