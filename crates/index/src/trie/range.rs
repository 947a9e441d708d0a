//! Scans in both directions.
//!
//! A cursor holds a key, no latch. It gathers some dozens of entries at a time, from layer to layer, beginning behind the
//! last one that it has handed out; so it pins only for so long, and no address survives between two batches.
//!
//! Invariants:
//! - C1: entries come in strictly rising (falling) order, none twice.
//! - C2: a key that is in the trie during the whole scan, inside its bounds, is handed out.

use super::Trie;
use super::bag::Bag;
use super::below::{self, Below, Layer};
use super::layer_tree::LayerTree;
use super::slice::Slice;
use crate::reclaim::Pin;
use crate::search::Lane;
use std::collections::VecDeque;
use std::ops::Bound;

/// Slices whose bags are asked for before the one that is read.
const AHEAD: usize = 8;

/// Entries after which a batch is full; the last bag may bring some more.
const BATCH: usize = 64;

/// The same for the first batch, after which many scans end.
const FIRST_BATCH: usize = 8;

/// In which direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Up,
    Down,
}

impl Way {
    /// Does `key` come before `other`, going this way?
    fn is_before(self, key: &[u8], other: &[u8]) -> bool {
        match self {
            Way::Up => key < other,
            Way::Down => key > other,
        }
    }

    /// Does a scan that begins at `start` hand out `key`?
    fn takes(self, key: &[u8], start: Bound<&[u8]>) -> bool {
        match start {
            Bound::Included(start) => !self.is_before(key, start),
            Bound::Excluded(start) => self.is_before(start, key),
            Bound::Unbounded => true,
        }
    }

    /// Does a scan that ends at `end` hand out `key`?
    fn ends_behind(self, key: &[u8], end: Bound<&[u8]>) -> bool {
        match end {
            Bound::Included(end) => !self.is_before(end, key),
            Bound::Excluded(end) => self.is_before(key, end),
            Bound::Unbounded => true,
        }
    }
}

/// See the module.
pub(crate) struct Scan<'t, M: LayerTree, const C: usize> {
    trie: &'t Trie<M, C>,
    way: Way,
    start: Bound<Vec<u8>>,
    end: Bound<Vec<u8>>,
    batch: std::vec::IntoIter<(Vec<u8>, u64)>,
    /// Entries of the next batch.
    wanted: usize,
}

impl<'t, M: LayerTree, const C: usize> Scan<'t, M, C> {
    /// From `start` to `end`, going `way`.
    pub fn new(trie: &'t Trie<M, C>, way: Way, start: Bound<&[u8]>, end: Bound<&[u8]>) -> Self {
        let (start, end) = (start.map(<[u8]>::to_vec), end.map(<[u8]>::to_vec));
        Self { trie, way, start, end, batch: Vec::new().into_iter(), wanted: FIRST_BATCH }
    }

    fn refill(&mut self) {
        let wanted = std::mem::replace(&mut self.wanted, BATCH);
        let mut gathering = Gathering { way: self.way, wanted, prefix: Vec::new(), out: Vec::new() };
        gathering.layer(&self.trie.root, as_slice(&self.start), &Pin::new());
        if let Some((last, _)) = gathering.out.last() {
            self.start = Bound::Excluded(last.clone());
        }
        self.batch = gathering.out.into_iter();
    }
}

impl<M: LayerTree, const C: usize> Iterator for Scan<'_, M, C> {
    type Item = (Vec<u8>, u64);

    fn next(&mut self) -> Option<(Vec<u8>, u64)> {
        if self.batch.as_slice().is_empty() {
            self.refill();
        }
        self.batch.next().filter(|(key, _)| self.way.ends_behind(key, as_slice(&self.end)))
    }
}

/// A batch on its way through the layers.
struct Gathering {
    way: Way,
    /// Entries of a full batch.
    wanted: usize,
    /// The bytes of the slices above.
    prefix: Vec<u8>,
    out: Vec<(Vec<u8>, u64)>,
}

impl Gathering {
    /// Takes entries of a layer from `start` on; both are without the prefix.
    fn layer<M: LayerTree>(&mut self, layer: &Layer<M>, start: Bound<&[u8]>, pin: &Pin) {
        let own = match start {
            Bound::Included(key) | Bound::Excluded(key) => Some((Slice::of(key), key)),
            Bound::Unbounded => None,
        };
        let above = self.prefix.len();
        for (slice, word) in Ahead::of(slots(layer, self.way, own.map(|(slice, _)| slice))) {
            slice.append_to(&mut self.prefix);
            // The start cuts only through the slice that it is in.
            let cut = own.is_some_and(|(own, _)| own == slice);
            let start = if cut { start.map(|key| &key[slice.len()..]) } else { Bound::Unbounded };
            if !slice.goes_on() {
                self.tail(b"", word, start);
            } else {
                match Below::<M>::at(word, pin) {
                    Below::Bag(bag) => self.bag(bag, start),
                    Below::Layer(next) => self.layer(next, start, pin),
                }
            }
            self.prefix.truncate(above);
            if self.out.len() >= self.wanted {
                return;
            }
        }
    }

    fn bag(&mut self, bag: Bag, start: Bound<&[u8]>) {
        match self.way {
            Way::Up => bag.entries().for_each(|(tail, word)| self.tail(tail, word, start)),
            Way::Down => bag.entries().rev().for_each(|(tail, word)| self.tail(tail, word, start)),
        }
    }

    fn tail(&mut self, tail: &[u8], word: u64, start: Bound<&[u8]>) {
        if self.way.takes(tail, start) {
            self.out.push(([&self.prefix, tail].concat(), word));
        }
    }
}

/// The slices of a layer, from `start` on.
fn slots<M: LayerTree>(
    layer: &Layer<M>,
    way: Way,
    start: Option<Slice>,
) -> Box<dyn Iterator<Item = (Slice, u64)> + '_> {
    match way {
        Way::Up => Box::new(layer.map.ascending(start.unwrap_or(Slice::MIN))),
        Way::Down => Box::new(layer.map.descending(start.unwrap_or(Slice::MAX))),
    }
}

/// The slices of a layer; what some of the next ones lead to is on its way from memory.
struct Ahead<I> {
    rest: I,
    asked: VecDeque<(Slice, u64)>,
}

impl<I: Iterator<Item = (Slice, u64)>> Ahead<I> {
    fn of(rest: I) -> Self {
        Self { rest, asked: VecDeque::with_capacity(AHEAD) }
    }
}

impl<I: Iterator<Item = (Slice, u64)>> Iterator for Ahead<I> {
    type Item = (Slice, u64);

    fn next(&mut self) -> Option<(Slice, u64)> {
        while self.asked.len() < AHEAD
            && let Some((slice, word)) = self.rest.next()
        {
            if slice.goes_on() {
                below::prefetch(word);
            }
            self.asked.push_back((slice, word));
        }
        self.asked.pop_front()
    }
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::csb::Csb;

    #[test]
    fn who_wants_one_entry_does_not_wait_for_dozens() {
        let keys: Vec<_> = (0..500_u64).map(|i| (i.to_be_bytes(), i)).collect();
        let trie = Trie::<Csb<Slice, 16>, 4>::bulk_load(keys.iter().copied(), 1.0);
        for way in [Way::Up, Way::Down] {
            let mut scan = Scan::new(&trie, way, Bound::Unbounded, Bound::Unbounded);
            assert!(scan.next().is_some());
            assert!(scan.batch.len() < FIRST_BATCH, "{way:?}: {} more", scan.batch.len());
            assert_eq!(scan.count(), keys.len() - 1);
        }
    }
}
