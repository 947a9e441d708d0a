//! `peers compare-index`: Foreshore's maps, `BTreeMap` and those of others by turns, each run a process of its own.
//!
//! What is compared are medians over the turns; beside each stands its ratio to `BTreeMap` on one thread, the median of the ratios
//! within a turn. Every single figure is kept in the CSV.

use super::Map;
use crate::compare::{median, name};
use crate::host;
use clap::ValueEnum;
use comfy_table::{Table, presets};
use foreshore_workloads::StoreError;
use foreshore_workloads::index_bench::KeyKind;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const YARDSTICK: &str = "std-btreemap";

/// What to compare.
#[derive(clap::Args)]
pub struct Options {
    /// The `foreshore` binary
    #[arg(long, value_name = "PATH")]
    foreshore: PathBuf,
    /// Foreshore's structures
    #[arg(long, value_delimiter = ',', default_value = "bplus")]
    own: Vec<String>,
    /// Maps of others [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    maps: Vec<Map>,
    /// What they are ordered by
    #[arg(long, value_enum, default_value_t = KeyKind::U64)]
    keys: KeyKind,
    /// Entries
    #[arg(long, default_value_t = 10_000_000)]
    n: u64,
    /// Thread counts
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,
    /// Seconds of each timed phase
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Turns
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    repeats: u64,
    /// Run all others in huge pages too, as Foreshore's structures always are
    #[arg(long)]
    huge_pages: bool,
    /// Seed of the first turn
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where `<date>-<host>/` is written; nothing is without it
    #[arg(long, value_name = "DIR", requires = "host")]
    results: Option<PathBuf>,
    /// A name for the machine, in the results
    #[arg(long, value_name = "NICKNAME")]
    host: Option<String>,
}

/// One structure in one setting, and the phases of each turn; none for a turn that it refused.
struct Subject {
    /// `None` is one of Foreshore's program.
    map: Option<Map>,
    structure: String,
    threads: usize,
    huge_pages: bool,
    turns: Vec<Vec<Value>>,
}

impl Subject {
    fn label(&self) -> String {
        if self.huge_pages { format!("{}, huge pages", self.structure) } else { self.structure.clone() }
    }

    /// A field of a phase, for each turn.
    fn fields<'a>(&'a self, phase: &'a str, field: &'a str) -> impl Iterator<Item = f64> + 'a {
        self.turns.iter().filter_map(move |phases| {
            phases.iter().find(|line| line["phase"] == phase).and_then(|line| line[field].as_f64())
        })
    }
}

/// Where results are kept, if they are.
struct Results {
    dir: PathBuf,
    name: String,
    /// The machine before the first run.
    host: String,
}

impl Results {
    fn of(options: &Options) -> Result<Option<Self>, StoreError> {
        let (Some(results), Some(host)) = (&options.results, &options.host) else { return Ok(None) };
        let dir = results.join(format!("{}-{host}", host::today()));
        std::fs::create_dir_all(&dir)?;
        let name = format!("index-{}", name(&options.keys));
        Ok(Some(Self { dir, name, host: host::describe(Path::new(".")) }))
    }

    /// Writes what there is so far.
    fn write(&self, options: &Options, subjects: &[Subject]) -> Result<(), StoreError> {
        let Self { dir, name, host } = self;
        std::fs::write(dir.join(format!("{name}.csv")), csv(options, subjects)?)?;
        std::fs::write(dir.join(format!("{name}.txt")), format!("{}\n", table(subjects)))?;
        let now = host::load();
        std::fs::write(dir.join(format!("{name}-host.txt")), format!("{host}load after: {now}\n"))?;
        Ok(())
    }
}

/// Runs all turns, prints the table. Results are written after each turn: an interrupted run leaves what it has.
///
/// Errors: a run that fails, or finds a wrong answer; results that cannot be written.
pub fn run(options: &Options) -> Result<(), StoreError> {
    let mut subjects = subjects(options);
    let results = Results::of(options)?;
    for turn in 0..options.repeats {
        for subject in &mut subjects {
            let (label, threads) = (subject.label(), subject.threads);
            eprintln!("turn {} of {}: {label} × {threads}", turn + 1, options.repeats);
            subject.turns.push(measure(options, subject, options.seed + turn)?);
        }
        results.iter().try_for_each(|results| results.write(options, &subjects))?;
    }
    println!("{}", table(&subjects));
    Ok(())
}

