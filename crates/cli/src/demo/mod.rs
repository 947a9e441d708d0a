//! `demo`: the engine's main promise, shown from beginning to end.
//!
//! A child process runs TPC-C's clients on a durable database and tells each acknowledged commit through a pipe. In the middle
//! it is killed with SIGKILL. This process then opens the database again, looks for every acknowledged transaction, checks
//! TPC-C's consistency conditions, which no half transaction keeps, goes on where the child was, and checks all again.

mod chart;
mod child;
mod clients;
mod journal;
mod live;
mod message;
mod spec;
mod steps;
mod story;
mod verify;

use crate::args::{ensure_beside_databases, ensure_outside, ensure_place};
use crate::failure::{Failure, Kind, Outcome};
use crate::scratch::{Scratch, remove_on_interrupt};
use clap::Args;
use spec::DemoSpec;
use std::path::{Path, PathBuf};

pub use child::{ChildArgs, run_child};

const EXAMPLES: &str = "\
Examples:
  foreshore demo
  foreshore demo --warehouses 8 --seconds 60 --durability buffered
  foreshore demo --dir demo.db --keep && foreshore tables --dir demo.db --count

TPC-C is a benchmark: the orders, payments and deliveries of a wholesaler. Here
it runs without pauses, so its figures are no TPC-C results. Exit code 3 if
anything was lost.";

/// TPC-C, kill -9 in the middle, recover, verify, go on: nothing may be lost
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct DemoArgs {
    /// Directory for the database: absent or empty [default: a new one under the system's directory for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Do not remove the database afterwards
    #[arg(long)]
    keep: bool,
    /// Seconds of transactions, two thirds of them before the kill
    #[arg(long, default_value_t = 18.0, value_parser = parse_seconds)]
    seconds: f64,
    /// Where to write the chart of throughput and latency
    #[arg(long, value_name = "PATH", default_value = "foreshore-demo.svg")]
    svg: PathBuf,
    /// Print one JSON object per step
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    spec: DemoSpec,
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|s: &f64| (0.1..=86_400.0).contains(s));
    seconds.ok_or_else(|| "expected seconds, from 0.1 to a day".into())
}

/// Runs `demo`.
pub fn run(args: &DemoArgs) -> Outcome {
    ensure_place(&args.svg)?;
    let (dir, temporary) = directory(args)?;
    let scratch = if temporary.is_some() { Scratch::made(&dir) } else { Scratch::named(&dir) };
    ensure_outside("--svg", &args.svg, Some(&dir))?;
    if !args.keep {
        remove_on_interrupt(scratch.clone())?;
    }
    let outcome = story::tell(args, &dir);
    // Who reads no further has seen what he wanted to see.
    let has_failed = outcome.as_ref().is_err_and(|failure| failure.kind != Kind::ReaderGone);
    if args.keep || has_failed {
        // Whoever wants to know what went wrong needs the evidence.
        temporary.map(tempfile::TempDir::keep);
        return outcome.map_err(|failure| {
            let left = format!("the database is left in {}", dir.display());
            verdict(if holds_anything(&dir) { failure.note(left) } else { failure })
        });
    }
    scratch.remove().map_err(|e| Failure::io(dir.display(), &e))?;
    outcome
}

/// Adds the last line, which says whether anything was lost.
fn verdict(failure: Failure) -> Failure {
    match failure.kind {
        Kind::Corrupt => failure.note("something was lost or broken: see above"),
        _ => failure.note("the demonstration did not get to its end; nothing is known to be lost"),
    }
}

fn holds_anything(dir: &Path) -> bool {
    std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some())
}

/// The directory to use, and its guard if it is a temporary one.
fn directory(args: &DemoArgs) -> Outcome<(PathBuf, Option<tempfile::TempDir>)> {
    if let Some(dir) = &args.dir {
        return match holds_anything(dir) {
            true => Err(Failure::usage(format!("{} is not empty; name a new directory", dir.display()))),
            false => ensure_beside_databases(dir).map(|()| (dir.clone(), None)),
        };
    }
    let place = std::env::temp_dir();
    let made = tempfile::Builder::new().prefix("foreshore-demo-").tempdir_in(&place);
    let made = made.map_err(|e| Failure::io(place.display(), &e).note("name another place with --dir"))?;
    Ok((made.path().to_path_buf(), Some(made)))
}
