//! Random histories across crashes: what is found after a crash goes on, and one serial order explains it all.
//!
//! Several threads run random transactions (`histories/drive.rs`), each commit waiting for the disk. At a random I/O
//! event the machine or the process dies. What was acknowledged must be there, and what was under way wholly or not at
//! all; then the next life goes on with the same rows. After the last one the whole history is checked: nobody who was
//! acknowledged has seen anything that a crash took back.
//!
//! `FORESHORE_SEED` chooses the seed, `FORESHORE_ROUNDS` how many histories (default: enough for CI).

mod common;
mod histories;

use common::{Rng, env, tiny};
use foreshore::{Database, Durability, Error, Isolation, Result, TransactionOptions};
use foreshore_io::{SimDisk, sim::Crash};
use histories::check::{Checked, check};
use histories::drive::{Driver, Mix, decode, key};
use histories::record::{Content, Entry, Fate, Kind, Stamp};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Crashes of one history.
const LIVES: u64 = 5;

/// Transactions of a thread in one life, if no crash comes before.
const PER_THREAD: usize = 400;

/// I/O events until a crash.
const EVENTS_MAX: usize = 700;

fn open(disk: &SimDisk) -> Result<Database> {
    tiny().durability(Durability::Sync).open_on(Arc::new(disk.clone()))
}

