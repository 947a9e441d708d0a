//! Corrupt, truncated, zeroed, swapped and foreign files: a typed error or the right rows, never wrong ones, a panic or
//! a hang.
//!
//! `FORESHORE_SEED`, `FORESHORE_ROUNDS` (default 10,000 mutants).

mod common;
mod crafting;

use common::{Rng, env, in_parallel, tiny};
use crafting::with_meta;
use foreshore::{Builder, Database, Error, TableOptions};
use foreshore_io::{SimDisk, Vfs, sim::Crash};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// First byte of the keys of rows that may be lost.
const SENTINEL: u8 = 0xFF;

/// What the outcome of a change is called that shows nowhere.
const HARMLESS: &str = "harmless";

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// A database with pages on disk and a log to redo, as a process kill leaves it.
fn victim() -> (SimDisk, Rows) {
    let disk = SimDisk::new(3);
    let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
    let table = db.byte_table("t").unwrap();
    let mut rows = Rows::new();
    for i in 0..400u32 {
        let (key, value) = (i.wrapping_mul(2_654_435_761).to_be_bytes().to_vec(), vec![i as u8; 60]);
        table.put(&key, &value).unwrap();
        if key[0] != SENTINEL {
            rows.insert(key, value);
        }
        if i == 250 {
            db.checkpoint().unwrap();
        }
    }
    // Damage to the very last flights of the log looks like a tail torn by a crash, which is no error. So the rows
    // that count are followed by a few that do not.
    for i in 0..6u32 {
        table.put(&[SENTINEL, i as u8], &[]).unwrap();
    }
    (disk.after_crash(Crash::ProcessKill, 1), rows)
}

/// One way to damage one file. Says what it did. The segment in use, the last but those made ahead, is not replaced
/// whole: that, too, looks like a crash before it was written.
fn damage(disk: &SimDisk, names: &[String], rng: &mut Rng) -> String {
    let name = &names[rng.below(names.len())];
    let mut what = String::new();
    let newest: Vec<_> = names.iter().filter(|name| name.starts_with("wal-")).rev().take(3).collect();
    let kind = rng.below(if newest.contains(&name) { 5 } else { 6 });
    let other = names[rng.below(names.len())].clone();
    let mut content = Vec::new();
    disk.corrupt(&other, |bytes| content.clone_from(bytes));
    disk.corrupt(name, |bytes| {
        let len = bytes.len();
        if len == 0 {
            return;
        }
        let at = rng.below(len);
        match kind {
            0 => {
                bytes[at] ^= 1 << rng.below(8);
                what = format!("flipped a bit of byte {at} of {name}");
            }
            1 => {
                bytes.truncate(at);
                what = format!("cut {name} to {at} of {len}");
            }
            2 => {
                let end = (at + rng.below(8192)).min(len);
                bytes[at..end].fill(0);
                what = format!("zeroed {at}..{end} of {name}");
            }
            3 => {
                let (a, b) = (at / 4096, rng.below(len) / 4096);
                if (a.max(b) + 1) * 4096 <= len {
                    for i in 0..4096 {
                        bytes.swap(a * 4096 + i, b * 4096 + i);
                    }
                }
                what = format!("swapped blocks {a} and {b} of {name}");
            }
            4 => {
                let end = (at + 1 + rng.below(600)).min(len);
                for byte in &mut bytes[at..end] {
                    *byte = rng.below(256) as u8;
                }
                what = format!("scribbled over {at}..{end} of {name}");
            }
            _ => {
                bytes.clone_from(&content);
                what = format!("put {other} in place of {name}");
            }
        }
    });
    what
}

/// Rows that differ from those written are never returned; rows may only be missing if an error was.
fn examine_rows(db: &Database, rows: &Rows, what: &str) -> Result<(), Error> {
    let table = db.byte_table("t")?;
    for (key, value) in rows {
        match table.get(key)? {
            Some(found) => assert_eq!(&found, value, "{what}: a wrong value for {key:?}"),
            None => panic!("{what}: {key:?} is silently gone"),
        }
    }
    let mut scanned = 0;
    for row in table.range(..) {
        let (key, value) = row?;
        if key[0] == SENTINEL {
            continue;
        }
        assert_eq!(rows.get(&key), Some(&value), "{what}: a row that was never written");
        scanned += 1;
    }
    assert_eq!(scanned, rows.len(), "{what}");
    db.check()?;
    Ok(())
}

