//! Tables that came from CSV: which columns there are, and which of them are the key.
//!
//! A row's value is its whole record as CSV, so that `get` and `scan` show what was in the file. Its key is the key
//! columns one after the other, each in an order-preserving encoding (`memcomparable`) that decides *per field*:
//! a field that is an `i64` in its usual spelling sorts as that integer, before every other text. So flight 428
//! sorts before flight 1294, nothing has to be declared, and a late "N/A" in a column of numbers spoils nothing.
//!
//! Schemas are rows of the table `foreshore.schemas`: table name → JSON. They are dumped and restored with the rest.

use crate::dump_format::INDEXES;
use crate::failure::{Failure, Kind, Outcome};
use crate::tables::has_lost_its_name;
use crate::text::{for_people, shortened};
use csv::ByteRecord;
use foreshore::{ByteTable, Database, Error, TransactionOptions};
use serde::{Deserialize, Serialize, Serializer};
use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::time::Duration;

/// The table that holds the schemas of all others.
pub use foreshore_server::SCHEMAS;

/// Columns that a message names, at most.
const COLUMNS_TOLD: usize = 20;

/// Only `rm`, and `del` of the shell, may touch the table of schemas by hand.
///
/// Errors: usage, if `table` is that table.
pub fn ensure_not_schemas(table: &str) -> Outcome {
    if table == SCHEMAS {
        return Err(Failure::usage(format!(
            "table {SCHEMAS} is where schemas are kept; choose another name"
        )));
    }
    Ok(())
}

/// Names that mean something else are none of tables that are made.
///
/// Errors: usage, if `table` is that of schemas, or of the indexes in a dump, where a table of that name would have no room.
pub fn ensure_may_be_made(table: &str) -> Outcome {
    if table == INDEXES {
        return Err(Failure::usage(format!(
            "table {INDEXES} is where a dump keeps indexes, leaf sizes and types; choose another name"
        )));
    }
    ensure_not_schemas(table)
}

/// The shape of a CSV table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schema {
    /// The header.
    pub columns: Vec<String>,
    /// Indexes of the key columns, in the key's order.
    key: Vec<usize>,
    /// What the columns are called where no two may be called alike.
    #[serde(skip)]
    pub names: Vec<String>,
    /// The same for fields that are shown as hexadecimal digits.
    #[serde(skip)]
    pub hex_names: Vec<String>,
}

impl Schema {
    /// A file's header, and the columns asked for as its key.
    ///
    /// Errors: usage, if there are no columns, or a key column is missing, or stands in header or key twice.
    pub fn new(columns: Vec<String>, key: &[String]) -> Outcome<Self> {
        let at = |name: &String| {
            let mut found = columns.iter().enumerate().filter(|(_, column)| *column == name);
            match (found.next(), found.next()) {
                (Some((at, _)), None) => Ok(at),
                (None, _) => {
                    let hint = match columns.len() {
                        1 => "; --delimiter says what separates columns",
                        _ => "",
                    };
                    Err(Failure::usage(format!(
                        "--key: there is no column {name:?}; the header has {}{hint}",
                        told(&columns)
                    )))
                }
                (Some(_), Some(_)) => {
                    Err(Failure::usage(format!("--key: the header has column {name:?} twice")))
                }
            }
        };
        if columns.is_empty() {
            return Err(Failure::usage("the text is empty; its first line names the columns"));
        }
        if let Some((_, name)) = key.iter().enumerate().find(|(place, name)| key[..*place].contains(name)) {
            return Err(Failure::usage(format!("--key names column {name:?} twice; once is enough")));
        }
        let key = key.iter().map(at).collect::<Outcome<_>>()?;
        let names = different(&columns);
        let hex_names = hex_names(&names);
        Ok(Self { columns, key, names, hex_names })
    }

    /// The schema of `table`, if it has one: tables of other origin hold plain bytes.
    pub fn of(db: &Database, table: &str) -> Outcome<Option<Self>> {
        let Some(json) = Self::stored(db, table)? else { return Ok(None) };
        Self::parse(&json).map(Some).map_err(|why| unreadable(table, &why))
    }

