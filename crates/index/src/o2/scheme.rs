//! The two concurrency schemes: what a lookup does on its way down, and what a latch is.
//!
//! See [`super`] for why each is right. Everything else (splits, rebalancing, scans) is written once, in terms of
//! [`Protocol`].

use super::leaf::Leaf;
use super::node::{Header, Inner};
use super::update::is_parent;
use super::{Tree, header_at, inner_at, leaf_at};
use crate::read_again::read_again;
use crate::reclaim::Pin;
use crate::search::Lane;
use foreshore_base::rwx::{Reader, Writer};
use foreshore_base::sync::Backoff;
use foreshore_base::{Exclusive, Restart, seeded_bug};

/// How the threads of an O2-Tree keep out of each other's way: [`Coupled`] or [`Optimistic`].
///
/// ```
/// use foreshore_index::{Coupled, O2Map, Optimistic, Scheme};
///
/// fn sum_of<S: Scheme>(map: &O2Map<u64, 64, S>) -> u64 {
///     map.iter().map(|(_, value)| value).sum()
/// }
/// assert_eq!(sum_of::<Coupled>(&O2Map::from_iter([(1, 10)])), 10);
/// assert_eq!(sum_of::<Optimistic>(&O2Map::from_iter([(1, 10)])), 10);
/// ```
pub trait Scheme: Protocol {}

/// The paper's scheme: rlocks, wlocks and xlocks, coupled from the header down. See [`Scheme`].
#[derive(Debug)]
pub struct Coupled;

/// Lookups take nothing and validate the leaf block; updates latch only what they change. See [`Scheme`].
#[derive(Debug)]
pub struct Optimistic;

impl Scheme for Coupled {}
impl Scheme for Optimistic {}

/// The right to change a node once it was asked for.
pub trait Guard {
    /// From now on others read neither the node's content nor its children: the paper's xlock. Until then only other
    /// writers are kept out.
    fn exclude(&mut self);
}

/// A leaf block under its latch, to which a key belongs, and its parent if that is latched too.
pub struct Site<'g, L: Lane, const F: usize, S: Scheme> {
    // Dropped in this order: the lower latch first.
    pub guard: S::Guard<'g>,
    pub leaf: &'g Leaf<L, F>,
    pub parent: Option<(&'g Inner<L>, S::Guard<'g>)>,
}

/// What a scheme must define. Sealed: the module is private.
pub trait Protocol: Sized + Send + Sync + 'static {
    type Guard<'g>: Guard;

    /// Latches a node against other writers. The caller holds no latch, or that of the node's parent.
    fn latch(header: &Header) -> Self::Guard<'_>;

    /// Is the node latched right now? For assertions only.
    fn is_latched(header: &Header) -> bool;

    /// What `read` makes of a leaf block, all of it at one moment.
    fn read<'g, L: Lane, const F: usize, R>(
        tree: &Tree<L, F, Self>,
        leaf: &'g Leaf<L, F>,
        read: impl FnMut(&'g Leaf<L, F>) -> R,
    ) -> R
    where
        Self: Scheme;

    /// What `read` makes of the leaf block that `key` belongs to, while it does.
    fn in_leaf<'g, L: Lane, const F: usize, R>(
        tree: &Tree<L, F, Self>,
        key: L,
        pin: &'g Pin,
        read: impl FnMut(&'g Leaf<L, F>) -> R,
    ) -> R
    where
        Self: Scheme;

    /// Latches the leaf block that `key` belongs to, and its parent if `with_parent`, or if the scheme had to latch it
    /// anyhow.
    fn site<'g, L: Lane, const F: usize>(
        tree: &Tree<L, F, Self>,
        key: L,
        with_parent: bool,
        pin: &'g Pin,
    ) -> Site<'g, L, F, Self>
    where
        Self: Scheme;
}

impl Guard for Writer<'_> {
    fn exclude(&mut self) {
        self.xlock();
    }
}

impl Protocol for Coupled {
    type Guard<'g> = Writer<'g>;

