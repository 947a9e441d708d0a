//! An append-only file of batches, each of which survives whole or not at all.
//!
//! ```text
//! word 0   magic (u32) | the file's mark (u32)                    the head of the file
//! word 1   CRC32C of word 0 (u32) | 0 (u32)
//!
//! word 0   the file's mark (u32) | payload bytes (u32)            each batch
//! word 1   sequence number: 0, 1, 2 … within the file
//! word 2   CRC32C of the batch before (u32; of the first one: the file's number) | CRC32C of all the rest (u32)
//! payload, padded with zeros to 8 bytes
//! ```
//!
//! Invariants:
//! - J1: batch `n + 1` is written only after the sync of batch `n` returned. So what a crash leaves behind the last
//!   valid batch is the remains of *one* batch, and a later valid batch proves that the one before it was durable and
//!   has been damaged since: an error, not a torn tail.
//! - J2: remains cannot be taken for a batch. At open they are cut off, and the cut is synced, before anything is
//!   appended; so behind the end there are only zeros, and J1 holds again. Should a disk bring them back, their CRC
//!   chain still does not fit: it names the CRC of the batch they followed. The same sync makes the last batch durable
//!   if only the process died between its write and its sync. It is written again before, in case its sync failed: then
//!   what is read back may be in memory only, and another sync would not know of it.
//! - J3: space is reserved before a batch is written, so a full disk leaves the file as it was. Any other failure ends
//!   the file's use: whether the batch is durable is then unknown, and a sync is not retried.
//! - J4: a file that held something else is written from its beginning, and what is left of it behind the end is cleared and
//!   synced before the file gets its name: there are only zeros again.
//! - J5: a mark is drawn for each file, is never 0, and is known to nobody who chooses what payloads hold, such as keys. So no payload
//!   holds what looks like a batch, and what a torn one leaves is not taken for one.

use crate::error::{Error, Result};
use foreshore_base::seeded_bug;
use foreshore_io::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;

const MAGIC: [u8; 4] = *b"FdJ2";
/// Of the file.
const HEAD_BYTES: usize = 16;
/// Of a batch.
const HEADER_BYTES: usize = 24;
/// Larger payloads are cut into several batches by the caller; a larger length on disk is damage.
pub(super) const PAYLOAD_MAX: usize = 16 << 20;
/// The file grows by this much at a time.
const ROOM_BYTES: u64 = 256 << 10;
const SCAN_BYTES: usize = 1 << 20;
/// What is farther behind the last valid batch is room: the remains of one batch end before.
const REST_MAX: u64 = (HEADER_BYTES + PAYLOAD_MAX) as u64 + ROOM_BYTES;
/// Nobody needs so much room, beside what there is: a longer file is damaged, and not looked through.
const ROOM_MAX: u64 = 64 << 30;

/// Draws one (J5).
fn new_mark(number: u64) -> u32 {
    // The standard library's hasher keys are random for each thread and different for each call.
    (RandomState::new().hash_one(number) as u32).max(1)
}

/// The head of a file with this mark.
fn encode_head(mark: u32) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&MAGIC);
    head[4..8].copy_from_slice(&mark.to_le_bytes());
    let crc = crc32c::crc32c(&head[..8]);
    head[8..12].copy_from_slice(&crc.to_le_bytes());
    head
}

/// The mark of the file, which has its name: so it has its head.
fn read_mark(file: &dyn File, name: &str) -> Result<u32> {
    let mut head = [0; HEAD_BYTES];
    file.read_at(&mut head, 0).or_else(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof => Ok(()),
        _ => Err(Error::io(format!("reading {name}"), &e)),
    })?;
    let mark = u32::from_le_bytes(head[4..8].try_into().expect("four bytes"));
    match mark != 0 && head == encode_head(mark) {
        true => Ok(mark),
        false => Err(Error::corrupt(name, "its first bytes are damaged")),
    }
}

/// Where the next batch goes, and what it must say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    mark: u32,
    at: u64,
    sequence: u64,
    chain: u32,
}

impl Position {
    fn beginning(number: u64, mark: u32) -> Self {
        Self { mark, at: HEAD_BYTES as u64, sequence: 0, chain: number as u32 }
    }

    fn after(self, payload_len: usize, crc: u32) -> Self {
        let Self { mark, at, sequence, .. } = self;
        Self { mark, at: at + batch_bytes(payload_len), sequence: sequence + 1, chain: crc }
    }

