//! `restore`: what `dump`, `db_dump` or `mdb_dump` printed, back into tables; or what `backup` copied, back into place.

use crate::args::{DbArgs, holds_nothing};
use crate::backup;
use crate::dump_format::{Header, INDEXES, Reader, unreadable};
use crate::failure::{Failure, Outcome};
use crate::output::{grouped, tell};
use crate::profile::ProfileArgs;
use crate::progress::Meter;
use crate::rows::Shape;
use crate::schema::{SCHEMAS, Schema};
use crate::table_kind::TableKind;
use clap::Args;
use foreshore::{ByteTable, Database, Durability};
use foreshore_workloads::source;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  foreshore restore --dir copy.db everything.dump
  foreshore dump --table flights | foreshore restore --dir copy.db -
  mdb_dump lmdb-directory | foreshore restore --table imported -
  foreshore restore --dir flights.db --from-backup /mnt/backups/monday";

/// Load what dump, db_dump or mdb_dump printed, or copy a backup
///
/// Rows of a dump replace rows with the same key; others stay. A table that is new gets the index and the leaf size it had (leaves of
/// 8 KiB become what is usual here). A backup is copied into an absent or empty directory, with the checksum of every page compared.
/// Everything is durable when the command returns.
/// What `mdb_dump -p` of LMDB 0.9.24 or older prints of a backslash means something else: leave out the -p.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct RestoreArgs {
    #[command(flatten)]
    db: DbArgs,
    #[command(flatten)]
    profile: ProfileArgs,
    /// Only this table of the dump; names the table of a dump that does not
    #[arg(long, value_name = "NAME", conflicts_with = "from_backup")]
    table: Option<String>,
    /// Copy this directory, made by `backup`, instead of loading a dump
    #[arg(long, value_name = "BACKUP")]
    from_backup: Option<PathBuf>,
    /// Dump, gzipped or not; - for stdin
    #[arg(value_name = "FILE", required_unless_present = "from_backup", conflicts_with = "from_backup")]
    file: Option<PathBuf>,
}

/// A restored table; its JSON names are kept stable.
#[derive(Serialize)]
struct Restored {
    table: String,
    rows: u64,
    /// It was not there before.
    #[serde(skip)]
    is_new: bool,
}

/// Runs `restore`.
pub fn run(args: &RestoreArgs) -> Outcome {
    match (&args.from_backup, &args.file) {
        (Some(backup), _) => copy_backup(args, backup),
        (None, Some(file)) => load_dump(args, file),
        (None, None) => Err(Failure::usage("name a dump, or a backup with --from-backup")),
    }
}

/// A backup is a database: to restore it is to back it up the other way.
fn copy_backup(args: &RestoreArgs, backup: &Path) -> Outcome {
    if !backup.is_dir() {
        return Err(Failure::usage(format!(
            "--from-backup: {} is no directory; name one that `foreshore backup` made",
            backup.display()
        )));
    }
    let from = DbArgs { dir: backup.to_path_buf(), ..args.db.clone() };
    let db = from.open().map_err(|failure| match holds_nothing(backup) {
        true => Failure::usage(format!(
            "--from-backup: there is no backup in {}; name a directory that `foreshore backup` made",
            backup.display()
        )),
        false => failure,
    })?;
    let copied = backup::copy(&db, "restore", &args.db.dir)?;
    db.close()?;
    backup::tell_copied(args.db.output(), "restored", &copied, &args.db.dir)
}

fn load_dump(args: &RestoreArgs, file: &Path) -> Outcome {
    if file.is_dir() {
        let file = file.display();
        return Err(Failure::usage(format!(
            "{file} is a directory and no dump; to restore a backup: --from-backup {file}"
        )));
    }
    let input = source::open(file).map_err(|e| Failure::io(file.display(), &e))?;
    let mut input = BufReader::with_capacity(1 << 16, input);
    // What is wrong so far is better known before a database is created for it.
    ensure_dump(&mut input)?;
    let mut dump = Reader::new(input);
    let first = dump.header()?;
    first.as_ref().map_or(Ok(()), |header| table_of(args, header).map(drop))?;
    let db = args.db.open_or_create(args.profile.advise(args.db.builder())?)?;
    let mut told = Told::default();
    restore(args, &db, &mut dump, first, &mut told).map_err(|failure| match told.has_put {
        true => failure.note(
            "rows above that line may be restored already; restoring the mended dump again does no harm",
        ),
        false => failure,
    })?;
    db.close()?;
    let restored = told.restored;
    if let Some(table) = args.table.as_ref().filter(|table| !restored.iter().any(|r| r.table == **table)) {
        return Err(Failure::absent(format!("the dump has no table {table:?}")));
    }
    print(args, &restored)
}

/// An empty text is the dump of a database without tables, too.
fn ensure_dump(input: &mut impl BufRead) -> Outcome {
    const BEGIN: &[u8] = b"VERSION=3";
    let read = input.fill_buf().map_err(|e| unreadable(&e))?;
    if read.is_empty() {
        tell("note: the dump is empty, so nothing was restored; did the command that made it fail?");
    }
    if BEGIN.starts_with(&read[..read.len().min(BEGIN.len())]) {
        return Ok(());
    }
    Err(Failure::usage(
        "this is no dump, which begins with VERSION=3; `foreshore load` reads CSV, and --from-backup takes a backup",
    ))
}

