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
//!
//! Here are also the ranges that large transactions have scanned: `ranges.rs`.
//!
//! That a long run holds nothing but ghosts is noted for the next scanner, who need not walk through it: `voids.rs`.

use crate::bounds::{RawBounds, as_lower, is_before};
use crate::core::Core;
use crate::lock::{Gap, Owner, Point, Reach};
use crate::tree::Tree;
use crate::tree::obstacle::Obstacle;
use crate::tree::ranges::Ranges;
use crate::tree::voids::{Void, Voids};
use foreshore_base::seeded_bug;
use foreshore_base::sync::{AtomicU64, AtomicUsize, Ordering::*};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Once a table has so many notes, scanners lock ghosts one by one: who puts a row looks at all notes, with a leaf latched.
const NOTES_MAX: usize = 1024;

/// Those of one table.
#[derive(Default)]
pub(crate) struct Spans {
    /// Spans, voids and ranges.
    count: AtomicUsize,
    /// How often rows were loaded behind all others.
    loads: AtomicU64,
    noted: Mutex<Noted>,
}

#[derive(Default)]
struct Noted {
    /// Who has noted what, and the lowest beginning of his runs with this behind them.
    spans: BTreeMap<(Owner, Above), Bound<Vec<u8>>>,
    voids: Voids,
    ranges: Ranges,
}

/// A run of ghosts.
pub(crate) struct Span {
    /// Where it begins: so far down, at least, the gap below what lies behind it is locked.
    lowest: Bound<Vec<u8>>,
    above: Above,
}

/// What lies behind a run: a key, or the table's end.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Above {
    Key(Box<[u8]>),
    End,
}

impl Span {
    /// One that begins at `lowest`; `above`: the key behind it, or `None`, the table's end.
    pub fn new(lowest: Bound<Vec<u8>>, above: Option<&[u8]>) -> Self {
        Self { lowest, above: above.map_or(Above::End, |key| Above::Key(key.into())) }
    }
}

impl Above {
    fn key(&self) -> Option<&[u8]> {
        match self {
            Above::Key(key) => Some(key),
            Above::End => None,
        }
    }
}

impl Spans {
    /// Is anything noted?
    pub fn any(&self) -> bool {
        self.count.load(SeqCst) != 0
    }

    /// Is one more worth less than the locks that it saves?
    pub fn are_many(&self) -> bool {
        self.count.load(Relaxed) >= NOTES_MAX
    }

    /// Changes what is noted.
    fn change(&self, change: impl FnOnce(&mut Noted)) {
        let mut noted = self.noted.lock();
        change(&mut noted);
        // ORDERING: as the scanners' count, see `Tree::has_scanners`.
        self.count.store(noted.spans.len() + noted.voids.len() + noted.ranges.len(), SeqCst);
    }

    /// Notes a run, which is about to be locked.
    pub fn note(&self, owner: Owner, Span { lowest, above }: &Span) {
        self.change(|Noted { spans, .. }| {
            let noted = spans.entry((owner, above.clone())).or_insert_with(|| lowest.clone());
            if as_lower(lowest) < as_lower(noted) {
                noted.clone_from(lowest);
            }
        });
    }

    /// What `owner` noted is locked: it stands for those right below that do not reach farther down. Who takes row by row would have
    /// one for each.
    pub fn supersede(&self, owner: Owner, Span { lowest, above }: Span) {
        self.change(|Noted { spans, .. }| {
            let last = (owner, above);
            while let Some((before, its)) = spans.range(..&last).next_back()
                && before.0 == owner
                && as_lower(its) >= as_lower(&lowest)
            {
                let before = before.clone();
                spans.remove(&before);
            }
        });
    }

    /// Forgets what `owner` noted.
    pub fn forget(&self, owner: Owner) {
        if self.any() {
            self.change(|Noted { spans, voids, .. }| {
                spans.retain(|(of, _), _| *of != owner);
                voids.forget(Some(owner));
            });
        }
    }