    /// The schema that a row of the table of schemas holds, or why it holds none.
    pub fn parse(json: &[u8]) -> Result<Self, String> {
        let mut schema: Self = serde_json::from_slice(json).map_err(|e| e.to_string())?;
        if schema.key.iter().any(|at| *at >= schema.columns.len()) {
            return Err("its key names a column that is not there".into());
        }
        schema.names = different(&schema.columns);
        schema.hex_names = hex_names(&schema.names);
        Ok(schema)
    }

    /// The row that describes `table`, if there is one. The table of schemas has none itself.
    ///
    /// Errors: corruption, which says how to go on without it.
    pub fn stored(db: &Database, table: &str) -> Outcome<Option<Vec<u8>>> {
        Self::row(db, table).map_err(|error| out_of_reach(table, error))
    }

    /// As [`Self::stored`]; an error is the engine's, and says nothing of what that is to `table`.
    pub fn row(db: &Database, table: &str) -> foreshore::Result<Option<Vec<u8>>> {
        match db.existing_byte_table(SCHEMAS) {
            Some(schemas) if table != SCHEMAS => schemas.get(table.as_bytes()),
            _ => Ok(None),
        }
    }

    /// The tables that are described, and the first error: those between two damages are unknown.
    pub fn tables(db: &Database) -> (Vec<String>, foreshore::Result<()>) {
        let mut tables = Vec::new();
        let Some(schemas) = db.existing_byte_table(SCHEMAS) else { return (tables, Ok(())) };
        let keys = || schemas.range(..).keys_only();
        let mut add = |row: foreshore::Result<(Vec<u8>, Vec<u8>)>| {
            row.map(|(table, _)| tables.extend(String::from_utf8(table)))
        };
        let forwards = keys().try_for_each(&mut add);
        let backwards = keys().rev().try_for_each(&mut add);
        (tables, forwards.and(backwards))
    }

    /// Makes this the schema of `table`.
    ///
    /// Errors: usage, if the table has rows of another one, or of another origin; a lock's, if rows of a prepared transaction
    /// may become such.
    pub fn declare(&self, db: &Database, table: &str) -> Outcome {
        ensure_may_be_made(table)?;
        let present = Self::of(db, table)?;
        if present.as_ref() == Some(self) {
            return Ok(());
        }
        // Without rows, as a load that failed at its first one leaves a table, it is bound to nothing.
        if has_rows(db, table)? {
            return Err(match present {
                Some(present) => self.differs_from(&present, table),
                None => Failure::usage(format!(
                    "table {table:?} holds rows that did not come from CSV; load this file into another table"
                )),
            });
        }
        if let Some(types) = db.existing_byte_table(table).as_ref().and_then(ByteTable::types) {
            return Err(Failure::usage(format!(
                "table {table:?} is a program's, with {types}; load this file into another table"
            )));
        }
        let json = serde_json::to_vec(self).map_err(std::io::Error::from)?;
        Ok(Self::store(db, table, &json)?)
    }

    /// Makes this row the one that describes `table`.
    pub fn store(db: &Database, table: &str, json: &[u8]) -> foreshore::Result<()> {
        let schemas = db.byte_table(SCHEMAS)?.with_durability(foreshore::Durability::Sync);
        schemas.put(table.as_bytes(), json)
    }

    /// Why a file of this schema is no further part of `table`, whose schema is another one.
    fn differs_from(&self, present: &Self, table: &str) -> Failure {
        let key = told(&present.key_names());
        let difference = if present.columns == self.columns {
            format!("has key {key}, and --key is {} here", told(&self.key_names()))
        } else {
            format!("has columns {} with key {key}, this file has not", told(&present.columns))
        };
        Failure::usage(format!(
            "table {table:?} {difference}; load the file into another table, or drop that one first"
        ))
    }

