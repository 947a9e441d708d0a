//! A database that has only a log, and remembers what it was promised.
//!
//! The world lives several lives. In each it recovers, writes from several threads, and ends by a crash or a close.
//! After each crash the recovered records must be a gap-free prefix of what was reserved, and hold everything that was
//! acknowledged and that this kind of crash must spare.

use super::super::*;
use super::SMALL;
use crate::chance::Random;
use foreshore_io::SimDisk;
use foreshore_io::sim::Crash;
use std::sync::atomic::AtomicU64;
use std::thread;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Written {
    pub start: Lsn,
    pub end: Lsn,
    pub body: Vec<u8>,
}

/// What the threads of one life do.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub threads: u64,
    pub records: u64,
    /// Bodies have 1 to this many bytes.
    pub body_bytes_max: u64,
    pub truncate: bool,
}

pub struct World {
    pub disk: SimDisk,
    random: Random,
    /// The directory journal: it is always up to date.
    incarnations: Vec<Incarnation>,
    redo: Lsn,
    /// All that was reserved and not yet lost by a crash, in order, from `redo` on.
    reserved: Vec<Written>,
    /// What must survive a loss of power, and what the death of the process.
    sync_acked: Lsn,
    kill_acked: Lsn,
}

/// What one thread brought about.
#[derive(Default)]
struct Outcome {
    reserved: Vec<Written>,
    sync_acked: Lsn,
    kill_acked: Lsn,
    errors: Vec<Error>,
}

impl World {
    pub fn new(seed: u64) -> Self {
        Self {
            disk: SimDisk::new(seed),
            random: Random(seed),
            incarnations: Vec::new(),
            redo: Lsn::ZERO,
            reserved: Vec::new(),
            sync_acked: Lsn::ZERO,
            kill_acked: Lsn::ZERO,
        }
    }

    fn vfs(&self) -> Arc<dyn Vfs> {
        Arc::new(self.disk.clone())
    }

    /// The disk that a crash leaves is the one to go on with.
    pub fn crash(&mut self, crash: Crash) {
        self.disk = self.disk.after_crash(crash, self.random.next());
        if crash == Crash::PowerLoss {
            self.kill_acked = self.sync_acked;
        }
    }

    /// Finds the end of the log, checks what is there, and puts a new incarnation on record.
    pub fn recover(&mut self) -> Result<()> {
        if self.incarnations.is_empty() {
            self.incarnations.push(Incarnation::after(Lsn::ZERO));
            return Ok(());
        }
        let end = repair_tail(&self.vfs(), SMALL, &self.incarnations, self.redo)?;
        self.incarnations.push(Incarnation::after(end));
        self.check(end)
    }

    /// What is read is a prefix of what was reserved, up to `end`, and nothing acknowledged is missing.
    fn check(&mut self, end: Lsn) -> Result<()> {
        let mut reader = LogReader::open(&self.vfs(), SMALL, &self.incarnations, self.redo)?;
        let mut count = 0;
        while let Some(record) = reader.next()? {
            let expected = self.reserved.get(count);
            assert!(
                expected.is_some_and(|e| (e.start, e.end, &e.body[..]) == (record.start, record.end, record.body)),
                "record {count} at {} is not the one reserved: {:?}",
                record.start,
                expected.map(|e| e.start),
            );
            assert!(record.end <= end, "a record at {} lies beyond the end {end}", record.start);
            count += 1;
        }
        self.reserved.truncate(count);
        let found = self.reserved.last().map_or(self.redo, |last| last.end);
        assert!(
            found >= self.sync_acked,
            "acknowledged as Sync up to {}, found up to {found}",
            self.sync_acked
        );
        assert!(found >= self.kill_acked, "acknowledged up to {}, found up to {found}", self.kill_acked);
        (self.sync_acked, self.kill_acked) = (found, found);
        Ok(())
    }

    /// Recovers and works until the work is done and the log closed, or something fails. Returns the failures.
    pub fn live(&mut self, work: Work) -> Vec<Error> {
        if let Err(e) = self.recover() {
            return vec![e];
        }
        let incarnation = *self.incarnations.last().expect("recovery puts one on record");
        let log = match Log::open(self.vfs(), SMALL, incarnation) {
            Ok(log) => log,
            Err(e) => return vec![e],
        };
        let redo = AtomicU64::new(self.redo.0);
        let seeds: Vec<u64> = (0..work.threads).map(|_| self.random.next()).collect();
        let outcomes: Vec<Outcome> = thread::scope(|scope| {
            let (log, disk, redo) = (&log, &self.disk, &redo);
            let run = |seed: &u64| {
                let random = Random(*seed);
                scope.spawn(move || write(log, disk, redo, work, random))
            };
            let threads: Vec<_> = seeds.iter().map(run).collect();
            threads.into_iter().map(|thread| thread.join().expect("no writer panics")).collect()
        });
        let closed = log.close();
        let mut errors = Vec::new();
        for outcome in outcomes {
            self.reserved.extend(outcome.reserved);
            self.sync_acked = self.sync_acked.max(outcome.sync_acked);
            self.kill_acked = self.kill_acked.max(outcome.kill_acked).max(self.sync_acked);
            errors.extend(outcome.errors);
        }
        self.reserved.sort();
        if closed.is_ok() && !self.disk.is_crashed() {
            let end = self.reserved.last().map_or(self.redo, |last| last.end);
            (self.sync_acked, self.kill_acked) = (end, end);
        }
        errors.extend(closed.err());
        self.redo = Lsn(redo.into_inner());
        self.reserved.retain(|record| record.start >= self.redo);
        errors
    }
}

/// Writes, commits and truncates until the work is done, or an error that further calls will not mend.
fn write(log: &Log, disk: &SimDisk, redo: &AtomicU64, work: Work, mut random: Random) -> Outcome {
    let mut outcome = Outcome::default();
    for _ in 0..work.records {
        if let Err(e) = write_one(log, disk, redo, work, &mut random, &mut outcome) {
            let mends = matches!(e, Error::Full { .. });
            outcome.errors.push(e);
            if !mends {
                break;
            }
        }
    }
    outcome
}

fn write_one(
    log: &Log,
    disk: &SimDisk,
    redo: &AtomicU64,
    work: Work,
    random: &mut Random,
    outcome: &mut Outcome,
) -> Result<()> {
    log.room()?;
    let len = 1 + random.below(work.body_bytes_max) as usize;
    let mut body: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
    body[0] = 1;
    let reservation = log.reserve(len);
    let (start, end) = (reservation.start(), reservation.end());
    outcome.reserved.push(Written { start, end, body: body.clone() });
    log.fill(reservation, &body);
    let durability = match random.below(8) {
        0 | 1 => Durability::Sync,
        2 => Durability::Buffered,
        3 => Durability::Relaxed,
        _ => return Ok(()),
    };
    log.commit(end, durability)?;
    if disk.is_crashed() {
        return Ok(()); // nobody heard of it
    }
    outcome.kill_acked = outcome.kill_acked.max(end);
    if durability == Durability::Sync {
        outcome.sync_acked = outcome.sync_acked.max(end);
        if work.truncate && random.below(4) == 0 {
            redo.fetch_max(start.0, SeqCst);
            log.truncate(start, 0);
        }
    }
    Ok(())
}
