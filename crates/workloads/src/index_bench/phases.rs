//! The phases of a run on a map that threads share.

use super::keys::{Keys, value_of};
use super::queries::QUERIES;
use super::shared::Shared;
use super::{Inserts, Options, PhaseResult, WrongAnswer, wrong};
use crate::kv::BenchError;
use crate::memory;
use crate::random::Random;
use crate::threads::{self, Gate};
use crate::together::{self, Run};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Operations between two looks at the clock.
pub const BATCH: u64 = 256;

/// A run: what all phases share.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What may be chosen besides.
    pub options: Options,
    /// Entries.
    pub n: u64,
    /// Threads.
    pub threads: usize,
    /// How long each phase but the inserts takes.
    pub duration: Duration,
    /// Every random choice descends from it.
    pub seed: u64,
}

/// The part of the entries that one thread changes in the mixed phase, so that it knows what to expect.
pub struct Own {
    pub first: u64,
    /// Is entry `first + i` in the map?
    pub present: Vec<bool>,
}

impl Plan {
    /// Runs all phases on an empty map.
    ///
    /// Errors: the first wrong answer, and [`BenchError::Usage`] if the system does not start so many threads. Panics if there are no threads, fewer than 1000 keys, or fewer keys than threads.
    pub fn concurrent<K: Keys, M: Shared<K::Key>>(
        &self,
        map: &M,
        keys: K,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Vec<PhaseResult>, BenchError> {
        self.assert_sensible();
        self.have_memory();
        progress("insert");
        let resident = resident_bytes();
        let insert = self.insert(map, keys)?;
        let bytes = map.bytes().unwrap_or_else(|| resident_bytes().saturating_sub(resident));
        let bytes_per_key = bytes as f64 / self.n as f64;
        let result =
            |phase, ops_per_s| PhaseResult { phase, threads: self.threads, ops_per_s, bytes_per_key };
        let mut results = vec![result("insert", insert)];
        progress("lookup");
        let get = |key, value| map.get(&key) == Some(value);
        results.push(result("lookup", self.queries(keys, "lookup", |queries, at| queries.each(at, get))?));
        if M::BATCHED {
            progress("multi_get");
            results.push(result("multi_get", self.multi_get(map, keys)?));
        }
        progress("scan100");
        let drawn = self.draw_scans(keys);
        let (scans, _) = self.timed(|random, _| {
            let (scan, mut sum) = (drawn.any(random), 0u64);
            let rises = map.scan(&scan.key, |value| sum = sum.wrapping_add(value));
            scan.judge(rises, sum)
        })?;
        drop(drawn);
        results.push(result("scan100", scans));
        progress("zipf");
        results.push(result("zipf", self.popular_updates(map, keys)?));
        progress("mixed");
        let (rate, known) = self.timed(|random, own| mixed(map, keys, random, own))?;
        results.push(result("mixed", rate));
        progress("check");
        map.check()?;
        let agrees = |thread| known[thread as usize].agrees(keys, |key| map.get(&key));
        threads::run(self.threads, agrees)?.into_iter().collect::<Result<(), _>>()?;
        Ok(results)
    }

    pub(super) fn assert_sensible(&self) {
        let Options { batch, insert_batch, .. } = self.options;
        assert!(self.threads > 0 && self.n >= 1000, "at least one thread and 1000 keys");
        assert!(self.n >= self.threads as u64, "at least a key for each thread");
        assert!((1..=QUERIES).contains(&batch) && insert_batch > 0, "{:?}", self.options);
    }

    /// … at hand for all entries, so that inserts are measured and not the host of a virtual machine.
    pub(super) fn have_memory(&self) {
        /// More than any structure takes.
        const ENTRY_BYTES: u64 = 128;
        memory::touch(self.n * ENTRY_BYTES);
    }

    /// Each thread inserts its share.
    fn insert<K: Keys>(&self, map: &impl Shared<K::Key>, keys: K) -> Result<f64, BenchError> {
        let start = Instant::now();
        let fresh = threads::run(self.threads, |thread| {
            let numbers = (thread..self.n).step_by(self.threads);
            match self.options.inserts {
                Inserts::Single => numbers
                    .fold(true, |fresh, number| fresh & map.insert_new(&keys.key(number), value_of(number))),
                Inserts::Many => self.insert_batches(map, keys, numbers, false),
                Inserts::Sorted => self.insert_batches(map, keys, numbers, true),
            }
        })?;
        if fresh.contains(&false) {
            wrong("insert", "a key was there before")?;
        }
        Ok(self.n as f64 / start.elapsed().as_secs_f64())
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

    /// All threads repeat `operation` until the time is over: how often a second, and what each knows then.
    fn timed(
        &self,
        operation: impl Fn(&mut Random, &mut Own) -> Result<(), WrongAnswer> + Sync,
    ) -> Result<(f64, Vec<Own>), BenchError> {
        let (gate, stop) = (&Gate::new(self.threads), &AtomicBool::new(false));
        let start = Instant::now();
        std::thread::scope(|s| {
            let operation = &operation;
            let threads = threads::start(s, gate, |thread| {
                let share = self.n / self.threads as u64;
                let mut own = Own { first: thread * share, present: vec![true; share as usize] };
                let mut random = Random::new(self.seed, thread);
                move || {
                    let all_are_there = gate.pass();
                    let began = start.elapsed();
                    let mut ops = 0;
                    while all_are_there && !stop.load(Relaxed) {
                        for _ in 0..BATCH {
                            operation(&mut random, &mut own)?;
                        }
                        ops += BATCH;
                    }
                    Ok((Run { ops, began, ended: start.elapsed() }, own))
                }
            })?;
            std::thread::sleep(self.duration);
            stop.store(true, Relaxed);
            let ended: Result<Vec<(Run, Own)>, WrongAnswer> =
                threads.into_iter().map(|t| t.join().expect("a measuring thread")).collect();
            let (runs, known): (Vec<_>, _) = ended?.into_iter().unzip();
            Ok((together::rate(&runs), known))
        })
    }
}

impl Own {
    fn expected(&self, number: u64) -> Option<u64> {
        self.present[(number - self.first) as usize].then(|| value_of(number))
    }

    pub fn looked_up(&self, number: u64, found: Option<u64>) -> Result<(), WrongAnswer> {
        if found == self.expected(number) { Ok(()) } else { wrong("mixed", "a lookup found the wrong value") }
    }

    /// Is each entry there, and only if it is to be?
    fn agrees<K: Keys>(&self, keys: K, get: impl Fn(K::Key) -> Option<u64>) -> Result<(), WrongAnswer> {
        let mut numbers = (self.first..).take(self.present.len());
        let odd = numbers.find(|&number| get(keys.key(number)) != self.expected(number));
        if odd.is_none() { Ok(()) } else { wrong("check", "an entry is not as its thread has left it") }
    }

    pub fn inserted(&mut self, number: u64, old: Option<u64>) -> Result<(), WrongAnswer> {
        let expected = self.expected(number);
        self.present[(number - self.first) as usize] = true;
        if old == expected { Ok(()) } else { wrong("mixed", "an insert replaced the wrong value") }
    }

    pub fn removed(&mut self, number: u64, old: Option<u64>) -> Result<(), WrongAnswer> {
        let expected = self.expected(number);
        self.present[(number - self.first) as usize] = false;
        if old == expected { Ok(()) } else { wrong("mixed", "a removal took the wrong value") }
    }
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

/// Resident memory of the process, 0 where `/proc` is missing.
pub fn resident_bytes() -> u64 {
    foreshore_base::memory::of_process("VmRSS:").unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::keys::U64Keys;
    use super::super::shared::{SCAN, visit_rising};
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::atomic::AtomicU64;
    use std::sync::{Mutex, MutexGuard};

    /// A map that loses an entry when nothing looks at it any more but the check.
    #[derive(Default)]
    struct Forgetful(Mutex<BTreeMap<u64, u64>>);

    impl Forgetful {
        fn map(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
            self.0.lock().unwrap()
        }
    }

    impl Shared<u64> for Forgetful {
        fn get(&self, key: &u64) -> Option<u64> {
            self.map().get(key).copied()
        }

        fn insert(&self, key: &u64, value: u64) -> Option<u64> {
            self.map().insert(*key, value)
        }

        fn remove(&self, key: &u64) -> Option<u64> {
            self.map().remove(key)
        }

        fn scan(&self, key: &u64, visit: impl FnMut(u64)) -> bool {
            visit_rising(self.map().range(key..).map(|(key, value)| (*key, *value)), visit)
        }

        fn check(&self) -> Result<(), WrongAnswer> {
            self.map().pop_first();
            Ok(())
        }
    }

    #[test]
    fn what_the_mixed_phase_leaves_is_checked() {
        let duration = Duration::from_millis(1);
        let plan = Plan { options: Options::default(), n: 1000, threads: 2, duration, seed: 1 };
        let found = plan.concurrent(&Forgetful::default(), U64Keys, &mut |_| {});
        assert!(matches!(&found, Err(BenchError::Wrong(what)) if what.starts_with("check: ")), "{found:?}");
    }

    /// The rate is no higher than what was done in the time between the first operation and the last.
    #[test]
    fn what_threads_do_before_the_main_one_goes_on_is_in_their_time() {
        let duration = Duration::from_micros(100);
        let plan = Plan { options: Options::default(), n: 1000, threads: 16, duration, seed: 1 };
        for _ in 0..50 {
            let origin = Instant::now();
            let (ops, first, last) = (AtomicU64::new(0), AtomicU64::new(u64::MAX), AtomicU64::new(0));
            let (rate, _) = plan
                .timed(|_, _| {
                    let now = origin.elapsed().as_nanos() as u64;
                    first.fetch_min(now, Relaxed);
                    last.fetch_max(now, Relaxed);
                    ops.fetch_add(1, Relaxed);
                    Ok(())
                })
                .unwrap();
            // On a busy machine the time may be over before anything was done.
            let seconds = last.into_inner().saturating_sub(first.into_inner()) as f64 / 1e9;
            let ops = ops.into_inner() as f64;
            assert!(rate * seconds <= 1.001 * ops, "{rate} a second, {ops} in {seconds} s");
        }
    }

    /// A map whose long scans leave an entry out, or show a wrong value.
    struct Careless {
        map: Mutex<BTreeMap<u64, u64>>,
        skips: bool,
    }

    impl Shared<u64> for Careless {
        fn get(&self, key: &u64) -> Option<u64> {
            self.map.lock().unwrap().get(key).copied()
        }

        fn insert(&self, key: &u64, value: u64) -> Option<u64> {
            self.map.lock().unwrap().insert(*key, value)
        }

        fn remove(&self, key: &u64) -> Option<u64> {
            self.map.lock().unwrap().remove(key)
        }

        fn scan(&self, key: &u64, visit: impl FnMut(u64)) -> bool {
            let map = self.map.lock().unwrap();
            let mut all: Vec<_> = map.range(key..).map(|(k, v)| (*k, *v)).take(SCAN + 1).collect();
            if all.len() > SCAN {
                if self.skips {
                    all.remove(50);
                } else {
                    all[50].1 = 0;
                }
            }
            visit_rising(all.into_iter(), visit)
        }
    }

    #[test]
    fn scans_that_skip_or_mix_up_are_noticed() {
        let duration = Duration::from_millis(20);
        let plan = Plan { options: Options::default(), n: 1000, threads: 1, duration, seed: 1 };
        for skips in [true, false] {
            let map = Careless { map: Mutex::default(), skips };
            let found = plan.concurrent(&map, U64Keys, &mut |_| {});
            assert!(matches!(&found, Err(BenchError::Wrong(_))), "skips {skips}: {found:?}");
        }
    }
}
