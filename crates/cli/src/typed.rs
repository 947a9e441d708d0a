//! Keys and values of a program's typed table, as text.
//!
//! Why: a `Table<K, V>` encodes its rows. Its types are those that the table remembers, or that somebody says who reads or writes rows by
//! hand. Tuples are CSV lines, as the keys are that `load` makes. A struct, or a tuple in a tuple, is encoded as all its parts one after
//! the other, so it is spelled so, too. What is optional is shown as `null` or what it is, a list in brackets; neither can be given.
//! Keys with such parts, or with others that have no text, are shown as bytes.

use crate::failure::{Failure, Outcome};
use crate::schema::{parse_fields, to_csv};
use crate::text::{for_people, hex, shortened, unhex};
use clap::Args;
use csv::StringRecord;
use foreshore::{ByteBounds, Endless, KeyPrefix, Prefix, RawBounds, TableOptions};
use serde::de::{DeserializeOwned, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt::{self, Display};
use std::str::FromStr;

/// Of which types the rows of a program's table are.
#[derive(Args, Clone, Debug, Default)]
pub struct Types {
    /// Type of the keys, if a program has encoded them, and the table does not know: u64, str …, str,u64 for a tuple
    ///
    /// There are the numbers of Rust (u8 to u128, i8 to i128, f32, f64), bool, char, str (or String), bytes (or Vec<u8>), Python's
    /// int and float, and tuples of these. The parts of a tuple are separated by commas, as in CSV. Bytes that are no text are
    /// spelled as 0x and hexadecimal digits. Tables remember their types unless they were made by the byte: `foreshore tables`.
    #[arg(id = "key_type", long = "key-type", value_name = "TYPE", value_parser = Type::named, conflicts_with = "hex")]
    pub key: Option<Type>,
    /// Type of the values, likewise
    #[arg(id = "value_type", long = "value-type", value_name = "TYPE", value_parser = Type::named, requires = "key_type")]
    pub value: Option<Type>,
}

impl Types {
    /// How rows are spelled, if the keys' type is said.
    pub fn spelling(&self) -> Option<Typed> {
        Some(Typed { key: self.key.clone()?, value: self.value.clone() })
    }

    /// A table that is made for such rows remembers them, if both types are said.
    pub fn options(&self) -> TableOptions {
        let both = self.key.as_ref().zip(self.value.as_ref());
        let types = both.map(|(key, value)| foreshore::Types::named(&key.in_rust(), &value.in_rust()));
        types.into_iter().fold(TableOptions::new(), TableOptions::types)
    }
}

/// How the rows of a typed table are spelled.
#[derive(Clone, Debug)]
pub struct Typed {
    /// Of the keys.
    pub key: Type,
    /// Of the values; without one they are bytes as they are.
    pub value: Option<Type>,
}

impl Typed {
    /// As a table remembers it.
    pub fn remembered(types: &foreshore::Types) -> Self {
        let named = |name: &str| Type::named(name).unwrap_or_else(|_| Type(vec![Part::Unknown(name.into())]));
        Self { key: named(types.key()), value: Some(named(types.value())) }
    }

    /// Is a table, which remembers these types, said to have them?
    pub fn is_like(&self, types: &foreshore::Types) -> bool {
        let value = self.value.as_ref().map(Type::in_rust);
        let said = foreshore::Types::named(&self.key.in_rust(), value.as_deref().unwrap_or(types.value()));
        types.suit(&said)
    }

    /// The value that was given.
    ///
    /// Errors: usage, also if no type is known: what is written without one the program cannot read.
    pub fn value(&self, given: &[u8]) -> Outcome<Vec<u8>> {
        let Some(value) = &self.value else {
            return Err(Failure::usage(
                "a typed table encodes its values, too: say their type by --value-type (.types in the shell); --hex takes \
                 keys and values that are encoded already",
            ));
        };
        let text = std::str::from_utf8(given)
            .map_err(|_| Failure::usage(format!("the value is no text; expected one of type {value}")))?;
        value.value(text)
    }

    /// What was read from a file or another command, as [`Self::value`] takes it: bytes are spelled, and a line end goes where it is no
    /// part of the value.
    pub fn spelled(&self, mut given: Vec<u8>) -> Vec<u8> {
        let value_bytes_min = match self.value.as_ref().map(Type::only) {
            Some(Some("bytes" | "Vec<u8>" | "ByteBuf")) => return Bytes(given).to_string().into(),
            Some(Some("str" | "String")) | None => return given,
            Some(Some("char")) => 1, // it may be a line end itself
            Some(_) => 0,
        };
        for end in [b'\n', b'\r'] {
            if given.len() > value_bytes_min {
                given.pop_if(|last| *last == end);
            }
        }
        given
    }

    /// A value by itself: bytes as they are, all else as its text.
    pub fn raw_value(&self, bytes: &[u8]) -> Outcome<Vec<u8>> {
        let shown = self.shown_value(bytes)?;
        match self.value.as_ref().and_then(Type::only) {
            Some("bytes" | "Vec<u8>" | "ByteBuf") => {
                let Bytes(raw) = postcard::from_bytes(bytes).map_err(|e| Failure::usage(e.to_string()))?;
                Ok(raw)
            }
            _ => Ok(shown),
        }
    }

    /// The text of a value, or its bytes, if its type is not known.
    pub fn shown_value(&self, bytes: &[u8]) -> Outcome<Vec<u8>> {
        match &self.value {
            None => Ok(bytes.to_vec()),
            Some(value) if matches!(value.0[..], [Part::Unknown(_)]) => Ok(bytes.to_vec()),
            Some(value) => Ok(value.shown_value(bytes)?.into()),
        }
    }

    /// The texts of a row.
    pub fn shown(&self, key: &[u8], value: &[u8]) -> Outcome<(Vec<u8>, Vec<u8>)> {
        let spelled = self.key.shown_key(key)?;
        let value = self.shown_value(value).map_err(|failure| {
            let told = shortened(&for_people(&spelled));
            failure.note(format!(
                "it is the value of {told}; `rm --hex` removes the row, whose key is {}",
                hex(key)
            ))
        })?;
        Ok((spelled, value))
    }
}

/// A type of keys or values: one or more parts, or none, as `()` has.
#[derive(Clone, Debug)]
pub struct Type(Vec<Part>);

/// A part of a type.
#[derive(Clone, Debug)]
enum Part {
    Plain(Plain),
    Optional(Type),
    List(Type),
    /// What a table calls so.
    Unknown(String),
}

/// So deep may types be nested: values are read as deep, on the stack.
const DEPTH_MAX: usize = 100;

impl Type {
    /// The type that is called so.
    pub fn named(names: &str) -> Result<Self, String> {
        Self::nested(names, 0)
    }

    fn nested(names: &str, depth: usize) -> Result<Self, String> {
        if depth > DEPTH_MAX {
            return Err(format!("types are nested at most {DEPTH_MAX} deep"));
        }
        if matches!(names, "" | "()") {
            return Ok(Self(Vec::new()));
        }
        let parts = outer_parts(names).into_iter().map(|name| Part::named(name, depth));
        parts.collect::<Result<_, _>>().map(Self)
    }

    /// What parts can be.
    pub fn names() -> impl Iterator<Item = &'static str> {
        PLAIN.iter().map(|part| part.name)
    }

    /// As Rust calls it.
    fn in_rust(&self) -> String {
        self.spelled(|part| part.in_rust)
    }

    fn spelled(&self, name: fn(&Plain) -> &'static str) -> String {
        let names: Vec<_> = self.0.iter().map(|part| part.spelled(name)).collect();
        names.join(",")
    }

    /// The key that `text` spells.
    pub fn key(&self, text: &str) -> Outcome<Vec<u8>> {
        self.written("key", &self.all_fields("key", text)?, |part| part.write_key)
    }

    /// The same of leading parts, for an end of a range; none at all is below every key.
    pub fn leading(&self, text: &str) -> Outcome<Vec<u8>> {
        let are_no_bytes = text == "0x" && matches!(self.only(), Some("bytes" | "Vec<u8>" | "ByteBuf"));
        if text.is_empty() || are_no_bytes {
            return Ok(Vec::new());
        }
        let fields = self.fields(text)?;
        if fields.len() > self.0.len() {
            return Err(Failure::usage(format!("the keys are of type {self}; {text:?} has more parts")));
        }
        self.written("key", &fields, |part| part.write_key)
    }

    /// The keys that begin so: with these leading parts, or, where keys are strings, with this one.
    pub fn beginning(&self, text: &str) -> Outcome<RawBounds> {
        let leading = self.leading(text)?;
        match &self.0[..] {
            [Part::Plain(Plain { beginning: Some(beginning), .. })] if !text.is_empty() => beginning(text),
            _ => Ok(Prefix(leading).raw()),
        }
    }

    fn value(&self, text: &str) -> Outcome<Vec<u8>> {
        self.written("value", &self.all_fields("value", text)?, |part| part.write_value)
    }

    /// Its name, if it has no parts.
    fn only(&self) -> Option<&'static str> {
        match &self.0[..] {
            [Part::Plain(only)] => Some(only.name),
            _ => None,
        }
    }

    /// The text of a key; its bytes, if there is none.
    pub fn shown_key(&self, bytes: &[u8]) -> Outcome<Vec<u8>> {
        let mut reader = memcomparable::Deserializer::new(Endless::new(bytes));
        let mut fields = Vec::with_capacity(self.0.len());
        for part in &self.0 {
            let Part::Plain(part) = part else { return Ok(bytes.to_vec()) };
            fields.push((part.read_key)(&mut reader));
        }
        let fields = reader.into_inner().whole(fields.into_iter().collect::<Result<Vec<_>, _>>());
        fields.map(|fields| self.joined(&fields).into()).map_err(|why| self.unlike("key", bytes, &why))
    }

    fn shown_value(&self, bytes: &[u8]) -> Outcome<String> {
        let (fields, rest) =
            self.shown_fields(bytes).map_err(|why| self.unlike("value", bytes, &why.to_string()))?;
        match rest.len() {
            0 => Ok(self.joined(&fields)),
            more => Err(self.unlike("value", bytes, &format!("there are {more} bytes too many"))),
        }
    }

    /// The text of each part of a value, and what is behind it.
    fn shown_fields<'a>(&self, mut bytes: &'a [u8]) -> postcard::Result<(Vec<String>, &'a [u8])> {
        let mut fields = vec![String::new(); self.0.len()];
        for (part, field) in self.0.iter().zip(&mut fields) {
            bytes = part.show_value(bytes, field)?;
        }
        Ok((fields, bytes))
    }

    /// The same within another one.
    fn show_within<'a>(&self, mut bytes: &'a [u8], out: &mut String) -> postcard::Result<&'a [u8]> {
        if let [only] = &self.0[..] {
            return only.show_value(bytes, out);
        }
        out.push('(');
        for (n, part) in self.0.iter().enumerate() {
            out.push_str(if n > 0 { "," } else { "" });
            bytes = part.show_value(bytes, out)?;
        }
        out.push(')');
        Ok(bytes)
    }

    /// The parts that `text` spells: where there is only one it is all of it, commas and quotes included.
    fn fields(&self, text: &str) -> Outcome<StringRecord> {
        match self.0.len() {
            0 if text.is_empty() => Ok(StringRecord::new()),
            1 => Ok(StringRecord::from(vec![text])),
            _ => Ok(StringRecord::from_byte_record_lossy(parse_fields(text)?)),
        }
    }

    fn all_fields(&self, what: &str, text: &str) -> Outcome<StringRecord> {
        let fields = self.fields(text)?;
        match (self.0.len(), fields.len()) {
            (wanted, given) if wanted == given => Ok(fields),
            (wanted, given) => Err(Failure::usage(format!(
                "the {what} is of type {self}: {wanted} parts separated by commas; {text:?} has {given}"
            ))),
        }
    }

    fn written(&self, what: &str, fields: &StringRecord, write: fn(&Plain) -> Write) -> Outcome<Vec<u8>> {
        let mut bytes = Vec::new();
        for (part, field) in self.0.iter().zip(fields) {
            let Part::Plain(part) = part else {
                return Err(Failure::usage(format!(
                    "the {what} is of type {self}, of which there is no text that could be given; --hex takes keys and values that \
                     are encoded already"
                )));
            };
            write(part)(field, &mut bytes).map_err(|why| {
                Failure::usage(format!("the {what} is of type {self}: {field:?} is no {} ({why})", part.name))
            })?;
        }
        Ok(bytes)
    }

    /// The inverse of [`Self::fields`].
    fn joined(&self, fields: &[String]) -> String {
        match fields {
            [] => String::new(),
            [only] => only.clone(),
            _ => String::from_utf8_lossy(&to_csv(fields.iter().map(String::as_bytes))).into_owned(),
        }
    }

    fn unlike(&self, what: &str, bytes: &[u8], why: &str) -> Failure {
        Failure::usage(format!(
            "a {what} of the table is not of type {self} ({why}): {}\n\
             if the table remembers its types (`foreshore tables`), this was written by the byte: --hex shows it, `rm --hex` removes \
             it; if not, --key-type and --value-type (.types in the shell) say the types that the program has",
            shortened(&for_people(bytes))
        ))
    }
}

