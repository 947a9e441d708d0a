//! A profile chooses the leaf size of tables that name none, when they are created and never again.

use foreshore::{Builder, Database, Error, Favour, Profile, TableOptions};
use foreshore_io::SimDisk;
use std::sync::Arc;

/// A profile as a file would have it: only the machine and leaf sizes.
fn profile(lookups: usize, inserts: usize) -> Profile {
    let machine =
        "processor = 'any'\ncores = 2\nline_bytes = 64\nl1d_bytes = 32768\nl2_bytes = 1048576\nl3_bytes = 0";
    let leaf = format!("lookups = {lookups}\ninserts = {inserts}\nbalanced = 8192");
    Profile::from_toml(&format!("[machine]\n{machine}\n[leaf]\n{leaf}\n")).unwrap()
}

fn small() -> Builder {
    Database::builder().cache_bytes(1 << 20).segment_bytes(64 << 10).ring_bytes(16 * 32768)
}

fn open(disk: &SimDisk, builder: Builder) -> Database {
    builder.open_on(Arc::new(disk.clone())).unwrap()
}

fn leaf_bytes(db: &Database, table: &str) -> usize {
    db.byte_table(table).unwrap().leaf_bytes()
}

#[test]
fn a_table_keeps_the_size_it_was_created_with() {
    let disk = SimDisk::new(0);
    let first = profile(4096, 16384);
    let db = open(&disk, small().profile(&first, Favour::Lookups));
    assert_eq!(leaf_bytes(&db, "reads"), 4096);
    db.byte_table("reads").unwrap().put(b"key", b"value").unwrap();
    let files: Vec<_> = disk.names().into_iter().filter(|name| name.starts_with("leaves")).collect();
    assert_eq!(files, ["leaves.db"], "the database has the profile's size for its own");
    db.close().unwrap();

    let db = open(&disk, small().profile(&profile(32768, 32768), Favour::Lookups));
    assert_eq!(leaf_bytes(&db, "reads"), 4096, "under another profile");
    assert_eq!(db.byte_table("reads").unwrap().get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(leaf_bytes(&db, "new"), 32768);
    let named = TableOptions::new().leaf_bytes(8192);
    assert_eq!(db.byte_table_with("named", named).unwrap().leaf_bytes(), 8192, "the user goes before");
    db.close().unwrap();

    let db = open(&disk, small().profile(&first, Favour::Inserts));
    assert_eq!(["reads", "new", "named", "writes"].map(|t| leaf_bytes(&db, t)), [4096, 32768, 8192, 16384]);
    db.check().unwrap();
    db.close().unwrap();

    let db = open(&disk, small());
    assert_eq!(leaf_bytes(&db, "plain"), 4096, "without a profile: the database's own");
}

/// In whichever order the options are named.
#[test]
fn the_users_size_goes_before_the_profiles() {
    let profile = profile(4096, 4096);
    let named = [
        small().leaf_bytes(16384).profile(&profile, Favour::Lookups),
        small().profile(&profile, Favour::Lookups).leaf_bytes(16384),
    ];
    for builder in named {
        assert_eq!(leaf_bytes(&open(&SimDisk::new(0), builder), "t"), 16384);
    }
}

/// Advice that a database's log buffer cannot follow is followed as far as it can be.
#[test]
fn leaves_stay_within_the_log_buffer() {
    let disk = SimDisk::new(0);
    let tight = |leaf_bytes| {
        let builder = Database::builder().cache_bytes(1 << 20).segment_bytes(64 << 10).ring_bytes(16 * 8192);
        open(&disk, builder.profile(&profile(leaf_bytes, 4096), Favour::Lookups))
    };
    let db = tight(32768);
    assert_eq!(leaf_bytes(&db, "made"), 8192);
    db.close().unwrap();
    assert_eq!(leaf_bytes(&tight(16384), "later"), 8192);
}

#[test]
fn a_size_that_no_leaf_has_is_refused() {
    let builder = small().profile(&profile(5000, 4096), Favour::Lookups);
    let refused = builder.open_on(Arc::new(SimDisk::new(0))).map(|_| ());
    let said = |text: &str| text.contains("profile") && text.contains("power of two");
    assert!(matches!(&refused, Err(Error::Argument(text)) if said(text)), "{refused:?}");
}

/// What is wrong is told, and not what follows from it for a size that nobody named.
#[test]
fn a_senseless_log_buffer_is_told_as_such() {
    for ring_bytes in [0, 32 << 10, 100_000] {
        let builder =
            Database::builder().ring_bytes(ring_bytes).profile(&profile(8192, 8192), Favour::Lookups);
        match builder.open_on(Arc::new(SimDisk::new(0))) {
            Err(Error::Argument(told)) => assert!(told.starts_with("ring_bytes"), "{ring_bytes}: {told}"),
            other => panic!("{ring_bytes}: {other:?}"),
        }
    }
}
