//! Deadlock storms: real threads, keys in random order, upgrades and gaps. Every cycle is broken within a second, no
//! transaction starves, nobody ever holds what an enemy holds, and nothing is left.

use super::*;
use crate::chance::{Random, seeds};
use foreshore_base::Lsn;
use foreshore_base::sync::{AtomicU64, Ordering::*};
use std::thread;
use std::time::Instant;

/// Far longer than any wait, also on a busy machine. A transaction that waits so long has met a deadlock that nobody broke.
const CYCLE_LIFE: Duration = Duration::from_secs(10);

/// What the threads believe to hold of one key, to catch a grant that should not have been.
#[derive(Default)]
struct Witness {
    readers: AtomicU64,
    writers: AtomicU64,
}

/// What one transaction holds of one key.
#[derive(Clone, Copy, Default)]
struct Holds {
    locked: bool,
    read: bool,
    write: bool,
}

struct Storm {
    table: KeyTable,
    names: Vec<Name>,
    witnesses: Vec<Witness>,
    ages: AtomicU64,
    restarts: AtomicU64,
}

/// One try of a transaction.
struct Attempt<'a> {
    storm: &'a Storm,
    owner: Owner,
    holds: Vec<Holds>,
}

impl Storm {
    fn new(owners: usize, keys: u64, colliding: bool) -> Self {
        let table =
            if colliding { KeyTable::with_colliding_names(1, owners, 3) } else { KeyTable::new(8, owners) };
        let names: Vec<Name> = (0..keys).map(|key| table.name(TABLE, &key.to_be_bytes())).collect();
        let witnesses = names.iter().map(|_| Witness::default()).collect();
        Self { table, names, witnesses, ages: AtomicU64::new(0), restarts: AtomicU64::new(0) }
    }

    /// Runs transactions of one owner until `until`, each to its success; how many.
    fn run(&self, owner: Owner, mut random: Random, until: Instant) -> u64 {
        let mut done = 0;
        while Instant::now() < until {
            let age = self.ages.fetch_add(1, Relaxed);
            loop {
                self.table.reset(owner, Lsn(age), 1);
                let mut attempt =
                    Attempt { storm: self, owner, holds: vec![Holds::default(); self.names.len()] };
                let outcome = (0..4).try_for_each(|_| attempt.step(&mut random));
                attempt.finish();
                match outcome {
                    Ok(()) => break,
                    Err(LockError::Deadlock { .. }) => self.restarts.fetch_add(1, Relaxed),
                    Err(error) => panic!("{owner:?}, age {age}: {error:?}"),
                };
            }
            done += 1;
        }
        done
    }
}

impl Attempt<'_> {
    /// One request on a random key, and what it must mean.
    fn step(&mut self, random: &mut Random) -> Result<(), LockError> {
        let key = random.below(self.storm.names.len() as u64) as usize;
        match random.below(5) {
            0 | 1 => self.lock(key, KeyMode::Shared, if random.below(3) == 0 { ALL } else { NONE }),
            2 => self.lock(key, KeyMode::Exclusive, NONE),
            3 => self.lock(key, KeyMode::None, ALL),
            _ => self.insert(key),
        }
    }

    fn lock(&mut self, key: usize, mode: KeyMode, gap: Reach) -> Result<(), LockError> {
        let name = self.storm.names[key];
        let granted = self.storm.table.acquire(self.owner, name, mode, gap, CYCLE_LIFE)?;
        let (witness, holds) = (&self.storm.witnesses[key], &mut self.holds[key]);
        // Colliding keys share a name: then only the first of them is told `first`.
        holds.locked |= granted.first;
        if mode != KeyMode::None && !std::mem::replace(&mut holds.read, true) {
            witness.readers.fetch_add(1, SeqCst);
        }
        if mode == KeyMode::Exclusive && !std::mem::replace(&mut holds.write, true) {
            witness.writers.fetch_add(1, SeqCst);
        }
        self.look(key);
        Ok(())
    }

    /// Waits for the gap, then finds it open or tries again, as an inserter does.
    fn insert(&mut self, key: usize) -> Result<(), LockError> {
        let name = self.storm.names[key];
        while !gap_is_open(&self.storm.table, self.owner, name) {
            self.storm.table.wait_for_gap(self.owner, lowest(name), CYCLE_LIFE)?;
        }
        Ok(())
    }

    /// Nobody holds what an enemy holds.
    fn look(&self, key: usize) {
        let (witness, holds) = (&self.storm.witnesses[key], &self.holds[key]);
        if holds.write {
            assert_eq!((witness.readers.load(SeqCst), witness.writers.load(SeqCst)), (1, 1), "key {key}");
        }
        if holds.read && !holds.write {
            assert_eq!(witness.writers.load(SeqCst), 0, "key {key}");
        }
    }

    /// Gives everything back.
    fn finish(self) {
        for (key, holds) in self.holds.iter().enumerate() {
            self.look(key);
            let witness = &self.storm.witnesses[key];
            witness.readers.fetch_sub(u64::from(holds.read), SeqCst);
            witness.writers.fetch_sub(u64::from(holds.write), SeqCst);
        }
        for (key, holds) in self.holds.iter().enumerate() {
            if holds.locked {
                self.storm.table.release(self.owner, self.storm.names[key]);
            }
        }
        self.storm.table.release_shown(self.owner);
    }
}

