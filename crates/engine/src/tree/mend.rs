//! Mending the chain when leaves are all that is left of a database: some of them are from before a split, and others from after.
//!
//! A leaf from before it was split still holds the keys that its new right neighbour took over, and links past that. Now it is
//! split there once more, by a record as any other split: so whoever is interrupted here begins again (T1).
//!
//! Where a leaf is lost, a gap stays, in which nobody finds or puts a row: who looks is told. Only in tables of the engine's own may an
//! empty leaf take its place.

use crate::error::{Error, Result};
use crate::leaf::{LeafCopy, Split};
use crate::tree::{Tree, empty_leaf};
use foreshore_base::PageId;
use std::ops::Bound::Unbounded;

/// Keys that no leaf covers.
pub(crate) struct Hole {
    pub low: Vec<u8>,
    /// Where the next leaf begins, if there is one: where the gap ends.
    pub high: Option<Vec<u8>>,
    /// That leaf.
    pub right: PageId,
}

impl Hole {
    /// All keys: a table without leaves.
    pub const ALL: Self = Self { low: Vec::new(), high: None, right: PageId::NONE };
}

impl Tree {
    /// Behind which leaves others are lost. To be called while nobody else is there.
    ///
    /// Errors: I/O; [`Error::Corrupt`] for a leaf that is damaged.
    pub fn gaps(&self) -> Result<Vec<Hole>> {
        let (mut gaps, mut copy) = (Vec::new(), LeafCopy::new(self.leaf_bytes()));
        let mut leaves = self.index.range(Unbounded, Unbounded).peekable();
        while let Some((low, _)) = leaves.next() {
            self.copy_leaf(None, &low, &mut copy)?;
            let (low, next) = (copy.high_fence(), leaves.peek());
            if let Some(low) = low.filter(|low| next.is_none_or(|(next, _)| next[..] > **low)) {
                let right = next.map_or(PageId::NONE, |(_, page)| PageId(*page));
                gaps.push(Hole { low: low.to_vec(), high: next.map(|(next, _)| next.clone()), right });
            }
        }
        Ok(gaps)
    }

    /// Where its leaves begin.
    pub fn low_fences(&self) -> impl Iterator<Item = Vec<u8>> {
        self.index.range(Unbounded, Unbounded).map(|(low, _)| low)
    }

    /// Puts an empty leaf there.
    pub fn fill(&self, gap: &Hole) -> Result<()> {
        let leaf = empty_leaf(&self.core, &self.pool, self.id, gap)?;
        self.post(&gap.low, leaf);
        Ok(())
    }

    /// Lets each leaf end where the next one begins, if it does not end before that. To be called while nobody else is there.
    ///
    /// Errors: `Full`, I/O. What is damaged stays as it is.
    pub fn mend(&self) -> Result<()> {
        let mut leaves = self.index.range(Unbounded, Unbounded);
        let Some((mut low, _)) = leaves.next() else { return Ok(()) };
        for (next_low, next) in leaves {
            match self.mend_before(&low, PageId(next)) {
                Err(Error::Corrupt { .. }) => {}
                mended => mended?,
            }
            low = next_low;
        }
        Ok(())
    }

    /// The same for the leaf with this low fence, and the next one.
    fn mend_before(&self, low: &[u8], next: PageId) -> Result<()> {
        self.core.log.room()?;
        let (left, (right, right_latch)) = loop {
            self.pool.page(next)?;
            let left = self.latch_leaf(low)?;
            match self.latch_resident(next) {
                Some(right) => break (left, right),
                None => left.latch.release_unchanged(),
            }
        };
        let Some(split) = Split::again(left.at.page, right.page)? else {
            right_latch.release_unchanged();
            left.latch.release_unchanged();
            return Ok(());
        };
        self.pool.before_change(left.at.frame);
        self.pool.before_change(right.frame);
        let body = split.change().encoded();
        let record = self.core.log.reserve(body.len());
        split.apply(left.at.page, right.page, record.end());
        drop(right_latch);
        drop(left.latch);
        self.core.log.fill(record, &body);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::Database;
    use crate::tree::testing::{A_WHILE, with_leaves};
    use std::thread;

    /// Pages come and go also while nobody else is there: the cleaner makes room for those that are read.
    #[test]
    fn a_leaf_is_mended_before_the_next_one_whatever_the_frame_of_that_holds_by_now() {
        let db = Database::in_memory().unwrap();
        let table = with_leaves(&db, [b"a", b"b"]);
        let other = db.byte_table("u").unwrap();
        other.put_many(&[(b"a", b"1"), (b"b", b"2")]).unwrap();
        other.tree.part(b"a", b"b").unwrap();
        let tree = &table.tree;
        let (next, elsewhere) = (tree.seek(b"b").unwrap(), other.tree.seek(b"b").unwrap());
        tree.pool.flush_all().unwrap();
        tree.pool.evict_now(elsewhere);
        thread::scope(|scope| {
            let held = tree.latch_leaf(b"b").unwrap();
            let mender = scope.spawn(|| tree.mend());
            thread::sleep(A_WHILE);
            tree.pool.hand_over(held.at.frame, next, elsewhere);
            held.latch.release_unchanged();
            mender.join().unwrap().unwrap();
        });
        assert_eq!(table.get(b"b").unwrap().unwrap(), b"b");
        db.check().unwrap();
    }
}
