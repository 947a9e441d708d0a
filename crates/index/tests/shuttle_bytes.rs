//! The B+-tree of byte strings under many schedules: the scenarios of every map, and batches.
//!
//! Run: `RUSTFLAGS="--cfg shuttle" cargo test -p foreshore-index --release --test shuttle_bytes`.
//! `INDEX_SHUTTLE_ITERATIONS` (default 2000) schedules per scenario and scheduler; a failure prints the schedule.
//! Nodes hold four keys, and a node given back is reused at once or caught when it is read (see the pool's model).
#![cfg(shuttle)]

mod named;
mod scenarios;

use foreshore_index::ByteMap;
use named::Ints;
use scenarios::{explore, ints, together};

type Names = ByteMap<4, 16>;

/// Prefixes of several lengths, some of which change when a node is packed again; equal heads; ends in heads and in tails; and without
/// the last zeros, so that keys are as short as the bounds before them.
fn name(key: u64) -> Vec<u8> {
    let tail = if key.is_multiple_of(4) { "/a tail" } else { "" };
    let digits = format!("{key:06}");
    format!("{:02}:{}{tail}", key / 40, digits.trim_end_matches('0')).into_bytes()
}

fn number(name: &[u8]) -> u64 {
    let digits = name[3..].split(|byte| *byte == b'/').next().unwrap();
    format!("{:0<6}", std::str::from_utf8(digits).unwrap()).parse().unwrap()
}

/// A group of descents meets splits and dying leaves; each of its keys is found.
#[test]
fn batch_of_lookups_and_updates() {
    explore(|| {
        let map = ints((1..=12).map(|k| k * 10));
        together(
            &map,
            vec![
                Box::new(|m| {
                    let names = [120, 20, 75, 70, 10, 80].map(name);
                    let keys = names.each_ref().map(Vec::as_slice);
                    let mut values = [None; 6];
                    m.0.multi_get(&keys, &mut values);
                    assert_eq!(values, [Some(120), Some(20), None, Some(70), Some(10), Some(80)]);
                }),
                Box::new(|m| [71, 72, 73, 74].into_iter().for_each(|k| _ = m.insert(k, k))),
                Box::new(|m| [30, 40, 50, 60].into_iter().for_each(|k| _ = m.remove(k))),
            ],
        );
    });
}
