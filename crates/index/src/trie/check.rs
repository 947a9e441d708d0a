//! Walking the whole structure and naming what is broken, and what it costs in memory.

use super::Trie;
use super::bag::Bag;
use super::below::{Below, Layer};
use super::layer_tree::LayerTree;
use super::slice::Slice;
use crate::broken::{Broken, broken};
use crate::node::blob;
use crate::reclaim::Pin;
use crate::search::Lane;

/// What the allocator adds to a piece of memory, about.
const ALLOCATION_BYTES: u64 = 16;

/// What happened to a map of layers since it was made, and its shape.
///
/// ```
/// let map: foreshore_index::CsbByteMap = [("short", 1), ("longer than fifteen bytes", 2)].into_iter().collect();
/// let stats = map.stats();
/// assert_eq!((stats.layers, stats.bags, stats.bagged), (1, 1, 1));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrieStats {
    /// Bags that became layers.
    pub bursts: u64,
    /// Layers that were emptied, and taken out.
    pub closed: u64,
    /// Layers now. Counted by a walk.
    pub layers: u64,
    /// Bags now.
    pub bags: u64,
    /// Keys that end in a bag now.
    pub bagged: u64,
}

impl<M: LayerTree, const C: usize> Trie<M, C> {
    /// Checks every layer and bag, and the number of entries. Call it while no other thread changes the trie.
    pub fn check(&self) -> Result<(), Broken> {
        let pin = Pin::new();
        let entries = self.root.check::<C>(&pin)?;
        if entries != self.len() {
            return broken(format!("count: {entries} entries, but a length of {}", self.len()));
        }
        Ok(())
    }

    /// Counts of events, layers and bags. Walks the layers.
    pub fn stats(&self) -> TrieStats {
        let counters = &self.counters;
        let mut stats = TrieStats {
            bursts: counters.bursts.get(),
            closed: counters.closed.get(),
            ..TrieStats::default()
        };
        self.root.count(&mut stats, &Pin::new());
        stats
    }

    /// Memory in bytes. Walks the layers.
    pub fn bytes(&self) -> u64 {
        size_of::<Self>() as u64 + self.root.bytes(&Pin::new())
    }
}

impl<M: LayerTree> Layer<M> {
    fn count(&self, stats: &mut TrieStats, pin: &Pin) {
        stats.layers += 1;
        for (_, word) in self.map.ascending(Slice::MIN).filter(|(slice, _)| slice.goes_on()) {
            match Below::<M>::at(word, pin) {
                Below::Bag(bag) => {
                    stats.bags += 1;
                    stats.bagged += bag.len() as u64;
                }
                Below::Layer(next) => next.count(stats, pin),
            }
        }
    }

    /// Checks this layer and all below it; returns the number of entries.
    fn check<const C: usize>(&self, pin: &Pin) -> Result<u64, Broken> {
        self.map.check()?;
        if self.gate.is_closed() || self.gate.is_held() {
            return broken("B3: a layer that is closed, or just being closed, has a slice");
        }
        let mut entries = 0;
        for (slice, word) in self.map.ascending(Slice::MIN) {
            if !slice.goes_on() {
                entries += 1;
                continue;
            }
            match Below::<M>::at(word, pin) {
                Below::Bag(bag) => entries += check_bag::<C>(bag)?,
                Below::Layer(next) => {
                    let inside = next.check::<C>(pin)?;
                    if inside == 0 {
                        return broken(format!("B4: the layer behind {slice:?} is empty"));
                    }
                    entries += inside;
                }
            }
        }
        Ok(entries)
    }

    fn bytes(&self, pin: &Pin) -> u64 {
        let below = self.map.ascending(Slice::MIN).filter(|(slice, _)| slice.goes_on());
        let below = below.map(|(_, word)| match Below::<M>::at(word, pin) {
            Below::Bag(Bag(bytes)) => (bytes.len() + blob::LENGTH_BYTES) as u64 + ALLOCATION_BYTES,
            Below::Layer(next) => size_of::<Self>() as u64 + ALLOCATION_BYTES + next.bytes(pin),
        });
        self.map.bytes() + below.sum::<u64>()
    }
}

fn check_bag<const C: usize>(bag: Bag) -> Result<u64, Broken> {
    let tails = bag.entries().map(|(tail, _)| tail);
    if bag.len() == 0 || bag.len() > C {
        return broken(format!("B2, B4: a bag of {} tails, where {C} fit", bag.len()));
    }
    if !tails.is_sorted_by(|a, b| a < b) {
        return broken("order: the tails of a bag");
    }
    Ok(bag.len() as u64)
}
