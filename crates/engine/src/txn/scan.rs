//! A range under locks: each row is locked before it is returned, and, where phantoms are to be kept out, the gap before
//! it; at the end the gap in which the range ends.
//!
//! A lock is taken for what a private copy of a leaf shows. It counts if, *after* it was granted, the leaves that were
//! read are unchanged: then nothing came between. Otherwise the walk begins again behind the row returned last, and
//! what was locked too much does no harm.
//!
//! Rows that are to be removed are locked in runs, before the leaf is looked at: the removal of one row changes the leaf, so that
//! whatever was read of it for the next would be read again.
//!
//! Of ghosts that follow each other the first is locked, and the others with the row behind them (`tree/spans.rs`). Where there is
//! nothing else, and that is known, the walk leaps over them (`tree/voids.rs`).
//!
//! Source: ARIES/KVL (Mohan, VLDB 1990): next-key locking; here with the leaves' versions instead of latches held.
//!
//! Invariant N1: when a row is returned, its key and the gap before it (before: in key order, whichever way the walk
//! goes), as far down as the range, are locked, and between it and the row returned before there was no other row at that moment.

use crate::bounds::{RawBounds, beginning, exclude, is_before, is_beyond, is_empty, key_of, lower_of};
use crate::error::Result;
use crate::leaf::{FEW_ROWS, LeafCopy};
use crate::lock::{KeyMode, Name, Owner, Reach};
use crate::tree::{Ahead, Span, Stamp, Tree, Values, Void, Voids};
use crate::txn::{Txn, View};
use crate::version::Version;
use foreshore_base::seeded_bug;
use foreshore_base::sync::{Ordering::SeqCst, fence};
use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::Arc;

/// So many leaves are kept unchanged in memory, at most, for the sake of a run of ghosts.
const SPAN_LEAVES_MAX: usize = 16;

/// After so many ghosts, and no row, the next walk is to be spared them. (Few, where tests are to meet voids.)
const GHOSTS_MIN: usize = if cfg!(debug_assertions) { 2 } else { 32 };

/// So many rows that a large transaction has scanned are locked as one range; or so few when its walk is over: for fewer the range would
/// take more memory than their locks.
const RANGE_MIN: usize = if cfg!(debug_assertions) { 8 } else { 512 };
const LAST_RANGE_MIN: usize = 4;

/// Which way a walk goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Ascending,
    Descending,
}

/// A walk through a range in one direction. It survives what its own transaction writes meanwhile.
pub(crate) struct Scan {
    tree: Arc<Tree>,
    /// Who walks.
    owner: Option<Owner>,
    direction: Direction,
    /// How rows are locked.
    mode: KeyMode,
    /// Are gaps locked too?
    gaps: bool,
    /// Where the walk goes on: behind the row returned last.
    from: Bound<Vec<u8>>,
    /// Where it ends.
    to: Bound<Vec<u8>>,
    /// A descending walk has locked the gap above its first row.
    edge_locked: bool,
    leaf: LeafCopy,
    /// Who had ended before that was copied: who has ended since may have rolled back, and a row be there that is a ghost in the copy.
    view: View,
    /// Rows of `leaf` up to here (ascending: before, descending: from here on) are done with; `None`: copy a leaf first.
    position: Option<usize>,
    /// The leaves that the way to the next row led through; the last one of them if no gaps are locked, for then nothing rests on
    /// the others, which may be more than fit into memory.
    read: Vec<Stamp>,
    /// Is what was locked last a ghost? Those that follow need no locks of their own (`tree/spans.rs`).
    behind_ghost: bool,
    /// Were some of these passed since then?
    passed_ghosts: bool,
    /// Their run, if it is noted, but not yet known to be what it was.
    noted: Option<Box<Span>>,
    /// Voids that were leapt over on the way to the next row.
    leapt: Vec<RawBounds>,
    /// Where only ghosts were come to since the row before, if any were.
    barren: Option<Barren>,
    /// In a large transaction: where the walk was when it had become one, and the names that it has locked since then and not given back.
    begin: Option<Bound<Vec<u8>>>,
    locked: Vec<Name>,
    /// What it has locked, and how, if something had come between. It comes to that again, and needs no more of the gap below then.
    tried: BTreeMap<Vec<u8>, KeyMode>,
    /// How often rows had been loaded behind all others when the walk began (V2 in `tree/voids.rs`).
    loads: u64,
    ahead: Ahead,
    done: bool,
}

