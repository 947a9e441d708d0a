//! `dump`: tables as text that other engines' tools read.

use crate::args::{DbArgs, ensure_outside, existing_table};
use crate::backup::tell_of_prepared;
use crate::dump_format::{Format, INDEXES, ensure_one_line, write_end, write_header, write_row};
use crate::failure::{Failure, Outcome};
use crate::progress::Meter;
use crate::schema::SCHEMAS;
use crate::table_kind::TableKind;
use crate::whole_file::WholeFile;
use clap::Args;
use foreshore::Database;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  foreshore dump > everything.dump
  foreshore dump --table ports --format bytevalue --output ports.dump
  foreshore dump --table ports | mdb_load -s ports lmdb-directory";

/// Print tables in the text format of Berkeley DB's db_dump and LMDB's mdb_dump
///
/// A table made by `load` brings the row of foreshore.schemas that describes it; a table with another index or leaf size than
/// the usual one, a row of foreshore.indexes that names them. The dump itself is the answer, with --json as well.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct DumpArgs {
    #[command(flatten)]
    db: DbArgs,
    /// Only this table
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// How bytes are spelled
    #[arg(long, value_enum, default_value_t = Format::Print)]
    format: Format,
    /// File to write instead of stdout; it is there when all of it is, and one of that name stays until then
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs `dump`.
pub fn run(args: &DumpArgs) -> Outcome {
    if let Some(path) = &args.output {
        ensure_outside("--output", path, Some(&args.db.dir))?;
    }
    let db = args.db.open()?;
    if let Some(table) = &args.table {
        existing_table(&db, table)?;
    }
    let names = db.tables()?;
    ensure_spelled(args, &names)?;
    tell_of_prepared(&db, "dump");
    match &args.output {
        None => {
            let mut out = args.db.output();
            dump(args, &db, &names, out.raw())?;
            out.finish()
        }
        Some(path) => {
            let mut out = WholeFile::create(path)?;
            let _meter = Meter::waiting("dump");
            dump(args, &db, &names, &mut out)?;
            out.keep()
        }
    }
}

/// The format must have room for all tables. Who hears of it later takes the tables before it for all.
fn ensure_spelled(args: &DumpArgs, names: &[String]) -> Outcome {
    if names.iter().any(|name| name == INDEXES) {
        return Err(Failure::usage(format!(
            "there is a table {INDEXES:?}, and a dump keeps indexes and leaf sizes under this name; copy its rows to \
             a table of another name, and drop it"
        )));
    }
    args.table.as_ref().map_or(names, std::slice::from_ref).iter().try_for_each(|name| ensure_one_line(name))
}

fn dump(args: &DumpArgs, db: &Database, names: &[String], out: &mut impl Write) -> Outcome {
    match &args.table {
        None => {
            dump_indexes(db, names, args.format, out)?;
            // Schemas first: whoever restores them hears of a table that has others before its rows get any company.
            let (schemas, tables): (Vec<_>, Vec<_>) = names.iter().partition(|name| *name == SCHEMAS);
            schemas
                .into_iter()
                .chain(tables)
                .try_for_each(|name| dump_table(db, name, None, args.format, out))
        }
        Some(table) => {
            dump_indexes(db, std::slice::from_ref(table), args.format, out)?;
            if table != SCHEMAS && names.iter().any(|name| name == SCHEMAS) {
                dump_table(db, SCHEMAS, Some(table), args.format, out)?;
            }
            dump_table(db, table, None, args.format, out)
        }
    }
}

/// Writes which of the tables have another index or leaf size than the usual one; nothing at all if none has.
fn dump_indexes(db: &Database, names: &[String], format: Format, out: &mut impl Write) -> Outcome {
    let mut rows = Vec::new();
    for name in names {
        let kind = TableKind::of(&db.byte_table(name)?);
        if kind != TableKind::default() {
            rows.push((name, kind.to_string()));
        }
    }
    if rows.is_empty() {
        return Ok(());
    }
    write_header(out, INDEXES, format)?;
    rows.iter().try_for_each(|(name, kind)| write_row(out, format, name.as_bytes(), kind.as_bytes()))?;
    write_end(out)
}

/// Writes a table, or only its row `key`; of the latter, nothing at all if there is none.
fn dump_table(db: &Database, name: &str, key: Option<&str>, format: Format, out: &mut impl Write) -> Outcome {
    let table = db.byte_table(name)?;
    if let Some(key) = key {
        let Some(value) = table.get(key.as_bytes())? else { return Ok(()) };
        write_header(out, name, format)?;
        write_row(out, format, key.as_bytes(), &value)?;
        return write_end(out);
    }
    write_header(out, name, format)?;
    let mut written = Ok(());
    table.scan(.., |key, value| {
        written = write_row(out, format, key, value);
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    written?;
    write_end(out)
}
