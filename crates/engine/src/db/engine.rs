//! One open database: its parts, its tables, its checkpoints, its end.

use crate::blob::VALUE_BYTES_MAX;
use crate::db::catalog::{self, CATALOG, HIGHEST};
use crate::db::index::TableOptions;
use crate::db::meta::{self, Meta};
use crate::db::options::{Builder, ensure_leaf_size, largest_leaf, ring_suits};
use crate::db::running::Running;
use crate::db::stats::{CheckReport, IndexStats, Stats, TableReport};
use crate::db::upkeep::Upkeep;
use crate::error::{Error, Result};
use crate::log::Durability;
use crate::pool::Pool;
use crate::recovery::{self, Recovered};
use crate::spread::{Held, Spread};
use crate::tree::{Core, Intent, PATIENCE, Tree};
use crate::txn::Txn;
use crate::waits::{Wait, will_wait};
use foreshore_base::sync::AtomicBool;
use foreshore_base::sync::Ordering::Relaxed;
use foreshore_base::{Lsn, TableId};
use foreshore_io::{LockError, Vfs};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long dropping a table waits for the transactions that use it.
const DROP_PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct Engine {
    core: Arc<Core>,
    /// What transactions keep of it.
    cores: Spread<Core>,
    catalog: Arc<Tree>,
    /// Existing tables that were opened.
    tables: Mutex<Tables>,
    /// Tables are created, given their hidden ones and taken out of the catalog one at a time. Held while a new one becomes
    /// durable, which those who open others need not wait for.
    changing: Mutex<()>,
    /// The id of the next table. Its mutex is held until the catalog knows that it was given.
    next_id: Mutex<u32>,
    /// Tables are dropped one at a time.
    dropping: Mutex<()>,
    options: Builder,
    vfs: Arc<dyn Vfs>,
    /// Transactions that have prepared, by their global ids.
    pub prepared: Mutex<BTreeMap<Vec<u8>, Txn>>,
    upkeep: Arc<Upkeep>,
    opened: Opened,
    closed: AtomicBool,
    /// Held until the last handle is gone; dropped last. What outlives it, such as the range of an ended transaction or a
    /// ticket, finds a closed log and no thread: it can write nothing.
    _lock: Box<dyn Send + Sync>,
}

/// By name.
type Tables = BTreeMap<String, Arc<Tree>>;

/// What opening took.
struct Opened {
    redo_bytes: u64,
    redo_records: u64,
    undone: u64,
    open_ns: u64,
}

impl Engine {
    pub fn open(vfs: Arc<dyn Vfs>, options: Builder) -> Result<Arc<Self>> {
        let started = Instant::now();
        meta::ensure_not_foreign(&*vfs, options.backup)?;
        let lock = lock(&*vfs)?;
        let recovered = recovery::open(&vfs, &options)?;
        let Recovered {
            core,
            directory,
            trees,
            next_id,
            redo_lsn,
            redo_bytes,
            redo_records,
            undone,
            prepared,
        } = recovered;
        let mut tables = Tables::new();
        let mut catalog = None;
        for tree in trees {
            if tree.id == CATALOG {
                catalog = Some(tree);
            } else {
                tables.insert(tree.name.clone(), tree);
            }
        }
        let upkeep = Upkeep::start(core.clone(), directory, &options, redo_lsn);
        Ok(Arc::new(Self {
            upkeep: upkeep.inspect_err(|_| core.forget_tables())?,
            cores: Spread::new(&core),
            core,
            catalog: catalog.expect("recovery opens or creates the catalog"),
            tables: Mutex::new(tables),
            changing: Mutex::new(()),
            next_id: Mutex::new(next_id),
            dropping: Mutex::new(()),
            options,
            vfs,
            prepared: Mutex::new(prepared),
            opened: Opened { redo_bytes, redo_records, undone, open_ns: started.elapsed().as_nanos() as u64 },
            closed: AtomicBool::new(false),
            _lock: lock,
        }))
    }

    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// A reference to the same, for a transaction to keep.
    pub fn hold_core(&self) -> Held<Core> {
        self.cores.hold()
    }

    pub fn describe(&self) -> String {
        self.vfs.describe()
    }

