//! Forms in which a key may be looked up, and leading components of a tuple key, of the key's own types.
//!
//! Why: a key's encoding says nothing of its types. A prefix of others, such as an `i32` where the keys begin with a
//! `u32`, would be bytes that no key begins with, and find nothing without a word; so would the slice of an array, which
//! serde writes otherwise than the array. So the compiler compares them.

use crate::bounds::{RawBounds, beginning_with, successor};
use crate::db::codec::encode_key;
use crate::db::range::{ByteBounds, KeyBounds};
use crate::error::Result;
use serde::Serialize;
use std::ops::Bound;

/// The leading components of keys `K`, as a tuple: for keys `(String, u32)` that is `("AA",)`, or both components. It
/// must encode as the beginning of such a key. Keys that are strings begin with strings, vectors with slices.
///
/// All tuples of up to twelve components have their prefixes. A key of another shape, such as a struct, can be given
/// some by an implementation for it; its fields encode as the components of a tuple do.
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// # let db = foreshore::Database::in_memory()?;
/// let log = db.table::<(u32, u32), String>("log")?; // (day, second)
/// log.put(&(1, 60), &"a minute later".into())?;
/// assert_eq!(log.prefix(&(1,)).count(), 1); // this 1 is a u32, as the keys say
/// # Ok(()) }
/// ```
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// # let db = foreshore::Database::in_memory()?;
/// let users = db.table::<String, u32>("users")?;
/// users.put("user:ada", &1)?;
/// users.put("visitor:ben", &2)?;
/// assert_eq!(users.prefix("user:").count(), 1);
/// let paths = db.table::<Vec<u8>, u32>("paths")?;
/// paths.put(&b"etc/hosts".to_vec(), &1)?;
/// assert_eq!(paths.prefix(b"etc/".as_slice()).count(), 1);
/// # Ok(()) }
/// ```
///
/// A component of another type is refused:
///
/// ```compile_fail,E0277
/// # fn main() -> foreshore::Result<()> {
/// # let db = foreshore::Database::in_memory()?;
/// let log = db.table::<(u32, u32), String>("log")?;
/// log.prefix(&(1_i32,)).count();
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a prefix of the keys `{K}`",
    note = "a prefix is a tuple of the key's leading components, of the same types, where `&str` stands for `String`; of a `String` it is a `str`, of a `Vec` a slice"
)]
pub trait KeyPrefix<K>: Serialize {
    /// Between which encoded keys those lie that begin so.
    ///
    /// Errors: [`Error::Encoding`](crate::Error::Encoding).
    fn bounds(&self) -> Result<RawBounds> {
        Ok(beginning_with(&encode_key(self)?))
    }
}

impl<K, P: KeyPrefix<K> + ?Sized> KeyPrefix<K> for &P {
    fn bounds(&self) -> Result<RawBounds> {
        (**self).bounds()
    }
}

/// The keys that begin so, wherever a range of keys is asked for: of byte strings what is bytes, of other keys a [`KeyPrefix`].
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// # let db = foreshore::Database::in_memory()?;
/// use foreshore::Prefix;
/// use std::ops::ControlFlow;
/// let log = db.table::<(u32, u32), String>("log")?; // (day, second)
/// log.put_many(&[((1, 60), "started".into()), ((1, 90), "ended".into()), ((2, 0), "started".into())])?;
/// assert_eq!(log.estimate_range(Prefix((1,)))?, 2);
/// log.scan(Prefix((1,)), |(_, second), what| {
///     println!("{second} {what}");
///     ControlFlow::Continue(())
/// })?;
///
/// let files = db.byte_table("files")?;
/// files.put_many(&[("etc/hosts", ""), ("etc/motd", ""), ("usr/bin/sh", "")])?;
/// assert_eq!(files.pop_last_in(Prefix("etc/"))?, Some((b"etc/motd".to_vec(), vec![])));
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix<P>(pub P);

