// Every function of the interface, as C and as C++. Run with an empty directory; prints "all is well" or what is not.

#include <foreshore.h>
#include <foreshore.h> // Once more does no harm.
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int line_of_failure(int line, const char *what) {
  fprintf(stderr, "api.c:%d: %s\n  last message: %s\n", line, what, fs_errmsg());
  exit(1);
}

#define EXPECT(condition) ((condition) ? 0 : line_of_failure(__LINE__, #condition))

static int holds(const fs_buf *buf, const char *text) {
  return buf->len == strlen(text) && memcmp(buf->data, text, buf->len) == 0;
}

static int is(fs_bytes bytes, const char *text) {
  return bytes.len == strlen(text) && memcmp(bytes.data, text, bytes.len) == 0;
}

static void put(const fs_table *table, const char *key, const char *value) {
  EXPECT(fs_put(table, FS_STR(key), FS_STR(value)) == FS_OK);
}

static void single_rows(const fs_table *table) {
  fs_buf value = FS_BUF_INIT;
  const char *names[] = {"a", "longer"}, **name = names;
  EXPECT(is(FS_STR(*name++), "a") && name == names + 1); // What is given is looked at once.
  EXPECT(fs_get(table, FS_STR("k"), &value) == FS_ABSENT && value.len == 0);
  put(table, "k", "first");
  EXPECT(fs_get(table, FS_STR("k"), &value) == FS_OK && holds(&value, "first"));
  EXPECT(fs_insert(table, FS_STR("k"), FS_STR("second")) == FS_EXISTS);
  EXPECT(fs_insert(table, FS_STR("new"), FS_BYTES(NULL, 0)) == FS_OK);
  EXPECT(fs_get(table, FS_STR("new"), &value) == FS_OK && value.len == 0);
  EXPECT(fs_contains(table, FS_STR("k")) == FS_OK);
  EXPECT(fs_remove(table, FS_STR("k")) == FS_OK);
  EXPECT(fs_remove(table, FS_STR("k")) == FS_ABSENT);
  EXPECT(fs_contains(table, FS_STR("k")) == FS_ABSENT);
  EXPECT(fs_remove(table, FS_STR("new")) == FS_OK);
  EXPECT(fs_get_for_update(table, FS_STR("k"), &value) == FS_ARGUMENT);
  fs_buf_free(&value);
}

static void large_values(const fs_table *table) {
  size_t len = (size_t)1 << 20;
  unsigned char *bytes = (unsigned char *)malloc(len);
  EXPECT(bytes != NULL);
  for (size_t i = 0; i < len; i++) bytes[i] = (unsigned char)(i * i >> 7);
  fs_buf value = FS_BUF_INIT;
  fs_cursor *rows = NULL;
  fs_bytes row;
  EXPECT(fs_put(table, FS_STR("large"), FS_BYTES(bytes, len)) == FS_OK);
  EXPECT(fs_get(table, FS_STR("large"), &value) == FS_OK && value.len == len && memcmp(value.data, bytes, len) == 0);
  EXPECT(fs_prefix(table, FS_STR("large"), &rows) == FS_OK);
  EXPECT(fs_next(rows, NULL, &row) == FS_OK && row.len == len && memcmp(row.data, bytes, len) == 0);
  fs_cursor_free(rows);
  EXPECT(fs_prefix(table, FS_STR("large"), &rows) == FS_OK);
  EXPECT(fs_next_back(rows, &row, NULL) == FS_OK && is(row, "large"));
  fs_cursor_free(rows);
  EXPECT(fs_remove(table, FS_STR("large")) == FS_OK && fs_contains(table, FS_STR("large")) == FS_ABSENT);
  fs_buf_free(&value);
  free(bytes);
}

/* A value that is the next row's key, read into the buffer that holds it. */
static void chains(const fs_table *table) {
  static const char large[5000] = {0};
  fs_buf value = FS_BUF_INIT;
  put(table, "first", "second");
  put(table, "second", "third");
  EXPECT(fs_put(table, FS_STR("third"), FS_BYTES(large, sizeof large)) == FS_OK);
  EXPECT(fs_get(table, FS_STR("first"), &value) == FS_OK);
  EXPECT(fs_get(table, FS_BYTES(value.data, value.len), &value) == FS_OK && holds(&value, "third"));
  EXPECT(fs_get(table, FS_BYTES(value.data, value.len), &value) == FS_OK && value.len == sizeof large);
  EXPECT(fs_remove(table, FS_STR("first")) == FS_OK && fs_remove(table, FS_STR("second")) == FS_OK);
  EXPECT(fs_remove(table, FS_STR("third")) == FS_OK);
  fs_buf_free(&value);
}

