//! Before-images: what recently changed keys were, for the snapshots that still need it.
//!
//! Why here: a writer has the bucket's cache line at hand for its lock anyway, and a reader finds by one load that
//! there is nothing to look at. Volatile: after a restart nobody has an old snapshot.
//!
//! Invariants:
//! - I1: a chain is newest first, by order of [`Chain::push`], which for one key is the order of its leaf latch.
//! - I2: who changes a key has its name locked until its images are stamped or gone. So those of one name are in the order
//!   of the commits, and those of a writer that has not ended stand before all others of their names.
//! - I3: no image in a chain was committed below what the chain says it is cleared of.
//! - I4: no image in a chain is left to be stamped or removed of the writer that the chain says is done.
//! - I5: behind an image whose transaction committed before a writer began, there is none of that writer: all of them were
//!   pushed before.
//! - I6: two images of a row, the older committed at or above the points of all open snapshots, are made one: no snapshot sees
//!   the version between them, nor will one that opens later. The older stays where it is, with its commit and what it holds. It
//!   says from then on that the newer one's writer replaced that, so that who comes from the newest version finds it.
//!
//! Why so: a transaction that changes millions of rows has dozens of images in each chain (a longer one is divided, see `bucket`). Nobody
//! should walk through those for each change. And a
//! snapshot may stay open while a row is changed a million times: it needs one image of it.
//! Source for I6: Böttcher et al., *Scalable Garbage Collection for In-Memory MVCC Systems* (VLDB 2019). Differs: only the newest
//! snapshot is asked for. What no snapshot saw when it was replaced is all there is to be dropped, but for snapshots that close
//! before older ones.

use super::bucket::{CROWD, Part};
use super::{CommitStamp, Name};
use crate::version::{Version, Writer};
use foreshore_base::prefetch::prefetch_lines;
use foreshore_base::{TableId, seeded_bug};
use std::ops::ControlFlow;

/// What a key was before one change.
#[derive(Debug)]
pub(crate) struct Image {
    /// Table of the key.
    pub table: TableId,
    /// Version word of the transaction that overwrote it.
    pub writer: u64,
    /// That transaction's slot.
    pub slot: u16,
    /// Version word that the image had.
    pub replaced: u64,
    /// The key, whole, and the value.
    pub row: ImageRow,
}

/// Key and value of an image, in one piece of memory.
#[derive(Debug, Default)]
pub(crate) struct ImageRow {
    bytes: Vec<u8>,
    key_len: u16,
    /// Had the key a value?
    present: bool,
}

impl ImageRow {
    /// A copy; no value: the key was absent.
    pub fn new(key: &[u8], value: Option<&[u8]>) -> Self {
        let mut row = Self::default();
        row.begin(key);
        row.set_value(|out| value.map(|value| out.extend_from_slice(value)));
        row
    }

    /// Begins another row in the same memory, without a value yet.
    #[inline]
    pub fn begin(&mut self, key: &[u8]) {
        self.key_len = u16::try_from(key.len()).expect("keys are short");
        self.present = false;
        self.bytes.clear();
        self.bytes.extend_from_slice(key);
    }

    /// Replaces the value by what `append` appends; it returns `None` if there is no value.
    #[inline]
    pub fn set_value(&mut self, append: impl FnOnce(&mut Vec<u8>) -> Option<()>) {
        self.bytes.truncate(self.key_len.into());
        self.present = append(&mut self.bytes).is_some();
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.bytes[..self.key_len.into()]
    }

    /// The value, if there is one.
    #[inline]
    pub fn value(&self) -> Option<&[u8]> {
        self.present.then(|| &self.bytes[self.key_len.into()..])
    }

    /// Memory of an image of it, in bytes.
    #[inline]
    pub fn image_bytes(&self) -> u64 {
        (size_of::<Link>() + self.bytes.len()) as u64
    }
}

