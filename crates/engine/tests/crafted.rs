//! Files whose checksums fit and whose content makes no sense: an error that names them, or the right rows; never a panic,
//! and no memory for numbers that somebody made up.

mod common;
mod crafting;

use common::{Rng, TINY_SEGMENT_BYTES, env, in_parallel, row, rows, tiny};
use crafting::*;
use foreshore::{ByteTable, Database, Durability, Error, Index, TableOptions};
use foreshore_io::{Access, MemVfs, SimDisk, Vfs, sim::Crash};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Kinds of the log's records (`txn/record.rs`), and a transaction's slot.
const BEGIN: u8 = 18;
const PREPARE: u8 = 21;
const OWNER: u8 = 1;
/// The number of the table that was made first.
const FIRST_TABLE: u32 = 16;
/// The last page number of the database's own size.
const LAST_PAGE: u64 = u32::MAX as u64;

/// A closed database with one row.
fn closed() -> SimDisk {
    let disk = SimDisk::new(1);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    db.byte_table("t").unwrap().put(b"k", b"v").unwrap();
    db.close().unwrap();
    disk
}

/// One page of four billion that were never there costs the memory of one.
#[test]
fn a_giant_page_number_takes_no_memory() {
    let disk = closed();
    let slots = disk.open("leaves.db", Access::Buffered, false).unwrap().len().unwrap() / 4096;
    disk.corrupt(DIRECTORY, |file| append_batch(file, &page(LAST_PAGE, slots - 1)));
    let db = open(&disk).unwrap();
    assert_eq!(rows(&db.byte_table("t").unwrap()), [row(b"k", b"v")]);
    db.checkpoint().unwrap();
    db.byte_table("u").unwrap().put(b"k", b"v").unwrap();
    db.close().unwrap();
    assert_eq!(open(&disk).unwrap().check().unwrap().stray_pages, 0);
}

/// No log is that long.
#[test]
fn a_giant_log_position_is_damage() {
    let giant = u64::MAX - 7;
    for entry in [
        entry(REDO, &[giant]),
        entry(INCARNATION, &[giant, giant, 1]),
        entry(INCARNATION, &[0, giant, 1]),
        entry(REDO, &[1 << 51]),
    ] {
        let disk = closed();
        disk.corrupt(DIRECTORY, |file| append_batch(file, &entry));
        let refused = open(&disk).map(|_| ()).unwrap_err();
        let named = matches!(&refused, Error::Corrupt { what, .. } if what.contains(DIRECTORY));
        assert!(named, "{entry:?}: {refused}");
    }
}

/// Nor is there a leaf with changes from such a position, nor from one behind which no log can begin: a salvage passes over it, and its
/// directory can be read again.
#[test]
fn a_giant_log_position_in_a_leaf_does_not_spoil_a_salvage() {
    for giant in [u64::MAX - 7, (1 << 51) - 1, (1 << 51) - 8, (1 << 51) - (1 << 42), (1 << 50) + 7] {
        let disk = of_many_leaves();
        let mut made_up = with_leaves(&disk, |file, leaves| file[leaves[1]..][..4096].to_vec());
        made_up[16..24].copy_from_slice(&giant.to_le_bytes());
        made_up[40] -= 1; // so the last row would be missed
        put_into_free_slot(&disk, made_up);
        disk.corrupt(DIRECTORY, |file| file.clear());
        let salvaged = tiny().rebuild(true).open_on(Arc::new(disk.clone())).and_then(|db| db.close());
        assert!(salvaged.is_ok(), "{giant}: {salvaged:?}");
        let again = open(&disk).unwrap_or_else(|error| panic!("{giant}: {error}"));
        assert_eq!(rows(&again.byte_table("t").unwrap()).len(), 190, "{giant}");
    }
}

/// Puts the image of a leaf where none is; its checksum fits afterwards.
fn put_into_free_slot(disk: &SimDisk, mut image: Vec<u8>) {
    seal_leaf(&mut image);
    disk.corrupt("leaves.db", |file| {
        let free = file.chunks_exact_mut(4096).find(|slot| !slot.starts_with(b"FL")).unwrap();
        free.copy_from_slice(&image);
    });
}

/// A closed database with one row, its table with this index.
fn closed_with(index: Index) -> SimDisk {
    let disk = SimDisk::new(1);
    let db = open(&disk).unwrap();
    let with_index = TableOptions::new().index(index);
    db.byte_table_with("t", with_index).unwrap().put(b"k", b"v").unwrap();
    db.close().unwrap();
    disk
}

