//! Open chaining: buckets of pages under one mutex, as in Shore, or each under its own, as in Shore-MT's first step.
//!
//! Source: Shore-MT §6.2.3. Who holds a page's mutex changes its chain and its pins.
//!
//! Why B2 holds: pages are pinned, and found to be pinned by nobody, under the same mutex.
//!
//! Differs: in Shore-MT's first step a pin was added and taken back by an atomic instruction already (§7.2); here that comes
//! with the cuckoo table, so that the first step shows what the mutexes cost.

use super::{BufferTable, Fixed, Frame, Frames, Spare};
use crossbeam_utils::CachePadded;
use foreshore_base::{FrameId, PageId};
use foreshore_workloads::random::{below, mix};
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;

/// Pages whose hashes are the same. Vectors keep their memory, so nothing is allocated in the long run.
type Chain = Vec<(PageId, FrameId)>;

/// Chains, and the mutexes that protect them.
pub trait Chains: Sync {
    /// Their name on charts.
    const NAME: &str;
    /// So many empty ones.
    fn new(count: usize) -> Self;
    /// Does `work` alone with the chain that `page` is in.
    fn with<R>(&self, page: PageId, work: impl FnOnce(&mut Chain) -> R) -> R;
    /// Hears of all entries.
    fn each(&self, hear: impl FnMut(&Chain));
}

/// Shore's: one mutex.
pub struct OneMutex(CachePadded<Mutex<Box<[Chain]>>>);

impl Chains for OneMutex {
    const NAME: &str = "one mutex";

    fn new(count: usize) -> Self {
        Self(CachePadded::new(Mutex::new((0..count).map(|_| Chain::new()).collect())))
    }

    #[inline]
    fn with<R>(&self, page: PageId, work: impl FnOnce(&mut Chain) -> R) -> R {
        let mut chains = self.0.lock().expect("no holder panics");
        let at = bucket(page, chains.len());
        work(&mut chains[at])
    }

    fn each(&self, hear: impl FnMut(&Chain)) {
        self.0.lock().expect("no holder panics").iter().for_each(hear);
    }
}

/// Shore-MT's first step: a mutex for each bucket.
pub struct MutexPerBucket(Box<[Mutex<Chain>]>);

impl Chains for MutexPerBucket {
    const NAME: &str = "mutex per bucket";

    fn new(count: usize) -> Self {
        Self((0..count).map(|_| Mutex::default()).collect())
    }

    #[inline]
    fn with<R>(&self, page: PageId, work: impl FnOnce(&mut Chain) -> R) -> R {
        work(&mut self.0[bucket(page, self.0.len())].lock().expect("no holder panics"))
    }

    fn each(&self, mut hear: impl FnMut(&Chain)) {
        self.0.iter().for_each(|chain| hear(&chain.lock().expect("no holder panics")));
    }
}

fn bucket(page: PageId, buckets: usize) -> usize {
    below(mix(page.0), buckets as u64) as usize
}

/// A table of chains, of which there are as many as frames.
pub struct Chained<C> {
    frames: Frames,
    chains: C,
}

impl<C: Chains> BufferTable for Chained<C> {
    const NAME: &str = C::NAME;
    const PINS: bool = true;

    fn new(frames: Frames, _pages: u64) -> Self {
        Self { chains: C::new(frames.len()), frames }
    }

    fn frames(&self) -> &[CachePadded<Frame>] {
        &self.frames
    }

    #[inline]
    fn fix(&self, page: PageId) -> Option<Fixed> {
        self.chains.with(page, |chain| {
            let frame = chain.iter().find(|entry| entry.0 == page)?.1;
            let pins = &self.frames[frame.0 as usize].pins;
            pins.store(pins.load(Relaxed) + 1, Relaxed);
            Some(Fixed { page, frame, version: 0 })
        })
    }

    #[inline]
    fn unfix(&self, fixed: Fixed) -> bool {
        let pins = &self.frames[fixed.frame.0 as usize].pins;
        self.chains.with(fixed.page, |_| pins.store(pins.load(Relaxed) - 1, Relaxed));
        true
    }

    fn load(&self, page: PageId, spare: Spare) -> Option<Spare> {
        self.frames[spare.0.0 as usize].fill(page);
        self.chains.with(page, |chain| {
            if chain.iter().any(|entry| entry.0 == page) {
                return Some(spare);
            }
            chain.push((page, spare.0));
            None
        })
    }

    fn evict(&self, page: PageId) -> Option<Spare> {
        self.chains.with(page, |chain| {
            let at = chain.iter().position(|entry| entry.0 == page)?;
            let frame = chain[at].1;
            let pinned = self.frames[frame.0 as usize].pins.load(Relaxed) > 0;
            (!pinned).then(|| Spare(chain.swap_remove(at).1))
        })
    }

    fn entries(&self) -> Vec<(PageId, FrameId)> {
        let mut entries = Vec::new();
        self.chains.each(|chain| entries.extend(chain));
        entries
    }
}
