//! Which snapshots are open: one word each.
//!
//! Why: what no snapshot needs any more must be known without stopping anyone.
//!
//! The order that makes scans right: a snapshot stores that it is entering, and only then loads the log's end, which is its
//! point. A scan's log end was loaded before. So it is with who commits: he reserves his record, and only then looks.
//!
//! ORDERING: two who each store, or reserve, and then look for what the other did: one of them must see it. That takes `SeqCst`
//! of all four.

use crate::error::Result;
use crate::txn::slots::{Admission, HINT, SLOTS};
use crossbeam_utils::CachePadded;
use foreshore_base::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
use foreshore_base::sync::{AtomicU64, AtomicUsize};
use foreshore_base::{Lsn, seeded_bug};

/// Values of a snapshot's word below and above any LSN: none, one that was given up, one whose point is being taken.
const NO_SNAPSHOT: u64 = u64::MAX;
const EXPIRED: u64 = u64::MAX - 1;
const ENTERING: u64 = 0;

/// The snapshots that are open. Who opens and closes one writes its own line and no other, so that short ones on many
/// cores do not meet; who asks about them looks at as many lines as there ever were snapshots at a time.
pub(crate) struct Snapshots {
    points: Box<[CachePadded<AtomicU64>]>,
    /// No snapshot at or above this was ever open.
    used: CachePadded<AtomicUsize>,
}

impl Snapshots {
    pub fn new() -> Self {
        let points = (0..SLOTS).map(|_| CachePadded::new(AtomicU64::new(NO_SNAPSHOT))).collect();
        Self { points, used: CachePadded::new(AtomicUsize::new(0)) }
    }

    /// Opens a snapshot: everything is kept for it from now on, until [`Snapshots::fix`] says what is needed.
    pub fn enter(&self) -> Result<usize> {
        let mut admission = Admission::new();
        loop {
            let hint = Some(HINT.get()).filter(|hint| *hint < SLOTS);
            let free = hint.into_iter().chain(0..SLOTS).find(|index| {
                let point = &self.points[*index];
                // A look first: what others have is theirs to write.
                point.load(Relaxed) == NO_SNAPSHOT
                    && point.compare_exchange(NO_SNAPSHOT, ENTERING, SeqCst, Relaxed).is_ok()
            });
            if let Some(index) = free {
                if hint.is_none() {
                    HINT.set(index);
                }
                // Before its point is taken: who does not see this has reserved what it asks for below that point.
                if self.used.load(SeqCst) <= index {
                    self.used.fetch_max(index + 1, SeqCst);
                }
                return Ok(index);
            }
            admission.wait()?;
        }
    }

    /// The snapshot sees what was committed below `at`.
    pub fn fix(&self, index: usize, at: Lsn) {
        self.points[index].store(at.0.max(1), SeqCst);
    }

    /// Closes it.
    pub fn leave(&self, index: usize) {
        self.points[index].store(NO_SNAPSHOT, Release);
    }

    /// Is any open? To be asked after the record whose effects it may need was reserved: one that opens later sees them.
    #[inline]
    pub fn any(&self) -> bool {
        self.points().any(|point| point != NO_SNAPSHOT)
    }

    /// The point of the newest open snapshot; `Lsn::MAX` if there may be one whose point is not known yet, `None` if none is open. To
    /// be asked like [`Snapshots::any`]: those that open later are newer than that record.
    pub fn newest(&self) -> Option<Lsn> {
        let points = self.points().filter(|point| *point != NO_SNAPSHOT);
        let newest = points.map(|point| match point {
            ENTERING => Lsn::MAX,
            EXPIRED => Lsn::ZERO,
            at => Lsn(at),
        });
        newest.max()
    }

    /// Is any open whose point lies above `after` and not above `up_to`, or may do so, as it is not known yet? To be asked like
    /// [`Snapshots::any`], with the record at `up_to`: those that open later lie above it.
    pub fn any_between(&self, after: Lsn, up_to: Lsn) -> bool {
        self.points().any(|point| point == ENTERING || after.0 < point && point <= up_to.0)
    }

