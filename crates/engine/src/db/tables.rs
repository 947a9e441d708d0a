//! The tables of an open database: how they are made, found, renamed and dropped.
//!
//! Who holds `closing` waits for transactions, and who holds `changing` for the device. So a transaction, which a server may run
//! where others must not wait, makes the hidden table of the one that it uses with neither, under a mutex of that table alone. Mutexes
//! are taken in this order: `closing`, `dropping`, `changing`; within these, or within that of a table, `next_id`, and `known`
//! last. None of the first three is taken within that of a table, nor the other way round, but for a rename: that takes the table's
//! within `changing`, and waits for the device without it.

use crate::blob::VALUE_BYTES_MAX;
use crate::core::Core;
use crate::db::catalog::{self, CATALOG, HIGHEST, TEMPORARY};
use crate::db::index::TableOptions;
use crate::db::options::{Builder, ensure_leaf_size, largest_leaf, ring_suits};
use crate::db::types::Types;
use crate::error::{Error, Result};
use crate::log::Durability;
use crate::pool::Pool;
use crate::tree::{Intent, PATIENCE, Tree};
use crate::txn::Txn;
use crate::waits::lock_or_wait;
use foreshore_base::{Lsn, TableId};
use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long dropping a table waits for the transactions that use it.
const DROP_PATIENCE: Duration = Duration::from_secs(10);

/// See the module.
pub(crate) struct Tables {
    core: Arc<Core>,
    catalog: Arc<Tree>,
    /// Those that there are, by name. Many open tables by name all the time: who makes, renames or drops one keeps them from it only
    /// to put that down.
    known: RwLock<BTreeMap<String, Arc<Tree>>>,
    /// Tables are created, renamed and taken out of the catalog one at a time. Held while that becomes durable, which those who open
    /// others need not wait for, nor those who put the first large value into one.
    changing: Mutex<()>,
    /// The id of the next table. Its mutex is held until the catalog knows that it was given.
    next_id: Mutex<u32>,
    /// Transactions are waited for, and kept from coming, at one table at a time. Held for as long as they take; and by who renames a
    /// table, which is not to go under another name than its own.
    closing: Mutex<()>,
    /// Held while a table that nobody uses goes.
    dropping: Mutex<()>,
    options: Builder,
}

impl Tables {
    /// These tables, the catalog among them; `next_id` was given to none yet.
    pub fn new(core: Arc<Core>, trees: Vec<Arc<Tree>>, next_id: u32, options: Builder) -> Self {
        let (catalogs, tables): (Vec<_>, Vec<_>) = trees.into_iter().partition(|tree| tree.id == CATALOG);
        let known = tables.into_iter().map(|tree| (tree.name().to_owned(), tree)).collect();
        Self {
            core,
            catalog: catalogs.into_iter().next().expect("recovery opens or creates the catalog"),
            known: RwLock::new(known),
            changing: Mutex::new(()),
            next_id: Mutex::new(next_id),
            closing: Mutex::new(()),
            dropping: Mutex::new(()),
            options,
        }
    }

    /// The table that says which tables there are.
    pub fn catalog(&self) -> &Arc<Tree> {
        &self.catalog
    }