/// As [`Type::named`] takes it.
impl Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0[..] {
            [] => f.write_str("()"),
            _ => f.write_str(&self.spelled(|part| part.name)),
        }
    }
}

/// The parts of a type, and not those within them.
fn outer_parts(names: &str) -> Vec<&str> {
    let (mut parts, mut begin, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, letter) in names.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&names[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&names[begin..]);
    parts
}

impl Part {
    fn named(name: &str, depth: usize) -> Result<Self, String> {
        let name = name.trim();
        if let Some(plain) = PLAIN.iter().find(|plain| plain.name == name) {
            return Ok(Self::Plain(*plain));
        }
        let within = |outer: &str| {
            let inner = name.strip_prefix(outer)?.strip_suffix('>')?;
            Some(Type::nested(inner, depth + 1))
        };
        match (within("Option<"), within("Vec<")) {
            (Some(inner), _) => inner.map(Self::Optional),
            // So many of nothing as any number says would take for ever to show.
            (_, Some(inner)) if inner.as_ref().map_or(true, |inner| !inner.0.is_empty()) => {
                inner.map(Self::List)
            }
            _ => {
                let all: Vec<_> = Type::names().collect();
                Err(format!(
                    "there is no type {name:?}; there are {}, and tuples of them, as str,u64; of values, Option<T> and Vec<T>, too",
                    all.join(", ")
                ))
            }
        }
    }