fn storm(seed: u64, owners: u16, keys: u64, colliding: bool, time: Duration) {
    let storm = Storm::new(usize::from(owners), keys, colliding);
    let until = Instant::now() + time;
    let done: Vec<u64> = thread::scope(|scope| {
        let storm = &storm;
        let run = |owner| {
            let random = Random(seed << 16 | u64::from(owner));
            scope.spawn(move || storm.run(Owner(owner), random, until))
        };
        let threads: Vec<_> = (0..owners).map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| panic!("seed {seed}"))).collect()
    });
    storm.table.check_empty().unwrap_or_else(|left| panic!("seed {seed}: {left}"));
    assert!(done.iter().all(|&done| done > 0), "seed {seed}: somebody starved: {done:?}");
    let stats = storm.table.stats();
    assert_eq!(stats.deadlocks, storm.restarts.load(Relaxed), "seed {seed}");
    assert_eq!(stats.timeouts, 0, "seed {seed}");
    assert!(stats.deadlocks > 0, "seed {seed}: no storm: {stats:?}");
}

#[test]
fn every_cycle_is_broken_and_nothing_is_left() {
    for seed in seeds(2) {
        storm(seed, 8, 6, false, Duration::from_millis(700));
    }
}

/// Several names in a bucket, several keys of a name.
#[test]
fn a_storm_in_two_buckets() {
    for seed in seeds(2) {
        storm(seed, 8, 12, true, Duration::from_millis(700));
    }
}

/// Transactions that never hold one thing while they wait for another cannot deadlock: so none may be called a victim.
#[test]
fn there_are_no_false_victims() {
    let storm = Storm::new(8, 2, false);
    let until = Instant::now() + Duration::from_millis(700);
    thread::scope(|scope| {
        for owner in 0..8 {
            let storm = &storm;
            scope.spawn(move || {
                let mut random = Random(u64::from(owner));
                while Instant::now() < until {
                    storm.table.reset(Owner(owner), Lsn(random.below(100)), 1);
                    let holds = vec![Holds::default(); storm.names.len()];
                    let mut attempt = Attempt { storm, owner: Owner(owner), holds };
                    attempt.step(&mut random).expect("no deadlock without holding and waiting");
                    // Long enough for the others to look for deadlocks.
                    thread::sleep(Duration::from_micros(random.below(3000)));
                    attempt.finish();
                }
            });
        }
    });
    assert!(storm.table.stats().waits > 0);
    assert_eq!(storm.table.stats().deadlocks, 0);
    storm.table.check_empty().unwrap();
}

/// An inserter gets its turn although scanners come all the time and overlap.
#[test]
fn an_inserter_is_not_starved_by_scanners() {
    const SCANNERS: u16 = 4;
    const INSERTS: u32 = 20;
    let table = &table(usize::from(SCANNERS) + 1);
    let name = table.name(TABLE, b"key");
    let done = &AtomicU64::new(0);
    thread::scope(|scope| {
        for scanner in 1..=SCANNERS {
            scope.spawn(move || {
                while done.load(Relaxed) == 0 {
                    table.acquire(Owner(scanner), name, KeyMode::None, ALL, LONG).unwrap();
                    thread::sleep(Duration::from_micros(300));
                    table.release(Owner(scanner), name);
                }
            });
        }
        let mut waits = 0;
        for _ in 0..INSERTS {
            while !gap_is_open(table, A, name) {
                table.wait_for_gap(A, lowest(name), LONG).unwrap();
                waits += 1;
            }
        }
        done.store(1, Relaxed);
        println!("{waits} waits for {INSERTS} inserts");
        assert!(waits <= 5 * INSERTS, "{waits} waits for {INSERTS} inserts: no turn");
    });
    table.check_empty().unwrap();
}
