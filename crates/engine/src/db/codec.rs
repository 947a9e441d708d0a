//! How typed keys and values become bytes.
//!
//! Keys are encoded so that byte order is value order (`memcomparable`); values compactly (`postcard`). Both are other
//! people's well-kept formats: nothing here decides a byte.

use crate::error::{Error, Result};
use bytes::Buf;
use serde::{Serialize, de::DeserializeOwned};

/// What can be a key: integers, floats, `bool`, `char`, strings, byte strings, options and tuples of these. Tuples order
/// by their first component, then the second, and so on; structs and arrays as tuples do.
///
/// Sizes: an integer takes its own width (4 bytes for `u32`), a string 9 bytes per started group of 8 and one more. A
/// `Vec<u8>` is a sequence, which takes two bytes for each of its elements and one more; `[u8; 16]` takes 16. So of the 1024 bytes
/// that a key may have, a string of 904 is a key, and a word beside a `u64` may have 896.
///
/// For byte strings take `serde_bytes::ByteBuf`: it is written as a string is, so 32 bytes take 37, not 65, and one of 904 is a key,
/// where a `Vec<u8>` may have 511. The keys of the two are different, so a table has the one or the other for good.
///
/// Rows come in the order of what is written: those of `std::cmp::Reverse` keys ascend by what it wraps, those of an enum by
/// the place of its variants, whatever its `Ord` says. Strings come in the order of their bytes. `-0.0` is the key `0.0`; whatever
/// is no number is one key, the last.
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
/// struct Flight {
///     day: u32,
///     carrier: String,
/// }
///
/// # let db = foreshore::Database::in_memory()?;
/// let minutes = db.table::<Flight, i16>("minutes")?;
/// for (day, carrier) in [(2, "AA"), (1, "WN"), (1, "AA")] {
///     minutes.put(&Flight { day, carrier: carrier.into() }, &0)?;
/// }
/// let (first, _) = minutes.range(..).next().expect("three rows")?;
/// assert_eq!(first, Flight { day: 1, carrier: "AA".into() });
/// # Ok(()) }
/// ```
///
/// Not a key: a type that serde writes as text in formats that people read, such as `Ipv4Addr` or `uuid::Uuid`: `get` would find it, but
/// ranges give [`Error::Encoding`]. Use its bytes or its integer: `uuid.into_bytes()`, `u32::from(address)`. Nor what is written without
/// some of its fields, or without the name of its variant (`skip`, `skip_serializing_if`, `flatten`, `untagged`, `tag`): several such keys
/// would be one row. Where debug assertions are on, putting one that is not read back as it was written is an [`Error::Encoding`]; that a
/// field is left out always (`skip`) is not noticed.
/// Nor is a map, or an enum of more than 256 variants: putting one of the others panics. Keys own what they hold, and so do values:
/// `String`, not `&str`, though that will do to look one up.
///
/// Opening a table reads one from made-up parts, to see of what it consists ([`Types::of`](crate::Types::of)).
pub trait Key: Serialize + DeserializeOwned {}
impl<T: Serialize + DeserializeOwned> Key for T {}

