//! Which rows were acknowledged, told by the loading child through a pipe.
//!
//! A row's number is four bytes. The pipe's content outlives the child, and a number is written by one `write`, which
//! pipes keep whole: a kill leaves no half number but at the end.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;

/// Bytes that tell one row.
pub const ACK_BYTES: usize = size_of::<u32>();

/// A set of row numbers that threads may add to.
#[derive(Debug)]
pub struct Acks {
    rows: Vec<AtomicBool>,
    count: AtomicUsize,
}

impl Acks {
    /// No row of `rows` yet.
    pub fn none(rows: usize) -> Self {
        Self { rows: (0..rows).map(|_| AtomicBool::new(false)).collect(), count: AtomicUsize::new(0) }
    }

    /// Begins to read acknowledgements in a thread of its own, so that the child never waits for this process.
    pub fn receive(pipe: impl Read + Send + 'static, rows: usize) -> Receiving {
        let acks = Arc::new(Self::none(rows));
        let into = acks.clone();
        let reader = std::thread::spawn(move || into.read_all(pipe));
        Receiving { acks, reader }
    }

    fn read_all(&self, mut pipe: impl Read) {
        let mut buffer = vec![0; 1 << 16];
        let mut filled = 0;
        // An unreadable pipe ends like a closed one: what was told before counts.
        while let Ok(bytes @ 1..) = pipe.read(&mut buffer[filled..]) {
            filled += bytes;
            let (acks, rest) = buffer[..filled].as_chunks::<ACK_BYTES>();
            acks.iter().for_each(|ack| self.add(u32::from_le_bytes(*ack) as usize));
            let (read, left) = (filled - rest.len(), rest.len());
            buffer.copy_within(read..filled, 0);
            filled = left;
        }
    }

    /// Adds a row; out of range is ignored by nobody: it panics.
    pub fn add(&self, row: usize) {
        if !self.rows[row].swap(true, Relaxed) {
            self.count.fetch_add(1, Relaxed);
        }
    }

    /// Is this row in the set?
    pub fn has(&self, row: usize) -> bool {
        self.rows[row].load(Relaxed)
    }

    /// How many rows there are.
    pub fn count(&self) -> usize {
        self.count.load(Relaxed)
    }
}

impl Clone for Acks {
    fn clone(&self) -> Self {
        let rows = self.rows.iter().map(|row| AtomicBool::new(row.load(Relaxed))).collect();
        Self { rows, count: AtomicUsize::new(self.count()) }
    }
}

/// A set that still grows.
pub struct Receiving {
    acks: Arc<Acks>,
    reader: JoinHandle<()>,
}

impl Receiving {
    /// How many rows were told so far.
    pub fn count(&self) -> usize {
        self.acks.count()
    }

    /// Reads to the pipe's end, which comes with the child's.
    pub fn finish(self) -> Acks {
        self.reader.join().expect("the reader does not panic");
        Arc::into_inner(self.acks).expect("the reader is gone")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_last_number_is_not_counted() {
        let mut told: Vec<u8> = [3u32, 0, 3].iter().flat_map(|row| row.to_le_bytes()).collect();
        told.extend([1, 0]);
        let acks = Acks::receive(std::io::Cursor::new(told), 5).finish();
        assert_eq!(acks.count(), 2);
        assert_eq!((0..5).filter(|row| acks.has(*row)).collect::<Vec<_>>(), [0, 3]);
    }
}
