//! Fields of log records: how numbers are written, and how they are taken off the front of a record again, where any
//! bytes give a value or an error, never a panic.
//!
//! Most numbers in records are small (page and table ids, lengths), so they are written as *varints*: seven bits a byte,
//! lowest first, the top bit set in all but the last. Only the shortest form is accepted, so a record has one encoding.

/// Bytes that [`push_varint`] appends.
#[inline]
pub(crate) fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Appends a number.
#[inline]
pub(crate) fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// What is left of a record body.
pub(crate) struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// The next `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or("a record is cut short")?;
        self.0 = rest;
        Ok(taken)
    }

    /// A number.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0u64;
        for (index, byte) in self.0.iter().enumerate().take(10) {
            let bits = u64::from(byte & 0x7F);
            if index == 9 && bits > 1 {
                break;
            }
            value |= bits << (7 * index);
            if byte & 0x80 == 0 {
                if *byte == 0 && index > 0 {
                    break;
                }
                self.0 = &self.0[index + 1..];
                return Ok(value);
            }
        }
        Err("a number in a record is cut short, too large, or not in its shortest form".into())
    }

    /// A number that is a length or another small count.
    pub fn len(&mut self) -> Result<usize, String> {
        usize::try_from(self.varint()?).map_err(|_| "a length in a record is too large".into())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or("a record is cut short")?;
        self.0 = rest;
        Ok(*taken)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, String> {
        Ok(self.array::<1>()?[0])
    }

    /// Six bytes, little-endian.
    pub fn u48(&mut self) -> Result<u64, String> {
        let [a, b, c, d, e, f] = self.array()?;
        Ok(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_read_back(value: u64, shift in 0u32..64) {
            let value = value >> shift;
            let mut out = Vec::new();
            push_varint(&mut out, value);
            prop_assert_eq!(out.len(), varint_len(value));
            let mut rest = Fields(&out);
            prop_assert_eq!(rest.varint(), Ok(value));
            prop_assert!(rest.0.is_empty());
            prop_assert!(Fields(&out[..out.len() - 1]).varint().is_err());
        }

        #[test]
        fn a_number_has_one_form(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            let mut rest = Fields(&bytes);
            if let Ok(value) = rest.varint() {
                let mut out = Vec::new();
                push_varint(&mut out, value);
                prop_assert_eq!(&bytes[..out.len()], &out);
            }
        }
    }
}
