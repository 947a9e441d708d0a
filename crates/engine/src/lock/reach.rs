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
//!
//! Who inserts `k` into a gap below `u` that it has locked itself, as far down as `k` at least, splits the gap: how near the
//! points below `k` are is told from `k` now. [`Reach::below`] is the lock's reach from there.
//!
//! Invariant R2: of the points below `k`, a lock with that reach covers all that it covered from `u`, and no others. *Proof.*
//! Say `k` shares `c` bytes with `u`, and `p < k`. Then `p` shares no more than `c` with `u` (R1). If it shares `c`, and its
//! next byte is k's too, it is nearer to `k` than to `u`; otherwise its reach is the same from both. So a lock that reaches
//! farther than `c` bytes, or `c` and a byte that is not k's, covers the same as it is. Any other one reaches down to a point
//! that has k's first `c` bytes and then two known ones, or fewer where zeros stand for the point's end: to the lowest such
//! point, which is not above `k`. That point's reach from `k` covers what is above it and below `k` (R1), and nothing below it,
//! as it has no bytes beyond those that count.
//!
//! By R1 again, a lock that reaches farther does so from `k` too: what the owner asked for on account of another gap, where two
//! keys share a hash, takes nothing from this one.

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
        let shared = common(point, above, Self::SHARED_MAX);
        Self::new(shared, &point[shared..])
    }

    /// From a key within the gap, whose reach is `key` and which this covers, as far down as this: R2.
    pub fn below(self, key: Reach) -> Self {
        debug_assert!(self.covers(key));
        let ((shared, next), (key_shared, key_next)) = (self.parts(), key.parts());
        if shared < key_shared {
            return self;
        }
        let ended = next.iter().rev().take_while(|byte| **byte == 0).count();
        let next = &next[..next.len() - ended];
        let more = common(next, &key_next, Self::SHARED_MAX - shared);
        Self::new(shared + more, &next[more..])
    }

    /// The lowest point below `key` that it covers, told from there: as in the proof of R2. `None` if it cannot be told: it was meant for
    /// the gap below another key, which shares the name.
    pub fn lowest(self, key: &[u8]) -> Option<Vec<u8>> {
        let (shared, next) = self.parts();
        let ended = next.iter().rev().take_while(|byte| **byte == 0).count();
        let lowest = [&key[..shared.min(key.len())], &next[..next.len() - ended]].concat();
        (lowest.as_slice() <= key).then_some(lowest)
    }

    #[inline]
    fn new(shared: usize, next: &[u8]) -> Self {
        let byte = |at: usize| u32::from(next.get(at).copied().unwrap_or_default());
        Self((shared as u32) << 16 | byte(0) << 8 | byte(1))
    }

    fn parts(self) -> (usize, [u8; 2]) {
        ((self.0 >> 16) as usize, (self.0 as u16).to_be_bytes())
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

/// How many first bytes are the same, if no more than `most`.
#[inline]
fn common(some: &[u8], others: &[u8], most: usize) -> usize {
    some.iter().zip(others).take(most).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::{Random, seeds};
    use std::collections::BTreeMap;

    /// R1, with keys that have much in common.
    #[test]
    fn lower_points_take_a_farther_reach() {
        let mut apart = 0;
        for seed in seeds(10) {
            let mut random = Random(seed);
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

    /// What is covered is what is not below the lowest point.
    #[test]
    fn the_lowest_point_is_the_lowest_that_is_covered() {
        for seed in seeds(10) {
            let mut random = Random(seed);
            for _ in 0..10_000 {
                let mut key = || -> Vec<u8> { (0..random.below(6)).map(|_| random.below(3) as u8).collect() };
                let (some, others, above) = (key(), key(), key());
                if some < above && others < above {
                    let reach = Reach::down_to(&some, Some(&above));
                    let is_covered = reach.covers(Reach::down_to(&others, Some(&above)));
                    let lowest = reach.lowest(&above).expect("it is told from there");
                    assert_eq!(is_covered, others >= lowest, "{others:?}, {some:?}, {above:?}");
                }
            }
        }
    }

    /// A lock may reach farther down on account of another key with its name.
    #[test]
    fn no_point_is_told_from_another_key() {
        let reach = Reach::down_to(b"a\xfe\xff", Some(b"a\xff")).min(Reach::down_to(b"aby", Some(b"abz")));
        let key = &b"abyz"[..]; // put into the own gap below "abz"
        let own = reach.below(Reach::down_to(key, Some(b"abz")));
        assert!(own.covers(Reach::down_to(b"abyy", Some(key))));
        assert_eq!(own.lowest(key), None);
    }

    /// R2, with a map as the model: a range of one owner, into which it inserts many rows, and others below it. Each point is
    /// covered by the lock of the gap that it lies in exactly if it was at the beginning.
    #[test]
    fn own_rows_leave_a_gap_covered_as_it_was() {
        let (mut covered, mut open) = (0, 0);
        for seed in seeds(3000) {
            let mut random = Random(seed);
            let mut key = || -> Vec<u8> { (0..random.below(6)).map(|_| random.below(3) as u8).collect() };
            let above = Some(key()).filter(|key| key.len() > 1);
            let mut points: Vec<_> = (0..40).map(|_| key()).collect();
            points.retain(|point| above.as_ref().is_none_or(|above| point < above));
            let (Some(begin), above) = (points.pop(), above.as_deref()) else { continue };
            let first = Reach::down_to(&begin, above);
            let mut locks = BTreeMap::from([(above.map_or(vec![9], <[u8]>::to_vec), Some(first))]);
            let under = |locks: &BTreeMap<Vec<u8>, Option<Reach>>, point: &[u8]| {
                let (next, lock) = locks.range(point.to_vec()..).next().unwrap();
                let next = if *next == [9] { None } else { Some(next.as_slice()) };
                let at = Reach::down_to(point, next);
                lock.filter(|lock| lock.covers(at)).map(|lock| lock.below(at))
            };
            for row in points.iter().take(points.len() / 3) {
                if !locks.contains_key(row) {
                    locks.insert(row.clone(), under(&locks, row));
                }
            }
            for point in points.iter().filter(|point| !locks.contains_key(*point)) {
                let was = first.covers(Reach::down_to(point, above));
                assert!(was || *point < begin);
                assert_eq!(
                    under(&locks, point).is_some(),
                    was,
                    "seed {seed}: {point:?} from {begin:?} below {above:?} among {locks:?}"
                );
                (covered, open) = (covered + u32::from(was), open + u32::from(!was));
            }
        }
        assert!(covered > 10_000 && open > 10_000, "{covered} covered, {open} open");
    }

    /// R2 for an owner that asked for more than its range, on account of another gap.
    #[test]
    fn who_holds_more_keeps_more() {
        for seed in seeds(100) {
            let mut random = Random(seed);
            for _ in 0..1000 {
                let mut reach =
                    || Reach::new(random.below(4) as usize, &[0; 2].map(|_| random.below(4) as u8));
                let mut reaches = [reach(), reach(), reach()];
                reaches.sort();
                let [far, near, key] = reaches;
                assert!(far.below(key).covers(near.below(key)), "{far:?}, {near:?} at {key:?}");
            }
        }
    }

    #[test]
    fn keys_of_any_length_are_points() {
        for length in Reach::SHARED_MAX - 2..Reach::SHARED_MAX + 3 {
            let key = |last: u8| [&vec![0xFF; length][..], &[last]].concat();
            let (low, high, above) = (key(0), key(1), key(0xFF));
            let [far, near, nearest] = [&low, &high, &above].map(|key| Reach::down_to(key, Some(&above)));
            assert!(far.covers(near) && near.covers(nearest) && !nearest.is_none(), "{length}");
            assert!(Reach::down_to(&[0xFE], Some(&above)) < far);
            assert!(far.below(near).covers(Reach::down_to(&low, Some(&high))), "{length}");
            assert!(!nearest.below(nearest).is_none(), "{length}");
        }
    }
}