/// Opens and reads; of what is well, now and then, another life finds what this one has written.
fn examine(disk: &SimDisk, mut rows: Rows, rng: &mut Rng, what: &str) -> Result<(), Error> {
    let db = tiny().open_on(Arc::new(disk.clone()))?;
    examine_rows(&db, &rows, what)?;
    if rng.below(4) > 0 {
        return Ok(());
    }
    let table = db.byte_table("t")?;
    for _ in 0..40 {
        let (key, value) = (vec![rng.below(200) as u8, 7], vec![rng.next() as u8; rng.below(300)]);
        table.put(&key, &value)?;
        rows.insert(key, value);
    }
    let end = [Crash::ProcessKill, Crash::PowerLoss][rng.below(2)];
    let next = disk.after_crash(end, rng.next());
    drop((table, db));
    examine_rows(&tiny().open_on(Arc::new(next))?, &rows, &format!("{what}, then {end:?}"))
}

#[test]
fn damage_is_an_error_or_harmless() {
    let (seed, rounds) = (env("FORESHORE_SEED", 1), env("FORESHORE_ROUNDS", 10_000));
    let (disk, rows) = victim();
    let mut names = disk.names();
    names.retain(|name| name != "LOCK");
    names.sort();
    let outcomes = Outcomes::default();
    let rounds: Vec<u64> = (0..rounds).collect();
    in_parallel(&rounds, |&round| {
        let mut rng = Rng(seed << 32 | round);
        let mutant = disk.after_crash(Crash::ProcessKill, round);
        let did = damage(&mutant, &names, &mut rng);
        let what = format!("seed {seed}, round {round}: {did}");
        note(&outcomes, &what, examine(&mutant, rows.clone(), &mut rng, &what));
    });
    let outcomes = outcomes.into_inner().unwrap();
    println!("{} mutants: {outcomes:?}", rounds.len());
    assert!(outcomes.len() > 2 && outcomes.contains_key(HARMLESS), "the mutator does not mutate");
}

/// A file that was cut is damage, or does no harm; it is not a fault of the device, after which another try might do.
#[test]
fn a_cut_file_is_damage() {
    let (disk, rows) = victim();
    for name in disk.names().into_iter().filter(|name| name != "LOCK") {
        let mutant = disk.after_crash(Crash::ProcessKill, 1);
        mutant.corrupt(&name, |bytes| bytes.truncate(100));
        match examine(&mutant, rows.clone(), &mut Rng(1), &name) {
            Ok(()) | Err(Error::Corrupt { .. } | Error::Incompatible { .. }) => {}
            Err(error) => panic!("{name}: {error:?}"),
        }
    }
}

/// What one thread after another found.
type Outcomes = Mutex<BTreeMap<String, u32>>;

/// Counts what came of a mutant; only some errors say that stored bytes are not what was written.
fn note(outcomes: &Outcomes, what: &str, result: Result<(), Error>) {
    let outcome = match result {
        Ok(()) => HARMLESS.to_owned(),
        Err(
            e @ (Error::Corrupt { .. }
            | Error::Incompatible { .. }
            | Error::OtherFormat { .. }
            | Error::Io { .. }),
        ) => format!("{e:?}").split([' ', '{', '(']).next().unwrap().to_owned(),
        Err(e) => panic!("{what}: {e:?}"),
    };
    *outcomes.lock().unwrap().entry(outcome).or_default() += 1;
}

/// The rows of each table, and each row that ever was.
#[derive(Clone, Default)]
struct Tables {
    rows: BTreeMap<String, Rows>,
    ever: BTreeSet<(String, Vec<u8>, Vec<u8>)>,
}

impl Tables {
    /// Was there ever such a row in the table of this name? In one that has lost its own name if there was in any, pieces of large values
    /// included.
    fn has_known(&self, name: &str, key: &[u8], value: &[u8]) -> bool {
        let of = |name: &str| self.ever.contains(&(name.to_string(), key.to_vec(), value.to_vec()));
        let of_passing = key.len() == 1 && value == [key[0]; 300];
        let is_piece = [9, 13].contains(&key.len()) && key[0] <= 2;
        match name {
            "passing" => of_passing,
            name if name.starts_with("recovered-") => {
                of_passing || is_piece || self.rows.keys().any(|name| of(name))
            }
            name => of(name),
        }
    }
}

