//! One open database: its parts, its tables, its checkpoints, its end.

use crate::db::catalog::{self, CATALOG};
use crate::db::options::Builder;
use crate::db::stats::{CheckReport, Stats};
use crate::error::{Error, Result};
use crate::leaf::{self, Change};
use crate::log::Durability;
use crate::pool::{Directory, DirectoryEntry as Entry, Wal};
use crate::recovery::{self, Recovered};
use crate::tree::{Core, Tree};
use foreshore_base::sync::Ordering::Relaxed;
use foreshore_base::sync::{AtomicBool, AtomicU64};
use foreshore_base::{Lsn, PageId, TableId};
use foreshore_index::ByteMap;
use foreshore_io::{LockError, Vfs};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// How often the checkpointer looks at the length of the log.
const CHECKPOINT_POLL: Duration = Duration::from_millis(50);

pub(crate) struct Engine {
    core: Arc<Core>,
    directory: Arc<Directory>,
    catalog: Arc<Tree>,
    /// Existing tables that were opened; its mutex also serialises creating and dropping tables.
    tables: Mutex<Tables>,
    options: Builder,
    vfs: Arc<dyn Vfs>,
    checkpointing: Mutex<()>,
    redo_lsn: AtomicU64,
    checkpoints: AtomicU64,
    opened: Opened,
    closed: AtomicBool,
    stop: Arc<(Mutex<bool>, Condvar)>,
    /// Held until the last handle is gone; dropped last.
    _lock: Box<dyn Send + Sync>,
}

struct Tables {
    by_name: BTreeMap<String, Arc<Tree>>,
    next_id: u32,
}

/// What opening took.
struct Opened {
    redo_bytes: u64,
    redo_records: u64,
    open_ns: u64,
}