static void many_rows(const fs_table *table) {
  put(table, "a", "1");
  put(table, "b", "2");
  put(table, "c", "3");
  fs_bytes keys[3];
  keys[0] = FS_STR("c");
  keys[1] = FS_STR("x");
  keys[2] = FS_STR("a");
  fs_buf values[3] = {FS_BUF_INIT, FS_BUF_INIT, FS_BUF_INIT};
  bool found[3];
  EXPECT(fs_multi_get(table, keys, 3, values, found) == FS_OK);
  EXPECT(found[0] && !found[1] && found[2] && holds(&values[0], "3") && holds(&values[2], "1"));
  EXPECT(fs_multi_get(table, NULL, 0, NULL, NULL) == FS_OK);
  for (int i = 0; i < 3; i++) fs_buf_free(&values[i]);
}

static void put_many(const fs_table *table) {
  fs_bytes keys[3], values[3];
  keys[0] = FS_STR("m1");
  keys[1] = FS_STR("m2");
  keys[2] = FS_STR("m3");
  values[0] = FS_STR("1");
  values[1] = FS_STR("");
  values[2] = FS_STR("3");
  EXPECT(fs_put_many(table, keys, values, 3) == FS_OK);
  EXPECT(fs_put_many(table, NULL, NULL, 0) == FS_OK);
  EXPECT(fs_put_many(table, keys, NULL, 3) == FS_ARGUMENT);
}

/* Each row by itself. */
static void rows_outside_transactions(const fs_db *db) {
  fs_table *table = NULL;
  fs_buf value = FS_BUF_INIT;
  EXPECT(fs_open_table(db, "many", NULL, &table) == FS_OK);
  put_many(table);
  EXPECT(fs_get(table, FS_STR("m2"), &value) == FS_OK && holds(&value, ""));
  fs_buf_free(&value);
  fs_table_free(table);
  EXPECT(fs_drop_table(db, "many") == FS_OK);
}

/* Its rows rise, also from one load to the next. */
static void loads(const fs_db *db, const fs_table *inside) {
  fs_table *table = NULL;
  fs_buf value = FS_BUF_INIT;
  fs_bytes keys[2], values[2];
  keys[0] = FS_STR("a");
  keys[1] = FS_STR("b");
  values[0] = FS_STR("1");
  values[1] = FS_STR("2");
  EXPECT(fs_open_table(db, "loaded", NULL, &table) == FS_OK);
  EXPECT(fs_bulk_load(table, keys, values, 2) == FS_OK);
  EXPECT(fs_get(table, FS_STR("b"), &value) == FS_OK && holds(&value, "2"));
  EXPECT(fs_bulk_load(table, keys, values, 2) == FS_BULK_LOAD && strstr(fs_errmsg(), "ascending"));
  keys[0] = FS_STR("d");
  keys[1] = FS_STR("c");
  EXPECT(fs_bulk_load(table, keys, values, 2) == FS_BULK_LOAD);
  EXPECT(fs_get(table, FS_STR("d"), &value) == FS_OK); // What came before is there.
  EXPECT(fs_bulk_load(table, NULL, NULL, 0) == FS_OK && fs_bulk_load(table, keys, NULL, 2) == FS_ARGUMENT);
  EXPECT(fs_bulk_load(inside, keys, values, 2) == FS_ARGUMENT);
  fs_buf_free(&value);
  fs_table_free(table);
  EXPECT(fs_drop_table(db, "loaded") == FS_OK);
}

static void cursors(const fs_table *table) {
  fs_cursor *rows = NULL;
  fs_bytes key, value;
  EXPECT(fs_range(table, NULL, NULL, &rows) == FS_OK);
  EXPECT(fs_next(rows, &key, &value) == FS_OK && is(key, "a") && is(value, "1"));
  EXPECT(fs_next_back(rows, &key, NULL) == FS_OK && is(key, "c"));
  EXPECT(fs_next(rows, NULL, &value) == FS_OK && is(value, "2"));
  EXPECT(fs_next(rows, &key, &value) == FS_ABSENT);
  EXPECT(fs_next_back(rows, &key, &value) == FS_ABSENT);
  fs_cursor_free(rows);

  fs_limit from = {FS_STR("a"), false}, to = {FS_STR("c"), true};
  EXPECT(fs_range(table, &from, &to, &rows) == FS_OK);
  EXPECT(fs_next(rows, &key, &value) == FS_OK && is(key, "b"));
  EXPECT(fs_next(rows, &key, &value) == FS_OK && is(key, "c"));
  EXPECT(fs_next(rows, &key, &value) == FS_ABSENT);
  fs_cursor_free(rows);

  EXPECT(fs_prefix(table, FS_STR("b"), &rows) == FS_OK);
  EXPECT(fs_next(rows, &key, &value) == FS_OK && is(key, "b"));
  EXPECT(fs_next(rows, &key, &value) == FS_ABSENT);
  fs_cursor_free(rows);
}

