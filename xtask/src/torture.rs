//! `cargo xtask torture`: seeded crash and kill tests for hours, resumable.
//!
//! The ledger has one JSON object per line: which target ran with which seed, and how it went. A run that is stopped
//! loses at most the seed it was at; `--resume` goes on behind the greatest seed of each target. Many targets take a seed of its own for
//! each round, counting up from theirs: the next one begins behind those. What failed is repeated with the target's command and that seed.

use crate::step::{Cargo, Ran, Tests, choose};
use comfy_table::{Table, presets};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long, where to write, and where to begin.
#[derive(clap::Args)]
pub struct Options {
    /// Begin no seed after so many hours
    #[arg(long, default_value_t = 2.0)]
    hours: f64,
    /// Go on where the ledger ends
    #[arg(long)]
    resume: bool,
    /// First seed of a new ledger
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only these targets
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// The ledger; logs of failures lie beside it
    #[arg(long, default_value = "tmp/torture/ledger.jsonl")]
    ledger: PathBuf,
}

/// Something to torture: a test of the engine that reads `FORESHORE_SEED` and `FORESHORE_ROUNDS`.
struct Target {
    name: &'static str,
    /// Rounds for one seed, so that a seed takes about a minute.
    rounds: u64,
    /// Without the checks that only tests make, and so many more in the same time?
    release: bool,
}

/// Every target.
const TARGETS: &[Target] = &[
    Target { name: "crash", rounds: 1_000, release: true },
    Target { name: "kill", rounds: 300, release: true },
    Target { name: "serializable_crash", rounds: 600, release: false },
    Target { name: "lives", rounds: 200, release: false },
    Target { name: "transfers", rounds: 100, release: false },
    Target { name: "tables", rounds: 10, release: false },
    Target { name: "damage", rounds: 30_000, release: false },
    Target { name: "extents", rounds: 200, release: false },
    Target { name: "leaf_sizes", rounds: 600, release: false },
    Target { name: "crafted", rounds: 8_000, release: false },
];

/// Longer than this is a hang, and a finding.
const HANGS_AFTER: Duration = Duration::from_secs(15 * 60);

impl Target {
    fn command(&self, seed: u64) -> Cargo {
        self.cargo().env("FORESHORE_SEED", seed.to_string()).env("FORESHORE_ROUNDS", self.rounds.to_string())
    }

    fn cargo(&self) -> Cargo {
        let release = if self.release { " --release" } else { "" };
        Cargo::new(&format!("test -p foreshore{release} --test {}", self.name))
    }
}

/// A line of the ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    target: String,
    seed: u64,
    rounds: u64,
    seconds: f64,
    outcome: Outcome,
    /// What was tested.
    commit: String,
    /// Where the output of a failure is.
    log: Option<PathBuf>,
}

/// How a seed went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Passed,
    Failed,
    Hung,
}

impl Outcome {
    fn of(ran: &Ran) -> Self {
        match ran.status {
            // What runs no test proves nothing, however often.
            Some(status) if status.success() && ran.tests != Tests::default() => Self::Passed,
            Some(_) => Self::Failed,
            None => Self::Hung,
        }
    }
}

/// Tortures until the time is over. `Ok(true)` if the ledger has no finding.
pub fn run(options: &Options) -> io::Result<bool> {
    let mut targets: Vec<_> = TARGETS.iter().collect();
    choose(&mut targets, &options.only, "target", |target| target.name, |name, wanted| name == wanted)?;
    let mut ledger = Ledger::open(&options.ledger, options.resume)?;
    build(&targets, &ledger)?;
    let commit = commit()?;
    let duration = Duration::try_from_secs_f64(options.hours * 3600.0);
    let duration = duration.map_err(|e| io::Error::other(format!("--hours: {e}")))?;
    let deadline = Instant::now().checked_add(duration);
    let deadline = deadline.ok_or_else(|| io::Error::other("--hours: no clock counts so many"))?;
    for target in in_turn(&targets, || Instant::now() < deadline) {
        let seed = ledger.next_seed(target.name).unwrap_or(options.seed);
        let entry = torture(target, seed, &commit, &ledger)?;
        println!("{} seed {seed}: {:?} after {:.1} s", entry.target, entry.outcome, entry.seconds);
        ledger.append(entry)?;
    }
    ledger.summary(options.seed);
    Ok(ledger.findings().next().is_none())
}

/// Each target, over and over, while there is time: that is asked before each one.
fn in_turn<T>(targets: &[T], mut is_time: impl FnMut() -> bool) -> impl Iterator<Item = &T> {
    targets.iter().cycle().take_while(move |_| is_time())
}

/// Compiles all targets, so that a seed's time is its own and a compile error is no finding.
fn build(targets: &[&Target], ledger: &Ledger) -> io::Result<()> {
    const COMPILES_WITHIN: Duration = Duration::from_secs(30 * 60);
    for target in targets {
        let ran = target.cargo().no_run().run(&ledger.log("build", 0), true, COMPILES_WITHIN)?;
        if !ran.well() {
            return Err(io::Error::other(format!("{} does not compile", target.name)));
        }
    }
    Ok(())
}

