//! Fills the tables (clause 4.3.3.1). A warehouse is loaded by one thread, from random numbers of its own: the rows depend on
//! seed and scale only.

use crate::kv::{BenchError, Progress, Tell};
use crate::random::Random;
use crate::threads;
use crate::tpcc::generate::{
    LastName, last_name_number, number, push_alphanumeric, push_brand_data, push_digits,
};
use crate::tpcc::row::{self, customer, district, history, item, order_line, orders, stock, warehouse};
use crate::tpcc::schema::{DISTRICTS, Tables, key};
use crate::tpcc::{Scale, Tpcc};
use crate::tx_batch::Batch;
use crate::tx_store::{TxError, TxSession, TxStore};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The date of all that is loaded: 1993-01-01.
const LOAD_DATE: u64 = 725_846_400_000_000;

/// What each customer has paid before the load, in cents.
pub(crate) const FIRST_PAYMENT: i64 = 1_000;

impl<S: TxStore> Tpcc<'_, S> {
    /// Fills the empty tables (clause 4.3), warehouses by `threads` threads.
    ///
    /// Errors: what the store says; [`BenchError::Usage`] if the system does not start so many threads.
    pub fn load(&self, threads: usize, progress: Tell<'_>) -> Result<(), BenchError> {
        let (next, done, warehouses) = (AtomicU32::new(0), AtomicU64::new(0), self.scale.warehouses);
        let total = expected_rows(&self.scale);
        let tell = |rows: u64| {
            let done = (done.fetch_add(rows, Relaxed) + rows).min(total);
            progress(&Progress { phase: "load", done, total: Some(total) });
        };
        let work = |_| -> Result<(), TxError> {
            let mut session = self.store.session()?;
            loop {
                // Portion 0 is the items, portion w a warehouse.
                match next.fetch_add(1, Relaxed) {
                    0 => Loader::new(self, &mut session, 0, &tell).items()?,
                    w if w <= warehouses => Loader::new(self, &mut session, w, &tell).warehouse()?,
                    _ => return Ok(()),
                }
            }
        };
        let loaded = threads::run(threads.min(warehouses as usize + 1), work)?;
        Ok(loaded.into_iter().collect::<Result<(), TxError>>()?)
    }
}

/// Rows that will be loaded; of the lines only the average is known.
fn expected_rows(scale: &Scale) -> u64 {
    let customers = u64::from(scale.customers);
    let by_district = 1 + 3 * customers + 2 * customers + 10 * customers + u64::from(scale.new_orders());
    let by_warehouse = 1 + u64::from(scale.items) + u64::from(DISTRICTS) * by_district;
    u64::from(scale.items) + u64::from(scale.warehouses) * by_warehouse
}

/// Makes the rows of one warehouse, or the items.
struct Loader<'a, X: TxSession> {
    tables: &'a Tables<X::Table>,
    scale: Scale,
    last_name_c: u64,
    w: u32,
    random: Random,
    made: Vec<u8>,
    batch: Batch<'a, X>,
}

impl<'a, X: TxSession> Loader<'a, X> {
    fn new<S: TxStore<Table = X::Table>>(
        tpcc: &'a Tpcc<'_, S>,
        session: &'a mut X,
        w: u32,
        tell: &'a (dyn Fn(u64) + Sync),
    ) -> Self {
        Self {
            tables: &tpcc.tables,
            scale: tpcc.scale,
            last_name_c: tpcc.constants.last_name_load,
            w,
            random: Random::new(tpcc.seed.rotate_left(32), u64::from(w)),
            made: Vec::new(),
            batch: Batch::new(session, tell),
        }
    }

    fn items(mut self) -> Result<(), TxError> {
        for i in 1..=self.scale.items {
            row::begin(&mut self.made, item::FIXED);
            item::IM_ID.set(&mut self.made, number(&mut self.random, 1..=10_000) as u32);
            item::PRICE.set(&mut self.made, number(&mut self.random, 100..=10_000) as u32);
            self.push_letters(14..=24);
            push_brand_data(&mut self.random, &mut self.made);
            self.batch.add(&self.tables.item.handle, &key::item(i), &self.made)?;
        }
        self.batch.flush()
    }

