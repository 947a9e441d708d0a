//! Random numbers, names and texts as clauses 2.1.5, 2.1.6 and 4.3.2 define them.

use crate::random::Random;
use std::ops::RangeInclusive;

/// The constants `C` of the non-uniform distribution: fixed for a load and the runs on it (clause 2.1.6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Constants {
    pub last_name_load: u64,
    pub last_name_run: u64,
    pub customer: u64,
    pub item: u64,
}

/// `A` for last names.
const A_LAST_NAME: u64 = 255;
/// `A` for customer numbers.
const A_CUSTOMER: u64 = 1023;
/// `A` for item numbers.
const A_ITEM: u64 = 8191;

impl Constants {
    /// The constants of `seed`.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed, u64::from(b'C'));
        let last_name_load = number(&mut random, 0..=A_LAST_NAME);
        let last_name_run = loop {
            let candidate = number(&mut random, 0..=A_LAST_NAME);
            if may_follow(last_name_load, candidate) {
                break candidate;
            }
        };
        let (customer, item) = (number(&mut random, 0..=A_CUSTOMER), number(&mut random, 0..=A_ITEM));
        Self { last_name_load, last_name_run, customer, item }
    }
}

/// May the constant of the runs be `run`, after the load used `load`?
fn may_follow(load: u64, run: u64) -> bool {
    let delta = load.abs_diff(run);
    (65..=119).contains(&delta) && delta != 96 && delta != 112
}

/// A uniform number of the range.
pub(crate) fn number(random: &mut Random, range: RangeInclusive<u64>) -> u64 {
    range.start() + random.below(range.end() - range.start() + 1)
}

/// `NURand(A, x, y)` with constant `c` (clause 2.1.6).
pub(crate) fn non_uniform(random: &mut Random, a: u64, c: u64, range: RangeInclusive<u64>) -> u64 {
    let (x, y) = (*range.start(), *range.end());
    ((number(random, 0..=a) | number(random, x..=y)) + c) % (y - x + 1) + x
}

/// A customer's number, as transactions choose it.
pub(crate) fn customer_number(random: &mut Random, constants: &Constants, customers: u32) -> u32 {
    non_uniform(random, A_CUSTOMER, constants.customer, 1..=u64::from(customers)) as u32
}

/// An item's number, as transactions choose it.
pub(crate) fn item_number(random: &mut Random, constants: &Constants, items: u32) -> u32 {
    non_uniform(random, A_ITEM, constants.item, 1..=u64::from(items)) as u32
}

/// The number of a last name, as loader and transactions choose it with their constants; a district with fewer than 1,000
/// customers has only as many names.
pub(crate) fn last_name_number(random: &mut Random, c: u64, customers: u32) -> u64 {
    non_uniform(random, A_LAST_NAME, c, 0..=u64::from(customers.min(1000)) - 1)
}

/// A last name: three syllables named by the digits of a number below 1,000 (clause 4.3.2.3).
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastName {
    bytes: [u8; 15],
    len: usize,
}

