//! What commits leave behind until no snapshot needs it: images that they replaced, ghosts of keys that they removed.
//!
//! Batches wait in a few queues, by the slot of the transaction, so that committers seldom meet. Each committer clears
//! a little of its own queue, and background threads the rest: one the images, and another one what has to be read for that, such as
//! what a large removal has left. What they take counts as old versions do; before a snapshot is given up for it, what has become
//! pointless meanwhile is thrown out.
//!
//! What no open snapshot sees goes at once: ghosts of keys that had no value at any of their points, large values that were put and
//! replaced with none of them between. A large value that a later snapshot sees, and the oldest does not, is tried again and again, as
//! it must not wait for the oldest. So each keeps no more of these than it sees.
//!
//! What cannot be cleared, as somebody has it locked, or for want of space, or for damage, is tried again after a pause, too, and
//! after longer and longer ones, so that an idle database has nothing to do. When nobody scans the tables any more that were
//! scanned, it is tried at once: nothing else keeps ghosts locked for long.

use crate::blob::{self, BlobId};
use crate::core::Core;
use crate::error::Error;
use crate::lock::{Name, Owner};
use crate::tree::Tree;
use crate::txn::{Ghost, Spill};
use crossbeam_utils::CachePadded;
use foreshore_base::sync::{AtomicU64, Ordering::Relaxed};
use foreshore_base::{Lsn, PageId, seeded_bug};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Queues.
const SHARDS: usize = 16;

/// A committer clears at most this many batches, and leaves those to the background threads that have more ghosts and large values.
const SWEEP_MAX: usize = 4;
const SWEEP_ROWS_MAX: usize = 1000;

/// Names of images, and ghosts, in a batch that was put together of several, at most: whose commit is to clear it waits for that.
const IMAGES_MAX: usize = 256;
const GHOSTS_MAX: usize = 16;

/// Of the memory for old versions, batches may take one in so many before it is looked what of them has become pointless.
const BUDGET_PART: u64 = 8;

/// After so many ghosts it is looked whether the leaves of those that follow must be read.
const LOOK_EVERY: usize = 8;

/// The line of the key table for a ghost so far ahead is asked for: keys that follow each other have theirs anywhere.
const LOCKS_AHEAD: usize = 8;

/// Ghosts of rows on disk that are looked for at a time.
const SPILLED_AT_ONCE: usize = 1000;

/// Pauses before what could not be cleared is tried again.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// What one transaction, or one autocommitted write, left.
pub(crate) struct Batch {
    /// Its commit: when no open snapshot is older, the batch can go.
    pub commit: Lsn,
    /// The author in the version words that it wrote.
    pub author: u64,
    /// Names under which it put images into the key table.
    pub images: Vec<Name>,
    /// Keys that it removed.
    pub ghosts: Vec<Ghost>,
    /// Large values that it created or replaced, each with the table of its chunks.
    pub blobs: Vec<(Arc<Tree>, BlobId)>,
    /// Its images that are on disk.
    pub spill: Option<Arc<Spill>>,
}

impl Batch {
    /// An empty one.
    pub fn new(commit: Lsn, author: u64) -> Self {
        Self { commit, author, images: Vec::new(), ghosts: Vec::new(), blobs: Vec::new(), spill: None }
    }

    /// Is there nothing to be cleared?
    fn is_empty(&self) -> bool {
        self.is_plain() && self.images.is_empty() && self.ghosts.is_empty()
    }

    /// May what `later` has wait with what this one has?
    fn takes(&self, later: &Batch, newest: Lsn) -> bool {
        let is_small = self.images.len() + later.images.len() <= IMAGES_MAX
            && self.ghosts.len() + later.ghosts.len() <= GHOSTS_MAX;
        is_small && self.commit >= newest && self.is_plain() && later.is_plain()
    }

    /// Has it nothing of which it must be known who left it?
    fn is_plain(&self) -> bool {
        self.blobs.is_empty() && self.spill.is_none()
    }

    /// Does it take a while to clear it, as there are more than so many rows to be removed?
    fn is_large(&self, rows_max: usize) -> bool {
        self.ghosts.len() + self.blobs.len() > rows_max || self.spill.is_some() && rows_max != usize::MAX
    }