static void transactions(const fs_db *db, const fs_table *table) {
  fs_tx *tx = NULL;
  fs_table *inside = NULL;
  fs_buf value = FS_BUF_INIT;
  uint64_t place = 0;
  EXPECT(fs_begin(db, NULL, &tx) == FS_OK && fs_tx_number(tx) != 0);
  EXPECT(fs_tx_table(tx, table, &inside) == FS_OK);
  EXPECT(fs_get_for_update(inside, FS_STR("a"), &value) == FS_OK && holds(&value, "1"));
  put(inside, "a", "one");
  EXPECT(fs_savepoint(tx, &place) == FS_OK);
  put(inside, "b", "two");
  EXPECT(fs_rollback_to(tx, place) == FS_OK);
  EXPECT(fs_rollback_to(tx, place + 1) == FS_ARGUMENT);
  put_many(inside);
  loads(db, inside);
  EXPECT(fs_get(inside, FS_STR("m3"), &value) == FS_OK && holds(&value, "3"));
  EXPECT(fs_get(table, FS_STR("m3"), &value) == FS_ABSENT);
  EXPECT(fs_rollback_to(tx, place) == FS_OK);
  EXPECT(fs_get(inside, FS_STR("m3"), &value) == FS_ABSENT);
  EXPECT(fs_get(table, FS_STR("a"), &value) == FS_OK && holds(&value, "1"));
  EXPECT(fs_commit(tx) == FS_OK && fs_commit(tx) == FS_ENDED);
  EXPECT(fs_put(inside, FS_STR("a"), FS_STR("late")) == FS_ENDED);
  EXPECT(fs_get(table, FS_STR("a"), &value) == FS_OK && holds(&value, "one"));
  EXPECT(fs_get(table, FS_STR("b"), &value) == FS_OK && holds(&value, "2"));
  fs_tx_free(tx);
  fs_table_free(inside);

  // Freed while it runs, with a table of it that is freed later: rolled back at once.
  EXPECT(fs_begin(db, NULL, &tx) == FS_OK && fs_tx_table(tx, table, &inside) == FS_OK);
  put(inside, "a", "lost");
  fs_tx_free(tx);
  EXPECT(fs_put(table, FS_STR("a"), FS_STR("1")) == FS_OK);
  EXPECT(fs_get(inside, FS_STR("a"), &value) == FS_ENDED);
  fs_table_free(inside);

  EXPECT(fs_begin(db, NULL, &tx) == FS_OK);
  EXPECT(fs_abort(db, fs_tx_number(tx)) == FS_OK && fs_abort(db, fs_tx_number(tx)) == FS_ABSENT);
  int status = fs_commit(tx);
  EXPECT(status == FS_ABORTED && fs_is_retryable(status));
  fs_tx_free(tx);

  // What is freed says nothing, not even that it was rolled back already.
  EXPECT(fs_begin(db, NULL, &tx) == FS_OK && fs_abort(db, fs_tx_number(tx)) == FS_OK);
  EXPECT(fs_put(table, FS_BYTES(NULL, 1), FS_STR("")) == FS_ARGUMENT);
  const char *message = fs_errmsg();
  fs_tx_free(tx);
  EXPECT(fs_errmsg() == message && strcmp(message, "an fs_bytes is NULL, but its len is 1") == 0);

  EXPECT(fs_begin(db, NULL, &tx) == FS_OK && fs_rollback(tx) == FS_OK);
  fs_tx_free(tx);
  fs_buf_free(&value);
}

static void lock_timeouts(const fs_db *db, const fs_table *table) {
  fs_options *options = NULL;
  fs_tx *tx = NULL, *other = NULL;
  fs_table *mine = NULL, *theirs = NULL;
  EXPECT(fs_options_new(&options) == FS_OK && fs_options_set(options, "lock_timeout_ms", "20") == FS_OK);
  EXPECT(fs_begin(db, NULL, &tx) == FS_OK && fs_tx_table(tx, table, &mine) == FS_OK);
  EXPECT(fs_begin(db, options, &other) == FS_OK && fs_tx_table(other, table, &theirs) == FS_OK);
  put(mine, "a", "locked");
  int status = fs_put(theirs, FS_STR("a"), FS_STR("x"));
  EXPECT(status == FS_LOCK_TIMEOUT && fs_is_retryable(status) && strstr(fs_errmsg(), "waited"));
  fs_table_free(mine);
  fs_table_free(theirs);
  fs_tx_free(tx);
  fs_tx_free(other);
  fs_options_free(options);
}

