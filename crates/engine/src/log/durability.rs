//! What a commit waits for.

/// How safe a change is when the call that made it returns.
///
/// All modes share this: changes survive in the order in which they were logged, with no hole in the middle: if a
/// change is found after a crash, so is every change logged before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Durability {
    /// The change survives the death of the process and the loss of power, on a disk that honours a flush. The call
    /// waits for the disk; calls that wait at the same time share one write.
    #[default]
    Sync,
    /// The change survives the death of the process, `kill -9` included. It reaches the disk with the next
    /// write of the log: when 256 KiB have gathered, when somebody waits, or within about a tenth of a second. A loss of
    /// power in the meantime may take it back.
    Buffered,
    /// The change survives the death of the process, as with [`Durability::Buffered`]. It reaches the disk with a later
    /// `Sync` or `Buffered` commit, a checkpoint or a close, or when the log buffer is half full; a loss of power may
    /// take back everything since then.
    Relaxed,
}