    fn spelled(&self, name: fn(&Plain) -> &'static str) -> String {
        match self {
            Self::Plain(plain) => name(plain).into(),
            Self::Optional(inner) => format!("Option<{}>", inner.spelled(name)),
            Self::List(inner) => format!("Vec<{}>", inner.spelled(name)),
            Self::Unknown(name) => name.clone(),
        }
    }

    /// Appends the text of a part that begins here; returns the bytes behind it. Each element of a list takes a byte at least.
    fn show_value<'a>(&self, bytes: &'a [u8], out: &mut String) -> postcard::Result<&'a [u8]> {
        match self {
            Self::Plain(plain) => (plain.show_value)(bytes, out),
            Self::Optional(inner) => match postcard::take_from_bytes::<Option<()>>(bytes)? {
                (None, rest) => {
                    out.push_str("null");
                    Ok(rest)
                }
                (Some(()), rest) => inner.show_within(rest, out),
            },
            Self::List(inner) => {
                let (len, mut rest) = postcard::take_from_bytes::<u64>(bytes)?;
                out.push('[');
                for n in 0..len {
                    out.push_str(if n > 0 { "," } else { "" });
                    rest = inner.show_within(rest, out)?;
                }
                out.push(']');
                Ok(rest)
            }
            Self::Unknown(_) => Err(postcard::Error::WontImplement), // values without a text are shown as bytes
        }
    }
}

