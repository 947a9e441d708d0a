//! A bag: the tails of the few keys that share a slice, sorted, in one piece of memory that never changes.
//!
//! Why: a layer of its own costs some kilobytes and another descent, too much for a few keys. A bag is one read; to
//! change it is to replace it, and it is replaced as often as its few keys change.
//! Source: Heinz, Zobel, Williams: Burst Tries (TOIS 2002), whose containers these are; Masstree keeps one such tail.
//!
//! ```text
//! entries n (u32) | end of each tail (u32 × n) | words (u64 × n) | tails, one after another
//! ```
//!
//! A bag lives as a [`blob`](crate::node::blob), which readers reach under a pin.

use super::Limit;
use crate::node::Bias;

/// The bytes of a bag. It holds at least one tail.
#[derive(Clone, Copy)]
pub struct Bag<'a>(pub &'a [u8]);

const END_BYTES: usize = size_of::<u32>();
const WORD_BYTES: usize = size_of::<u64>();

impl<'a> Bag<'a> {
    /// The bytes of a bag of these tails, which rise strictly.
    pub fn encode<'t>(tails: impl ExactSizeIterator<Item = (&'t [u8], u64)> + Clone) -> Vec<u8> {
        let n = tails.len();
        let total: usize = tails.clone().map(|(tail, _)| tail.len()).sum();
        let mut bytes = Vec::with_capacity(END_BYTES + n * (END_BYTES + WORD_BYTES) + total);
        bytes.extend_from_slice(&(n as u32).to_le_bytes());
        let mut end = 0;
        for (tail, _) in tails.clone() {
            end += tail.len() as u32;
            bytes.extend_from_slice(&end.to_le_bytes());
        }
        tails.clone().for_each(|(_, word)| bytes.extend_from_slice(&word.to_le_bytes()));
        tails.for_each(|(tail, _)| bytes.extend_from_slice(tail));
        bytes
    }

    /// The number of tails.
    #[inline]
    pub fn len(self) -> usize {
        self.number(0) as usize
    }

    #[inline]
    fn number(self, at: usize) -> u32 {
        u32::from_le_bytes(self.0[at * END_BYTES..][..END_BYTES].try_into().expect("four bytes"))
    }

    #[inline]
    pub fn tail(self, i: usize) -> &'a [u8] {
        let start = if i == 0 { 0 } else { self.number(i) as usize };
        let tails = &self.0[END_BYTES + self.len() * (END_BYTES + WORD_BYTES)..];
        &tails[start..self.number(i + 1) as usize]
    }

    #[inline]
    pub fn word(self, i: usize) -> u64 {
        let at = END_BYTES + self.len() * END_BYTES + i * WORD_BYTES;
        u64::from_le_bytes(self.0[at..][..WORD_BYTES].try_into().expect("eight bytes"))
    }

    /// Where `tail` is, or where it would be.
    pub fn position(self, tail: &[u8]) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            match self.tail(middle).cmp(tail) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// The word of the greatest tail within the limit.
    pub fn greatest(self, limit: Limit) -> Option<u64> {
        let rank = match limit.map(|(tail, bias)| (self.position(tail), bias)) {
            Some((Ok(i), Bias::AtMost)) => i + 1,
            Some((Ok(i), Bias::Below) | (Err(i), _)) => i,
            None => self.len(),
        };
        rank.checked_sub(1).map(|last| self.word(last))
    }

    /// All tails with their words.
    pub fn entries(self) -> impl DoubleEndedIterator<Item = (&'a [u8], u64)> + ExactSizeIterator + Clone {
        (0..self.len()).map(move |i| (self.tail(i), self.word(i)))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn tails_are_found_where_they_are() {
        let tails: [(&[u8], u64); 4] = [(b"", 1), (b"a", 2), (b"ab", u64::MAX), (b"c", 0)];
        let bytes = Bag::encode(tails.into_iter());
        let bag = Bag(&bytes);
        assert!(bag.entries().eq(tails));
        assert_eq!([bag.position(b""), bag.position(b"ab"), bag.position(b"c")], [Ok(0), Ok(2), Ok(3)]);
        assert_eq!([bag.position(b"aa"), bag.position(b"b"), bag.position(b"d")], [Err(2), Err(3), Err(4)]);
    }
}
