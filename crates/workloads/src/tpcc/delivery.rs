//! Delivery (clause 2.7): delivers the oldest undelivered order of each district. All ten in one transaction, executed at
//! once; the standard would allow ten, and a queue.

use crate::tpcc::Dice;
use crate::tpcc::access::{Scratch, absent, modify, modify_each};
use crate::tpcc::generate::number;
use crate::tpcc::new_order::LINES_MAX;
use crate::tpcc::row::{customer, order_line, orders};
use crate::tpcc::schema::{DISTRICTS, Tables, key};
use crate::tpcc::trace::Trace;
use crate::tx_store::{Tx, TxError};
use foreshore_base::seeded_bug;
use std::array;
use std::ops::ControlFlow;

/// What the terminal enters (clause 2.7.1).
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    w: u32,
    carrier: u8,
    date: u64,
}

impl Delivery {
    pub fn new(dice: &mut Dice<'_>, w: u32, date: u64) -> Self {
        Self { w, carrier: number(dice.random, 1..=10) as u8, date }
    }

    /// The transaction; returns what it leaves behind. A district without undelivered orders is skipped.
    pub fn run<T: Tx>(
        &self,
        tx: &mut T,
        tables: &Tables<T::Table>,
        scratch: &mut Scratch,
    ) -> Result<Trace, TxError> {
        let mut orders = [0; DISTRICTS as usize];
        for (d, delivered) in (1..=DISTRICTS).zip(&mut orders) {
            if let Some(o) = oldest_new_order(tx, tables, self.w, d)? {
                self.deliver(tx, tables, (d, o), &mut scratch.row)?;
                *delivered = o;
            }
        }
        Ok(Trace::Delivery { w: self.w, orders })
    }

    fn deliver<T: Tx>(
        &self,
        tx: &mut T,
        tables: &Tables<T::Table>,
        (d, o): (u8, u32),
        row: &mut Vec<u8>,
    ) -> Result<(), TxError> {
        let w = self.w;
        let order = key::order(w, d, o);
        if !tx.remove(&tables.new_order.handle, &order)? {
            return Err(absent(&tables.new_order, &order));
        }
        let (c, lines) = modify(tx, &tables.orders, &order, row, |row| {
            orders::CARRIER_ID.set(row, self.carrier);
            (orders::C_ID.get(row), orders::OL_CNT.get(row))
        })?;
        let mut amount = 0;
        let keys: [_; LINES_MAX] = array::from_fn(|line| key::order_line(w, d, o, line as u8 + 1));
        let keys =
            keys.get(..lines.into()).ok_or_else(|| absent(&tables.order_line, &keys[LINES_MAX - 1]))?;
        modify_each(tx, &tables.order_line, keys, |row| {
            order_line::DELIVERY_D.set(row, self.date);
            amount += i64::from(order_line::AMOUNT.get(row));
        })?;
        modify(tx, &tables.customer, &key::customer(w, d, c), row, |row| {
            if !seeded_bug("tpcc_delivery_forgets_balance") {
                customer::BALANCE.add(row, amount);
            }
            customer::DELIVERY_CNT.add(row, 1);
        })
    }
}

/// The least order number of the district's NEW-ORDER rows.
fn oldest_new_order<T: Tx>(
    tx: &mut T,
    tables: &Tables<T::Table>,
    w: u32,
    d: u8,
) -> Result<Option<u32>, TxError> {
    let mut oldest = None;
    let (from, to) = (key::order(w, d, 0), key::order(w, d + 1, 0));
    tx.scan(&tables.new_order.handle, &from, &to, false, |key, _| {
        oldest = Some(key::number(key, 5));
        ControlFlow::Break(())
    })?;
    Ok(oldest)
}
