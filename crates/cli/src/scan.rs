//! `scan`: rows in key order.

use crate::args::{DbArgs, existing_table};
use crate::failure::Outcome;
use crate::keys::KeyRange;
use crate::rows::{Shape, Target};
use crate::shell::print::{Mode, Rows};
use clap::Args;

const EXAMPLES: &str = "\
Examples:
  foreshore scan --table flights --prefix 2011,12,24,WN
  foreshore scan --table flights --from 2011,6 --to 2011,7         June
  foreshore scan --table ports --reverse --limit 10 --json         the last ten
  foreshore scan --table ports --from S --to T
  foreshore scan --table flights --csv > flights.csv       `load` reads it back
  foreshore scan --table stock --key-type str,u32 --value-type i64 --prefix nail
                                             of a program's typed table";

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
    #[command(flatten)]
    range: KeyRange,
    /// Print CSV with a header
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Descending
    #[arg(long)]
    reverse: bool,
    /// At most so many rows
    #[arg(long, value_name = "N", default_value_t = usize::MAX, hide_default_value = true)]
    limit: usize,
}

/// Runs `scan`.
pub fn run(args: &ScanArgs) -> Outcome {
    let db = args.db.open()?;
    let table = existing_table(&db, &args.target.table)?;
    let shape = Shape::of(&db, &args.target)?;
    let rows = table.range(args.range.keys(&shape)?);
    if args.reverse {
        print(args, shape, rows.rev().take(args.limit))
    } else {
        print(args, shape, rows.take(args.limit))
    }
}

type Row = foreshore::Result<(Vec<u8>, Vec<u8>)>;

fn print(args: &ScanArgs, mut shape: Shape, mut rows: impl Iterator<Item = Row>) -> Outcome {
    if args.csv {
        let mut out = Rows::new(Mode::Csv, shape);
        rows.try_for_each(|row| row.map_err(Into::into).and_then(|(key, value)| out.push(&key, &value)))?;
        return out.finish();
    }
    let mut out = args.db.output();
    for row in rows {
        let (key, value) = row?;
        if out.is_json() {
            shape.object(&mut out, &key, &value)?;
        } else {
            out.line(shape.line(&key, &value)?)?;
        }
    }
    out.finish()
}
