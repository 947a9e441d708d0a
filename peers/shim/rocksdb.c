/*
 * RocksDB: a log-structured merge tree, with optimistic transactions.
 *
 * - sync: WriteOptions.sync. buffered: its default, each write reaches the operating system. relaxed: manual_wal_flush, the
 *   log waits in the process's buffer.
 * - Transactions read a snapshot; what they wrote, or read for update, is validated against it at commit: snapshot isolation.
 *   RocksDB has nothing that would make scans serializable. A transaction that cannot be validated any more ("try again") is
 *   run again, as one that lost.
 * - The cache is the block cache; filters have ten bits a key, but none where the oldest rows lie if all that is looked for is there
 *   (optimize_filters_for_hits); background jobs, one per processor.
 * - Large values lie in its tables, its default; its blob files, which an option turns on, are not used.
 * - A table is a column family. A bulk load is an ingested file.
 */
#include "engine.h"

#include <limits.h>
#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct Table {
    rocksdb_column_family_handle_t *family;
    Table *next;
    char name[64];
};

struct Store {
    rocksdb_optimistictransactiondb_t *transactions;
    rocksdb_t *db;
    rocksdb_options_t *options;
    rocksdb_writeoptions_t *write;
    rocksdb_readoptions_t *read;
    rocksdb_optimistictransaction_options_t *with_snapshot;
    rocksdb_ingestexternalfileoptions_t *ingest;
    Table *tables;
    char dir[PATH_MAX];
};

struct Session {
    Store *store;
    rocksdb_pinnableslice_t *value;
    rocksdb_iterator_t *iterator;
    int is_reverse;
    rocksdb_transaction_t *transaction;  /* of the running read-write transaction */
    const rocksdb_snapshot_t *snapshot;  /* of the running transaction of either kind */
    rocksdb_readoptions_t *at_snapshot;  /* reads there */
    rocksdb_transaction_t *spare;        /* reused, as RocksDB advises */
    rocksdb_sstfilewriter_t *bulk;
    Table *bulk_table;
    uint64_t bulk_rows;
    char bulk_path[PATH_MAX + 80];
};

static int outcome(char *error) {
    if (error == NULL) return DONE;
    int is_conflict = strncmp(error, "Resource busy", 13) == 0 || strstr(error, "Try again") != NULL;
    if (!is_conflict) peer_failed("rocksdb", error);
    rocksdb_free(error);
    return is_conflict ? CONFLICT : FAILED;
}

static rocksdb_options_t *options_of(const Options *asked) {
    rocksdb_options_t *options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_options_increase_parallelism(options, (int)sysconf(_SC_NPROCESSORS_ONLN));
    rocksdb_options_set_manual_wal_flush(options, asked->durability == RELAXED);
    rocksdb_block_based_table_options_t *blocks = rocksdb_block_based_options_create();
    rocksdb_cache_t *cache = rocksdb_cache_create_lru(asked->cache_bytes);
    rocksdb_block_based_options_set_block_cache(blocks, cache);
    rocksdb_block_based_options_set_filter_policy(blocks, rocksdb_filterpolicy_create_bloom_full(10));
    rocksdb_options_set_block_based_table_factory(options, blocks);
    rocksdb_options_set_optimize_filters_for_hits(options, asked->finds_all);
    rocksdb_block_based_options_destroy(blocks);
    rocksdb_cache_destroy(cache);
    return options;
}

/* The C interface does not tell; the build reads it from the C++ header. */
static void version(char *text, size_t size) {
    snprintf(text, size, "%s", ROCKSDB_VERSION);
}

static int store_open(const Options *asked, Store **out) {
    Store *store = peer_made("rocksdb", sizeof *store);
    if (store == NULL) return FAILED;
    snprintf(store->dir, sizeof store->dir, "%s", asked->dir);
    store->options = options_of(asked);
    char *error = NULL;
    store->transactions = rocksdb_optimistictransactiondb_open(store->options, store->dir, &error);
    if (error != NULL) {
        rocksdb_options_destroy(store->options);
        free(store);
        return outcome(error);
    }
    store->db = rocksdb_optimistictransactiondb_get_base_db(store->transactions);
    store->write = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(store->write, asked->durability == SYNC);
    store->read = rocksdb_readoptions_create();
    store->with_snapshot = rocksdb_optimistictransaction_options_create();
    rocksdb_optimistictransaction_options_set_set_snapshot(store->with_snapshot, 1);
    store->ingest = rocksdb_ingestexternalfileoptions_create();
    rocksdb_ingestexternalfileoptions_set_move_files(store->ingest, 1);
    *out = store;
    return DONE;
}

