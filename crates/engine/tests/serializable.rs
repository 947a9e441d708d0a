//! Random histories, and the proof by checker that each has a serial order.
//!
//! Many threads, few rows: lists that transactions append to, remove, insert again, read by key and by range, with
//! savepoints and rollbacks; snapshots and single writes in between. What is checked, and how, is in `histories/check.rs`.
//!
//! `FORESHORE_SEED` chooses the seed, `FORESHORE_TRANSACTIONS` how many transactions (default: enough for CI), `FORESHORE_ROUNDS`
//! how many rounds of ranges against a list.

mod common;
mod histories;

use common::{Rng, env, small};
use foreshore::{ByteTable, Database, Error, Isolation, Transaction, TransactionOptions};
use histories::check::{Checked, check};
use histories::drive::{Driver, Mix};
use histories::record::{Content, Entry, Fate, Kind, Read, Stamp, Write};
use std::ops::{Bound, RangeBounds};
use std::thread;
use std::time::{Duration, Instant};

/// Transactions in one history.
const PER_HISTORY: usize = 6000;

/// One history of all threads, in no particular order.
fn history(mix: Mix, seed: u64, count: usize) -> Vec<Entry> {
    let db = small();
    let table = db.byte_table("rows").unwrap();
    let per_thread = count.div_ceil(mix.threads);
    let history = thread::scope(|scope| {
        let threads: Vec<_> = (0..mix.threads)
            .map(|thread| {
                let (db, table) = (&db, &table);
                scope.spawn(move || Driver::new(db, table, mix, thread, 0, seed).run(per_thread))
            })
            .collect();
        let mut history = Vec::with_capacity(count);
        for thread in threads {
            let (entries, error) = thread.join().unwrap();
            assert!(error.is_none(), "{error:?}");
            history.extend(entries);
        }
        history
    });
    assert!(db.transactions().is_empty());
    db.check().unwrap();
    db.close().unwrap();
    history
}

/// As many histories as `count` transactions take, at this level.
fn run(level: Isolation, count: u64) {
    let seed = env("FORESHORE_SEED", 1);
    let count = env("FORESHORE_TRANSACTIONS", count) as usize;
    let (begun, mut checked, mut rng) = (Instant::now(), Checked::default(), Rng(seed));
    for round in 0..count.div_ceil(PER_HISTORY) {
        let mix = Mix::random(&mut rng, level);
        let what = format!("FORESHORE_SEED={seed}, round {round}, {mix:?}");
        println!("{what}");
        let history = history(mix, rng.next(), PER_HISTORY.min(count));
        checked += check(&history, mix.keys).unwrap_or_else(|anomaly| panic!("{what}: {anomaly}"));
    }
    println!("{checked:?} in {:?}", begun.elapsed());
    assert!(checked.ambiguous * 50 <= checked.reads, "too many reads prove nothing: {checked:?}");
    assert!(checked.rolled_back > checked.committed / 50, "too little happened: {checked:?}");
}

/// No cycle, whatever the dependencies, and in real time.
#[test]
fn serializable_histories_have_a_serial_order() {
    run(Isolation::Serializable, 240_000);
}

/// Nothing but phantoms.
#[test]
fn repeatable_histories_have_none_but_phantoms() {
    run(Isolation::RepeatableRead, 30_000);
}

/// No dirty read, no dirty write, no lost append; and snapshots are in order among whatever writers.
#[test]
fn committed_histories_have_no_dirty_reads() {
    run(Isolation::ReadCommitted, 30_000);
}

/// A dozen rows of these fill a leaf.
const VALUE: [u8; 300] = [7; 300];

type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A transaction and what it has read.
struct Reader {
    tx: Transaction,
    ranges: Vec<Bounds>,
}

impl Reader {
    fn new(db: &Database) -> Self {
        let tx = db.begin_with(TransactionOptions::new().lock_timeout(Duration::ZERO)).unwrap();
        Self { tx, ranges: Vec::new() }
    }

    fn has_read(&self, key: &[u8]) -> bool {
        self.ranges.iter().any(|range| RangeBounds::<[u8]>::contains(&as_slices(range), key))
    }