/// A part of the range with nothing but ghosts, which ends where the walk is.
struct Barren {
    from: Bound<Vec<u8>>,
    ghosts: usize,
    /// Has the walk's own transaction made some of them?
    has_own: bool,
}

impl Scan {
    /// A walk from `from` to `to`, which for a descending one is the lower bound.
    pub fn new(
        tree: Arc<Tree>,
        direction: Direction,
        gaps: bool,
        from: Bound<Vec<u8>>,
        to: Bound<Vec<u8>>,
    ) -> Self {
        let leaf = LeafCopy::new(tree.leaf_bytes());
        let (loads, view) = (tree.spans.loads(), tree.core().txns.latest());
        Self {
            tree,
            owner: None,
            direction,
            mode: KeyMode::Shared,
            gaps,
            from,
            to,
            edge_locked: false,
            leaf,
            view,
            position: None,
            read: Vec::new(),
            behind_ghost: false,
            passed_ghosts: false,
            noted: None,
            leapt: Vec::new(),
            barren: None,
            begin: None,
            locked: Vec::new(),
            tried: BTreeMap::new(),
            loads,
            ahead: Ahead::new(direction),
            done: false,
        }
    }

    /// The same walk for who is going to change the rows: nobody else locks them meanwhile.
    pub fn for_update(self) -> Self {
        Self { mode: KeyMode::Exclusive, ..self }
    }

