//! The version word of a cell: who wrote it, and whether it is a ghost.
//!
//! ```text
//! bit 63      ghost: the key was removed, and the cell stays as its tombstone and as a name for gap locks
//! bit 62      autocommitted: bits 0..56 are the LSN of the autocommitted write itself
//! bits 0..56  otherwise the transaction that wrote the cell; 0: nobody need ask
//! ```
//!
//! A transaction's id never changes into its commit LSN here: a commit would have to visit all its leaves again. Readers
//! that care ask the transaction table and the images of the key table (`txn/view.rs`).

use foreshore_base::{Lsn, TxnId};

const GHOST: u64 = 1 << 63;
const AUTOCOMMITTED: u64 = 1 << 62;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version(pub u64);

/// Who wrote a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    /// Somebody whose commit every reader sees.
    Anyone,
    /// A write that was committed by its own log record, which begins here.
    Autocommit(Lsn),
    /// A transaction.
    Txn(TxnId),
}

impl Version {
    /// Visible to everyone.
    pub const SETTLED: Version = Version(0);

    /// Written by a transaction.
    pub fn of(txn: TxnId) -> Self {
        Self(txn.0)
    }

    /// Written by the log record that begins at `at`, and committed by it.
    pub fn autocommit(at: Lsn) -> Self {
        Self(at.0 | AUTOCOMMITTED)
    }

    /// The same writer, who removed the key.
    pub fn ghost(self) -> Self {
        Self(self.0 | GHOST)
    }

    /// Is the key removed in this version?
    #[inline]
    pub fn is_ghost(self) -> bool {
        self.0 & GHOST != 0
    }

    /// The word without the ghost bit: the same for all that one transaction, or one autocommitted record, wrote.
    #[inline]
    pub fn author(self) -> u64 {
        self.0 & !GHOST
    }

    /// Who wrote it.
    #[inline]
    pub fn writer(self) -> Writer {
        match self.author() {
            0 => Writer::Anyone,
            word if word & AUTOCOMMITTED != 0 => Writer::Autocommit(Lsn(word & !AUTOCOMMITTED)),
            word => Writer::Txn(TxnId(word)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_who_and_whether() {
        assert_eq!(Version::SETTLED.writer(), Writer::Anyone);
        assert_eq!(Version::SETTLED.ghost().writer(), Writer::Anyone);
        assert_eq!(Version::of(TxnId(77)).ghost().writer(), Writer::Txn(TxnId(77)));
        assert_eq!(Version::autocommit(Lsn(88)).writer(), Writer::Autocommit(Lsn(88)));
        assert!(
            Version::autocommit(Lsn::MAX).ghost().is_ghost() && !Version::of(TxnId(Lsn::MAX.0)).is_ghost()
        );
        assert_eq!(Version::of(TxnId(77)).ghost().author(), Version::of(TxnId(77)).author());
    }
}