    /// Does something; tells what became of it if that was to insert `key`.
    fn act(
        &mut self,
        db: &Database,
        table: &ByteTable,
        key: &[u8],
        rng: &mut Rng,
    ) -> Option<foreshore::Result<bool>> {
        let rows = self.tx.bytes(table);
        match rng.below(12) {
            0 => std::mem::replace(self, Reader::new(db)).tx.commit().unwrap(),
            1 | 2 => {
                let before = self.tx.savepoint().unwrap();
                let _ = rows.insert(key, &VALUE);
                self.tx.rollback_to(before).unwrap();
            }
            3 | 4 => drop(rows.remove(key)),
            5..=7 => self.read(table, rng),
            _ => return Some(rows.insert(key, &VALUE)),
        }
        None
    }

    /// Reads or removes some rows of a range, or all, or as many as can be locked.
    fn read(&mut self, table: &ByteTable, rng: &mut Rng) {
        let mut keys = [some_key(rng), some_key(rng)];
        keys.sort();
        let [low, high] = keys.map(|key| match rng.below(5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Included(key),
            _ => Bound::Excluded(key),
        });
        let range = (low, high);
        let rows = self.tx.bytes(table);
        if rng.below(4) == 0 {
            if rows.remove_range(as_slices(&range)).is_ok() {
                self.ranges.push(range);
            }
            return;
        }
        let (backwards, most) = (rng.below(2) == 0, [1, 3, usize::MAX][rng.below(3)]);
        let mut met = rows.range(as_slices(&range));
        let (mut last, mut read_all) = (None, false);
        for _ in 0..most {
            match if backwards { met.next_back() } else { met.next() } {
                Some(Ok((key, _))) => last = Some(Bound::Included(key)),
                Some(Err(_)) => break,
                None => {
                    read_all = true;
                    break;
                }
            }
        }
        let (low, high) = range;
        match last {
            _ if read_all => self.ranges.push((low, high)),
            Some(last) if backwards => self.ranges.push((last, high)),
            Some(last) => self.ranges.push((low, last)),
            None => {}
        }
    }
}

fn as_slices((low, high): &Bounds) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (low.as_ref().map(Vec::as_slice), high.as_ref().map(Vec::as_slice))
}

fn some_key(rng: &mut Rng) -> Vec<u8> {
    (0..1 + rng.below(4)).map(|_| rng.below(3) as u8).collect()
}

/// Ranges of two transactions, which insert and remove rows of their own, against a list of what they have read: nobody else
/// changes anything there.
#[test]
fn nothing_changes_in_what_others_have_read() {
    let seed = env("FORESHORE_SEED", 1);
    let (mut changed, mut refused) = (0, 0);
    for round in 0..env("FORESHORE_ROUNDS", 200) {
        let mut rng = Rng(seed << 32 | round);
        let db = small();
        let table = db.byte_table("rows").unwrap().with_lock_timeout(Duration::ZERO);
        let mut readers = [Reader::new(&db), Reader::new(&db)];
        for _ in 0..100 {
            let who = rng.below(3);
            let key = some_key(&mut rng);
            let outcome = match readers.get_mut(who) {
                Some(reader) => reader.act(&db, &table, &key, &mut rng),
                None if rng.below(3) == 0 => Some(table.remove(&key)),
                None => Some(table.insert(&key, &VALUE)),
            };
            let read =
                readers.iter().enumerate().any(|(other, reader)| other != who && reader.has_read(&key));
            match outcome {
                Some(Ok(true)) => {
                    changed += 1;
                    assert!(
                        !read,
                        "seed {seed}, round {round}: {key:?} in {:?}",
                        readers.each_ref().map(|reader| &reader.ranges)
                    );
                }
                Some(Err(Error::LockTimeout { .. })) => refused += u64::from(read),
                Some(Err(error)) => panic!("seed {seed}, round {round}: {error}"),
                Some(Ok(false)) | None => {}
            }
        }
        drop(readers);
        db.close().unwrap();
    }
    assert!(changed > 1000 && refused > 1000, "{changed} changes, {refused} refused");
}

