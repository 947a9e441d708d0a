//! Databases as each format left them on disk: the present one opens with all that was in it, older ones are refused by
//! name and left as they are.
//!
//! `golden/format-N` holds the files of one database, as a process kill left them, their zeros at the end cut off;
//! `SIZES` there says how long each file was. A new format gets a folder of its own:
//! `cargo test -p foreshore --test format -- --ignored` writes it, and the folders of older formats stay.

mod common;

use common::{key, tiny};
use foreshore::{Database, Durability, Error, Index, Snapshot, TableOptions, Types};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The format that this code writes.
const FORMAT: u32 = 6;
const INDEXES: [(&str, Index); 3] = [("bplus", Index::BPlus), ("csb", Index::CsbPlus), ("o2", Index::O2)];

type Files = BTreeMap<String, Vec<u8>>;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn value(i: u32, version: u8) -> Vec<u8> {
    vec![version; 20 + i as usize % 50]
}

/// One that lies in chunks, and one that lies in an extent; zeros at the end, which need not be kept.
const LARGE: [(&str, usize); 2] = [("chunks", 9_000), ("extent", 100_000)];

fn large(len: usize) -> Vec<u8> {
    let mut value: Vec<u8> = (0..3_000).map(|i| i as u8 | 1).collect();
    value.resize(len, 0);
    value
}

/// Three tables with 300 rows each, some changed and some removed after the checkpoint; one transaction prepared, one
/// under way, both with rows that were inserted together.
fn fill(db: &Database) {
    for (name, index) in INDEXES {
        let table = db.byte_table_with(name, TableOptions::new().index(index)).unwrap();
        (0..300).for_each(|i| table.put(&key(i), &value(i, 1)).unwrap());
    }
    db.checkpoint().unwrap();
    for (name, _) in INDEXES {
        let table = db.byte_table(name).unwrap();
        (0..300).step_by(3).for_each(|i| table.put(&key(i), &value(i, 2)).unwrap());
        (1..300).step_by(3).for_each(|i| assert!(table.remove(&key(i)).unwrap()));
    }
    let table = db.byte_table("large").unwrap();
    LARGE.iter().for_each(|(key, len)| table.put(key.as_bytes(), &large(*len)).unwrap());
    db.table::<(u32, String), u64>("typed").unwrap().put(&(7, "a".into()), &9).unwrap();
    let prepared = db.begin().unwrap();
    let rows = [("prepared 1", "perhaps"), ("prepared 2", "perhaps"), ("prepared 3", "perhaps")];
    prepared.bytes(&db.byte_table("bplus").unwrap()).put_many(&rows).unwrap();
    prepared.prepare("voucher").unwrap();
}

fn rows(db: &Database, name: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let table = db.byte_table(name).unwrap();
    let snapshot: Snapshot = db.snapshot().unwrap();
    snapshot.bytes(&table).range(..).map(Result::unwrap).collect()
}

fn expected() -> BTreeMap<Vec<u8>, Vec<u8>> {
    let kept = (0..300).filter(|i| i % 3 != 1);
    kept.map(|i| (key(i).to_vec(), value(i, if i % 3 == 0 { 2 } else { 1 }))).collect()
}

fn read(dir: &Path) -> Files {
    let files = fs::read_dir(dir).unwrap().map(Result::unwrap).filter(|entry| entry.file_name() != "LOCK");
    files.map(|e| (e.file_name().into_string().unwrap(), fs::read(e.path()).unwrap())).collect()
}

/// Writes the files of a golden folder to `dir`, as long as they were.
fn restore(folder: &Path, dir: &Path) {
    for line in fs::read_to_string(folder.join("SIZES")).unwrap().lines() {
        let (name, size) = line.split_once(' ').unwrap();
        let mut content = fs::read(folder.join(name)).unwrap();
        content.resize(size.parse().unwrap(), 0);
        fs::write(dir.join(name), content).unwrap();
    }
}

#[test]
fn every_format_opens_or_is_refused_by_name() {
    let mut seen = Vec::new();
    for folder in fs::read_dir(golden()).unwrap() {
        let folder = folder.unwrap().path();
        let format: u32 =
            folder.file_name().unwrap().to_str().unwrap().strip_prefix("format-").unwrap().parse().unwrap();
        let dir = tempfile::tempdir().unwrap();
        restore(&folder, dir.path());
        let before = read(dir.path());
        match tiny().open(dir.path()) {
            Ok(db) => {
                assert_eq!(format, FORMAT, "an older format opened");
                look(&db);
            }
            Err(Error::OtherFormat { found, .. }) => {
                assert_eq!(found, format);
                assert_ne!(format, FORMAT, "the present format was refused");
                assert_eq!(read(dir.path()), before, "a refused database is left as it was");
            }
            Err(other) => panic!("format {format}: {other}"),
        }
        seen.push(format);
    }
    assert!(seen.contains(&FORMAT), "no golden files of format {FORMAT}: see the head of this file");
}

fn look(db: &Database) {
    assert_eq!(db.tables().unwrap(), ["bplus", "csb", "large", "o2", "typed"]);
    assert_eq!(db.recover(), [b"voucher"]);
    db.rollback_prepared("voucher").unwrap();
    for (name, index) in INDEXES {
        assert_eq!(rows(db, name), expected(), "{name}");
        assert_eq!(db.byte_table(name).unwrap().index(), index);
    }
    let of_large = db.byte_table("large").unwrap();
    LARGE
        .iter()
        .for_each(|(key, len)| assert!(of_large.get(key.as_bytes()).unwrap() == Some(large(*len)), "{key}"));
    assert_eq!(db.byte_table("typed").unwrap().types(), Some(&Types::named("u32,String", "u64")));
    let typed = db.table::<(u32, String), u64>("typed").unwrap();
    assert_eq!(typed.get(&(7, "a".into())).unwrap(), Some(9));
    let report = db.check().unwrap();
    assert_eq!(report.stray_pages, 0);
    // It goes on as a database of today.
    let table = db.byte_table("csb").unwrap();
    table.put(b"new", b"row").unwrap();
    assert_eq!(table.get(b"new").unwrap(), Some(b"row".to_vec()));
}

/// Writes the golden files of the present format.
#[test]
#[ignore = "writes to the source tree; for a new format only"]
fn write_golden_files() {
    let dir = tempfile::tempdir().unwrap();
    // No checkpoint of its own accord while the files are read.
    let db = tiny().log_bytes(64 << 20).durability(Durability::Buffered).open(dir.path()).unwrap();
    fill(&db);
    let cut = db.begin().unwrap();
    let o2 = db.byte_table("o2").unwrap();
    cut.bytes(&o2).put_many(&[(key(0), "never"), (key(1), "committed"), (key(2), "rows")]).unwrap();
    cut.bytes(&o2).insert_many(&[("never", ""), ("never committed", "at all")]).unwrap();
    let folder = golden().join(format!("format-{FORMAT}"));
    fs::create_dir_all(&folder).unwrap();
    let mut sizes = String::new();
    for (name, content) in read(dir.path()) {
        sizes += &format!("{name} {}\n", content.len());
        let end = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        fs::write(folder.join(name), &content[..end]).unwrap();
    }
    fs::write(folder.join("SIZES"), sizes).unwrap();
}
