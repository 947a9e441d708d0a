//! The rows: fixed fields first, texts after them.
//!
//! Why fixed fields first: their offsets are constants, so a transaction reads three numbers of a row of 600 bytes without
//! decoding it. The fields that transactions change come first of all and keep their width: an engine that logs differences
//! logs a few bytes next to each other.
//!
//! Numbers are little-endian. Money is in cents, taxes and discounts are in hundredths of a percent, dates in microseconds
//! since 1970; 0 is the null of carriers and delivery dates. A text has its length in a byte before it, but the row's last one runs to
//! its end.

use std::marker::PhantomData;
use std::ops::Add;

/// A number at a fixed offset of a row.
#[derive(Clone, Copy)]
pub(crate) struct Field<N>(usize, PhantomData<N>);

/// Numbers that rows hold.
pub(crate) trait Number: Copy {
    fn read(bytes: &[u8]) -> Self;
    fn write(self, bytes: &mut [u8]);
}

macro_rules! number {
    ($($number:ty)*) => {$(
        impl Number for $number {
            fn read(bytes: &[u8]) -> Self {
                Self::from_le_bytes(*bytes.first_chunk().expect("rows are checked to hold their fixed fields"))
            }

            fn write(self, bytes: &mut [u8]) {
                bytes[..size_of::<Self>()].copy_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}

number!(u8 u16 u32 i32 u64 i64);

impl<N: Number> Field<N> {
    const fn at(offset: usize) -> Self {
        Self(offset, PhantomData)
    }

    pub fn get(self, row: &[u8]) -> N {
        N::read(&row[self.0..])
    }

    pub fn set(self, row: &mut [u8], value: N) {
        value.write(&mut row[self.0..]);
    }

    /// Adds `more`; returns what was there before.
    pub fn add(self, row: &mut [u8], more: N) -> N
    where
        N: Add<Output = N>,
    {
        let before = self.get(row);
        self.set(row, before + more);
        before
    }
}

pub(crate) mod warehouse {
    use super::Field;
    pub const YTD: Field<i64> = Field::at(0);
    pub const TAX: Field<u16> = Field::at(8);
    pub const FIXED: usize = 10;
    /// Texts: name, street 1, street 2, city, state, zip code.
    pub const NAME: usize = 0;
}

pub(crate) mod district {
    use super::Field;
    pub const NEXT_O_ID: Field<u32> = Field::at(0);
    pub const YTD: Field<i64> = Field::at(4);
    pub const TAX: Field<u16> = Field::at(12);
    pub const FIXED: usize = 14;
    /// Texts: name, street 1, street 2, city, state, zip code.
    pub const NAME: usize = 0;
}

pub(crate) mod customer {
    use super::Field;
    pub const BALANCE: Field<i64> = Field::at(0);
    pub const YTD_PAYMENT: Field<i64> = Field::at(8);
    pub const PAYMENT_CNT: Field<u32> = Field::at(16);
    pub const DELIVERY_CNT: Field<u32> = Field::at(20);
    pub const CREDIT_LIM: Field<i64> = Field::at(24);
    pub const DISCOUNT: Field<u16> = Field::at(32);
    pub const SINCE: Field<u64> = Field::at(34);
    /// 1 for "BC", 0 for "GC".
    pub const BAD_CREDIT: Field<u8> = Field::at(42);
    pub const FIXED: usize = 43;
    /// Texts: first, middle, last, street 1, street 2, city, state, zip code, phone, data.
    pub const FIRST: usize = 0;
    pub const LAST: usize = 2;
    pub const DATA: usize = 9;
    /// Most bytes of data (clause 2.5.2.2).
    pub const DATA_BYTES_MAX: usize = 500;
}

pub(crate) mod history {
    use super::Field;
    pub const C_ID: Field<u32> = Field::at(0);
    pub const C_W_ID: Field<u32> = Field::at(4);
    pub const C_D_ID: Field<u8> = Field::at(8);
    pub const DATE: Field<u64> = Field::at(9);
    pub const AMOUNT: Field<i64> = Field::at(17);
    /// The only text is the data.
    pub const FIXED: usize = 25;
}

pub(crate) mod orders {
    use super::Field;
    pub const CARRIER_ID: Field<u8> = Field::at(0);
    pub const C_ID: Field<u32> = Field::at(1);
    pub const ENTRY_D: Field<u64> = Field::at(5);
    pub const OL_CNT: Field<u8> = Field::at(13);
    pub const ALL_LOCAL: Field<u8> = Field::at(14);
    pub const FIXED: usize = 15;
}

pub(crate) mod order_line {
    use super::Field;
    pub const DELIVERY_D: Field<u64> = Field::at(0);
    pub const I_ID: Field<u32> = Field::at(8);
    pub const SUPPLY_W_ID: Field<u32> = Field::at(12);
    pub const QUANTITY: Field<u8> = Field::at(16);
    pub const AMOUNT: Field<u32> = Field::at(17);
    /// The only text is the district information.
    pub const FIXED: usize = 21;
}

pub(crate) mod item {
    use super::Field;
    pub const IM_ID: Field<u32> = Field::at(0);
    pub const PRICE: Field<u32> = Field::at(4);
    pub const FIXED: usize = 8;

    /// The second text, after the name: the data.
    pub fn data(row: &[u8]) -> &[u8] {
        &row[super::text_start(row, FIXED, 1)..]
    }
}

pub(crate) mod stock {
    use super::Field;
    pub const QUANTITY: Field<i32> = Field::at(0);
    pub const YTD: Field<u32> = Field::at(4);
    pub const ORDER_CNT: Field<u32> = Field::at(8);
    pub const REMOTE_CNT: Field<u32> = Field::at(12);
    pub const FIXED: usize = 16;
    /// Bytes of the information for one district.
    pub const DIST: usize = 24;
    /// Bytes of the ten of them, at the row's end; the data is before them.
    pub const DISTS: usize = 10 * DIST;

    /// The information for district `d`.
    pub fn dist(row: &[u8], d: u8) -> &[u8] {
        let from = row.len() - DISTS + (usize::from(d) - 1) * DIST;
        &row[from..from + DIST]
    }

    /// The data.
    pub fn data(row: &[u8]) -> &[u8] {
        &row[FIXED..row.len() - DISTS]
    }
}

/// Begins a row: `fixed` zero bytes.
pub(crate) fn begin(row: &mut Vec<u8>, fixed: usize) {
    row.clear();
    row.resize(fixed, 0);
}

/// Adds a text that is not the last one.
pub(crate) fn push_text(row: &mut Vec<u8>, text: &[u8]) {
    row.push(u8::try_from(text.len()).expect("texts but the last are short"));
    row.extend_from_slice(text);
}

/// Text number `number`, not the last one, of a row with `fixed` bytes before its texts. Empty if the row has no such text.
pub(crate) fn text(row: &[u8], fixed: usize, number: usize) -> &[u8] {
    let at = text_start(row, fixed, number);
    let bytes = row.get(at).map_or(0, |&len| usize::from(len));
    row.get(at + 1..at + 1 + bytes).unwrap_or_default()
}

/// Where text number `number` starts: its length byte, or, if it is the last one, its first byte.
pub(crate) fn text_start(row: &[u8], fixed: usize, number: usize) -> usize {
    (0..number).fold(fixed, |at, _| (at + 1 + row.get(at).map_or(0, |&len| usize::from(len))).min(row.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_behind_the_fixed_fields() {
        let mut row = Vec::new();
        begin(&mut row, customer::FIXED);
        customer::BALANCE.set(&mut row, -1000);
        customer::BAD_CREDIT.set(&mut row, 1);
        for text in [&b"one"[..], b"", b"three"] {
            push_text(&mut row, text);
        }
        row.extend_from_slice(b"the rest");
        assert_eq!(text(&row, customer::FIXED, 0), b"one");
        assert_eq!(text(&row, customer::FIXED, 1), b"");
        assert_eq!(text(&row, customer::FIXED, 2), b"three");
        assert_eq!(&row[text_start(&row, customer::FIXED, 3)..], b"the rest");
        assert_eq!((customer::BALANCE.get(&row), customer::BAD_CREDIT.get(&row)), (-1000, 1));
    }

    /// A row of wrong bytes is an answer to report, not a reason to panic.
    #[test]
    fn texts_of_cut_rows_are_empty() {
        assert_eq!(text(&[0, 200, 1], 1, 0), b"");
        assert_eq!(text(&[], 4, 3), b"");
        assert!(text_start(&[9, 9], 0, 5) <= 2);
    }
}
