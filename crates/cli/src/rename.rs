//! `rename`: a table gets another name.

use crate::args::{DbArgs, existing_table};
use crate::failure::{Failure, Outcome};
use crate::schema::{SCHEMAS, Schema, ensure_may_be_made, ensure_not_schemas};
use crate::tables::has_lost_its_name;
use crate::text::shortened;
use clap::Args;
use foreshore::{Database, Error};
use serde_json::json;
use std::collections::BTreeSet;

const EXAMPLES: &str = "\
Examples:
  foreshore rename ports harbours
  foreshore rename ports harbours --json

No row is copied, however many there are. Exit code 1 if there is no table FROM,
2 if there is a table TO already.";

/// Give a table another name
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct RenameArgs {
    #[command(flatten)]
    db: DbArgs,
    /// Table
    from: String,
    /// Its new name
    to: String,
}

/// Runs `rename`.
pub fn run(args: &RenameArgs) -> Outcome {
    let RenameArgs { db: of, from, to } = args;
    let db = of.open()?;
    if !rename_table(&db, from, to)? {
        return existing_table(&db, from).map(drop); // which says what tables there are
    }
    db.close()?;
    let mut out = of.output();
    if out.is_json() {
        out.object(&json!({"table": to, "was": from}))?;
    }
    out.finish()
}

/// Renames a table, and its schema; `false` if there is no such table.
///
/// Errors: usage, for the table of schemas, unless a rebuild has given it another name and its rows are schemas, and if another table's
/// schema is kept under the new name; corruption, before anything is changed, if a schema is out of reach.
pub fn rename_table(db: &Database, from: &str, to: &str) -> Outcome<bool> {
    ensure_not_schemas(from)?;
    match (has_lost_its_name(from), db.existing_byte_table(from)) {
        (true, Some(table)) if to == SCHEMAS => Schema::ensure_all(&table)?,
        (_, Some(_)) => ensure_may_be_made(to)?,
        (_, None) => {} // which is told below
    }
    let is_there = |name: &str| db.existing_byte_table(name).is_some();
    if !is_there(from) || is_there(to) {
        return Ok(db.rename_table(from, to)?); // which says what is wrong
    }
    // One that is left of a table which had the new name. Where tables have lost their names it stays: it may be this one's.
    Schema::forget_strays(db)?;
    let columns = Schema::stored(db, from)?;
    if columns.is_some() || !has_lost_its_name(from) {
        ensure_none_kept(db, to, columns.as_deref())?;
    } else if to != SCHEMAS {
        ensure_none_waits(db, to)?;
    }
    // First: of a table that is not there, what a crash leaves is forgotten.
    match columns.as_ref().map_or(Ok(()), |json| Schema::store(db, to, json)) {
        Err(Error::KeyTooLong { .. }) => return Ok(db.rename_table(from, to)?), // which says that it is the name
        stored => stored?,
    }
    if let Err(refused) = db.rename_table(from, to) {
        if columns.is_some() {
            let _ = Schema::forget(db, to); // or the next command that writes does
        }
        return Err(refused.into());
    }
    Schema::forget(db, from)?;
    Ok(true)
}

/// The name that a table gets which has lost its own is that of the columns kept for it, if there are any: they go with the last such table.
fn ensure_none_waits(db: &Database, name: &str) -> Outcome {
    let kept: BTreeSet<_> = Schema::tables(db).0.into_iter().collect();
    let mut waiting = kept.iter().filter(|name| db.existing_byte_table(name).is_none()).peekable();
    if waiting.peek().is_none() || kept.contains(name) {
        return Ok(());
    }
    let names: Vec<_> = waiting.map(|name| format!("{name:?}")).collect();
    Err(Failure::usage(format!(
        "columns are kept for {}, which are not there: give the tables that have lost these names them first, perhaps this one; \
         `foreshore rm --table {SCHEMAS} NAME` gives columns up",
        shortened(&names.join(", "))
    )))
}

/// The columns kept under a name are those of the table that has lost it: no other is to get them, or to put its own in their place.
/// What is equal to its own `columns` may be left of an attempt that was cut short.
fn ensure_none_kept(db: &Database, name: &str, columns: Option<&[u8]>) -> Outcome {
    match Schema::stored(db, name)? {
        None => Ok(()),
        kept if kept.as_deref() == columns => Ok(()),
        Some(_) => Err(Failure::usage(format!(
            "columns of a table that has lost its name are kept under {name:?}: give that table its name first, or choose another \
             one; `foreshore rm --table {SCHEMAS} {name}` gives the columns up"
        ))),
    }
}
