//! What a transaction did and saw, and when.

use foreshore::Isolation;
use std::sync::OnceLock;
use std::time::Instant;

/// A moment: nanoseconds since the first one asked for, the same clock for all threads.
pub type Stamp = u64;

/// What one write added; never used again.
pub type Id = u64;

/// What a row holds; `None`: there is no row.
pub type Content = Option<Vec<Id>>;

/// The moment that is now.
pub fn now() -> Stamp {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed().as_nanos() as Stamp
}

/// Who acted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A read-write transaction.
    Transaction(Isolation),
    /// A read-only one.
    Snapshot,
    /// A write that was its own transaction.
    Autocommit,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Committed,
    RolledBack,
    /// It was to be committed, and a crash kept the answer.
    Unknown,
}

/// Something seen that was not the transaction's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    pub key: usize,
    pub content: Content,
    /// Seen between these moments.
    pub from: Stamp,
    pub to: Stamp,
    /// Is the transaction promised that this stays so until its end? (At weak levels absences from ranges do not.)
    pub stays: bool,
}

/// The last thing that the transaction did to a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    pub key: usize,
    pub content: Content,
    /// A moment after that, before the transaction gave its locks back.
    pub at: Stamp,
}

/// One transaction.
#[derive(Clone, Debug)]
pub struct Entry {
    pub kind: Kind,
    pub fate: Fate,
    pub begin: Stamp,
    /// Others may see its writes from here on at the earliest.
    pub commit: Stamp,
    /// It had taken effect by then: for a snapshot, when it was taken; otherwise when the commit returned.
    pub end: Stamp,
    pub reads: Vec<Read>,
    pub writes: Vec<Write>,
    /// Every id that it wrote, also those that it took back.
    pub tried: Vec<Id>,
}

impl Entry {
    pub fn new(kind: Kind) -> Self {
        let begin = now();
        Self {
            kind,
            fate: Fate::RolledBack,
            begin,
            commit: begin,
            end: begin,
            reads: Vec::new(),
            writes: Vec::new(),
            tried: Vec::new(),
        }
    }

    /// Notes what was seen, once.
    pub fn saw(&mut self, read: Read) {
        let known = |known: &Read| {
            known.key == read.key && known.content == read.content && known.stays >= read.stays
        };
        // An absence is told from others by its time: each look counts.
        if read.content.is_none() || !self.reads.iter().any(known) {
            self.reads.push(read);
        }
    }
}
