//! A loaded tree under one scheme: how fast it is on this machine, and how fast on a modelled one.

use crate::figures::olfit::work::{Keys, Stream, value_of};
use crate::frame::{LabError, Panel, Tell, span_s};
use crate::model::{Counts, Machine, ManyCores, Trace};
use crate::olfit::{
    BPlus, Csb, Family, LockCoupling, No, Optimistic, Scheme, Tree, TreeLatch, VersionsByNode, VersionsByTree,
};
use crate::probe::Silent;
use std::sync::Barrier;
use std::time::Instant;

/// Words of the nodes that all figures but the sixth use: 128 bytes.
pub const WORDS: usize = 32;

/// How many operations by how many, and which.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Threads, or modelled cores.
    pub threads: usize,
    /// Operations of each.
    pub operations: u64,
    /// The share of updates.
    pub update_percent: u64,
    /// Where randomness comes from.
    pub seed: u64,
}

impl Load {
    /// Keys of its own that each thread has in the tree before it begins: as many as are deleted, or a hundredth of the tree's,
    /// between whose insertion and deletion it comes to more leaves than caches hold. Those of all threads are few beside the
    /// tree's.
    fn prepared(&self, keys: &Keys) -> u64 {
        let (count, threads) = (keys.count() as u64, self.threads as u64);
        if self.update_percent == 0 { 0 } else { self.operations.min(count / 100).min(count / 8 / threads) }
    }
}

/// What a figure asks of a tree.
pub trait Subject: Send + Sync {
    /// The scheme's name.
    fn name(&self) -> &'static str;
    /// May several threads change it?
    fn is_concurrent(&self) -> bool;
    /// Times a load on this machine; operations per second.
    fn measure(&self, load: Load) -> Result<f64, LabError>;
    /// Replays it on a modelled machine; operations per second, and what was counted.
    fn model(&self, machine: &Machine, load: Load) -> Result<(f64, Counts), LabError>;
    /// Is the tree what it was after loading?
    fn check(&self) -> Result<(), LabError>;
}

/// Ends the process if its thread panics, once the message is told. The panic may leave nodes latched, for which the other
/// threads would wait without end, and who joins them, too.
struct EndsWithItsThread;

impl Drop for EndsWithItsThread {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::exit(101);
        }
    }
}

/// A tree and its keys.
pub struct Loaded<S: Scheme, const W: usize, F: Family = BPlus> {
    /// The tree.
    pub tree: Tree<S, W, F>,
    keys: Keys,
}

impl<S: Scheme, const W: usize, F: Family> Loaded<S, W, F> {
    /// Inserts all keys in random order.
    pub fn new(keys: &Keys) -> Result<Self, LabError> {
        Self::filled(Self::empty(keys), keys)
    }

    /// A tree with room for the keys, in memory that was touched.
    pub fn empty(keys: &Keys) -> Tree<S, W, F> {
        Tree::with_room_for(keys.count() + keys.count() / 4)
    }

    /// The same as [`Self::new`], in this tree.
    pub fn filled(tree: Tree<S, W, F>, keys: &Keys) -> Result<Self, LabError> {
        let mut worker = tree.worker(Silent);
        for key in keys.inserted() {
            if !tree.insert(&mut worker, key, value_of(key)) {
                return Err(Self::wrong(format!("key {key} was there before")));
            }
        }
        drop(worker);
        Ok(Self { tree, keys: keys.clone() })
    }

    fn wrong(what: String) -> LabError {
        LabError::Wrong(format!("{} {}: {what}", F::NAME, S::NAME))
    }

    /// What each thread does; the keys that it deletes first are in the tree.
    fn streams(&self, load: Load) -> Result<Vec<Stream<'_>>, LabError> {
        let mut worker = self.tree.worker(Silent);
        let mut stream = |me| {
            let mut stream = Stream::new(&self.keys, me, load.update_percent, load.seed);
            stream.prepare(&self.tree, &mut worker, load.prepared(&self.keys)).map(|()| stream)
        };
        (0..load.threads).map(&mut stream).collect()
    }

    /// Takes out what they have put in: after all of them, since nobody is to be timed beside that.
    fn tidy<'k>(&self, mut streams: impl Iterator<Item = Stream<'k>>) -> Result<(), LabError> {
        let mut worker = self.tree.worker(Silent);
        streams.try_for_each(|mut stream| stream.tidy(&self.tree, &mut worker))
    }
}

