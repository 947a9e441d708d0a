//! Of which types a table's rows are, as the catalog keeps it.
//!
//! What matters is how rows are written, so a struct is its fields one after the other, as a tuple is, and names do not count:
//!
//! ```text
//! (u32, String)                                  u32,String
//! struct Seat { row: u8, letter: char }          u8,char
//! Vec<Option<[i16; 2]>>                          Vec<Option<i16,i16>>
//! HashMap<String, u64>                           Vec<String,u64>
//! enum Event { Landed { late: i16 }, Cancelled } enum<i16>          (of several variants, the first)
//! ```
//!
//! A text that ends in `…` says what it begins with, and no more.

use crate::db::codec::{Key, Value};
use crate::db::trace::traced;
use std::fmt;

/// Bytes that the text of one type may have: the row of the catalog is to fit into any leaf.
const TEXT_BYTES_MAX: usize = 240;

/// Stands for all that is not known.
const AND_SO_ON: &str = "…";

/// Of which types a table's keys and values are.
///
/// A table remembers those that it was made with, and [`Database::table`](crate::Database::table) refuses others, whose rows would be
/// nonsense. Names do not count, only how rows are written: a struct is its fields one after the other, as a tuple is.
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// use foreshore::{Error, Types};
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Seat {
///     row: u8,
///     letter: Option<char>,
/// }
///
/// # let db = foreshore::Database::in_memory()?;
/// let seats = db.table::<(u32, String), Seat>("seats")?; // flight and passenger
/// let types = seats.as_bytes().types().expect("a typed table remembers them");
/// assert_eq!((types.key(), types.value()), ("u32,String", "u8,Option<char>"));
/// assert_eq!(types, &Types::of::<(u32, String), (u8, Option<char>)>());
///
/// let mistaken = db.table::<u64, Seat>("seats");
/// assert!(matches!(mistaken, Err(Error::Argument(_))));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Types {
    key: String,
    value: String,
}

impl Types {
    /// Those of a [`Table<K, V>`](crate::Table). A type says of what it consists only as it is read, so each is read from what nobody has
    /// written: numbers are 1, texts empty, lists have one element, options something, enums their first variant. Where it refuses that,
    /// as one that reads itself from a text, or panics, the text ends in `…`.
    pub fn of<K: Key, V: Value>() -> Self {
        Self::named(&traced::<K>(true), &traced::<V>(false))
    }

    /// Those that are called so: for tables that other encoders fill, and for copies of tables. A text of more than 240 bytes is cut off.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// use foreshore::{TableOptions, Types};
    /// # let db = foreshore::Database::in_memory()?;
    /// let typed = TableOptions::new().types(Types::named("u32", "String"));
    /// db.byte_table_with("airlines", typed)?;
    /// db.table::<u32, String>("airlines")?;
    /// # Ok(()) }
    /// ```
    pub fn named(key: &str, value: &str) -> Self {
        Self { key: cut_off(key), value: cut_off(value) }
    }

    /// The keys'.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The values'.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Are rows of these types written as rows of the others are, as far as both are known? Integers in values, from 16 bits on, are
    /// written alike whatever their width.
    ///
    /// ```
    /// use foreshore::Types;
    /// assert!(Types::named("u32", "u16,Vec<u8>").suit(&Types::named("u32", "u64,ByteBuf")));
    /// assert!(!Types::named("u32", "u16").suit(&Types::named("u64", "u16")));
    /// assert!(Types::named("u32", "enum<…").suit(&Types::named("u32", "enum<String>,u8")));
    /// ```
    pub fn suit(&self, others: &Self) -> bool {
        self == others
            || (agree(&self.key, &others.key) && agree(&widest(&self.value), &widest(&others.value)))
    }

    /// As a row of the catalog has them: length of the keys' (1 byte), theirs, and the values'.
    pub(crate) fn encode(&self, row: &mut Vec<u8>) {
        row.push(u8::try_from(self.key.len()).expect("it was cut off"));
        row.extend(self.key.bytes().chain(self.value.bytes()));
    }

