//! The pools of all leaf sizes that a database uses.
//!
//! Why: a table may have leaves of another size than the database's own. A [`Pool`] keeps to one size, in its frames, its
//! slots and its page table; so each size gets a pool, and what concerns all pages asks all of them. A table holds the pool
//! of its own size: what is done to its leaves costs what it costs in a database with one size.
//!
//! Common to all are the log and the directory, whose entries name pages, and page ids name their size (`size`). So what
//! is durable is still said in one place, and neither redo nor checkpoint need an order between the pools.
//!
//! Invariants:
//! - Z1: the name of a size's file is durable before a log record names a page of that size, and the file stays as long as
//!   the database does. So redo and directory never meet a page without a file, wherever a crash fell.
//! - Z2: a pool can be found here before a record about one of its pages is reserved. So no checkpoint overlooks one.

use super::ahead::Readers;
use super::cleaner::Cleaner;
use super::directory::Directory;
use super::directory_entry::PageEntry;
use super::size::SizeClass;
use super::{Pool, PoolOptions, PoolStats, Wal};
use crate::error::{Error, Result};
use crate::waits::Wait;
use foreshore_base::{Lsn, PageId};
use foreshore_io::Vfs;
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};

/// The least number of frames of a pool, however small a cache was asked for: an operation holds a few at a time, and threads must not
/// starve each other.
const FRAMES_MIN: usize = 64;

/// One part in this many of the cache is for each size in use; the rest goes by what the sizes have on disk.
const SHARES: usize = 8;

/// The pools, by size, and what it takes to make one more.
pub(crate) struct Pools {
    running: [OnceLock<Running>; SizeClass::COUNT],
    /// Pools are made one at a time.
    making: Mutex<()>,
    vfs: Arc<dyn Vfs>,
    wal: Arc<dyn Wal>,
    directory: Arc<Directory>,
    own_bytes: usize,
    cache_bytes: usize,
}

/// A pool with its threads, which stop first.
struct Running {
    readers: Readers,
    cleaner: Cleaner,
    pool: Arc<Pool>,
}

impl Pools {
    /// Opens the pool of the database's own size, `own_bytes`, and of each other size that has a file or pages. `pages` are
    /// what the directory knows, by ascending id. `cache_bytes` are divided among them.
    ///
    /// Errors: as [`Pool::open`]; the system has no threads left.
    pub fn open(
        vfs: Arc<dyn Vfs>,
        wal: Arc<dyn Wal>,
        directory: Arc<Directory>,
        own_bytes: usize,
        cache_bytes: usize,
        pages: &[PageEntry],
    ) -> Result<Self> {
        let with_file = SizeClass::on_disk(&*vfs)?;
        let running = std::array::from_fn(|_| OnceLock::new());
        let pools = Self { running, making: Mutex::new(()), vfs, wal, directory, own_bytes, cache_bytes };
        let pages_of = |class| {
            let from = pages.partition_point(|page| SizeClass::of(page.pid) < Some(class));
            let to = pages.partition_point(|page| SizeClass::of(page.pid) <= Some(class));
            &pages[from..to]
        };
        let in_use = |class: &SizeClass| with_file.contains(class) || !pages_of(*class).is_empty();
        let classes: Vec<_> = SizeClass::all().filter(in_use).collect();
        let on_disk =
            classes.iter().map(|class| pages_of(*class).len() * class.bytes(own_bytes)).collect::<Vec<_>>();
        for (class, share) in classes.into_iter().zip(divide(cache_bytes, &on_disk)) {
            pools.start(class, share, pages_of(class))?;
        }
        Ok(pools)
    }

    /// May a database have so much cache? To be asked before anything is made. Errors: `Argument`.
    pub fn ensure_possible(own_bytes: usize, cache_bytes: usize) -> Result<()> {
        options_of(SizeClass::OWN, own_bytes, cache_bytes).frames().map(drop)
    }