static void store_close(Store *store) {
    while (store->tables != NULL) {
        Table *table = store->tables;
        store->tables = table->next;
        rocksdb_column_family_handle_destroy(table->family);
        free(table);
    }
    rocksdb_ingestexternalfileoptions_destroy(store->ingest);
    rocksdb_optimistictransaction_options_destroy(store->with_snapshot);
    rocksdb_readoptions_destroy(store->read);
    rocksdb_writeoptions_destroy(store->write);
    rocksdb_optimistictransactiondb_close_base_db(store->db);
    rocksdb_optimistictransactiondb_close(store->transactions);
    rocksdb_options_destroy(store->options);
    free(store);
}

static uint64_t property(Store *store, Table *table, const char *name) {
    uint64_t value = 0;
    rocksdb_property_int_cf(store->db, table->family, name, &value);
    return value;
}

/* Flushes, and waits until nothing is flushed or compacted, nor should be. */
static int store_settle(Store *store) {
    rocksdb_flushoptions_t *flush = rocksdb_flushoptions_create();
    rocksdb_flushoptions_set_wait(flush, 1);
    char *error = NULL;
    for (Table *table = store->tables; table != NULL && error == NULL; table = table->next) {
        rocksdb_flush_cf(store->db, flush, table->family, &error);
        while (error == NULL && (property(store, table, "rocksdb.compaction-pending") > 0 ||
                                 property(store, table, "rocksdb.num-running-compactions") > 0 ||
                                 property(store, table, "rocksdb.num-running-flushes") > 0))
            usleep(5000);
    }
    rocksdb_flushoptions_destroy(flush);
    return outcome(error);
}

static int store_table(Store *store, const char *name, Table **out) {
    Table *table = peer_made("rocksdb", sizeof *table);
    if (table == NULL) return FAILED;
    snprintf(table->name, sizeof table->name, "%s", name);
    for (Table *other = store->tables; other != NULL; other = other->next) {
        if (strcmp(other->name, table->name) != 0) continue;
        free(table);
        *out = other;
        return DONE;
    }
    char *error = NULL;
    table->family = rocksdb_create_column_family(store->db, store->options, name, &error);
    if (error != NULL) {
        free(table);
        return outcome(error);
    }
    return PEER_ADD_TABLE(store, table, out);
}

static int begin_session(Store *store, Session **out) {
    Session *session = peer_made("rocksdb", sizeof *session);
    if (session == NULL) return FAILED;
    session->store = store;
    session->at_snapshot = rocksdb_readoptions_create();
    *out = session;
    return DONE;
}

static void drop_value(Session *session) {
    if (session->value != NULL) rocksdb_pinnableslice_destroy(session->value);
    session->value = NULL;
}

static void end_session(Session *session) {
    drop_value(session);
    if (session->spare != NULL) rocksdb_transaction_destroy(session->spare);
    rocksdb_readoptions_destroy(session->at_snapshot);
    free(session);
}

static int begin(Session *session, int is_read_only) {
    Store *store = session->store;
    if (is_read_only) {
        session->snapshot = rocksdb_create_snapshot(store->db);
    } else {
        session->transaction = rocksdb_optimistictransaction_begin(store->transactions, store->write,
                                                                   store->with_snapshot, session->spare);
        session->spare = NULL;
        session->snapshot = rocksdb_transaction_get_snapshot(session->transaction);
    }
    rocksdb_readoptions_set_snapshot(session->at_snapshot, session->snapshot);
    return DONE;
}

/* A transaction owns its snapshot, and the C interface only the box around it. */
static void finish(Session *session) {
    drop_value(session);
    if (session->transaction == NULL) rocksdb_release_snapshot(session->store->db, session->snapshot);
    else rocksdb_free((void *)session->snapshot);
    session->snapshot = NULL;
    session->spare = session->transaction != NULL ? session->transaction : session->spare;
    session->transaction = NULL;
}

static void rollback(Session *session) {
    char *error = NULL;
    if (session->transaction != NULL) rocksdb_transaction_rollback(session->transaction, &error);
    rocksdb_free(error);
    finish(session);
}

static int commit(Session *session) {
    char *error = NULL;
    drop_value(session);
    if (session->transaction != NULL) rocksdb_transaction_commit(session->transaction, &error);
    int committed = outcome(error);
    if (committed == DONE) finish(session);
    else rollback(session);
    return committed;
}

