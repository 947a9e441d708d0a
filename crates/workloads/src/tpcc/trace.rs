//! What a committed transaction leaves behind, and by which it can be found again: after a crash, for example.
//!
//! A client that keeps the traces of its acknowledged commits can ask afterwards whether each is there ([`Tpcc::lost`]). That
//! they are there as wholes, with all sums, the consistency conditions say ([`Tpcc::check`]).

use crate::kv::BenchError;
use crate::tpcc::Tpcc;
use crate::tpcc::access::read;
use crate::tpcc::row::{district, history, order_line, orders};
use crate::tpcc::schema::{DISTRICTS, Tables, key};
use crate::tx_store::{Tx, TxError, TxKind, TxSession, TxStore};
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

/// The rows by which a committed transaction is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Trace {
    /// New-Order: the order and its lines.
    Order {
        /// Warehouse.
        w: u32,
        /// District.
        d: u8,
        /// Number of the order.
        o: u32,
        /// Customer.
        c: u32,
        /// Lines.
        lines: u8,
    },
    /// Payment: the row of HISTORY.
    Payment {
        /// Warehouse.
        w: u32,
        /// District.
        d: u8,
        /// Number of the row.
        number: u64,
        /// Cents.
        amount: i64,
    },
    /// Delivery: orders that have a carrier from then on.
    Delivery {
        /// Warehouse.
        w: u32,
        /// The number of the order delivered in each district; 0 where none was waiting.
        orders: [u32; DISTRICTS as usize],
    },
}

impl<S: TxStore> Tpcc<'_, S> {
    /// Which of these committed transactions are not there, or not as a whole. One read-only transaction.
    ///
    /// Errors: what the store says.
    pub fn lost(&self, traces: &[Trace]) -> Result<Vec<Trace>, BenchError> {
        let mut session = self.store.session()?;
        let lost = session.transact(TxKind::ReadOnly, |tx| {
            let mut lost = Vec::new();
            for trace in traces {
                if !trace.is_there(tx, &self.tables)? {
                    lost.push(*trace);
                }
            }
            Ok(lost)
        })?;
        Ok(lost)
    }

    /// How many orders were entered since the load.
    ///
    /// Errors: what the store says.
    pub fn orders_entered(&self) -> Result<u64, BenchError> {
        let first = self.scale.customers + 1;
        let mut session = self.store.session()?;
        let entered = session.transact(TxKind::ReadOnly, |tx| {
            let mut entered = 0;
            for w in 1..=self.scale.warehouses {
                for d in 1..=DISTRICTS {
                    let next = read(tx, &self.tables.district, &key::district(w, d), |row| {
                        district::NEXT_O_ID.get(row)
                    })?;
                    entered += u64::from(next.saturating_sub(first));
                }
            }
            Ok(entered)
        })?;
        Ok(entered)
    }
}

impl Trace {
    fn is_there<T: Tx>(&self, tx: &mut T, tables: &Tables<T::Table>) -> Result<bool, TxError> {
        match *self {
            Self::Order { w, d, o, c, lines } => Ok(order(tx, tables, (w, d, o))?
                .is_some_and(|order| (order.c, order.lines) == (c, lines))
                && count_lines(tx, tables, (w, d, o))? == u32::from(lines)),
            Self::Payment { w, d, number, amount } => {
                let paid = tx.get(&tables.history.handle, &key::history(w, d, number), |row| {
                    row.len() >= history::FIXED && history::AMOUNT.get(row) == amount
                })?;
                Ok(paid == Some(true))
            }
            Self::Delivery { w, orders } => {
                for (d, o) in (1..=DISTRICTS).zip(orders).filter(|(_, o)| *o != 0) {
                    if order(tx, tables, (w, d, o))?.is_none_or(|order| order.carrier == 0) {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }
}

/// What is looked at of an ORDER row.
struct Order {
    c: u32,
    lines: u8,
    carrier: u8,
}

fn order<T: Tx>(
    tx: &mut T,
    tables: &Tables<T::Table>,
    (w, d, o): (u32, u8, u32),
) -> Result<Option<Order>, TxError> {
    let fields = |row: &[u8]| {
        (row.len() >= orders::FIXED).then(|| Order {
            c: orders::C_ID.get(row),
            lines: orders::OL_CNT.get(row),
            carrier: orders::CARRIER_ID.get(row),
        })
    };
    Ok(tx.get(&tables.orders.handle, &key::order(w, d, o), fields)?.flatten())
}

fn count_lines<T: Tx>(
    tx: &mut T,
    tables: &Tables<T::Table>,
    (w, d, o): (u32, u8, u32),
) -> Result<u32, TxError> {
    let (from, to) = (key::order_line(w, d, o, 0), key::order_line(w, d, o + 1, 0));
    let mut lines = 0;
    tx.scan(&tables.order_line.handle, &from, &to, false, |_, row| {
        lines += u32::from(row.len() >= order_line::FIXED);
        ControlFlow::Continue(())
    })?;
    Ok(lines)
}
