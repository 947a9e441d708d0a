//! A flusher: the thread that carries flights to the segments.
//!
//! The blocks are copied out of the ring before they are written: direct I/O wants plain aligned bytes, and the copy
//! costs 73 µs a MiB, little beside the sync.
//!
//! Each flusher opens the segments for itself. The operating system reports a failed write-back once per open file: a
//! shared one would tell only one of two flushers, and the other would acknowledge lost bytes. (What a device says when it
//! fails to empty its own cache, Linux tells only the caller: flights that are synced in the moments until that flusher stops
//! the log rest on a device which keeps then what it has said it keeps.)

use super::Shared;
use super::flights::Flight;
use super::segments;
use crate::error::Result;
use foreshore_base::seeded_bug;
use foreshore_base::sync::Ordering::Relaxed;
use foreshore_io::{AlignedBuf, File};
use std::sync::Arc;

pub(super) struct Flusher {
    shared: Arc<Shared>,
    blocks: AlignedBuf,
    /// The segment written last.
    open: Option<(u64, Arc<dyn File>)>,
}

impl Flusher {
    pub fn new(shared: Arc<Shared>) -> Self {
        let blocks = AlignedBuf::zeroed(shared.options.flight_bytes_max() as usize);
        Self { shared, blocks, open: None }
    }

    /// Carries flights until the log stops. A failure stops it.
    pub fn run(mut self) {
        while self.shared.flights.doorbell.answer() {
            if let Err(e) = self.fly() {
                self.shared.fail(&e);
            }
        }
        self.shared.flights.wake_in_vain();
    }

    fn fly(&mut self) -> Result<()> {
        let Some(flight) = self.shared.issue()? else { return Ok(()) };
        let options = &self.shared.options;
        self.shared.segments.want(flight.end + options.ring() + options.segment_bytes);
        let bytes = (flight.end - flight.start) as usize;
        self.shared.ring.copy_out(flight.start, &mut self.blocks[..bytes]);
        if seeded_bug("log_ack_before_sync") {
            self.shared.land(flight);
        }
        self.write(flight)?;
        self.shared.flights.counts.flights.fetch_add(1, Relaxed);
        self.shared.land(flight);
        Ok(())
    }

    /// Writes and syncs the flight's blocks, segment by segment.
    fn write(&mut self, flight: Flight) -> Result<()> {
        let bytes = (flight.end - flight.start) as usize;
        for piece in segments::pieces(flight.start, bytes, self.shared.options.segment_bytes) {
            let file = self.segment(piece.n)?;
            piece.write(&*file, &self.blocks)?;
        }
        Ok(())
    }

    fn segment(&mut self, n: u64) -> Result<Arc<dyn File>> {
        if let Some((open, file)) = &self.open
            && *open == n
        {
            return Ok(file.clone());
        }
        let file = self.shared.segments.open_for_writing(n)?;
        self.open = Some((n, file.clone()));
        Ok(file)
    }
}