    /// Forgets the schemas of tables that are not there: what a `load` or `drop` leaves that was killed between the two.
    /// The next table of such a name is another. Where a rebuild has given tables other names, they may be theirs, and stay;
    /// so do those that cannot be read for damage, which keeps nobody from writing to another table.
    pub fn forget_strays(db: &Database) -> Outcome {
        let Some(schemas) = db.existing_byte_table(SCHEMAS) else { return Ok(()) };
        if db.tables()?.iter().any(|name| has_lost_its_name(name)) {
            return Ok(());
        }
        let is_there = |name: &str| db.existing_byte_table(name).is_some();
        for row in schemas.range(..).keys_only() {
            let (table, _) = match row {
                Err(Error::Corrupt { .. }) => return Ok(()),
                row => row?,
            };
            if !std::str::from_utf8(&table).is_ok_and(is_there) {
                schemas.remove(&table)?;
            }
        }
        Ok(())
    }

    /// Are the rows of this table schemas?
    ///
    /// Errors: usage: where schemas are kept others go, as those of tables that are not there ([`Self::forget_strays`]).
    pub fn ensure_all(table: &ByteTable) -> Outcome {
        for row in table.range(..) {
            let (key, value) = row?;
            if Self::parse(&value).is_err() {
                return Err(Failure::usage(format!(
                    "table {:?} is not where schemas are kept: its row {} is none; `foreshore tables` shows the others",
                    table.name(),
                    shortened(&for_people(&key))
                )));
            }
        }
        Ok(())
    }

    /// Forgets the schema of a table that was dropped, or renamed, if it had one: the next table of this name is another.
    pub fn forget(db: &Database, table: &str) -> Outcome {
        if let Some(schemas) = db.existing_byte_table(SCHEMAS) {
            schemas.remove(table.as_bytes())?;
        }
        Ok(())
    }

    /// Names of the key columns.
    pub fn key_names(&self) -> Vec<&str> {
        self.key.iter().map(|at| self.columns[*at].as_str()).collect()
    }

    /// The key of a record. Both have as many fields as the header.
    pub fn key_of(&self, record: &ByteRecord) -> Vec<u8> {
        encode(self.key.iter().map(|at| &record[*at]))
    }

    /// The key that `text` spells: its columns as a CSV line, such as `2011,1,1,AA,428,IAH`.
    pub fn parse_key(&self, text: &str) -> Outcome<Vec<u8>> {
        let fields = parse_fields(text)?;
        if fields.len() != self.key.len() {
            return Err(Failure::usage(format!(
                "the key is {}: fields separated by commas, {} in all; {text:?} has {}",
                told(&self.key_names()),
                self.key.len(),
                fields.len()
            )));
        }
        Ok(encode(fields.iter()))
    }

    /// As [`Self::parse_key`], but leading columns are enough; none at all is the empty prefix of every key.
    pub fn parse_prefix(&self, text: &str) -> Outcome<Vec<u8>> {
        if text.is_empty() {
            return Ok(Vec::new());
        }
        let fields = parse_fields(text)?;
        if fields.len() > self.key.len() {
            return Err(Failure::usage(format!(
                "the key has the columns {}, {text:?} is more",
                told(&self.key_names())
            )));
        }
        Ok(encode(fields.iter()))
    }

    /// Reads a stored or given record.
    ///
    /// Errors: usage, if it is not one CSV record with a field per column.
    pub fn parse_row(&self, row: &[u8]) -> Outcome<ByteRecord> {
        let record = parse_record(row)?;
        if record.len() != self.columns.len() {
            return Err(Failure::usage(format!(
                "a row is {}: {} fields separated by commas, this one has {}",
                told(&self.columns),
                self.columns.len(),
                record.len()
            )));
        }
        Ok(record)
    }

    /// The key columns of a record, as a CSV line.
    pub fn key_text(&self, record: &ByteRecord) -> Vec<u8> {
        to_csv(self.key.iter().map(|at| &record[*at]))
    }
}

/// Reads stored records one after the other. Building a CSV parser costs several times what parsing a row does.
pub struct StoredRecords {
    csv: Box<csv::Reader<Line>>,
    record: ByteRecord,
}

/// A row of text, and how much of it was read.
struct Line {
    text: Vec<u8>,
    read: usize,
}