    /// Its memory.
    fn bytes(&self) -> u64 {
        let keys = self.ghosts.iter().map(|ghost| ghost.key.len()).sum::<usize>();
        let lists = size_of_val(&*self.images) + size_of_val(&*self.ghosts) + size_of_val(&*self.blobs);
        (size_of::<Self>() + lists + keys) as u64
    }
}

/// What is left of a batch that could not be cleared whole.
pub(crate) struct Stuck {
    pub batch: Batch,
    pub pause: Duration,
    since: Instant,
    /// Did anybody scan one of its tables then?
    scanned: bool,
}

impl Stuck {
    /// It was just tried; the last time after `pause`, if it is not the first.
    pub fn new(batch: Batch, pause: Option<Duration>) -> Self {
        let pause = pause.map_or(PAUSE_FIRST, |pause| (2 * pause).min(PAUSE_MAX));
        let scanned = is_scanned(&batch);
        Self { batch, pause, since: Instant::now(), scanned }
    }

    /// Is it worth another try?
    pub fn is_due(&self) -> bool {
        self.since.elapsed() >= self.pause || (self.scanned && !is_scanned(&self.batch))
    }
}

fn is_scanned(batch: &Batch) -> bool {
    batch.ghosts.iter().any(|ghost| ghost.tree.scanners.load(Relaxed) != 0)
}

/// Batches that wait.
#[derive(Default)]
pub(crate) struct Garbage {
    shards: [CachePadded<Mutex<VecDeque<Batch>>>; SHARDS],
    stuck: Mutex<Vec<Stuck>>,
    /// Memory of the batches in the queues.
    bytes: CachePadded<AtomicU64>,
    /// What it was when what had become pointless was last thrown out.
    bytes_then: AtomicU64,
}

impl Garbage {
    /// Keeps a batch for later. Queues are in the order of commits: who comes later than one that committed after it, as it was
    /// held up, must not wait until that can go. What the same snapshots need, as none up to `newest` lies between the commits, becomes
    /// one batch: one for each row that is removed would take more than the row.
    pub fn push(&self, owner: Owner, mut batch: Batch, newest: Lsn) {
        let mut queue = self.shard(owner.0.into()).lock();
        let later = queue.iter().rev().take_while(|other| other.commit > batch.commit).count();
        let place = queue.len() - later;
        let before = place.checked_sub(1).map(|last| &mut queue[last]);
        match before.filter(|before| before.takes(&batch, newest)) {
            Some(before) => {
                self.bytes.fetch_add(batch.bytes() - size_of::<Batch>() as u64, Relaxed);
                before.commit = batch.commit;
                before.images.append(&mut batch.images);
                before.ghosts.append(&mut batch.ghosts);
            }
            None => {
                self.bytes.fetch_add(batch.bytes(), Relaxed);
                queue.insert(place, batch);
            }
        }
    }

    /// The oldest batch in the queue of `owner`, if it is older than `horizon`.
    pub fn take(&self, owner: Owner, horizon: Lsn) -> Option<Batch> {
        let mut queue = self.shard(owner.0.into()).lock();
        let batch = if queue.front()?.commit < horizon { queue.pop_front()? } else { return None };
        self.bytes.fetch_sub(batch.bytes(), Relaxed);
        Some(batch)
    }

    /// Memory of what waits in the queues.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Is it time to throw out what has become pointless, as there is more than `bytes_min`, and twice as much as the last time?
    fn may_be_pointless(&self, bytes_min: u64) -> bool {
        self.bytes() > bytes_min.max(2 * self.bytes_then.load(Relaxed))
    }

    /// Throws out ghosts and images that are not `worth` it any more. Committers go on meanwhile.
    fn throw_out(&self, ghost_is_worth: impl Fn(&Ghost) -> bool, image_is_worth: impl Fn(Name) -> bool) {
        let bytes_of = |batches: &VecDeque<Batch>| batches.iter().map(Batch::bytes).sum::<u64>();
        for shard in &self.shards {
            let mut batches = std::mem::take(&mut *shard.lock());
            let before = bytes_of(&batches);
            batches.retain_mut(|batch| {
                batch.ghosts.retain(&ghost_is_worth);
                batch.images.retain(|name| image_is_worth(*name));
                !batch.is_empty()
            });
            self.bytes.fetch_sub(before - bytes_of(&batches), Relaxed);
            let mut queue = shard.lock();
            batches.append(&mut queue);
            batches.make_contiguous().sort_by_key(|batch| batch.commit);
            *queue = batches;
        }
        self.bytes_then.store(self.bytes(), Relaxed);
    }

