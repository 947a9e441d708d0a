//! A byte table, seen through whatever it is seen through.

use crate::rows::{Bounds, Row, Rows};
use crate::transaction::{TransactionHandle, Unattached, loser, transact};
use foreshore::{ByteTable, Database, Error, Index, Result, Snapshot, TransactionOptions};
use std::ops::{Bound, ControlFlow};

/// A table of byte strings as everybody sees it, as a transaction sees and changes it, or as a snapshot saw it.
///
/// It keeps open what it is seen through.
#[derive(Clone)]
pub struct TableHandle {
    table: ByteTable,
    through: Through,
}

#[derive(Clone)]
enum Through {
    /// What is committed; each call is a transaction of its own.
    Latest,
    Transaction(TransactionHandle),
    Snapshot(Snapshot),
}

impl TableHandle {
    /// As everybody sees it; each call is a transaction of its own.
    pub fn latest(table: ByteTable) -> Self {
        Self { table, through: Through::Latest }
    }

    /// The same table as `transaction` sees and changes it.
    pub fn within(&self, transaction: &TransactionHandle) -> Self {
        Self { table: self.table.clone(), through: Through::Transaction(transaction.clone()) }
    }

    /// The same table as `snapshot` saw it.
    pub fn as_of(&self, snapshot: &Snapshot) -> Self {
        Self { table: self.table.clone(), through: Through::Snapshot(snapshot.clone()) }
    }

    /// The table's name.
    pub fn name(&self) -> &str {
        self.table.name()
    }

    /// The index over its leaves.
    pub fn index(&self) -> Index {
        self.table.index()
    }

    /// The size of its leaves, in bytes.
    pub fn leaf_bytes(&self) -> usize {
        self.table.leaf_bytes()
    }

    /// The transaction that it is seen through, if it is.
    pub fn transaction(&self) -> Option<&TransactionHandle> {
        match &self.through {
            Through::Transaction(transaction) => Some(transaction),
            Through::Latest | Through::Snapshot(_) => None,
        }
    }