    fn warehouse(mut self) -> Result<(), TxError> {
        let w = self.w;
        row::begin(&mut self.made, warehouse::FIXED);
        let paid = i64::from(DISTRICTS) * self.paid();
        warehouse::YTD.set(&mut self.made, paid);
        warehouse::TAX.set(&mut self.made, number(&mut self.random, 0..=2_000) as u16);
        self.push_name_and_address();
        self.batch.add(&self.tables.warehouse.handle, &key::warehouse(w), &self.made)?;
        self.stock()?;
        for d in 1..=DISTRICTS {
            self.district(d)?;
            self.customers(d)?;
            self.orders(d)?;
        }
        self.batch.flush()
    }

    /// What a district's customers have paid before the load.
    fn paid(&self) -> i64 {
        i64::from(self.scale.customers) * FIRST_PAYMENT
    }

    fn stock(&mut self) -> Result<(), TxError> {
        for i in 1..=self.scale.items {
            row::begin(&mut self.made, stock::FIXED);
            stock::QUANTITY.set(&mut self.made, number(&mut self.random, 10..=100) as i32);
            push_brand_data(&mut self.random, &mut self.made);
            push_alphanumeric(&mut self.random, stock::DISTS as u64..=stock::DISTS as u64, &mut self.made);
            self.batch.add(&self.tables.stock.handle, &key::stock(self.w, i), &self.made)?;
        }
        Ok(())
    }

    fn district(&mut self, d: u8) -> Result<(), TxError> {
        row::begin(&mut self.made, district::FIXED);
        district::NEXT_O_ID.set(&mut self.made, self.scale.customers + 1);
        let paid = self.paid();
        district::YTD.set(&mut self.made, paid);
        district::TAX.set(&mut self.made, number(&mut self.random, 0..=2_000) as u16);
        self.push_name_and_address();
        self.batch.add(&self.tables.district.handle, &key::district(self.w, d), &self.made)
    }

    fn customers(&mut self, d: u8) -> Result<(), TxError> {
        let (w, customers) = (self.w, self.scale.customers);
        let mut names = Vec::new();
        for c in 1..=customers {
            self.customer(c);
            let text = |number| row::text(&self.made, customer::FIXED, number);
            names.push(key::customer_name(w, d, text(customer::LAST), text(customer::FIRST), c));
            self.batch.add(&self.tables.customer.handle, &key::customer(w, d, c), &self.made)?;
        }
        names.sort_unstable();
        for name in &names {
            self.batch.add(&self.tables.customer_name.handle, name, &[])?;
        }
        for c in 1..=customers {
            self.first_payment(d, c);
            self.batch.add(&self.tables.history.handle, &key::history(w, d, u64::from(c)), &self.made)?;
        }
        Ok(())
    }

    fn customer(&mut self, c: u32) {
        let Self { random, made, .. } = self;
        row::begin(made, customer::FIXED);
        customer::BALANCE.set(made, -FIRST_PAYMENT);
        customer::YTD_PAYMENT.set(made, FIRST_PAYMENT);
        customer::PAYMENT_CNT.set(made, 1);
        customer::CREDIT_LIM.set(made, 5_000_000);
        customer::DISCOUNT.set(made, number(random, 0..=5_000) as u16);
        customer::SINCE.set(made, LOAD_DATE);
        customer::BAD_CREDIT.set(made, u8::from(random.below(10) == 0));
        self.push_letters(8..=16);
        row::push_text(&mut self.made, b"OE");
        let last = if c <= 1_000 {
            u64::from(c) - 1
        } else {
            last_name_number(&mut self.random, self.last_name_c, self.scale.customers)
        };
        row::push_text(&mut self.made, LastName::new(last).as_bytes());
        self.push_address();
        self.push_zip_text();
        self.made.push(16);
        push_digits(&mut self.random, 16, &mut self.made);
        push_alphanumeric(&mut self.random, 300..=500, &mut self.made);
    }

