//! `drop`: a table goes with all its rows.

use crate::args::{DbArgs, existing_table};
use crate::failure::Outcome;
use crate::schema::{SCHEMAS, Schema, ensure_not_schemas};
use clap::Args;
use foreshore::{Database, Error};
use serde_json::json;
use std::ops::ControlFlow;

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
    let db = args.db.open()?;
    if !drop_table(&db, &args.table)? {
        return existing_table(&db, &args.table).map(drop); // which says what tables there are
    }
    db.close()?;
    let mut out = args.db.output();
    if out.is_json() {
        out.object(&json!({"table": args.table, "dropped": true}))?;
    }
    out.finish()
}

/// Removes a table and its schema; `false` if there is no such table.
///
/// Errors: usage, for the table of schemas, unless it is damaged: then who gives it up can go on with all others. Corruption, before
/// anything is removed, if the table's schema is out of reach.
pub fn drop_table(db: &Database, table: &str) -> Outcome<bool> {
    match table {
        SCHEMAS if schemas_are_damaged(db) => {}
        _ => ensure_not_schemas(table)?,
    }
    Schema::stored(db, table)?;
    let was_there = db.drop_table(table)?;
    if was_there {
        Schema::forget(db, table)?;
    }
    Ok(was_there)
}

fn schemas_are_damaged(db: &Database) -> bool {
    let schemas = db.existing_byte_table(SCHEMAS);
    // With their values: those of wide tables are large, and lie elsewhere.
    let walked = schemas.map(|schemas| schemas.scan(.., |_, _| ControlFlow::Continue(())));
    matches!(walked, Some(Err(Error::Corrupt { .. })))
}
