//! Memory of groups: cut from the nodes' huge pages, kept in lists by type.
//!
//! Why not the nodes' own lists: a group is as large as some dozens of nodes and needed once for as many splits, so
//! lists per thread would save nothing and cost memory. A new group's memory is only touched where it is used.
//!
//! Invariants:
//! - P1, P2 of [`crate::pool`], with the whole type in place of the size.
//! - A group in a list has all slots closed (H3 in `group.rs`), as one of fresh memory has.

use super::group::{Address, Group};
use super::node::Body;
use crate::node::int::IntKey;

/// A group that nobody else knows, all slots closed.
///
/// Panics if the system has no memory.
pub(super) fn take<K: IntKey, B: Body, const F: usize>() -> Address {
    lists::take::<Group<K, B, F>>()
}

/// Puts a group back.
///
/// # Safety
/// The group came from [`take`], and nobody can reach it any more.
pub(super) unsafe fn give_back<K: IntKey, B: Body, const F: usize>(address: Address) {
    let group = std::ptr::with_exposed_provenance::<Group<K, B, F>>(address as usize);
    // SAFETY: `take` gave a group of this type, and its memory never became anything else.
    unsafe { (*group).reset() };
    // SAFETY: as the caller says.
    unsafe { lists::keep::<Group<K, B, F>>(address) };
}

#[cfg(not(shuttle))]
mod lists {
    use super::Address;
    use crate::pool;
    use std::any::TypeId;
    use std::collections::HashMap;
    use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

    /// Free groups, by type.
    static FREE: LazyLock<Mutex<HashMap<TypeId, Vec<Address>>>> = LazyLock::new(Mutex::default);

    fn free() -> MutexGuard<'static, HashMap<TypeId, Vec<Address>>> {
        FREE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A free group, or memory of zeros, which are one (H3 in `group.rs`).
    ///
    /// Panics if the system has no memory.
    pub fn take<G: 'static>() -> Address {
        let used = free().get_mut(&TypeId::of::<G>()).and_then(Vec::pop);
        let new = || pool::cut(const { checked_size::<G>() }).expect("memory for index nodes");
        used.unwrap_or_else(|| new() as Address)
    }

    /// # Safety
    /// It came from [`take`], and nobody can reach it any more.
    pub unsafe fn keep<G: 'static>(group: Address) {
        free().entry(TypeId::of::<G>()).or_default().push(group);
    }

    const fn checked_size<G>() -> usize {
        assert!(align_of::<G>() == 64 && size_of::<G>().is_multiple_of(64) && size_of::<G>() <= 8 << 20);
        size_of::<G>()
    }
}

/// Under shuttle the pool's model goes by types anyhow.
#[cfg(shuttle)]
mod lists {
    use super::Address;
    use crate::pool;
    use crate::pooled::Pooled;
    use std::ptr::NonNull;

    pub fn take<G: Pooled>() -> Address {
        pool::take::<G>().as_ptr().expose_provenance() as Address
    }

    /// # Safety
    /// It came from [`take`], and nobody can reach it any more.
    pub unsafe fn keep<G: Pooled>(group: Address) {
        let group = std::ptr::with_exposed_provenance_mut::<G>(group as usize);
        // SAFETY: as the caller says.
        unsafe { pool::give_back(NonNull::new(group).expect("a group")) };
    }
}