    /// The value of `key`, copied out.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    /// Replaces the content of `value` by the value of `key`; `false`, and an empty `value`, if there is none.
    #[inline]
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        match &self.through {
            Through::Latest => self.table.get_into(key, value),
            Through::Transaction(tx) => tx.read(|tx| tx.bytes(&self.table).get_into(key, value)),
            Through::Snapshot(snapshot) => snapshot.bytes(&self.table).get_into(key, value),
        }
    }

    /// The value of `key`, for a row that the transaction is going to change.
    ///
    /// Errors: [`Error::Argument`] outside a transaction.
    pub fn get_for_update(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match &self.through {
            Through::Transaction(tx) => tx.read(|tx| tx.bytes(&self.table).get_for_update(key)),
            Through::Latest | Through::Snapshot(_) => {
                Err(Error::Argument("only a transaction can read for update; get the table from one".into()))
            }
        }
    }

    /// Is there a value for `key`?
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        match &self.through {
            Through::Latest => self.table.contains(key),
            Through::Transaction(tx) => tx.read(|tx| tx.bytes(&self.table).contains(key)),
            Through::Snapshot(snapshot) => snapshot.bytes(&self.table).contains(key),
        }
    }

    /// The values of many keys, in their order.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        match &self.through {
            Through::Latest => self.table.multi_get(keys),
            Through::Transaction(tx) => tx.read(|tx| tx.bytes(&self.table).multi_get(keys)),
            Through::Snapshot(snapshot) => snapshot.bytes(&self.table).multi_get(keys),
        }
    }

    /// Sets the value of `key`, whether or not it had one.
    #[inline]
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        match &self.through {
            Through::Latest => self.table.put(key, value),
            Through::Transaction(tx) => tx.write(|tx| tx.bytes(&self.table).put(key, value)),
            Through::Snapshot(_) => Err(read_only()),
        }
    }

    /// Sets the values of many keys, in their order; outside a transaction each by itself, with one wait for all.
    pub fn put_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, rows: &[(K, V)]) -> Result<()> {
        match &self.through {
            Through::Latest => self.table.put_many(rows),
            Through::Transaction(tx) => tx.write(|tx| tx.bytes(&self.table).put_many(rows)),
            Through::Snapshot(_) => Err(read_only()),
        }
    }

    /// Sets the value of `key` unless it has one; says whether it did.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        match &self.through {
            Through::Latest => self.table.insert(key, value),
            Through::Transaction(tx) => tx.write(|tx| tx.bytes(&self.table).insert(key, value)),
            Through::Snapshot(_) => Err(read_only()),
        }
    }

    /// Removes `key`; says whether it was there. One that is too long for any row was not: it is as absent as for who reads.
    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        let done = match &self.through {
            Through::Latest => self.table.remove(key),
            Through::Transaction(tx) => tx.write(|tx| tx.bytes(&self.table).remove(key)),
            Through::Snapshot(_) => Err(read_only()),
        };
        match done {
            Err(Error::KeyTooLong { .. }) => Ok(false),
            done => done,
        }
    }

    /// Removes the first row whose key lies in `bounds` and returns it; `None` if there is none.
    pub fn pop_first(&self, bounds: Bounds) -> Result<Option<Row>> {
        match &self.through {
            Through::Latest => self.table.pop_first_in(bounds),
            Through::Transaction(tx) => tx.write(|tx| tx.bytes(&self.table).pop_first_in(bounds)),
            Through::Snapshot(_) => Err(read_only()),
        }
    }

    /// Removes the last row whose key lies in `bounds` and returns it; `None` if there is none.
    pub fn pop_last(&self, bounds: Bounds) -> Result<Option<Row>> {
        match &self.through {
            Through::Latest => self.table.pop_last_in(bounds),
            Through::Transaction(tx) => tx.write(|tx| tx.bytes(&self.table).pop_last_in(bounds)),
            Through::Snapshot(_) => Err(read_only()),
        }
    }

    /// Removes the rows whose keys lie in `bounds`, all or none; says how many.
    pub fn remove_range(&self, bounds: Bounds) -> Result<u64> {
        match &self.through {
            Through::Latest => self.table.remove_range(bounds),
            Through::Transaction(tx) => tx.write(|tx| tx.bytes(&self.table).remove_range(bounds)),
            Through::Snapshot(_) => Err(read_only()),
        }
    }

    /// Runs `work` on the table within a transaction: the one it is seen through, or a new one of `db` that is run again
    /// if it gave way to another. So several calls become one that happens as a whole or not at all, also as a part of a
    /// transaction that goes on after an error. It waits for a lock as long as a single call does: who calls may be who has it.
    pub fn atomically<R>(&self, db: &Database, work: impl FnMut(&Self) -> Result<R>) -> Result<R> {
        self.atomically_with(db, TransactionOptions::new(), work)
    }

    /// A new transaction has these options.
    fn atomically_with<R>(
        &self,
        db: &Database,
        options: TransactionOptions,
        mut work: impl FnMut(&Self) -> Result<R>,
    ) -> Result<R> {
        match &self.through {
            Through::Latest => {
                let work = |tx: &TransactionHandle| work(&self.within(tx));
                let gave_way = |error: &Error| match error {
                    Error::LockTimeout { .. } => None,
                    error => loser(error),
                };
                transact(&Unattached, db, options, work, gave_way)
            }
            Through::Transaction(tx) => tx.as_a_whole(|| work(self)),
            Through::Snapshot(_) => Err(read_only()),
        }
    }

    /// Rows whose keys lie in `bounds`, in order, from either end.
    pub fn range(&self, bounds: Bounds) -> Rows {
        match &self.through {
            Through::Latest => Rows::Committed(self.table.range(bounds)),
            Through::Snapshot(snapshot) => Rows::Committed(snapshot.bytes(&self.table).range(bounds)),
            Through::Transaction(tx) => {
                let rows = tx.read(|tx| Ok(tx.bytes(&self.table).range(bounds)));
                rows.map_or_else(|error| Rows::Failed(Some(error)), Rows::Transaction)
            }
        }
    }

    /// How many rows lie in `bounds`, by reading their keys, and what is left to be counted: nothing, or what is behind the first `most`.
    pub fn count_some(&self, bounds: Bounds, most: u64) -> Result<(u64, Option<Bounds>)> {
        let (mut count, to, mut last) = (0, bounds.to.clone(), None);
        let mut key = |key: &[u8]| {
            count += 1;
            if count < most {
                return ControlFlow::Continue(());
            }
            last = Some(key.to_vec());
            ControlFlow::Break(())
        };
        match &self.through {
            Through::Latest => self.table.scan_keys(bounds, key)?,
            Through::Snapshot(snapshot) => snapshot.bytes(&self.table).scan_keys(bounds, key)?,
            Through::Transaction(_) => {
                for row in self.range(bounds).keys_only() {
                    if key(&row?.0).is_break() {
                        break;
                    }
                }
            }
        }
        Ok((count, last.map(|last| Bounds { from: Bound::Excluded(last), to })))
    }

    /// Is there a row in `bounds`?
    pub fn any(&self, bounds: Bounds) -> Result<bool> {
        Ok(self.range(bounds).keys_only().next().transpose()?.is_some())
    }

    /// About how many rows lie in `bounds` now, uncommitted ones included, also through a snapshot; see
    /// [`ByteTable::estimate_range`].
    pub fn estimate(&self, bounds: Bounds) -> Result<u64> {
        match &self.through {
            Through::Latest | Through::Snapshot(_) => self.table.estimate_range(bounds),
            Through::Transaction(tx) => tx.read(|tx| tx.bytes(&self.table).estimate_range(bounds)),
        }
    }

    /// Loads rows in strictly ascending order of their keys; see [`ByteTable::bulk_load`].
    ///
    /// Errors: [`Error::Argument`] within a transaction or a snapshot: a load is not a part of either.
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        rows: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64> {
        match &self.through {
            Through::Latest => self.table.bulk_load(rows),
            Through::Transaction(_) => Err(Error::Argument(
                "bulk_load is no part of a transaction; call it on the database's own table".into(),
            )),
            Through::Snapshot(_) => Err(read_only()),
        }
    }
}