    pub fn durability(&self) -> Durability {
        self.options.durability
    }

    /// Waits until the log record that ends at `end` is as safe as `durability` promises.
    #[inline]
    pub fn acknowledge(&self, end: Lsn, durability: Durability) -> Result<()> {
        self.core.log.commit(end, durability)
    }

    /// The table `name`, created with these options if absent.
    pub fn table(&self, name: &str, options: TableOptions) -> Result<Arc<Tree>> {
        if name.is_empty() {
            return Err(Error::Argument("a table needs a name of at least one byte".into()));
        }
        let (len, max) = (name.len(), self.catalog.limits().key_bytes_max);
        if len > max {
            return Err(Error::Argument(format!(
                "the table's name has {len} bytes, at most {max} are allowed"
            )));
        }
        options.leaf_bytes.map_or(Ok(()), ensure_leaf_size)?;
        if let Some(tree) = self.existing_table(name) {
            return Ok(tree);
        }
        let _one_at_a_time = self.changing.lock();
        if let Some(tree) = self.existing_table(name) {
            return Ok(tree); // somebody was quicker
        }
        let pool = self.pool_for(options.leaf_bytes)?;
        let id = self.fresh_table_id()?;
        let index = options.index.unwrap_or(self.options.index);
        let tree = Arc::new(Tree::create(&self.core, pool, id, name.to_string(), index)?);
        let row = self.put_row(name, catalog::Row { id, index, chunks: None }, &tree)?;
        self.acknowledge(row, self.options.durability)?;
        self.tables.lock().insert(name.to_string(), tree.clone());
        Ok(tree)
    }

    /// The table `name`, if there is one.
    pub fn existing_table(&self, name: &str) -> Option<Arc<Tree>> {
        self.tables.lock().get(name).cloned()
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
        self.core.pools.of_size(leaf_bytes)
    }

    /// Gives `tree` its hidden table, before its first large value, of `len` bytes. Nobody waits for that to be durable:
    /// what is written there comes later in the log.
    pub fn make_chunks(&self, tree: &Arc<Tree>, len: usize) -> Result<()> {
        if tree.chunks.get().is_some() || len > VALUE_BYTES_MAX {
            return Ok(()); // what is too large will be refused
        }
        // Tables get their hidden ones one at a time; and this one is not dropped meanwhile, to come back by the row put here.
        let _one_at_a_time = self.changing.lock();
        if tree.chunks.get().is_some() {
            return Ok(());
        }
        if !self.existing_table(&tree.name).is_some_and(|known| Arc::ptr_eq(&known, tree)) {
            return Err(Error::TableDropped { name: tree.name.clone() });
        }
        let id = self.fresh_table_id()?;
        let chunks = Tree::create_for_chunks(&self.core, id, &tree.name)?;
        let row = catalog::Row { id: tree.id, index: tree.index_kind(), chunks: Some(id) };
        self.put_row(&tree.name, row, &chunks)?;
        tree.chunks.get_or_init(|| Arc::new(chunks));
        Ok(())
    }

    /// Puts the row that makes `new` exist: a crash before it leaves a leaf that the next open frees. If it cannot be put, the
    /// leaf goes at once. Returns the end of the row's record.
    fn put_row(&self, name: &str, row: catalog::Row, new: &Tree) -> Result<Lsn> {
        let put = self.catalog.autocommit(name.as_bytes(), Intent::Put(&row.encode()), PATIENCE);
        if put.is_err() {
            let _ = new.free_leaves(); // the error that counts is the first one
        }
        Ok(put?.expect("a put is always done"))
    }

    /// An id that no table ever had. That it was given is in the log before anything else of the table is.
    fn fresh_table_id(&self) -> Result<TableId> {
        let mut next = self.next_id.lock();
        self.catalog.autocommit(HIGHEST, Intent::Put(&next.to_le_bytes()), PATIENCE)?;
        *next += 1;
        Ok(TableId(*next - 1))
    }

    pub fn tables(&self) -> Result<Vec<String>> {
        Ok(self.tables.lock().keys().cloned().collect())
    }