    /// The payment that each customer has made before the load.
    fn first_payment(&mut self, d: u8, c: u32) {
        let Self { random, made, w, .. } = self;
        row::begin(made, history::FIXED);
        history::C_ID.set(made, c);
        history::C_W_ID.set(made, *w);
        history::C_D_ID.set(made, d);
        history::DATE.set(made, LOAD_DATE);
        history::AMOUNT.set(made, FIRST_PAYMENT);
        push_alphanumeric(random, 12..=24, made);
    }

    fn orders(&mut self, d: u8) -> Result<(), TxError> {
        let (w, tables) = (self.w, self.tables);
        let count = self.scale.customers;
        let first_new = count - self.scale.new_orders() + 1;
        let customers = self.shuffled(count);
        let mut lines = Vec::new();
        for (o, &c) in (1..).zip(&customers) {
            row::begin(&mut self.made, orders::FIXED);
            let carrier = if o < first_new { number(&mut self.random, 1..=10) as u8 } else { 0 };
            orders::CARRIER_ID.set(&mut self.made, carrier);
            orders::C_ID.set(&mut self.made, c);
            orders::ENTRY_D.set(&mut self.made, LOAD_DATE);
            lines.push(number(&mut self.random, 5..=15) as u8);
            orders::OL_CNT.set(&mut self.made, lines[o as usize - 1]);
            orders::ALL_LOCAL.set(&mut self.made, 1);
            self.batch.add(&tables.orders.handle, &key::order(w, d, o), &self.made)?;
        }
        let mut by_customer: Vec<_> = (1..).zip(customers).map(|(o, c)| (c, o)).collect();
        by_customer.sort_unstable();
        for (c, o) in by_customer {
            self.batch.add(&tables.order_customer.handle, &key::order_customer(w, d, c, o), &[])?;
        }
        for (o, &count) in (1..).zip(&lines) {
            for line in 1..=count {
                self.order_line(o < first_new);
                self.batch.add(&tables.order_line.handle, &key::order_line(w, d, o, line), &self.made)?;
            }
        }
        for o in first_new..=count {
            self.batch.add(&tables.new_order.handle, &key::order(w, d, o), &[])?;
        }
        Ok(())
    }

    fn order_line(&mut self, is_delivered: bool) {
        let Self { random, made, w, scale, .. } = self;
        row::begin(made, order_line::FIXED);
        order_line::DELIVERY_D.set(made, if is_delivered { LOAD_DATE } else { 0 });
        order_line::I_ID.set(made, number(random, 1..=u64::from(scale.items)) as u32);
        order_line::SUPPLY_W_ID.set(made, *w);
        order_line::QUANTITY.set(made, 5);
        order_line::AMOUNT.set(made, if is_delivered { 0 } else { number(random, 1..=999_999) as u32 });
        push_alphanumeric(random, 24..=24, made);
    }

    /// The numbers `1..=count` in random order.
    fn shuffled(&mut self, count: u32) -> Vec<u32> {
        let mut numbers: Vec<_> = (1..=count).collect();
        for last in (1..numbers.len()).rev() {
            numbers.swap(last, self.random.below(last as u64 + 1) as usize);
        }
        numbers
    }

    /// Adds a text of letters and digits that is not the row's last.
    fn push_letters(&mut self, length: std::ops::RangeInclusive<u64>) {
        let at = self.made.len();
        self.made.push(0);
        push_alphanumeric(&mut self.random, length, &mut self.made);
        self.made[at] = (self.made.len() - at - 1) as u8;
    }

    fn push_name_and_address(&mut self) {
        self.push_letters(6..=10);
        self.push_address();
        self.push_zip();
    }

    /// Two streets, city, state.
    fn push_address(&mut self) {
        (0..3).for_each(|_| self.push_letters(10..=20));
        self.push_letters(2..=2);
    }

    fn push_zip(&mut self) {
        push_digits(&mut self.random, 4, &mut self.made);
        self.made.extend_from_slice(b"11111");
    }

    /// A zip code that is not the row's last text.
    fn push_zip_text(&mut self) {
        self.made.push(9);
        self.push_zip();
    }
}
