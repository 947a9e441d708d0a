//! Leaves in which writers meet.
//!
//! Two threads that keep changing different rows of one leaf hinder each other, though no lock says so: they wait for the
//! latch, the leaf's first lines move from core to core, and a write that was to go where the read for its update had been
//! finds the leaf changed and looks for its place once more. A small table that everybody updates, such as the warehouses and
//! districts of TPC-C, is such a leaf. So whoever meets another there takes a note, and when there are many, the leaf is split
//! between the two rows ([`Tree::part`]): soon rows that different threads change have leaves of their own.
//!
//! Only updates of rows that are there count: new rows that follow one another meet at the end of a table, and would go on to
//! do so in each next leaf. A note is taken of one meeting in [`ONE_IN`], so that rows which no split can part cost little.
//!
//! Source: Alhomssi and Leis, "Contention and Space Management in B-Trees", CIDR 2021. Differs: no counters in the pages, but a
//! few notes beside them, written only by who met another; and the cut is made between two keys that were seen to be
//! written by different threads, so that one split is mostly enough.

use crate::spread::stripe;
use crate::tree::Tree;
use crossbeam_utils::CachePadded;
use foreshore_base::PageId;
use parking_lot::Mutex;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Leaves that notes are kept of at a time; others are left alone until one of these is quiet.
const LEAVES: usize = 16;

/// One meeting in so many is noted.
const ONE_IN: u32 = 8;

/// So many notes of one leaf within [`PERIOD`] are enough, each of another thread and another row than the one before. That
/// is 2,500 meetings a second, of about a microsecond each.
const ENOUGH: u32 = 32;
const PERIOD: Duration = Duration::from_millis(100);

/// Notes of meetings, in the place of their leaf.
#[derive(Default)]
pub(crate) struct Meetings([CachePadded<Mutex<Option<Notes>>>; LEAVES]);

/// What was noted of one leaf.
struct Notes {
    leaf: PageId,
    since: Instant,
    count: u32,
    /// Who was hindered last, and at which row.
    thread: usize,
    key: Vec<u8>,
}

impl Meetings {
    /// A thread met another at the row of `key`. If that has happened often enough: a row that another thread writes.
    fn note(&self, leaf: PageId, thread: usize, key: &[u8], now: Instant) -> Option<Vec<u8>> {
        let mut place = self.0[leaf.0 as usize % LEAVES].try_lock()?;
        if place.as_ref().is_none_or(|notes| now.duration_since(notes.since) > PERIOD) {
            *place = Some(Notes { leaf, since: now, count: 0, thread, key: key.to_vec() });
        }
        let notes = place.as_mut()?;
        if notes.leaf != leaf || notes.thread == thread || notes.key == key {
            return None;
        }
        notes.count += 1;
        if notes.count < ENOUGH {
            notes.thread = thread;
            notes.key.clear();
            notes.key.extend_from_slice(key);
            return None;
        }
        place.take().map(|notes| notes.key)
    }
}

