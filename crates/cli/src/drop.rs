//! `drop`: a table goes with all its rows.

use crate::args::{DbArgs, existing_table};
use crate::failure::Outcome;
use crate::schema::{Schema, ensure_not_schemas};
use clap::Args;
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  foreshore drop --table ports
  foreshore drop --table ports --json

Exit code 1 if there is no such table. The files keep their size, and the next
rows use the space again; `foreshore compact` gives it back to the disk.";

/// Remove a table with all its rows
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct DropArgs {
    #[command(flatten)]
    db: DbArgs,
    /// Table
    #[arg(long, value_name = "NAME")]
    table: String,
}

/// Runs `drop`.
pub fn run(args: &DropArgs) -> Outcome {
    ensure_not_schemas(&args.table)?;
    let db = args.db.open()?;
    drop(existing_table(&db, &args.table)?);
    db.drop_table(&args.table)?;
    Schema::forget(&db, &args.table)?;
    db.close()?;
    let mut out = args.db.output();
    if out.is_json() {
        out.object(&json!({"table": args.table, "dropped": true}))?;
    }
    out.finish()
}
