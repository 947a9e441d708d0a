//! Byte-string keys for trees of fixed-width keys: a trie whose nodes, the *layers*, are whole CSB+- or O2-Trees.
//!
//! Why: what makes those two trees quick are small separators of one width: a CSB+-node finds its children by counting,
//! an O2-node is one line. Strings inside them would need a heap in every node, would make a CSB+-tree copy heaps
//! whenever it shifts nodes, and would make both follow a pointer at every comparison. A trie of layers leaves them as
//! they are, with all that was proved of them, and takes fifteen bytes of the key at a time.
//! Source: Masstree (Mao, Kohler, Morris, EuroSys 2012): a trie of B+-trees over slices of the key; burst tries (Heinz,
//! Zobel, Williams, TOIS 2002): few keys share a container, which bursts into a node when they become many.
//! Differs: a slice is fifteen bytes, its order and its end in one number ([`slice`]); layers that died empty are given
//! back.
//!
//! ```text
//! layer 0       "BOS" → 7      "flights/2026-11" ─┐      "ports" → 9           words of keys that end here
//!                                                 │
//!                              few keys: a bag  "" → 3, "-21/AA" → 4, …         one piece of memory, replaced whole
//!                              many keys: a layer      "" → 3   "-21/AA" → 4    as layer 0, for what is behind
//! ```
//!
//! A layer's tree maps slices to words. A slice in which the key ends has the key's word. One behind which keys go on has
//! the address of what holds their tails: a [bag](bag), or another [layer](below). So prefixes that many keys share are
//! stored once and compared once, as in a node with prefix truncation, and a key of up to fifteen bytes, which most
//! separators of an index are, costs what an integer costs. Each further fifteen bytes that more than a bag's keys share
//! cost one more, mostly trivial, descent.
//!
//! # Who changes what
//!
//! A lookup latches nothing of the trie's; whether it does in a layer's tree is that tree's affair. It pins an epoch, as
//! every lookup does, and what it may still see is freed only afterwards.
//!
//! - B1: A bag never changes. An update makes a new one and puts its address in place of the old one's *if that is
//!   still there*; else it begins again. The pin keeps the old address from being used anew, so the same address is the
//!   same bag.
//! - B2: A bag that would hold too many tails becomes a layer in the same way. A layer never becomes a bag.
//! - B3: A layer that was emptied is *closed*, then its slice removed from the layer above, then it is retired. Who wants
//!   to change a closed layer begins again at the top. Updates of a layer other than the first hold its gate, shared;
//!   closing takes it alone. So nothing is ever put into a closed layer, and a layer with a slice is not closed.
//! - B4: With nobody active no layer is empty but the first, and no bag.
//!
//! Why a lookup is not misled: the word that it found was the right one at that moment. If it was a bag, that is all the
//! tails of that moment. If it was a layer, the layer was open then; every later update of its tails is made in it, until
//! it is empty and closed, which means that there was a moment, during the lookup, in which it had no tails.

mod bag;
mod below;
mod bulk;
mod check;
mod gate;
pub mod layer_tree;
mod range;
pub mod slice;
mod update;

pub use check::TrieStats;
pub(crate) use range::{Scan, Way};

use crate::counters::{Count, Length};
use crate::node::Bias;
use crate::reclaim::Pin;
use crate::search::Lane;
use below::{Below, Layer};
use layer_tree::LayerTree;
use slice::Slice;

/// See the module. Bags hold up to `C` tails.
pub(crate) struct Trie<M: LayerTree, const C: usize> {
    root: Layer<M>,
    length: Length,
    counters: Counters,
}

/// Rare events.
#[derive(Debug, Default)]
struct Counters {
    bursts: Count,
    closed: Count,
}

/// Up to where the greatest key is looked for.
type Limit<'k> = Option<(&'k [u8], Bias)>;

impl<M: LayerTree, const C: usize> Trie<M, C> {
    pub fn new() -> Self {
        const { assert!(C >= 1) };
        Self::over(Layer::new(M::new()))
    }

    fn over(root: Layer<M>) -> Self {
        Self { root, length: Length::default(), counters: Counters::default() }
    }

    /// The value of `key`.
    #[inline]
    pub fn get(&self, key: &[u8], pin: &Pin) -> Option<u64> {
        let (mut layer, mut rest) = (&self.root, key);
        loop {
            let slice = Slice::of(rest);
            let word = layer.map.get(slice, pin)?;
            let Some(tail) = slice.tail(rest) else { return Some(word) };
            match Below::at(word, pin) {
                Below::Bag(bag) => return bag.position(tail).ok().map(|i| bag.word(i)),
                Below::Layer(next) => (layer, rest) = (next, tail),
            }
        }
    }

    /// The value of the greatest entry at most at `key`, or below it.
    #[inline]
    pub fn greatest(&self, key: &[u8], bias: Bias, pin: &Pin) -> Option<u64> {
        self.root.greatest(Some((key, bias)), pin)
    }

    /// Entries, nearly: concurrent updates may or may not be counted.
    pub fn len(&self) -> u64 {
        self.length.get()
    }
}

impl<M: LayerTree> Layer<M> {
    /// The value of the greatest entry within the limit.
    fn greatest(&self, limit: Limit, pin: &Pin) -> Option<u64> {
        let own = limit.map(|(key, bias)| (Slice::of(key), key, bias));
        let mut at = match own {
            Some((slice, _, Bias::Below)) if !slice.goes_on() => slice.before()?,
            Some((slice, ..)) => slice,
            None => Slice::MAX,
        };
        loop {
            let (slice, word) = self.map.floor(at, pin)?;
            if !slice.goes_on() {
                return Some(word);
            }
            // The limit cuts only through the slice that it is in; what is before it counts whole.
            let limit =
                own.filter(|(own, ..)| *own == slice).map(|(own, key, bias)| (&key[own.len()..], bias));
            let found = match Below::<M>::at(word, pin) {
                Below::Bag(bag) => bag.greatest(limit),
                Below::Layer(next) => next.greatest(limit, pin),
            };
            if found.is_some() {
                return found;
            }
            at = slice.before()?;
        }
    }
}
