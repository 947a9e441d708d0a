//! `tables`: what is there.

use crate::args::DbArgs;
use crate::failure::{Failure, Kind, Outcome};
use crate::output::{Output, grouped};
use crate::progress::Meter;
use crate::schema::{SCHEMAS, Schema, to_csv};
use crate::text::shortened;
use clap::Args;
use foreshore::{Database, Index, Types};
use serde::Serialize;
use std::ops::ControlFlow;

const EXAMPLES: &str = "\
Examples:
  foreshore tables
  foreshore tables --count --json";

/// List the tables
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct TablesArgs {
    #[command(flatten)]
    db: DbArgs,
    /// Count the rows, by reading them
    #[arg(long)]
    count: bool,
    /// Also list foreshore.schemas, where `load` keeps columns and keys
    #[arg(long)]
    all: bool,
}

/// A table in the list; its JSON names are kept stable.
#[derive(Serialize)]
struct Listed {
    table: String,
    /// Of a table made by `load`.
    key: Option<Vec<String>>,
    /// Of a table that remembers its types.
    #[serde(skip_serializing_if = "Option::is_none")]
    key_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_type: Option<String>,
    /// Why it is not known whether there is a key.
    #[serde(skip_serializing_if = "Option::is_none")]
    schema_error: Option<String>,
    index: Index,
    leaf_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<u64>,
    /// Why they are not counted, although it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    rows_error: Option<String>,
}

/// Runs `tables`.
pub fn tables(args: &TablesArgs) -> Outcome {
    let db = args.db.open()?;
    let mut out = args.db.output();
    list(&db, args.count, args.all, &mut out)?;
    out.finish()
}

/// Prints the tables, with their rows counted if asked for, and with the table of schemas if asked for.
///
/// Errors: after all are printed, the first one among the schemas that cannot be read, and the rows that cannot be counted.
pub fn list(db: &Database, count: bool, all: bool, out: &mut Output) -> Outcome {
    let meter = count.then(|| Meter::waiting("count"));
    let (mut listed, mut failure) = (Vec::new(), None);
    for table in db.tables()? {
        if table != SCHEMAS || all {
            let (key, unreadable) = or_damage(key_of(db, &table))?;
            let (rows, uncounted) = or_damage(count.then(|| count_rows(db, &table)).transpose())?;
            let schema_error = unreadable.as_ref().map(Failure::to_string);
            let rows_error = uncounted.as_ref().map(Failure::to_string);
            failure = failure.or(unreadable).or(uncounted);
            let its = db.byte_table(&table)?;
            let (index, leaf_bytes) = (its.index(), its.leaf_bytes());
            let [key_type, value_type] =
                [Types::key, Types::value].map(|of| its.types().map(|types| of(types).to_owned()));
            listed.push(Listed {
                table,
                key,
                key_type,
                value_type,
                schema_error,
                index,
                leaf_bytes,
                rows,
                rows_error,
            });
        }
    }
    drop(meter);
    print(&listed, count, out)?;
    failure.map_or(Ok(()), Err)
}

/// What was read, or the damage that it could not be read for.
fn or_damage<T>(read: Outcome<Option<T>>) -> Outcome<(Option<T>, Option<Failure>)> {
    match read {
        Err(why) if why.kind == Kind::Corrupt => Ok((None, Some(why))),
        read => Ok((read?, None)),
    }
}

/// Names of the key columns, if the table was made by `load`.
fn key_of(db: &Database, table: &str) -> Outcome<Option<Vec<String>>> {
    let schema = Schema::of(db, table)?;
    Ok(schema.map(|schema| schema.key_names().into_iter().map(String::from).collect()))
}

fn print(listed: &[Listed], count: bool, out: &mut Output) -> Outcome {
    if out.is_json() {
        return listed.iter().try_for_each(|table| out.object(table));
    }
    let row = |l: &Listed| {
        let columns = |key: &Vec<String>| {
            String::from_utf8_lossy(&to_csv(key.iter().map(String::as_bytes))).into_owned()
        };
        let [key, value] = match (&l.key, &l.schema_error) {
            (Some(key), _) => [columns(key), "record".into()],
            (None, Some(_)) => ["schema unreadable".into(), "record".into()],
            (None, None) => [&l.key_type, &l.value_type].map(typed_or_bytes),
        };
        let leaves = format!("{} KiB", l.leaf_bytes >> 10);
        [l.table.clone(), key, value, l.index.to_string(), leaves]
    };
    let rows = listed.iter().map(row);
    if !count {
        return out.table(["table", "key", "value", "index", "leaves"], &rows.collect::<Vec<_>>());
    }
    let counted = rows.zip(listed).map(|([table, key, value, index, leaves], l)| {
        [table, key, value, index, leaves, l.rows.map_or("unreadable".to_string(), grouped)]
    });
    out.table(["table", "key", "value", "index", "leaves", "rows"], &counted.collect::<Vec<_>>())
}

/// As Rust calls the type, if the table remembers it.
fn typed_or_bytes(remembered: &Option<String>) -> String {
    match remembered.as_deref() {
        None => "bytes".into(),
        Some(name) => type_name(name),
    }
}

/// As much of a type's name as a table shows.
pub fn type_name(name: &str) -> String {
    if name.is_empty() { "()".into() } else { shortened(name) }
}

/// Is this a name that a rebuild gives a table whose own is lost? Behind its number are dashes if others have the name without.
pub fn has_lost_its_name(table: &str) -> bool {
    let number = table.strip_prefix("recovered-").map(|number| number.trim_end_matches('-'));
    number.is_some_and(|number| number.parse::<u32>().is_ok_and(|n| n.to_string() == number))
}

/// Reads all keys.
pub fn count_rows(db: &Database, table: &str) -> Outcome<u64> {
    let mut rows = 0;
    db.byte_table(table)?.scan_keys(.., |_| {
        rows += 1;
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}
