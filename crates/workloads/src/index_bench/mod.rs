//! Ordered indexes in memory: OLFIT B+-tree and CSB+-tree, and the O2-Tree in two schemes, against `BTreeMap`.
//!
//! Question: how many operations a second do inserts, lookups, a mix of both with removals, and scans of 100 entries
//! reach on random keys, on one thread and on many?
//! Expected shape (OLFIT, VLDB 2001, Figs. 7–8): lookups scale with the threads; so do updates, since they latch one
//! node.
//!
//! Every answer is checked: lookups against the value that belongs to the key, scans against order and values, and the
//! structure by its own `check()` at the end. `BTreeMap` runs on one thread whatever is asked, being the yardstick of
//! the ratios, not a concurrent map.

mod queries;

pub use queries::QUERIES;

use foreshore_index::{ByteMap, CsbMap, IntMap, NodeKeys, O2Map, OptimisticO2Map, TunedMap};
use foreshore_index::{CsbByteMap, LayerTree, O2ByteMap, OptimisticO2ByteMap, TrieMap};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structure {
    /// [`IntMap`] or [`ByteMap`]; a [`TunedMap`] if [`Options`] say a node size.
    BPlus,
    /// [`CsbMap`] or [`CsbByteMap`].
    Csb,
    /// [`StaticMap`](foreshore_index::StaticMap): built from sorted entries, then looked up, one at a time and in batches; integers only.
    Static,
    /// [`O2Map`] or [`O2ByteMap`], with the paper's locks.
    O2,
    /// [`OptimisticO2Map`] or [`OptimisticO2ByteMap`].
    O2Optimistic,
    /// The standard library's map, without any locking, on one thread.
    StdBTreeMap,
}

impl Structure {
    /// Can it be ordered by such keys?
    pub fn takes(self, keys: KeyKind) -> bool {
        keys != KeyKind::Bytes || self != Self::Static
    }
}

/// What it is ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// 8-byte integers, random.
    U64,
    /// 4-byte integers, random (at most 2^31 distinct ones).
    U32,
    /// Strings of 23 bytes: a table's prefix and 16 hexadecimal digits.
    Bytes,
}

/// One measured phase.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseResult {
    /// `insert`, `lookup`, `multi_get` (of the B+-tree), `scan100` or `mixed`. Of a static structure: `build`, `lookup`, `lookup128`, `bound` and
    /// `bound128` (only ranks, without values), those with a number in batches of so many.
    pub phase: &'static str,
    /// Threads that ran it.
    pub threads: usize,
    /// Operations of all threads per second of wall time. A scan of 100 entries is one operation.
    pub ops_per_s: f64,
    /// Memory of the structure divided by its entries, right after the inserts. The B+-tree counts its nodes;
    /// `BTreeMap` is measured by the growth of the process's resident memory, or 0 where `/proc` is missing.
    pub bytes_per_key: f64,
}

/// An answer was wrong, or a structure broken: what and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongAnswer(pub String);

impl std::fmt::Display for WrongAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongAnswer {}

/// How the keys come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Inserts {
    /// One by one.
    #[default]
    Single,
    /// In batches, as they come ([`IntMap::insert_many`]); of the B+-tree.
    Many,
    /// In batches, each sorted first, which is part of the time ([`IntMap::insert_sorted`]); of the B+-tree.
    Sorted,
}

/// What may be chosen besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Lookups of a batch in `multi_get`, 1 to [`QUERIES`].
    pub batch: usize,
    /// How the keys come in.
    pub inserts: Inserts,
    /// Entries of a batch of inserts.
    pub insert_batch: usize,
    /// Keys in a node of a B+-tree with integer keys.
    pub node_keys: Option<NodeKeys>,
}

impl Default for Options {
    fn default() -> Self {
        Self { batch: 64, inserts: Inserts::Single, insert_batch: 64, node_keys: None }
    }
}

