//! Payment (clause 2.5): a customer pays at a district. Fifteen in a hundred customers live elsewhere; sixty give their last
//! name instead of a number.

use crate::tpcc::Dice;
use crate::tpcc::access::{Scratch, Who, customer_number, insert, modify};
use crate::tpcc::generate::number;
use crate::tpcc::new_order::other_warehouse;
use crate::tpcc::row::{self, customer, district, history, warehouse};
use crate::tpcc::schema::{DISTRICTS, Tables, key};
use crate::tpcc::trace::Trace;
use crate::tx_store::{Tx, TxError};
use foreshore_base::seeded_bug;
use std::io::Write;

/// What the terminal enters (clause 2.5.1).
#[derive(Clone, Debug)]
pub(crate) struct Payment {
    w: u32,
    d: u8,
    customer_w: u32,
    customer_d: u8,
    who: Who,
    amount: i64,
    date: u64,
    /// Names the HISTORY row; unique in a run.
    number: u64,
}

impl Payment {
    pub fn new(dice: &mut Dice<'_>, w: u32, date: u64, history_number: u64) -> Self {
        let random = &mut *dice.random;
        let d = number(random, 1..=u64::from(DISTRICTS)) as u8;
        let (customer_w, customer_d) = if random.below(100) < 15 {
            let customer_w = other_warehouse(random, dice.scale.warehouses, w);
            (customer_w, number(random, 1..=u64::from(DISTRICTS)) as u8)
        } else {
            (w, d)
        };
        let amount = number(random, 100..=500_000) as i64;
        Self { w, d, customer_w, customer_d, who: dice.who(), amount, date, number: history_number }
    }

    /// The transaction; returns what it leaves behind.
    pub fn run<T: Tx>(
        &self,
        tx: &mut T,
        tables: &Tables<T::Table>,
        scratch: &mut Scratch,
    ) -> Result<Trace, TxError> {
        let Self { w, d, amount, .. } = *self;
        let Scratch { row, made, numbers } = scratch;
        let home = (self.customer_w, self.customer_d);
        let c = customer_number(tx, tables, home, self.who, numbers)?;
        modify(tx, &tables.customer, &key::customer(home.0, home.1, c), row, |row| self.pay(c, row))?;
        row::begin(made, history::FIXED);
        modify(tx, &tables.district, &key::district(w, d), row, |row| {
            if !seeded_bug("tpcc_payment_forgets_district") {
                district::YTD.add(row, amount);
            }
            made.extend_from_slice(b"    ");
            made.extend_from_slice(row::text(row, district::FIXED, district::NAME));
        })?;
        modify(tx, &tables.warehouse, &key::warehouse(w), row, |row| {
            warehouse::YTD.add(row, amount);
            let name = row::text(row, warehouse::FIXED, warehouse::NAME);
            made.splice(history::FIXED..history::FIXED, name.iter().copied());
        })?;
        history::C_ID.set(made, c);
        history::C_W_ID.set(made, self.customer_w);
        history::C_D_ID.set(made, self.customer_d);
        history::DATE.set(made, self.date);
        history::AMOUNT.set(made, amount);
        insert(tx, &tables.history, &key::history(w, d, self.number), made)?;
        Ok(Trace::Payment { w, d, number: self.number, amount })
    }

    /// Changes the customer's row.
    fn pay(&self, c: u32, row: &mut Vec<u8>) {
        customer::BALANCE.add(row, -self.amount);
        customer::YTD_PAYMENT.add(row, self.amount);
        customer::PAYMENT_CNT.add(row, 1);
        if customer::BAD_CREDIT.get(row) == 1 {
            self.note(c, row);
        }
    }

    /// Who pays with bad credit has the payment written before the data, whose end is lost if it grows too long.
    fn note(&self, c: u32, row: &mut Vec<u8>) {
        let mut note = [0; 64];
        let room = note.len();
        let mut rest = &mut note[..];
        let Self { w, d, customer_w, customer_d, amount, .. } = self;
        let cents = amount % 100;
        write!(rest, "{c} {customer_d} {customer_w} {d} {w} {}.{cents:02} ", amount / 100)
            .expect("six numbers fit in 64 bytes");
        let written = room - rest.len();
        let at = row::text_start(row, customer::FIXED, customer::DATA);
        row.splice(at..at, note[..written].iter().copied());
        row.truncate(at + customer::DATA_BYTES_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_pushes_the_data_back_and_keeps_its_limit() {
        let mut row = Vec::new();
        row::begin(&mut row, customer::FIXED);
        customer::BAD_CREDIT.set(&mut row, 1);
        (0..customer::DATA).for_each(|_| row::push_text(&mut row, b"text"));
        let at = row.len();
        row.extend_from_slice(&[b'x'; 490]);
        let payment = Payment {
            w: 1,
            d: 2,
            customer_w: 3,
            customer_d: 4,
            who: Who::Number(5),
            amount: 12_345,
            date: 0,
            number: 0,
        };
        payment.pay(5, &mut row);
        assert!(row[at..].starts_with(b"5 4 3 2 1 123.45 xxx"), "{:?}", String::from_utf8_lossy(&row[at..]));
        assert_eq!(row.len() - at, customer::DATA_BYTES_MAX);
        assert_eq!(customer::BALANCE.get(&row), -12_345);
        let longest =
            Payment { w: u32::MAX, customer_w: u32::MAX, amount: 500_000, d: 10, customer_d: 10, ..payment };
        longest.pay(u32::MAX, &mut row);
    }
}