impl Read for Line {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let bytes = (&self.text[self.read..]).read(buffer)?;
        self.read += bytes;
        Ok(bytes)
    }
}

impl StoredRecords {
    /// A reader before its first record.
    pub fn new() -> Self {
        let line = Line { text: b"-\n".to_vec(), read: 0 };
        let mut csv = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(line);
        let mut record = ByteRecord::new();
        // The parser passes over a byte order mark where it begins. In a row that is a part of the first field.
        csv.read_byte_record(&mut record).expect("a line in memory");
        Self { csv: Box::new(csv), record }
    }

    /// Splits a row of a table with this schema into its fields.
    ///
    /// Errors: corruption, if it is no such row; this reader is then of no further use.
    pub fn read(&mut self, schema: &Schema, row: &[u8]) -> Outcome<&ByteRecord> {
        let line = self.csv.get_mut();
        line.text.clear();
        line.text.extend_from_slice(row);
        line.text.push(b'\n');
        line.read = 0;
        let start = self.csv.position().byte();
        self.csv.read_byte_record(&mut self.record)?;
        let is_whole = self.csv.position().byte() - start == row.len() as u64 + 1;
        if is_whole && self.record.len() == schema.columns.len() {
            return Ok(&self.record);
        }
        Err(Failure::corrupt(format!(
            "a row is not a record of {}: {}; it was not written by this command, read it with --hex",
            told(&schema.columns),
            shortened(&for_people(row))
        )))
    }
}

/// Columns as a message names them: the first, if they are many. `--key` reads them so, but for names with control characters
/// or backslashes, which a terminal is shown escaped.
fn told(columns: &[impl AsRef<str>]) -> String {
    let first = columns.iter().take(COLUMNS_TOLD).map(|name| for_people(name.as_ref().as_bytes()));
    let first = first.collect::<Vec<_>>();
    let first = shortened(&String::from_utf8_lossy(&to_csv(first.iter().map(String::as_bytes))));
    match columns.len().saturating_sub(COLUMNS_TOLD) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Are there rows? A transaction also meets those that are prepared, and fails.
fn has_rows(db: &Database, table: &str) -> foreshore::Result<bool> {
    let Some(table) = db.existing_byte_table(table) else { return Ok(false) };
    let tx = db.begin_with(TransactionOptions::new().lock_timeout(Duration::ZERO))?;
    Ok(!table.is_empty()? || !tx.bytes(&table).is_empty()?)
}

fn out_of_reach(table: &str, error: Error) -> Failure {
    let failure = Failure::from(error);
    match failure.kind {
        Kind::Corrupt => failure.note(format_args!(
            "columns are kept there, so those of table {table:?}, if it has any, are unknown; its own rows can be read and written \
             with --hex (.hex on in the shell), and `foreshore dump` takes them as they are. \
             `foreshore drop --table {SCHEMAS}` gives up the columns of all tables, which are plain ones of bytes then"
        )),
        _ => failure,
    }
}

fn unreadable(table: &str, why: &dyn std::fmt::Display) -> Failure {
    Failure::corrupt(format!(
        "the schema of table {table:?} cannot be read: {why}; \
         `foreshore rm --table {SCHEMAS} {table}` turns it into a plain table of bytes"
    ))
}

/// The columns' names; one that there is further up gets a number.
fn different(columns: &[String]) -> Vec<String> {
    let mut taken: HashSet<String> = columns.iter().cloned().collect();
    let mut counts: HashMap<&str, u64> = HashMap::new();
    let mut names = Vec::with_capacity(columns.len());
    for column in columns {
        let count = counts.entry(column).or_default();
        names.push(loop {
            *count += 1;
            let name = if *count == 1 { column.clone() } else { format!("{column}_{count}") };
            if *count == 1 || taken.insert(name.clone()) {
                break name;
            }
        });
    }
    names
}

/// These names with `_hex` behind them; a number goes before it where a name has that already.
fn hex_names(names: &[String]) -> Vec<String> {
    let mut taken: HashSet<String> = names.iter().cloned().collect();
    let hex_name = |name: &String| {
        let numbered = (2u64..).map(|number| format!("{name}_{number}_hex"));
        let mut candidates = std::iter::once(format!("{name}_hex")).chain(numbered);
        candidates.find(|candidate| taken.insert(candidate.clone())).expect("numbers go on")
    };
    names.iter().map(hex_name).collect()
}

/// Fields as one CSV line without its end, quoted where they must be.
pub fn to_csv<'a>(fields: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut writer = csv::WriterBuilder::new().buffer_capacity(512).from_writer(Vec::with_capacity(128));
    writer.write_record(fields).expect("memory takes everything, and there is no header to differ from");
    let mut line = writer.into_inner().expect("memory takes everything");
    line.pop(); // the writer's line end
    line
}

