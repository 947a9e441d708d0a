//! Ids as types, so that a page id never passes for a frame id, a slot or a count.
//!
//! ```
//! use foreshore_base::{Lsn, PageId};
//!
//! let begin = Lsn(4096);
//! let end = begin + 128;
//! assert_eq!((end - begin, end.to_string()), (128, "4224".into()));
//! assert!(end > begin && end < Lsn::MAX);
//! assert!(PageId::NONE.is_none());
//! ```

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// Names a leaf page for as long as it lives, wherever it is kept. 0 is never a page: it ends a leaf chain.
    PageId(u64)
}
id! {
    /// Names a frame of the buffer pool: an index below the number of frames.
    FrameId(u32)
}
id! {
    /// Names a page-sized place in the leaf file: byte offset = slot × page size.
    SlotId(u64)
}
id! {
    /// Names a table. 0 is no table, 1 is the catalog.
    TableId(u32)
}
id! {
    /// A position in the log: bytes from the beginning of its history. The top 8 bits stay zero, reserved for a
    /// stream number.
    Lsn(u64)
}

id! {
    /// Names a read-write transaction that has written: the LSN of its first log record, so that later ones are greater,
    /// across restarts too.
    TxnId(u64)
}

impl PageId {
    /// The end of a leaf chain.
    pub const NONE: PageId = PageId(0);

    /// Is this the end of a chain?
    pub fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl Lsn {
    /// The beginning of the log; older than every record.
    pub const ZERO: Lsn = Lsn(0);
    /// Later than every record there will ever be.
    pub const MAX: Lsn = Lsn((1 << 56) - 1);
}

impl std::ops::Add<u64> for Lsn {
    type Output = Lsn;

    fn add(self, bytes: u64) -> Lsn {
        Lsn(self.0 + bytes)
    }
}

impl std::ops::Sub for Lsn {
    type Output = u64;

    /// Bytes between two positions. Panics in debug builds when `other` is later.
    fn sub(self, other: Lsn) -> u64 {
        self.0 - other.0
    }
}
