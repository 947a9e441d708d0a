//! Memory of long keys is given back while entries go, not some time after. Alone in its process, whose allocations it counts.
#![cfg(not(any(loom, shuttle, miri)))]

use foreshore_index::{ByteMap, CsbByteMap, O2ByteMap};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

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
    who_does_much_under_one_pin_keeps_it_no_longer();
    who_removes_what_he_sees_keeps_it_no_longer();
    threads_end_while_layers_wait();
}

/// However much is retired within one pin: when it is gone, others get that back with what they retire.
fn who_does_much_under_one_pin_keeps_it_no_longer() {
    let map = ByteMap::<64>::new();
    let keys: Vec<_> = (0..10).map(|i| format!("{i:03}{}", "x".repeat(3900)).into_bytes()).collect();
    let batch = || {
        let pinned = map.pin();
        for key in keys.iter().cycle().take(1000) {
            pinned.insert(key, 1);
            pinned.remove(key);
        }
    };
    keeps_hardly_any("a pin", batch);
}

fn who_removes_what_he_sees_keeps_it_no_longer() {
    let map = ByteMap::<64>::new();
    let sweep = || {
        let keys: Vec<_> = (0..1000).map(|i| format!("{i:04}{}", "x".repeat(1000)).into_bytes()).collect();
        keys.iter().for_each(|key| _ = map.insert(key, 1));
        (&map).into_iter().for_each(|(key, _)| _ = map.remove(&key));
    };
    keeps_hardly_any("a sweep", sweep);
}

/// Twenty times as much is retired as may be kept.
fn keeps_hardly_any(what: &str, batch: impl Fn()) {
    batch();
    let before = LIVE_BYTES.load(Relaxed);
    (0..100).for_each(|_| batch());
    let more = LIVE_BYTES.load(Relaxed).saturating_sub(before);
    assert!(more < 20 << 20, "{what} keeps {more} bytes more and more");
}

/// What has been retired meanwhile may be freed by a thread that ends. A layer pins as it goes; each on top of the one before, they would
/// not fit on its stack.
fn threads_end_while_layers_wait() {
    const LAYERS: u64 = 5000;
    static MAP: LazyLock<CsbByteMap<4, 1>> = LazyLock::new(CsbByteMap::new);
    let key = |i: u64, end| format!("{i:015}{end}");
    let other = O2ByteMap::<8>::new();
    other.insert(b"key", 1);
    for i in 0..LAYERS {
        MAP.insert(key(i, 'a').as_bytes(), i);
        MAP.insert(key(i, 'b').as_bytes(), i);
    }
    let iterator = other.iter();
    for i in 0..LAYERS {
        MAP.remove(key(i, 'a').as_bytes());
        MAP.remove(key(i, 'b').as_bytes());
    }
    drop(iterator);
    for pins in [1, 1, 1, 128] {
        thread::spawn(move || (0..pins).for_each(|_| assert_eq!(MAP.get(b"a"), None))).join().unwrap();
    }
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
