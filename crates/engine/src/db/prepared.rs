//! Transactions that have prepared, and wait to hear whether to commit.

use crate::error::{Error, Result};
use crate::txn::Txn;
use crate::waits::lock_or_wait;
use foreshore_base::Lsn;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// The longest global id.
const GID_BYTES_MAX: usize = 256;

/// Errors: [`Error::Argument`] if no transaction can have this id.
pub(crate) fn ensure_gid_fits(gid: &[u8]) -> Result<()> {
    match gid.len() <= GID_BYTES_MAX {
        true => Ok(()),
        false => Err(Error::Argument(format!("a global id has at most {GID_BYTES_MAX} bytes"))),
    }
}

/// By their global ids.
pub(crate) struct Prepared(Mutex<BTreeMap<Vec<u8>, Waiting>>);

struct Waiting {
    /// `None`: left to the next open, as this database closes. Such an id is neither unknown nor free.
    txn: Option<Txn>,
    /// The end of the record that says that it has prepared.
    end: Lsn,
}

impl Prepared {
    /// Those that an opening has found, in a log that it has made durable.
    pub fn new(found: BTreeMap<Vec<u8>, Txn>) -> Self {
        let waiting = |txn| Waiting { txn: Some(txn), end: Lsn::ZERO };
        Self(Mutex::new(found.into_iter().map(|(gid, txn)| (gid, waiting(txn))).collect()))
    }

    /// Prepares a transaction, and keeps it until it is told what to do; after an error it is rolled back. Returns the end of the
    /// record that must be durable before anybody relies on it.
    pub fn add(&self, mut txn: Txn, gid: &[u8]) -> Result<Lsn> {
        // That waits for the device: not while others that prepare, or are decided, wait for the mutex.
        if let Err(failed) = txn.get_ready_to_prepare(gid.len()) {
            return txn.roll_back().and(Err(failed));
        }
        let mut waiting = lock_or_wait(&self.0);
        if waiting.contains_key(gid) {
            drop(waiting);
            let gid = gid.escape_ascii();
            let refused = format!("\"{gid}\" is the id of a prepared transaction already");
            return txn.roll_back().and(Err(Error::Argument(refused)));
        }
        let end = txn.prepare(gid);
        waiting.insert(gid.to_vec(), Waiting { txn: Some(txn), end });
        Ok(end)
    }

    /// Commits one. Returns the end of its commit record, if it wrote anything.
    pub fn commit(&self, gid: &[u8]) -> Result<Option<Lsn>> {
        let mut waiting = lock_or_wait(&self.0);
        let mut txn = take(&mut waiting, gid)?;
        txn.decide(); // before another one may prepare under its id
        drop(waiting);
        txn.commit()
    }

    /// Rolls one back.
    pub fn roll_back(&self, gid: &[u8]) -> Result<()> {
        let txn = take(&mut lock_or_wait(&self.0), gid)?;
        txn.roll_back()
    }

    /// The ids of all that stay prepared whatever happens, the log being `durable` up to there. Who is told of another one might
    /// commit the other half of its work, and a power failure take this half back.
    pub fn gids(&self, durable: Lsn) -> Vec<Vec<u8>> {
        let waiting = lock_or_wait(&self.0);
        waiting.iter().filter(|(_, waiting)| waiting.end <= durable).map(|(gid, _)| gid.clone()).collect()
    }

    /// Lets go of all, for the next open to find: they stay prepared.
    pub fn abandon(&self) {
        self.0.lock().values_mut().filter_map(|waiting| waiting.txn.take()).for_each(Txn::abandon);
    }
}

