//! Numbers of transactions and places in the log may be the same in two databases. What is of one is none of the other's.

mod common;

use common::short;
use foreshore::{ByteTable, Database, Error, Result, Transaction, TransactionOptions};

/// A database with a transaction that has locked a row.
fn begun() -> (Database, ByteTable, Transaction) {
    let db = Database::in_memory().unwrap();
    let table = db.byte_table("t").unwrap();
    let tx = db.begin().unwrap();
    tx.bytes(&table).put(b"k", b"1").unwrap();
    (db, table, tx)
}

#[test]
fn savepoints_of_other_databases_are_refused() {
    let ((_, _, one), (_, _, other)) = (begun(), begun());
    assert_eq!(one.number(), other.number());
    let refused = other.rollback_to(one.savepoint().unwrap());
    assert!(matches!(refused, Err(Error::Argument(_))), "{refused:?}");
}

/// What was waited for there, and how long ago that began, says nothing here.
#[test]
fn the_age_of_a_transaction_of_another_database_is_refused() {
    let ((one, _, first), (other, ..)) = (begun(), begun());
    let options = TransactionOptions::new().as_old_as(&first);
    one.begin_with(options).unwrap();
    let refused = other.begin_with(options);
    assert!(matches!(refused, Err(Error::Argument(_))), "{refused:?}");
    let refused = other.transact_with(options, |_| Ok(()));
    assert!(matches!(refused, Err(Error::Argument(_))), "{refused:?}");
}

/// Work that waits in vain for a row of another database would do so each time.
#[test]
fn work_is_not_run_again_for_what_was_lost_in_another_database() {
    let ((one, ours, _beside), (other, theirs, _holder)) = (begun(), begun());
    let mut runs = 0;
    let done: Result<()> = one.transact(|tx| {
        runs += 1;
        tx.bytes(&ours).put(b"free", b"1")?;
        let inner = other.begin_with(short())?;
        assert_eq!(inner.number(), tx.number());
        let refused = inner.bytes(&theirs).put(b"k", b"2");
        if runs == 1 { refused } else { Ok(()) }
    });
    assert!(matches!(done, Err(Error::LockTimeout { .. })), "{done:?} after {runs} runs");
    assert_eq!(runs, 1);
}
