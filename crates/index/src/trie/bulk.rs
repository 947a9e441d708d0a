//! Building layers and bags from sorted keys.

use super::Trie;
use super::bag::Bag;
use super::below::{Layer, Unowned};
use super::layer_tree::LayerTree;
use super::slice::Slice;
use super::update::KEY_BYTES_MAX;

impl<M: LayerTree, const C: usize> Trie<M, C> {
    /// A trie of these entries; nodes are filled to about `fill` of their capacity.
    ///
    /// Panics if keys do not rise strictly or one is too long, or `fill` is not in 0.1 ..= 1.
    pub fn bulk_load<K: AsRef<[u8]>>(entries: impl IntoIterator<Item = (K, u64)>, fill: f64) -> Self {
        // Before there are bags, which would not go with the tree that refuses it.
        assert!((0.1..=1.0).contains(&fill), "a fill factor of {fill}");
        let entries: Vec<(K, u64)> = entries.into_iter().collect();
        // Once: asked for its bytes again a key need not give the same.
        let entries: Vec<(&[u8], u64)> = entries.iter().map(|(key, word)| (key.as_ref(), *word)).collect();
        let rises = entries.is_sorted_by(|(a, _), (b, _)| a < b);
        assert!(rises, "bulk loading wants strictly rising keys");
        let longest = entries.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
        assert!(longest <= KEY_BYTES_MAX, "a key of {longest} bytes: {KEY_BYTES_MAX} at most");
        let trie = Self::over(layer::<M, C>(&entries, 0, fill));
        trie.length.add(entries.len() as i64);
        trie
    }
}

/// A layer of these keys, of each of which `skip` bytes are known from above.
fn layer<M: LayerTree, const C: usize>(entries: &[(&[u8], u64)], skip: usize, fill: f64) -> Layer<M> {
    let slice = |(key, _): &(&[u8], u64)| Slice::of(&key[skip..]);
    // All slots first: what they lead to is built before this layer's tree, not in the middle of it.
    let (mut slots, mut below) = (Vec::new(), Vec::new());
    for same in entries.chunk_by(|a, b| slice(a) == slice(b)) {
        let slice = slice(&same[0]);
        let word = if slice.goes_on() {
            let tails = store_tails::<M, C>(same, skip + slice.len(), fill);
            let word = tails.word();
            below.push(tails);
            word
        } else {
            same[0].1
        };
        slots.push((slice, word));
    }
    let map = M::bulk_load(slots.into_iter(), fill);
    below.into_iter().for_each(Unowned::spend);
    Layer::new(map)
}

/// A bag of these keys without their first `skip` bytes, or a layer if they are too many.
pub fn store_tails<M: LayerTree, const C: usize>(
    entries: &[(&[u8], u64)],
    skip: usize,
    fill: f64,
) -> Unowned<M> {
    if entries.len() > C {
        return Unowned::layer(layer::<M, C>(entries, skip, fill));
    }
    Unowned::bag(&Bag::encode(entries.iter().map(|(key, word)| (&key[skip..], *word))))
}
