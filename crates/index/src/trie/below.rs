//! What the word of a slice leads to if keys go on behind it: a bag or a layer, and when their memory is freed.
//!
//! Invariants:
//! - W1: bit 0 of the word tells a layer from a bag; both are aligned.
//! - W2: the word of exactly one slice owns what it leads to. It is freed, later, by who replaced that word.

use super::bag::Bag;
use super::gate::Gate;
use super::layer_tree::LayerTree;
use super::slice::Slice;
use crate::node::blob;
use crate::reclaim::{BULKY_BYTES, Pin};
use crate::search::Lane;
use foreshore_base::prefetch::prefetch_lines;
use std::marker::PhantomData;

/// A node of the trie: a tree of slices.
pub struct Layer<M: LayerTree> {
    pub map: M,
    /// Passed by updates, closed by who takes the layer out (B3). The first layer needs none.
    pub gate: Gate,
}

/// See the module.
pub enum Below<'g, M: LayerTree> {
    Bag(Bag<'g>),
    Layer(&'g Layer<M>),
}

const LAYER: u64 = 1;

impl<'g, M: LayerTree> Below<'g, M> {
    /// What `word` leads to: the word, read under this pin, of a slice that goes on, in a layer of this type.
    #[inline]
    pub fn at(word: u64, _pin: &'g Pin) -> Self {
        if word & LAYER == 0 {
            // SAFETY: the tree's read was validated, so the slice had this word, which is that of a bag; who took it away
            // retires the bag, and the pin, which the result does not outlive, was there before.
            return Below::Bag(Bag(unsafe { blob::bytes(word) }));
        }
        let layer = std::ptr::with_exposed_provenance::<Layer<M>>((word & !LAYER) as usize);
        // SAFETY: as above, with a layer.
        Below::Layer(unsafe { &*layer })
    }
}

/// Asks for the first line of what `word` leads to.
#[inline]
pub fn prefetch(word: u64) {
    prefetch_lines(std::ptr::with_exposed_provenance::<u8>((word & !LAYER) as usize), 1);
}

/// A bag or layer whose word no slice has yet. It goes, unless one gets it: somebody else may have been quicker, or the system may
/// refuse the memory for the slice, which is a panic.
pub struct Unowned<M: LayerTree> {
    word: u64,
    layers: PhantomData<M>,
}

impl<M: LayerTree> Unowned<M> {
    /// A new bag.
    pub fn bag(bytes: &[u8]) -> Self {
        let word = blob::store(bytes);
        debug_assert_eq!(word & LAYER, 0, "W1");
        Self { word, layers: PhantomData }
    }

    /// A new layer.
    pub fn layer(layer: Layer<M>) -> Self {
        let word = Box::into_raw(Box::new(layer)).expose_provenance() as u64 | LAYER;
        Self { word, layers: PhantomData }
    }

    pub fn word(&self) -> u64 {
        self.word
    }

    /// A slice owns it from now on (W2).
    pub fn spend(self) {
        std::mem::forget(self);
    }
}

impl<M: LayerTree> Drop for Unowned<M> {
    fn drop(&mut self) {
        // SAFETY: it came from above, and no slice has its word: what is refused memory for an entry has not made it, and a tree that is
        // refused it while it is loaded goes alone, without what its words lead to.
        unsafe { free::<M>(self.word) }
    }
}

/// Frees what `word` leads to.
///
/// # Safety
/// The word is that of an [`Unowned`] of this type; nobody uses it any more.
pub unsafe fn free<M: LayerTree>(word: u64) {
    if word & LAYER == 0 {
        // SAFETY: by the caller.
        unsafe { blob::free(word) }
    } else {
        let layer = std::ptr::with_exposed_provenance_mut::<Layer<M>>((word & !LAYER) as usize);
        // SAFETY: by the caller.
        drop(unsafe { Box::from_raw(layer) });
    }
}

/// Frees what `word` leads to when every pin of now is gone.
///
/// # Safety
/// As [`free`], but readers that are pinned may use it until then; no slice has the word any more (W2).
pub unsafe fn retire<M: LayerTree>(word: u64, pin: &Pin) {
    let is_bulky = match Below::<M>::at(word, pin) {
        Below::Bag(Bag(bytes)) => bytes.len() >= BULKY_BYTES,
        Below::Layer(_) => true,
    };
    // SAFETY: by the caller; layers may be dropped on any thread (`LayerTree: Send`).
    unsafe { pin.defer(move || free::<M>(word)) };
    if is_bulky {
        pin.hand_over();
    }
}

impl<M: LayerTree> Layer<M> {
    pub fn new(map: M) -> Self {
        Self { map, gate: Gate::new() }
    }

    /// Closes the layer if it is empty; says whether it is closed by this call.
    pub fn close_if_empty(&self, pin: &Pin) -> bool {
        self.gate.close_if(|| self.map.is_empty(pin))
    }
}

impl<M: LayerTree> Drop for Layer<M> {
    fn drop(&mut self) {
        for (slice, word) in self.map.ascending(Slice::MIN) {
            if slice.goes_on() {
                // SAFETY: the slice owned it (W2), and goes with us: nobody else is left.
                unsafe { free::<M>(word) };
            }
        }
    }
}
