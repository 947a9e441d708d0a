//! What an opening takes beside what stays: a machine on which a database was written must be able to open it.

use foreshore::{Database, Durability};
use foreshore_io::MemVfs;
use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

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

/// What is allocated is counted for all threads together, so the tests take turns.
static TURN: Mutex<()> = Mutex::new(());

fn open(disk: &Arc<MemVfs>) -> Database {
    Database::builder().leaf_bytes(4096).cache_bytes(1 << 20).open_on(disk.clone()).unwrap()
}

/// What an opening takes at most, beside what stays.
fn peak_of_opening(disk: &Arc<MemVfs>) -> (usize, Database) {
    PEAK.store(LIVE.load(Relaxed), Relaxed);
    let db = open(disk);
    (PEAK.load(Relaxed).saturating_sub(LIVE.load(Relaxed)), db)
}

#[test]
fn an_opening_takes_little_for_each_leaf() {
    const LEAVES: usize = 30_000;
    let _turn = TURN.lock();
    let disk = Arc::new(MemVfs::new());
    open(&disk).close().unwrap();
    let (of_an_empty_one, db) = peak_of_opening(&disk);
    let rows = (0..4 * LEAVES as u32).map(|n| (n.to_be_bytes(), [7; 900]));
    db.byte_table("t").unwrap().bulk_load(rows).unwrap();
    let leaves = db.stats().pages as usize;
    assert!(leaves >= LEAVES);
    db.close().unwrap();
    let (peak, _db) = peak_of_opening(&disk);
    let bytes_a_leaf = peak.saturating_sub(of_an_empty_one) / leaves;
    println!("{bytes_a_leaf} bytes a leaf");
    assert!(bytes_a_leaf < 140, "{bytes_a_leaf} bytes a leaf");
}

/// One that has prepared gets its locks and images back, of which few are in memory.
#[test]
fn a_large_prepared_transaction_takes_little() {
    const ROWS: u32 = 20_000;
    let _turn = TURN.lock();
    let disk = Arc::new(MemVfs::new());
    let rows = |value: u8| (0..ROWS).map(move |n| (n.to_be_bytes(), [value; 1000]));
    let db = open(&disk);
    let table = db.byte_table("t").unwrap();
    table.bulk_load(rows(1)).unwrap();
    let tx = db.begin().unwrap();
    rows(2).for_each(|(key, value)| tx.bytes(&table).put(&key, &value).unwrap());
    tx.prepare("gid").unwrap();
    drop(table);
    db.close().unwrap();
    let (peak, db) = peak_of_opening(&disk);
    println!("{} KiB", peak >> 10);
    let of_all_rows = ROWS as usize * 1000;
    assert!(peak < of_all_rows / 2, "{peak} bytes");
    db.rollback_prepared("gid").unwrap();
    let table = db.byte_table("t").unwrap();
    assert!(table.range(..).map(Result::unwrap).all(|(_, value)| value == [1; 1000]));
}

/// Removed rows take no memory either until it is decided: they are noted on disk.
#[test]
fn a_prepared_removal_takes_little() {
    let stays = |rows: u32| {
        let place = tempfile::tempdir().unwrap();
        let db = open_at(place.path());
        let table = db.byte_table("t").unwrap();
        table.bulk_load((0..rows).map(|n| (long_key(n), b"v"))).unwrap();
        let tx = db.begin().unwrap();
        (0..rows).for_each(|n| assert!(tx.bytes(&table).remove(&long_key(n)).unwrap()));
        tx.prepare("gid").unwrap();
        drop(table);
        db.close().unwrap();
        let before = LIVE.load(Relaxed);
        let db = open_at(place.path());
        let stays = LIVE.load(Relaxed).saturating_sub(before);
        db.commit_prepared("gid").unwrap();
        assert!(db.byte_table("t").unwrap().is_empty().unwrap());
        stays
    };
    ensure_rows_take_little(stays);
}

/// Rows that an opening takes back are removed one by one, not gathered.
#[test]
fn rows_that_are_taken_back_take_little() {
    let peak = |rows: u32| {
        let [place, killed] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let db = open_at(place.path());
        let table = db.byte_table("t").unwrap();
        let tx = db.begin().unwrap();
        (0..rows).for_each(|n| tx.bytes(&table).put(&long_key(n), b"v").unwrap());
        for file in std::fs::read_dir(place.path()).unwrap().map(Result::unwrap) {
            std::fs::copy(file.path(), killed.path().join(file.file_name())).unwrap();
        }
        drop((tx, table, db));
        let before = LIVE.load(Relaxed);
        PEAK.store(before, Relaxed);
        let db = open_at(killed.path());
        let peak = PEAK.load(Relaxed) - before;
        assert!(db.byte_table("t").unwrap().is_empty().unwrap());
        peak
    };
    ensure_rows_take_little(peak);
}

fn open_at(place: &Path) -> Database {
    let small = Database::builder().leaf_bytes(4096).cache_bytes(2 << 20).segment_bytes(4 << 20);
    small.ring_bytes(1 << 20).durability(Durability::Relaxed).open(place).unwrap()
}

fn long_key(n: u32) -> [u8; 100] {
    let mut key = [7; 100];
    key[..4].copy_from_slice(&n.to_be_bytes());
    key
}

/// Four times as many rows take hardly more than so many: less than 70 bytes each for the others.
fn ensure_rows_take_little(bytes: impl Fn(u32) -> usize) {
    const ROWS: u32 = 40_000;
    let _turn = TURN.lock();
    let (few, many) = (bytes(ROWS), bytes(4 * ROWS));
    println!("{} KiB, {} KiB", few >> 10, many >> 10);
    assert!(many < few + 3 * 70 * ROWS as usize, "{few} and {many} bytes");
}
