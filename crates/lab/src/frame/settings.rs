//! What a figure may be asked to vary: the seed, and how much time it takes.

use crate::peers::Programs;
use std::path::PathBuf;

/// The figure that loads tables of flights.
pub(crate) const OF_FLIGHTS: &str = "o2-fig10";

/// How to draw a figure. All random choices descend from `seed`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where all randomness comes from.
    pub seed: u64,
    /// Small sizes: the whole laboratory in minutes. Shapes that need more than the processor's caches are not seen then.
    pub quick: bool,
    /// Threads of the largest measured run.
    pub threads_max: usize,
    /// What is run to measure whole engines.
    pub programs: Programs,
    /// Tables of flights, for the figure that loads real rows (`o2-fig10`).
    pub flights: Vec<PathBuf>,
}

impl Settings {
    /// The sizes of the papers, or a part of them where those would take hours, on all processors of this machine. What is
    /// smaller says so (`Figure::differs`).
    pub fn full(seed: u64) -> Self {
        let threads_max = std::thread::available_parallelism().map_or(1, usize::from);
        Self { seed, quick: false, threads_max, programs: Programs::default(), flights: Vec::new() }
    }

    /// Small sizes, on at most two processors.
    pub fn quick(seed: u64) -> Self {
        let full = Self::full(seed);
        Self { quick: true, threads_max: full.threads_max.min(2), ..full }
    }

    /// `quick` sizes or `full` ones.
    pub fn pick<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    /// 1, 2, 4 … up to and including `threads_max`.
    pub fn threads(&self) -> Vec<usize> {
        let mut threads: Vec<_> =
            std::iter::successors(Some(1), |n| Some(2 * n)).take_while(|&n| n < self.threads_max).collect();
        threads.push(self.threads_max);
        threads
    }

    /// The command that draws `figure` with these settings, in the folder of the tables of flights, if it loads any.
    pub fn command(&self, figure: &str) -> String {
        let quick = if self.quick { " --quick" } else { "" };
        let names: Vec<_> = self.flights.iter().filter_map(|file| file.file_name()?.to_str()).collect();
        let flights = match figure {
            OF_FLIGHTS if !names.is_empty() => format!(" --flights {}", names.join(",")),
            _ => String::new(),
        };
        format!("foreshore lab {figure} --seed {} --threads {}{quick}{flights}", self.seed, self.threads_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_double_up_to_the_machine() {
        let threads = |threads_max| Settings { threads_max, ..Settings::full(1) }.threads();
        assert_eq!(threads(1), [1]);
        assert_eq!(threads(2), [1, 2]);
        assert_eq!(threads(6), [1, 2, 4, 6]);
    }

    /// What a figure's header says draws the figure again, and tells nothing of where files lie here.
    #[test]
    fn the_command_names_all_that_was_given() {
        let flights = ["/data/a.csv.gz", "b.csv"].map(PathBuf::from).to_vec();
        let settings = Settings { threads_max: 2, ..Settings::full(7) };
        assert_eq!(settings.command("o2-fig10"), "foreshore lab o2-fig10 --seed 7 --threads 2");
        let settings = Settings { flights, quick: true, ..settings };
        let expected = "foreshore lab o2-fig10 --seed 7 --threads 2 --quick --flights a.csv.gz,b.csv";
        assert_eq!(settings.command("o2-fig10"), expected);
        assert_eq!(settings.command("o2-fig4"), "foreshore lab o2-fig4 --seed 7 --threads 2 --quick");
    }
}