/// No leaf begins at a key longer than any: the directory does not say so to an index.
#[test]
fn a_giant_lowest_key_is_damage() {
    for index in Index::ALL {
        let disk = closed_with(index);
        let slots = disk.open("leaves.db", Access::Buffered, false).unwrap().len().unwrap() / 4096;
        let mut giant = entry(1, &[50, slots - 1, 0]);
        giant.extend(FIRST_TABLE.to_le_bytes());
        giant.extend(1100u16.to_le_bytes());
        giant.extend([0xFF; 1100]);
        disk.corrupt(DIRECTORY, |file| append_batch(file, &giant));
        let refused = open(&disk).map(|_| ()).unwrap_err();
        let named = matches!(&refused, Error::Corrupt { what, .. } if what.contains(DIRECTORY));
        assert!(named, "{index:?}: {refused}");
    }
}

/// Nor does a leaf, in a salvage.
#[test]
fn a_giant_lowest_key_in_a_leaf_does_not_spoil_a_salvage() {
    for index in Index::ALL {
        let disk = closed_with(index);
        let mut leaf = with_leaves(&disk, |file, leaves| file[leaves[0]..][..4096].to_vec());
        leaf[8..16].copy_from_slice(&50u64.to_le_bytes());
        let counts = [0, 4096 - 1100, 0, 1100].map(u16::to_le_bytes); // no cell, and a heap without bytes
        leaf[40..48].copy_from_slice(counts.as_flattened());
        leaf[4096 - 1100..].fill(0xFF);
        put_into_free_slot(&disk, leaf);
        disk.corrupt(DIRECTORY, |file| file.clear());
        let salvaged = tiny().rebuild(true).open_on(Arc::new(disk.clone())).unwrap();
        assert_eq!(rows(&salvaged.byte_table("t").unwrap()), [row(b"k", b"v")], "{index:?}");
    }
}

/// Nor does a record: of a split whose separator is that long, off a leaf that is no more.
#[test]
fn a_giant_lowest_key_in_a_record_is_damage() {
    for index in Index::ALL {
        let disk = closed_with(index);
        let (gone, right, table) = (60, 50, FIRST_TABLE as u8);
        let mut record = vec![4, gone, table, right, 0xCC, 8]; // 1100
        record.extend([0xFF; 1100]);
        let no_rows = [4096 << 16, 0xFFFF, 0]; // all of the page is free, and there is no high fence
        let image = [u64::from(right), 0, 0, table.into()].into_iter().chain(no_rows);
        record.extend(image.flat_map(u64::to_le_bytes));
        append_to_log(&disk, &mut [record], false, 0);
        let refused = open(&disk).map(|_| ()).unwrap_err();
        assert!(matches!(refused, Error::Corrupt { .. }), "{index:?}: {refused}");
    }
}

/// The last positions that records can name: writers are refused before, and the database can still be opened and compacted.
#[test]
fn a_log_that_is_used_up_refuses_writers() {
    let disk = closed();
    let almost = (1 << 51) - (1 << 43) - (1 << 20);
    disk.corrupt(DIRECTORY, |file| {
        append_batch(file, &[entry(REDO, &[almost]), entry(INCARNATION, &[almost, almost, 1])].concat());
    });
    let first = format!("wal-{:016}", almost / TINY_SEGMENT_BYTES);
    disk.open(&first, Access::Direct, true).unwrap().allocate(TINY_SEGMENT_BYTES).unwrap();
    for life in 0..3 {
        let db = open(&disk).unwrap();
        let table = db.byte_table("t").unwrap().with_durability(Durability::Buffered);
        let refused = (0..5000u32).find_map(|i| table.put(&i.to_be_bytes(), &[7; 500]).err());
        let named = matches!(&refused, Some(Error::Full { what }) if what.contains("compact"));
        assert!(named, "life {life}: {refused:?}");
        assert_eq!(table.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
        db.backup_on(Arc::new(SimDisk::new(1)), |_| {}).unwrap();
        db.close().unwrap();
    }
}

/// Measures that no database is made with.
#[test]
fn senseless_measures_are_refused() {
    let (segment, ring) = (64 << 10, 64 << 10);
    for (segment_bytes, ring_bytes) in [
        (0, ring),
        (5000, ring),
        (u64::MAX - 4095, ring),
        (segment, 0),
        (segment, 100_000),
        (segment, 32 << 10),
        (segment, 1 << 63),
    ] {
        let disk = closed();
        with_meta(&disk, |bytes| {
            bytes[24..32].copy_from_slice(&u64::to_le_bytes(segment_bytes));
            bytes[32..40].copy_from_slice(&u64::to_le_bytes(ring_bytes));
        });
        let refused = open(&disk).map(|_| ()).unwrap_err();
        let named = matches!(&refused, Error::Incompatible { detail, .. } if detail.contains("FORESHORE"));
        assert!(named, "{segment_bytes}, {ring_bytes}: {refused}");
    }
}

/// A log buffer in which the leaves' records find no room.
#[test]
fn leaves_too_large_for_the_log_buffer_are_refused() {
    let disk = closed();
    with_meta(&disk, |bytes| {
        bytes[20..24].copy_from_slice(&32768u32.to_le_bytes());
    });
    let refused = open(&disk).map(|_| ()).unwrap_err();
    assert!(matches!(refused, Error::Incompatible { .. }), "{refused}");
}

/// A sparse leaf file, longer than any disk.
#[test]
fn a_giant_leaf_file_takes_no_memory() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
    let open = || tiny().open_on(vfs.clone()).unwrap();
    let db = open();
    db.byte_table("t").unwrap().put(b"k", b"v").unwrap();
    db.close().unwrap();
    vfs.open("leaves.db", Access::Direct, false).unwrap().set_len(1 << 62).unwrap();
    let db = open();
    let table = db.byte_table("t").unwrap();
    table.put(b"l", b"w").unwrap();
    assert_eq!(rows(&table), [row(b"k", b"v"), row(b"l", b"w")]);
    db.close().unwrap();
}