/// Reads a line of fields: an empty one has one, which is empty.
///
/// Errors: usage, if it is none. A line end before it the parser would pass over: it would be another line.
pub fn parse_fields(line: &str) -> Outcome<ByteRecord> {
    match line {
        "" => Ok(ByteRecord::from(vec![""])), // to the parser a line without any field
        _ if line.starts_with(['\r', '\n']) => {
            Err(Failure::usage(format!("{line:?} begins with a line end; in quotes it is part of a text")))
        }
        _ => parse_record(line.as_bytes()),
    }
}

fn parse_record(line: &[u8]) -> Outcome<ByteRecord> {
    // Behind an empty line, which is no record: where it begins, the parser would pass over a byte order mark. Of the line ends
    // behind it, only a quote that is still open takes both.
    let text = [b"\n", line, b"\n\n"].concat();
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(&text[..]);
    let mut record = ByteRecord::new();
    if reader.read_byte_record(&mut record)? && reader.position().byte() == text.len() as u64 {
        return Err(Failure::usage(
            "a quote in the row is never closed; close it, or double a quote that belongs to the text",
        ));
    }
    if reader.read_byte_record(&mut ByteRecord::new())? {
        return Err(Failure::usage("a row is one CSV record; this text holds more than one"));
    }
    Ok(record)
}

fn encode<'a>(fields: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut key = Vec::with_capacity(64);
    for field in fields {
        let mut serializer = memcomparable::Serializer::new(&mut key);
        Field::of(field).serialize(&mut serializer).expect("integers and bytes have an encoding");
    }
    key
}

/// A key field: an integer, or after all integers, anything else.
enum Field<'a> {
    Integer(i64),
    Text(&'a [u8]),
}

impl<'a> Field<'a> {
    /// Only the usual spelling counts as an integer (`7`, not `07` or `+7`), so that no two fields share a key.
    fn of(text: &'a [u8]) -> Self {
        let number = std::str::from_utf8(text).ok().and_then(|t| t.parse::<i64>().ok());
        match number {
            Some(number) if number.to_string().as_bytes() == text => Self::Integer(number),
            _ => Self::Text(text),
        }
    }
}

impl Serialize for Field<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Integer(number) => serializer.serialize_newtype_variant("Field", 0, "Integer", number),
            Self::Text(text) => serializer.serialize_newtype_variant("Field", 1, "Text", &Bytes(text)),
        }
    }
}

