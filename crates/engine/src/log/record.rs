//! What a record looks like, and how a reader knows that it is one.
//!
//! ```text
//! word 0   length in bytes of the whole record, unpadded (u32) | CRC32C (u32)
//! body     kind (u8) …                                           padded with zeros to 8 bytes
//! ```
//!
//! The CRC covers incarnation salt, LSN, length and body. So bytes that a recycled segment, an older incarnation or an
//! earlier lap of the ring left behind never pass for a record of this incarnation at this place.
//!
//! A *pad* fills the log up to a block boundary. Kind 0 is reserved for it. If it has room for a body, the seven bytes
//! after the kind say how far the log was durable when the pad was made, and the rest is zeros: a reader that finds the
//! log broken off before such a point knows that it was damaged, not torn.
//!
//! Each incarnation begins with a *birth*: a pad whose rest is not zeros but its salt. So a reader who finds one where the log ends knows that
//! there was an incarnation of which the list that it was given has lost the entry.

use crc32c::crc32c_append;
use foreshore_base::Lsn;

/// Bytes of word 0.
pub(super) const HEADER_BYTES: usize = 8;

/// Body kind of a pad.
const PAD: u8 = 0;

/// The longest pad is one word short of a block.
static ZEROS: [u8; super::options::BLOCK as usize] = [0; super::options::BLOCK as usize];

/// Bytes that a record with a body of `body_len` bytes takes in the log.
#[inline]
pub(super) fn footprint(body_len: usize) -> u64 {
    (HEADER_BYTES + body_len).next_multiple_of(8) as u64
}

/// Is this the body of a pad?
pub(super) fn is_pad(body: &[u8]) -> bool {
    body.first().is_none_or(|kind| *kind == PAD)
}

/// How far the log was durable when this pad was made.
pub(super) fn durable_before(pad: &[u8]) -> Option<Lsn> {
    let word = pad.first_chunk::<8>()?;
    Some(Lsn(u64::from_le_bytes(*word) >> 8))
}

/// The body of a pad of `bytes` in all, up to its zeros.
pub(super) fn pad_body(durable: Lsn, bytes: u64) -> Option<[u8; 8]> {
    (bytes > HEADER_BYTES as u64).then(|| (durable.0 << 8 | u64::from(PAD)).to_le_bytes())
}

/// Bytes of a birth.
pub(super) const BIRTH_BYTES: usize = HEADER_BYTES + 16;

/// The body of the birth of an incarnation with this salt.
pub(super) fn birth_body(salt: u64) -> [u8; 16] {
    let mut body = [0; 16];
    body[8..].copy_from_slice(&salt.to_le_bytes());
    body
}

/// The salt of the incarnation whose birth these bytes at `at` are, if they are one.
pub(super) fn salt_of_birth(at: Lsn, bytes: &[u8; BIRTH_BYTES]) -> Option<u64> {
    let (word0, body) = bytes.split_at(HEADER_BYTES);
    let word0 = u64::from_le_bytes(word0.try_into().expect("word 0"));
    let salt = u64::from_le_bytes(body[8..].try_into().expect("a salt"));
    let is_birth = length(word0, BIRTH_BYTES as u64) == Some(BIRTH_BYTES) && body == birth_body(salt);
    (is_birth && Seal::new(salt).matches(at, word0, body)).then_some(salt)
}

/// A record's length (unpadded, word 0 included) according to its word 0; `None` if no record begins like this.
#[inline]
pub(super) fn length(word0: u64, bytes_max: u64) -> Option<usize> {
    let len = word0 as u32;
    (len as usize >= HEADER_BYTES && u64::from(len) <= bytes_max).then_some(len as usize)
}

/// Makes and checks the checksums of one incarnation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seal {
    /// CRC of the salt: every record's CRC goes on from here.
    seed: u32,
}

impl Seal {
    pub fn new(salt: u64) -> Self {
        Self { seed: crc32c_append(0, &salt.to_le_bytes()) }
    }

