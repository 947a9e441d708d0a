//! The bounds of a range of keys, as byte strings.

use std::ops::Bound;

/// The lower and the upper one.
#[doc(hidden)]
pub type RawBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The bounds of all keys that begin with `prefix`.
pub(crate) fn beginning_with(prefix: &[u8]) -> RawBounds {
    (Bound::Included(prefix.to_vec()), successor(prefix))
}

/// The key of a bound; none if the range has no end there.
pub(crate) fn key_of(bound: &Bound<Vec<u8>>) -> Option<&[u8]> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    }
}

/// Where a range with this lower bound begins, and whether a row there is part of it.
pub(crate) fn beginning(from: &Bound<Vec<u8>>) -> (&[u8], bool) {
    (key_of(from).unwrap_or_default(), !matches!(from, Bound::Excluded(_)))
}

/// Does `key` lie before the lower bound `from`?
pub(crate) fn is_before(key: &[u8], from: &Bound<Vec<u8>>) -> bool {
    match from {
        Bound::Included(from) => key < from.as_slice(),
        Bound::Excluded(from) => key <= from.as_slice(),
        Bound::Unbounded => false,
    }
}

/// Does `key` lie behind the upper bound `to`?
pub(crate) fn is_beyond(key: &[u8], to: &Bound<Vec<u8>>) -> bool {
    match to {
        Bound::Included(to) => key > to.as_slice(),
        Bound::Excluded(to) => key >= to.as_slice(),
        Bound::Unbounded => false,
    }
}

/// Can no key lie between the bounds?
pub(crate) fn is_empty(from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>) -> bool {
    match (from, to) {
        (Bound::Included(a), Bound::Included(b)) => a > b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a >= b,
        _ => false,
    }
}

/// The lower one of two upper bounds.
pub(crate) fn lower_of(a: Bound<Vec<u8>>, b: &Bound<Vec<u8>>) -> Bound<Vec<u8>> {
    if as_upper(&a) <= as_upper(b) { a } else { b.clone() }
}

/// Orders lower bounds.
pub(crate) fn as_lower(bound: &Bound<Vec<u8>>) -> Option<(&[u8], bool)> {
    match bound {
        Bound::Unbounded => None,
        Bound::Included(key) => Some((key, false)),
        Bound::Excluded(key) => Some((key, true)),
    }
}

/// Orders upper bounds.
pub(crate) fn as_upper(bound: &Bound<Vec<u8>>) -> (bool, &[u8], bool) {
    match bound {
        Bound::Unbounded => (true, &[], false),
        Bound::Included(key) => (false, key, true),
        Bound::Excluded(key) => (false, key, false),
    }
}

/// Moves a bound to just beyond `key`.
pub(crate) fn exclude(bound: &mut Bound<Vec<u8>>, key: &[u8]) {
    match bound {
        Bound::Excluded(old) => {
            old.clear();
            old.extend_from_slice(key);
        }
        _ => *bound = Bound::Excluded(key.to_vec()),
    }
}

/// The upper bound of all keys that begin with `prefix`: the prefix with its last byte below 0xFF one higher.
pub(crate) fn successor(prefix: &[u8]) -> Bound<Vec<u8>> {
    match prefix.iter().rposition(|byte| *byte != 0xFF) {
        Some(last) => {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            Bound::Excluded(end)
        }
        None => Bound::Unbounded,
    }
}
