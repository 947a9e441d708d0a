//! A bucket: all names that hash to one place, in one cache line.
//!
//! Usually there are few of them. But a transaction that changes millions of rows leaves hundreds of requests and images in each
//! bucket, and everybody who comes for a row would look through them. So a bucket that is crowded is *divided*: its content lies in
//! parts, by bits of the names that do not say which bucket it is, and in four times as many whenever one of them is crowded. When
//! nothing is left of it, it is whole again.
//!
//! Why not more buckets: that of each name must be found without a latch by readers who show themselves (`shown`), so their number
//! is fixed, and most databases need no more.

use super::Name;
use super::images::{Chain, Link, Removed};
use super::latched::Latched;
use super::requests::Requests;
use super::shown::Door;
use foreshore_base::sync::{AtomicBool, Ordering::*};

/// A part is crowded with so many requests, or images, of other names than the one that comes.
pub(super) const CROWD: usize = if cfg!(test) { 3 } else { 32 };

/// Parts of a bucket, once it is divided, and at most.
const PARTS: usize = 16;
const PARTS_MAX: usize = 1 << 12;

/// See the module.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct Bucket {
    pub content: Latched<Content>,
    /// Is there an image? Written under the latch, read without. A divided bucket may say so though there is none any more.
    has_images: AtomicBool,
    /// May readers show themselves? The same.
    pub door: Door,
}

const _: () = assert!(cfg!(any(loom, shuttle)) || size_of::<Bucket>() == 64);

impl Bucket {
    /// Is there an image?
    ///
    /// ORDERING: Relaxed. Whoever has read a changed leaf synchronized with its latch, under which the image was pushed.
    #[inline]
    pub fn has_images(&self) -> bool {
        self.has_images.load(Relaxed)
    }

    /// Puts an image in front of the others.
    #[inline]
    pub fn push_image(&self, name: Name, link: Box<Link>) {
        let mut content = self.content.latch();
        if content.at(name).images.push(link) {
            content.divide();
        }
        self.has_images.store(true, Relaxed);
    }

    /// Images were taken out of the content.
    #[inline]
    pub fn note_images_gone(&self, content: &Content) {
        if !content.is_divided() {
            self.has_images.store(!content.0.images.is_empty(), Relaxed);
        }
    }

    /// Requests or images of the name were taken out: makes the bucket whole again if nothing is left.
    #[inline]
    pub fn unite_if_empty(&self, content: &mut Content, name: Name) {
        if content.is_divided() && content.at(name).is_empty() && content.is_empty() {
            content.0 = Part::default();
            self.has_images.store(false, Relaxed);
        }
    }
}

/// What a bucket's latch guards: one part, or, if that has parts, those.
#[derive(Default)]
pub(super) struct Content(Part);

/// Requests and images of some names.
#[derive(Default)]
pub(super) struct Part {
    pub requests: Requests,
    pub images: Chain,
}

impl Part {
    fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.images.is_empty()
    }
}

/// Which of so many parts has the name. Its low bits say which bucket has it.
#[inline]
fn place(name: Name, parts: usize) -> usize {
    (name.0.get() >> 32) as usize & (parts - 1)
}

impl Content {
    /// The part that has the name.
    #[inline]
    pub fn at(&mut self, name: Name) -> &mut Part {
        if self.is_divided() {
            let (parts, _) = self.0.requests.parts_mut();
            let place = place(name, parts.len());
            return &mut parts[place];
        }
        &mut self.0
    }

    #[inline]
    pub fn is_divided(&self) -> bool {
        !self.0.requests.parts().is_empty()
    }

    /// All parts.
    pub fn parts(&self) -> &[Part] {
        match self.0.requests.parts() {
            [] => std::slice::from_ref(&self.0),
            parts => parts,
        }
    }

    fn parts_mut(&mut self) -> &mut [Part] {
        match self.is_divided() {
            true => self.0.requests.parts_mut().0,
            false => std::slice::from_mut(&mut self.0),
        }
    }

    /// Takes out all images that were committed below `horizon`, if there may be one committed at `commit`. Of several in one part only
    /// one is told to those who clear, and it may have been divided since: so all parts are looked at.
    pub fn clear_images(&mut self, commit: u64, horizon: u64) -> Removed {
        let mut removed = Removed::default();
        self.parts_mut().iter_mut().for_each(|part| removed.extend(part.images.clear(commit, horizon)));
        removed
    }

    /// Is nothing left in any part? Looks first where something was last time.
    #[cold]
    fn is_empty(&mut self) -> bool {
        let (parts, occupied) = self.0.requests.parts_mut();
        if parts[*occupied].is_empty() {
            *occupied = parts.iter().position(|part| !part.is_empty()).unwrap_or(0);
        }
        parts[*occupied].is_empty()
    }

    /// Are all requests, of all parts, granted, to read keys? (R1 in `shown`.)
    #[cold]
    pub fn are_all_readers(&self) -> bool {
        self.parts().iter().all(|part| part.requests.are_all_readers())
    }

    /// A request of the name was added.
    #[inline]
    pub fn divide_if_crowded(&mut self, name: Name) {
        if self.at(name).requests.are_crowded(name) {
            self.divide();
        }
    }

    /// Divides it, or into more parts.
    #[cold]
    fn divide(&mut self) {
        let before = self.0.requests.parts().len();
        if before == PARTS_MAX {
            return;
        }
        let count = (before * 4).max(PARTS);
        let mut parts: Vec<Part> = std::iter::repeat_with(Part::default).take(count).collect();
        for part in self.parts_mut() {
            part.requests
                .iter()
                .for_each(|request| parts[place(request.name, count)].requests.push(*request));
            part.images.distribute(&mut parts, |name| place(name, count));
        }
        self.0.requests = Requests::divided(parts);
    }
}