/// As [`run_with`] the default options.
pub fn run(
    structure: Structure,
    keys: KeyKind,
    n: u64,
    threads: usize,
    seconds: f64,
    seed: u64,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<PhaseResult>, WrongAnswer> {
    run_with(Options::default(), structure, keys, n, threads, seconds, seed, progress)
}

/// Runs all phases over `n` random keys: the inserts to their end, each other phase for `seconds`.
///
/// `progress` is told each phase as it begins. The same `seed` gives the same keys.
///
/// Errors: the first wrong answer, which makes all figures void. Panics if `threads` is 0, `n` below 1000, or the
/// structure does not take such keys or options.
#[allow(clippy::too_many_arguments, reason = "what a run is, flag by flag")]
pub fn run_with(
    options: Options,
    structure: Structure,
    keys: KeyKind,
    n: u64,
    threads: usize,
    seconds: f64,
    seed: u64,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<PhaseResult>, WrongAnswer> {
    assert!(threads > 0 && n >= 1000, "at least one thread and 1000 keys");
    assert!(structure.takes(keys), "{structure:?} has integer keys");
    let batched = structure == Structure::BPlus;
    assert!(batched || options.inserts == Inserts::Single, "{structure:?} has no batches of inserts");
    assert!((1..=QUERIES).contains(&options.batch) && options.insert_batch > 0, "{options:?}");
    let plan = Plan { options, n, threads, duration: Duration::from_secs_f64(seconds), seed };
    if structure == Structure::BPlus
        && let Some(size) = options.node_keys
    {
        return match keys {
            KeyKind::U64 => plan.concurrent(&TunedMap::<u64>::with_node_keys(size), U64Keys, progress),
            KeyKind::U32 => plan.concurrent(&TunedMap::<u32>::with_node_keys(size), U32Keys, progress),
            KeyKind::Bytes => panic!("nodes of byte strings have one size"),
        };
    }
    match (structure, keys) {
        (Structure::BPlus, KeyKind::U64) => plan.concurrent(&IntMap::<u64>::new(), U64Keys, progress),
        (Structure::BPlus, KeyKind::U32) => plan.concurrent(&IntMap::<u32>::new(), U32Keys, progress),
        (Structure::BPlus, KeyKind::Bytes) => plan.concurrent(&ByteMap::new(), StringKeys, progress),
        (Structure::Csb, KeyKind::U64) => plan.concurrent(&CsbMap::<u64>::new(), U64Keys, progress),
        (Structure::Csb, KeyKind::U32) => plan.concurrent(&CsbMap::<u32>::new(), U32Keys, progress),
        (Structure::Static, KeyKind::U64) => plan.fixed(U64Keys, progress),
        (Structure::Static, KeyKind::U32) => plan.fixed(U32Keys, progress),
        (Structure::O2, KeyKind::U64) => plan.concurrent(&O2Map::<u64>::new(), U64Keys, progress),
        (Structure::O2, KeyKind::U32) => plan.concurrent(&O2Map::<u32>::new(), U32Keys, progress),
        (Structure::O2Optimistic, KeyKind::U64) => {
            plan.concurrent(&OptimisticO2Map::<u64>::new(), U64Keys, progress)
        }
        (Structure::O2Optimistic, KeyKind::U32) => {
            plan.concurrent(&OptimisticO2Map::<u32>::new(), U32Keys, progress)
        }
        (Structure::Csb, KeyKind::Bytes) => plan.concurrent(&<CsbByteMap>::new(), StringKeys, progress),
        (Structure::O2, KeyKind::Bytes) => plan.concurrent(&<O2ByteMap>::new(), StringKeys, progress),
        (Structure::O2Optimistic, KeyKind::Bytes) => {
            plan.concurrent(&<OptimisticO2ByteMap>::new(), StringKeys, progress)
        }
        (Structure::Static, KeyKind::Bytes) => unreachable!("asserted above"),
        (Structure::StdBTreeMap, KeyKind::U64) => plan.yardstick(U64Keys, progress),
        (Structure::StdBTreeMap, KeyKind::U32) => plan.yardstick(U32Keys, progress),
        (Structure::StdBTreeMap, KeyKind::Bytes) => plan.yardstick(StringKeys, progress),
    }
}

/// Entries of one scan.
const SCAN: usize = 100;
/// Operations between two looks at the clock.
const BATCH: u64 = 256;

/// Turns the number of an entry into its key. All are distinct, and look random.
trait Keys: Copy + Send + Sync {
    type Key: Ord + Copy + Send + Sync;
    fn key(self, number: u64) -> Self::Key;
}

#[derive(Clone, Copy)]
struct U64Keys;

#[derive(Clone, Copy)]
struct U32Keys;

#[derive(Clone, Copy)]
struct StringKeys;

impl Keys for U64Keys {
    type Key = u64;

    #[inline]
    fn key(self, number: u64) -> u64 {
        scramble(number)
    }
}

impl Keys for U32Keys {
    type Key = u32;

    #[inline]
    fn key(self, number: u64) -> u32 {
        // Odd factors and shifted xors are bijections of 32 bits, so numbers below 2^32 stay distinct.
        let mut x = number as u32;
        x = (x ^ x >> 16).wrapping_mul(0x7FEB_352D);
        x = (x ^ x >> 15).wrapping_mul(0x846C_A68B);
        x ^ x >> 16
    }
}

impl Keys for StringKeys {
    type Key = [u8; 23];

    #[inline]
    fn key(self, number: u64) -> [u8; 23] {
        let mut key = *b"orders/0000000000000000";
        let mut rest = scramble(number);
        for digit in key[7..].iter_mut().rev() {
            *digit = b"0123456789abcdef"[(rest & 15) as usize];
            rest >>= 4;
        }
        key
    }
}

/// A bijection of 64 bits (the finalizer of splitmix64).
#[inline]
fn scramble(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

/// A stream of numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        ((u128::from(scramble(self.0)) * u128::from(n)) >> 64) as u64
    }
}

/// The value that belongs to the entry of this number.
fn value_of(number: u64) -> u64 {
    number.wrapping_mul(3) + 1
}

/// A map under measurement, shared by threads.
trait Shared<K>: Sync {
    /// Can it look many keys up at a time, and insert many?
    const BATCHED: bool = false;

    fn multi_get(&self, _keys: &[K], _values: &mut [Option<u64>]) {
        unreachable!("not batched");
    }

    fn insert_many(&self, _entries: &[(K, u64)], _sorted: bool) -> u64 {
        unreachable!("not batched");
    }

    fn get(&self, key: &K) -> Option<u64>;
    fn insert(&self, key: &K, value: u64) -> Option<u64>;
    fn remove(&self, key: &K) -> Option<u64>;
    /// Visits up to [`SCAN`] entries from `key` on; false if keys did not rise.
    fn scan(&self, key: &K, visit: impl FnMut(u64)) -> bool;
    fn bytes(&self) -> u64;
    fn check(&self) -> Result<(), WrongAnswer>;
}

macro_rules! shared_int {
    ($map:ident, $key:ty $(, { $($batched:tt)* })?) => {
        impl Shared<$key> for $map<$key> {
            $($($batched)*)?

            #[inline]
            fn get(&self, key: &$key) -> Option<u64> {
                $map::get(self, *key)
            }

            #[inline]
            fn insert(&self, key: &$key, value: u64) -> Option<u64> {
                $map::insert(self, *key, value)
            }

            #[inline]
            fn remove(&self, key: &$key) -> Option<u64> {
                $map::remove(self, *key)
            }

            fn scan(&self, key: &$key, mut visit: impl FnMut(u64)) -> bool {
                let mut last = None;
                self.range(*key..).take(SCAN).all(|(key, value)| {
                    visit(value);
                    last.replace(key) < Some(key)
                })
            }

            fn bytes(&self) -> u64 {
                $map::bytes(self)
            }

            fn check(&self) -> Result<(), WrongAnswer> {
                $map::check(self).map_err(|e| WrongAnswer(e.to_string()))
            }
        }
    };
}

/// A map with batches.
macro_rules! shared_batched_int {
    ($map:ident, $key:ty) => {
        shared_int!($map, $key, {
            const BATCHED: bool = true;

            fn multi_get(&self, keys: &[$key], values: &mut [Option<u64>]) {
                $map::multi_get(self, keys, values);
            }

            fn insert_many(&self, entries: &[($key, u64)], sorted: bool) -> u64 {
                if sorted { self.insert_sorted(entries) } else { $map::insert_many(self, entries) }
            }
        });
    };
}

shared_batched_int!(IntMap, u64);
shared_batched_int!(IntMap, u32);
shared_batched_int!(TunedMap, u64);
shared_batched_int!(TunedMap, u32);
shared_int!(CsbMap, u64);
shared_int!(CsbMap, u32);
shared_int!(O2Map, u64);
shared_int!(O2Map, u32);
shared_int!(OptimisticO2Map, u64);
shared_int!(OptimisticO2Map, u32);

impl Shared<[u8; 23]> for ByteMap {
    const BATCHED: bool = true;

    fn multi_get(&self, keys: &[[u8; 23]], values: &mut [Option<u64>]) {
        let mut slices = [&[][..]; QUERIES];
        let slices = &mut slices[..keys.len()];
        slices.iter_mut().zip(keys).for_each(|(slice, key)| *slice = key);
        ByteMap::multi_get(self, slices, values);
    }

    fn insert_many(&self, entries: &[([u8; 23], u64)], sorted: bool) -> u64 {
        let entries: Vec<(&[u8], u64)> = entries.iter().map(|(key, value)| (&key[..], *value)).collect();
        if sorted { self.insert_sorted(&entries) } else { ByteMap::insert_many(self, &entries) }
    }

    #[inline]
    fn get(&self, key: &[u8; 23]) -> Option<u64> {
        ByteMap::get(self, key)
    }

    #[inline]
    fn insert(&self, key: &[u8; 23], value: u64) -> Option<u64> {
        ByteMap::insert(self, key, value)
    }

    #[inline]
    fn remove(&self, key: &[u8; 23]) -> Option<u64> {
        ByteMap::remove(self, key)
    }

    fn scan(&self, key: &[u8; 23], mut visit: impl FnMut(u64)) -> bool {
        let mut range = self.range(Bound::Included(key), Bound::Unbounded);
        let mut last = [0; 23];
        for _ in 0..SCAN {
            let Some((key, value)) = range.next_ref() else { break };
            visit(value);
            if key <= &last[..] {
                return false;
            }
            last.copy_from_slice(key);
        }
        true
    }

    fn bytes(&self) -> u64 {
        ByteMap::bytes(self)
    }

    fn check(&self) -> Result<(), WrongAnswer> {
        ByteMap::check(self).map_err(|e| WrongAnswer(e.to_string()))
    }
}

impl<M: LayerTree, const C: usize> Shared<[u8; 23]> for TrieMap<M, C> {
    #[inline]
    fn get(&self, key: &[u8; 23]) -> Option<u64> {
        TrieMap::get(self, key)
    }

    #[inline]
    fn insert(&self, key: &[u8; 23], value: u64) -> Option<u64> {
        TrieMap::insert(self, key, value)
    }

    #[inline]
    fn remove(&self, key: &[u8; 23]) -> Option<u64> {
        TrieMap::remove(self, key)
    }

    fn scan(&self, key: &[u8; 23], mut visit: impl FnMut(u64)) -> bool {
        let mut last = None;
        self.range(Bound::Included(key), Bound::Unbounded).take(SCAN).all(|(key, value)| {
            visit(value);
            let rises = last.as_ref().is_none_or(|last| *last < key);
            last = Some(key);
            rises
        })
    }

    fn bytes(&self) -> u64 {
        TrieMap::bytes(self)
    }

    fn check(&self) -> Result<(), WrongAnswer> {
        TrieMap::check(self).map_err(|e| WrongAnswer(e.to_string()))
    }
}

/// What all phases share.
struct Plan {
    options: Options,
    n: u64,
    threads: usize,
    duration: Duration,
    seed: u64,
}

/// The part of the entries that one thread changes in the mixed phase, so that it knows what to expect.
struct Own {
    first: u64,
    /// Is entry `first + i` in the map?
    present: Vec<bool>,
}

impl Plan {
    fn concurrent<K: Keys, M: Shared<K::Key>>(
        &self,
        map: &M,
        keys: K,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Vec<PhaseResult>, WrongAnswer> {
        progress("insert");
        let insert = self.insert(map, keys)?;
        let bytes_per_key = map.bytes() as f64 / self.n as f64;
        let result =
            |phase, ops_per_s| PhaseResult { phase, threads: self.threads, ops_per_s, bytes_per_key };
        let mut results = vec![result("insert", insert)];
        progress("lookup");
        results.push(result("lookup", self.timed(|random, _| lookup(map, keys, random.below(self.n)))?));
        if M::BATCHED {
            progress("multi_get");
            results.push(result("multi_get", self.multi_get(map, keys)?));
        }
        progress("scan100");
        results.push(result("scan100", self.timed(|random, _| scan(map, keys, random.below(self.n)))?));
        progress("mixed");
        results.push(result("mixed", self.timed(|random, own| mixed(map, keys, random, own))?));
        progress("check");
        map.check()?;
        Ok(results)
    }

    /// Each thread inserts its share.
    fn insert<K: Keys>(&self, map: &impl Shared<K::Key>, keys: K) -> Result<f64, WrongAnswer> {
        let start = Instant::now();
        let outcome = std::thread::scope(|s| {
            let threads: Vec<_> = (0..self.threads)
                .map(|thread| {
                    s.spawn(move || {
                        let numbers = (thread as u64..self.n).step_by(self.threads);
                        let fresh = match self.options.inserts {
                            Inserts::Single => numbers.fold(true, |fresh, number| {
                                fresh & map.insert(&keys.key(number), value_of(number)).is_none()
                            }),
                            Inserts::Many => self.insert_batches(map, keys, numbers, false),
                            Inserts::Sorted => self.insert_batches(map, keys, numbers, true),
                        };
                        if fresh { Ok(()) } else { wrong("insert", "a key was there before") }
                    })
                })
                .collect();
            threads.into_iter().try_for_each(|t| t.join().expect("a measuring thread"))
        });
        outcome.map(|()| self.n as f64 / start.elapsed().as_secs_f64())
    }

    /// Inserts these entries in batches; were all new?
    fn insert_batches<K: Keys>(
        &self,
        map: &impl Shared<K::Key>,
        keys: K,
        numbers: impl Iterator<Item = u64>,
        sorted: bool,
    ) -> bool {
        let mut numbers = numbers.peekable();
        let mut batch = Vec::with_capacity(self.options.insert_batch);
        let mut fresh = true;
        while numbers.peek().is_some() {
            batch.clear();
            let next = numbers.by_ref().take(self.options.insert_batch);
            batch.extend(next.map(|number| (keys.key(number), value_of(number))));
            if sorted {
                batch.sort_unstable_by_key(|(key, _)| *key);
            }
            fresh &= map.insert_many(&batch, sorted) == batch.len() as u64;
        }
        fresh
    }

    /// All threads repeat `operation` until the time is over.
    fn timed(
        &self,
        operation: impl Fn(&mut Random, &mut Own) -> Result<(), WrongAnswer> + Sync,
    ) -> Result<f64, WrongAnswer> {
        let stop = AtomicBool::new(false);
        let barrier = Barrier::new(self.threads + 1);
        std::thread::scope(|s| {
            let (stop, barrier, operation) = (&stop, &barrier, &operation);
            let threads: Vec<_> = (0..self.threads as u64)
                .map(|thread| {
                    let share = self.n / self.threads as u64;
                    let mut own = Own { first: thread * share, present: vec![true; share as usize] };
                    let mut random = Random(scramble(self.seed ^ thread << 32));
                    s.spawn(move || {
                        barrier.wait();
                        let mut done = 0u64;
                        while !stop.load(Relaxed) {
                            for _ in 0..BATCH {
                                operation(&mut random, &mut own)?;
                            }
                            done += BATCH;
                        }
                        Ok(done)
                    })
                })
                .collect();
            barrier.wait();
            let start = Instant::now();
            std::thread::sleep(self.duration);
            stop.store(true, Relaxed);
            let done: Result<u64, WrongAnswer> =
                threads.into_iter().map(|t| t.join().expect("a measuring thread")).sum();
            done.map(|done| done as f64 / start.elapsed().as_secs_f64())
        })
    }

    fn yardstick<K: Keys>(
        &self,
        keys: K,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Vec<PhaseResult>, WrongAnswer> {
        let mut map = BTreeMap::new();
        let mut random = Random(scramble(self.seed));
        progress("insert");
        let resident = resident_bytes();
        let start = Instant::now();
        for number in 0..self.n {
            if map.insert(keys.key(number), value_of(number)).is_some() {
                return wrong("insert", "a key was there before");
            }
        }
        let insert = self.n as f64 / start.elapsed().as_secs_f64();
        let bytes_per_key = resident_bytes().saturating_sub(resident) as f64 / self.n as f64;
        let result = |phase, ops_per_s| PhaseResult { phase, threads: 1, ops_per_s, bytes_per_key };
        let mut results = vec![result("insert", insert)];
        progress("lookup");
        let lookup = self.timed_alone(|| {
            let number = random.below(self.n);
            expect("lookup", map.get(&keys.key(number)).copied(), number)
        })?;
        results.push(result("lookup", lookup));
        progress("scan100");
        let scan = self.timed_alone(|| {
            let number = random.below(self.n);
            let mut values = map.range(keys.key(number)..).take(SCAN).map(|(_, value)| *value);
            expect("scan100", values.next(), number)?;
            std::hint::black_box(values.fold(0, u64::wrapping_add));
            Ok(())
        })?;
        results.push(result("scan100", scan));
        progress("mixed");
        let mut own = Own { first: 0, present: vec![true; self.n as usize] };
        let mixed = self.timed_alone(|| {
            let number = random.below(self.n);
            match random.below(4) {
                0 => own.inserted(number, map.insert(keys.key(number), value_of(number))),
                1 => own.removed(number, map.remove(&keys.key(number))),
                _ => own.looked_up(number, map.get(&keys.key(number)).copied()),
            }
        })?;
        results.push(result("mixed", mixed));
        Ok(results)
    }

    fn timed_alone(
        &self,
        mut operation: impl FnMut() -> Result<(), WrongAnswer>,
    ) -> Result<f64, WrongAnswer> {
        let start = Instant::now();
        let mut done = 0;
        while start.elapsed() < self.duration {
            for _ in 0..BATCH {
                operation()?;
            }
            done += BATCH;
        }
        Ok(done as f64 / start.elapsed().as_secs_f64())
    }
}

impl Own {
    fn expected(&self, number: u64) -> Option<u64> {
        self.present[(number - self.first) as usize].then(|| value_of(number))
    }

    fn looked_up(&self, number: u64, found: Option<u64>) -> Result<(), WrongAnswer> {
        if found == self.expected(number) { Ok(()) } else { wrong("mixed", "a lookup found the wrong value") }
    }

    fn inserted(&mut self, number: u64, old: Option<u64>) -> Result<(), WrongAnswer> {
        let expected = self.expected(number);
        self.present[(number - self.first) as usize] = true;
        if old == expected { Ok(()) } else { wrong("mixed", "an insert replaced the wrong value") }
    }

    fn removed(&mut self, number: u64, old: Option<u64>) -> Result<(), WrongAnswer> {
        let expected = self.expected(number);
        self.present[(number - self.first) as usize] = false;
        if old == expected { Ok(()) } else { wrong("mixed", "a removal took the wrong value") }
    }
}

#[inline]
fn lookup<K: Keys>(map: &impl Shared<K::Key>, keys: K, number: u64) -> Result<(), WrongAnswer> {
    expect("lookup", map.get(&keys.key(number)), number)
}

fn scan<K: Keys>(map: &impl Shared<K::Key>, keys: K, number: u64) -> Result<(), WrongAnswer> {
    let mut first = None;
    let mut sum = 0u64;
    let rises = map.scan(&keys.key(number), |value| {
        first.get_or_insert(value);
        sum = sum.wrapping_add(value);
    });
    std::hint::black_box(sum);
    if !rises {
        return wrong("scan100", "keys do not rise");
    }
    expect("scan100", first, number)
}

/// Half lookups, a quarter each inserts and removals, within the thread's own entries.
#[inline]
fn mixed<K: Keys>(
    map: &impl Shared<K::Key>,
    keys: K,
    random: &mut Random,
    own: &mut Own,
) -> Result<(), WrongAnswer> {
    let number = own.first + random.below(own.present.len() as u64);
    let key = keys.key(number);
    match random.below(4) {
        0 => own.inserted(number, map.insert(&key, value_of(number))),
        1 => own.removed(number, map.remove(&key)),
        _ => own.looked_up(number, map.get(&key)),
    }
}

#[inline]
fn expect(phase: &str, found: Option<u64>, number: u64) -> Result<(), WrongAnswer> {
    if found == Some(value_of(number)) { Ok(()) } else { wrong(phase, "the wrong value was found") }
}

#[cold]
fn wrong<T>(phase: &str, what: &str) -> Result<T, WrongAnswer> {
    Err(WrongAnswer(format!("{phase}: {what}")))
}

/// Resident memory of the process, 0 where `/proc` is missing.
fn resident_bytes() -> u64 {
    const PAGE_BYTES: u64 = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * PAGE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every structure and key kind gives right answers in all phases.
    #[test]
    fn all_kinds_run() {
        for keys in [KeyKind::U64, KeyKind::U32, KeyKind::Bytes] {
            let concurrent = [Structure::BPlus, Structure::Csb, Structure::O2, Structure::O2Optimistic];
            let all =
                concurrent.map(|structure| (structure, 2)).into_iter().chain([(Structure::StdBTreeMap, 1)]);
            for (structure, threads) in all {
                if !structure.takes(keys) {
                    continue;
                }
                let results = run(structure, keys, 5000, threads, 0.02, 1, &mut |_| {}).unwrap();
                let phases: Vec<_> = results.iter().map(|r| r.phase).collect();
                let expected: &[&str] = match structure {
                    Structure::BPlus => &["insert", "lookup", "multi_get", "scan100", "mixed"],
                    _ => &["insert", "lookup", "scan100", "mixed"],
                };
                assert_eq!(phases, expected, "{structure:?} {keys:?}");
                assert!(results.iter().all(|r| r.ops_per_s > 0.0), "{results:?}");
            }
        }
    }

    /// Batches of inserts, and every node size, give right answers.
    #[test]
    fn batches_and_node_sizes_run() {
        for inserts in [Inserts::Many, Inserts::Sorted] {
            for (keys, node_keys) in [
                (KeyKind::Bytes, None),
                (KeyKind::U32, Some(NodeKeys::K128)),
                (KeyKind::U64, Some(NodeKeys::K16)),
            ] {
                let options = Options { batch: 48, inserts, insert_batch: 300, node_keys };
                let (structure, progress) = (Structure::BPlus, &mut |_: &str| {});
                let results = run_with(options, structure, keys, 5000, 2, 0.02, 1, progress).unwrap();
                assert!(results.iter().all(|r| r.ops_per_s > 0.0), "{options:?} {keys:?} {results:?}");
            }
        }
    }

    /// A static map has its own phases.
    #[test]
    fn static_maps_run() {
        for keys in [KeyKind::U64, KeyKind::U32] {
            let results = run(Structure::Static, keys, 5000, 2, 0.02, 1, &mut |_| {}).unwrap();
            let phases: Vec<_> = results.iter().map(|r| r.phase).collect();
            assert_eq!(phases, ["build", "lookup", "lookup128", "bound", "bound128"], "{keys:?}");
            assert!(results.iter().all(|r| r.ops_per_s > 0.0), "{results:?}");
        }
        assert!(!Structure::Static.takes(KeyKind::Bytes));
    }
}
