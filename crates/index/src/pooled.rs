//! What the pool asks of the nodes that it keeps.

/// The shelf of nodes that are read only under a pin.
pub(crate) const PINNED: usize = 0;
/// The shelf of nodes that are read without a pin and consist of 64-bit atomics.
pub(crate) const WORDS: usize = 1;
/// The same for nodes whose key array, from the second line on, consists of 32-bit atomics. Two such arrays of different
/// lengths in lines make different sizes, so a word of one is never a pair of halves in another.
pub(crate) const HALVES: usize = 2;
/// All shelves.
#[cfg_attr(shuttle, allow(dead_code, reason = "the model's pool goes by types"))]
pub(crate) const SHELVES: usize = 3;

/// A node of the pool: its first word is its latch, its size a multiple of a line.
pub(crate) trait Pooled: Sized + Send + Sync + 'static {
    /// The shelf of the pool that these nodes come from.
    #[cfg_attr(shuttle, allow(dead_code, reason = "the model's pool goes by types"))]
    const SHELF: usize = PINNED;

    /// Memory that was never a node.
    fn vacant() -> Self;

    /// Set while the node lies in the pool, where nobody may be reading it.
    #[cfg(shuttle)]
    fn pooled(&self) -> &std::sync::atomic::AtomicBool;
}

impl<N: crate::node::Node> Pooled for N {
    const SHELF: usize = N::SHELF;

    fn vacant() -> Self {
        N::vacant()
    }

    #[cfg(shuttle)]
    fn pooled(&self) -> &std::sync::atomic::AtomicBool {
        &self.header().pooled
    }
}
