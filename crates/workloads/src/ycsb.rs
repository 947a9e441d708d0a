//! YCSB's core workloads A to F.
//!
//! Source: Cooper et al., "Benchmarking cloud serving systems with YCSB" (SoCC 2010). What differs: a row is one value, which an
//! update replaces whole (YCSB's `writeallfields`); keys are 8-byte numbers; ranks are drawn over the rows loaded, one for each row,
//! also while rows are added.
//!
//! Every operation is a transaction. A value read must belong to its key, and at the end every row loaded or inserted must be
//! there, with the last value that it was given.

use crate::fill;
use crate::keys::{VALUE_BYTES_MAX, VALUE_BYTES_MIN, stamp};
use crate::kv::{BenchError, Tell};
use crate::random::{Permutation, Random, mix};
use crate::timed::Worker;
use crate::tx_batch;
use crate::tx_report::{Describe, Rate, Report};
use crate::tx_run::{self, Place, Tally};
use crate::tx_spec::{RunSpec, TxWorkload};
use crate::tx_store::{KEYS_END, Tx, TxError, TxKind, TxSession, TxStore};
use crate::updates::first_lost;
use crate::zipf::Zipf;
use clap::ValueEnum;
use crossbeam_utils::CachePadded;
use serde::Serialize;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most rows of a scan.
const SCAN_ROWS_MAX: u64 = 100;

/// Rows at most: something of each is kept, to be checked at the end.
const CHECKED_ROWS_MAX: u64 = 1 << 32;

/// Which of the core workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Letter {
    /// Half reads, half updates
    A,
    /// 95 % reads, 5 % updates
    B,
    /// Reads
    C,
    /// 95 % reads of the latest rows, 5 % inserts
    D,
    /// 95 % scans of up to 100 rows, 5 % inserts
    E,
    /// Half reads, half reads with an update of what was read
    F,
}

/// What YCSB is asked to do.
#[derive(Clone, Debug, PartialEq, Serialize, clap::Args)]
pub struct YcsbSpec {
    /// Which of the core workloads
    #[arg(long, value_enum)]
    pub workload: Letter,
    /// Rows loaded
    #[arg(long, default_value_t = 500_000)]
    pub n: u64,
    /// Bytes of a value; YCSB has ten fields of 100
    #[arg(long, default_value_t = 1000)]
    pub value_bytes: usize,
}

impl Describe for YcsbSpec {
    fn describe(&self) -> String {
        format!("YCSB {:?}, {} rows of {} bytes", self.workload, self.n, self.value_bytes)
    }
}

/// What one operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Read,
    ReadLatest,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
}

impl Letter {
    /// The frequent operation, the other one, and how often that is done, in percent.
    fn operations(self) -> (Operation, Operation, u64) {
        use Operation::{Insert, Read, ReadLatest, ReadModifyWrite, Scan, Update};
        match self {
            Self::A => (Read, Update, 50),
            Self::B => (Read, Update, 5),
            Self::C => (Read, Read, 0),
            Self::D => (ReadLatest, Insert, 5),
            Self::E => (Scan, Insert, 5),
            Self::F => (Read, ReadModifyWrite, 50),
        }
    }
}

impl TxWorkload for YcsbSpec {
    const NAME: &'static str = "ycsb";
    type Report = Report<Self>;

    fn check(&self, _run: &RunSpec) -> Result<(), BenchError> {
        let complaint = if !(1..=CHECKED_ROWS_MAX).contains(&self.n) {
            "--n: at least one row, at most 2^32".to_owned()
        } else if self.value_bytes < VALUE_BYTES_MIN {
            format!("--value-bytes: at least {VALUE_BYTES_MIN}, so that values can be checked")
        } else if self.value_bytes > VALUE_BYTES_MAX {
            format!("--value-bytes: at most {VALUE_BYTES_MAX}")
        } else {
            return Ok(());
        };
        Err(BenchError::Usage(complaint))
    }

    fn row_bytes(&self) -> Option<usize> {
        Some(size_of::<u64>() + self.value_bytes)
    }

    fn measure<S: TxStore>(
        &self,
        engine: &str,
        store: &S,
        run: &RunSpec,
        progress: Tell<'_>,
    ) -> Result<Self::Report, BenchError> {
        let table = store.table("rows")?;
        let rows = Rows::new(self, run);
        self.load(store, &table, (&rows, run.threads), progress)?;
        store.settle()?;
        rows.check(store, &table, progress)?;
        let worker = |place: Place| {
            Ok(Client {
                session: store.session()?,
                table: &table,
                rows: &rows,
                thread: place.thread,
                random: Random::new(run.seed, place.stream),
                done: Done { stream: place.stream, calls: 0 },
                value: vec![0; self.value_bytes],
            })
        };
        let measured = tx_run::measure(store, run, worker, progress)?;
        rows.check(store, &table, progress)?;
        Ok(Report::new(engine, self, run, Rate::Operations, &measured))
    }
}