    /// Word 0 of the record at `at` whose body is `parts`, one after another.
    #[inline]
    pub fn word0(self, at: Lsn, parts: &[&[u8]]) -> u64 {
        let len = (HEADER_BYTES + parts.iter().map(|part| part.len()).sum::<usize>()) as u64;
        let crc = parts.iter().fold(self.at(at, len), |crc, part| crc32c_append(crc, part));
        len | u64::from(crc) << 32
    }

    /// Where the CRC of a record begins: another one for each place. A CRC is linear, so two that began differently end
    /// differently over the same body; and places that a stale record could be mistaken for (the same offset of another
    /// segment or lap) differ in bits that no length has.
    #[inline]
    fn at(self, at: Lsn, len: u64) -> u32 {
        let place = at.0 / 8;
        self.seed ^ (place ^ place >> 32 ^ len) as u32
    }

    /// Word 0 of a pad over `[at, at + bytes)` with the body [`pad_body`] and zeros.
    pub fn pad(self, at: Lsn, bytes: u64, durable: Lsn) -> u64 {
        match pad_body(durable, bytes) {
            Some(body) => self.word0(at, &[&body, &ZEROS[..bytes as usize - HEADER_BYTES - body.len()]]),
            None => self.word0(at, &[]),
        }
    }

    /// Does the record at `at` that begins with `word0` have this body?
    #[inline]
    pub fn matches(self, at: Lsn, word0: u64, body: &[u8]) -> bool {
        self.word0(at, &[body]) == word0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_birth_tells_its_salt_in_its_place() {
        let (at, body) = (Lsn(4096), birth_body(77));
        let mut bytes = [0; BIRTH_BYTES];
        bytes[..HEADER_BYTES].copy_from_slice(&Seal::new(77).word0(at, &[&body]).to_le_bytes());
        bytes[HEADER_BYTES..].copy_from_slice(&body);
        assert!(is_pad(&body) && durable_before(&body) == Some(Lsn::ZERO));
        assert_eq!(salt_of_birth(at, &bytes), Some(77));
        assert_eq!(salt_of_birth(Lsn(8192), &bytes), None);
        for byte in 0..BIRTH_BYTES {
            let mut damaged = bytes;
            damaged[byte] ^= 1;
            assert_eq!(salt_of_birth(at, &damaged), None, "byte {byte}");
        }
    }

    #[test]
    fn a_record_counts_only_in_its_place_and_incarnation() {
        let (seal, at) = (Seal::new(1), Lsn(4096));
        let word0 = seal.word0(at, &[b"\x01he", b"", b"llo"]);
        assert_eq!(length(word0, 1 << 10), Some(14));
        assert!(seal.matches(at, word0, b"\x01hello"));
        assert!(!seal.matches(Lsn(4104), word0, b"\x01hello"));
        assert!(!seal.matches(at, word0, b"\x01hellp"));
        assert!(!seal.matches(at, word0, b"\x01hell"));
        assert!(!Seal::new(2).matches(at, word0, b"\x01hello"));
    }

    #[test]
    fn pads_of_every_length() {
        let seal = Seal::new(7);
        for bytes in (8..=4096).step_by(8) {
            let word0 = seal.pad(Lsn(80), bytes, Lsn(1 << 55));
            let len = length(word0, 4096).unwrap();
            assert_eq!(footprint(len - HEADER_BYTES), bytes);
            let mut body = pad_body(Lsn(1 << 55), bytes).map_or(Vec::new(), |body| body.to_vec());
            body.resize(len - HEADER_BYTES, 0);
            assert!(is_pad(&body) && seal.matches(Lsn(80), word0, &body));
            assert_eq!(durable_before(&body), (bytes > 8).then_some(Lsn(1 << 55)));
        }
        assert!(!is_pad(b"\x01"));
    }

    #[test]
    fn senseless_lengths_are_no_records() {
        for len in [0, 7, 1025, u64::from(u32::MAX)] {
            assert_eq!(length(len | 0xABCD << 32, 1024), None);
        }
    }
}
