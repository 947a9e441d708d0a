//! The O2-Tree paper's Figure 9: how many problems a build leaves to the rebalancer.

use crate::frame::{Drawn, Figure, LabError, Panel, Paper, Scale, Settings, Source, Tell, Verdict};
use foreshore_index::O2Map;
use foreshore_workloads::random::Permutation;

/// The figure.
pub const FIGURES: &[Figure] = &[Figure {
    name: "o2-fig9",
    paper: Paper::O2Tree,
    title: "O2-Tree Figure 9: problems queued, by size and threads",
    found: "The total number of problems queued while an index is built grows with its size.",
    differs: "The rebalancer is not a thread: an updater that left a problem empties the queue, unless somebody is doing so. Problems are counted as they are queued; how many wait at a time, about 8 in the paper, is not measured.",
    draw: problems,
}];

fn key(number: u64) -> u32 {
    ((number as u32).wrapping_mul(0x9E37_79B1)).min(u32::MAX - 1)
}

/// Builds a map of `n` keys in random order by `threads` threads; returns how many problems were queued.
fn build(n: u64, threads: usize, seed: u64) -> Result<u64, LabError> {
    let map = O2Map::<u32>::new();
    let order = Permutation::new(n, seed);
    std::thread::scope(|scope| {
        for thread in 0..threads as u64 {
            let (map, order) = (&map, order.clone());
            scope.spawn(move || {
                let map = map.pin();
                for at in (thread..n).step_by(threads) {
                    map.insert(key(order.at(at)), at);
                }
            });
        }
    });
    let pinned = map.pin();
    let wrong = (0..n).filter(|at| pinned.get(key(order.at(*at))) != Some(*at)).count();
    if wrong > 0 {
        return Err(LabError::Wrong(format!("O2: {wrong} of {n} keys are not there")));
    }
    drop(pinned);
    map.check().map_err(|broken| LabError::Wrong(format!("O2: {broken}")))?;
    Ok(map.stats().problems)
}

/// Figure 9.
fn problems(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let least: u64 = settings.pick(25_000, 1_250_000);
    let sizes = [1, 2, 4, 8].map(|times| times * least);
    let mut panel = Panel::new(
        "Random insertions, by threads",
        Source::Measured,
        "keys",
        "problems queued",
        Scale::Doubling,
    );
    for (at, n) in sizes.into_iter().enumerate() {
        for threads in settings.threads() {
            tell(at as f64 / sizes.len() as f64, &format!("{n} keys by {threads} threads"));
            let queued = build(n, threads, settings.seed)?;
            panel.add(&format!("by {threads}"), n as f64, queued as f64);
        }
    }
    let grows = |series: &crate::frame::Series| series.points.windows(2).all(|pair| pair[0].1 < pair[1].1);
    let (small, large) = (panel.series[0].points[0], panel.series[0].points[sizes.len() - 1]);
    let sentence = format!(
        "{:.0} problems with {} keys, {:.0} with {}: {:.1} and {:.1} per thousand keys.",
        small.1,
        small.0,
        large.1,
        large.0,
        1e3 * small.1 / small.0,
        1e3 * large.1 / large.0
    );
    let conditions: Vec<_> = panel.series.iter().map(grows).collect();
    let settings = vec![("keys_least", least.to_string())];
    Ok(Drawn { verdict: Verdict::of(&conditions, sentence), panels: vec![panel], settings })
}