    /// The inverse of [`Self::encode`]; `None` if it makes no sense.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (len, texts) = bytes.split_first()?;
        let (key, value) = texts.split_at_checked(usize::from(*len))?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        Some(Self { key: text(key)?, value: text(value)? })
    }
}

/// As messages have it: `keys of u32,String and values of i16`.
impl fmt::Display for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |text| if str::is_empty(text) { "()" } else { text };
        write!(f, "keys of {} and values of {}", shown(&self.key), shown(&self.value))
    }
}

fn cut_off(text: &str) -> String {
    if text.len() <= TEXT_BYTES_MAX {
        return text.into();
    }
    let fits = |end: &usize| *end < TEXT_BYTES_MAX - AND_SO_ON.len();
    let ends = text.match_indices([',', '<']).map(|(end, _)| end);
    let end = ends.take_while(fits).last().map_or(0, |end| end + 1);
    format!("{}{AND_SO_ON}", &text[..end])
}

/// Are they the same, as far as both are known?
fn agree(one: &str, other: &str) -> bool {
    let known = |text: &'_ str| text.strip_suffix(AND_SO_ON).map(str::len);
    match (known(one), known(other)) {
        (None, None) => one == other,
        (Some(len), None) => other.starts_with(&one[..len]),
        (None, Some(len)) => one.starts_with(&other[..len]),
        (Some(len), Some(others)) => one[..len.min(others)] == other[..len.min(others)],
    }
}

