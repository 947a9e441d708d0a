//! The usual case of an operation on integer keys: nobody interferes, and no pin is needed.
//!
//! Why: a pin is a full fence. The processor waits there for all that is under way, so that operations that follow one
//! another, each a chain of cache misses, no longer overlap.
//! Source: optimistic lock coupling (Leis et al., DaMoN 2016): the version of a child is read, then that of its parent is
//! validated once more.
//!
//! Without a pin a node may be given back to the pool, and serve another tree, while somebody looks at it. That is
//! harmless, for its memory stays that of nodes of the same layout (P1 in `pool.rs`), all of whose fields are atomics, and
//! its version goes on (L1 in base's `latch.rs`). What was read there is not believed:
//!
//! - F1: an address is followed only if the node that it was read from still has the version seen: it is a node's.
//! - F2: then the version of the node behind it is read, and the first one is validated again. So the pointer stood when
//!   that version was current, and as every pointer to a node is taken away under its holder's latch before the node is
//!   closed, the node was alive. While its version stays the same it is that node, in that life.
//! - F3: whatever fails ends the attempt, and the caller goes the pinned way, which waits, splits and unlinks.
//!
//! Only nodes that own nothing outside of themselves can be read so.

use super::Tree;
use crate::node::int::{IntLeaf, IntNode};
use crate::node::{Bias, Node};
use crate::reclaim::Pin;
use crate::search::Lane;
use foreshore_base::sync::Ordering;
use foreshore_base::{Optimistic, Restart, seeded_bug};

/// What is to be asked for of a leaf.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaf {
    /// The lines where the key is to be expected: all that a lookup reads.
    Near,
    /// All lines: an update moves what is behind the key.
    Whole,
    /// What a scan of so many entries from the key on reads, and the same of the next leaf.
    Run(usize),
}

/// The place of a key in a leaf, if the leaf still has the version seen.
pub(super) struct Found<'t, L: Lane, const F: usize> {
    pub leaf: &'t IntLeaf<L, F>,
    pub seen: Optimistic<'t>,
    /// Entries not above (or below) the key.
    pub rank: usize,
    /// Is the last of them the key itself?
    pub exact: bool,
}

impl<L: Lane, const F: usize> Tree<IntNode<L, F>> {
    /// As [`get`](Self::get).
    #[inline(always)]
    pub fn get_unpinned(&self, key: &L) -> Option<u64> {
        self.try_get(key).unwrap_or_else(|Restart| self.get_interfered(key))
    }

    #[inline(always)]
    fn try_get(&self, key: &L) -> Result<Option<u64>, Restart> {
        let Found { leaf, seen, rank, exact } = self.find(key, Bias::AtMost, Leaf::Near)?;
        let value = exact.then(|| leaf.word(rank - 1));
        if !seeded_bug("index_no_validation") {
            seen.validate()?;
        }
        Ok(value)
    }

    #[cold]
    fn get_interfered(&self, key: &L) -> Option<u64> {
        self.get(key, &Pin::new())
    }

    /// As [`greatest`](Self::greatest).
    #[inline(always)]
    pub fn greatest_unpinned(&self, key: &L, bias: Bias) -> Option<u64> {
        self.try_greatest(key, bias).map_or_else(|Restart| self.greatest(key, bias, &Pin::new()), Some)
    }

    /// The answer, if it is in the leaf that the key belongs to.
    #[inline(always)]
    fn try_greatest(&self, key: &L, bias: Bias) -> Result<u64, Restart> {
        let Found { leaf, seen, rank, .. } = self.find(key, bias, Leaf::Near)?;
        let value = leaf.word(rank.checked_sub(1).ok_or(Restart)?);
        seen.validate()?;
        Ok(value)
    }

    /// As [`insert`](Self::insert).
    #[inline(always)]
    pub fn insert_unpinned(&self, key: &L, value: u64) -> Option<u64> {
        self.try_insert(key, value).unwrap_or_else(|Restart| self.insert_interfered(key, value))
    }

    /// Inserts where there is room.
    #[inline(always)]
    fn try_insert(&self, key: &L, value: u64) -> Result<Option<u64>, Restart> {
        let Found { leaf, seen, rank, exact } = self.find(key, Bias::AtMost, Leaf::Whole)?;
        // What was found under the version is current under the latch.
        let latch = seen.upgrade()?;
        if exact {
            let old = leaf.word(rank - 1);
            leaf.set_word(rank - 1, value);
            return Ok(Some(old));
        }
        if !leaf.has_room() {
            latch.release_unchanged();
            return Err(Restart);
        }
        leaf.insert(rank, *key, value);
        drop(latch);
        self.length.add(1);
        Ok(None)
    }

    #[cold]
    fn insert_interfered(&self, key: &L, value: u64) -> Option<u64> {
        self.insert(key, value, &Pin::new())
    }

