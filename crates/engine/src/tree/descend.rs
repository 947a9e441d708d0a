//! From a key to its leaf: by the index, then along right links.

use crate::error::{Error, Result};
use crate::leaf::{self, Route};
use crate::log::Log;
use crate::page::Page;
use crate::pool::{FramePage, NewPage};
use crate::stage;
use crate::tree::Tree;
use foreshore_base::sync::Backoff;
use foreshore_base::{Exclusive, PageId, Restart};
use std::time::{Duration, Instant};

/// An optimistic read that failed this often takes the latch: a reader among many writers makes progress.
const OPTIMISTIC_TRIES: u32 = 64;

/// A leaf under its exclusive latch, which covers the key it was looked up by.
pub(super) struct Latched<'a> {
    pub at: FramePage<'a>,
    pub latch: Exclusive<'a>,
    /// Was it waited for, because somebody else had it?
    pub waited: bool,
}

/// A page that does not make sense under its latch is damaged.
#[cold]
pub(super) fn malformed(page: Page<'_>) -> Error {
    Error::corrupt(format!("page {}", page.id()), "it is malformed")
}

/// The state of a leaf at one moment: the latch word of its frame, and which frame that is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    page: PageId,
    /// Where the frame lies in memory.
    frame: usize,
    word: u64,
}

impl Stamp {
    /// Within an optimistic read of `page`, or under its latch, if that is given back unchanged.
    pub(super) fn of(page: Page<'_>) -> Self {
        Self { page: page.id(), frame: Self::frame_of(page), word: page.latch().version() }
    }

    /// Is the page, which has this id, still as it was?
    fn is_of(&self, page: Page<'_>) -> bool {
        (page.id(), Self::frame_of(page), page.latch().word()) == (self.page, self.frame, self.word)
    }

    /// The leaf.
    pub(super) fn page(&self) -> PageId {
        self.page
    }

    fn frame_of(page: Page<'_>) -> usize {
        std::ptr::from_ref(page.latch()).addr()
    }
}

/// Is there no leaf where the way leads?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// There is one.
    No,
    /// There was none when it was looked for, which may be so for a moment only.
    Unproven,
    /// There is none, and there will be none.
    Proven,
}

/// How often a way was lost, or led on to the right, before something is amiss, and how long it may be lost before that is damage.
const LOST_OFTEN: u32 = 1000;
const LOST_FOR_EVER: Duration = Duration::from_secs(10);

/// How many steps to the right are more than an index that lacks some separators costs. Where the number of a lost leaf was given to another
/// one, the link to it leads back, and then on through all leaves in between.
const FAR: u32 = 16;

/// Waiting for a structure modification to be finished. It holds no latch and waits for nothing but the processor, so
/// whoever loses the way again and again is not waiting for one: a leaf is missing. Mostly one look proves that
/// ([`Tree::misses_leaf_on`]); time tells where it does not, as in an index that leads astray.
#[derive(Default)]
pub(super) struct Patience {
    backoff: Backoff,
    tries: u32,
    since: Option<Instant>,
}

impl Patience {
    /// Waits a little, unless it is proven that a leaf is missing where the way was lost. Errors: `TableDropped`; `Corrupt` when
    /// there is nothing to wait for.
    pub fn wait(&mut self, tree: &Tree, missing: Missing) -> Result<()> {
        tree.ensure_not_dropped()?; // after the look for the leaf: whoever drops the table says so before its leaves go
        self.tries += 1;
        let is_proven = missing == Missing::Proven;
        if is_proven
            || self.tries > LOST_OFTEN
                && self.since.get_or_insert_with(Instant::now).elapsed() > LOST_FOR_EVER
        {
            return Err(tree.leaf_is_missing());
        }
        self.backoff.wait();
        Ok(())
    }
}

impl Tree {
    /// The page that the index holds for `key`: its leaf, or one to the left of it.
    #[inline]
    pub(crate) fn seek(&self, key: &[u8]) -> Result<PageId> {
        match self.index.seek(key) {
            Some(page) => Ok(PageId(page)),
            None => self.ensure_not_dropped().and_then(|()| {
                Err(Error::corrupt(format!("index of table {:?}", self.name()), "it has no leftmost leaf"))
            }),
        }
    }

