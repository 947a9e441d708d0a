//! What an open database needs now and then: checkpoints that keep its log short, versions that nobody needs let go,
//! idle transactions rolled back, and rollbacks that were broken off gone on with. A thread of its own takes the checkpoints, which
//! last as long as the device takes for them. Another one clears up and undoes, which may be as much as a transaction has changed, and
//! has to be read for that. What must not wait for either have threads of their own: `Buffered` commits to be sent on their way, idle
//! transactions, which others wait for, and old versions, which are not to take more memory than they may.
//!
//! The threads share these parts with the database, and not the database itself: so they are never the last to hold it, and
//! whoever drops the last handle closes the database, at once and completely. (A thread that takes a reference only in
//! passing can become the last holder; the directory then stays locked after the drop, until that thread is done.)

use crate::core::Core;
use crate::db::options::Builder;
use crate::db::running::Running;
use crate::error::{Error, Result};
use crate::log::Durability;
use crate::pool::{Directory, DirectoryEntry as Entry, Wal, with_space};
use crate::threads::Threads;
use crate::txn::Stuck;
use crate::waits::lock_or_wait;
use foreshore_base::Lsn;
use foreshore_base::sync::AtomicU64;
use foreshore_base::sync::Ordering::Relaxed;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the threads look.
const POLL: Duration = Duration::from_millis(50);

/// How often it tries to go on with rollbacks that were broken off, for want of space or by a read that failed.
const RETRY: Duration = Duration::from_secs(1);

pub(crate) struct Upkeep {
    core: Arc<Core>,
    directory: Arc<Directory>,
    pub running: Running,
    log_bytes: u64,
    old_version_bytes: u64,
    /// Checkpoints are taken one at a time. Was it the last one, since the database closes?
    checkpointing: Mutex<bool>,
    redo_lsn: AtomicU64,
    /// Where the log ended when the last checkpoint began.
    checkpointed: AtomicU64,
    checkpoints: AtomicU64,
    stopped: Mutex<bool>,
    stopping: Condvar,
    threads: Threads,
}

impl Upkeep {
    /// Begins; a restart would redo the log from `redo` on. Errors: the system has no thread left.
    pub fn start(
        core: Arc<Core>,
        directory: Arc<Directory>,
        options: &Builder,
        redo: Lsn,
    ) -> Result<Arc<Self>> {
        // Log files that the last run left behind are spare from now on.
        core.log.truncate(redo, options.log_bytes);
        let upkeep = Arc::new(Self {
            core,
            directory,
            running: Running::new(),
            log_bytes: options.log_bytes,
            old_version_bytes: options.old_version_bytes,
            checkpointing: Mutex::new(false),
            redo_lsn: AtomicU64::new(redo.0),
            checkpointed: AtomicU64::new(redo.0),
            checkpoints: AtomicU64::new(0),
            stopped: Mutex::new(false),
            stopping: Condvar::new(),
            threads: Threads::default(),
        });
        let mut retried = Instant::now();
        upkeep
            .keep_doing("foreshore-upkeep", move |upkeep| upkeep.clear_up(&mut retried))
            .and_then(|()| upkeep.keep_doing("foreshore-versions", Self::keep_versions_few))
            .and_then(|()| upkeep.keep_doing("foreshore-checkpoint", Self::checkpoint_if_due))
            .and_then(|()| upkeep.keep_doing("foreshore-nudge", |upkeep| upkeep.core.log.nudge()))
            .and_then(|()| upkeep.keep_doing("foreshore-idle", |upkeep| upkeep.running.abort_idle()))
            .inspect_err(|_| upkeep.stop())?;
        Ok(upkeep)
    }

    /// Starts a thread that does `work` now and then, until the database closes.
    fn keep_doing(self: &Arc<Self>, name: &str, mut work: impl FnMut(&Self) + Send + 'static) -> Result<()> {
        let (shared, log) = (self.clone(), self.core.log.clone());
        let run = move || {
            while !shared.sleep_or_stop() {
                work(&shared);
            }
        };
        // Without its threads nobody would keep the log short, or send commits on their way: the panic of one stops the log.
        let stop = move || log.poison(&Error::Poisoned { cause: "a thread of the upkeep panicked".into() });
        self.threads.start(name, run, stop)
    }

    /// Stops the threads, and waits for their end. The second call does nothing.
    pub fn stop(&self) {
        *self.stopped.lock() = true;
        self.stopping.notify_all();
        self.threads.join();
    }

