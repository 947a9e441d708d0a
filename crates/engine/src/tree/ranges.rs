//! Ranges that large transactions have scanned, each locked as one.
//!
//! Why: a scan locks every row that it comes to, and the gap before it. In a table that is larger than memory these locks are, too.
//! How: a scan of a *large* transaction (`txn/claims.rs`), once it has locked many rows, or is over, notes here the range in which they
//! lie, and gives their locks back. Whoever wants to change a row, or put one where there is none, looks here, and waits until he has ended
//! who noted it.
//!
//! Invariants:
//! - G1: a range is noted when all in it is locked, by scans of this transaction, and before anything of that is given back; or, by who is
//!   about to put a row into its own gap, with the leaf latched, for that row and what of the gap is below it (`insertion.rs`). It is there
//!   until the transaction has ended, which gives the name back then at which others wait. Those that overlap, or continue each other,
//!   become one: who reads page by page has one range.
//! - G2: who changes a row looks here when he has got its lock. Who puts one also looks with its leaf latched, after he has looked
//!   at the gap. So each finds the lock, or, if it was given back, the note.
//! - G3: a range keeps nobody from reading: what its transaction wants to write there it locks, or claims.
//!
//! Source: lock escalation (Gray et al., Granularity of locks, 1976). Differs: to what was scanned, not to the table.

use crate::bounds::{RawBounds, as_lower, as_upper, is_beyond};
use crate::lock::Owner;
use crate::tree::Tree;
use foreshore_base::seeded_bug;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Those of one table.
#[derive(Default)]
pub(super) struct Ranges(Vec<Large>);

/// Those of one transaction.
struct Large {
    owner: Owner,
    /// Its number.
    number: u64,
    /// Where they begin and end. None overlaps another, nor goes on where that ends.
    noted: BTreeMap<Lower, Bound<Vec<u8>>>,
}

/// A lower bound, in the order of [`as_lower`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Lower(Option<(Vec<u8>, bool)>);

impl Lower {
    fn of(bound: &Bound<Vec<u8>>) -> Self {
        Self(as_lower(bound).map(|(key, is_excluded)| (key.to_vec(), is_excluded)))
    }

    /// Does what begins here overlap, or continue, a range that begins before it and ends with `upper`?
    fn continues(&self, upper: &Bound<Vec<u8>>) -> bool {
        match (&self.0, upper) {
            (None, _) | (_, Bound::Unbounded) => true,
            (Some((lower, _)), Bound::Included(upper)) => lower <= upper,
            (Some((lower, false)), Bound::Excluded(upper)) => lower <= upper,
            (Some((lower, true)), Bound::Excluded(upper)) => lower < upper,
        }
    }
}

impl Large {
    /// Notes a range, as one with those beside it.
    fn note(&mut self, (lower, mut upper): RawBounds) {
        let mut lower = Lower::of(&lower);
        while let Some(beside) = self.beside(&lower, &upper) {
            let its_upper = self.noted.remove(&beside).expect("it was found");
            lower = lower.min(beside);
            upper = if as_upper(&upper) < as_upper(&its_upper) { its_upper } else { upper };
        }
        self.noted.insert(lower, upper);
    }

    /// Where one begins that such a range overlaps, continues or is continued by.
    fn beside(&self, lower: &Lower, upper: &Bound<Vec<u8>>) -> Option<Lower> {
        let before = self.noted.range(..=lower).next_back().filter(|(_, end)| lower.continues(end));
        let behind = || self.noted.range(lower..).next().filter(|(begin, _)| begin.continues(upper));
        before.or_else(behind).map(|(begin, _)| begin.clone())
    }

    /// Is this key in the range that begins with `lower`, or else in the last one that begins before?
    fn reaches(&self, lower: &Lower, key: &[u8]) -> bool {
        self.noted.range(..=lower).next_back().is_some_and(|(_, upper)| !is_beyond(key, upper))
    }
}

impl Ranges {
    pub fn len(&self) -> usize {
        self.0.iter().map(|large| large.noted.len()).sum()
    }

    /// Something is going to stand for locks of `owner`, whose transaction has this number.
    pub fn stand_out(&mut self, owner: Owner, number: u64) {
        self.0.push(Large { owner, number, noted: BTreeMap::new() });
    }