    /// Calls `read` on the leaf that covers `key` until what it returned belongs to one version of the leaf. `read` may
    /// see garbage, and then be called again: it must check every length and begin from nothing.
    #[inline]
    pub(super) fn read_leaf<R>(
        &self,
        key: &[u8],
        mut read: impl FnMut(Page<'_>) -> Result<R, Restart>,
    ) -> Result<R> {
        let mut patience = Patience::default();
        loop {
            let start = self.seek(key)?;
            if let Some(result) = self.read_from(start, key, &mut read)? {
                return Ok(result);
            }
            patience.wait(self, self.misses_leaf(start, key)?)?;
        }
    }

    /// As [`Tree::read_leaf`], trying page `start` first.
    #[inline]
    pub(super) fn read_leaf_near<R>(
        &self,
        start: PageId,
        key: &[u8],
        mut read: impl FnMut(Page<'_>) -> Result<R, Restart>,
    ) -> Result<R> {
        match self.read_from(start, key, &mut read)? {
            Some(result) => Ok(result),
            None => self.read_leaf(key, read),
        }
    }

    /// Is there no leaf for `key` any more? Not so where it is there, and cannot be read.
    pub(crate) fn has_lost(&self, key: &[u8]) -> Result<bool> {
        let mut patience = Patience::default();
        loop {
            match self.misses_leaf(self.seek(key)?, key)? {
                Missing::No => return Ok(false),
                Missing::Unproven => patience.wait(self, Missing::Unproven)?,
                Missing::Proven => return Ok(true),
            }
        }
    }

    /// [`Tree::misses_leaf_on`] on the way from page `at` to the leaf of `key`.
    #[cold]
    fn misses_leaf(&self, at: PageId, key: &[u8]) -> Result<Missing> {
        self.misses_leaf_on(at, |page, id| leaf::route(page, self.id, id, key))
    }

    /// Is a leaf missing on the way from page `at` that `route` says?
    ///
    /// Proof of what is called proven. Let L be a live leaf of this table, read within one version of its latch, which says that the
    /// way leads on to page R. By T1, R is live then, and its low fence is L's high fence, which the way is not below. Who changes that
    /// absorbs R, which is done under the latches of both, and gives L another link: L has another latch word from before R is marked
    /// dead, and R's id is given back only later. So does who evicts L, or puts a new leaf between the two. R's own split, its way to
    /// disk and back leave its id, its fence and its life as they are, and its entry in the page table is never free. So where there
    /// is no page R, or it is dead, another table's, or begins elsewhere, and L's latch word is still the same *after* that was seen,
    /// T1 is broken; and nobody mends it while the database is open. So it is if L has a high fence, and links to nothing. (Of a table
    /// that is dropped the leaves go in any order; it says so before: see [`Patience::wait`].)
    #[cold]
    pub(super) fn misses_leaf_on(
        &self,
        mut at: PageId,
        route: impl Fn(Page<'_>, PageId) -> Result<Route, Restart>,
    ) -> Result<Missing> {
        let mut left: Option<(Stamp, Option<Vec<u8>>)> = None;
        let mut steps = 0;
        loop {
            let mut next = None;
            if let Some(FramePage { page, .. }) = self.pool.page(at)? {
                let read = page.latch().optimistic();
                let (route, low, high) = (route(page, at), page.low_fence(), leaf::high_fence(page));
                let (is_there, stamp) = (page.id() == at, Stamp::of(page));
                let (Ok(route), Ok(high), true) = (route, high, is_there && read.validate().is_ok()) else {
                    return Ok(Missing::Unproven);
                };
                let follows = left.as_ref().is_none_or(|(_, end)| *end == low);
                match route {
                    Route::Here => return Ok(Missing::No),
                    Route::Right(right) if right.is_none() => return Ok(Missing::Proven),
                    Route::Right(right) if follows => next = Some((right, stamp, high)),
                    Route::Right(_) | Route::Lost => {}
                }
            }
            let Some((right, stamp, high)) = next else {
                let is_proven = left.is_some_and(|(left, _)| self.is_unchanged(&left));
                return Ok(if is_proven { Missing::Proven } else { Missing::Unproven });
            };
            self.count_step(&mut steps)?;
            (at, left) = (right, Some((stamp, high)));
        }
    }

    /// As [`Tree::read_leaf`], beginning at page `at`; `None` if that page is not (or no longer) left of `key`.
    pub(super) fn read_from<R>(
        &self,
        at: PageId,
        key: &[u8],
        read: &mut impl FnMut(Page<'_>) -> Result<R, Restart>,
    ) -> Result<Option<R>> {
        self.read_where(at, |page, id| leaf::route(page, self.id, id, key), read)
    }

    /// The same for the leaf that covers the keys just below `bound`; without a bound, for the last one.
    pub(super) fn read_before<R>(
        &self,
        at: PageId,
        bound: Option<&[u8]>,
        read: &mut impl FnMut(Page<'_>) -> Result<R, Restart>,
    ) -> Result<Option<R>> {
        self.read_where(at, |page, id| leaf::route_before(page, self.id, id, bound), read)
    }

    /// Goes from page `start` to the right as `route` says, and reads there; `None` if it says that the way is lost.
    #[inline]
    fn read_where<R>(
        &self,
        start: PageId,
        route: impl Fn(Page<'_>, PageId) -> Result<Route, Restart>,
        read: &mut impl FnMut(Page<'_>) -> Result<R, Restart>,
    ) -> Result<Option<R>> {
        let mut visit = |page, id| {
            Ok(match route(page, id)? {
                Route::Here => Step::Done(read(page)?),
                Route::Right(next) => Step::Right(next),
                Route::Lost => Step::Lost,
            })
        };
        let (mut at, mut tries, mut steps) = (start, 0, 0);
        loop {
            let Some(frame) = self.pool.page(at)? else { return Ok(None) };
            // The fences lie at the end of the page, the header at its beginning: fetch both at once.
            frame.page.0.prefetch(frame.page.0.len() - 1, 1);
            let outcome = if tries < OPTIMISTIC_TRIES && !stage::reads_latch() {
                let version = frame.page.latch().optimistic();
                visit(frame.page, at).and_then(|step| version.validate().map(|()| step))
            } else {
                let held = frame.page.latch().exclusive();
                let step = visit(frame.page, at);
                held.release_unchanged();
                Ok(step.map_err(|Restart| malformed(frame.page))?)
            };
            match outcome {
                Ok(Step::Done(result)) => return Ok(Some(result)),
                Ok(Step::Right(next)) => {
                    at = self.step_right(next, &mut steps, || self.misses_leaf_on(start, &route))?;
                }
                Ok(Step::Lost) => return Ok(None),
                Err(Restart) => tries += 1,
            }
        }
    }

    /// Is the leaf still as it was when the stamp was taken? Frames are never given to another page, nor changed, without
    /// a new latch word.
    pub(crate) fn is_unchanged(&self, stamp: &Stamp) -> bool {
        self.pool.resident(stamp.page).is_some_and(|at| stamp.is_of(at.page))
    }

    /// Latches the leaf that covers `key`.
    pub(super) fn latch_leaf(&self, key: &[u8]) -> Result<Latched<'_>> {
        let mut patience = Patience::default();
        loop {
            let start = self.seek(key)?;
            if let Some(latched) = self.latch_from(start, key)? {
                return Ok(latched);
            }
            patience.wait(self, self.misses_leaf(start, key)?)?;
        }
    }

    /// Latches the leaf that covers `key`, beginning at page `start`, where the index said that it is.
    pub(super) fn latch_leaf_from(&self, start: PageId, key: &[u8]) -> Result<Latched<'_>> {
        match self.latch_from(start, key)? {
            Some(latched) => Ok(latched),
            None => self.latch_leaf(key),
        }
    }

    /// Latches the leaf that covers `key`, trying page `hint` first: one look tells whether it is that.
    pub(super) fn latch_leaf_near(&self, hint: PageId, key: &[u8]) -> Result<Latched<'_>> {
        let _old = stage::enter(stage::Old::Space);
        if let Some(at) = self.pool.resident(hint) {
            let version = at.page.latch().optimistic();
            if leaf::route(at.page, self.id, hint, key) == Ok(Route::Here)
                && let Ok(latch) = version.upgrade()
            {
                return Ok(Latched { at, latch, waited: false });
            }
        }
        self.latch_leaf(key)
    }

    /// Does this leaf cover `key`, as far as one look tells? Nothing was validated: whoever goes there looks again.
    pub(super) fn seems_to_cover(&self, leaf: PageId, key: &[u8]) -> bool {
        let at = self.pool.resident(leaf);
        at.is_some_and(|at| leaf::route(at.page, self.id, leaf, key) == Ok(Route::Here))
    }

    /// Latches a leaf if it is still as it was when the stamp was taken.
    pub(super) fn latch_unchanged(&self, stamp: &Stamp) -> Option<Latched<'_>> {
        let at = self.pool.resident(stamp.page)?;
        let read = at.page.latch().optimistic_since(stamp.word)?;
        let latch = if Stamp::frame_of(at.page) == stamp.frame { read.upgrade().ok()? } else { return None };
        Some(Latched { at, latch, waited: false })
    }

    /// Latches a leaf, and counts it if somebody else holds the latch, so that it must wait.
    #[inline]
    fn latch<'a>(&self, at: FramePage<'a>) -> Latched<'a> {
        let latch = at.page.latch();
        match latch.try_exclusive() {
            Some(latch) => Latched { at, latch, waited: false },
            None => Latched { at, latch: self.core.latch_waits.time(|| latch.exclusive()), waited: true },
        }
    }

    /// Latches the leaf that covers `key`, with a frame at hand for its new neighbour. Whoever holds that frame must not wait
    /// for another one: all frames might be held by threads that wait for one more. So if the leaf has to be read, the frame is given back
    /// first. `room` may wait.
    pub(super) fn latch_leaf_beside_new(
        &self,
        key: &[u8],
        room: fn(&Log) -> Result<()>,
    ) -> Result<(NewPage<'_>, Latched<'_>)> {
        loop {
            let fresh = self.pool.allocate()?;
            room(&self.core.log)?;
            let start = self.seek(key)?;
            // Nor may it be looked whether a leaf is missing on the way: that reads leaves, too.
            let look = || Ok(Missing::Unproven);
            if let Some(latched) = self.latch_along(start, key, |id| Ok(self.pool.resident(id)), look)? {
                return Ok((fresh, latched));
            }
            drop(fresh);
            self.read_leaf(key, |_| Ok(()))?;
        }
    }

    fn latch_from(&self, start: PageId, key: &[u8]) -> Result<Option<Latched<'_>>> {
        self.latch_along(start, key, |id| self.pool.page_to_change(id), || self.misses_leaf(start, key))
    }

