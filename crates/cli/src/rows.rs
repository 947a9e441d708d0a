//! `get`, `put`, `rm`: one row at a time. Also how keys are spelled and rows shown, for `scan`.

use crate::args::{DbArgs, engine_durability, existing_table};
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::profile::ProfileArgs;
use crate::schema::{Schema, StoredRecords, ensure_may_be_made, to_csv};
use crate::text::{for_people, hex, shortened, unhex};
use crate::typed::{Typed, Types};
use clap::Args;
use csv::ByteRecord;
use foreshore::{ByteBounds, ByteTable, Database, Error, Prefix, RawBounds};
use foreshore_workloads::Durability;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::io::{Read, Write};
use std::ops::Bound;

const GET_EXAMPLES: &str = "\
Examples:
  foreshore get --table flights 2011,1,1,AA,428    key columns, after `load`
  foreshore get --table ports SEA                  the key as text
  foreshore get --table ports --hex 534541         the key as hexadecimal digits
  foreshore get --table users --key-type str --value-type u64 ada
                                                   a program's typed table
  foreshore get --table photos --raw thumb > thumb.jpg

Exit code 1 if there is no such row or table.";

const PUT_EXAMPLES: &str = "\
Examples:
  foreshore put --table ports SEA 'Seattle-Tacoma'
  head -c 1000 photo.jpg | foreshore put --table photos thumb -
  foreshore put --table ports --hex 00ff c0ffee
  foreshore put --table stock --key-type str,u32 --value-type i64 nail,40 7
  foreshore put --table ports -- \"$key\" \"$value\"     even if one of them is -h";

const RM_EXAMPLES: &str = "\
Examples:
  foreshore rm --table ports SEA
  foreshore rm --table flights 2011,1,1,AA,428,IAH

Exit code 1 if there is no such row or table.";

/// Print the value of a key
#[derive(Args)]
#[command(after_help = GET_EXAMPLES)]
pub struct GetArgs {
    #[command(flatten)]
    db: DbArgs,
    #[command(flatten)]
    target: Target,
    /// Print the value's bytes and nothing else, no line end either
    #[arg(long, conflicts_with_all = ["hex", "json"])]
    raw: bool,
    /// Key: text; of a table with columns or types its parts, with commas between them
    #[arg(allow_hyphen_values = true)]
    key: String,
}

/// Set the value of a key
#[derive(Args)]
#[command(after_help = PUT_EXAMPLES)]
pub struct PutArgs {
    #[command(flatten)]
    db: DbArgs,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    profile: ProfileArgs,
    /// What the row survives once the command returns
    #[arg(long, value_enum, default_value_t = Durability::Sync)]
    durability: Durability,
    /// Key: text; of a table with columns or types its parts, with commas between them
    #[arg(allow_hyphen_values = true)]
    key: String,
    /// Value: text; of a table with columns the whole record, of one with types its parts; - for stdin
    #[arg(allow_hyphen_values = true)]
    value: String,
}

/// Remove a key and its value
#[derive(Args)]
#[command(after_help = RM_EXAMPLES)]
pub struct RmArgs {
    #[command(flatten)]
    db: DbArgs,
    #[command(flatten)]
    target: Target,
    /// Key: text; of a table with columns or types its parts, with commas between them
    #[arg(allow_hyphen_values = true)]
    key: String,
}

/// Which table, and how its keys and values are spelled.
#[derive(Args)]
pub struct Target {
    /// Table
    #[arg(long, value_name = "NAME")]
    pub table: String,
    /// Keys and values are hexadecimal digits, here and in the answer
    #[arg(long)]
    pub hex: bool,
    #[command(flatten)]
    pub types: Types,
}

/// Runs `get`.
pub fn get(args: &GetArgs) -> Outcome {
    let db = args.db.open()?;
    let table = existing_table(&db, &args.target.table)?;
    let mut shape = Shape::of(&db, &args.target)?;
    let key = shape.key(&args.key)?;
    let value = table.get(&key)?.ok_or_else(|| no_such_row(&table, &args.key, &shape))?;
    let mut out = args.db.output();
    if out.is_json() {
        shape.object(&mut out, &key, &value)?;
    } else {
        let shown = if args.raw { shape.raw_value(value)? } else { shape.shown_value(value)? };
        out.raw().write_all(&shown)?;
        out.raw().write_all(if args.raw { b"" } else { b"\n" })?;
    }
    out.finish()
}

