//! Reading single records of the running log, newest first: what a rollback does.
//!
//! Most of them are still in the ring. A record that the ring gives back has been written and synced before its place is
//! zeroed, so who does not find it there finds it in the segments; its checksum says which is which.

use super::incarnation::Incarnation;
use super::record::{HEADER_BYTES, Seal};
use super::stored::StoredBytes;
use super::{Log, Shared};
use crate::error::{Error, Result};
use crate::waits::will_wait;
use foreshore_base::Lsn;

/// Most records are shorter; for those the window moves backwards once in a while.
const USUAL_BYTES: usize = 16 << 10;

/// Enough for most transactions; a rollback that only just missed the ring should not read megabytes.
const WINDOW_BYTES: usize = 64 << 10;

/// Reads records that are complete, by their LSNs.
pub(crate) struct Backward<'a> {
    shared: &'a Shared,
    incarnations: &'a [Incarnation],
    /// Made when the first record is not in the ring.
    segments: Option<StoredBytes>,
    raw: Vec<u8>,
}

impl Log {
    /// A reader of single records. `incarnations` are those of all records that it will be asked for.
    pub fn backward<'a>(&'a self, incarnations: &'a [Incarnation]) -> Backward<'a> {
        Backward { shared: &self.shared, incarnations, segments: None, raw: Vec::new() }
    }
}

impl Backward<'_> {
    /// The body of the record at `at`, which must be complete.
    ///
    /// Errors: [`Error::Corrupt`] if there is none; [`Error::Poisoned`] if the log has failed, and there is none; I/O.
    pub fn read(&mut self, at: Lsn) -> Result<&[u8]> {
        let len = match self.read_ring(at) {
            Some(len) => len,
            None => self.read_segments(at)?,
        };
        Ok(&self.raw[HEADER_BYTES..len])
    }

    fn read_ring(&mut self, at: Lsn) -> Option<usize> {
        let shared = self.shared;
        if at < shared.start {
            return None;
        }
        shared.ring.record(at, shared.seal, shared.options.record_bytes_max(), &mut self.raw)
    }

    fn read_segments(&mut self, at: Lsn) -> Result<usize> {
        will_wait(); // for the device
        let poison = &self.shared.poison;
        // A record that had no place in the ring yet when the log failed is nowhere.
        let missing = || match poison.check() {
            Ok(()) => Error::corrupt("log", format!("a rollback finds no record at LSN {at}")),
            Err(failed) => failed,
        };
        let incarnation = self.incarnations.iter().rfind(|incarnation| incarnation.start <= at);
        let seal = Seal::new(incarnation.ok_or_else(missing)?.salt);
        let options = &self.shared.options;
        let segments = self
            .segments
            .get_or_insert_with(|| StoredBytes::backward(self.shared.segments.vfs(), options, WINDOW_BYTES));
        segments.move_before(at, USUAL_BYTES)?;
        let found = segments.record(at, seal, options.record_bytes_max())?;
        let (bytes, len) = found.ok_or_else(missing)?;
        self.raw.clear();
        self.raw.extend_from_slice(bytes);
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Database, Durability, before_waiting};
    use foreshore_io::MemVfs;
    use std::cell::Cell;
    use std::sync::Arc;

    thread_local!(static HAS_LEFT: Cell<bool> = const { Cell::new(false) });

    /// H1: what the ring has given back is read from the device, which who holds something is told before.
    #[test]
    fn a_rollback_of_what_the_ring_has_lost_says_that_it_waits() {
        let small = Database::builder().ring_bytes(1 << 20).segment_bytes(1 << 20);
        let db = small.durability(Durability::Relaxed).open_on(Arc::new(MemVfs::new())).unwrap();
        let table = db.byte_table("t").unwrap();
        let tx = db.begin().unwrap();
        tx.bytes(&table).put(b"k", b"v").unwrap();
        (0..3000u32).for_each(|i| table.put(&i.to_be_bytes(), &[7; 1000]).unwrap());
        db.sync().unwrap();
        before_waiting(|| HAS_LEFT.set(true), || tx.rollback()).unwrap();
        assert!(HAS_LEFT.get(), "the record is in a segment only");
    }
}
