//! What a value was, in sixteen bytes: WATCH must not keep the values of all that is watched.
//!
//! Two keyed hashes of 64 bits, whose keys are this process's own: others can make no value that passes for another, and
//! by chance one in 2^128 does.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

static KEYED: LazyLock<[RandomState; 2]> = LazyLock::new(Default::default);

/// A value, or that there was none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(Option<[u64; 2]>);

impl Fingerprint {
    /// That of a value.
    pub fn of(value: Option<&[u8]>) -> Self {
        Self(value.map(|value| KEYED.each_ref().map(|keyed| keyed.hash_one(value))))
    }

    /// Was there a value?
    pub fn is_of_a_value(self) -> bool {
        self.0.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::Fingerprint;

    #[test]
    fn other_values_have_others() {
        let values = [None, Some(&b""[..]), Some(b"\0"), Some(b"a"), Some(b"ab")];
        for (n, one) in values.iter().enumerate() {
            for (m, other) in values.iter().enumerate() {
                assert_eq!(Fingerprint::of(*one) == Fingerprint::of(*other), n == m, "{one:?} {other:?}");
            }
        }
    }
}
