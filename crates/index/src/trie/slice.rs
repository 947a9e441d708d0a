//! A slice of a key: its next fifteen bytes and how it goes on, in one ordered number.
//!
//! ```text
//! byte  0 ............... 14   15
//!       bytes, then zeros      number of bytes, 0 ..= 15: the key ends here; 16: it goes on
//! ```
//!
//! Slices compare as the keys do: by their bytes; and where only the padding makes those equal, the shorter key comes
//! first. All keys that go on behind the same fifteen bytes share one slice, which comes behind the key that ends there.
//!
//! Source: Masstree (Mao, Kohler, Morris, EuroSys 2012) §4.2: slice and length as the key of a layer.
//! Differs: both in one number, so that any index of integers can order them; fifteen bytes instead of eight, so that
//! keys of usual lengths need one layer.

use crate::node::int::IntKey;
use crate::search::Lane;
use foreshore_base::sync::{AtomicU64, Ordering::Relaxed};

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slice(u128);

/// The last byte of a slice behind which the key goes on.
const GOES_ON: u8 = Slice::BYTES as u8 + 1;

impl Slice {
    /// Bytes of the key in a slice.
    pub const BYTES: usize = 15;

    /// The first slice of `key`.
    #[inline(always)]
    pub fn of(key: &[u8]) -> Self {
        let mut image = [0; Self::BYTES + 1];
        let here = key.len().min(Self::BYTES);
        image[..here].copy_from_slice(&key[..here]);
        image[Self::BYTES] = key.len().min(Self::BYTES + 1) as u8;
        Self(u128::from_be_bytes(image))
    }

    /// Does the key go on behind this slice?
    #[inline(always)]
    pub fn goes_on(self) -> bool {
        self.0 as u8 == GOES_ON
    }

    /// Bytes of the key in this slice.
    #[inline(always)]
    pub fn len(self) -> usize {
        usize::from(self.0 as u8).min(Self::BYTES)
    }

    /// What of `key` is behind this slice, the first one of it; `None`: the key ends in it.
    #[inline(always)]
    pub fn tail(self, key: &[u8]) -> Option<&[u8]> {
        self.goes_on().then(|| &key[Self::BYTES..])
    }

    /// Appends the bytes of the key.
    pub fn append_to(self, key: &mut Vec<u8>) {
        key.extend_from_slice(&self.0.to_be_bytes()[..self.len()]);
    }
}

/// A slice in a node, as two words. A read between two writes may mix two slices; whoever reads validates.
#[derive(Debug)]
#[repr(C)]
pub struct Cell([AtomicU64; 2]);

impl Lane for Slice {
    type Cell = Cell;
    type Number = [u64; 2];
    const PER_LINE: usize = 4;
    const MIN: Self = Self(u128::MIN);
    const MAX: Self = Self(u128::MAX);

    #[inline(always)]
    fn before(self) -> Option<Self> {
        self.0.checked_sub(1).map(Self)
    }

    #[inline(always)]
    fn after(self) -> Option<Self> {
        self.0.checked_add(1).map(Self)
    }

    /// Not always what a key has as a slice, but a bound between two.
    fn between(left: Self, right: Self) -> Self {
        let last = u128::BITS - 1 - (left.0 ^ right.0).leading_zeros();
        Self(right.0 >> last << last)
    }

    #[inline(always)]
    fn number(self) -> [u64; 2] {
        [(self.0 >> 64) as u64, self.0 as u64]
    }

    #[inline(always)]
    fn from_number([high, low]: [u64; 2]) -> Self {
        Self(u128::from(high) << 64 | u128::from(low))
    }

    #[inline(always)]
    fn cell(self) -> Cell {
        Cell([AtomicU64::new((self.0 >> 64) as u64), AtomicU64::new(self.0 as u64)])
    }

    #[inline(always)]
    fn load(cell: &Cell) -> Self {
        Self(u128::from(cell.0[0].load(Relaxed)) << 64 | u128::from(cell.0[1].load(Relaxed)))
    }

    #[inline(always)]
    fn store(self, cell: &Cell) {
        cell.0[0].store((self.0 >> 64) as u64, Relaxed);
        cell.0[1].store(self.0 as u64, Relaxed);
    }
}

impl IntKey for Slice {
    type Lane = Self;

    #[inline(always)]
    fn to_lane(self) -> Self {
        self
    }

    #[inline(always)]
    fn from_lane(lane: Self) -> Self {
        lane
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn key() -> impl Strategy<Value = Vec<u8>> {
        vec(prop_oneof![Just(0u8), Just(1), Just(0xFF)], 0..20)
    }

    proptest! {
        /// Slices never contradict the order of keys, and tell apart all keys that end in them.
        #[test]
        fn slices_are_ordered_as_keys_are(a in key(), b in key()) {
            let (first, second) = (Slice::of(&a), Slice::of(&b));
            match first.cmp(&second) {
                std::cmp::Ordering::Equal => {
                    prop_assert_eq!(first.tail(&a).cmp(&second.tail(&b)), a.cmp(&b));
                }
                order => prop_assert_eq!(order, a.cmp(&b)),
            }
            prop_assert!(Slice::MIN <= first && first < Slice::MAX);
        }

        #[test]
        fn slices_come_back_as_bytes(key in key()) {
            let (mut back, slice) = (Vec::new(), Slice::of(&key));
            slice.append_to(&mut back);
            back.extend_from_slice(slice.tail(&key).unwrap_or_default());
            prop_assert_eq!(back, key);
            prop_assert_eq!(Slice::load(&slice.cell()), slice);
        }
    }
}
