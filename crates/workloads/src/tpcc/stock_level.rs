//! Stock-Level (clause 2.8), read-only: how many items of a district's last 20 orders are running out.

use crate::tpcc::Dice;
use crate::tpcc::access::{Scratch, read, read_each};
use crate::tpcc::generate::number;
use crate::tpcc::row::{district, order_line, stock};
use crate::tpcc::schema::{Tables, key};
use crate::tx_store::{Tx, TxError};
use std::ops::ControlFlow;

const ORDERS: u32 = 20;

/// What the terminal enters (clause 2.8.1); the district is the terminal's own.
#[derive(Clone, Debug)]
pub(crate) struct StockLevel {
    w: u32,
    d: u8,
    threshold: i32,
}

impl StockLevel {
    pub fn new(dice: &mut Dice<'_>, w: u32, d: u8) -> Self {
        Self { w, d, threshold: number(dice.random, 10..=20) as i32 }
    }

    /// The transaction; returns the count.
    pub fn run<T: Tx>(
        &self,
        tx: &mut T,
        tables: &Tables<T::Table>,
        Scratch { numbers: items, .. }: &mut Scratch,
    ) -> Result<usize, TxError> {
        let Self { w, d, threshold } = *self;
        let next = read(tx, &tables.district, &key::district(w, d), |row| district::NEXT_O_ID.get(row))?;
        let (from, to) =
            (key::order_line(w, d, next.saturating_sub(ORDERS), 0), key::order_line(w, d, next, 0));
        items.clear();
        tx.scan(&tables.order_line.handle, &from, &to, false, |_, row| {
            items.extend((row.len() >= order_line::FIXED).then(|| order_line::I_ID.get(row)));
            ControlFlow::Continue(())
        })?;
        items.sort_unstable();
        items.dedup();
        let keys: Vec<_> = items.iter().map(|&item| key::stock(w, item)).collect();
        let mut low = 0;
        read_each(tx, &tables.stock, &keys, |row| low += usize::from(stock::QUANTITY.get(row) < threshold))?;
        Ok(low)
    }
}
