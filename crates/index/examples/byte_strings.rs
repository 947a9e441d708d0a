//! Lookups of byte strings beside the standard library's map, by turns in one process:
//! `cargo run --release -p foreshore-index --example byte_strings -- [KEYS] [ROUNDS] [KIND]`.
//!
//! Question: how many times as fast as `BTreeMap<Vec<u8>, u64>`, on one thread, are the tree and the tries on keys of 11 to 60 bytes,
//! inserted in random order?
//! Each turn looks up other random keys, drawn before its clock starts; ratios are medians over pairs of turns side by side.

use foreshore_base::random::scramble;
use foreshore_index::{ByteMap, CsbByteMap, OptimisticO2ByteMap};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Lookups of a turn.
const LOOKUPS: usize = 1 << 18;
/// Lookups of a batch.
const BATCH: usize = 64;

/// A name, and the key of each number.
type Kind = (&'static str, fn(u64) -> Vec<u8>);
type Lookups<'m> = Box<dyn Fn(&[Vec<u8>]) -> u64 + 'm>;

fn main() {
    let mut args = std::env::args().skip(1);
    let mut number = |usual| args.next().map_or(usual, |arg| arg.parse().expect("a number"));
    let (n, rounds) = (number(2_000_000), number(9) as usize);
    let only = args.next();
    let kinds: [Kind; 3] = [("flights", flight), ("orders", order), ("urls", url)];
    for (kind, key) in kinds.into_iter().filter(|(kind, _)| only.as_ref().is_none_or(|only| only == kind)) {
        compare(kind, key, n, rounds);
    }
}

/// An airline, a number, a day and a leg: 11 to 20 bytes.
fn flight(number: u64) -> Vec<u8> {
    let random = scramble(number);
    let airline = ["AA", "AS", "B6", "DL", "F9", "HA", "NK", "OO", "UA", "WN"][(random % 10) as usize];
    format!("{airline}{}-{:05}-{number}", (random >> 8) % 9000, (random >> 32) % 20_000).into_bytes()
}

/// A table's name and 16 hexadecimal digits: 23 bytes.
fn order(number: u64) -> Vec<u8> {
    format!("orders/{:016x}", scramble(number)).into_bytes()
}

/// A few sites, paths of words and a number: 43 to 60 bytes.
fn url(number: u64) -> Vec<u8> {
    let random = scramble(number);
    let word = |shift: u64| {
        ["news", "sports", "travel", "index", "article", "images", "weather", "archive"]
            [(random >> shift & 7) as usize]
    };
    let site = random >> 16 & 0xFF;
    format!("https://www.site{site}.com/{}/{}/{}/{number}.html", word(0), word(3), word(6)).into_bytes()
}

fn compare(kind: &str, key: fn(u64) -> Vec<u8>, n: u64, rounds: usize) {
    let (mut std, tree) = (BTreeMap::new(), <ByteMap>::new());
    let (csb, o2) = (<CsbByteMap>::new(), <OptimisticO2ByteMap>::new());
    let insert = |name, insert: &mut dyn FnMut(Vec<u8>, u64)| {
        let mut spent = Duration::ZERO;
        for first in (0..n).step_by(LOOKUPS) {
            let entries: Vec<_> = (first..n.min(first + LOOKUPS as u64)).map(|i| (key(i), i)).collect();
            let start = Instant::now();
            entries.into_iter().for_each(|(key, value)| insert(key, value));
            spent += start.elapsed();
        }
        println!("{kind} insert {name} {:.0} ns", spent.as_nanos() as f64 / n as f64);
    };
    insert("BTreeMap", &mut |key, value| _ = std.insert(key, value));
    insert("ByteMap", &mut |key, value| _ = tree.insert(&key, value));
    insert("CsbByteMap", &mut |key, value| _ = csb.insert(&key, value));
    insert("OptimisticO2ByteMap", &mut |key, value| _ = o2.insert(&key, value));
    println!("{kind} memory ByteMap {:.1} bytes a key", tree.bytes() as f64 / n as f64);
    let (pinned, csb_pinned) = (tree.pin(), csb.pin());
    let structures: [(&str, Lookups); 7] = [
        ("BTreeMap", Box::new(|keys| keys.iter().filter_map(|key| std.get(key)).sum())),
        ("ByteMap", Box::new(|keys| keys.iter().filter_map(|key| tree.get(key)).sum())),
        ("ByteMap, pinned once", Box::new(|keys| keys.iter().filter_map(|key| pinned.get(key)).sum())),
        (
            "ByteMap, batches of 64",
            Box::new(|keys| {
                let batches = keys.chunks(BATCH).map(|keys| {
                    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                    let mut values = [None; BATCH];
                    tree.multi_get(&keys, &mut values[..keys.len()]);
                    values.into_iter().flatten().sum::<u64>()
                });
                batches.sum()
            }),
        ),
        ("CsbByteMap", Box::new(|keys| keys.iter().filter_map(|key| csb.get(key)).sum())),
        ("CsbByteMap, pinned once", Box::new(|keys| keys.iter().filter_map(|key| csb_pinned.get(key)).sum())),
        ("OptimisticO2ByteMap", Box::new(|keys| keys.iter().filter_map(|key| o2.get(key)).sum())),
    ];
    let mut turns = vec![Vec::new(); structures.len()];
    for round in 0..rounds {
        let wanted: Vec<u64> =
            (0..LOOKUPS).map(|i| scramble(1 << 40 | (round * LOOKUPS + i) as u64) % n).collect();
        let keys: Vec<_> = wanted.iter().map(|number| key(*number)).collect();
        let expected: u64 = wanted.iter().sum();
        for ((_, lookups), turns) in structures.iter().zip(&mut turns) {
            let start = Instant::now();
            assert_eq!(black_box(lookups(black_box(&keys))), expected, "wrong values");
            turns.push(start.elapsed().as_nanos() as f64 / LOOKUPS as f64);
        }
    }
    for ((name, _), own) in structures.iter().zip(&turns) {
        let ratios = own.iter().zip(&turns[0]).map(|(own, std)| std / own).collect();
        println!("{kind} lookup {name}: {:.0} ns, {:.2} times", median(own.clone()), median(ratios));
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
