//! Many keys at a time: descents side by side, and runs of sorted inserts.
//!
//! Why: a descent waits for one node after the other. Here some dozens are under way, each at a step of its own: a step reads
//! what was asked for a while ago, and asks for what the next one reads. So while lines are on their way, others are searched, and
//! memory's throughput is the limit instead of its latency. A node takes two steps: its first line tells where to go on,
//! and then the line or two that matter are read.
//! Source: multicore study (batched, interleaved lookups); group prefetching and software-pipelined
//! prefetching after Chen et al. (ICDE 2004): the pipeline's stages are the steps, with a small group in each.
//!
//! Nothing here weakens a read: each step is validated as ever, and a batch is no snapshot. Each of its keys is looked up
//! or inserted by itself, at some moment between begin and end of the call.

use super::update::Latched;
use super::{Step, Tree, node_at};
use crate::node::{Bias, Node, Place, Seen};
use crate::reclaim::Pin;
use foreshore_base::{Restart, seeded_bug};
use std::borrow::Borrow;

/// Descents that take a step one right after the other: the fewest for which that is worth a loop.
const GROUP: usize = 4;

/// How many entries went into one leaf, and how many of them were new.
struct Run {
    len: usize,
    fresh: u64,
}

/// A node where a key is to be looked for, and where in it, as long as it keeps the version seen.
struct Look<'g, N> {
    node: &'g N,
    /// The word of the node's latch.
    seen: u64,
    at: u64,
}

impl<N> Clone for Look<'_, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<N> Copy for Look<'_, N> {}