    /// Something is going to stand for locks of `owner`, whose transaction has this number: ranges, perhaps.
    pub fn stand_out(&self, owner: Owner, number: u64) {
        self.noted.lock().ranges.stand_out(owner, number);
    }

    /// Notes a range, all of which `owner` has locked (G1 in `ranges.rs`), if that one [stands out](Spans::stand_out).
    pub fn note_range(&self, owner: Owner, bounds: RawBounds) -> bool {
        let mut is_noted = false;
        self.change(|Noted { ranges, .. }| is_noted = ranges.note(owner, bounds));
        is_noted
    }

    /// Has `owner` noted a range with all from `lower` on to this key?
    pub fn has_scanned(&self, owner: Owner, lower: &Bound<Vec<u8>>, key: &[u8]) -> bool {
        self.any() && self.noted.lock().ranges.cover(owner, lower, key)
    }

    /// Forgets those that `owner` noted, who stands out no more.
    pub fn forget_ranges(&self, owner: Owner) {
        self.change(|noted| noted.ranges.forget(owner));
    }

    /// How many ranges there are.
    #[cfg(test)]
    pub fn ranges(&self) -> usize {
        self.noted.lock().ranges.len()
    }

    /// Who else has noted a range with this key?
    pub fn range_around(&self, owner: Owner, key: &[u8]) -> Option<u64> {
        if self.any() { self.noted.lock().ranges.around(owner, key) } else { None }
    }

    /// Adds a void, if what it rests on `holds` (V2).
    pub fn add_void(&self, void: Void, holds: impl FnOnce(&Voids) -> bool) {
        self.change(|Noted { voids, .. }| {
            if holds(voids) {
                voids.add(void);
            }
        });
    }

    /// The voids, unless there are none.
    pub fn voids<R>(&self, look: impl FnOnce(&Voids) -> R) -> Option<R> {
        self.any().then(|| look(&self.noted.lock().voids))
    }

    /// Forgets the voids that are voids to `owner` alone.
    pub fn forget_voids(&self, owner: Owner) {
        if self.any() {
            self.change(|noted| noted.voids.forget(Some(owner)));
        }
    }

    /// Rows are about to be loaded behind all others, whoever has locked the gap there: the last leaf is latched.
    pub fn make_way_for_load(&self) {
        self.change(|noted| {
            // ORDERING: who reads this count finds the leaf latched, or changed, when he comes to it.
            self.loads.fetch_add(1, Release);
            noted.voids.clear();
        });
    }

    /// How often rows were loaded behind all others so far.
    pub fn loads(&self) -> u64 {
        self.loads.load(Acquire)
    }

    /// `owner` is going to put a row where there is none. The ends of others' runs that `key` lies in: below the others there are rows,
    /// which keep to their own gaps. Where no ghosts `are_kept` for snapshots, voids are not worth having.
    fn meet(&self, owner: Owner, key: &[u8], are_kept: impl FnOnce() -> bool) -> Vec<Above> {
        let mut met = Vec::new();
        if self.any() && !seeded_bug("txn_span_ignored") {
            let is_in = |above: &Above, lowest: &Bound<Vec<u8>>| {
                !is_before(key, lowest) && above.key().is_none_or(|above| key < above)
            };
            self.change(|Noted { spans, voids, .. }| {
                if voids.len() > 0 && !are_kept() {
                    voids.forget(None);
                }
                if !seeded_bug("txn_void_not_cut") {
                    voids.cut(key);
                }
                let of_others =
                    spans.iter().filter(|((of, above), lowest)| *of != owner && is_in(above, lowest));
                met.extend(of_others.map(|((_, above), _)| above.clone()));
            });
        }
        met
    }
}

