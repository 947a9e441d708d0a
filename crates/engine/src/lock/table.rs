//! The table: buckets, seats, and the operations on them.

use super::bucket::{Bucket, Content};
use super::images::{Link, Removed, Spares};
use super::latched::Guard;
use super::modes::Modes;
use super::name::Names;
use super::popular::{SHOWN, Shown};
use super::queue::Asked;
use super::seat::Seat;
use super::stats::Counters;
use super::{Gap, Granted, Held, Image, ImageView, KeyMode, LockError, LockStats, Name, Owner, Point, Reach};
use crossbeam_utils::CachePadded;
use foreshore_base::prefetch::prefetch_lines;
use foreshore_base::sync::{AtomicU64, Ordering::*};
use foreshore_base::{Lsn, TableId, TxnId, seeded_bug};
use parking_lot::Mutex;
use std::ops::ControlFlow;
use std::time::Duration;

/// How long victims of deadlocks wait for each other before they run again. One at a time they meet no deadlock: sixteen threads that
/// each change 1000 of 10,000 rows then do five times as much. No longer than that, for transactions that mostly sleep would do better
/// side by side.
const LINE_PATIENCE: Duration = Duration::from_millis(10);

/// Counters of image bytes, by the writer's slot, so that writers do not share one.
const IMAGE_STRIPES: usize = 16;

/// Key locks and before-images of one database.
pub(crate) struct KeyTable {
    names: Names,
    pub(super) buckets: Box<[Bucket]>,
    pub(super) seats: Box<[Seat]>,
    pub(super) shown: Shown,
    /// Held while somebody looks for a deadlock.
    pub(super) detection: Mutex<()>,
    pub(super) counters: Counters,
    /// Bytes of the images: pushed less dropped, modulo 2^64.
    image_bytes: [CachePadded<AtomicU64>; IMAGE_STRIPES],
    /// The same for those that only snapshots need.
    kept_bytes: [CachePadded<AtomicU64>; IMAGE_STRIPES],
}

/// What the images of a writer that commits are stamped with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommitStamp {
    /// Its commit.
    pub commit: Lsn,
    /// The point of the newest open snapshot.
    pub newest: Lsn,
}

/// What became of a writer's images under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    /// Bytes of its own that were dropped: to be counted, for all names together, with [`KeyTable::count_dropped`].
    pub dropped: u64,
    /// Were any kept, that were not known to be before?
    pub kept: bool,
    /// Bytes of those that only snapshots need from now on: to be counted, for all names together, with [`KeyTable::count_kept`].
    pub stamped: u64,
}

impl KeyTable {
    /// A table of 2^`buckets_log2` buckets of 64 bytes for transactions in `owners` slots.
    pub fn new(buckets_log2: u32, owners: usize) -> Self {
        assert!(owners <= usize::from(u16::MAX), "{owners} owners, a slot has 16 bits");
        Self {
            names: Names::new(),
            buckets: (0..1usize << buckets_log2).map(|_| Bucket::default()).collect(),
            seats: (0..owners).map(|_| Seat::default()).collect(),
            shown: Shown::new(owners),
            detection: Mutex::new(()),
            counters: Counters::default(),
            image_bytes: Default::default(),
            kept_bytes: Default::default(),
        }
    }

    /// The same, with names of no more than `bits` bits.
    #[cfg(test)]
    pub fn with_colliding_names(buckets_log2: u32, owners: usize, bits: u32) -> Self {
        let mut table = Self::new(buckets_log2, owners);
        table.names.mask = (1 << bits) - 1;
        table
    }

    /// Names a key and the gap below it.
    #[inline]
    pub fn name(&self, table: TableId, key: &[u8]) -> Name {
        self.names.of_key(table, key)
    }

    /// Fetches what belongs to a name into the processor's cache.
    #[inline]
    pub fn prefetch(&self, name: Name) {
        prefetch_lines(self.bucket(name), size_of::<Bucket>());
    }

    /// Names the gap after the last key of a table.
    pub fn end_of(&self, table: TableId) -> Name {
        self.names.of_end(table)
    }

