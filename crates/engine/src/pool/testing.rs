//! What the tests of the pool share: a log that remembers what was asked of it, and a chain of leaves with a
//! model of every version that each of them ever had.

use super::*;
use crate::chance::Random;
use crate::page::INFINITE;
use foreshore_base::TableId;
use foreshore_base::random::mix;
use foreshore_io::SimDisk;
use std::collections::{BTreeMap, HashMap};

pub const PAGE_BYTES: usize = 4096;
pub const TABLE: TableId = TableId(7);
const RECORD_BYTES: u64 = 64;
/// The first word that the leaf layout leaves to the tests' content, and the first that belongs to the fences.
const BODY: std::ops::Range<usize> = 8..PAGE_BYTES / 8 - 2;

/// A log that is durable as soon as somebody waits for it, unless the disk has crashed.
#[derive(Default)]
pub struct FakeWal {
    reserved: AtomicU64,
    durable: AtomicU64,
    poisoned: AtomicU64,
    disk: Option<SimDisk>,
}

impl FakeWal {
    pub fn new(disk: Option<SimDisk>, reserved: Lsn) -> Self {
        Self {
            reserved: AtomicU64::new(reserved.0),
            durable: AtomicU64::new(reserved.0),
            disk,
            ..Self::default()
        }
    }

    /// Takes bytes for a record; returns its end.
    pub fn reserve(&self) -> Lsn {
        Lsn(self.reserved.fetch_add(RECORD_BYTES, AcqRel) + RECORD_BYTES)
    }

    pub fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Acquire))
    }

    pub fn is_poisoned(&self) -> bool {
        self.poisoned.load(Acquire) > 0
    }
}

impl Wal for FakeWal {
    fn wait_durable(&self, lsn: Lsn) -> Result<()> {
        assert!(lsn <= self.reserved(), "LSN {lsn} was never given out");
        if self.disk.as_ref().is_some_and(SimDisk::is_crashed) {
            return Err(Error::Poisoned { cause: "the machine is off".into() });
        }
        self.durable.fetch_max(lsn.0, AcqRel);
        Ok(())
    }

    fn reserved(&self) -> Lsn {
        Lsn(self.reserved.load(Acquire))
    }

    fn poison(&self, _cause: &Error) {
        self.poisoned.fetch_add(1, AcqRel);
    }

    fn give_space(&self) -> bool {
        false
    }
}

/// The keys of a leaf: `low..high`, `None` being the end.
pub type Bounds = (u32, Option<u32>);

/// Gives a page the content that page `pid` has at `lsn`. Under its exclusive latch.
pub fn write_page(page: Page<'_>, pid: PageId, lsn: Lsn, bounds: Bounds) {
    page.set_id(pid);
    page.set_lsn(lsn);
    page.set_table(TABLE);
    page.set_flags(0);
    let low = if bounds.0 == 0 { Vec::new() } else { bounds.0.to_be_bytes().to_vec() };
    page.set_low_len(low.len() as u16);
    page.set_high_len(bounds.1.map_or(INFINITE, |_| 4));
    BODY.for_each(|word| page.0.set_word(word, body_word(pid, lsn, word)));
    page.0.write(PAGE_BYTES - low.len(), &low);
    if let Some(high) = bounds.1 {
        page.0.write(PAGE_BYTES - low.len() - 4, &high.to_be_bytes());
    }
}

fn body_word(pid: PageId, lsn: Lsn, word: usize) -> u64 {
    mix(pid.0 << 40 ^ lsn.0 ^ (word as u64) << 56)
}

/// Is every word of the page what page `pid` has at the LSN that the page bears? The LSN if so. Only as good as a later
/// validation.
pub fn read_page(page: Page<'_>, pid: PageId) -> Option<Lsn> {
    let lsn = page.lsn();
    let whole = page.id() == pid && BODY.clone().all(|word| page.0.word(word) == body_word(pid, lsn, word));
    whole.then_some(lsn)
}