/// A sparse directory file, longer than any disk: what cannot be the remains of a crash is not looked through.
#[test]
fn a_giant_directory_is_damage() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
    tiny().open_on(vfs.clone()).unwrap().close().unwrap();
    vfs.open(DIRECTORY, Access::Buffered, false).unwrap().set_len(1 << 62).unwrap();
    let refused = tiny().open_on(vfs.clone()).map(|_| ()).unwrap_err();
    assert!(matches!(&refused, Error::Corrupt { what, .. } if what.contains(DIRECTORY)), "{refused}");
}

/// The last id that a table can have, in or beside the catalog.
#[test]
fn giant_table_ids_are_given_to_none() {
    for id in [u32::MAX, 1 << 31, (1 << 31) - 1] {
        let disk = closed();
        let slots = disk.open("leaves.db", Access::Buffered, false).unwrap().len().unwrap() / 4096;
        let mut entry = page(5, slots - 1);
        entry[25..29].copy_from_slice(&id.to_le_bytes());
        disk.corrupt(DIRECTORY, |file| append_batch(file, &entry));
        let db = open(&disk).unwrap();
        assert_eq!(rows(&db.byte_table("t").unwrap()), [row(b"k", b"v")], "{id}");
        let new = db.byte_table("new").map(drop);
        assert_eq!(new.is_ok(), id >= 1 << 31, "{id}: {new:?}");
        assert_eq!(db.check().unwrap().stray_pages, 0, "{id}");
    }
}

/// Files that only look like ours are none: they are neither read nor counted.
#[test]
fn names_that_only_resemble_ours_are_passed_over() {
    for name in ["directory-7", "directory-18446744073709551615", "wal-9", "wal-+000000000000007"] {
        let disk = closed();
        disk.open(name, Access::Buffered, true).unwrap().write_at(b"notes", 0).unwrap();
        let db = open(&disk).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(rows(&db.byte_table("t").unwrap()), [row(b"k", b"v")], "{name}");
        db.close().unwrap();
        assert!(disk.names().contains(&name.to_string()), "{name} was removed");
    }
}

/// What a creation left, whatever its length, becomes a file of the right one.
#[test]
fn a_longer_mark_of_a_creation_makes_no_unreadable_database() {
    let disk = SimDisk::new(1);
    disk.open("FORESHORE.creating", Access::Buffered, true).unwrap().write_at(&[7; 100], 0).unwrap();
    let db = open(&disk).unwrap();
    db.byte_table("t").unwrap().put(b"k", b"v").unwrap();
    db.close().unwrap();
    assert_eq!(rows(&open(&disk).unwrap().byte_table("t").unwrap()), [row(b"k", b"v")]);
}

/// The mark of a large value that says of how many chunks it consists is not believed beyond what a value may have.
#[test]
fn a_giant_number_of_chunks_is_damage() {
    let disk = SimDisk::new(1);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    table.put(b"k", &[7; 100_000]).unwrap();
    let snapshot = db.snapshot().unwrap();
    table.remove(b"k").unwrap();
    db.checkpoint().unwrap();
    let disk_then = disk.after_crash(Crash::ProcessKill, 1);
    drop(snapshot);
    assert!(set_chunk_counts(&disk_then, u32::MAX) > 0);
    let db = open(&disk_then).unwrap();
    let refused = db.check().unwrap_err();
    assert!(matches!(&refused, Error::Corrupt { what, .. } if what.contains("mark")), "{refused}");
    let begun = Instant::now();
    db.close().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(20));
}