impl LastName {
    pub fn new(number: u64) -> Self {
        const SYLLABLES: [&[u8]; 10] =
            [b"BAR", b"OUGHT", b"ABLE", b"PRI", b"PRES", b"ESE", b"ANTI", b"CALLY", b"ATION", b"EING"];
        let (mut bytes, mut len) = ([0; 15], 0);
        for digit in [number / 100, number / 10 % 10, number % 10] {
            let syllable = SYLLABLES[digit as usize];
            bytes[len..len + syllable.len()].copy_from_slice(syllable);
            len += syllable.len();
        }
        Self { bytes, len }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Adds letters and digits, as many as the range says: an "a-string".
pub(crate) fn push_alphanumeric(random: &mut Random, length: RangeInclusive<u64>, out: &mut Vec<u8>) {
    const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    for _ in 0..number(random, length) {
        out.push(LETTERS[random.below(62) as usize]);
    }
}

/// Adds digits: an "n-string".
pub(crate) fn push_digits(random: &mut Random, length: u64, out: &mut Vec<u8>) {
    for _ in 0..length {
        out.push(b'0' + random.below(10) as u8);
    }
}

/// What a tenth of the items and stocks have in their data.
pub(crate) const ORIGINAL: &[u8] = b"ORIGINAL";

/// Adds the data of an item or stock: 26 to 50 letters, "ORIGINAL" somewhere in a tenth of them.
pub(crate) fn push_brand_data(random: &mut Random, out: &mut Vec<u8>) {
    let from = out.len();
    push_alphanumeric(random, 26..=50, out);
    if random.below(10) == 0 {
        let at = from + random.below((out.len() - from - ORIGINAL.len() + 1) as u64) as usize;
        out[at..at + ORIGINAL.len()].copy_from_slice(ORIGINAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_are_the_standards() {
        assert_eq!(LastName::new(371).as_bytes(), b"PRICALLYOUGHT");
        assert_eq!(LastName::new(40).as_bytes(), b"BARPRESBAR");
        assert_eq!(LastName::new(777).as_bytes(), b"CALLYCALLYCALLY");
    }

    #[test]
    fn constants_descend_from_the_seed_and_may_follow_each_other() {
        for seed in 0..200 {
            let constants = Constants::new(seed);
            assert_eq!(constants, Constants::new(seed));
            assert!(
                may_follow(constants.last_name_load, constants.last_name_run),
                "seed {seed}: {constants:?}"
            );
        }
        assert!(!may_follow(0, 96) && !may_follow(112, 0) && !may_follow(0, 64) && may_follow(0, 65));
    }

    /// Against the distribution computed by enumeration: every pair of numbers before the `or` is equally likely.
    #[test]
    fn non_uniform_numbers_have_their_distribution() {
        const DRAWS: u64 = 400_000;
        let (a, c, x, y) = (255, 123, 0, 999);
        let mut expected = vec![0u64; 1000];
        for left in 0..=a {
            for right in x..=y {
                expected[(((left | right) + c) % (y - x + 1) + x) as usize] += 1;
            }
        }
        let mut random = Random::new(7, 0);
        let mut seen = vec![0u64; 1000];
        for _ in 0..DRAWS {
            seen[non_uniform(&mut random, a, c, x..=y) as usize] += 1;
        }
        let scale = DRAWS as f64 / ((a + 1) * (y - x + 1)) as f64;
        let chi_square: f64 = (0..1000)
            .filter(|&i| expected[i] > 0)
            .map(|i| (seen[i] as f64 - expected[i] as f64 * scale).powi(2) / (expected[i] as f64 * scale))
            .sum();
        assert!((0..1000).all(|i| expected[i] > 0 || seen[i] == 0), "a number that cannot be");
        let cells = expected.iter().filter(|&&count| count > 0).count() as f64;
        let limit = cells + 5.0 * (2.0 * cells).sqrt();
        assert!(chi_square < limit, "seed 7: χ² {chi_square:.0}, 5 σ is {limit:.0}");
        let favourite = *seen.iter().max().unwrap() as f64 / DRAWS as f64;
        assert!(favourite > 5.0 / 1000.0, "not non-uniform: {favourite}");
    }

    #[test]
    fn a_tenth_of_the_brands_is_original() {
        const ROWS: usize = 20_000;
        let mut random = Random::new(3, 0);
        let mut original = 0;
        for _ in 0..ROWS {
            let mut data = Vec::new();
            push_brand_data(&mut random, &mut data);
            assert!((26..=50).contains(&data.len()));
            original += usize::from(data.windows(8).any(|window| window == ORIGINAL));
        }
        assert!((original as f64 / ROWS as f64 - 0.1).abs() < 0.01, "{original} of {ROWS}");
    }
}