/// With room for the records of the largest leaves.
fn roomy() -> Builder {
    tiny().ring_bytes(256 << 10)
}

/// The tables of [`closed`] that stay: the size of their leaves, and the length of the longest value.
const STAYING: [(&str, usize, usize); 3] = [("small", 4096, 90), ("wide", 16384, 300), ("large", 4096, 9000)];

/// Puts, replaces and removes rows in each table.
fn write(db: &Database, tables: &mut Tables, rng: &mut Rng, each: usize) -> Result<(), Error> {
    for (name, leaf_bytes, len_max) in STAYING {
        let table = db.byte_table_with(name, TableOptions::new().leaf_bytes(leaf_bytes))?;
        for _ in 0..each {
            let key = (rng.below(3 * each) as u32).to_be_bytes().to_vec();
            let value = vec![rng.next() as u8; rng.below(len_max)];
            if rng.below(4) == 0 {
                table.remove(&key)?;
                tables.rows.entry(name.into()).or_default().remove(&key);
                continue;
            }
            table.put(&key, &value)?;
            tables.ever.insert((name.into(), key.clone(), value.clone()));
            tables.rows.entry(name.into()).or_default().insert(key, value);
        }
    }
    Ok(())
}

/// A closed database that has had several lives: leaves of several sizes, large values, rows that were replaced and removed,
/// a table that is gone.
fn closed() -> (SimDisk, Tables) {
    let (disk, mut tables, mut rng) = (SimDisk::new(4), Tables::default(), Rng(4));
    for _ in 0..3 {
        let db = roomy().open_on(Arc::new(disk.clone())).unwrap();
        let (key, value) = (vec![rng.below(2) as u8], vec![rng.next() as u8; 70_000 + rng.below(9000)]);
        db.byte_table("largest").unwrap().put(&key, &value).unwrap(); // in an extent
        tables.ever.insert(("largest".into(), key.clone(), value.clone()));
        tables.rows.entry("largest".into()).or_default().insert(key, value);
        let passing = db.byte_table_with("passing", TableOptions::new().leaf_bytes(8192)).unwrap();
        (0..40u8).for_each(|i| passing.put(&[i], &[i; 300]).unwrap());
        write(&db, &mut tables, &mut rng, 40).unwrap();
        db.checkpoint().unwrap();
        drop(passing);
        db.drop_table("passing").unwrap();
        write(&db, &mut tables, &mut rng, 20).unwrap();
        db.close().unwrap();
    }
    (disk.after_crash(Crash::PowerLoss, 1), tables)
}

/// One way to damage one file of a closed database, whichever it is. Says what it did.
fn damage_closed(disk: &SimDisk, rng: &mut Rng) -> String {
    let mut names = disk.names();
    names.retain(|name| name != "LOCK");
    names.sort();
    let name = names[rng.below(names.len())].clone();
    let file = |name: &str| {
        let mut content = Vec::new();
        disk.corrupt(name, |bytes| content.clone_from(bytes));
        content
    };
    match rng.below(8) {
        0 => {
            disk.remove(&name).unwrap();
            format!("removed {name}")
        }
        1 => {
            let (len, byte) = (1 + rng.below(20_000), rng.next() as u8);
            disk.corrupt(&name, |bytes| bytes.resize(bytes.len() + len, byte));
            format!("appended {len} times {byte} to {name}")
        }
        2 => {
            let (other, unit) =
                (names[rng.below(names.len())].clone(), [512, 4096, 8192, 16384][rng.below(4)]);
            let from = file(&other);
            let mut what = String::new();
            disk.corrupt(&name, |bytes| {
                let (source, target) = (rng.below(from.len() / unit), rng.below(bytes.len() / unit));
                if (source + 1) * unit <= from.len() && (target + 1) * unit <= bytes.len() {
                    bytes[target * unit..][..unit].copy_from_slice(&from[source * unit..][..unit]);
                }
                what = format!(
                    "copied {unit} bytes at {} of {other} to {} of {name}",
                    source * unit,
                    target * unit
                );
            });
            what
        }
        _ => damage(disk, &names, rng),
    }
}