/// Sets the number of chunks in all marks of large values in the leaf file; how many it found.
fn set_chunk_counts(disk: &SimDisk, count: u32) -> usize {
    let mut found = 0;
    disk.corrupt("leaves.db", |file| {
        for leaf in file.chunks_exact_mut(4096).filter(|leaf| leaf.starts_with(b"FL")) {
            let cells = usize::from(leaf[40]);
            for slot in (0..cells).map(|cell| 64 + cell * 8) {
                let word = u64::from_le_bytes(leaf[slot..slot + 8].try_into().unwrap());
                let (suffix_len, offset) = ((word >> 16) as u16, usize::from(word as u16));
                let value = offset + 10 + 5;
                if word >> 32 == 0 && suffix_len == 9 && leaf[offset + 8..offset + 10] == [4, 0] {
                    leaf[value..value + 4].copy_from_slice(&count.to_le_bytes());
                    found += 1;
                }
            }
            seal_leaf(leaf);
        }
    });
    found
}

/// Whoever removes rows that are out of order does not come to the same ones again and again.
#[test]
fn rows_out_of_order_do_not_keep_a_removal_busy() {
    let disk = SimDisk::new(1);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    (0..9).for_each(|i| db.byte_table("t").unwrap().put(&[b'k', i], b"v").unwrap());
    db.close().unwrap();
    disk.corrupt("leaves.db", |file| {
        for leaf in file.chunks_exact_mut(4096).filter(|leaf| leaf.starts_with(b"FL") && leaf[40] == 9) {
            let [first, last] = [64, 64 + 8 * 8].map(|slot| leaf[slot..slot + 8].to_vec());
            leaf[64..72].copy_from_slice(&last);
            leaf[128..136].copy_from_slice(&first);
            seal_leaf(leaf);
        }
    });
    let refused = open(&disk).unwrap().byte_table("t").unwrap().remove_range(..).unwrap_err();
    assert!(matches!(&refused, Error::Corrupt { detail, .. } if detail.contains("ascend")), "{refused}");
}

/// A key longer than any is damage, not a fault of who removes whatever rows there are.
#[test]
fn a_giant_key_is_damage() {
    let disk = SimDisk::new(1);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    (0..25).for_each(|i| db.byte_table("t").unwrap().put(&[b'k', i], &[7; 100]).unwrap());
    db.close().unwrap();
    disk.corrupt("leaves.db", |file| {
        for leaf in file.chunks_exact_mut(4096).filter(|leaf| leaf.starts_with(b"FL") && leaf[40] == 25) {
            let suffix_len = 64 + 24 * 8 + 2;
            leaf[suffix_len..suffix_len + 2].copy_from_slice(&1100_u16.to_le_bytes());
            seal_leaf(leaf);
        }
    });
    let told = open(&disk).unwrap().byte_table("t").unwrap().pop_last().unwrap_err();
    assert!(matches!(&told, Error::Corrupt { detail, .. } if detail.contains("longer than any")), "{told}");
}

/// So is one that is longer by less than the bytes of a suffix that are in its slot.
#[test]
fn a_key_that_is_too_long_by_little_is_damage() {
    let disk = SimDisk::new(1);
    let db = open(&disk).unwrap();
    let table = db.byte_table("t").unwrap();
    let key = |last: u8| [&[b'k'; 991][..], &[last]].concat(); // the longest there is
    (0..200).for_each(|last| table.put(&key(last), &[7; 100]).unwrap());
    drop(table);
    db.close().unwrap();
    with_leaves(&disk, |file, leaves| {
        let is_between = |leaf: &&usize| u32_at(file, **leaf + 38) & 0xFFFF == 991; // both fences begin as its keys do
        let suffix_len = leaves.iter().find(is_between).unwrap() + 64 + 2;
        assert_eq!(file[suffix_len], 1);
        file[suffix_len] = 4;
    });
    let db = open(&disk).unwrap();
    let told = db.byte_table("t").unwrap().range(..).find_map(Result::err);
    let named = matches!(&told, Some(Error::Corrupt { detail, .. }) if detail.contains("longer than any"));
    assert!(named, "{told:?}");
}

