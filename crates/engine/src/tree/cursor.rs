//! Walking rows in key order, leaf by leaf.
//!
//! A cursor copies a few rows where it begins, ascending then more, then one leaf whole per validation. It interprets the
//! private copy, and holds nothing in between: no latch, no pin. It finds the next leaf by the fence it has reached, so splits and
//! absorptions in between cost it nothing: it returns each row that is there throughout exactly once, in order.
//!
//! Leaves that are only on disk are read before a walk comes to them (`ahead`).
//!
//! A row whose version its view does not see at a glance is read again by its key, as a point read: only that can ask
//! the key table within an optimistic read (`txn/view.rs`). So is a large value that is wanted, whose chunks may have gone with the row
//! since the copy was taken.

use crate::bounds::{RawBounds, beginning, is_before, is_beyond, key_of};
use crate::error::Result;
use crate::leaf::{FEW_ROWS, LeafCopy};
use crate::tree::{Ahead, Tree};
use crate::txn::{Direction, View};
use crate::version::Version;
use foreshore_base::PageId;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::time::Instant;

const CONTINUE: ControlFlow<()> = ControlFlow::Continue(());

/// Above so many rows whole leaves are copied: long walks want few copies.
const FEW_ROWS_MAX: usize = 4 * FEW_ROWS;

/// Does a walk read values?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    Read,
    /// No, however large they are: its rows come with empty ones.
    Skip,
}

impl Values {
    /// Skips them if only keys are wanted.
    pub fn unless(keys_only: bool) -> Self {
        if keys_only { Values::Skip } else { Values::Read }
    }

    /// What comes of a row's value, or of what stands for it.
    #[inline]
    pub fn of(self, value: &[u8]) -> &[u8] {
        match self {
            Values::Read => value,
            Values::Skip => &[],
        }
    }
}

/// What a view sees of a row in a leaf's copy.
enum Row {
    /// That row.
    Leaf,
    /// An older version, or a large value: the row was read by its key.
    Older,
    /// Nothing.
    None,
}

/// Until when a walk goes on, for who must not be at it for long, whatever it meets.
#[derive(Default)]
struct Until {
    ends: Option<Instant>,
    /// The last key looked at, if it has left off.
    left_off_at: Option<Vec<u8>>,
}

impl Until {
    /// Is the time up? Asked once per copy, since there may be no row for who walks in many of them.
    fn is_up(&self) -> bool {
        self.ends.is_some_and(|ends| Instant::now() >= ends)
    }
}

/// Ascending rows.
pub(crate) struct Forward {
    tree: Arc<Tree>,
    /// What it sees. It is older than every copy, or it would misjudge the versions in it.
    view: View,
    leaf: LeafCopy,
    /// A row that was read by its key.
    older: (Vec<u8>, Vec<u8>),
    /// The first row of `leaf` to return, and the next one.
    first: usize,
    position: usize,
    /// Where the rows of `leaf` end that the walk may return: before its last one copied only if that is beyond `to`.
    end: usize,
    /// Rows to be copied next, if they are few.
    few: usize,
    /// Where the walk begins, until it has begun.
    start: Option<Bound<Vec<u8>>>,
    to: Bound<Vec<u8>>,
    until: Until,
    ahead: Ahead,
}

impl Forward {
    /// A walk from `from` to `to`.
    pub fn new(tree: Arc<Tree>, view: View, from: Bound<Vec<u8>>, to: Bound<Vec<u8>>) -> Self {
        let leaf = LeafCopy::new(tree.leaf_bytes());
        let (older, start) = (Default::default(), Some(from));
        let ahead = Ahead::new(Direction::Ascending);
        let (few, until) = (FEW_ROWS, Until::default());
        Self { tree, view, leaf, older, first: 0, position: 0, end: 0, few, start, to, until, ahead }
    }

    /// The same walk, which leaves off at `ends`, but never before it has looked at a row.
    pub fn until(mut self, ends: Option<Instant>) -> Self {
        self.until.ends = ends;
        self
    }

    /// The last key that it has looked at, if it has left off.
    pub fn left_off_at(&self) -> Option<&[u8]> {
        self.until.left_off_at.as_deref()
    }