    /// Latches the leaf that covers `key`, beginning at page `id`; `None` if that is not (or no longer) left of `key`, or if `find`
    /// does not find a page on the way. `look`: as for [`Tree::step_right`].
    #[inline]
    fn latch_along<'a>(
        &'a self,
        mut id: PageId,
        key: &[u8],
        find: impl Fn(PageId) -> Result<Option<FramePage<'a>>>,
        look: impl Fn() -> Result<Missing>,
    ) -> Result<Option<Latched<'a>>> {
        let mut steps = 0;
        loop {
            let Some(at) = find(id)? else { return Ok(None) };
            at.page.0.prefetch(at.page.0.len() - 1, 1);
            let latched = self.latch(at);
            let next = match leaf::route(at.page, self.id, id, key) {
                Ok(Route::Here) => return Ok(Some(latched)),
                Ok(Route::Right(next)) => next,
                Ok(Route::Lost) => return Ok(None),
                Err(Restart) => return Err(malformed(at.page)),
            };
            latched.latch.release_unchanged();
            id = self.step_right(next, &mut steps, &look)?;
        }
    }

    /// Takes a step to the right on the way to one key, to page `next`, with nothing latched. Errors: `Corrupt` if the chain has no such
    /// place, or if a `look` from where the way began, after many steps, proves that a leaf is missing.
    #[cold]
    fn step_right(
        &self,
        next: PageId,
        steps: &mut u32,
        look: impl Fn() -> Result<Missing>,
    ) -> Result<PageId> {
        if next.is_none() {
            return Err(self.broken_chain("its leaves end before the last fence"));
        }
        self.count_step(steps)?;
        if *steps == FAR && look()? == Missing::Proven {
            self.ensure_not_dropped()?; // then leaves go in any order
            return Err(self.leaf_is_missing());
        }
        Ok(next)
    }

    /// Counts a step to the right. Errors: `Corrupt` after more of them than there are leaves.
    pub(super) fn count_step(&self, steps: &mut u32) -> Result<()> {
        *steps += 1;
        if steps.is_multiple_of(LOST_OFTEN) && u64::from(*steps) > self.pool.pages_used() {
            self.ensure_not_dropped()?;
            return Err(self.leaves_in_a_circle());
        }
        Ok(())
    }

    /// A link, or the index, leads to none of its leaves.
    pub(super) fn leaf_is_missing(&self) -> Error {
        self.broken_chain("a leaf is missing from its chain")
    }

    /// Whoever follows right links comes back to where it was.
    pub(super) fn leaves_in_a_circle(&self) -> Error {
        self.broken_chain("its leaves are linked in a circle")
    }

    fn broken_chain(&self, detail: &str) -> Error {
        Error::corrupt(format!("table {:?}", self.name()), detail)
    }
}