/// A type without parts, and how its text becomes bytes and bytes its text.
#[derive(Clone, Copy, Debug)]
struct Plain {
    name: &'static str,
    in_rust: &'static str,
    write_key: Write,
    write_value: Write,
    read_key: for<'a> fn(&mut memcomparable::Deserializer<Endless<'a>>) -> memcomparable::Result<String>,
    show_value: ShowValue,
    /// The keys that begin with a text, if that is not the keys that are it.
    beginning: Option<fn(&str) -> Outcome<RawBounds>>,
}

/// Appends what a text spells, or tells what is wrong with it.
type Write = fn(&str, &mut Vec<u8>) -> Result<(), String>;

/// Appends the text of the value that begins here; returns the bytes behind it.
type ShowValue = for<'a> fn(&'a [u8], &mut String) -> postcard::Result<&'a [u8]>;

/// As Rust calls them, and as Python does.
const PLAIN: [Plain; 21] = [
    part::<bool>("bool"),
    part::<char>("char"),
    part::<u8>("u8"),
    wide::<u16, u128>("u16"),
    wide::<u32, u128>("u32"),
    wide::<u64, u128>("u64"),
    part::<u128>("u128"),
    part::<i8>("i8"),
    wide::<i16, i128>("i16"),
    wide::<i32, i128>("i32"),
    wide::<i64, i128>("i64"),
    part::<i128>("i128"),
    part::<Float<f32>>("f32"),
    part::<Float<f64>>("f64"),
    string("String"),
    bytes("Vec<u8>"),
    Plain { beginning: Some(beginning_bytes), ..part::<ByteBuf>("ByteBuf") },
    Plain { in_rust: "String", ..string("str") },
    Plain { in_rust: "Vec<u8>", ..bytes("bytes") },
    Plain { in_rust: "i64", ..wide::<i64, i128>("int") },
    Plain { in_rust: "f64", ..part::<Float<f64>>("float") },
];

