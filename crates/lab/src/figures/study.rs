//! What the single-threaded figures share: batches of operations with known answers, run on any structure under any probe.

use crate::frame::LabError;
use crate::olfit::{No, Tree};
use crate::probe::Probe;
use crate::trees::{CssTree, Ordered};
use foreshore_index::{IntMap, O2Map};
use foreshore_workloads::random::{Permutation, Random};

/// An operation. Keys are inserted once, and looked up or removed only while they are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Get(u32),
    Insert(u32),
    Remove(u32),
}

/// The value that belongs to a key.
pub fn value_of(key: u32) -> u32 {
    key ^ 0x5BD1_E995
}

/// A structure that does a batch.
pub trait Study {
    /// Its name on charts.
    fn name(&self) -> String;
    /// Does the operations; how many answers were wrong?
    fn run<P: Probe>(&mut self, operations: &[Op], probe: &mut P) -> usize;

    /// Does the operations and refuses wrong answers.
    fn run_checked<P: Probe>(&mut self, operations: &[Op], probe: &mut P) -> Result<(), LabError> {
        match self.run(operations, probe) {
            0 => Ok(()),
            wrong => {
                Err(LabError::Wrong(format!("{}: {wrong} of {} operations", self.name(), operations.len())))
            }
        }
    }
}

/// How many of `operations` `does` not do right: it is given the operation and the key's value.
fn wrong(operations: &[Op], mut does: impl FnMut(Op, u32) -> bool) -> usize {
    operations
        .iter()
        .filter(|op| {
            let (Op::Get(key) | Op::Insert(key) | Op::Remove(key)) = **op;
            !does(**op, value_of(key))
        })
        .count()
}

/// One of the laboratory's trees, with its name.
pub struct Named<T>(pub &'static str, pub T);

impl<T: Ordered> Study for Named<T> {
    fn name(&self) -> String {
        self.0.to_owned()
    }

    fn run<P: Probe>(&mut self, operations: &[Op], probe: &mut P) -> usize {
        wrong(operations, |op, value| match op {
            Op::Get(key) => self.1.get(key, probe) == Some(value),
            Op::Insert(key) => self.1.insert(key, value, probe),
            Op::Remove(key) => self.1.remove(key, probe) == Some(value),
        })
    }
}

/// The B+-tree of OLFIT's experiments, without concurrency control.
pub struct BPlus<const W: usize>(pub Tree<No, W>);

impl<const W: usize> BPlus<W> {
    /// An empty one with room for so many keys.
    pub fn with_room_for(keys: usize) -> Self {
        Self(Tree::with_room_for(keys))
    }
}

impl<const W: usize> Study for BPlus<W> {
    fn name(&self) -> String {
        "B+".to_owned()
    }

    fn run<P: Probe>(&mut self, operations: &[Op], probe: &mut P) -> usize {
        let worker = &mut self.0.worker(probe);
        wrong(operations, |op, value| match op {
            Op::Get(key) => self.0.get(worker, key) == Some(value),
            Op::Insert(key) => self.0.insert(worker, key, value),
            Op::Remove(key) => self.0.remove(worker, key) == Some(value),
        })
    }
}

/// A CSS-tree, which only answers lookups: anything else is wrong.
pub struct Css(pub CssTree);

impl Study for Css {
    fn name(&self) -> String {
        "CSS".to_owned()
    }

    fn run<P: Probe>(&mut self, operations: &[Op], probe: &mut P) -> usize {
        wrong(operations, |op, value| matches!(op, Op::Get(key) if self.0.get(key, probe) == Some(value)))
    }
}

/// The production B+-tree; it tells a probe nothing.
pub struct Production(pub IntMap<u32>);

impl Study for Production {
    fn name(&self) -> String {
        "B+".to_owned()
    }

    fn run<P: Probe>(&mut self, operations: &[Op], _probe: &mut P) -> usize {
        let map = self.0.pin();
        wrong(operations, |op, value| match op {
            Op::Get(key) => map.get(key) == Some(value.into()),
            Op::Insert(key) => map.insert(key, value.into()).is_none(),
            Op::Remove(key) => map.remove(key) == Some(value.into()),
        })
    }
}

/// The production O2-Tree; it tells a probe nothing.
pub struct O2(pub O2Map<u32>);

impl Study for O2 {
    fn name(&self) -> String {
        "O2".to_owned()
    }

    fn run<P: Probe>(&mut self, operations: &[Op], _probe: &mut P) -> usize {
        let map = self.0.pin();
        wrong(operations, |op, value| match op {
            Op::Get(key) => map.get(key) == Some(value.into()),
            Op::Insert(key) => map.insert(key, value.into()).is_none(),
            Op::Remove(key) => map.remove(key) == Some(value.into()),
        })
    }
}

/// In which order keys come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    Sequential,
    Random,
    /// Few keys are asked for often: key `n u⁴` for a uniform `u`.
    Skewed,
}

/// Keys `0, 2, 4 …` below `2n`.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    pub count: u32,
    pub seed: u64,
}

impl Keys {
    /// All keys, once, to be inserted.
    ///
    /// Panics for skewed input: keys are inserted once.
    pub fn inserts(&self, input: Input) -> Vec<Op> {
        let order = Permutation::new(u64::from(self.count), self.seed);
        let place = |at: u32| match input {
            Input::Sequential => at,
            Input::Random => order.at(u64::from(at)) as u32,
            Input::Skewed => panic!("keys are inserted once"),
        };
        (0..self.count).map(|at| Op::Insert(2 * place(at))).collect()
    }

    /// So many lookups of keys that are there.
    pub fn gets(&self, input: Input, lookups: u32) -> Vec<Op> {
        let mut random = Random::new(self.seed, 1);
        let mut place = |at: u32| match input {
            Input::Sequential => at % self.count,
            Input::Random => random.below(u64::from(self.count)) as u32,
            Input::Skewed => {
                let uniform = random.below(1 << 32) as f64 / (1u64 << 32) as f64;
                (f64::from(self.count) * uniform.powi(4)) as u32
            }
        };
        (0..lookups).map(|at| Op::Get(2 * place(at))).collect()
    }

    /// All entries, in order.
    pub fn entries(&self) -> Vec<(u32, u32)> {
        (0..self.count).map(|at| (2 * at, value_of(2 * at))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neighbours in time are neighbours in the structure, whatever part of the keys is looked up.
    #[test]
    fn sequential_lookups_leave_nothing_out() {
        let keys = Keys { count: 6, seed: 1 };
        let expected = |places: &[u32]| places.iter().map(|place| Op::Get(2 * place)).collect::<Vec<_>>();
        assert_eq!(keys.gets(Input::Sequential, 3), expected(&[0, 1, 2]));
        assert_eq!(keys.gets(Input::Sequential, 8), expected(&[0, 1, 2, 3, 4, 5, 0, 1]));
    }
}