/// Every row of every table by every way of reading, and nothing else.
fn examine_tables(db: &Database, tables: &Tables, what: &str) -> Result<(), Error> {
    let names: BTreeSet<_> = db.tables()?.into_iter().collect();
    assert!(names.iter().eq(tables.rows.keys()), "{what}: tables {names:?}");
    for (name, rows) in &tables.rows {
        let table = db.byte_table(name)?;
        for (key, value) in rows {
            assert!(table.get(key)?.as_ref() == Some(value), "{what}: {key:?} of {name} is another");
        }
        let up = table.range(..).collect::<Result<Vec<_>, _>>()?;
        assert!(up.iter().map(|(key, value)| (key, value)).eq(rows), "{what}: other rows in {name}");
        let down = table.range(..).rev().collect::<Result<Vec<_>, _>>()?;
        assert!(down.iter().rev().map(|(key, value)| (key, value)).eq(rows), "{what}: other rows in {name}");
        let keys: Vec<_> = rows.keys().collect();
        let many = table.multi_get(&keys)?;
        assert!(many.iter().flatten().eq(rows.values()), "{what}: other values in {name}");
        for key in (0..200u32).map(u32::to_be_bytes).filter(|key| !rows.contains_key(&key[..])) {
            assert_eq!(table.get(&key)?, None, "{what}: {key:?} of {name}");
        }
    }
    let report = db.check()?;
    for (name, rows) in &tables.rows {
        let counted = report.tables.iter().find(|table| &table.name == name).map(|table| table.rows);
        assert_eq!(counted, Some(rows.len() as u64), "{what}: {report:?}");
    }
    Ok(())
}

/// Opens and reads; if all is well, goes on with it, and looks again in the next life.
fn examine_closed(mut disk: SimDisk, mut tables: Tables, rng: &mut Rng, what: &str) -> Result<(), Error> {
    for life in 0..3 {
        let what = format!("{what}, life {life}");
        let db = roomy().open_on(Arc::new(disk.clone()))?;
        examine_tables(&db, &tables, &what)?;
        write(&db, &mut tables, rng, 20)?;
        let end = [None, Some(Crash::ProcessKill), Some(Crash::PowerLoss)][rng.below(3)];
        disk = match end {
            None => {
                db.close()?;
                disk.after_crash(Crash::PowerLoss, rng.next())
            }
            Some(end) => disk.after_crash(end, rng.next()),
        };
    }
    Ok(())
}

/// Looks at copies of a closed database, each damaged once or several times; what came of them.
///
/// `FORESHORE_SEED`, `FORESHORE_ROUNDS`.
fn examine_mutants(
    examine: impl Fn(SimDisk, &Tables, &mut Rng, &str) -> Result<(), Error> + Sync,
) -> BTreeMap<String, u32> {
    let (seed, rounds) = (env("FORESHORE_SEED", 1), env("FORESHORE_ROUNDS", 100));
    let (disk, tables) = closed();
    let outcomes = Outcomes::default();
    in_parallel(&(0..rounds).collect::<Vec<_>>(), |&round| {
        let mut rng = Rng(seed << 32 | round);
        let mutant = disk.after_crash(Crash::PowerLoss, round);
        let did: Vec<_> = (0..1 + rng.below(3)).map(|_| damage_closed(&mutant, &mut rng)).collect();
        let what = format!("seed {seed}, round {round}: {did:?}");
        note(&outcomes, &what, examine(mutant, &tables, &mut rng, &what));
    });
    let outcomes = outcomes.into_inner().unwrap();
    println!("{rounds} mutants: {outcomes:?}");
    outcomes
}

/// Whatever of its files is damaged, once or several times.
#[test]
fn damage_of_a_closed_database_is_an_error_or_harmless() {
    let outcomes = examine_mutants(|disk, tables, rng, what| examine_closed(disk, tables.clone(), rng, what));
    assert!(outcomes.len() > 2 && outcomes.contains_key(HARMLESS), "the mutator does not mutate");
}

/// The last resort takes what is whole, old or new, and nothing that was never written.
#[test]
fn a_rebuild_from_damage_makes_nothing_up() {
    let outcomes = examine_mutants(|disk, tables, _, what| salvage(disk, tables, what));
    assert!(outcomes.len() > 1 && outcomes.contains_key(HARMLESS), "the mutator does not mutate");
}

/// Rebuilds, and reads what there is.
fn salvage(disk: SimDisk, tables: &Tables, what: &str) -> Result<(), Error> {
    let db = roomy().rebuild(true).open_on(Arc::new(disk))?;
    for name in db.tables()? {
        for row in db.byte_table(&name)?.range(..) {
            let (key, value) = row?;
            assert!(tables.has_known(&name, &key, &value), "{what}: {key:?} of {name} was never written so");
        }
    }
    db.check()?;
    db.close()
}

