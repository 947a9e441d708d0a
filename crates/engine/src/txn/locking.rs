//! How a transaction gets its locks, and what it tells if it does not.

use crate::error::{Error, Result};
use crate::lock::{KeyMode, LockError, Name, Point, Reach};
use crate::tree::Tree;
use crate::txn::Txn;

/// What a transaction waited for when it gave way to another: the lock, and how it is to be locked when the work is run again.
pub(crate) type Lost = (Name, KeyMode);

impl Txn {
    /// Locks `key`, and so much of the gap below it.
    pub fn lock(&mut self, tree: &Tree, key: &[u8], mode: KeyMode, gap: Reach) -> Result<()> {
        let name = self.core.txns.keys.name(tree.id, key);
        self.lock_name(tree, name, Some(key), mode, gap)
    }

    /// Locks what `name` names: `key`, or the end of the table.
    pub fn lock_name(
        &mut self,
        tree: &Tree,
        name: Name,
        key: Option<&[u8]>,
        mode: KeyMode,
        gap: Reach,
    ) -> Result<()> {
        if self.is_large() || tree.large_ones.are_any() {
            return self.lock_beside_large(tree, name, key, mode, gap, None);
        }
        let got = self.core.txns.keys.acquire(self.owner, name, mode, gap, self.patience);
        let granted = got.map_err(|refused| self.lost(tree, name, key, refused))?;
        if tree.large_ones.are_any() {
            return self.lock_beside_large(tree, name, key, mode, gap, Some(granted)); // there was none before it waited
        }
        tree.note_lock_wait(granted.waited);
        if granted.first {
            self.locks.push(name);
        } else if self.in_line == Some(name) {
            self.in_line = None; // it relies on that from now on
        }
        Ok(())
    }

    /// To be called first when the work of a deadlock's victim is run again, with the lock over which it gave way. Stands in the
    /// line of all who run again, for a while (they would meet over the next row), and then locks that name exclusively, if it is of a row.
    /// The transaction that it lost to has ended by then, so it does not lose to the same one twice; and of several that had read a row in
    /// order to write it, each now has it alone. The transaction holds nothing yet, so nobody can wait for it here.
    ///
    /// Whether a large transaction claims that row is not asked here, where only its name is known, but when the row is locked.
    pub fn get_in_line(&mut self, (name, mode): Lost) {
        let (owner, patience) = (self.owner, self.patience);
        let keys = &self.core.txns.keys;
        let line = keys.get_in_line(owner, patience);
        let lock = (name, keys.acquire(owner, name, mode, Reach::NONE, patience));
        for (of, got) in [line, lock] {
            let waited = got.map_or_else(|refused| Some(refused.waited()), |granted| granted.waited);
            waited.into_iter().for_each(|waited| self.core.txns.waits_again.add(waited));
            if got.is_ok_and(|granted| granted.first) {
                self.locks.push(of);
            }
        }
        self.in_line = self.locks.last().copied().filter(|last| *last == name);
    }

    /// What it waited for when it gave way to another.
    pub fn lost_over(&self) -> Option<Lost> {
        self.lost_over
    }

    /// Waits until nobody else protects the gap there.
    pub fn wait_for_gap(&mut self, tree: &Tree, point: Point) -> Result<()> {
        let waited = self.core.txns.keys.wait_for_gap(self.owner, point, self.patience);
        tree.note_lock_wait(waited.map_err(|refused| self.lost(tree, point.gap, None, refused))?);
        Ok(())
    }

    /// The lock on `name` was refused: that of `key`, or of a gap.
    #[cold]
    pub(super) fn lost(&mut self, tree: &Tree, name: Name, key: Option<&[u8]>, refused: LockError) -> Error {
        if matches!(refused, LockError::Deadlock { .. }) {
            self.lost_over = Some((name, KeyMode::Exclusive));
        }
        self.refused(tree, key, refused)
    }

    #[cold]
    pub(super) fn refused(&self, tree: &Tree, key: Option<&[u8]>, refused: LockError) -> Error {
        tree.note_lock_wait(Some(refused.waited()));
        self.core.txns.refused(self.owner, tree, key, refused)
    }
}
