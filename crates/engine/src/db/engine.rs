//! One open database: its parts, its checks and checkpoints, its end.

use crate::core::Core;
use crate::db::meta::{self, Meta};
use crate::db::options::Builder;
use crate::db::prepared::Prepared;
use crate::db::running::Running;
use crate::db::stats::{CheckReport, IndexStats, Stats, TableReport};
use crate::db::tables::Tables;
use crate::db::upkeep::Upkeep;
use crate::error::{Error, Result};
use crate::log::Durability;
use crate::recovery::{self, Recovered, Work};
use crate::spread::{Held, Spread};
use crate::threads::is_of_an_engine;
use crate::tree::Tree;
use crate::txn::Txn;
use crate::waits::{Wait, lock_or_wait, will_wait};
use foreshore_base::sync::Ordering::Relaxed;
use foreshore_base::{Lsn, seeded_bug};
use foreshore_io::{LockError, Vfs};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Instant;
use std::{io, mem};

pub(crate) struct Engine {
    core: Arc<Core>,
    /// What transactions keep of it.
    cores: Spread<Core>,
    pub tables: Tables,
    pub prepared: Prepared,
    durability: Durability,
    vfs: Arc<dyn Vfs>,
    upkeep: Arc<Upkeep>,
    /// What there was to do when it was opened, and how long that took.
    recovery: Work,
    open_ns: u64,
    /// What came of closing it. Held while that is under way.
    closed: Mutex<Option<Result<()>>>,
    /// Held until the last handle is gone; dropped last. What outlives it, such as the range of an ended transaction or a
    /// ticket, finds a closed log and no thread: it can write nothing.
    _lock: Box<dyn Send + Sync>,
}