pub fn options(frames: usize, batch_pages: usize) -> PoolOptions {
    let cache_bytes = frames * PAGE_BYTES;
    PoolOptions {
        class: SizeClass::OWN,
        page_bytes: PAGE_BYTES,
        cache_bytes,
        batch_pages,
        grow_bytes: 16 * PAGE_BYTES as u64,
    }
}

/// What became of a page at an LSN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Alive(Bounds),
    Dead,
}

/// A chain of leaves in a pool, and all that ever happened to each page.
pub struct Chain {
    pub pool: Arc<Pool>,
    pub wal: Arc<FakeWal>,
    /// Low key → page.
    pub leaves: BTreeMap<u32, PageId>,
    pub history: HashMap<PageId, BTreeMap<Lsn, Version>>,
    /// The highest value that `oldest_rec_lsn` ever had.
    pub claimed: Lsn,
}

impl Chain {
    /// An empty database with one leaf.
    pub fn create(vfs: Arc<dyn Vfs>, wal: Arc<FakeWal>, options: &PoolOptions) -> Result<Self> {
        let directory = Arc::new(Directory::create(Arc::clone(&vfs))?);
        let pool = Arc::new(Pool::open(&*vfs, options, Arc::clone(&wal) as Arc<dyn Wal>, directory, &[])?);
        let mut chain =
            Self { pool, wal, leaves: BTreeMap::new(), history: HashMap::new(), claimed: Lsn::ZERO };
        let new = chain.pool.allocate()?;
        let latch = new.page().latch().exclusive();
        chain.pool.before_change(new.frame_page().frame);
        let (pid, lsn) = (new.pid(), chain.wal.reserve());
        write_page(new.page(), pid, lsn, (0, None));
        new.publish();
        drop(latch);
        chain.note(pid, lsn, Version::Alive((0, None)));
        chain.leaves.insert(0, pid);
        Ok(chain)
    }

    fn note(&mut self, pid: PageId, lsn: Lsn, version: Version) {
        self.history.entry(pid).or_default().insert(lsn, version);
    }

    /// The leaf of a key, with its bounds.
    pub fn find(&self, key: u32) -> (PageId, Bounds) {
        let (low, pid) = self.leaves.range(..=key).next_back().expect("the first leaf begins at 0");
        (*pid, (*low, self.leaves.range(key.saturating_add(1)..).next().map(|(low, _)| *low)))
    }

