//! How much a request has to do, roughly in rows: what is heavy is done elsewhere than on an event loop.

use crate::request::Args;
use foreshore::Database;

/// From this weight on a write, or the end of a transaction, is done elsewhere than on the event loop: it would take milliseconds
/// there.
pub const HEAVY: usize = 2000;

/// What a row that is removed weighs at the end of its transaction, which clears it away, and may have to read its leaf again for that.
pub const REMOVED: usize = HEAVY / 20;

/// So many bytes take as long as a row.
const BYTES_PER_ROW: usize = 64;

/// What bytes weigh.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    bytes_per_row: usize,
}

impl Scale {
    /// A value that this database writes past the log weighs as much as a heavy transaction, for it waits for the device before
    /// it commits.
    pub fn of(db: &Database) -> Self {
        Self { bytes_per_row: BYTES_PER_ROW.min(db.past_log_from_bytes() / HEAVY) }
    }

    /// The weight of a request with these arguments.
    pub fn weigh(self, args: &Args<'_>) -> usize {
        args.len() + self.weigh_bytes(args.bytes())
    }

    /// The weight of so many bytes.
    pub fn weigh_bytes(self, bytes: usize) -> usize {
        bytes / self.bytes_per_row
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreshore_io::MemVfs;
    use std::sync::Arc;

    /// Whatever the leaves are like; what is much smaller is written by the event loop.
    #[test]
    fn what_is_written_past_the_log_is_heavy() {
        for leaf_bytes in [4096, 8192, 16384, 32768] {
            let db = Database::builder().leaf_bytes(leaf_bytes).open_on(Arc::new(MemVfs::new())).unwrap();
            let (scale, from) = (Scale::of(&db), db.past_log_from_bytes());
            assert!(scale.weigh_bytes(from) >= HEAVY, "{leaf_bytes}");
            assert!(scale.weigh_bytes(from.min(BYTES_PER_ROW * HEAVY) * 9 / 10) < HEAVY, "{leaf_bytes}");
        }
    }
}
