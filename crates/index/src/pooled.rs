//! What the pool asks of the nodes that it keeps.

/// A node of the pool: its first word is its latch, its size a multiple of a line.
pub(crate) trait Pooled: Sized + Send + Sync + 'static {
    /// Memory that was never a node.
    fn vacant() -> Self;

    /// Set while the node lies in the pool, where nobody may be reading it.
    #[cfg(shuttle)]
    fn pooled(&self) -> &std::sync::atomic::AtomicBool;
}

impl<N: crate::node::Node> Pooled for N {
    fn vacant() -> Self {
        N::vacant()
    }

    #[cfg(shuttle)]
    fn pooled(&self) -> &std::sync::atomic::AtomicBool {
        &self.header().pooled
    }
}
