//! What operations cost: `cargo test --release -p foreshore leaf_costs -- --ignored --nocapture`.

use super::*;
use std::hint::black_box;
use std::time::Instant;

const PAGE_BYTES: usize = 8192;
const ROUNDS: u64 = 2_000_000;

/// Prints nanoseconds per operation on 8 KiB leaves of 200 u32 keys with 8-byte values.
#[test]
#[ignore = "a measurement, not a test"]
fn leaf_costs() {
    let words = only_leaf(PAGE_BYTES);
    let keys: Vec<[u8; 4]> = (0..200u32).map(|n| n.wrapping_mul(0x9E37_79B1).to_be_bytes()).collect();
    for key in &keys {
        upsert(page(&words), key, b"8 bytes.", 1).unwrap();
    }
    gets(page(&words), &keys);
    puts(page(&words), &keys);
    rows(page(&words));
    loads();
    splits(page(&words));
}

fn print(what: &str, operations: u64, since: Instant) {
    println!("{what:28} {:8.1} ns", since.elapsed().as_nanos() as f64 / operations as f64);
}

fn gets(page: Page<'_>, keys: &[[u8; 4]]) {
    let mut random = Random(1);
    let order: Vec<usize> = (0..4096).map(|_| random.pick(keys.len())).collect();
    let (mut out, begin) = (Vec::new(), Instant::now());
    for n in 0..ROUNDS {
        let key = &keys[order[n as usize % order.len()]];
        let read = page.latch().optimistic();
        assert_eq!(route(page, TABLE, FIRST, key), Ok(Route::Here));
        black_box(get(page, key, &mut out)).unwrap();
        read.validate().unwrap();
    }
    print("route + get + validate", ROUNDS, begin);
    let begin = Instant::now();
    let mut key = keys[0];
    for _ in 0..ROUNDS {
        // The next key depends on this lookup: latency, not throughput.
        let version = lookup(page, &key).unwrap().map_or(1, |cell| cell.version) as usize;
        key = keys[order[(usize::from(key[2]) * 16 + version) % order.len()]];
    }
    black_box(key);
    print("lookup, dependent", ROUNDS, begin);
}

fn puts(page: Page<'_>, keys: &[[u8; 4]]) {
    let begin = Instant::now();
    for n in 0..ROUNDS {
        let key = &keys[n as usize * 7 % keys.len()];
        let _latch = page.latch().exclusive();
        black_box(upsert(page, key, b"8 Bytes.", n)).unwrap();
    }
    print("upsert, same length", ROUNDS, begin);
    let begin = Instant::now();
    for n in 0..ROUNDS / 2 {
        let key = &keys[n as usize * 7 % keys.len()];
        let _latch = page.latch().exclusive();
        remove(page, key).unwrap();
        black_box(upsert(page, key, b"8 Bytes.", n)).unwrap();
    }
    print("remove + insert", ROUNDS / 2, begin);
}

fn rows(page: Page<'_>) {
    let (mut copy, mut total, mut count, begin) = (LeafCopy::new(PAGE_BYTES), 0, 0, Instant::now());
    for _ in 0..ROUNDS / 200 {
        copy.take(page);
        copy.interpret().unwrap();
        for index in 0..copy.len() {
            let row = copy.row(index).unwrap();
            total += row.key.len() + row.value.len() + row.version as usize;
            count += 1;
        }
    }
    black_box(total);
    print("row, copied and iterated", count, begin);
}

fn loads() {
    let begin = Instant::now();
    let (mut builder, mut pages) = (Builder::new(PAGE_BYTES, b"", None), 0);
    for n in 0..ROUNDS as u32 {
        let key = n.to_be_bytes();
        if !builder.load(&key, b"8 bytes.", 1, PAGE_BYTES * 9 / 10) {
            let full = std::mem::replace(&mut builder, Builder::new(PAGE_BYTES, &key, None));
            black_box(full.finish(FIRST, TABLE, PageId::NONE));
            builder.load(&key, b"8 bytes.", 1, PAGE_BYTES * 9 / 10);
            pages += 1;
        }
    }
    assert!(pages > 0);
    print("row, built into leaves", ROUNDS, begin);
}

fn splits(page: Page<'_>) {
    let words = RelaxedBytes::boxed(PAGE_BYTES);
    let scratch = Page(RelaxedBytes::new(&words));
    let (rounds, begin) = (2000, Instant::now());
    for _ in 0..rounds {
        black_box(Split::plan(page, PageId(2), &[9; 4], 8).unwrap());
    }
    print("split, planned", rounds, begin);
    let split = Split::plan(page, PageId(2), &[9; 4], 8).unwrap();
    let begin = Instant::now();
    for _ in 0..rounds {
        split.apply(page, scratch, Lsn(1));
    }
    print("split, applied", rounds, begin);
}