/// A transaction of a history that is told, not run.
fn told(begin: Stamp, end: Stamp, reads: &[(usize, &[u64])], writes: &[(usize, &[u64])]) -> Entry {
    let content = |ids: &[u64]| -> Content { (!ids.is_empty()).then(|| ids.to_vec()) };
    let mut entry = Entry::new(Kind::Transaction(Isolation::Serializable));
    (entry.fate, entry.begin, entry.commit, entry.end) = (Fate::Committed, begin, end - 1, end);
    entry.reads = reads
        .iter()
        .map(|(key, ids)| Read { key: *key, content: content(ids), from: begin, to: end, stays: true })
        .collect();
    entry.writes =
        writes.iter().map(|(key, ids)| Write { key: *key, content: content(ids), at: end - 1 }).collect();
    entry.tried = writes.iter().flat_map(|(_, ids)| ids.last().copied()).collect();
    entry
}

fn verdict(history: &[Entry]) -> String {
    match check(history, 3) {
        Ok(_) => "fine".into(),
        Err(anomaly) => anomaly.lines().next().unwrap_or_default().to_owned(),
    }
}

/// The checker knows what it is looking for.
#[test]
fn the_checker_finds_every_anomaly() {
    let two = told(10, 20, &[], &[(0, &[1]), (1, &[2])]);
    let fine = told(30, 40, &[(0, &[1]), (1, &[2]), (2, &[])], &[(0, &[1, 3])]);
    assert_eq!(verdict(&[two.clone(), fine]), "fine");
    let aborted = Entry { fate: Fate::RolledBack, ..two.clone() };
    let reader = told(30, 40, &[(0, &[1])], &[]);
    assert!(verdict(&[aborted, reader.clone()]).starts_with("aborted read (G1a)"));
    let mut twice = told(10, 20, &[], &[(0, &[1, 9])]);
    twice.tried.push(1);
    assert!(verdict(&[twice, reader]).starts_with("intermediate read (G1b)"));
    let stale = told(30, 40, &[(1, &[])], &[]);
    assert!(verdict(&[two.clone(), stale]).starts_with("a row was there and not seen"));
    let skew = told(15, 30, &[(0, &[]), (1, &[2])], &[]);
    assert_eq!(verdict(&[two.clone(), skew]), "a cycle:", "read skew (G-single)");
    let early = told(10, 20, &[], &[(0, &[1])]);
    let unprotected = told(15, 30, &[(0, &[])], &[]);
    assert!(verdict(&[early, unprotected]).starts_with("overtaken"), "it had the row as it was until 30");
    let increments =
        [told(30, 40, &[(0, &[1])], &[(0, &[1, 3])]), told(31, 45, &[(0, &[1])], &[(0, &[1, 4])])];
    assert!(
        verdict(&[std::slice::from_ref(&two), &increments[..]].concat()).starts_with("lost write (P4)"),
        "lost update"
    );
    let skews = [told(30, 40, &[(0, &[1])], &[(1, &[5])]), told(31, 41, &[(1, &[2])], &[(0, &[6])])];
    assert_eq!(
        verdict(&[std::slice::from_ref(&two), &skews[..]].concat()),
        "a cycle:",
        "write skew (G2-item)"
    );
    let phantoms = [told(30, 40, &[(2, &[])], &[(1, &[5])]), told(31, 41, &[(1, &[2])], &[(2, &[6])])];
    assert_eq!(verdict(&[std::slice::from_ref(&two), &phantoms[..]].concat()), "a cycle:", "phantom (G2)");
    let circle = [told(30, 40, &[(1, &[8])], &[(0, &[7])]), told(31, 41, &[(0, &[7])], &[(1, &[8])])];
    assert_eq!(
        verdict(&[std::slice::from_ref(&two), &circle[..]].concat()),
        "a cycle:",
        "circular flow (G1c)"
    );
    let overwrite = told(30, 40, &[], &[(0, &[9])]);
    let late = told(50, 60, &[(0, &[1])], &[]);
    assert_eq!(verdict(&[two, overwrite, late]), "a cycle:", "a read of the past, against real time");
}
