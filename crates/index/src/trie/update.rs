//! Inserts and removals, and what becomes of bags and layers by them.

use super::bag::Bag;
use super::below::{Below, Layer, Unowned, retire};
use super::layer_tree::LayerTree;
use super::slice::Slice;
use super::{Trie, bulk};
use crate::reclaim::Pin;
use foreshore_base::rwx::Reader;
use foreshore_base::sync::Backoff;

/// The longest key, in bytes: what bounds the number of layers, and so the depth of the recursions over them.
pub const KEY_BYTES_MAX: usize = 1024;

/// How full the nodes of a layer are that a bag becomes: more keys will come.
const BURST_FILL: f64 = 0.7;

/// The layer is closed: begin again at the first one.
struct Closed;

/// Somebody else has changed the word meanwhile: look again.
struct Raced;

impl<M: LayerTree, const C: usize> Trie<M, C> {
    /// Sets the value of `key`; returns the old one.
    ///
    /// Panics if the key is longer than [`KEY_BYTES_MAX`].
    #[inline]
    pub fn insert(&self, key: &[u8], value: u64, pin: &Pin) -> Option<u64> {
        self.insert_if(key, value, |_| true, pin)
    }

    /// Sets the value of `key` if `admit` agrees to the present one; returns that. Panics as `insert`.
    #[inline]
    pub fn insert_if(
        &self,
        key: &[u8],
        value: u64,
        admit: impl Fn(Option<u64>) -> bool,
        pin: &Pin,
    ) -> Option<u64> {
        assert!(key.len() <= KEY_BYTES_MAX, "a key of {} bytes: {KEY_BYTES_MAX} at most", key.len());
        let old = again(|| self.try_insert(key, value, &admit, pin));
        if old.is_none() && admit(None) {
            self.length.add(1);
        }
        old
    }

    /// Removes `key`; returns its value.
    #[inline]
    pub fn remove(&self, key: &[u8], pin: &Pin) -> Option<u64> {
        self.remove_if(key, |_| true, pin)
    }

    /// Removes `key` if `admit` agrees to its value; returns that.
    #[inline]
    pub fn remove_if(&self, key: &[u8], admit: impl Fn(u64) -> bool, pin: &Pin) -> Option<u64> {
        let old = again(|| self.try_remove(key, &admit, pin));
        if old.is_some_and(&admit) {
            self.length.add(-1);
        }
        old
    }

    /// The right to change a layer; the first one is never closed.
    fn enter<'g>(&self, layer: &'g Layer<M>) -> Result<Option<Reader<'g>>, Closed> {
        if std::ptr::eq(layer, &self.root) {
            return Ok(None);
        }
        layer.gate.enter().map(Some).ok_or(Closed)
    }

    fn try_insert(
        &self,
        key: &[u8],
        value: u64,
        admit: &impl Fn(Option<u64>) -> bool,
        pin: &Pin,
    ) -> Result<Option<u64>, Closed> {
        let (mut layer, mut rest) = (&self.root, key);
        loop {
            let _open = self.enter(layer)?;
            let slice = Slice::of(rest);
            let Some(tail) = slice.tail(rest) else {
                return Ok(layer.map.insert_if(slice, value, admit, pin));
            };
            let word = layer.map.get(slice, pin);
            match word.map(|word| (word, Below::at(word, pin))) {
                Some((_, Below::Layer(next))) => (layer, rest) = (next, tail),
                Some((word, Below::Bag(bag))) => {
                    let present = bag.position(tail).ok().map(|i| bag.word(i));
                    if !admit(present) {
                        return Ok(present);
                    }
                    if let Ok(old) = layer.put_tail::<C>(slice, (word, bag), tail, value, pin) {
                        if old.is_none() && bag.len() == C {
                            self.counters.bursts.add();
                        }
                        return Ok(old);
                    }
                }
                None if !admit(None) => return Ok(None),
                None => {
                    let bag = Unowned::bag(&Bag::encode([(tail, value)].into_iter()));
                    if layer.exchange(slice, None, Some(bag), pin).is_ok() {
                        return Ok(None);
                    }
                }
            }
        }
    }

    fn try_remove(&self, key: &[u8], admit: &impl Fn(u64) -> bool, pin: &Pin) -> Result<Option<u64>, Closed> {
        let mut above = Vec::new();
        let (mut layer, mut rest) = (&self.root, key);
        let removed = loop {
            let _open = self.enter(layer)?;
            let slice = Slice::of(rest);
            let Some(tail) = slice.tail(rest) else {
                break layer.map.remove_if(slice, admit, pin);
            };
            let Some(word) = layer.map.get(slice, pin) else { break None };
            match Below::at(word, pin) {
                Below::Layer(next) => {
                    above.push((layer, slice, word));
                    (layer, rest) = (next, tail);
                }
                Below::Bag(bag) => {
                    let present = bag.position(tail).ok().map(|i| bag.word(i));
                    if !present.is_some_and(admit) {
                        break present;
                    }
                    if let Ok(removed) = layer.take_tail(slice, (word, bag), tail, pin) {
                        break removed;
                    }
                }
            }
        };
        // From the bottom up: a layer that loses its last layer is empty too.
        while let Some((parent, slice, word)) = above.pop()
            && layer.close_if_empty(pin)
        {
            // Through the gate, as every update: who leaves the layer above after us sees this.
            let open = self.enter(parent);
            assert!(open.is_ok(), "B3: a layer with a slice is open");
            let unlinked = parent.exchange(slice, Some(word), None, pin);
            assert!(unlinked.is_ok(), "B3: who closes a layer is the one who unlinks it");
            drop(open);
            self.counters.closed.add();
            layer = parent;
        }
        Ok(removed)
    }
}

