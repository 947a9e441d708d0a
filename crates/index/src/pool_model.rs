//! The pool under shuttle, whose atomics are not plain words: nodes are boxes. The node given back last is handed out
//! first, and a node in the pool is marked, so that whoever still reads it is caught.

use crate::pooled::Pooled;
use std::any::Any;
use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;

thread_local! {
    static FREE: RefCell<Vec<Box<dyn Any>>> = RefCell::default();
    /// Addresses that have a number: the first has number 1.
    static NUMBERED: RefCell<Vec<u64>> = RefCell::default();
}

/// The number of no node.
pub(crate) const NOBODY: u32 = 0;

/// Nothing to be done: boxes are made one by one.
pub fn reserve() -> std::io::Result<()> {
    Ok(())
}

/// A node that nobody else knows.
pub(crate) fn take<N: Pooled>() -> NonNull<N> {
    let free = FREE.with_borrow_mut(|free| {
        let last = free.iter().rposition(|node| node.is::<N>())?;
        free.remove(last).downcast::<N>().ok()
    });
    let node = free.unwrap_or_else(|| Box::new(N::vacant()));
    Pooled::pooled(&*node).store(false, Relaxed);
    NonNull::from(Box::leak(node))
}

/// Puts a node back.
///
/// # Safety
/// The node came from [`take`], and nobody can reach it any more.
pub(crate) unsafe fn give_back<N: Pooled>(node: NonNull<N>) {
    // SAFETY: `take` leaked a box.
    let node = unsafe { Box::from_raw(node.as_ptr()) };
    Pooled::pooled(&*node).store(true, Relaxed);
    FREE.with_borrow_mut(|free| free.push(node));
}

/// The number of a node, by its address.
pub(crate) fn number_of(address: u64) -> u32 {
    NUMBERED.with_borrow_mut(|numbered| {
        let index = numbered.iter().rposition(|&known| known == address).unwrap_or_else(|| {
            numbered.push(address);
            numbered.len() - 1
        });
        index as u32 + 1
    })
}

/// The address of the node of this number; some address, if there is none.
pub(crate) fn address_of(number: u32) -> u64 {
    let known = |numbered: &mut Vec<u64>| numbered.get((number as usize).checked_sub(1)?).copied();
    NUMBERED.with_borrow_mut(known).unwrap_or(u64::MAX)
}

/// Forgets all free nodes: the atomics of one execution must not meet the next.
pub(crate) fn trim() {
    FREE.with_borrow_mut(Vec::clear);
}
