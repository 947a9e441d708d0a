//! `tune`: which node size suits this machine.

use crate::failure::{Failure, Outcome};
use crate::output::{Output, grouped};
use crate::progress::Meter;
use clap::Args;
use foreshore_index::calibrate::experiment::{self, Measured, Plan};
use foreshore_index::calibrate::{Machine, Profile};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  foreshore tune
  foreshore tune --quick --out quick.toml
  foreshore bench index --structure bplus --profile foreshore-tune.toml --favour lookups

For each size of key, tree and node: inserts, lookups one by one, lookups in batches of 64, scans of 100. The sizes take
turns, so a machine that is busy with something else is unjust to all of them alike; leave it alone nevertheless.
In Rust: TunedMap::tuned(&Profile::load(\"foreshore-tune.toml\")?, Favour::Lookups).";

/// Measure which node size suits this machine, and write it down for maps and benchmarks
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct TuneArgs {
    /// Two tree sizes and few turns: under a minute instead of some minutes, and rougher
    #[arg(long)]
    quick: bool,
    /// Where to write the profile, which replaces an older one
    #[arg(long, value_name = "FILE", default_value = "foreshore-tune.toml")]
    out: PathBuf,
    /// Print one JSON object per key, tree and node size
    #[arg(long)]
    json: bool,
}

/// Runs `tune`.
pub fn run(args: &TuneArgs) -> Outcome {
    let plan = if args.quick { Plan::quick() } else { Plan::full() };
    let meter = Meter::new("tune", Some(plan.steps() as u64));
    let measured = experiment::run(&plan, &mut |done, what| meter.set(done as u64, || what.to_string()));
    drop(meter);
    let profile = Profile::of(Machine::this(), measured);
    std::fs::write(&args.out, text(&profile))
        .map_err(|e| Failure::io(args.out.display(), &e).note("give --out a file that can be written"))?;

    let mut out = Output::new(args.json);
    if out.is_json() {
        profile.measured.iter().try_for_each(|figures| out.object(figures))?;
    } else {
        curves(&mut out, &profile)?;
        choices(&mut out, &profile)?;
        out.line(format_args!("written to {}", args.out.display()))?;
    }
    out.finish()
}

/// The profile, with a word for who opens the file.
fn text(profile: &Profile) -> String {
    format!(
        "# Written by `foreshore tune`. Node sizes for maps on this machine; nanoseconds of one operation on one thread.\n\
         # A choice may be changed by hand: node_keys is 16, 32, 64 or 128.\n\n{}",
        profile.to_toml()
    )
}

/// Every figure, with lookups as bars: the longer, the slower.
fn curves(out: &mut Output, profile: &Profile) -> Outcome {
    let row = |m: &Measured| {
        let slowest = same_tree(profile, m).map(|m| m.lookup_ns).fold(0.0, f64::max);
        [
            m.key_bytes.to_string(),
            grouped(m.entries),
            m.node_keys.get().to_string(),
            format!("{:.0}", m.insert_ns),
            format!("{:.0}", m.multi_get_ns),
            format!("{:.0}", m.scan_ns),
            format!("{:.0}", m.lookup_ns),
            "█".repeat((m.lookup_ns / slowest * 20.0).round() as usize),
        ]
    };
    let header =
        ["key bytes", "entries", "node keys", "insert ns", "batched ns", "scan100 ns", "lookup ns", "lookup"];
    out.table(header, &profile.measured.iter().map(row).collect::<Vec<_>>())
}

/// The figures of all node sizes for the same keys and tree size.
fn same_tree<'p>(profile: &'p Profile, of: &'p Measured) -> impl Iterator<Item = &'p Measured> {
    profile.measured.iter().filter(|m| m.key_bytes == of.key_bytes && m.entries == of.entries)
}

/// What follows from the figures.
fn choices(out: &mut Output, profile: &Profile) -> Outcome {
    let rows = profile.choices.iter().map(|choice| {
        let favour = format!("{:?}", choice.favour).to_lowercase();
        [choice.key_bytes.to_string(), favour, choice.node_keys.get().to_string()]
    });
    out.table(["key bytes", "favour", "node keys"], &rows.collect::<Vec<_>>())
}
