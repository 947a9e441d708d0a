//! Writes outside of transactions, of rows that transactions and snapshots use at the same time.

mod common;

use common::{Rng, env, small};
use foreshore::{ByteTable, Database, Error, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

const KEYS: usize = 5;

/// Between these moments a transaction had the key locked; or somebody wrote it.
#[derive(Clone, Copy, Debug)]
struct Span {
    key: usize,
    from: Instant,
    to: Instant,
}

struct World {
    db: Database,
    table: ByteTable,
    stop: AtomicBool,
    id: AtomicU64,
}

fn key(number: usize) -> [u8; 2] {
    [b'k', number as u8]
}

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

impl World {
    fn value(&self, rng: &mut Rng) -> Vec<u8> {
        let mut value = self.id.fetch_add(1, Relaxed).to_be_bytes().to_vec();
        value.resize(8 + [0, 50, 700][rng.below(3)], 7);
        value
    }

    fn write_alone(&self, mut rng: Rng) -> Vec<Span> {
        let mut written = Vec::new();
        while !self.stop.load(Relaxed) {
            let (number, value) = (rng.below(KEYS), self.value(&mut rng));
            let from = Instant::now();
            let done = match rng.below(4) {
                0 => self.table.remove(&key(number)),
                1 => self.table.insert(&key(number), &value),
                _ => self.table.put(&key(number), &value).map(|()| true),
            };
            if done.unwrap() {
                written.push(Span { key: number, from, to: Instant::now() });
            }
        }
        written
    }

    fn transact(&self, mut rng: Rng) -> Vec<Span> {
        let mut locked = Vec::new();
        while !self.stop.load(Relaxed) {
            let mut spans = Vec::new();
            match self.transaction(&mut rng, &mut spans) {
                Ok(()) => locked.extend(spans),
                Err(Error::Deadlock { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        locked
    }

    fn transaction(&self, rng: &mut Rng, spans: &mut Vec<Span>) -> Result<()> {
        let tx = self.db.begin()?;
        let rows = tx.bytes(&self.table);
        let mut locked = Vec::new();
        if rng.below(4) == 0 {
            let all: Rows = rows.range(..).collect::<Result<_>>()?;
            (0..KEYS).for_each(|number| locked.push((number, Instant::now())));
            pause(rng);
            assert_eq!(rows.range(..).collect::<Result<Rows>>()?, all, "a range changed under its reader");
            let back: Rows = rows.range(..).rev().collect::<Result<_>>()?;
            assert!(back.iter().rev().eq(&all), "a range changed under its reader");
        }
        for _ in 0..1 + rng.below(2) {
            let number = rng.below(KEYS);
            let for_update = rng.below(2) == 0;
            let found = if for_update { rows.get_for_update(&key(number))? } else { rows.get(&key(number))? };
            locked.push((number, Instant::now()));
            pause(rng);
            assert_eq!(rows.get(&key(number))?, found, "a row changed under its lock");
            let value = self.value(rng);
            match rng.below(5) {
                0 => assert_eq!(rows.remove(&key(number))?, found.is_some()),
                1 => assert_eq!(rows.insert(&key(number), &value)?, found.is_none()),
                2 => {}
                _ => {
                    rows.put(&key(number), &value)?;
                    pause(rng);
                    assert_eq!(rows.get(&key(number))?, Some(value), "a row changed under its lock");
                }
            }
        }
        let to = Instant::now();
        if rng.below(5) == 0 {
            tx.rollback()?
        } else {
            tx.commit()?
        }
        spans.extend(locked.into_iter().map(|(key, from)| Span { key, from, to }));
        Ok(())
    }

    fn look(&self, mut rng: Rng) {
        while !self.stop.load(Relaxed) {
            let snapshot = self.db.snapshot().unwrap();
            let rows = snapshot.bytes(&self.table);
            let all: Rows = rows.range(..).collect::<Result<_>>().unwrap();
            for _ in 0..rng.below(5) {
                pause(&mut rng);
                let again: Rows = (0..KEYS)
                    .filter_map(|number| Some((key(number).to_vec(), rows.get(&key(number)).unwrap()?)))
                    .collect();
                assert_eq!(again, all, "a snapshot moved");
                assert!(rows.range(..).rev().map(|row| row.unwrap()).eq(all.iter().rev().cloned()));
            }
            drop(snapshot);
            for _ in 0..rng.below(20) {
                pause(&mut rng);
            }
        }
    }
}

fn pause(rng: &mut Rng) {
    match rng.below(4) {
        0 => thread::yield_now(),
        1 => (0..rng.below(2000)).for_each(|_| std::hint::spin_loop()),
        _ => {}
    }
}

/// What a transaction has locked nobody writes, and what a snapshot sees stays.
#[test]
fn single_writes_respect_transactions_and_snapshots() {
    let seed = env("FORESHORE_SEED", 1);
    let seconds = env("FORESHORE_SECONDS", 2);
    let db = small();
    let table = db.byte_table("t").unwrap();
    let world = World { db, table, stop: AtomicBool::new(false), id: AtomicU64::new(0) };
    let (written, locked) = thread::scope(|scope| {
        let world = &world;
        let rng = |n: u64| Rng(seed << 8 | n);
        let alone: Vec<_> = (0..3).map(|n| scope.spawn(move || world.write_alone(rng(n)))).collect();
        let others: Vec<_> = (3..5).map(|n| scope.spawn(move || world.transact(rng(n)))).collect();
        let looks = scope.spawn(move || world.look(rng(5)));
        thread::sleep(Duration::from_secs(seconds));
        world.stop.store(true, Relaxed);
        let joined = |threads: Vec<thread::ScopedJoinHandle<'_, Vec<Span>>>| -> Vec<Span> {
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        };
        looks.join().unwrap();
        (joined(alone), joined(others))
    });
    println!("{} single writes, {} locks", written.len(), locked.len());
    for number in 0..KEYS {
        let mut written: Vec<_> = written.iter().filter(|span| span.key == number).collect();
        written.sort_by_key(|span| span.from);
        for lock in locked.iter().filter(|span| span.key == number) {
            let first = written.partition_point(|write| write.from <= lock.from);
            let within = written[first..].iter().take_while(|write| write.from < lock.to);
            let write = { within }.find(|write| write.to < lock.to);
            assert!(write.is_none(), "{write:?} within {lock:?}");
        }
    }
    let begun = Instant::now();
    let left = || (world.db.stats().image_bytes, world.db.check().unwrap().tables[1].ghosts);
    while left() != (0, 0) {
        assert!(begun.elapsed() < Duration::from_secs(20), "old versions and ghosts stay: {:?}", left());
        thread::sleep(Duration::from_millis(20));
    }
    world.db.close().unwrap();
}