static void ranges_removed(const fs_db *db, const fs_table *table) {
  fs_tx *tx = NULL;
  fs_table *inside = NULL;
  uint64_t removed = 0;
  EXPECT(fs_begin(db, NULL, &tx) == FS_OK && fs_tx_table(tx, table, &inside) == FS_OK);
  put(inside, "r1", "1");
  put(inside, "r2", "2");
  put(inside, "r3", "3");
  fs_limit from = {FS_STR("r1"), false}, to = {FS_STR("r2"), true};
  EXPECT(fs_remove_range(inside, &from, &to, &removed) == FS_OK && removed == 1);
  EXPECT(fs_contains(inside, FS_STR("r2")) == FS_ABSENT && fs_contains(inside, FS_STR("r1")) == FS_OK);
  EXPECT(fs_commit(tx) == FS_OK);
  fs_table_free(inside);
  fs_tx_free(tx);
  EXPECT(fs_remove_prefix(table, FS_STR("r"), &removed) == FS_OK && removed == 2);
  from.key = FS_STR("r");
  to.key = FS_STR("s");
  EXPECT(fs_remove_range(table, &from, &to, NULL) == FS_OK);
  EXPECT(fs_remove_range(NULL, &from, &to, NULL) == FS_ARGUMENT);
}

static void rows_popped(const fs_db *db, const fs_table *table) {
  fs_buf key = FS_BUF_INIT, value = FS_BUF_INIT;
  fs_tx *tx = NULL;
  fs_table *inside = NULL;
  put(table, "mail/1", "to ada");
  put(table, "mail/2", "to ben");
  put(table, "mail/3", "to cleo");
  put(table, "print/1", "a page");

  fs_limit from = {FS_STR("mail/1"), false}, to = {FS_STR("mail/3"), false};
  EXPECT(fs_pop_first(table, &from, &to, &key, &value) == FS_OK && holds(&key, "mail/2") && holds(&value, "to ben"));
  from.key = FS_BYTES(key.data, key.len); // from there on
  EXPECT(fs_pop_first(table, &from, &to, &key, &value) == FS_ABSENT && key.len == 0 && value.len == 0);
  EXPECT(fs_pop_first_prefix(table, FS_STR("print/"), NULL, &value) == FS_OK && holds(&value, "a page"));
  EXPECT(fs_pop_first_prefix(table, FS_STR("print/"), &key, &value) == FS_ABSENT);

  EXPECT(fs_begin(db, NULL, &tx) == FS_OK);
  EXPECT(fs_tx_table(tx, table, &inside) == FS_OK);
  EXPECT(fs_pop_last_prefix(inside, FS_STR("mail/"), &key, NULL) == FS_OK && holds(&key, "mail/3"));
  EXPECT(fs_pop_last(inside, &to, NULL, NULL, NULL) == FS_ABSENT);
  EXPECT(fs_rollback(tx) == FS_OK);
  fs_table_free(inside);
  fs_tx_free(tx);

  to.key = FS_STR("m");
  EXPECT(fs_pop_last(table, &to, NULL, &key, NULL) == FS_OK && holds(&key, "mail/3"));
  EXPECT(fs_pop_last_prefix(table, FS_STR("mail/"), NULL, NULL) == FS_OK);
  EXPECT(fs_contains(table, FS_STR("mail/1")) == FS_ABSENT);
  EXPECT(fs_pop_first(NULL, NULL, NULL, &key, &value) == FS_ARGUMENT);
  fs_buf_free(&key);
  fs_buf_free(&value);
}

struct work {
  const fs_db *db;
  const fs_table *table;
  int runs, answer;
  bool rolls_back;
};

static int work(const fs_tx *tx, void *context) {
  struct work *work = (struct work *)context;
  fs_table *inside = NULL;
  EXPECT(fs_tx_table(tx, work->table, &inside) == FS_OK);
  put(inside, "worked", "yes");
  EXPECT(work->runs < 10);
  if (++work->runs < 3)
    EXPECT(fs_abort(work->db, fs_tx_number(tx)) == FS_OK);
  int status = fs_put(inside, FS_STR("worked"), FS_STR("twice"));
  fs_table_free(inside);
  if (status < 0 && work->rolls_back) EXPECT(fs_rollback(tx) == status);
  return status == FS_OK ? work->answer : status;
}

static void transact(const fs_db *db, const fs_table *table) {
  struct work refused = {db, table, 0, 77, false}, done = {db, table, 0, FS_OK, true};
  EXPECT(fs_transact(db, NULL, work, &refused) == 77 && refused.runs == 3);
  EXPECT(fs_contains(table, FS_STR("worked")) == FS_ABSENT);
  EXPECT(fs_transact(db, NULL, work, &done) == FS_OK && done.runs == 3);
  EXPECT(fs_remove(table, FS_STR("worked")) == FS_OK);
  // What another transaction lost would be met each time.
  struct work others = {db, table, 2, FS_ABORTED, false};
  EXPECT(fs_transact(db, NULL, work, &others) == FS_ABORTED && others.runs == 3);
  EXPECT(fs_contains(table, FS_STR("worked")) == FS_ABSENT);
  EXPECT(fs_transact(db, NULL, NULL, NULL) == FS_ARGUMENT);
}

