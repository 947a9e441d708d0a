//! `load`: CSV rows into a table, by many threads.
//!
//! One reader parses and computes keys; rows go to the loader thread that their key's hash names, so rows with equal
//! keys keep the file's order and the last one wins. Loader threads mostly wait for the device: the more of them,
//! the more rows share each sync.

use crate::args::{DbArgs, IndexKind, cores, engine_durability, parse_leaf_bytes};
use crate::failure::{Failure, Outcome};
use crate::output::{grouped, rate, size};
use crate::profile::ProfileArgs;
use crate::progress::Meter;
use crate::schema::{Schema, parse_fields, to_csv};
use clap::Args;
use csv::ByteRecord;
use foreshore::{ByteTable, Database, TableOptions};
use foreshore_workloads::{Durability, source};
use serde::Serialize;
use std::fs::File;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io::{self, Chain, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Instant;

/// A batch of so many bytes goes to its loader, however few its rows are: many loaders have several waiting each.
const BATCH_BYTES: usize = 64 << 10;

const EXAMPLES: &str = "\
Examples:
  foreshore load --table flights --key Year,Month,Carrier,Flight flights.csv.gz
  xzcat log.csv.xz | foreshore load --table log --key time,host -
  foreshore load --table log --key time,host --delimiter ';' log.csv";

/// Load a CSV file with a header into a table
///
/// The key is a tuple of the columns named by --key. Integers of up to 64 bits, from -2^63 to 2^63 - 1, sort as numbers,
/// everything else as text after them: larger ones, too, and 007. The value is the whole record. Of rows with the same key
/// the last one stays, and `replaced` counts the others: so loading a file again replaces its rows by themselves, and name
/// as many columns as it takes to tell rows apart.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct LoadArgs {
    #[command(flatten)]
    db: DbArgs,
    /// Table to load into, created if absent
    #[arg(long, value_name = "NAME")]
    table: String,
    /// Columns of the key, separated by commas and quoted as in CSV
    #[arg(long, value_name = "A,B,C", value_parser = parse_columns, required = true)]
    key: Vec<Columns>,
    /// Index over the table's leaves, if it is created [default: bplus]
    #[arg(long, value_enum)]
    index: Option<IndexKind>,
    /// Size of the table's leaves, if it is created: 4KiB, 8KiB, 16KiB or 32KiB [default: the profile's, or the database's]
    #[arg(long, value_name = "SIZE", value_parser = parse_leaf_bytes)]
    leaf_bytes: Option<usize>,
    #[command(flatten)]
    profile: ProfileArgs,
    /// Loader threads [default: 64 with sync durability, else one per core]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// What an acknowledged row survives
    #[arg(long, value_enum, default_value_t = Durability::Sync)]
    durability: Durability,
    /// Rows handed to a loader thread at once; fewer if they are large
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    /// What separates fields in the file: one ASCII character, or tab
    #[arg(long, value_name = "CHARACTER", default_value = ",", value_parser = parse_delimiter)]
    delimiter: u8,
    /// CSV file with a header, gzipped or not; - for stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// What a load did; its JSON names are kept stable.
#[derive(Serialize)]
struct Loaded<'a> {
    table: &'a str,
    rows: u64,
    /// Rows whose key was there already, from before or from a row further up.
    replaced: u64,
    seconds: f64,
    rows_per_s: f64,
    /// Of keys and values.
    bytes: u64,
    threads: usize,
    durability: Durability,
    /// Syncs of the log that the rows shared.
    syncs: u64,
}

/// Columns that one `--key` names.
#[derive(Clone)]
struct Columns(Vec<String>);

/// Reads the names of columns.
fn parse_columns(text: &str) -> Result<Columns, String> {
    let names = parse_fields(text).and_then(|names| names.iter().map(column).collect::<Outcome<Vec<_>>>());
    match names.map_err(|failure| failure.to_string())? {
        none if none.is_empty() => Err("this names no column".into()),
        names => Ok(Columns(names)),
    }
}

/// Reads what separates fields.
fn parse_delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [b'"' | b'\n' | b'\r'] => Err("quotes and line ends have a meaning of their own in CSV".into()),
        [one] if one.is_ascii() => Ok(*one),
        _ => Err("expected one ASCII character such as ; or the word tab".into()),
    }
}

