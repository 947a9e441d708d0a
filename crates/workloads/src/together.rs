//! How many operations a second threads did together.
//!
//! Why not the sum of their own rates: where threads outnumber processors, each has its time when others wait, and a sum would
//! count them as if all had run at once.

use std::time::Duration;

/// What one thread did, and when: since a moment that is the same for all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub ops: u64,
    pub began: Duration,
    pub ended: Duration,
}

/// From the first one's beginning to the last one's end.
pub(crate) fn seconds(runs: &[Run]) -> f64 {
    let began = runs.iter().map(|run| run.began).min().unwrap_or_default();
    let ended = runs.iter().map(|run| run.ended).max().unwrap_or_default();
    (ended - began).as_secs_f64()
}

/// Operations of all in each of these seconds.
pub(crate) fn rate(runs: &[Run]) -> f64 {
    runs.iter().map(|run| run.ops).sum::<u64>() as f64 / seconds(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_take_turns_are_no_faster_than_one() {
        let run = |began, ended| Run {
            ops: 1000,
            began: Duration::from_secs(began),
            ended: Duration::from_secs(ended),
        };
        assert_eq!(rate(&[run(3, 5)]), 500.0);
        assert_eq!(rate(&[run(3, 5), run(5, 7)]), 500.0);
        assert_eq!(rate(&[run(3, 5), run(3, 5)]), 1000.0);
    }
}