    /// As [`remove`](Self::remove).
    #[inline(always)]
    pub fn remove_unpinned(&self, key: &L) -> Option<u64> {
        self.try_remove(key).unwrap_or_else(|Restart| self.remove_interfered(key))
    }

    /// Removes what is not the last entry of its leaf.
    #[inline(always)]
    fn try_remove(&self, key: &L) -> Result<Option<u64>, Restart> {
        let Found { leaf, seen, rank, exact } = self.find(key, Bias::AtMost, Leaf::Whole)?;
        if !exact {
            seen.validate()?;
            return Ok(None);
        }
        let latch = seen.upgrade()?;
        if leaf.count() == 1 {
            latch.release_unchanged();
            return Err(Restart);
        }
        let value = leaf.word(rank - 1);
        leaf.remove(rank - 1);
        drop(latch);
        self.length.add(-1);
        Ok(Some(value))
    }

    #[cold]
    fn remove_interfered(&self, key: &L) -> Option<u64> {
        self.remove(key, &Pin::new())
    }

    /// The leaf that a key belongs to and its place there, in one attempt (F3). Few instructions, so that lookups that
    /// follow one another overlap: a processor looks ahead by some hundred of them.
    #[inline(always)]
    pub(super) fn find(&self, key: &L, bias: Bias, wanted: Leaf) -> Result<Found<'_, L, F>, Restart> {
        let sought = match bias {
            Bias::AtMost => *key,
            Bias::Below => key.before().ok_or(Restart)?,
        };
        let (mut node, mut seen) = self.enter_root()?;
        let mut level = node.header().level();
        while level > 0 {
            let inner = node.as_inner().ok_or(Restart)?;
            let next = match inner.entry_for(sought) {
                None => node.header().link(),
                Some((entry, head)) => {
                    level -= 1;
                    let child = inner.child(entry);
                    let at = std::ptr::with_exposed_provenance(child as usize);
                    match (level, wanted) {
                        (0, Leaf::Near) => {
                            IntLeaf::<L, F>::prefetch_near(at, inner.expected_entry(entry, head));
                        }
                        (0, Leaf::Whole) => IntNode::<L, F>::prefetch(at),
                        (0, Leaf::Run(entries)) => inner.prefetch_run(entry, head, entries),
                        (1, _) => IntNode::<L, F>::prefetch_inner(at),
                        // So few nodes that the nearest cache holds them.
                        (2.., _) => {}
                    }
                    child
                }
            };
            (node, seen) = self.follow(next, seen)?;
        }
        loop {
            let leaf = node.as_leaf().ok_or(Restart)?;
            let Some((rank, exact)) = leaf.place_of(sought) else {
                if seeded_bug("index_reader_does_not_move_right")
                    || seeded_bug("index_writer_does_not_move_right")
                {
                    return Ok(Found { leaf, seen, rank: node.header().count(), exact: false });
                }
                (node, seen) = self.follow(node.header().link(), seen)?;
                continue;
            };
            let exact = exact && bias == Bias::AtMost;
            return Ok(Found { leaf, seen, rank, exact });
        }
    }

    /// The node behind an address that was read from a node of this version, and its own version.
    #[inline(always)]
    pub(super) fn follow<'t>(
        &'t self,
        address: u64,
        seen: Optimistic<'t>,
    ) -> Result<(&'t IntNode<L, F>, Optimistic<'t>), Restart> {
        seen.validate()?; // F1
        let behind = self.node_of_any_life(address);
        let seen_behind = behind.header().latch.try_optimistic()?;
        if !seeded_bug("index_child_not_tied") {
            seen.validate()?;
        } // F2
        Ok((behind, seen_behind))
    }

    /// The root, for which the tree's pointer stands in the place of a parent (F2).
    #[inline(always)]
    fn enter_root(&self) -> Result<(&IntNode<L, F>, Optimistic<'_>), Restart> {
        // ORDERING: Acquire, so that the root's content is seen; pairs with the exchange in `grow`.
        let address = self.root.load(Ordering::Acquire);
        let root = self.node_of_any_life(address);
        let seen = root.header().latch.try_optimistic()?;
        // ORDERING: the latch was read by Acquire, so if the node had a new life, its former end as root is seen here. Acquire,
        // for in that life it may have become the root once more, and its version is from before it was filled.
        if self.root.load(Ordering::Acquire) == address { Ok((root, seen)) } else { Err(Restart) }
    }

    /// The node at an address that was once read from a living tree; it may have got another life since.
    #[inline(always)]
    fn node_of_any_life(&self, address: u64) -> &IntNode<L, F> {
        let node = std::ptr::with_exposed_provenance::<IntNode<L, F>>(address as usize);
        // SAFETY: the address was a node's (F1), so it came from the pool, whose memory is never unmapped and only ever
        // holds nodes of this layout (P1 in `pool.rs`), and all fields are atomics.
        unsafe { &*node }
    }
}
