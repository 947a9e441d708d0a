//! Bounds of ranges of byte strings.

use std::ops::{Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// What `range` of a map of byte strings takes: `..`, `a..b`, `a..=b`, `a..`, `..b`, `..=b`, or a pair of [`Bound`]s, of whatever is
/// bytes. (The standard `RangeBounds` would ask for a turbofish on `..`.)
///
/// ```
/// use foreshore_index::ByteMap;
/// use std::ops::Bound;
///
/// let map: ByteMap = [("BOS", 1), ("PDX", 2), ("SEA", 3)].into_iter().collect();
/// let sum = |entries: foreshore_index::ByteRange| entries.map(|(_, value)| value).sum::<u64>();
/// assert_eq!(sum(map.range("C"..)), 5);
/// assert_eq!(sum(map.range(..=b"PDX")), 3);
/// assert_eq!(sum(map.range((Bound::Excluded(vec![b'B']), Bound::Unbounded))), 6);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no range of byte strings",
    note = "bounds are what is bytes, such as `&str`, `&[u8]` and `Vec<u8>`, both of one type"
)]
pub trait ByteBounds {
    /// The lower and the upper bound.
    #[doc(hidden)]
    fn slices(&self) -> (Bound<&[u8]>, Bound<&[u8]>);
}

impl ByteBounds for RangeFull {
    fn slices(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

/// The standard library's ranges; of an inclusive one that was walked to its end nothing is left, as there.
macro_rules! byte_bounds {
    ($key:ident: $($range:ty),+) => {$(
        impl<$key: AsRef<[u8]>> ByteBounds for $range {
            #[inline]
            fn slices(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
                (self.start_bound().map($key::as_ref), self.end_bound().map($key::as_ref))
            }
        }
    )+};
}

byte_bounds!(K: Range<K>, RangeInclusive<K>, RangeFrom<K>, RangeTo<K>, RangeToInclusive<K>, (Bound<K>, Bound<K>));

#[cfg(test)]
mod tests {
    use super::ByteBounds;
    use crate::{ByteMap, CsbByteMap};
    use std::ops::Bound;

    /// Whatever is a range of whatever is bytes, in both kinds of maps.
    #[test]
    fn ranges_are_of_any_kind() {
        let entries = [("a", 1), ("b", 2), ("b\0", 4), ("c", 8)];
        let (map, trie): (ByteMap, CsbByteMap) =
            (entries.into_iter().collect(), entries.into_iter().collect());
        let sums = |bounds: &dyn ByteBounds| {
            let bounds = bounds.slices();
            let sum = |values: &mut dyn Iterator<Item = (Vec<u8>, u64)>| values.map(|(_, value)| value).sum();
            let all: [u64; 4] = [
                sum(&mut map.range(bounds)),
                sum(&mut map.range_rev(bounds)),
                sum(&mut trie.range(bounds)),
                sum(&mut trie.range_rev(bounds)),
            ];
            assert_eq!(all, [all[0]; 4], "{bounds:?}");
            all[0]
        };
        assert_eq!([sums(&..), sums(&("b"..)), sums(&(..b"b")), sums(&(..=b"b".to_vec()))], [15, 14, 1, 3]);
        assert_eq!([sums(&("a".."c")), sums(&("b"..="c")), sums(&("c".."a"))], [7, 14, 0]);
        assert_eq!(sums(&(Bound::Excluded("b"), Bound::Unbounded)), 12);
    }
}
