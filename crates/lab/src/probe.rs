//! The seam between index code and the models: what a structure tells about its own memory accesses.
//!
//! Why: a machine without hardware counters, or with two cores, cannot show what OLFIT argues about. So the laboratory's
//! trees are generic over a `Probe`. [`Silent`] compiles to nothing: that is how they are timed. The models
//! ([`crate::model`]) see every load, store and latch of the very same code.
//!
//! Addresses are the structure's own (node number times node size), not those of the machine: a trace is the same on
//! every run.

/// How a latch is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// With others that read.
    Shared,
    /// Alone.
    Exclusive,
}

/// Where in the code a conditional branch stands: predictors learn per place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// A comparison of a binary search.
    Bisect,
    /// The loop of a linear search.
    Scan,
    /// Left or right, in a binary tree.
    Turn,
}

/// Is told of every access that a structure makes to its nodes. Addresses are in bytes.
pub trait Probe {
    /// Reads the word at `_at`.
    #[inline(always)]
    fn load(&mut self, _at: u64) {}
    /// Writes the word at `_at`.
    #[inline(always)]
    fn store(&mut self, _at: u64) {}
    /// Reads and writes the word at `_at` in one atomic step.
    #[inline(always)]
    fn exchange(&mut self, _at: u64) {}
    /// Asks for the line of `_at` ahead of its use.
    #[inline(always)]
    fn prefetch(&mut self, _at: u64) {}
    /// Takes the latch whose word is at `_at`, waiting if need be. The atomic access is part of it.
    #[inline(always)]
    fn take(&mut self, _at: u64, _hold: Hold) {}
    /// Gives that latch back. The atomic access is part of it.
    #[inline(always)]
    fn give(&mut self, _at: u64, _hold: Hold) {}
    /// Comes to a conditional branch.
    #[inline(always)]
    fn branch(&mut self, _place: Branch, _taken: bool) {}
    /// Changed a node of this level; leaves are level 0.
    #[inline(always)]
    fn updated(&mut self, _level: u32) {}
}

/// Nobody looks: the structure runs as if there were no seam.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Probe for Silent {}

impl<P: Probe> Probe for &mut P {
    fn load(&mut self, at: u64) {
        (**self).load(at);
    }
    fn store(&mut self, at: u64) {
        (**self).store(at);
    }
    fn exchange(&mut self, at: u64) {
        (**self).exchange(at);
    }
    fn prefetch(&mut self, at: u64) {
        (**self).prefetch(at);
    }
    fn take(&mut self, at: u64, hold: Hold) {
        (**self).take(at, hold);
    }
    fn give(&mut self, at: u64, hold: Hold) {
        (**self).give(at, hold);
    }
    fn branch(&mut self, place: Branch, taken: bool) {
        (**self).branch(place, taken);
    }
    fn updated(&mut self, level: u32) {
        (**self).updated(level);
    }
}
