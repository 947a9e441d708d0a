//! Many keys at a time: descents side by side, and runs of sorted inserts.
//!
//! Why: a descent waits for one node after the other. A group of descents, level by level, asks for all of its next
//! nodes before it looks at the first of them, and so waits for memory's throughput instead of its latency. It asks
//! twice a node: for the first line, which tells where to go on, and then for the few lines that matter. In a leaf it
//! asks a third time, for the value's line, which only the search tells.
//! Source: multicore study (batched, interleaved lookups); group prefetching after Chen et al.
//!
//! Nothing here weakens a read: each step is validated as ever, and a batch is no snapshot. Each of its keys is looked up
//! or inserted by itself, at some moment between begin and end of the call.

use super::update::Latched;
use super::{Step, Tree};
use crate::node::{Bias, Node, Place, Seen};
use crate::reclaim::Pin;
use foreshore_base::{Optimistic, Restart};

/// Descents side by side: so many that a core's dozen outstanding misses are busy nearly all of the time.
const GROUP: usize = 32;

/// Levels above the leaves whose nodes may have to be asked for. Those above them are a few in a million keys, and stay in
/// the caches.
const COLD_LEVELS: u8 = 2;

/// Entries that went into one leaf: those before `end`, of which so many were new.
struct Run {
    end: usize,
    fresh: u64,
}

/// Where a key is in a leaf, as long as the leaf has the version seen.
#[derive(Clone, Copy)]
struct Look<'g> {
    seen: Optimistic<'g>,
    entry: Option<usize>,
}

impl<'g> Look<'g> {
    /// Looks once, and asks for the value.
    #[inline(always)]
    fn at<N: Node>(leaf: &'g N, key: &N::Key) -> Result<Self, Restart> {
        let seen = leaf.header().latch.try_optimistic()?;
        let Place::Rank(rank, exact) = leaf.place(key, Bias::AtMost, &Seen::Optimistic(seen))? else {
            return Err(Restart);
        };
        let entry = exact.then(|| rank - 1);
        entry.inspect(|&entry| leaf.approach_word(entry));
        Ok(Self { seen, entry })
    }

    #[inline(always)]
    fn value<N: Node>(self, leaf: &N) -> Result<Option<u64>, Restart> {
        let value = self.entry.map(|entry| leaf.word(entry));
        self.seen.validate()?;
        Ok(value)
    }
}

impl<N: Node> Tree<N> {
    /// Looks `len` keys up; hands each number and value to `found`, in order.
    pub fn get_many<'k>(
        &self,
        len: usize,
        key: impl Fn(usize) -> &'k N::Key,
        mut found: impl FnMut(usize, Option<u64>),
        pin: &Pin,
    ) where
        N::Key: 'k,
    {
        for first in (0..len).step_by(GROUP) {
            let group = GROUP.min(len - first);
            let leaves = self.descend_group(group, |i| key(first + i), pin);
            (0..group).for_each(|i| leaves[i].approach_keys(key(first + i)));
            let mut looks = [const { Err(Restart) }; GROUP];
            for i in 0..group {
                looks[i] = Look::at(leaves[i], key(first + i));
            }
            for i in 0..group {
                let value = looks[i].and_then(|look| look.value(leaves[i]));
                found(
                    first + i,
                    value.unwrap_or_else(|Restart| self.get_from(leaves[i], key(first + i), pin)),
                );
            }
        }
    }

    /// Sets the values of `len` keys, in their order; the number of keys that were new.
    pub fn insert_many<'k>(&self, len: usize, entry: impl Fn(usize) -> (&'k N::Key, u64), pin: &Pin) -> u64
    where
        N::Key: 'k,
    {
        let mut fresh = 0;
        for first in (0..len).step_by(GROUP) {
            let group = GROUP.min(len - first);
            let leaves = self.descend_group(group, |i| entry(first + i).0, pin);
            (0..group).for_each(|i| leaves[i].approach(entry(first + i).0));
            for (i, leaf) in leaves[..group].iter().enumerate() {
                let (key, value) = entry(first + i);
                fresh += u64::from(self.insert_from(leaf, key, value, pin).is_none());
            }
        }
        fresh
    }

    /// As `insert_many`, for keys that never fall (the caller says so): one descent, one latch, for all that belong to
    /// a leaf and have room there.
    pub fn insert_sorted<'k>(&self, len: usize, entry: impl Fn(usize) -> (&'k N::Key, u64), pin: &Pin) -> u64
    where
        N::Key: 'k,
    {
        let (mut next, mut fresh) = (0, 0);
        while next < len {
            let run = self.insert_run(next, len, &entry, pin);
            if run.end == next {
                // The leaf is full: a single insert splits it.
                let (key, value) = entry(next);
                fresh += u64::from(self.insert(key, value, pin).is_none());
                next += 1;
            } else {
                fresh += run.fresh;
                next = run.end;
            }
        }
        fresh
    }

    /// Enters what belongs to the leaf of entry `first`, up to where it is full.
    fn insert_run<'k>(
        &self,
        first: usize,
        len: usize,
        entry: &impl Fn(usize) -> (&'k N::Key, u64),
        pin: &Pin,
    ) -> Run
    where
        N::Key: 'k,
    {
        let key = entry(first).0;
        let leaf = self.descend(key, Bias::AtMost, 0, pin);
        let Latched { node, latch } = self.latch_for(leaf, key, pin);
        let mut run = Run { end: first, fresh: 0 };
        while run.end < len {
            let (key, value) = entry(run.end);
            let place = node.place(key, Bias::AtMost, &Seen::Latched);
            match place.expect("reading under the latch never restarts") {
                Place::Beyond => break,
                Place::Rank(rank, true) => node.set_word(rank - 1, value),
                Place::Rank(rank, false) if node.make_room(key, false) => {
                    node.insert_at(rank, key, value);
                    run.fresh += 1;
                }
                Place::Rank(..) => break,
            }
            run.end += 1;
        }
        if run.end == first {
            latch.release_unchanged()
        } else {
            drop(latch)
        }
        self.length.add(run.fresh as i64);
        run
    }

    /// Leaves from which these keys are not to the left, their first lines asked for. At most [`GROUP`] keys.
    #[inline(always)]
    fn descend_group<'g, 'k>(
        &self,
        len: usize,
        key: impl Fn(usize) -> &'k N::Key,
        pin: &'g Pin,
    ) -> [&'g N; GROUP]
    where
        N::Key: 'k,
    {
        let root = self.root(pin);
        let mut nodes = [root; GROUP];
        for level in (1..=root.header().level()).rev() {
            if level <= COLD_LEVELS {
                (0..len).for_each(|i| nodes[i].approach(key(i)));
            }
            for (i, node) in nodes[..len].iter_mut().enumerate() {
                *node = self.child(node, key(i), pin);
            }
        }
        nodes
    }

    /// The child that leads to `key`, whose first line is asked for.
    #[inline(always)]
    fn child<'g>(&self, node: &'g N, key: &N::Key, pin: &'g Pin) -> &'g N {
        let mut node = node;
        loop {
            match self.step(node, key, Bias::AtMost, N::prefetch_first, pin) {
                Step::Down(child) => return child,
                Step::Right(right) => node = right,
            }
        }
    }
}