    /// Opens the pool of one size, with so much cache, and lets it be found.
    fn start(&self, class: SizeClass, cache_bytes: usize, pages: &[PageEntry]) -> Result<()> {
        let options = options_of(class, class.bytes(self.own_bytes), cache_bytes);
        let pool = Pool::open(&*self.vfs, &options, self.wal.clone(), self.directory.clone(), pages)?;
        let pool = Arc::new(pool);
        let cleaner =
            Cleaner::start(pool.clone()).map_err(|e| Error::io("starting the cleaner's thread", &e))?;
        self.running[class.index()].get_or_init(|| Running {
            readers: Readers::allow(pool.clone()),
            cleaner,
            pool,
        });
        Ok(())
    }

    /// Stops reading ahead: who needs a page then, reads it.
    pub fn stop_readers(&self) {
        self.running.iter().filter_map(OnceLock::get).for_each(|running| running.readers.stop());
    }

    /// Stops all threads: who needs a frame then, cleans.
    pub fn stop_threads(&self) {
        self.stop_readers();
        self.running.iter().filter_map(OnceLock::get).for_each(|running| running.cleaner.stop());
    }

    /// [`Pool::end_cleaning`] for all.
    pub fn end_cleaning(&self, why: &Error) {
        self.all().for_each(|pool| pool.end_cleaning(why));
    }

    /// The pool of the database's own size.
    pub fn own(&self) -> &Arc<Pool> {
        self.of_class(SizeClass::OWN).expect("every database has leaves of its own size")
    }

    /// The pool for leaves of `leaf_bytes`, made now if these are the first ones (Z1): until the next opening it has an
    /// eighth of the cache, on top. Panics if no leaf has that size.
    ///
    /// Errors: `Full`, `Io`; `Poisoned` if it is unknown whether the file's name is durable.
    pub fn of_size(&self, leaf_bytes: usize) -> Result<&Arc<Pool>> {
        let class = SizeClass::of_bytes(leaf_bytes, self.own_bytes);
        let _one_at_a_time = self.making.lock();
        if self.of_class(class).is_none() {
            self.start(class, self.cache_bytes / SHARES, &[]).inspect_err(|error| {
                if matches!(error, Error::Poisoned { .. }) {
                    self.wal.poison(error);
                }
            })?;
        }
        Ok(self.of_class(class).expect("it was made"))
    }

    /// [`Pool::together`], for pages of any size.
    pub fn together(&self) -> usize {
        let pools = self.running.iter().filter_map(OnceLock::get);
        pools.map(|running| running.pool.together()).min().expect("every database has leaves of its own size")
    }

    /// [`Pool::load_together`], for pages of all sizes.
    pub fn load_together(&self, pages: impl Iterator<Item = PageId> + Clone) {
        for class in SizeClass::all() {
            if let Some(pool) = self.of_class(class) {
                pool.load_together(pages.clone().filter(|page| SizeClass::of(*page) == Some(class)));
            }
        }
    }

    /// Is the page only on disk?
    pub fn is_on_disk(&self, page: PageId) -> bool {
        self.of_page(page).is_ok_and(|pool| pool.is_on_disk(page))
    }

    /// The pool of a page. Errors: `Corrupt` if no page of its size was ever made (Z1).
    #[inline]
    pub fn of_page(&self, pid: PageId) -> Result<&Arc<Pool>> {
        SizeClass::of(pid).and_then(|class| self.of_class(class)).ok_or_else(|| {
            Error::corrupt(format!("page {pid}"), "no leaf file of the database has pages with such numbers")
        })
    }

