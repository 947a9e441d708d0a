//! How typed keys and values become bytes.
//!
//! Keys are encoded so that byte order is value order (`memcomparable`); values compactly (`postcard`). Both are other
//! people's well-kept formats: nothing here decides a byte.

use crate::error::{Error, Result};
use serde::{Serialize, de::DeserializeOwned};

/// What can be a key: integers, `bool`, `char`, strings, byte strings, options and tuples of these. Tuples order by
/// their first component, then the second, and so on.
///
/// Sizes: an integer takes its own width (4 bytes for `u32`); a string 9 bytes per started group of 8.
pub trait Key: Serialize + DeserializeOwned {}
impl<T: Serialize + DeserializeOwned> Key for T {}

/// What can be a value: anything serde can write and read back.
pub trait Value: Serialize + DeserializeOwned {}
impl<T: Serialize + DeserializeOwned> Value for T {}

/// Appends the order-preserving encoding of `key`.
pub(crate) fn encode_key<K: Serialize + ?Sized>(key: &K, out: &mut Vec<u8>) -> Result<()> {
    key.serialize(&mut memcomparable::Serializer::new(out)).map_err(|e| failed::<K>("encode", &e))
}

/// The inverse of [`encode_key`]; trailing bytes are an error.
pub(crate) fn decode_key<K: DeserializeOwned>(bytes: &[u8]) -> Result<K> {
    memcomparable::from_slice(bytes).map_err(|e| failed::<K>("decode", &e))
}

/// Appends the encoding of `value`.
pub(crate) fn encode_value<V: Serialize>(value: &V, out: Vec<u8>) -> Result<Vec<u8>> {
    postcard::to_extend(value, out).map_err(|e| failed::<V>("encode", &e))
}

/// The inverse of [`encode_value`]; trailing bytes are an error.
pub(crate) fn decode_value<V: DeserializeOwned>(bytes: &[u8]) -> Result<V> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(failed::<V>("decode", &format!("{} bytes too many", rest.len()))),
        Err(e) => Err(failed::<V>("decode", &e)),
    }
}

fn failed<T: ?Sized>(action: &'static str, detail: &dyn std::fmt::Display) -> Error {
    Error::Encoding { action, type_name: std::any::type_name::<T>(), detail: detail.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Byte order is value order, for every shape of key that tables offer.
        #[test]
        fn key_order_is_value_order(a: (i32, String, u64), b: (i32, String, u64)) {
            let (mut x, mut y) = (Vec::new(), Vec::new());
            encode_key(&a, &mut x).unwrap();
            encode_key(&b, &mut y).unwrap();
            prop_assert_eq!(x.cmp(&y), a.cmp(&b));
            prop_assert_eq!(decode_key::<(i32, String, u64)>(&x).unwrap(), a);
        }

        /// Values come back.
        #[test]
        fn values_come_back(v: (Option<i64>, Vec<u8>, String)) {
            let bytes = encode_value(&v, Vec::new()).unwrap();
            prop_assert_eq!(decode_value::<(Option<i64>, Vec<u8>, String)>(&bytes).unwrap(), v);
        }
    }

    #[test]
    fn the_wrong_type_is_an_error() {
        let bytes = encode_value(&(1u8, 2u8), Vec::new()).unwrap();
        assert!(matches!(decode_value::<u8>(&bytes), Err(Error::Encoding { action: "decode", .. })));
        assert!(decode_key::<String>(&[7]).is_err());
    }
}