impl Tree {
    /// Does a run of ghosts, locked as one, keep `owner` from putting a row here? The leaf of `key` is latched, and somebody may scan
    /// the table.
    pub(super) fn span_around(&self, owner: Owner, key: &[u8]) -> Option<Obstacle> {
        let Core { txns, .. } = &*self.core;
        let keys = &txns.keys;
        let points = self.spans.meet(owner, key, || txns.snapshots.any()).into_iter().map(|above| {
            let gap = above.key().map_or_else(|| keys.end_of(self.id), |above| keys.name(self.id, above));
            Point { gap, at: Reach::down_to(key, above.key()) }
        });
        let mut closed = points.filter(|point| keys.look_at_gap(owner, *point) == Gap::Closed);
        closed.next().map(Obstacle::Gap)
    }
}

#[cfg(test)]
mod tests {
    use super::NOTES_MAX;
    use crate::Database;
    use crate::txn::Direction;
    use foreshore_base::sync::Ordering::SeqCst;
    use std::ops::Bound::{Excluded, Unbounded};

    /// Who takes rows beside a snapshot, one after the other, does not walk over all those taken before.
    #[test]
    fn what_was_walked_over_is_a_void() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        table.put_many(&(0..250_u8).map(|key| ([key], "")).collect::<Vec<_>>()).unwrap();
        let snapshot = db.snapshot().unwrap();
        let ahead =
            |direction| table.tree.spans.voids(|voids| voids.ahead(None, direction, &Unbounded).cloned());
        let up = || ahead(Direction::Ascending).flatten().map(|void| void.keys.1);
        let down = || ahead(Direction::Descending).flatten().map(|void| void.keys.0);
        for key in 0..100 {
            assert_eq!(table.pop_first().unwrap().unwrap().0, [key]);
            assert_eq!(table.pop_last().unwrap().unwrap().0, [249 - key]);
        }
        let is_close = |end: u8, row: u8| row.abs_diff(end) < 4;
        assert!(matches!(up(), Some(Excluded(key)) if is_close(key[0], 100)), "{:?}", up());
        assert!(matches!(down(), Some(Excluded(key)) if is_close(key[0], 149)), "{:?}", down());
        table.put(&[50], b"").unwrap();
        assert!(matches!(up(), Some(Excluded(key)) if key == [50]), "a row cuts it: {:?}", up());
        drop(snapshot);
        table.put(&[60], b"").unwrap();
        assert_eq!(up(), None, "the ghosts go");
        assert_eq!(table.tree.spans.count.load(SeqCst), 0);
    }

    /// So it is for who removes many rows, some at a time.
    #[test]
    fn what_was_removed_before_is_a_void() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        table.put_many(&(0..250_u8).map(|key| ([key], "")).collect::<Vec<_>>()).unwrap();
        let _snapshot = db.snapshot().unwrap();
        for removed in (10..200).step_by(10) {
            assert_eq!(db.transact(|tx| tx.bytes(&table).remove_some(.., 10)).unwrap(), 10);
            assert_eq!(table.first().unwrap().unwrap().0, [removed]);
        }
        let ahead =
            table.tree.spans.voids(|voids| voids.ahead(None, Direction::Ascending, &Unbounded).cloned());
        let end = ahead.flatten().map(|void| void.keys.1);
        assert!(matches!(&end, Some(Excluded(key)) if *key == [180]), "{end:?}");
    }

    /// However many runs somebody scans, those who put rows look at few notes.
    #[test]
    fn notes_are_few() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        let keys = (0..9000_u16).map(u16::to_be_bytes);
        table.put_many(&keys.clone().map(|key| (key, "")).collect::<Vec<_>>()).unwrap();
        let _snapshot = db.snapshot().unwrap();
        let removed = keys.enumerate().filter(|(at, _)| at % 3 != 0);
        db.transact(|tx| removed.clone().try_for_each(|(_, key)| tx.bytes(&table).remove(&key).map(drop)))
            .unwrap();
        let tx = db.begin().unwrap();
        assert_eq!(tx.bytes(&table).range(..).count(), 3000);
        let noted = table.tree.spans.noted.lock().spans.len();
        assert!(noted <= NOTES_MAX + 1, "{noted} notes");
    }

    /// A ghost that nobody in particular left is not one's own, even if one has written nothing yet.
    #[test]
    fn a_settled_ghost_spoils_no_void() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        table.put_many(&(0..250_u8).map(|key| ([key], "")).collect::<Vec<_>>()).unwrap();
        let reader = db.begin().unwrap();
        assert_eq!(reader.bytes(&table).range(..[0]).count(), 0); // has the gap below the first row,
        assert!(table.remove(&[0]).unwrap()); // which is why this leaves a ghost, though no snapshot is open
        let _snapshot = db.snapshot().unwrap();
        (1..100).for_each(|key| assert_eq!(table.pop_first().unwrap().unwrap().0, [key]));
        let ahead =
            table.tree.spans.voids(|voids| voids.ahead(None, Direction::Ascending, &Unbounded).cloned());
        let end = ahead.flatten().map(|void| void.keys.1);
        assert!(matches!(&end, Some(Excluded(key)) if key[0].abs_diff(100) < 4), "{end:?}");
        reader.rollback().unwrap();
    }

    /// What a transaction has taken is a void to itself, as far as it does not take that back.
    #[test]
    fn ones_own_ghosts_are_a_void_to_oneself() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        table.put_many(&(0..200_u8).map(|key| ([key], "")).collect::<Vec<_>>()).unwrap();
        let tx = db.begin().unwrap();
        let rows = tx.bytes(&table);
        let ends = || {
            let noted = table.tree.spans.noted.lock();
            let owners = (0..crate::txn::SLOTS as u16).map(crate::lock::Owner);
            let mut voids =
                owners.filter_map(|owner| noted.voids.ahead(Some(owner), Direction::Ascending, &Unbounded));
            voids.next().map(|void| void.keys.1.clone())
        };
        for key in 0..50 {
            assert_eq!(rows.pop_first().unwrap().unwrap().0, [key]);
        }
        assert!(matches!(ends(), Some(Excluded(key)) if key[0].abs_diff(50) < 4), "{:?}", ends());
        let savepoint = tx.savepoint().unwrap();
        (50..100).for_each(|key| assert_eq!(rows.pop_first().unwrap().unwrap().0, [key]));
        tx.rollback_to(savepoint).unwrap();
        assert_eq!(ends(), None);
        assert_eq!(rows.pop_first().unwrap().unwrap().0, [50]);
        rows.put(&[20], b"").unwrap();
        assert_eq!(rows.pop_first().unwrap().unwrap().0, [20]);
        tx.rollback().unwrap();
        assert_eq!(table.tree.spans.count.load(SeqCst), 0);
        let tx = db.begin().unwrap();
        (0..50).for_each(|key| assert_eq!(tx.bytes(&table).pop_first().unwrap().unwrap().0, [key]));
        assert!(ends().is_some());
        tx.commit().unwrap();
        assert_eq!(table.tree.spans.count.load(SeqCst), 0);
        assert_eq!(table.pop_first().unwrap().unwrap().0, [50]);
    }

    /// Notes go with the transaction.
    #[test]
    fn nothing_is_noted_for_long() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        let noted = || table.tree.spans.noted.lock().spans.len();
        (0..120_u8).for_each(|key| table.put(&[key], b"").unwrap());
        let _snapshot = db.snapshot().unwrap();
        table.remove_range(..[99]).unwrap();
        let tx = db.begin().unwrap();
        (0..3).for_each(|_| assert_eq!(tx.bytes(&table).first().unwrap().unwrap().0, [99]));
        assert_eq!(noted(), 1, "the same is noted once");
        (99..110_u8).for_each(|key| assert_eq!(tx.bytes(&table).pop_first().unwrap().unwrap().0, [key]));
        assert_eq!(noted(), 2, "and so is one that grows, behind it");
        tx.commit().unwrap();
        assert_eq!(noted(), 0);
    }
}