    /// Names all that the large transaction with this number has for itself (`txn/large.rs`).
    pub fn all_of(&self, number: u64) -> Name {
        self.names.of_all(number)
    }

    /// Locks the name for the owner: the key in mode `key`, and its gap down to `gap`, on top of what the owner holds. Waits up to
    /// `patience` for others. After an error the owner holds what it held before, and perhaps more of a gap that it held.
    ///
    /// Call it without a latch. (Inlined by force: as a call it takes 18 ns with its release instead of 14.)
    #[inline(always)]
    pub fn acquire(
        &self,
        owner: Owner,
        name: Name,
        key: KeyMode,
        gap: Reach,
        patience: Duration,
    ) -> Result<Granted, LockError> {
        let modes = Modes::of(key, gap);
        match self.shown.find(owner, name) {
            None if modes == Modes::READ && self.shows(owner, name) => Ok(SHOWN),
            None => self.counted(self.get(owner, name, modes, gap, patience)),
            Some(_) if modes == Modes::READ => Ok(SHOWN),
            Some(place) => self.acquire_more(owner, (name, place), modes, gap, patience),
        }
    }

    /// The same, without showing that the owner reads, which could not be [given back](KeyTable::release_beyond) before its end.
    #[cold]
    pub fn acquire_by_request(
        &self,
        owner: Owner,
        name: Name,
        key: KeyMode,
        gap: Reach,
        patience: Duration,
    ) -> Result<Granted, LockError> {
        let modes = Modes::of(key, gap);
        match self.shown.find(owner, name) {
            None => self.counted(self.get(owner, name, modes, gap, patience)),
            Some(_) if modes == Modes::READ => Ok(SHOWN),
            Some(place) => self.acquire_more(owner, (name, place), modes, gap, patience),
        }
    }

    /// Locks the line, a name of no key, on which victims of deadlocks wait for each other before they run again. If it is not granted
    /// within `LINE_PATIENCE`, and the same owner has had it all that time, it is taken from that one: nobody waits twice for a client
    /// that thinks. To be called by an owner that holds nothing. Returns the line's name too; it is released like any other.
    pub fn get_in_line(&self, owner: Owner, patience: Duration) -> (Name, Result<Granted, LockError>) {
        let (line, alone) = (self.names.of_line(), Modes::of(KeyMode::Exclusive, Reach::NONE));
        let has_it = self.bucket(line).content.latch().at(line).requests.writer(line);
        let got = self.get(owner, line, alone, Reach::NONE, patience.min(LINE_PATIENCE));
        if matches!(got, Err(LockError::Timeout { .. })) && patience >= LINE_PATIENCE {
            self.take_line(line, has_it);
        }
        (line, got)
    }

    /// Nobody relies on the line, so it can be taken from who has it.
    #[cold]
    fn take_line(&self, line: Name, from: Option<Owner>) {
        let mut content = self.bucket(line).content.latch();
        if let Some(owner) = content.at(line).requests.writer(line)
            && Some(owner) == from
            && content.at(line).requests.release(owner, line)
        {
            self.grant_waiting(content, line);
        }
    }

    /// Adds to what the owner holds on the name if nobody is in the way; tells whether it held nothing before. Never
    /// blocks.
    pub fn try_acquire(&self, owner: Owner, name: Name, key: KeyMode, gap: Reach) -> Option<bool> {
        let bucket = self.bucket(name);
        let mut content = bucket.content.latch();
        self.close(bucket, &mut content, name);
        match content.at(name).requests.ask(owner, name, Modes::of(key, gap), gap, &self.seats) {
            Asked::Granted { before } => Some(before.is_nothing()),
            Asked::Blocked => None,
        }
    }

    /// Who holds the gap at this point, where the owner is about to insert? Asked under the latch of that leaf. Never
    /// blocks.
    ///
    /// ORDERING: a scanner takes its gap lock and then reads the leaf. This latches the bucket rather than peeking, so
    /// either it sees the lock, or the scanner's request came later and with it its reading of the leaf, which then sees
    /// the leaf latched or the key inserted.
    #[inline]
    pub fn look_at_gap(&self, owner: Owner, Point { gap: name, at }: Point) -> Gap {
        let mut content = self.bucket(name).content.latch();
        let (gap, had_turn) = content.at(name).requests.look_at_gap(owner, name, at);
        if had_turn {
            self.grant_waiting(content, name);
        }
        if seeded_bug("lock_gap_ignored_by_inserter") { Gap::Open } else { gap }
    }