struct own_or_not {
  const fs_db *db;
  const fs_table *table, *of_another;
  fs_tx *holder;
  int runs;
};

static int notes(const fs_tx *tx, void *table) {
  fs_table *inside = NULL;
  EXPECT(fs_tx_table(tx, (const fs_table *)table, &inside) == FS_OK);
  int status = fs_put(inside, FS_STR("noted"), FS_STR(""));
  fs_table_free(inside);
  return status;
}

// Its call is refused, and it deals with that. Then it returns what a call of another transaction gave, having noted it in a third.
static int returns_anothers(const fs_tx *tx, void *context) {
  struct own_or_not *work = (struct own_or_not *)context;
  fs_table *inside = NULL;
  EXPECT(++work->runs == 1);
  EXPECT(fs_tx_table(tx, work->table, &inside) == FS_OK);
  EXPECT(fs_put(inside, FS_STR("held"), FS_STR("")) == FS_LOCK_TIMEOUT);
  fs_table_free(inside);
  int status = fs_put(work->of_another, FS_STR("a"), FS_STR(""));
  EXPECT(fs_transact(work->db, NULL, notes, (void *)work->table) == FS_OK);
  return status;
}

static void *status_of_put(void *table) {
  static int status;
  status = fs_put((const fs_table *)table, FS_STR("held"), FS_STR("ours"));
  return &status;
}

// Calls in another thread: this one has not seen whose status it returns.
static int calls_elsewhere(const fs_tx *tx, void *context) {
  struct own_or_not *work = (struct own_or_not *)context;
  fs_table *inside = NULL;
  pthread_t elsewhere;
  void *status = NULL;
  if (++work->runs == 3) EXPECT(fs_rollback(work->holder) == FS_OK);
  EXPECT(fs_tx_table(tx, work->table, &inside) == FS_OK);
  EXPECT(pthread_create(&elsewhere, NULL, status_of_put, inside) == 0 && pthread_join(elsewhere, &status) == 0);
  fs_table_free(inside);
  return *(int *)status;
}

static void transact_tells_whose_status_it_is(const fs_db *db, const fs_table *table) {
  fs_options *impatient = NULL;
  fs_tx *holder = NULL;
  fs_table *held = NULL;
  EXPECT(fs_options_new(&impatient) == FS_OK && fs_options_set(impatient, "lock_timeout_ms", "0") == FS_OK);
  EXPECT(fs_begin(db, NULL, &holder) == FS_OK && fs_tx_table(holder, table, &held) == FS_OK);
  put(held, "held", "");
  put(held, "a", "");
  struct own_or_not work = {db, table, NULL, holder, 0};
  for (int aborted = 1; aborted >= 0; aborted--) {
    fs_tx *other = NULL;
    fs_table *of_another = NULL;
    EXPECT(fs_begin(db, impatient, &other) == FS_OK && fs_tx_table(other, table, &of_another) == FS_OK);
    if (aborted) EXPECT(fs_abort(db, fs_tx_number(other)) == FS_OK);
    work.of_another = of_another;
    work.runs = 0;
    EXPECT(fs_transact(db, impatient, returns_anothers, &work) == (aborted ? FS_ABORTED : FS_LOCK_TIMEOUT));
    fs_table_free(of_another);
    fs_tx_free(other);
  }
  work.runs = 0;
  EXPECT(fs_transact(db, impatient, calls_elsewhere, &work) == FS_OK && work.runs == 3);
  EXPECT(fs_remove(table, FS_STR("held")) == FS_OK && fs_remove(table, FS_STR("noted")) == FS_OK);
  fs_table_free(held);
  fs_tx_free(holder);
  fs_options_free(impatient);
}

// A forked process lets go of a transaction, even of one that was in another thread's call, and the parent goes on with it.
static void a_child_frees(const fs_db *db, const fs_table *table) {
  fs_tx *holder = NULL, *tx = NULL;
  fs_table *held = NULL, *inside = NULL;
  pthread_t elsewhere;
  void *status = NULL;
  int ended = 0;
  EXPECT(fs_begin(db, NULL, &holder) == FS_OK && fs_tx_table(holder, table, &held) == FS_OK);
  EXPECT(fs_begin(db, NULL, &tx) == FS_OK && fs_tx_table(tx, table, &inside) == FS_OK);
  put(held, "held", "");
  put(inside, "forked", "");
  EXPECT(pthread_create(&elsewhere, NULL, status_of_put, inside) == 0);
  poll(NULL, 0, 50); // So it is in that call by now, as a rule.
  pid_t child = fork();
  if (child == 0) {
    alarm(30); // It waits for nobody.
    fs_table_free(held);
    fs_tx_free(tx);
    fs_tx_free(holder);
    _exit(0);
  }
  EXPECT(waitpid(child, &ended, 0) == child && ended == 0);
  EXPECT(fs_rollback(holder) == FS_OK && pthread_join(elsewhere, &status) == 0 && *(int *)status == FS_OK);
  EXPECT(fs_commit(tx) == FS_OK);
  EXPECT(fs_remove(table, FS_STR("held")) == FS_OK && fs_remove(table, FS_STR("forked")) == FS_OK);
  fs_table_free(held);
  fs_table_free(inside);
  fs_tx_free(holder);
  fs_tx_free(tx);
}

