//! The keys that a client watches, and whether EXEC may still happen.
//!
//! Invariants:
//! - W1: what the client has read or written by a key's name counts, be it by a command that then changed nothing. What a
//!   refused command did, or one of a transaction, does not.
//! - W2: keys are told apart by the names of their tables. So where others have renamed a table since, EXEC does not happen: what has
//!   its name now is other rows than those that were watched.

use crate::commands::{CommandError, TimeOnLoop};
use crate::fingerprint::Fingerprint;
use crate::shared::{Shared, Target};
use foreshore::{Error, Transaction};
use foreshore_base::seeded_bug;
use std::cmp::Ordering;

/// Keys that a client may watch at a time.
pub const WATCHED_MAX: usize = 1024;

/// What a client watches.
#[derive(Default)]
pub struct Watches {
    /// Each key once, in their order.
    keys: Vec<Watched>,
    /// Has the client seen one be something else, or written it?
    is_broken: bool,
}

/// A watched key.
struct Watched {
    table: Target,
    key: Vec<u8>,
    /// What its value was when it was watched, and how many bytes it had.
    was: Fingerprint,
    value_bytes: usize,
}

impl Watched {
    fn cmp(&self, table: &str, key: &[u8]) -> Ordering {
        self.key.as_slice().cmp(key).then_with(|| self.table.name().cmp(table))
    }

    /// Is it in this table what it was? A value of another length is not, and is not read.
    fn is_kept(&self, transaction: &Transaction, table: &Target) -> Result<bool, Error> {
        let rows = transaction.bytes(table.table());
        let value_bytes = rows.value_bytes(&self.key)?.unwrap_or(0);
        Ok(value_bytes == self.value_bytes as u64
            && Fingerprint::of(rows.get(&self.key)?.as_deref()) == self.was)
    }
}

impl Watches {
    /// Is nothing watched?
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// How many keys are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Memory, in bytes.
    pub fn bytes(&self) -> usize {
        let keys: usize = self.keys.iter().map(|watched| watched.key.capacity()).sum();
        self.keys.capacity() * size_of::<Watched>() + keys
    }

    /// Is this key watched?
    pub fn has(&self, table: &str, key: &[u8]) -> bool {
        self.find(table, key).is_some()
    }

    /// Bytes of the values that are watched, which EXEC reads again.
    pub fn value_bytes(&self) -> usize {
        self.keys.iter().map(|watched| watched.value_bytes).sum()
    }

    /// Watches a key, not watched before, whose value was this, of so many bytes.
    pub fn add(&mut self, table: &Target, key: &[u8], was: Fingerprint, value_bytes: usize) {
        let place = self.keys.partition_point(|watched| watched.cmp(table.name(), key).is_lt());
        let watched = Watched { table: table.clone(), key: key.to_vec(), was, value_bytes };
        self.keys.insert(place, watched);
    }

    /// Is this key watched, and may it still break what is not broken yet?
    pub fn may_break(&self, table: &str, key: &[u8]) -> bool {
        !self.is_broken && self.has(table, key)
    }

    /// Is this key watched, and was something else then?
    pub fn is_changed(&self, table: &str, key: &[u8], value: Option<&[u8]>) -> bool {
        self.find(table, key).is_some_and(|watched| watched.was != Fingerprint::of(value))
    }

    /// Is this key watched, and was there when it is not now, or the other way round?
    fn is_turned(&self, table: &str, key: &[u8], is_there: bool) -> bool {
        self.find(table, key).is_some_and(|watched| watched.was.is_of_a_value() != is_there)
    }

    /// Is this key watched, and was written or has turned? Whoever wanted to insert or remove it found it there, or not, and
    /// only then may have done so.
    pub fn is_met(&self, table: &str, key: &[u8], is_done: bool, is_there: bool) -> bool {
        if is_done { self.has(table, key) } else { self.is_turned(table, key, is_there) }
    }

    /// If so, EXEC must not happen, even if all is again what it was by then.
    pub fn break_if(&mut self, is_changed: bool) {
        self.is_broken |= is_changed;
    }

    /// The same, if the table of a watched key has got another name (W2). To be asked before anything else is done by the old one.
    pub fn break_if_renamed(&mut self) {
        self.is_broken |= self.keys.iter().any(|watched| watched.table.is_renamed());
    }

    /// Are all what they were? To be asked in the transaction, which keeps them so.
    ///
    /// Errors: [`CommandError::TooHeavy`], if the time is up before that is known.
    pub fn are_kept(
        &self,
        shared: &Shared,
        transaction: &Transaction,
        time: &TimeOnLoop,
    ) -> Result<bool, CommandError> {
        if self.is_broken && !seeded_bug("serve_watch_forgets") {
            return Ok(false);
        }
        for watched in &self.keys {
            time.ensure_left()?;
            let mut is_kept = watched.is_kept(transaction, &watched.table);
            if let (Err(Error::TableDropped { .. }), Some(newer)) = (&is_kept, shared.newer(&watched.table)) {
                // FLUSHDB has made another table, in which the key may be missing as it was before.
                is_kept = watched.is_kept(transaction, &newer);
            }
            if !is_kept? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn find(&self, table: &str, key: &[u8]) -> Option<&Watched> {
        let place = self.keys.binary_search_by(|watched| watched.cmp(table, key)).ok()?;
        Some(&self.keys[place])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::shared::Wanted;
    use foreshore::{Database, TableOptions};

    /// A client is charged for what its watches take: the list with its spare room, and of the table's name nothing, which all share.
    #[test]
    fn watched_keys_are_counted_with_all_that_they_take() {
        let shared = Shared::new(Database::in_memory().unwrap(), Options::default());
        let wanted = Wanted { name: "t".repeat(255), options: TableOptions::new() };
        let (table, mut watches) = (shared.open(&wanted).unwrap(), Watches::default());
        for n in 0..WATCHED_MAX {
            watches.add(&table, &n.to_be_bytes(), Fingerprint::of(None), 0);
            let listed = watches.keys.capacity() * size_of::<Watched>();
            assert!(watches.bytes() >= listed + 8 * watches.len(), "{n}");
        }
        let is_shared = |watched: &Watched| std::ptr::eq(watched.table.name(), table.name());
        assert!(watches.keys.iter().all(is_shared), "each key has a name of its own");
    }
}
