//! `tables` and `stats`: what is there.

use crate::args::DbArgs;
use crate::failure::Outcome;
use crate::output::grouped;
use crate::schema::{SCHEMAS, Schema};
use clap::Args;
use foreshore::{Database, Index};
use serde::Serialize;
use std::ops::ControlFlow;

const TABLES_EXAMPLES: &str = "\
Examples:
  foreshore tables
  foreshore tables --count --json";

const STATS_EXAMPLES: &str = "\
Examples:
  foreshore stats
  foreshore stats --json | jq .leaf_file_bytes";

/// List the tables
#[derive(Args)]
#[command(after_help = TABLES_EXAMPLES)]
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

/// Print the database's counters and sizes
///
/// Counters begin when the database is opened, which this command does; bytes are bytes, *_ns nanoseconds.
#[derive(Args)]
#[command(after_help = STATS_EXAMPLES)]
pub struct StatsArgs {
    #[command(flatten)]
    db: DbArgs,
}

/// A table in the list; its JSON names are kept stable.
#[derive(Serialize)]
struct Listed {
    table: String,
    /// Of a table made by `load`.
    key: Option<Vec<String>>,
    index: Index,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<u64>,
}

/// Runs `tables`.
pub fn tables(args: &TablesArgs) -> Outcome {
    let db = args.db.open()?;
    let mut listed = Vec::new();
    for table in db.tables()? {
        if table != SCHEMAS || args.all {
            let key = Schema::of(&db, &table)?
                .map(|schema| schema.key_names().into_iter().map(String::from).collect());
            let rows = args.count.then(|| count_rows(&db, &table)).transpose()?;
            let index = db.byte_table(&table)?.index();
            listed.push(Listed { table, key, index, rows });
        }
    }
    let mut out = args.db.output();
    if out.is_json() {
        listed.iter().try_for_each(|table| out.object(table))?;
    } else {
        let row = |l: &Listed| {
            let key = l.key.as_ref().map_or("bytes".to_string(), |key| key.join(","));
            [l.table.clone(), key, l.index.to_string(), l.rows.map_or(String::new(), grouped)]
        };
        out.table(
            ["table", "key", "index", if args.count { "rows" } else { "" }],
            &listed.iter().map(row).collect::<Vec<_>>(),
        )?;
    }
    out.finish()
}

/// Runs `stats`.
pub fn stats(args: &StatsArgs) -> Outcome {
    let stats = args.db.open()?.stats();
    let mut out = args.db.output();
    if out.is_json() {
        out.object(&stats)?;
    } else {
        out.fields(&stats)?;
    }
    out.finish()
}

/// Reads the whole table.
pub fn count_rows(db: &Database, table: &str) -> Outcome<u64> {
    let mut rows = 0;
    db.byte_table(table)?.scan(.., |_, _| {
        rows += 1;
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}
