//! Reading the log back, record by record, through its incarnations.
//!
//! What an earlier incarnation left is on record with its end, was synced before the next one began, and must read back
//! flawlessly. The last one has no recorded end: it ends at the first record that checks out neither in the segments
//! nor in the ring.
//!
//! Each record of the last incarnation may be in either: in the segments only (the ring was given back, or lost with
//! the machine), in both (written, perhaps not synced), in the ring only. All that the ring still holds counts as not
//! synced, since a record is synced before its place in the ring is given back (F3 in `flights.rs`).

use super::incarnation::Incarnation;
use super::memory::Mapped;
use super::options::{BLOCK, LogOptions, ceil_block, floor_block};
use super::record::{self, HEADER_BYTES, Seal};
use super::ring::Ring;
use super::segments;
use crate::error::{Error, Result};
use foreshore_base::Lsn;
use foreshore_io::{AlignedBuf, Vfs};
use std::sync::Arc;

/// Segments are read in pieces of at least this many bytes.
const READ_BYTES: usize = 1 << 20;

/// One record of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// The LSN of its first byte.
    pub start: Lsn,
    /// The LSN behind it.
    pub end: Lsn,
    /// What was given to `Log::fill`.
    pub body: &'a [u8],
    /// It is durable for sure: the ring does not hold it any more.
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
    segments: SegmentBytes,
    ring: Ring<Mapped>,
    record_bytes_max: u64,
    /// How far behind the end of the log a sign of damage is looked for.
    look_ahead_bytes: u64,
    /// The last record, padded.
    raw: Vec<u8>,
}

