//! What the pool asks of the nodes that it keeps.

/// The shelf of nodes that are read only under a pin.
pub(crate) const PINNED: usize = 0;
/// The shelf of nodes above leaves of integers, which are read without a pin and consist of 64-bit atomics.
pub(crate) const INNER_OF_WORDS: usize = 1;
/// The same for nodes whose first line has 32-bit atomics for keys.
pub(crate) const INNER_OF_HALVES: usize = 2;
/// The shelf of leaves of integers, which are read without a pin and consist of 64-bit atomics.
pub(crate) const LEAVES_OF_WORDS: usize = 3;
/// The same for leaves whose first line and key array consist of 32-bit atomics. Two such key arrays of different lengths in
/// lines make different sizes, so a word of one is never a pair of halves in another.
pub(crate) const LEAVES_OF_HALVES: usize = 4;
/// All shelves.
#[cfg_attr(shuttle, allow(dead_code, reason = "the model's pool goes by types"))]
pub(crate) const SHELVES: usize = 5;

/// A node of the pool: its first word is its latch, its size a multiple of a line. It consists of atomics, so zeros are one.
pub(crate) trait Pooled: Sized + Send + Sync + 'static {
    /// The shelf of the pool that these nodes come from.
    #[cfg_attr(shuttle, allow(dead_code, reason = "the model's pool goes by types"))]
    const SHELF: usize = PINNED;

    /// Memory that was never a node, where the pool is not memory of zeros.
    #[cfg(any(shuttle, test))]
    fn vacant() -> Self;

    /// Set while the node lies in the pool, where nobody may be reading it.
    #[cfg(shuttle)]
    fn pooled(&self) -> &std::sync::atomic::AtomicBool;
}
