//! `backup`: a copy of everything, as of one moment.

use crate::args::DbArgs;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, grouped, size, tell};
use crate::progress::Meter;
use crate::text::shortened;
use clap::Args;
use foreshore::{Copied, Database, Error};
use serde_json::json;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  foreshore backup /mnt/backups/monday
  foreshore check --dir /mnt/backups/monday       walks the copy
  foreshore tables --dir /mnt/backups/monday      a database like any other
  foreshore restore --dir flights.db --from-backup /mnt/backups/monday

This command opens the database, so nobody else may have it open. A program that
has it open makes the same copy while it reads and writes, by
`Database::backup`; so does `.backup` in `foreshore shell`.";

/// Copy the database, as of one moment, into an empty directory
///
/// Every page read has its checksum compared, and the copy is written without the holes of the original. It is durable
/// when the command returns. A copy that was cut short is no database: nothing opens it, and the next backup replaces it.
/// Transactions that are prepared, and not committed, are left out, and said to be.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct BackupArgs {
    #[command(flatten)]
    db: DbArgs,
    /// Absent or empty directory for the copy
    #[arg(value_name = "TARGET")]
    target: PathBuf,
}

/// Runs `backup`.
pub fn run(args: &BackupArgs) -> Outcome {
    let db = args.db.open()?;
    let copied = copy(&db, "backup", &args.target)?;
    db.close()?;
    tell_copied(args.db.output(), "backup", &copied, &args.target)
}

/// Prints what was copied, and where to, which JSON calls `made`.
pub fn tell_copied(mut out: Output, made: &str, copied: &Copied, target: &Path) -> Outcome {
    if out.is_json() {
        out.object(&json!({made: target.to_string_lossy(), "copied": copied}))?;
    } else {
        out.line(format!("{} in {}", summary(copied), target.display()))?;
    }
    out.finish()
}

/// Says if there are prepared transactions: what they have written is in no `copy`, as this kind of copy is called.
pub fn tell_of_prepared(db: &Database, copy: &str) {
    let prepared = db.recover();
    if !prepared.is_empty() {
        let ids: Vec<_> = prepared.iter().map(|id| format!("\"{}\"", id.escape_ascii())).collect();
        tell(format_args!(
            "note: transactions that have prepared wait to hear whether to commit, and are in no {copy}: {}; their program commits them or \
             rolls them back, or `.prepared` of the shell",
            shortened(&ids.join(", "))
        ));
    }
}

/// Backs a database up, and shows how far it is.
pub fn copy(db: &Database, label: &str, target: &Path) -> Outcome<Copied> {
    tell_of_prepared(db, "backup");
    let meter = Meter::new(label, None);
    db.backup_with(target, |so_far| show(&meter, so_far)).map_err(|error| match error {
        // Of the target: it is no damaged database, but the wrong directory.
        Error::Incompatible { .. } => Failure::usage(error.to_string()),
        other => other.into(),
    })
}

/// Tells how far a copy is.
pub fn show(meter: &Meter, so_far: &Copied) {
    meter.set(so_far.rows, || summary(so_far));
}

/// What was copied, in words.
pub fn summary(copied: &Copied) -> String {
    let Copied { tables, rows, bytes, .. } = copied;
    format!("tables: {tables}, rows: {}, keys and values: {}", grouped(*rows), size(*bytes))
}
