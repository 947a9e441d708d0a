//! The simulated directory: which name is which file, now and after a power loss.
//!
//! Invariants:
//! - N1: a rename happens whole or not at all.
//! - N2: of two unsynced changes that share a name, the later never survives without the earlier; changes without a
//!   name in common survive independently.

use super::fate::Fate;
use super::inode::InodeId;
use std::collections::{BTreeMap, BTreeSet};

/// A change of the directory.
#[derive(Clone)]
enum NameChange {
    Create { name: String, inode: InodeId },
    Rename { from: String, to: String },
    Remove { name: String },
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, InodeId>) {
        match self {
            NameChange::Create { name, inode } => {
                names.insert(name.clone(), *inode);
            }
            NameChange::Rename { from, to } => {
                if let Some(inode) = names.remove(from) {
                    names.insert(to.clone(), inode);
                }
            }
            NameChange::Remove { name } => {
                names.remove(name);
            }
        }
    }

    fn touched(&self) -> [&str; 2] {
        match self {
            NameChange::Create { name, .. } | NameChange::Remove { name } => [name, name],
            NameChange::Rename { from, to } => [from, to],
        }
    }
}

#[derive(Clone, Default)]
pub(crate) struct Names {
    current: BTreeMap<String, InodeId>,
    durable: BTreeMap<String, InodeId>,
    unsynced: Vec<NameChange>,
}

impl Names {
    pub(crate) fn get(&self, name: &str) -> Option<InodeId> {
        self.current.get(name).copied()
    }

    pub(crate) fn list(&self) -> Vec<String> {
        self.current.keys().cloned().collect()
    }

    /// What the file is called now.
    pub(crate) fn name_of(&self, inode: InodeId) -> Option<&str> {
        self.current.iter().find(|&(_, &named)| named == inode).map(|(name, _)| name.as_str())
    }

    /// Can a name, now or after any crash, lead to this file?
    pub(crate) fn holds(&self, inode: InodeId) -> bool {
        let created =
            |change: &NameChange| matches!(change, NameChange::Create { inode: made, .. } if *made == inode);
        self.current.values().any(|&named| named == inode)
            || self.durable.values().any(|&named| named == inode)
            || self.unsynced.iter().any(created)
    }

    pub(crate) fn create(&mut self, name: &str, inode: InodeId) {
        self.change(NameChange::Create { name: name.to_owned(), inode });
    }

    /// `false` if `from` is absent.
    pub(crate) fn rename(&mut self, from: &str, to: &str) -> bool {
        let present = self.current.contains_key(from);
        if present && from != to {
            self.change(NameChange::Rename { from: from.to_owned(), to: to.to_owned() });
        }
        present
    }

    /// `false` if `name` is absent.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let present = self.current.contains_key(name);
        if present {
            self.change(NameChange::Remove { name: name.to_owned() });
        }
        present
    }

    fn change(&mut self, change: NameChange) {
        change.apply(&mut self.current);
        self.unsynced.push(change);
    }

    /// Decides for every unsynced change whether it reached the disk. The current names stay as they are.
    pub(crate) fn settle(&mut self, mut fate: Fate) {
        let mut lost = BTreeSet::new();
        for change in self.unsynced.drain(..) {
            let touched = change.touched();
            if touched.iter().any(|name| lost.contains(*name)) || !fate.spares() {
                lost.extend(touched.map(str::to_owned)); // N2
            } else {
                change.apply(&mut self.durable);
            }
        }
    }

    /// Loses the changes that `fate` does not spare.
    pub(crate) fn lose_power(&mut self, fate: Fate) {
        self.settle(fate);
        self.current = self.durable.clone();
    }
}