    /// The batch of this payload here, and where the next one goes.
    fn encode(self, payload: &[u8]) -> (Vec<u8>, Self) {
        let mut batch = Vec::with_capacity(batch_bytes(payload.len()) as usize);
        batch.extend_from_slice(&self.mark.to_le_bytes());
        batch.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        batch.extend_from_slice(&self.sequence.to_le_bytes());
        batch.extend_from_slice(&self.chain.to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&batch), payload);
        batch.extend_from_slice(&crc.to_le_bytes());
        batch.extend_from_slice(payload);
        batch.resize(batch_bytes(payload.len()) as usize, 0);
        (batch, self.after(payload.len(), crc))
    }
}

/// A file, and for how many bytes it is known to have space.
#[derive(Clone)]
pub(super) struct Space {
    pub file: Arc<dyn File>,
    pub room: u64,
}

impl Space {
    /// Reserves space, so that the file has room for `ample` bytes in all, or for `least` on a full disk. `Full` leaves
    /// everything as it was.
    pub fn reserve(&mut self, name: &str, ample: u64, least: u64) -> Result<()> {
        if ample <= self.room {
            return Ok(());
        }
        let least = least.max(self.room);
        let allocate = |bytes| self.file.allocate(bytes).map(|()| bytes);
        let room = allocate(ample).or_else(|_| allocate(least));
        self.room = room.map_err(|e| Error::io(format!("more room for {name}"), &e))?;
        Ok(())
    }

    /// Makes the file no longer than `bytes`; `false` if that failed. What a clone has cut off meanwhile is no room any more.
    pub fn cut(&mut self, bytes: u64) -> bool {
        let Ok(len) = self.file.len() else { return false };
        self.room = self.room.min(bytes).min(len);
        len <= bytes || self.file.set_len(bytes).is_ok()
    }
}

/// The file, open for appending.
pub(super) struct Journal {
    space: Space,
    name: String,
    end: Position,
    failed: Option<Error>,
}

impl Journal {
    /// Begins to fill a file from its beginning, whatever it holds (J4).
    pub fn begin(space: Space, name: &str, number: u64) -> Self {
        let end = Position::beginning(number, new_mark(number));
        Self { space, name: name.to_string(), end, failed: None }
    }

    /// Goes on after the last valid batch that `reader` found; see J2.
    pub fn resume(reader: Reader) -> Result<Self> {
        reader.write_last_again()?;
        let Reader { file, name, next, len, .. } = reader;
        if !is_zero(&*file, &name, next.at, len.min(next.at + REST_MAX))? {
            file.set_len(next.at).map_err(|e| Error::io(format!("cutting the torn end off {name}"), &e))?;
        }
        if !seeded_bug("directory_open_not_synced") {
            file.sync().map_err(|e| Error::io(format!("syncing {name}"), &e))?;
        }
        Ok(Self { space: Space { file, room: 0 }, name, end: next, failed: None })
    }

    /// Bytes in use.
    pub fn bytes(&self) -> u64 {
        self.end.at
    }

    /// The file that it fills.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// The same, for other use.
    pub fn into_space(self) -> Space {
        self.space
    }

    /// As [`Space::reserve`].
    pub fn reserve(&mut self, ample: u64, least: u64) -> Result<()> {
        self.usable()?;
        self.space.reserve(&self.name, ample, least)
    }

    /// Clears what the file holds behind the end, and gives up what it has beyond `bytes`. Durable with the next sync.
    pub fn clear_rest(&mut self, bytes: u64) -> Result<()> {
        let failed = |e| Error::io(format!("clearing the rest of {}", self.name), &e);
        let kept = self.end.at.max(bytes);
        let Space { file, room } = &mut self.space;
        let mut len = file.len().map_err(failed)?;
        if len > kept {
            file.set_len(kept).map_err(failed)?;
            len = kept;
        }
        clear(&**file, self.end.at, len).map_err(failed)?;
        *room = kept.min(*room);
        Ok(())
    }

    /// Appends one batch; it is durable after the next [`Journal::sync`]. `Full` leaves everything as it was.
    pub fn append(&mut self, payload: &[u8]) -> Result<()> {
        self.usable()?;
        assert!(!payload.is_empty() && payload.len() <= PAYLOAD_MAX, "a batch of {} bytes", payload.len());
        let (batch, next) = self.end.encode(payload);
        self.make_room(next.at)?;
        let (bytes, at) = match self.end.sequence {
            0 => ([&encode_head(self.end.mark), batch.as_slice()].concat(), 0),
            _ => (batch, self.end.at),
        };
        if let Err(e) = self.space.file.write_at(&bytes, at) {
            return Err(self.fail(format!("writing {}", self.name), &e));
        }
        self.end = next;
        Ok(())
    }

