//! Counting within a cache line, or half of one, by vector compares, where the processor has them.
//!
//! Why: compilers make no vectors of atomic loads, and a line takes some forty instructions without. Batches of lookups,
//! which are bound by instructions as much as by memory, gain a third; and a processor looks ahead over so many instructions
//! that it begins the next lookup while it waits for a line of this one.

#[cfg(not(all(target_arch = "x86_64", not(any(loom, shuttle, miri)))))]
mod absent;
#[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
mod avx2;
#[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
mod avx512;
#[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
mod x86;

#[cfg(not(all(target_arch = "x86_64", not(any(loom, shuttle, miri)))))]
pub(crate) use absent::*;
#[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
pub(crate) use x86::*;