    #[inline]
    fn latch(header: &Header) -> Writer<'_> {
        header.lock.wlock()
    }

    fn is_latched(header: &Header) -> bool {
        header.lock.is_held()
    }

    #[inline]
    fn read<'g, L: Lane, const F: usize, R>(
        _tree: &Tree<L, F, Self>,
        leaf: &'g Leaf<L, F>,
        mut read: impl FnMut(&'g Leaf<L, F>) -> R,
    ) -> R {
        let _held = leaf.header.lock.rlock();
        read(leaf)
    }

    /// The paper's Algorithm 1.
    #[inline]
    fn in_leaf<'g, L: Lane, const F: usize, R>(
        tree: &Tree<L, F, Self>,
        key: L,
        pin: &'g Pin,
        mut read: impl FnMut(&'g Leaf<L, F>) -> R,
    ) -> R {
        let mut held = tree.header(pin).header.lock.rlock();
        let mut child = tree.root(pin);
        while !child.is_leaf() {
            held = couple(held, header_at(child, pin));
            child = inner_at::<L>(child.address(), pin).toward(key);
        }
        let held = couple(held, header_at(child, pin));
        let leaf = leaf_at(child.address(), pin);
        debug_assert!(leaf.covers(key), "P1: {key:?} is in another block");
        let result = read(leaf);
        drop(held);
        result
    }

    /// The descent of Algorithms 2 and 3.
    fn site<'g, L: Lane, const F: usize>(
        tree: &Tree<L, F, Self>,
        key: L,
        _with_parent: bool,
        pin: &'g Pin,
    ) -> Site<'g, L, F, Self> {
        let mut inner = tree.header(pin);
        let mut above = Self::latch(&inner.header);
        let mut child = tree.root(pin);
        let mut guard = Self::latch(header_at(child, pin));
        while !child.is_leaf() {
            inner = inner_at(child.address(), pin);
            child = inner.toward(key);
            let below = Self::latch(header_at(child, pin));
            above = std::mem::replace(&mut guard, below);
        }
        let leaf = leaf_at(child.address(), pin);
        debug_assert!(leaf.covers(key), "P1: {key:?} is in another block");
        Site { guard, leaf, parent: Some((inner, above)) }
    }
}

/// Locks the child, then lets the parent go.
#[inline(always)]
fn couple<'g>(parent: Reader<'_>, child: &'g Header) -> Reader<'g> {
    if seeded_bug("o2_uncoupled_reader") {
        drop(parent);
        return child.lock.rlock();
    }
    let held = child.lock.rlock();
    drop(parent);
    held
}

/// An OLFIT latch that makes a new version only if something was changed that others read.
pub struct Versioned<'g> {
    latch: Option<Exclusive<'g>>,
    changed: bool,
}

impl Guard for Versioned<'_> {
    /// Optimistic readers are not waited for: they find the version changed.
    fn exclude(&mut self) {
        self.changed = true;
    }
}

impl Drop for Versioned<'_> {
    #[inline]
    fn drop(&mut self) {
        match self.latch.take() {
            Some(latch) if !self.changed => latch.release_unchanged(),
            latch => drop(latch),
        }
    }
}

/// Blocks to the right of where a descent ended that are looked at: what a split or a borrowing moves is a step or two away. What a
/// rotation hides between two of its writes may be a quarter of the tree: then the descent begins again.
const STEPS_MAX: u32 = 4;

/// Who stands at a block asks it where a key is.
enum Answer<R> {
    Here(R),
    /// Behind the link to this block.
    Right(u64),
    /// The descent was misled.
    Elsewhere,
}

/// Asks a block for `key`. What it says counts once it is known to be of one version.
#[inline(always)]
fn ask<'g, L: Lane, const F: usize, R>(
    leaf: &'g Leaf<L, F>,
    key: L,
    here: impl FnOnce(&'g Leaf<L, F>) -> R,
) -> Answer<R> {
    let next = leaf.next();
    if leaf.covers(key) || seeded_bug("o2_bounds_not_checked") {
        Answer::Here(here(leaf))
    } else if key >= leaf.high() && next != 0 && !leaf.header.is_dead() {
        Answer::Right(next)
    } else {
        Answer::Elsewhere
    }
}

impl Protocol for Optimistic {
    type Guard<'g> = Versioned<'g>;