struct forker {
  const fs_table *table;
  fs_tx *holder;
  pid_t child;
};

static int forks_beside_a_call(const fs_tx *tx, void *context) {
  struct forker *work = (struct forker *)context;
  fs_table *inside = NULL;
  pthread_t elsewhere;
  void *status = NULL;
  EXPECT(fs_tx_table(tx, work->table, &inside) == FS_OK);
  EXPECT(pthread_create(&elsewhere, NULL, status_of_put, inside) == 0);
  poll(NULL, 0, 50); // So it is in that call by now, as a rule.
  work->child = fork();
  if (work->child == 0) {
    alarm(30); // It waits for nobody.
    return FS_OK;
  }
  EXPECT(fs_rollback(work->holder) == FS_OK && pthread_join(elsewhere, &status) == 0 && *(int *)status == FS_OK);
  fs_table_free(inside);
  return FS_OK;
}

// Work that has forked returns in both processes, even if another thread was in a call. It is the parent's transaction that commits.
static void transact_in_a_child(const fs_db *db, const fs_table *table) {
  fs_tx *holder = NULL;
  fs_table *held = NULL;
  int ended = 0;
  EXPECT(fs_begin(db, NULL, &holder) == FS_OK && fs_tx_table(holder, table, &held) == FS_OK);
  put(held, "held", "");
  struct forker work = {table, holder, 0};
  int status = fs_transact(db, NULL, forks_beside_a_call, &work);
  if (work.child == 0) _exit(status == FS_ARGUMENT && strstr(fs_errmsg(), "forked") ? 0 : 1);
  EXPECT(status == FS_OK && waitpid(work.child, &ended, 0) == work.child && ended == 0);
  EXPECT(fs_remove(table, FS_STR("held")) == FS_OK);
  fs_table_free(held);
  fs_tx_free(holder);
}

static void snapshots(const fs_db *db, const fs_table *table) {
  fs_snapshot *snapshot = NULL;
  fs_table *before = NULL;
  fs_buf value = FS_BUF_INIT;
  EXPECT(fs_snapshot_open(db, &snapshot) == FS_OK);
  EXPECT(fs_snapshot_table(snapshot, table, &before) == FS_OK);
  put(table, "a", "after");
  EXPECT(fs_get(before, FS_STR("a"), &value) == FS_OK && holds(&value, "1"));
  EXPECT(fs_put(before, FS_STR("a"), FS_STR("x")) == FS_ARGUMENT);
  EXPECT(fs_snapshot_wait_durable(snapshot) == FS_OK);
  fs_snapshot_free(snapshot);
  EXPECT(fs_get(before, FS_STR("a"), &value) == FS_OK && holds(&value, "1"));
  fs_table_free(before);
  put(table, "a", "1");
  fs_buf_free(&value);
}

static void prepared(const fs_db *db, const fs_table *table) {
  for (int commits = 0; commits < 2; commits++) {
    fs_tx *tx = NULL;
    fs_table *inside = NULL;
    fs_cursor *gids = NULL;
    fs_bytes gid;
    EXPECT(fs_begin(db, NULL, &tx) == FS_OK && fs_tx_table(tx, table, &inside) == FS_OK);
    put(inside, "prepared", "yes");
    EXPECT(fs_prepare(tx, FS_STR("gid")) == FS_OK);
    fs_table_free(inside);
    fs_tx_free(tx);
    // The second by this name is rolled back at once.
    EXPECT(fs_begin(db, NULL, &tx) == FS_OK && fs_tx_table(tx, table, &inside) == FS_OK);
    put(inside, "second", "yes");
    EXPECT(fs_prepare(tx, FS_STR("gid")) == FS_ARGUMENT && fs_rollback(tx) == FS_ENDED);
    EXPECT(fs_put(table, FS_STR("second"), FS_STR("")) == FS_OK && fs_remove(table, FS_STR("second")) == FS_OK);
    fs_table_free(inside);
    fs_tx_free(tx);
    // And so is one whose name is none.
    EXPECT(fs_begin(db, NULL, &tx) == FS_OK);
    EXPECT(fs_prepare(tx, FS_BYTES(NULL, 1)) == FS_ARGUMENT && fs_rollback(tx) == FS_ENDED);
    fs_tx_free(tx);
    EXPECT(fs_prepared(db, &gids) == FS_OK && fs_next(gids, &gid, NULL) == FS_OK && is(gid, "gid"));
    fs_cursor_free(gids);
    EXPECT((commits ? fs_commit_prepared : fs_rollback_prepared)(db, FS_STR("gid")) == FS_OK);
    EXPECT(fs_commit_prepared(db, FS_STR("gid")) == FS_UNKNOWN_TRANSACTION);
    EXPECT(fs_contains(table, FS_STR("prepared")) == (commits ? FS_OK : FS_ABSENT));
  }
  EXPECT(fs_remove(table, FS_STR("prepared")) == FS_OK);
}