/// A leaf size that no leaf has, under a checksum that fits.
#[test]
fn a_senseless_leaf_size_is_refused() {
    let (disk, _) = victim();
    for leaf_bytes in [0u32, 5000, 12288, 1 << 20, u32::MAX] {
        with_meta(&disk, |bytes| {
            bytes[20..24].copy_from_slice(&leaf_bytes.to_le_bytes());
        });
        for rebuild in [false, true] {
            let refused = tiny().rebuild(rebuild).open_on(Arc::new(disk.clone()));
            assert!(matches!(refused, Err(Error::Incompatible { .. })), "{leaf_bytes}: {refused:?}");
        }
    }
}

/// A database with a row of each of its lives, of which the last one was closed or killed.
fn of_many_lives(last: Option<Crash>) -> (SimDisk, Vec<Vec<u8>>) {
    let mut disk = SimDisk::new(7);
    let keys: Vec<_> = (0..5_u8).map(|life| vec![life; 3]).collect();
    for key in &keys {
        let db = tiny().open_on(Arc::new(disk.clone())).unwrap();
        db.byte_table(&format!("table {}", key[0] % 2)).unwrap().put(key, key).unwrap();
        match last.filter(|_| Some(key) == keys.last()) {
            None => db.close().unwrap(),
            Some(end) => disk = disk.after_crash(end, 1),
        }
    }
    (disk, keys)
}

/// The rows of both tables.
fn keys_of(db: &Database) -> Vec<Vec<u8>> {
    let of = |name| db.existing_byte_table(name).map(|table| table.range(..).map(|row| row.unwrap().0));
    let mut keys: Vec<_> = ["table 0", "table 1"].into_iter().filter_map(of).flatten().collect();
    keys.sort();
    keys
}

/// A directory that ends early does not only lack leaves: without the entry of an opening, all that was logged since would not be
/// looked for.
#[test]
fn a_directory_that_has_lost_its_end_is_damaged() {
    const DIRECTORY: &str = "directory-0000000000000000";
    for last in [None, Some(Crash::ProcessKill), Some(Crash::PowerLoss)] {
        let (disk, keys) = of_many_lives(last);
        let mut used = 0;
        disk.corrupt(DIRECTORY, |bytes| used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1);
        let (mut refused, mut found_again) = (0, 0);
        for cut in (0..used).step_by(8) {
            let copy = || {
                let copy = disk.after_crash(Crash::ProcessKill, 1);
                copy.corrupt(DIRECTORY, |bytes| bytes.truncate(cut));
                Arc::new(copy)
            };
            let told = match tiny().open_on(copy()) {
                Ok(db) => {
                    assert_eq!(keys_of(&db), keys, "{last:?}, cut at {cut}");
                    continue;
                }
                Err(Error::Corrupt { detail, .. }) => detail,
                Err(error) => panic!("{last:?}, cut at {cut}: {error}"),
            };
            refused += 1;
            if last.is_none() || told.contains("its end is missing") {
                // What the log holds is not lost with it.
                let db = tiny().rebuild(true).open_on(copy()).unwrap();
                assert_eq!(keys_of(&db), keys, "{last:?}, cut at {cut}, built again");
                db.close().unwrap();
                found_again += 1;
            }
        }
        // The leaves of a closed database have all, whatever is left of the directory.
        let are_all = refused == found_again;
        assert!(
            found_again > 0 && are_all == last.is_none(),
            "{last:?}: {found_again} of {refused} found again"
        );
    }
}

/// The log's buffer may hold what is nowhere else.
#[test]
fn a_database_without_its_ring_is_damaged() {
    let (disk, keys) = of_many_lives(Some(Crash::ProcessKill));
    disk.remove("ring").unwrap();
    match tiny().open_on(Arc::new(disk.clone())) {
        Err(Error::Corrupt { detail, .. }) => assert!(detail.contains("`ring` is missing"), "{detail}"),
        other => panic!("{other:?}"),
    }
    let db = tiny().rebuild(true).open_on(Arc::new(disk)).unwrap();
    assert!(keys_of(&db).iter().all(|key| keys.contains(key)));
}