impl<K, P: KeyPrefix<K>> KeyBounds<K> for Prefix<P> {
    fn encoded(&self) -> Result<RawBounds> {
        self.0.bounds()
    }
}

impl<P: AsRef<[u8]>> ByteBounds for Prefix<P> {
    fn raw(&self) -> RawBounds {
        beginning_with(self.0.as_ref())
    }
}

impl KeyPrefix<String> for str {
    fn bounds(&self) -> Result<RawBounds> {
        let encoded = encode_key(self)?;
        // A mark, groups of eight bytes, and behind each how many of them count: what is behind this string's last byte is
        // its own, and not of those that begin with it.
        let end = match self.len().checked_sub(1) {
            Some(before) => successor(&encoded[..1 + before / 8 * 9 + before % 8 + 1]),
            None => Bound::Unbounded,
        };
        Ok((Bound::Included(encoded), end))
    }
}

impl KeyPrefix<String> for String {
    fn bounds(&self) -> Result<RawBounds> {
        self.as_str().bounds()
    }
}

impl<T: Serialize> KeyPrefix<Vec<T>> for [T] {
    fn bounds(&self) -> Result<RawBounds> {
        let mut encoded = encode_key(self)?;
        encoded.pop(); // the mark that no element follows
        Ok(beginning_with(&encoded))
    }
}

impl<T: Serialize> KeyPrefix<Vec<T>> for Vec<T> {
    fn bounds(&self) -> Result<RawBounds> {
        self.as_slice().bounds()
    }
}

/// What encodes as a key or a key's component `C` does: itself, a reference, and the borrowed form of a string or a vector.
/// `get` and its like take such references. A type of your own whose borrowed form serde writes alike can be given one.
///
/// A tuple is given as one of its own type, or a reference to it. As a [prefix](KeyPrefix) that has all its components it can be
/// borrowed part by part:
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// # let db = foreshore::Database::in_memory()?;
/// let scores = db.table::<(String, u32), u64>("scores")?; // player and round
/// scores.put(&("ada".into(), 1), &700)?;
/// assert_eq!(scores.get(&("ada".into(), 1))?, Some(700));
/// let first_of = |player: &str| scores.prefix(&(player, 1)).next().transpose(); // one row at most
/// assert_eq!(first_of("ada")?.map(|row| row.1), Some(700));
/// # Ok(()) }
/// ```
///
/// A slice is none of an array's forms, since serde writes the one with the length and the other without:
///
/// ```compile_fail,E0277
/// # fn main() -> foreshore::Result<()> {
/// # let db = foreshore::Database::in_memory()?;
/// let names = db.table::<[u8; 4], String>("names")?;
/// let packet = [10, 0, 0, 1, 80];
/// names.get(&packet[..4])?;
/// # Ok(()) }
/// ```
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// # let db = foreshore::Database::in_memory()?;
/// # let names = db.table::<[u8; 4], String>("names")?;
/// # let packet = [10, 0, 0, 1, 80];
/// names.get(packet.first_chunk::<4>().expect("four bytes"))?;
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "the keys have a `{C}` where `{Self}` is given",
    note = "a key is looked up by its own type, and a prefix is a tuple of its leading components; `&str` stands for `String`, a slice for a `Vec`, but not for an array"
)]
pub trait KeyComponent<C: ?Sized>: Serialize {}

impl<C: Serialize> KeyComponent<C> for C {}
impl<C: Serialize + ?Sized> KeyComponent<C> for &C {}
impl KeyComponent<String> for &str {}
impl<T: Serialize> KeyComponent<Vec<T>> for &[T] {}

