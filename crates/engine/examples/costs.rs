//! What an operation costs that does not depend on the clock: log bytes, writes to shared memory, memory held.
//!
//!     cargo run --release -p foreshore --example costs
//!     RUSTFLAGS="--cfg count_writes" cargo run --release -p foreshore --example costs --target-dir target/count
//!
//! The second build counts, for each operation: writes to atomics; cache lines written; and lines that the other of two
//! threads writes too, working by turns on rows of its own: those move from core to core. Runs differ by about a percent: names of locks are hashed with a
//! key of their own each time, and the log is padded where a flight leaves.
//!
//! With the name of an operation and a number it does that operation so often, on one thread, for a tool that counts
//! instructions; two numbers cancel what loading costs:
//!
//!     valgrind --tool=callgrind target/release/examples/costs get 1000
//!     valgrind --tool=callgrind target/release/examples/costs get 11000

use foreshore::{ByteTable, Database, Durability, Result, Stats};

/// Rows of the table, half for each thread; each has an 8-byte key and 92 bytes of value.
const ROWS: u64 = 200_000;
const VALUE: [u8; 92] = [7; 92];
/// Operations of each thread that are counted, at least, after as many that are not.
const OPERATIONS_COUNTED: u64 = 2000;

/// Bytes of a wide row, as a row of TPC-C's STOCK has.
const WIDE: [u8; 300] = [7; 300];

/// A database with two full tables, and an empty one for each thread.
struct World {
    db: Database,
    rows: ByteTable,
    wide: ByteTable,
    own: [ByteTable; 2],
    // Last, so that the directory outlives the database.
    _dir: tempfile::TempDir,
}

/// An operation: its name, how many of it one call does, and the call with this number on this thread.
struct Operation {
    name: &'static str,
    in_a_call: u64,
    call: fn(&World, usize, u64) -> Result<()>,
}

const OPERATIONS: &[Operation] = &[
    Operation { name: "get", in_a_call: 1, call: |w, t, n| read(w.rows.get(&present(t, n))?) },
    Operation { name: "snapshot-get", in_a_call: 100, call: snapshot_get },
    Operation { name: "range-row", in_a_call: 1000, call: range },
    Operation { name: "put", in_a_call: 1, call: |w, t, n| w.rows.put(&present(t, n), &VALUE) },
    Operation { name: "insert", in_a_call: 1, call: |w, t, n| w.rows.put(&absent(t, n), &VALUE) },
    Operation { name: "remove", in_a_call: 1, call: |w, t, n| w.rows.remove(&present(t, n)).map(drop) },
    Operation { name: "transactional-get", in_a_call: 100, call: transactional_get },
    Operation { name: "transactional-put", in_a_call: 100, call: transactional_put },
    Operation { name: "transactional-modify", in_a_call: 100, call: transactional_modify },
    Operation { name: "transactional-insert", in_a_call: 1000, call: transactional_insert },
    Operation { name: "begin-put-commit", in_a_call: 1, call: begin_put_commit },
];

impl Operation {
    /// Counted calls of each thread.
    fn calls(&self) -> u64 {
        (OPERATIONS_COUNTED / self.in_a_call).max(10)
    }
}

/// The key of a loaded row of this thread's half: they lie apart, so that two calls rarely meet in a leaf.
fn present(thread: usize, n: u64) -> [u8; 8] {
    let half = ROWS / 2;
    (4 * (thread as u64 * half + n * 7919 % half)).to_be_bytes()
}

/// A key between loaded ones.
fn absent(thread: usize, n: u64) -> [u8; 8] {
    let [.., last] = present(thread, n);
    let mut key = present(thread, n);
    key[7] = last | 1;
    key
}

fn read(value: Option<Vec<u8>>) -> Result<()> {
    assert_eq!(value.expect("the row is there"), VALUE);
    Ok(())
}

fn snapshot_get(world: &World, thread: usize, n: u64) -> Result<()> {
    let snapshot = world.db.snapshot()?;
    let rows = snapshot.bytes(&world.rows);
    (0..100).try_for_each(|i| read(rows.get(&present(thread, 100 * n + i))?))
}

fn range(world: &World, thread: usize, n: u64) -> Result<()> {
    let from = present(thread, n).min((4 * (ROWS - 1000)).to_be_bytes());
    world.rows.range(&from[..]..).take(1000).try_for_each(|row| read(Some(row?.1)))
}

fn transactional_get(world: &World, thread: usize, n: u64) -> Result<()> {
    let tx = world.db.begin()?;
    let rows = tx.bytes(&world.rows);
    (0..100).try_for_each(|i| read(rows.get(&present(thread, 100 * n + i))?))?;
    tx.commit()
}

fn transactional_put(world: &World, thread: usize, n: u64) -> Result<()> {
    let tx = world.db.begin()?;
    let rows = tx.bytes(&world.rows);
    (0..100).try_for_each(|i| rows.put(&present(thread, 100 * n + i), &VALUE))?;
    tx.commit()
}

/// Reads wide rows for an update, and changes eight bytes of each.
fn transactional_modify(world: &World, thread: usize, n: u64) -> Result<()> {
    let tx = world.db.begin()?;
    let wide = tx.bytes(&world.wide);
    let mut row = Vec::new();
    for i in 0..100 {
        let key = present(thread, 100 * n + i);
        assert!(wide.get_for_update_into(&key, &mut row)?, "the row is there");
        row[40..48].copy_from_slice(&n.to_be_bytes());
        wide.put(&key, &row)?;
    }
    tx.commit()
}

/// Record insertion of Shore-MT: a table for each thread, a commit every 1000 rows.
fn transactional_insert(world: &World, thread: usize, n: u64) -> Result<()> {
    let tx = world.db.begin()?;
    let own = tx.bytes(&world.own[thread]);
    (1000 * n..1000 * (n + 1)).try_for_each(|key| own.put(&key.to_be_bytes(), &VALUE))?;
    tx.commit()
}