impl YcsbSpec {
    /// Loads the rows in key order.
    fn load<S: TxStore>(
        &self,
        store: &S,
        table: &S::Table,
        (rows, threads): (&Rows, usize),
        progress: Tell<'_>,
    ) -> Result<(), BenchError> {
        let mut keys: Vec<u64> = (0..self.n).map(|row| rows.key(row)).collect();
        keys.sort_unstable();
        let row = |at: u64, key: &mut Vec<u8>, value: &mut Vec<u8>| {
            let number = keys[at as usize];
            key.extend_from_slice(&number.to_be_bytes());
            value.resize(self.value_bytes, 0);
            fill::write(number, 0, value);
            true
        };
        tx_batch::load(store, table, (self.n, threads), row, progress)
    }
}

/// Which rows there are, and how they are chosen. Row `n + k × threads + t` is the `k`-th that thread `t` inserts.
struct Rows {
    n: u64,
    value_bytes: usize,
    operations: (Operation, Operation, u64),
    seed: u64,
    zipf: Zipf,
    /// From a rank to the loaded row that has it.
    ranked: Permutation,
    /// Of those loaded: no scan from one of them ends below it.
    greatest_key: u64,
    /// For each thread how many rows it has inserted.
    inserted: Vec<CachePadded<AtomicU64>>,
    /// The seed of all streams, and what was done with each.
    run_seed: u64,
    done: Mutex<Vec<Done>>,
}

/// How many operations were drawn from a random stream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Done {
    stream: u64,
    calls: u64,
}

impl Rows {
    fn new(spec: &YcsbSpec, run: &RunSpec) -> Self {
        let YcsbSpec { workload, n, value_bytes } = *spec;
        let operations = workload.operations();
        let inserted = (0..run.threads).map(|_| CachePadded::default()).collect();
        let mut rows = Self {
            n,
            value_bytes,
            operations,
            seed: mix(run.seed),
            zipf: Zipf::new(n),
            ranked: Permutation::new(n, run.seed),
            greatest_key: 0,
            inserted,
            run_seed: run.seed,
            done: Mutex::default(),
        };
        rows.greatest_key = (0..n).map(|row| rows.key(row)).max().expect("at least one row");
        rows
    }

    /// The key of a row: rows are strangers in key order.
    fn key(&self, row: u64) -> u64 {
        mix(row ^ self.seed)
    }

    /// What a thread does next.
    fn choose(&self, random: &mut Random) -> Operation {
        let (frequent, other, percent) = self.operations;
        if random.below(100) < percent { other } else { frequent }
    }

    /// A loaded row to be updated, and a stamp that is not that of the load.
    fn update(&self, random: &mut Random) -> (u64, u32) {
        (self.popular(random), random.word() as u32 | 1)
    }

    /// A loaded row; the popular ones are spread over all, and each row has one rank.
    fn popular(&self, random: &mut Random) -> u64 {
        self.ranked.at(self.zipf.rank(random))
    }

    /// A row whose insertion has been acknowledged, the latest ones most often: of so many inserted by some thread, or else
    /// loaded, the one that is so old.
    fn latest(&self, random: &mut Random) -> u64 {
        let threads = self.inserted.len() as u64;
        let age = self.zipf.rank(random);
        let (thread, age_there) = (random.below(threads), age / threads);
        // ORDERING: pairs with the Release in `acknowledge`: a row is looked for after it was committed.
        let inserted = self.inserted[thread as usize].load(Ordering::Acquire);
        match inserted.checked_sub(age_there + 1) {
            Some(number) => self.n + number * threads + thread,
            None => self.n - 1 - (age - inserted * threads), // all that this thread has inserted is younger
        }
    }

    /// The row that the thread inserts next.
    fn next(&self, thread: u64) -> u64 {
        let number = self.inserted[thread as usize].load(Ordering::Relaxed);
        self.n + number * self.inserted.len() as u64 + thread
    }

    /// The row that the thread inserts next is committed.
    fn acknowledge(&self, thread: u64) {
        self.inserted[thread as usize].fetch_add(1, Ordering::Release);
    }

