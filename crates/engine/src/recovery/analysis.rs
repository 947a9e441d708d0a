//! Analysis: which transactions the log leaves without an end.
//!
//! Source: ARIES (Mohan et al., TODS 1992) §6.1. Differs: it is done in the same pass as redo, and there is no table of
//! transactions in the checkpoint, since the pass begins at or before the begin of the oldest one that ran then.
//!
//! Invariant A1: a transaction whose begin is not in the pass had ended when the checkpoint was taken from which the
//! pass begins, and its end was made durable before that was put on record. Some of its records may be in the pass: they
//! are redone as those of a settled author.

use crate::error::Result;
use crate::lock::Owner;
use crate::txn::{Record, SLOTS, damaged};
use crate::version::Version;
use foreshore_base::{Lsn, TxnId};
use std::collections::BTreeMap;

/// A transaction that neither committed nor ended its rollback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unfinished {
    pub id: TxnId,
    /// Its last record.
    pub last: Lsn,
    /// The id under which it prepared, if it did and has not begun to roll back: then it waits to hear whether to commit.
    pub gid: Option<Vec<u8>>,
}

/// Transactions by slot, as of the record read last.
#[derive(Default)]
pub(super) struct Analysis {
    running: BTreeMap<u16, Unfinished>,
}

impl Analysis {
    /// Takes note of the next record, which begins at `at`; the version word, but for the ghost bit, of what it changes.
    pub fn apply(&mut self, record: &Record<'_>, at: Lsn) -> Result<Version> {
        match *record {
            Record::Change(_) => return Ok(Version::SETTLED),
            Record::Begin { owner } => {
                if usize::from(owner.0) >= SLOTS {
                    return Err(damaged(at, "a transaction begins in a slot that there is not"));
                }
                let begun = Unfinished { id: TxnId(at.0), last: at, gid: None };
                if self.running.insert(owner.0, begun).is_some() {
                    return Err(damaged(at, "a transaction begins in the slot of one that has not ended"));
                }
            }
            Record::Commit { owner } | Record::End { owner } => _ = self.running.remove(&owner.0),
            Record::Prepare { owner, gid, .. } => self.prepares(owner, at, gid),
            Record::Write { owner, .. } => return Ok(self.wrote(owner, at)),
            Record::Compensation { owner, first, .. } => {
                self.rolls_back(owner);
                let author = self.wrote(owner, at);
                // What the key's first change by a transaction replaced was settled before.
                return Ok(if first { Version::SETTLED } else { author });
            }
        }
        Ok(Version::SETTLED)
    }

    /// The transaction in the slot of `owner` prepares at `at`, be it one of which nothing else is known (A1). If another one had
    /// prepared under the same id, that one had been decided by then, for until then the id is refused. Its commit would be in the
    /// log; so it was to be rolled back, broke off before it had logged that, and is rolled back now.
    fn prepares(&mut self, owner: Owner, at: Lsn, gid: &[u8]) {
        for (slot, txn) in &mut self.running {
            if *slot == owner.0 {
                (txn.last, txn.gid) = (at, Some(gid.to_vec()));
            } else if txn.gid.as_deref() == Some(gid) {
                txn.gid = None;
            }
        }
    }

    /// The transaction in the slot of `owner` undoes something. If it has prepared, it was told to roll back, and there is
    /// nothing left to decide: what is undone cannot be committed any more.
    fn rolls_back(&mut self, owner: Owner) {
        if let Some(txn) = self.running.get_mut(&owner.0) {
            txn.gid = None;
        }
    }

    /// The transaction in the slot of `owner` wrote a record at `at`; its version word (A1).
    fn wrote(&mut self, owner: Owner, at: Lsn) -> Version {
        let Some(txn) = self.running.get_mut(&owner.0) else { return Version::SETTLED };
        txn.last = at;
        Version::of(txn.id)
    }

    /// The transactions without an end, with their slots.
    pub fn unfinished(self) -> impl Iterator<Item = (Owner, Unfinished)> {
        self.running.into_iter().map(|(owner, txn)| (Owner(owner), txn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn a_slot_that_there_is_not_is_damage() {
        let begin = |owner| Analysis::default().apply(&Record::Begin { owner: Owner(owner) }, Lsn(8));
        assert!(begin(SLOTS as u16 - 1).is_ok());
        for owner in [SLOTS as u16, u16::MAX] {
            assert!(matches!(begin(owner), Err(Error::Corrupt { .. })), "{owner}");
        }
    }

    /// Also in a made-up log: of two that have prepared under one id, none gets lost.
    #[test]
    fn an_id_is_that_of_the_last_transaction_that_prepared_under_it() {
        let mut analysis = Analysis::default();
        let mut at = Lsn(0);
        let mut apply = |record: Record<'_>| {
            at = at + 8;
            analysis.apply(&record, at).unwrap();
        };
        let previous = Lsn::ZERO;
        for owner in [3, 1, 2].map(Owner) {
            apply(Record::Begin { owner });
            let gid = if owner.0 == 2 { &b"another"[..] } else { b"gid" };
            apply(Record::Prepare { owner, previous, gid });
        }
        // Of one that ended before the pass begins nothing else is known.
        apply(Record::Prepare { owner: Owner(7), previous, gid: b"gid" });
        let gids: Vec<_> = analysis.unfinished().map(|(owner, txn)| (owner.0, txn.gid)).collect();
        assert_eq!(gids, [(1, None), (2, Some(b"another".to_vec())), (3, None)]);
    }
}
