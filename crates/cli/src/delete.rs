//! `delete`: a range of rows goes.

use crate::args::{DbArgs, existing_table};
use crate::failure::Outcome;
use crate::keys::RemovedKeys;
use crate::progress::Meter;
use crate::rows::{Shape, Target};
use crate::schema::ensure_not_schemas;
use clap::Args;

const EXAMPLES: &str = "\
Examples:
  foreshore delete --table flights --prefix 2011,12,24,WN
  foreshore delete --table flights --from 2011,6 --to 2011,7       June
  foreshore delete --table ports --from S --json
  foreshore delete --table ports --all

Removes all of these rows or none, and prints how many. `rm` removes one row,
`drop` a table with all its rows. The files keep their size, and the next rows
use the space again; `foreshore compact` gives it back to the disk.";

/// Remove a range of rows
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct DeleteArgs {
    #[command(flatten)]
    db: DbArgs,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    rows: RemovedKeys,
}

/// Runs `delete`.
pub fn run(args: &DeleteArgs) -> Outcome {
    ensure_not_schemas(&args.target.table)?;
    let db = args.db.open()?;
    let table = existing_table(&db, &args.target.table)?;
    let shape = Shape::of(&db, &args.target)?;
    let keys = args.rows.keys(&shape)?;
    shape.ensure_fits(&table, &keys)?;
    let meter = Meter::waiting("delete");
    let removed = table.remove_range(keys)?;
    drop(meter);
    drop(table);
    db.close()?;
    args.db.output().rows_done(&args.target.table, "removed", removed)
}