impl<'g, N: Node> Look<'g, N> {
    /// Reads the node's first line, and asks for what comes next.
    #[inline(always)]
    fn aim(&mut self, aim: impl FnOnce(&'g N) -> u64) {
        self.seen = self.node.header().latch.word();
        self.at = aim(self.node);
    }

    /// What `read` makes of the node, if it is the one seen.
    #[inline(always)]
    fn read<R>(&self, read: impl FnOnce(&'g N, u64, &Seen) -> Result<R, Restart>) -> Result<R, Restart> {
        let latch = &self.node.header().latch;
        let seen = if seeded_bug("index_aim_of_another_version") {
            latch.try_optimistic()?
        } else {
            latch.optimistic_since(self.seen).ok_or(Restart)?
        };
        let result = read(self.node, self.at, &Seen::Optimistic(seen))?;
        seen.validate()?;
        Ok(result)
    }
}

impl<N: Node> Tree<N> {
    /// Looks up what the tree knows the keys as, and sets the value of each.
    pub fn get_many<K, Q: Borrow<N::Key>>(
        &self,
        keys: &[K],
        known_as: impl Fn(&K) -> Q,
        values: &mut [Option<u64>],
        pin: &Pin,
    ) {
        self.descend_many(keys, known_as, |i, key, look| values[i] = self.value(look, key, pin), pin);
    }

    /// The value of a key that its leaf was aimed at for.
    #[inline(always)]
    fn value(&self, look: &Look<N>, key: &N::Key, pin: &Pin) -> Option<u64> {
        let value = look.read(|leaf, at, seen| leaf.value_by(at, key, seen));
        value.unwrap_or_else(|Restart| self.get_from(look.node, key, pin))
    }

    /// Sets the values of keys, in their order; the number of keys that were new.
    pub fn insert_many<K, Q: Borrow<N::Key>>(
        &self,
        entries: &[(K, u64)],
        known_as: impl Fn(&K) -> Q,
        pin: &Pin,
    ) -> u64 {
        let mut fresh = 0;
        let insert = |i: usize, key: &N::Key, look: &Look<N>| {
            fresh += u64::from(self.insert_from(look.node, key, entries[i].1, pin).is_none());
        };
        self.descend_many(entries, |(key, _)| known_as(key), insert, pin);
        fresh
    }

    /// As `insert_many`, for keys that never fall (the caller says so): one descent, one latch, for all that belong to
    /// a leaf and have room there.
    pub fn insert_sorted<Q: Borrow<N::Key>>(&self, entries: &[(Q, u64)], pin: &Pin) -> u64 {
        let (mut rest, mut fresh) = (entries, 0);
        while let Some((key, value)) = rest.first() {
            let run = self.insert_run(rest, key.borrow(), pin);
            if run.len == 0 {
                // The leaf is full: a single insert splits it.
                fresh += u64::from(self.insert(key.borrow(), *value, pin).is_none());
            }
            fresh += run.fresh;
            rest = &rest[run.len.max(1)..];
        }
        fresh
    }

    /// Enters what belongs to the leaf of `key`, the first one's, up to where it is full.
    fn insert_run<Q: Borrow<N::Key>>(&self, entries: &[(Q, u64)], key: &N::Key, pin: &Pin) -> Run {
        let leaf = self.descend(key, Bias::AtMost, 0, pin);
        let Latched { node, latch } = self.latch_for(leaf, key, pin);
        let mut run = Run { len: 0, fresh: 0 };
        for (key, value) in entries.iter().map(|(key, value)| (key.borrow(), *value)) {
            let place = node.place(key, Bias::AtMost, &Seen::Latched);
            match place.expect("reading under the latch never restarts") {
                Place::Beyond => break,
                Place::Rank(rank, true) => node.set_word(rank - 1, value),
                Place::Rank(rank, false) if node.make_room(key, false) => {
                    node.insert_at(rank, key, value);
                    self.note_outside(key);
                    run.fresh += 1;
                }
                Place::Rank(..) => break,
            }
            run.len += 1;
        }
        if run.len == 0 {
            latch.release_unchanged()
        } else {
            drop(latch)
        }
        self.length.add(run.fresh as i64);
        run
    }

    /// Descends for the key of each entry to a leaf from which it is not to the left, aims at it there, and hands it to `land`,
    /// in the order of the entries.
    #[inline(always)]
    fn descend_many<'g, E, Q: Borrow<N::Key>>(
        &self,
        entries: &[E],
        key: impl Fn(&E) -> Q,
        mut land: impl FnMut(usize, &N::Key, &Look<'g, N>),
        pin: &'g Pin,
    ) {
        let root = self.root(pin);
        let tails = usize::from(N::HAS_TAILS);
        let stages = 2 * (usize::from(root.header().level()) + 1) + tails;
        let groups = entries.len().div_ceil(GROUP);
        let start = [Look { node: root, seen: 0, at: 0 }; GROUP];
        let mut ring = vec![start; stages.next_power_of_two()];
        let mask = ring.len() - 1;
        for step in 0..groups + stages - 1 {
            // A group is one stage behind the group before it.
            for stage in (step + 1).saturating_sub(groups)..stages.min(step + 1) {
                let number = step - stage;
                let first = number * GROUP;
                let looks = &mut ring[number & mask];
                let group = looks.iter_mut().zip(&entries[first..entries.len().min(first + GROUP)]);
                match stages - 1 - stage {
                    0 => {
                        group
                            .enumerate()
                            .for_each(|(i, (look, entry))| land(first + i, key(entry).borrow(), look));
                        *looks = start;
                    }
                    1 if N::HAS_TAILS => {
                        group.for_each(|(look, entry)| look.node.prefetch_tail(key(entry).borrow()));
                    }
                    left if left == tails + 1 => {
                        group.for_each(|(look, entry)| {
                            look.aim(|leaf| leaf.aim_at_value(key(entry).borrow()))
                        });
                    }
                    left if (left - tails) % 2 == 1 => {
                        group.for_each(|(look, entry)| {
                            look.aim(|node| node.aim_at_child(key(entry).borrow()))
                        });
                    }
                    _ => {
                        group.for_each(|(look, entry)| look.node = self.child(look, key(entry).borrow(), pin))
                    }
                }
            }
        }
    }

    /// The child that leads to `key`, whose first line is asked for.
    #[inline(always)]
    fn child<'g>(&self, look: &Look<'g, N>, key: &N::Key, pin: &'g Pin) -> &'g N {
        let child = look.read(|node, at, seen| {
            let child = node.child_by(at, key, seen)?;
            N::prefetch_first(std::ptr::with_exposed_provenance(child as usize));
            Ok(child)
        });
        match child {
            Ok(child) => node_at(child, pin),
            Err(Restart) => self.child_to_the_right(look.node, key, pin),
        }
    }

    /// The same, from a node that has changed, or to whose right the key is.
    #[cold]
    #[inline(never)]
    fn child_to_the_right<'g>(&self, node: &'g N, key: &N::Key, pin: &'g Pin) -> &'g N {
        let mut node = node;
        loop {
            match self.step(node, key, Bias::AtMost, N::prefetch_first, pin) {
                Step::Down(child) => return child,
                Step::Right(right) => node = right,
            }
        }
    }
}