/// What can be a value: anything serde can write, and read back from fields that follow each other without names
/// (`postcard`).
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// # let db = foreshore::Database::in_memory()?;
/// #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
/// struct Passenger {
///     name: String,
///     seat: Option<(u8, char)>,
///     bags: Vec<u32>, // grams
/// }
///
/// let passengers = db.table::<u64, Passenger>("passengers")?;
/// let ada = Passenger { name: "ada".into(), seat: Some((12, 'A')), bags: vec![12_500, 7_000] };
/// passengers.put(&17, &ada)?;
/// assert_eq!(passengers.get(&17)?, Some(ada));
/// # Ok(()) }
/// ```
///
/// Of a `Vec<u8>` serde hands over each byte by itself, which takes several times as long as all at once: for large ones take
/// `serde_bytes::ByteBuf`, or mark the field with `#[serde(with = "serde_bytes")]`. Values of the two are written alike, so it reads the
/// rows that a `Vec<u8>` wrote.
///
/// Not a value: what asks a format for the names or types of its fields. So leave `skip_serializing_if`, `flatten`, `untagged` and
/// `tag` off types for tables; a `serde_json::Value` can be stored as its text. Such a value could be put and not be got. Where
/// debug assertions are on, putting it is an [`Error::Encoding`]. Nor a list of what takes no bytes, as `Vec<()>`: bytes of another type may
/// keep its reader busy without an end. Nor does `skip` suit a variant of an enum, if others follow: these
/// would be read as the ones behind them.
///
/// Rows outlive the program that wrote them. What may be changed of their type: all names; an enum may get more variants behind the
/// others; a `u16` may become a `u32` or a `u64`, an `i16` an `i32` or an `i64`. Whatever else is changed makes another type, also
/// by a new field with `#[serde(default)]`: it reads old rows as nonsense or not at all, so a table that remembers its
/// [`Types`](crate::Types) is not opened with it, as far as can be told: of an enum only the first variant is compared. Where more will
/// change, an enum of versions helps. (Who goes back to a narrower integer gets an [`Error::Encoding`] where it is too narrow.)
pub trait Value: Serialize + DeserializeOwned {}
impl<T: Serialize + DeserializeOwned> Value for T {}

/// The order-preserving encoding of `key`.
pub(crate) fn encode_key<K: Serialize + ?Sized>(key: &K) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    key.serialize(&mut memcomparable::Serializer::new(&mut bytes)).map_err(|e| failed::<K>("encode", &e))?;
    Ok(bytes)
}

/// The same for a row that is put. Where debug assertions are on it is read back, too: other keys might be written like it.
pub(crate) fn encode_new_key<K: Key>(key: &(impl Serialize + ?Sized)) -> Result<Vec<u8>> {
    let bytes = encode_key(key)?;
    if cfg!(debug_assertions) {
        let again = decode_key::<K>(&bytes)
            .and_then(|key| encode_key(&key))
            .map_err(|e| failed::<K>("encode", &format!("it cannot be read back ({e})")))?;
        if again != bytes {
            return Err(failed::<K>("encode", &"what is read back is another key"));
        }
    }
    Ok(bytes)
}

/// The inverse of [`encode_key`]; bytes too few or too many are an error.
pub(crate) fn decode_key<K: DeserializeOwned>(bytes: &[u8]) -> Result<K> {
    let mut deserializer = memcomparable::Deserializer::new(Endless::new(bytes));
    let key = K::deserialize(&mut deserializer);
    deserializer.into_inner().whole(key).map_err(|e| failed::<K>("decode", &e))
}

/// A key followed by bytes without end, since `memcomparable` panics where its input ends too early. They are all ones, which are
/// no tag, no length, and no mark of a further element, so nothing that it reads of them goes on for ever. For decoders elsewhere
/// in this repository.
#[doc(hidden)]
#[derive(Debug)]
pub struct Endless<'a> {
    rest: &'a [u8],
    /// Were bytes read behind the key's?
    beyond: bool,
}

impl<'a> Endless<'a> {
    /// The key's bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, beyond: false }
    }

    /// What was decoded, if that took all bytes and no more; else what is wrong.
    pub fn whole<T>(self, decoded: Result<T, memcomparable::Error>) -> Result<T, String> {
        match (decoded, self.rest.len()) {
            _ if self.beyond => Err("it ends too early".into()),
            (Ok(decoded), 0) => Ok(decoded),
            (Ok(_), more) => Err(format!("there are {more} bytes too many")),
            (Err(error), _) => Err(error.to_string()),
        }
    }
}

impl Buf for Endless<'_> {
    fn remaining(&self) -> usize {
        usize::MAX
    }

    fn chunk(&self) -> &[u8] {
        if self.rest.is_empty() { &[0xFF; 16] } else { self.rest }
    }

    fn advance(&mut self, count: usize) {
        self.beyond |= count > self.rest.len();
        self.rest = self.rest.get(count..).unwrap_or_default();
    }
}