const fn string(name: &'static str) -> Plain {
    Plain { beginning: Some(|text| Ok(KeyPrefix::<String>::bounds(text)?)), ..part::<String>(name) }
}

const fn bytes(name: &'static str) -> Plain {
    let beginning = |text: &str| -> Outcome<RawBounds> {
        let Bytes(leading) = parsed(text).map_err(Failure::usage)?;
        Ok(KeyPrefix::<Vec<u8>>::bounds(&leading)?)
    };
    Plain { beginning: Some(beginning), ..part::<Bytes>(name) }
}

/// The keys that begin with these bytes and are written as strings are.
fn beginning_bytes(text: &str) -> Outcome<RawBounds> {
    let Bytes(leading) = parsed(text).map_err(Failure::usage)?;
    let leading = std::str::from_utf8(&leading).map_err(|_| {
        Failure::usage(format!("{text} is no text; a range from there (--from) finds what begins with it"))
    })?;
    Ok(KeyPrefix::<String>::bounds(leading)?)
}

const fn part<T: Spelled>(name: &'static str) -> Plain {
    Plain {
        name,
        in_rust: name,
        write_key: |text, bytes| {
            let part: T = parsed(text)?;
            part.serialize(&mut memcomparable::Serializer::new(bytes)).map_err(|e| e.to_string())
        },
        write_value: write_value::<T>,
        read_key: |reader| T::deserialize(reader).map(|part| part.to_string()),
        show_value: show::<T>,
        beginning: None,
    }
}

/// A number whose values are written as those of a wider type are, which some rows may be of by now.
const fn wide<T: Spelled, W: Spelled>(name: &'static str) -> Plain {
    Plain { show_value: show::<W>, ..part::<T>(name) }
}

fn write_value<T: Spelled>(text: &str, bytes: &mut Vec<u8>) -> Result<(), String> {
    bytes.extend(postcard::to_stdvec(&parsed::<T>(text)?).map_err(|e| e.to_string())?);
    Ok(())
}

fn show<'a, T: Spelled>(bytes: &'a [u8], out: &mut String) -> postcard::Result<&'a [u8]> {
    let (part, rest) = postcard::take_from_bytes::<T>(bytes)?;
    out.push_str(&part.to_string());
    Ok(rest)
}

/// What has a text that is read back.
trait Spelled: FromStr<Err: Display> + Display + Serialize + DeserializeOwned {}
impl<T: FromStr<Err: Display> + Display + Serialize + DeserializeOwned> Spelled for T {}

fn parsed<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

/// The same as `serde_bytes` writes it: a key as a string is written, and a value as a list.
#[derive(Clone, Debug, PartialEq)]
struct ByteBuf(Bytes);

impl FromStr for ByteBuf {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl Display for ByteBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for ByteBuf {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0.0)
    }
}

impl<'de> Deserialize<'de> for ByteBuf {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Whole;
        impl Visitor<'_> for Whole {
            type Value = ByteBuf;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<ByteBuf, E> {
                Ok(ByteBuf(Bytes(bytes.to_vec())))
            }
        }
        deserializer.deserialize_byte_buf(Whole)
    }
}

/// A `Vec<u8>`: what is plain text is spelled so, all else as 0x and hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Bytes(Vec<u8>);

impl FromStr for Bytes {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes = match text.strip_prefix("0x") {
            Some(digits) => unhex(digits.as_bytes()),
            None => Some(text.into()),
        };
        bytes.map(Self).ok_or("behind 0x an even number of hexadecimal digits is expected")
    }
}