/// A row ready to be put.
pub struct Row {
    /// Line of the text in which it begins.
    line: u64,
    /// Encoded key columns.
    pub key: Vec<u8>,
    /// The record as CSV.
    pub value: Vec<u8>,
}

/// Runs `load`.
pub fn run(args: &LoadArgs) -> Outcome {
    if args.file.is_dir() {
        return Err(Failure::usage(format!("{} is a directory; name a CSV file", args.file.display())));
    }
    let input = source::open(&args.file).map_err(|e| Failure::io(args.file.display(), &e))?;
    let key: Vec<_> = args.key.iter().flat_map(|columns| columns.0.clone()).collect();
    let mut rows = Rows::new(input, args.delimiter, &key)?;
    let db = args.db.open_or_create(args.profile.advise(args.db.builder())?)?;
    rows.schema.declare(&db, &args.table)?;
    let table = table_to_load(&db, args)?;
    let threads = loader_threads(args.threads, args.durability);

    let started = Instant::now();
    let counts = Counts::default();
    let threads = load(args, &mut rows, &table, threads, &counts).map_err(|failure| {
        failure.note(format!(
            "{} rows were loaded before that; mend it and load the file again: rows that are there are replaced",
            grouped(counts.rows.load(Relaxed))
        ))
    })?;
    let seconds = started.elapsed().as_secs_f64();
    drop(table);
    let syncs = db.stats().log_syncs;
    db.close()?;

    let row_count = counts.rows.load(Relaxed);
    let loaded = Loaded {
        table: &args.table,
        rows: row_count,
        replaced: counts.replaced.load(Relaxed),
        seconds,
        rows_per_s: rate(row_count, seconds),
        bytes: counts.bytes.load(Relaxed),
        threads,
        durability: args.durability,
        syncs,
    };
    print(args, &loaded)
}

/// The table, created if absent; an existing one keeps its index and its leaf size.
fn table_to_load<'d>(db: &'d Database, args: &LoadArgs) -> Outcome<LoadedTable<'d>> {
    let index = args.index.map(IndexKind::engine);
    let mut options = TableOptions::new();
    if let Some(index) = index {
        options = options.index(index);
    }
    if let Some(leaf_bytes) = args.leaf_bytes {
        options = options.leaf_bytes(leaf_bytes);
    }
    let table = db.byte_table_with(&args.table, options)?;
    if index.is_some_and(|asked| asked != table.index()) {
        return Err(contradiction(args, "--index", format!("index {}", table.index())));
    }
    if args.leaf_bytes.is_some_and(|asked| asked != table.leaf_bytes()) {
        return Err(contradiction(args, "--leaf-bytes", format!("leaves of {} bytes", table.leaf_bytes())));
    }
    let synced = args.durability == Durability::Sync;
    let each = if synced { Durability::Relaxed } else { args.durability };
    Ok(LoadedTable { db, table: table.with_durability(engine_durability(each)), synced })
}

fn contradiction(args: &LoadArgs, option: &str, has: String) -> Failure {
    Failure::usage(format!(
        "{option}: table {:?} exists and has {has}; leave {option} out, or load into another table",
        args.table
    ))
}

fn print(args: &LoadArgs, loaded: &Loaded<'_>) -> Outcome {
    let mut out = args.db.output();
    if out.is_json() {
        out.object(loaded)?;
    } else {
        out.table(
            ["table", "rows", "replaced", "seconds", "rows/s", "bytes", "syncs"],
            &[[
                loaded.table.to_string(),
                grouped(loaded.rows),
                grouped(loaded.replaced),
                format!("{:.2}", loaded.seconds),
                grouped(loaded.rows_per_s as u64),
                size(loaded.bytes),
                grouped(loaded.syncs),
            ]],
        )?;
    }
    out.finish()
}

/// Threads that wait for the device cost little and share its syncs; threads that do not wait want a core each.
fn loader_threads(asked: Option<u16>, durability: Durability) -> usize {
    match (asked, durability) {
        (Some(threads), _) => usize::from(threads),
        (None, Durability::Sync) => 64,
        (None, _) => cores(),
    }
}