    fn clear_up(&self, retried: &mut Instant) {
        self.core.retry_stuck(Stuck::is_due);
        if retried.elapsed() >= RETRY {
            self.core.go_on_undoing();
            *retried = Instant::now();
        }
    }

    /// Waits until the next look; `true` when the database closes.
    fn sleep_or_stop(&self) -> bool {
        let mut stopped = self.stopped.lock();
        if !*stopped {
            self.stopping.wait_for(&mut stopped, POLL);
        }
        *stopped
    }

    /// Brings `settled` up to date, frees images that no snapshot needs, and gives up snapshots when old versions take too much memory.
    fn keep_versions_few(&self) {
        self.core.txns.settle(&self.core.log);
        self.core.sweep_images();
        self.core.bound_images(self.old_version_bytes);
    }

    fn checkpoint_if_due(&self) {
        // A long transaction keeps the log long: what counts is what was logged since the last checkpoint, which may be somebody
        // else's, and have begun only now.
        let new = self.core.log.reserved().0.saturating_sub(self.checkpointed.load(Relaxed));
        // On a full disk its own files are what there is to be had: whoever makes room by removing rows logs that.
        let oldest_txn = || self.core.txns.settle(&self.core.log);
        if new > self.log_bytes / 2 || self.core.log.could_do_with_less(oldest_txn) {
            // A failure here has poisoned the log or is a full disk: writers get it from the log, with its reason.
            let _ = self.checkpoint();
        }
    }

    /// Writes out what is older than now, and moves the point from which a restart would redo. That is then done: a log file
    /// that the disk refuses to remove is no failure, but tried again by the next checkpoint. After the last one there is none.
    pub fn checkpoint(&self) -> Result<()> {
        let was_last = lock_or_wait(&self.checkpointing);
        if *was_last { Err(Error::closed()) } else { self.write_out(self.log_bytes) }
    }

    /// The same, for the last time: whoever has closed a database may copy its files. Those of the log are not kept to be written again, which
    /// would make a database that is closed, and never opened again, many times as large as what it holds.
    pub fn last_checkpoint(&self) -> Result<()> {
        let mut was_last = lock_or_wait(&self.checkpointing);
        *was_last = true;
        self.write_out(0)
    }

    /// Keeps files of the log with so many bytes in all, needed or not.
    fn write_out(&self, log_bytes_kept: u64) -> Result<()> {
        let now = self.core.log.reserved();
        self.core.pools.flush_until(now)?;
        // The log is kept from the oldest transaction on: its undo is there (X3 in `txn`). Those that have ended may
        // have begun before: a restart takes them for ended (A1 in `recovery/analysis.rs`), so their ends must be durable first.
        let oldest_txn = self.core.txns.settle(&self.core.log);
        let ends = self.core.log.reserved();
        // Either may be late to say where it begins, and name a place from before the last checkpoint; it begins above that.
        let redo = self.core.pools.oldest_rec_lsn().min(oldest_txn).max(self.redo_lsn());
        self.core.log.commit(ends.max(redo), Durability::Sync)?;
        with_space(&*self.core.log, || self.directory.append(&[Entry::Redo(redo)]))
            .map_err(|e| self.judge(e))?;
        self.redo_lsn.store(redo.0, Relaxed);
        self.checkpointed.store(now.0, Relaxed);
        self.core.log.truncate(redo, log_bytes_kept);
        self.checkpoints.fetch_add(1, Relaxed);
        Ok(())
    }

    /// A full disk changes nothing; after any other failure nobody knows what the directory holds (rule 10).
    fn judge(&self, error: Error) -> Error {
        if !matches!(error, Error::Full { .. }) {
            self.core.log.poison(&error);
        }
        error
    }

    /// From where a restart would redo the log.
    pub fn redo_lsn(&self) -> Lsn {
        Lsn(self.redo_lsn.load(Relaxed))
    }

    /// Checkpoints taken since the database was opened.
    pub fn checkpoints(&self) -> u64 {
        self.checkpoints.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ByteTable, Database, Transaction, TransactionOptions};
    use foreshore_base::sync::AtomicBool;
    use foreshore_io::sim::{Call, Intercepted};
    use foreshore_io::{MemVfs, SimDisk};

