//! What does a row cost in a snapshot while others change it?
//!
//! `cargo run --release -p foreshore --example old_versions -- DIR [ROWS]`
//!
//! One thread, buffered, in the directory DIR, which is absent or empty; rows of 8 bytes, changed a few times one after another, a
//! thousand in a transaction, beside a snapshot, which needs the first version of each. After each change the snapshot reads all
//! rows, in order and then one by one, and checks that they are as they were.

use foreshore::{Database, Durability, Result};
use std::time::{Duration, Instant};

const ROUNDS: u64 = 4;
/// Old versions may take as much: more than they do.
const OLD_VERSION_BYTES: u64 = 4 << 30;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let dir = args.next().expect("usage: old_versions DIR [ROWS]");
    let rows = args.next().map_or(500_000, |arg| arg.parse().expect("a number"));
    let buffered = Database::builder().durability(Durability::Buffered);
    let db = buffered.old_version_bytes(OLD_VERSION_BYTES).open(&dir)?;
    let table = db.byte_table("t")?;
    let change = |round: u64| {
        let mut keys = (0..rows).map(key).peekable();
        while keys.peek().is_some() {
            let tx = db.begin()?;
            keys.by_ref().take(1000).try_for_each(|key| tx.bytes(&table).put(&key, &round.to_le_bytes()))?;
            tx.commit()?;
        }
        Ok(())
    };
    change(0)?;
    let snapshot = db.snapshot()?;
    println!("changed  scan_ns_per_row  get_ns");
    for round in 1..=ROUNDS {
        let unchanged = 0_u64.to_le_bytes();
        let begun = Instant::now();
        assert_eq!(snapshot.bytes(&table).range(..).count() as u64, rows);
        let scanning = begun.elapsed();
        for key in (0..rows).map(key) {
            assert_eq!(snapshot.bytes(&table).get(&key)?.as_deref(), Some(&unchanged[..]));
        }
        let getting = begun.elapsed() - scanning;
        let per_row = |time: Duration| time.as_nanos() / u128::from(rows);
        println!("{:>7}  {:>15}  {:>6}", round - 1, per_row(scanning), per_row(getting));
        change(round)?;
    }
    Ok(())
}

/// Keys in an order that is not theirs.
fn key(row: u64) -> [u8; 8] {
    row.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}
