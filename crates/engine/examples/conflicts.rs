//! What do transactions cost that get into each other's way?
//!
//! `cargo run --release -p foreshore --example conflicts -- DIR [SECONDS] [THREADS,THREADS,…]`
//!
//! Threads do one kind of transaction on a table in the directory DIR, which is absent or empty, and run it again when it gives way in a
//! deadlock. Buffered. Thousand transactions per second, and deadlocks for each:
//!
//! - `transfer`: reads two of so many accounts, in any order, and then writes both: all who read the same account wait for each other.
//! - `ordered`: the same, but the accounts are read for the update, in the order of their keys, so that nobody gives way.
//! - `stack`: puts a row behind the last one, or removes that.
//! - `batch`: changes so many rows of 10,000, in any order.

use foreshore::{ByteTable, Database, Durability, Result, Transaction, TransactionBytes};
use foreshore_base::random;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

const THREADS: &str = "1,2,8";
const CREDIT: u64 = 1000;
const BATCH_ROWS: u64 = 10_000;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let dir = args.next().expect("usage: conflicts DIR [SECONDS] [THREADS,THREADS,…]");
    let seconds = args.next().map_or(3, |arg| arg.parse().expect("a number"));
    let threads = args.next().unwrap_or(THREADS.into());
    let db = Database::builder().cache_bytes(512 << 20).durability(Durability::Buffered).open(dir)?;
    println!("work  of  threads  thousand_per_s  deadlocks_each");
    for threads in threads.split(',').map(|threads| threads.parse().expect("a number")) {
        for accounts in [2, 10, 1000] {
            for ordered in [false, true] {
                let name = if ordered { "ordered" } else { "transfer" };
                let table = db.byte_table(&format!("{name} {accounts} {threads}"))?;
                fill(&table, accounts, CREDIT)?;
                run(&db, (name, accounts), threads, seconds, |tx, random| {
                    transfer(tx.bytes(&table), accounts, ordered, random)
                });
                assert_eq!(sum(&table)?, accounts * CREDIT, "money that came or went");
            }
        }
        let table = db.byte_table(&format!("stack {threads}"))?;
        fill(&table, 1000, 0)?;
        run(&db, ("stack", 1), threads, seconds, |tx, random| push_or_pop(tx.bytes(&table), random));
        let keys = table.range(..).map(|row| Ok(number(&row?.0))).collect::<Result<Vec<_>>>()?;
        assert!(keys.iter().copied().eq(0..keys.len() as u64), "a stack without holes");
        for rows in [10, 100, 1000] {
            let table = db.byte_table(&format!("batch {rows} {threads}"))?;
            fill(&table, BATCH_ROWS, 0)?;
            let done = run(&db, ("batch", rows), threads, seconds, |tx, random| {
                let table = tx.bytes(&table);
                (0..rows).try_for_each(|_| add(&table, random.below(BATCH_ROWS), 1))
            });
            assert_eq!(sum(&table)?, done * rows, "changes that were lost or made twice");
        }
    }
    db.close()
}

/// Does `work` in transactions of so many threads; how many there were.
fn run(
    db: &Database,
    (name, of): (&str, u64),
    threads: u64,
    seconds: u64,
    work: impl Fn(&Transaction, &mut Random) -> Result<()> + Sync,
) -> u64 {
    let (done, transactions, before) = (AtomicBool::new(false), AtomicU64::new(0), db.stats().deadlocks);
    thread::scope(|scope| {
        for thread in 0..threads {
            let (done, transactions, work) = (&done, &transactions, &work);
            scope.spawn(move || {
                let mut random = Random(thread + 1);
                while !done.load(Relaxed) {
                    db.transact(|tx| work(tx, &mut random)).expect("a transaction that commits");
                    transactions.fetch_add(1, Relaxed);
                }
            });
        }
        thread::sleep(Duration::from_secs(seconds));
        done.store(true, Relaxed);
    });
    let (transactions, deadlocks) = (transactions.into_inner(), db.stats().deadlocks - before);
    let rate = transactions as f64 / seconds as f64 / 1e3;
    println!("{name}  {of}  {threads}  {rate:.1}  {:.3}", deadlocks as f64 / transactions as f64);
    transactions
}

fn transfer(table: TransactionBytes<'_>, accounts: u64, ordered: bool, random: &mut Random) -> Result<()> {
    let from = random.below(accounts);
    let to = (from + 1 + random.below(accounts - 1)) % accounts;
    let read = |account: u64| {
        let row = if ordered { table.get_for_update(&key(account))? } else { table.get(&key(account))? };
        Ok::<_, foreshore::Error>(number(&row.expect("an account")))
    };
    let (first, second) = if ordered { (from.min(to), from.max(to)) } else { (from, to) };
    let (first, second) = (read(first)?, read(second)?);
    let (has, gets) = if from < to || !ordered { (first, second) } else { (second, first) };
    if has > 0 {
        table.put(&key(from), &key(has - 1))?;
        table.put(&key(to), &key(gets + 1))?;
    }
    Ok(())
}

fn push_or_pop(table: TransactionBytes<'_>, random: &mut Random) -> Result<()> {
    let last = table.range(..).next_back().transpose()?.map(|(last, _)| number(&last));
    match last {
        Some(last) if random.below(2) == 0 => table.remove(&key(last)).map(drop),
        last => table.put(&key(last.map_or(0, |last| last + 1)), &[7; 100]),
    }
}

fn add(table: &TransactionBytes<'_>, row: u64, more: u64) -> Result<()> {
    let before = table.get_for_update(&key(row))?.expect("a row");
    table.put(&key(row), &key(number(&before) + more))
}

fn fill(table: &ByteTable, rows: u64, value: u64) -> Result<()> {
    table.bulk_load((0..rows).map(|row| (key(row), key(value)))).map(drop)
}

fn sum(table: &ByteTable) -> Result<u64> {
    table.range(..).map(|row| Ok(number(&row?.1))).sum()
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes[..8].try_into().expect("eight bytes"))
}

/// The seed is the thread's number.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        random::next(&mut self.0) % end
    }
}
