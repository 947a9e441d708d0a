//! Lives that end when they have hardly begun, or in their opening.
//!
//! `FORESHORE_SEED` chooses the seed, `FORESHORE_ROUNDS` how many databases (default: enough for CI).

mod common;
mod losses;

use common::{Rng, env, in_parallel, key, tiny};
use foreshore::{Database, Durability, Error};
use foreshore_io::{SimDisk, sim::Crash};
use std::sync::Arc;

const ROWS: u32 = 40;
const CRASHES: [Crash; 2] = [Crash::ProcessKill, Crash::PowerLoss];

fn open(disk: &SimDisk) -> foreshore::Result<Database> {
    tiny().open_on(Arc::new(disk.clone()))
}

/// A closed database, whose log ends with a whole block.
fn closed() -> SimDisk {
    let disk = SimDisk::new(1);
    let db = open(&disk).unwrap();
    let table = db.byte_table("t").unwrap();
    (0..ROWS).for_each(|i| table.put(&key(i), &0_u32.to_be_bytes()).unwrap());
    drop(table);
    db.checkpoint().unwrap();
    db.close().unwrap();
    disk.after_crash(Crash::ProcessKill, 1)
}

/// What is left of an opening is not taken for one that the directory has lost, wherever the next one is cut short.
#[test]
fn an_opening_behind_another_may_be_cut_short() {
    let closed = closed();
    let idle = open(&closed).unwrap();
    let left = closed.after_crash(Crash::ProcessKill, 1);
    drop(idle);
    let copy = |crash_at| {
        let disk = left.after_crash(Crash::ProcessKill, 1);
        disk.crash_at(crash_at);
        disk
    };
    let whole = copy(u64::MAX);
    drop(open(&whole).unwrap());
    for event in 0..=whole.events() {
        for (crash, seed) in [(Crash::ProcessKill, 0), (Crash::PowerLoss, 1), (Crash::PowerLoss, 2)] {
            let cut = copy(event);
            let db = open(&cut);
            let next = cut.after_crash(crash, event * 3 + seed);
            drop(db);
            let db = open(&next).unwrap_or_else(|e| panic!("{crash:?} at {event}: {e}"));
            assert_eq!(db.byte_table("t").unwrap().range(..).count(), ROWS as usize);
        }
    }
}

/// A directory that has lost its end is damaged also behind an opening of which nothing is left but that it was.
#[test]
fn a_lost_end_is_missed_behind_an_opening_without_a_row() {
    for seed in 0..40 {
        let idle = closed();
        let db = open(&idle).unwrap();
        let disk = idle.after_crash(Crash::ProcessKill, seed);
        drop(db);
        let db = open(&disk).unwrap();
        db.byte_table("t").unwrap().put(b"new", b"v").unwrap(); // as `Sync`
        let left = disk.after_crash(Crash::PowerLoss, seed);
        drop(db);
        losses::lose_last_batch(&left);
        let opened = open(&left).map(drop);
        assert!(opened.is_err_and(|told| told.to_string().contains("its end is missing")), "seed {seed}");
        let table = losses::salvage(&left).unwrap().byte_table("t").unwrap();
        assert!(table.contains(b"new").unwrap(), "seed {seed}");
    }
}

/// What is known of a row, whose value counts its changes.
#[derive(Clone, Copy, Default)]
struct Known {
    /// What a power failure must spare.
    durable: u32,
    /// What the end of a process must.
    acknowledged: u32,
    tried: u32,
}

/// Changes some rows in some way, until the disk has crashed. On a full disk some are refused.
fn live(db: &Database, disk: &SimDisk, rng: &mut Rng, rows: &mut [Known]) {
    let table = db.byte_table("t").unwrap();
    for _ in 0..rng.below(4) {
        let row = rng.below(rows.len());
        let durability = [Durability::Relaxed, Durability::Buffered, Durability::Sync][rng.below(3)];
        let known = &mut rows[row];
        known.tried += 1;
        let told = table.with_durability(durability).put(&key(row as u32), &known.tried.to_be_bytes());
        match told {
            _ if disk.is_crashed() => return,
            Ok(()) if durability == Durability::Sync => {
                rows.iter_mut().for_each(|known| known.durable = known.acknowledged);
                (rows[row].acknowledged, rows[row].durable) = (rows[row].tried, rows[row].tried);
            }
            Ok(()) => known.acknowledged = known.tried,
            Err(Error::Full { .. }) => {}
            Err(other) => panic!("{other}"),
        }
        if rng.below(4) == 0 {
            let _ = db.checkpoint();
        }
    }
}

/// Is what was promised there?
fn look(db: &Database, rows: &mut [Known], lost_power: bool, what: &str) {
    let table = db.byte_table("t").unwrap();
    for (i, known) in rows.iter_mut().enumerate() {
        let found = table.get(&key(i as u32)).unwrap().unwrap_or_else(|| panic!("{what}: row {i} is gone"));
        let found = u32::from_be_bytes(found.try_into().unwrap());
        let least = if lost_power { known.durable } else { known.acknowledged };
        assert!((least..=known.tried).contains(&found), "{what}, row {i}: {found}, not {least} at least");
        *known = Known { durable: found, acknowledged: found, tried: known.tried };
    }
}

fn lives(seed: u64) {
    let mut rng = Rng(seed);
    let mut disk = closed();
    if rng.below(2) == 0 {
        disk.set_capacity(disk.used_bytes() + rng.below(3) as u64 * common::TINY_SEGMENT_BYTES);
    }
    let mut rows = vec![Known::default(); ROWS as usize];
    let mut lost_power = false;
    for life in 0..40 {
        let what = format!("FORESHORE_SEED={seed} FORESHORE_ROUNDS=1, life {life}");
        if rng.below(2) == 0 {
            disk.crash_at(disk.events() + rng.below(40) as u64);
        }
        let opened = open(&disk);
        match &opened {
            _ if disk.is_crashed() => {}
            Err(error) => panic!("{what}: {error}"),
            Ok(db) => {
                look(db, &mut rows, lost_power, &what);
                lost_power = false;
                if rng.below(2) == 0 {
                    live(db, &disk, &mut rng, &mut rows);
                }
            }
        }
        let crash = CRASHES[rng.below(2)];
        lost_power |= crash == Crash::PowerLoss;
        let next = disk.after_crash(crash, rng.next());
        drop(opened);
        disk = next;
    }
}

/// Nothing that was promised is lost, and every opening that is not cut short succeeds, whether the disk is full or not.
#[test]
fn short_lives_lose_nothing() {
    let seed = env("FORESHORE_SEED", 1);
    let seeds: Vec<u64> = (seed..seed + env("FORESHORE_ROUNDS", 40)).collect();
    in_parallel(&seeds, |seed| lives(*seed));
}
