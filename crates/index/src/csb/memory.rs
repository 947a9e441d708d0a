//! Memory of groups: cut from the nodes' huge pages, kept in lists by type.
//!
//! Why not the nodes' own lists: a group is as large as some dozens of nodes and needed once for as many splits, so
//! lists per thread would save nothing and cost memory. A new group's memory is only touched where it is used.
//!
//! Invariants:
//! - P1, P2 of [`crate::pool`], with the whole type in place of the size.
//! - A group in a list has all slots closed (H3), as one of fresh memory has.

#[cfg(shuttle)]
pub(super) use model::{give_back, take, trim};
#[cfg(not(shuttle))]
pub(super) use real::{give_back, take};

use super::group::Group;
use super::node::Body;
use crate::node::int::IntKey;

/// What lists hold: groups of any type.
pub(super) trait Pooled: Sized + 'static {
    #[cfg(shuttle)]
    fn vacant() -> Self;
    #[cfg(shuttle)]
    fn set_pooled(&self, pooled: bool);
    fn reset(&self);
}

impl<K: IntKey, B: Body, const F: usize> Pooled for Group<K, B, F> {
    #[cfg(shuttle)]
    fn vacant() -> Self {
        Group::vacant()
    }

    #[cfg(shuttle)]
    fn set_pooled(&self, pooled: bool) {
        self.header.pooled.store(pooled, std::sync::atomic::Ordering::Relaxed);
    }

    fn reset(&self) {
        Group::reset(self);
    }
}

#[cfg(not(shuttle))]
mod real {
    use super::super::group::Address;
    use super::Pooled;
    use crate::pool;
    use std::any::TypeId;
    use std::collections::HashMap;
    use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

    /// Free groups, by type.
    static FREE: LazyLock<Mutex<HashMap<TypeId, Vec<Address>>>> = LazyLock::new(Mutex::default);

    fn free() -> MutexGuard<'static, HashMap<TypeId, Vec<Address>>> {
        FREE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A group that nobody else knows, all slots closed.
    ///
    /// Panics if the system has no memory.
    pub fn take<G: Pooled>() -> Address {
        let used = free().get_mut(&TypeId::of::<G>()).and_then(Vec::pop);
        used.unwrap_or_else(|| pool::cut(const { checked_size::<G>() }) as Address)
    }

    /// Puts a group back.
    ///
    /// # Safety
    /// The group came from [`take`], and nobody can reach it any more.
    pub unsafe fn give_back<G: Pooled>(address: Address) {
        let group = std::ptr::with_exposed_provenance::<G>(address as usize);
        // SAFETY: `take` cut room for a `G`, of zeros, which are a group (H3), and it never became anything else.
        unsafe { (*group).reset() };
        free().entry(TypeId::of::<G>()).or_default().push(address);
    }

    const fn checked_size<G>() -> usize {
        assert!(align_of::<G>() == 64 && size_of::<G>().is_multiple_of(64) && size_of::<G>() <= 8 << 20);
        size_of::<G>()
    }
}

/// Under shuttle, whose atomics are not plain words, groups are boxes; the one given back last is handed out first, and
/// one in the pool is marked, so that whoever still reads it is caught.
#[cfg(shuttle)]
mod model {
    use super::super::group::Address;
    use super::Pooled;
    use std::any::Any;
    use std::cell::RefCell;

    thread_local!(static FREE: RefCell<Vec<Box<dyn Any>>> = RefCell::default());

    /// A group that nobody else knows, all slots closed.
    pub fn take<G: Pooled>() -> Address {
        let free = FREE.with_borrow_mut(|free| {
            let last = free.iter().rposition(|group| group.is::<G>())?;
            free.remove(last).downcast::<G>().ok()
        });
        let group = free.unwrap_or_else(|| Box::new(G::vacant()));
        group.set_pooled(false);
        Box::into_raw(group).expose_provenance() as Address
    }

    /// Puts a group back.
    ///
    /// # Safety
    /// The group came from [`take`], and nobody can reach it any more.
    pub unsafe fn give_back<G: Pooled>(address: Address) {
        // SAFETY: `take` leaked a box.
        let group = unsafe { Box::from_raw(std::ptr::with_exposed_provenance_mut::<G>(address as usize)) };
        group.reset();
        group.set_pooled(true);
        FREE.with_borrow_mut(|free| free.push(group));
    }

    /// Forgets all free groups: the atomics of one execution must not meet the next.
    pub fn trim() {
        FREE.with_borrow_mut(Vec::clear);
    }
}