    /// The next row; `None` at the end of the range. After an error the walk can go on, behind removed rows that it has come to since
    /// the row before.
    pub fn next(&mut self, txn: &mut Txn, values: Values) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        if self.done {
            return Ok(None);
        }
        self.enter(txn)?;
        if self.gaps && self.direction == Direction::Descending && !self.edge_locked {
            self.lock_upper_edge(txn)?;
        }
        if !self.gaps && !self.still_holds() {
            self.position = None; // its own transaction may have put rows ahead of it
        }
        while let Some(index) = self.come_to_next(txn)? {
            let (key, version) = self.key_at(index)?;
            if !self.lock_next(txn, &key, version)? {
                continue;
            }
            let mut value = values.of(self.leaf.row(index)?.value).to_vec();
            self.pass(txn, index, &key, version);
            if !version.is_ghost() {
                self.tree.complete(&key, &mut value)?;
                return Ok(Some((key, value)));
            }
        }
        Ok(None)
    }

    /// Locks the next rows for their removal, at most so many: those that follow each other in one leaf. Their numbers in
    /// [`Scan::leaf`], perhaps ghosts among them; `None` at the end of the range. For an ascending walk, which an error ends.
    ///
    /// Errors: `Corrupt` for rows so out of order that the walk would come to them again, and never to an end.
    pub fn next_run(&mut self, txn: &mut Txn, rows_max: u64) -> Result<Option<Range<usize>>> {
        if self.done {
            return Ok(None);
        }
        self.enter(txn)?;
        while let Some(first) = self.come_to_next(txn)? {
            let (key, version) = self.key_at(first)?;
            if !self.lock_next(txn, &key, version)? {
                continue;
            }
            self.ensure_ahead(&key)?;
            self.pass(txn, first, &key, version);
            if !version.is_ghost() {
                let most = if txn.is_large() { rows_max.min(RANGE_MIN as u64) } else { rows_max };
                let end = self.lock_more(txn, first + 1, most - 1)?;
                self.position = None; // the leaf is going to change
                return Ok(Some(first..end));
            }
        }
        Ok(None)
    }

    /// Locks those that follow the row that was passed last, beginning with this number: at most so many, and no run of ghosts, which
    /// is passed as by any walk. If nothing has come between, they are passed, too. Where they end.
    fn lock_more(&mut self, txn: &mut Txn, begin: usize, most: u64) -> Result<usize> {
        let (leaf, mut end, mut behind_ghost) = (self.leaf.id(), begin, false);
        let mut locked = Vec::new();
        while ((end - begin) as u64) < most && end < self.leaf.rows().end {
            let (version, row) = (Version(self.leaf.version(end)?), self.leaf.row(end)?);
            if is_beyond(row.key, &self.to) || self.gaps && behind_ghost && version.is_ghost() {
                break;
            }
            if !passes_over(&self.view, version, self.gaps) {
                let mode = mode_for(self.mode, txn, &self.tree, row.key, version);
                if self.tried.get(row.key) != Some(&mode) {
                    txn.lock(&self.tree, row.key, mode, reach(self.gaps, &self.from, Some(row.key)))?;
                }
                txn.note_met(&self.tree, leaf, version, row.key);
                if self.gaps && txn.is_large() {
                    locked.push((row.key.to_vec(), mode));
                }
            }
            behind_ghost = version.is_ghost();
            end += 1;
        }
        if end == begin || !self.still_holds() {
            self.tried.extend(locked);
            return Ok(begin);
        }
        for (key, _) in &locked {
            self.tried.remove(key);
            self.note_locked(txn, key);
        }
        let last = self.leaf.row(end - 1)?.key.to_vec();
        self.ensure_ahead(&last)?;
        self.go_on_behind(&last);
        self.behind_ghost = behind_ghost;
        Ok(end)
    }

    /// The leaf that the walk has come to.
    pub fn leaf(&mut self) -> &mut LeafCopy {
        &mut self.leaf
    }

    fn enter(&mut self, txn: &mut Txn) -> Result<()> {
        self.owner = Some(txn.owner);
        txn.enter(&self.tree)?;
        if self.gaps {
            txn.begin_scanning(&self.tree);
            txn.grow();
            if txn.is_large() {
                self.lock_as_one(txn, RANGE_MIN);
            }
        }
        Ok(())
    }

    /// Has it locked rows that could be locked as one range?
    pub fn has_locked(&self) -> bool {
        !self.locked.is_empty()
    }

    /// The walk is over, whether or not it has come to the end of its range.
    pub fn end(&mut self, txn: &mut Txn) {
        if self.has_locked() {
            self.lock_as_one(txn, LAST_RANGE_MIN);
        }
    }

    /// If it has locked many rows, so many at least, they are locked as one range from now on: as far as all is locked, which is to the end,
    /// or up to the row come to last. Going down, that one's gap is not yet part of it, and stays locked.
    #[cold]
    fn lock_as_one(&mut self, txn: &mut Txn, rows_min: usize) {
        let begin = self.begin.get_or_insert_with(|| self.from.clone()).clone();
        let Some(last) = key_of(&self.from).filter(|_| self.locked.len() >= rows_min) else { return };
        let (bounds, kept) = match self.direction {
            Direction::Ascending if self.done => ((begin, self.to.clone()), None),
            Direction::Ascending => ((begin, Bound::Included(last.to_vec())), None),
            Direction::Descending if self.done => ((self.to.clone(), begin), None),
            Direction::Descending => ((Bound::Included(last.to_vec()), begin), self.locked.pop()),
        };
        txn.lock_as_one(&self.tree, bounds, self.locked.drain(..));
        self.locked.extend(kept);
    }

    /// It has locked the row with this key.
    fn note_locked(&mut self, txn: &Txn, key: &[u8]) {
        if self.gaps && txn.is_large() {
            self.locked.push(txn.core.txns.keys.name(self.tree.id, key));
        }
    }

    /// Comes to the next row, or ghost, that is to be locked; `None` at the end of the range.
    fn come_to_next(&mut self, txn: &mut Txn) -> Result<Option<usize>> {
        while !self.done {
            let Some(index) = self.find_next(true)? else {
                self.lock_end(txn, None)?;
                continue;
            };
            let leaf = self.leaf.id();
            let row = self.leaf.row(index)?;
            let (key, version) = (row.key, Version(row.version));
            if is_outside(self.direction, key, &self.to) {
                let key = key.to_vec();
                self.lock_end(txn, Some(&key))?;
                continue;
            }
            if passes_over(&self.view, version, self.gaps) {
                self.step_over(index);
                continue;
            }
            let may_span = self.gaps
                && self.behind_ghost
                && self.read.len() < SPAN_LEAVES_MAX
                && !self.tree.spans.are_many();
            if !may_span || !is_removed(txn, &self.tree, key, version) {
                return Ok(Some(index));
            }
            txn.note_met(&self.tree, leaf, version, key);
            self.note_ghosts(1, txn.wrote(version));
            self.step_over(index);
            self.passed_ghosts = true;
        }
        Ok(None)
    }

    /// Row, or ghost, `index` of the copy.
    fn key_at(&mut self, index: usize) -> Result<(Vec<u8>, Version)> {
        let row = self.leaf.row(index)?;
        Ok((row.key.to_vec(), Version(row.version)))
    }

    /// Locks what the walk has come to, and the gap before it. `false`: something has come between, and the walk begins again behind
    /// what it has passed.
    fn lock_next(&mut self, txn: &mut Txn, key: &[u8], version: Version) -> Result<bool> {
        self.note_span(txn, Some(key));
        let mode = mode_for(self.mode, txn, &self.tree, key, version);
        let was_tried = self.tried.get(key) == Some(&mode);
        let is_locked = was_tried || !self.has_scanned_before(txn, key, mode);
        if is_locked && !was_tried {
            txn.lock(&self.tree, key, mode, reach(self.gaps, self.lowest(), Some(key)))?;
        }
        if !self.still_holds() {
            if is_locked {
                self.tried.insert(key.to_vec(), mode);
            }
            self.position = None;
            return Ok(false);
        }
        self.tried.remove(key);
        if is_locked {
            self.note_locked(txn, key);
        }
        Ok(true)
    }

    /// Has its transaction scanned this row, and what is before it, and locked it as a part of a range?
    fn has_scanned_before(&self, txn: &Txn, key: &[u8], mode: KeyMode) -> bool {
        let is_covered = || self.tree.spans.has_scanned(txn.owner, self.lowest(), key);
        txn.is_large() && mode == KeyMode::Shared && self.gaps && is_covered()
    }

    /// What was locked, and holds, is done with.
    fn pass(&mut self, txn: &mut Txn, index: usize, key: &[u8], version: Version) {
        self.keep_span(txn);
        self.step_over(index);
        if self.gaps && version.is_ghost() {
            self.note_ghosts(1, txn.wrote(version));
        } else if self.barren.is_some() {
            self.note_void(txn, Some(key));
        }
        self.go_on_behind(key);
        self.behind_ghost = version.is_ghost();
        txn.note_met(&self.tree, self.leaf.id(), version, key);
    }

    /// Is this key one that the walk has not passed yet, as where rows ascend?
    fn ensure_ahead(&self, key: &[u8]) -> Result<()> {
        if is_before(key, &self.from) { Err(self.leaf.out_of_order()) } else { Ok(()) }
    }

    /// The next row in the leaf's copy, after copying as many leaves as it takes; `None`: there is none. `leaps`: over voids.
    fn find_next(&mut self, leaps: bool) -> Result<Option<usize>> {
        while self.position.is_none_or(|position| position == self.edge()) {
            if !self.copy_next(leaps)? {
                return Ok(None);
            }
        }
        Ok(self.position.map(|position| match self.direction {
            Direction::Ascending => position,
            Direction::Descending => position - 1,
        }))
    }

    /// Copies the rows that come next; `false`: there are none.
    fn copy_next(&mut self, leaps: bool) -> Result<bool> {
        if self.position.is_none() {
            self.read.clear();
            self.leapt.clear();
            (self.passed_ghosts, self.noted) = (false, None);
        }
        let void = if leaps { self.void_ahead()? } else { None };
        self.view = self.tree.core().txns.latest();
        let copied = match (void, self.position) {
            (Some(void), _) => self.leap(void)?,
            (None, Some(_)) => self.copy_further()?,
            (None, None) => Some(self.copy_first(&self.from.clone())?),
        };
        let Some((stamp, next)) = copied else { return Ok(false) };
        if !self.gaps {
            self.read.clear();
        }
        self.read.push(stamp);
        self.position = Some(next);
        Ok(true)
    }

    /// Copies the first rows behind `from`; the position before them.
    fn copy_first(&mut self, from: &Bound<Vec<u8>>) -> Result<(Stamp, usize)> {
        let (tree, leaf) = (&self.tree, &mut self.leaf);
        Ok(match self.direction {
            Direction::Ascending => {
                let stamp = tree.copy_above(None, beginning(from), FEW_ROWS, leaf)?;
                (stamp, leaf.rows().start)
            }
            Direction::Descending => {
                let stamp = tree.copy_below(from, leaf)?;
                (stamp, leaf.rows().end)
            }
        })
    }

    /// Copies what comes behind the rows copied; `None`: nothing.
    fn copy_further(&mut self) -> Result<Option<(Stamp, usize)>> {
        if self.ends_here() {
            return Ok(None);
        }
        let (tree, leaf, ahead) = (&self.tree, &mut self.leaf, &mut self.ahead);
        match self.direction {
            Direction::Ascending => tree.copy_further_up(leaf, ahead, &self.to),
            Direction::Descending => tree.copy_further_down(leaf, ahead, &self.to),
        }
    }

    /// Does the range end where the rows copied do, so that no other leaf matters? Going up, one does where gaps are locked: the key that
    /// comes next names that in which the range ends.
    fn ends_here(&self) -> bool {
        let (leaf, to) = (&self.leaf, &self.to);
        match self.direction {
            Direction::Ascending => {
                let is_last = || leaf.high_fence().is_some_and(|high| is_beyond(high, to));
                !self.gaps && leaf.rows().end == leaf.len() && is_last()
            }
            Direction::Descending => {
                leaf.rows().start == 0 && key_of(to).is_some_and(|to| leaf.low_fence() <= to)
            }
        }
    }

    /// The part of a void that comes next; going up, as far as the range, for the gap behind it is going to be locked as one. Going
    /// down, it is that of the row, or ghost, locked last.
    #[cold]
    fn void_ahead(&mut self) -> Result<Option<Void>> {
        let is_ascending = self.direction == Direction::Ascending;
        if !self.tree.spans.any() || !is_ascending && !self.behind_ghost {
            return Ok(None);
        }
        let from = match self.position {
            None => self.from.clone(),
            Some(_) if self.leaf.rows().is_empty() => return Ok(None),
            Some(end) => Bound::Excluded(self.leaf.row(end - usize::from(is_ascending))?.key.to_vec()),
        };
        let ahead = self.tree.spans.voids(|voids| voids.ahead(self.owner, self.direction, &from).cloned());
        Ok(ahead.flatten().and_then(|Void { keys: (lower, upper), of }| {
            let keys = match self.direction {
                Direction::Ascending => (from, lower_of(upper, &self.to)),
                Direction::Descending => (lower, from),
            };
            (!is_empty(&keys.0, &keys.1)).then_some(Void { keys, of })
        }))
    }

    /// Copies what comes behind a void; `None`: nothing.
    #[cold]
    fn leap(&mut self, void: Void) -> Result<Option<(Stamp, usize)>> {
        let behind = void.behind(self.direction);
        if self.gaps {
            self.passed_ghosts = true;
            self.note_ghosts(GHOSTS_MIN, void.of.is_some());
            self.leapt.push(void.keys);
        }
        behind.map(|behind| self.copy_first(&behind)).transpose()
    }

    /// The position behind the last row copied, as the walk goes.
    fn edge(&self) -> usize {
        match self.direction {
            Direction::Ascending => self.leaf.rows().end,
            Direction::Descending => self.leaf.rows().start,
        }
    }

    /// Row `index` of the copy is done with.
    fn step_over(&mut self, index: usize) {
        self.position = Some(match self.direction {
            Direction::Ascending => index + 1,
            Direction::Descending => index,
        });
    }

    /// From now on the walk goes on behind `key`, which is in the leaf read last: only that one still counts.
    fn go_on_behind(&mut self, key: &[u8]) {
        self.read.drain(..self.read.len() - 1);
        self.leapt.clear();
        exclude(&mut self.from, key);
        self.done = self.is_through();
    }

    /// Was the row come to last the end of the range? Then no gap behind it is part of that.
    fn is_through(&self) -> bool {
        match self.direction {
            Direction::Ascending => is_empty(&self.from, &self.to),
            Direction::Descending => is_empty(&self.to, &self.from),
        }
    }

    /// Are the leaves that were read unchanged, and the voids that were leapt over voids?
    fn still_holds(&self) -> bool {
        // ORDERING: the lock was taken (and the scanner counted) before; see `Tree::gap_for`.
        fence(SeqCst);
        let is_unchanged = self.read.iter().all(|stamp| self.tree.is_unchanged(stamp));
        let are_voids =
            || self.leapt.is_empty() || self.tree.spans.voids(|voids| self.are_in(voids)) == Some(true);
        is_unchanged && (are_voids() || seeded_bug("txn_leap_not_validated"))
            || seeded_bug("txn_scan_not_validated")
    }

    fn are_in(&self, voids: &Voids) -> bool {
        self.leapt.iter().all(|leapt| voids.cover(self.owner, leapt))
    }

    /// The range ends before `next`, or with the table: keeps others from inserting at its end, and is done, or begins again.
    fn lock_end(&mut self, txn: &mut Txn, next: Option<&[u8]>) -> Result<()> {
        self.note_span(txn, next);
        // Going down, the gap before the row returned last reaches to the end.
        if self.gaps && self.direction == Direction::Ascending {
            self.lock_gap(txn, next)?;
        }
        self.done = self.still_holds();
        match self.done {
            true => {
                self.keep_span(txn);
                self.note_void(txn, next.filter(|_| self.direction == Direction::Ascending));
            }
            false => self.position = None,
        }
        Ok(())
    }

    /// Since the row before only ghosts were come to: `more` now.
    #[cold]
    fn note_ghosts(&mut self, more: usize, are_own: bool) {
        let barren =
            self.barren.get_or_insert_with(|| Barren { from: self.from.clone(), ghosts: 0, has_own: false });
        barren.ghosts += more;
        barren.has_own |= are_own;
    }

    /// There is a row, `next`, or the range ends. What lies before it, and is locked, is a void, if that is worth while: as long as
    /// there is a snapshot, or the transaction itself, the ghosts stay.
    #[cold]
    fn note_void(&mut self, txn: &Txn, next: Option<&[u8]>) {
        let Some(Barren { from, ghosts, has_own }) = self.barren.take() else { return };
        if ghosts < GHOSTS_MIN || !has_own && !txn.core.txns.snapshots.any() {
            return;
        }
        let next = next.map(|next| Bound::Excluded(next.to_vec()));
        let keys = match self.direction {
            Direction::Ascending => (from, next.unwrap_or(Bound::Unbounded)),
            Direction::Descending => (next.unwrap_or_else(|| self.to.clone()), from),
        };
        let is_unchanged = || self.read.iter().all(|stamp| self.tree.is_unchanged(stamp));
        let is_unloaded = || self.tree.spans.loads() == self.loads || seeded_bug("txn_load_unnoticed");
        let void = Void { keys, of: self.owner.filter(|_| has_own) };
        self.tree.spans.add_void(void, |voids| is_unloaded() && is_unchanged() && self.are_in(voids));
    }

    /// If ghosts were passed without a lock, the gap of the row behind them stands for theirs: going up that of `next`, which is to be
    /// locked now, and going down that of the row, or ghost, locked last.
    fn note_span(&mut self, txn: &Txn, next: Option<&[u8]>) {
        if std::mem::take(&mut self.passed_ghosts) {
            let (lowest, above) = match self.direction {
                Direction::Ascending => (self.from.clone(), next),
                Direction::Descending => {
                    let within = next.filter(|next| !is_before(next, &self.to));
                    let row = within.map(|row| Bound::Excluded(row.to_vec()));
                    (row.unwrap_or_else(|| self.to.clone()), key_of(&self.from))
                }
            };
            let span = Span::new(lowest, above);
            self.tree.spans.note(txn.owner, &span);
            self.noted = Some(Box::new(span));
        }
    }

    /// What was noted is locked, and holds.
    fn keep_span(&mut self, txn: &Txn) {
        if let Some(span) = self.noted.take() {
            self.tree.spans.supersede(txn.owner, *span);
        }
    }

    fn lock_gap(&self, txn: &mut Txn, next: Option<&[u8]>) -> Result<()> {
        match next {
            Some(key) => txn.lock(&self.tree, key, KeyMode::None, reach(true, self.lowest(), next)),
            None => {
                let name = txn.core.txns.keys.end_of(self.tree.id);
                txn.lock_name(&self.tree, name, None, KeyMode::None, reach(true, self.lowest(), None))
            }
        }
    }

    /// The lower end of what is left of the range.
    fn lowest(&self) -> &Bound<Vec<u8>> {
        match self.direction {
            Direction::Ascending => &self.from,
            Direction::Descending => &self.to,
        }
    }

    /// Locks the gap that the upper end of the range lies in, or below it if a row is there.
    fn lock_upper_edge(&mut self, txn: &mut Txn) -> Result<()> {
        let Some(end) = key_of(&self.from) else {
            self.lock_gap(txn, None)?;
            self.edge_locked = true;
            return Ok(());
        };
        let from_end = Bound::Included(end.to_vec());
        let mut edge = Scan::new(self.tree.clone(), Direction::Ascending, true, from_end, Bound::Unbounded);
        loop {
            let next = match edge.find_next(false)? {
                Some(index) => Some(edge.leaf.row(index)?.key.to_vec()),
                None => None,
            };
            self.lock_gap(txn, next.as_deref())?;
            if edge.still_holds() {
                self.edge_locked = true;
                return Ok(());
            }
            edge.position = None;
        }
    }
}

