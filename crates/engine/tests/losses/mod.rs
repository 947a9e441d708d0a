//! What a disk may lose of a database with leaves of 4096 bytes, and the salvage of what is left.
#![allow(dead_code)] // each test file uses its part

use crate::common::tiny;
use foreshore::{Database, Result};
use foreshore_io::{SimDisk, sim::Crash};
use std::sync::Arc;

const LEAF: usize = 4096;

fn is_leaf(image: &[u8]) -> bool {
    image.starts_with(b"FL")
}

fn table_of(leaf: &[u8]) -> u32 {
    u32::from_le_bytes(leaf[32..36].try_into().unwrap())
}

/// Is its low fence empty?
fn is_leftmost(leaf: &[u8]) -> bool {
    leaf[46..48] == [0; 2]
}

/// Overwrites all images of leaves that the predicate finds: it is given the table's id, and whether the leaf is leftmost.
pub fn lose_leaves(disk: &SimDisk, is_lost: impl Fn(u32, bool) -> bool) {
    disk.corrupt("leaves.db", |bytes| {
        let leaves = bytes.chunks_mut(LEAF).filter(|leaf| is_leaf(leaf));
        leaves.filter(|leaf| is_lost(table_of(leaf), is_leftmost(leaf))).for_each(|leaf| leaf.fill(0));
    });
}

/// Overwrites the newest image among those that the predicate finds.
pub fn lose_newest(disk: &SimDisk, is_one: impl Fn(u32, bool) -> bool) {
    disk.corrupt("leaves.db", |bytes| {
        let found =
            bytes.chunks_mut(LEAF).filter(|leaf| is_leaf(leaf) && is_one(table_of(leaf), is_leftmost(leaf)));
        let lsn = |leaf: &&mut [u8]| u64::from_le_bytes(leaf[16..24].try_into().unwrap());
        found.max_by_key(lsn).unwrap().fill(0);
    });
}

/// Overwrites the directory; its name.
pub fn lose_directory(disk: &SimDisk) -> String {
    let directory = disk.names().into_iter().find(|name| name.starts_with("directory-")).unwrap();
    disk.corrupt(&directory, |bytes| bytes.fill(1));
    directory
}

/// Damages the directory's last batch (`docs/file_format.md`): the file seems to end before it.
pub fn lose_last_batch(disk: &SimDisk) {
    const HEAD_BYTES: usize = 16;
    const BATCH_HEADER_BYTES: usize = 24;
    let directory = disk.names().into_iter().find(|name| name.starts_with("directory-")).unwrap();
    disk.corrupt(&directory, |bytes| {
        let (mark, mut at, mut last) = (bytes[4..8].to_vec(), HEAD_BYTES, 0);
        while bytes[at..at + 4] == mark {
            let payload = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
            (last, at) = (at, at + BATCH_HEADER_BYTES + payload.next_multiple_of(8));
        }
        bytes[last] ^= 1;
    });
}

/// Opens what is left, as the last resort.
pub fn salvage(left: &SimDisk) -> Result<Database> {
    tiny().rebuild(true).open_on(Arc::new(left.clone()))
}

/// Shows `verify` what a salvage makes of what is left, and what is opened after one that was cut short, wherever that was. It is given
/// the database, its disk, and `what` that is.
pub fn salvage_cut_short(left: &SimDisk, what: &str, verify: impl Fn(Database, &SimDisk, &str)) {
    let copy = |crash_at| {
        let disk = left.after_crash(Crash::PowerLoss, 1);
        disk.crash_at(crash_at);
        disk
    };
    let whole = copy(u64::MAX);
    let db = salvage(&whole).unwrap_or_else(|e| panic!("{what}: {e}"));
    let events = whole.events();
    verify(db, &whole, what);
    for event in 0..events {
        for crash in [Crash::ProcessKill, Crash::PowerLoss] {
            let what = format!("{what}, {crash:?} at event {event}");
            let disk = copy(event);
            drop(salvage(&disk));
            let disk = disk.after_crash(crash, event);
            let db = tiny().open_on(Arc::new(disk.clone())).or_else(|_| salvage(&disk));
            verify(db.unwrap_or_else(|e| panic!("{what}: {e}")), &disk, &what);
        }
    }
}