impl<M: LayerTree> Layer<M> {
    /// Sets the word of a tail in a bag.
    fn put_tail<const C: usize>(
        &self,
        slice: Slice,
        (word, bag): (u64, Bag),
        tail: &[u8],
        value: u64,
        pin: &Pin,
    ) -> Result<Option<u64>, Raced> {
        let mut tails: Vec<_> = bag.entries().collect();
        let old = match bag.position(tail) {
            Ok(i) => Some(std::mem::replace(&mut tails[i].1, value)),
            Err(i) => {
                tails.insert(i, (tail, value));
                None
            }
        };
        let new = bulk::store_tails::<M, C>(&tails, 0, BURST_FILL);
        self.exchange(slice, Some(word), Some(new), pin).map(|()| old)
    }

    /// Removes a tail from a bag.
    fn take_tail(
        &self,
        slice: Slice,
        (word, bag): (u64, Bag),
        tail: &[u8],
        pin: &Pin,
    ) -> Result<Option<u64>, Raced> {
        let Ok(i) = bag.position(tail) else { return Ok(None) };
        let mut tails: Vec<_> = bag.entries().collect();
        let (_, value) = tails.remove(i);
        let new = (!tails.is_empty()).then(|| Unowned::bag(&Bag::encode(tails.into_iter())));
        self.exchange(slice, Some(word), new, pin).map(|()| Some(value))
    }

    /// Puts the word of `new` in place of `old`, if that is still there, and retires what that led to (B1).
    fn exchange(
        &self,
        slice: Slice,
        old: Option<u64>,
        new: Option<Unowned<M>>,
        pin: &Pin,
    ) -> Result<(), Raced> {
        if !self.map.replace(slice, old, new.as_ref().map(Unowned::word), pin) {
            return Err(Raced);
        }
        if let Some(new) = new {
            new.spend();
        }
        if let Some(old) = old {
            // SAFETY: `old` was this slice's word, which we have replaced; nobody else has (W2 in `below.rs`).
            unsafe { retire::<M>(old, pin) };
        }
        Ok(())
    }
}

/// Tries until no closed layer is in the way; who closed it is about to unlink it.
fn again<R>(mut attempt: impl FnMut() -> Result<R, Closed>) -> R {
    let mut backoff = Backoff::new();
    loop {
        match attempt() {
            Ok(result) => return result,
            Err(Closed) => backoff.wait(),
        }
    }
}
