//! How far down a gap lock reaches.
//!
//! A range that begins within a gap needs only the part of the gap above its beginning: who takes the first of a queue's
//! entries is in nobody's way who adds to the queue before it. A lock has no room for a key; four bytes tell points of
//! one gap apart by how near they are to the key above it, which scanner and inserter both have at hand:
//!
//! ```text
//! high half   how many first bytes a point shares with the key above the gap (more: nearer)
//! low half    the point's next two bytes (zeros behind its end)
//! ```
//!
//! Invariant R1: of two points of one gap, the lower one's reach is not greater. *Proof.* Say the key above is `u`, and
//! `p < q < u` (or `q = u`). If `p` shared more of `u`, it would have u's byte where `q` first differs from `u`, which there
//! has less: `p` would be above `q`. If both share as much, what follows is compared as the keys are. Where no key is
//! above, both share nothing. (Bytes beyond those that are counted only say less of who is lower.)
//!
//! So a lock that reaches down to where a range begins covers all of the range, and perhaps something below. A hash that
//! two keys share does not change that: the owner's request keeps the farthest reach that it ever asked for.

/// See the module. Smaller reaches farther.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Reach(u32);

impl Reach {
    /// Nothing of the gap.
    pub const NONE: Reach = Reach(u32::MAX);
    /// All of it.
    pub const ALL: Reach = Reach(0);

    /// So many first bytes are counted: `NONE` is no point's.
    const SHARED_MAX: usize = 0xFFFE;

    /// From the key above the gap (`None`: the table's end) down to `point`.
    #[inline]
    pub fn down_to(point: &[u8], above: Option<&[u8]>) -> Self {
        let above = above.unwrap_or_default();
        let counted = point.iter().zip(above).take(Self::SHARED_MAX);
        let shared = counted.take_while(|(a, b)| a == b).count();
        let byte = |at: usize| u32::from(point.get(at).copied().unwrap_or_default());
        Self((shared as u32) << 16 | byte(shared) << 8 | byte(shared + 1))
    }

    #[inline]
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// Does a lock that reaches so far cover a point that takes `other` to be reached?
    #[inline]
    pub fn covers(self, other: Reach) -> bool {
        self <= other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::testing::{Rng, seeds};

    /// R1, with keys that have much in common.
    #[test]
    fn lower_points_take_a_farther_reach() {
        let mut apart = 0;
        for seed in seeds(10) {
            let mut random = Rng::new(seed);
            for _ in 0..10_000 {
                let mut key = || -> Vec<u8> { (0..random.below(6)).map(|_| random.below(3) as u8).collect() };
                let mut keys = [key(), key(), key()];
                keys.sort();
                let [low, high, above] = &keys;
                for above in [Some(above.as_slice()), None] {
                    let (far, near) = (Reach::down_to(low, above), Reach::down_to(high, above));
                    assert!(far.covers(near), "{low:?} and {high:?} below {above:?}");
                    apart += u32::from(!near.covers(far));
                }
            }
        }
        assert!(apart > 10_000, "hardly any points are told apart");
    }

    #[test]
    fn keys_of_any_length_are_points() {
        for length in Reach::SHARED_MAX - 2..Reach::SHARED_MAX + 3 {
            let key = |last: u8| [&vec![0xFF; length][..], &[last]].concat();
            let (low, high, above) = (key(0), key(1), key(0xFF));
            let [far, near, nearest] = [&low, &high, &above].map(|key| Reach::down_to(key, Some(&above)));
            assert!(far.covers(near) && near.covers(nearest) && !nearest.is_none(), "{length}");
            assert!(Reach::down_to(&[0xFE], Some(&above)) < far);
        }
    }
}