    pub fn drop_table(&self, name: &str) -> Result<bool> {
        let _one_at_a_time = self.dropping.lock();
        let Some(tree) = self.existing_table(name) else { return Ok(false) };
        // Without the mutex of the tables: whoever uses others need not wait for the users of this one.
        // Where nothing can be logged it cannot be dropped, and who could not be rolled back uses it for ever.
        if !tree.users.close(DROP_PATIENCE, || self.core.log.room())? {
            return Err(Error::TableInUse { name: name.to_string() });
        }
        let changing = self.changing.lock();
        let mut tables = self.tables.lock();
        let removed = self.catalog.autocommit(name.as_bytes(), Intent::Remove, PATIENCE);
        // Durable before the first leaf goes: a table that still has its row has all its leaves.
        let durable =
            removed.and_then(|row| row.map_or(Ok(()), |row| self.acknowledge(row, Durability::Sync)));
        // The table stays, and is used again, or at least read.
        durable.inspect_err(|_| tree.users.open())?;
        tables.remove(name);
        drop((tables, changing)); // who uses others need not wait for the leaves of this one either
        let gone = || std::iter::once(&tree).chain(tree.chunks.get());
        gone().for_each(|tree| tree.mark_dropped());
        self.core.txns.slots.forget_dropped();
        tree.chunks
            .get()
            .into_iter()
            .for_each(|chunks| self.core.extents.free_table(chunks.id, &self.core.log));
        gone().try_for_each(|tree| tree.free_leaves())?;
        Ok(true)
    }

    /// Calls `look` with all tables, while none is created or dropped.
    pub fn with_tables<R>(&self, look: impl FnOnce(&mut dyn Iterator<Item = &Arc<Tree>>) -> R) -> R {
        let _none_is_dropped = self.dropping.lock();
        let _none_is_created = self.changing.lock();
        look(&mut self.tables.lock().values())
    }

    /// What the database was created with.
    pub fn meta(&self) -> Result<Meta> {
        meta::read(&*self.vfs)
    }

    pub fn abort(&self, number: u64) -> Result<bool> {
        let Some((owner, transaction)) = self.running().find(number) else { return Ok(false) };
        if !transaction.is_running() {
            return Ok(false);
        }
        self.core.txns.keys.interrupt(owner, number);
        transaction.abort()
    }

    /// Prepares a transaction, durably, and keeps it until it is told what to do.
    pub fn prepare(&self, mut txn: Txn, gid: &[u8]) -> Result<()> {
        // That waits for the device: not while others that prepare, or are decided, wait for the mutex.
        if let Err(failed) = txn.await_extents() {
            return txn.roll_back().and(Err(failed));
        }
        let mut prepared = self.prepared.lock();
        let end = if prepared.contains_key(gid) {
            let gid = gid.escape_ascii();
            Err(Error::Argument(format!("\"{gid}\" is the id of a prepared transaction already")))
        } else {
            txn.prepare(gid)
        };
        let end = match end {
            Ok(end) => end,
            Err(refused) => {
                drop(prepared);
                return txn.roll_back().and(Err(refused));
            }
        };
        prepared.insert(gid.to_vec(), txn);
        drop(prepared);
        self.acknowledge(end, Durability::Sync)
    }

    pub fn commit_prepared(&self, gid: &[u8]) -> Result<()> {
        // Its end is in the log before another one may prepare under its id.
        let mut prepared = self.prepared.lock();
        let end = take_prepared(&mut prepared, gid)?.commit()?;
        drop(prepared);
        end.map_or(Ok(()), |end| self.acknowledge(end, Durability::Sync))
    }

    pub fn rollback_prepared(&self, gid: &[u8]) -> Result<()> {
        let txn = take_prepared(&mut self.prepared.lock(), gid)?;
        txn.roll_back()
    }

    pub fn sync(&self) -> Result<()> {
        self.core.log.commit(self.core.log.reserved(), Durability::Sync)
    }

    pub fn running(&self) -> &Running {
        &self.upkeep.running
    }

    pub fn checkpoint(&self) -> Result<()> {
        self.upkeep.checkpoint()
    }