/// A cell in the header: its row is neither read nor written, which would make the leaf that of another page. The table can be dropped.
#[test]
fn a_cell_in_the_header_is_damage() {
    let disk = closed();
    let page = with_leaves(&disk, |file, leaves| {
        file[leaves[0] + 64..][..2].fill(0);
        page_of(file, leaves[0])
    });
    let db = open(&disk).unwrap();
    let table = db.byte_table("t").unwrap();
    let read = table.get(b"k");
    assert!(matches!(read, Err(Error::Corrupt { .. })), "{read:?}");
    // Where the length of a cell's value is, there is the page's number.
    let written = table.put(b"k", &vec![7; usize::from(page as u16)]);
    assert!(matches!(written, Err(Error::Corrupt { .. })), "{written:?}");
    let walked = table.range(..).next().unwrap();
    assert!(matches!(walked, Err(Error::Corrupt { .. })), "{walked:?}");
    drop(table);
    db.drop_table("t").unwrap();
}

/// A value that goes on in the fences: its row is neither read nor written, and all others are there.
#[test]
fn a_cell_in_the_fences_is_damage() {
    let disk = of_many_leaves();
    with_leaves(&disk, |file, leaves| {
        let leaf = &mut file[leaves[1]..][..4096];
        let offset = |slot: usize| usize::from(u16::from_le_bytes([leaf[slot], leaf[slot + 1]]));
        let cells = usize::from(leaf[40]);
        let highest = (0..cells).map(|cell| offset(64 + cell * 8)).max().unwrap();
        assert_eq!(leaf[highest + 8], 150);
        leaf[highest + 8] += 1;
    });
    let db = open(&disk).unwrap();
    let table = db.byte_table("t").unwrap();
    let damaged: Vec<_> = (0..200u32).filter(|i| table.get(&i.to_be_bytes()).is_err()).collect();
    assert_eq!(damaged.len(), 1, "{damaged:?}");
    let written = table.put(&damaged[0].to_be_bytes(), &[7; 151]);
    assert!(matches!(written, Err(Error::Corrupt { .. })), "{written:?}");
    let walked = table.range(..).find_map(Result::err);
    assert!(matches!(walked, Some(Error::Corrupt { .. })), "{walked:?}");
}

/// A database whose leaves say that more bytes of their heaps are dead than there are: who needs these is refused.
fn with_made_up_dead_bytes() -> (Database, ByteTable) {
    let disk = of_many_leaves();
    with_leaves(&disk, |file, leaves| {
        for leaf in leaves {
            let dead = &mut file[leaf + 44..][..2];
            let more = u16::from_le_bytes([dead[0], dead[1]]) + 1000;
            dead.copy_from_slice(&more.to_le_bytes());
        }
    });
    let db = open(&disk).unwrap();
    let table = db.byte_table("t").unwrap();
    (db, table)
}

#[track_caller]
fn ensure_refused(written: foreshore::Result<()>) {
    assert!(matches!(written, Err(Error::Corrupt { .. })), "{written:?}");
}

/// A write that a damaged leaf refuses changes nothing for snapshots either, whatever becomes of its transaction.
#[test]
fn snapshots_do_not_see_a_refused_write() {
    let (db, table) = with_made_up_dead_bytes();
    let snapshot = db.snapshot().unwrap();
    let keys = [60u32, 100, 140].map(u32::to_be_bytes);
    keys.iter().for_each(|key| table.put(key, &[8; 150]).unwrap());
    let [alone, committed, rolled_back] = &keys;
    ensure_refused(table.put(alone, &[9; 900]));
    let tx = db.begin().unwrap();
    ensure_refused(tx.bytes(&table).put(committed, &[9; 900]));
    tx.commit().unwrap();
    let tx = db.begin().unwrap();
    ensure_refused(tx.bytes(&table).put(rolled_back, &[9; 900]));
    tx.bytes(&table).put(rolled_back, b"less").unwrap();
    tx.rollback().unwrap();
    let then = keys.map(|key| snapshot.bytes(&table).get(&key).unwrap().unwrap());
    assert_eq!(then.map(|value| (value.len(), value[0])), [(150, 7); 3]);
    let now = keys.map(|key| table.get(&key).unwrap().unwrap());
    assert_eq!(now.map(|value| (value.len(), value[0])), [(150, 8); 3]);
}

/// Nor is anything kept for them of rows that stay as they are.
#[test]
fn refused_writes_keep_nothing_for_snapshots() {
    let (db, table) = with_made_up_dead_bytes();
    let snapshot = db.snapshot().unwrap();
    let (key, new) = (100u32.to_be_bytes(), [0, 0, 0, 100, 0]);
    (0..200).for_each(|_| ensure_refused(table.put(&key, &[9; 900])));
    let tx = db.begin().unwrap();
    ensure_refused(tx.bytes(&table).put(&key, &[9; 900]));
    ensure_refused(tx.bytes(&table).put_many(&[(new, [9; 900])]).map(drop));
    assert_eq!(db.stats().image_bytes, 0);
    tx.commit().unwrap();
    assert_eq!(snapshot.bytes(&table).get(&new).unwrap(), None);
    drop((snapshot, table));
    db.close().unwrap();
}

