//! `scan`: rows in key order.

use crate::args::{DbArgs, existing_table};
use crate::failure::Outcome;
use crate::rows::{Shape, Target};
use clap::Args;
use foreshore::{ByteRange, ByteTable};
use std::ops::Bound;

const EXAMPLES: &str = "\
Examples:
  foreshore scan --table flights --prefix 2011,12,24,WN
  foreshore scan --table flights --from 2011,6 --to 2011,7         June
  foreshore scan --table ports --reverse --limit 10 --json         the last ten
  foreshore scan --table ports --from S --to T";

/// Print rows in key order
///
/// A table made by `load` prints its records; any other one key, tab, value, with unprintable bytes as \xx.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ScanArgs {
    #[command(flatten)]
    db: DbArgs,
    #[command(flatten)]
    target: Target,
    /// First key, or its leading columns; included
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    from: Option<String>,
    /// Key to stop before, or its leading columns
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    to: Option<String>,
    /// Only keys that begin so, or with these leading columns
    #[arg(long, value_name = "KEY", allow_hyphen_values = true, conflicts_with_all = ["from", "to"])]
    prefix: Option<String>,
    /// Descending
    #[arg(long)]
    reverse: bool,
    /// At most so many rows
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    limit: u64,
}

/// Runs `scan`.
pub fn run(args: &ScanArgs) -> Outcome {
    let db = args.db.open()?;
    let table = existing_table(&db, &args.target.table)?;
    let mut shape = Shape::of(&db, &args.target)?;
    let mut rows = range(args, &shape, &table)?;
    let mut out = args.db.output();
    for _ in 0..args.limit {
        let next = if args.reverse { rows.next_back() } else { rows.next() };
        let Some(row) = next else { break };
        let (key, value) = row?;
        if out.is_json() {
            shape.object(&mut out, &key, &value)?;
        } else {
            out.line(shape.line(&key, &value))?;
        }
    }
    out.finish()
}

fn range(args: &ScanArgs, shape: &Shape, table: &ByteTable) -> Outcome<ByteRange> {
    if let Some(prefix) = &args.prefix {
        return Ok(table.prefix(&shape.prefix(prefix)?));
    }
    let bound = |text: &Option<String>| text.as_ref().map(|text| shape.prefix(text)).transpose();
    let from = bound(&args.from)?.map_or(Bound::Unbounded, Bound::Included);
    let to = bound(&args.to)?.map_or(Bound::Unbounded, Bound::Excluded);
    Ok(table.range((from, to)))
}