    /// Locks the gap below a key that the owner has locked and is about to insert, into a gap of its own, as far down as
    /// [`Gap::Own`] says, under the latch of the key's leaf: at once, for the owner holds that already. Never blocks.
    pub fn keep_gap(&self, owner: Owner, name: Name, reach: Reach) {
        self.bucket(name).content.latch().at(name).requests.keep_gap(owner, name, reach);
    }

    /// Waits until nobody else holds the gap at this point; tells how long, if it had to. The owner holds nothing of it afterwards, but
    /// if scanners wait behind it they are kept back a moment, until it [looks at it](KeyTable::look_at_gap).
    ///
    /// Call it without a latch.
    pub fn wait_for_gap(
        &self,
        owner: Owner,
        point: Point,
        patience: Duration,
    ) -> Result<Option<Duration>, LockError> {
        self.counted(self.get(owner, point.gap, Modes::INSERT, point.at, patience))
            .map(|granted| granted.waited)
    }

    /// Counts a timeout.
    #[inline]
    pub(super) fn counted<R>(&self, outcome: Result<R, LockError>) -> Result<R, LockError> {
        if let Err(LockError::Timeout { .. }) = outcome {
            self.counters.timeout();
        }
        outcome
    }

    /// Has nobody but `except` a request on the name, granted or waiting? Never blocks.
    pub fn is_quiet(&self, name: Name, except: Option<Owner>) -> bool {
        let bucket = self.bucket(name);
        let mut content = bucket.content.latch();
        self.close(bucket, &mut content, name);
        content.at(name).requests.is_quiet(name, except)
    }

    /// Gives back everything that the owner holds on the name, but what it [shows](super::shown), and grants what others waited for.
    #[inline]
    pub fn release(&self, owner: Owner, name: Name) {
        let bucket = self.bucket(name);
        self.release_in(bucket, bucket.content.latch(), owner, name);
    }

    #[inline]
    fn release_in(&self, bucket: &Bucket, mut content: Guard<'_, Content>, owner: Owner, name: Name) {
        if content.at(name).requests.release(owner, name) {
            self.grant_waiting(content, name);
        } else {
            bucket.unite_if_empty(&mut content, name);
        }
    }

    /// Gives back the key that the owner holds of the name, but not the gap; does it hold that?
    pub fn release_key(&self, owner: Owner, name: Name) -> bool {
        let key = Modes::READ.with(Modes::WRITE);
        self.release_to(owner, name, |held, reach| (held.without(key), reach))
    }

    /// Gives back the gap, and the key if it is held to be read; or is it held to be written?
    pub fn release_scanned(&self, owner: Owner, name: Name) -> bool {
        self.release_to(owner, name, |held, _| match held.touches(Modes::WRITE) {
            true => (held.without(Modes::GAP), Reach::NONE),
            false => (held.without(Modes::GAP.with(Modes::READ)), Reach::NONE),
        })
    }

    /// Gives back what the owner has got of the name since it held this. Is there anything left, by a request?
    #[cold]
    pub fn release_beyond(&self, owner: Owner, name: Name, before: Held) -> bool {
        self.release_to(owner, name, |_, _| (before.modes, before.reach))
    }

    /// Gives back all that the owner holds on the name but what `left` says, given that; is it anything?
    fn release_to(
        &self,
        owner: Owner,
        name: Name,
        left: impl FnOnce(Modes, Reach) -> (Modes, Reach),
    ) -> bool {
        let bucket = self.bucket(name);
        let mut content = bucket.content.latch();
        let requests = &mut content.at(name).requests;
        let (held, reach) = requests.held_of(owner, name);
        let (held, reach) = left(held, reach);
        requests.hold_only(owner, name, held, reach);
        match held.is_none() {
            true => self.release_in(bucket, content, owner, name),
            false => self.grant_waiting(content, name),
        }
        !held.is_none()
    }

