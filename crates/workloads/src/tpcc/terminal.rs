//! A terminal without a human: enters one transaction after the other.

use crate::StoreError;
use crate::kv::BenchError;
use crate::random::Random;
use crate::tpcc::access::Scratch;
use crate::tpcc::delivery::Delivery;
use crate::tpcc::generate::number;
use crate::tpcc::new_order::NewOrder;
use crate::tpcc::order_status::OrderStatus;
use crate::tpcc::payment::Payment;
use crate::tpcc::schema::DISTRICTS;
use crate::tpcc::stock_level::StockLevel;
use crate::tpcc::trace::Trace;
use crate::tpcc::{Dice, Mix, Scale, Tpcc};
use crate::tx_store::{TxError, TxKind, TxSession, TxStore};
use std::hint::black_box;
use std::time::{SystemTime, UNIX_EPOCH};

/// The transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Enters an order.
    NewOrder,
    /// Takes a customer's payment.
    Payment,
    /// Shows a customer's last order.
    OrderStatus,
    /// Delivers the oldest order of each district.
    Delivery,
    /// Counts a district's items that are running out.
    StockLevel,
}

impl Kind {
    fn choose(random: &mut Random, mix: Mix) -> Self {
        match mix {
            Mix::Payment => Self::Payment,
            Mix::NewOrder => Self::NewOrder,
            Mix::Full => match random.below(100) {
                0..45 => Self::NewOrder,
                45..88 => Self::Payment,
                88..92 => Self::OrderStatus,
                92..96 => Self::Delivery,
                _ => Self::StockLevel,
            },
        }
    }
}

/// A terminal's warehouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// Another one for each transaction, each as likely.
    Any,
    /// Always this one, `1..=warehouses`.
    Warehouse(u32),
}

impl Home {
    /// Threads are dealt out to the warehouses in turn.
    pub(crate) fn of_thread(thread: u64, scale: &Scale) -> Self {
        Self::Warehouse(1 + (thread % u64::from(scale.warehouses)) as u32)
    }
}

/// One thread's terminal.
pub struct Terminal<'a, S: TxStore + 'a> {
    tpcc: &'a Tpcc<'a, S>,
    session: S::Session<'a>,
    random: Random,
    home: Home,
    /// For Stock-Level, which keeps to one district.
    district: u8,
    mix: Mix,
    scratch: Scratch,
    history_number: u64,
    new_orders: u64,
}

impl<'a, S: TxStore> Terminal<'a, S> {
    pub(crate) fn new(tpcc: &'a Tpcc<'a, S>, stream: u64, home: Home, mix: Mix) -> Result<Self, StoreError> {
        const STREAM_SHIFT: u32 = 40;
        Ok(Self {
            tpcc,
            session: tpcc.store.session()?,
            random: Random::new(tpcc.seed, stream),
            home,
            district: 1 + (stream % u64::from(DISTRICTS)) as u8,
            mix,
            scratch: Scratch::default(),
            history_number: stream << STREAM_SHIFT,
            new_orders: 0,
        })
    }

    /// Enters the next transaction and runs it to its end; says which it was.
    ///
    /// Errors: [`BenchError::Wrong`] if it finds what cannot be; [`BenchError::Store`] if the store fails.
    pub fn step(&mut self) -> Result<Kind, BenchError> {
        Ok(self.step_traced()?.0)
    }

    /// As [`step`](Self::step), and says what the commit left behind: nothing if it only read, or rolled back because the
    /// standard asks for it.
    pub fn step_traced(&mut self) -> Result<(Kind, Option<Trace>), BenchError> {
        let kind = Kind::choose(&mut self.random, self.mix);
        let w = match self.home {
            Home::Warehouse(w) => w,
            Home::Any => number(&mut self.random, 1..=u64::from(self.tpcc.scale.warehouses)) as u32,
        };
        let trace = match kind {
            Kind::NewOrder => self.new_order(w)?,
            Kind::Payment => Some(self.payment(w)?),
            Kind::OrderStatus => self.order_status(w).map(|()| None)?,
            Kind::Delivery => Some(self.delivery(w)?),
            Kind::StockLevel => self.stock_level(w).map(|()| None)?,
        };
        Ok((kind, trace))
    }

    /// Transactions run again because they lost against another.
    pub fn aborts(&self) -> u64 {
        self.session.aborts()
    }

    /// New-Order transactions so far, those included that roll back because the standard asks for it.
    pub(crate) fn new_orders(&self) -> u64 {
        self.new_orders
    }

    fn dice(&mut self) -> Dice<'_> {
        Dice { random: &mut self.random, constants: &self.tpcc.constants, scale: &self.tpcc.scale }
    }

    fn new_order(&mut self, w: u32) -> Result<Option<Trace>, BenchError> {
        let input = NewOrder::new(&mut self.dice(), w, now());
        let Self { session, scratch, tpcc, .. } = self;
        let outcome = session.transact(TxKind::ReadWrite, |tx| input.run(tx, &tpcc.tables, scratch));
        self.new_orders += 1;
        match outcome {
            Ok(trace) if !input.rolls_back => Ok(Some(trace)),
            Err(TxError::Rollback) if input.rolls_back => Ok(None),
            Ok(_) => Err(BenchError::Wrong("an item that is not there was ordered".to_owned())),
            Err(error) => Err(error.into()),
        }
    }

    fn payment(&mut self, w: u32) -> Result<Trace, BenchError> {
        self.history_number += 1;
        let history_number = self.history_number;
        let input = Payment::new(&mut self.dice(), w, now(), history_number);
        let Self { session, scratch, tpcc, .. } = self;
        Ok(session.transact(TxKind::ReadWrite, |tx| input.run(tx, &tpcc.tables, scratch))?)
    }

    fn order_status(&mut self, w: u32) -> Result<(), BenchError> {
        let input = OrderStatus::new(&mut self.dice(), w);
        let Self { session, scratch, tpcc, .. } = self;
        Ok(session.transact(TxKind::ReadOnly, |tx| input.run(tx, &tpcc.tables, scratch))?)
    }

    fn delivery(&mut self, w: u32) -> Result<Trace, BenchError> {
        let input = Delivery::new(&mut self.dice(), w, now());
        let Self { session, scratch, tpcc, .. } = self;
        Ok(session.transact(TxKind::ReadWrite, |tx| input.run(tx, &tpcc.tables, scratch))?)
    }

    fn stock_level(&mut self, w: u32) -> Result<(), BenchError> {
        let district = self.district;
        let input = StockLevel::new(&mut self.dice(), w, district);
        let Self { session, scratch, tpcc, .. } = self;
        black_box(session.transact(TxKind::ReadOnly, |tx| input.run(tx, &tpcc.tables, scratch))?);
        Ok(())
    }
}

/// Microseconds since 1970; never 0, which is a date's null.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_micros() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_full_mix_has_its_shares() {
        let mut random = Random::new(1, 0);
        let mut counts = std::collections::HashMap::new();
        for _ in 0..100_000 {
            *counts.entry(Kind::choose(&mut random, Mix::Full)).or_insert(0u32) += 1;
        }
        for (kind, percent) in [
            (Kind::NewOrder, 45),
            (Kind::Payment, 43),
            (Kind::OrderStatus, 4),
            (Kind::Delivery, 4),
            (Kind::StockLevel, 4),
        ] {
            assert!(counts[&kind].abs_diff(percent * 1000) < 700, "{kind:?}: {counts:?}");
        }
    }
}
