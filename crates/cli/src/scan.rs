//! `scan`: rows in key order. Also which rows of a table are meant, for `count` and `delete`.

use crate::args::{DbArgs, existing_table};
use crate::failure::{Failure, Outcome};
use crate::rows::{Shape, Target};
use crate::shell::print::{Mode, Rows};
use clap::Args;
use foreshore::{ByteRange, ByteTable, RawBounds};
use std::ops::Bound;

const EXAMPLES: &str = "\
Examples:
  foreshore scan --table flights --prefix 2011,12,24,WN
  foreshore scan --table flights --from 2011,6 --to 2011,7         June
  foreshore scan --table ports --reverse --limit 10 --json         the last ten
  foreshore scan --table ports --from S --to T
  foreshore scan --table flights --csv > flights.csv       `load` reads it back";

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
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    limit: u64,
}

/// Which keys.
#[derive(Args)]
pub struct KeyRange {
    /// First key, or its leading columns; included
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    from: Option<String>,
    /// Key to stop before, or its leading columns
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    to: Option<String>,
    /// Only keys that begin so, or with these leading columns
    #[arg(long, value_name = "KEY", allow_hyphen_values = true, conflicts_with_all = ["from", "to"])]
    prefix: Option<String>,
}

impl KeyRange {
    /// The rows of `table` with these keys.
    pub fn of(&self, table: &ByteTable, shape: &Shape) -> Outcome<ByteRange> {
        if let Some(prefix) = &self.prefix {
            return Ok(table.prefix(&shape.prefix(prefix)?));
        }
        Ok(table.range(self.bounds(shape)?))
    }

    /// Removes them; how many they were.
    pub fn remove(&self, table: &ByteTable, shape: &Shape) -> Outcome<u64> {
        if let Some(prefix) = &self.prefix {
            return Ok(table.remove_prefix(&shape.prefix(prefix)?)?);
        }
        if self.from.is_none() && self.to.is_none() {
            return Err(all_rows());
        }
        Ok(table.remove_range(self.bounds(shape)?)?)
    }

    fn bounds(&self, shape: &Shape) -> Outcome<RawBounds> {
        let bound = |text: &Option<String>| text.as_ref().map(|text| shape.prefix(text)).transpose();
        let from = bound(&self.from)?.map_or(Bound::Unbounded, Bound::Included);
        let to = bound(&self.to)?.map_or(Bound::Unbounded, Bound::Excluded);
        Ok((from, to))
    }
}

/// Removing all rows is not what one gets who forgot to say which.
pub fn all_rows() -> Failure {
    Failure::usage("say which rows: --from, --to or --prefix; `drop` removes a table with all its rows")
}

/// Runs `scan`.
pub fn run(args: &ScanArgs) -> Outcome {
    let db = args.db.open()?;
    let table = existing_table(&db, &args.target.table)?;
    let shape = Shape::of(&db, &args.target)?;
    let rows = args.range.of(&table, &shape)?;
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    if args.reverse {
        print(args, shape, rows.rev().take(limit))
    } else {
        print(args, shape, rows.take(limit))
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
            out.line(shape.line(&key, &value))?;
        }
    }
    out.finish()
}
