//! Choosing by figures: the least cost, but the default if nothing is clearly better.

use super::Favour;
use std::collections::BTreeSet;

/// What is to be chosen for: every key size that was measured, rising, and every use.
pub(super) fn wanted(key_bytes: impl Iterator<Item = usize>) -> impl Iterator<Item = (usize, Favour)> {
    let sizes: BTreeSet<usize> = key_bytes.collect();
    sizes.into_iter().flat_map(|size| Favour::ALL.map(|favour| (size, favour)))
}

/// Costs of different kinds in one: no unit and no tree size counts more than another.
pub(super) fn geometric_mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0);
    for value in values {
        sum += value.ln();
        count += 1;
    }
    if count == 0 { f64::INFINITY } else { (sum / f64::from(count)).exp() }
}

/// The candidate of the least cost; the default unless that is `worth_while` times as costly. What was not measured costs
/// infinity.
pub(super) fn clearly_best<T: Copy>(
    candidates: impl IntoIterator<Item = T>,
    default: T,
    worth_while: f64,
    cost: impl Fn(T) -> f64,
) -> T {
    let least = candidates.into_iter().min_by(|a, b| cost(*a).total_cmp(&cost(*b))).unwrap_or(default);
    if cost(default) > cost(least) * worth_while { least } else { default }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn less_than_worth_while_is_noise() {
        let cost = |size: u32| [f64::INFINITY, 100.0, 98.0][size as usize];
        assert_eq!(clearly_best([0, 1, 2], 1, 1.03, cost), 1);
        assert_eq!(clearly_best([0, 1, 2], 1, 1.01, cost), 2);
        assert_eq!(clearly_best([1, 2], 0, 1.03, cost), 2, "a default without figures has no claim");
        assert_eq!(clearly_best([0], 0, 1.03, cost), 0, "nothing was measured");
    }

    #[test]
    fn means_are_of_ratios() {
        assert!((geometric_mean([1.0, 100.0]) - 10.0).abs() < 1e-9);
        assert_eq!(geometric_mean([]), f64::INFINITY);
    }
}
