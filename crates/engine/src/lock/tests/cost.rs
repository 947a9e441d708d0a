//! What an uncontended lock costs. `cargo test --release -p foreshore --lib lock::tests::cost -- --ignored --nocapture`
//!
//! Asks whether a lock is taken and given back within 25 ns each when its bucket is in the cache.

use super::*;
use std::hint::black_box;
use std::time::Instant;

const NAMES: usize = 64;
/// Short runs, many of them: the best one was not disturbed by other work of the machine.
const ROUNDS: usize = 50;
const RUNS: usize = 5000;

/// Best of some runs, in nanoseconds per name.
fn per_name(mut work: impl FnMut(&[Name]), names: &[Name]) -> f64 {
    let run = |_| {
        let begun = Instant::now();
        for _ in 0..ROUNDS {
            work(black_box(names));
        }
        begun.elapsed().as_nanos() as f64 / (ROUNDS * names.len()) as f64
    };
    (0..RUNS).map(run).fold(f64::INFINITY, f64::min)
}

#[test]
#[ignore = "a benchmark: prints nanoseconds"]
fn uncontended() {
    let table = KeyTable::new(12, 8);
    let keys: Vec<[u8; 16]> = (0..NAMES as u128).map(u128::to_be_bytes).collect();
    let names: Vec<Name> = keys.iter().map(|key| table.name(TABLE, key)).collect();
    let all = |work: &dyn Fn(Name)| per_name(|names| names.iter().for_each(|&name| work(name)), &names);

    let hashed =
        per_name(|_| keys.iter().for_each(|key| _ = black_box(table.name(TABLE, black_box(key)))), &names);
    println!("name of a 16-byte key          {hashed:6.1} ns");
    let pair = all(&|name| {
        table.acquire(A, name, KeyMode::Exclusive, NONE, LONG).unwrap();
        table.release(A, name);
    });
    println!("acquire + release              {pair:6.1} ns");
    let transaction = per_name(
        |names| {
            names.iter().for_each(|&name| _ = table.acquire(A, name, KeyMode::Exclusive, NONE, LONG));
            names.iter().for_each(|&name| table.release(A, name));
        },
        &names,
    );
    println!("acquire 64, then release 64    {transaction:6.1} ns per lock");
    names.iter().for_each(|&name| _ = table.acquire(B, name, KeyMode::Shared, ALL, LONG));
    let again = all(&|name| _ = table.acquire(B, name, KeyMode::Shared, ALL, LONG));
    println!("acquire what is held           {again:6.1} ns");
    let second = all(&|name| {
        table.acquire(A, name, KeyMode::Shared, NONE, LONG).unwrap();
        table.release(A, name);
    });
    println!("a second reader, both ways     {second:6.1} ns");
    names.iter().for_each(|&name| _ = table.acquire(C, name, KeyMode::Shared, ALL, LONG));
    let third = all(&|name| {
        table.acquire(A, name, KeyMode::Shared, NONE, LONG).unwrap();
        table.release(A, name);
    });
    println!("a third reader, both ways      {third:6.1} ns");
    let gap = all(&|name| _ = black_box(gap_is_open(&table, A, name)));
    println!("look at a gap                  {gap:6.1} ns");
    let none = all(&|name| {
        table.images(name, TABLE, b"", |_| std::ops::ControlFlow::Break(()));
    });
    println!("no images                      {none:6.1} ns");
}
