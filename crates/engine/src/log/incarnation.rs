//! One life of the log, from an open to the crash or close that ended it.
//!
//! Why: after a crash, bytes beyond the end that was found may still look like records. The next life begins behind
//! that end with another salt, so they can never be taken for its own. The directory journal keeps the list.

use super::options::ceil_block;
use foreshore_base::{Lsn, seeded_bug};
use std::hash::{BuildHasher, RandomState};

/// Where a life of the log begins, and where the one before ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Incarnation {
    /// The end of the last record of the incarnation before; 0 for the first.
    pub prev_end: Lsn,
    /// The first LSN of this one, on a block boundary.
    pub start: Lsn,
    /// Part of every record's checksum.
    pub salt: u64,
}

impl Incarnation {
    /// The incarnation that follows a log whose last record ends at `prev_end`.
    ///
    /// It begins at the next block boundary. No acknowledged byte lies there or beyond: whatever was acknowledged was
    /// found, so it ends at `prev_end` or before. And the block that holds `prev_end` is never written again.
    pub fn after(prev_end: Lsn) -> Self {
        // The standard library's hasher keys are random for each thread and different for each call.
        let salt = RandomState::new().hash_one(prev_end);
        let salt = if seeded_bug("log_same_salt") { 0 } else { salt };
        Self { prev_end, start: Lsn(ceil_block(prev_end.0)), salt }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_life_begins_at_the_next_block_with_another_salt() {
        let (a, b) = (Incarnation::after(Lsn(4097)), Incarnation::after(Lsn(4097)));
        assert_eq!((a.prev_end, a.start), (Lsn(4097), Lsn(8192)));
        assert_eq!(Incarnation::after(Lsn(8192)).start, Lsn(8192));
        assert_ne!(a.salt, b.salt);
    }
}