    /// The next row, valid until the next call.
    #[inline]
    pub fn next(&mut self, values: Values) -> Result<Option<(&[u8], &[u8])>> {
        loop {
            if !self.come_to_more()? {
                return Ok(None);
            }
            self.position += 1;
            let (leaf, at) = (&mut self.leaf, self.position - 1);
            match self.tree.seen_row(&self.view, values, leaf, at, &mut self.older)? {
                Row::Leaf => break,
                Row::Older => return Ok(Some((&self.older.0, &self.older.1))),
                Row::None => {}
            }
        }
        let row = self.leaf.row(self.position - 1)?;
        Ok(Some((row.key, values.of(row.value))))
    }

    /// Calls `row` with each of the rows copied that are left, until it breaks. Each is decoded once, which matters to a walk through
    /// millions.
    fn hand_over(
        &mut self,
        values: Values,
        row: &mut impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        while self.position < self.end {
            self.position += 1;
            let found = self.leaf.row(self.position - 1)?;
            let version = Version(found.version);
            let next = if self.tree.is_clear(&self.view, values, version, found.value.len()) {
                if version.is_ghost() { CONTINUE } else { row(found.key, values.of(found.value)) }
            } else {
                let (leaf, at) = (&mut self.leaf, self.position - 1);
                match self.tree.seen_row(&self.view, values, leaf, at, &mut self.older)? {
                    Row::Older => row(&self.older.0, &self.older.1),
                    _ => CONTINUE,
                }
            };
            if next.is_break() {
                return Ok(next);
            }
        }
        Ok(CONTINUE)
    }