impl<S: Scheme, const W: usize, F: Family> Subject for Loaded<S, W, F> {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn is_concurrent(&self) -> bool {
        S::NAME != No::NAME
    }

    fn measure(&self, load: Load) -> Result<f64, LabError> {
        let barrier = Barrier::new(load.threads);
        let streams = self.streams(load)?;
        let done: Result<Vec<_>, LabError> = std::thread::scope(|scope| {
            let work = streams.into_iter().map(|mut stream| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let _ends = EndsWithItsThread;
                    let mut worker = self.tree.worker(Silent);
                    barrier.wait();
                    let begun = Instant::now();
                    for _ in 0..load.operations {
                        stream.step(&self.tree, &mut worker)?;
                    }
                    Ok(((begun, Instant::now()), stream))
                })
            });
            let threads: Vec<_> = work.collect();
            threads.into_iter().map(|thread| thread.join().expect("streams return their errors")).collect()
        });
        let (spans, streams): (Vec<_>, Vec<_>) = done?.into_iter().unzip();
        self.tidy(streams.into_iter())?;
        Ok((load.operations * load.threads as u64) as f64 / span_s(&spans))
    }

    fn model(&self, machine: &Machine, load: Load) -> Result<(f64, Counts), LabError> {
        let mut cores = ManyCores::new(machine.clone(), load.threads);
        let streams = self.streams(load)?.into_iter();
        let mut work: Vec<_> = streams.map(|stream| (self.tree.worker(Trace::default()), stream)).collect();
        let mut next = |core: usize, trace: &mut Trace| {
            let (worker, stream) = &mut work[core];
            std::mem::swap(&mut worker.probe, trace);
            let done = stream.step(&self.tree, worker);
            std::mem::swap(&mut worker.probe, trace);
            done
        };
        cores.fill(self.tree.end());
        // The first run warms the cores' own caches.
        cores.run(load.operations, &mut next)?;
        let per_s = cores.run(load.operations, &mut next)?;
        self.tidy(work.into_iter().map(|(_, stream)| stream))?;
        Ok((per_s, cores.counts()))
    }

    fn check(&self) -> Result<(), LabError> {
        let keys = self.tree.check().map_err(Self::wrong)?;
        if keys == self.keys.count() { Ok(()) } else { Err(Self::wrong(format!("{keys} keys at the end"))) }
    }
}

/// Trees under all schemes, NO first.
pub type Subjects = Vec<Box<dyn Subject>>;

/// Loads a family's trees.
type LoadAll = fn(&Keys) -> Result<Subjects, LabError>;
/// The B+-tree comes first.
const FAMILIES: [(&str, LoadAll); 2] = [(BPlus::NAME, all::<BPlus>), (Csb::NAME, all::<Csb>)];

