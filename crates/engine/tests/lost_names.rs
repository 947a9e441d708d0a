//! `check --rebuild` where names of tables are lost with leaves of the catalog.

mod common;
mod losses;

use common::tiny;
use foreshore::{ByteTable, Database, Error};
use foreshore_io::{SimDisk, sim::Crash};
use losses::{lose_directory, lose_leaves, lose_newest, salvage, salvage_cut_short};
use std::sync::Arc;

/// Tables do not go with the leaf that holds their names: they get others, and keep their rows and their large values, wherever the
/// rebuild is cut short.
#[test]
fn a_rebuild_gives_names_to_tables_that_have_lost_theirs() {
    const LATE: u32 = 17; // the second table that was made
    let disk = SimDisk::new(1);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let [whole, late, _, chunks, extents] =
        ["whole", "late", "empty", "chunks", "extents"].map(|name| db.byte_table(name).unwrap());
    (0..200u8).for_each(|i| [&whole, &late].iter().for_each(|table| table.put(&[i], &[i; 100]).unwrap()));
    chunks.put(b"k", &[1; 20_000]).unwrap();
    extents.put(b"k", &[2; 100_000]).unwrap();
    drop((whole, late, chunks, extents));
    db.close().unwrap();

    let verify = |db: Database, disk: &SimDisk, what: &str| {
        let names = ["recovered-16", "recovered-17", "recovered-19", "recovered-20"];
        assert_eq!(db.tables().unwrap(), names, "{what}");
        let [whole, late, chunks, extents] = names.map(|name| db.byte_table(name).unwrap());
        assert_eq!(whole.range(..).map(Result::unwrap).count(), 200, "{what}");
        assert!(matches!(late.get(&[0]), Err(Error::Corrupt { .. })), "{what}");
        assert_eq!(late.get(&[199]).unwrap().as_deref(), Some(&[199; 100][..]), "{what}");
        assert_eq!(chunks.get(b"k").unwrap().as_deref(), Some(&[1; 20_000][..]), "{what}");
        assert_eq!(extents.get(b"k").unwrap().as_deref(), Some(&[2; 100_000][..]), "{what}");
        drop((whole, late, chunks, extents));
        assert!(db.drop_table("recovered-17").unwrap(), "{what}");
        db.byte_table("new").unwrap().put(b"k", &[3; 20_000]).unwrap();
        db.check().unwrap_or_else(|e| panic!("{what}: {e}"));
        db.close().unwrap();
        let db = tiny().open_on(Arc::new(disk.clone())).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(db.tables().unwrap(), ["new", names[0], names[2], names[3]], "{what}");
        assert_eq!(
            db.byte_table("new").unwrap().get(b"k").unwrap().as_deref(),
            Some(&[3; 20_000][..]),
            "{what}"
        );
    };
    for with_directory in [true, false] {
        let left = disk.after_crash(Crash::PowerLoss, 1);
        lose_leaves(&left, |table, leftmost| table == 1 || table == LATE && leftmost);
        if !with_directory {
            lose_directory(&left);
        }
        assert!(matches!(tiny().open_on(Arc::new(left.clone())), Err(Error::Corrupt { .. })));
        salvage_cut_short(&left, &format!("with directory: {with_directory}"), verify);
    }
}

/// Where names are lost, a lost leaf with pieces of large values costs these values, and no others.
#[test]
fn large_values_find_their_table_where_names_are_lost() {
    const HIDDEN: u32 = 17;
    let disk = SimDisk::new(1);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    [b"a", b"b"].into_iter().for_each(|key| table.put(key, &[key[0]; 20_000]).unwrap());
    table.put(b"z", &[3; 100_000]).unwrap(); // one row, the last of the hidden table
    drop(table);
    db.close().unwrap();
    disk.corrupt("leaves.db", |bytes| {
        for leaf in bytes.chunks_mut(4096).filter(|leaf| leaf.starts_with(b"FL")) {
            let table = u32::from_le_bytes(leaf[32..36].try_into().unwrap());
            if table == 1 || table == HIDDEN && leaf[48..50] == [0xFF; 2] {
                leaf.fill(0);
            }
        }
    });
    let db = tiny().rebuild(true).open_on(Arc::new(disk)).unwrap();
    assert_eq!(db.tables().unwrap(), ["recovered-16"]);
    let table = db.byte_table("recovered-16").unwrap();
    assert_eq!(table.get(b"a").unwrap().as_deref(), Some(&[b'a'; 20_000][..]));
    assert!(matches!(table.get(b"z"), Err(Error::Corrupt { .. })));
}