    /// All rows are there, and no others; those loaded with the last values that they were given.
    fn check<S: TxStore>(&self, store: &S, table: &S::Table, progress: Tell<'_>) -> Result<(), BenchError> {
        let threads = self.inserted.len() as u64;
        let mut keys: Vec<(u64, u64)> = (0..self.n).map(|row| (self.key(row), row)).collect();
        for (thread, inserted) in (0..).zip(&self.inserted) {
            let inserted = inserted.load(Ordering::Relaxed);
            let rows = (0..inserted).map(|number| self.n + number * threads + thread);
            keys.extend(rows.map(|row| (self.key(row), row)));
        }
        keys.sort_unstable();
        let mut expected = keys.iter();
        let total = Some(keys.len() as u64);
        let mut stamps = vec![0; self.n as usize];
        let rows = tx_batch::read_all(store, table, total, progress, |key, value| match expected.next() {
            Some((number, row))
                if key == number.to_be_bytes() && fill::belongs(*number, self.value_bytes, value) =>
            {
                stamps.get_mut(*row as usize).into_iter().for_each(|loaded| *loaded = stamp(value));
                Ok(())
            }
            other => Err(format!("a scan finds {key:02x?}, where {other:x?} should be next")),
        })?;
        if Some(rows) != total {
            let what = format!("{} rows were committed, a scan finds {rows}", keys.len());
            return Err(BenchError::Wrong(what));
        }
        self.check_updates(&stamps)
    }

    /// No loaded row has lost its last update. `stamps` are those found, row by row.
    fn check_updates(&self, stamps: &[u32]) -> Result<(), BenchError> {
        let mut done = self.done.lock().expect("no worker panicked").clone();
        done.sort_unstable();
        let phase = |done: &Done| (done.stream - 1) / self.inserted.len() as u64;
        let phases = done.chunk_by(|a, b| phase(a) == phase(b));
        match first_lost(stamps, phases.map(|done| done.iter().map(|done| self.updates(*done)).collect())) {
            None => Ok(()),
            Some(row) => {
                let number = self.key(row as u64);
                Err(BenchError::Wrong(format!("key {number:x} does not hold the last value that was put")))
            }
        }
    }

    /// What a thread updated, drawn again: rows and stamps.
    fn updates(&self, done: Done) -> impl Iterator<Item = (u64, u32)> {
        let mut random = Random::new(self.run_seed, done.stream);
        (0..done.calls).filter_map(move |_| match self.choose(&mut random) {
            Operation::Update | Operation::ReadModifyWrite => Some(self.update(&mut random)),
            Operation::Read => {
                self.popular(&mut random);
                None
            }
            // Beside these there are no updates.
            Operation::ReadLatest | Operation::Insert | Operation::Scan => None,
        })
    }
}

struct Client<'a, X: TxSession> {
    session: X,
    table: &'a X::Table,
    rows: &'a Rows,
    thread: u64,
    random: Random,
    done: Done,
    value: Vec<u8>,
}

impl<X: TxSession> Worker for Client<'_, X> {
    type Tally = Tally;

    fn work(&mut self, _call: u64) -> Result<u64, BenchError> {
        self.done.calls += 1;
        match self.rows.choose(&mut self.random) {
            Operation::Read => {
                let row = self.rows.popular(&mut self.random);
                self.read(row)?;
            }
            Operation::ReadLatest => {
                let row = self.rows.latest(&mut self.random);
                self.read(row)?;
            }
            Operation::Update => self.update()?,
            Operation::Insert => self.insert()?,
            Operation::Scan => self.scan()?,
            Operation::ReadModifyWrite => self.read_modify_write()?,
        }
        Ok(1)
    }

    fn tally(self) -> Tally {
        self.rows.done.lock().expect("no worker panicked").push(self.done);
        Tally { aborts: self.session.aborts(), marked: 0 }
    }
}

