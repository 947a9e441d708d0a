//! For tests of who waits for what.

use crate::{ByteTable, Database};
use std::thread;
use std::time::{Duration, Instant};

/// Long enough for a thread to come to where it waits. On a machine that is slower nothing is shown.
pub const A_WHILE: Duration = Duration::from_millis(50);
/// Longer than anything takes that waits for nothing.
const LONG: Duration = Duration::from_secs(5);

/// Does this come true before long?
pub fn comes_true(is_so: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !is_so() && begun.elapsed() < LONG {
        thread::yield_now();
    }
    is_so()
}

/// A table with these keys, each in a leaf of its own.
pub fn with_leaves<const N: usize>(db: &Database, keys: [&[u8; 1]; N]) -> ByteTable {
    let table = db.byte_table("t").unwrap();
    keys.iter().for_each(|key| table.put(*key, *key).unwrap());
    keys.windows(2).for_each(|pair| table.tree.part(pair[0], pair[1]).unwrap());
    table
}