    /// Makes all batches durable.
    pub fn sync(&mut self) -> Result<()> {
        self.usable()?;
        self.space.file.sync().map_err(|e| self.fail(format!("syncing {}", self.name), &e))
    }

    fn usable(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn make_room(&mut self, end: u64) -> Result<()> {
        if end <= self.space.room {
            return Ok(());
        }
        // On a full disk what is needed now: an earlier life may have left it.
        self.reserve(end + ROOM_BYTES, end).map_err(|error| match error {
            full @ Error::Full { .. } => full,
            other => self.abandon(format!("making room: {}", other.as_cause())),
        })
    }

    /// J3: no further use of the file.
    fn fail(&mut self, what: String, source: &std::io::Error) -> Error {
        self.abandon(format!("{what}: {source}"))
    }

    /// Ends the use of the file. Returns the error that every later call will meet too.
    pub fn abandon(&mut self, cause: String) -> Error {
        let error = Error::Poisoned { cause };
        self.failed = Some(error.clone());
        error
    }
}

fn batch_bytes(payload_len: usize) -> u64 {
    (HEADER_BYTES + payload_len.next_multiple_of(8)) as u64
}

/// Reads batches from the beginning to the first one that is not whole.
pub(super) struct Reader {
    file: Arc<dyn File>,
    name: String,
    /// The batch read last: its place, and its payload.
    last: Option<(Position, Vec<u8>)>,
    next: Position,
    len: u64,
}

impl Reader {
    /// Stands before the first batch of file `number`.
    pub fn new(file: Arc<dyn File>, name: &str, number: u64) -> Result<Self> {
        let len = file.len().map_err(|e| Error::io(format!("reading {name}"), &e))?;
        Self::up_to(len, file, name, number)
    }

    /// The same, for whoever knows where the batches end.
    pub fn up_to(len: u64, file: Arc<dyn File>, name: &str, number: u64) -> Result<Self> {
        let next = Position::beginning(number, read_mark(&*file, name)?);
        Ok(Self { file, name: name.to_string(), last: None, next, len })
    }

    /// Bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.next.at
    }

    /// The next payload; `None` at the end. `Corrupt` if the end is not one (J1).
    pub fn next(&mut self) -> Result<Option<Vec<u8>>> {
        if let Some(batch) = self.batch_at(self.next.at)?
            && (batch.sequence, batch.chain) == (self.next.sequence, self.next.chain)
        {
            self.last = Some((self.next, batch.payload.clone()));
            self.next = self.next.after(batch.payload.len(), batch.crc);
            return Ok(Some(batch.payload));
        }
        match self.later_batch()? {
            None => Ok(None),
            Some(at) => Err(Error::corrupt(
                &self.name,
                format!(
                    "the batch at byte {} is broken, but a later one at byte {at} is whole",
                    self.next.at
                ),
            )),
        }
    }

    /// The batch at `at`, whatever its place in the sequence, if it is whole.
    fn batch_at(&self, at: u64) -> Result<Option<Batch>> {
        let mut header = [0; HEADER_BYTES];
        if at + HEADER_BYTES as u64 > self.len {
            return Ok(None);
        }
        self.read(&mut header, at)?;
        let u32_at = |i: usize| u32::from_le_bytes(header[i..i + 4].try_into().expect("four bytes"));
        let payload_len = u32_at(4) as usize;
        if u32_at(0) != self.next.mark
            || !(1..=PAYLOAD_MAX).contains(&payload_len)
            || at + batch_bytes(payload_len) > self.len
        {
            return Ok(None);
        }
        let mut payload = vec![0; payload_len];
        self.read(&mut payload, at + HEADER_BYTES as u64)?;
        let crc = crc32c::crc32c_append(crc32c::crc32c(&header[..20]), &payload);
        let sequence = u64::from_le_bytes(header[8..16].try_into().expect("eight bytes"));
        Ok((crc == u32_at(20)).then_some(Batch { sequence, chain: u32_at(16), crc, payload }))
    }