fn subjects(options: &Options) -> Vec<Subject> {
    let yardstick = [(None, YARDSTICK.to_owned())];
    let own = options.own.iter().map(|structure| (None, structure.clone()));
    let all = if options.maps.is_empty() { Map::value_variants() } else { &options.maps };
    let maps = all.iter().filter(|map| map.takes(options.keys)).map(|map| (Some(*map), name(map)));
    let structures: Vec<(Option<Map>, String)> = yardstick.into_iter().chain(own).chain(maps).collect();
    let mut subjects = Vec::new();
    for &threads in &options.threads {
        for (map, structure) in &structures {
            let others = map.is_some() || structure == YARDSTICK;
            // The yardstick runs on one thread, whatever is asked.
            let is_yardstick = structure == YARDSTICK;
            if is_yardstick && threads != options.threads[0] {
                continue;
            }
            let settings = if others && options.huge_pages { &[false, true][..] } else { &[false] };
            subjects.extend(settings.iter().map(|&huge_pages| Subject {
                map: *map,
                structure: structure.clone(),
                threads: if is_yardstick { 1 } else { threads },
                huge_pages,
                turns: Vec::new(),
            }));
        }
    }
    subjects
}

fn measure(options: &Options, subject: &Subject, seed: u64) -> Result<Vec<Value>, StoreError> {
    let mut command = match subject.map {
        None => Command::new(&options.foreshore),
        Some(_) => Command::new(std::env::current_exe()?),
    };
    command.args(["bench", "index", "--structure", &subject.structure, "--keys", &name(&options.keys)]);
    for (flag, value) in [
        ("--n", options.n.to_string()),
        ("--threads", subject.threads.to_string()),
        ("--seconds", options.seconds.to_string()),
        ("--seed", seed.to_string()),
    ] {
        command.args([flag, &value]);
    }
    if subject.huge_pages {
        command.arg("--huge-pages");
    }
    let output = command.arg("--json").output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?} failed ({}): {said}", output.status).into());
    }
    let lines = String::from_utf8_lossy(&output.stdout);
    Ok(lines.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

const PHASES: [&str; 6] = ["insert", "lookup", "multi_get", "scan100", "zipf", "mixed"];

fn table(subjects: &[Subject]) -> Table {
    let mut table = Table::new();
    let header = ["structure", "threads"].into_iter().chain(PHASES).chain(["bytes/key"]);
    table.load_style(presets::NOTHING).set_header(header);
    let yardstick = subjects.iter().find(|subject| subject.structure == YARDSTICK).expect("it always runs");
    for subject in subjects {
        let mut row = vec![subject.label(), subject.threads.to_string()];
        row.extend(PHASES.map(|phase| rate(subject, yardstick, phase)));
        let bytes = median(subject.fields("lookup", "bytes_per_key").collect());
        row.push(bytes.map_or("-".to_owned(), |bytes| format!("{bytes:.1}")));
        table.add_row(row);
    }
    table
}

/// Millions a second, and how many times the yardstick's.
fn rate(subject: &Subject, yardstick: &Subject, phase: &str) -> String {
    let Some(rate) = median(subject.fields(phase, "ops_per_s").collect()) else { return "-".to_owned() };
    // Batches of lookups are compared with its single ones.
    let as_phase = if phase == "multi_get" { "lookup" } else { phase };
    let ratios = subject
        .fields(phase, "ops_per_s")
        .zip(yardstick.fields(as_phase, "ops_per_s"))
        .map(|(rate, yardstick)| rate / yardstick);
    let ratio = median(ratios.collect()).map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
    format!("{:.2} M ({ratio})", rate / 1e6)
}

fn csv(options: &Options, subjects: &[Subject]) -> Result<String, std::fmt::Error> {
    let mut csv =
        String::from("structure,huge_pages,threads,turn,phase,ops_per_s,bytes_per_key,keys,n,seconds,seed\n");
    for subject in subjects {
        for (turn, phases) in (1..).zip(&subject.turns) {
            for line in phases {
                writeln!(
                    csv,
                    "{},{},{},{turn},{},{},{},{},{},{},{}",
                    subject.structure,
                    subject.huge_pages,
                    subject.threads,
                    line["phase"].as_str().unwrap_or_default(),
                    line["ops_per_s"],
                    line["bytes_per_key"],
                    name(&options.keys),
                    options.n,
                    options.seconds,
                    line["seed"],
                )?;
            }
        }
    }
    Ok(csv)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    /// The yardstick's row says on how many threads it ran, not which number was asked first.
    #[test]
    fn the_yardstick_runs_once_on_one_thread() {
        let line = ["compare-index", "--foreshore", "foreshore", "--maps", "scc", "--threads", "2,4"];
        let subjects = subjects(&Line::parse_from(line).options);
        let runs: Vec<_> = subjects.iter().map(|run| (run.structure.as_str(), run.threads)).collect();
        assert_eq!(runs, [(YARDSTICK, 1), ("bplus", 2), ("scc", 2), ("bplus", 4), ("scc", 4)]);
    }

    /// It would say that it wrote results, and have none.
    #[test]
    fn no_turns_are_refused() {
        let takes = |repeats| {
            Line::try_parse_from(["compare-index", "--foreshore", "foreshore", "--repeats", repeats]).is_ok()
        };
        assert!(takes("1") && !takes("0"));
    }
}