impl Tree {
    /// This thread has just changed the row of `key`, which was there, and met another thread in its leaf. Nothing is latched.
    #[cold]
    pub(super) fn note_meeting(&self, leaf: PageId, key: &[u8]) {
        thread_local!(static MET: Cell<u32> = const { Cell::new(0) });
        let met = MET.get().wrapping_add(1);
        MET.set(met);
        if !met.is_multiple_of(ONE_IN) {
            return;
        }
        if let Some(rival) = self.core.meetings.note(leaf, stripe(), key, Instant::now()) {
            // The row is written, whatever becomes of this: a full disk here must not say that it is not.
            let _ = self.part(key, &rival);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ByteTable, Database};
    use foreshore_base::sync::{AtomicBool, Ordering::Relaxed};

    const LEAF: PageId = PageId(7);

    #[test]
    fn a_leaf_is_named_when_many_met_there() {
        let (meetings, now) = (Meetings::default(), Instant::now());
        let found: Vec<_> = (0..=2 * ENOUGH as usize)
            .map(|turn| meetings.note(LEAF, turn % 2, if turn % 2 == 0 { b"even" } else { b"odd" }, now))
            .collect();
        let rivals: Vec<_> = found.iter().flatten().collect();
        assert_eq!(rivals, [b"odd"], "the last of the notes begins anew");
        assert_eq!(found.iter().position(Option::is_some), Some(ENOUGH as usize));
    }

    #[test]
    fn nobody_parts_a_row_from_itself_or_a_thread_from_itself() {
        let (meetings, now) = (Meetings::default(), Instant::now());
        for turn in 0..10 * ENOUGH as usize {
            assert_eq!(meetings.note(LEAF, turn % 2, b"one row", now), None);
            assert_eq!(meetings.note(PageId(8), 3, &turn.to_be_bytes(), now), None);
        }
    }

    #[test]
    fn what_is_long_ago_does_not_count() {
        let (meetings, now) = (Meetings::default(), Instant::now());
        for turn in 0..ENOUGH as usize {
            assert_eq!(meetings.note(LEAF, turn % 2, &turn.to_be_bytes(), now), None);
        }
        let later = now + PERIOD + Duration::from_millis(1);
        assert_eq!(meetings.note(LEAF, 5, b"another", later), None, "one more would have been enough");
    }

    /// Who finds the leaf changed since it read a row for update, or its latch held, has met another.
    #[test]
    fn writers_that_meet_note_it() {
        let db = Database::in_memory().unwrap();
        let [found, alone] = ["found", "alone"].map(|name| db.byte_table(name).unwrap());
        for key in [b"a", b"b"] {
            found.put(key, b"").unwrap();
            alone.put(key, b"").unwrap();
        }
        let noted = |table: &ByteTable| {
            let leaf = table.tree.seek(b"a").unwrap();
            let notes = table.tree.core.meetings.0[leaf.0 as usize % LEAVES].lock();
            notes.as_ref().is_some_and(|notes| notes.leaf == leaf && notes.key == b"a")
        };
        for turn in 0..ONE_IN {
            assert!(!noted(&found), "one in {ONE_IN} is, not the first {turn}");
            let tx = db.begin().unwrap();
            tx.bytes(&found).get_for_update(b"a").unwrap();
            found.put(b"b", b"meanwhile").unwrap();
            tx.bytes(&found).put(b"a", b"changed").unwrap();
            tx.commit().unwrap();
        }
        assert!(noted(&found));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (0_u64..).take_while(|_| !stop.load(Relaxed)).for_each(|n| {
                    alone.put(b"a", &n.to_le_bytes()).unwrap();
                })
            });
            let begun = Instant::now();
            while !noted(&alone) && begun.elapsed() < Duration::from_secs(60) {
                let held = alone.tree.latch_leaf(b"b").unwrap();
                std::thread::sleep(Duration::from_millis(1));
                held.latch.release_unchanged();
                std::thread::sleep(Duration::from_millis(1));
            }
            stop.store(true, Relaxed);
        });
        assert!(noted(&alone));
    }

    /// The leaf is split between the two rows and nowhere else, also while a transaction is about to write one of them, and
    /// not once more.
    #[test]
    fn rows_are_parted() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        for (warehouse, district) in (1..=2).flat_map(|warehouse| (0..10).map(move |d| (warehouse, d))) {
            table.put(&[0, warehouse, district], b"before").unwrap();
        }
        let splits = || db.stats().splits;
        let before = splits();
        let tx = db.begin().unwrap();
        assert!(tx.bytes(&table).get_for_update(&[0, 2, 3]).unwrap().is_some());
        for _ in 0..2 {
            table.tree.part(&[0, 2, 3], &[0, 1, 7]).unwrap();
            assert_eq!(splits(), before + 1);
        }
        tx.bytes(&table).put(&[0, 2, 3], b"after").unwrap();
        tx.commit().unwrap();
        assert_eq!(table.tree.index.get(&[0, 2]), table.tree.index.last(), "the shortest separator");
        assert_eq!(table.get(&[0, 2, 3]).unwrap().unwrap(), b"after");
        assert_eq!(table.range(..).count(), 20);
        db.check().unwrap();
    }

    /// Two threads that keep changing rows of their own, neighbours in one leaf, come to change leaves of their own.
    #[test]
    fn rows_of_threads_that_meet_are_parted() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        for key in [b"a", b"b"] {
            table.put(key, b"").unwrap();
        }
        let are_parted = || table.tree.seek(b"a").unwrap() != table.tree.seek(b"b").unwrap();
        assert!(!are_parted());
        let splits = db.stats().splits;
        let begun = Instant::now();
        let keep_changing = |key: &[u8], until: Duration| {
            while !are_parted() && begun.elapsed() < until {
                let tx = db.begin().unwrap();
                tx.bytes(&table).get_for_update(key).unwrap();
                std::thread::yield_now();
                tx.bytes(&table).put(key, b"changed").unwrap();
                tx.commit().unwrap();
            }
        };
        // Each second by other threads: those of one stripe count as one thread.
        for until in (1..=30).map(Duration::from_secs) {
            std::thread::scope(|scope| {
                scope.spawn(|| keep_changing(b"a", until));
                scope.spawn(|| keep_changing(b"b", until));
            });
        }
        assert!(are_parted(), "they still meet after {:?}", begun.elapsed());
        assert_eq!(db.stats().splits, splits + 1);
        db.check().unwrap();
    }
}