impl Engine {
    pub fn open(vfs: Arc<dyn Vfs>, options: Builder) -> Result<Arc<Self>> {
        let started = Instant::now();
        meta::ensure_not_foreign(&*vfs, options.backup)?;
        let lock = lock(&*vfs)?;
        let Recovered { vfs, core, directory, trees, next_id, redo_lsn, work, prepared } =
            recovery::open(&vfs, &options)?;
        let upkeep = Upkeep::start(core.clone(), directory, &options, redo_lsn);
        Ok(Arc::new(Self {
            upkeep: upkeep.inspect_err(|_| core.forget_tables())?,
            cores: Spread::new(&core),
            vfs,
            durability: options.durability,
            prepared: Prepared::new(prepared),
            tables: Tables::new(core.clone(), trees, next_id, options),
            core,
            recovery: work,
            open_ns: started.elapsed().as_nanos() as u64,
            closed: Mutex::new(None),
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
        self.durability
    }

    /// Waits until the log record that ends at `end` is as safe as `durability` promises.
    #[inline]
    pub fn acknowledge(&self, end: Lsn, durability: Durability) -> Result<()> {
        self.core.log.commit(end, durability)
    }

    /// How far the log must be safe before it may be told, with this durability, what was done up to `end`. Where that was nothing, what
    /// was read may be by others, who give their locks back before it is durable: so it is all there is.
    pub fn told_at(&self, end: Option<Lsn>, durability: Durability) -> Option<Lsn> {
        let reads_durably = durability == Durability::Sync && !seeded_bug("txn_reader_acknowledged_early");
        end.or_else(|| reads_durably.then(|| self.core.log.logged()))
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
    pub fn prepare(&self, txn: Txn, gid: &[u8]) -> Result<()> {
        let end = self.prepared.add(txn, gid)?;
        self.acknowledge(end, Durability::Sync)
    }

    pub fn commit_prepared(&self, gid: &[u8]) -> Result<()> {
        let end = self.prepared.commit(gid).map_err(|error| self.judge_unknown(error))?;
        end.map_or(Ok(()), |end| self.acknowledge(end, Durability::Sync))
    }

    pub fn roll_back_prepared(&self, gid: &[u8]) -> Result<()> {
        self.prepared.roll_back(gid).map_err(|error| self.judge_unknown(error))
    }

    /// Where nothing can be logged any more, the next open knows which transactions have prepared, and not this one. And who is told that
    /// there is none may forget what was decided: the commit that has just taken it from the list is durable by then.
    fn judge_unknown(&self, error: Error) -> Error {
        let log = &self.core.log;
        let ensure_durable =
            || log.commit(log.reserved(), Durability::Sync).and_then(|()| log.ensure_works());
        match error {
            Error::UnknownTransaction { .. } => ensure_durable().err().unwrap_or(error),
            error => error,
        }
    }

    pub fn sync(&self) -> Result<()> {
        self.ensure_not_forked()?; // nobody there carries the log
        self.core.log.commit(self.core.log.logged(), Durability::Sync)
    }

    pub fn running(&self) -> &Running {
        &self.upkeep.running
    }

    pub fn checkpoint(&self) -> Result<()> {
        self.ensure_not_forked()?;
        self.upkeep.checkpoint()
    }

    /// See [`Log::ensure_not_forked`](crate::log::Log::ensure_not_forked).
    pub fn ensure_not_forked(&self) -> Result<()> {
        self.core.log.ensure_not_forked()
    }

    pub fn check(&self) -> Result<CheckReport> {
        // Their names are of one moment: two that change places meanwhile are not called the same.
        let named = |tree: &Arc<Tree>| (tree.name().to_owned(), tree.clone());
        let tables: Vec<_> = self.tables.with_all(|tables| tables.map(named).collect());
        let mut report = CheckReport::default();
        let mut leaves = 0;
        for (name, tree) in std::iter::once(named(self.tables.catalog())).chain(tables) {
            let table = match check_whole(&tree) {
                Err(_) if tree.is_dropped() => continue, // meanwhile
                checked => checked?,
            };
            leaves += table.leaves + table.large_leaves;
            report.tables.push(TableReport { name, ..table });
        }
        let _none_is_half_freed = self.core.txns.spills.keep_from_freeing();
        for hidden in self.core.txns.spills.tables() {
            leaves += hidden.count_leaves();
        }
        let _none_is_half_dropped = self.tables.keep_from_dropping();
        report.stray_pages = self.core.pools.stats().pages.saturating_sub(leaves);
        Ok(report)
    }

    pub fn stats(&self) -> Stats {
        let (pool, log) = (self.core.pools.stats(), self.core.log.stats());
        let locks = self.core.txns.keys.stats();
        let (commits, rollbacks) = self.core.txns.slots.counts();
        // Who adds up what tables have keeps nobody from the list.
        let tables: Vec<_> = self.tables.known().values().cloned().collect();
        let indexes: Vec<_> = tables.iter().map(|tree| index_stats(tree)).collect();
        let hidden = self.core.txns.spills.tables();
        let others = hidden.iter().chain([self.tables.catalog()]).map(|tree| tree.index_bytes()).sum::<u64>();
        let index_bytes = indexes.iter().map(|i| i.bytes).sum::<u64>() + others;
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
            redo_bytes: self.recovery.redo_bytes,
            redo_records: self.recovery.redo_records,
            open_ns: self.open_ns,
            undone_at_open: self.recovery.undone,
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

    /// Where threads waited: the causes common to all tables, then the locks of each table that was waited for, and those waited for before
    /// what gave way in a deadlock is done again.
    fn waits(&self, tables: &[Arc<Tree>]) -> Vec<Wait> {
        let common = [self.core.extents.syncs.read("large values"), self.core.latch_waits.read("leaf latch")];
        let again = self.core.txns.waits_again.read("locks, after deadlocks");
        let locks = tables.iter().map(|tree| tree.lock_waits.read(format!("locks of {}", tree.name())));
        let all = self.core.log.waits().into_iter().chain(self.core.pools.waits()).chain(common);
        all.chain(locks.chain([again]).filter(|wait| wait.count > 0)).collect()
    }

    /// Writes everything out and stops the threads. A second call waits for the first, and tells the same.
    pub fn close(&self) -> Result<()> {
        self.ensure_not_forked()?;
        let closed = match is_of_an_engine() {
            // The first call may wait for this thread's end. What closes the database here is a task that it wakes.
            true => self.closed.try_lock(),
            false => Some(lock_or_wait(&self.closed)),
        };
        closed.map_or(Ok(()), |mut closed| closed.get_or_insert_with(|| self.write_and_stop()).clone())
    }

    fn write_and_stop(&self) -> Result<()> {
        will_wait(); // for the device
        self.core.pools.stop_readers();
        self.upkeep.stop();
        self.prepared.abandon();
        self.core.txns.slots.keep_nothing();
        self.core.sweep_all();
        self.core.retry_stuck(|_| true);
        // Whoever panics already gets here by a destructor, and its own message is the one that counts.
        if !std::thread::panicking() {
            debug_assert_eq!(self.core.txns.check_left(), Ok(()), "nothing is locked when nobody is there");
        }
        let written = self.upkeep.last_checkpoint();
        let logged = self.core.log.close();
        self.core.pools.end_cleaning(&Error::closed());
        written.and(logged)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if self.ensure_not_forked().is_err() {
            // It is the parent's. There are no threads to be stopped here, and nobody else to be told.
            mem::forget((self.core.clone(), self.upkeep.clone()));
            return;
        }
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

fn index_stats(tree: &Tree) -> IndexStats {
    let bytes = tree.index_bytes() + tree.chunks.get().map_or(0, |chunks| chunks.index_bytes());
    IndexStats {
        table: tree.name().to_owned(),
        index: tree.index_kind(),
        bytes,
        leaf_bytes: tree.leaf_bytes() as u64,
    }
}

pub(crate) fn lock(vfs: &dyn Vfs) -> Result<Box<dyn Send + Sync>> {
    vfs.lock(meta::LOCK).map_err(|e| match e {
        LockError::Held(pid) => Error::Locked { dir: vfs.describe(), pid },
        LockError::Io(e) => {
            let only_readable =
                matches!(e.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem);
            let hint = match only_readable {
                true => " (the directory and the files in it must be writable, also to be read)",
                false => "",
            };
            Error::io(format!("locking the file {} of {}{hint}", meta::LOCK, vfs.describe()), &e)
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::{ByteTable, Database, Durability, Error, TableOptions};
    use foreshore_base::sync::{AtomicBool, Ordering::SeqCst};
    use foreshore_io::sim::{Call, Intercepted};
    use foreshore_io::{MemVfs, SimDisk};
    use std::pin::pin;
    use std::sync::{Arc, mpsc};
    use std::task::{Context, Wake};
    use std::thread;
    use std::time::Duration;

    /// Whoever has closed a database may copy or remove its files, whoever else closes it at the same time.
    #[test]
    fn who_closes_it_too_waits_until_it_is_closed() {
        let (fails, reached) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let device = Arc::new(parking_lot::Mutex::new(()));
        let (its, has_reached, its_device) = (fails.clone(), reached.clone(), device.clone());
        let vfs = Intercepted::new(MemVfs::new(), move |call, name, go| {
            if call == Call::Write && name == "leaves.db" {
                has_reached.store(true, SeqCst);
                drop(its_device.lock());
                if its.load(SeqCst) {
                    return Err(std::io::ErrorKind::Other.into());
                }
            }
            go()
        });
        let db = Database::builder().cache_bytes(1 << 20).open_on(Arc::new(vfs)).unwrap();
        db.byte_table("t").unwrap().put(b"k", b"v").unwrap();
        let stands = device.lock();
        thread::scope(|scope| {
            let first = scope.spawn(|| db.clone().close());
            while !reached.load(SeqCst) {
                thread::yield_now();
            }
            let second = scope.spawn(|| db.clone().close());
            thread::sleep(Duration::from_millis(50));
            assert!(!second.is_finished(), "the first one still writes");
            fails.store(true, SeqCst);
            drop(stands);
            for closed in [first, second] {
                let closed = closed.join().unwrap();
                assert!(matches!(closed, Err(Error::Poisoned { .. })), "{closed:?}");
            }
        });
        assert!(matches!(db.close(), Err(Error::Poisoned { .. })));
    }

    /// A database that says when its files have been changed, and changes a row of this table, once, when its directory is.
    fn watched() -> (Database, Arc<parking_lot::Mutex<Option<ByteTable>>>, Arc<AtomicBool>) {
        let late = Arc::new(parking_lot::Mutex::new(None::<ByteTable>));
        let has_written = Arc::new(AtomicBool::new(false));
        let (its_late, writes) = (late.clone(), has_written.clone());
        let vfs = Intercepted::new(MemVfs::new(), move |call, name, go| {
            if call == Call::Write && name.starts_with("directory") {
                let table = its_late.lock().take();
                table.map_or(Ok(()), |table| table.put(b"k", b"late")).unwrap();
            }
            if !matches!(call, Call::Read | Call::Len | Call::List) {
                writes.store(true, SeqCst);
            }
            go()
        });
        let tiny = Database::builder().leaf_bytes(4096).cache_bytes(64 * 4096).ring_bytes(1 << 20);
        let db = tiny.durability(Durability::Relaxed).open_on(Arc::new(vfs)).unwrap();
        (db, late, has_written)
    }

    /// Whoever has closed a database may copy its files.
    #[test]
    fn what_was_closed_gets_no_checkpoint_and_no_file() {
        let (db, _, has_written) = watched();
        db.byte_table("t").unwrap().put(b"k", b"v").unwrap();
        db.clone().close().unwrap();
        has_written.store(false, SeqCst);
        let refused = db.checkpoint();
        assert!(!has_written.load(SeqCst), "a checkpoint was written: {refused:?}");
        let says = |refused: &crate::Result<()>| matches!(refused, Err(Error::Poisoned { cause }) if cause == "it was closed");
        assert!(says(&refused), "{refused:?}");
        let large_leaves = TableOptions::new().leaf_bytes(16 << 10);
        let refused = db.byte_table_with("large", large_leaves).map(drop);
        assert!(!has_written.load(SeqCst), "a file was made: {refused:?}");
        assert!(says(&refused), "{refused:?}");
    }

    /// Nor does the cleaner write, for those who still read and need frames, leaves that were changed between the last checkpoint and the
    /// log's end.
    #[test]
    fn reads_of_what_was_closed_write_nothing() {
        let (db, late, has_written) = watched();
        let [rows, table] = ["rows", "t"].map(|name| db.byte_table(name).unwrap());
        (0..1000_u32).for_each(|row| rows.put(&row.to_be_bytes(), &[0; 900]).unwrap());
        db.checkpoint().unwrap();
        table.put(b"k", b"early").unwrap();
        *late.lock() = Some(table.clone());
        db.clone().close().unwrap();
        assert!(db.stats().pool_dirty > 0, "the cleaner would have something to do");
        has_written.store(false, SeqCst);
        assert_eq!((0..3).map(|_| rows.range(..).count()).sum::<usize>(), 3000);
        assert!(!has_written.load(SeqCst), "a leaf was written");
        assert_eq!(table.get(b"k").unwrap().as_deref(), Some(&b"late"[..]));
    }

    /// Closes the database where it is woken.
    struct Closes(Database, mpsc::Sender<crate::Result<()>>);

    impl Wake for Closes {
        fn wake(self: Arc<Self>) {
            self.1.send(self.0.clone().close()).unwrap();
        }
    }

    /// A task that closes it, too, is woken by a thread for which the first call waits.
    #[test]
    fn a_task_may_close_what_is_being_closed() {
        let db = Database::builder().cache_bytes(1 << 20).open_on(Arc::new(MemVfs::new())).unwrap();
        let core = db.engine.core().clone();
        let hole = core.log.reserve(8); // no flight carries it
        let mut ticket = pin!(db.sync_async());
        let (closed, is_closed) = mpsc::channel();
        let waker = Arc::new(Closes(db.clone(), closed)).into();
        assert!(ticket.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let first = thread::spawn({
            let db = db.clone();
            move || db.close()
        });
        while !db.engine.closed.is_locked() {
            thread::yield_now();
        }
        hole.abandon();
        is_closed.recv_timeout(Duration::from_secs(60)).expect("each waits for the other").unwrap();
        first.join().unwrap().unwrap();
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
