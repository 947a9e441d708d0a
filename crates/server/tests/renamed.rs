//! Tables that others rename: a client means the table of the name that it has selected, whatever that table was before.

mod common;

use common::{Client, Int, List, Null, Running, list, ok, options, text};
use foreshore::{Database, Durability, Error, TableOptions, Types};
use foreshore_io::sim::{Fault, Repeat};
use foreshore_io::{MemVfs, SimDisk};
use foreshore_server::Options;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Puts `new`, with a row `k`, in the place of `db0`, which is called `old` from then on.
fn exchange(db: &Database) {
    db.byte_table("new").unwrap().put(b"k", b"new").unwrap();
    assert!(db.rename_table("db0", "old").unwrap() && db.rename_table("new", "db0").unwrap());
}

/// The value of `k`.
fn value(db: &Database, table: &str) -> Option<Vec<u8>> {
    db.existing_byte_table(table).expect("it is there").get(b"k").unwrap()
}

/// Whichever command comes first, it is about the table of the name, made anew if there is none; the other one stays as it was.
#[test]
fn all_commands_mean_the_same_table() {
    for first in ["DBSIZE", "KEYS *", "RANDOMKEY", "GET k", "EXISTS k", "SCAN 0", "SET k 1", "FLUSHDB"] {
        let server = Running::new();
        let mut c = server.client();
        assert_eq!(c.call("SET k old"), ok());
        assert!(server.db.rename_table("db0", "archive").unwrap());
        c.call(first);
        let expected = Int((first == "SET k 1").into());
        assert_eq!((c.call("DBSIZE"), c.call("EXISTS k")), (expected.clone(), expected), "{first}");
        assert_eq!(value(&server.db, "archive").as_deref(), Some(&b"old"[..]), "{first}");
    }
}

/// So FLUSHDB empties what its client has seen, and nothing else.
#[test]
fn flushdb_empties_what_is_read() {
    let server = Running::new();
    let mut c = server.client();
    assert_eq!(c.call("SET k old"), ok());
    exchange(&server.db);
    assert_eq!((c.call("GET k"), c.call("KEYS *")), (text("new"), list(["k"])));
    assert_eq!((c.call("FLUSHDB"), c.call("GET k")), (ok(), Null));
    assert_eq!((value(&server.db, "old"), value(&server.db, "db0")), (Some(b"old".to_vec()), None));
}

/// An emptied table remembers of which types its rows are, as before; a client that comes to another one takes that as it is.
#[test]
fn types_are_those_of_the_table() {
    let server = Running::new();
    let of = |value| Types::named("String", value);
    let make = |name, types| server.db.byte_table_with(name, TableOptions::new().types(types)).unwrap();
    let mut c = server.client();
    for (name, usage, flush) in [("ages", "KV.USE ages", "FLUSHDB"), ("db1", "SELECT 1", "FLUSHALL")] {
        make(name, of("u32"));
        assert_eq!((c.call(usage), c.call("SET k v"), c.call(flush)), (ok(), ok(), ok()));
        assert_eq!(c.call("GET k"), Null);
        assert_eq!(server.db.byte_table(name).unwrap().types(), Some(&of("u32")), "{flush}");
        assert!(server.db.rename_table(name, &format!("old {name}")).unwrap());
        make(name, of("String")).put(b"k", b"another").unwrap();
        assert_eq!(c.call("GET k"), text("another"));
    }
}

/// Also where many requests come at a time, which are executed together.
#[test]
fn pipelines_come_to_the_table_of_the_name() {
    for (before, request, expected) in [("SET k old", "SET k 1", ok()), ("GET k", "GET k", text("new"))] {
        let server = Running::new();
        let mut c = server.client();
        assert_eq!(c.call("SET k old"), ok());
        assert_ne!(c.call(before), Null); // the next ones of this kind are executed together
        exchange(&server.db);
        c.send(&[request; 3]);
        let replies = [(); 3].map(|()| c.reply());
        assert!(replies.iter().all(|reply| *reply == expected), "{request}: {replies:?}");
        assert_eq!(value(&server.db, "old").as_deref(), Some(&b"old"[..]), "{request}");
    }
}

/// Who has just come, and selected nothing, has database 0.
#[test]
fn new_clients_do_not_come_to_what_was_put_aside() {
    let server = Running::new();
    assert_eq!(server.client().call("SET k old"), ok());
    assert!(server.db.rename_table("db0", "archive").unwrap());
    let mut late = server.client();
    assert_eq!((late.call("PING"), server.db.tables().unwrap()), (text("PONG"), vec!["archive".to_owned()]));
    assert_eq!((late.call("GET k"), late.call("SET k new")), (Null, ok()));
    assert_eq!(value(&server.db, "archive").as_deref(), Some(&b"old"[..]));
    assert_eq!(value(&server.db, "db0").as_deref(), Some(&b"new"[..]));
}