/// A key's tuple cut behind its first component, behind its second, and so on: each time, what is before the cut is a prefix.
macro_rules! prefixes_of_one {
    ([$($lead:ident $part:ident,)*]) => {};
    ([$($lead:ident $part:ident,)*] $next:ident $next_part:ident, $($rest:ident $rest_part:ident,)*) => {
        impl<$($lead, $part: KeyComponent<$lead>,)* $next, $next_part: KeyComponent<$next>, $($rest,)*>
            KeyPrefix<($($lead,)* $next, $($rest,)*)> for ($($part,)* $next_part,) {}
        prefixes_of_one!([$($lead $part,)* $next $next_part,] $($rest $rest_part,)*);
    };
}

/// The same for this tuple and all that are shorter.
macro_rules! prefixes {
    () => {};
    ($first:ident $first_part:ident, $($rest:ident $rest_part:ident,)*) => {
        prefixes_of_one!([] $first $first_part, $($rest $rest_part,)*);
        prefixes!($($rest $rest_part,)*);
    };
}

prefixes!(A Pa, B Pb, C Pc, D Pd, E Pe, F Pf, G Pg, H Ph, I Pi, J Pj, K Pk, L Pl,);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::{is_before, is_beyond};

    /// The key's encoding begins with the prefix's.
    fn begins<K: Serialize, P: KeyPrefix<K>>(key: &K, prefix: &P) {
        assert!(encode_key(key).unwrap().starts_with(&encode_key(prefix).unwrap()));
    }

    /// What the trait allows is what the encoding keeps.
    #[test]
    fn a_prefix_encodes_as_the_beginning_of_its_keys() {
        let key = ("AA".to_string(), 428, Some(-1), vec![7_u8, 0]);
        begins::<(String, u32, Option<i16>, Vec<u8>), _>(&key, &("AA",));
        begins::<(String, u32, Option<i16>, Vec<u8>), _>(&key, &(&key.0, 428));
        begins::<(String, u32, Option<i16>, Vec<u8>), _>(&key, &(key.0.clone(), &428, Some(-1)));
        begins::<(String, u32, Option<i16>, Vec<u8>), _>(&key, &("AA", 428, Some(-1), &[7_u8, 0][..]));
    }

    /// Exactly those strings that begin with the prefix lie between its bounds.
    #[test]
    fn strings_begin_with_strings() {
        let all: Vec<String> = ["", "a", "b", "\0", "ü"]
            .iter()
            .flat_map(|first| (0..20).map(move |more| format!("{first}{}", &"abcabcab\0\0cabcabcab"[..more])))
            .collect();
        for prefix in &all {
            let (from, to) = prefix.as_str().bounds().unwrap();
            for key in &all {
                let key_bytes = encode_key(key).unwrap();
                let between = !is_before(&key_bytes, &from) && !is_beyond(&key_bytes, &to);
                assert_eq!(between, key.starts_with(prefix.as_str()), "{prefix:?} {key:?}");
            }
        }
    }

    /// Exactly those vectors that begin with the prefix lie between its bounds.
    #[test]
    fn vectors_begin_with_slices() {
        let all: Vec<Vec<i8>> = (0..81)
            .map(|number| vec![number / 27 - 1, number / 9 % 3 - 1, number / 3 % 3 - 1, number % 3 - 1])
            .flat_map(|whole| (0..=4).map(move |len| whole[..len].to_vec()))
            .collect();
        for prefix in &all {
            let (from, to) = prefix.bounds().unwrap();
            for key in &all {
                let key_bytes = encode_key(key).unwrap();
                let between = !is_before(&key_bytes, &from) && !is_beyond(&key_bytes, &to);
                assert_eq!(between, key.starts_with(prefix), "{prefix:?} {key:?}");
            }
        }
    }

    /// Keys of a program's own, which says what begins them.
    #[test]
    fn a_struct_can_have_prefixes() {
        #[derive(serde::Serialize)]
        struct Flight {
            carrier: String,
            number: u32,
        }
        impl KeyPrefix<Flight> for (&str,) {}
        begins(&Flight { carrier: "AA".into(), number: 428 }, &("AA",));
    }
}
