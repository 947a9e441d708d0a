//! Scans drawn beforehand with their answers: to look up what follows a key would take longer than to scan it.

use super::keys::{Keys, value_of};
use super::phases::Plan;
use super::shared::SCAN;
use super::{WrongAnswer, wrong};
use crate::random::Random;

/// Scans drawn, at most: together they show more entries than caches hold, and are few enough to stay there themselves.
const DRAWN: u64 = 1 << 17;
/// Their place among the random streams; threads have the first ones.
const STREAM: u64 = u64::MAX;

/// Some of the scans that a map can be asked for.
pub struct Scans<K>(Vec<Scan<K>>);

/// Where a scan begins, and what the values of its entries add up to.
#[derive(Debug)]
pub struct Scan<K> {
    pub key: K,
    sum: u64,
}

impl Plan {
    /// Draws scans of a map that holds all entries.
    pub fn draw_scans<K: Keys>(&self, keys: K) -> Scans<K::Key> {
        let mut entries: Vec<_> = (0..self.n).map(|number| (keys.key(number), value_of(number))).collect();
        entries.sort_unstable();
        let mut random = Random::new(self.seed, STREAM);
        let draw = |_| {
            let rest = &entries[random.below(self.n) as usize..];
            Scan { key: rest[0].0, sum: rest.iter().take(SCAN).map(|(_, value)| value).sum() }
        };
        Scans((0..self.n.min(DRAWN)).map(draw).collect())
    }
}

impl<K> Scans<K> {
    /// Any of them.
    #[inline]
    pub fn any(&self, random: &mut Random) -> &Scan<K> {
        &self.0[random.below(self.0.len() as u64) as usize]
    }
}

impl<K> Scan<K> {
    /// Was it right? An entry left out, or one too many, makes another sum.
    #[inline]
    pub fn judge(&self, rises: bool, sum: u64) -> Result<(), WrongAnswer> {
        match (rises, sum == self.sum) {
            (true, true) => Ok(()),
            (false, _) => wrong("scan100", "keys do not rise"),
            (true, false) => wrong("scan100", "an entry is missing, or has a wrong value"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Options;
    use super::super::keys::U64Keys;
    use super::*;
    use std::collections::BTreeMap;
    use std::time::Duration;

    /// Also those that the greatest key ends before their time.
    #[test]
    fn a_scan_has_the_values_from_its_key_on() {
        let duration = Duration::from_millis(1);
        let plan = Plan { options: Options::default(), n: 1000, threads: 1, duration, seed: 1 };
        let all: BTreeMap<_, _> = (0..1000).map(|number| (U64Keys.key(number), value_of(number))).collect();
        for scan in plan.draw_scans(U64Keys).0 {
            let sum = all.range(scan.key..).take(SCAN).map(|(_, value)| value).sum();
            assert_eq!(scan.judge(true, sum), Ok(()), "{scan:?}");
            assert!(scan.judge(true, sum - 1).is_err() && scan.judge(false, sum).is_err(), "{scan:?}");
        }
    }
}