/// Runs `put`.
pub fn put(args: &PutArgs) -> Outcome {
    let types = &args.target.types;
    let said = types.spelling();
    let from_stdin = args.value == "-";
    let value = if from_stdin { read_stdin()? } else { args.value.as_bytes().to_vec() };
    ensure_may_be_made(&args.target.table)?;
    // Known to be wrong before a database is made.
    if args.target.hex {
        digits(args.key.as_bytes())?;
        digits(value.trim_ascii_end())?;
    }
    let spelled = |typed: &Typed, value: Vec<u8>| if from_stdin { typed.spelled(value) } else { value };
    if let Some(typed) = &said {
        typed.key.key(&args.key)?;
        typed.value(&spelled(typed, value.clone()))?;
    }
    let db = args.db.open_or_create(args.profile.advise(args.db.builder())?)?;
    let shape = Shape::of(&db, &args.target)?;
    let value = if let Shape::Typed(typed) = &shape { spelled(typed, value) } else { value };
    let key = shape.key(&args.key)?;
    let value = shape.value(&key, value)?;
    let table = db.byte_table_with(&args.target.table, types.options())?;
    shape.ensure_fits(&table, &(Bound::Unbounded, Bound::Unbounded))?;
    table.with_durability(engine_durability(args.durability)).put(&key, &value)?;
    finish_write(
        db,
        table,
        args.db.output(),
        json!({"table": args.target.table, "key": args.key, "put": true}),
    )
}

/// Runs `rm`.
pub fn rm(args: &RmArgs) -> Outcome {
    let db = args.db.open()?;
    let table = existing_table(&db, &args.target.table)?;
    let shape = Shape::of(&db, &args.target)?;
    if !table.remove(&shape.key(&args.key)?)? {
        return Err(no_such_row(&table, &args.key, &shape));
    }
    finish_write(
        db,
        table,
        args.db.output(),
        json!({"table": args.target.table, "key": args.key, "removed": true}),
    )
}

fn finish_write(db: Database, table: ByteTable, mut out: Output, answer: Value) -> Outcome {
    drop(table);
    db.close()?;
    if out.is_json() {
        out.object(&answer)?;
    }
    out.finish()
}

/// The failure that a row is wanted which is not there. Where keys are no texts, the key may only have been spelled as one.
pub fn no_such_row(table: &ByteTable, key: &str, shape: &Shape) -> Failure {
    let failure = Failure::absent(format!("table {:?} has no row with key {key}", table.name()));
    let first = table.range(..).keys_only().next();
    let is_text = |key: &[u8]| std::str::from_utf8(key).is_ok_and(|text| !text.contains(char::is_control));
    match (shape, first) {
        (Shape::Text, Some(Ok((first, _)))) if !is_text(&first) => failure.note(
            "its keys are no plain text: if they are a program's typed table's, which encodes them, --key-type says their type \
             (.types in the shell); --hex takes their bytes",
        ),
        _ => failure,
    }
}

fn read_stdin() -> Outcome<Vec<u8>> {
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).map_err(|e| Failure::io("reading stdin", &e))?;
    Ok(bytes)
}

/// How a table's rows are spelled on the command line and shown.
pub enum Shape {
    /// Key columns and records.
    Csv(Schema, StoredRecords),
    /// Text.
    Text,
    /// Hexadecimal digits, whatever the table.
    Hex,
    /// Text of types that a program's table remembers, or that somebody says it has.
    Typed(Typed),
}

impl Shape {
    /// The shape of the table aimed at.
    ///
    /// Errors: usage, if types are said of a table that `load` has made, or others than a table remembers.
    pub fn of(db: &Database, target: &Target) -> Outcome<Self> {
        if target.hex {
            return Ok(Self::Hex);
        }
        match (Self::of_table(db, &target.table)?, target.types.spelling()) {
            (Self::Csv(..), Some(_)) => Err(Failure::usage(format!(
                "table {:?} was made by `load`, and its columns are known: leave out --key-type (.types in the shell)",
                target.table
            ))),
            (Self::Text, said) => {
                let table = db.existing_byte_table(&target.table);
                match (said, table.as_ref().and_then(ByteTable::types)) {
                    (Some(said), Some(types)) if !said.is_like(types) => Err(Failure::usage(format!(
                        "table {:?} has {types}: leave out --key-type and --value-type (.types in the shell)",
                        target.table
                    ))),
                    (Some(said), _) => Ok(Self::Typed(said)),
                    (None, Some(types)) => Ok(Self::Typed(Typed::remembered(types))),
                    (None, None) => Ok(Self::Text),
                }
            }
            (shape, _) => Ok(shape),
        }
    }

    /// The shape that `load` gave the table, or none.
    pub fn of_table(db: &Database, table: &str) -> Outcome<Self> {
        Ok(Schema::of(db, table)?.map_or(Self::Text, |schema| Self::Csv(schema, StoredRecords::new())))
    }

