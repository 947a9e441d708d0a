//! The key-value driver behind `foreshore bench kv` and `peers bench kv`.
//!
//! A run loads what the workload needs, checks it with a full scan (which also warms the cache), times the workload, and
//! checks the store with a full scan again. Lookups are checked as they are made. Nothing that is checked afterwards is
//! timed, and no wrong answer passes: [`BenchError::Wrong`].

use crate::keys::{Keys, stamp, value_belongs, write_value};
use crate::memory;
use crate::random::{Permutation, Random};
use crate::report::KvReport;
use crate::spec::{KvSpec, Workload};
use crate::store::{Bytes, Row, Session, Store, StoreError};
use crate::timed::{self, Limits, Timed, Worker};
use crate::updates::first_lost;
use std::time::Instant;

/// Why a run has no figures.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The flags ask for something impossible: change them.
    #[error("{0}")]
    Usage(String),
    /// The engine answered wrongly: stop and find out.
    #[error("wrong answer: {0}")]
    Wrong(String),
    /// The engine failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How far a run is, told about ten times a second.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// `load`, `timed` or `check`.
    pub phase: &'static str,
    /// Rows or operations so far in this phase.
    pub done: u64,
    /// How many there will be, where that is known.
    pub total: Option<u64>,
}

/// Is told how far a run is, by any of its threads.
pub type Tell<'a> = &'a (dyn Fn(&Progress) + Sync);

/// Runs `spec` against an empty `store`.
///
/// Errors: [`BenchError`]; what the store holds afterwards is then unspecified.
pub fn run<S: Store>(
    engine: &str,
    store: &S,
    spec: &KvSpec,
    progress: Tell<'_>,
) -> Result<KvReport, BenchError> {
    spec.check()?;
    let load_s = match spec.workload {
        Workload::Put | Workload::Bulk => 0.0,
        Workload::Get | Workload::Mix | Workload::Scan => {
            let started = Instant::now();
            load(store, spec, progress)?;
            let seconds = started.elapsed().as_secs_f64();
            store.settle()?;
            check(store, spec, spec.n, |_| (), progress)?;
            seconds
        }
    };
    memory::touch(bytes_wanted(spec));
    let syncs_before = store.sync_count();
    let (timed, done) = time(store, spec, progress)?;
    let syncs = store.sync_count().zip(syncs_before).map(|(after, before)| after - before);
    let rows = if spec.workload == Workload::Put { timed.ops } else { spec.n };
    let mut stamps = Vec::new();
    check(store, spec, rows, |stamp| stamps.extend((!done.is_empty()).then_some(stamp)), progress)?;
    check_updates(spec, &done, &stamps)?;
    Ok(KvReport::new(engine, spec, &timed, syncs, load_s))
}

/// Memory that an engine may take in the timed phase: by its time and, where it only inserts rows, by these.
fn bytes_wanted(spec: &KvSpec) -> u64 {
    /// Of each row: in the cache, in the log, and in files that are written anew.
    const BESIDE_ROW: u64 = 1024;
    let in_time = memory::bytes_for(spec.seconds);
    match spec.workload {
        Workload::Put | Workload::Bulk => {
            in_time.min(spec.n.saturating_mul((spec.key_bytes + spec.value_bytes) as u64 + BESIDE_ROW))
        }
        Workload::Get | Workload::Mix | Workload::Scan => in_time,
    }
}

/// Also how much of a mix was done by each thread.
fn time<S: Store>(store: &S, spec: &KvSpec, progress: Tell<'_>) -> Result<(Timed, Vec<Done>), BenchError> {
    let timed = match spec.workload {
        Workload::Put => time_put(store, spec, progress)?,
        Workload::Get => time_mix(store, spec, progress)?.0,
        Workload::Mix => return time_mix(store, spec, progress),
        Workload::Scan => time_scan(store, spec, progress)?,
        Workload::Bulk => time_bulk(store, spec, progress)?,
    };
    Ok((timed, Vec::new()))
}

/// The rows of the run in key order, with stamp 0.
fn sorted_rows(spec: &KvSpec) -> impl Iterator<Item = Row> {
    let (keys, key_bytes, value_bytes) = (spec.keys(), spec.key_bytes, spec.value_bytes);
    (0..spec.n).map(move |row| {
        let number = keys.number(row);
        let (mut key, mut value) = (zeros(key_bytes), zeros(value_bytes));
        keys.write(number, &mut key);
        write_value(number, 0, &mut value);
        Row { key, value }
    })
}

/// So many zeros; short ones without a loop, since this is part of every timed load.
#[inline]
fn zeros(len: usize) -> Bytes {
    let inline = Bytes::new().inline_size();
    if len <= inline { Bytes::from_buf_and_len([0; _], len) } else { Bytes::from_vec(vec![0; len]) }
}

