//! The yardstick: the standard library's map on one thread, in the same phases.

use super::keys::{Keys, value_of};
use super::phases::{BATCH, Own, Plan, resident_bytes};
use super::shared::visit_rising;
use super::{PhaseResult, WrongAnswer, wrong};
use crate::kv::BenchError;
use crate::random::Random;
use std::collections::BTreeMap;
use std::time::Instant;

impl Plan {
    /// Runs all phases on one thread, whatever is asked.
    pub fn yardstick<K: Keys>(
        &self,
        keys: K,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Vec<PhaseResult>, BenchError> {
        self.assert_sensible();
        self.have_memory();
        let mut map = BTreeMap::new();
        let mut random = Random::new(self.seed, 0);
        progress("insert");
        let resident = resident_bytes();
        let start = Instant::now();
        for number in 0..self.n {
            if map.insert(keys.key(number), value_of(number)).is_some() {
                wrong("insert", "a key was there before")?;
            }
        }
        let insert = self.n as f64 / start.elapsed().as_secs_f64();
        let bytes_per_key = resident_bytes().saturating_sub(resident) as f64 / self.n as f64;
        let result = |phase, ops_per_s| PhaseResult { phase, threads: 1, ops_per_s, bytes_per_key };
        let mut results = vec![result("insert", insert)];
        progress("lookup");
        let get = |key, value| map.get(&key) == Some(&value);
        let alone = Self { threads: 1, ..*self };
        let lookup = alone.queries(keys, "lookup", |queries, at| queries.each(at, get))?;
        results.push(result("lookup", lookup));
        progress("scan100");
        let drawn = self.draw_scans(keys);
        let scans = self.timed_alone(|| {
            let (scan, mut sum) = (drawn.any(&mut random), 0u64);
            let entries = map.range(scan.key..).map(|(key, value)| (*key, *value));
            let rises = visit_rising(entries, |value| sum = sum.wrapping_add(value));
            scan.judge(rises, sum)
        })?;
        drop(drawn);
        results.push(result("scan100", scans));
        progress("zipf");
        let popular = &alone.draw_popular(keys)[0];
        let mut drawn = 0;
        let zipf = self.timed_alone(|| {
            let (key, value) = popular.nth(drawn);
            drawn += 1;
            if map.insert(key, value) == Some(value) {
                Ok(())
            } else {
                wrong("zipf", "an update replaced the wrong value")
            }
        })?;
        results.push(result("zipf", zipf));
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