/// Draws panels of each family's trees, one family after the other; `draw` gets its name and its trees.
pub fn of_each_family<const N: usize>(
    keys: &Keys,
    tell: Tell<'_>,
    mut draw: impl FnMut(&str, Subjects, Tell<'_>) -> Result<[Panel; N], LabError>,
) -> Result<Vec<[Panel; N]>, LabError> {
    let each = FAMILIES.into_iter().enumerate().map(|(at, (family, load))| {
        let mut tell = |share: f64, what: &str| {
            tell((at as f64 + share) / FAMILIES.len() as f64, &format!("{family}, {what}"));
        };
        tell(0.05, "loading");
        draw(family, load(keys)?, &mut tell)
    });
    each.collect()
}

fn all<F: Family>(keys: &Keys) -> Result<Subjects, LabError> {
    type Build = fn(&Keys) -> Result<Box<dyn Subject>, LabError>;
    fn boxed<S: Scheme, F: Family>(keys: &Keys) -> Result<Box<dyn Subject>, LabError> {
        Ok(Box::new(Loaded::<S, WORDS, F>::new(keys)?))
    }
    let builds: [Build; 6] = [
        boxed::<No, F>,
        boxed::<Optimistic, F>,
        boxed::<VersionsByNode, F>,
        boxed::<VersionsByTree, F>,
        boxed::<TreeLatch, F>,
        boxed::<LockCoupling, F>,
    ];
    at_once(&builds, |build| build(keys))
}

/// Does what shares nothing and is not timed on threads of its own.
pub fn at_once<T: Sync, R: Send>(
    all: &[T],
    work: impl Fn(&T) -> Result<R, LabError> + Sync,
) -> Result<Vec<R>, LabError> {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = all.iter().map(|one| scope.spawn(move || work(one))).collect();
        threads.into_iter().map(|thread| thread.join().expect("work returns its errors")).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::olfit::Worker;
    use crate::probe::Probe;
    use std::process::Command;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::time::Duration;

    /// The first search panics; the others wait for it, as for a latch that it had: for a while, so that the test ends.
    struct Panics;

    static HAS_PANICKED: AtomicBool = AtomicBool::new(false);
    const WAITED_IN_VAIN: i32 = 7;

    impl Scheme for Panics {
        const NAME: &str = "panics";
        const HEADER: usize = 1;

        fn get<P: Probe, F: Family, const W: usize>(
            _: &Tree<Self, W, F>,
            _: &mut Worker<'_, P>,
            _: u32,
        ) -> Option<u32> {
            assert!(HAS_PANICKED.swap(true, Relaxed), "the first search");
            std::thread::sleep(Duration::from_secs(20));
            std::process::exit(WAITED_IN_VAIN);
        }
    }

    /// It ends the process, so it is run in one of its own.
    #[test]
    fn a_panic_ends_the_others_too() {
        if std::env::var_os("PANICS").is_some() {
            let loaded: Loaded<Panics, WORDS> = Loaded::new(&Keys::new(100, 1)).unwrap();
            let _ = loaded.measure(Load { threads: 2, operations: 1, update_percent: 0, seed: 1 });
        } else {
            let this = "figures::olfit::subject::tests::a_panic_ends_the_others_too";
            let mut child = Command::new(std::env::current_exe().unwrap());
            let child = child.args(["--exact", this, "--nocapture"]).env("PANICS", "").output().unwrap();
            let told = String::from_utf8_lossy(&child.stderr);
            assert_eq!(child.status.code(), Some(101), "{told}");
            assert!(told.contains("the first search"), "{told}");
        }
    }

    /// An update comes down to its leaf as a search does, so it misses the caches no less: a deletion, too, whose key was not
    /// inserted a moment before.
    #[test]
    fn updates_miss_the_caches_as_searches_do() {
        let loaded: Loaded<No, WORDS> = Loaded::new(&Keys::new(300_000, 1)).unwrap();
        let misses = |update_percent| {
            let load = Load { threads: 1, operations: 2_000, update_percent, seed: 1 };
            loaded.model(&Machine::SERVER, load).unwrap().1.l2_misses
        };
        let (searches, updates) = (misses(0), misses(100));
        assert!(updates as f64 > 0.95 * searches as f64, "{updates} by updates, {searches} by searches");
        loaded.check().unwrap();
    }

    /// Searches without any control share nothing but what all of them read: so many cores do so many times the work of one.
    #[test]
    fn cores_that_share_nothing_scale_linearly() {
        let loaded: Loaded<No, WORDS> = Loaded::new(&Keys::new(300_000, 1)).unwrap();
        let per_s = |threads| {
            let load = Load { threads, operations: 500, update_percent: 0, seed: 1 };
            loaded.model(&Machine::SERVER, load).unwrap().0
        };
        let speedup = per_s(64) / per_s(1);
        assert!((58.0..65.0).contains(&speedup), "64 cores do {speedup} times the work of one");
    }
}
