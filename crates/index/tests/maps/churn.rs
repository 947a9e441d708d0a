//! Ten million operations on each structure, under which the process must not grow: what is unlinked gets used again.
//!
//! Alone in its process, since it looks at that process's memory, and long: `cargo xtask asan` runs it under
//! AddressSanitizer. `INDEX_STRESS_OPS` is the operations of each of four threads in each of ten rounds.

use crate::common::U64Map;
use crate::stress::own_keys_answer_as_expected;
use foreshore_index::{
    Coupled, CsbByteMap, CsbMap, IntMap, O2ByteMap, O2Map, OptimisticO2ByteMap, OptimisticO2Map,
};

const ROUNDS: usize = 10;

/// What a structure may keep from round to round: nodes in the threads' free lists, and what the allocator rounds up.
const SLACK_BYTES: u64 = 32 << 20;

/// Memory of this process that is in use, in bytes.
fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
    let pages =
        pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number of pages");
    pages * 4096
}

fn does_not_grow<M: U64Map>() {
    let mut after_two = 0;
    for round in 1..=ROUNDS {
        own_keys_answer_as_expected(&M::load([].into_iter(), 1.0));
        if round == 2 {
            after_two = resident_bytes();
        }
    }
    let grown = resident_bytes().saturating_sub(after_two);
    let map = std::any::type_name::<M>();
    println!("{map}: {grown} bytes more after {ROUNDS} rounds than after 2");
    assert!(grown < SLACK_BYTES, "{map} has grown by {grown} bytes");
}

#[test]
#[ignore = "long, and alone in its process: cargo xtask asan"]
fn no_structure_grows() {
    does_not_grow::<IntMap<u64, 4>>();
    does_not_grow::<CsbMap<u64, 4>>();
    does_not_grow::<O2Map<u64, 4>>();
    does_not_grow::<OptimisticO2Map<u64, 4>>();
    does_not_grow::<CsbByteMap<4, 2>>();
    does_not_grow::<O2ByteMap<4, Coupled, 2>>();
    does_not_grow::<OptimisticO2ByteMap<4, 2>>();
}