/// The newest image of the catalog's leaf may be the one that is damaged, and an older one be whole, from before the last tables.
#[test]
fn a_salvage_with_an_older_catalog_keeps_the_tables_made_since() {
    let disk = SimDisk::new(1);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    db.byte_table("early").unwrap().put(b"k", b"1").unwrap();
    db.checkpoint().unwrap();
    db.byte_table("later").unwrap().put(b"k", b"2").unwrap();
    db.close().unwrap();
    lose_directory(&disk);
    lose_newest(&disk, |table, _| table == 1);
    for builder in [tiny().rebuild(true), tiny()] {
        let db = builder.open_on(Arc::new(disk.clone())).unwrap();
        assert_eq!(db.tables().unwrap(), ["early", "recovered-17"]);
        assert_eq!(db.byte_table("recovered-17").unwrap().get(b"k").unwrap().as_deref(), Some(&b"2"[..]));
        db.close().unwrap();
    }
}

/// The catalog may also be from before the first large value of a table that it knows: the table keeps its name, and gets its large values
/// back, wherever the rebuild is cut short.
#[test]
fn a_salvage_with_an_older_catalog_keeps_large_values() {
    let disk = SimDisk::new(1);
    let db = tiny().log_bytes(1 << 20).open_on(Arc::new(disk.clone())).unwrap();
    let [table, without] = ["t", "without"].map(|name| db.byte_table(name).unwrap());
    [&table, &without].into_iter().for_each(|table| table.put(b"whole", b"row").unwrap());
    db.checkpoint().unwrap();
    put_large(&table);
    drop((table, without));
    db.close().unwrap();
    lose_directory(&disk);
    lose_newest(&disk, |table, _| table == 1);

    let look = |db: &Database, what: &str| {
        assert_eq!(db.tables().unwrap(), ["t", "without"], "{what}");
        ensure_large(&db.byte_table("t").unwrap(), what);
        db.check().unwrap_or_else(|e| panic!("{what}: {e}"));
    };
    salvage_cut_short(&disk, "salvaged", |db, disk, what| {
        look(&db, what);
        db.close().unwrap();
        look(&tiny().open_on(Arc::new(disk.clone())).unwrap(), what);
    });
}

/// Of a catalog with several leaves the one that tells the highest id may be newer than the one with a table's row. And a table may be
/// there of which nothing is left.
#[test]
fn a_salvage_with_a_leaf_of_an_older_catalog_keeps_large_values() {
    let disk = SimDisk::new(1);
    let db = tiny().log_bytes(1 << 20).open_on(Arc::new(disk.clone())).unwrap();
    let long = "x".repeat(100);
    let name = |i| format!("{i:03} {long}");
    (0..80).for_each(|i| drop(db.byte_table(&name(i)).unwrap()));
    let table = db.byte_table("t").unwrap(); // its row is the last one
    table.put(b"whole", b"row").unwrap();
    db.checkpoint().unwrap();
    put_large(&table);
    drop(table);
    db.close().unwrap();
    lose_directory(&disk);
    lose_newest(&disk, |table, is_leftmost| table == 1 && !is_leftmost);
    lose_leaves(&disk, |table, _| table == 16); // the first one that was made
    for builder in [tiny().rebuild(true), tiny()] {
        let db = builder.open_on(Arc::new(disk.clone())).unwrap();
        ensure_large(&db.byte_table("t").unwrap(), "there");
        db.drop_table(&name(0)).unwrap();
        assert_eq!(db.tables().unwrap().len(), 80);
        db.check().unwrap();
        db.close().unwrap();
    }
}