/// Does a walk in this direction that is to end at `to` end before `key`?
fn is_outside(direction: Direction, key: &[u8], to: &Bound<Vec<u8>>) -> bool {
    match direction {
        Direction::Ascending => is_beyond(key, to),
        Direction::Descending => is_before(key, to),
    }
}

/// How much is to be locked, if `gaps` are, of the gap below `above` (`None`: the table's end) for a range down to `lowest`.
fn reach(gaps: bool, lowest: &Bound<Vec<u8>>, above: Option<&[u8]>) -> Reach {
    match key_of(lowest) {
        _ if !gaps => Reach::NONE,
        None => Reach::ALL,
        Some(_) if seeded_bug("txn_scan_locks_too_little") => {
            Reach::down_to(above.unwrap_or_default(), above)
        }
        Some(lowest) => Reach::down_to(lowest, above),
    }
}

/// Is there no row, which is certain as long as the leaf is unchanged? Who has removed it has ended, or would have it locked.
fn is_removed(txn: &Txn, tree: &Tree, key: &[u8], version: Version) -> bool {
    let txns = &txn.core.txns;
    let is_settled = || txn.view().surely_sees(version); // its own, too
    let is_free = || {
        let is_quiet = txns.keys.is_quiet(txns.keys.name(tree.id, key), Some(txn.owner));
        is_quiet && tree.claimant(version, txn.author()).is_none()
    };
    version.is_ghost() && (is_settled() || is_free())
}