impl Engine {
    pub fn open(vfs: Arc<dyn Vfs>, options: Builder) -> Result<Arc<Self>> {
        let started = Instant::now();
        let lock = lock(&*vfs)?;
        let Recovered { core, directory, trees, next_id, redo_lsn, redo_bytes, redo_records } =
            recovery::open(&vfs, &options)?;
        let mut by_name = BTreeMap::new();
        let mut catalog = None;
        for tree in trees {
            if tree.id == CATALOG {
                catalog = Some(tree);
            } else {
                by_name.insert(tree.name.clone(), tree);
            }
        }
        let engine = Arc::new(Self {
            core,
            directory,
            catalog: catalog.expect("recovery opens or creates the catalog"),
            tables: Mutex::new(Tables { by_name, next_id }),
            options,
            vfs,
            checkpointing: Mutex::new(()),
            redo_lsn: AtomicU64::new(redo_lsn.0),
            checkpoints: AtomicU64::new(0),
            opened: Opened { redo_bytes, redo_records, open_ns: started.elapsed().as_nanos() as u64 },
            closed: AtomicBool::new(false),
            stop: Arc::new((Mutex::new(false), Condvar::new())),
            _lock: lock,
        });
        engine.start_checkpointer();
        Ok(engine)
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

    /// The table `name`, created if absent.
    pub fn table(&self, name: &str) -> Result<Arc<Tree>> {
        if name.is_empty() {
            return Err(Error::Argument("a table needs a name of at least one byte".into()));
        }
        let mut tables = self.tables.lock();
        if let Some(tree) = tables.by_name.get(name) {
            return Ok(tree.clone());
        }
        let id = TableId(tables.next_id);
        tables.next_id += 1;
        let tree = Arc::new(create_tree(&self.core, id, name.to_string())?);
        // The row is what makes the table exist: a crash before it leaves a leaf that the next open frees.
        let row = self.catalog.put(name.as_bytes(), &catalog::encode(id))?;
        self.acknowledge(row, self.options.durability)?;
        tables.by_name.insert(name.to_string(), tree.clone());
        Ok(tree)
    }

    pub fn tables(&self) -> Result<Vec<String>> {
        Ok(self.tables.lock().by_name.keys().cloned().collect())
    }

    pub fn drop_table(&self, name: &str) -> Result<bool> {
        let mut tables = self.tables.lock();
        let Some(tree) = tables.by_name.get(name).cloned() else { return Ok(false) };
        if let Some(row) = self.catalog.remove(name.as_bytes())? {
            // Durable before the first leaf goes: a table that still has its row has all its leaves.
            self.acknowledge(row, Durability::Sync)?;
        }
        tables.by_name.remove(name);
        tree.mark_dropped();
        tree.free_leaves()?;
        Ok(true)
    }

    pub fn sync(&self) -> Result<()> {
        self.core.log.commit(self.core.log.reserved(), Durability::Sync)
    }

    /// Writes out what is older than now, and moves the point from which a restart would redo.
    pub fn checkpoint(&self) -> Result<()> {
        let _one_at_a_time = self.checkpointing.lock();
        self.core.pool.flush_until(self.core.log.reserved())?;
        let redo = self.core.pool.oldest_rec_lsn();
        self.core.log.commit(redo, Durability::Sync)?;
        if let Err(error) = self.directory.append(&[Entry::Redo(redo)]) {
            return Err(self.judge(error));
        }
        self.redo_lsn.store(redo.0, Relaxed);
        self.core.log.truncate(redo)?;
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

    pub fn check(&self) -> Result<CheckReport> {
        let trees: Vec<_> = {
            let tables = self.tables.lock();
            std::iter::once(self.catalog.clone()).chain(tables.by_name.values().cloned()).collect()
        };
        let mut report = CheckReport::default();
        let mut leaves = 0;
        for tree in trees {
            let table = tree.check()?;
            leaves += table.leaves;
            report.tables.push(table);
        }
        report.stray_pages = self.core.pool.stats().pages.saturating_sub(leaves);
        Ok(report)
    }

    pub fn stats(&self) -> Stats {
        let (pool, log) = (self.core.pool.stats(), self.core.log.stats());
        let tables = self.tables.lock();
        let index_bytes =
            tables.by_name.values().map(|t| t.index_bytes()).sum::<u64>() + self.catalog.index_bytes();
        Stats {
            log_bytes: log.bytes,
            log_records: log.records,
            log_syncs: log.syncs,
            log_waits: log.waits,
            log_durable_lsn: self.core.log.durable().0,
            log_to_redo_bytes: self.core.log.reserved().0.saturating_sub(self.redo_lsn.load(Relaxed)),
            pool_frames: pool.frames,
            pool_resident: pool.frames - pool.frames_free,
            pool_dirty: pool.frames_dirty,
            pool_reads: pool.loads,
            pool_writes: pool.cleaned,
            pool_evictions: pool.evictions,
            pages: pool.pages,
            leaf_file_bytes: pool.slots * self.core.pool.page_bytes() as u64,
            index_bytes,
            splits: self.core.splits.load(Relaxed),
            absorbs: self.core.absorbs.load(Relaxed),
            checkpoints: self.checkpoints.load(Relaxed),
            redo_bytes: self.opened.redo_bytes,
            redo_records: self.opened.redo_records,
            open_ns: self.opened.open_ns,
            tables: tables.by_name.len() as u64,
        }
    }

    /// Writes everything out and stops the threads. The second call does nothing.
    pub fn close(&self) -> Result<()> {
        if self.closed.swap(true, Relaxed) {
            return Ok(());
        }
        *self.stop.0.lock() = true;
        self.stop.1.notify_all();
        let written = self.checkpoint();
        let logged = self.core.log.close();
        written.and(logged)
    }

    /// The thread that keeps the log short. It holds no strong reference while it sleeps, so that dropping the last
    /// handle closes the database.
    fn start_checkpointer(self: &Arc<Self>) {
        let (engine, stop) = (Arc::downgrade(self), self.stop.clone());
        thread::Builder::new()
            .name("foreshore-checkpoint".into())
            .spawn(move || {
                while !sleep_or_stop(&stop) {
                    let Some(engine) = Weak::upgrade(&engine) else { return };
                    engine.checkpoint_if_due();
                }
            })
            .expect("the system can start a thread");
    }

    fn checkpoint_if_due(&self) {
        let to_redo = self.core.log.reserved().0 - self.redo_lsn.load(Relaxed);
        if to_redo > self.options.log_bytes / 2 && !self.closed.load(Relaxed) {
            // A failure here has poisoned the log or is a full disk: writers get it from the log, with its reason.
            let _ = self.checkpoint();
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Whoever wants to know calls `close`.
        let _ = self.close();
    }
}

/// Waits for the next look; `true` when the database closes.
fn sleep_or_stop(stop: &(Mutex<bool>, Condvar)) -> bool {
    let mut stopped = stop.0.lock();
    if !*stopped {
        stop.1.wait_for(&mut stopped, CHECKPOINT_POLL);
    }
    *stopped
}

fn lock(vfs: &dyn Vfs) -> Result<Box<dyn Send + Sync>> {
    vfs.lock("LOCK").map_err(|e| match e {
        LockError::Held(pid) => Error::Locked { dir: vfs.describe(), pid },
        LockError::Io(e) => Error::io(format!("locking {}", vfs.describe()), &e),
    })
}

/// A new table: one empty leaf over the whole key space, logged.
pub(crate) fn create_tree(core: &Arc<Core>, id: TableId, name: String) -> Result<Tree> {
    let fresh = core.pool.allocate()?;
    core.log.room()?;
    let latch = fresh.page().latch().exclusive();
    core.pool.before_change(fresh.frame_page().frame);
    let change = Change::Format { page: fresh.pid(), table: id, low: &[], high: None, right: PageId::NONE };
    let record = core.log.reserve(change.encoded_len());
    leaf::format(fresh.page(), fresh.pid(), id, &[], None, PageId::NONE);
    fresh.page().set_lsn(record.end());
    let page = fresh.publish().page.id();
    drop(latch);
    let index = ByteMap::new();
    index.insert(&[], page.0);
    core.append(record, &change);
    Ok(Tree::new(core.clone(), id, name, index))
}
