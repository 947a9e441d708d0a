//! Reading the log back, record by record, through its incarnations.
//!
//! What an earlier incarnation left is on record with its end, was synced before the next one began, and must read back
//! flawlessly. The last one has no recorded end: it ends at the first record that checks out neither in the segments
//! nor in the ring. If another one begins there, of which nothing is on record, then what was is lost: an incarnation is on record, durably,
//! before its first byte is written.
//!
//! Each record of the last incarnation may be in either: in the segments only (the ring was given back, or lost with
//! the machine), in both (written, perhaps not synced), in the ring only. All that the ring still holds counts as not
//! synced, since a record is synced before its place in the ring is given back (F3 in `flights.rs`).

use super::incarnation::Incarnation;
use super::memory::Mapped;
use super::options::{LogOptions, ceil_block};
use super::record::{self, BIRTH_BYTES, HEADER_BYTES, Seal};
use super::ring::Ring;
use super::stored::StoredBytes;
use crate::error::{Error, Result};
use foreshore_base::Lsn;
use foreshore_io::Vfs;
use std::sync::Arc;

/// Segments are read in pieces of so many bytes, or whole if they are smaller; more for a record that is longer.
const READ_BYTES: u64 = 2 << 20;

/// One record of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// The LSN of its first byte.
    pub start: Lsn,
    /// The LSN behind it.
    pub end: Lsn,
    /// What was given to `Log::fill`.
    pub body: &'a [u8],
    /// It is durable for sure: the ring holds neither it nor anything before it any more.
    pub synced: bool,
}

/// Reads records in order, pads left out.
pub(crate) struct LogReader {
    incarnations: Vec<Incarnation>,
    /// The incarnation that is being read, by its place in the list.
    current: usize,
    seal: Seal,
    at: Lsn,
    /// The end of the log, if it is known.
    stop: Lsn,
    segments: StoredBytes,
    ring: Ring<Mapped>,
    record_bytes_max: u64,
    /// Was anything found, be it a pad, that is perhaps not synced?
    unsynced: bool,
    /// How far behind the end of the log a sign of damage is looked for.
    look_ahead_bytes: u64,
    /// The record that was loaded from the ring last, padded.
    from_ring: Vec<u8>,
    /// Does it go on with incarnations that are not on record?
    adopts: bool,
}

/// One step of the reader: a record or a pad. Its bytes stay with the reader until the next step.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub start: Lsn,
    pub end: Lsn,
    /// Bytes without padding.
    len: usize,
    word0: u64,
    /// Do the segments hold it?
    in_segments: bool,
    /// Does the ring still hold it? Then it may not have been synced.
    pub in_ring: bool,
}

impl LogReader {
    /// A reader that begins at `from`, which is the beginning of a record or the end of the log.
    ///
    /// `incarnations` are in order and reach back to `from` at least.
    ///
    /// Errors: [`Error::Corrupt`] if no incarnation covers `from`; I/O.
    pub fn open(
        vfs: &Arc<dyn Vfs>,
        options: LogOptions,
        incarnations: &[Incarnation],
        from: Lsn,
    ) -> Result<Self> {
        // Between the end of one incarnation and the beginning of the next there is nothing.
        let Some(current) = incarnations.iter().rposition(|incarnation| incarnation.prev_end <= from) else {
            return Err(Error::corrupt(
                "the directory journal",
                format!("no log incarnation covers LSN {from}"),
            ));
        };
        let from = from.max(incarnations[current].start);
        let window_bytes = READ_BYTES.min(options.segment_bytes) as usize;
        Ok(Self {
            incarnations: incarnations.to_vec(),
            current,
            seal: Seal::new(incarnations[current].salt),
            at: from,
            stop: Lsn::MAX,
            segments: StoredBytes::forward(vfs.clone(), &options, window_bytes),
            ring: Ring::new(Mapped::open(&**vfs, &options)?, from),
            record_bytes_max: options.record_bytes_max(),
            unsynced: false,
            look_ahead_bytes: options.segment_bytes + options.ring(), // a whole segment may be bad
            from_ring: Vec::new(),
            adopts: false,
        })
    }

    /// Reads to the end of the log, through incarnations that are not on record, too; returns all that it came through.
    ///
    /// Errors: as of [`LogReader::next`].
    pub fn adopt_incarnations(mut self) -> Result<Vec<Incarnation>> {
        self.adopts = true;
        while self.step()?.is_some() {}
        Ok(self.incarnations)
    }

    /// The same reader, told that the log ends at `end`: it does not look what comes there.
    pub fn up_to(self, end: Lsn) -> Self {
        Self { stop: end, ..self }
    }