    /// Keeps what is left of a batch for another try.
    pub fn keep_stuck(&self, stuck: Stuck) {
        self.stuck.lock().push(stuck);
    }

    /// Those that could not be cleared, and for which it is time.
    pub fn take_stuck(&self, is_due: impl Fn(&Stuck) -> bool) -> Vec<Stuck> {
        self.stuck.lock().extract_if(.., |stuck| is_due(stuck)).collect()
    }

    /// Drops all batches, when nobody can clear them any more.
    pub fn forget(&self) {
        self.stuck.lock().clear();
        self.shards.iter().for_each(|shard| shard.lock().clear());
        self.bytes.store(0, Relaxed);
    }

    /// An owner for each queue.
    pub fn owners() -> impl Iterator<Item = Owner> {
        (0..SHARDS as u16).map(Owner)
    }

    /// Nobody leaves anything, nor clears up, as long as what is returned is held.
    #[cfg(test)]
    pub fn hold(&self) -> Vec<parking_lot::MutexGuard<'_, VecDeque<Batch>>> {
        self.shards.iter().map(|shard| shard.lock()).collect()
    }

    /// Batches that wait in the queue of `owner`.
    pub fn len(&self, owner: Owner) -> usize {
        self.shard(owner.0.into()).lock().len()
    }

    /// Is there nothing to be cleared?
    pub fn is_empty(&self) -> bool {
        self.stuck.lock().is_empty() && self.shards.iter().all(|shard| shard.lock().is_empty())
    }

    fn shard(&self, index: usize) -> &Mutex<VecDeque<Batch>> {
        &self.shards[index % SHARDS]
    }
}

impl Core {
    /// Gives back what a commit left behind, at once or when no snapshot needs it.
    pub fn dispose(&self, owner: Owner, batch: Batch) {
        if batch.is_empty() {
            return;
        }
        let too_early = seeded_bug("blob_reaped_early") && !batch.blobs.is_empty();
        let horizon = if too_early { Lsn(u64::MAX) } else { self.horizon() };
        if batch.commit < horizon {
            self.clear(batch, horizon, usize::MAX);
        } else {
            self.keep(owner, batch);
        }
    }

    /// Keeps what a commit left behind for later. Ghosts of rows that no snapshot sees need not wait: none will see them. Nor need large
    /// values wait for the oldest snapshot that does not see them.
    pub fn keep(&self, owner: Owner, mut batch: Batch) {
        if seeded_bug("spill_freed_early") {
            batch.spill.take().inspect(|spill| self.txns.spills.free(spill));
        }
        let mut unseen = Batch::new(batch.commit, batch.author);
        unseen.ghosts.extend(batch.ghosts.extract_if(.., |ghost| !ghost.tree.is_seen(&ghost.key)));
        self.purge(&mut unseen.ghosts, Some(owner));
        if !batch.blobs.is_empty() {
            let oldest = self.horizon();
            unseen.blobs.extend(batch.blobs.extract_if(.., |(_, id)| id.since() >= oldest));
            self.reap(&mut unseen);
        }
        if !unseen.is_empty() {
            self.txns.garbage.keep_stuck(Stuck::new(unseen, None));
        }
        if !batch.is_empty() {
            let newest = self.txns.snapshots.newest().unwrap_or(Lsn::ZERO);
            self.txns.garbage.push(owner, batch, newest);
        }
    }

    /// No snapshot, open or to come, needs what was replaced by commits below this.
    fn horizon(&self) -> Lsn {
        let log_end = self.log.reserved();
        self.txns.snapshots.horizon(log_end)
    }

    /// Clears some of the garbage in the queue of `owner`; of batches with more than `rows_max` ghosts and large values, the images.
    /// `false`: it is not known what of that is needed, as a snapshot is being opened.
    fn sweep(&self, owner: Owner, batches_max: usize, rows_max: usize) -> bool {
        if self.txns.garbage.len(owner) == 0 {
            return true;
        }
        let horizon = self.horizon();
        for _ in 0..batches_max {
            let Some(batch) = self.txns.garbage.take(owner, horizon) else { break };
            self.clear(batch, horizon, rows_max);
        }
        horizon != Lsn::ZERO
    }

