//! Optimistic readers against a writer in the same page.

use super::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Every version of a key's value repeats one byte, and says its own length: torn values would show.
fn value(version: u64) -> Vec<u8> {
    vec![version as u8; (version % 97) as usize]
}

/// A second of puts, removals, splits and absorptions in two pages, while readers look on. Every validated read is of
/// one version; nothing panics (R1 in `read.rs`).
#[test]
fn readers_see_one_version_or_begin_again() {
    let seed = 42;
    let left = only_leaf(4096);
    let right = RelaxedBytes::boxed(4096);
    let stop = AtomicBool::new(false);
    let reads = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|reader| {
                scope.spawn({
                    let (left, right, stop) = (&left, &right, &stop);
                    move || read(left, right, stop, reader)
                })
            })
            .collect();
        let written = std::panic::catch_unwind(|| write(&left, &right, seed));
        stop.store(true, Ordering::Relaxed);
        written.unwrap();
        readers.into_iter().map(|reader| reader.join().unwrap()).sum::<u64>()
    });
    assert!(reads > 100, "only {reads} validated reads (seed {seed})");
}

fn key(n: usize) -> Vec<u8> {
    format!("key/{:0width$}", n, width = 1 + n % 9).into_bytes()
}

fn write(left: &Words, right: &Words, seed: u64) {
    let mut random = Random(seed);
    let end = Instant::now() + Duration::from_secs(1);
    let mut version = 0;
    while Instant::now() < end {
        version += 1;
        let key = key(random.pick(60));
        let _left = page(left).latch().exclusive();
        let _right = page(right).latch().exclusive();
        let beside = route(page(left), TABLE, FIRST, &key) != Ok(Route::Here);
        let target = page(if beside { right } else { left });
        if random.pick(4) == 0 {
            remove(target, &key).unwrap();
        } else if !upsert(target, &key, &value(version), version).unwrap() {
            if !page(left).right().is_none() {
                continue; // there are only two pages
            }
            let split = Split::plan(page(left), PageId(2), &key, 100).unwrap();
            split.apply(page(left), page(right), Lsn(version));
        }
        if random.pick(40) == 0
            && !page(left).right().is_none()
            && let Some(absorb) = Absorb::plan(page(left), page(right)).unwrap()
        {
            absorb.apply(page(left), page(right), Lsn(version));
        }
    }
}

/// Gets and copies until told to stop; how many were validated.
fn read(left: &Words, right: &Words, stop: &AtomicBool, reader: u64) -> u64 {
    let mut random = Random(reader);
    let (mut out, mut copy, mut validated) = (Vec::new(), LeafCopy::new(4096), 0);
    while !stop.load(Ordering::Relaxed) {
        let (words, id) = if random.pick(2) == 0 { (left, FIRST) } else { (right, PageId(2)) };
        let page = page(words);
        let key = key(random.pick(60));
        // Reading goes on under the writer's hands, too, to see torn pages; only a quiet latch validates.
        let version = page.latch().try_optimistic();
        let found = route(page, TABLE, id, &key).and_then(|route| match route {
            Route::Here => get(page, &key, &mut out),
            _ => Ok(None),
        });
        copy.take(page);
        let Ok(version) = version else { continue };
        if version.validate().is_err() || page.id() != id {
            continue;
        }
        validated += 1;
        let found = found.expect("a validated read is well-formed");
        assert!(found.is_none_or(|version| out == value(version)), "{found:?}: {out:?}");
        copy.interpret().unwrap();
        copy.check().unwrap();
        if found.is_some() {
            let index = copy.lower_bound(&key).unwrap();
            let row = copy.row(index).unwrap();
            assert_eq!((row.key, row.value, Some(row.version)), (key.as_slice(), out.as_slice(), found));
        }
    }
    validated
}

/// Are lengths and fences of this image sound, and do all its cells lie in it? Then every reader gets through.
fn is_readable(image: &[u8]) -> bool {
    LeafCopy::from_image(image)
        .is_ok_and(|leaf| (0..leaf.len()).all(|index| leaf.cell_bytes(leaf.slot(index)).is_some()))
}

/// Readings of noise: errors or nonsense, no panic, no endless loop (R1 in `read.rs`).
#[test]
fn noise_is_read_without_panic() {
    for seed in 0..20_000 {
        let mut random = Random(seed);
        let words = if seed % 2 == 0 { RelaxedBytes::boxed(4096) } else { only_leaf(4096) };
        let bytes = RelaxedBytes::new(&words);
        for n in 0..20u8 {
            if seed % 2 == 1 {
                let _ = upsert(page(&words), &[b'k', n, 0, 0, n, 1], &[n; 20], 0);
            }
        }
        for _ in 0..1 + random.pick(12) {
            let word = if random.pick(2) == 0 { 4 + random.pick(3) } else { 1 + random.pick(40) };
            let mask = random.next() & random.next() & random.next();
            bytes.set_word(word, bytes.word(word) ^ mask);
        }
        let page = page(&words);
        let mut out = Vec::new();
        let mut image = vec![0; 4096];
        bytes.read(0, &mut image);
        let readable = is_readable(&image);
        for key in [b"".as_slice(), b"k\x05\0\0\x05\x01", b"k\x05\0\0\x05\x02", &[0xFF; 40]] {
            let routed = route(page, page.table(), page.id(), key);
            let found = get(page, key, &mut out);
            let _ = contains(page, key);
            let _ = lookup_near(page, key, Window::new(&(7..8)));
            if readable && routed.expect("a readable page has fences") == Route::Here {
                found.expect("no reader of a readable page begins again");
            }
        }
        for key in [b"".as_slice(), b"k\x05\0\0\x05\x01", &[0xFF; 40]] {
            let _ = upsert(page, key, b"some value", 1);
            let _ = remove(page, key);
        }
        if let Ok(mut copy) = LeafCopy::of(page) {
            for index in 0..copy.len() {
                let _ = copy.row(index);
            }
            let _ = copy.check();
        }
    }
}
