//! Timing on a machine that others use too: rounds by turns, and their median.

use std::time::Instant;

/// Seconds from the first beginning to the last end of what threads did. A thread that waits for a processor has not begun, so
/// neither the time of one of them nor that of their parent would do.
///
/// Panics without threads.
pub fn span_s(spans: &[(Instant, Instant)]) -> f64 {
    let begun = spans.iter().map(|span| span.0).min().expect("there are threads");
    let ended = spans.iter().map(|span| span.1).max().expect("there are threads");
    (ended - begun).as_secs_f64()
}

/// The middle value; of an even number, the lower middle.
///
/// Panics without values.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) / 2]
}

/// Measures each of `subjects` in each of `rounds` rounds, by turns, so that a disturbance meets all of them; returns
/// each one's median.
pub fn rounds<T, E>(
    rounds: usize,
    subjects: &mut [T],
    mut measure: impl FnMut(&mut T) -> Result<f64, E>,
) -> Result<Vec<f64>, E> {
    let mut values = vec![Vec::with_capacity(rounds); subjects.len()];
    for _ in 0..rounds {
        for (subject, values) in subjects.iter_mut().zip(&mut values) {
            values.push(measure(subject)?);
        }
    }
    Ok(values.into_iter().map(median).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.0);
    }

    #[test]
    fn threads_that_take_turns_take_as_long_as_all() {
        let begun = Instant::now();
        let later = |ms| begun + Duration::from_millis(ms);
        assert_eq!(span_s(&[(later(20), later(30)), (begun, later(10))]), 0.03);
    }

    #[test]
    fn subjects_take_turns() {
        let mut order = Vec::new();
        let medians = rounds(2, &mut [1.0, 2.0], |subject| {
            order.push(*subject);
            Ok::<_, ()>(*subject)
        });
        assert_eq!(medians, Ok(vec![1.0, 2.0]));
        assert_eq!(order, [1.0, 2.0, 1.0, 2.0]);
    }
}
