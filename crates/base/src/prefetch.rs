//! Asking for cache lines before they are read or written, so that their misses overlap.
//!
//! Why: fetching all lines of a node of 1 KiB before reading its version halves the latency of a lookup (measured).

/// Asks for the first `bytes` of the object at `at`, which need not exist.
#[inline(always)]
pub fn prefetch_lines<T>(at: *const T, bytes: usize) {
    for_lines(at, bytes, prefetch);
}

/// The same for who reads them a little later, after others: to the second cache, which can wait for more lines at a time than the
/// first one.
#[inline(always)]
pub fn prefetch_lines_far<T>(at: *const T, bytes: usize) {
    for_lines(at, bytes, prefetch_far);
}

/// The same for who is going to write them: other cores lose their copies now, not when the first store wants to leave this one.
#[inline(always)]
pub fn prefetch_lines_to_write<T>(at: *const T, bytes: usize) {
    for_lines(at, bytes, prefetch_to_write);
}

#[inline(always)]
fn for_lines<T>(at: *const T, bytes: usize, ask: impl Fn(*const u8)) {
    // By hand: where `bytes` is no constant, `step_by` costs more than the rest.
    let mut offset = 0;
    while offset < bytes {
        ask(at.cast::<u8>().wrapping_add(offset));
        offset += 64;
    }
}

#[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
#[inline(always)]
fn prefetch(line: *const u8) {
    // SAFETY: a prefetch is a hint: it may name any address and never faults.
    unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line.cast()) }
}

#[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
#[inline(always)]
fn prefetch_far(line: *const u8) {
    // SAFETY: a prefetch is a hint: it may name any address and never faults.
    unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(line.cast()) }
}

#[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
#[inline(always)]
fn prefetch_to_write(line: *const u8) {
    // By hand: the intrinsic's hint for writers is one for readers unless the processor is named at compile time.
    // SAFETY: a prefetch is a hint: it may name any address, never faults, and touches no register. Processors without the
    // instruction do nothing.
    unsafe {
        std::arch::asm!("prefetchw [{line}]", line = in(reg) line, options(nostack, preserves_flags, readonly))
    }
}

#[cfg(all(target_arch = "aarch64", not(any(loom, shuttle, miri))))]
#[inline(always)]
fn prefetch_to_write(line: *const u8) {
    // SAFETY: a prefetch is a hint: it may name any address, never faults, and touches no register.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{line}]", line = in(reg) line, options(nostack, preserves_flags, readonly))
    }
}

#[cfg(all(target_arch = "aarch64", not(any(loom, shuttle, miri))))]
#[inline(always)]
fn prefetch(line: *const u8) {
    // SAFETY: a prefetch is a hint: it may name any address, never faults, and touches no register.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{line}]", line = in(reg) line, options(nostack, preserves_flags, readonly))
    }
}

#[cfg(all(target_arch = "aarch64", not(any(loom, shuttle, miri))))]
#[inline(always)]
fn prefetch_far(line: *const u8) {
    // SAFETY: a prefetch is a hint: it may name any address, never faults, and touches no register.
    unsafe {
        std::arch::asm!("prfm pldl2keep, [{line}]", line = in(reg) line, options(nostack, preserves_flags, readonly))
    }
}

#[cfg(any(loom, shuttle, miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
#[inline(always)]
fn prefetch_far(_line: *const u8) {}

#[cfg(any(loom, shuttle, miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
#[inline(always)]
fn prefetch(_line: *const u8) {}

#[cfg(any(loom, shuttle, miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
#[inline(always)]
fn prefetch_to_write(_line: *const u8) {}