/// How the row that has this version is locked by who locks rows as `mode` says. One that is removed need not be kept from readers; but
/// one that may come back is wanted as a row is: all who wait for it would share it then, and each want it alone.
fn mode_for(mode: KeyMode, txn: &Txn, tree: &Tree, key: &[u8], version: Version) -> KeyMode {
    match mode {
        KeyMode::Exclusive if is_removed(txn, tree, key, version) => KeyMode::Shared,
        mode => mode,
    }
}

/// Is there no row, and, unless `gaps` are locked, nothing to be locked?
fn passes_over(view: &View, version: Version, gaps: bool) -> bool {
    version.is_ghost() && !gaps && view.surely_sees(version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Database;
    use crate::tree::PATIENCE;
    use foreshore_base::Lsn;

    /// A row comes into a void after a walk has leapt over it, and before the walk has locked anything.
    #[test]
    fn a_leap_counts_if_the_void_is_still_there() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        table.put_many(&(0..250_u8).map(|key| ([key], [7; 60])).collect::<Vec<_>>()).unwrap();
        let _snapshot = db.snapshot().unwrap();
        (0..200).for_each(|_| drop(table.pop_first().unwrap()));
        let tree = &table.tree;
        let mut txn = Txn::begin(tree.core().clone().into(), PATIENCE, Lsn::ZERO).unwrap();
        let mut scan =
            Scan::new(tree.clone(), Direction::Ascending, true, Bound::Unbounded, Bound::Unbounded);
        scan.enter(&mut txn).unwrap();
        scan.find_next(true).unwrap();
        assert!(!scan.leapt.is_empty());
        table.put(&[50], b"").unwrap();
        assert_eq!(scan.next(&mut txn, Values::Read).unwrap().unwrap().0, [50]);
        assert_eq!(scan.next(&mut txn, Values::Read).unwrap().unwrap().0, [200]);
    }

    /// What a copy shows of who had not ended then says nothing when he has: he may have rolled back.
    #[test]
    fn ghosts_are_judged_by_who_had_ended_before_the_copy() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        table.put_many(&[("a", ""), ("b", "")]).unwrap();
        let remover = db.begin().unwrap();
        remover.bytes(&table).remove(b"b").unwrap();
        let tree = &table.tree;
        let mut txn = Txn::begin(tree.core().clone().into(), PATIENCE, Lsn::ZERO).unwrap();
        let all = Bound::Unbounded;
        let mut scan = Scan::new(tree.clone(), Direction::Ascending, false, all.clone(), all);
        assert_eq!(scan.next(&mut txn, Values::Read).unwrap().unwrap().0, b"a");
        remover.rollback().unwrap();
        drop(db.snapshot().unwrap()); // brings up to date who has ended
        let ghost = Version(scan.leaf.version(1).unwrap());
        assert!(ghost.is_ghost() && !passes_over(&scan.view, ghost, false));
        assert_eq!(scan.next(&mut txn, Values::Read).unwrap().unwrap().0, b"b");
    }

    /// Nor does a bulk load, which asks nobody, load rows into a void: a walk down from the table's end has left that behind, and come to
    /// nothing but ghosts so far.
    #[test]
    fn what_is_loaded_behind_a_walk_is_in_no_void() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        table.put_many(&(0..240_u8).map(|key| ([key], [7; 60])).collect::<Vec<_>>()).unwrap();
        let _snapshot = db.snapshot().unwrap();
        table.remove_range([20]..).unwrap();
        let (reader, writer) = (db.begin().unwrap(), db.begin().unwrap());
        assert_eq!(reader.bytes(&table).get(&[120]).unwrap(), None, "so this ghost is locked by itself");
        assert!(writer.bytes(&table).get_for_update(&[19]).unwrap().is_some());
        let (tree, keys) = (&table.tree, &table.tree.core().txns.keys);
        assert_ne!(tree.seek(&[120]).unwrap(), tree.seek(&[239]).unwrap());
        std::thread::scope(|scope| {
            let walk = scope.spawn(|| db.transact(|tx| tx.bytes(&table).last()));
            while keys.waiting_on(keys.name(tree.id, &[19])) == 0 {
                std::thread::yield_now();
            }
            table.bulk_load([([250], b"")]).unwrap();
            writer.rollback().unwrap();
            assert_eq!(walk.join().unwrap().unwrap().unwrap().0, [19]);
        });
        reader.rollback().unwrap();
        assert_eq!(table.last().unwrap().unwrap().0, [250]);
        assert_eq!(table.pop_last().unwrap().unwrap().0, [250]);
    }

    /// What a large transaction has locked for a run of rows, in whose leaf something came between, is given back like all else.
    #[test]
    fn what_was_locked_in_vain_is_not_locked_for_good() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        table.put_many(&(0..100_u8).map(|key| ([key], [7])).collect::<Vec<_>>()).unwrap();
        let (tree, other) = (&table.tree, db.byte_table("other").unwrap());
        let mut txn = Txn::begin(tree.core().clone().into(), PATIENCE, Lsn::ZERO).unwrap();
        for row in 0..50_u8 {
            other.tree.write(&mut txn, &[row], crate::tree::Intent::Put(&[7; 20])).unwrap();
        }
        let keys = &tree.core().txns.keys;
        let before = keys.requests();
        let (begin, end) = (Bound::Unbounded, Bound::Excluded(vec![60]));
        let mut scan = Scan::new(tree.clone(), Direction::Ascending, true, begin, end);
        assert_eq!(scan.next(&mut txn, Values::Read).unwrap().unwrap().0, [0]);
        table.put(&[90], b"came between").unwrap();
        assert_eq!(scan.lock_more(&mut txn, 1, 50).unwrap(), 1);
        scan.position = None;
        while scan.next_run(&mut txn, 50).unwrap().is_some() {}
        scan.end(&mut txn);
        let more = keys.requests() - before;
        assert!(more < 8, "{more} more requests");
        txn.roll_back().unwrap();
        assert_eq!(keys.requests(), 0);
    }
}
