//! Runs of ghosts that a scanner has locked as one: by the gap below the row behind them.
//!
//! Why: a gap is named by the key above it, ghosts included, so a scanner locks each ghost on its way. Beside a snapshot that needs
//! them, thousands may lie before the first row of a queue, and everybody who takes that row would lock them all.
//!
//! A scanner passes a run of ghosts whose removal is committed, locks the gap below the row that it comes to, or the table's end, as far down
//! as the run reaches, notes that row here, and *then* validates the leaves. Who puts a row where there is none, or a ghost, looks
//! here while it has the leaf latched, and then at the gaps of the rows noted above its key (compare `insertion.rs`): so either it
//! sees the note, or the scanner sees the leaf changed.
//!
//! - S1: the lock of the gap below a noted row is held as long as the note is there, and reaches down to the run's beginning.
//! - S2: no ghost in a run becomes a row again but by somebody who looks here: whoever removed the row has ended, or is the scanner.

use crate::lock::{Gap, Owner, Point, Reach};
use crate::tree::Tree;
use crate::tree::obstacle::Obstacle;
use foreshore_base::seeded_bug;
use foreshore_base::sync::{AtomicUsize, Ordering::SeqCst};
use parking_lot::Mutex;
use std::ops::Bound;

/// Those of one table.
#[derive(Default)]
pub(crate) struct Spans {
    count: AtomicUsize,
    noted: Mutex<Vec<Span>>,
}

struct Span {
    owner: Owner,
    /// The key behind the run; `None`: the table's end.
    above: Option<Box<[u8]>>,
    /// How far down the gap below it is locked.
    lowest: Bound<Vec<u8>>,
}

impl Spans {
    /// Notes the row behind a run, the gap below which is locked down to `lowest`.
    pub fn note(&self, owner: Owner, lowest: &Bound<Vec<u8>>, above: Option<&[u8]>) {
        let mut noted = self.noted.lock();
        noted.push(Span { owner, above: above.map(Into::into), lowest: lowest.clone() });
        // ORDERING: as the scanners' count, see `Tree::has_scanners`.
        self.count.store(noted.len(), SeqCst);
    }

    /// What `owner` noted last is locked: it stands for all that end there or below and reach as far down. Who takes row by row would
    /// have one for each.
    pub fn supersede(&self, owner: Owner) {
        let mut noted = self.noted.lock();
        let Some(last) = noted.iter().rposition(|span| span.owner == owner) else { return };
        let last = noted.remove(last);
        let is_below = |above: &Option<Box<[u8]>>| {
            last.above.as_ref().is_none_or(|last| above.as_ref().is_some_and(|above| above <= last))
        };
        noted.retain(|span| span.owner != owner || span.lowest != last.lowest || !is_below(&span.above));
        noted.push(last);
        self.count.store(noted.len(), SeqCst);
    }

    /// Forgets what `owner` noted.
    pub fn forget(&self, owner: Owner) {
        if self.count.load(SeqCst) == 0 {
            return;
        }
        let mut noted = self.noted.lock();
        noted.retain(|span| span.owner != owner);
        self.count.store(noted.len(), SeqCst);
    }

    /// The ends of others' runs, as far as they are above `key`.
    fn above(&self, owner: Owner, key: &[u8]) -> Vec<Option<Box<[u8]>>> {
        if self.count.load(SeqCst) == 0 || seeded_bug("txn_span_ignored") {
            return Vec::new();
        }
        let noted = self.noted.lock();
        let is_above = |above: &Option<Box<[u8]>>| above.as_deref().is_none_or(|above| key < above);
        let of_others = noted.iter().filter(|span| span.owner != owner).map(|span| &span.above);
        of_others.filter(|above| is_above(above)).cloned().collect()
    }
}

impl Tree {
    /// Does a run of ghosts, locked as one, keep `owner` from putting a row here? The leaf of `key` is latched, and somebody may scan
    /// the table.
    pub(super) fn span_around(&self, owner: Owner, key: &[u8]) -> Option<Obstacle> {
        let keys = &self.core.txns.keys;
        let points = self.spans.above(owner, key).into_iter().map(|above| {
            let gap = above.as_ref().map_or_else(|| keys.end_of(self.id), |above| keys.name(self.id, above));
            Point { gap, at: Reach::down_to(key, above.as_deref()) }
        });
        let mut closed = points.filter(|point| keys.look_at_gap(owner, *point) == Gap::Closed);
        closed.next().map(Obstacle::Gap)
    }
}

#[cfg(test)]
mod tests {
    use crate::Database;
    use foreshore_base::sync::Ordering::SeqCst;

    /// Notes go with the transaction.
    #[test]
    fn nothing_is_noted_for_long() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        let noted = || table.tree.spans.count.load(SeqCst);
        (0..120_u8).for_each(|key| table.put(&[key], b"").unwrap());
        let _snapshot = db.snapshot().unwrap();
        table.remove_range(..[99]).unwrap();
        let tx = db.begin().unwrap();
        (0..3).for_each(|_| assert_eq!(tx.bytes(&table).first().unwrap().unwrap().0, [99]));
        assert_eq!(noted(), 1, "the same is noted once");
        (99..110_u8).for_each(|key| assert_eq!(tx.bytes(&table).pop_first().unwrap().unwrap().0, [key]));
        assert_eq!(noted(), 1, "and so is one that grows");
        tx.commit().unwrap();
        assert_eq!(noted(), 0);
    }
}
