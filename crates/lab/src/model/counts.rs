//! What is counted, per core or in all.

use std::ops::AddAssign;

/// Events since the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Loads, stores and atomic accesses.
    pub accesses: u64,
    /// Not in the first level.
    pub l1_misses: u64,
    /// Nor in the core's second level.
    pub l2_misses: u64,
    /// From memory.
    pub memory: u64,
    /// The translation was not at hand.
    pub tlb_misses: u64,
    /// Branches come to.
    pub branches: u64,
    /// Mispredicted ones.
    pub mispredicted: u64,
    /// Misses on a line that the core had, and lost because another wrote it.
    pub coherence_misses: u64,
    /// Cycles spent waiting for a latch.
    pub waited: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.accesses += other.accesses;
        self.l1_misses += other.l1_misses;
        self.l2_misses += other.l2_misses;
        self.memory += other.memory;
        self.tlb_misses += other.tlb_misses;
        self.branches += other.branches;
        self.mispredicted += other.mispredicted;
        self.coherence_misses += other.coherence_misses;
        self.waited += other.waited;
    }
}
