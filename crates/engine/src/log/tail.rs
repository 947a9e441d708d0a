//! Finding the end of the log after a crash, and making it safe.
//!
//! Records that the ring still holds were perhaps never synced. They are written (again) and synced, before anyone puts
//! the end of the log on record: from then on all of it must read back from the segments, ring or not, power loss or
//! not. Writing again also answers a sync that failed: what seems to be in the file may be only in memory.
//!
//! The first block may hold records that were acknowledged; they are written back as they were read, so even a torn
//! write leaves them whole.
//!
//! After a power failure the ring may hold pieces of long ago, since the system writes its blocks when it likes. But what lies
//! more than a ring before another record was given back before that one was written, so it was synced (F3 in
//! `flights.rs`): no more than two rings are kept and written.
//!
//! Everything may be interrupted and begun again: the ring is zeroed only by `Log::open`, when
//! the new incarnation is on record.

use super::incarnation::Incarnation;
use super::options::{LogOptions, ceil_block, floor_block};
use super::reader::LogReader;
use super::segments;
use crate::error::Result;
use foreshore_base::Lsn;
use foreshore_io::{AlignedBuf, Vfs};
use std::sync::Arc;

/// Reads the log from `from` to its end, and makes sure that all of it is in the segments, durably. Returns the end of the last
/// record: the `prev_end` of the next incarnation.
///
/// Errors: those of [`LogReader`]; [`Full`](crate::Error::Full) if a segment for the tail finds no room.
pub(crate) fn repair_tail(
    vfs: &Arc<dyn Vfs>,
    options: LogOptions,
    incarnations: &[Incarnation],
    from: Lsn,
) -> Result<Lsn> {
    let mut reader = LogReader::open(vfs, options, incarnations, from)?;
    let mut tail: Option<Unsynced> = None;
    while let Some(step) = reader.step()? {
        if tail.is_none() && step.in_ring {
            let start = Lsn(floor_block(step.start.0));
            tail = Some(Unsynced { start, bytes: reader.stored(start, step.start)? });
        }
        if let Some(tail) = &mut tail {
            tail.bytes.extend_from_slice(reader.bytes(step));
            tail.drop_synced(options.ring());
        }
    }
    if let Some(Unsynced { start, bytes }) = tail {
        write(&**vfs, options.segment_bytes, start, &bytes)?;
    }
    Ok(reader.end())
}

/// The end of the log as far as it has been read, from a block boundary on: all that may not be synced.
struct Unsynced {
    start: Lsn,
    bytes: Vec<u8>,
}

impl Unsynced {
    /// Lets go what lies more than a ring before the end, now and then.
    fn drop_synced(&mut self, ring: u64) {
        let len = self.bytes.len() as u64;
        if len > 2 * ring {
            let synced = floor_block(len - ring);
            self.bytes.drain(..synced as usize);
            self.start = self.start + synced;
        }
    }
}

/// Writes `bytes`, which begin at a block boundary, and zeros up to the next one; syncs them and their files' names.
fn write(vfs: &dyn Vfs, segment_bytes: u64, start: Lsn, bytes: &[u8]) -> Result<()> {
    let mut blocks = AlignedBuf::zeroed(ceil_block(bytes.len() as u64) as usize);
    blocks[..bytes.len()].copy_from_slice(bytes);
    for piece in segments::pieces(start, blocks.len(), segment_bytes) {
        let file = match segments::open(vfs, piece.n, segment_bytes)? {
            Some(file) => file,
            None => {
                segments::prepare(vfs, piece.n, segment_bytes, None)?;
                segments::open_existing(vfs, piece.n, segment_bytes)?
            }
        };
        piece.write(&*file, &blocks)?;
    }
    segments::sync_names(vfs)
}
