//! What an opening takes beside what stays: a machine on which a database was written must be able to open it.

use foreshore::Database;
use foreshore_io::MemVfs;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, which counts.
struct Counting;

// SAFETY: it is the system's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(live, Relaxed);
        // SAFETY: handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: handed on.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn an_opening_takes_little_for_each_leaf() {
    const LEAVES: usize = 30_000;
    let disk = Arc::new(MemVfs::new());
    let open = || Database::builder().leaf_bytes(4096).cache_bytes(1 << 20).open_on(disk.clone()).unwrap();
    // More than stays open.
    let peak_of_opening = || {
        PEAK.store(LIVE.load(Relaxed), Relaxed);
        let db = open();
        (PEAK.load(Relaxed).saturating_sub(LIVE.load(Relaxed)), db)
    };
    open().close().unwrap();
    let (of_an_empty_one, db) = peak_of_opening();
    let rows = (0..4 * LEAVES as u32).map(|n| (n.to_be_bytes(), [7; 900]));
    db.byte_table("t").unwrap().bulk_load(rows).unwrap();
    let leaves = db.stats().pages as usize;
    assert!(leaves >= LEAVES);
    db.close().unwrap();
    let (peak, _db) = peak_of_opening();
    let bytes_a_leaf = peak.saturating_sub(of_an_empty_one) / leaves;
    println!("{bytes_a_leaf} bytes a leaf");
    assert!(bytes_a_leaf < 140, "{bytes_a_leaf} bytes a leaf");
}