/// A leaf file that ends within an extent has lost what is behind its end, and nothing before it.
#[test]
fn a_rebuild_reads_the_last_leaves_of_a_cut_file() {
    let disk = of_many_leaves();
    let moved = with_leaves(&disk, |_, leaves| leaves[1]);
    disk.corrupt("leaves.db", |file| {
        let last = (0..file.len()).step_by(4096).rfind(|at| file[*at..].starts_with(b"FL")).unwrap();
        let leaf = file[moved..][..4096].to_vec();
        file[moved..][..4096].fill(0);
        file.resize((last + 1).next_multiple_of(8 * 4096), 0);
        file.extend(leaf);
    });
    disk.corrupt(DIRECTORY, |file| file.clear());
    for builder in [tiny().rebuild(true), tiny()] {
        let db = builder.open_on(Arc::new(disk.clone())).unwrap();
        assert_eq!(rows(&db.byte_table("t").unwrap()).len(), 190);
        db.close().unwrap();
    }
}

/// Uses copies of the database, each changed in its own way, which says what it was.
fn craft(victim: &SimDisk, change: impl Fn(&SimDisk, &mut Rng) -> Vec<String> + Sync) {
    let (seed, rounds) = (env("FORESHORE_SEED", 1), env("FORESHORE_ROUNDS", 300));
    in_parallel(&(0..rounds).collect::<Vec<_>>(), |round| {
        let (mut rng, disk) = (Rng(seed << 32 | round), victim.after_crash(Crash::PowerLoss, 1));
        let what = format!("seed {seed}, round {round}: {}", change(&disk, &mut rng).join(", "));
        let done = std::panic::catch_unwind(|| use_all(&disk));
        match done.unwrap_or_else(|_| panic!("{what}")) {
            Ok(()) | Err(Error::Corrupt { .. }) => {}
            Err(Error::Poisoned { cause }) if cause.contains("damaged") => {}
            Err(error) => panic!("{what}: {error:?}"),
        }
    });
}

/// Leaves with some words changed under checksums that fit: numbers of their headers, slots, and cells. (With other fences or
/// links a leaf would be missing from the chain, which is told after seconds of looking for it.)
///
/// `FORESHORE_SEED`, `FORESHORE_ROUNDS`.
#[test]
fn malformed_leaves_are_read_without_panic() {
    craft(&large_and_small(), |disk, rng| {
        let mut did = Vec::new();
        disk.corrupt("leaves.db", |file| {
            for _ in 0..1 + rng.below(3) {
                let leaves = file.chunks_exact(4096).enumerate().filter(|(_, leaf)| leaf.starts_with(b"FL"));
                let slots: Vec<_> = leaves.map(|(slot, _)| slot).collect();
                let slot = slots[rng.below(slots.len())];
                did.push(format!("slot {slot}"));
                did.extend(malform(&mut file[slot * 4096..][..4096], rng));
            }
        });
        did
    });
}

/// Entries of the directory that nobody has written, under a checksum that fits; of pages that there are not.
///
/// `FORESHORE_SEED`, `FORESHORE_ROUNDS`.
#[test]
fn made_up_entries_are_read_without_panic() {
    let victim = large_and_small();
    let slots = victim.open("leaves.db", Access::Buffered, false).unwrap().len().unwrap() / 4096;
    craft(&victim, |disk, rng| {
        let number = |rng: &mut Rng| match rng.below(6) {
            0 => 0,
            1 => rng.next() >> rng.below(64),
            2 => slots - rng.below(3) as u64,
            _ => 1 + rng.below(20) as u64,
        };
        let payload: Vec<u8> = (0..1 + rng.below(4))
            .flat_map(|_| match rng.below(12) {
                0..8 => {
                    let [page, slot, lsn] = [0; 3].map(|_| number(rng));
                    let key = format!("row/{:04}", rng.below(1500)).into_bytes();
                    let len = rng.below(key.len() + 1);
                    let mut entry = entry(1, &[page.saturating_add(1000), slot, lsn]);
                    entry.extend((number(rng) as u32).to_le_bytes());
                    entry.extend((len as u16).to_le_bytes());
                    entry.extend(&key[..len]);
                    entry
                }
                8 => entry(REDO, &[number(rng) << 3]),
                9 => entry(INCARNATION, &[0; 3].map(|_| number(rng) << 3)),
                _ => rng.bytes(9),
            })
            .collect();
        let name = disk.names().into_iter().filter(|name| name.starts_with("directory-")).max().unwrap();
        disk.corrupt(&name, |file| append_batch(file, &payload));
        vec![format!("{payload:02x?}")]
    });
}

