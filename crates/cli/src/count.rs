//! `count`: how many rows there are.

use crate::args::{DbArgs, existing_table};
use crate::failure::Outcome;
use crate::keys::KeyRange;
use crate::progress::Meter;
use crate::rows::{Shape, Target};
use clap::Args;

const EXAMPLES: &str = "\
Examples:
  foreshore count --table flights
  foreshore count --table flights --prefix 2011,12,24,WN
  foreshore count --table flights --from 2011,6 --to 2011,7        June";

/// Count rows, by reading them
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct CountArgs {
    #[command(flatten)]
    db: DbArgs,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    range: KeyRange,
}

/// Runs `count`.
pub fn run(args: &CountArgs) -> Outcome {
    let db = args.db.open()?;
    let table = existing_table(&db, &args.target.table)?;
    let shape = Shape::of(&db, &args.target)?;
    let keys = args.range.keys(&shape)?;
    shape.ensure_fits(&table, &keys)?;
    let meter = Meter::waiting("count");
    let rows = table.range(keys).keys_only().map(|row| row.map(|_| 1)).sum::<foreshore::Result<u64>>()?;
    drop(meter);
    args.db.output().rows_done(&args.target.table, "rows", rows)
}