    /// Those that there are, by name. Who looks keeps others from making any.
    pub fn known(&self) -> RwLockReadGuard<'_, BTreeMap<String, Arc<Tree>>> {
        self.known.read()
    }

    /// As long as this is held, no table is half dropped.
    pub fn keep_from_dropping(&self) -> MutexGuard<'_, ()> {
        lock_or_wait(&self.dropping)
    }

    /// The table `name`, created with these options if absent.
    pub fn get_or_create(&self, name: &str, options: TableOptions) -> Result<Arc<Tree>> {
        self.ensure_possible(name)?;
        options.leaf_bytes.map_or(Ok(()), ensure_leaf_size)?;
        if let Some(tree) = self.existing(name) {
            return of_types(tree, options.types);
        }
        let _one_at_a_time = lock_or_wait(&self.changing);
        if let Some(tree) = self.existing(name) {
            return of_types(tree, options.types); // somebody was quicker
        }
        let pool = self.pool_for(options.leaf_bytes)?;
        let id = self.fresh_table_id()?;
        let index = options.index.unwrap_or(self.options.index);
        let mut tree = Tree::create(&self.core, pool, id, name.to_string(), index)?;
        tree.types = options.types;
        let row = self.put_row(name, catalog::Row::of(&tree), &tree)?;
        let tree = Arc::new(tree);
        self.core.log.commit(row, self.options.durability)?;
        self.known.write().insert(name.to_string(), tree.clone());
        Ok(tree)
    }

    /// Errors: [`Error::Argument`] if no table can have this name.
    fn ensure_possible(&self, name: &str) -> Result<()> {
        if name.is_empty() {
            return Err(Error::Argument("a table needs a name of at least one byte".into()));
        }
        let (len, max) = (name.len(), self.catalog.limits().key_bytes_max);
        if len > max {
            return Err(Error::Argument(format!(
                "the table's name has {len} bytes, at most {max} are allowed"
            )));
        }
        Ok(())
    }

    /// The table `name`, if there is one.
    pub fn existing(&self, name: &str) -> Option<Arc<Tree>> {
        self.known.read().get(name).cloned()
    }

    /// The same, of these types.
    ///
    /// Errors: as [`of_types`].
    pub fn existing_of_types(&self, name: &str, types: Types) -> Result<Option<Arc<Tree>>> {
        self.existing(name).map(|tree| of_types(tree, Some(types))).transpose()
    }

    /// The pool for a new table with leaves of this size.
    fn pool_for(&self, leaf_bytes: Option<usize>) -> Result<&Arc<Pool>> {
        let ring_bytes = self.core.log.ring_bytes();
        let Some(leaf_bytes) = leaf_bytes.or_else(|| self.options.table_leaf_bytes(ring_bytes)) else {
            return Ok(self.core.pools.own());
        };
        if !ring_suits(ring_bytes, leaf_bytes) {
            return Err(Error::Argument(format!(
                "leaf_bytes can be {} at most: the database was made with ring_bytes {ring_bytes}, which must be 16 times as much; \
                 to have larger leaves, copy the rows into a database made with more",
                largest_leaf(ring_bytes)
            )));
        }
        self.core.log.ensure_works()?; // a database that was closed gets no more files
        self.core.pools.of_size(leaf_bytes)
    }

    /// Gives `tree` its hidden table, before `txn` puts its first large value, of `len` bytes. Nobody waits for that to be
    /// durable: what is written there comes later in the log.
    pub fn make_chunks(&self, txn: &mut Txn, tree: &Arc<Tree>, len: usize) -> Result<()> {
        if tree.chunks.get().is_some() || len > VALUE_BYTES_MAX {
            return Ok(()); // what is too large will be refused
        }
        // As long as it is used, it is not taken out of the catalog, to come back by the row put here.
        txn.enter(tree)?;
        let _one_at_a_time = lock_or_wait(&tree.making_chunks);
        if tree.chunks.get().is_some() {
            return Ok(()); // somebody was quicker
        }
        let id = self.fresh_table_id()?;
        let chunks = Tree::create_for_chunks(&self.core, id, tree.name())?;
        let row = catalog::Row { chunks: Some(id), ..catalog::Row::of(tree) };
        self.put_row(tree.name(), row, &chunks)?;
        tree.chunks.get_or_init(|| Arc::new(chunks));
        Ok(())
    }

    /// Puts the row that makes `new` exist: a crash before it leaves a leaf that the next open frees. If it cannot be put, the
    /// leaf goes at once. Returns the end of the row's record.
    fn put_row(&self, name: &str, row: catalog::Row, new: &Tree) -> Result<Lsn> {
        let put = self.catalog.autocommit(name.as_bytes(), Intent::Put(&row.encode()), PATIENCE);
        if put.is_err() {
            new.free_leaves();
        }
        Ok(put?.expect("a put is always done"))
    }

    /// An id that no table ever had. That it was given is in the log before anything else of the table is.
    fn fresh_table_id(&self) -> Result<TableId> {
        let mut next = lock_or_wait(&self.next_id);
        let id = *next;
        if id >= TEMPORARY.0 {
            let what = "one more table, as all 2^31 numbers of tables were given: compact the database";
            return Err(Error::Full { what: what.into() });
        }
        self.catalog.autocommit(HIGHEST, Intent::Put(&id.to_le_bytes()), PATIENCE)?;
        *next = id + 1;
        Ok(TableId(id))
    }

    /// The names of all.
    pub fn names(&self) -> Vec<String> {
        self.known.read().keys().cloned().collect()
    }

    /// See [`Database::rename_table`](crate::Database::rename_table).
    pub fn rename_table(&self, from: &str, to: &str) -> Result<bool> {
        self.ensure_possible(to)?;
        let _none_is_dropped = lock_or_wait(&self.closing);
        let _one_at_a_time = lock_or_wait(&self.changing);
        let Some(tree) = self.existing(from) else { return Ok(false) };
        if from == to {
            return Err(Error::Argument(format!("the table is called {to:?} already")));
        }
        if self.existing(to).is_some() {
            let hint = "choose another name, or drop that one first";
            return Err(Error::Argument(format!("there is a table {to:?} already; {hint}")));
        }
        let renamed = self.move_row(&tree, from, to)?;
        // Others know it by the new name before that is durable: what they do by it lies behind the rename in the log, and so
        // is lost with it or not at all. The old name is free to nobody until then, as `changing` is held.
        let durable = self.core.log.commit(renamed, Durability::Sync);
        // Nothing can be logged any more, and so no row tell of this: who reads on finds the table where it was.
        durable.inspect_err(|_| {
            let _none_makes_chunks = lock_or_wait(&tree.making_chunks);
            self.change_name(&tree, to, from);
        })?;
        Ok(true)
    }

    /// Gives the table's row in the catalog another key, in a transaction, and then the table that name. Returns the end of the commit
    /// record.
    fn move_row(&self, tree: &Arc<Tree>, from: &str, to: &str) -> Result<Lsn> {
        // Who makes the hidden table puts the row under the name that the table has, and must not bring the old one back.
        let _none_makes_chunks = lock_or_wait(&tree.making_chunks);
        let row = catalog::Row::of(tree).encode();
        let (_, end) = self.core.in_own_transaction(PATIENCE, |txn| {
            // In this order: wherever the log ends, the table has a name (`Contents::take_other_names`).
            self.catalog.write(txn, to.as_bytes(), Intent::Put(&row))?;
            self.catalog.write(txn, from.as_bytes(), Intent::Remove)
        })?;
        self.change_name(tree, from, to);
        Ok(end.expect("it has written"))
    }

    /// The table tells its new name when it is found by that, and not before.
    fn change_name(&self, tree: &Arc<Tree>, from: &str, to: &str) {
        let mut known = self.known.write();
        tree.rename(to);
        known.remove(from);
        known.insert(to.to_owned(), tree.clone());
    }

    /// See [`Database::drop_table`](crate::Database::drop_table).
    pub fn drop_table(&self, name: &str) -> Result<bool> {
        let _one_at_a_time = lock_or_wait(&self.closing);
        let Some(tree) = self.existing(name) else { return Ok(false) };
        let _dropping = self.close(&tree)?;
        let changing = lock_or_wait(&self.changing);
        let removed = self.catalog.autocommit(name.as_bytes(), Intent::Remove, PATIENCE);
        // Durable before the first leaf goes: a table that still has its row has all its leaves. It may have it under another name.
        let durable = removed
            .and_then(|row| row.ok_or_else(|| without_row(name)))
            .and_then(|row| self.core.log.commit(row, Durability::Sync));
        // The table stays, and is used again, or at least read.
        durable.inspect_err(|_| tree.users.open())?;
        self.known.write().remove(name);
        drop(changing); // who uses others need not wait for the leaves of this one either
        let gone = || std::iter::once(&tree).chain(tree.chunks.get());
        gone().for_each(|tree| tree.mark_dropped());
        self.core.txns.slots.forget_dropped();
        if let Some(chunks) = tree.chunks.get() {
            self.core.extents.free_table(chunks.id, &self.core.log);
        }
        gone().for_each(|tree| tree.free_leaves());
        Ok(true)
    }

    /// Waits until nobody uses the table. Nobody comes to it any more, and as long as what is returned is held no backup does.
    fn close(&self, tree: &Tree) -> Result<MutexGuard<'_, ()>> {
        loop {
            // Without the other mutexes: whoever uses other tables, or looks at all, need not wait for the users of this one.
            // Where nothing can be logged it cannot be dropped, and who could not be rolled back uses it for ever.
            if !tree.users.close(DROP_PATIENCE, || self.core.log.room())? {
                return Err(Error::TableInUse { name: tree.name().to_owned() });
            }
            let dropping = lock_or_wait(&self.dropping);
            if !tree.users.any() {
                return Ok(dropping);
            }
        }
    }

    /// Calls `look` with all tables but the catalog, while none is created, renamed or dropped: names of one moment.
    pub fn with_all<R>(&self, look: impl FnOnce(&mut dyn Iterator<Item = &Arc<Tree>>) -> R) -> R {
        let _none_is_dropped = lock_or_wait(&self.dropping);
        let _none_is_created_or_renamed = lock_or_wait(&self.changing);
        look(&mut self.known.read().values())
    }
}