/// Bytes as bytes: serde's own slices are sequences of numbers.
struct Bytes<'a>(&'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flights() -> Schema {
        let columns = ["year", "carrier", "flight", "note"].map(String::from).to_vec();
        Schema::new(columns, &["carrier", "flight"].map(String::from)).unwrap()
    }

    #[test]
    fn integers_sort_as_numbers_before_all_text() {
        let key = |field: &str| encode(std::iter::once(field.as_bytes()));
        let fields = ["-12", "-9", "0", "7", "428", "1294", "", "007", "1e3", "AA", "AB", "N/A", "Zürich"];
        for pair in fields.windows(2) {
            assert!(key(pair[0]) < key(pair[1]), "{pair:?}");
        }
    }

    #[test]
    fn a_key_is_found_by_its_leading_columns() {
        let key = flights().parse_key("AA,428").unwrap();
        assert!(key.starts_with(&flights().parse_prefix("AA").unwrap()));
        assert!(!key.starts_with(&flights().parse_prefix("A").unwrap()));
        assert_eq!(flights().parse_prefix("").unwrap(), b"");
        assert!(flights().parse_key("AA").is_err());
        assert!(flights().parse_prefix("AA,428,x").is_err());
    }

    /// It would be the key without it, and the beginning of all keys.
    #[test]
    fn a_key_does_not_begin_with_a_line_end() {
        for text in ["\n", "\r\n", "\nAA", "\nAA,428"] {
            let told = |failure: Failure| failure.to_string();
            for read in [flights().parse_key(text), flights().parse_prefix(text)] {
                assert!(read.map_err(told).unwrap_err().contains("begins with a line end"), "{text:?}");
            }
        }
        assert!(flights().parse_key("\"\nAA\",428").is_ok());
    }

    #[test]
    fn the_record_gives_the_same_key_as_its_spelling() {
        let schema = flights();
        let record = schema.parse_row(b"2011,AA,428,\"late, \"\"very\"\"\"").unwrap();
        assert_eq!(schema.key_of(&record), schema.parse_key("AA,428").unwrap());
        assert_eq!(&record[3], b"late, \"very\"");
        assert_eq!(to_csv(record.iter()), b"2011,AA,428,\"late, \"\"very\"\"\"");
        assert_eq!(schema.key_text(&record), b"AA,428");
    }

    #[test]
    fn stored_records_are_read_one_by_one() {
        let (schema, mut records) = (flights(), StoredRecords::new());
        let long = format!("2011,AA,1,{}", "x".repeat(100_000));
        for row in ["2011,AA,428,\"a, \"\"b\"\"\"", "2014,WN,7,\"two\nlines\"", &long, ",,,"] {
            let record = records.read(&schema, row.as_bytes()).unwrap();
            assert_eq!(record, &schema.parse_row(row.as_bytes()).unwrap(), "{row}");
        }
        for wrong in ["1,2,3", "1,2,3,4\n5,6,7,8", ""] {
            let failure = StoredRecords::new().read(&schema, wrong.as_bytes()).map(|_| ()).unwrap_err();
            assert_eq!(failure.kind, Kind::Corrupt, "{wrong}");
        }
    }

    /// U+FEFF at the beginning of a file is a mark; at the beginning of a row it is what the file has there.
    #[test]
    fn a_byte_order_mark_in_a_row_belongs_to_it() {
        let (schema, mut records) = (flights(), StoredRecords::new());
        let row = "\u{feff}2011,\u{feff}AA,1,".as_bytes();
        for _ in 0..2 {
            assert_eq!(&records.read(&schema, row).unwrap()[0], "\u{feff}2011".as_bytes());
        }
        let record = schema.parse_row(row).unwrap();
        assert_eq!(to_csv(record.iter()), row);
        assert_eq!(schema.key_of(&record), schema.parse_key("\u{feff}AA,1").unwrap());
    }

    #[test]
    fn no_two_columns_are_called_alike() {
        let columns = ["", "a", "a_2", "a", "", "a", "b"].map(String::from).to_vec();
        let schema = Schema::new(columns, &["b".into()]).unwrap();
        assert_eq!(schema.names, ["", "a", "a_2", "a_3", "_2", "a_4", "b"]);
    }

    #[test]
    fn wrong_columns_are_named() {
        let columns = vec!["a".to_string(), "a".to_string()];
        assert!(Schema::new(Vec::new(), &["b".into()]).is_err());
        assert!(Schema::new(vec!["b".into()], &["b".into(), "b".into()]).is_err());
        assert!(Schema::new(columns.clone(), &["b".into()]).is_err());
        assert!(Schema::new(columns, &["a".into()]).is_err());
        assert!(flights().parse_row(b"1,2").is_err());
        assert!(flights().parse_row(b"1,2,3,4\n5,6,7,8").is_err());
        assert!(flights().parse_row(b"1,2,3,\"4").is_err() && flights().parse_row(b"1,2,3,\"4\"").is_ok());
        assert!(flights().parse_key("AA,\"428").is_err() && flights().parse_row(b"1,2,3,\n").is_ok());
    }
}