impl<X: TxSession> Client<'_, X> {
    fn read(&mut self, row: u64) -> Result<(), TxError> {
        let number = self.rows.key(row);
        let key = number.to_be_bytes();
        let read = |value: &[u8]| fill::belongs(number, self.value.len(), value);
        let found = self.session.single(TxKind::ReadOnly, |tx| tx.get(self.table, &key, read))?;
        right(number, found)
    }

    fn update(&mut self) -> Result<(), TxError> {
        let (row, stamp) = self.rows.update(&mut self.random);
        let number = self.rows.key(row);
        let Self { session, table, value, .. } = self;
        fill::write(number, stamp, value);
        session.single(TxKind::ReadWrite, |tx| tx.put(table, &number.to_be_bytes(), value))
    }

    fn insert(&mut self) -> Result<(), TxError> {
        let number = self.rows.key(self.rows.next(self.thread));
        let Self { session, table, random, value, .. } = self;
        fill::write(number, random.word() as u32, value);
        session.single(TxKind::ReadWrite, |tx| match tx.insert(table, &number.to_be_bytes(), value)? {
            true => Ok(()),
            false => Err(TxError::Wrong(format!("key {number:x} is there before it is inserted"))),
        })?;
        self.rows.acknowledge(self.thread);
        Ok(())
    }

    fn read_modify_write(&mut self) -> Result<(), TxError> {
        let (row, stamp) = self.rows.update(&mut self.random);
        let number = self.rows.key(row);
        let Self { session, table, value, .. } = self;
        let key = number.to_be_bytes();
        session.transact(TxKind::ReadWrite, |tx| {
            let found = tx.get_for_update(table, &key, |found| fill::belongs(number, value.len(), found))?;
            right(number, found)?;
            fill::write(number, stamp, value);
            tx.put(table, &key, value)
        })
    }

    /// Scans from a popular row on; it must come first, the others in order, as many as there are, with values of their own.
    fn scan(&mut self) -> Result<(), TxError> {
        let first = self.rows.key(self.rows.popular(&mut self.random));
        let from = first.to_be_bytes();
        let limit = 1 + self.random.below(SCAN_ROWS_MAX);
        self.session.transact(TxKind::ReadOnly, |tx| {
            let (mut rows, mut last, mut wrong) = (0, None, None);
            tx.scan(self.table, &from, KEYS_END, false, |key, value| {
                let number = key.try_into().ok().map(u64::from_be_bytes);
                let is_next = if rows == 0 { number == Some(first) } else { number > last };
                if !is_next || !fill::belongs(number.unwrap_or(0), self.rows.value_bytes, value) {
                    wrong = Some(format!("a scan from {from:02x?} finds {key:02x?} after {last:x?}"));
                    return ControlFlow::Break(());
                }
                (rows, last) = (rows + 1, number);
                if rows == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            if rows < limit && last < Some(self.rows.greatest_key) {
                wrong.get_or_insert_with(|| {
                    format!("a scan from {from:02x?} ends after {last:x?}, which is not the last row")
                });
            }
            wrong.map_or(Ok(()), |what| Err(TxError::Wrong(what)))
        })
    }
}

/// A row that must exist holds a value of its own.
fn right(number: u64, found: Option<bool>) -> Result<(), TxError> {
    if found == Some(true) {
        return Ok(());
    }
    Err(TxError::Wrong(format!("key {number:x} is absent or holds another's value")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(workload: Letter, n: u64) -> (Rows, Random) {
        let spec = YcsbSpec { workload, n, value_bytes: VALUE_BYTES_MIN };
        let run = RunSpec::brief();
        (Rows::new(&spec, &run), Random::new(run.seed, 0))
    }

    /// They would end in a panic.
    #[test]
    fn more_rows_than_can_be_remembered_are_refused() {
        let check =
            |n| YcsbSpec { workload: Letter::A, n, value_bytes: VALUE_BYTES_MIN }.check(&RunSpec::brief());
        check(1 << 32).unwrap();
        for n in [0, 1 << 33, u64::MAX] {
            assert!(matches!(check(n), Err(BenchError::Usage(why)) if why.starts_with("--n")));
        }
    }

    /// Loaded rows grow older by those that are inserted; none of the latest is passed over.
    #[test]
    fn the_latest_loaded_rows_come_next_after_those_inserted() {
        const N: u64 = 1000;
        let (rows, mut random) = rows(Letter::D, N);
        (0..N / 2).for_each(|_| rows.acknowledge(0));
        let mut asked: Vec<u64> = (0..100 * N).map(|_| rows.latest(&mut random)).collect();
        asked.sort_unstable();
        asked.dedup();
        assert!(asked[0] >= N / 2, "{} is older than {N} rows", asked[0]);
        assert!(asked.len() > 950, "{} rows", asked.len());
    }

    /// No row is left out, as it would be where two ranks meet in one.
    #[test]
    fn each_row_has_a_rank() {
        const N: u64 = 1000;
        let (rows, mut random) = rows(Letter::C, N);
        let mut asked: Vec<u64> = (0..100 * N).map(|_| rows.popular(&mut random)).collect();
        asked.sort_unstable();
        asked.dedup();
        assert!(asked.len() > 950, "{} of {N} rows", asked.len());
    }
}
