//! What transactions write into the log.
//!
//! | kind | fields |
//! |---|---|
//! | 1–8 | a change that commits by itself, see `leaf/change.rs`: nothing to undo |
//! | 16 write | owner, previous u48, flags, old value if the change is a ghost, change |
//! | 17 compensation | owner, undo next u48, flags, change: redo only |
//! | 18 begin | owner |
//! | 19 commit | owner |
//! | 20 end of rollback | owner |
//! | 21 prepare | owner, previous u48, global id |
//!
//! `previous` is the record of the same transaction before this one, or before those that it has undone by then, in units of 8
//! bytes, and so on back to its begin: the way that a rollback goes. `undo next` is where a rollback goes on that was broken off after this compensation.
//! Bit 0 of the flags: it is the transaction's first change of this key, or undoes that; the other bits: length of the
//! old value. Numbers without a width are varints (`fields.rs`).
//!
//! The owner's number stands for the transaction from its begin to its commit or end. Reading therefore starts at or
//! before the begin of the oldest transaction (`Upkeep::checkpoint`).
//!
//! Source: ARIES (Mohan et al., TODS 1992) §3: compensation records, undo next; here undo is logical, by key, since a
//! row may have moved to another leaf. Differs: an update logs the bytes that differ, once before and once after.

use crate::error::Error;
use crate::fields::{Fields, push_varint};
use crate::leaf::Change;
use crate::lock::Owner;
use crate::log::POSITIONS;
use foreshore_base::Lsn;

const WRITE: u8 = 16;
const COMPENSATION: u8 = 17;
const BEGIN: u8 = 18;
const COMMIT: u8 = 19;
const END: u8 = 20;
const PREPARE: u8 = 21;

/// Bytes of a `previous` or `undo next`.
const LSN_BYTES: usize = 6;

/// The body of a log record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// A change that commits by itself.
    Change(Change<'a>),
    /// A change of a transaction. `old` is the value that a ghost replaced; empty otherwise: a put replaced nothing, nor
    /// did new rows, a patch says itself what it replaced.
    Write { owner: Owner, previous: Lsn, first: bool, old: &'a [u8], change: Change<'a> },
    /// A change of a transaction was undone; those since `undo_next` are.
    Compensation { owner: Owner, undo_next: Lsn, first: bool, change: Change<'a> },
    /// A transaction writes for the first time. Its id is this record's LSN.
    Begin { owner: Owner },
    /// A transaction committed.
    Commit { owner: Owner },
    /// A transaction is undone to its beginning.
    End { owner: Owner },
    /// A transaction is ready to commit, and to roll back, and waits to hear which.
    Prepare { owner: Owner, previous: Lsn, gid: &'a [u8] },
}

impl<'a> Record<'a> {
    /// Appends the body to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Record::Change(change) => change.encode(out),
            Record::Write { owner, previous, first, old, change } => {
                begin(out, WRITE, owner);
                lsn(out, previous);
                push_varint(out, flags(old.len(), first));
                out.extend_from_slice(old);
                change.encode(out);
            }
            Record::Compensation { owner, undo_next, first, change } => {
                begin(out, COMPENSATION, owner);
                lsn(out, undo_next);
                push_varint(out, flags(0, first));
                change.encode(out);
            }
            Record::Begin { owner } => begin(out, BEGIN, owner),
            Record::Commit { owner } => begin(out, COMMIT, owner),
            Record::End { owner } => begin(out, END, owner),
            Record::Prepare { owner, previous, gid } => {
                begin(out, PREPARE, owner);
                lsn(out, previous);
                out.extend_from_slice(gid);
            }
        }
    }

    /// Reads a record body: any bytes give a record or say what is wrong with them.
    pub fn decode(body: &'a [u8]) -> Result<Self, String> {
        let mut rest = Fields(body);
        let kind = rest.u8()?;
        if kind < WRITE {
            return Change::decode(body).map(Record::Change);
        }
        let owner = rest.varint()?.try_into().map(Owner).map_err(|_| "a transaction's slot is too large")?;
        let record = match kind {
            WRITE => {
                let (previous, flags) = (take_lsn(&mut rest)?, rest.len()?);
                let old = rest.bytes(flags >> 1)?;
                let change = Change::decode(rest.0)?;
                Record::Write { owner, previous, first: flags & 1 != 0, old, change }
            }
            COMPENSATION => {
                let (undo_next, flags) = (take_lsn(&mut rest)?, rest.len()?);
                if flags > 1 {
                    return Err("a compensation has no old value".into());
                }
                let change = Change::decode(rest.0)?;
                Record::Compensation { owner, undo_next, first: flags != 0, change }
            }
            PREPARE => Record::Prepare { owner, previous: take_lsn(&mut rest)?, gid: rest.0 },
            BEGIN | COMMIT | END if !rest.0.is_empty() => return Err("a record is too long".into()),
            BEGIN => Record::Begin { owner },
            COMMIT => Record::Commit { owner },
            END => Record::End { owner },
            _ => return Err(format!("{kind} is no kind of record")),
        };
        Ok(record)
    }

    /// The change to leaves that this makes, if any.
    pub fn change(&self) -> Option<&Change<'a>> {
        match self {
            Record::Change(change) | Record::Write { change, .. } | Record::Compensation { change, .. } => {
                Some(change)
            }
            _ => None,
        }
    }
}

/// The record that begins at `at` is not one that was written there.
pub(crate) fn damaged(at: Lsn, detail: impl Into<String>) -> Error {
    Error::corrupt(format!("log record at {at}"), detail)
}

fn begin(out: &mut Vec<u8>, kind: u8, owner: Owner) {
    out.push(kind);
    push_varint(out, owner.0.into());
}

fn flags(old_len: usize, first: bool) -> u64 {
    (old_len as u64) << 1 | u64::from(first)
}

fn lsn(out: &mut Vec<u8>, lsn: Lsn) {
    debug_assert!(lsn.0.is_multiple_of(8) && lsn.0 < POSITIONS, "records begin at multiples of 8");
    out.extend_from_slice(&(lsn.0 / 8).to_le_bytes()[..LSN_BYTES]);
}

fn take_lsn(rest: &mut Fields<'_>) -> Result<Lsn, String> {
    Ok(Lsn(rest.u48()? * 8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreshore_base::{PageId, TableId};
    use proptest::prelude::*;

    fn put() -> Change<'static> {
        Change::Put { page: PageId(3), table: TableId(16), key: b"key", value: b"value" }
    }

    #[test]
    fn records_read_back() {
        let (owner, previous) = (Owner(77), Lsn(8 << 40));
        let ghost = Change::Ghost { page: PageId(1 << 47), table: TableId(16), key: b"key" };
        let records = [
            Record::Change(put()),
            Record::Write { owner, previous, first: true, old: b"", change: put() },
            Record::Write { owner, previous, first: false, old: &[7; 8192], change: ghost },
            Record::Compensation { owner, undo_next: previous, first: true, change: put() },
            Record::Begin { owner },
            Record::Commit { owner },
            Record::End { owner },
            Record::Prepare { owner, previous, gid: b"global" },
        ];
        for record in records {
            let mut body = Vec::new();
            record.encode(&mut body);
            assert_eq!(Record::decode(&body), Ok(record));
        }
    }

    proptest! {
        #[test]
        fn decoding_survives_any_bytes(mut body in prop::collection::vec(any::<u8>(), 1..200), kind in 0u8..24) {
            body[0] = kind;
            if let Ok(record) = Record::decode(&body) {
                let mut again = Vec::new();
                record.encode(&mut again);
                prop_assert_eq!(again, body);
            }
        }
    }
}