/// Loads the rows, telling progress every few thousand.
fn load<S: Store>(store: &S, spec: &KvSpec, progress: Tell<'_>) -> Result<u64, BenchError> {
    const TELL_EVERY: u64 = 1 << 16;
    let mut done = 0;
    let rows = sorted_rows(spec).inspect(|_| {
        done += 1;
        if done % TELL_EVERY == 0 {
            progress(&Progress { phase: "load", done, total: Some(spec.n) });
        }
    });
    let loaded = store.session()?.bulk(rows)?;
    if loaded != spec.n {
        return Err(BenchError::Wrong(format!("bulk load of {} rows says {loaded}", spec.n)));
    }
    Ok(loaded)
}

/// Thread `t` of `T` inserts places `t`, `t + T`, `t + 2T` … of a random order of all rows, some of them at a time.
fn time_put<S: Store>(store: &S, spec: &KvSpec, progress: Tell<'_>) -> Result<Timed, BenchError> {
    let (threads, batch) = (spec.threads as u64, spec.batch as u64);
    let order = Permutation::new(spec.n, spec.seed);
    let rows_of = |thread: u64| (spec.n - thread.min(spec.n)).div_ceil(threads);
    let limits = |thread: u64| Limits { calls: rows_of(thread).div_ceil(batch), seconds: spec.seconds };
    let worker = |thread| {
        let (keys, order) = (spec.keys(), order.clone());
        let mut random = Random::new(spec.seed, thread);
        let row = (vec![0; spec.key_bytes], vec![0; spec.value_bytes]);
        let mut rows = vec![row; spec.batch.min(rows_of(thread) as usize)];
        let mut session = store.session()?;
        Ok(move |call: u64| {
            let first = call * batch;
            let rows = &mut rows[..batch.min(rows_of(thread) - first) as usize];
            for ((key, value), at) in rows.iter_mut().zip(first..) {
                let number = keys.number(order.at(thread + at * threads));
                keys.write(number, key);
                write_value(number, random.word() as u32, value);
            }
            match rows {
                [(key, value)] => session.put(key, value)?,
                _ => session.put_many(rows)?,
            }
            Ok(rows.len() as u64)
        })
    };
    timed::run(spec.threads, limits, worker, progress)
}

/// Lookups, and some percent updates, of rows that exist.
fn time_mix<S: Store>(
    store: &S,
    spec: &KvSpec,
    progress: Tell<'_>,
) -> Result<(Timed, Vec<Done>), BenchError> {
    let limits = |_| Limits { calls: u64::MAX, seconds: spec.seconds };
    let worker = |thread| {
        Ok(Mixer {
            session: store.session()?,
            keys: spec.keys(),
            draws: Draws::new(spec, thread),
            key: vec![0; spec.key_bytes],
            value: vec![0; spec.value_bytes],
            done: Done { thread, operations: 0 },
        })
    };
    let Timed { ops, seconds, latency_ns, latency_ns_max, tallies, runs } =
        timed::run(spec.threads, limits, worker, progress)?;
    Ok((Timed { ops, seconds, latency_ns, latency_ns_max, tallies: Vec::new(), runs }, tallies))
}

/// What one thread of a mix does, in order: the same however often it is drawn.
struct Draws {
    random: Random,
    n: u64,
    update_percent: u64,
}

impl Draws {
    fn new(spec: &KvSpec, thread: u64) -> Self {
        let update_percent = if spec.workload == Workload::Mix { spec.update_ratio } else { 0 };
        Self { random: Random::new(spec.seed, thread), n: spec.n, update_percent: update_percent.into() }
    }

    /// A row and, if it is to be updated, its new stamp, which is never that of the load.
    #[inline]
    fn next(&mut self) -> (u64, Option<u32>) {
        let row = self.random.below(self.n);
        let is_update = self.update_percent > 0 && self.random.below(100) < self.update_percent;
        (row, is_update.then(|| self.random.word() as u32 | 1))
    }
}

/// How many operations of a mix a thread did.
struct Done {
    thread: u64,
    operations: u64,
}

struct Mixer<S> {
    session: S,
    keys: Keys,
    draws: Draws,
    key: Vec<u8>,
    value: Vec<u8>,
    done: Done,
}

impl<S: Session> Worker for Mixer<S> {
    type Tally = Done;

    fn work(&mut self, _call: u64) -> Result<u64, BenchError> {
        let Self { session, keys, draws, key, value, done } = self;
        let (row, stamp) = draws.next();
        let number = keys.number(row);
        keys.write(number, key);
        if let Some(stamp) = stamp {
            write_value(number, stamp, value);
            session.put(key, value)?;
        } else if session.get(key, |found| value_belongs(number, value.len(), found))? != Some(true) {
            return Err(wrong_lookup(session, number, key));
        }
        done.operations += 1;
        Ok(1)
    }

    fn tally(self) -> Done {
        self.done
    }
}