fn take(waiting: &mut BTreeMap<Vec<u8>, Waiting>, gid: &[u8]) -> Result<Txn> {
    ensure_gid_fits(gid)?; // before a message repeats it
    let unknown = || Error::UnknownTransaction { gid: gid.escape_ascii().to_string() };
    let txn = waiting.get_mut(gid).ok_or_else(unknown)?.txn.take().ok_or_else(Error::closed)?;
    waiting.remove(gid);
    txn.core.txns.hear_decision(txn.owner);
    Ok(txn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Reservation;
    use crate::{Database, before_waiting};
    use foreshore_io::MemVfs;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::sync::{Arc, mpsc};
    use std::thread;
    use std::time::{Duration, Instant};

    /// Who is told that there is no such transaction, as another one commits it just now, may forget what was decided.
    #[test]
    fn what_is_unknown_is_decided_for_good() {
        let db = Database::in_memory().unwrap();
        db.begin().unwrap().prepare("gid").unwrap();
        thread::scope(|scope| {
            let (db, hole) = (&db, db.engine.core().log.reserve(8)); // nothing behind it becomes durable
            let first = scope.spawn(|| db.commit_prepared("gid"));
            while !db.recover().is_empty() {
                thread::yield_now();
            }
            let (told, waits) = mpsc::channel();
            scope.spawn(move || told.send(db.commit_prepared("gid")));
            let early = waits.recv_timeout(Duration::from_millis(300));
            hole.abandon();
            first.join().unwrap().unwrap();
            assert!(early.is_err(), "the commit may yet be lost: {early:?}");
            assert!(matches!(waits.recv().unwrap(), Err(Error::UnknownTransaction { .. })));
        });
    }

    /// Who prepares, or is decided, does not wait for what is cleared up after another one, which may be much.
    #[test]
    fn a_decision_keeps_no_other_waiting() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        let tx = db.begin().unwrap();
        tx.bytes(&table).put(b"k", b"v").unwrap();
        tx.prepare("first").unwrap();
        let _snapshot = db.snapshot().unwrap();
        thread::scope(|scope| {
            let held = db.engine.core().txns.garbage.hold();
            let decided = scope.spawn(|| db.commit_prepared("first"));
            while table.get(b"k").unwrap().is_none() {
                thread::yield_now();
            }
            let (told, waits) = mpsc::channel();
            let db = &db;
            scope.spawn(move || told.send(db.recover()));
            let left = waits.recv_timeout(Duration::from_secs(10));
            drop(held);
            assert_eq!(left.expect("it waits for the other one"), Vec::<Vec<u8>>::new());
            decided.join().unwrap().unwrap();
        });
    }

    /// Nor for the room in the log that one takes who prepares.
    #[test]
    fn who_waits_for_the_log_keeps_no_other_waiting() {
        let tiny = Database::builder().leaf_bytes(4096).cache_bytes(64 * 4096).ring_bytes(64 << 10);
        let db = tiny.open_on(Arc::new(MemVfs::new())).unwrap();
        let table = db.byte_table("t").unwrap();
        let tx = db.begin().unwrap();
        tx.bytes(&table).put(b"k", b"v").unwrap();
        thread::scope(|scope| {
            let log = &db.engine.core().log;
            let full = log.reserved() + log.ring_bytes() as u64;
            let mut records = Vec::new();
            while log.reserved() < full {
                records.push(log.reserve(1000)); // none of which is complete
            }
            let prepares = scope.spawn(|| tx.prepare([7; 200]));
            thread::sleep(Duration::from_millis(50));
            let (told, waits) = mpsc::channel();
            let db = &db;
            scope.spawn(move || told.send(db.recover()));
            let prepared = waits.recv_timeout(Duration::from_secs(10));
            records.into_iter().for_each(Reservation::abandon);
            assert!(prepared.expect("it waits for the log").is_empty());
            prepares.join().unwrap().unwrap();
        });
        assert_eq!(db.recover(), [[7; 200]]);
        db.rollback_prepared([7; 200]).unwrap();
    }

    /// H1: who waits all the same, for another one's record, says so.
    #[test]
    fn who_waits_for_another_decision_says_so() {
        static HAS_SAID: AtomicBool = AtomicBool::new(false);
        let prepared = Prepared::new(BTreeMap::new());
        let calls: [fn(&Prepared); 3] = [
            |prepared| drop(prepared.gids(Lsn::MAX)),
            |prepared| assert!(prepared.commit(b"unknown").is_err()),
            |prepared| assert!(prepared.roll_back(b"unknown").is_err()),
        ];
        for call in calls {
            HAS_SAID.store(false, SeqCst);
            thread::scope(|scope| {
                let (held, prepared) = (prepared.0.lock(), &prepared);
                scope.spawn(move || before_waiting(|| HAS_SAID.store(true, SeqCst), || call(prepared)));
                let begun = Instant::now();
                while !HAS_SAID.load(SeqCst) && begun.elapsed() < Duration::from_secs(10) {
                    thread::yield_now();
                }
                drop(held);
            });
            assert!(HAS_SAID.load(SeqCst));
        }
    }
}
