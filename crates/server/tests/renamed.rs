//! Tables that others rename: a client means the table of the name that it has selected, whatever that table was before.

mod common;

use common::{Null, Running, ok, options, text};
use foreshore::{Database, Durability, Error};
use foreshore_io::sim::{Fault, Repeat};
use foreshore_io::{MemVfs, SimDisk};
use foreshore_server::Options;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Who selects the old name while a rename waits for the device waits for that, too, and is not refused.
#[test]
fn the_old_name_is_selected_while_a_rename_is_under_way() {
    let disk = MemVfs::new();
    let db = Database::builder().durability(Durability::Sync).open_on(Arc::new(disk.clone())).unwrap();
    let options =
        Options { threads: 1, durability: Durability::Sync, lock_timeout: Duration::ZERO, ..options() };
    let server = Running::over(db.clone(), options);
    let mut c = server.client();
    assert_eq!((c.call("SET k old"), c.call("SELECT 1")), (ok(), ok()));
    let before = db.byte_table("db0").unwrap();
    disk.set_sync_time(Duration::from_millis(500));
    thread::scope(|scope| {
        let renamed = scope.spawn(|| db.rename_table("db0", "archive").unwrap());
        common::until("it has its new name", || before.name() == "archive" || renamed.is_finished());
        assert_eq!((c.call("SELECT 0"), c.call("GET k")), (ok(), Null));
        disk.set_sync_time(Duration::ZERO);
        assert!(renamed.join().unwrap());
    });
}

/// After one that has failed there is no other table of the name, and none can be made: reads go on.
#[test]
fn the_old_name_is_selected_after_a_rename_that_failed() {
    let disk = SimDisk::new(0);
    let db = Database::builder().durability(Durability::Sync).open_on(Arc::new(disk.clone())).unwrap();
    let server = Running::over(db, Options { durability: Durability::Relaxed, ..options() });
    let mut c = server.client();
    assert_eq!((c.call("SET k v"), c.call("SELECT 1")), (ok(), ok()));
    disk.fail_at(disk.events(), Fault::Eio, Repeat::Forever);
    let failed = server.db.rename_table("db0", "archive");
    assert!(matches!(failed, Err(Error::Poisoned { .. })), "{failed:?}");
    assert_eq!((c.call("SELECT 0"), c.call("GET k")), (ok(), text("v")));
}