fn print(args: &RestoreArgs, restored: &[Restored]) -> Outcome {
    let mut out = args.db.output();
    if out.is_json() {
        restored.iter().try_for_each(|table| out.object(table))?;
    } else {
        let rows: Vec<_> = restored.iter().map(|r| [r.table.clone(), grouped(r.rows)]).collect();
        out.table(["table", "rows"], &rows)?;
    }
    out.finish()
}

/// What tables are to be like that are not as usual, by name.
type Kinds = HashMap<Vec<u8>, TableKind>;

/// What a dump has told so far.
#[derive(Default)]
struct Told {
    kinds: Kinds,
    /// Tables whose columns it knows.
    described: HashSet<Vec<u8>>,
    restored: Vec<Restored>,
    /// Is there a row that was put?
    has_put: bool,
}

/// Restores the table of the header `next`, which has been read, and all behind it.
fn restore(
    args: &RestoreArgs,
    db: &Database,
    dump: &mut Reader<impl BufRead>,
    mut next: Option<Header>,
    told: &mut Told,
) -> Outcome {
    while let Some(header) = next {
        if header.table.as_deref() == Some(INDEXES) {
            read_kinds(dump, &header, &mut told.kinds)?;
        } else {
            let name = table_of(args, &header)?;
            restore_table(args, db, dump, &header, name, told)?;
        }
        next = dump.header()?;
    }
    // One sync for everything: no row was acknowledged before.
    Ok(db.sync()?)
}

/// The table whose rows follow this header.
fn table_of(args: &RestoreArgs, header: &Header) -> Outcome<String> {
    let name = header.table.as_ref().or(args.table.as_ref());
    name.cloned()
        .ok_or_else(|| Failure::usage("the dump does not say which table this is; name one with --table"))
}

fn read_kinds(dump: &mut Reader<impl BufRead>, header: &Header, kinds: &mut Kinds) -> Outcome {
    while let Some((table, kind)) = dump.row(header)? {
        let kind = TableKind::parse(&kind).ok_or_else(|| {
            dump.wrong("this index is unknown; a newer foreshore made the dump, and can restore it")
        })?;
        kinds.insert(table, kind);
    }
    Ok(())
}

/// The table, created if absent; an existing one stays what it is.
fn create(db: &Database, name: &str, kinds: &Kinds) -> Outcome<ByteTable> {
    let kind = kinds.get(name.as_bytes()).cloned().unwrap_or_default();
    let table = db.byte_table_with(name, kind.options())?;
    Ok(table.with_durability(Durability::Relaxed))
}

/// Restores one table, if it is wanted.
fn restore_table(
    args: &RestoreArgs,
    db: &Database,
    dump: &mut Reader<impl BufRead>,
    header: &Header,
    name: String,
    told: &mut Told,
) -> Outcome {
    let wanted = |key: &[u8]| match &args.table {
        None => true,
        Some(table) => name == *table || name == SCHEMAS && key == table.as_bytes(),
    };
    let is_wanted = args.table.as_deref().is_none_or(|table| name == table);
    let meter = Meter::new("restore", None);
    let is_new = db.existing_byte_table(&name).is_none();
    let mut table = if is_wanted { Some(create(db, &name, &told.kinds)?) } else { None };
    let shape =
        if told.described.contains(name.as_bytes()) { Shape::Text } else { Shape::of_table(db, &name)? };
    let mut rows = 0;
    while let Some((key, value)) = dump.row(header)? {
        if wanted(&key) {
            let target = match &table {
                Some(target) => target,
                None => table.insert(create(db, &name, &told.kinds)?),
            };
            if name == SCHEMAS {
                // The next command that writes would take it for that of a table that is not there, and remove it.
                Schema::parse(&value)
                    .map_err(|why| dump.wrong(&format!("this is no row of {SCHEMAS}: {why}")))?;
                ensure_no_other(db, target, &key, &value, &told.restored)?;
                told.described.insert(key.clone());
            }
            let value = shape.value(&key, value).map_err(|wrong| {
                dump.wrong(&format!(
                    "table {name:?} is there with columns, and this is none of its rows: {wrong}"
                ))
            })?;
            target.put(&key, &value).map_err(|error| Failure::from(error).at(dump.place()))?;
            (rows, told.has_put) = (rows + 1, true);
            meter.set(rows, || format!("{} rows of {name}", grouped(rows)));
        }
    }
    if is_wanted {
        told.restored.push(Restored { table: name, rows, is_new });
    }
    Ok(())
}

/// The columns of a table that is there are not to become others: its rows could no longer be read.
fn ensure_no_other(
    db: &Database,
    schemas: &ByteTable,
    table: &[u8],
    schema: &[u8],
    restored: &[Restored],
) -> Outcome {
    let present = schemas.get(table)?;
    let name = String::from_utf8_lossy(table);
    let is_same = match present {
        Some(present) => present == schema,
        // A dump may tell the columns behind the rows.
        None => restored.iter().any(|restored| restored.table == name && restored.is_new),
    };
    if is_same || db.existing_byte_table(&name).is_none() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "table {name:?} is there with other columns, or another key, than in the dump, or with none; drop it, or restore \
         into another database (--dir)"
    )))
}