    /// The key that `text` spells.
    pub fn key(&self, text: &str) -> Outcome<Vec<u8>> {
        match self {
            Self::Csv(schema, _) => schema.parse_key(text),
            Self::Text => Ok(text.as_bytes().to_vec()),
            Self::Hex => digits(text.as_bytes()),
            Self::Typed(typed) => typed.key.key(text),
        }
    }

    /// The end of a range that `text` spells.
    pub fn end(&self, text: &str) -> Outcome<Vec<u8>> {
        match self {
            Self::Csv(schema, _) => schema.parse_prefix(text),
            Self::Text | Self::Hex => self.key(text),
            Self::Typed(typed) => typed.key.leading(text),
        }
    }

    /// The keys that begin as `text` spells, or with these leading columns.
    pub fn beginning(&self, text: &str) -> Outcome<RawBounds> {
        match self {
            Self::Typed(typed) => typed.key.beginning(text),
            _ => Ok(Prefix(self.end(text)?).raw()),
        }
    }

    /// Is the first row of these, if there is one, of the types that somebody says? By others, other rows would be removed or counted,
    /// and what is written a program could not read.
    pub fn ensure_fits(&self, table: &ByteTable, keys: &RawBounds) -> Outcome {
        self.ensure_first_fits(table.range(keys.clone()).keys_only(), |key| table.get(key))
    }

    /// The same of a transaction's or a snapshot's rows: of these keys, and the values that `value_of` has.
    pub fn ensure_first_fits<V>(
        &self,
        mut keys: impl Iterator<Item = foreshore::Result<(Vec<u8>, V)>>,
        value_of: impl FnOnce(&[u8]) -> foreshore::Result<Option<Vec<u8>>>,
    ) -> Outcome {
        let Self::Typed(typed) = self else { return Ok(()) };
        let Some((key, _)) = keys.next().transpose()? else { return Ok(()) };
        let value = match &typed.value {
            Some(_) => value_of(&key),
            None => Ok(None),
        };
        match value {
            Ok(Some(value)) => typed.shown(&key, &value).map(drop),
            // A damaged value says nothing, and who writes may be about to replace it.
            Ok(None) | Err(Error::Corrupt { .. }) => typed.key.shown_key(&key).map(drop),
            Err(error) => Err(error.into()),
        }
    }

    /// The value that was given for `key`. A record must say the same key.
    pub fn value(&self, key: &[u8], given: Vec<u8>) -> Outcome<Vec<u8>> {
        match self {
            Self::Text => Ok(given),
            Self::Hex => digits(given.trim_ascii_end()),
            Self::Typed(typed) => typed.value(&given),
            Self::Csv(schema, _) => {
                let record = schema.parse_row(&given)?;
                if schema.key_of(&record) == key {
                    return Ok(to_csv(record.iter()));
                }
                Err(Failure::usage(format!(
                    "the row's own key is {}; give the same key, or mend the row",
                    shortened(&for_people(&schema.key_text(&record)))
                )))
            }
        }
    }

    /// A value as it is shown by itself.
    pub fn shown_value(&self, value: Vec<u8>) -> Outcome<Vec<u8>> {
        match self {
            Self::Csv(..) | Self::Text => Ok(value),
            Self::Hex => Ok(hex(&value).into()),
            Self::Typed(typed) => typed.shown_value(&value),
        }
    }

    /// A value for who wants nothing else: the bytes of bytes.
    fn raw_value(&self, value: Vec<u8>) -> Outcome<Vec<u8>> {
        match self {
            Self::Typed(typed) => typed.raw_value(&value),
            _ => self.shown_value(value),
        }
    }

    /// A row as one line for people. A record contains its key.
    pub fn line(&self, key: &[u8], value: &[u8]) -> Outcome<String> {
        Ok(match self {
            Self::Csv(..) => for_people(value),
            Self::Text => format!("{}\t{}", for_people(key), for_people(value)),
            Self::Hex => format!("{}\t{}", hex(key), hex(value)),
            Self::Typed(typed) => {
                let (key, value) = typed.shown(key, value)?;
                format!("{}\t{}", for_people(&key), for_people(&value))
            }
        })
    }

    /// Prints a row for programs: `key` and `row` of a CSV table, else `key` and `value`. What is no text is in
    /// hexadecimal digits, and its name ends in `_hex`.
    pub fn object(&mut self, out: &mut Output, key: &[u8], value: &[u8]) -> Outcome {
        match self {
            Self::Csv(schema, records) => {
                let record = records.read(schema, value)?;
                let key = schema.key_text(record);
                out.object(&Record { key: Spelled::text(&key), row: Fields { schema, record } })
            }
            Self::Text => out.object(&Pair { key: Spelled::text(key), value: Spelled::text(value) }),
            Self::Hex => out.object(&Pair { key: Spelled::Hex(hex(key)), value: Spelled::Hex(hex(value)) }),
            Self::Typed(typed) => {
                let (key, value) = typed.shown(key, value)?;
                out.object(&Pair { key: Spelled::text(&key), value: Spelled::text(&value) })
            }
        }
    }
}

