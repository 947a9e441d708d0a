//! A process, or a system, that has too many files open. That is nothing that a database could not get over: what needs one more
//! file says so and changes nothing, and goes on when there are descriptors again.

mod common;

use common::{key, tiny, wait_for_the_last_transaction};
use foreshore::{Builder, ByteTable, Database, Durability, Error, Result, TableOptions};
use foreshore_io::SimDisk;
use foreshore_io::sim::{Call, Crash, Go, Intercepted};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const EMFILE: i32 = libc::EMFILE;
const ENFILE: i32 = libc::ENFILE;

/// What asks for a descriptor, and which of these calls get none.
struct Descriptors {
    calls: AtomicU64,
    refused: Mutex<Range<u64>>,
    error: i32,
}

impl Descriptors {
    /// The calls with these numbers are refused with that error.
    fn refused(refused: Range<u64>, error: i32) -> Arc<Self> {
        Arc::new(Self { calls: AtomicU64::new(0), refused: Mutex::new(refused), error })
    }

    /// A disk whose files need them.
    fn on(self: &Arc<Self>, disk: &SimDisk) -> Arc<Intercepted> {
        let asked = self.clone();
        let around = move |call, _: &str, go: &mut Go<'_>| match call {
            Call::Open | Call::List | Call::Lock | Call::SharedMemory => asked.answer(go),
            _ => go(),
        };
        Arc::new(Intercepted::new(disk.clone(), around))
    }

    fn answer(&self, go: &mut Go<'_>) -> io::Result<()> {
        let call = self.calls.fetch_add(1, Relaxed);
        match self.refused.lock().unwrap().contains(&call) {
            true => Err(io::Error::from_raw_os_error(self.error)),
            false => go(),
        }
    }

    fn run_out(&self) {
        *self.refused.lock().unwrap() = 0..u64::MAX;
    }

    fn are_there(&self) {
        *self.refused.lock().unwrap() = 0..0;
    }
}

fn options() -> Builder {
    tiny().ring_bytes(128 << 10)
}

fn fill(table: &ByteTable, keys: Range<u32>, value: &[u8]) {
    keys.for_each(|i| insist(|| table.put(&key(i), value)));
}

/// Does it, and once more as often as there is no descriptor for it; any other error is one too many.
fn insist<T>(mut attempt: impl FnMut() -> Result<T>) -> T {
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(Error::TooManyFiles { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
}

/// All that opens files: a log that goes round, checkpoints, a rollback out of the segments, a leaf file, a backup.
fn work(disk: &SimDisk, backup: &SimDisk, descriptors: &Arc<Descriptors>) {
    let db = insist(|| options().open_on(descriptors.on(disk)));
    let table = insist(|| db.byte_table("t")).with_durability(Durability::Buffered);
    fill(&table, 0..200, &[1; 900]);
    let tx = db.begin().unwrap();
    insist(|| tx.bytes(&table).put(b"k", b"undone"));
    fill(&table, 200..600, &[2; 900]);
    insist(|| db.checkpoint());
    if let Err(error) = tx.rollback() {
        assert!(matches!(error, Error::TooManyFiles { .. }), "{error}");
    }
    insist(|| table.put(b"k", b"goes on"));
    let eights = insist(|| db.byte_table_with("eights", TableOptions::new().leaf_bytes(8192)));
    fill(&eights, 0..50, &[3; 900]);
    insist(|| db.backup_on(descriptors.on(backup), |_| {}));
    insist(|| db.sync());
    let _ = db.close(); // its checkpoint is one more thing that may lack a file
}

fn check(db: &Database, what: &str) {
    let table = db.byte_table("t").unwrap();
    let row = |i| table.get(&key(i)).unwrap_or_else(|e| panic!("{what}: {e}"));
    (0..600).for_each(|i| assert_eq!(row(i), Some(vec![1 + u8::from(i >= 200); 900]), "{what}, row {i}"));
    assert_eq!(table.get(b"k").unwrap().as_deref(), Some(&b"goes on"[..]), "{what}");
    assert_eq!(db.byte_table("eights").unwrap().range(..).count(), 50, "{what}");
    db.check().unwrap_or_else(|e| panic!("{what}: {e}"));
}

/// Each call that asks for a descriptor gets none, once: everything is done with one more attempt, and nothing is lost.
#[test]
fn none_for_one_call() {
    let whole = Descriptors::refused(0..0, EMFILE);
    work(&SimDisk::new(1), &SimDisk::new(2), &whole);
    let calls = whole.calls.load(Relaxed);
    assert!(calls > 50, "{calls} calls");
    for call in 0..calls {
        let error = [EMFILE, ENFILE][call as usize % 2];
        let (disk, backup) = (SimDisk::new(1), SimDisk::new(2));
        work(&disk, &backup, &Descriptors::refused(call..call + 1, error));
        for (disk, which) in [(&disk, "the database"), (&backup, "the backup")] {
            let db = options().open_on(Arc::new(disk.after_crash(Crash::PowerLoss, call))).unwrap();
            check(&db, &format!("{which}, call {call} of {calls}, error {error}"));
        }
    }
}

/// While there are none, writers wait, or are told before they change anything; then they go on.
#[test]
fn none_for_a_while() {
    for (error, advice) in [(EMFILE, "ulimit -n"), (ENFILE, "fs.file-max")] {
        let disk = SimDisk::new(1);
        let descriptors = Descriptors::refused(0..0, error);
        let db = options().open_on(descriptors.on(&disk)).unwrap();
        let table = db.byte_table("t").unwrap().with_durability(Durability::Buffered);
        let tx = db.begin().unwrap();
        tx.bytes(&table).put(b"x", b"in a transaction").unwrap();
        descriptors.run_out();
        let refused = options().open_on(descriptors.on(&SimDisk::new(2))).unwrap_err();
        assert!(matches!(refused, Error::TooManyFiles { .. }), "{refused}");
        assert!(refused.to_string().contains(advice), "{refused}");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(300));
                descriptors.are_there();
            });
            fill(&table, 0..600, &[1; 900]); // far more than there is room for without another file
        });
        tx.commit().unwrap();
        db.close().unwrap();

        let db = options().open_on(Arc::new(disk.after_crash(Crash::PowerLoss, 1))).unwrap();
        let table = db.byte_table("t").unwrap();
        (0..600).for_each(|i| assert_eq!(table.get(&key(i)).unwrap(), Some(vec![1; 900])));
        assert_eq!(table.get(b"x").unwrap().as_deref(), Some(&b"in a transaction"[..]));
        db.check().unwrap();
    }
}

/// A rollback that needs a file of the log is gone on with when it can be opened; until then it keeps its locks.
#[test]
fn a_rollback_waits_for_a_descriptor() {
    let descriptors = Descriptors::refused(0..0, EMFILE);
    let db = options().open_on(descriptors.on(&SimDisk::new(1))).unwrap();
    let table = db.byte_table("t").unwrap();
    table.put(b"k", b"before").unwrap();
    let tx = db.begin().unwrap();
    tx.bytes(&table).put(b"k", b"undone").unwrap();
    let others = table.with_durability(Durability::Buffered);
    fill(&others, 0..400, &[2; 900]);
    db.checkpoint().unwrap();
    descriptors.run_out();
    let refused = tx.rollback();
    assert!(matches!(refused, Err(Error::TooManyFiles { .. })), "{refused:?}");
    descriptors.are_there();
    wait_for_the_last_transaction(&db);
    assert_eq!(table.get(b"k").unwrap().as_deref(), Some(&b"before"[..]));
    db.check().unwrap();
}