enum Step<R> {
    Done(R),
    Right(PageId),
    Lost,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Database;

    /// Reads as if a writer had changed the page meanwhile, unless the reader has the latch.
    fn read_beside_writer(page: Page<'_>, tries: &mut u32) -> Result<(), Restart> {
        drop(page.latch().try_exclusive());
        *tries += u32::from(!page.latch().is_latched());
        assert!(*tries <= OPTIMISTIC_TRIES, "it never takes the latch");
        Ok(())
    }

    /// A reader beside a writer that never rests takes the latch at last, on either way to a leaf, and gives it back.
    #[test]
    fn a_restless_writer_does_not_keep_a_reader_away() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        let tree = &table.tree;
        let leaf = tree.seek(b"k").unwrap();
        let mut tries = [0; 2];
        let from = tree.read_from(leaf, b"k", &mut |page| read_beside_writer(page, &mut tries[0]));
        let before = tree.read_before(leaf, None, &mut |page| read_beside_writer(page, &mut tries[1]));
        assert_eq!([from.unwrap(), before.unwrap()], [Some(()); 2]);
        assert_eq!(tries, [OPTIMISTIC_TRIES; 2]);
        assert!(tree.pool.resident(leaf).is_some_and(|at| !at.page.latch().is_latched()));
    }

    /// And what it has read then counts until somebody writes: who locks rows afterwards would otherwise begin again for ever.
    #[test]
    fn what_was_read_under_the_latch_counts() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        let (tree, leaf) = (&table.tree, table.tree.seek(b"k").unwrap());
        let (mut tries, mut stamp) = (0, Stamp::default());
        let mut read = |page: Page<'_>| {
            stamp = Stamp::of(page);
            read_beside_writer(page, &mut tries)
        };
        assert_eq!(tree.read_from(leaf, b"k", &mut read).unwrap(), Some(()));
        assert!(tree.is_unchanged(&stamp));
        let held = tree.latch_leaf(b"k").unwrap();
        assert!(!tree.is_unchanged(&stamp), "somebody is about to write");
        held.latch.release_unchanged();
        assert!(tree.is_unchanged(&stamp));
        table.put(b"k", b"v").unwrap();
        assert!(!tree.is_unchanged(&stamp));
    }
}
