//! Snapshots: everything that was committed at one moment.

use crate::database::Db;
use crate::memory::{give, there};
use crate::status::{guard, guard_free};
use crate::table::Table;
use foreshore::Snapshot;
use std::ffi::c_int;
use std::mem::MaybeUninit;

/// Everything that was committed when it was taken, and nothing else. It takes no locks and waits for nobody; old versions of
/// rows stay in memory while it is open, those that a large transaction replaces on disk. Beyond "old_version_bytes" in memory
/// the oldest snapshot gives FS_SNAPSHOT_TOO_OLD.
pub struct SnapshotHandle {
    snapshot: Snapshot,
}

/// Takes a snapshot. Free it with `fs_snapshot_free`; it closes when its tables and cursors are freed too.
#[unsafe(no_mangle)]
pub extern "C" fn fs_snapshot_open(
    db: Option<&Db>,
    out: Option<&mut MaybeUninit<Option<Box<SnapshotHandle>>>>,
) -> c_int {
    guard(|| {
        let out = there(out, "out")?;
        let snapshot = there(db, "db")?.database.snapshot()?;
        give(out, SnapshotHandle { snapshot });
        Ok(())
    })
}

/// The table as it was. Free it with `fs_table_free`.
#[unsafe(no_mangle)]
pub extern "C" fn fs_snapshot_table(
    snapshot: Option<&SnapshotHandle>,
    table: Option<&Table>,
    out: Option<&mut MaybeUninit<Option<Box<Table>>>>,
) -> c_int {
    guard(|| {
        let out = there(out, "out")?;
        let handle = there(table, "table")?.handle.as_of(&there(snapshot, "snapshot")?.snapshot);
        give(out, Table { handle });
        Ok(())
    })
}

/// Waits until everything that the snapshot sees would survive a power failure.
#[unsafe(no_mangle)]
pub extern "C" fn fs_snapshot_wait_durable(snapshot: Option<&SnapshotHandle>) -> c_int {
    guard(|| Ok(there(snapshot, "snapshot")?.snapshot.wait_durable()?))
}

/// Frees the handle.
#[unsafe(no_mangle)]
pub extern "C" fn fs_snapshot_free(snapshot: Option<Box<SnapshotHandle>>) {
    guard_free(snapshot);
}