    /// Is there another row copied, or could some be copied?
    #[inline]
    fn come_to_more(&mut self) -> Result<bool> {
        if let Some(from) = self.start.take() {
            let Some(behind) = self.tree.behind_void(&self.view, Direction::Ascending, &from)? else {
                self.start = Some(from);
                return Ok(false);
            };
            self.begin(behind)?;
        }
        while self.position == self.end {
            if self.end < self.leaf.rows().end || !self.go_on()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn begin(&mut self, from: Bound<Vec<u8>>) -> Result<()> {
        let (key, inclusive) = beginning(&from);
        self.copy(None, key, inclusive)
    }

    /// Copies what comes behind the rows copied; `false` if nothing does, or the walk leaves off.
    fn go_on(&mut self) -> Result<bool> {
        if self.first < self.position && self.until.is_up() {
            self.until.left_off_at = Some(self.leaf.row(self.position - 1)?.key.to_vec());
            return Ok(false);
        }
        if self.position < self.leaf.len() {
            let last = self.leaf.row(self.position - 1)?.key.to_vec();
            self.copy(Some(self.leaf.id()), &last, false)?;
        } else {
            // The neighbour may have been absorbed into a leaf that begins further left.
            let Some(high) = self.leaf.high_fence().map(<[u8]>::to_vec) else { return Ok(false) };
            if is_beyond(&high, &self.to) {
                return Ok(false); // and so is all that follows
            }
            let right = self.leaf.right();
            let cold = self.tree.is_on_disk(right);
            self.copy(Some(right), &high, true)?;
            self.ahead.came_to(&self.tree, &self.leaf, cold, &self.to);
        }
        Ok(true)
    }

    /// Copies rows from `key` on, or behind it: few at first, then more, then whole leaves.
    fn copy(&mut self, hint: Option<PageId>, key: &[u8], inclusive: bool) -> Result<()> {
        if self.few <= FEW_ROWS_MAX {
            self.tree.copy_above(hint, (key, inclusive), self.few, &mut self.leaf)?;
            self.few *= 2;
            self.position = self.leaf.rows().start;
            if self.leaf.rows().end == self.leaf.len() {
                self.tree.pool.prefetch(self.leaf.right());
            }
        } else {
            self.tree.copy_leaf(hint, key, &mut self.leaf)?;
            let leaf = &self.leaf;
            self.position = if inclusive { leaf.lower_bound(key)? } else { leaf.upper_bound(key)? };
        }
        self.first = self.position;
        self.find_end()
    }

    /// Looks up once per copy where `to` lies: a comparison per row would cost more.
    fn find_end(&mut self) -> Result<()> {
        self.end = self.leaf.rows().end;
        let mut within = self.position;
        // Most copies lie within: the last row tells.
        let mut probe = self.end.saturating_sub(1);
        while within < self.end {
            if is_beyond(self.leaf.row(probe)?.key, &self.to) {
                self.end = probe;
            } else {
                within = probe + 1;
            }
            probe = within.midpoint(self.end);
        }
        Ok(())
    }
}

/// Descending rows.
pub(crate) struct Backward {
    tree: Arc<Tree>,
    /// What it sees. It is older than every copy, or it would misjudge the versions in it.
    view: View,
    leaf: LeafCopy,
    /// A row that was read by its key.
    older: (Vec<u8>, Vec<u8>),
    /// Rows of `leaf` that are to be returned, and those that still are: those below these positions.
    first: usize,
    position: usize,
    /// Where the rows of `leaf` begin that the walk may return: behind its first one copied only if that is before `to`.
    begin: usize,
    /// Where the walk begins, until it has begun.
    start: Option<Bound<Vec<u8>>>,
    to: Bound<Vec<u8>>,
    until: Until,
    ahead: Ahead,
}

impl Backward {
    /// A walk from `from` down to `to`.
    pub fn new(tree: Arc<Tree>, view: View, from: Bound<Vec<u8>>, to: Bound<Vec<u8>>) -> Self {
        let leaf = LeafCopy::new(tree.leaf_bytes());
        let ahead = Ahead::new(Direction::Descending);
        let (older, start, until) = (Default::default(), Some(from), Until::default());
        Self { tree, view, leaf, older, first: 0, position: 0, begin: 0, start, to, until, ahead }
    }

    /// As [`Forward::until`].
    pub fn until(mut self, ends: Option<Instant>) -> Self {
        self.until.ends = ends;
        self
    }

    /// As [`Forward::left_off_at`].
    pub fn left_off_at(&self) -> Option<&[u8]> {
        self.until.left_off_at.as_deref()
    }

    /// The next row, valid until the next call.
    pub fn next(&mut self, values: Values) -> Result<Option<(&[u8], &[u8])>> {
        if let Some(from) = self.start.take() {
            let Some(behind) = self.tree.behind_void(&self.view, Direction::Descending, &from)? else {
                self.start = Some(from);
                return Ok(None);
            };
            self.tree.copy_below(&behind, &mut self.leaf)?;
            self.come_in(self.leaf.rows().end)?;
        }
        loop {
            while self.position <= self.begin {
                if !self.go_on()? {
                    return Ok(None);
                }
            }
            self.position -= 1;
            let (leaf, at) = (&mut self.leaf, self.position);
            match self.tree.seen_row(&self.view, values, leaf, at, &mut self.older)? {
                Row::Leaf => break,
                Row::Older => return Ok(Some((&self.older.0, &self.older.1))),
                Row::None => {}
            }
        }
        let row = self.leaf.row(self.position)?;
        Ok(Some((row.key, values.of(row.value))))
    }

    /// Copies what comes below the rows copied; `false` if nothing does, or the walk leaves off.
    fn go_on(&mut self) -> Result<bool> {
        let first = self.leaf.rows().start;
        let reaches_to = key_of(&self.to).is_some_and(|to| self.leaf.low_fence() <= to);
        if self.begin > first || first == 0 && reaches_to {
            return Ok(false);
        }
        if self.position < self.first && self.until.is_up() {
            self.until.left_off_at = Some(self.leaf.row(self.position)?.key.to_vec());
            return Ok(false);
        }
        let further = self.tree.copy_further_down(&mut self.leaf, &mut self.ahead, &self.to)?;
        self.come_in(further.map_or(0, |(_, position)| position))?;
        Ok(further.is_some())
    }

    /// Begins with the rows below this position. Looks for the last one as [`Forward::find_end`] does.
    fn come_in(&mut self, position: usize) -> Result<()> {
        (self.first, self.position) = (position, position);
        self.begin = self.leaf.rows().start;
        let mut within = self.position;
        let mut probe = self.begin;
        while self.begin < within {
            if is_before(self.leaf.row(probe)?.key, &self.to) {
                self.begin = probe + 1;
            } else {
                within = probe;
            }
            probe = self.begin.midpoint(within);
        }
        Ok(())
    }
}

impl Tree {
    /// Does `view` see this version, and has a copy of its leaf all of it that is wanted?
    #[inline]
    fn is_clear(&self, view: &View, values: Values, version: Version, value_len: usize) -> bool {
        view.surely_sees(version) && (values == Values::Skip || !self.is_large(value_len))
    }

    /// What `view` sees of row `index` of a leaf's copy; an older version goes to `older`.
    #[inline]
    fn seen_row(
        &self,
        view: &View,
        values: Values,
        leaf: &mut LeafCopy,
        index: usize,
        older: &mut (Vec<u8>, Vec<u8>),
    ) -> Result<Row> {
        let (version, value_len) = leaf.peek(index)?;
        let version = Version(version);
        if self.is_clear(view, values, version, value_len) {
            return Ok(if version.is_ghost() { Row::None } else { Row::Leaf });
        }
        older.0.clear();
        older.0.extend_from_slice(leaf.row(index)?.key);
        let is_there = match values {
            Values::Read => self.get(view, &older.0, &mut older.1)?,
            Values::Skip => {
                older.1.clear();
                self.contains(view, &older.0)?
            }
        };
        Ok(if is_there { Row::Older } else { Row::None })
    }

    /// Calls `row` with each row between the bounds, ascending, until it breaks.
    pub fn scan(
        self: &Arc<Self>,
        view: View,
        values: Values,
        (from, to): RawBounds,
        row: &mut impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut rows = Forward::new(self.clone(), view, from, to);
        while rows.hand_over(values, row)?.is_continue() && rows.come_to_more()? {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::testing::with_leaves;
    use crate::{ByteRange, ByteTable, Database, Error, Isolation, TransactionOptions};

    type Rows = Box<dyn DoubleEndedIterator<Item = Result<(Vec<u8>, Vec<u8>)>>>;

    const KEYS: [&[u8]; 3] = [b"a", b"b", b"c"];

    /// Who wants keys alone does not notice that what lies outside of the rows is lost, of old versions too.
    #[test]
    fn values_that_are_skipped_are_not_read() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        KEYS.iter().for_each(|key| table.put(key, &[7; 20_000]).unwrap());
        let snapshot = db.snapshot().unwrap();
        table.put(b"b", &[8; 20_000]).unwrap();
        lose_pieces(&table);

        let old = snapshot.bytes(&table);
        ensure_keys(&|| Box::new(table.range(..)), &|| Box::new(table.range(..).keys_only()));
        ensure_keys(&|| Box::new(old.range(..)), &|| Box::new(old.range(..).keys_only()));
        for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
            let tx = db.begin_with(TransactionOptions::new().isolation(isolation)).unwrap();
            let rows = || tx.bytes(&table).range(..);
            ensure_keys(&|| Box::new(rows()), &|| Box::new(rows().keys_only()));
        }
    }

    /// Takes all pieces of a table's large values away.
    fn lose_pieces(table: &ByteTable) {
        let (chunks, mut pieces) = (table.tree.chunks.get().unwrap(), Vec::new());
        let piece = &mut |key: &[u8], _: &[u8]| {
            pieces.push(key.to_vec());
            ControlFlow::Continue(())
        };
        chunks.scan(View::NEWEST, Values::Skip, (Bound::Unbounded, Bound::Unbounded), piece).unwrap();
        pieces.iter().for_each(|key| chunks.remove_unversioned(key).unwrap());
    }

    /// A value below the range may be long, or damaged.
    #[test]
    fn a_walk_down_reads_no_value_below_its_range() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        table.put(b"a", &[7; 20_000]).unwrap();
        table.put(b"b", b"1").unwrap();
        lose_pieces(&table);
        assert!(table.get(b"a").is_err());
        let rows = table.range(b"b"..).rev().collect::<Result<Vec<_>>>();
        assert_eq!(rows.unwrap(), [(b"b".to_vec(), b"1".to_vec())]);
    }

    /// A row in each of two leaves, the right one of which is on disk alone.
    fn with_right_leaf_on_disk(db: &Database) -> (ByteTable, [PageId; 2]) {
        let table = with_leaves(db, [b"a", b"b"]);
        let [left, right] = [b"a", b"b"].map(|key| table.tree.seek(key).unwrap());
        table.tree.pool.flush_all().unwrap();
        table.tree.pool.evict_now(right);
        (table, [left, right])
    }

    /// Where a leaf's fence says that nothing of the range follows, the next leaf is not read.
    #[test]
    fn a_walk_reads_no_leaf_beyond_its_range() {
        let db = Database::in_memory().unwrap();
        let (table, [left, right]) = with_right_leaf_on_disk(&db);
        let tree = &table.tree;
        assert_eq!(table.range(..b"b").count(), 1);
        assert!(tree.pool.is_on_disk(right), "upwards");
        table.get(b"b").unwrap();
        tree.pool.evict_now(left);
        assert_eq!(table.range(b"b"..).rev().count(), 1);
        assert!(tree.pool.is_on_disk(left), "downwards");
    }

    /// Nor does one that locks what it reads, but for the key that names the gap in which it ends.
    #[test]
    fn a_walk_under_locks_reads_no_leaf_beyond_its_range() {
        let db = Database::in_memory().unwrap();
        let (table, [left, right]) = with_right_leaf_on_disk(&db);
        let tree = &table.tree;
        let begin = |isolation| db.begin_with(TransactionOptions::new().isolation(isolation)).unwrap();
        let tx = begin(Isolation::RepeatableRead);
        assert_eq!(tx.bytes(&table).range(..b"b").count(), 1);
        assert!(tree.pool.is_on_disk(right), "upwards");
        tx.commit().unwrap();
        table.get(b"b").unwrap();
        tree.pool.evict_now(left);
        for isolation in [Isolation::RepeatableRead, Isolation::Serializable] {
            let tx = begin(isolation);
            assert_eq!(tx.bytes(&table).range(b"b"..).rev().count(), 1);
            assert!(tree.pool.is_on_disk(left), "downwards, {isolation:?}");
        }
    }

    /// Walks down end where they should, wherever that is in a leaf, and whatever was copied of that.
    #[test]
    fn walks_down_end_where_they_should() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        (0..2000_u16).step_by(2).for_each(|n| table.put(&n.to_be_bytes(), &[0; 50]).unwrap());
        for (from, to) in
            (0..2000_u16).step_by(61).flat_map(|from| (from..2000).step_by(97).map(move |to| (from, to)))
        {
            let bounds = (Bound::Excluded(from.to_be_bytes()), Bound::Included(to.to_be_bytes()));
            let expected = (from + 1..=to).filter(|n| n % 2 == 0).rev();
            let found =
                table.range(bounds).rev().map(|row| u16::from_be_bytes(row.unwrap().0.try_into().unwrap()));
            assert!(found.eq(expected), "from {from} to {to}");
        }
    }