/// An image as readers see it, under the bucket's latch.
#[derive(Debug)]
pub(crate) struct ImageView<'a> {
    /// Version word of the transaction that overwrote it.
    pub writer: u64,
    /// That transaction's slot.
    pub slot: u16,
    /// Version word that the image had.
    pub replaced: u64,
    /// Its value; none: the key was absent.
    pub value: Option<&'a [u8]>,
    /// Commit LSN of the writer, once stamped.
    pub commit: Option<u64>,
}

/// An image in a chain.
pub(super) struct Link {
    name: Name,
    image: Image,
    /// Where its writer committed, if it has.
    commit: Option<u64>,
    /// Was it autocommitted? Then it was pushed after its commit.
    autocommitted: bool,
    /// In the first link: what is known of the chain.
    known: Known,
    /// In the first link: how many more came since somebody looked how many there are.
    came: u32,
    next: Option<Box<Link>>,
}

/// So many images of a chain are looked at for others of the same row. One that lies farther behind is left alone: it has one more
/// above it from then on, which is nearer.
const NEAR: usize = 64;

/// Rows of one transaction in one chain for which I6 is looked after, at most.
const CHANGED_AGAIN_MAX: usize = 16;

/// What is known of a chain.
#[derive(Clone, Copy)]
struct Known {
    /// What it is cleared of (I3).
    cleared: u64,
    /// The writer that is done with it (I4); 0: nobody in particular.
    done: u64,
}

impl Known {
    const NOTHING_THERE: Self = Self { cleared: u64::MAX, done: 0 };
}

/// What is done with a link that a walk comes to.
enum Step {
    /// It goes.
    Take,
    /// It stays, and the walk goes on.
    Pass,
    /// It stays, and so do those behind it.
    Stop,
}

/// The images of one bucket.
#[derive(Default)]
pub(super) struct Chain {
    first: Option<Box<Link>>,
}

/// Memory of images that are gone, for those to come: what a transaction replaces needs no allocation of its own.
#[derive(Default)]
pub(crate) struct Spares {
    #[expect(clippy::vec_box, reason = "the boxes themselves are what is kept")]
    links: Vec<Box<Link>>,
    /// Memory of their rows.
    bytes: usize,
}

impl Spares {
    /// Images whose memory is kept at most, and bytes of a row: those of most rows, though they grow by doubling. (A Delivery of
    /// TPC-C makes 130.)
    const KEPT: usize = 160;
    const ROW_BYTES_KEPT: usize = 2 << 10;

    /// Bytes of all rows that are kept at most, as each slot keeps some. (A New-Order of TPC-C makes some 30 images, the rows have up
    /// to 700 bytes.)
    const BYTES_KEPT: usize = 64 << 10;

    /// Memory for a row: that of the image which [`Spares::link`] will use next.
    pub fn row(&mut self) -> ImageRow {
        let row = self.links.last_mut().map(|spare| std::mem::take(&mut spare.image.row)).unwrap_or_default();
        self.bytes -= row.bytes.capacity();
        row
    }

    pub(super) fn link(&mut self, name: Name, image: Image) -> Box<Link> {
        let commit = match Version(image.writer).writer() {
            Writer::Autocommit(at) => Some(at.0),
            _ => None,
        };
        let known = Known::NOTHING_THERE;
        let link = Link { name, image, commit, autocommitted: commit.is_some(), known, came: 0, next: None };
        let Some(mut spare) = self.links.pop() else { return Box::new(link) };
        if let Some(next) = self.links.last() {
            prefetch_lines(&raw const **next, size_of::<Link>());
        }
        self.bytes -= spare.image.row.bytes.capacity(); // none, if it was asked for
        *spare = link;
        spare
    }

    pub(super) fn keep(&mut self, link: Box<Link>) {
        let bytes = link.image.row.bytes.capacity();
        let has_room = self.links.len() < Self::KEPT && self.bytes + bytes <= Self::BYTES_KEPT;
        if has_room && bytes <= Self::ROW_BYTES_KEPT {
            self.bytes += bytes;
            self.links.push(link);
        }
    }