    fn page(&self, pid: PageId) -> Result<FramePage<'_>> {
        let found = self.pool.page(pid)?.unwrap_or_else(|| panic!("page {pid} is lost"));
        let lsn = read_page(found.page, pid);
        let newest = self.history[&pid].last_key_value().map(|(lsn, _)| *lsn);
        assert_eq!(lsn, newest, "page {pid} is not as it was left");
        Ok(found)
    }

    /// Reads a leaf, and judges it.
    pub fn read(&self, key: u32) -> Result<()> {
        self.page(self.find(key).0).map(drop)
    }

    /// Changes a leaf.
    pub fn write(&mut self, key: u32) -> Result<()> {
        let (pid, bounds) = self.find(key);
        let pool = Arc::clone(&self.pool);
        let FramePage { frame, page } = pool.page(pid)?.expect("a living page");
        let latch = page.latch().exclusive();
        pool.before_change(frame);
        let lsn = self.wal.reserve();
        write_page(page, pid, lsn, bounds);
        drop(latch);
        self.note(pid, lsn, Version::Alive(bounds));
        Ok(())
    }

    /// Splits a leaf at `key`.
    pub fn split(&mut self, key: u32) -> Result<()> {
        let (pid, (low, high)) = self.find(key);
        if key == low {
            return Ok(());
        }
        let pool = Arc::clone(&self.pool);
        let new = pool.allocate()?;
        let left = pool.page(pid)?.expect("a living page");
        let left_latch = left.page.latch().exclusive();
        let new_latch = new.page().latch().exclusive();
        pool.before_change(left.frame);
        pool.before_change(new.frame_page().frame);
        let (new_pid, lsn) = (new.pid(), self.wal.reserve());
        write_page(new.page(), new_pid, lsn, (key, high));
        new.publish();
        write_page(left.page, pid, lsn, (low, Some(key)));
        drop((new_latch, left_latch));
        self.note(pid, lsn, Version::Alive((low, Some(key))));
        self.note(new_pid, lsn, Version::Alive((key, high)));
        self.leaves.insert(key, new_pid);
        Ok(())
    }

    /// Lets a leaf take in its right neighbour.
    pub fn absorb(&mut self, key: u32) -> Result<()> {
        let (pid, (low, high)) = self.find(key);
        let Some(middle) = high else { return Ok(()) };
        let (right_pid, (_, high)) = self.find(middle);
        let pool = Arc::clone(&self.pool);
        // Both in memory at once, as an operation has them: the second load may evict the first.
        let (left, right) = loop {
            let right = pool.page(right_pid)?.expect("a living page");
            let left = pool.page(pid)?.expect("a living page");
            if pool.resident(right_pid).is_some() {
                break (left, right);
            }
        };
        let left_latch = left.page.latch().exclusive();
        let right_latch = right.page.latch().exclusive();
        assert_eq!((left.page.id(), right.page.id()), (pid, right_pid), "nobody else is here");
        pool.before_change(left.frame);
        pool.before_change(right.frame);
        let lsn = self.wal.reserve();
        write_page(left.page, pid, lsn, (low, high));
        right.page.set_dead();
        right.page.set_lsn(lsn);
        drop((right_latch, left_latch));
        pool.free_page(right_pid, lsn);
        self.note(pid, lsn, Version::Alive((low, high)));
        self.note(right_pid, lsn, Version::Dead);
        self.leaves.remove(&middle);
        Ok(())
    }

    /// One random operation.
    pub fn step(&mut self, rng: &mut Random, leaves: usize) -> Result<()> {
        let key = rng.below(10_000) as u32;
        match rng.below(16) {
            0..4 if self.leaves.len() < leaves => self.split(key)?,
            0 => self.absorb(key)?,
            1 => self.pool.flush_until(Lsn(rng.below(self.wal.reserved().0 + 1)))?,
            2..6 => self.read(key)?,
            _ => self.write(key)?,
        }
        self.claimed = self.claimed.max(self.pool.oldest_rec_lsn());
        Ok(())
    }

    /// Every leaf is as it was left.
    pub fn check(&self) -> Result<()> {
        self.pool.check()?;
        self.leaves.keys().try_for_each(|key| self.read(*key))
    }

    /// Opens what a crash left, and compares it with what must be there: every page whole, at a version that the log
    /// holds durably, and no older than was claimed; every page that was claimed and not freed.
    pub fn reopen(self, vfs: Arc<dyn Vfs>, options: &PoolOptions, disk: Option<SimDisk>) -> Result<Self> {
        let wal = Arc::new(FakeWal::new(disk, self.wal.reserved()));
        let (directory, loaded) = Directory::open(Arc::clone(&vfs))?;
        let (directory, shared) = (Arc::new(directory), Arc::clone(&wal) as Arc<dyn Wal>);
        let pool = Arc::new(Pool::open(&*vfs, options, shared, directory, &loaded.pages)?);
        let found: HashMap<PageId, Lsn> = loaded.pages.iter().map(|page| (page.pid, page.lsn)).collect();
        for page in &loaded.pages {
            let image = pool.page(page.pid)?.unwrap_or_else(|| panic!("{page:?} is not there")).page;
            assert_eq!(read_page(image, page.pid), Some(page.lsn), "{page:?} has another image");
            assert!(page.lsn <= self.wal.durable(), "rule 2: {page:?} was written before the log");
        }
        for (pid, history) in &self.history {
            self.check_page(*pid, history, found.get(pid).copied());
        }
        pool.check()?;
        Ok(Self::from_loaded(pool, wal, &loaded, &self.history))
    }

    fn check_page(&self, pid: PageId, history: &BTreeMap<Lsn, Version>, found: Option<Lsn>) {
        if let Some(lsn) = found {
            let version = history.get(&lsn);
            assert!(
                matches!(version, Some(Version::Alive(_))),
                "page {pid} never was so at {lsn}: {version:?}"
            );
        }
        // The record that ends at `lsn` begins before the claim if it ends at or before it.
        let Some((claimed, version)) = history.range(..=self.claimed).next_back() else { return };
        let freed =
            history.range(claimed..).any(|(lsn, v)| *v == Version::Dead && *lsn <= self.wal.durable());
        match (version, found) {
            (_, Some(lsn)) => assert!(lsn >= *claimed, "page {pid} is at {lsn}, claimed was {claimed}"),
            (Version::Dead, None) => {}
            (Version::Alive(_), None) => assert!(freed, "rule 3: page {pid} is lost, claimed was {claimed}"),
        }
    }

    /// What is on disk is all there is from now on.
    fn from_loaded(
        pool: Arc<Pool>,
        wal: Arc<FakeWal>,
        loaded: &Loaded,
        before: &HashMap<PageId, BTreeMap<Lsn, Version>>,
    ) -> Self {
        let mut chain =
            Self { pool, wal, leaves: BTreeMap::new(), history: HashMap::new(), claimed: Lsn::ZERO };
        for page in &loaded.pages {
            chain.note(page.pid, page.lsn, before[&page.pid][&page.lsn]);
        }
        chain
    }

    /// The same change to every page there is, whatever its fences: for databases that crashed halfway.
    pub fn touch_all(&mut self) -> Result<()> {
        let mut pids: Vec<PageId> = self.history.keys().copied().collect();
        pids.sort_unstable();
        for pid in pids {
            let pool = Arc::clone(&self.pool);
            let FramePage { frame, page } = pool.page(pid)?.expect("a living page");
            let latch = page.latch().exclusive();
            pool.before_change(frame);
            let lsn = self.wal.reserve();
            write_page(page, pid, lsn, (0, None));
            drop(latch);
            self.note(pid, lsn, Version::Alive((0, None)));
        }
        Ok(())
    }
}