/// Records of the log that nobody has written, under checksums that fit: those of another database's life once more, in any
/// order, some with other bytes, and ends of transactions in between.
///
/// `FORESHORE_SEED`, `FORESHORE_ROUNDS`.
#[test]
fn made_up_records_are_redone_without_panic() {
    let victim = large_and_small();
    let records = records_of_a_life();
    craft(&victim, |disk, rng| {
        let mut bodies: Vec<_> = (0..1 + rng.below(6)).map(|_| made_up_record(&records, rng)).collect();
        let is_one_transaction = rng.below(4) > 0;
        if is_one_transaction {
            bodies.retain(|body| body[0] != BEGIN);
            bodies.insert(0, vec![BEGIN, OWNER]);
        }
        append_to_log(disk, &mut bodies, is_one_transaction, rng.below(8));
        bodies.iter().map(|body| format!("{:02x?}", &body[..body.len().min(40)])).collect()
    });
}

/// Bodies of the log's records of a database in which all kinds of things happened.
fn records_of_a_life() -> Vec<Vec<u8>> {
    let disk = SimDisk::new(1);
    let db = tiny().log_bytes(64 << 20).open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    let key = |i: u32| format!("row/{:04}", i * 7).into_bytes();
    (0..200u32).for_each(|i| table.put(&key(i), &[i as u8; 50]).unwrap());
    (0..3).for_each(|i| table.put(&[b'x', i], &[i; 9000]).unwrap());
    (20..120u32).for_each(|i| assert!(table.remove(&key(i)).unwrap())); // leaves are absorbed
    (0..40u32).step_by(3).for_each(|i| table.put(&key(i), &[i as u8; 60]).unwrap());
    for gid in 0..3u8 {
        let tx = db.begin().unwrap();
        let rows: Vec<_> = (0..20u32).map(|i| (key(1000 + 100 * u32::from(gid) + i), [7; 30])).collect();
        tx.bytes(&table).put_many(&rows).unwrap();
        tx.bytes(&table).put(&key(u32::from(gid)), &[9; 50]).unwrap();
        tx.bytes(&table).remove(&key(150 + u32::from(gid))).unwrap();
        tx.prepare([gid]).unwrap();
    }
    db.commit_prepared([0]).unwrap();
    db.rollback_prepared([1]).unwrap();
    db.sync().unwrap();
    let records = log_records(&disk, 0).0;
    assert!(records.len() > 400, "{} records", records.len());
    records
}

/// One of these, perhaps changed, or a transaction's begin, end, or the like.
fn made_up_record(records: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let kind = [1 + rng.below(8), 16 + rng.below(6)][rng.below(2)] as u8;
    let alike: Vec<_> = records.iter().filter(|body| body[0] == kind).collect();
    let mut body = match alike.is_empty() || rng.below(8) == 0 {
        true => vec![18 + rng.below(3) as u8, rng.below(4) as u8],
        false => alike[rng.below(alike.len())].clone(),
    };
    for _ in 0..[0, 0, 0, 0, 1, 2][rng.below(6)] {
        let within = [body.len() - 1, 5.min(body.len() - 1)][rng.below(2)];
        let at = 1 + rng.below(within);
        match rng.below(8) {
            0 => body.truncate(at + 1),
            1 => body.insert(at, rng.below(20) as u8),
            2 => body[at] ^= 1 << rng.below(8),
            _ => body[at] = [0, 1, 0x7F, 0xFF, 16, 17, rng.below(30) as u8][rng.below(7)],
        }
    }
    body
}

/// The salt of the log's last incarnation, where it begins, and from where on the log is redone.
fn log_place(disk: &SimDisk) -> (u64, u64, u64) {
    let (mut salt, mut start, mut redo) = (0, 0, 0);
    disk.corrupt(DIRECTORY, |file| {
        let mut at = DIRECTORY_HEAD_BYTES;
        while file.get(at..at + 4) == Some(&file[4..8]) {
            let len = u32_at(file, at + 4) as usize;
            let mut entry = at + BATCH_HEADER_BYTES;
            while entry < at + BATCH_HEADER_BYTES + len {
                entry += match file[entry] {
                    1 => 31 + usize::from(u16::from_le_bytes([file[entry + 29], file[entry + 30]])),
                    REDO => {
                        redo = u64_at(file, entry + 1);
                        9
                    }
                    INCARNATION => {
                        (start, salt) = (u64_at(file, entry + 9), u64_at(file, entry + 17));
                        25
                    }
                    FREE => 9,
                    _ => 1,
                };
            }
            at += BATCH_HEADER_BYTES + len.next_multiple_of(8);
        }
    });
    (salt, start, redo)
}

