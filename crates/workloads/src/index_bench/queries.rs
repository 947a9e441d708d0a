//! Lookups of keys drawn beforehand, singly and in batches, so that a query is not measured with the making of its key:
//! that would be half of the quick ones, and make the slow ones seem as quick.

use super::keys::{Keys, value_of};
use super::phases::Plan;
use super::shared::Shared;
use super::{PhaseResult, WrongAnswer, wrong};
use crate::kv::BenchError;
use crate::random::{Permutation, Random};
use crate::threads;
use crate::together::{self, Run};
use crate::zipf::Zipf;
use foreshore_index::{IntKey, PackedLane, StaticMap};
use std::time::Instant;

/// Queries drawn beforehand, in batches, and their answers.
pub struct Queries<K> {
    keys: Vec<K>,
    values: Vec<u64>,
}

/// Queries in a batch, at most.
pub const QUERIES: usize = 128;
/// Batches between two looks at the clock.
const ROUND: usize = 64;
/// Batches drawn for a thread, at most: 4 million queries, so that what they touch does not fit caches that the map does not fit.
const DRAWN: usize = 1 << 15;
/// Threads that get as many. More share what these have, some GiB: their queries together touch as much of the map.
const FULL_THREADS: usize = 32;

/// Batches drawn for each of so many threads.
fn drawn_for(threads: usize) -> usize {
    DRAWN * FULL_THREADS / threads.max(FULL_THREADS)
}

impl<K: Copy> Queries<K> {
    fn draw<D: Keys<Key = K>>(keys: D, batches: usize, mut number: impl FnMut() -> u64) -> Self {
        let numbers: Vec<u64> = (0..batches * QUERIES).map(|_| number()).collect();
        Self {
            keys: numbers.iter().map(|&number| keys.key(number)).collect(),
            values: numbers.iter().map(|&number| value_of(number)).collect(),
        }
    }

    /// Query number `n` and its answer; they begin again after the last.
    pub fn nth(&self, n: usize) -> (K, u64) {
        let at = n % self.keys.len();
        (self.keys[at], self.values[at])
    }

    fn keys(&self, batch: usize) -> &[K] {
        let first = self.first(batch);
        &self.keys[first..first + QUERIES]
    }

    /// Where the batch begins; they begin again after the last.
    fn first(&self, batch: usize) -> usize {
        batch * QUERIES % self.keys.len()
    }

    /// Is every query of the batch right?
    #[inline]
    pub fn each(&self, batch: usize, right: impl Fn(K, u64) -> bool) -> bool {
        self.each_with(batch, &[(); QUERIES], |key, value, ()| right(key, value))
    }

    /// As `each`, with what was found for each.
    #[inline]
    fn each_with<T: Copy>(&self, batch: usize, found: &[T], right: impl Fn(K, u64, T) -> bool) -> bool {
        let first = self.first(batch);
        let values = &self.values[first..first + QUERIES];
        let queries = self.keys(batch).iter().zip(values).zip(found);
        queries.fold(true, |all, ((key, value), found)| all & right(*key, *value, *found))
    }
}