/// One step of the reader: a record or a pad, whose bytes are in `LogReader::raw`.
pub(super) struct Step {
    pub start: Lsn,
    pub end: Lsn,
    /// Bytes without padding.
    len: usize,
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
        options.check()?;
        let Some(current) = incarnations.iter().rposition(|incarnation| incarnation.start <= from) else {
            return Err(Error::corrupt(
                "the directory journal",
                format!("no log incarnation covers LSN {from}"),
            ));
        };
        Ok(Self {
            incarnations: incarnations.to_vec(),
            current,
            seal: Seal::new(incarnations[current].salt),
            at: from,
            stop: Lsn::MAX,
            segments: SegmentBytes::new(vfs.clone(), &options, READ_BYTES),
            ring: Ring::new(Mapped::open(&**vfs, &options)?, from),
            record_bytes_max: options.record_bytes_max(),
            look_ahead_bytes: options.segment_bytes + options.ring(), // a whole segment may be bad
            raw: Vec::new(),
        })
    }

    /// The same reader, told that the log ends at `end`: it does not look what comes there.
    pub fn up_to(self, end: Lsn) -> Self {
        Self { stop: end, ..self }
    }

    /// The next record; `None` at the end of the log.
    ///
    /// Errors: [`Error::Corrupt`] naming file and offset of damage before the end of the log; I/O.
    pub fn next(&mut self) -> Result<Option<Record<'_>>> {
        while let Some(step) = self.step()? {
            if !record::is_pad(&self.raw[HEADER_BYTES..step.len]) {
                let body = &self.raw[HEADER_BYTES..step.len];
                let synced = !step.in_ring;
                return Ok(Some(Record { start: step.start, end: step.end, body, synced }));
            }
        }
        Ok(None)
    }

    /// The end of the last record read; after [`LogReader::next`] returned `None`, the end of the log.
    pub fn end(&self) -> Lsn {
        self.at
    }

    /// Whole bytes of the last step's record, padding included.
    pub(super) fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// Bytes `[from, to)` of one block, which hold records already read.
    pub(super) fn already_read(&mut self, from: Lsn, to: Lsn) -> Result<Vec<u8>> {
        let bytes = self.segments.get(from, (to - from) as usize)?;
        Ok(bytes.expect("records read from here are still here").to_vec())
    }

    /// The next record or pad.
    pub(super) fn step(&mut self) -> Result<Option<Step>> {
        self.enter_incarnation();
        let start = self.at;
        if start >= self.stop {
            return Ok(None);
        }
        let from_segments = self.load_from_segments(start)?;
        let Some(next) = self.incarnations.get(self.current + 1) else {
            let step = match from_segments {
                Some(len) => Some(self.took(start, len, self.ring.word0(start) == self.word0())),
                None => self.load_from_ring(start).map(|len| self.took(start, len, true)),
            };
            if step.is_none() {
                self.check_torn(start)?;
            }
            return Ok(step);
        };
        match from_segments {
            Some(len) if start + self.raw.len() as u64 <= next.prev_end => {
                Ok(Some(self.took(start, len, false)))
            }
            _ => Err(self.segments.damage(start, next.prev_end)),
        }
    }

    /// The log breaks off at `end`: is that a torn tail, or damage? A flight that says that the log was durable beyond
    /// `end` when it was closed proves damage. Flights that were under way together with the lost one say nothing of
    /// the kind, so what a crash leaves is never refused. (Damage to the last flights of all is not told from a crash.)
    fn check_torn(&mut self, end: Lsn) -> Result<()> {
        let mut block = Lsn(ceil_block(end.0 + 1));
        while block < end + self.look_ahead_bytes && self.segments.get(block, HEADER_BYTES)?.is_some() {
            let mut at = block;
            while let Some(len) = self.load_from_segments(at)? {
                let body = &self.raw[HEADER_BYTES..len];
                let durable = record::is_pad(body).then(|| record::durable_before(body)).flatten();
                if let Some(durable) = durable.filter(|durable| *durable > end) {
                    return Err(self.segments.damage(end, durable));
                }
                at = at + self.raw.len() as u64;
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

    fn took(&mut self, start: Lsn, len: usize, in_ring: bool) -> Step {
        self.at = start + self.raw.len() as u64;
        Step { start, end: self.at, len, in_ring }
    }

    fn word0(&self) -> u64 {
        u64::from_le_bytes(self.raw[..HEADER_BYTES].try_into().expect("word 0"))
    }

    /// Loads the record at `at` into `raw` if the segments hold it; returns its length.
    fn load_from_segments(&mut self, at: Lsn) -> Result<Option<usize>> {
        let Some(header) = self.segments.get(at, HEADER_BYTES)? else { return Ok(None) };
        let word0 = u64::from_le_bytes(header.try_into().expect("word 0"));
        let Some(len) = record::length(word0, self.record_bytes_max) else { return Ok(None) };
        let Some(bytes) = self.segments.get(at, len.next_multiple_of(8))? else { return Ok(None) };
        if !self.seal.matches(at, word0, &bytes[HEADER_BYTES..len]) {
            return Ok(None);
        }
        self.raw.clear();
        self.raw.extend_from_slice(bytes);
        Ok(Some(len))
    }

    /// Loads the record at `at` into `raw` if the ring holds it; returns its length.
    fn load_from_ring(&mut self, at: Lsn) -> Option<usize> {
        let word0 = self.ring.word0(at);
        let len = record::length(word0, self.record_bytes_max)?;
        self.raw.clear();
        self.raw.resize(len.next_multiple_of(8), 0);
        self.ring.copy_out(at, &mut self.raw);
        self.seal.matches(at, word0, &self.raw[HEADER_BYTES..len]).then_some(len)
    }
}

/// The segments as one run of bytes, of which a window is in memory.
pub(super) struct SegmentBytes {
    vfs: Arc<dyn Vfs>,
    segment_bytes: u64,
    window: AlignedBuf,
    start: u64,
    len: u64,
    /// The segments end behind the window.
    ended: bool,
}

impl SegmentBytes {
    /// A window of `window_bytes`; it widens when a record does not fit.
    pub fn new(vfs: Arc<dyn Vfs>, options: &LogOptions, window_bytes: usize) -> Self {
        let window = AlignedBuf::zeroed(window_bytes);
        Self { vfs, segment_bytes: options.segment_bytes, window, start: 0, len: 0, ended: false }
    }

    /// Moves the window, if it does not hold the `len` bytes at `at`, so that it ends with them: the next ones to be read
    /// are probably in front. It begins in the segment of `at`: those before may be gone.
    pub fn move_before(&mut self, at: Lsn, len: usize) -> Result<()> {
        let end = at.0 + len as u64;
        if self.holds(at.0, end) || (self.ended && self.holds(at.0, at.0)) {
            return Ok(());
        }
        let start = floor_block((end + BLOCK).saturating_sub(self.window.len() as u64));
        self.fill(start.max(at.0 - at.0 % self.segment_bytes))
    }

    /// The `len` bytes at `at`; `None` where the segments end before.
    pub fn get(&mut self, at: Lsn, len: usize) -> Result<Option<&[u8]>> {
        let end = at.0 + len as u64;
        let nothing_follows = self.ended && self.start <= at.0;
        if !nothing_follows && !self.holds(at.0, end) {
            let wanted = (end - floor_block(at.0)) as usize;
            if wanted > self.window.len() {
                self.window = AlignedBuf::zeroed(wanted.next_multiple_of(BLOCK as usize));
            }
            self.fill(floor_block(at.0))?;
        }
        let from = at.0.wrapping_sub(self.start) as usize;
        Ok(self.holds(at.0, end).then(|| &self.window[from..from + len]))
    }

    fn holds(&self, from: u64, to: u64) -> bool {
        self.start <= from && to <= self.start + self.len
    }

    /// Reads as much as the window takes from `start` on.
    fn fill(&mut self, start: u64) -> Result<()> {
        (self.start, self.len, self.ended) = (start, 0, false);
        while self.len < self.window.len() as u64 {
            let at = self.start + self.len;
            let (n, offset) = (at / self.segment_bytes, at % self.segment_bytes);
            let Some(file) = segments::open(&*self.vfs, n, self.segment_bytes)? else {
                self.ended = true;
                return self.check_nothing_follows(n);
            };
            let bytes = (self.segment_bytes - offset).min(self.window.len() as u64 - self.len);
            let into = self.len as usize..(self.len + bytes) as usize;
            file.read_at(&mut self.window[into], offset)
                .map_err(|e| Error::io(format!("reading {} at {offset}", segments::name(n)), &e))?;
            self.len += bytes;
        }
        Ok(())
    }

    /// Segment `missing` is not there. If a later one is, somebody removed it (S3 in `segments.rs`).
    fn check_nothing_follows(&self, missing: u64) -> Result<()> {
        match segments::list(&*self.vfs)?.last() {
            Some(last) if *last > missing => Err(Error::corrupt(
                segments::name(missing),
                format!("it is missing, although {} exists", segments::name(*last)),
            )),
            _ => Ok(()),
        }
    }

    /// The error for a record at `at` that must be there.
    fn damage(&self, at: Lsn, end: Lsn) -> Error {
        let (n, offset) = (at.0 / self.segment_bytes, at.0 % self.segment_bytes);
        Error::corrupt(
            format!("{} at offset {offset}", segments::name(n)),
            format!("no valid log record begins at LSN {at}, although the log goes on to LSN {end}"),
        )
    }
}
