//! `dump`: tables as text that other engines' tools read.

use crate::args::{DbArgs, ensure_outside, existing_table};
use crate::backup::tell_of_prepared;
use crate::dump_format::{Format, INDEXES, ensure_one_line, write_end, write_header, write_row};
use crate::failure::{Failure, Kind, Outcome};
use crate::output::tell;
use crate::progress::Meter;
use crate::schema::{SCHEMAS, Schema};
use crate::table_kind::TableKind;
use crate::text::shortened;
use crate::whole_file::WholeFile;
use clap::Args;
use foreshore::{Database, Error};
use std::collections::BTreeSet;
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
/// A table made by `load` brings the row of foreshore.schemas that describes it; a table with types, or with another index or leaf size than
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
            let dumped = dump(args, &db, &names, out.raw());
            out.finish()?; // what there is, before it is told what there is not
            dumped
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
    let wanted = args.table.as_ref().map_or(names, std::slice::from_ref);
    if wanted.iter().any(|name| name == INDEXES) {
        return Err(Failure::usage(format!(
            "there is a table {INDEXES:?}, and a dump keeps indexes, leaf sizes and types under this name; `foreshore rename` gives \
             the table another one"
        )));
    }
    wanted.iter().try_for_each(|name| ensure_one_line(name))
}

fn dump(args: &DumpArgs, db: &Database, names: &[String], out: &mut impl Write) -> Outcome {
    let wanted = args.table.as_ref().map_or(names, std::slice::from_ref);
    dump_indexes(db, wanted, args.format, out)?;
    // Schemas first: whoever restores them hears of a table that has others before its rows get any company.
    let damage = match dump_schemas(args, db, wanted, out) {
        Err(damage) if damage.kind == Kind::Corrupt => Some(without_schemas(args, damage)?),
        described => described.map(|()| None)?,
    };
    let mut tables = wanted.iter().filter(|name| args.table.is_some() || *name != SCHEMAS);
    tables.try_for_each(|name| dump_table(db, name, args.format, out))?;
    damage.map_or(Ok(()), Err)
}

/// The tables go on without the schemas that are damaged, which is told at once: one of them may fail, too.
///
/// Errors: the damage, if there is to be a file, which is there only when all of it is.
fn without_schemas(args: &DumpArgs, damage: Failure) -> Outcome<Failure> {
    if args.output.is_some() {
        return Err(
            damage.note("a file gets only what is whole; leave out --output, and stdout gets the rest")
        );
    }
    tell(format_args!("note: {damage}"));
    Ok(damage.reported())
}

/// Writes which of the tables have another index or leaf size than the usual one, or types; nothing at all if none has.
fn dump_indexes(db: &Database, names: &[String], format: Format, out: &mut impl Write) -> Outcome {
    let mut rows = Vec::new();
    for name in names {
        let kind = TableKind::of(&db.byte_table(name)?);
        if kind != TableKind::default() {
            rows.push((name, kind.to_string()));
        }
    }
    dump_rows_of(INDEXES, &rows, format, out)
}

/// Writes the rows that describe tables; nothing at all if there are none.
///
/// Errors: corruption, after all are written that can be read; it names the tables whose rows cannot.
fn dump_schemas(args: &DumpArgs, db: &Database, wanted: &[String], out: &mut impl Write) -> Outcome {
    let mut names: BTreeSet<String> = wanted.iter().cloned().collect();
    let (mut rows, mut damage, mut without) = (Vec::new(), None, Vec::new());
    if args.table.is_none() {
        // Among them are those of tables that a rebuild has given other names.
        let (described, walked) = Schema::tables(db);
        names.extend(described);
        damage = unless_corrupt(walked)?.err();
    }
    let are_all_known = damage.is_none();
    for name in names {
        match unless_corrupt(Schema::row(db, &name))? {
            Ok(schema) => rows.extend(schema.map(|schema| (name, schema))),
            Err(error) => {
                damage.get_or_insert(error);
                without.push(format!("{name:?}"));
            }
        }
    }
    dump_rows_of(SCHEMAS, &rows, args.format, out)?;
    damage.map_or(Ok(()), |damage| Err(Failure::from(damage).note(missing(&without, are_all_known))))
}

/// What a dump lacks: the columns `without` which there are these tables, and those of tables whose names nobody knows.
fn missing(without: &[String], are_all_known: bool) -> String {
    let mut missing = Vec::new();
    if !without.is_empty() {
        let names = shortened(&without.join(", "));
        missing.push(format!("those of {} tables are missing, if they have any: {names}", without.len()));
    }
    if !are_all_known {
        missing.push("those of tables that have lost their names may be missing".into());
    }
    format!(
        "columns are kept there, so in this dump {}; these tables are in it with all rows, and are plain ones of bytes where they \
         are restored without their columns",
        missing.join("; ")
    )
}

/// What was read, or the damage there; other errors are returned as such.
fn unless_corrupt<T>(read: foreshore::Result<T>) -> Outcome<foreshore::Result<T>> {
    match read {
        Err(error) if !matches!(error, Error::Corrupt { .. }) => Err(error.into()),
        read => Ok(read),
    }
}

/// Writes a table of these rows; nothing at all if there are none.
fn dump_rows_of(
    table: &str,
    rows: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)],
    format: Format,
    out: &mut impl Write,
) -> Outcome {
    if rows.is_empty() {
        return Ok(());
    }
    write_header(out, table, format)?;
    rows.iter().try_for_each(|(key, value)| write_row(out, format, key.as_ref(), value.as_ref()))?;
    write_end(out)
}

fn dump_table(db: &Database, name: &str, format: Format, out: &mut impl Write) -> Outcome {
    write_header(out, name, format)?;
    let mut written = Ok(());
    db.byte_table(name)?.scan(.., |key, value| {
        written = write_row(out, format, key, value);
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    written?;
    write_end(out)
}
