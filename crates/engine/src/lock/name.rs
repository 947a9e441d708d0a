//! Names of locks: 64-bit hashes of a table and a key.
//!
//! Why hashes: a request is two words, whatever the key's length, and needs no memory of its own. Two keys with one
//! hash share their locks, which costs a false conflict and nothing else; images compare the key itself.
//! The hash has a key chosen at each open, so nobody can aim keys at one bucket. (SipHash, which the standard library
//! has, took 7 % of a TPC-C transaction's instructions; `foldhash` takes 2 %.)

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
    At(&'a [u8]),
    End,
}

impl Names {
    pub fn new() -> Self {
        Self {
            keyed: RandomState::default(),
            #[cfg(test)]
            mask: u64::MAX,
        }
    }

    #[inline]
    pub fn of_key(&self, table: TableId, key: &[u8]) -> Name {
        self.hash(table, Place::At(key))
    }

    pub fn of_end(&self, table: TableId) -> Name {
        self.hash(table, Place::End)
    }

    #[inline]
    fn hash(&self, table: TableId, place: Place<'_>) -> Name {
        let mut hasher = self.keyed.build_hasher();
        table.hash(&mut hasher);
        place.hash(&mut hasher);
        let hash = hasher.finish();
        #[cfg(test)]
        let hash = hash & self.mask;
        Name(NonZeroU64::new(hash).unwrap_or(NonZeroU64::MIN))
    }
}
