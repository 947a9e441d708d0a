//! Order-Status (clause 2.6), read-only: a customer's balance and last order with its lines.

use crate::tpcc::Dice;
use crate::tpcc::access::{Scratch, Who, customer_number, read};
use crate::tpcc::generate::number;
use crate::tpcc::row::{self, customer, order_line, orders};
use crate::tpcc::schema::{DISTRICTS, Tables, key};
use crate::tx_store::{Tx, TxError};
use std::hint::black_box;
use std::ops::ControlFlow;

/// What the terminal enters (clause 2.6.1).
#[derive(Clone, Debug)]
pub(crate) struct OrderStatus {
    w: u32,
    d: u8,
    who: Who,
}

impl OrderStatus {
    pub fn new(dice: &mut Dice<'_>, w: u32) -> Self {
        Self { w, d: number(dice.random, 1..=u64::from(DISTRICTS)) as u8, who: dice.who() }
    }

    /// The transaction. A last order with another number of lines than it says is a wrong answer.
    pub fn run<T: Tx>(
        &self,
        tx: &mut T,
        tables: &Tables<T::Table>,
        scratch: &mut Scratch,
    ) -> Result<(), TxError> {
        let Self { w, d, who } = *self;
        let c = customer_number(tx, tables, (w, d), who, &mut scratch.numbers)?;
        read(tx, &tables.customer, &key::customer(w, d, c), |row| {
            let name = [0, 1, 2].map(|number| row::text(row, customer::FIXED, number));
            black_box((customer::BALANCE.get(row), name));
        })?;
        let Some(o) = last_order(tx, tables, (w, d, c))? else { return Ok(()) };
        let line_count = read(tx, &tables.orders, &key::order(w, d, o), |row| {
            black_box((orders::ENTRY_D.get(row), orders::CARRIER_ID.get(row)));
            orders::OL_CNT.get(row)
        })?;
        let (from, to) = (key::order_line(w, d, o, 0), key::order_line(w, d, o + 1, 0));
        let mut lines = 0;
        tx.scan(&tables.order_line.handle, &from, &to, false, |_, row| {
            if row.len() >= order_line::FIXED {
                black_box((order_line::I_ID.get(row), order_line::SUPPLY_W_ID.get(row)));
                black_box((order_line::QUANTITY.get(row), order_line::AMOUNT.get(row)));
                black_box(order_line::DELIVERY_D.get(row));
                lines += 1;
            }
            ControlFlow::Continue(())
        })?;
        if lines != line_count {
            let what =
                format!("order {o} of warehouse {w}, district {d} has {lines} lines, not {line_count}");
            return Err(TxError::Wrong(what));
        }
        Ok(())
    }
}

/// The customer's order with the greatest number.
fn last_order<T: Tx>(
    tx: &mut T,
    tables: &Tables<T::Table>,
    (w, d, c): (u32, u8, u32),
) -> Result<Option<u32>, TxError> {
    let (from, to) = (key::order_customer(w, d, c, 0), key::order_customer(w, d, c + 1, 0));
    let mut last = None;
    tx.scan(&tables.order_customer.handle, &from, &to, true, |key, _| {
        last = Some(key::number(key, 9));
        ControlFlow::Break(())
    })?;
    Ok(last)
}