    /// The next record; `None` at the end of the log.
    ///
    /// Errors: [`Error::Corrupt`] naming file and offset of damage before the end of the log; I/O.
    pub fn next(&mut self) -> Result<Option<Record<'_>>> {
        loop {
            let Some(step) = self.step()? else { return Ok(None) };
            if !record::is_pad(self.body(step)) {
                let Step { start, end, .. } = step;
                return Ok(Some(Record { start, end, body: self.body(step), synced: !self.unsynced }));
            }
        }
    }

    /// The end of the last record read; after [`LogReader::next`] returned `None`, the end of the log.
    pub fn end(&self) -> Lsn {
        self.at
    }

    /// Is all that was read durable for sure?
    pub fn is_synced(&self) -> bool {
        !self.unsynced
    }

    /// Whole bytes of the last step's record, padding included.
    pub(super) fn bytes(&self, step: Step) -> &[u8] {
        match step.in_segments {
            true => {
                self.segments.held(step.start, (step.end - step.start) as usize).expect("it was just read")
            }
            false => &self.from_ring,
        }
    }

    /// The last step's record without header and padding.
    fn body(&self, step: Step) -> &[u8] {
        &self.bytes(step)[HEADER_BYTES..step.len]
    }

    /// Bytes `[from, to)` of one block, which hold records that are in the segments.
    ///
    /// Errors: [`Error::Corrupt`] if they are gone; I/O.
    pub(super) fn stored(&mut self, from: Lsn, to: Lsn) -> Result<Vec<u8>> {
        match self.segments.get(from, (to - from) as usize)? {
            Some(bytes) => Ok(bytes.to_vec()),
            None => Err(self.segments.damage(from, to)),
        }
    }

    /// The next record or pad.
    pub(super) fn step(&mut self) -> Result<Option<Step>> {
        self.enter_incarnation();
        let start = self.at;
        if start >= self.stop {
            return Ok(None);
        }
        let stored = self.load_from_segments(start)?;
        let step = match self.incarnations.get(self.current + 1) {
            Some(next) => match stored {
                Some(step) if step.end <= next.prev_end => Some(step),
                _ => return Err(self.segments.damage(start, next.prev_end)),
            },
            None => match stored {
                Some(step) => Some(Step { in_ring: self.ring.word(start) == step.word0, ..step }),
                None => self.load_from_ring(start),
            },
        };
        match step {
            Some(step) => {
                self.at = step.end;
                self.unsynced |= step.in_ring;
            }
            None => {
                self.check_torn(start)?;
                if let Some(unknown) = self.unknown_incarnation(start)? {
                    return self.meet(unknown);
                }
            }
        }
        Ok(step)
    }

    /// The incarnation that begins where the log ends, if there is one: it is not on record.
    fn unknown_incarnation(&mut self, end: Lsn) -> Result<Option<Incarnation>> {
        let start = Lsn(ceil_block(end.0));
        let mut in_ring = [0; BIRTH_BYTES];
        self.ring.copy_out(start, &mut in_ring);
        let stored = self.segments.get(start, BIRTH_BYTES)?.and_then(|bytes| bytes.first_chunk());
        let salt = stored.and_then(|bytes| record::salt_of_birth(start, bytes));
        let salt = salt.or_else(|| record::salt_of_birth(start, &in_ring));
        let is_unknown = |salt: &u64| self.incarnations.iter().all(|known| known.salt != *salt);
        Ok(salt.filter(is_unknown).map(|salt| Incarnation { prev_end: end, start, salt }))
    }

    #[cold]
    fn meet(&mut self, unknown: Incarnation) -> Result<Option<Step>> {
        if !self.adopts {
            let detail = format!(
                "its end is missing: it does not know the opening whose log begins at LSN {}",
                unknown.start
            );
            return Err(Error::corrupt("the directory journal", detail));
        }
        self.incarnations.push(unknown);
        self.step()
    }

    /// The log breaks off at `end`: is that a torn tail, or damage? A flight that says that the log was durable beyond
    /// `end` when it was closed proves damage. Flights that were under way together with the lost one say nothing of
    /// the kind, so what a crash leaves is never refused. (Damage to the last flights of all is not told from a crash.)
    fn check_torn(&mut self, end: Lsn) -> Result<()> {
        let mut block = Lsn(ceil_block(end.0 + 1));
        while block < end + self.look_ahead_bytes && self.segments.get(block, HEADER_BYTES)?.is_some() {
            let mut at = block;
            while let Some(step) = self.load_from_segments(at)? {
                let body = self.body(step);
                let durable = record::is_pad(body).then(|| record::durable_before(body)).flatten();
                if let Some(durable) = durable.filter(|durable| *durable > end) {
                    return Err(self.segments.damage(end, durable));
                }
                at = step.end;
            }
            block = Lsn(ceil_block(at.0.max(block.0 + 1)));
        }
        Ok(())
    }

    /// Goes on with the next incarnation where this one has ended.
    fn enter_incarnation(&mut self) {
        while let Some(next) = self.incarnations.get(self.current + 1)
            && self.at >= next.prev_end
        {
            self.at = next.start;
            self.seal = Seal::new(next.salt);
            self.current += 1;
        }
    }

    /// The record at `at`, if the segments hold it.
    fn load_from_segments(&mut self, at: Lsn) -> Result<Option<Step>> {
        let found = self.segments.record(at, self.seal, self.record_bytes_max)?;
        Ok(found.map(|(bytes, len)| Step::of(at, bytes, len, true)))
    }

    /// The record at `at`, if the ring holds it.
    fn load_from_ring(&mut self, at: Lsn) -> Option<Step> {
        let len = self.ring.record(at, self.seal, self.record_bytes_max, &mut self.from_ring)?;
        Some(Step::of(at, &self.from_ring, len, false))
    }
}

impl Step {
    /// The record at `start`, whose padded bytes these are.
    fn of(start: Lsn, bytes: &[u8], len: usize, in_segments: bool) -> Self {
        let word0 = u64::from_le_bytes(*bytes.first_chunk().expect("a record has a word 0"));
        Self { start, end: start + bytes.len() as u64, len, word0, in_segments, in_ring: !in_segments }
    }
}