    /// The place of a whole batch behind the end, if there is one.
    fn later_batch(&self) -> Result<Option<u64>> {
        let mut chunk = vec![0; SCAN_BYTES];
        let mut at = self.next.at + 8;
        let end = self.len.min(self.next.at + REST_MAX);
        while at + HEADER_BYTES as u64 <= end {
            let chunk = &mut chunk[..SCAN_BYTES.min(((end - at) & !7) as usize)];
            self.read(chunk, at)?;
            for (i, word) in chunk.chunks_exact(8).enumerate() {
                let place = at + i as u64 * 8;
                if word[..4] == self.next.mark.to_le_bytes()
                    && let Some(batch) = self.batch_at(place)?
                    && batch.sequence > self.next.sequence
                {
                    return Ok(Some(place));
                }
            }
            at += chunk.len() as u64;
        }
        let is_room = self.len - end <= ROOM_MAX + 16 * self.next.at;
        if !is_room || !is_zero(&*self.file, &self.name, end, self.len)? {
            let detail = format!(
                "the batch at byte {} is broken, and {} bytes follow",
                self.next.at,
                self.len - self.next.at
            );
            return Err(Error::corrupt(&self.name, detail));
        }
        Ok(None)
    }

    /// Writes the batch read last, as it was read then: what a failed sync did not bring to the disk the system may have let go since. A
    /// torn write leaves it whole, if it was.
    fn write_last_again(&self) -> Result<()> {
        let Some((place, payload)) = &self.last else { return Ok(()) };
        let (batch, _) = place.encode(payload);
        let failed = |e| Error::io(format!("writing the last batch of {} again", self.name), &e);
        self.file.write_at(&batch, place.at).map_err(failed)
    }

    fn read(&self, out: &mut [u8], at: u64) -> Result<()> {
        self.file.read_at(out, at).map_err(|e| Error::io(format!("reading {}", self.name), &e))
    }
}

struct Batch {
    sequence: u64,
    chain: u32,
    crc: u32,
    payload: Vec<u8>,
}

/// Are the bytes `from..to` all zero?
fn is_zero(file: &dyn File, name: &str, from: u64, to: u64) -> Result<bool> {
    let mut chunk = vec![0; SCAN_BYTES];
    let mut at = from;
    while at < to {
        let chunk = &mut chunk[..SCAN_BYTES.min((to - at) as usize)];
        file.read_at(chunk, at).map_err(|e| Error::io(format!("reading {name}"), &e))?;
        if chunk.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        at += chunk.len() as u64;
    }
    Ok(true)
}

/// Writes zeros to the bytes `from..to`, whatever a read of them says: after a failed sync it may say what the disk does not have.
fn clear(file: &dyn File, from: u64, to: u64) -> io::Result<()> {
    let zeros = vec![0; SCAN_BYTES.min(to.saturating_sub(from) as usize)];
    let mut at = from;
    while at < to {
        let bytes = zeros.len().min((to - at) as usize);
        file.write_at(&zeros[..bytes], at)?;
        at += bytes as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreshore_io::{Access, MemVfs, Vfs};

    /// J5: whoever chooses what payloads hold, such as keys, knows no file's mark.
    #[test]
    fn what_a_torn_batch_holds_is_taken_for_no_batch() {
        let vfs = MemVfs::new();
        let file = vfs.open("journal", Access::Buffered, true).unwrap();
        let mut journal = Journal::begin(Space { file: file.clone(), room: 0 }, "journal", 7);
        journal.append(&[1; 50]).unwrap();
        let torn_at = journal.bytes();
        let other = Journal::begin(Space { file: file.clone(), room: 0 }, "journal", 7);
        let later = Position { sequence: 1 << 40, ..other.end };
        journal.append(&later.encode(&[2; 30]).0).unwrap();
        file.write_at(&[0], torn_at).unwrap();

        let mut reader = Reader::new(file.clone(), "journal", 7).unwrap();
        assert_eq!(reader.next().unwrap(), Some(vec![1; 50]));
        assert_eq!(reader.next().unwrap(), None);
        // One of this file is no remains.
        let later = Position { sequence: 2, ..journal.end };
        file.write_at(&later.encode(&[3; 30]).0, journal.bytes()).unwrap();
        assert!(matches!(reader.next(), Err(Error::Corrupt { .. })));
    }

    #[test]
    fn a_file_without_its_head_is_damaged() {
        let vfs = MemVfs::new();
        let file = vfs.open("journal", Access::Buffered, true).unwrap();
        for bytes in [&b""[..], b"FdJ1", &encode_head(5)[..HEAD_BYTES - 1], &encode_head(0), &[0; 500]] {
            file.set_len(0).unwrap();
            file.write_at(bytes, 0).unwrap();
            assert!(
                matches!(Reader::new(file.clone(), "journal", 0), Err(Error::Corrupt { .. })),
                "{bytes:?}"
            );
        }
        file.write_at(&encode_head(5), 0).unwrap();
        assert_eq!(Reader::new(file, "journal", 0).unwrap().next().unwrap(), None);
    }
}