    /// Clears what a commit may clear of its own queue.
    pub fn sweep_own(&self, owner: Owner) {
        self.sweep(owner, SWEEP_MAX, SWEEP_ROWS_MAX);
    }

    /// Gives up snapshots, the oldest first, until old versions that only snapshots need take at most `bytes_max`. (Those of
    /// running transactions stay anyway.)
    pub fn bound_images(&self, bytes_max: u64) {
        if self.txns.garbage.may_be_pointless(bytes_max / BUDGET_PART) {
            self.throw_out_garbage();
        }
        let are_too_many = || self.txns.keys.kept_bytes() + self.txns.garbage.bytes() > bytes_max;
        // What a sweep could not clear, as nobody knew how much a snapshot needs that is just being opened, costs no other one.
        while are_too_many() && self.sweep_images() && are_too_many() && self.txns.snapshots.expire_oldest() {
        }
    }

    /// Throws out garbage that will be nothing when its time comes: ghosts of keys that were put again since, and maybe removed once
    /// more, which made another ghost; names under which there is no image any more.
    fn throw_out_garbage(&self) {
        let ghost_is_there = |ghost: &Ghost| ghost.tree.may_have_ghost(&ghost.key, ghost.author);
        self.txns.garbage.throw_out(ghost_is_there, |name| self.txns.keys.may_have_images(name));
    }

    /// Clears all garbage that no snapshot needs.
    pub fn sweep_all(&self) {
        self.sweep_each(usize::MAX);
    }

    /// Clears the images that no snapshot needs, which does not take long, and leaves the rest to who [retries](Core::retry_stuck).
    /// `false`: it is not known of all of them which are needed, as a snapshot is being opened.
    pub fn sweep_images(&self) -> bool {
        self.sweep_each(0)
    }

    fn sweep_each(&self, rows_max: usize) -> bool {
        let swept = Garbage::owners().map(|owner| self.sweep(owner, self.txns.garbage.len(owner), rows_max));
        swept.filter(|is_known| !is_known).count() == 0 // not `all`, which would leave the rest
    }

    /// No snapshot needs what was replaced by commits below `horizon`, that of the batch among them. What is more than `rows_max` stays for
    /// who retries.
    fn clear(&self, mut batch: Batch, horizon: Lsn, rows_max: usize) {
        for name in batch.images.drain(..) {
            self.txns.keys.clear_images(name, batch.commit, horizon);
        }
        if batch.is_large(rows_max) || !self.try_to_clear(&mut batch) {
            self.txns.garbage.keep_stuck(Stuck::new(batch, None));
        }
    }

    /// Tries those batches again that could not be cleared, if they are `due`.
    pub fn retry_stuck(&self, is_due: impl Fn(&Stuck) -> bool) {
        for Stuck { mut batch, pause, .. } in self.txns.garbage.take_stuck(is_due) {
            if !self.try_to_clear(&mut batch) {
                self.txns.garbage.keep_stuck(Stuck::new(batch, Some(pause)));
            }
        }
    }

    /// A ghost that somebody has locked, or that could not be removed for want of space, stays for the next time, and so does a large
    /// value that a snapshot may see. Was there none?
    fn try_to_clear(&self, batch: &mut Batch) -> bool {
        if let Some(spill) = &batch.spill
            && let Some(locked) = self.purge_spilled(spill, batch.author)
        {
            batch.ghosts.extend(locked);
            batch.spill.take().inspect(|spill| self.txns.spills.free(spill));
        }
        self.purge(&mut batch.ghosts, None);
        self.reap(batch);
        batch.ghosts.is_empty() && batch.blobs.is_empty() && batch.spill.is_none()
    }

    /// Reaps the large values of a batch; keeps those that a snapshot may see, or that somebody has locked.
    fn reap(&self, batch: &mut Batch) {
        let Batch { commit, author, ref mut blobs, .. } = *batch;
        let is_seen = |id: BlobId| {
            self.txns.snapshots.any_between(id.since(), commit) && !seeded_bug("blob_reaped_early")
        };
        blobs.retain(|(chunks, id)| is_seen(*id) || !matches!(blob::reap(chunks, *id, author), Ok(true)));
    }