    /// A ghost that a scan has locked, and that nothing but the scan keeps.
    fn locked_ghost(db: &Database, table: &ByteTable) -> Transaction {
        table.put(b"k", b"v").unwrap();
        let snapshot = db.snapshot().unwrap();
        table.remove(b"k").unwrap();
        let scan = db.begin().unwrap();
        assert_eq!(scan.bytes(table).range(..).count(), 0);
        drop(snapshot);
        scan
    }

    /// Without its threads a database would grow its log for ever, and leave commits in memory.
    #[test]
    fn a_panic_stops_the_database() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        let directory = Arc::new(Directory::create(Arc::new(MemVfs::new())).unwrap());
        let core = db.engine.core().clone();
        let upkeep = Upkeep::start(core, directory, &Database::builder(), Lsn::ZERO).unwrap();
        upkeep.keep_doing("foreshore-test", |_| panic!("a test")).unwrap();
        let puts = std::iter::repeat_with(|| table.put(b"k", b"v"));
        let refused = puts.filter_map(Result::err).next().expect("it goes on until one fails");
        upkeep.stop();
        assert!(matches!(&refused, Error::Poisoned { cause } if cause.contains("panicked")), "{refused:?}");
    }

    #[test]
    fn a_closed_database_keeps_few_files_of_the_log() {
        let disk = SimDisk::new(1);
        let small = Database::builder().leaf_bytes(4096).ring_bytes(64 << 10).segment_bytes(64 << 10);
        let db = small.log_bytes(4 << 20).open_on(Arc::new(disk.clone())).unwrap();
        let table = db.byte_table("t").unwrap().with_durability(Durability::Buffered);
        (0..4000u32).for_each(|i| table.put(&(i % 50).to_be_bytes(), &[i as u8; 900]).unwrap());
        let files = || disk.names().iter().filter(|name| name.starts_with("wal-")).count();
        let of_running = files();
        drop(table);
        db.close().unwrap();
        assert!(of_running > 30 && files() < 8, "{of_running} and {}", files());
    }

    /// A device that makes no such call of the leaves' file while the mutex is held, and says when one has come.
    fn standing_at(stops: Call) -> (Intercepted, Arc<Mutex<()>>, Arc<AtomicBool>) {
        let (device, has_come) = (Arc::new(Mutex::new(())), Arc::new(AtomicBool::new(false)));
        let (its, comes) = (device.clone(), has_come.clone());
        let slow = Intercepted::new(MemVfs::new(), move |call, name, go| {
            let _passes = (call == stops && name == "leaves.db").then(|| {
                comes.store(true, Relaxed);
                its.lock()
            });
            go()
        });
        (slow, device, has_come)
    }

    fn await_call(has_come: &AtomicBool) {
        let since = Instant::now();
        while !has_come.load(Relaxed) {
            assert!(since.elapsed() < Duration::from_secs(20), "a thread of the upkeep has nothing to do");
            std::thread::yield_now();
        }
    }

    /// A checkpoint takes as long as the device does. Who waits for what an idle transaction has locked does not wait for that.
    #[test]
    fn an_idle_transaction_is_rolled_back_beside_a_checkpoint() {
        let (slow, device, has_begun) = standing_at(Call::Write);
        let tiny = Database::builder()
            .leaf_bytes(4096)
            .cache_bytes(64 * 4096)
            .ring_bytes(64 << 10)
            .segment_bytes(64 << 10);
        let db = tiny.log_bytes(64 << 10).durability(Durability::Relaxed).open_on(Arc::new(slow)).unwrap();
        let table = db.byte_table("t").unwrap();
        let stands = device.lock();
        let idle = db.begin_with(TransactionOptions::new().idle_timeout(Duration::from_millis(500))).unwrap();
        idle.bytes(&table).put(b"k", b"v").unwrap();
        (0..50_u8).for_each(|row| table.put(&[row], &[0; 900]).unwrap());
        await_call(&has_begun);
        let put = table.with_lock_timeout(Duration::from_secs(5)).put(b"k", b"w");
        drop(stands);
        put.unwrap();
        assert!(idle.commit().is_err());
    }

    /// Clearing up after a large removal takes as long as the device does to read what was removed. Who waits for what an idle
    /// transaction has locked does not wait for that either.
    #[test]
    fn an_idle_transaction_is_rolled_back_while_others_are_cleared_up_after() {
        let (slow, device, has_begun) = standing_at(Call::Read);
        let tiny = Database::builder().leaf_bytes(4096).cache_bytes(64 * 4096).ring_bytes(1 << 20);
        let db = tiny.durability(Durability::Relaxed).open_on(Arc::new(slow)).unwrap();
        let [removed, other, table] = ["removed", "other", "t"].map(|name| db.byte_table(name).unwrap());
        for row in 0..1000_u32 {
            [&removed, &other].iter().for_each(|table| table.put(&row.to_be_bytes(), &[0; 900]).unwrap());
        }
        let snapshot = db.snapshot().unwrap();
        removed.remove_range(..).unwrap();
        assert_eq!(other.range(..).count(), 1000, "and the leaves of what was removed are out of the cache");
        table.put(b"k", b"v").unwrap();
        let stands = device.lock();
        has_begun.store(false, Relaxed);
        drop(snapshot);
        await_call(&has_begun);
        let idle = db.begin_with(TransactionOptions::new().idle_timeout(Duration::from_millis(300))).unwrap();
        idle.bytes(&table).put(b"k", b"v").unwrap();
        let put = table.with_lock_timeout(Duration::from_secs(5)).put(b"k", b"w");
        drop(stands);
        put.unwrap();
        assert!(idle.commit().is_err());
    }

    /// Who is late to say where it begins names a place of some time ago, from where on the log may be gone.
    #[test]
    fn a_checkpoint_never_goes_back() {
        let db = Database::in_memory().unwrap();
        db.byte_table("t").unwrap().put(b"k", b"v").unwrap();
        let redo_lsn = || {
            db.checkpoint().unwrap();
            let stats = db.stats();
            stats.log_bytes - stats.log_to_redo_bytes
        };
        let before = redo_lsn();
        assert!(before > 0);
        let core = db.engine.core();
        let slots = &core.txns.slots;
        let late = slots.lease(&core.log).unwrap();
        slots.standing(late).announce(Lsn(1));
        assert_eq!(redo_lsn(), before);
        slots.give_back(late);
    }

    /// The first transaction of all may begin where the log does; a restart must find a record there.
    #[test]
    fn redo_begins_at_a_record() {
        let db = Database::in_memory().unwrap();
        let core = db.engine.core();
        let slots = &core.txns.slots;
        let first = slots.lease(&core.log).unwrap();
        slots.standing(first).announce(Lsn::ZERO);
        db.checkpoint().unwrap();
        let stats = db.stats();
        assert_eq!(stats.log_to_redo_bytes, stats.log_bytes);
        slots.give_back(first);
    }

    /// Somebody else's may begin and end between the two looks of the thread that asks whether one is due.
    #[test]
    fn another_checkpoint_may_come_in_between() {
        let db = Database::in_memory().unwrap();
        let core = db.engine.core().clone();
        let directory = Arc::new(Directory::create(Arc::new(MemVfs::new())).unwrap());
        let upkeep = Upkeep::start(core.clone(), directory, &Database::builder(), Lsn::ZERO).unwrap();
        upkeep.stop();
        upkeep.checkpointed.store(core.log.reserved().0 + 1, Relaxed);
        upkeep.checkpoint_if_due();
        assert_eq!(upkeep.checkpoints(), 0);
    }

    #[test]
    fn what_stays_locked_is_tried_now_and_then() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        let scan = locked_ghost(&db, &table);
        let (core, tries) = (db.engine.core(), AtomicU64::new(0));
        let garbage = &core.txns.garbage;
        core.sweep_all();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(1) {
            core.retry_stuck(|stuck| {
                let due = stuck.is_due();
                tries.fetch_add(due.into(), Relaxed);
                due
            });
            std::thread::yield_now();
        }
        assert!(tries.into_inner() < 20, "50, 100, 200 ms and so on fit into a second");
        scan.commit().unwrap();
        let begun = Instant::now();
        while !garbage.is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(60), "nobody has it locked any more");
            std::thread::yield_now();
        }
    }

    /// The end of the scans of a table ends the pause.
    #[test]
    fn what_a_scan_has_locked_goes_with_it() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        let scan = locked_ghost(&db, &table);
        let (core, garbage) = (db.engine.core(), &db.engine.core().txns.garbage);
        let batch = loop {
            core.sweep_all();
            if let Some(stuck) = garbage.take_stuck(|_| true).pop() {
                break stuck.batch;
            }
        };
        let mut stuck = Stuck::new(batch, None);
        stuck.pause = Duration::from_secs(3600);
        assert!(!stuck.is_due());
        scan.commit().unwrap();
        assert!(stuck.is_due());
    }
}