/// A row of a CSV table in JSON.
struct Record<'a> {
    key: Spelled<'a>,
    row: Fields<'a>,
}

impl Serialize for Record<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        let (name, key) = self.key.field("key");
        map.serialize_entry(&name, key)?;
        map.serialize_entry("row", &self.row)?;
        map.end()
    }
}

/// Fields by their columns' names, in the header's order. A name that the header has twice gets a number.
struct Fields<'a> {
    schema: &'a Schema,
    record: &'a ByteRecord,
}

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.record.len()))?;
        let names = self.schema.names.iter().zip(&self.schema.hex_names);
        for ((name, hex_name), field) in names.zip(self.record) {
            match Spelled::text(field) {
                Spelled::Text(content) => map.serialize_entry(name, content)?,
                Spelled::Hex(digits) => map.serialize_entry(hex_name, &digits)?,
            }
        }
        map.end()
    }
}

/// A row of any other table in JSON.
struct Pair<'a> {
    key: Spelled<'a>,
    value: Spelled<'a>,
}

/// Bytes in JSON.
enum Spelled<'a> {
    Text(&'a str),
    Hex(String),
}

impl<'a> Spelled<'a> {
    fn text(bytes: &'a [u8]) -> Self {
        std::str::from_utf8(bytes).map_or_else(|_| Self::Hex(hex(bytes)), Self::Text)
    }

    /// The field's name, which says how it is spelled, and its content.
    fn field<'n>(&self, name: &'n str) -> (Cow<'n, str>, &str) {
        match self {
            Self::Text(content) => (Cow::Borrowed(name), content),
            Self::Hex(digits) => (Cow::Owned(format!("{name}_hex")), digits),
        }
    }
}

impl Serialize for Pair<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (key, value) = (self.key.field("key"), self.value.field("value"));
        serializer.collect_map([key, value])
    }
}

fn digits(text: &[u8]) -> Outcome<Vec<u8>> {
    unhex(text)
        .ok_or_else(|| Failure::usage("--hex: expected an even number of hexadecimal digits, such as 00ff"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_named_so() {
        let pair = Pair { key: Spelled::text(b"k"), value: Spelled::text(b"\xff") };
        assert_eq!(serde_json::to_string(&pair).unwrap(), r#"{"key":"k","value_hex":"ff"}"#);
    }

    #[test]
    fn fields_keep_the_headers_order() {
        let schema = Schema::new(vec!["b".into(), "a".into()], &["a".into()]).unwrap();
        let record = schema.parse_row(b"x,\"1,5\"").unwrap();
        let fields = Fields { schema: &schema, record: &record };
        assert_eq!(serde_json::to_string(&fields).unwrap(), r#"{"b":"x","a":"1,5"}"#);
        let schema = Schema::new(vec!["b".into(), "a".into(), "b".into()], &["a".into()]).unwrap();
        let record = schema.parse_row(b"x,1,y").unwrap();
        let fields = Fields { schema: &schema, record: &record };
        assert_eq!(serde_json::to_string(&fields).unwrap(), r#"{"b":"x","a":"1","b_2":"y"}"#);
    }

    /// A field of another column's name would be lost to programs, which see one of two.
    #[test]
    fn digits_take_no_other_columns_name() {
        let columns = ["a", "a_hex", "a_2_hex", "a"].map(String::from).to_vec();
        let schema = Schema::new(columns, &["a_hex".into()]).unwrap();
        let record = schema.parse_row(b"\xff,x,\xfe,\xfd").unwrap();
        let fields = Fields { schema: &schema, record: &record };
        assert_eq!(
            serde_json::to_string(&fields).unwrap(),
            r#"{"a_3_hex":"ff","a_hex":"x","a_2_hex_hex":"fe","a_2_2_hex":"fd"}"#
        );
    }

    #[test]
    fn a_record_must_say_its_own_key() {
        let shape = Shape::Csv(
            Schema::new(vec!["a".into(), "b".into()], &["a".into()]).unwrap(),
            StoredRecords::new(),
        );
        let key = shape.key("7").unwrap();
        assert_eq!(shape.value(&key, b"7,x\n".to_vec()).unwrap(), b"7,x");
        assert!(shape.value(&key, b"8,x".to_vec()).is_err());
    }
}
