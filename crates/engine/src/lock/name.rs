//! Names of locks: 64-bit hashes of a table and a key.
//!
//! Why hashes: a request is two words, whatever the key's length, and needs no memory of its own. Two keys with one
//! hash share their locks, which costs a false conflict and nothing else; images compare the key itself.
//! The hash has a key chosen at each open, so nobody can aim keys at one bucket. (SipHash, which the standard library
//! has, took 7 % of a TPC-C transaction's instructions; `foldhash` takes 2 %.)
//!
//! Keys that differ only in their last byte get names that differ as much: the locks of rows that are neighbours lie side by
//! side, in few pages of memory.

use crate::leaf::KEY_BYTES_MAX;
use foldhash::quality::RandomState;
use foreshore_base::TableId;
use std::hash::{BuildHasher, Hash, Hasher};
use std::num::NonZeroU64;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name(pub(super) NonZeroU64);

/// The hash function of one open.
pub(super) struct Names {
    keyed: RandomState,
    /// Bits of a hash that count: tests make names collide.
    #[cfg(test)]
    pub mask: u64,
}

/// What a name is hashed from.
#[derive(Hash)]
enum Place<'a> {
    /// Keys that begin so, and have at most one byte more.
    Near(&'a [u8]),
    End,
    /// No key: the line of those who gave way.
    Line,
    /// No key: all that the large transaction with this number has for itself.
    All(u64),
}

impl Names {
    pub fn new() -> Self {
        Self {
            keyed: RandomState::default(),
            #[cfg(test)]
            mask: u64::MAX,
        }
    }

    /// A key that is too long for any row is named by as many bytes as no row's key has: it may be very long.
    #[inline]
    pub fn of_key(&self, table: TableId, key: &[u8]) -> Name {
        let key = &key[..key.len().min(KEY_BYTES_MAX + 1)];
        match key.split_last() {
            Some((last, start)) => self.hash(table, Place::Near(start), 1 + u64::from(*last)),
            None => self.hash(table, Place::Near(&[]), 0),
        }
    }

    pub fn of_end(&self, table: TableId) -> Name {
        self.hash(table, Place::End, 0)
    }

    pub fn of_line(&self) -> Name {
        self.hash(TableId(0), Place::Line, 0)
    }

    pub fn of_all(&self, number: u64) -> Name {
        self.hash(TableId(0), Place::All(number), 0)
    }

    #[inline]
    fn hash(&self, table: TableId, place: Place<'_>, last: u64) -> Name {
        let mut hasher = self.keyed.build_hasher();
        table.hash(&mut hasher);
        place.hash(&mut hasher);
        let hash = hasher.finish().wrapping_add(last);
        #[cfg(test)]
        let hash = hash & self.mask;
        Name(NonZeroU64::new(hash).unwrap_or(NonZeroU64::MIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// What is behind the first bytes of a key that is too long for any row is not read.
    #[test]
    fn keys_too_long_for_any_row_are_named_by_their_beginning() {
        let (names, table) = (Names::new(), TableId(16));
        let of = |len, last| names.of_key(table, &[&vec![7; len - 1][..], &[last]].concat());
        assert_ne!(of(KEY_BYTES_MAX, 1), of(KEY_BYTES_MAX, 2));
        assert_ne!(of(KEY_BYTES_MAX, 7), of(KEY_BYTES_MAX + 1, 7), "no row waits for them");
        assert_eq!(of(KEY_BYTES_MAX + 2, 1), of(KEY_BYTES_MAX + 2, 2));
        assert_eq!(of(KEY_BYTES_MAX + 2, 1), of(2 * KEY_BYTES_MAX, 1));
    }

    /// Neighbours lie side by side, and nothing else has their names: a false conflict would be a row that somebody else has.
    #[test]
    fn neighbours_have_names_side_by_side() {
        let (names, table) = (Names::new(), TableId(16));
        let lines: Vec<_> = (0..=255).map(|line| names.of_key(table, &[0, 0, 1, line]).0.get()).collect();
        assert!(lines.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1)));
        let orders = (0..1000u32)
            .flat_map(|order| (0..4u8).map(move |line| [&order.to_be_bytes()[..], &[line]].concat()));
        let short = [vec![], vec![0], vec![1], vec![0, 0]];
        let keys: Vec<_> = orders.chain(short).collect();
        let mut seen: HashSet<_> = keys.iter().map(|key| names.of_key(table, key)).collect();
        seen.extend([names.of_end(table), names.of_line(), names.of_all(1), names.of_all(2)]);
        assert_eq!(seen.len(), keys.len() + 4);
    }
}