static int get(Session *session, Table *table, Bytes key, int is_for_update, Bytes *value) {
    char *error = NULL;
    drop_value(session);
    if (session->transaction != NULL && is_for_update)
        session->value = rocksdb_transaction_get_pinned_for_update_cf(
            session->transaction, session->at_snapshot, table->family, key.data, key.size, 1, &error);
    else if (session->transaction != NULL)
        session->value = rocksdb_transaction_get_pinned_cf(session->transaction, session->at_snapshot,
                                                           table->family, key.data, key.size, &error);
    else
        session->value = rocksdb_get_pinned_cf(
            session->store->db, session->snapshot != NULL ? session->at_snapshot : session->store->read,
            table->family, key.data, key.size, &error);
    if (error != NULL) return outcome(error);
    if (session->value == NULL) return ABSENT;
    value->data = rocksdb_pinnableslice_value(session->value, &value->size);
    return DONE;
}

static int put(Session *session, Table *table, Bytes key, Bytes value) {
    char *error = NULL;
    if (session->transaction != NULL)
        rocksdb_transaction_put_cf(session->transaction, table->family, key.data, key.size, value.data,
                                   value.size, &error);
    else
        rocksdb_put_cf(session->store->db, session->store->write, table->family, key.data, key.size,
                       value.data, value.size, &error);
    return outcome(error);
}

/* RocksDB removes without looking; who must know whether there was a row looks first. */
static int remove_row(Session *session, Table *table, Bytes key) {
    Bytes value;
    int found = get(session, table, key, 1, &value);
    if (found != DONE) return found;
    char *error = NULL;
    if (session->transaction != NULL)
        rocksdb_transaction_delete_cf(session->transaction, table->family, key.data, key.size, &error);
    else
        rocksdb_delete_cf(session->store->db, session->store->write, table->family, key.data, key.size,
                          &error);
    return outcome(error);
}

static int row(Session *session, Bytes *key, Bytes *value) {
    if (!rocksdb_iter_valid(session->iterator)) {
        char *error = NULL;
        rocksdb_iter_get_error(session->iterator, &error);
        return error == NULL ? ABSENT : outcome(error);
    }
    key->data = rocksdb_iter_key(session->iterator, &key->size);
    value->data = rocksdb_iter_value(session->iterator, &value->size);
    return DONE;
}

static int scan(Session *session, Table *table, Bytes bound, int is_reverse, Bytes *key, Bytes *value) {
    session->is_reverse = is_reverse;
    if (session->transaction != NULL)
        session->iterator = rocksdb_transaction_create_iterator_cf(session->transaction,
                                                                   session->at_snapshot, table->family);
    else
        session->iterator = rocksdb_create_iterator_cf(
            session->store->db, session->snapshot != NULL ? session->at_snapshot : session->store->read,
            table->family);
    rocksdb_iter_seek(session->iterator, bound.data, bound.size);
    if (is_reverse) {
        if (rocksdb_iter_valid(session->iterator)) rocksdb_iter_prev(session->iterator);
        else rocksdb_iter_seek_to_last(session->iterator);
    }
    return row(session, key, value);
}

static int scan_next(Session *session, Bytes *key, Bytes *value) {
    if (session->is_reverse) rocksdb_iter_prev(session->iterator);
    else rocksdb_iter_next(session->iterator);
    return row(session, key, value);
}

static void scan_end(Session *session) {
    rocksdb_iter_destroy(session->iterator);
}

static int bulk_begin(Session *session, Table *table) {
    rocksdb_envoptions_t *environment = rocksdb_envoptions_create();
    session->bulk = rocksdb_sstfilewriter_create(environment, session->store->options);
    rocksdb_envoptions_destroy(environment);
    session->bulk_table = table;
    session->bulk_rows = 0;
    snprintf(session->bulk_path, sizeof session->bulk_path, "%s/bulk-%s", session->store->dir, table->name);
    char *error = NULL;
    rocksdb_sstfilewriter_open(session->bulk, session->bulk_path, &error);
    return outcome(error);
}

static int bulk_row(Session *session, Bytes key, Bytes value) {
    char *error = NULL;
    rocksdb_sstfilewriter_put(session->bulk, key.data, key.size, value.data, value.size, &error);
    session->bulk_rows++;
    return outcome(error);
}

/* A file without rows cannot be ingested. */
static int bulk_end(Session *session) {
    char *error = NULL;
    if (session->bulk_rows > 0) {
        const char *const files[] = {session->bulk_path};
        rocksdb_sstfilewriter_finish(session->bulk, &error);
        if (error == NULL)
            rocksdb_ingest_external_file_cf(session->store->db, session->bulk_table->family, files, 1,
                                            session->store->ingest, &error);
    }
    rocksdb_sstfilewriter_destroy(session->bulk);
    return outcome(error);
}

const Engine peer_rocksdb = {
    PEER_FUNCTIONS,
    PEER_TRANSACTIONS,
    .isolation = SNAPSHOT,
    .counters = peer_no_counters,
};
