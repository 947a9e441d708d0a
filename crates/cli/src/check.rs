//! `check`: are all structures what they should be?

use crate::args::DbArgs;
use crate::failure::{Failure, Outcome};
use crate::output::{grouped, size};
use crate::progress::Meter;
use crate::tables::has_lost_its_name;
use clap::Args;
use foreshore::{CheckReport, Database, Error, TableReport};
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  foreshore check
  foreshore check --dir /srv/db --json
  foreshore check --rebuild       the list of leaves is damaged: build it again

Exit code 3 names the first broken invariant, or rows with damaged values.";

/// What is left to try when even a salvage fails, which the advice of the failure itself knows nothing of.
const WITHOUT_LOG: &str = "\
this was the salvage. If it is the log that cannot be read (wal-*, ring): keep a copy of the directory, remove wal-*, ring
and directory-* in it, and salvage again without the log; changes that were only in the log are lost then";

/// What even a salvage cannot bring back, and how to go on without it: the failure's own advice would be to salvage.
const LOST: &str = "\
this was the salvage: the list of leaves was built again, and the leaf that is damaged is lost. All other rows can be read: those
of its table from both ends up to there (scan, scan --reverse), other tables as always. If more than one leaf is lost, there are
rows between the keys at which those two stop, too: scan --from begins at any key. Of \"large values of t\" the table is t. Copy them
into a new database";

/// Read the whole database, and check that it is intact
///
/// Every page is read and its checksum compared; rows, their order, the links between pages, the index and the accounting
/// of pages must agree.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckArgs {
    #[command(flatten)]
    db: DbArgs,
    /// Build the leaf directory again by reading every slot of the leaf files: the last resort. If it can be read, it
    /// still says which leaves there are. Keep a copy of the database's directory first
    #[arg(long)]
    rebuild: bool,
}

/// Runs `check`.
pub fn run(args: &CheckArgs) -> Outcome {
    let db = open(args)?;
    let report = {
        let _meter = Meter::waiting("check");
        db.check().map_err(|error| match args.rebuild && is_of_leaves(&error) {
            true => Failure::from(error).note(LOST),
            false => error.into(),
        })?
    };
    db.close()?;
    let mut out = args.db.output();
    if out.is_json() {
        out.object(&json!({
            "check": "ok",
            "tables": report.tables,
            "stray_pages": report.stray_pages,
            "rebuilt": args.rebuild,
        }))?;
    } else {
        out.table(
            ["table", "rows", "leaves", "used", "large values", "missing separators"],
            &report.tables.iter().map(row).collect::<Vec<_>>(),
        )?;
        out.line(verdict(&report, args.rebuild))?;
    }
    out.finish()
}

/// What keeps a salvage from opening the database may be in the log, unless it cannot be used at all, as where the file
/// FORESHORE is damaged.
fn open(args: &CheckArgs) -> Outcome<Database> {
    args.db.ensure_exists()?;
    let opened = args.db.builder().rebuild(args.rebuild).create(false).open(&args.db.dir);
    opened.map_err(|error| match args.rebuild && matches!(error, Error::Corrupt { .. }) {
        true => Failure::from(error).note(WITHOUT_LOG),
        false => args.db.not_opened(error),
    })
}

/// Is more damaged than large values? Whose rows are put or removed needs no new database.
fn is_of_leaves(error: &Error) -> bool {
    matches!(error, Error::Corrupt { rows, .. } if rows.is_empty())
}

fn row(table: &TableReport) -> [String; 6] {
    let name = if table.name.is_empty() { "(catalog)" } else { &table.name };
    [
        name.to_string(),
        grouped(table.rows),
        grouped(table.leaves + table.large_leaves),
        size(table.used_bytes + table.large_used_bytes),
        large(table),
        grouped(table.missing_separators),
    ]
}

fn large(table: &TableReport) -> String {
    match table.large_values {
        0 => "0".into(),
        values => format!("{} ({})", grouped(values), size(table.large_bytes)),
    }
}

fn verdict(report: &CheckReport, rebuilt: bool) -> String {
    let renamed = match report.tables.iter().filter(|table| has_lost_its_name(&table.name)).count() {
        tables if rebuilt && tables > 0 => {
            format!("; tables that have lost their names, and are called recovered-N now: {tables}")
        }
        _ => String::new(),
    };
    let rebuilt = if rebuilt { "the directory was built again; " } else { "" };
    let stray = match report.stray_pages {
        0 => String::new(),
        pages => format!("; {pages} pages belong to no table"),
    };
    let nobodys = match report.tables.iter().map(|table| table.large_stray).sum() {
        0 => String::new(),
        values => format!("; {} large values belong to no row", grouped(values)),
    };
    format!("{rebuilt}everything is in order{stray}{nobodys}{renamed}")
}
