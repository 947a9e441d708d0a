//! What every Foreshore crate stands on: the node latch and lock, bytes that may be read while they change, ids as types,
//! seeded randomness, memory in huge pages, and the seam through which model checkers replace atomics and threads.
//!
//! Layers above (`foreshore-io`, `foreshore-index`, `foreshore`) use these and never `std::sync::atomic` directly
//! for anything a model checker should see.

pub mod bytes;
mod copy;
pub mod ids;
pub mod latch;
pub mod mapping;
pub mod memory;
pub mod prefetch;
pub mod random;
pub mod rwx;
mod seeded;
pub mod sync;

pub use bytes::RelaxedBytes;
pub use ids::{FrameId, Lsn, PageId, SlotId, TableId, TxnId};
pub use latch::{Exclusive, NodeLatch, Optimistic, Restart};
pub use mapping::Mapping;
pub use rwx::RwxLock;
pub use seeded::seeded_bug;