    /// Waits until nobody else has the name for itself; tells how long, if it had to. The owner, who holds nothing of it, does not
    /// afterwards either.
    #[cold]
    pub fn wait_for(
        &self,
        owner: Owner,
        name: Name,
        patience: Duration,
    ) -> Result<Option<Duration>, LockError> {
        let granted = self.counted(self.get(owner, name, Modes::READ, Reach::NONE, patience))?;
        self.release(owner, name);
        Ok(granted.waited)
    }

    /// Gives back everything that the owner holds, of whatever name, for one that does not know all of them: looks into every bucket.
    pub fn release_all(&self, owner: Owner) {
        let mut names = Vec::new();
        for bucket in &self.buckets {
            let content = bucket.content.latch();
            let requests = content.parts().iter().flat_map(|part| part.requests.iter());
            names.extend(requests.filter(|request| request.owner == owner).map(|request| request.name));
            drop(content);
            names.drain(..).for_each(|name| self.release(owner, name));
        }
    }

    /// Ends what a writer has on a name: its images there are stamped or, if nobody needs them, dropped, and its lock is given
    /// back. The bucket is latched once.
    #[inline]
    pub fn finish(
        &self,
        owner: Owner,
        name: Name,
        writer: u64,
        stamp: Option<CommitStamp>,
        spares: &mut Spares,
    ) -> Finished {
        let bucket = self.bucket(name);
        let mut content = bucket.content.latch();
        let mut removed = Removed::default();
        let (mut kept, mut bytes) = (false, 0);
        if bucket.has_images() {
            match stamp {
                Some(stamp) => {
                    let stamped = content.at(name).images.stamp(name, writer, stamp);
                    bytes = stamped.bytes;
                    (removed, kept) = (stamped.superseded, stamped.images > 0);
                }
                None => {
                    removed = content.at(name).images.remove(name, writer);
                    bucket.note_images_gone(&content);
                }
            }
        }
        if content.at(name).requests.release(owner, name) {
            self.grant_waiting(content, name);
        } else {
            bucket.unite_if_empty(&mut content, name);
            drop(content);
        }
        let mut dropped = 0;
        for link in removed {
            if link.is_kept() {
                self.count_freed(&link);
            } else {
                dropped += link.bytes();
            }
            spares.keep(link);
        }
        Finished { dropped, kept, stamped: bytes }
    }

    /// So many bytes of this writer's images were stamped, and those who clear up know of them.
    pub fn count_kept(&self, writer: Owner, bytes: u64) {
        self.kept_stripe(writer.0).fetch_add(bytes, Relaxed);
    }

    /// So many bytes of this writer's images were dropped.
    pub fn count_dropped(&self, writer: Owner, bytes: u64) {
        self.image_stripe(writer.0).fetch_sub(bytes, Relaxed);
    }

    /// Ends the current or next wait of the transaction with this number with [`LockError::Aborted`], if it is still the
    /// owner.
    pub fn interrupt(&self, owner: Owner, number: u64) {
        self.seat(owner).interrupt(number);
    }

    /// Was the transaction that it is now interrupted?
    pub fn is_interrupted(&self, owner: Owner) -> bool {
        self.seat(owner).is_interrupted()
    }

    /// The owner will not give its locks back as long as the database is open: nobody waits for them from now on, and who does
    /// already finds out when it looks for deadlocks.
    pub fn strand(&self, owner: Owner) {
        self.seat(owner).strand();
    }

    /// Was it [stranded](KeyTable::strand)?
    pub fn is_stranded(&self, owner: Owner) -> bool {
        self.seat(owner).is_stranded()
    }

    /// Prepares the slot for a new transaction. A bigger age is a younger transaction, which loses deadlocks; of the same age
    /// is who begins about the same time. Its number is above 0 and those of all before it in the slot.
    pub fn reset(&self, owner: Owner, age: Lsn, number: u64) {
        self.seat(owner).reset(age.0, number);
    }

    /// The transaction in this slot begins to write, with this id: of those of the same age, who did so first is the oldest.
    pub fn began(&self, owner: Owner, id: TxnId) {
        self.seat(owner).began(id.0);
    }

    /// What was counted since the table was made.
    pub fn stats(&self) -> LockStats {
        self.counters.read()
    }