fn put_large(table: &ByteTable) {
    table.put(b"chunks", &[1; 20_000]).unwrap();
    table.put(b"extents", &[2; 100_000]).unwrap();
}

fn ensure_large(table: &ByteTable, what: &str) {
    let get = |key: &[u8]| table.get(key).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(get(b"whole").as_deref(), Some(&b"row"[..]), "{what}");
    assert!(get(b"chunks") == Some(vec![1; 20_000]) && get(b"extents") == Some(vec![2; 100_000]), "{what}");
}

/// Of many tables, those whose names are in the leaf that is lost get others, and the others keep theirs. All have their rows, wherever the
/// rebuild is cut short.
#[test]
fn a_rebuild_closes_the_gaps_of_the_catalog() {
    const TABLES: u32 = 80;
    let disk = SimDisk::new(1);
    let db = tiny().log_bytes(1 << 20).open_on(Arc::new(disk.clone())).unwrap();
    let long = "x".repeat(100);
    for i in 0..TABLES {
        let table = db.byte_table(&format!("{i:03} {long}")).unwrap();
        table.put(b"number", &i.to_le_bytes()).unwrap();
    }
    db.close().unwrap();
    let of_catalog = |leaf: &&mut [u8]| leaf.starts_with(b"FL") && leaf[32..36] == 1u32.to_le_bytes();
    let is_last = |leaf: &&mut [u8]| leaf[48..50] == [0xFF; 2];
    for (with_directory, last) in [(true, true), (true, false), (false, true), (false, false)] {
        let what = format!("with directory: {with_directory}, last: {last}");
        let left = disk.after_crash(Crash::PowerLoss, 1);
        left.corrupt("leaves.db", |bytes| {
            // Of each leaf there may be older images.
            let mut lost: Vec<_> =
                bytes.chunks_mut(4096).filter(of_catalog).filter(|leaf| is_last(leaf) == last).collect();
            let is_leftmost = |leaf: &&mut [u8]| leaf[46..48] == [0; 2];
            lost.retain(|leaf| !is_leftmost(leaf));
            assert!(!lost.is_empty());
            let page = lost[0][8..16].to_vec();
            lost.into_iter().filter(|leaf| leaf[8..16] == page).for_each(|leaf| leaf.fill(0));
        });
        if !with_directory {
            lose_directory(&left);
        }
        let verify = |db: &Database, what: &str| {
            let names = db.tables().unwrap();
            let renamed = names.iter().filter(|name| name.starts_with("recovered-")).count();
            assert!((5..40).contains(&renamed), "{what}: {renamed}");
            let mut numbers: Vec<_> = names
                .iter()
                .map(|name| {
                    let row = db.byte_table(name).unwrap().get(b"number").unwrap().unwrap();
                    let number = u32::from_le_bytes(row.try_into().unwrap());
                    assert!(
                        *name == format!("{number:03} {long}")
                            || *name == format!("recovered-{}", 16 + number)
                    );
                    number
                })
                .collect();
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..TABLES), "{what}");
            db.check().unwrap_or_else(|e| panic!("{what}: {e}"));
        };
        let whole = left.after_crash(Crash::PowerLoss, 1);
        let db = salvage(&whole).unwrap_or_else(|e| panic!("{what}: {e}"));
        let events = whole.events();
        verify(&db, &what);
        db.close().unwrap();
        verify(&tiny().open_on(Arc::new(whole)).unwrap(), &what);
        for (event, crash) in (0..events).zip([Crash::ProcessKill, Crash::PowerLoss].into_iter().cycle()) {
            let what = format!("{what}, {crash:?} at event {event}");
            let disk = left.after_crash(Crash::PowerLoss, 1);
            disk.crash_at(event);
            drop(salvage(&disk));
            let disk = disk.after_crash(crash, event);
            let db = tiny().open_on(Arc::new(disk.clone())).or_else(|_| salvage(&disk));
            verify(&db.unwrap_or_else(|e| panic!("{what}: {e}")), &what);
        }
    }
}
