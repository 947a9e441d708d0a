//! OLFIT's workload: a tree of uniformly distributed keys; searches for them; inserts of new keys, and their deletes.
//!
//! Each thread inserts keys that only it knows, between the others', so it can check every answer, and takes out what is
//! left at the end: the tree is then what it was. It deletes the oldest of its keys, and has many of them from the beginning: the
//! leaf of one that was inserted a moment before would still be in the caches, where a search's is not.

use crate::frame::LabError;
use crate::olfit::{Family, Scheme, Tree, Worker};
use crate::probe::Probe;
use foreshore_workloads::random::{Permutation, Random};
use std::collections::VecDeque;

/// The keys of a tree before anybody changes it.
#[derive(Clone, Debug)]
pub struct Keys {
    count: u64,
    stride: u64,
    order: Permutation,
}

impl Keys {
    /// So many keys, evenly spread over 32 bits; their order is random by `seed`.
    ///
    /// Panics if there is no room between them for the keys of 128 threads.
    pub fn new(count: usize, seed: u64) -> Self {
        let count = count as u64;
        let stride = u64::from(u32::MAX) / count;
        assert!(stride > 129, "{count} keys leave no room for the threads' own");
        Self { count, stride, order: Permutation::new(count, seed) }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// The keys in the order of their insertion.
    pub fn inserted(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.count).map(|index| self.key(self.order.at(index)))
    }

    /// One of them.
    #[inline]
    pub fn any(&self, random: &mut Random) -> u32 {
        self.key(random.below(self.count))
    }

    fn key(&self, place: u64) -> u32 {
        (place * self.stride) as u32
    }
}

/// The value that belongs to a key.
pub fn value_of(key: u32) -> u32 {
    key ^ 0x5BD1_E995
}

/// What one thread does.
pub struct Stream<'k> {
    keys: &'k Keys,
    me: u64,
    update_percent: u64,
    random: Random,
    own_order: Permutation,
    inserted: u64,
    own: VecDeque<u32>,
}

impl<'k> Stream<'k> {
    /// Thread number `me`; this percentage of its operations are updates, half of them inserts, half deletes.
    pub fn new(keys: &'k Keys, me: usize, update_percent: u64, seed: u64) -> Self {
        let own_order = Permutation::new(keys.count, seed ^ (me as u64 + 1));
        Self {
            keys,
            me: me as u64,
            update_percent,
            random: Random::new(seed, me as u64),
            own_order,
            inserted: 0,
            own: VecDeque::new(),
        }
    }

    /// Does the next operation and checks its answer.
    #[inline]
    pub fn step<S: Scheme, F: Family, P: Probe, const W: usize>(
        &mut self,
        tree: &Tree<S, W, F>,
        worker: &mut Worker<'_, P>,
    ) -> Result<(), LabError> {
        let word = self.random.word();
        if (word >> 32) % 100 >= self.update_percent {
            let key = self.keys.any(&mut self.random);
            return expect::<S, F>(key, tree.get(worker, key) == Some(value_of(key)));
        }
        if word & 1 == 0 && !self.own.is_empty() {
            return self.remove(tree, worker);
        }
        self.insert(tree, worker)
    }

    /// Puts in so many new keys, to be deleted later.
    pub fn prepare<S: Scheme, F: Family, P: Probe, const W: usize>(
        &mut self,
        tree: &Tree<S, W, F>,
        worker: &mut Worker<'_, P>,
        keys: u64,
    ) -> Result<(), LabError> {
        (0..keys).try_for_each(|_| self.insert(tree, worker))
    }

    /// Puts in a new key.
    #[inline]
    pub fn insert<S: Scheme, F: Family, P: Probe, const W: usize>(
        &mut self,
        tree: &Tree<S, W, F>,
        worker: &mut Worker<'_, P>,
    ) -> Result<(), LabError> {
        let key = self.own_key();
        self.own.push_back(key);
        expect::<S, F>(key, tree.insert(worker, key, value_of(key)))
    }

    /// Takes out what this thread has put in.
    pub fn tidy<S: Scheme, F: Family, P: Probe, const W: usize>(
        &mut self,
        tree: &Tree<S, W, F>,
        worker: &mut Worker<'_, P>,
    ) -> Result<(), LabError> {
        while !self.own.is_empty() {
            self.remove(tree, worker)?;
        }
        Ok(())
    }

    fn remove<S: Scheme, F: Family, P: Probe, const W: usize>(
        &mut self,
        tree: &Tree<S, W, F>,
        worker: &mut Worker<'_, P>,
    ) -> Result<(), LabError> {
        let key = self.own.pop_front().expect("the caller saw one");
        expect::<S, F>(key, tree.remove(worker, key) == Some(value_of(key)))
    }

    /// A key that no other thread uses, and this one not again soon.
    fn own_key(&mut self) -> u32 {
        let place = self.own_order.at(self.inserted % self.keys.count);
        self.inserted += 1;
        self.keys.key(place) + 1 + self.me as u32
    }
}

fn expect<S: Scheme, F: Family>(key: u32, right: bool) -> Result<(), LabError> {
    if right { Ok(()) } else { Err(LabError::Wrong(format!("{} {}, key {key}", F::NAME, S::NAME))) }
}
