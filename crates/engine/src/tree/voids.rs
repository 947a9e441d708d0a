//! Stretches of keys where there are nothing but ghosts, so that nobody walks through these again.
//!
//! Why: who takes the first row of a queue, again and again, leaves ghosts that stay as long as a snapshot needs them. Each
//! walk to the first row would pass all of them.
//!
//! - V1: the removal of each ghost in a void has committed, and no rollback brings it back. So a row comes into a void only by somebody who
//!   puts it there, who cuts the void first, while he has the leaf latched ([`Spans::meet`](super::spans::Spans::meet)). A void with ghosts
//!   that a transaction has made is a void to that one alone, until it goes back to a savepoint, or ends.
//! - V2: who adds a void has locked all of its keys and gaps, in one way or another (`spans.rs`), and adds it while the leaves that he has
//!   read last are unchanged. So nobody is about to put a row there who has looked already. Only a bulk load looks for no locks: it forgets
//!   all voids, and nobody adds one who had begun to walk before.
//! - V3: who has leapt over a void, and keeps rows out of it, looks whether it is still there after he has locked what lies behind it.

use crate::bounds::{RawBounds, as_lower, as_upper, is_before, is_beyond, is_empty};
use crate::error::Result;
use crate::lock::Owner;
use crate::tree::Tree;
use crate::txn::{Direction, View};
use std::ops::Bound;

/// Voids of a table, at most.
const VOIDS_MAX: usize = 16;

/// One.
#[derive(Clone, Debug)]
pub(crate) struct Void {
    pub keys: RawBounds,
    /// To whom alone it is one.
    pub of: Option<Owner>,
}

impl Void {
    fn is_to(&self, walker: Option<Owner>) -> bool {
        self.of.is_none() || self.of == walker
    }
}

/// Those of one table.
#[derive(Default)]
pub(crate) struct Voids(Vec<Void>);

impl Voids {
    /// Adds one, which takes the place of those that lie in it.
    pub fn add(&mut self, void: Void) {
        self.0.retain(|old| old.of != void.of || !contains(&void.keys, &old.keys));
        self.push(void);
    }

    /// One too many takes the place of the oldest.
    fn push(&mut self, void: Void) {
        if self.0.len() == VOIDS_MAX {
            self.0.remove(0);
        }
        self.0.push(void);
    }

    /// There is going to be a row with this key.
    pub fn cut(&mut self, key: &[u8]) {
        for Void { keys: (lower, upper), of } in
            self.0.extract_if(.., |void| has(&void.keys, key)).collect::<Vec<_>>()
        {
            let below = (lower, Bound::Excluded(key.to_vec()));
            let above = (Bound::Excluded(key.to_vec()), upper);
            let parts = [below, above].into_iter().filter(|(lower, upper)| !is_empty(lower, upper));
            parts.for_each(|keys| self.push(Void { keys, of }));
        }
    }

    /// Forgets those that are voids to `owner` alone; `None`: those that are to everybody.
    pub fn forget(&mut self, owner: Option<Owner>) {
        self.0.retain(|void| void.of != owner);
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The void that a walk in this direction from here would go through.
    pub fn ahead(&self, walker: Option<Owner>, direction: Direction, from: &Bound<Vec<u8>>) -> Option<&Void> {
        let is_ahead = |(lower, upper): &RawBounds| match direction {
            Direction::Ascending => as_lower(lower) <= as_lower(from) && !is_empty(from, upper),
            Direction::Descending => as_upper(upper) >= as_upper(from) && !is_empty(lower, from),
        };
        self.0.iter().find(|void| void.is_to(walker) && is_ahead(&void.keys))
    }

    /// Is all of this in a void?
    pub fn cover(&self, walker: Option<Owner>, stretch: &RawBounds) -> bool {
        self.0.iter().any(|void| void.is_to(walker) && contains(&void.keys, stretch))
    }
}

impl Void {
    /// Where a walk in this direction, that has leapt over it, goes on: at the first key that is not in it. `None`: nowhere.
    pub fn behind(&self, direction: Direction) -> Option<Bound<Vec<u8>>> {
        let end = match direction {
            Direction::Ascending => &self.keys.1,
            Direction::Descending => &self.keys.0,
        };
        match end {
            Bound::Included(key) => Some(Bound::Excluded(key.clone())),
            Bound::Excluded(key) => Some(Bound::Included(key.clone())),
            Bound::Unbounded => None,
        }
    }
}

impl Tree {
    /// Where a walk from here is to begin, to be spared a void, if it sees what is committed by now; `None`: nowhere. It locks nothing, so
    /// what comes into the void from now on does not matter to it. Errors: `TableDropped`, which no leaf will tell who goes nowhere.
    pub(super) fn behind_void(
        &self,
        view: &View,
        direction: Direction,
        from: &Bound<Vec<u8>>,
    ) -> Result<Option<Bound<Vec<u8>>>> {
        let is_now = view.is_latest();
        let ahead = |voids: &Voids| voids.ahead(None, direction, from).map(|void| void.behind(direction));
        let behind = is_now.then(|| self.spans.voids(ahead));
        match behind.flatten().flatten() {
            Some(None) => self.ensure_not_dropped().map(|()| None),
            Some(behind) => Ok(behind),
            None => Ok(Some(from.clone())),
        }
    }
}

fn has((lower, upper): &RawBounds, key: &[u8]) -> bool {
    !is_before(key, lower) && !is_beyond(key, upper)
}

fn contains(outer: &RawBounds, inner: &RawBounds) -> bool {
    as_lower(&outer.0) <= as_lower(&inner.0) && as_upper(&inner.1) <= as_upper(&outer.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Random;

    /// Beside a set of the keys that are in voids.
    #[test]
    fn voids_are_where_no_row_came() {
        let mut random = Random(1);
        let mut voids = Voids::default();
        let mut is_void = [false; 256];
        let bound = |random: &mut Random| match random.below(3) {
            0 => Bound::Unbounded,
            1 => Bound::Included(vec![random.below(256) as u8]),
            _ => Bound::Excluded(vec![random.below(256) as u8]),
        };
        let keys = |void: &RawBounds| (0..=255_u8).filter(|key| has(void, &[*key])).collect::<Vec<_>>();
        for _ in 0..20_000 {
            let void = (bound(&mut random), bound(&mut random));
            match random.below(8) {
                0 if !is_empty(&void.0, &void.1) => {
                    voids.add(Void { keys: void.clone(), of: None });
                    keys(&void).into_iter().for_each(|key| is_void[usize::from(key)] = true);
                }
                0..4 => {
                    let row = random.below(256) as u8;
                    voids.cut(&[row]);
                    is_void[usize::from(row)] = false;
                }
                4 => assert!(
                    !voids.cover(None, &void) || keys(&void).iter().all(|key| is_void[usize::from(*key)])
                ),
                5 | 6 => {
                    if let Some(ahead) = voids.ahead(None, Direction::Ascending, &void.0) {
                        let leapt = keys(&(void.0.clone(), ahead.keys.1.clone()));
                        assert!(leapt.iter().all(|key| is_void[usize::from(*key)]), "{void:?} {ahead:?}");
                    }
                }
                _ => {
                    if let Some(ahead) = voids.ahead(None, Direction::Descending, &void.1) {
                        let leapt = keys(&(ahead.keys.0.clone(), void.1.clone()));
                        assert!(leapt.iter().all(|key| is_void[usize::from(*key)]), "{void:?} {ahead:?}");
                    }
                }
            }
            assert!(voids.len() <= VOIDS_MAX);
        }
    }
}