impl Plan {
    /// Builds a static map, and looks keys up.
    pub fn fixed<K: Keys<Key: IntKey<Lane: PackedLane>>>(
        &self,
        keys: K,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Vec<PhaseResult>, BenchError> {
        self.assert_sensible();
        self.have_memory();
        progress("build");
        let mut entries: Vec<(K::Key, u64)> = (0..self.n).map(|i| (keys.key(i), value_of(i))).collect();
        entries.sort_unstable();
        let start = Instant::now();
        let map = StaticMap::from_sorted(entries.iter().copied());
        let build = self.n as f64 / start.elapsed().as_secs_f64();
        drop(entries);
        let bytes_per_key = map.bytes() as f64 / self.n as f64;
        let result = |phase, threads, ops_per_s| PhaseResult { phase, threads, ops_per_s, bytes_per_key };
        let mut results = vec![result("build", 1, build)];
        let mut phase = |name, query: &(dyn Fn(&Queries<K::Key>, usize) -> bool + Sync)| {
            progress(name);
            let ops_per_s = self.queries(keys, name, query)?;
            results.push(result(name, self.threads, ops_per_s));
            Ok::<_, BenchError>(())
        };
        phase("lookup", &|queries, at| queries.each(at, |key, value| map.get(key) == Some(value)))?;
        phase("lookup128", &|queries, at| {
            let mut values = [None; QUERIES];
            map.multi_get(queries.keys(at), &mut values);
            queries.each_with(at, &values, |_, value, found| found == Some(value))
        })?;
        phase("bound", &|queries, at| queries.each(at, |key, _| map.key(map.lower_bound(key)) == Some(key)))?;
        phase("bound128", &|queries, at| {
            let mut ranks = [0; QUERIES];
            map.multi_lower_bound(queries.keys(at), &mut ranks);
            queries.each_with(at, &ranks, |key, _, rank| map.key(rank) == Some(key))
        })?;
        Ok(results)
    }

    /// Runs batches of queries of any entries until the time is over; the time is that of `query`, which says whether all
    /// were right.
    pub fn queries<K: Keys<Key: Copy + Sync>>(
        &self,
        keys: K,
        phase: &str,
        query: impl Fn(&Queries<K::Key>, usize) -> bool + Sync,
    ) -> Result<f64, BenchError> {
        let drawn: Vec<_> = (0..self.threads as u64)
            .map(|thread| {
                let mut random = Random::new(self.seed, thread);
                Queries::draw(keys, drawn_for(self.threads), || random.below(self.n))
            })
            .collect();
        self.ask(&drawn, phase, query)
    }

    /// Gives entries, some of them far more often than others (Zipf, θ = 0.99), the value that they have.
    pub fn popular_updates<K: Keys>(&self, map: &impl Shared<K::Key>, keys: K) -> Result<f64, BenchError> {
        let drawn = self.draw_popular(keys);
        let update = |key, value| map.update(&key, value);
        self.ask(&drawn, "zipf", |queries, at| queries.each(at, update))
    }

    /// Queries of popular entries, which are the same for all threads, for each thread. Each entry has one rank.
    pub fn draw_popular<K: Keys>(&self, keys: K) -> Vec<Queries<K::Key>> {
        let (zipf, ranked) = (Zipf::new(self.n), Permutation::new(self.n, self.seed));
        (0..self.threads as u64)
            .map(|thread| {
                let mut random = Random::new(self.seed, thread);
                Queries::draw(keys, drawn_for(self.threads), || ranked.at(zipf.rank(&mut random)))
            })
            .collect()
    }

    /// Runs `query` on batches of these until the time is over, a thread for each.
    pub fn ask<K: Copy + Sync>(
        &self,
        drawn: &[Queries<K>],
        phase: &str,
        query: impl Fn(&Queries<K>, usize) -> bool + Sync,
    ) -> Result<f64, BenchError> {
        let start = Instant::now();
        let runs = threads::run(drawn.len(), |thread| {
            let queries = &drawn[thread as usize];
            let began = start.elapsed();
            let (mut done, mut now) = (0, began);
            while now - began < self.duration {
                for at in 0..ROUND {
                    if !query(queries, done / QUERIES + at) {
                        return wrong(phase, "a query had the wrong answer");
                    }
                }
                done += ROUND * QUERIES;
                now = start.elapsed();
            }
            Ok(Run { ops: done as u64, began, ended: now })
        })?;
        Ok(together::rate(&runs.into_iter().collect::<Result<Vec<_>, WrongAnswer>>()?))
    }

    /// Lookups in batches, of a map that can.
    pub fn multi_get<K: Keys<Key: Copy + Sync>>(
        &self,
        map: &impl Shared<K::Key>,
        keys: K,
    ) -> Result<f64, BenchError> {
        self.queries(keys, "multi_get", |queries, at| {
            let mut values = [None; QUERIES];
            let batches = queries.keys(at).chunks(self.options.batch);
            batches
                .zip(values.chunks_mut(self.options.batch))
                .for_each(|(keys, values)| map.multi_get(keys, values));
            queries.each_with(at, &values, |_, value, found| found == Some(value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Options;
    use super::super::keys::U64Keys;
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
    use std::time::Duration;

    /// They are drawn beforehand, all of them: many threads would have taken all memory.
    #[test]
    fn many_threads_share_what_is_drawn() {
        for threads in [1, 2, 32, 33, 1000, 1024] {
            let batches = drawn_for(threads);
            assert!(batches > 0 && batches * threads <= DRAWN * FULL_THREADS, "{threads}: {batches}");
            assert!(threads > FULL_THREADS || batches == DRAWN, "{threads}: {batches}");
        }
        let queries = Queries::draw(U64Keys, drawn_for(1000), || 7);
        assert_eq!(
            (queries.keys.len(), queries.keys(drawn_for(1000) * 3 + 1).len()),
            (1048 * QUERIES, QUERIES)
        );
    }

    /// A thread that is done in no time counts for no more than it did while the other still asks.
    #[test]
    fn threads_are_timed_together() {
        const PAUSE: Duration = Duration::from_millis(200);
        let plan = Plan {
            options: Options::default(),
            n: 1000,
            threads: 2,
            duration: Duration::from_millis(1),
            seed: 1,
        };
        let (is_first, batches) = (AtomicBool::new(true), AtomicU64::new(0));
        let query = |_: &Queries<u64>, _| {
            batches.fetch_add(1, Relaxed);
            if is_first.swap(false, Relaxed) {
                std::thread::sleep(PAUSE);
            }
            true
        };
        let rate = plan.queries(U64Keys, "lookup", query).unwrap();
        let asked = batches.into_inner() * QUERIES as u64;
        assert!(rate <= asked as f64 / PAUSE.as_secs_f64(), "{rate} a second, {asked} in all");
    }

    /// No entry is left out, as it would be where two ranks meet in one.
    #[test]
    fn each_entry_has_a_rank() {
        const N: u64 = 5000;
        let plan = Plan {
            options: Options::default(),
            n: N,
            threads: 1,
            duration: Duration::from_millis(1),
            seed: 7,
        };
        let mut asked = std::mem::take(&mut plan.draw_popular(U64Keys)[0].values);
        asked.sort_unstable();
        asked.dedup();
        assert_eq!(asked.len() as u64, N, "of {DRAWN} batches");
    }
}