    /// Keeps what the key was before it is changed. Called under the latch of the key's leaf.
    pub fn push_image(&self, name: Name, image: Image) {
        self.push_image_into(name, image, &mut Spares::default());
    }

    /// The same, in spare memory.
    pub fn push_image_into(&self, name: Name, image: Image, spares: &mut Spares) {
        let link = spares.link(name, image);
        self.image_stripe(link.slot()).fetch_add(link.bytes(), Relaxed);
        if link.is_kept() {
            self.kept_stripe(link.slot()).fetch_add(link.bytes(), Relaxed);
        }
        self.bucket(name).push_image(name, link);
    }

    /// An autocommitted write replaces the row's newest version. Need it not push an image, as no snapshot up to `newest` sees
    /// that version? An older image tells then what snapshots see. Called under the latch of the key's leaf.
    pub fn take_over(&self, name: Name, table: TableId, key: &[u8], writer: u64, newest: Lsn) -> bool {
        if !self.may_have_images(name) {
            return false;
        }
        let mut content = self.bucket(name).content.latch();
        let removed = content.at(name).images.take_over(name, (table, key), writer, newest.0);
        drop(content);
        let is_told = removed.is_some();
        removed.into_iter().flatten().for_each(|link| self.count_freed(&link));
        is_told
    }

    /// Is there an image near the name?
    pub fn may_have_images(&self, name: Name) -> bool {
        self.bucket(name).has_images()
    }

    /// May a snapshot see a value of this row, which is absent now, and which nobody is changing?
    pub fn is_value_kept(&self, name: Name, table: TableId, key: &[u8]) -> bool {
        self.may_have_images(name)
            && self.bucket(name).content.latch().at(name).images.has_value(name, table, key)
    }

    /// Frees the images of a row of which no value is kept, as it goes for good, under the latch of its leaf.
    pub fn forget_images(&self, name: Name, table: TableId, key: &[u8]) {
        if self.may_have_images(name) {
            self.free_images(name, |content| content.at(name).images.forget(name, table, key));
        }
    }