static void upkeep(fs_db *db, const fs_table *table) {
  fs_buf json = FS_BUF_INIT;
  fs_cursor *names = NULL;
  fs_bytes name;
  EXPECT(fs_sync(db) == FS_OK && fs_checkpoint(db) == FS_OK);
  EXPECT(fs_stats(db, &json) == FS_OK && json.len > 2 && json.data[0] == '{');
  EXPECT(fs_check(db, &json) == FS_OK && json.len > 2 && json.data[json.len - 1] == '}');
  EXPECT(fs_tables(db, &names) == FS_OK && fs_next(names, &name, NULL) == FS_OK && is(name, "t"));
  EXPECT(fs_next(names, &name, NULL) == FS_ABSENT);
  fs_cursor_free(names);
  EXPECT(fs_rename_table(db, "t", "t") == FS_ARGUMENT && fs_rename_table(db, NULL, "u") == FS_ARGUMENT);
  EXPECT(fs_rename_table(db, "t", "u") == FS_OK && fs_rename_table(db, "t", "u") == FS_ABSENT);
  EXPECT(fs_put(table, FS_STR("a"), FS_STR("1")) == FS_OK);
  EXPECT(fs_drop_table(db, "u") == FS_OK && fs_drop_table(db, "u") == FS_ABSENT);
  EXPECT(fs_put(table, FS_STR("a"), FS_STR("1")) == FS_TABLE_DROPPED);
  fs_buf_free(&json);
}

static void backups(const fs_db *db, const fs_table *table, const char *path) {
  char copy[4096];
  fs_db *copied = NULL;
  fs_table *rows = NULL;
  fs_buf value = FS_BUF_INIT;
  EXPECT(snprintf(copy, sizeof copy, "%s-copy", path) < (int)sizeof copy);
  put(table, "copied", "yes");
  EXPECT(fs_backup(db, copy, &value) == FS_OK && value.len > 2 && value.data[0] == '{');
  EXPECT(fs_backup(db, copy, NULL) == FS_INCOMPATIBLE);
  EXPECT(fs_backup(db, NULL, NULL) == FS_ARGUMENT && fs_backup(NULL, copy, NULL) == FS_ARGUMENT);
  EXPECT(fs_backup(db, ":memory:", NULL) == FS_ARGUMENT && strstr(fs_errmsg(), "name a directory"));
  put(table, "copied", "changed since");
  EXPECT(fs_open(copy, NULL, &copied) == FS_OK && fs_open_table(copied, "t", NULL, &rows) == FS_OK);
  EXPECT(fs_get(rows, FS_STR("copied"), &value) == FS_OK && holds(&value, "yes"));
  fs_table_free(rows);
  EXPECT(fs_close(copied) == FS_OK && fs_remove(table, FS_STR("copied")) == FS_OK);
  fs_buf_free(&value);
}

static void kinds_of_tables(const fs_db *db) {
  fs_options *options = NULL;
  fs_table *table = NULL, *again = NULL;
  fs_buf value = FS_BUF_INIT;
  EXPECT(fs_open_table(db, "usual", NULL, &table) == FS_OK);
  EXPECT(strcmp(fs_table_index(table), "bplus") == 0 && fs_table_leaf_bytes(table) == 8192);
  fs_table_free(table);
  EXPECT(fs_options_new(&options) == FS_OK && fs_options_set(options, "index", "csb") == FS_OK);
  EXPECT(fs_options_set(options, "leaf_bytes", "16KiB") == FS_OK);
  EXPECT(fs_open_table(db, "wide", options, &table) == FS_OK);
  put(table, "k", "v");
  EXPECT(fs_get(table, FS_STR("k"), &value) == FS_OK && holds(&value, "v"));
  EXPECT(fs_options_set(options, "index", "o2") == FS_OK && fs_open_table(db, "wide", options, &again) == FS_OK);
  EXPECT(strcmp(fs_table_index(again), "csb") == 0 && fs_table_leaf_bytes(again) == 16384); // It stays what it is.
  EXPECT(fs_options_set(options, "leaf_bytes", "5000") == FS_OK);
  EXPECT(fs_open_table(db, "odd", options, &again) == FS_ARGUMENT && strstr(fs_errmsg(), "32768"));
  EXPECT(fs_options_set(options, "index", "trie") == FS_OK);
  EXPECT(fs_open_table(db, "odd", options, &again) == FS_ARGUMENT && strstr(fs_errmsg(), "bplus, csb or o2"));
  EXPECT(fs_table_index(NULL) == NULL && fs_table_leaf_bytes(NULL) == 0);
  EXPECT(fs_drop_table(db, "usual") == FS_OK && fs_drop_table(db, "wide") == FS_OK);
  fs_table_free(table);
  fs_table_free(again);
  fs_options_free(options);
  fs_buf_free(&value);
}

