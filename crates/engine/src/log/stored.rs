//! The segments as one run of bytes, of which a window is in memory.
//!
//! Whoever reads on gets the next window read ahead: a disk that is asked for one window at a time, and for none while
//! that is being parsed, gives half of what it could. Reading ahead is a favour: what fails there is read again by the
//! one who needs it, and fails under his eyes.

use super::options::{BLOCK, LogOptions, floor_block};
use super::record::{self, HEADER_BYTES, Seal};
use super::segments;
use crate::error::{Error, Result};
use foreshore_base::Lsn;
use foreshore_io::{AlignedBuf, Vfs};
use std::mem;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// The next window begins such a part of a window before the end of this one: a record that this one cuts is whole there,
/// if it is no longer.
const OVERLAP: usize = 32;

pub(super) struct StoredBytes {
    files: Files,
    window: Window,
    /// Is it worth while to read ahead?
    forward: bool,
    ahead: Ahead,
    /// The window before, whose memory the next one gets.
    spare: Option<Window>,
}

/// Where the segments are.
#[derive(Clone)]
struct Files {
    vfs: Arc<dyn Vfs>,
    segment_bytes: u64,
}

struct Window {
    bytes: AlignedBuf,
    start: u64,
    len: u64,
    /// The segments end behind it.
    ended: bool,
}

impl StoredBytes {
    /// To be read from some place on, through a window of `window_bytes`; it widens when a record does not fit.
    pub fn forward(vfs: Arc<dyn Vfs>, options: &LogOptions, window_bytes: usize) -> Self {
        Self { forward: true, ..Self::backward(vfs, options, window_bytes) }
    }

    /// To be read here and there, rather backward.
    pub fn backward(vfs: Arc<dyn Vfs>, options: &LogOptions, window_bytes: usize) -> Self {
        let files = Files { vfs, segment_bytes: options.segment_bytes };
        Self {
            files,
            window: Window::new(window_bytes),
            forward: false,
            ahead: Ahead::default(),
            spare: None,
        }
    }

    /// The `len` bytes at `at`; `None` where the segments end before.
    #[inline]
    pub fn get(&mut self, at: Lsn, len: usize) -> Result<Option<&[u8]>> {
        if !self.window.holds(at.0, at.0 + len as u64) {
            self.move_to(at.0, at.0 + len as u64)?;
        }
        Ok(self.held(at, len))
    }

    /// The same, if the window holds them.
    #[inline]
    pub fn held(&self, at: Lsn, len: usize) -> Option<&[u8]> {
        let from = at.0.wrapping_sub(self.window.start) as usize;
        self.window.holds(at.0, at.0 + len as u64).then(|| &self.window.bytes[from..from + len])
    }

    /// The record at `at`, padded, and its length without padding; `None` if the segments hold none there.
    pub fn record(&mut self, at: Lsn, seal: Seal, bytes_max: u64) -> Result<Option<(&[u8], usize)>> {
        let Some(header) = self.get(at, HEADER_BYTES)? else { return Ok(None) };
        let word0 = u64::from_le_bytes(header.try_into().expect("word 0"));
        let Some(len) = record::length(word0, bytes_max) else { return Ok(None) };
        let bytes = self.get(at, len.next_multiple_of(8))?;
        let whole = bytes.filter(|bytes| seal.matches(at, word0, &bytes[HEADER_BYTES..len]));
        Ok(whole.map(|bytes| (bytes, len)))
    }

    /// Moves the window, if it does not hold the `len` bytes at `at`, so that it ends with them: the next ones to be read
    /// are probably in front. It begins in the segment of `at`: those before may be gone.
    pub fn move_before(&mut self, at: Lsn, len: usize) -> Result<()> {
        let (window, end) = (&mut self.window, at.0 + len as u64);
        if window.holds(at.0, end) || (window.ended && window.holds(at.0, at.0)) {
            return Ok(());
        }
        let start = floor_block((end + BLOCK).saturating_sub(window.bytes.len() as u64));
        window.fill(&self.files, start.max(at.0 - at.0 % self.files.segment_bytes))
    }

    /// The error for a record at `at` that must be there, since the log goes on to `end`.
    pub fn damage(&self, at: Lsn, end: Lsn) -> Error {
        let (n, offset) = (at.0 / self.files.segment_bytes, at.0 % self.files.segment_bytes);
        Error::corrupt(
            format!("{} at offset {offset}", segments::name(n)),
            format!("no valid log record begins at LSN {at}, although the log goes on to LSN {end}"),
        )
    }

