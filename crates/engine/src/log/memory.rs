//! The ring's memory: a file mapping that outlives the process.

use super::options::LogOptions;
use crate::error::{Error, Result};
use foreshore_base::sync::{AtomicU64, Ordering::Relaxed};
use foreshore_io::{SharedMemory, Vfs};
use std::sync::Arc;

/// The file behind the ring.
const NAME: &str = "ring";
/// The same in the making: see [`Vfs::shared_memory`].
const UNFINISHED: &str = "ring.new";

/// Is this one of them?
pub(super) fn is_file(name: &str) -> bool {
    name == NAME || name == UNFINISHED
}

#[derive(Clone)]
pub(super) struct Mapped(Arc<dyn SharedMemory>);

impl Mapped {
    /// Maps the ring, as the last process left it.
    pub fn open(vfs: &dyn Vfs, options: &LogOptions) -> Result<Self> {
        let memory = vfs.shared_memory(NAME, options.ring_bytes);
        memory.map(Self).map_err(|e| Error::io("mapping the log ring", &e))
    }

    /// Forgets what the last process left. After a clean close all is zero, and no page becomes dirty.
    pub fn clear(&self) {
        for word in self.as_ref() {
            if word.load(Relaxed) != 0 {
                word.store(0, Relaxed);
            }
        }
    }
}

impl AsRef<[AtomicU64]> for Mapped {
    #[inline]
    fn as_ref(&self) -> &[AtomicU64] {
        self.0.words()
    }
}