impl Pool {
    /// Takes a clean page out of its frame.
    pub fn evict_now(&self, pid: PageId) {
        let entry = self.table.load(pid);
        let State::Resident { frame, .. } = entry.state() else { panic!("page {pid} is {entry:?}") };
        self.table.change(pid, entry, entry.cooled());
        assert!(self.evict(frame, pid), "page {pid} is dirty, or in use");
        self.free.push(frame);
    }

    /// The frame of a clean page gets another one, which is on disk: its latch, which the caller has, is had by who evicts the
    /// one, by who loads the other, and by who then uses that, and never in between by whoever waits for it.
    pub fn hand_over(&self, frame: FrameId, from: PageId, to: PageId) {
        let (was, will_be) = (self.table.load(from), self.table.load(to));
        let (Some(slot), State::OnDisk(its)) = (was.slot(), will_be.state()) else {
            panic!("page {from} is {was:?}, page {to} is {will_be:?}")
        };
        let image = self.leaves.read(its).expect("an image");
        // First this one: whoever learns that the other has left may look for it at once, and would load it.
        assert!(self.table.change(to, will_be, Entry::resident(frame, Some(its))));
        assert!(self.frames.redo_from(frame).is_none() && self.table.change(from, was, Entry::on_disk(slot)));
        crate::page::load(&image, self.frames.page(frame));
        self.leaves.recycle(image);
    }
}
