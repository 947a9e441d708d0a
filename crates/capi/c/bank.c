// Two threads move money between two accounts, each move a transaction. Prints the balances.
//
//   cc bank.c $(pkg-config --cflags --libs foreshore) -pthread -o bank && ./bank bank.db

#include <foreshore.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define MOVES 100

// Ends the program with Foreshore's message if something failed.
static void check(int status) {
  if (status < 0) {
    fprintf(stderr, "%s\n", fs_errmsg());
    exit(1);
  }
}

static int read_balance(fs_table *accounts, const char *name, int64_t *balance) {
  fs_buf value = FS_BUF_INIT;
  int status = fs_get_for_update(accounts, FS_STR(name), &value);
  if (status == FS_OK && value.len == sizeof *balance) memcpy(balance, value.data, sizeof *balance);
  if (status == FS_ABSENT) *balance = 0;
  fs_buf_free(&value);
  return status < 0 ? status : FS_OK;
}

static int write_balance(fs_table *accounts, const char *name, int64_t balance) {
  return fs_put(accounts, FS_STR(name), FS_BYTES(&balance, sizeof balance));
}

struct move {
  fs_db *db;
  fs_table *accounts;
  const char *from, *to;
  int64_t amount;
};

// One run of a transaction. It may run several times: its effects are those of the transaction only.
static int move_once(const fs_tx *tx, void *context) {
  struct move *move = (struct move *)context;
  fs_table *accounts = NULL;
  int64_t from = 0, to = 0;
  int status = fs_tx_table(tx, move->accounts, &accounts);
  if (status == FS_OK) status = read_balance(accounts, move->from, &from);
  if (status == FS_OK) status = read_balance(accounts, move->to, &to);
  if (status == FS_OK) status = write_balance(accounts, move->from, from - move->amount);
  if (status == FS_OK) status = write_balance(accounts, move->to, to + move->amount);
  fs_table_free(accounts);
  return status;
}

static void *move_often(void *context) {
  struct move *move = (struct move *)context;
  for (int i = 0; i < MOVES; i++) check(fs_transact(move->db, NULL, move_once, move));
  return NULL;
}

int main(int argc, char **argv) {
  fs_options *options = NULL;
  fs_db *db = NULL;
  fs_table *accounts = NULL;
  check(fs_options_new(&options));
  check(fs_options_set(options, "cache_bytes", "64MiB"));
  check(fs_options_set(options, "durability", "buffered"));
  check(fs_open(argc > 1 ? argv[1] : "bank.db", options, &db));
  fs_options_free(options);
  check(fs_open_table(db, "accounts", NULL, &accounts));
  check(write_balance(accounts, "ada", 1000));
  check(write_balance(accounts, "ben", 1000));

  // In opposite directions, so that they sometimes wait for each other: a deadlock, and one of them runs again.
  struct move moves[2] = {{db, accounts, "ada", "ben", 7}, {db, accounts, "ben", "ada", 3}};
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, move_often, &moves[i]);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);

  int64_t together = 0;
  fs_cursor *rows = NULL;
  fs_bytes name, value;
  check(fs_range(accounts, NULL, NULL, &rows));
  int status;
  while ((status = fs_next(rows, &name, &value)) == FS_OK) {
    int64_t balance = 0;
    memcpy(&balance, value.data, sizeof balance);
    printf("%s%.*s %lld", together ? ", " : "", (int)name.len, (const char *)name.data, (long long)balance);
    together += balance;
  }
  check(status);
  printf(": together %lld\n", (long long)together);
  fs_cursor_free(rows);
  fs_table_free(accounts);
  check(fs_close(db));
  return 0;
}
