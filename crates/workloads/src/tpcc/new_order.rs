//! New-Order (clause 2.4): enters an order of 5 to 15 lines. One in a hundred names an item that is not there, and is
//! rolled back.

use crate::random::Random;
use crate::tpcc::access::{Scratch, insert, insert_each, modify, modify_each, read, read_each};
use crate::tpcc::generate::{Constants, ORIGINAL, customer_number, item_number, number};
use crate::tpcc::row::{self, customer, district, item, order_line, orders, stock, warehouse};
use crate::tpcc::schema::{DISTRICTS, Tables, key};
use crate::tpcc::trace::Trace;
use crate::tpcc::{Dice, Scale};
use crate::tx_store::{Tx, TxError};
use foreshore_base::seeded_bug;
use std::hint::black_box;

/// Lines of the longest order.
pub(crate) const LINES_MAX: usize = 15;

/// What the terminal enters (clause 2.4.1).
#[derive(Clone, Debug)]
pub(crate) struct NewOrder {
    pub w: u32,
    pub d: u8,
    c: u32,
    date: u64,
    lines: [Line; LINES_MAX],
    line_count: usize,
    /// The last item is not there: the transaction must roll back.
    pub rolls_back: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Line {
    item: u32,
    supply_w: u32,
    quantity: u8,
}

/// What is read for a line.
#[derive(Clone, Copy, Default)]
struct Supply {
    price: u32,
    is_brand: bool,
    dist: [u8; stock::DIST],
}

impl NewOrder {
    pub fn new(dice: &mut Dice<'_>, w: u32, date: u64) -> Self {
        let Dice { random, constants, scale } = dice;
        let mut input = Self {
            w,
            d: number(random, 1..=u64::from(DISTRICTS)) as u8,
            c: customer_number(random, constants, scale.customers),
            date,
            lines: Default::default(),
            line_count: number(random, 5..=LINES_MAX as u64) as usize,
            rolls_back: random.below(100) == 0,
        };
        for line in &mut input.lines[..input.line_count] {
            *line = Line::new(random, constants, scale, w);
        }
        if input.rolls_back {
            input.lines[input.line_count - 1].item = scale.items + 1;
        }
        input
    }

    /// The transaction; returns what it leaves behind.
    ///
    /// Errors: [`TxError::Rollback`] when an item is not there.
    pub fn run<T: Tx>(
        &self,
        tx: &mut T,
        tables: &Tables<T::Table>,
        scratch: &mut Scratch,
    ) -> Result<Trace, TxError> {
        let Self { w, d, c, .. } = *self;
        let customer = key::customer(w, d, c);
        let discount = read(tx, &tables.customer, &customer, |row| {
            // The terminal shows last name and credit status too.
            black_box((row::text(row, customer::FIXED, customer::LAST), customer::BAD_CREDIT.get(row)));
            customer::DISCOUNT.get(row)
        })?;
        let mut supplies = [Supply::default(); LINES_MAX];
        self.read_items(tx, tables, &mut supplies)?;
        self.take_from_stock(tx, tables, &mut supplies)?;
        let (o, d_tax) = modify(tx, &tables.district, &key::district(w, d), &mut scratch.row, |row| {
            (district::NEXT_O_ID.add(row, 1), district::TAX.get(row))
        })?;
        self.insert_order(tx, tables, o, &mut scratch.made)?;
        let sum = self.insert_lines(tx, tables, o, &supplies)?;
        let w_tax = read(tx, &tables.warehouse, &key::warehouse(w), |row| warehouse::TAX.get(row))?;
        if self.rolls_back {
            return Err(self.miss(tx, tables)?);
        }
        let (tax, discount) = (i64::from(w_tax) + i64::from(d_tax), i64::from(discount));
        // What the order costs, in cents; the terminal shows it.
        black_box(sum * (10_000 - discount) / 10_000 * (10_000 + tax) / 10_000);
        Ok(Trace::Order { w, d, o, c, lines: self.line_count as u8 })
    }

    fn insert_order<T: Tx>(
        &self,
        tx: &mut T,
        tables: &Tables<T::Table>,
        o: u32,
        made: &mut Vec<u8>,
    ) -> Result<(), TxError> {
        let Self { w, d, c, .. } = *self;
        row::begin(made, orders::FIXED);
        orders::C_ID.set(made, c);
        orders::ENTRY_D.set(made, self.date);
        orders::OL_CNT.set(made, self.line_count as u8);
        let is_local = self.lines[..self.line_count].iter().all(|line| line.supply_w == w);
        orders::ALL_LOCAL.set(made, u8::from(is_local));
        insert(tx, &tables.orders, &key::order(w, d, o), made)?;
        insert(tx, &tables.new_order, &key::order(w, d, o), &[])?;
        insert(tx, &tables.order_customer, &key::order_customer(w, d, c, o), &[])
    }

    /// The lines whose items there are.
    fn lines_there(&self) -> &[Line] {
        &self.lines[..self.line_count - usize::from(self.rolls_back)]
    }

