//! Tests of the lock table: its rules one by one, against a naive model, under storms of threads; its images; and its
//! buckets when they are crowded.

mod cost;
mod divided;
mod images;
mod model;
mod rules;
mod shown;
mod storm;

use super::*;
use foreshore_base::{Lsn, TableId};

const TABLE: TableId = TableId(7);
/// Longer than any test should wait.
const LONG: Duration = Duration::from_secs(20);
const A: Owner = Owner(0);
const B: Owner = Owner(1);
const C: Owner = Owner(2);
const D: Owner = Owner(3);
const NONE: Reach = Reach::NONE;
const ALL: Reach = Reach::ALL;

fn table(owners: usize) -> KeyTable {
    table_of(6, owners)
}

fn table_of(buckets_log2: u32, owners: usize) -> KeyTable {
    let table = KeyTable::new(buckets_log2, owners);
    for owner in 0..owners {
        let owner = Owner(owner as u16);
        table.reset(owner, Lsn(owner.0.into()), number(owner));
    }
    table
}

/// The number of the first transaction in a slot.
fn number(owner: Owner) -> u64 {
    1 + u64::from(owner.0)
}

/// The lowest point of a gap, which only those have locked who have all of it.
fn lowest(gap: Name) -> Point {
    Point { gap, at: ALL }
}

/// May the owner insert at the lowest point of the gap?
fn gap_is_open(table: &KeyTable, owner: Owner, name: Name) -> bool {
    table.look_at_gap(owner, lowest(name)) != Gap::Closed
}

/// Waits until `count` requests of the name wait.
fn until_waiting(table: &KeyTable, name: Name, count: usize) {
    while table.waiting_on(name) != count {
        std::thread::yield_now();
    }
}

/// Who was in the way of a request that was refused: that transaction's number.
fn holder(refused: Result<Granted, LockError>) -> Option<u64> {
    match refused {
        Err(LockError::Timeout { holder, .. }) => holder.map(|holder| holder.number),
        _ => panic!("{refused:?}"),
    }
}
