//! `compact`: the database in as few bytes as it takes.

use crate::args::DbArgs;
use crate::backup::{show, summary};
use crate::failure::Outcome;
use crate::output::size;
use crate::progress::Meter;
use clap::Args;

const EXAMPLES: &str = "\
Examples:
  foreshore compact
  foreshore compact --dir flights.db --json

Files that have grown are reused, not shrunk, while a database is in use; this
gives their space back.";

/// Rewrite the database without holes, to give space back to the disk
///
/// Nobody may have the database open. The result is written beside it, into the directory with .compacting behind its
/// name, and then takes its place, so there must be room for both. The database is whole at every moment, also if this is
/// interrupted.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct CompactArgs {
    #[command(flatten)]
    db: DbArgs,
}

/// Runs `compact`.
pub fn run(args: &CompactArgs) -> Outcome {
    args.db.ensure_exists()?;
    let compacted = {
        let meter = Meter::new("compact", None);
        let compacted = args.db.builder().compact(&args.db.dir, |so_far| show(&meter, so_far));
        compacted.map_err(|error| args.db.not_opened(error))?
    };
    let mut out = args.db.output();
    if out.is_json() {
        out.object(&compacted)?;
    } else {
        let (before, now) = (size(compacted.bytes_before), size(compacted.bytes_now));
        out.line(format!("{before} before, {now} now: {}", summary(&compacted.copied)))?;
    }
    out.finish()
}
