//! Tables remember of which types their rows are.

use foreshore::{Database, Error, Index, TableOptions, Types};
use foreshore_io::sim::Crash;
use foreshore_io::{MemVfs, SimDisk};
use std::sync::Arc;

/// More than lies in a row itself.
const LARGE: [u8; 10_000] = [7; 10_000];

/// Is the table of these rows, and of no others?
fn is_of_words(db: &Database, name: &str) {
    assert_eq!(db.byte_table(name).unwrap().types(), Some(&Types::named("u32,String", "Vec<u8>")));
    db.table::<(u32, String), Vec<u8>>(name).unwrap();
    let refused = db.table::<u32, Vec<u8>>(name).unwrap_err();
    assert!(matches!(refused, Error::Argument(_)), "{refused:?}");
    let refused = db.existing_table::<(u32, String), String>(name).unwrap_err().to_string();
    assert!(
        refused.contains(
            "keys of u32,String and values of Vec<u8>, and not keys of u32,String and values of String"
        ),
        "{refused}"
    );
}

/// Also when its first large value, or another name, writes its row in the catalog anew.
#[test]
fn types_are_there_after_a_crash() {
    let open = |disk: &SimDisk| Database::builder().open_on(Arc::new(disk.clone())).unwrap();
    let crashed = |disk: &SimDisk| {
        disk.crash();
        disk.after_crash(Crash::PowerLoss, 7)
    };
    let disk = SimDisk::new(7);
    let db = open(&disk);
    db.table::<(u32, String), Vec<u8>>("words").unwrap();
    db.byte_table("bytes").unwrap();
    is_of_words(&db, "words");
    let disk = crashed(&disk);
    drop(db);

    let db = open(&disk);
    is_of_words(&db, "words");
    assert_eq!(db.byte_table("bytes").unwrap().types(), None);
    let words = db.table::<(u32, String), Vec<u8>>("words").unwrap();
    words.put(&(1, "a".into()), &LARGE.to_vec()).unwrap();
    assert!(db.rename_table("words", "names").unwrap());
    is_of_words(&db, "names");
    let disk = crashed(&disk);
    drop((db, words));

    let db = open(&disk);
    is_of_words(&db, "names");
    let names = db.table::<(u32, String), Vec<u8>>("names").unwrap();
    assert_eq!(names.get(&(1, "a".into())).unwrap().as_deref(), Some(&LARGE[..]));
    db.check().unwrap();
}

/// A copy is opened by the same program.
#[test]
fn copies_have_the_types() {
    let db = Database::in_memory().unwrap();
    let options = TableOptions::new().index(Index::CsbPlus).leaf_bytes(16 << 10);
    db.table_with::<(u32, String), Vec<u8>>("words", options)
        .unwrap()
        .put(&(1, "a".into()), &vec![1])
        .unwrap();
    let copy = Arc::new(MemVfs::new());
    db.backup_on(copy.clone(), |_| {}).unwrap();
    let copied = Database::builder().open_on(copy).unwrap();
    is_of_words(&copied, "words");
    let words = copied.byte_table("words").unwrap();
    assert_eq!((words.index(), words.leaf_bytes()), (Index::CsbPlus, 16 << 10));
}

/// Whoever opens a table by the byte takes it as it is, and what is dropped is forgotten.
#[test]
fn types_bind_who_says_them() {
    let db = Database::in_memory().unwrap();
    db.byte_table("t").unwrap();
    for _ in 0..2 {
        db.table::<u32, u32>("t").unwrap().put(&1, &2).unwrap();
        assert_eq!(db.table::<u32, u64>("t").unwrap().get(&1).unwrap(), Some(2));
        assert!(db.table::<u64, u64>("t").is_ok(), "it was made without types");
    }
    assert!(db.drop_table("t").unwrap());
    db.table::<u32, u32>("t").unwrap().put(&1, &2).unwrap();
    assert_eq!(db.table::<u32, u64>("t").unwrap().get(&1).unwrap(), Some(2), "it is written the same");
    assert!(db.table::<u64, u64>("t").is_err());
    assert!(db.byte_table("t").unwrap().get(&1_u32.to_be_bytes()).unwrap().is_some());
    assert!(db.drop_table("t").unwrap());
    assert!(db.table::<u64, u64>("t").is_ok());
}

/// Whatever its name and its types, a table has its row in the catalog, in the smallest leaves, too.
#[test]
fn long_names_and_types_fit() {
    let disk = Arc::new(MemVfs::new());
    let open = || Database::builder().leaf_bytes(4096).open_on(disk.clone()).unwrap();
    let types = || Types::named(&"(u8),".repeat(100), &"String,".repeat(100));
    let name = |n: u32| format!("{n:03}{}", "n".repeat(989));
    let db = open();
    for n in 0..40 {
        db.byte_table_with(&name(n), TableOptions::new().types(types())).unwrap().put(b"k", &LARGE).unwrap();
    }
    db.close().unwrap();
    let db = open();
    for n in 0..40 {
        let table = db.byte_table(&name(n)).unwrap();
        assert_eq!((table.types(), table.get(b"k").unwrap().as_deref()), (Some(&types()), Some(&LARGE[..])));
    }
    db.check().unwrap();
}