fn read_only() -> Error {
    Error::Argument("a snapshot is read-only; write to the database's own table, or in a transaction".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transaction::tests::database;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn one_table_through_three_eyes() {
        let (db, table) = database();
        table.put(b"k", b"old").unwrap();
        let snapshot = db.snapshot().unwrap();
        let tx = TransactionHandle::begin(&db, TransactionOptions::new()).unwrap();
        let (before, inside) = (table.as_of(&snapshot), table.within(&tx));
        inside.put(b"k", b"new").unwrap();
        assert_eq!(inside.get(b"k").unwrap().unwrap(), b"new");
        assert_eq!(table.get(b"k").unwrap().unwrap(), b"old");
        tx.commit().unwrap();
        assert_eq!(table.get(b"k").unwrap().unwrap(), b"new");
        assert_eq!(before.get(b"k").unwrap().unwrap(), b"old");
        table.put(b"l", b"").unwrap();
        let count = |table: &TableHandle, bounds| {
            let (first, rest) = table.count_some(bounds, 1).unwrap();
            first + rest.map_or(0, |rest| table.count_some(rest, u64::MAX).unwrap().0)
        };
        assert_eq!(count(&table, Bounds::default()), 2);
        assert_eq!(count(&before, Bounds::default()), 1);
        let tx = TransactionHandle::begin(&db, TransactionOptions::new()).unwrap();
        assert_eq!(count(&table.within(&tx), Bounds::prefix(b"l")), 1);
        let rows: Vec<_> = before.range(Bounds::default()).collect::<Result<_>>().unwrap();
        assert_eq!(rows, [(b"k".to_vec(), b"old".to_vec())]);
        assert_eq!(table.within(&tx).remove_range(Bounds::prefix(b"l")).unwrap(), 1);
        let row = Some((b"k".to_vec(), b"new".to_vec()));
        assert_eq!(table.within(&tx).pop_first(Bounds::default()).unwrap(), row);
        assert_eq!(table.within(&tx).pop_last(Bounds::default()).unwrap(), None);
        tx.rollback().unwrap();
        assert_eq!(table.pop_last(Bounds::prefix(b"k")).unwrap(), row);
        assert_eq!(table.pop_first(Bounds::prefix(b"k")).unwrap(), None);
        assert_eq!(table.remove_range(Bounds::default()).unwrap(), 1);
    }

    #[test]
    fn snapshots_refuse_writes() {
        let (db, table) = database();
        let before = table.as_of(&db.snapshot().unwrap());
        for refused in [
            before.put(b"k", b"").err(),
            before.insert(b"k", b"").err(),
            before.remove(b"k").err(),
            before.remove_range(Bounds::default()).err(),
            before.pop_first(Bounds::default()).err(),
            before.pop_last(Bounds::default()).err(),
            before.bulk_load([(b"k", b"")]).err(),
            before.atomically(&db, |_| Ok(())).err(),
        ] {
            assert!(matches!(refused, Some(Error::Argument(_))), "{refused:?}");
        }
        assert!(!table.contains(b"k").unwrap());
    }

    #[test]
    fn no_row_has_a_key_that_is_too_long() {
        let (db, table) = database();
        let tx = TransactionHandle::begin(&db, TransactionOptions::new()).unwrap();
        let (inside, too_long) = (table.within(&tx), [b'k'; 1025]);
        for table in [&table, &inside] {
            assert!(matches!(table.put(&too_long, b""), Err(Error::KeyTooLong { .. })));
            assert!(!table.contains(&too_long).unwrap());
            assert!(!table.remove(&too_long).unwrap());
        }
        tx.commit().unwrap();
        assert!(matches!(inside.remove(&too_long), Err(Error::Ended)));
    }

    #[test]
    fn several_calls_become_one() {
        let (db, table) = database();
        let failed: Result<()> = table.atomically(&db, |table| {
            table.put(b"a", b"")?;
            Err(Error::Argument("stop".into()))
        });
        assert!(failed.is_err() && !table.contains(b"a").unwrap());
        table.atomically(&db, |table| table.put(b"a", b"")).unwrap();
        assert!(table.contains(b"a").unwrap());
    }

    #[test]
    fn a_part_of_a_transaction_is_one_too() {
        let (db, table) = database();
        let tx = TransactionHandle::begin(&db, TransactionOptions::new()).unwrap();
        let inside = table.within(&tx);
        inside.put(b"before", b"").unwrap();
        let failed: Result<()> = inside.atomically(&db, |table| {
            table.put(b"a", b"")?;
            Err(Error::Argument("stop".into()))
        });
        assert!(failed.is_err());
        tx.commit().unwrap();
        assert!(table.contains(b"before").unwrap() && !table.contains(b"a").unwrap());
    }

    /// Who has locked a row in a transaction of its own waits for itself, and must be told.
    #[test]
    fn several_calls_wait_no_longer_than_one() {
        let (db, table) = database();
        let tx = TransactionHandle::begin(&db, TransactionOptions::new()).unwrap();
        table.within(&tx).put(b"k", b"locked").unwrap();
        let (impatient, mut runs) = (TransactionOptions::new().lock_timeout(Duration::from_millis(100)), 0);
        let late = table.atomically_with(&db, impatient, |table| {
            runs += 1;
            assert_eq!(runs, 1, "it would wait for ever");
            table.put(b"k", b"in vain")
        });
        assert!(matches!(late, Err(Error::LockTimeout { .. })), "{late:?}");
    }

    /// What another thread wrote within the same transaction is not undone with a part that fails.
    #[test]
    fn a_part_that_fails_takes_nobody_elses_row_along() {
        let (db, table) = database();
        let tx = TransactionHandle::begin(&db, TransactionOptions::new()).unwrap();
        let inside = table.within(&tx);
        let (begun, has_begun) = channel();
        let (written, is_written) = channel();
        std::thread::scope(|scope| {
            let other = table.within(&tx);
            scope.spawn(move || {
                has_begun.recv().unwrap();
                other.put(b"other's", b"").unwrap();
                written.send(()).ok();
            });
            let failed: Result<()> = inside.atomically(&db, |table| {
                table.put(b"ours", b"")?;
                begun.send(()).unwrap();
                let _ = is_written.recv_timeout(Duration::from_millis(200)); // it waits, so that there is nothing to hear
                Err(Error::Argument("stop".into()))
            });
            assert!(failed.is_err());
        });
        tx.commit().unwrap();
        assert!(table.contains(b"other's").unwrap() && !table.contains(b"ours").unwrap());
    }
}