    /// Shows `visit` the images of the key, newest first, until it breaks. One load, and nothing written, if there are
    /// none near the name; otherwise under the bucket's latch, so `visit` must be short and take no other latch.
    #[inline]
    pub fn images<B>(
        &self,
        name: Name,
        table: TableId,
        key: &[u8],
        visit: impl FnMut(&ImageView<'_>) -> ControlFlow<B>,
    ) -> Option<B> {
        let bucket = self.bucket(name);
        if !bucket.has_images() {
            return None;
        }
        bucket.content.latch().at(name).images.visit(name, table, key, visit)
    }

    /// Notes the commit LSN of the writer in all its images under the name.
    #[cfg(test)]
    pub fn stamp(&self, name: Name, writer: u64, commit: u64) {
        let stamp = CommitStamp { commit: Lsn(commit), newest: Lsn(commit) };
        let stamped = self.bucket(name).content.latch().at(name).images.stamp(name, writer, stamp);
        self.kept_stripe(0).fetch_add(stamped.bytes, Relaxed);
    }

    /// Frees the newest image of the row, which has this name, if it is of the writer, which has not ended.
    pub fn drop_image(&self, name: Name, row: (TableId, &[u8]), writer: u64) {
        self.free_images(name, |content| content.at(name).images.remove_newest(name, row, writer));
    }

    /// Frees the images that were put under the name for a commit at `commit`, and whatever else near it was committed
    /// below `horizon`, where no snapshot needs it.
    pub fn clear_images(&self, name: Name, commit: Lsn, horizon: Lsn) {
        self.free_images(name, |content| content.clear_images(commit.0, horizon.0));
    }

    /// Frees the images that `take` takes out, with no latch held.
    fn free_images(&self, name: Name, take: impl FnOnce(&mut Content) -> Removed) {
        let bucket = self.bucket(name);
        let mut content = bucket.content.latch();
        let removed = take(&mut content);
        bucket.note_images_gone(&content);
        bucket.unite_if_empty(&mut content, name);
        drop(content);
        removed.for_each(|link| self.count_freed(&link));
    }

    fn count_freed(&self, link: &Link) {
        self.image_stripe(link.slot()).fetch_sub(link.bytes(), Relaxed);
        if link.is_kept() {
            self.kept_stripe(link.slot()).fetch_sub(link.bytes(), Relaxed);
        }
    }

    /// Memory of all images, in bytes.
    pub fn image_bytes(&self) -> u64 {
        sum(&self.image_bytes)
    }

    /// Memory of those whose writer has committed, in bytes: only open snapshots need them. (Some may be freed before they are
    /// counted.)
    pub fn kept_bytes(&self) -> u64 {
        sum(&self.kept_bytes).cast_signed().max(0).cast_unsigned()
    }

    /// Nothing is locked, nobody waits, no image is kept; or what is left.
    pub fn check_empty(&self) -> Result<(), String> {
        for bucket in &self.buckets {
            let content = bucket.content.latch();
            for part in content.parts() {
                if let Some(request) = part.requests.iter().next() {
                    return Err(format!("a request is left: {request:?}"));
                }
                if !part.images.is_empty() {
                    return Err(format!("{} images are left", part.images.count()));
                }
            }
        }
        if let Some(owner) = self.shown.any() {
            return Err(format!("{owner:?} shows that it reads"));
        }
        if let Some(waiting) = self.seats.iter().position(|seat| seat.signal().is_waiting()) {
            return Err(format!("owner {waiting} waits without a request"));
        }
        match self.image_bytes() {
            0 => Ok(()),
            bytes => Err(format!("no image is left, but {bytes} bytes of images")),
        }
    }

    /// The most requests, and images, in one part of a bucket.
    #[cfg(test)]
    pub fn longest(&self) -> (usize, usize) {
        self.buckets.iter().fold((0, 0), |most, bucket| {
            let content = bucket.content.latch();
            let parts =
                content.parts().iter().map(|part| (part.requests.iter().count(), part.images.count()));
            parts.fold(most, |most, (requests, images)| (most.0.max(requests), most.1.max(images)))
        })
    }

    /// How many requests there are.
    #[cfg(test)]
    pub fn requests(&self) -> usize {
        let of = |bucket: &Bucket| {
            let content = bucket.content.latch();
            content.parts().iter().map(|part| part.requests.iter().count()).sum::<usize>()
        };
        self.buckets.iter().map(of).sum()
    }

    /// Is a bucket divided?
    #[cfg(test)]
    pub fn is_divided(&self) -> bool {
        self.buckets.iter().any(|bucket| bucket.content.latch().is_divided())
    }

    /// How many owners wait for the name.
    #[cfg(test)]
    pub fn waiting_on(&self, name: Name) -> usize {
        self.bucket(name).content.latch().at(name).requests.waiting_on(name)
    }

    /// Grants what can be granted on the name, and wakes those concerned after the latch is given back.
    pub(super) fn grant_waiting(&self, mut content: Guard<'_, Content>, name: Name) {
        let woken = content.at(name).requests.grant_waiting(name, &self.seats);
        drop(content);
        for owner in woken {
            self.seat(owner).wake();
        }
    }

    #[inline]
    pub(super) fn bucket_index(&self, name: Name) -> usize {
        name.0.get() as usize & (self.buckets.len() - 1)
    }

    #[inline]
    pub(super) fn bucket(&self, name: Name) -> &Bucket {
        &self.buckets[self.bucket_index(name)]
    }

    #[inline]
    pub(super) fn seat(&self, owner: Owner) -> &Seat {
        &self.seats[usize::from(owner.0)]
    }

    fn image_stripe(&self, slot: u16) -> &AtomicU64 {
        &self.image_bytes[usize::from(slot) % IMAGE_STRIPES]
    }

    fn kept_stripe(&self, slot: u16) -> &AtomicU64 {
        &self.kept_bytes[usize::from(slot) % IMAGE_STRIPES]
    }
}

/// What stripes add up to, modulo 2^64.
fn sum(stripes: &[CachePadded<AtomicU64>]) -> u64 {
    stripes.iter().fold(0, |sum: u64, stripe| sum.wrapping_add(stripe.load(Relaxed)))
}