/// Each row has the stamp that it must have. `stamps` are those found, row by row.
fn check_updates(spec: &KvSpec, done: &[Done], stamps: &[u32]) -> Result<(), BenchError> {
    let updates = |done: &Done| {
        let mut draws = Draws::new(spec, done.thread);
        (0..done.operations).filter_map(move |_| {
            let (row, stamp) = draws.next();
            Some((row, stamp?))
        })
    };
    match first_lost(stamps, [done.iter().map(updates).collect()].into_iter()) {
        None => Ok(()),
        Some(row) => {
            let number = spec.keys().number(row as u64);
            Err(BenchError::Wrong(format!("key {number} does not hold the last value that was put")))
        }
    }
}

#[cold]
fn wrong_lookup(session: &mut impl Session, number: u64, key: &[u8]) -> BenchError {
    let again = session.get(key, <[u8]>::to_vec);
    BenchError::Wrong(format!("get of key {number} ({key:02x?}); asked again it says {again:02x?}"))
}

/// Each thread scans the whole store, again and again; at least once.
fn time_scan<S: Store>(store: &S, spec: &KvSpec, progress: Tell<'_>) -> Result<Timed, BenchError> {
    let expected = sorted_rows(spec).fold(Digest::default(), |digest, row| digest.with(&row.key, &row.value));
    let limits = |_| Limits { calls: u64::MAX, seconds: spec.seconds };
    let worker = |_| {
        let mut session = store.session()?;
        Ok(move |_call: u64| {
            let mut digest = Digest::default();
            let rows = session.scan(&[], u64::MAX, |key, value| digest = digest.with(key, value))?;
            if (rows, digest) != (spec.n, expected) {
                return Err(BenchError::Wrong(format!("a scan of {} rows saw {rows}: {digest:?}", spec.n)));
            }
            Ok(rows)
        })
    };
    timed::run(spec.threads, limits, worker, progress)
}

/// The load alone, as one operation on one thread.
fn time_bulk<S: Store>(store: &S, spec: &KvSpec, progress: Tell<'_>) -> Result<Timed, BenchError> {
    let limits = |_| Limits { calls: 1, seconds: spec.seconds };
    let worker = |_| {
        let mut session = store.session()?;
        Ok(move |_call: u64| {
            let loaded = session.bulk(sorted_rows(spec))?;
            if loaded != spec.n {
                return Err(BenchError::Wrong(format!("bulk load of {} rows says {loaded}", spec.n)));
            }
            Ok(loaded)
        })
    };
    timed::run(1, limits, worker, progress)
}

/// A sum over every byte seen, cheap enough for a timed scan: all engines must touch all they return.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Digest {
    keys: u64,
    values: u64,
}

impl Digest {
    #[inline]
    fn with(self, key: &[u8], value: &[u8]) -> Self {
        Self { keys: self.keys.wrapping_add(sum(key)), values: self.values.wrapping_add(sum(value)) }
    }
}

/// The bytes as little-endian words, the last one padded with zeros, added up.
#[inline]
fn sum(bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(8);
    let mut total = 0u64;
    for word in &mut words {
        total = total.wrapping_add(u64::from_le_bytes(word.try_into().expect("eight bytes")));
    }
    let rest = words.remainder();
    match <[u8; 4]>::try_from(rest) {
        Ok(half) => total.wrapping_add(u64::from(u32::from_le_bytes(half))),
        Err(_) => rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)).wrapping_add(total),
    }
}

/// Scans the whole store: `rows` rows, in strictly growing key order, each value written for its key; if they are all rows of the
/// run, each key is the one that comes next. `each` gets the values' stamps.
fn check<S: Store>(
    store: &S,
    spec: &KvSpec,
    rows: u64,
    mut each: impl FnMut(u32),
    progress: Tell<'_>,
) -> Result<(), BenchError> {
    const TELL_EVERY: u64 = 1 << 18;
    let keys = spec.keys();
    let mut last = None;
    let mut fault = None;
    let mut seen = 0;
    store.session()?.scan(&[], u64::MAX, |key, value| {
        let number = keys.read(key);
        let is_next = if rows == spec.n {
            seen < rows && number == Some(keys.number(seen))
        } else {
            number.is_some() && number > last
        };
        if fault.is_none() && !(is_next && value_belongs(number.unwrap_or(0), spec.value_bytes, value)) {
            fault = Some(format!("scan: row {seen} is {key:02x?} → {value:02x?} after key {last:?}"));
        }
        each(stamp(value));
        last = number;
        seen += 1;
        if seen % TELL_EVERY == 0 {
            progress(&Progress { phase: "check", done: seen, total: Some(rows) });
        }
    })?;
    match fault {
        Some(fault) => Err(BenchError::Wrong(fault)),
        None if seen != rows => {
            Err(BenchError::Wrong(format!("{rows} rows were acknowledged, a scan finds {seen}")))
        }
        None => Ok(()),
    }
}
