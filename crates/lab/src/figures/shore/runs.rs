//! Many runs of some engines: by turns, so that a slow minute of the machine meets all of them.

use crate::frame::{LabError, Settings, Tell, median};
use crate::peers::{Missing, Subject, Versions};

/// Record insertion, row by row, as the paper has it. A call for many rows would be another benchmark, of which the model knows
/// nothing.
pub const INSERT: &str = "insert --durability buffered --rows-per-call 1 --warm-up 0.2";

/// How long and how often.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Seconds of a timed phase.
    pub seconds: f64,
    /// Rounds of which the median counts.
    pub rounds: usize,
}

/// What a series of runs found.
#[derive(Debug, Default)]
pub struct Rates {
    /// Name of the engine, threads, operations per second of all threads.
    points: Vec<(String, usize, f64)>,
    /// Engines that were not measured, and why.
    pub missing: Missing,
    /// Of the engines that say which they have.
    pub versions: Versions,
}

impl Rates {
    /// The engines that were measured, in their order.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.points.iter().map(|point| point.0.as_str()).collect();
        names.dedup();
        names
    }

    /// Threads and operations per second of an engine.
    pub fn of(&self, name: &str) -> impl Iterator<Item = (usize, f64)> {
        self.points.iter().filter(move |point| point.0 == name).map(|point| (point.1, point.2))
    }
}

impl Effort {
    /// For a file's header.
    pub fn header(&self, settings: &Settings) -> Vec<(&'static str, String)> {
        vec![
            settings.programs.filesystem(),
            ("seconds", self.seconds.to_string()),
            ("rounds", format!("{}, by turns; medians", self.rounds)),
            ("durability", "buffered, where nothing else is said".to_owned()),
        ]
    }

    /// Measures every subject at each number of threads. `args` says what is run, threads and seconds apart. An engine
    /// that refuses or fails once is left out, also where it has run.
    ///
    /// Errors: a run of this engine that fails, and wrong answers.
    pub fn measure(
        &self,
        subjects: &[Subject],
        threads: &[usize],
        args: &[String],
        seed: u64,
        tell: Tell<'_>,
    ) -> Result<Rates, LabError> {
        let mut missing = Missing::default();
        let mut versions = Versions::default();
        let mut found = vec![vec![Vec::new(); threads.len()]; subjects.len()];
        for round in 0..self.rounds {
            for (at, &threads) in threads.iter().enumerate() {
                for (subject, found) in subjects.iter().zip(&mut found) {
                    if missing.has(&subject.name) {
                        continue;
                    }
                    tell(round as f64 / self.rounds as f64, &format!("{} × {threads}", subject.name));
                    let run = subject.bench(&self.args(args, threads, seed.wrapping_add(round as u64)))?;
                    if let Some((rate, report)) = missing.or_found(&subject.name, run) {
                        versions.note(&subject.name, &report);
                        found[at].push(rate);
                    } else {
                        found.iter_mut().for_each(Vec::clear);
                    }
                }
            }
        }
        let mut points = Vec::new();
        for (subject, found) in subjects.iter().zip(found) {
            for (&threads, found) in threads.iter().zip(found).filter(|(_, found)| !found.is_empty()) {
                points.push((subject.name.clone(), threads, median(found)));
            }
        }
        Ok(Rates { points, missing, versions })
    }

    fn args(&self, args: &[String], threads: usize, seed: u64) -> Vec<String> {
        let mut all = args.to_vec();
        for (flag, value) in [
            ("--threads", threads.to_string()),
            ("--seconds", self.seconds.to_string()),
            ("--seed", seed.to_string()),
        ] {
            all.extend([flag.to_owned(), value]);
        }
        all
    }
}

/// Words of a command line.
pub fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}
