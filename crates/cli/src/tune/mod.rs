//! `tune`: which nodes and leaves suit this machine.

mod curves;
mod leaves;

use crate::args::{ensure_outside, ensure_place};
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::progress::Meter;
use crate::whole_file::WholeFile;
use clap::Args;
use foreshore_index::calibrate::experiment::{self, Plan};
use foreshore_index::calibrate::{Leaves, Machine, Profile, Searches};
use std::io::Write;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  foreshore tune
  foreshore tune --quick --out quick.toml
  foreshore tune --entries 20000000
  foreshore load --profile foreshore-tune.toml --table log --key time log.csv
  foreshore bench index --structure bplus --profile foreshore-tune.toml

What is measured, for each size of key and tree:
  maps      inserts, lookups one by one, lookups in batches of 64, scans of 100,
            for each node size
  searches  inserts and lookups, for each node size, by linear, binary, hybrid
            and SIMD search, with and without prefetch, in huge pages and in
            small ones
  leaves    puts, gets and scans of 100 small rows in the engine, for each leaf
            size; in memory

Node and leaf sizes are what maps and tables take from the profile. The searches
say whether the maps' own (hybrid, with prefetch, in huge pages) is right for
this machine; the maps keep it.

Whatever is compared takes turns, so a machine that is busy with something else
is unjust to all alike; leave it alone nevertheless. In Rust:
TunedMap::tuned(&Profile::load(\"foreshore-tune.toml\")?, Favour::Lookups), and
Database::builder().profile(&profile, Favour::Lookups).";

/// Measure which nodes and leaves suit this machine, and write it down for maps, tables and benchmarks
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct TuneArgs {
    /// Two tree sizes and few turns: under a minute instead of some minutes, and rougher
    #[arg(long)]
    quick: bool,
    /// Tree sizes to measure, separated by commas, if you know yours [default: 100000,1000000,4000000; quick: without the last]
    #[arg(long, value_name = "N,N", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1000..=100_000_000))]
    entries: Option<Vec<u64>>,
    /// Where to write the profile, which replaces an older one
    #[arg(long, value_name = "FILE", default_value = "foreshore-tune.toml")]
    out: PathBuf,
    /// Print one JSON object per figure
    #[arg(long)]
    json: bool,
}

/// Runs `tune`.
pub fn run(args: &TuneArgs) -> Outcome {
    ensure_outside("--out", &args.out, None)?;
    ensure_place(&args.out)?;
    let profile = measure(&args.plan())?;
    // What was measured is shown all the same, if that fails.
    let written = write(&args.out, &text(&profile));
    let mut out = Output::new(args.json);
    if out.is_json() {
        curves::objects(&mut out, &profile)?;
    } else {
        curves::print(&mut out, &profile)?;
        if written.is_ok() {
            out.line(format_args!("written to {}", args.out.display()))?;
        }
    }
    out.finish()?;
    written
}

/// In place of the last one, which stays if this cannot be written.
fn write(path: &Path, text: &str) -> Outcome {
    let mut file = WholeFile::create(path)?;
    let written = file.write_all(text.as_bytes()).map_err(|e| Failure::io(path.display(), &e));
    written.and_then(|()| file.keep()).map_err(|e| e.note("give --out a file that can be written"))
}

impl TuneArgs {
    fn plan(&self) -> Plan {
        let mut plan = if self.quick { Plan::quick() } else { Plan::full() };
        if let Some(entries) = &self.entries {
            plan.entries.clone_from(entries);
            plan.entries.sort_unstable();
            plan.entries.dedup();
        }
        plan
    }
}

/// Both experiments, with progress.
fn measure(plan: &Plan) -> Outcome<Profile> {
    let before = plan.steps();
    let meter = Meter::new("tune", Some((before + leaves::steps(plan)) as u64));
    let (maps, searches) =
        experiment::run(plan, &mut |done, what| meter.set(done as u64, || what.to_string()));
    let leaves =
        leaves::measure(plan, &mut |done, what| meter.set((before + done) as u64, || what.to_string()))?;
    let mut profile = Profile::of(Machine::this(), maps);
    profile.leaf = Some(Leaves::of(leaves));
    profile.search = Some(Searches::of(searches));
    Ok(profile)
}

/// The profile, with a word for who opens the file.
fn text(profile: &Profile) -> String {
    format!(
        "# Written by `foreshore tune`: node sizes for maps and leaf sizes for tables on this machine; nanoseconds of one\n\
         # operation on one thread. What is chosen may be changed by hand: node_keys is 16, 32, 64 or 128, the sizes under\n\
         # [leaf] are 4096, 8192, 16384 or 32768.\n\n{}",
        profile.to_toml()
    )
}
