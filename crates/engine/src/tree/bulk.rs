//! Loading sorted rows: leaves are filled one after another in private memory and hung onto the right end of the chain.
//!
//! Each leaf is logged as a split in which nothing moves: the last leaf gets a high fence and a right link, the new leaf
//! comes as a whole image. So a bulk load needs no record of its own, and a crash keeps a prefix of the rows. Large values that
//! follow one another share a transaction, and with it a wait for the device (X2 in `blob/extents.rs`). They are gathered before it
//! begins: while the caller is asked for rows, which may take long, and use the table, nothing is locked.

use crate::error::{Error, Result};
use crate::leaf::{self, Builder, LeafCopy, Split};
use crate::log::Log;
use crate::page::Page;
use crate::tree::descend::malformed;
use crate::tree::{Intent, Tree};
use crate::txn::Txn;
use crate::version::Version;
use foreshore_base::{Lsn, Restart};
use std::sync::Arc;
use std::time::Duration;

/// Share of a leaf that a bulk load fills, leaving room for a few later inserts.
const FILL_PERCENT: usize = 95;

/// Bytes of large values that share a transaction, roughly.
const LARGE_BYTES: usize = 16 << 20;

impl Tree {
    /// Appends rows with strictly ascending keys, all above the table's last; how many, or why not all, and in either case the end
    /// of the last record: the rows before one that is refused are there. `make_room` is told the length of each value before it is
    /// written. A lock is waited for as long as `patience`.
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        self: &Arc<Self>,
        rows: impl IntoIterator<Item = (K, V)>,
        patience: Duration,
        mut make_room: impl FnMut(usize) -> Result<()>,
    ) -> Result<(Result<u64>, Lsn)> {
        let mut loader = Loader::new(self, patience)?;
        let pushed = rows.into_iter().try_for_each(|row| loader.push(row, &mut make_room));
        let finished = loader.finish();
        Ok((finished.and(pushed).map(|()| loader.rows), loader.end))
    }

    /// Where the table ends: above which key a leaf can be hung behind the last one, and the greatest key, if there is any row. Cells
    /// of removed keys are none, but are in that leaf's way.
    fn end(&self) -> Result<(Vec<u8>, Option<Vec<u8>>)> {
        let mut copy = LeafCopy::new(self.leaf_bytes());
        self.copy_leaf_before(None, &mut copy)?;
        let mut below = copy.len();
        let floor = match below.checked_sub(1) {
            Some(last) => copy.row(last)?.key.to_vec(),
            None => copy.low_fence().to_vec(),
        };
        loop {
            while let Some(last) = below.checked_sub(1) {
                if !Version(copy.version(last)?).is_ghost() {
                    return Ok((floor, Some(copy.row(last)?.key.to_vec())));
                }
                below = last;
            }
            if copy.low_fence().is_empty() {
                return Ok((floor, None));
            }
            let bound = copy.low_fence().to_vec();
            self.copy_leaf_before(Some(&bound), &mut copy)?;
            below = copy.lower_bound(&bound)?;
        }
    }
}

/// A bulk load in progress.
struct Loader<'a, K, V> {
    tree: &'a Arc<Tree>,
    patience: Duration,
    /// The leaf being filled, and its low fence.
    leaf: Option<(Builder, Vec<u8>)>,
    last_key: Option<Vec<u8>>,
    /// Rows with large values that are to be put next, and the bytes of these.
    large: Vec<(K, V)>,
    large_bytes: usize,
    /// Only above this can a leaf be hung behind what was the table's last one.
    floor: Vec<u8>,
    fill_bytes: usize,
    rows: u64,
    end: Lsn,
}

impl<'a, K: AsRef<[u8]>, V: AsRef<[u8]>> Loader<'a, K, V> {
    fn new(tree: &'a Arc<Tree>, patience: Duration) -> Result<Self> {
        let fill_bytes = tree.leaf_bytes() * FILL_PERCENT / 100;
        let (floor, last_key) = tree.end()?;
        let (large, large_bytes) = (Vec::new(), 0);
        Ok(Self {
            tree,
            patience,
            leaf: None,
            last_key,
            large,
            large_bytes,
            floor,
            fill_bytes,
            rows: 0,
            end: Lsn::ZERO,
        })
    }