    /// Each goes on behind the last one, and none is at it for longer than it takes to look at a few rows, though nobody sees most.
    #[test]
    fn walks_that_leave_off_are_one() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        let key = |n: &u16| n.to_be_bytes().to_vec();
        (0..3000).step_by(700).for_each(|n| table.put(&key(&n), &[0; 50]).unwrap());
        let tx = db.begin().unwrap();
        (0..3000).filter(|n| n % 700 > 0).for_each(|n| tx.bytes(&table).put(&key(&n), &[0; 50]).unwrap());
        let expected: Vec<_> = (0..3000).step_by(700).map(|n| key(&n)).collect();
        for is_down in [false, true] {
            let (mut found, mut walks, mut bounds) = (Vec::new(), 0, (Bound::Unbounded, Bound::Unbounded));
            loop {
                let mut rows = table.range(bounds.clone()).keys_only();
                rows.set_ends(Instant::now());
                let next = |rows: &mut ByteRange| if is_down { rows.next_back() } else { rows.next() };
                found.extend(std::iter::from_fn(|| next(&mut rows)).map(|row| row.unwrap().0));
                walks += 1;
                let Some(key) = rows.left_off_at() else { break };
                *if is_down { &mut bounds.1 } else { &mut bounds.0 } = Bound::Excluded(key.to_vec());
            }
            if is_down {
                found.reverse();
            }
            assert!(walks > 10, "down: {is_down}");
            assert_eq!(found, expected);
        }
    }

    #[track_caller]
    fn ensure_keys(whole: &dyn Fn() -> Rows, keys_only: &dyn Fn() -> Rows) {
        for row in [whole().next(), whole().next_back()] {
            assert!(matches!(row, Some(Err(Error::Corrupt { .. }))), "a value was not read");
        }
        let expected = KEYS.map(|key| (key.to_vec(), Vec::new()));
        assert_eq!(keys_only().collect::<Result<Vec<_>>>().unwrap(), expected);
        let down = keys_only().rev().collect::<Result<Vec<_>>>().unwrap();
        assert!(down.iter().rev().eq(&expected), "{down:?}");
    }
}