/// Rows acknowledged so far, and their bytes.
#[derive(Default)]
struct Counts {
    rows: AtomicU64,
    replaced: AtomicU64,
    bytes: AtomicU64,
}

/// Loads all rows; says how many threads did.
fn load(
    args: &LoadArgs,
    rows: &mut Rows<impl Read>,
    table: &LoadedTable<'_>,
    threads: usize,
    counts: &Counts,
) -> Outcome<usize> {
    const BATCHES_AHEAD: usize = 4;
    let meter = Meter::new("load", text_bytes(&args.file));
    thread::scope(|scope| {
        let (mut senders, mut loaders) = (Vec::new(), Vec::new());
        for _ in 0..threads {
            let (sender, receiver) = sync_channel(BATCHES_AHEAD);
            match thread::Builder::new().spawn_scoped(scope, move || put_batches(&receiver, table, counts)) {
                Ok(loader) => loaders.push(loader),
                Err(error) if loaders.is_empty() => return Err(Failure::io("starting a loader", &error)),
                Err(_) => break, // a container may allow few threads: then there are fewer
            }
            senders.push(sender);
        }
        let read = feed(rows, senders, args.batch as usize, |at_byte| {
            meter.set(at_byte, || {
                let done = counts.rows.load(Relaxed);
                let per_second = rate(done, meter.elapsed().as_secs_f64());
                format!("{} rows, {} rows/s", grouped(done), grouped(per_second as u64))
            });
        });
        let threads = loaders.len();
        // A loader's failure is the cause, the reader's at most its consequence.
        let put: Outcome =
            loaders.into_iter().try_for_each(|loader| loader.join().expect("loaders do not panic"));
        put.and(read).map(|()| threads)
    })
}

/// Rows on their way to one loader.
#[derive(Default)]
struct Batch {
    rows: Vec<Row>,
    bytes: usize,
}

/// Reads all rows and deals them out by key. Ends early, without an error of its own, if a loader failed.
fn feed(
    rows: &mut Rows<impl Read>,
    loaders: Vec<SyncSender<Vec<Row>>>,
    batch_rows: usize,
    mut progress: impl FnMut(u64),
) -> Outcome {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let mut batches: Vec<Batch> = loaders.iter().map(|_| Batch::default()).collect();
    while let Some(row) = rows.next()? {
        let loader = (hasher.hash_one(&row.key) % loaders.len() as u64) as usize;
        let batch = &mut batches[loader];
        batch.bytes += row.key.len() + row.value.len();
        batch.rows.push(row);
        if batch.rows.len() >= batch_rows || batch.bytes >= BATCH_BYTES {
            progress(rows.at_byte());
            if loaders[loader].send(std::mem::take(batch).rows).is_err() {
                return Ok(());
            }
        }
    }
    for (loader, batch) in loaders.iter().zip(batches) {
        if loader.send(batch.rows).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

fn put_batches(batches: &Receiver<Vec<Row>>, table: &LoadedTable<'_>, counts: &Counts) -> Outcome {
    batches.iter().try_for_each(|batch| {
        let put = table.put(&batch);
        table.acknowledge()?;
        counts.add(&put);
        put.failed.map_or(Ok(()), Err)
    })
}

/// Where rows go.
struct LoadedTable<'d> {
    db: &'d Database,
    table: ByteTable,
    /// Does a batch wait for the device, once, after its last row?
    synced: bool,
}

/// What has become of a batch.
#[derive(Default)]
struct Put {
    rows: u64,
    replaced: u64,
    bytes: u64,
    /// Why the next row was not put.
    failed: Option<Failure>,
}

impl LoadedTable<'_> {
    /// Puts the rows, until one fails.
    fn put(&self, rows: &[Row]) -> Put {
        let mut put = Put::default();
        for row in rows {
            match self.put_one(row) {
                Ok(is_new) => put.replaced += u64::from(!is_new),
                Err(error) => {
                    let failure = Failure::from(error).at(format!("the row in line {}", row.line));
                    return Put { failed: Some(failure), ..put };
                }
            }
            put.rows += 1;
            put.bytes += (row.key.len() + row.value.len()) as u64;
        }
        put
    }

    /// Was there no row with this key?
    fn put_one(&self, row: &Row) -> foreshore::Result<bool> {
        let is_new = self.table.insert(&row.key, &row.value)?;
        if !is_new {
            self.table.put(&row.key, &row.value)?;
        }
        Ok(is_new)
    }

    /// Returns when what was put survives what it is to survive.
    fn acknowledge(&self) -> foreshore::Result<()> {
        if self.synced { self.db.sync() } else { Ok(()) }
    }
}

