//! Memory of long keys is given back while entries go, not some time after. Alone in its process, whose allocations it counts.
#![cfg(not(any(loom, shuttle, miri)))]

use foreshore_index::{ByteMap, CsbByteMap, O2ByteMap};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

struct Counting;

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does all the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(layout.size(), Relaxed);
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller says.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn long_keys_are_given_back() {
    clear_gives_them_back();
    who_removed_a_few_of_megabytes_keeps_hardly_any();
    who_changes_values_of_long_keys_keeps_hardly_any();
}

fn clear_gives_them_back() {
    const KEYS: u64 = 20_000;
    macro_rules! test {
        ($map:ty) => {
            let map = <$map>::new();
            let before = LIVE_BYTES.load(Relaxed);
            let key = |i| format!("{i:08}{}", "x".repeat(192)); // what follows the first eight bytes lies in bags, where there are any
            (0..KEYS).for_each(|i| _ = map.insert(key(i).as_bytes(), i));
            let full = LIVE_BYTES.load(Relaxed) - before;
            map.clear();
            let left = LIVE_BYTES.load(Relaxed).saturating_sub(before);
            assert_eq!((map.len(), map.check()), (0, Ok(())));
            assert!(left < full / 10, "{} keeps {left} of {full} bytes", stringify!($map));
        };
    }
    test!(ByteMap);
    test!(CsbByteMap);
    test!(O2ByteMap);
}

/// Also if it rests from then on.
fn who_removed_a_few_of_megabytes_keeps_hardly_any() {
    const KEYS: usize = 50;
    let map: ByteMap = ByteMap::new();
    let key = |i: usize| i.to_be_bytes().repeat(1 << 17);
    let before = LIVE_BYTES.load(Relaxed);
    (0..KEYS).for_each(|i| _ = map.insert(&key(i), 0));
    let full = LIVE_BYTES.load(Relaxed) - before;
    (0..KEYS).for_each(|i| _ = map.remove(&key(i)));
    let left = LIVE_BYTES.load(Relaxed).saturating_sub(before);
    assert!(left < full / 5, "{left} of {full} bytes");
}

/// Where what keys go on with lies in bags, a bag is replaced with each value.
fn who_changes_values_of_long_keys_keeps_hardly_any() {
    macro_rules! test {
        ($map:ty) => {
            let map = <$map>::new();
            let key = |i: u64| format!("fifteen bytes!!{}{i:03}", "x".repeat(980));
            (0..128).for_each(|i| _ = map.insert(key(i).as_bytes(), 0));
            let before = LIVE_BYTES.load(Relaxed);
            (0..300).for_each(|value| _ = map.insert(key(0).as_bytes(), value));
            let more = LIVE_BYTES.load(Relaxed).saturating_sub(before);
            assert!(more < 2 << 20, "{} keeps {more} bytes", stringify!($map));
        };
    }
    test!(ByteMap);
    test!(CsbByteMap);
    test!(O2ByteMap);
}