/// What a table is that the catalog does not know by its name.
fn without_row(name: &str) -> Error {
    Error::corrupt("catalog", format!("table {name:?} has no row there, and was not dropped"))
}

/// The table, if its rows are of these types, as far as that is known.
///
/// Errors: [`Error::Argument`] says of which types they are.
fn of_types(tree: Arc<Tree>, asked: Option<Types>) -> Result<Arc<Tree>> {
    match (&tree.types, asked) {
        (Some(types), Some(asked)) if !asked.suit(types) => Err(Error::Argument(format!(
            "table {:?} has {types}, and not {asked}: open it with the types that it has, or as a byte table; rows of other types \
             go into another table",
            tree.name()
        ))),
        _ => Ok(tree),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::catalog::FIRST;
    use crate::{ByteTable, Database, before_waiting};
    use foreshore_io::sim::{Crash, Fault, Repeat};
    use foreshore_io::{MemVfs, SimDisk};
    use parking_lot::MutexGuard;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::sync::mpsc;
    use std::thread;
    use std::time::{Duration, Instant};

    /// Lies in part outside of its row, in chunks.
    const LARGE: [u8; 10_000] = [7; 10_000];

    /// H1: who waits for another one that puts a table's first large value, or takes an id for a table, says so.
    #[test]
    fn who_waits_for_another_one_says_so() {
        let db = Database::in_memory().unwrap();
        let [one, two] = ["one", "two"].map(|name| db.byte_table(name).unwrap());
        assert!(says_that_it_waits(db.engine.tables.next_id.lock(), &one));
        assert!(says_that_it_waits(two.tree.making_chunks.lock(), &two));
    }

    /// Does who puts a large value while this is held?
    fn says_that_it_waits<T>(held: MutexGuard<'_, T>, table: &ByteTable) -> bool {
        static HAS_SAID: AtomicBool = AtomicBool::new(false);
        HAS_SAID.store(false, SeqCst);
        thread::scope(|scope| {
            let put = || table.put(b"k", &LARGE).unwrap();
            let waiter = scope.spawn(move || before_waiting(|| HAS_SAID.store(true, SeqCst), put));
            let started = Instant::now();
            while !HAS_SAID.load(SeqCst) && started.elapsed() < Duration::from_secs(10) {
                thread::yield_now();
            }
            drop(held);
            waiter.join().unwrap();
        });
        HAS_SAID.load(SeqCst)
    }

    /// Of a table whose row is elsewhere no leaf goes: the next opening would find a table without them.
    #[test]
    fn a_table_without_its_row_is_not_dropped() {
        let disk = Arc::new(MemVfs::new());
        let db = Database::builder().open_on(disk.clone()).unwrap();
        let table = db.byte_table("t").unwrap();
        table.put(b"k", &LARGE).unwrap();
        let Tables { catalog, .. } = &db.engine.tables;
        let row = catalog::Row::of(&table.tree).encode();
        for (name, intent) in [("elsewhere", Intent::Put(&row)), ("t", Intent::Remove)] {
            catalog.autocommit(name.as_bytes(), intent, PATIENCE).unwrap();
        }
        for _ in 0..2 {
            let refused = db.drop_table("t");
            assert!(
                matches!(&refused, Err(Error::Corrupt { detail, .. }) if detail.contains("\"t\"")),
                "{refused:?}"
            );
        }
        db.transact(|tx| tx.bytes(&table).put(b"l", b"v")).expect("it is used again");
        drop(table);
        db.close().unwrap();
        let db = Database::builder().open_on(disk).unwrap();
        assert_eq!(db.byte_table("elsewhere").unwrap().get(b"k").unwrap().as_deref(), Some(&LARGE[..]));
        assert_eq!(db.check().unwrap().stray_pages, 0);
    }

    /// A dropped table's index is not kept for transactions that may never come.
    #[test]
    fn nothing_stays_of_a_dropped_table() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        let at_a_time: Vec<_> = (0..10).map(|_| db.begin().unwrap()).collect();
        at_a_time.iter().for_each(|tx| assert_eq!(tx.bytes(&table).get(b"k").unwrap(), None));
        at_a_time.into_iter().for_each(|tx| tx.commit().unwrap());
        let tree = Arc::downgrade(&table.tree);
        drop(table);
        assert!(db.drop_table("t").unwrap());
        assert_eq!(tree.strong_count(), 0);
    }

    /// The last number is given to none: an opening must know a next one.
    #[test]
    fn numbers_of_tables_end() {
        let disk = Arc::new(MemVfs::new());
        let open = || Database::builder().open_on(disk.clone()).unwrap();
        let db = open();
        let there = db.byte_table("there").unwrap();
        *db.engine.tables.next_id.lock() = TEMPORARY.0 - 1;
        db.byte_table("last").unwrap().put(b"k", b"v").unwrap();
        for _ in 0..2 {
            let refused = db.byte_table("new").err();
            assert!(matches!(refused, Some(Error::Full { .. })), "{refused:?}");
            let large = there.put(b"k", &[7; 10_000]);
            assert!(matches!(large, Err(Error::Full { .. })), "{large:?}");
        }
        there.put(b"k", b"v").unwrap();
        drop(there);
        db.close().unwrap();
        assert_eq!(open().tables().unwrap(), ["last", "there"]);
    }

    /// A change that may yet be lost: nobody sees that there is one more table, or one less.
    const STILL: [&str; 2] = ["goes", "stays"];

    /// Does `change` to the tables of a database, which waits until that is durable. Meanwhile another one is opened.
    /// The tables are called `meanwhile` then.
    fn open_beside<R: Send>(
        change: impl Fn(&Database) -> Result<R> + Sync,
        meanwhile: [&str; 2],
    ) -> (Database, R) {
        let db = Database::builder().durability(Durability::Sync).open_on(Arc::new(MemVfs::new())).unwrap();
        let stays = db.byte_table("stays").unwrap();
        db.byte_table("goes").unwrap();
        let log = &db.engine.core().log;
        let before = log.stats().waits;
        let hole = log.reserve(8); // nothing behind it becomes durable
        let changed = thread::scope(|scope| {
            let changes = scope.spawn(|| change(&db));
            while log.stats().waits == before {
                thread::yield_now();
            }
            let (db, (opened, waits)) = (&db, mpsc::channel());
            scope.spawn(move || opened.send(db.byte_table("stays")));
            let found = waits.recv_timeout(Duration::from_secs(10));
            let names = db.tables().unwrap();
            hole.abandon();
            assert!(Arc::ptr_eq(&found.expect("it waits for the other").unwrap().tree, &stays.tree));
            assert_eq!(names, meanwhile);
            changes.join().unwrap().unwrap()
        });
        (db, changed)
    }

    /// Who opens a table need not wait until another one, which somebody creates, is durable.
    #[test]
    fn existing_tables_are_opened_while_one_is_created() {
        let (db, _) = open_beside(|db| db.byte_table("new"), STILL);
        assert_eq!(db.tables().unwrap(), ["goes", "new", "stays"]);
    }

    /// Nor until it is durable that there is another one no more.
    #[test]
    fn existing_tables_are_opened_while_one_is_dropped() {
        let (db, dropped) = open_beside(|db| db.drop_table("goes"), STILL);
        assert!(dropped);
        assert_eq!(db.tables().unwrap(), ["stays"]);
    }

    /// A table is found by the name that it tells, also until its rename is durable.
    #[test]
    fn renamed_tables_are_opened_before_that_is_durable() {
        let (db, renamed) = open_beside(|db| db.rename_table("goes", "gone"), ["gone", "stays"]);
        assert!(renamed && db.existing_byte_table("goes").is_none());
    }

    /// Nothing changes any more where the log has failed: tables have the names that those who read on know.
    #[test]
    fn a_rename_that_fails_leaves_the_name() {
        let disk = SimDisk::new(0);
        let db = Database::builder().durability(Durability::Sync).open_on(Arc::new(disk.clone())).unwrap();
        let table = db.byte_table("before").unwrap();
        table.put(b"k", &LARGE).unwrap();
        disk.fail_at(disk.events(), Fault::Eio, Repeat::Forever);
        let failed = db.rename_table("before", "after");
        assert!(matches!(failed, Err(Error::Poisoned { .. })), "{failed:?}");
        assert_eq!((table.name(), db.tables().unwrap()), ("before", vec!["before".to_owned()]));
        assert_eq!(table.tree.chunks.get().unwrap().name(), "large values of before");
        assert_eq!(db.byte_table("before").unwrap().get(b"k").unwrap().as_deref(), Some(&LARGE[..]));
    }

    /// Who drops a table may wait for the transaction of a thread that looks at all tables, and closes it only then.
    #[test]
    fn all_tables_are_looked_at_while_one_is_used_that_is_to_go() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        table.put(b"k", b"v").unwrap();
        let tx = db.begin().unwrap();
        tx.bytes(&table).get(b"k").unwrap();
        thread::scope(|scope| {
            let dropped = scope.spawn(|| db.drop_table("t"));
            while table.tree.users.in_the_way().is_empty() {
                thread::yield_now();
            }
            db.check().unwrap();
            let copy = Arc::new(MemVfs::new());
            assert_eq!(db.backup_on(copy, |_| {}).unwrap().rows, 1);
            assert!(!dropped.is_finished(), "the drop has given up before");
            tx.commit().unwrap();
            assert!(dropped.join().unwrap().unwrap());
        });
    }

    /// Nor does a first large value, however it is put, wait for other tables to be durable, or gone.
    #[test]
    fn first_large_values_are_put_while_other_tables_change() {
        let db = Database::in_memory().unwrap();
        let tables: Vec<_> = (0..5).map(|n| db.byte_table(&n.to_string()).unwrap()).collect();
        thread::scope(|scope| {
            let changing = db.engine.tables.changing.lock();
            let (done, waits) = mpsc::channel();
            let (db, tables) = (&db, &tables);
            scope.spawn(move || {
                tables[0].put(b"k", &LARGE).unwrap();
                tables[1].put_many(&[(b"k", LARGE)]).unwrap();
                tables[2].bulk_load([(b"k", LARGE)]).unwrap();
                db.transact(|tx| tx.bytes(&tables[3]).put(b"k", &LARGE)).unwrap();
                db.transact(|tx| tx.bytes(&tables[4]).put_many(&[(b"k", LARGE)])).unwrap();
                done.send(())
            });
            let put = waits.recv_timeout(Duration::from_secs(10));
            drop(changing);
            put.expect("it waits for the others");
        });
        for table in &tables {
            assert_eq!(table.get(b"k").unwrap().as_deref(), Some(&LARGE[..]));
        }
    }

    /// Several threads may come with a table's first large value at once: it gets one hidden table.
    #[test]
    fn first_large_values_share_their_hidden_table() {
        let (db, threads) = (Database::in_memory().unwrap(), 4);
        let table = db.byte_table("t").unwrap();
        thread::scope(|scope| {
            let next_id = db.engine.tables.next_id.lock(); // who makes one needs its id
            for thread in 0..threads as u8 {
                let table = &table;
                scope.spawn(move || table.put(&[thread], &LARGE).unwrap());
            }
            while db.engine.core().txns.slots.leased() < threads {
                thread::yield_now();
            }
            drop(next_id);
        });
        let report = db.check().unwrap();
        let large = report.tables.iter().map(|table| table.large_values).sum::<u64>();
        assert_eq!((large, report.stray_pages), (threads as u64, 0));
        assert_eq!(*db.engine.tables.next_id.lock(), FIRST.0 + 2);
    }

    /// A table that is about to go gets a hidden one only from who keeps it from going, and does not come back by that.
    #[test]
    fn first_large_values_bring_no_table_back() {
        let disk = Arc::new(MemVfs::new());
        let db = Database::builder().open_on(disk.clone()).unwrap();
        let table = db.byte_table("t").unwrap().with_lock_timeout(Duration::ZERO);
        let tx = db.begin().unwrap();
        assert_eq!(tx.bytes(&table).get(b"k").unwrap(), None);
        thread::scope(|scope| {
            let dropped = scope.spawn(|| db.drop_table("t"));
            while table.tree.users.in_the_way().is_empty() {
                thread::yield_now();
            }
            let refused = table.put(b"l", &LARGE);
            assert!(matches!(refused, Err(Error::LockTimeout { .. })), "{refused:?}");
            assert!(table.tree.chunks.get().is_none());
            tx.bytes(&table).put(b"k", &LARGE).unwrap();
            assert!(!dropped.is_finished(), "the drop has given up before");
            tx.commit().unwrap();
            assert!(dropped.join().unwrap().unwrap());
        });
        let too_late = table.put(b"k", &LARGE);
        assert!(matches!(too_late, Err(Error::TableDropped { .. })), "{too_late:?}");
        drop(table);
        let table = db.byte_table("t").unwrap();
        db.drop_table("t").unwrap();
        let too_late = table.put(b"k", &LARGE);
        assert!(matches!(too_late, Err(Error::TableDropped { .. })), "{too_late:?}");
        assert_eq!(db.check().unwrap().stray_pages, 0);
        drop(table);
        db.close().unwrap();
        let db = Database::builder().open_on(disk).unwrap();
        assert!(db.tables().unwrap().is_empty());
        assert_eq!(db.check().unwrap().stray_pages, 0);
    }

    /// The power may fail wherever a rename is: what is done of it is undone, and the table has its name, also in memory.
    #[test]
    fn half_done_renames_are_undone() {
        let open = |disk| Database::builder().durability(Durability::Sync).open_on(Arc::new(disk)).unwrap();
        for is_removed in [false, true] {
            let disk = SimDisk::new(0);
            let db = open(disk.clone());
            let table = db.byte_table("before").unwrap();
            table.put(b"k", &LARGE).unwrap();
            let Tables { core, catalog, .. } = &db.engine.tables;
            let (tree, chunks) = (&table.tree, table.tree.chunks.get().unwrap());
            let row = catalog::Row { chunks: Some(chunks.id), ..catalog::Row::of(tree) };
            let mut txn = Txn::begin(core.clone().into(), PATIENCE, Lsn::ZERO).unwrap();
            catalog.write(&mut txn, b"after", Intent::Put(&row.encode())).unwrap();
            if is_removed {
                catalog.write(&mut txn, b"before", Intent::Remove).unwrap();
            }
            core.log.commit(core.log.reserved(), Durability::Sync).unwrap();
            disk.crash();
            txn.abandon();
            drop((table, db));
            let db = open(disk.after_crash(Crash::PowerLoss, 0));
            assert_eq!(db.tables().unwrap(), ["before"]);
            let table = db.byte_table("before").unwrap();
            assert_eq!(table.tree.chunks.get().unwrap().name(), "large values of before");
            assert_eq!(table.get(b"k").unwrap().as_deref(), Some(&LARGE[..]));
            assert!(db.drop_table("before").unwrap());
            assert_eq!(db.check().unwrap().stray_pages, 0);
        }
    }

    /// The power may fail between a hidden table's first leaf and the row that names it: nothing is left of it.
    #[test]
    fn half_made_hidden_tables_go() {
        let disk = SimDisk::new(0);
        let open = |disk| Database::builder().durability(Durability::Sync).open_on(Arc::new(disk)).unwrap();
        let db = open(disk.clone());
        let table = db.byte_table("t").unwrap();
        let tables = &db.engine.tables;
        let id = tables.fresh_table_id().unwrap();
        Tree::create_for_chunks(&tables.core, id, "t").unwrap();
        table.put(b"k", b"v").unwrap();
        disk.crash();
        drop((table, db));
        let db = open(disk.after_crash(Crash::PowerLoss, 0));
        assert_eq!(db.check().unwrap().stray_pages, 0);
        let table = db.byte_table("t").unwrap();
        table.put(b"k", &LARGE).unwrap();
        assert!(table.tree.chunks.get().unwrap().id > id, "no id is given twice");
    }
}