/// Says of an encoding error where it was met; other results stay as they are. Nothing is copied where there is no error.
pub(crate) trait Met {
    /// In the table of this name.
    fn in_table(self, name: &str) -> Self;
    /// In the row of this encoded key.
    fn in_row(self, key: &[u8]) -> Self;
}

impl<T> Met for Result<T> {
    #[inline]
    fn in_table(mut self, name: &str) -> Self {
        if let Err(Error::Encoding { table, .. }) = &mut self {
            *table = Some(name.into());
        }
        self
    }

    #[inline]
    fn in_row(mut self, encoded: &[u8]) -> Self {
        if let Err(Error::Encoding { key, .. }) = &mut self {
            *key = Some(encoded.into());
        }
        self
    }
}

/// The encoding of `value`. Where debug assertions are on it is read back, too: who finds out later has lost it.
pub(crate) fn encode_value<V: Value>(value: &V) -> Result<Vec<u8>> {
    let bytes = postcard::to_extend(value, Vec::new()).map_err(|e| failed::<V>("encode", &e))?;
    if cfg!(debug_assertions) {
        read_value::<V>(&bytes)
            .map_err(|e| failed::<V>("encode", &format!("it cannot be read back ({e})")))?;
    }
    Ok(bytes)
}

/// The inverse of [`encode_value`]; trailing bytes are an error.
pub(crate) fn decode_value<V: DeserializeOwned>(bytes: &[u8]) -> Result<V> {
    read_value(bytes).map_err(|e| failed::<V>("decode", &e))
}

/// The value of these bytes, or what is wrong with them.
fn read_value<V: DeserializeOwned>(bytes: &[u8]) -> Result<V, String> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(format!("there are {} bytes too many", rest.len())),
        Err(e) => Err(e.to_string()),
    }
}

/// The same for the value of `key`, which need not be there.
pub(crate) fn decode_found<V: DeserializeOwned>(key: &[u8], bytes: Option<Vec<u8>>) -> Result<Option<V>> {
    bytes.map(|bytes| decode_value(&bytes)).transpose().in_row(key)
}

/// The same for the values of many keys.
pub(crate) fn decode_all<V: DeserializeOwned>(
    keys: &[Vec<u8>],
    values: Vec<Option<Vec<u8>>>,
) -> Result<Vec<Option<V>>> {
    keys.iter().zip(values).map(|(key, value)| decode_found(key, value)).collect()
}

/// Lets `change` do its work on the value of `key`, which is there as bytes. If what it leaves cannot be encoded, the bytes stay.
pub(crate) fn change_value<V: Value, R>(
    key: &[u8],
    bytes: &mut Option<Vec<u8>>,
    change: impl FnOnce(&mut Option<V>) -> R,
) -> Result<R> {
    let mut value = bytes.as_deref().map(decode_value).transpose().in_row(key)?;
    let told = change(&mut value);
    *bytes = value.as_ref().map(encode_value).transpose().in_row(key)?;
    Ok(told)
}

/// A row as byte tables hold it.
pub(crate) fn encode_row<K: Key, V: Value>(
    key: &(impl Serialize + ?Sized),
    value: &V,
) -> Result<(Vec<u8>, Vec<u8>)> {
    let key = encode_new_key::<K>(key)?;
    let value = encode_value(value).in_row(&key)?;
    Ok((key, value))
}

/// The same for many.
pub(crate) fn encode_rows<K: Key, V: Value>(rows: &[(K, V)]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    rows.iter().map(|(key, value)| encode_row::<K, V>(key, value)).collect()
}

/// The inverse of [`encode_row`].
pub(crate) fn decode_row<K: Key, V: Value>((key, value): (Vec<u8>, Vec<u8>)) -> Result<(K, V)> {
    decode_parts(&key, &value)
}

