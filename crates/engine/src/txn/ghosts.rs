//! The ghosts that a transaction leaves to those who clear up: each once, however often it has made it.

use crate::tree::Tree;
use foreshore_base::TableId;
use std::sync::Arc;

/// A ghost that is to be removed.
pub(crate) struct Ghost {
    pub tree: Arc<Tree>,
    pub key: Box<[u8]>,
    /// Who removed the key. A rollback may have brought back another's ghost, whose own batch had gone when it was none.
    pub author: u64,
}

impl Ghost {
    fn identity(&self) -> (TableId, &[u8], u64) {
        (self.tree.id, &self.key, self.author)
    }
}

/// Those of one transaction, in any order.
#[derive(Default)]
pub(crate) struct Ghosts(Vec<Ghost>);

impl Ghosts {
    /// Notes one, unless it is the one noted last.
    pub fn note(&mut self, tree: &Arc<Tree>, key: &[u8], author: u64) {
        if self.0.last().is_some_and(|last| last.identity() == (tree.id, key, author)) {
            return;
        }
        if self.0.len() == self.0.capacity() {
            self.forget_doubles();
        }
        self.0.push(Ghost { tree: tree.clone(), key: key.into(), author });
    }

    /// Before the list grows. Makes room for as many as are left, so that it is not sorted for each one more.
    #[cold]
    fn forget_doubles(&mut self) {
        self.0.sort_by(|a, b| a.identity().cmp(&b.identity()));
        self.0.dedup_by(|a, b| a.identity() == b.identity());
        self.0.reserve(self.0.len());
    }

    /// All of them, perhaps some twice.
    pub fn into_list(self) -> Vec<Ghost> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use crate::Database;
    use crate::tree::{Intent, PATIENCE};
    use crate::txn::Txn;
    use foreshore_base::Lsn;

    /// Who puts and removes the same few rows again and again needs no more memory for that than once.
    #[test]
    fn rows_removed_again_and_again_are_noted_a_few_times() {
        for rows in 1..=10_u8 {
            let db = Database::in_memory().unwrap();
            let table = db.byte_table("t").unwrap();
            let tree = &table.tree;
            let mut txn = Txn::begin(tree.core().clone().into(), PATIENCE, Lsn::ZERO).unwrap();
            for round in 0..200 {
                let before = txn.savepoint();
                for row in 0..rows {
                    tree.write(&mut txn, &[row], Intent::Put(b"v")).unwrap();
                    if round % 2 == 0 {
                        tree.write(&mut txn, &[row], Intent::Remove).unwrap();
                    }
                }
                if round % 3 == 0 {
                    txn.roll_back_to(before).unwrap();
                }
            }
            for row in 0..rows {
                tree.write(&mut txn, &[row], Intent::Remove).unwrap();
            }
            let noted = txn.ghosts.0.len();
            assert!(noted <= 8 * usize::from(rows), "{rows} rows: {noted}");
            txn.commit().unwrap();
            assert_eq!(db.check().unwrap().tables[1].ghosts, 0, "{rows} rows");
        }
    }
}