impl Counts {
    fn add(&self, put: &Put) {
        self.rows.fetch_add(put.rows, Relaxed);
        self.replaced.fetch_add(put.replaced, Relaxed);
        self.bytes.fetch_add(put.bytes, Relaxed);
    }
}

/// Of text in one row, at most: twice that of the largest value, as quotes take space.
const ROW_BYTES_MAX: u64 = 2 * foreshore::VALUE_BYTES_MAX as u64;

/// Put behind the text. A last row without a line end takes one of them; only a quote that is still open takes both.
const BEHIND_TEXT: &[u8] = b"\n\n";

/// The records of a CSV text as rows.
pub struct Rows<R> {
    csv: csv::Reader<Chain<Counted<R>, &'static [u8]>>,
    record: ByteRecord,
    row_bytes_max: u64,
    /// The header, and the key in it.
    pub schema: Schema,
}

impl<R: Read> Rows<R> {
    /// Reads the header.
    ///
    /// Errors: usage, if a column of `key` is missing, or a quote is not closed.
    pub fn new(input: R, delimiter: u8, key: &[String]) -> Outcome<Self> {
        Self::with_row_bytes_max(input, delimiter, key, ROW_BYTES_MAX)
    }

    fn with_row_bytes_max(input: R, delimiter: u8, key: &[String], row_bytes_max: u64) -> Outcome<Self> {
        let text = Counted { input, bytes: 0, bytes_max: row_bytes_max }.chain(BEHIND_TEXT);
        let mut csv = csv::ReaderBuilder::new().delimiter(delimiter).from_reader(text);
        let header = csv.byte_headers().map_err(|error| unread(error, 1))?;
        let columns: Vec<_> = header.iter().map(column).collect::<Outcome<_>>()?;
        if !columns.is_empty() {
            ensure_closed(&csv, 1)?;
        }
        Ok(Self { csv, record: ByteRecord::new(), row_bytes_max, schema: Schema::new(columns, key)? })
    }

    /// The next row.
    ///
    /// Errors: usage, if it is no row of this table, or its quote is not closed.
    pub fn next(&mut self) -> Outcome<Option<Row>> {
        let begin = self.csv.position().clone();
        self.csv.get_mut().get_mut().0.bytes_max = begin.byte() + self.row_bytes_max;
        if !self.csv.read_byte_record(&mut self.record).map_err(|error| unread(error, begin.line()))? {
            return Ok(None);
        }
        let line = self.record.position().map_or(0, csv::Position::line);
        ensure_closed(&self.csv, line)?;
        Ok(Some(Row { line, key: self.schema.key_of(&self.record), value: to_csv(self.record.iter()) }))
    }

    /// Bytes of text read so far.
    pub fn at_byte(&self) -> u64 {
        self.csv.position().byte()
    }
}

/// The parser takes the end of the text for the end of a quote: all rows below it would be lost in one field.
fn ensure_closed<R: Read>(csv: &csv::Reader<Chain<Counted<R>, &'static [u8]>>, line: u64) -> Outcome {
    let (text, _) = csv.get_ref().get_ref();
    if csv.position().byte() < text.bytes + BEHIND_TEXT.len() as u64 {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "reading CSV: a quote in the row that begins in line {line} is never closed; close it, or double a quote that \
         belongs to the text"
    )))
}

/// Why the row that begins in this line is not read.
fn unread(error: csv::Error, line: u64) -> Failure {
    match error.kind() {
        csv::ErrorKind::Io(cause) if cause.kind() == io::ErrorKind::FileTooLarge => Failure::usage(format!(
            "reading CSV: the row that begins in line {line} has more text than a table takes; if a quote in it is never closed, \
             close it, or double a quote that belongs to the text"
        )),
        _ => error.into(),
    }
}