/// The same for a row that is not the caller's own.
pub(crate) fn decode_parts<K: Key, V: Value>(key: &[u8], value: &[u8]) -> Result<(K, V)> {
    decode_key(key).and_then(|decoded| Ok((decoded, decode_value(value)?))).in_row(key)
}

fn failed<T: ?Sized>(action: &'static str, detail: &dyn std::fmt::Display) -> Error {
    let (type_name, detail) = (std::any::type_name::<T>(), detail.to_string());
    Error::Encoding { action, type_name, detail, table: None, key: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Byte order is value order, for every shape of key that tables offer.
        #[test]
        fn key_order_is_value_order(a: (i32, String, u64), b: (i32, String, u64)) {
            let (x, y) = (encode_key(&a).unwrap(), encode_key(&b).unwrap());
            prop_assert_eq!(x.cmp(&y), a.cmp(&b));
            prop_assert_eq!(decode_key::<(i32, String, u64)>(&x).unwrap(), a);
        }

        /// Values come back.
        #[test]
        fn values_come_back(v: (Option<i64>, Vec<u8>, String)) {
            let bytes = encode_value(&v).unwrap();
            prop_assert_eq!(decode_value::<(Option<i64>, Vec<u8>, String)>(&bytes).unwrap(), v);
        }
    }

    #[test]
    fn the_wrong_type_is_an_error() {
        let bytes = encode_value(&(1u8, 2u8)).unwrap();
        assert!(matches!(decode_value::<u8>(&bytes), Err(Error::Encoding { action: "decode", .. })));
        assert!(decode_key::<String>(&[7]).is_err());
    }

    /// Whatever bytes are decoded as whatever key: an error or a key, which is written so. (Of strings only if their padding is zeros.)
    #[test]
    fn keys_of_other_types_are_errors() {
        fn decodes<K: Serialize + DeserializeOwned>(bytes: &[u8]) {
            if let Ok(key) = decode_key::<K>(bytes) {
                assert_eq!(encode_key(&key).unwrap(), bytes, "{}", std::any::type_name::<K>());
            }
        }
        let key = encode_key(&(7_u32, "of more than eight bytes", Some(-1_i64), vec![1_u16, 2])).unwrap();
        for len in 0..key.len() {
            let bytes = &key[..len];
            assert!(decode_key::<(u32, String, Option<i64>, Vec<u16>)>(bytes).is_err(), "{len} bytes");
            decodes::<u8>(bytes);
            decodes::<i64>(bytes);
            decodes::<[u128; 4]>(bytes);
            decodes::<(u32, char)>(bytes);
            decodes::<(i32, Option<String>)>(bytes);
            decodes::<Vec<Vec<u8>>>(bytes);
            decodes::<Result<u64, bool>>(bytes);
        }
        assert_eq!(decode_key::<u32>(&[0, 0, 0, 7]).unwrap(), 7);
        let wrong = decode_key::<i64>(&[0, 0, 0, 7]).unwrap_err().to_string();
        assert!(wrong.starts_with("cannot decode as i64: it ends too early; open the table with"), "{wrong}");
    }

    /// Also of a type that contains itself: what is behind a key's end has no end, and the stack has one.
    #[test]
    fn keys_that_end_too_early_end() {
        #[derive(Debug, Serialize, serde::Deserialize)]
        enum Path {
            Below(Box<Path>, u8),
            Root,
        }
        let path = Path::Below(Box::new(Path::Below(Box::new(Path::Root), 1)), 2);
        let whole = encode_key(&path).unwrap();
        assert_eq!(format!("{:?}", decode_key::<Path>(&whole).unwrap()), format!("{path:?}"));
        for bytes in [&whole[..2], &0_u32.to_be_bytes(), &[]] {
            let wrong = decode_key::<Path>(bytes).unwrap_err().to_string();
            assert!(wrong.contains("it ends too early"), "{wrong}");
        }
    }
}
