//! The ghosts that a transaction leaves to those who clear up: each once, however often it has made it.

use crate::tree::Tree;
use foreshore_base::{PageId, TableId};
use std::sync::Arc;

/// A ghost that is to be removed.
pub(crate) struct Ghost {
    pub tree: Arc<Tree>,
    pub key: Box<[u8]>,
    /// Who removed the key. A rollback may have brought back another's ghost, whose own batch had gone when it was none.
    pub author: u64,
    /// It stands for others, up to this key; empty: it does not.
    pub last: Vec<u8>,
}

impl Ghost {
    /// Does it stand for no other?
    pub fn is_alone(&self) -> bool {
        self.last.is_empty()
    }

    fn identity(&self) -> (TableId, &[u8], u64) {
        (self.tree.id, &self.key, self.author)
    }
}

/// Those of one transaction, in any order.
#[derive(Default)]
pub(crate) struct Ghosts {
    list: Vec<Ghost>,
    /// The leaf of the last one that stands for others.
    leaf: PageId,
}

impl Ghosts {
    /// Notes one, unless it is the one noted last.
    pub fn note(&mut self, tree: &Arc<Tree>, key: &[u8], author: u64) {
        if self.list.last().is_some_and(|last| last.identity() == (tree.id, key, author)) {
            return;
        }
        if self.list.len() == self.list.capacity() {
            self.forget_doubles();
        }
        self.leaf = PageId::NONE;
        self.list.push(Ghost { tree: tree.clone(), key: key.into(), author, last: Vec::new() });
    }

    /// Notes one, in this leaf. If the author's one noted last is there too, that stands for it from now on.
    pub fn note_in(&mut self, leaf: PageId, tree: &Arc<Tree>, key: &[u8], author: u64) {
        let is_known = leaf == self.leaf && !leaf.is_none();
        match self.list.last_mut().filter(|last| is_known && last.author == author) {
            Some(ghost) if *key < *ghost.key => ghost.key = key.into(),
            Some(ghost) if *key > *ghost.last => key.clone_into(&mut ghost.last),
            Some(_) => {}
            None => {
                self.note(tree, key, author);
                self.list.last_mut().expect("one is noted").last = key.to_vec();
                self.leaf = leaf;
            }
        }
    }

    /// Before the list grows. Makes room for as many as are left, so that it is not sorted for each one more.
    #[cold]
    fn forget_doubles(&mut self) {
        self.list.sort_by(|a, b| a.identity().cmp(&b.identity()));
        self.list.dedup_by(|later, one| {
            let is_same = later.identity() == one.identity();
            if is_same && later.last > one.last {
                std::mem::swap(&mut later.last, &mut one.last);
            }
            is_same
        });
        self.list.reserve(self.list.len());
    }

    /// All of them, perhaps some twice.
    pub fn into_list(self) -> Vec<Ghost> {
        self.list
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
            let noted = txn.ghosts.list.len();
            assert!(noted <= 8 * usize::from(rows), "{rows} rows: {noted}");
            txn.commit().unwrap();
            assert_eq!(db.check().unwrap().tables[1].ghosts, 0, "{rows} rows");
        }
    }
}