    fn of_class(&self, class: SizeClass) -> Option<&Arc<Pool>> {
        self.running[class.index()].get().map(|running| &running.pool)
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Pool>> {
        SizeClass::all().filter_map(|class| self.of_class(class))
    }

    /// [`Pool::flush_until`] for all.
    pub fn flush_until(&self, target: Lsn) -> Result<()> {
        self.all().try_for_each(|pool| pool.flush_until(target))
    }

    /// All records before the LSN returned are in the durable images of their pages.
    ///
    /// Each pool answers for its own pages. For a pool that is made meanwhile nobody does: its first record begins at or
    /// after what is loaded here first, for the same reason as in [`Pool::oldest_rec_lsn`], by Z2.
    pub fn oldest_rec_lsn(&self) -> Lsn {
        let reserved = self.wal.reserved();
        self.all().map(|pool| pool.oldest_rec_lsn()).fold(reserved, Lsn::min)
    }

    /// What all of them have done and hold.
    pub fn stats(&self) -> PoolStats {
        self.all().map(|pool| pool.stats()).fold(PoolStats::default(), PoolStats::plus)
    }

    /// Where threads waited for any of them.
    pub fn waits(&self) -> [Wait; 3] {
        let waits = self.all().map(|pool| pool.waits());
        waits
            .reduce(|all, one| std::array::from_fn(|at| all[at].plus(&one[at])))
            .expect("there is always the pool of the own size")
    }
}

/// How the pool of one size is made, with so much cache.
fn options_of(class: SizeClass, page_bytes: usize, cache_bytes: usize) -> PoolOptions {
    PoolOptions::new(class, page_bytes, cache_bytes.max(FRAMES_MIN * page_bytes))
}

/// Divides the cache among sizes that have these bytes on disk.
fn divide(cache_bytes: usize, on_disk: &[usize]) -> Vec<usize> {
    let least = cache_bytes / SHARES;
    let rest = cache_bytes - least * on_disk.len();
    match on_disk.iter().sum::<usize>() {
        0 => on_disk.iter().map(|_| cache_bytes / on_disk.len()).collect(),
        total => {
            let of_rest = |bytes: &usize| (rest as u128 * *bytes as u128 / total as u128) as usize;
            on_disk.iter().map(|bytes| least + of_rest(bytes)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::FakeWal;
    use super::*;
    use foreshore_io::MemVfs;

    #[test]
    fn the_cache_is_divided_by_what_is_on_disk() {
        assert_eq!(divide(800, &[0]), [800]);
        assert_eq!(divide(800, &[12345]), [800]);
        assert_eq!(divide(800, &[0, 0]), [400, 400]);
        assert_eq!(divide(800, &[500, 0]), [700, 100]);
        assert_eq!(divide(800, &[10, 30]), [100 + 150, 100 + 450]);
        assert_eq!(divide(usize::MAX, &[1 << 60; 5]).len(), 5);
        assert!(
            (1..=SizeClass::COUNT)
                .all(|n| divide(1 << 30, &vec![7 << 40; n]).iter().sum::<usize>() <= 1 << 30)
        );
    }

    #[test]
    fn a_pool_appears_with_the_first_table_of_its_size() {
        let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
        let directory = Arc::new(Directory::create(vfs.clone()).unwrap());
        let open =
            || Pools::open(vfs.clone(), Arc::new(FakeWal::default()), directory.clone(), 8192, 1 << 20, &[]);
        let pools = open().unwrap();
        let stranger = PageId(SizeClass::of_bytes(32768, 8192).base().0 + 1);
        assert!(matches!(pools.of_page(stranger), Err(Error::Corrupt { .. })));
        assert!(Arc::ptr_eq(pools.of_size(8192).unwrap(), pools.own()));
        let frames = pools.stats().frames;

        let large = pools.of_size(32768).unwrap();
        assert_eq!(large.page_bytes(), 32768);
        assert!(Arc::ptr_eq(pools.of_size(32768).unwrap(), large));
        assert!(Arc::ptr_eq(pools.of_page(stranger).unwrap(), large));
        assert_eq!(large.allocate().unwrap().pid(), stranger);
        assert_eq!(pools.stats().frames, frames + 64);
        assert!(vfs.list().unwrap().contains(&"leaves-32k.db".to_string()));

        let again = open().unwrap();
        assert!(again.of_page(stranger).is_ok(), "the file says that the size is in use");
        assert_eq!(again.all().count(), 2);
    }
}