/// The checksum of the record at `at` with this body (`docs/file_format.md`).
fn record_checksum(salt: u64, at: u64, body: &[u8]) -> u32 {
    let (place, len) = (at / 8, body.len() as u64 + 8);
    let begin = crc32c::crc32c(&salt.to_le_bytes()) ^ (place ^ place >> 32 ^ len) as u32;
    crc32c::crc32c_append(begin, body)
}

/// The bodies of the records from `from` on that are in the log's files, and where they end.
fn log_records(disk: &SimDisk, from: u64) -> (Vec<Vec<u8>>, u64) {
    let (salt, start, _) = log_place(disk);
    let (mut records, mut at) = (Vec::new(), from.max(start));
    loop {
        let word = read_log(disk, at, 8);
        let len = u32_at(&word, 0) as usize;
        if !(8..1 << 13).contains(&len) {
            return (records, at);
        }
        let body = read_log(disk, at + 8, len - 8);
        if u32_at(&word, 4) != record_checksum(salt, at, &body) {
            return (records, at);
        }
        at += (len as u64).next_multiple_of(8);
        if body.first().is_some_and(|kind| *kind != 0) {
            records.push(body);
        }
    }
}

/// Appends records with these bodies to the log's files, the last ones to the ring; perhaps as those of one transaction, each of
/// which names the one before.
fn append_to_log(disk: &SimDisk, bodies: &mut [Vec<u8>], is_one_transaction: bool, from_ring: usize) {
    let (salt, _, redo) = log_place(disk);
    let mut at = log_records(disk, redo).1;
    let mut previous = at;
    for (i, body) in bodies.iter_mut().enumerate() {
        let is_in_ring = i >= from_ring;
        if is_one_transaction && body[0] >= 16 {
            body[1] = OWNER;
            if !(BEGIN..PREPARE).contains(&body[0]) && body.len() > 8 {
                body[2..8].copy_from_slice(&(previous / 8).to_le_bytes()[..6]);
            }
        }
        let mut record = (body.len() as u32 + 8).to_le_bytes().to_vec();
        record.extend(record_checksum(salt, at, body).to_le_bytes());
        record.extend_from_slice(body);
        record.resize(record.len().next_multiple_of(8), 0);
        with_log(disk, at, record.len(), is_in_ring, |byte, i| *byte = record[i]);
        previous = at;
        at += record.len() as u64;
    }
}

fn read_log(disk: &SimDisk, at: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    with_log(disk, at, len, false, |byte, i| bytes[i] = *byte);
    bytes
}

/// Calls `each` with the log's bytes from `at` on, in its files or in the ring, and their numbers.
fn with_log(disk: &SimDisk, at: u64, len: usize, is_in_ring: bool, mut each: impl FnMut(&mut u8, usize)) {
    let mut done = 0;
    while done < len {
        let (n, offset) = ((at + done as u64) / TINY_SEGMENT_BYTES, (at + done as u64) % TINY_SEGMENT_BYTES);
        let name = if is_in_ring { "ring".into() } else { format!("wal-{n:016}") };
        disk.corrupt(&name, |file| {
            for byte in file[offset as usize..].iter_mut().take(len - done) {
                each(byte, done);
                done += 1;
            }
        });
    }
}

/// Changes up to three words of a leaf; which, and to what.
fn malform(leaf: &mut [u8], rng: &mut Rng) -> Vec<String> {
    let mut did = Vec::new();
    for _ in 0..1 + rng.below(3) {
        let word = [5, 8 + rng.below(60), 100 + rng.below(380)][rng.below(3)];
        let bytes = &mut leaf[word * 8..][..if word == 5 { 6 } else { 8 }];
        match rng.below(3) {
            0 => bytes[rng.below(bytes.len())] ^= 1 << rng.below(8),
            1 => bytes[rng.below(bytes.len())] = [0, 0xFF, rng.next() as u8][rng.below(3)],
            _ => bytes.fill_with(|| (rng.next() & rng.next() >> 8) as u8),
        }
        did.push(format!("word {word}: {bytes:02x?}"));
    }
    seal_leaf(leaf);
    did
}