    /// Removes the ghosts of those rows that a transaction has spilled, and removed. Returns those that somebody has locked; `None` if there
    /// is no space to remove them, or the spill cannot be read now: then it is still needed, as nothing else notes them. One that is damaged
    /// is not: what is left stays until its leaf is full.
    fn purge_spilled(&self, spill: &Spill, author: u64) -> Option<Vec<Ghost>> {
        let (mut ghosts, mut locked) = (Vec::with_capacity(SPILLED_AT_ONCE), Vec::new());
        let mut purge = |ghosts: &mut Vec<Ghost>| {
            self.purge(ghosts, None);
            locked.append(ghosts);
            if self.log.room().is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let mut all = ControlFlow::Continue(());
        let shown = spill.each_with_ghosts(|tree, key| {
            ghosts.push(Ghost { tree: tree.clone(), key: key.into(), author });
            if ghosts.len() == SPILLED_AT_ONCE {
                all = purge(&mut ghosts);
            }
            all
        });
        let had_room = all.is_continue() && purge(&mut ghosts).is_continue();
        (had_room && matches!(shown, Ok(()) | Err(Error::Corrupt { .. }))).then_some(locked)
    }

    /// Removes those of these ghosts that nobody but `owner` has locked; keeps the others.
    fn purge(&self, ghosts: &mut Vec<Ghost>, owner: Option<Owner>) {
        let (mut near, mut loaded) = (PageId::NONE, 0);
        let mut gone = Vec::with_capacity(ghosts.len());
        for (at, ghost) in ghosts.iter().enumerate() {
            if ghosts.len() > LOOK_EVERY && at >= loaded && at % LOOK_EVERY == 0 {
                loaded = at + self.load_leaves(&ghosts[at..]);
            }
            if let Some(Ghost { tree, key, .. }) = ghosts.get(at + LOCKS_AHEAD) {
                tree.lock_ahead(key);
            }
            gone.push(matches!(ghost.tree.purge(owner, &mut near, &ghost.key, ghost.author), Ok(true)));
        }
        let mut gone = gone.into_iter();
        ghosts.retain(|_| gone.next() == Some(false));
    }

    /// Reads the leaves of the first ghosts side by side, if one of the next two is on disk: one table may be in memory, and another not.
    /// Returns of how many.
    fn load_leaves(&self, ghosts: &[Ghost]) -> usize {
        let leaf = |ghost: &Ghost| ghost.tree.seek(&ghost.key).ok();
        if !ghosts.iter().take(2).filter_map(leaf).any(|leaf| self.pools.is_on_disk(leaf)) {
            return 0;
        }
        let soon = &ghosts[..ghosts.len().min(self.pools.together())];
        self.pools.load_together(soon.iter().filter_map(leaf));
        soon.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::{CommitStamp, KeyTable, Spares};
    use crate::tree::testing::comes_true;
    use crate::tree::{Intent, PATIENCE};
    use crate::txn::{Snapshot, Txn};
    use crate::{ByteTable, Database, Durability};
    use foreshore_base::TableId;
    use foreshore_base::sync::AtomicBool;
    use foreshore_io::MemVfs;
    use foreshore_io::sim::{Call, Intercepted};

    /// A snapshot needs what was replaced by one commit, and nobody what was replaced by an earlier one, which came to the same
    /// queue later.
    #[test]
    fn the_oldest_of_a_queue_goes_first() {
        let garbage = Garbage::default();
        let [first, second] = [Owner(1), Owner(1 + SHARDS as u16)];
        garbage.push(first, Batch::new(Lsn(100), 1), Lsn::MAX);
        garbage.push(first, Batch::new(Lsn(300), 3), Lsn::MAX);
        garbage.push(second, Batch::new(Lsn(200), 2), Lsn::MAX);
        let taken: Vec<_> =
            std::iter::from_fn(|| garbage.take(first, Lsn(250))).map(|batch| batch.commit).collect();
        assert_eq!(taken, [Lsn(100), Lsn(200)]);
        assert_eq!(garbage.len(first), 1);
    }

    /// Images of commits that no snapshot tells apart wait together, and are counted.
    #[test]
    fn what_the_same_snapshots_need_is_one_batch() {
        let (garbage, owner, name) =
            (Garbage::default(), Owner(3), KeyTable::new(0, 1).name(TableId(1), b"k"));
        let push = |commit, newest| {
            let images = vec![name];
            garbage.push(owner, Batch { images, ..Batch::new(Lsn(commit), 0) }, Lsn(newest));
        };
        push(10, 5);
        push(20, 10);
        assert_eq!(garbage.len(owner), 1, "the snapshot at 10 sees neither");
        push(30, 21);
        assert_eq!(garbage.len(owner), 2, "the one at 21 sees the second");
        push(25, 0);
        assert_eq!(garbage.len(owner), 2, "it came late, and fits to those before it");
        (1..=IMAGES_MAX as u64).for_each(|commit| push(30 + commit, 0));
        assert_eq!(garbage.len(owner), 3, "but not too many");
        assert!(garbage.bytes() >= (IMAGES_MAX as u64 + 4) * 8);
        let taken: Vec<_> = std::iter::from_fn(|| garbage.take(owner, Lsn::MAX)).collect();
        assert_eq!(taken[0].commit, Lsn(25));
        assert_eq!(taken.iter().map(|batch| batch.images.len()).sum::<usize>(), IMAGES_MAX + 4);
        assert_eq!(garbage.bytes(), 0);
    }

    /// A row that is removed and put again and again beside a snapshot leaves a ghost to be cleared each time, of which the last
    /// one is real.
    #[test]
    fn what_became_pointless_is_thrown_out() {
        const CHANGES: u64 = 1000;
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        table.put_many(&[("a", "1"), ("b", "2")]).unwrap();
        let snapshot = db.snapshot().unwrap();
        for _ in 0..CHANGES {
            assert!(table.remove(b"a").unwrap() && table.insert(b"a", b"1").unwrap());
            db.transact(|tx| tx.bytes(&table).remove(b"a")).unwrap();
            db.transact(|tx| tx.bytes(&table).put(b"a", b"1")).unwrap();
        }
        assert!(table.remove(b"b").unwrap());
        let core = table.tree.core();
        let garbage = &core.txns.garbage;
        assert!(garbage.bytes() > 2 * CHANGES * size_of::<Ghost>() as u64);
        assert!(garbage.may_be_pointless(1000) && !garbage.may_be_pointless(u64::MAX));
        core.throw_out_garbage();
        assert!(garbage.bytes() < 1000, "{} bytes", garbage.bytes());
        assert!(!garbage.may_be_pointless(0), "there is no more than then");
        assert_eq!(snapshot.bytes(&table).range(..).count(), 2);
        drop(snapshot);
        core.sweep_all();
        assert!(garbage.is_empty() && garbage.bytes() == 0 && db.stats().image_bytes == 0);
        assert_eq!(db.check().unwrap().tables[1].ghosts, 0, "that of b was there");
        assert_eq!(table.range(..).count(), 1);
    }

    /// Rows that are removed one by one beside a snapshot take little more than their keys.
    #[test]
    fn removals_that_the_same_snapshot_sees_wait_together() {
        const ROWS: usize = 1000;
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        let rows: Vec<_> = (0..ROWS as u16).map(|row| (row.to_be_bytes(), "")).collect();
        table.put_many(&rows).unwrap();
        let snapshot = db.snapshot().unwrap();
        rows.iter().for_each(|(key, _)| assert!(table.remove(key).unwrap()));
        let garbage = &table.tree.core().txns.garbage;
        let batches: usize = Garbage::owners().map(|owner| garbage.len(owner)).sum();
        assert!(batches < ROWS / 10, "{batches} batches");
        assert!(garbage.bytes() < 70 * ROWS as u64, "{} bytes", garbage.bytes());
        assert_eq!((snapshot.bytes(&table).range(..).count(), table.is_empty().unwrap()), (ROWS, true));
        drop(snapshot);
        let is_clear = || {
            table.tree.core().sweep_all();
            garbage.is_empty() && db.check().unwrap().tables[1].ghosts == 0
        };
        assert!(comes_true(is_clear), "{:?}", db.check());
    }

    /// A database with an old version of a row, a snapshot that needs it, and one that does not.
    fn with_old_version() -> (Database, ByteTable, [Snapshot; 2]) {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        let core = table.tree.core();
        let snapshot = || core.txns.open_snapshot(&core.log).unwrap();
        table.put_many(&[(b"k", [1; 1000]), (b"l", [1; 1000])]).unwrap();
        let old = snapshot();
        table.put(b"k", &[2; 1000]).unwrap();
        let new = snapshot();
        (db, table, [old, new])
    }

    /// As long as nobody knows what a snapshot that is being opened needs, nothing can be cleared, whoever is given up.
    #[test]
    fn no_snapshot_is_given_up_in_vain_while_one_is_opened() {
        let (_db, table, snapshots) = with_old_version();
        let core = table.tree.core();
        let given_up = || snapshots.each_ref().map(|snapshot| core.txns.is_expired(snapshot));
        let entering = core.txns.snapshots.enter().unwrap();
        core.bound_images(0);
        assert_eq!(given_up(), [false, false]);
        core.txns.snapshots.leave(entering);
        core.bound_images(0);
        assert_eq!(given_up(), [true, false], "nothing is left that the other one needs");
        snapshots.iter().for_each(|snapshot| core.txns.close_snapshot(snapshot));
    }

    /// What a large transaction has replaced takes a while to be stamped, and is cleared with its last row only. Until then a snapshot
    /// that was opened since is not given up for it: it sees that transaction.
    #[test]
    fn no_snapshot_is_given_up_in_vain_beside_a_commit() {
        let (_db, table, [old, new]) = with_old_version();
        let (tree, core) = (&table.tree, table.tree.core());
        core.txns.close_snapshot(&new);
        let mut txn = Txn::begin(core.clone().into(), PATIENCE, Lsn::ZERO).unwrap();
        tree.write(&mut txn, b"l", Intent::Put(&[2; 1000])).unwrap();
        let (keys, commit) = (&core.txns.keys, core.log.reserved());
        let (name, stamp) = (keys.name(tree.id, b"l"), CommitStamp { commit, newest: old.view.at });
        keys.finish(txn.owner, name, txn.author(), Some(stamp), &mut Spares::default());
        table.put(b"another", b"moves the log's end").unwrap();
        let since = core.txns.open_snapshot(&core.log).unwrap();
        core.bound_images(0);
        assert!(core.txns.is_expired(&old) && !core.txns.is_expired(&since));
        txn.commit().unwrap();
        keys.clear_images(name, commit, Lsn::MAX);
        [old, since].iter().for_each(|snapshot| core.txns.close_snapshot(snapshot));
    }

    /// What a transaction has removed, and noted on disk, is still to be removed when a full disk has space again.
    #[test]
    fn ghosts_that_are_noted_on_disk_wait_for_space() {
        let is_full = Arc::new(AtomicBool::new(false));
        let its = is_full.clone();
        let disk = Intercepted::new(MemVfs::new(), move |call, name, go| {
            let takes_space = matches!(call, Call::Allocate | Call::Rename) && name.starts_with("wal");
            match takes_space && its.load(Relaxed) {
                true => Err(std::io::ErrorKind::StorageFull.into()),
                false => go(),
            }
        });
        let small = Database::builder().leaf_bytes(4096).cache_bytes(4 << 20).durability(Durability::Relaxed);
        let small = small.ring_bytes(64 << 10).segment_bytes(64 << 10).log_bytes(64 << 10);
        let db = small.open_on(Arc::new(disk)).unwrap();
        let (table, other) = (db.byte_table("t").unwrap(), db.byte_table("other").unwrap());
        table.put_many(&(0..5000_u16).map(|row| (row.to_be_bytes(), [7; 100])).collect::<Vec<_>>()).unwrap();
        let snapshot = db.snapshot().unwrap();
        table.remove_range(..).unwrap();
        is_full.store(true, Relaxed);
        while other.put(b"row", &[7; 100]).is_ok() {}
        drop(snapshot);
        let try_all = || {
            table.tree.core().sweep_all();
            table.tree.core().retry_stuck(|_| true);
        };
        (0..10).for_each(|_| try_all());
        is_full.store(false, Relaxed);
        let ghosts = || db.check().unwrap().tables.iter().map(|table| table.ghosts).sum::<u64>();
        let are_gone = || {
            try_all();
            ghosts() == 0
        };
        assert!(comes_true(are_gone), "{} ghosts", ghosts());
        assert!(table.tree.core().txns.spills.tables().is_empty());
    }
}
