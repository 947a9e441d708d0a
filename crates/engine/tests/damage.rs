//! Corrupt, truncated, zeroed, swapped and foreign files: a typed error or the right rows, never wrong ones, a panic or
//! a hang.
//!
//! `FORESHORE_SEED`, `FORESHORE_ROUNDS` (default 10,000 mutants).

mod common;

use common::{Rng, env, in_parallel, tiny};
use foreshore::Error;
use foreshore_io::{SimDisk, sim::Crash};
use std::collections::BTreeMap;
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
fn examine(disk: &SimDisk, rows: &Rows, what: &str) -> Result<(), Error> {
    let db = tiny().open_on(Arc::new(disk.clone()))?;
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

#[test]
fn damage_is_an_error_or_harmless() {
    let (seed, rounds) = (env("FORESHORE_SEED", 1), env("FORESHORE_ROUNDS", 10_000));
    let (disk, rows) = victim();
    let mut names = disk.names();
    names.retain(|name| name != "LOCK");
    names.sort();
    let outcomes = Mutex::new(BTreeMap::<String, u32>::new());
    let rounds: Vec<u64> = (0..rounds).collect();
    in_parallel(&rounds, |&round| {
        let mut rng = Rng(seed << 32 | round);
        let mutant = disk.after_crash(Crash::ProcessKill, round);
        let did = damage(&mutant, &names, &mut rng);
        let what = format!("seed {seed}, round {round}: {did}");
        let outcome = match examine(&mutant, &rows, &what) {
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
    });
    let outcomes = outcomes.into_inner().unwrap();
    println!("{} mutants: {outcomes:?}", rounds.len());
    assert!(outcomes.len() > 2 && outcomes.contains_key(HARMLESS), "the mutator does not mutate");
}

/// A leaf size that no leaf has, under a checksum that fits.
#[test]
fn a_senseless_leaf_size_is_refused() {
    let (disk, _) = victim();
    for leaf_bytes in [0u32, 5000, 12288, 1 << 20, u32::MAX] {
        disk.corrupt("FORESHORE", |bytes| {
            bytes[20..24].copy_from_slice(&leaf_bytes.to_le_bytes());
            let checksum = crc32c::crc32c(&bytes[..44]);
            bytes[44..].copy_from_slice(&checksum.to_le_bytes());
        });
        for rebuild in [false, true] {
            let refused = tiny().rebuild(rebuild).open_on(Arc::new(disk.clone()));
            assert!(matches!(refused, Err(Error::Incompatible { .. })), "{leaf_bytes}: {refused:?}");
        }
    }
}