/// A column's name.
fn column(name: &[u8]) -> Outcome<String> {
    String::from_utf8(name.to_vec()).map_err(|_| {
        Failure::usage(
            "the first line is not UTF-8, so this is no CSV file with a header, or has another encoding (iconv -t UTF-8 \
             changes it) or compression (only gzip is undone; pipe others, as in: xzcat FILE | foreshore load … -)",
        )
    })
}

/// Counts the bytes that were read, and reads no more than a row may have: one whose quote is never closed would take all memory.
struct Counted<R> {
    input: R,
    bytes: u64,
    bytes_max: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.bytes >= self.bytes_max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let read = self.input.read(buffer)?;
        self.bytes += read as u64;
        Ok(read)
    }
}

/// How much text a file holds: its length, or what the trailer of a gzip file says. Only for the progress bar, which
/// survives a wrong figure (gzip keeps 32 bits of it, and one per member).
fn text_bytes(path: &Path) -> Option<u64> {
    // Looked at before it is opened: to open a named pipe waits for somebody who writes to it.
    let length = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?.len();
    let mut file = File::open(path).ok()?;
    let mut magic = [0; 2];
    file.read_exact(&mut magic).ok()?;
    if magic != [0x1F, 0x8B] {
        return Some(length);
    }
    let mut trailer = [0; 4];
    file.seek(SeekFrom::End(-4)).ok()?;
    file.read_exact(&mut trailer).ok()?;
    Some(u64::from(u32::from_le_bytes(trailer)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is behind a text without a last line end belongs to no row.
    #[test]
    fn texts_end_in_any_way() {
        for (end, last) in [("", "2,b"), ("\n", "2,b"), ("\r\n", "2,b"), ("\r", "2,b"), ("\n\n\n", "2,b")] {
            let text = format!("k,v\n1,\"a\"\n2,b{end}");
            let mut rows = Rows::new(text.as_bytes(), b',', &["k".into()]).unwrap();
            rows.next().unwrap().unwrap();
            assert_eq!(rows.next().unwrap().unwrap().value, last.as_bytes(), "{end:?}");
            assert!(rows.next().unwrap().is_none(), "{end:?}");
        }
        for text in ["k,v\n1,\"a\n\n\"", "k,v\n1,\"a\n\n\"\n", "k,v\n1,\"a\n\n\"\"\"\n"] {
            assert!(
                Rows::new(text.as_bytes(), b',', &["k".into()]).unwrap().next().unwrap().is_some(),
                "{text:?}"
            );
        }
    }

    /// What never ends would take all memory. All rows together may have more.
    #[test]
    fn a_row_has_no_more_text_than_a_table_takes() {
        let rows = |text: Box<dyn Read>| Rows::with_row_bytes_max(text, b',', &["k".into()], 100_000);
        let told = |failure: Failure| failure.to_string();
        let expected = |line: u64| format!("begins in line {line} has more text than a table takes");
        let endless = |byte: u8| io::repeat(byte).take(1 << 20);
        let complaint = rows(Box::new(endless(b'x'))).map(|_| ()).map_err(told).unwrap_err();
        assert!(complaint.contains(&expected(1)), "{complaint}");

        let long = "x".repeat(60_000);
        let text = format!("k,v\n1,{long}\n2,{long}\n3,\"");
        let mut rows = rows(Box::new(io::Cursor::new(text).chain(endless(b'\n')))).map_err(told).unwrap();
        assert_eq!([rows.next(), rows.next()].map(|row| row.map_err(told).unwrap().unwrap().line), [2, 3]);
        let complaint = rows.next().map(|_| ()).map_err(told).unwrap_err();
        assert!(complaint.contains(&expected(4)), "{complaint}");
    }

    /// Or hundreds of rows of megabytes would wait for each of 64 loaders.
    #[test]
    fn large_rows_do_not_wait_for_a_full_batch() {
        let large = "x".repeat(BATCH_BYTES);
        let text = format!("k,v\n1,{large}\n2,a\n3,b\n4,{large}\n5,c\n");
        let mut rows = Rows::new(text.as_bytes(), b',', &["k".into()]).unwrap();
        let (sender, receiver) = sync_channel(8);
        feed(&mut rows, vec![sender], 64, |_| {}).unwrap();
        assert_eq!(receiver.iter().map(|batch| batch.len()).collect::<Vec<_>>(), [1, 3, 1]);
    }
}
