//! Finding a suffix among the slots.
//!
//! Why branchless: the outcome of each comparison is a coin toss, so a branch is mispredicted every second time
//! (measured: 28 against 6 ns in 256 bytes). The number of steps depends on the cell count alone.
//!
//! Why a guess first: in a leaf that is not in the cache, each step of a binary search waits for another line. Heads
//! are often spread evenly between the fences (integers, hashes), and then the place is known but for a few lines,
//! which are fetched together. Where they are not, windows that double cost no more steps than twice a binary search.
//!
//! How ties are settled. Let two suffixes have equal heads. If either has at most four bytes, the longer one is the
//! greater: the shorter is its prefix, or they differ in trailing zero bytes only (`a` < `a\0`). So (head, length)
//! decides, which is the upper part of the slot word, and no cell is touched. Only if both are longer do the bytes
//! in the cells decide. A slot sequence is therefore ordered by (head, min(length, 5)), and by tails within.

use super::layout::{HEAD_BYTES, Slot, head, tail};
use foreshore_base::seeded_bug;
use std::cmp::Ordering;
use std::hint::select_unpredictable;
use std::ops::Range;

/// Slots on each side of a guess that are looked at first: 95 % of evenly spread keys are among them in a full leaf.
pub(super) const WINDOW: usize = 16;

/// Leaves with no more cells are searched without a guess, which costs as much as the search: their slots are 1 KiB at
/// most, fetched at once.
pub(super) const FEW: usize = 128;

/// Where a key is, or where it would have to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// The cell with this number has the key.
    Found(usize),
    /// No cell has it; the cell with this number is the first with a greater key.
    Absent(usize),
}

impl Position {
    /// Number of the first cell whose key is not below the one sought.
    pub fn lower_bound(self) -> usize {
        match self {
            Position::Found(index) | Position::Absent(index) => index,
        }
    }

    /// Number of the first cell whose key is above the one sought.
    pub fn upper_bound(self) -> usize {
        match self {
            Position::Found(index) => index + 1,
            Position::Absent(index) => index,
        }
    }
}

/// Finds `suffix` among `cells` sorted slots, looking at those `within` first. `slot` reads one; `tail` compares the
/// tail in a slot's cell with bytes. Slots out of order (torn) give a meaningless position, in no
/// more steps.
#[inline]
pub(super) fn find<E>(
    cells: usize,
    slot: impl Fn(usize) -> Slot,
    compare_tail: impl Fn(Slot, &[u8]) -> Result<Ordering, E>,
    suffix: &[u8],
    within: Range<usize>,
) -> Result<Position, E> {
    let target = target(suffix);
    let at = lower_bound_near(within, cells, &slot, target);
    if suffix.len() <= HEAD_BYTES {
        let found = at < cells && same_head_and_length(slot(at), target);
        return Ok(if found { Position::Found(at) } else { Position::Absent(at) });
    }
    if at == cells || slot(at).head() != target.head() {
        return Ok(Position::Absent(at));
    }
    let end = if at + 1 < cells && slot(at + 1).head() == target.head() {
        run_end(at + 1, cells, &slot, target.head())
    } else {
        at + 1
    };
    find_tail(at, end, &slot, &compare_tail, tail(suffix))
}

/// Where `suffix` is, if that is cell `at`, the next one, or between them: so many keys with equal heads need no search by tails.
#[inline]
pub(super) fn find_beside<E>(
    at: usize,
    cells: usize,
    slot: impl Fn(usize) -> Slot,
    compare_tail: impl Fn(Slot, &[u8]) -> Result<Ordering, E>,
    suffix: &[u8],
) -> Result<Option<Position>, E> {
    let next = at + 1;
    Ok(match compare(slot(at), &compare_tail, suffix)? {
        Ordering::Equal => Some(Position::Found(at)),
        Ordering::Greater => None,
        Ordering::Less if next == cells => Some(Position::Absent(next)),
        Ordering::Less => match compare(slot(next), compare_tail, suffix)? {
            Ordering::Equal => Some(Position::Found(next)),
            Ordering::Greater => Some(Position::Absent(next)),
            Ordering::Less => None,
        },
    })
}

/// Compares the key of a cell, by its slot, with `suffix`.
#[inline]
pub(super) fn compare<E>(
    slot: Slot,
    compare_tail: impl Fn(Slot, &[u8]) -> Result<Ordering, E>,
    suffix: &[u8],
) -> Result<Ordering, E> {
    let target = target(suffix);
    if slot.head() == target.head() && slot.suffix_len().min(suffix.len()) > HEAD_BYTES {
        return compare_tail(slot, tail(suffix));
    }
    let lengths = slot.suffix_len().cmp(&suffix.len());
    Ok(slot.head().cmp(&target.head()).then(lengths))
}

/// The least slot word of any suffix that is not below `suffix`, tails aside.
#[inline]
fn target(suffix: &[u8]) -> Slot {
    let len = if seeded_bug("leaf_tie_ignores_length") { 0 } else { suffix.len().min(HEAD_BYTES + 1) as u64 };
    Slot(u64::from(head(suffix)) << 32 | len << 16)
}

#[inline]
fn same_head_and_length(a: Slot, b: Slot) -> bool {
    if seeded_bug("leaf_tie_ignores_length") { a.head() == b.head() } else { a.0 >> 16 == b.0 >> 16 }
}

/// The first of all slots that is not below `target`, or `cells`: looked for `within` a window first, and then in windows
/// that double.
#[inline]
fn lower_bound_near(
    within: Range<usize>,
    cells: usize,
    slot: &impl Fn(usize) -> Slot,
    target: Slot,
) -> usize {
    let (mut from, mut to) = (within.start, within.end);
    let mut step = within.len();
    while from > 0 && slot(from - 1) >= target {
        to = from - 1;
        from = from.saturating_sub(step);
        step *= 2;
    }
    while to < cells && slot(to) < target {
        from = to + 1;
        to = (to + step).min(cells);
        step *= 2;
    }
    lower_bound(from, to, slot, target)
}

/// The first of `from..to` whose slot is not below `target`, or `to`.
#[inline]
fn lower_bound(from: usize, to: usize, slot: &impl Fn(usize) -> Slot, target: Slot) -> usize {
    let (mut base, mut size) = (from, to - from);
    if size == 0 {
        return from;
    }
    while size > 1 {
        let half = size / 2;
        base = select_unpredictable(slot(base + half - 1) < target, base + half, base);
        size -= half;
    }
    base + usize::from(slot(base) < target)
}

/// Where the run of slots with this head ends.
#[cold]
fn run_end(from: usize, cells: usize, slot: &impl Fn(usize) -> Slot, head: u32) -> usize {
    match head.checked_add(1) {
        Some(next) => lower_bound(from, cells, slot, Slot(u64::from(next) << 32)),
        None => cells,
    }
}

/// Binary search by tails among slots with one head.
#[inline]
fn find_tail<E>(
    from: usize,
    to: usize,
    slot: &impl Fn(usize) -> Slot,
    compare_tail: &impl Fn(Slot, &[u8]) -> Result<Ordering, E>,
    tail: &[u8],
) -> Result<Position, E> {
    let (mut low, mut high) = (from, to);
    while low < high {
        let middle = (low + high) / 2;
        match compare_tail(slot(middle), tail)? {
            Ordering::Less => low = middle + 1,
            Ordering::Equal => return Ok(Position::Found(middle)),
            Ordering::Greater => high = middle,
        }
    }
    Ok(Position::Absent(low))
}