    fn read_items<T: Tx>(
        &self,
        tx: &mut T,
        tables: &Tables<T::Table>,
        supplies: &mut [Supply],
    ) -> Result<(), TxError> {
        let keys = self.lines.map(|line| key::item(line.item));
        let mut supplies = supplies.iter_mut();
        read_each(tx, &tables.item, &keys[..self.lines_there().len()], |row| {
            let supply = supplies.next().expect("one for each line");
            (supply.price, supply.is_brand) = (item::PRICE.get(row), is_original(item::data(row)));
        })
    }

    fn take_from_stock<T: Tx>(
        &self,
        tx: &mut T,
        tables: &Tables<T::Table>,
        supplies: &mut [Supply],
    ) -> Result<(), TxError> {
        let keys = self.lines.map(|line| key::stock(line.supply_w, line.item));
        let mut lines = self.lines_there().iter().zip(supplies);
        modify_each(tx, &tables.stock, &keys[..self.lines_there().len()], |row| {
            let (line, supply) = lines.next().expect("one for each line");
            self.take(line, row);
            supply.dist.copy_from_slice(stock::dist(row, self.d));
            // "B" or "G" on the terminal's screen.
            black_box(supply.is_brand && is_original(stock::data(row)));
        })
    }

    /// Returns the sum of the lines' amounts.
    fn insert_lines<T: Tx>(
        &self,
        tx: &mut T,
        tables: &Tables<T::Table>,
        o: u32,
        supplies: &[Supply],
    ) -> Result<i64, TxError> {
        let Self { w, d, .. } = *self;
        let mut rows = [([0; _], [0; order_line::FIXED + stock::DIST]); LINES_MAX];
        let lines = self.lines_there();
        for (((key, row), (line, supply)), at) in rows.iter_mut().zip(lines.iter().zip(supplies)).zip(1..) {
            *key = key::order_line(w, d, o, at);
            order_line::I_ID.set(row, line.item);
            order_line::SUPPLY_W_ID.set(row, line.supply_w);
            order_line::QUANTITY.set(row, line.quantity);
            order_line::AMOUNT.set(row, line.amount(supply));
            row[order_line::FIXED..].copy_from_slice(&supply.dist);
        }
        insert_each(tx, &tables.order_line, &rows[..lines.len()])?;
        Ok(lines.iter().zip(supplies).map(|(line, supply)| i64::from(line.amount(supply))).sum())
    }

    /// Looks for the item that is not there (clause 2.4.2.3: after all else was done); why the transaction ends.
    fn miss<T: Tx>(&self, tx: &mut T, tables: &Tables<T::Table>) -> Result<TxError, TxError> {
        let key = key::item(self.lines[self.line_count - 1].item);
        let found = tx.get(&tables.item.handle, &key, |_| ())?;
        Ok(match found {
            None => TxError::Rollback,
            Some(()) => TxError::Wrong(format!("item {key:02x?} is there")),
        })
    }

    /// Takes a line's quantity from its stock row.
    fn take(&self, line: &Line, row: &mut [u8]) {
        let (left, taken) = (stock::QUANTITY.get(row), i32::from(line.quantity));
        stock::QUANTITY.set(row, if left >= taken + 10 { left - taken } else { left - taken + 91 });
        if !seeded_bug("tpcc_new_order_forgets_stock") {
            stock::YTD.add(row, u32::from(line.quantity));
        }
        stock::ORDER_CNT.add(row, 1);
        let is_remote = line.supply_w != self.w;
        stock::REMOTE_CNT.add(row, u32::from(is_remote));
    }
}

impl Line {
    /// One line in a hundred is supplied by another warehouse, if there is one.
    fn new(random: &mut Random, constants: &Constants, scale: &Scale, w: u32) -> Self {
        let is_remote = random.below(100) == 0;
        Self {
            item: item_number(random, constants, scale.items),
            supply_w: if is_remote { other_warehouse(random, scale.warehouses, w) } else { w },
            quantity: number(random, 1..=10) as u8,
        }
    }

    /// What the line costs.
    fn amount(&self, supply: &Supply) -> u32 {
        u32::from(self.quantity) * supply.price
    }
}

/// Is it one of the tenth of data that says so?
fn is_original(data: &[u8]) -> bool {
    data.windows(ORIGINAL.len()).any(|window| window == ORIGINAL)
}

/// A uniformly chosen warehouse that is not `w`, if there is one.
pub(crate) fn other_warehouse(random: &mut Random, warehouses: u32, w: u32) -> u32 {
    if warehouses == 1 {
        return w;
    }
    let other = number(random, 1..=u64::from(warehouses) - 1) as u32;
    other + u32::from(other >= w)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_warehouse_is_any_but_the_home() {
        let mut random = Random::new(1, 0);
        assert_eq!(other_warehouse(&mut random, 1, 1), 1);
        let mut seen = [0; 6];
        for _ in 0..10_000 {
            seen[other_warehouse(&mut random, 5, 3) as usize] += 1;
        }
        assert_eq!((seen[0], seen[3]), (0, 0));
        assert!([1, 2, 4, 5].iter().all(|&w| (2_200..2_800).contains(&seen[w])), "{seen:?}");
    }
}