/// The text with what is written the same called the same.
fn widest(value: &str) -> String {
    let called = [("ByteBuf", "Vec<u8>"), ("u16", "u128"), ("u32", "u128"), ("u64", "u128")];
    let signed = [("i16", "i128"), ("i32", "i128"), ("i64", "i128")];
    called.iter().chain(&signed).fold(value.into(), |text, (name, widest)| text.replace(name, widest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::{Deserializer, Visitor};
    use serde::{Deserialize, Serialize, Serializer};
    use std::collections::{BTreeMap, HashMap};
    use std::num::NonZeroU32;
    use std::time::Duration;

    #[derive(Serialize, Deserialize)]
    struct Seat {
        row: u8,
        letter: char,
    }

    #[derive(Serialize, Deserialize)]
    enum Event {
        Landed { late: i16 },
        Cancelled,
    }

    #[derive(Serialize, Deserialize)]
    struct Tree {
        name: String,
        below: Vec<Tree>,
    }

    /// As `serde_bytes::ByteBuf`.
    struct Bytes;

    impl Serialize for Bytes {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_bytes(&[])
        }
    }

    impl<'de> Deserialize<'de> for Bytes {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Any;
            impl Visitor<'_> for Any {
                type Value = Bytes;
                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("bytes")
                }
                fn visit_bytes<E>(self, _: &[u8]) -> Result<Bytes, E> {
                    Ok(Bytes)
                }
            }
            deserializer.deserialize_byte_buf(Any)
        }
    }

    fn value<V: Value>() -> String {
        Types::of::<u32, V>().value
    }

    fn suit<A: Value, B: Value>() -> bool {
        let (one, other) = (Types::of::<u32, A>(), Types::of::<u32, B>());
        assert_eq!(one.suit(&other), other.suit(&one));
        one.suit(&other)
    }

    #[test]
    fn types_are_what_they_consist_of() {
        for (text, expected) in [
            (value::<bool>(), "bool"),
            (value::<(u32, String)>(), "u32,String"),
            (value::<Seat>(), "u8,char"),
            (value::<(Seat, ((), [f32; 2]))>(), "u8,char,f32,f32"),
            (value::<Vec<Option<[i16; 2]>>>(), "Vec<Option<i16,i16>>"),
            (value::<HashMap<String, u64>>(), "Vec<String,u64>"),
            (value::<Event>(), "enum<i16>"),
            (value::<Result<(), String>>(), "enum<>"),
            (value::<(Duration, NonZeroU32)>(), "u64,u32,u32"),
            (value::<(Vec<u8>, Bytes)>(), "Vec<u8>,ByteBuf"),
            (value::<()>(), ""),
            (value::<Box<std::path::PathBuf>>(), "String"),
            (value::<(u8, std::net::Ipv4Addr)>(), "u8,u8,u8,u8,u8"),
            (Types::of::<(u8, std::net::Ipv4Addr), u8>().key, "u8,String…"),
        ] {
            assert_eq!(text, expected);
        }
    }

    /// It is told of as far as is sensible.
    #[test]
    fn types_without_an_end_are_cut_off() {
        let tree = value::<Tree>();
        assert!(tree.starts_with("String,Vec<String,Vec<String,") && tree.ends_with('…'), "{tree}");
        assert!(tree.len() < 130, "{tree}");
        let long = value::<[[(u64, String); 20]; 20]>();
        assert!(long.len() <= TEXT_BYTES_MAX && long.ends_with(",…"), "{long}");
        assert!(suit::<[[(u64, String); 20]; 20], [[[(u64, String); 10]; 20]; 2]>());
        assert!(!suit::<[[(u64, String); 20]; 20], (u64, u64)>());
        let named = Types::named(&"ä".repeat(500), "u8");
        assert!(named.key.len() <= TEXT_BYTES_MAX && Types::named(&named.key, "u8") == named);
    }

    /// What `Value` says may be changed.
    #[test]
    fn what_is_written_alike_suits() {
        assert!(
            suit::<u16, u32>() && suit::<u32, u64>() && suit::<i16, i64>() && suit::<(u8, u32), (u8, u64)>()
        );
        assert!(suit::<Vec<u8>, Bytes>());
        assert!(suit::<Seat, (u8, char)>());
        assert!(suit::<BTreeMap<u8, bool>, Vec<(u8, bool)>>());
        assert!(!suit::<Event, u32>() && !suit::<Event, Option<i16>>());
        assert!(!suit::<u8, u16>(), "a byte is written as it is");
        assert!(!suit::<u32, i32>() && !suit::<u32, (u32, u32)>() && !suit::<u32, Option<u32>>());
        assert!(!suit::<(), u32>() && !suit::<String, Vec<u8>>());
        let keys = |key: &str| Types::named(key, "u8");
        assert!(!keys("u32").suit(&keys("u64")), "keys of other widths are other keys");
        assert!(!keys("Vec<u8>").suit(&keys("ByteBuf")));
        let values = |value: &str| Types::named("u8", value);
        assert!(values("Vec<u8…").suit(&values("Vec<u8>")) && values("Vec<u8…").suit(&values("ByteBuf")));
        assert!(keys("u32,…").suit(&keys("u32,bool")) && !keys("u32,…").suit(&keys("bool")));
    }

    /// Nobody has ever written what it is read from.
    #[test]
    fn a_type_may_panic() {
        #[derive(Serialize, Deserialize)]
        #[serde(from = "String")]
        struct Initial(char);
        impl From<String> for Initial {
            fn from(text: String) -> Self {
                Self(text.chars().next().expect("an initial is never empty"))
            }
        }
        assert_eq!(value::<(u8, Initial)>(), "u8,String…");
    }

    #[test]
    fn types_come_back() {
        for types in
            [Types::of::<(u8, String), Seat>(), Types::named("", ""), Types::named(&"u8,".repeat(200), "…")]
        {
            let mut bytes = Vec::new();
            types.encode(&mut bytes);
            assert_eq!(Types::decode(&bytes), Some(types));
        }
        for senseless in [&b""[..], b"\x02u", b"\x01\xff"] {
            assert_eq!(Types::decode(senseless), None);
        }
    }
}
