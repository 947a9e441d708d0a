//! The engine stays right with each old primitive switched back in (`src/stage.rs`): what the laboratory measures is a
//! working engine, only slower.
//!
//! Run: `RUSTFLAGS="--cfg foreshore_stages" cargo test --release -p foreshore --test stages --target-dir target/stages`.
//!
//! A process has one choice of primitives, so each is tried in a child: this program, told to run `one_stage`.
#![cfg(foreshore_stages)]

use foreshore::{Database, Durability, Result, Transaction};
use std::process::{self, Command, Output};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

const ACCOUNTS: u64 = 64;
const THREADS: u64 = 4;
const ROUNDS: u64 = 400;

/// Every primitive by itself, and the baseline of Figure 7.
const STAGES: [&str; 12] = [
    "",
    "pool-mutex",
    "pool-buckets",
    "space-mutex",
    "space-spin",
    "space-ticket",
    "transactions-mutex",
    "log-mutex",
    "keys-mutex",
    "commits-alone",
    "latched-reads",
    "pool-mutex,space-mutex,transactions-mutex,log-mutex,keys-mutex,commits-alone,latched-reads",
];

fn child(old: &str) -> Output {
    let program = std::env::current_exe().unwrap();
    let flags = ["--exact", "one_stage", "--ignored", "--nocapture"];
    Command::new(program).args(flags).env("FORESHORE_OLD", old).output().unwrap()
}

#[test]
fn every_stage_is_right() {
    for old in STAGES {
        let output = child(old);
        let [text, told] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{old:?}: {}: {text}{told}",
            output.status
        );
    }
}

#[test]
fn an_unknown_primitive_is_named() {
    let output = child("pool-mutex,giant-lock");
    let text = String::from_utf8_lossy(&output.stderr);
    let has_failed = output.status.code() == Some(101); // it did not hang, which has no code
    assert!(has_failed && text.contains("giant-lock"), "{}: {text}", output.status);
}

fn random(seed: u64) -> u64 {
    let x = (seed ^ seed >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    x ^ x >> 33
}

fn balance(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes[..8].try_into().unwrap())
}

/// Threads move money between accounts and fill tables of their own, whose leaves split, leave a cache of 1 MiB and come
/// back; between them they write a row each by itself. No money comes or goes, and every row is there, before a restart and after it.
#[test]
#[ignore = "run by every_stage_is_right"]
fn one_stage() {
    let (_ends, has_ended) = mpsc::channel::<()>();
    thread::spawn(move || {
        // It takes a second.
        if has_ended.recv_timeout(Duration::from_secs(180)) == Err(RecvTimeoutError::Timeout) {
            process::abort() // threads wait for each other
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let options =
        || Database::builder().leaf_bytes(4096).cache_bytes(1 << 20).durability(Durability::Buffered);
    let db = options().open(dir.path()).unwrap();
    let accounts = db.byte_table("accounts").unwrap();
    for account in 0..ACCOUNTS {
        accounts.put(&account.to_be_bytes(), &1000u64.to_be_bytes()).unwrap();
    }
    drop(accounts); // a handle keeps the database open
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let db = &db;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    db.transact(|tx| work(db, tx, thread, round)).unwrap();
                    note(db, thread, round);
                    check_total(db);
                }
            });
        }
    });
    // A commit that waits for the device, too.
    db.sync().unwrap();
    check(&db);
    db.close().unwrap();
    check(&options().open(dir.path()).unwrap());
}

fn work(db: &Database, tx: &Transaction, thread: u64, round: u64) -> Result<()> {
    let accounts = db.byte_table("accounts")?;
    let rows = tx.bytes(&accounts);
    let seed = thread * ROUNDS + round;
    let (from, to) = (random(seed) % ACCOUNTS, random(!seed) % ACCOUNTS);
    if from != to {
        let [a, b] = [from, to].map(u64::to_be_bytes);
        let balances = [rows.get_for_update(&a)?, rows.get_for_update(&b)?].map(|row| balance(&row.unwrap()));
        let moved = balances[0].min(7);
        rows.put(&a, &(balances[0] - moved).to_be_bytes())?;
        rows.put(&b, &(balances[1] + moved).to_be_bytes())?;
    }
    let own = db.byte_table(&format!("own-{thread}"))?;
    for row in 0..4 {
        assert!(tx.bytes(&own).insert(&(4 * round + row).to_be_bytes(), &[thread as u8; 300])?);
    }
    Ok(())
}

/// A change of one row by itself, of which the snapshots of other threads keep an image.
fn note(db: &Database, thread: u64, round: u64) {
    db.byte_table("notes").unwrap().put(&thread.to_be_bytes(), &round.to_be_bytes()).unwrap();
}

/// In a snapshot, whatever is under way.
fn check_total(db: &Database) {
    let accounts = db.byte_table("accounts").unwrap();
    let snapshot = db.snapshot().unwrap();
    let total: u64 = snapshot.bytes(&accounts).range(..).map(|row| balance(&row.unwrap().1)).sum();
    assert_eq!(total, 1000 * ACCOUNTS);
}

fn check(db: &Database) {
    check_total(db);
    for thread in 0..THREADS {
        let own = db.byte_table(&format!("own-{thread}")).unwrap();
        assert_eq!(own.range(..).count() as u64, 4 * ROUNDS);
    }
    db.check().unwrap();
}
