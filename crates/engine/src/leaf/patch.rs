//! What differs between two values of a row: all that an update logs.

/// How many first bytes two values have in common; then what is between that and what they have in common at their ends, of each.
#[inline]
pub(crate) fn difference<'a>(old: &'a [u8], new: &'a [u8]) -> (usize, &'a [u8], &'a [u8]) {
    let kept = common_start(old, new);
    let (old, new) = (&old[kept..], &new[kept..]);
    let same_end = common_end(old, new);
    (kept, &old[..old.len() - same_end], &new[..new.len() - same_end])
}

/// Puts the bytes `to` in the place of `from`, which follow the first `kept` ones of a value; `None` if they do not.
pub(crate) fn exchange(value: &mut Vec<u8>, kept: usize, from: &[u8], to: &[u8]) -> Option<()> {
    let there = value.get(kept..)?.get(..from.len())? == from;
    there.then(|| drop(value.splice(kept..kept + from.len(), to.iter().copied())))
}

/// Bytes compared at once while they are equal, which most of a row is.
const BLOCK: usize = 32;

/// Length of the longest common beginning.
fn common_start(a: &[u8], b: &[u8]) -> usize {
    let (whole, mut ours, mut theirs) = (a.len(), a, b);
    while let (Some((a_start, a)), Some((b_start, b))) =
        (ours.split_first_chunk::<BLOCK>(), theirs.split_first_chunk::<BLOCK>())
        && a_start == b_start
    {
        (ours, theirs) = (a, b);
    }
    while let (Some((a_start, a)), Some((b_start, b))) =
        (ours.split_first_chunk(), theirs.split_first_chunk())
    {
        let differing = u64::from_le_bytes(*a_start) ^ u64::from_le_bytes(*b_start);
        if differing != 0 {
            return whole - ours.len() + differing.trailing_zeros() as usize / 8;
        }
        (ours, theirs) = (a, b);
    }
    whole - ours.len() + ours.iter().zip(theirs).take_while(|(a, b)| a == b).count()
}

/// Length of the longest common end.
fn common_end(a: &[u8], b: &[u8]) -> usize {
    let (whole, mut ours, mut theirs) = (a.len(), a, b);
    while let (Some((a, a_end)), Some((b, b_end))) =
        (ours.split_last_chunk::<BLOCK>(), theirs.split_last_chunk::<BLOCK>())
        && a_end == b_end
    {
        (ours, theirs) = (a, b);
    }
    while let (Some((a, a_end)), Some((b, b_end))) = (ours.split_last_chunk(), theirs.split_last_chunk()) {
        let differing = u64::from_be_bytes(*a_end) ^ u64::from_be_bytes(*b_end);
        if differing != 0 {
            return whole - ours.len() + differing.trailing_zeros() as usize / 8;
        }
        (ours, theirs) = (a, b);
    }
    let same = ours.iter().rev().zip(theirs.iter().rev()).take_while(|(a, b)| a == b).count();
    whole - ours.len() + same
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn common_parts_are_the_longest(a in prop::collection::vec(0u8..2, 0..100), from in 0usize..100, b in prop::collection::vec(0u8..2, 0..100)) {
            // Long equal parts at both ends, and something else between them.
            let from = from.min(a.len());
            let b = [&a[..from], &b[..b.len() / 8], &a[from..]].concat();
            let start = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
            let end = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
            prop_assert_eq!((common_start(&a, &b), common_end(&a, &b)), (start, end));
        }
    }
}