    /// How many there are, and the memory of their rows.
    #[cfg(test)]
    pub fn held(&self) -> (usize, usize) {
        let bytes = self.links.iter().map(|link| link.image.row.bytes.capacity()).sum();
        assert_eq!(bytes, self.bytes);
        (self.links.len(), bytes)
    }
}

impl Link {
    /// Memory of this image, in bytes.
    pub fn bytes(&self) -> u64 {
        self.image.row.image_bytes()
    }

    pub fn slot(&self) -> u16 {
        self.image.slot
    }

    /// Is it kept for snapshots only? Its writer has committed.
    pub fn is_kept(&self) -> bool {
        self.commit.is_some()
    }

    /// Did the transaction that pushed it commit before `writer`, whose word is where it began?
    fn is_before(&self, writer: u64) -> bool {
        !self.autocommitted && self.commit.is_some_and(|commit| commit < writer)
    }

    fn is_of(&self, table: TableId, key: &[u8]) -> bool {
        self.image.table == table && self.image.row.key() == key
    }

    /// Had the version that it holds been written since? Then there is mostly an image of what that had replaced.
    fn replaced_since(&self, newest: u64) -> bool {
        match Version(self.image.replaced).writer() {
            Writer::Anyone => false,
            Writer::Autocommit(at) => at.0 >= newest,
            Writer::Txn(id) => id.0 >= newest,
        }
    }

    /// No snapshot sees what came after this image's commit and was replaced before now.
    fn is_above(&self, newest: u64) -> bool {
        self.commit.is_some_and(|commit| commit >= newest)
    }

    fn view(&self) -> ImageView<'_> {
        let Image { writer, slot, replaced, ref row, .. } = self.image;
        ImageView { writer, slot, replaced, value: row.value(), commit: self.commit }
    }
}

impl Chain {
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Puts an image in front. Are there many of other names behind it?
    pub fn push(&mut self, mut link: Box<Link>) -> bool {
        link.known = self.known();
        link.known.cleared = link.known.cleared.min(link.commit.unwrap_or(u64::MAX));
        link.came = self.first.as_ref().map_or(0, |first| first.came + 1);
        link.next = self.first.take();
        let first = self.first.insert(link);
        first.came as usize >= CROWD && self.is_crowded()
    }

    /// Looks once in a while: a row that changes again and again makes its chain long, but no crowd.
    #[cold]
    fn is_crowded(&mut self) -> bool {
        let Some(first) = &mut self.first else { return false };
        first.came = 0;
        let name = first.name;
        self.iter().take(NEAR).filter(|link| link.name != name).count() >= CROWD
    }

    /// Moves each image to the part which `place` says, in front of those there. They keep their order.
    pub fn distribute(&mut self, parts: &mut [Part], place: impl Fn(Name) -> usize) {
        let known = self.known();
        let mut newest_last: Vec<_> = Removed(self.first.take()).collect();
        newest_last.reverse();
        for link in newest_last {
            let chain = &mut parts[place(link.name)].images;
            chain.push(link);
            chain.set_known(known);
        }
    }

    fn known(&self) -> Known {
        self.first.as_ref().map_or(Known::NOTHING_THERE, |first| first.known)
    }

    fn set_known(&mut self, known: Known) {
        self.first.iter_mut().for_each(|first| first.known = known);
    }

    fn iter(&self) -> impl Iterator<Item = &Link> {
        std::iter::successors(self.first.as_deref(), |link| link.next.as_deref())
    }

