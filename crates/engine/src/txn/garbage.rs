//! What commits leave behind until no snapshot needs it: images that they replaced, ghosts of keys that they removed.
//!
//! Batches wait in a few queues, by the slot of the transaction, so that committers seldom meet. Each committer clears
//! a little of its own queue, and the background thread the rest.

use crate::blob::BlobId;
use crate::lock::{Name, Owner};
use crate::tree::Tree;
use crossbeam_utils::CachePadded;
use foreshore_base::Lsn;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// Queues.
const SHARDS: usize = 16;

/// What one transaction, or one autocommitted write, left.
pub(crate) struct Batch {
    /// Its commit: when no open snapshot is older, the batch can go.
    pub commit: Lsn,
    /// The author in the version words that it wrote.
    pub author: u64,
    /// Names under which it put images into the key table.
    pub images: Vec<Name>,
    /// Keys that it removed.
    pub ghosts: Vec<Ghost>,
    /// Large values that it created or replaced, each with the table of its chunks.
    pub blobs: Vec<(Arc<Tree>, BlobId)>,
}

/// A ghost that is to be removed.
pub(crate) struct Ghost {
    pub tree: Arc<Tree>,
    pub key: Box<[u8]>,
    /// Who removed the key. A rollback may have brought back another's ghost, whose own batch had gone when it was none.
    pub author: u64,
}

impl Batch {
    /// An empty one.
    pub fn new(commit: Lsn, author: u64) -> Self {
        Self { commit, author, images: Vec::new(), ghosts: Vec::new(), blobs: Vec::new() }
    }
}

/// Batches that wait.
#[derive(Default)]
pub(crate) struct Garbage {
    shards: [CachePadded<Mutex<VecDeque<Batch>>>; SHARDS],
}

impl Garbage {
    /// Keeps a batch for later.
    pub fn push(&self, owner: Owner, batch: Batch) {
        self.shard(owner.0.into()).lock().push_back(batch);
    }

    /// The oldest batch in the queue of `owner`, if it is older than `horizon`.
    pub fn take(&self, owner: Owner, horizon: Lsn) -> Option<Batch> {
        let mut queue = self.shard(owner.0.into()).lock();
        if queue.front()?.commit < horizon { queue.pop_front() } else { None }
    }

    /// Drops all batches, when nobody can clear them any more.
    pub fn forget(&self) {
        self.shards.iter().for_each(|shard| shard.lock().clear());
    }

    /// An owner for each queue.
    pub fn owners() -> impl Iterator<Item = Owner> {
        (0..SHARDS as u16).map(Owner)
    }

    /// Batches that wait in the queue of `owner`.
    pub fn len(&self, owner: Owner) -> usize {
        self.shard(owner.0.into()).lock().len()
    }

    fn shard(&self, index: usize) -> &Mutex<VecDeque<Batch>> {
        &self.shards[index % SHARDS]
    }
}