    #[inline]
    fn latch(header: &Header) -> Versioned<'_> {
        Versioned { latch: Some(header.latch.exclusive()), changed: false }
    }

    fn is_latched(header: &Header) -> bool {
        header.latch.is_latched()
    }

    #[inline(always)]
    fn read<'g, L: Lane, const F: usize, R>(
        tree: &Tree<L, F, Self>,
        leaf: &'g Leaf<L, F>,
        mut read: impl FnMut(&'g Leaf<L, F>) -> R,
    ) -> R {
        match try_read(leaf, &mut read) {
            Ok(result) => result,
            Err(Restart) => {
                let counts = (&tree.counters.restarts, &tree.counters.latched_reads);
                read_again(&leaf.header.latch, counts, |_| Ok(look(leaf, &mut read)))
            }
        }
    }

    #[inline(always)]
    fn in_leaf<'g, L: Lane, const F: usize, R>(
        tree: &Tree<L, F, Self>,
        key: L,
        pin: &'g Pin,
        mut read: impl FnMut(&'g Leaf<L, F>) -> R,
    ) -> R {
        let mut leaf = tree.descend(key, pin);
        let (mut backoff, mut steps) = (Backoff::new(), 0);
        loop {
            match Self::read(tree, leaf, |leaf| ask(leaf, key, &mut read)) {
                Answer::Here(result) => return result,
                Answer::Right(next) if steps < STEPS_MAX => (leaf, steps) = (leaf_at(next, pin), steps + 1),
                Answer::Right(_) | Answer::Elsewhere => {
                    (leaf, steps) = (descend_again(tree, key, &mut backoff, pin), 0);
                }
            }
        }
    }

    #[inline]
    fn site<'g, L: Lane, const F: usize>(
        tree: &Tree<L, F, Self>,
        key: L,
        with_parent: bool,
        pin: &'g Pin,
    ) -> Site<'g, L, F, Self> {
        let mut leaf = tree.descend(key, pin);
        let (mut backoff, mut steps) = (Backoff::new(), 0);
        loop {
            let parent = with_parent.then(|| latch_parent(leaf, pin));
            if let Some((node, _)) = &parent
                && !is_parent(node, leaf)
            {
                // Only a child may be waited for.
                drop(parent);
                (leaf, steps) = (descend_again(tree, key, &mut backoff, pin), 0);
                continue;
            }
            let guard = Self::latch(&leaf.header);
            match ask(leaf, key, |_| ()) {
                Answer::Here(()) => return Site { guard, leaf, parent },
                Answer::Right(next) if steps < STEPS_MAX => (leaf, steps) = (leaf_at(next, pin), steps + 1),
                Answer::Right(_) | Answer::Elsewhere => {
                    drop((guard, parent));
                    (leaf, steps) = (descend_again(tree, key, &mut backoff, pin), 0);
                }
            }
        }
    }
}

/// Latches what was the block's parent a moment ago.
fn latch_parent<'g, L: Lane, const F: usize>(
    leaf: &Leaf<L, F>,
    pin: &'g Pin,
) -> (&'g Inner<L>, Versioned<'g>) {
    let parent = inner_at::<L>(leaf.header.parent(), pin);
    (parent, Optimistic::latch(&parent.header))
}

#[inline(always)]
fn try_read<'g, L: Lane, const F: usize, R>(
    leaf: &'g Leaf<L, F>,
    read: &mut impl FnMut(&'g Leaf<L, F>) -> R,
) -> Result<R, Restart> {
    let seen = leaf.header.latch.optimistic();
    let result = look(leaf, read);
    seen.validate()?;
    Ok(result)
}

#[inline(always)]
fn look<'g, L: Lane, const F: usize, R>(
    leaf: &'g Leaf<L, F>,
    read: &mut impl FnMut(&'g Leaf<L, F>) -> R,
) -> R {
    #[cfg(shuttle)]
    assert!(
        !leaf.header.pooled.load(std::sync::atomic::Ordering::Relaxed),
        "O1: met a block that was given back"
    );
    read(leaf)
}

#[cold]
#[inline(never)]
fn descend_again<'g, L: Lane, const F: usize>(
    tree: &Tree<L, F, Optimistic>,
    key: L,
    backoff: &mut Backoff,
    pin: &'g Pin,
) -> &'g Leaf<L, F> {
    tree.counters.restarts.add();
    backoff.wait();
    tree.descend(key, pin)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::super::node::Side;
    use super::*;
    use std::thread;

    /// Whom a rotation misleads begins again, instead of walking through all that it hides for a moment.
    #[test]
    fn who_is_misled_to_the_left_begins_again() {
        let tree = Tree::<u64, 4, Optimistic>::bulk_load((0..4096).map(|key| (key, key)), 1.0);
        let pin = Pin::new();
        let down: &Inner<u64> = inner_at(tree.root(&pin).address(), &pin);
        let up = down.child(Side::Right);
        // The first write of a rotation of `up` over `down` (R2 in `rotate.rs`).
        down.set_child(Side::Right, inner_at::<u64>(up.address(), &pin).child(Side::Left));
        thread::scope(|scope| {
            let found = scope.spawn(|| tree.get(4095, &Pin::new()));
            while !found.is_finished() && tree.counters.restarts.get() == 0 {
                thread::yield_now();
            }
            down.set_child(Side::Right, up);
            assert_eq!(found.join().unwrap(), Some(4095));
        });
        assert!(tree.counters.restarts.get() > 0, "it has walked through a quarter of the blocks");
        tree.check().unwrap();
    }
}
