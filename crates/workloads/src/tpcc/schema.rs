//! The tables and their keys: numbers big-endian, so that byte order is the order of the numbers.
//!
//! Two indexes are tables of their own, with empty values: customers by name (the standard's way to choose 60 % of them) and
//! orders by customer (for a customer's last order).

use crate::StoreError;
use crate::tpcc::row;
use crate::tx_store::TxStore;

/// A table's handle with what errors and checks want to know.
#[derive(Clone, Debug)]
pub(crate) struct Table<H> {
    pub name: &'static str,
    /// Bytes of the fixed fields: no row is shorter.
    pub row_bytes_min: usize,
    pub handle: H,
}

/// All tables.
#[derive(Clone, Debug)]
pub(crate) struct Tables<H> {
    pub warehouse: Table<H>,
    pub district: Table<H>,
    pub customer: Table<H>,
    pub customer_name: Table<H>,
    pub history: Table<H>,
    pub new_order: Table<H>,
    pub orders: Table<H>,
    pub order_customer: Table<H>,
    pub order_line: Table<H>,
    pub item: Table<H>,
    pub stock: Table<H>,
}

impl<H> Tables<H> {
    /// Opens or creates them.
    pub fn open<S: TxStore<Table = H>>(store: &S) -> Result<Self, StoreError> {
        let open =
            |name, row_bytes_min| store.table(name).map(|handle| Table { name, row_bytes_min, handle });
        Ok(Self {
            warehouse: open("warehouse", row::warehouse::FIXED)?,
            district: open("district", row::district::FIXED)?,
            customer: open("customer", row::customer::FIXED)?,
            customer_name: open("customer_name", 0)?,
            history: open("history", row::history::FIXED)?,
            new_order: open("new_order", 0)?,
            orders: open("orders", row::orders::FIXED)?,
            order_customer: open("order_customer", 0)?,
            order_line: open("order_line", row::order_line::FIXED)?,
            item: open("item", row::item::FIXED)?,
            stock: open("stock", row::stock::FIXED + row::stock::DISTS)?,
        })
    }
}

/// Districts of a warehouse (clause 1.2.1).
pub(crate) const DISTRICTS: u8 = 10;

/// Bytes of a last name in a key; shorter ones end in zeros.
const LAST_BYTES: usize = 16;

/// Bytes of a first name in a key.
const FIRST_BYTES: usize = 16;

/// The keys of each table.
pub(crate) mod key {
    use super::{FIRST_BYTES, LAST_BYTES};

    /// Warehouse, district, last name.
    pub const NAME_PREFIX: usize = 5 + LAST_BYTES;
    const NAME: usize = NAME_PREFIX + FIRST_BYTES + 4;

    pub fn warehouse(w: u32) -> [u8; 4] {
        w.to_be_bytes()
    }

    pub fn district(w: u32, d: u8) -> [u8; 5] {
        concat([&w.to_be_bytes(), &[d]])
    }

    pub fn customer(w: u32, d: u8, c: u32) -> [u8; 9] {
        concat([&w.to_be_bytes(), &[d], &c.to_be_bytes()])
    }

    /// Without a first name and a number: all customers of that last name begin so.
    pub fn name_prefix(w: u32, d: u8, last: &[u8]) -> [u8; NAME_PREFIX] {
        let mut key = [0; NAME_PREFIX];
        key[..4].copy_from_slice(&w.to_be_bytes());
        key[4] = d;
        key[5..5 + last.len()].copy_from_slice(last);
        key
    }

    pub fn customer_name(w: u32, d: u8, last: &[u8], first: &[u8], c: u32) -> [u8; NAME] {
        let mut key = [0; NAME];
        key[..NAME_PREFIX].copy_from_slice(&name_prefix(w, d, last));
        key[NAME_PREFIX..NAME_PREFIX + first.len()].copy_from_slice(first);
        key[NAME - 4..].copy_from_slice(&c.to_be_bytes());
        key
    }

    /// The standard gives HISTORY no key: `number` is unique in a run.
    pub fn history(w: u32, d: u8, number: u64) -> [u8; 13] {
        concat([&w.to_be_bytes(), &[d], &number.to_be_bytes()])
    }

    /// Of ORDER and NEW-ORDER.
    pub fn order(w: u32, d: u8, o: u32) -> [u8; 9] {
        concat([&w.to_be_bytes(), &[d], &o.to_be_bytes()])
    }

    pub fn order_customer(w: u32, d: u8, c: u32, o: u32) -> [u8; 13] {
        concat([&w.to_be_bytes(), &[d], &c.to_be_bytes(), &o.to_be_bytes()])
    }

    pub fn order_line(w: u32, d: u8, o: u32, line: u8) -> [u8; 10] {
        concat([&w.to_be_bytes(), &[d], &o.to_be_bytes(), &[line]])
    }

    pub fn item(i: u32) -> [u8; 4] {
        i.to_be_bytes()
    }

    pub fn stock(w: u32, i: u32) -> [u8; 8] {
        concat([&w.to_be_bytes(), &i.to_be_bytes()])
    }

    /// The number in bytes `at..at + 4` of a key; 0 if the key is too short, which is no number of anything.
    pub fn number(key: &[u8], at: usize) -> u32 {
        key.get(at..at + 4).map_or(0, |bytes| u32::from_be_bytes(bytes.try_into().expect("four bytes")))
    }

    fn concat<const N: usize, const PARTS: usize>(parts: [&[u8]; PARTS]) -> [u8; N] {
        let mut key = [0; N];
        let mut at = 0;
        for part in parts {
            key[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        debug_assert_eq!(at, N);
        key
    }
}

#[cfg(test)]
mod tests {
    use super::key;

    #[test]
    fn byte_order_is_the_order_of_numbers() {
        assert!(key::order_line(1, 9, 300, 15) < key::order_line(1, 10, 1, 1));
        assert!(key::order_line(1, 9, 255, 15) < key::order_line(1, 9, 256, 1));
        assert!(key::stock(255, 100_000) < key::stock(256, 1));
    }

    #[test]
    fn names_are_ordered_by_last_then_first_then_number() {
        let keys = [
            key::customer_name(1, 1, b"BAR", b"Zoe", 3),
            key::customer_name(1, 1, b"BARABLE", b"Ada", 1),
            key::customer_name(1, 1, b"BARABLE", b"Adam", 2),
            key::customer_name(1, 1, b"BARABLE", b"Adam", 256),
            key::customer_name(1, 2, b"ABLE", b"Ada", 1),
        ];
        assert!(keys.is_sorted());
        assert!(keys[1].starts_with(&key::name_prefix(1, 1, b"BARABLE")));
        assert!(!keys[1].starts_with(&key::name_prefix(1, 1, b"BAR")), "another last name");
    }
}