    /// No open snapshot, and none to come, needs what was replaced by commits below this. `log_end` must have been loaded
    /// before this call: a snapshot that is not seen here opens later, at a point not below it.
    pub fn horizon(&self, log_end: Lsn) -> Lsn {
        let log_end = if seeded_bug("txn_horizon_unbounded") { Lsn::MAX } else { log_end };
        self.points().filter(|point| *point < EXPIRED).map(Lsn).fold(log_end, Lsn::min)
    }

    fn points(&self) -> impl Iterator<Item = u64> {
        self.points[..self.used.load(SeqCst)].iter().map(|point| point.load(SeqCst))
    }

    /// Gives up the oldest snapshot: nothing is kept for it any more, and its readers are told. `false` if none is open.
    pub fn expire_oldest(&self) -> bool {
        let used = self.used.load(SeqCst);
        let open = self.points[..used].iter().map(|point| (point.load(SeqCst), point));
        match open.filter(|(at, _)| *at != ENTERING && *at < EXPIRED).min_by_key(|(at, _)| *at) {
            Some((at, point)) => point.compare_exchange(at, EXPIRED, SeqCst, Relaxed).is_ok(),
            None => false,
        }
    }

    /// Was the snapshot given up? To be asked after what was read for it.
    #[inline]
    pub fn is_expired(&self, index: usize) -> bool {
        // ORDERING: Acquire. Images are dropped under bucket latches after the snapshot was given up, and a reader that
        // missed one has passed the fence of its leaf's validation: it sees the mark.
        self.points[index].load(Acquire) == EXPIRED
    }

    /// How many are open.
    pub fn open(&self) -> u64 {
        self.points().filter(|point| *point != NO_SNAPSHOT).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is committed after the snapshots were looked at may be needed by one that opens then.
    #[test]
    fn no_horizon_lies_beyond_the_log() {
        let snapshots = Snapshots::new();
        assert_eq!(snapshots.horizon(Lsn(100)), Lsn(100), "no snapshot is open");
        let entering = snapshots.enter().unwrap();
        assert_eq!(snapshots.horizon(Lsn(100)), Lsn::ZERO, "nobody knows its point yet");
        snapshots.fix(entering, Lsn(120));
        assert_eq!(snapshots.horizon(Lsn(100)), Lsn(100), "it opened after the log's end was loaded");
        assert_eq!(snapshots.horizon(Lsn(150)), Lsn(120));
        snapshots.leave(entering);
        assert_eq!(snapshots.horizon(Lsn(150)), Lsn(150));
    }

    /// One that sees what was committed before its point, and not what was committed there.
    #[test]
    fn a_snapshot_lies_between_two_commits() {
        let snapshots = Snapshots::new();
        let is_between = |after, up_to| snapshots.any_between(Lsn(after), Lsn(up_to));
        assert!(!is_between(0, 1000));
        let index = snapshots.enter().unwrap();
        assert!(is_between(10, 20), "nobody knows its point yet");
        snapshots.fix(index, Lsn(100));
        assert!(is_between(99, 100) && !is_between(100, 200) && !is_between(10, 99));
        assert!(snapshots.expire_oldest());
        assert!(!is_between(99, 100), "it sees nothing any more");
    }

    #[test]
    fn the_newest_may_not_be_known_yet() {
        let snapshots = Snapshots::new();
        assert_eq!(snapshots.newest(), None);
        let old = snapshots.enter().unwrap();
        assert_eq!(snapshots.newest(), Some(Lsn::MAX), "nobody knows its point yet");
        snapshots.fix(old, Lsn(100));
        let new = snapshots.enter().unwrap();
        snapshots.fix(new, Lsn(120));
        assert_eq!(snapshots.newest(), Some(Lsn(120)));
        snapshots.leave(new);
        assert_eq!(snapshots.newest(), Some(Lsn(100)));
        assert!(snapshots.expire_oldest());
        assert_eq!(snapshots.newest(), Some(Lsn::ZERO), "it sees nothing any more");
    }
}