/// What has been begun is about one table, from its beginning to its end.
#[test]
fn transactions_keep_their_table() {
    for (begin, end) in [("MULTI", "EXEC"), ("KV.BEGIN", "KV.COMMIT")] {
        let server = Running::new();
        let mut c = server.client();
        assert_eq!((c.call("SET k old"), c.call(begin)), (ok(), ok()));
        exchange(&server.db);
        for line in ["APPEND k er", "COPY k k DB 0 REPLACE", end] {
            let reply = c.call(line);
            assert!(!matches!(reply, common::Value::Error(_)), "{begin}, {line}: {reply:?}");
        }
        assert_eq!(value(&server.db, "old").as_deref(), Some(&b"older"[..]), "{begin}");
        assert_eq!(value(&server.db, "db0").as_deref(), Some(&b"older"[..]), "{begin}: COPY is of another");
        assert_eq!((c.call("SET k newer"), c.call("GET k")), (ok(), text("newer")));
        assert_eq!(value(&server.db, "old").as_deref(), Some(&b"older"[..]), "{begin}");
    }
}

/// What was watched in the table that had the name before does not hide a key of the one that has it now.
#[test]
fn watches_of_renamed_tables_are_broken() {
    let watch_again = |c: &mut Client| assert_eq!((c.call("SELECT 0"), c.call("WATCH k")), (ok(), ok()));
    let go_on = |c: &mut Client| assert_eq!(c.call("GET other"), Null);
    for then in [&watch_again as &dyn Fn(&mut Client), &go_on] {
        for is_put_back in [false, true] {
            let server = Running::new();
            let mut c = server.client();
            assert_eq!((c.call("SET k old"), c.call("WATCH k")), (ok(), ok()));
            exchange(&server.db);
            then(&mut c);
            server.db.byte_table("db0").unwrap().put(b"k", b"of others").unwrap();
            if is_put_back {
                for (from, to) in [("db0", "new"), ("old", "db0")] {
                    assert!(server.db.rename_table(from, to).unwrap());
                }
            }
            assert_eq!((c.call("MULTI"), c.call("SET k 1"), c.call("EXEC")), (ok(), text("QUEUED"), Null));
            assert_eq!((c.call("WATCH k"), c.call("MULTI"), c.call("EXEC")), (ok(), ok(), List(vec![])));
        }
    }
}

/// A table is not taken for a dropped one that had its name before.
#[test]
fn a_live_table_is_not_taken_for_a_dropped_one() {
    let server = Running::with(Options { lock_timeout: Duration::ZERO, ..options() });
    let mut c = server.client();
    for line in ["SELECT 1", "SELECT 0", "SET k v", "MULTI", "COPY k l DB 1"] {
        c.call(line);
    }
    assert!(server.db.drop_table("db1").unwrap() && server.db.rename_table("db0", "db1").unwrap());
    assert_eq!(c.call("EXEC"), List(vec![Int(1)]), "both are the table that is called db1 now");
    assert_eq!(server.db.byte_table("db1").unwrap().get(b"l").unwrap().as_deref(), Some(&b"v"[..]));
}

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

/// … beside one that was dropped, which another command of the transaction comes upon.
#[test]
fn transactions_keep_their_table_beside_a_dropped_one() {
    for (begin, end) in [("KV.BEGIN", "KV.COMMIT"), ("MULTI", "EXEC")] {
        let server = Running::new();
        let (mut c, mut d) = (server.client(), server.client());
        for line in ["SELECT 1", "SELECT 0", "SET k old", begin, "APPEND k er"] {
            c.call(line);
        }
        exchange(&server.db);
        assert_eq!(d.call("GET k"), text("new")); // opens what is called db0 now
        assert!(server.db.drop_table("db1").unwrap());
        for line in ["COPY k l DB 1", "SET k mine", end] {
            c.call(line);
        }
        assert_eq!(value(&server.db, "old").as_deref(), Some(&b"mine"[..]), "{begin}");
        assert_eq!(value(&server.db, "db0").as_deref(), Some(&b"new"[..]), "{begin}");
    }
}

#[test]
fn a_watch_from_before_flushdb_is_of_the_table_that_exec_writes() {
    let server = Running::new();
    let (mut c, mut d) = (server.client(), server.client());
    assert_eq!((c.call("WATCH k"), d.call("FLUSHDB")), (ok(), ok()));
    assert_eq!((c.call("GET other"), c.call("MULTI")), (Null, ok()));
    assert_eq!(d.call("SET k others"), ok());
    assert!(server.db.rename_table("db0", "old").unwrap());
    assert_eq!(d.call("GET k"), Null); // makes another db0
    assert_eq!((c.call("SET k mine"), c.call("EXEC")), (text("QUEUED"), Null));
    assert_eq!(value(&server.db, "old").as_deref(), Some(&b"others"[..]));
}

/// Whoever looks at all tables between the two renames of an exchange makes none.
#[test]
fn lists_make_no_tables() {
    for first in ["KV.TABLES", "MEMORY STATS", "FLUSHALL"] {
        let server = Running::new();
        let mut c = server.client();
        assert_eq!(c.call("SET k old"), ok());
        server.db.byte_table("new").unwrap();
        assert!(server.db.rename_table("db0", "old").unwrap());
        c.call(first);
        assert_eq!(server.db.tables().unwrap(), ["new", "old"], "{first}");
        assert!(server.db.rename_table("new", "db0").unwrap());
    }
}
