//! How tests change files of a database so that their checksums fit: batches of the directory, leaves and their links.
#![allow(dead_code)] // each test file uses its part

use crate::common::tiny;
use foreshore::ByteTable;
use foreshore_io::SimDisk;
use std::collections::HashMap;
use std::sync::Arc;

pub const DIRECTORY: &str = "directory-0000000000000000";
pub const BATCH_HEADER_BYTES: usize = 24;
/// Before the first batch.
pub const DIRECTORY_HEAD_BYTES: usize = 16;
pub const FREE: u8 = 2;
pub const REDO: u8 = 3;
pub const INCARNATION: u8 = 4;

pub fn open(disk: &SimDisk) -> foreshore::Result<foreshore::Database> {
    tiny().open_on(Arc::new(disk.clone()))
}

pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Appends a batch with this payload to a directory file, as the engine would (`docs/file_format.md`).
pub fn append_batch(file: &mut Vec<u8>, payload: &[u8]) {
    let mark = file[4..8].to_vec();
    let (mut at, mut sequence, mut chain) = (DIRECTORY_HEAD_BYTES, 0u64, 0);
    while file.get(at..at + 4) == Some(&mark) {
        chain = u32_at(file, at + 20);
        at += BATCH_HEADER_BYTES + (u32_at(file, at + 4) as usize).next_multiple_of(8);
        sequence += 1;
    }
    let mut batch = mark;
    batch.extend((payload.len() as u32).to_le_bytes());
    batch.extend(sequence.to_le_bytes());
    batch.extend(chain.to_le_bytes());
    batch.extend(crc32c::crc32c_append(crc32c::crc32c(&batch), payload).to_le_bytes());
    batch.extend(payload);
    batch.resize(batch.len().next_multiple_of(8), 0);
    file.resize(file.len().max(at + batch.len()), 0);
    file[at..at + batch.len()].copy_from_slice(&batch);
}

/// An entry of this kind with these numbers.
pub fn entry(kind: u8, words: &[u64]) -> Vec<u8> {
    std::iter::once(kind).chain(words.iter().flat_map(|word| word.to_le_bytes())).collect()
}

pub fn page(number: u64, slot: u64) -> Vec<u8> {
    let (table, no_key) = (77u32.to_le_bytes(), [0; 2]);
    [entry(1, &[number, slot, 0]).as_slice(), &table, &no_key].concat()
}

/// A closed database with a table of many leaves.
pub fn of_many_leaves() -> SimDisk {
    let disk = SimDisk::new(1);
    let db = open(&disk).unwrap();
    fill(&db.byte_table("t").unwrap());
    db.close().unwrap();
    disk
}

/// Puts rows for many leaves, of which the second one is half empty: the first one would absorb it if it had fewer than a third.
pub fn fill(table: &ByteTable) {
    (0..200u32).for_each(|i| table.put(&i.to_be_bytes(), &[7; 150]).unwrap());
    (30..40u32).for_each(|i| assert!(table.remove(&i.to_be_bytes()).unwrap()));
}

/// Changes leaves of the table that was made first, given the leaf file and where in it each lies, by ascending keys; their
/// checksums fit afterwards.
pub fn with_leaves<R>(disk: &SimDisk, change: impl FnOnce(&mut [u8], &[usize]) -> R) -> R {
    let mut result = None;
    disk.corrupt("leaves.db", |file| {
        let is_leaf = |at: &usize| file[*at..].starts_with(b"FL") && file[*at + 32] >= 16;
        let of_page: HashMap<_, _> =
            (0..file.len()).step_by(4096).filter(is_leaf).map(|at| (page_of(file, at), at)).collect();
        let chain = |first: &usize| {
            let next = |at: &usize| of_page.get(&u64_at(file, at + 24)).copied();
            std::iter::successors(Some(*first), next).collect::<Vec<_>>()
        };
        let table = of_page.values().map(|at| u32_at(file, at + 32)).min();
        let of_first = |at: &&usize| Some(u32_at(file, **at + 32)) == table;
        let leaves = of_page.values().filter(of_first).map(chain).max_by_key(Vec::len).unwrap();
        result = Some(change(file, &leaves));
        for leaf in leaves {
            seal_leaf(&mut file[leaf..leaf + 4096]);
        }
    });
    result.unwrap()
}

/// Has the checksum of this leaf fit.
pub fn seal_leaf(leaf: &mut [u8]) {
    let checksum = crc32c::crc32c(&leaf[8..]);
    leaf[4..8].copy_from_slice(&checksum.to_le_bytes());
}

/// Changes the file `FORESHORE`, whose checksum fits afterwards.
pub fn with_meta(disk: &SimDisk, change: impl FnOnce(&mut [u8])) {
    disk.corrupt("FORESHORE", |bytes| {
        change(bytes);
        let checksum = crc32c::crc32c(&bytes[..44]);
        bytes[44..].copy_from_slice(&checksum.to_le_bytes());
    });
}

pub fn page_of(file: &[u8], leaf: usize) -> u64 {
    u64_at(file, leaf + 8)
}

/// Makes one leaf the right neighbour of another.
pub fn link(file: &mut [u8], leaf: usize, right: usize) {
    let right = page_of(file, right).to_le_bytes();
    file[leaf + 24..leaf + 32].copy_from_slice(&right);
}

/// A closed database with rows in many leaves, and large values.
pub fn large_and_small() -> SimDisk {
    let disk = SimDisk::new(1);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    (0..200u32).for_each(|i| table.put(format!("row/{:04}", i * 7).as_bytes(), &[i as u8; 50]).unwrap());
    (0..3).for_each(|i| table.put(&[b'x', i], &[i; 9000]).unwrap());
    db.close().unwrap();
    disk
}

/// Reads, checks, writes and removes, until there is an error.
pub fn use_all(disk: &SimDisk) -> foreshore::Result<()> {
    let db = open(disk)?;
    db.recover().iter().try_for_each(|gid| db.rollback_prepared(gid))?;
    for name in db.tables()? {
        let table = db.byte_table(&name)?;
        (0..200u32).try_for_each(|i| table.get(format!("row/{:04}", i * 7).as_bytes()).map(drop))?;
        (0..4).try_for_each(|i| table.get(&[b'x', i]).map(drop))?;
        table.range(..).try_for_each(|row| row.map(drop))?;
        table.range(..).rev().try_for_each(|row| row.map(drop))?;
        table.multi_get(&(0..99u32).map(|i| format!("row/{i:04}")).collect::<Vec<_>>())?;
        db.snapshot()?.bytes(&table).range(..).try_for_each(|row| row.map(drop))?;
    }
    let checked = db.check();
    for name in db.tables()? {
        let table = db.byte_table(&name)?;
        for i in 0..200u32 {
            table.put(format!("row/{:04}", i * 5).as_bytes(), &vec![7; i as usize])?;
            table.remove(format!("row/{:04}", i * 3).as_bytes())?;
        }
        db.transact(|tx| tx.bytes(&table).remove_range(&b"row/0"[..]..&b"row/1"[..]).map(drop))?;
    }
    db.checkpoint()?;
    db.close()?;
    checked.map(drop)
}