fn begin_put_commit(world: &World, thread: usize, n: u64) -> Result<()> {
    let tx = world.db.begin()?;
    tx.bytes(&world.rows).put(&present(thread, n), &VALUE)?;
    tx.commit()
}

impl World {
    fn new() -> Result<Self> {
        let dir = tempfile::tempdir().expect("a directory for temporary files");
        let db =
            Database::builder().cache_bytes(256 << 20).durability(Durability::Buffered).open(dir.path())?;
        let rows = db.byte_table("rows")?;
        rows.bulk_load((0..ROWS).map(|n| ((4 * n).to_be_bytes(), VALUE)))?;
        let wide = db.byte_table("wide")?;
        wide.bulk_load((0..ROWS).map(|n| ((4 * n).to_be_bytes(), WIDE)))?;
        let own = [db.byte_table("own-0")?, db.byte_table("own-1")?];
        Ok(Self { db, rows, wide, own, _dir: dir })
    }
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match &args[..] {
        [] => table(),
        [name, calls] => {
            let operation = OPERATIONS.iter().find(|operation| operation.name == name);
            let operation = operation.unwrap_or_else(|| panic!("no operation is called {name:?}"));
            let world = World::new()?;
            (0..calls.parse().expect("a number")).try_for_each(|n| (operation.call)(&world, 0, n))
        }
        _ => panic!("usage: costs [OPERATION CALLS]"),
    }
}

fn table() -> Result<()> {
    println!(
        "{:22}{:>10}{:>9}{:>9}{:>9}{:>9}",
        "operation", "log bytes", "records", "writes", "lines", "shared"
    );
    for operation in OPERATIONS {
        let world = World::new()?;
        let (before, lines) = run(&world, operation)?;
        // Twice: counted calls and those before them, on both threads.
        let operations = (4 * operation.calls() * operation.in_a_call) as f64;
        world.db.sync()?; // records are counted when they leave
        let after = world.db.stats();
        let per = |of: fn(&Stats) -> u64| (of(&after) - of(&before)) as f64 / operations;
        print!("{:22}{:>10.1}{:>9.3}", operation.name, per(|s| s.log_bytes), per(|s| s.log_records));
        println!(
            "{}",
            lines.map_or_else(|| format!("{:>9}{:>9}{:>9}", "-", "-", "-"), |l| l.text(operation))
        );
    }
    memory()
}

/// Memory beside the cache: the index, and what a transaction holds.
fn memory() -> Result<()> {
    let world = World::new()?;
    let loaded = world.db.stats();
    println!(
        "\nindex: {:.2} bytes a row, {} bytes a leaf of 8 KiB",
        loaded.index_bytes as f64 / ROWS as f64,
        { loaded.index_bytes / loaded.pages }
    );
    let tx = world.db.begin()?;
    let rows = tx.bytes(&world.rows);
    for n in 0..10_000 {
        rows.put(&present(0, n), &VALUE)?;
    }
    let images = world.db.stats().image_bytes;
    println!(
        "old versions: {:.0} bytes for each row of 100 bytes updated and not committed",
        images as f64 / 1e4
    );
    tx.commit()
}

/// Lines that the counted calls wrote, by thread and call.
struct Lines([Vec<Vec<usize>>; 2]);

impl Lines {
    /// Writes, lines and lines of both threads for one operation.
    fn text(&self, operation: &Operation) -> String {
        use std::collections::HashSet;
        let all = |thread: usize| self.0[thread].iter().flatten().copied().collect::<HashSet<usize>>();
        let shared = &all(0) & &all(1);
        let (mut writes, mut lines, mut met) = (0, 0, 0);
        for call in self.0.iter().flatten() {
            let distinct: HashSet<usize> = call.iter().copied().collect();
            writes += call.len();
            lines += distinct.len();
            met += distinct.iter().filter(|line| shared.contains(line)).count();
        }
        let per = |count: usize| count as f64 / (2 * operation.calls() * operation.in_a_call) as f64;
        format!("{:>9.2}{:>9.3}{:>9.3}", per(writes), per(lines), per(met))
    }
}

/// Two threads by turns, so that every run is the same: calls to get warm, then the counted ones. Returns the counters as
/// they were before.
fn run(world: &World, operation: &Operation) -> Result<(Stats, Option<Lines>)> {
    use std::sync::Barrier;
    world.db.sync()?;
    let before = world.db.stats();
    let turn = Barrier::new(2);
    let work = &|thread: usize| -> Result<Vec<Vec<usize>>> {
        let mut lines = Vec::new();
        for n in 0..2 * operation.calls() {
            for whose in 0..2 {
                turn.wait();
                if whose == thread {
                    let (done, written) = watched(|| (operation.call)(world, thread, n));
                    done?;
                    lines.extend((n >= operation.calls()).then_some(written));
                }
            }
        }
        Ok(lines)
    };
    let lines = std::thread::scope(|scope| {
        let threads = [0, 1].map(|thread| scope.spawn(move || work(thread)));
        threads.map(|thread| thread.join().expect("no call panics"))
    });
    let [first, second] = lines;
    let lines = Lines([first?, second?]);
    Ok((before, cfg!(count_writes).then_some(lines)))
}

#[cfg(count_writes)]
fn watched<R>(work: impl FnOnce() -> R) -> (R, Vec<usize>) {
    foreshore_base::sync::counted::lines_written(work)
}

#[cfg(not(count_writes))]
fn watched<R>(work: impl FnOnce() -> R) -> (R, Vec<usize>) {
    (work(), Vec::new())
}