    pub fn check(&self) -> Result<CheckReport> {
        let trees: Vec<_> =
            self.with_tables(|tables| std::iter::once(self.catalog.clone()).chain(tables.cloned()).collect());
        let mut report = CheckReport::default();
        let mut leaves = 0;
        for tree in trees {
            let table = match check_whole(&tree) {
                Err(_) if tree.is_dropped() => continue, // meanwhile
                checked => checked?,
            };
            leaves += table.leaves + table.large_leaves;
            report.tables.push(table);
        }
        let _none_is_half_dropped = self.dropping.lock();
        report.stray_pages = self.core.pools.stats().pages.saturating_sub(leaves);
        Ok(report)
    }

    pub fn stats(&self) -> Stats {
        let (pool, log) = (self.core.pools.stats(), self.core.log.stats());
        let locks = self.core.txns.keys.stats();
        let (commits, rollbacks) = self.core.txns.slots.counts();
        let tables = self.tables.lock();
        let indexes: Vec<_> = tables.values().map(|tree| index_stats(tree)).collect();
        let index_bytes = indexes.iter().map(|i| i.bytes).sum::<u64>() + self.catalog.index_bytes();
        let (blob_file_bytes, blob_free_bytes) = self.core.extents.bytes();
        Stats {
            log_bytes: log.bytes,
            log_records: log.records,
            log_syncs: log.syncs,
            log_waits: log.waits,
            log_durable_lsn: self.core.log.durable().0,
            log_to_redo_bytes: self.core.log.reserved().0.saturating_sub(self.upkeep.redo_lsn().0),
            pool_frames: pool.frames,
            pool_resident: pool.frames - pool.frames_free,
            pool_dirty: pool.frames_dirty,
            pool_reads: pool.loads,
            pool_reads_ahead: pool.ahead,
            pool_reads_ahead_used: pool.ahead_used,
            pool_writes: pool.cleaned,
            pool_evictions: pool.evictions,
            pages: pool.pages,
            leaf_file_bytes: pool.file_bytes,
            blob_file_bytes,
            blob_free_bytes,
            index_bytes,
            indexes,
            splits: self.core.splits.load(Relaxed),
            absorbs: self.core.absorbs.load(Relaxed),
            checkpoints: self.upkeep.checkpoints(),
            redo_bytes: self.opened.redo_bytes,
            redo_records: self.opened.redo_records,
            open_ns: self.opened.open_ns,
            undone_at_open: self.opened.undone,
            commits,
            rollbacks,
            transactions: self.core.txns.slots.leased() as u64,
            snapshots: self.core.txns.snapshots.open(),
            image_bytes: self.core.txns.keys.image_bytes(),
            lock_waits: locks.waits,
            deadlocks: locks.deadlocks,
            lock_timeouts: locks.timeouts,
            waits: self.waits(&tables),
            tables: tables.len() as u64,
        }
    }

    /// Where threads waited: the causes common to all tables, then the locks of each table that was waited for.
    fn waits(&self, tables: &Tables) -> Vec<Wait> {
        let common = [self.core.extents.syncs.read("large values"), self.core.latch_waits.read("leaf latch")];
        let locks = tables.values().map(|tree| tree.lock_waits.read(format!("locks of {}", tree.name)));
        let all = self.core.log.waits().into_iter().chain(self.core.pools.waits()).chain(common);
        all.chain(locks.filter(|wait| wait.count > 0)).collect()
    }

    /// Writes everything out and stops the threads. The second call does nothing.
    pub fn close(&self) -> Result<()> {
        if self.closed.swap(true, Relaxed) {
            return Ok(());
        }
        will_wait(); // for the device
        self.core.pools.stop_readers();
        self.upkeep.stop();
        for (_, txn) in std::mem::take(&mut *self.prepared.lock()) {
            txn.abandon(); // it stays prepared
        }
        self.core.txns.slots.keep_nothing();
        self.core.sweep_all();
        self.core.retry_stuck(|_| true);
        if self.core.txns.is_idle() {
            debug_assert_eq!(
                self.core.txns.keys.check_empty(),
                Ok(()),
                "nothing is locked when nobody is there"
            );
        }
        let written = self.checkpoint();
        let logged = self.core.log.close();
        written.and(logged)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Whoever wants to know calls `close`.
        let _ = self.close();
        // What could not be cleared or undone, because the log or a file failed, refers to tables, which refer to the core, which
        // holds it.
        self.core.forget_tables();
        // A ticket may keep the core.
        self.core.pools.stop_threads();
    }
}

