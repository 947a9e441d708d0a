//! `stats`: the counters of a database that nobody else has open; `--watch`: one that somebody has.
//!
//! Why two: the counters live in the process that has the database open, and nobody else can open it meanwhile. What others
//! can see of it are its files, and what the system tells of the process (`outside.rs`). A process that wants to show its
//! counters does so itself: `bench --watch`, `.stats` in the shell, `Database::stats` in a program (`inside.rs`).

pub mod inside;
mod outside;

use crate::args::{DbArgs, is_database};
use crate::failure::{Failure, Outcome};
use crate::signals::reader_is_gone;
use clap::Args;
use foreshore_workloads::parse_seconds;
use outside::Outside;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  foreshore stats
  foreshore stats --json | jq .leaf_file_bytes
  foreshore stats --watch                     what another process does with it
  foreshore stats --watch 10 --times 6 --json

The counters belong to the process that has the database open, and end with it.
So --watch shows what can be seen from outside: how large the files are, and
what the process that has them open uses. A program shows its own counters with
`Database::stats`; `foreshore bench --watch 1` does, and so does .stats in
`foreshore shell`. While no process has the database open, --watch says so once
and waits for one; with --json each look is an object, whoever has it open.";

/// Print the database's counters and sizes
///
/// Counters begin when the database is opened, which this command does; bytes are bytes, *_ns nanoseconds. With --watch
/// the database is not opened, so others may use it.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct StatsArgs {
    #[command(flatten)]
    db: DbArgs,
    /// Watch from outside, every so many seconds
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", value_parser = parse_seconds)]
    watch: Option<Duration>,
    /// Look so many times, then end
    #[arg(long, value_name = "N", requires = "watch", default_value_t = u64::MAX, hide_default_value = true)]
    times: u64,
}

/// Runs `stats`.
pub fn run(args: &StatsArgs) -> Outcome {
    match args.watch {
        Some(every) => watch(args, every),
        None => print(args),
    }
}

fn print(args: &StatsArgs) -> Outcome {
    let stats = args.db.open()?.stats();
    let mut out = args.db.output();
    if out.is_json() {
        out.object(&stats)?;
    } else {
        out.fields(&stats)?;
    }
    out.finish()
}

fn watch(args: &StatsArgs, every: Duration) -> Outcome {
    args.db.ensure_exists()?;
    if !is_database(&args.db.dir) {
        let dir = args.db.dir.display();
        return Err(Failure::usage(format!("{dir} is no database; --dir names another directory")));
    }
    let mut before = None;
    let mut was_closed = false;
    for time in 0..args.times {
        // The first look is at once: it shows sizes, and rates need two.
        if time > 0 {
            std::thread::sleep(every);
        }
        let now = Outside::look(&args.db.dir)?;
        let seen = now.since(before.as_ref());
        let mut out = args.db.output();
        if out.is_json() {
            out.object(&seen)?;
        } else if !(was_closed && seen.is_closed()) {
            out.line(&seen)?;
            if seen.is_closed() && time + 1 < args.times {
                out.line("waiting for a process to open it; Ctrl-C ends the watch")?;
            }
        }
        out.finish()?;
        was_closed = seen.is_closed();
        before = Some(now);
        // While nothing is said, nothing else tells.
        if was_closed && reader_is_gone() {
            break;
        }
    }
    Ok(())
}