/// Runs all threads until the crash, or until they have done enough; what they did.
fn live(db: &Database, disk: &SimDisk, mix: Mix, life: u64, seed: u64) -> Vec<Entry> {
    // The crash may come before the table is there.
    let Ok(table) = db.byte_table("rows") else {
        assert!(disk.is_crashed());
        return Vec::new();
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..mix.threads)
            .map(|thread| {
                let mut driver = Driver::new(db, &table, mix, thread, life, seed);
                driver.disk = Some(disk.clone());
                scope.spawn(move || {
                    let (entries, error) = driver.run(PER_THREAD);
                    assert!(error.is_none() || disk.is_crashed(), "{error:?}");
                    entries
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

/// The rows as they are found.
fn found(db: &Database, keys: usize) -> Vec<Content> {
    let table = db.byte_table("rows").unwrap();
    (0..keys).map(|row| table.get(&key(row)).unwrap().as_deref().map(decode)).collect()
}

/// Which version of each row is the last, if of the unknown these survived.
fn last_versions<'h>(history: &'h [Entry], keys: usize, survivors: &[usize]) -> Vec<&'h Content> {
    let mut last: Vec<(Stamp, &Content)> = vec![(0, &None); keys];
    for (i, entry) in history.iter().enumerate() {
        if entry.fate != Fate::Committed && !survivors.contains(&i) {
            continue;
        }
        for write in &entry.writes {
            if write.at >= last[write.key].0 {
                last[write.key] = (write.at, &write.content);
            }
        }
    }
    last.into_iter().map(|(_, content)| content).collect()
}

/// Must `earlier` have survived if `later` did? So it is if `later` saw or wrote a row after `earlier` had written it: what keeps others
/// off a row was handed on when the commit was in the log, and a log keeps its beginning. (What is found does not tell by itself: a
/// removal of a row looks the same whether or not its insertion was there before.)
fn precedes(earlier: &Entry, later: &Entry) -> bool {
    let touched = |key: usize| {
        let reads = later.reads.iter().filter(move |read| read.key == key).map(|read| read.to);
        let writes = later.writes.iter().filter(move |write| write.key == key).map(|write| write.at);
        reads.chain(writes)
    };
    matches!(earlier.kind, Kind::Transaction(_))
        && earlier.writes.iter().any(|write| touched(write.key).any(|at| write.at < at))
}

/// Did everybody survive whom a survivor has seen?
fn is_closed(history: &[Entry], unknown: &[usize], survivors: &[usize]) -> bool {
    unknown
        .iter()
        .filter(|i| !survivors.contains(i))
        .all(|lost| survivors.iter().all(|survivor| !precedes(&history[*lost], &history[*survivor])))
}

/// Settles the fate of those of this life whose commit was not acknowledged: the most survivors that explain what was
/// found. `Err`: nothing explains it.
fn settle(history: &mut [Entry], life_from: usize, found: &[Content]) -> Result<(), String> {
    let unknown: Vec<usize> = (life_from..history.len())
        .filter(|i| history[*i].fate == Fate::Unknown && !history[*i].writes.is_empty())
        .collect();
    assert!(unknown.len() <= 16, "a thread has at most one commit under way");
    let mut subsets: Vec<u32> = (0..1 << unknown.len()).collect();
    subsets.sort_by_key(|subset| std::cmp::Reverse(subset.count_ones()));
    for subset in subsets {
        let survivors: Vec<usize> =
            unknown.iter().enumerate().filter(|(bit, _)| subset >> bit & 1 == 1).map(|(_, i)| *i).collect();
        let explained = last_versions(history, found.len(), &survivors).into_iter().eq(found);
        if explained && is_closed(history, &unknown, &survivors) {
            survivors.into_iter().for_each(|i| history[i].fate = Fate::Committed);
            return Ok(());
        }
    }
    Err(format!(
        "no choice of the commits under way, {:?}, on top of {:?} explains {found:?}",
        unknown.iter().map(|i| &history[*i]).collect::<Vec<_>>(),
        last_versions(history, found.len(), &[])
    ))
}

/// Several lives of one disk.
fn lives(seed: u64) -> (Checked, u64) {
    let mut rng = Rng(seed);
    let mix = Mix {
        threads: 2 + rng.below(4),
        durable_snapshots: true,
        // Who cannot roll back for want of a disk keeps its locks.
        patience: Duration::from_millis(20),
        ..Mix::random(&mut rng, Isolation::Serializable)
    };
    let mut disk = SimDisk::new(seed);
    let (mut history, mut crashes) = (Vec::new(), 0);
    for life in 0..LIVES {
        let kind = [Crash::PowerLoss, Crash::ProcessKill][rng.below(2)];
        let what = format!("FORESHORE_SEED={seed} FORESHORE_ROUNDS=1, life {life}, {kind:?}, {mix:?}");
        disk.crash_at(disk.events() + 1 + rng.below(EVENTS_MAX) as u64);
        let life_from = history.len();
        let after = match open(&disk) {
            Ok(db) => {
                history.extend(live(&db, &disk, mix, life, rng.next()));
                disk.after_crash(kind, rng.next())
            }
            Err(error) => {
                assert!(disk.is_crashed(), "{what}: {error}");
                disk.after_crash(kind, rng.next())
            }
        };
        crashes += 1;
        disk = after;
        let db = open(&disk).unwrap_or_else(|e| panic!("{what}: reopening: {e}"));
        db.check().unwrap_or_else(|e| panic!("{what}: {e}"));
        settle(&mut history, life_from, &found(&db, mix.keys)).unwrap_or_else(|e| panic!("{what}: {e}"));
        db.close().unwrap_or_else(|e| panic!("{what}: closing: {e}"));
    }
    let checked = check(&history, mix.keys);
    (checked.unwrap_or_else(|e| panic!("FORESHORE_SEED={seed} FORESHORE_ROUNDS=1, {mix:?}: {e}")), crashes)
}

/// Nothing acknowledged is lost, nothing is half there, and no cycle leads across a crash.
#[test]
fn histories_go_on_after_crashes() {
    let seed = env("FORESHORE_SEED", 1);
    let rounds = env("FORESHORE_ROUNDS", 50);
    let (begun, mut checked, mut crashes) = (Instant::now(), Checked::default(), 0);
    for round in 0..rounds {
        let (of_one, crashes_of_one) = lives(seed + round);
        checked += of_one;
        crashes += crashes_of_one;
    }
    println!("{checked:?}, {crashes} crashes in {:?}", begun.elapsed());
}

/// Whoever is acknowledged with `Sync` has seen nothing that a power failure takes back, even if it only read.
#[test]
fn a_reader_waits_for_what_it_read() {
    for seed in 0..20 {
        let disk = SimDisk::new(seed);
        let db = open(&disk).unwrap();
        let table = db.byte_table("rows").unwrap();
        let writer = db.begin_with(TransactionOptions::new().durability(Durability::Relaxed)).unwrap();
        writer.bytes(&table).put(b"a", b"seen").unwrap();
        writer.commit().unwrap();
        let reader = db.begin().unwrap();
        let seen = reader.bytes(&table).get(b"a").unwrap();
        reader.commit().unwrap();
        let db = open(&disk.after_crash(Crash::PowerLoss, seed)).unwrap();
        assert_eq!(db.byte_table("rows").unwrap().get(b"a").unwrap(), seen, "seed {seed}");
    }
}

/// So is a single write that found nothing to do, and says so.
#[test]
fn a_write_with_nothing_to_do_waits_for_what_it_read() {
    for seed in 0..20 {
        let disk = SimDisk::new(seed);
        let db = open(&disk).unwrap();
        let table = db.byte_table("rows").unwrap();
        let hasty = table.with_durability(Durability::Relaxed);
        table.put(b"gone", b"").unwrap();
        hasty.put(b"taken", b"by others").unwrap();
        hasty.remove(b"gone").unwrap();
        match seed % 3 {
            0 => assert!(!table.insert(b"taken", b"by us").unwrap()),
            1 => assert!(!table.remove(b"gone").unwrap()),
            _ => assert_eq!(table.remove_prefix(b"gone").unwrap(), 0),
        }
        let db = open(&disk.after_crash(Crash::PowerLoss, seed)).unwrap();
        let table = db.byte_table("rows").unwrap();
        assert!(table.contains(b"taken").unwrap() && !table.contains(b"gone").unwrap(), "seed {seed}");
    }
}

/// What a prepared transaction wrote stays locked and unseen across a crash, until its fate is told.
#[test]
fn prepared_transactions_keep_their_locks() {
    let disk = SimDisk::new(1);
    let db = open(&disk).unwrap();
    let table = db.byte_table("rows").unwrap();
    table.put(b"a", b"old").unwrap();
    let tx = db.begin().unwrap();
    tx.bytes(&table).put(b"a", b"new").unwrap();
    tx.bytes(&table).insert(b"b", b"new").unwrap();
    tx.prepare("gid").unwrap();
    let disk = disk.after_crash(Crash::PowerLoss, 1);
    let db = open(&disk).unwrap();
    let table = db.byte_table("rows").unwrap();
    let before = db.snapshot().unwrap();
    for key in [b"a", b"b"] {
        let other = db.begin_with(TransactionOptions::new().lock_timeout(Duration::from_millis(20))).unwrap();
        let refused = other.bytes(&table).get(key);
        assert!(matches!(refused, Err(Error::LockTimeout { .. })), "{key:?}: {refused:?}");
    }
    assert_eq!((table.get(b"a").unwrap().as_deref(), table.get(b"b").unwrap()), (Some(&b"old"[..]), None));
    db.commit_prepared("gid").unwrap();
    assert_eq!(table.get(b"a").unwrap().as_deref(), Some(&b"new"[..]));
    let old = before.bytes(&table);
    assert_eq!((old.get(b"a").unwrap().as_deref(), old.get(b"b").unwrap()), (Some(&b"old"[..]), None));
}