    /// Moves the window on, so that it holds `[from, to)` if the segments do.
    #[cold]
    fn move_to(&mut self, from: u64, to: u64) -> Result<()> {
        if self.window.ended && self.window.start <= from {
            return Ok(());
        }
        let reads_on = self.forward && self.window.start < from && from <= self.window.end();
        match self.ahead.take().filter(|ahead| ahead.holds(from, to)) {
            Some(ahead) => self.spare = Some(mem::replace(&mut self.window, ahead)),
            None => {
                self.window.widen((to - floor_block(from)) as usize);
                self.window.fill(&self.files, floor_block(from))?;
            }
        }
        if reads_on && !self.window.ended {
            self.begin_to_read_ahead();
        }
        Ok(())
    }

    fn begin_to_read_ahead(&mut self) {
        let window_bytes = self.window.bytes.len();
        let start = floor_block(self.window.end() - (window_bytes / OVERLAP) as u64);
        let mut next = self.spare.take().unwrap_or_else(|| Window::new(window_bytes));
        let files = self.files.clone();
        let read = move || next.fill(&files, start).is_ok().then_some(next);
        self.ahead = Ahead(thread::Builder::new().name("foreshore-ahead".into()).spawn(read).ok());
    }
}

/// The window that a thread is reading, if any. Waits for it when dropped, so that no file is read any more.
#[derive(Default)]
struct Ahead(Option<JoinHandle<Option<Window>>>);

impl Ahead {
    /// That window, when it is there.
    fn take(&mut self) -> Option<Window> {
        self.0.take()?.join().expect("reading does not panic")
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.take();
    }
}

impl Window {
    fn new(bytes: usize) -> Self {
        Self { bytes: AlignedBuf::zeroed(bytes), start: 0, len: 0, ended: false }
    }

    #[inline]
    fn holds(&self, from: u64, to: u64) -> bool {
        self.start <= from && to <= self.end()
    }

    #[inline]
    fn end(&self) -> u64 {
        self.start + self.len
    }

    fn widen(&mut self, bytes: usize) {
        if bytes > self.bytes.len() {
            self.bytes = AlignedBuf::zeroed(bytes.next_multiple_of(BLOCK as usize));
        }
    }

    /// Reads as much as there is room for from `start` on.
    fn fill(&mut self, files: &Files, start: u64) -> Result<()> {
        (self.start, self.len, self.ended) = (start, 0, false);
        for piece in segments::pieces(Lsn(start), self.bytes.len(), files.segment_bytes) {
            let Some(file) = segments::open(&*files.vfs, piece.n, files.segment_bytes)? else {
                self.ended = true;
                return files.check_nothing_follows(piece.n);
            };
            let end = piece.bytes.end as u64;
            piece.read(&*file, &mut self.bytes)?;
            self.len = end;
        }
        Ok(())
    }
}

impl Files {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreshore_io::{Access, SimDisk};

    const SEGMENT: usize = 64 << 10;

    fn byte(at: usize) -> u8 {
        (at * 31 + at / 4096) as u8
    }

    fn stored(segments: &[usize]) -> StoredBytes {
        let vfs: Arc<dyn Vfs> = Arc::new(SimDisk::new(1));
        for n in segments {
            let mut bytes = AlignedBuf::zeroed(SEGMENT);
            bytes.iter_mut().enumerate().for_each(|(i, b)| *b = byte(n * SEGMENT + i));
            let file = vfs.open(&segments::name(*n as u64), Access::Direct, true).unwrap();
            file.write_at(&bytes, 0).unwrap();
        }
        let options = LogOptions { segment_bytes: SEGMENT as u64, ..LogOptions::default() };
        StoredBytes::forward(vfs, &options, 32 << 10)
    }

    /// Records of all lengths, cut by windows and segments, and longer than a window.
    #[test]
    fn what_is_read_ahead_is_what_is_stored() {
        let mut stored = stored(&[3, 4, 5, 6, 7]);
        let (mut at, end, mut i) = (3 * SEGMENT, 8 * SEGMENT, 0);
        loop {
            let len = if i % 50 == 49 { 40_000 } else { 8 + i * 97 % 3000 };
            let Some(found) = stored.get(Lsn(at as u64), len).unwrap() else { break };
            assert!(found.iter().enumerate().all(|(j, b)| *b == byte(at + j)), "{len} bytes at {at}");
            (at, i) = (at + len, i + 1);
        }
        assert!(at <= end && end - at < 40_000, "read up to {at}");
        assert_eq!(stored.get(Lsn(at as u64), end - at).unwrap().unwrap().len(), end - at);
        assert!(stored.get(Lsn(end as u64), 8).unwrap().is_none());
    }

    /// Whether it is read ahead or not.
    #[test]
    fn a_missing_segment_is_damage() {
        let mut stored = stored(&[3, 4, 6]);
        let read = (3 * SEGMENT..5 * SEGMENT)
            .step_by(1000)
            .try_for_each(|at| stored.get(Lsn(at as u64), 1000).map(|_| ()));
        let error = read.unwrap_err().to_string();
        assert!(error.contains("wal-0000000000000005"), "{error}");
    }
}