/// One seed of one target. The log of a seed that passed is removed.
fn torture(target: &Target, seed: u64, commit: &str, ledger: &Ledger) -> io::Result<Entry> {
    let log = ledger.log(target.name, seed);
    let ran = target.command(seed).run(&log, false, HANGS_AFTER)?;
    let outcome = Outcome::of(&ran);
    let kept = outcome != Outcome::Passed;
    if !kept {
        std::fs::remove_file(&log)?;
    }
    Ok(Entry {
        target: target.name.to_owned(),
        seed,
        rounds: target.rounds,
        seconds: ran.took.as_secs_f64(),
        outcome,
        commit: commit.to_owned(),
        log: kept.then_some(log),
    })
}

/// What is tested: the commit, with a mark if the working tree differs.
fn commit() -> io::Result<String> {
    let output = std::process::Command::new("git").args(["describe", "--always", "--dirty"]).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The seeds done so far, on disk and in memory.
struct Ledger {
    path: PathBuf,
    file: File,
    entries: Vec<Entry>,
}

impl Ledger {
    /// Opens the ledger to go on, or begins one; an old one is neither overwritten nor mixed with by accident.
    fn open(path: &Path, resume: bool) -> io::Result<Self> {
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        if path.exists() && !resume {
            return Err(io::Error::other(format!("{} exists: --resume it, or name another", path.display())));
        }
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        // A last line without its end was cut off by a kill: its seed is done again.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        file.set_len(whole as u64)?;
        let entries = read(&text[..whole])?;
        Ok(Self { path: path.to_owned(), file, entries })
    }

    fn log(&self, target: &str, seed: u64) -> PathBuf {
        self.path.with_file_name(format!("{target}-{seed}.log"))
    }

    fn next_seed(&self, target: &str) -> Option<u64> {
        self.entries
            .iter()
            .filter(|entry| entry.target == target)
            .map(|entry| entry.seed + entry.rounds)
            .max()
    }

    fn append(&mut self, entry: Entry) -> io::Result<()> {
        writeln!(self.file, "{}", serde_json::to_string(&entry)?)?;
        self.file.sync_data()?;
        self.entries.push(entry);
        Ok(())
    }

    fn findings(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.outcome != Outcome::Passed)
    }

    /// Prints what the whole ledger says, and how to repeat each finding.
    fn summary(&self, first_seed: u64) {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(["target", "seeds", "rounds", "hours", "findings"]);
        for target in TARGETS {
            let entries: Vec<_> = self.entries.iter().filter(|entry| entry.target == target.name).collect();
            let rounds: u64 = entries.iter().map(|entry| entry.rounds).sum();
            let hours = entries.iter().map(|entry| entry.seconds).sum::<f64>() / 3600.0;
            let findings = entries.iter().filter(|entry| entry.outcome != Outcome::Passed).count();
            table.add_row([
                target.name.to_owned(),
                entries.len().to_string(),
                rounds.to_string(),
                format!("{hours:.2}"),
                findings.to_string(),
            ]);
        }
        println!("\n{table}\n");
        for entry in self.findings() {
            let again = TARGETS
                .iter()
                .find(|target| target.name == entry.target)
                .map(|t| t.command(entry.seed).shell());
            println!("{} seed {} ({:?}, {})", entry.target, entry.seed, entry.outcome, entry.commit);
            println!("    again: {}", again.unwrap_or_else(|| "the target is gone".into()));
        }
        if self.entries.is_empty() {
            println!("nothing ran; the first seed would be {first_seed}");
        }
    }
}

/// Reads a ledger's lines.
fn read(text: &str) -> io::Result<Vec<Entry>> {
    let entry = |(at, line)| {
        serde_json::from_str(line)
            .map_err(|error| io::Error::other(format!("ledger line {}: {error}", at + 1)))
    };
    text.lines().enumerate().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::ExitStatus;

    fn entry(target: &str, seed: u64, outcome: Outcome) -> Entry {
        let (target, commit) = (target.to_owned(), "abc".to_owned());
        Entry { target, seed, rounds: 5, seconds: 1.5, outcome, commit, log: None }
    }

    #[test]
    fn no_seed_begins_after_the_end() {
        let mut left = 4;
        let is_time = || {
            left -= 1;
            left >= 0
        };
        assert_eq!(in_turn(&["a", "b", "c"], is_time).collect::<Vec<_>>(), [&"a", &"b", &"c", &"a"]);
    }

    #[test]
    fn a_seed_that_tests_nothing_is_a_finding() {
        let ran = |passed| {
            let (status, tests) = (Some(ExitStatus::default()), Tests { passed, failed: 0 });
            Outcome::of(&Ran { status, tests, failed: Vec::new(), took: Duration::ZERO })
        };
        assert_eq!((ran(0), ran(3)), (Outcome::Failed, Outcome::Passed));
    }

    #[test]
    fn a_ledger_is_resumed_behind_its_last_whole_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger.jsonl");
        let mut ledger = Ledger::open(&path, false).unwrap();
        assert_eq!(ledger.next_seed("crash"), None);
        ledger.append(entry("crash", 7, Outcome::Passed)).unwrap();
        ledger.append(entry("crash", 8, Outcome::Failed)).unwrap();
        ledger.file.write_all(br#"{"target":"crash","se"#).unwrap();
        drop(ledger);
        assert!(Ledger::open(&path, false).is_err(), "an old ledger is not begun anew");
        drop(Ledger::open(&path, true).unwrap());
        let ledger = Ledger::open(&path, true).unwrap();
        assert_eq!((ledger.next_seed("crash"), ledger.next_seed("kill")), (Some(13), None));
        assert_eq!(ledger.findings().map(|entry| entry.seed).collect::<Vec<_>>(), [8]);
    }
}
