//! The requests of one bucket, or of a part of it, in order of arrival: a few in the bucket's own cache line, the rest spilled.
//!
//! Why: with more buckets than locks held, nearly every bucket has at most two requests, and then a lock is taken and
//! given back within one cache line and without an allocation. Shore-MT (§7.5) got there with a lock-free pool of
//! requests; here the bucket is the pool.

use super::bucket::{CROWD, Part};
use super::modes::Modes;
use super::{Name, Owner, Reach};

/// Requests in the bucket's line.
const FEW: usize = 2;

/// A spill that held no more than this is kept when it runs empty, so that a busy key allocates once.
const SPILL_KEPT: usize = 16;

/// What one owner has and wants of one name. Never two of the same owner and name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub name: Name,
    pub owner: Owner,
    pub held: Modes,
    /// Not empty: its owner waits until these can be added to `held`.
    pub wanted: Modes,
    /// How far down the gap is locked, or will be; of who waits to insert, and holds nothing of the gap itself, where that is.
    /// `NONE` of all others.
    pub reach: Reach,
}

const _: () = assert!(size_of::<Request>() == 16);

/// See the module. The few are filled from the front, and before anything is spilled.
#[derive(Default)]
pub(super) struct Requests {
    few: [Option<Request>; FEW],
    spill: Option<Box<Spill>>,
}

const _: () = assert!(size_of::<Requests>() == 40);

#[derive(Default)]
struct Spill {
    requests: Vec<Request>,
    /// The parts of a divided bucket (`bucket`), which has all its requests there.
    parts: Vec<Part>,
    /// One of them, in which there was something when somebody last looked for that.
    occupied: usize,
}

impl Requests {
    /// None of its own, but these parts.
    pub fn divided(parts: Vec<Part>) -> Self {
        Self { spill: Some(Box::new(Spill { parts, ..Spill::default() })), ..Self::default() }
    }

    #[inline]
    pub fn parts(&self) -> &[Part] {
        self.spill.as_ref().map_or(&[], |spill| &spill.parts)
    }

    /// The parts, and the number of one that was not empty.
    #[inline]
    pub fn parts_mut(&mut self) -> (&mut [Part], &mut usize) {
        let spill = self.spill.get_or_insert_default();
        (&mut spill.parts, &mut spill.occupied)
    }

    /// Are there many of other names than this one?
    #[inline]
    pub fn are_crowded(&self, name: Name) -> bool {
        let is_other = |request: &&Request| request.name != name;
        self.spill.as_ref().is_some_and(|spill| {
            spill.requests.len() >= CROWD && spill.requests.iter().filter(is_other).count() >= CROWD
        })
    }

    /// Are there no requests? What nearly every grant finds.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.few[0].is_none()
    }

    /// Is there more than one?
    #[inline]
    pub fn are_several(&self) -> bool {
        self.few[1].is_some()
    }

    /// Takes out the owner's request of the name if there is no other in the bucket, which nearly every release finds. Was it so?
    #[inline]
    pub fn remove_only(&mut self, owner: Owner, name: Name) -> bool {
        let [Some(request), None] = &self.few else { return false };
        let is_it = request.owner == owner && request.name == name;
        if is_it {
            self.few[0] = None;
        }
        is_it
    }

    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &Request> {
        self.few.iter().flatten().chain(self.spill.iter().flat_map(|spill| &spill.requests))
    }

    #[inline]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Request> {
        let spilled = self.spill.iter_mut().flat_map(|spill| &mut spill.requests);
        self.few.iter_mut().flatten().chain(spilled)
    }

    /// Shows every request with its position. What every grant and release does: so no iterator adapters here.
    #[inline]
    pub fn for_each(&self, mut show: impl FnMut(usize, &Request)) {
        for (position, place) in self.few.iter().enumerate() {
            let Some(request) = place else { return };
            show(position, request);
        }
        if let Some(spill) = &self.spill {
            spill.requests.iter().enumerate().for_each(|(beyond, request)| show(FEW + beyond, request));
        }
    }

    /// The request at `position` of [`Requests::iter`].
    #[inline]
    pub fn at(&mut self, position: usize) -> &mut Request {
        let request = match position.checked_sub(FEW) {
            None => self.few[position].as_mut(),
            Some(beyond) => self.spill.as_mut().and_then(|spill| spill.requests.get_mut(beyond)),
        };
        request.expect("a position within the requests")
    }

    /// Adds a request behind all others.
    #[inline]
    pub fn push(&mut self, request: Request) {
        match self.few.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(request),
            None => self.spill.get_or_insert_default().requests.push(request),
        }
    }

    /// Takes out the request at `position` of [`Requests::iter`].
    #[inline]
    pub fn remove(&mut self, position: usize) -> Request {
        let removed = match position.checked_sub(FEW) {
            None => {
                let removed = self.few[position];
                // A loop of at most one round: a rotation would call a library function.
                for place in position + 1..FEW {
                    self.few[place - 1] = self.few[place];
                }
                self.few[FEW - 1] = if self.spill.is_some() { self.unspill(0) } else { None };
                removed
            }
            Some(beyond) => self.unspill(beyond),
        };
        removed.expect("a position within the requests")
    }

    #[cold]
    fn unspill(&mut self, position: usize) -> Option<Request> {
        let requests = &mut self.spill.as_mut()?.requests;
        if position >= requests.len() {
            return None;
        }
        let removed = requests.remove(position);
        if requests.is_empty() && requests.capacity() > SPILL_KEPT {
            self.spill = None;
        }
        Some(removed)
    }
}