    /// Notes one of `owner`, if something stands for locks of that.
    pub fn note(&mut self, owner: Owner, bounds: RawBounds) -> bool {
        let own = self.0.iter_mut().find(|large| large.owner == owner);
        own.map(|own| own.note(bounds)).is_some()
    }

    pub fn forget(&mut self, owner: Owner) {
        self.0.retain(|large| large.owner != owner);
    }

    /// Is all from `lower` on to this key in one range of `owner`?
    pub fn cover(&self, owner: Owner, lower: &Bound<Vec<u8>>, key: &[u8]) -> bool {
        let own = self.0.iter().find(|large| large.owner == owner);
        own.is_some_and(|own| own.reaches(&Lower::of(lower), key))
    }

    /// The transaction of another one than `owner` that has noted a range with this key.
    pub fn around(&self, owner: Owner, key: &[u8]) -> Option<u64> {
        let at = Lower::of(&Bound::Included(key.to_vec()));
        let large = self.0.iter().find(|large| large.owner != owner && large.reaches(&at, key))?;
        (!seeded_bug("range_overlooked")).then_some(large.number)
    }
}

impl Tree {
    /// The number of another transaction that has scanned a range with this key, and must have ended before `owner` changes it.
    #[inline]
    pub fn scanned_by(&self, owner: Owner, key: &[u8]) -> Option<u64> {
        if self.large_ones.are_any() { self.spans.range_around(owner, key) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::{is_before, is_empty, key_of};
    use crate::chance::{Random, seeds};
    use crate::tree::testing::comes_true;
    use crate::{Database, Error, Transaction, TransactionOptions};
    use foreshore_base::sync::{AtomicBool, AtomicU64, Ordering::SeqCst};
    use std::ops::Bound::*;
    use std::thread;
    use std::time::Duration;

    const ROWS: u16 = 3000;

    fn rows() -> Vec<([u8; 2], &'static str)> {
        (0..ROWS).map(|row| (row.to_be_bytes(), "before")).collect()
    }

    /// However much a transaction reads by scans, it has few locks; and what it has read stays as it was.
    #[test]
    fn scans_take_few_locks() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        table.put_many(&rows()).unwrap();
        let keys = &table.tree.core().txns.keys;
        let alone = table.with_lock_timeout(Duration::ZERO);
        let is_kept_off = |done: crate::Result<()>| matches!(done, Err(Error::LockTimeout { .. }));
        let (begin, end) = (&100_u16.to_be_bytes()[..], &2900_u16.to_be_bytes()[..]);
        type Scan = fn(&Transaction, &crate::ByteTable, &[u8], &[u8]) -> usize;
        let scans: [Scan; 3] = [
            |tx, table, begin, end| tx.bytes(table).range((Included(begin), Excluded(end))).count(),
            |tx, table, begin, end| tx.bytes(table).range((Included(begin), Excluded(end))).rev().count(),
            |tx, table, begin, end| {
                let table = tx.bytes(table);
                let row = |row: u16| row.to_be_bytes();
                let parts = (100..2900).step_by(100).map(|at| table.range(row(at)..row(at + 100)).count());
                assert_eq!(
                    table.range((Included(begin), Excluded(end))).last().unwrap().unwrap().0,
                    row(2899)
                );
                parts.sum()
            },
        ];
        for scan in scans {
            let tx = db.begin().unwrap();
            assert_eq!(scan(&tx, &table, begin, end), 2800);
            assert!(keys.requests() < 300, "{} locks", keys.requests());
            for row in (100..2900).step_by(7).map(u16::to_be_bytes) {
                assert!(is_kept_off(alone.put(&row, b"too early")), "{row:?}");
                assert!(is_kept_off(alone.remove(&row).map(drop)), "{row:?}");
                assert!(is_kept_off(alone.put(&[row[0], row[1], 7], b"too early")), "{row:?}");
                let other = db.begin_with(TransactionOptions::new().lock_timeout(Duration::ZERO)).unwrap();
                assert!(other.bytes(&table).get(&row).unwrap().is_some(), "others read there");
                assert!(is_kept_off(other.bytes(&table).put(&[row[0], row[1], 8], b"too early")));
                assert!(is_kept_off(other.bytes(&table).get_for_update(&row).map(drop)));
            }
            for row in [0_u16, 99, 2901, 2999].map(u16::to_be_bytes) {
                alone.put(&row, b"nobody minds").unwrap();
                alone.put(&[row[0], row[1], 7], b"nobody minds").unwrap();
            }
            tx.bytes(&table).put(&[0, 200], b"mine").unwrap();
            assert_eq!(scan(&tx, &table, begin, end), 2800);
            thread::scope(|scope| {
                let number = tx.number();
                let waiter = scope.spawn(|| table.insert(&[1, 0, 1], b"later"));
                assert!(comes_true(|| keys.waiting_on(keys.all_of(number)) == 1));
                tx.rollback().unwrap();
                assert!(waiter.join().unwrap().unwrap());
            });
            assert!(table.remove(&[1, 0, 1]).unwrap());
            assert_eq!((keys.requests(), table.tree.spans.any()), (0, false));
        }
    }

    /// Two that have both read all, and want to change it, do not wait for each other for ever.
    #[test]
    fn two_that_scan_and_write_end_both() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        let number = |value: &[u8]| u32::from_le_bytes(value.try_into().unwrap());
        (0..200_u8).for_each(|row| table.put(&[row], &0_u32.to_le_bytes()).unwrap());
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        let add_one = |tx: &Transaction| {
                            for row in tx.bytes(&table).range(..) {
                                let (key, value) = row?;
                                tx.bytes(&table).put(&key, &(number(&value) + 1).to_le_bytes())?;
                            }
                            Ok::<_, Error>(())
                        };
                        db.transact(add_one).unwrap();
                    }
                });
            }
        });
        assert!(table.range(..).map(Result::unwrap).all(|(_, value)| number(&value) == 30));
    }

    /// Who waits for the end of one that has scanned keeps what he had read himself, also if he only showed that he read it.
    #[test]
    fn who_waits_keeps_what_he_has_read() {
        for is_popular in [false, true] {
            let db = Database::in_memory().unwrap();
            let table = db.byte_table("t").unwrap();
            (0..200_u8).for_each(|row| table.put(&[row], &[0]).unwrap());
            let readers: Vec<_> = (0..if is_popular { 10 } else { 0 })
                .map(|_| {
                    let reader = db.begin().unwrap();
                    assert!(reader.bytes(&table).get(&[150]).unwrap().is_some());
                    reader
                })
                .collect();
            let (small, large) = (db.begin().unwrap(), db.begin().unwrap());
            let seen = small.bytes(&table).get(&[150]).unwrap().unwrap();
            readers.into_iter().for_each(|reader| reader.rollback().unwrap());
            assert_eq!(large.bytes(&table).range(..).map(|row| row.unwrap().1[0]).max(), Some(0));
            let keys = &table.tree.core().txns.keys;
            let done = thread::scope(|scope| {
                let table = &table;
                let number = large.number();
                let small = scope.spawn(move || {
                    small.bytes(table).put(&[150], &[seen[0] + 1]).and_then(|()| small.commit().map(drop))
                });
                assert!(comes_true(|| keys.waiting_on(keys.all_of(number)) == 1));
                assert_eq!(large.bytes(table).get(&[150]).unwrap().as_deref(), Some(&[0][..]));
                let large = large.bytes(table).put(&[150], &[1]).and_then(|()| large.commit().map(drop));
                [large, small.join().unwrap()]
            });
            let added = done.iter().filter(|done| done.is_ok()).count();
            assert_eq!(table.get(&[150]).unwrap().unwrap(), [added as u8], "{is_popular}: {done:?}");
        }
    }

    /// A writer gets his turn, however many scan one after the other.
    #[test]
    fn a_writer_gets_his_turn() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        (0..100_u8).for_each(|row| table.put(&[row], b"").unwrap());
        let (is_over, scans) = (&AtomicBool::new(false), &AtomicU64::new(0));
        thread::scope(|scope| {
            let (db, table) = (&db, &table);
            for n in 0..4 {
                scope.spawn(move || {
                    thread::sleep(Duration::from_millis(5 * n));
                    while !is_over.load(SeqCst) {
                        let tx = db.begin().unwrap();
                        let done = tx.bytes(table).range(..).try_for_each(|row| row.map(drop));
                        thread::sleep(Duration::from_millis(20));
                        let _ = done.and_then(|()| tx.commit());
                        scans.fetch_add(1, SeqCst);
                    }
                });
            }
            let written: Vec<_> = (0..5)
                .map(|_| {
                    thread::sleep(Duration::from_millis(30));
                    let before = scans.load(SeqCst);
                    let put = db.transact(|tx| tx.bytes(table).put(&[70], b"written"));
                    put.map(|()| scans.load(SeqCst) - before)
                })
                .collect();
            is_over.store(true, SeqCst);
            let passed: u64 = written.into_iter().map(Result::unwrap).sum();
            assert!(passed < 100, "so many scans have gone first: {passed}");
        });
    }

    /// What has been scanned is not locked again by who scans it again, and be that while he scans.
    #[test]
    fn scans_within_scans_take_few_locks() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        table.put_many(&rows()[..600]).unwrap();
        let tx = db.begin().unwrap();
        for row in tx.bytes(&table).range(..) {
            row.unwrap();
            assert_eq!(tx.bytes(&table).range(..).count(), 600);
        }
        let held = table.tree.core().txns.keys.requests();
        assert!(held < 200, "{held} locks");
        tx.rollback().unwrap();
    }

    /// A gap that is locked farther down than a range reaches stays so, when its upper part has become that of a row of its own.
    #[test]
    fn a_range_stands_for_no_gap_below_it() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        table.put_many(&rows()).unwrap();
        (50..60_u8).for_each(|row| table.put(&[200, row], b"").unwrap());
        let tx = db.begin().unwrap();
        let within = tx.bytes(&table);
        assert_eq!(within.range(..[100, 0]).count(), ROWS.into(), "it is large");
        assert_eq!(within.range([200, 20]..[200, 40]).count(), 0);
        let above = || within.range([200, 30]..=[200, 59]).count();
        assert_eq!(above(), 10);
        within.put(&[200, 35], b"mine").unwrap();
        within.put(&[200, 35], b"mine again").unwrap();
        assert_eq!([above(), above()], [11, 11]);
        let phantom = table.with_lock_timeout(Duration::ZERO).insert(&[200, 25], b"phantom");
        assert!(matches!(phantom, Err(Error::LockTimeout { .. })), "{phantom:?}");
        tx.rollback().unwrap();
    }

    /// With plain lists as the model: the points at which ranges begin or end, and one between each two.
    #[test]
    fn ranges_equal_their_naive_statement() {
        const POINTS: u8 = 12;
        let point = |at: u8| if at.is_multiple_of(2) { vec![at] } else { vec![at - 1, 7] };
        for seed in seeds(300) {
            let mut random = Random(seed);
            let mut bound = || {
                let key = vec![(1 + random.below(u64::from(POINTS) / 2 - 1) as u8) * 2];
                [Included(key.clone()), Excluded(key), Unbounded][random.below(9).min(2) as usize].clone()
            };
            let (mut ranges, owners) = (Ranges::default(), [Owner(1), Owner(2)]);
            let mut noted: [Vec<RawBounds>; 2] = Default::default();
            owners.into_iter().for_each(|owner| ranges.stand_out(owner, owner.0.into()));
            for step in 0..24 {
                let (own, bounds) = (step % 2, (bound(), bound()));
                if !is_empty(&bounds.0, &bounds.1) {
                    assert!(ranges.note(owners[own], bounds.clone()));
                    noted[own].push(bounds);
                }
                let holds = |(lower, upper): &RawBounds, at: u8| {
                    !is_before(&point(at), lower) && !is_beyond(&point(at), upper)
                };
                let is_in = |own: usize, at: u8| noted[own].iter().any(|bounds| holds(bounds, at));
                let lower = bound();
                for at in 0..POINTS {
                    let around = is_in(1, at).then_some(2);
                    assert_eq!(ranges.around(owners[0], &point(at)), around, "{seed}: {noted:?}");
                    if !is_before(&point(at), &lower) && key_of(&lower).is_some() {
                        let mut from_lower =
                            (0..=at).filter(|point_at| !is_before(&point(*point_at), &lower));
                        let all = from_lower.all(|at| is_in(0, at));
                        assert_eq!(
                            ranges.cover(owners[0], &lower, &point(at)),
                            all,
                            "{seed}: {lower:?}, {noted:?}"
                        );
                    }
                }
                let parts = |own: usize| {
                    (0..POINTS).filter(|&at| is_in(own, at) && (at == 0 || !is_in(own, at - 1))).count()
                };
                assert_eq!(ranges.len(), parts(0) + parts(1), "{seed}: {noted:?}");
            }
            owners.into_iter().for_each(|owner| ranges.forget(owner));
            assert_eq!(ranges.len(), 0);
        }
    }

    /// Who reads page by page has one range, if each page goes on behind the last row of the one before, and few locks in any case.
    #[test]
    fn pages_become_one_range() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        table.put_many(&rows()).unwrap();
        let keys = &table.tree.core().txns.keys;
        for (goes_on, is_ascending) in [(true, true), (true, false), (false, true)] {
            let tx = db.begin().unwrap();
            let within = tx.bytes(&table);
            for page in 0..ROWS / 12 {
                let first = page * 12;
                let begin = first.to_be_bytes();
                let before = first.saturating_sub(1).to_be_bytes();
                let read = match (goes_on, is_ascending, page) {
                    (true, true, 1..) => within.range((Excluded(&before[..]), Unbounded)).take(12).count(),
                    (true, false, _) => {
                        let end = (ROWS - first).to_be_bytes();
                        within.range(..end).rev().take(12).count()
                    }
                    _ => within.range(&begin[..]..).take(12).count(),
                };
                assert_eq!(read, 12);
            }
            let (ranges, requests) = (table.tree.spans.ranges(), keys.requests());
            // Going down, each page leaves a lock of the gap below its last row.
            let (ranges_max, requests_max) = match (goes_on, is_ascending) {
                (true, true) => (2, 100),
                (true, false) => (2, 100 + ROWS / 12),
                (false, _) => (ROWS / 12, 100),
            };
            let are_few = ranges <= ranges_max.into() && requests < requests_max.into();
            assert!(are_few, "{ranges} ranges, {requests} requests");
            let alone = table.with_lock_timeout(Duration::ZERO);
            for row in (0..ROWS).step_by(7).map(u16::to_be_bytes) {
                let refused = alone.put(&row, b"too early");
                assert!(matches!(refused, Err(Error::LockTimeout { .. })), "{row:?}: {refused:?}");
            }
            tx.rollback().unwrap();
            assert_eq!((keys.requests(), table.tree.spans.any()), (0, false));
        }
    }

    /// Rows that a large transaction puts into a gap of its own keep no lock each, in whatever order they come; and the gap stays closed,
    /// as far down as it was, and no farther.
    #[test]
    fn rows_in_an_own_gap_take_no_locks() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        table.put_many(&[[0], [1], [200]].map(|key| (key, "old"))).unwrap();
        let keys = &table.tree.core().txns.keys;
        let alone = table.with_lock_timeout(Duration::ZERO);
        let (begin, end) = (&[100_u8, 7, 7][..], &[200_u8][..]);
        for is_ascending in [true, false] {
            let tx = db.begin().unwrap();
            let within = tx.bytes(&table);
            assert_eq!(within.range((Included(begin), Excluded(end))).count(), 0);
            let row = |row: u16| [[110].as_slice(), &row.to_be_bytes()].concat();
            let at = |n: u16| if is_ascending { n } else { 2999 - n };
            (0..3000).for_each(|n| within.put(&row(at(n)), b"new").unwrap());
            assert!(keys.requests() < 200, "{is_ascending}: {} requests", keys.requests());
            for closed in [&[100, 7, 8][..], &[109], &[110, 0, 1, 7], &[110, 11, 0, 7], &[150], &[199]] {
                let put = alone.put(closed, b"too early");
                assert!(matches!(put, Err(Error::LockTimeout { .. })), "{is_ascending}: {closed:?}: {put:?}");
            }
            for open in [&[2][..], &[100], &[100, 6, 9], &[201]] {
                alone.put(open, b"nobody minds").unwrap();
                assert!(alone.remove(open).unwrap());
            }
            tx.rollback().unwrap();
            assert_eq!((keys.requests(), table.tree.spans.any()), (0, false));
        }
    }
}
