//! Locks of keys that many read: the ways into and out of buckets that are open (`shown`).

use super::bucket::{Bucket, Content};
use super::modes::Modes;
use super::shown::{Door, Places};
use super::{Granted, Held, KeyTable, LockError, Name, Owner, Reach};
use foreshore_base::sync::{AtomicUsize, Ordering::*};
use std::time::Duration;

/// What an owner is granted that shows what it reads: it is no name to be released, nor is it given back before the owner's end.
pub(super) const SHOWN: Granted =
    Granted { first: false, before: Held { modes: Modes::READ, reach: Reach::NONE }, waited: None };

/// What all owners show.
pub(super) struct Shown {
    places: Box<[Places]>,
    /// No owner from this one on ever showed anything.
    below: AtomicUsize,
}

impl Shown {
    pub fn new(owners: usize) -> Self {
        Self { places: (0..owners).map(|_| Places::default()).collect(), below: AtomicUsize::new(0) }
    }

    #[inline]
    fn of(&self, owner: Owner) -> &Places {
        &self.places[usize::from(owner.0)]
    }

    /// Where the owner shows this name.
    #[inline]
    pub fn find(&self, owner: Owner, name: Name) -> Option<usize> {
        let places = self.of(owner);
        if places.any() { places.find(name.0) } else { None }
    }

    #[cold]
    fn show(&self, owner: Owner, name: Name, door: &Door) -> bool {
        let owners = usize::from(owner.0) + 1;
        if self.below.load(Relaxed) < owners {
            self.below.fetch_max(owners, Relaxed); // before the fence in `Places::show`
        }
        self.of(owner).show(name.0, door)
    }

    /// Somebody who shows something.
    pub fn any(&self) -> Option<Owner> {
        self.places.iter().position(Places::any).map(|owner| Owner(owner as u16))
    }
}

impl KeyTable {
    /// Does the owner show that it reads the name from now on? If the bucket is open, and there is a place left.
    #[inline(always)]
    pub(super) fn shows(&self, owner: Owner, name: Name) -> bool {
        let door = &self.bucket(name).door;
        door.is_open() && self.shown.show(owner, name, door)
    }

    /// Does it show that already?
    pub fn is_shown(&self, owner: Owner, name: Name) -> bool {
        self.shown.find(owner, name).is_some()
    }

    /// [`KeyTable::acquire`] for one that shows the name in this place, and wants to do more than read it: from now on it has a request.
    #[cold]
    pub(super) fn acquire_more(
        &self,
        owner: Owner,
        (name, place): (Name, usize),
        modes: Modes,
        gap: Reach,
        patience: Duration,
    ) -> Result<Granted, LockError> {
        let places = self.shown.of(owner);
        let mut content = self.bucket(name).content.latch();
        if places.move_own(place) {
            content.at(name).requests.read(owner, name);
        }
        drop(content);
        let granted = self.counted(self.get(owner, name, modes, gap, patience))?;
        places.forget(place);
        Ok(Granted { first: true, ..granted })
    }

    /// Gives back what the owner shows that it reads, at its end.
    #[inline]
    pub fn release_shown(&self, owner: Owner) {
        let places = self.shown.of(owner);
        if places.any() {
            places.empty().for_each(|moved| self.release(owner, Name(moved)));
        }
    }

    /// No reader shows itself in this bucket from now on: all are among its requests.
    #[inline]
    pub(super) fn close(&self, bucket: &Bucket, content: &mut Content, name: Name) {
        if bucket.door.is_open() {
            self.close_open(bucket, content, name);
        }
    }

    #[cold]
    fn close_open(&self, bucket: &Bucket, content: &mut Content, name: Name) {
        let index = self.bucket_index(name);
        bucket.door.close(
            || &self.shown.places[..self.shown.below.load(Relaxed)],
            |name| self.bucket_index(Name(name)) == index,
            |owner, name| content.at(Name(name)).requests.read(Owner(owner as u16), Name(name)),
        );
    }
}