static void mistakes(const char *path) {
  fs_options *options = NULL;
  fs_db *db = NULL;
  fs_table *table = NULL;
  EXPECT(fs_open(NULL, NULL, &db) == FS_ARGUMENT && strcmp(fs_errmsg(), "the argument path is NULL") == 0);
  EXPECT(fs_open(path, NULL, NULL) == FS_ARGUMENT);
  EXPECT(fs_options_new(&options) == FS_OK && fs_options_set(options, "cach_bytes", "1") == FS_OK);
  EXPECT(fs_open(path, options, &db) == FS_ARGUMENT && strstr(fs_errmsg(), "cache_bytes"));
  EXPECT(fs_options_set(options, "\xff", "1") == FS_ENCODING && strstr(fs_errmsg(), "the argument name is not UTF-8"));
  fs_options_free(options);
  EXPECT(fs_open(":memory:", NULL, &db) == FS_OK && fs_open_table(db, "t", NULL, &table) == FS_OK && fs_close(db) == FS_OK);
  EXPECT(fs_put(table, FS_STR("k"), FS_STR("late")) == FS_POISONED && strstr(fs_errmsg(), "it was closed"));
  EXPECT(strstr(fs_errmsg(), "failure") == NULL);
  fs_table_free(table);
  EXPECT(fs_open_table(NULL, "t", NULL, &table) == FS_ARGUMENT && fs_put(NULL, FS_STR("k"), FS_STR("v")) == FS_ARGUMENT);
  EXPECT(fs_close(NULL) == FS_ARGUMENT && !fs_is_retryable(FS_ARGUMENT));
  EXPECT(fs_open(":memory:", NULL, &db) == FS_OK && fs_open_table(db, "t", NULL, &table) == FS_OK);
  EXPECT(fs_get(table, FS_STR("k"), NULL) == FS_ARGUMENT && fs_get(table, FS_BYTES(NULL, 1), NULL) == FS_ARGUMENT);
  char long_key[1025] = {0};
  EXPECT(fs_put(table, FS_BYTES(long_key, sizeof long_key), FS_STR("")) == FS_KEY_TOO_LONG);
  EXPECT(fs_contains(table, FS_BYTES(long_key, sizeof long_key)) == FS_ABSENT);
  EXPECT(fs_remove(table, FS_BYTES(long_key, sizeof long_key)) == FS_ABSENT);
  fs_db_free(db);
  EXPECT(fs_put(table, FS_STR("k"), FS_STR("kept open")) == FS_OK);
  fs_table_free(table);
  fs_options_free(NULL);
  fs_db_free(NULL);
  fs_table_free(NULL);
  fs_tx_free(NULL);
  fs_snapshot_free(NULL);
  fs_cursor_free(NULL);
  fs_buf_free(NULL);
}

int main(int argc, char **argv) {
  fs_db *db = NULL, *second = NULL;
  fs_table *table = NULL;
  if (argc < 2) return 2;
  EXPECT(strlen(fs_version()) > 0);
  mistakes(argv[1]);
  EXPECT(fs_open(argv[1], NULL, &db) == FS_OK);
  EXPECT(fs_open(argv[1], NULL, &second) == FS_LOCKED);
  EXPECT(fs_open_table(db, "t", NULL, &table) == FS_OK);
  kinds_of_tables(db);
  single_rows(table);
  large_values(table);
  chains(table);
  many_rows(table);
  cursors(table);
  rows_outside_transactions(db);
  transactions(db, table);
  lock_timeouts(db, table);
  ranges_removed(db, table);
  rows_popped(db, table);
  transact(db, table);
  transact_tells_whose_status_it_is(db, table);
  a_child_frees(db, table);
  transact_in_a_child(db, table);
  snapshots(db, table);
  prepared(db, table);
  backups(db, table, argv[1]);
  upkeep(db, table);
  fs_table_free(table);
  EXPECT(fs_close(db) == FS_OK);
  EXPECT(fs_open(argv[1], NULL, &db) == FS_OK && fs_close(db) == FS_OK);
  puts("all is well");
  return 0;
}