/// Checks a table, and its large values.
fn check_whole(tree: &Arc<Tree>) -> Result<TableReport> {
    let mut report = tree.check()?;
    tree.check_large(&mut report)?;
    Ok(report)
}

fn take_prepared(prepared: &mut BTreeMap<Vec<u8>, Txn>, gid: &[u8]) -> Result<Txn> {
    let unknown = || Error::UnknownTransaction { gid: gid.escape_ascii().to_string() };
    prepared.remove(gid).ok_or_else(unknown)
}

fn index_stats(tree: &Tree) -> IndexStats {
    let bytes = tree.index_bytes() + tree.chunks.get().map_or(0, |chunks| chunks.index_bytes());
    IndexStats {
        table: tree.name.clone(),
        index: tree.index_kind(),
        bytes,
        leaf_bytes: tree.leaf_bytes() as u64,
    }
}

fn lock(vfs: &dyn Vfs) -> Result<Box<dyn Send + Sync>> {
    vfs.lock(meta::LOCK).map_err(|e| match e {
        LockError::Held(pid) => Error::Locked { dir: vfs.describe(), pid },
        LockError::Io(e) => {
            let only_readable =
                matches!(e.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem);
            let hint = if only_readable { ", which must be writable, also to be read" } else { "" };
            Error::io(format!("locking {}{hint}", vfs.describe()), &e)
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::{Database, Durability};
    use foreshore_io::{MemVfs, SimDisk};
    use std::sync::{Arc, mpsc};
    use std::thread;
    use std::time::Duration;

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

    /// Who opens a table need not wait until another one, which somebody creates, is durable.
    #[test]
    fn existing_tables_are_opened_while_one_is_created() {
        let db = Database::builder().durability(Durability::Sync).open_on(Arc::new(MemVfs::new())).unwrap();
        let there = db.byte_table("there").unwrap();
        let log = &db.engine.core().log;
        let before = log.stats().waits;
        let hole = log.reserve(8); // nothing behind it becomes durable
        thread::scope(|scope| {
            let create = scope.spawn(|| db.byte_table("new"));
            while log.stats().waits == before {
                thread::yield_now();
            }
            let (opened, waits) = mpsc::channel();
            let db = &db;
            scope.spawn(move || opened.send(db.byte_table("there")));
            let found = waits.recv_timeout(Duration::from_secs(10)).expect("it waits for the other").unwrap();
            assert!(Arc::ptr_eq(&found.tree, &there.tree));
            assert!(db.engine.existing_table("new").is_none(), "its row may yet be lost");
            hole.abandon();
            create.join().unwrap().unwrap();
        });
        assert_eq!(db.tables().unwrap(), ["new", "there"]);
    }

    /// A database that fails, wherever that is, gives its memory back when it is dropped: a large value that was not
    /// committed, and could not be removed, does not keep its table.
    #[test]
    fn nothing_stays_of_a_database_that_failed() {
        let write = |disk: &SimDisk| -> crate::Result<_> {
            let options = Database::builder().leaf_bytes(4096).cache_bytes(64 * 4096);
            let options = options.ring_bytes(64 << 10).segment_bytes(64 << 10).log_bytes(64 << 10);
            let db = options.open_on(Arc::new(disk.clone()))?;
            let core = Arc::downgrade(db.engine.core());
            let table = db.byte_table("t")?;
            let written = (0..4).try_for_each(|version| table.put(b"k", &vec![version; 40_000]));
            drop((db, table));
            Ok((core, written.is_err()))
        };
        let whole = SimDisk::new(1);
        write(&whole).unwrap();
        let mut failed = 0;
        for at in 1..=whole.events() {
            let disk = SimDisk::new(1);
            disk.crash_at(at);
            if let Ok((core, has_failed)) = write(&disk) {
                assert_eq!(core.strong_count(), 0, "a failure at event {at}");
                failed += usize::from(has_failed);
            }
        }
        assert!(failed > 0, "some failed in the middle of a write");
    }
}