    /// Shows the images of a key, newest first, until `visit` breaks.
    pub fn visit<B>(
        &self,
        name: Name,
        table: TableId,
        key: &[u8],
        mut visit: impl FnMut(&ImageView<'_>) -> ControlFlow<B>,
    ) -> Option<B> {
        let is_it = |link: &&Link| {
            link.name == name && (link.is_of(table, key) || seeded_bug("image_of_colliding_key"))
        };
        let shown = self.iter().filter(is_it).map(Link::view).try_for_each(|view| visit(&view));
        shown.break_value()
    }

    /// Notes the commit in all images of the writer, which ends now, under the name, and in those of its others that it meets; then
    /// I6 for the rows of these.
    pub fn stamp(&mut self, name: Name, writer: u64, CommitStamp { commit, newest }: CommitStamp) -> Stamped {
        let (commit, newest) = (commit.0, newest.0);
        let mut known = self.known();
        if known.done == writer {
            return Stamped::default(); // I4
        }
        known.done = writer;
        let mut stamped = Stamped::default();
        let mut changed_again = [None; CHANGED_AGAIN_MAX];
        let (mut changed, mut at) = (changed_again.iter_mut(), self.first.as_deref_mut());
        while let Some(link) = at {
            if link.image.writer == writer {
                if link.commit.is_none() {
                    link.commit = Some(commit);
                    stamped.bytes += link.bytes();
                    stamped.images += 1;
                    if link.replaced_since(newest)
                        && let Some(changed) = changed.next()
                    {
                        *changed = Some(link.name);
                    }
                }
            } else if link.is_before(writer) {
                break; // I5
            } else if link.name == name {
                known.done = 0;
                break; // I2
            }
            at = link.next.as_deref_mut();
        }
        if stamped.images > 0 {
            known.cleared = known.cleared.min(commit);
        }
        self.set_known(known);
        for name in changed_again.into_iter().map_while(|name| name) {
            if let Some(superseded) = self.supersede(name, writer, newest) {
                stamped.images -= 1;
                stamped.superseded.extend(superseded);
            }
        }
        stamped
    }

    /// I6, for the image under the name of a writer that has just committed. Those taken out, this one among them.
    fn supersede(&mut self, name: Name, writer: u64, newest: u64) -> Option<Removed> {
        let own = self.near(name).next().filter(|own| own.image.writer == writer)?;
        let above = self.count_above(name, 1, (own.image.table, own.image.row.key()), newest);
        (above > 0).then(|| self.merge(name, 1, above, writer))
    }

    /// I6, for an autocommitted write of the row that would push an image now: `None` if it must. Otherwise those of the row that
    /// no snapshot up to `newest` needs any more.
    pub fn take_over(
        &mut self,
        name: Name,
        row: (TableId, &[u8]),
        writer: u64,
        newest: u64,
    ) -> Option<Removed> {
        let above = self.count_above(name, 0, row, newest);
        (above > 0).then(|| self.merge(name, 0, above, writer))
    }

    /// How many images of the row, behind the first so many of its name, are at or above `newest`.
    fn count_above(&self, name: Name, first: usize, (table, key): (TableId, &[u8]), newest: u64) -> usize {
        let is_above = |link: &&Link| link.is_of(table, key) && link.is_above(newest);
        self.near(name).skip(first).take_while(is_above).count()
    }

    /// Takes out the first so many images of the name, and all but the last of the `above` that follow. That one says from now on
    /// that `writer` replaced it.
    fn merge(&mut self, name: Name, first: usize, above: usize, writer: u64) -> Removed {
        let mut left = first + above - 1;
        let removed = self.take_out(|link| match link {
            _ if left == 0 => Step::Stop,
            _ if link.name != name => Step::Pass,
            _ => {
                left -= 1;
                Step::Take
            }
        });
        let mut at = self.first.as_deref_mut();
        while let Some(link) = at {
            if link.name == name {
                link.image.writer = writer;
                break;
            }
            at = link.next.as_deref_mut();
        }
        removed
    }

    /// The images of a name, as far as they are near the front.
    fn near(&self, name: Name) -> impl Iterator<Item = &Link> {
        self.iter().take(NEAR).filter(move |link| link.name == name)
    }

    /// Has one of the images of the row a value? If none has, every snapshot sees that the row is absent if it is so now.
    pub fn has_value(&self, name: Name, table: TableId, key: &[u8]) -> bool {
        let mut of_row = self.iter().filter(|link| link.name == name && link.is_of(table, key));
        of_row.any(|link| link.image.row.value().is_some())
    }

    /// Takes out the images of a row that has no value in any of them, nor now, and that nobody is changing.
    pub fn forget(&mut self, name: Name, table: TableId, key: &[u8]) -> Removed {
        self.take_out(|link| match link.name == name && link.is_of(table, key) {
            true => Step::Take,
            false => Step::Pass,
        })
    }

    /// Takes out all images of the writer, which ends now, under the name, and those of its others that it meets.
    pub fn remove(&mut self, name: Name, writer: u64) -> Removed {
        let known = self.known();
        if known.done == writer {
            return Removed::default(); // I4
        }
        let mut done = writer;
        let removed = self.take_out(|link| match link {
            _ if link.image.writer == writer => Step::Take,
            _ if link.is_before(writer) => Step::Stop, // I5
            _ if link.name == name => {
                done = 0;
                Step::Stop // I2
            }
            _ => Step::Pass,
        });
        self.set_known(Known { done, ..known });
        removed
    }

    /// Takes out the newest image of the row that the writer undoes, if it is of that.
    pub fn remove_newest(&mut self, name: Name, (table, key): (TableId, &[u8]), writer: u64) -> Removed {
        let mut found = false;
        self.take_out(|link| match link {
            _ if found => Step::Stop,
            _ if link.name != name || !link.is_of(table, key) => Step::Pass,
            _ if link.image.writer != writer => Step::Stop, // I2
            _ => {
                found = true;
                Step::Take
            }
        })
    }

    /// Takes out all images that were committed below `horizon`, if there may be one committed at `commit`.
    pub fn clear(&mut self, commit: u64, horizon: u64) -> Removed {
        let known = self.known();
        if commit < known.cleared {
            return Removed::default(); // I3
        }
        let removed = self.take_out(|link| match link.commit {
            Some(at) if at < horizon => Step::Take,
            _ => Step::Pass,
        });
        self.set_known(Known { cleared: known.cleared.max(horizon), ..known });
        removed
    }

    /// Does with each image what `step` says; those taken out.
    fn take_out(&mut self, mut step: impl FnMut(&Link) -> Step) -> Removed {
        let known = self.known();
        let mut removed = Removed(None);
        let mut at = &mut self.first;
        while let Some(next) = at.as_deref().map(&mut step) {
            match next {
                Step::Take => {
                    let mut link = at.take().expect("it was looked at");
                    *at = link.next.take();
                    link.next = removed.0.take();
                    removed.0 = Some(link);
                }
                Step::Pass => at = &mut at.as_mut().expect("it was looked at").next,
                Step::Stop => break,
            }
        }
        self.set_known(known);
        removed
    }

    /// How many images there are.
    pub fn count(&self) -> usize {
        self.iter().count()
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        drop(Removed(self.first.take()));
    }
}

/// What was done with the images of a writer that ends.
#[derive(Default)]
pub(super) struct Stamped {
    /// Bytes of those stamped, the superseded ones included.
    pub bytes: u64,
    /// How many of them are kept.
    pub images: usize,
    /// Those that nobody needs any more (I6).
    pub superseded: Removed,
}

/// Links that are in no chain any more. Dropping them frees one after the other: a box would free them recursively,
/// and chains can be longer than a stack is deep.
#[derive(Default)]
pub(super) struct Removed(Option<Box<Link>>);

impl Removed {
    pub fn extend(&mut self, others: Removed) {
        for mut link in others {
            link.next = self.0.take();
            self.0 = Some(link);
        }
    }
}

impl Iterator for Removed {
    type Item = Box<Link>;

    fn next(&mut self) -> Option<Box<Link>> {
        let mut link = self.0.take()?;
        self.0 = link.next.take();
        Some(link)
    }
}

impl Drop for Removed {
    fn drop(&mut self) {
        self.by_ref().for_each(drop);
    }
}