impl Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(&self.0) {
            Ok(text) if !text.starts_with("0x") && !text.contains(char::is_control) => f.write_str(text),
            _ => write!(f, "0x{}", hex(&self.0)),
        }
    }
}

/// An `f32` or `f64`. Of a number that is too large Rust's own reading makes an infinity.
#[derive(Serialize, Deserialize)]
struct Float<T>(T);

impl<T: FromStr<Err: Display> + Copy + Into<f64>> FromStr for Float<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number: T = parsed(text)?;
        match number.into().is_infinite() && text.contains(|letter: char| letter.is_ascii_digit()) {
            true => Err("the number is too large; infinity is spelled inf".into()),
            false => Ok(Self(number)),
        }
    }
}

impl<T: Display> Display for Float<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The text of this is read as what tables have for it, and what tables have is shown as the text.
    fn comes_back<T: Serialize>(names: &str, value: &T, text: &str) {
        let (one, key) = (Type::named(names).unwrap(), memcomparable::to_vec(value).unwrap());
        assert_eq!((one.key(text).unwrap(), one.shown_key(&key).unwrap()), (key, text.into()), "{names}");
        let value = postcard::to_stdvec(value).unwrap();
        assert_eq!(
            (one.value(text).unwrap(), one.shown_value(&value).unwrap()),
            (value, text.into()),
            "{names}"
        );
    }

    proptest! {
        #[test]
        fn all_types_come_back(
            (flag, letter, text, bytes) in any::<(bool, char, String, Vec<u8>)>(),
            (a, b, c, d, e) in any::<(u8, u16, u32, u64, u128)>(),
            (f, g, h, i, j) in any::<(i8, i16, i32, i64, i128)>(),
            (k, l) in any::<(f32, f64)>(),
        ) {
            let (k, l) = (k + 0.0, l + 0.0); // -0.0 is the key 0.0
            let bytes = Bytes(bytes);
            comes_back("bool", &flag, &flag.to_string());
            comes_back("char", &letter, &letter.to_string());
            comes_back("u8", &a, &a.to_string());
            comes_back("u16", &b, &b.to_string());
            comes_back("u32", &c, &c.to_string());
            comes_back("u64", &d, &d.to_string());
            comes_back("u128", &e, &e.to_string());
            comes_back("i8", &f, &f.to_string());
            comes_back("i16", &g, &g.to_string());
            comes_back("i32", &h, &h.to_string());
            comes_back("i64", &i, &i.to_string());
            comes_back("int", &i, &i.to_string());
            comes_back("i128", &j, &j.to_string());
            comes_back("f32", &k, &k.to_string());
            comes_back("f64", &l, &l.to_string());
            comes_back("float", &l, &l.to_string());
            comes_back("str", &text, &text);
            comes_back("String", &text, &text);
            comes_back("bytes", &bytes, &bytes.to_string());
            comes_back("Vec<u8>", &bytes, &bytes.to_string());
            let parts = [text.clone(), d.to_string(), bytes.to_string()];
            let line = String::from_utf8(to_csv(parts.iter().map(String::as_bytes))).unwrap();
            comes_back("str, u64, bytes", &(text, d, bytes), &line);
        }

        /// Bytes of another type are an error or a text, which is written so. (Of strings only if their padding is zeros.)
        #[test]
        fn other_bytes_are_errors(bytes: Vec<u8>) {
            for part in PLAIN.iter().filter(|part| !matches!(part.name, "str" | "String" | "ByteBuf")) {
                let one = Type::named(part.name).unwrap();
                if let Ok(text) = one.shown_key(&bytes) {
                    let again = one.key(&String::from_utf8(text).unwrap()).unwrap();
                    prop_assert!(again == bytes || part.name.starts_with('f'), "{one}: {bytes:?}");
                }
                _ = one.shown_value(&bytes);
            }
            _ = Type::named("str,u64").unwrap().shown_key(&bytes);
            _ = Type::named("str,u64").unwrap().shown_value(&bytes);
        }
    }

    /// What is no text is in digits, and so is what would be read as digits.
    #[test]
    fn bytes_are_text_or_digits() {
        comes_back("bytes", &b"etc/hosts".to_vec(), "etc/hosts");
        comes_back("bytes", &b"\xff\0".to_vec(), "0xff00");
        comes_back("bytes", &b"0x".to_vec(), "0x3078");
        comes_back("bytes", &Vec::<u8>::new(), "");
    }

    /// A key of bytes that `serde_bytes` writes is written as a string, and a value as a list.
    #[test]
    fn byte_bufs_are_texts_or_digits() {
        let one = Type::named("ByteBuf").unwrap();
        let key = memcomparable::to_vec(&"ada").unwrap();
        assert_eq!((one.key("ada").unwrap(), one.shown_key(&key).unwrap()), (key, b"ada".to_vec()));
        let key = one.key("0xff00").unwrap();
        assert_eq!(one.shown_key(&key).unwrap(), b"0xff00");
        let (from, to) = one.beginning("ad").unwrap();
        assert!(std::ops::RangeBounds::contains(&(from, to), &one.key("ada").unwrap()));
        assert!(one.beginning("0xff").is_err());
        let value = postcard::to_stdvec(&b"\xff\0".to_vec()).unwrap();
        assert_eq!(
            (one.value("0xff00").unwrap(), one.shown_value(&value).unwrap()),
            (value, "0xff00".to_string())
        );
    }

    /// Whatever nesting is asked for, there is a stack for it.
    #[test]
    fn nesting_has_an_end() {
        let nested =
            |depth: usize| Type::named(&format!("{}u8{}", "Option<".repeat(depth), ">".repeat(depth)));
        assert!(nested(100).is_ok());
        assert!(nested(100_000).unwrap_err().contains("at most 100 deep"));
    }

    #[test]
    fn infinities_have_a_spelling() {
        comes_back("f32", &f32::INFINITY, "inf");
        comes_back("f64", &f64::NEG_INFINITY, "-inf");
        comes_back("f32", &f32::MAX, &f32::MAX.to_string());
    }

    #[test]
    fn what_is_wrong_is_told_with_what_is_expected() {
        let told = |names: &str, text: &str| Type::named(names).unwrap().key(text).unwrap_err().to_string();
        for (names, text, expected) in [
            ("u8", "256", r#"the key is of type u8: "256" is no u8 (number too large"#),
            ("u64", "-1", r#""-1" is no u64 (invalid digit"#),
            ("f32", "1e39", r#""1e39" is no f32 (the number is too large"#),
            ("f64", "-1e400", "too large; infinity is spelled inf"),
            ("float", "1e400", "too large"),
            ("bool", "yes", "`true` or `false`"),
            ("bytes", "0xf", "an even number of hexadecimal digits"),
            ("str,u64", "ada", r#"type str,u64: 2 parts separated by commas; "ada" has 1"#),
            ("str,u64", "ada,x", r#""x" is no u64"#),
        ] {
            assert!(told(names, text).contains(expected), "{}", told(names, text));
        }
        let unknown = Type::named("str,u7").unwrap_err();
        assert!(
            unknown.contains("no type \"u7\"; there are bool, char, u8") && unknown.contains("str,u64"),
            "{unknown}"
        );
        let wrong = Type::named("u64").unwrap().shown_key(b"\x01ada").unwrap_err().to_string();
        assert!(wrong.contains("not of type u64 (it ends too early)") && wrong.contains("--hex"), "{wrong}");
    }

    /// A key of several parts begins with whole ones; a single string with a part of it, an empty text every key.
    #[test]
    fn keys_begin_with_leading_parts_or_texts() {
        let is_within = |names: &str, key: &str, leading: &str| {
            let keys = Type::named(names).unwrap();
            let (from, to) = keys.beginning(leading).unwrap();
            std::ops::RangeBounds::contains(&(from, to), &keys.key(key).unwrap())
        };
        for leading in ["", "o", "orders", "orders-2011"] {
            assert!(is_within("str", "orders-2011", leading) && is_within("bytes", "orders-2011", leading));
            assert!(leading.is_empty() || !is_within("str", "older", leading) || leading == "o");
        }
        assert!(is_within("str,u32", "WN,7", "WN") && !is_within("str,u32", "WN,7", "W"));
        assert!(is_within("u32", "7", "7") && !is_within("u32", "77", "7"));
        assert!(!is_within("str", "a", "a\0"), "the key is only padded so");
        assert!(Type::named("str,u32").unwrap().beginning("WN,7,x").is_err());
    }
}