    fn push(&mut self, row: (K, V), make_room: &mut impl FnMut(usize) -> Result<()>) -> Result<()> {
        let (key, value) = (row.0.as_ref(), row.1.as_ref());
        make_room(value.len())?;
        self.tree.ensure_fits(key, value)?;
        if self.last_key.as_deref().is_some_and(|last| last >= key) {
            let last = if self.rows == 0 { "the table's last row" } else { "the row before it" };
            return Err(Error::BulkLoad {
                detail: format!(
                    "key {} is not above {last}; sort the rows, or put them instead",
                    key.escape_ascii()
                ),
            });
        }
        let is_large = self.tree.is_large(value.len());
        let taken = match &mut self.leaf {
            _ if is_large => {
                self.hang()?;
                true
            }
            Some((leaf, _)) => leaf.load(key, value, 0, self.fill_bytes),
            None if key <= self.floor.as_slice() => {
                self.put_large()?;
                self.put_alone(key, value)?;
                true
            }
            None => false,
        };
        if !taken {
            self.begin_leaf(key, value)?;
        }
        let last = self.last_key.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        self.rows += 1;
        if is_large {
            self.large_bytes += value.len();
            self.large.push(row);
        }
        if self.large_bytes >= LARGE_BYTES { self.put_large() } else { Ok(()) }
    }

    /// Keys that no leaf behind the last one can hold: the empty key, and more if that leaf was empty, or has
    /// cells of removed keys.
    fn put_alone(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.end =
            self.tree.autocommit(key, Intent::Put(value), self.patience)?.expect("a put is always done");
        Ok(())
    }

    /// Puts the large values that were gathered.
    fn put_large(&mut self) -> Result<()> {
        let rows = std::mem::take(&mut self.large);
        self.large_bytes = 0;
        let put = |txn: &mut Txn| {
            rows.iter().try_for_each(|(key, value)| {
                self.tree.write(txn, key.as_ref(), Intent::Put(value.as_ref())).map(drop)
            })
        };
        if !rows.is_empty() {
            let ((), end) = self.tree.core.in_own_transaction(self.patience, put)?;
            self.end = end.unwrap_or(self.end);
        }
        Ok(())
    }

    /// Hangs the full leaf into the chain, and begins the next one with this row.
    fn begin_leaf(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.hang()?;
        let before = self.last_key.as_deref().unwrap_or_default().max(&self.floor);
        let low = leaf::separator(before, key).to_vec();
        let mut builder = Builder::new(self.tree.leaf_bytes(), &low, None);
        assert!(builder.load(key, value, 0, self.fill_bytes), "a leaf takes its first row");
        self.leaf = Some((builder, low));
        Ok(())
    }

    fn hang(&mut self) -> Result<()> {
        let Some((builder, low)) = self.leaf.take() else { return Ok(()) };
        self.put_large()?;
        let (fresh, last) = loop {
            let (fresh, last) = self.tree.latch_leaf_beside_new(&low, Log::room)?;
            ensure_last(last.at.page, &low)?;
            // A load leaves room for it, but other rows may have come into the leaf.
            if leaf::has_room_for_fence(last.at.page, &low) {
                break (fresh, last);
            }
            last.latch.release_unchanged();
            drop(fresh);
            // As for a row with that key, which would take more.
            self.tree.split(&low, 0)?;
        };
        let split = Split::append(last.at.page, fresh.pid(), low, builder)?;
        // Under the latch: who begins to walk now finds the leaf latched, or changed (V2 in `voids.rs`).
        self.tree.spans.make_way_for_load();
        self.end = self.tree.carry_out(&split, last, fresh);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.put_large()?;
        self.hang()
    }
}

/// Only the last leaf may be continued, and only above its keys. One that begins at `low`, and is empty, would end where it begins.
fn ensure_last(page: Page<'_>, low: &[u8]) -> Result<()> {
    if leaf::is_above_all(page, low).map_err(|Restart| malformed(page))?
        && page.low_fence().is_some_and(|fence| fence.as_slice() < low)
    {
        return Ok(());
    }
    Err(Error::BulkLoad { detail: "another writer added rows above the loaded ones".into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Database;
    use foreshore_io::SimDisk;
    use foreshore_io::sim::Crash;

    /// A load that refuses a row returns when those before it are durable, in leaves and as large values.
    #[test]
    fn rows_before_a_refused_one_survive_a_power_failure() {
        for (name, value_bytes) in [("leaves", 10), ("large values", 10_000)] {
            let disk = SimDisk::new(1);
            let open = |disk: SimDisk| Database::builder().open_on(Arc::new(disk)).unwrap();
            let db = open(disk.clone());
            let rows = || (1..=10_u8).map(|key| ([key], vec![key; value_bytes]));
            let refused = db.byte_table("t").unwrap().bulk_load(rows().chain([([5], Vec::new())]));
            assert!(matches!(refused, Err(Error::BulkLoad { .. })), "{refused:?}");
            for seed in 0..10 {
                let db = open(disk.after_crash(Crash::PowerLoss, seed));
                let found = db.byte_table("t").unwrap().range(..).count();
                assert_eq!(found, 10, "{name}, seed {seed}");
            }
        }
    }
}
