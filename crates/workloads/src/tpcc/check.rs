//! The consistency conditions (clause 3.3.2), and six of our own about what the standard's database does not have; after a
//! measured run also whether all is there that was acknowledged.
//!
//! All is read in one read-only transaction, so the conditions can be checked while terminals are at work. HISTORY is added
//! up first, since customers pay at foreign districts; then district follows district; stocks come last, since orders take
//! from foreign ones.

use crate::kv::{BenchError, Progress, Tell};
use crate::tpcc::access::read;
use crate::tpcc::acknowledged::{Acknowledged, Done};
use crate::tpcc::load::FIRST_PAYMENT;
use crate::tpcc::row::{self, customer, district, history, item, order_line, orders, stock, warehouse};
use crate::tpcc::schema::{DISTRICTS, Table, Tables, key};
use crate::tpcc::{Scale, Tpcc};
use crate::tx_store::{KEYS_END, Tx, TxError, TxKind, TxSession, TxStore};
use std::fmt::Display;
use std::ops::ControlFlow;

impl<S: TxStore> Tpcc<'_, S> {
    /// Checks the consistency conditions in one read-only transaction; transactions may run meanwhile.
    ///
    /// These are the conditions of clause 3.3.2, number 11 in the form that deliveries keep, and that stocks, prices, counts of payments and the two
    /// indexes agree with the rows they are about.
    ///
    /// Errors: [`BenchError::Wrong`] names the condition that does not hold, and where.
    pub fn check(&self, progress: Tell<'_>) -> Result<(), BenchError> {
        self.check_with(None, progress)
    }

    /// As [`check`](Self::check), and all is there that was acknowledged, and no more. No transaction may run meanwhile, nor
    /// have ended so that nobody knows whether it was committed.
    pub(crate) fn check_acknowledged(
        &self,
        acknowledged: &Acknowledged,
        progress: Tell<'_>,
    ) -> Result<(), BenchError> {
        self.check_with(Some(acknowledged), progress)
    }

    fn check_with(&self, acknowledged: Option<&Acknowledged>, progress: Tell<'_>) -> Result<(), BenchError> {
        let Tpcc { tables, scale, .. } = self;
        let districts = u64::from(scale.warehouses) * u64::from(DISTRICTS);
        let tell = |done| progress(&Progress { phase: "check", done, total: Some(districts) });
        let mut session = self.store.session()?;
        Ok(session.transact(TxKind::ReadOnly, |tx| Check { tx, tables, scale, acknowledged }.all(&tell))?)
    }
}

/// Condition `$number` must hold; else say where, what and what it should be.
macro_rules! ensure_equal {
    ($condition:expr, $place:expr, $left:expr, $right:expr) => {
        let (left, right) = ($left, $right);
        if left != right {
            return Err(broken($condition, &$place, &format!("{left:?}, but {right:?}")));
        }
    };
}

#[cold]
fn broken(condition: &str, place: &dyn Display, what: &str) -> TxError {
    TxError::Wrong(format!("TPC-C {condition} does not hold: {place}: {what}"))
}

const CONDITION_1: &str = "consistency condition 1 (W_YTD = sum D_YTD)";
const CONDITION_2: &str = "consistency condition 2 (D_NEXT_O_ID - 1 = max O_ID = max NO_O_ID)";
const CONDITION_3: &str = "consistency condition 3 (max NO_O_ID - min NO_O_ID + 1 = rows of NEW-ORDER)";
const CONDITION_4: &str = "consistency condition 4 (sum O_OL_CNT = rows of ORDER-LINE)";
const CONDITION_5: &str = "consistency condition 5 (no carrier: in NEW-ORDER)";
const CONDITION_6: &str = "consistency condition 6 (O_OL_CNT = lines of the order)";
const CONDITION_7: &str = "consistency condition 7 (no delivery date: no carrier)";
const CONDITION_8: &str = "consistency condition 8 (W_YTD = sum H_AMOUNT)";
const CONDITION_9: &str = "consistency condition 9 (D_YTD = sum H_AMOUNT)";
const CONDITION_10: &str = "consistency condition 10 (C_BALANCE = sum delivered OL_AMOUNT - sum H_AMOUNT)";
const CONDITION_11: &str = "consistency condition 11 (rows of ORDER - rows of NEW-ORDER = delivered orders)";
const CONDITION_12: &str = "consistency condition 12 (C_BALANCE + C_YTD_PAYMENT = sum delivered OL_AMOUNT)";
const NAMES: &str = "index of customers by name";
const LAST_ORDERS: &str = "index of orders by customer";
const STOCKS: &str = "stock condition (S_YTD, S_ORDER_CNT, S_REMOTE_CNT = what was ordered since the load)";
const QUANTITIES: &str = "quantity condition (S_QUANTITY is 10 to 100: what is left, or refilled)";
const PAYMENTS: &str = "payment condition (C_PAYMENT_CNT = rows of HISTORY)";
const PRICES: &str = "price condition (OL_AMOUNT = OL_QUANTITY * I_PRICE of what was ordered since the load)";
const SIZES: &str = "cardinality of tables that never grow";
const COMMITS: &str = "count of commits (what was done since the load = what was acknowledged)";

/// A check under way.
struct Check<'a, T: Tx> {
    tx: &'a mut T,
    tables: &'a Tables<T::Table>,
    scale: &'a Scale,
    acknowledged: Option<&'a Acknowledged>,
}

/// Sums over HISTORY, in cents.
struct Payments {
    by_district: Vec<Paid>,
    by_customer: Vec<Paid>,
}

/// What was paid at a district, or by a customer.
#[derive(Clone, Copy, Default)]
struct Paid {
    rows: u64,
    cents: i64,
}

/// What lines ordered since the load took from a stock: quantity, lines, lines ordered elsewhere.
type Taken = [u32; 3];

/// What there is to be ordered.
struct Goods {
    /// Prices of the items.
    prices: Vec<u32>,
    /// What was taken of each item, warehouse after warehouse.
    taken: Vec<Taken>,
}

/// Everything about a district that more than one condition needs.
struct District {
    w: u32,
    d: u8,
    next_o_id: u32,
    ytd: i64,
    /// Order `o` at place `o - 1`.
    orders: Vec<Order>,
    /// Numbers of the undelivered orders, ascending.
    new_orders: Vec<u32>,
    lines: u64,
}

/// An order and its lines.
#[derive(Clone, Default)]
struct Order {
    exists: bool,
    c: u32,
    carrier: u8,
    line_count: u8,
    lines: u64,
    undelivered_lines: u64,
    delivered_amount: i64,
}

impl District {
    fn place(&self) -> String {
        format!("warehouse {}, district {}", self.w, self.d)
    }

    /// The orders with their numbers.
    fn orders(&self) -> impl Iterator<Item = (u32, &Order)> {
        (1..).zip(&self.orders).filter(|(_, order)| order.exists)
    }
}

impl<T: Tx> Check<'_, T> {
    fn all(mut self, tell: &dyn Fn(u64)) -> Result<(), TxError> {
        let prices = self.prices()?;
        let payments = self.payments()?;
        let taken = vec![Taken::default(); self.scale.warehouses as usize * prices.len()];
        let mut goods = Goods { prices, taken };
        let mut done = 0;
        for w in 1..=self.scale.warehouses {
            let mut ytd = 0;
            for d in 1..=DISTRICTS {
                let district = self.district(w, d, &mut goods)?;
                condition_2(&district)?;
                condition_3(&district)?;
                condition_4(&district)?;
                condition_5(&district)?;
                conditions_6_and_7(&district)?;
                ensure_equal!(CONDITION_9, district.place(), district.ytd, payments.district(w, d).cents);
                self.conditions_10_to_12(&district, &payments)?;
                self.names(w, d)?;
                self.last_orders(&district)?;
                if let Some(acknowledged) = self.acknowledged {
                    let done = done_in(&district, payments.district(w, d).rows, self.scale);
                    ensure_equal!(COMMITS, district.place(), done, acknowledged.district(w, d));
                }
                ytd += district.ytd;
                done += 1;
                tell(done);
            }
            let w_ytd =
                read(self.tx, &self.tables.warehouse, &key::warehouse(w), |row| warehouse::YTD.get(row))?;
            let paid: i64 = (1..=DISTRICTS).map(|d| payments.district(w, d).cents).sum();
            ensure_equal!(CONDITION_1, format!("warehouse {w}"), w_ytd, ytd);
            ensure_equal!(CONDITION_8, format!("warehouse {w}"), w_ytd, paid);
        }
        let of_warehouses = goods.taken.chunks(goods.prices.len());
        (1..).zip(of_warehouses).try_for_each(|(w, taken)| self.stocks(w, taken))
    }

    fn prices(&mut self) -> Result<Vec<u32>, TxError> {
        let mut prices = Vec::new();
        self.each(&self.tables.item, &[], KEYS_END, |_, row| {
            prices.push(item::PRICE.get(row));
            Ok(())
        })?;
        ensure_equal!(SIZES, "ITEM", prices.len(), self.scale.items as usize);
        Ok(prices)
    }

    fn payments(&mut self) -> Result<Payments, TxError> {
        let scale = *self.scale;
        let districts = scale.warehouses as usize * usize::from(DISTRICTS);
        let mut by_district = vec![Paid::default(); districts];
        let mut by_customer = vec![Paid::default(); districts * scale.customers as usize];
        self.each(&self.tables.history, &[], KEYS_END, |key, row| {
            let (w, d) = (key::number(key, 0), key.get(4).copied().unwrap_or(0));
            let (customer_w, customer_d) = (history::C_W_ID.get(row), history::C_D_ID.get(row));
            let c = history::C_ID.get(row);
            let amount = history::AMOUNT.get(row);
            let at = place_of_district(&scale, w, d).and_then(|at| by_district.get_mut(at));
            let of =
                place_of_customer(&scale, customer_w, customer_d, c).and_then(|at| by_customer.get_mut(at));
            let (Some(at), Some(of)) = (at, of) else {
                let what = format!("customer {customer_w}/{customer_d}/{c} pays at {w}/{d}");
                return Err(broken(CONDITION_9, &"HISTORY", &what));
            };
            for paid in [at, of] {
                paid.rows += 1;
                paid.cents += amount;
            }
            Ok(())
        })?;
        Ok(Payments { by_district, by_customer })
    }

    /// Gathers orders, lines and undelivered orders.
    fn district(&mut self, w: u32, d: u8, goods: &mut Goods) -> Result<District, TxError> {
        let (next_o_id, ytd) = read(self.tx, &self.tables.district, &key::district(w, d), |row| {
            (district::NEXT_O_ID.get(row), district::YTD.get(row))
        })?;
        let orders = self.district_orders((w, d, next_o_id))?;
        let mut district = District { w, d, next_o_id, ytd, orders, new_orders: Vec::new(), lines: 0 };
        self.district_lines(&mut district, goods)?;
        let (from, to) = (key::order(w, d, 0), key::order(w, d + 1, 0));
        self.each(&self.tables.new_order, &from, &to, |key, _| {
            district.new_orders.push(key::number(key, 5));
            Ok(())
        })?;
        Ok(district)
    }

    fn district_orders(&mut self, (w, d, next_o_id): (u32, u8, u32)) -> Result<Vec<Order>, TxError> {
        let mut all = vec![Order::default(); next_o_id.saturating_sub(1) as usize];
        let (from, to) = (key::order(w, d, 0), key::order(w, d + 1, 0));
        self.each(&self.tables.orders, &from, &to, |key, row| {
            let o = key::number(key, 5);
            let Some(order) = (o as usize).checked_sub(1).and_then(|at| all.get_mut(at)) else {
                let what = format!("order {o}, but D_NEXT_O_ID is {next_o_id}");
                return Err(broken(CONDITION_2, &format!("warehouse {w}, district {d}"), &what));
            };
            order.exists = true;
            order.c = orders::C_ID.get(row);
            order.carrier = orders::CARRIER_ID.get(row);
            order.line_count = orders::OL_CNT.get(row);
            Ok(())
        })?;
        Ok(all)
    }

    fn district_lines(&mut self, district: &mut District, goods: &mut Goods) -> Result<(), TxError> {
        let District { w, d, .. } = *district;
        let loaded_orders = self.scale.customers;
        let (from, to) = (key::order_line(w, d, 0, 0), key::order_line(w, d + 1, 0, 0));
        self.each(&self.tables.order_line, &from, &to, |key, row| {
            let o = key::number(key, 5);
            let order = (o as usize).checked_sub(1).and_then(|at| district.orders.get_mut(at));
            let Some(order) = order.filter(|order| order.exists) else {
                let place = format!("warehouse {w}, district {d}");
                return Err(broken(
                    CONDITION_6,
                    &place,
                    &format!("a line of order {o}, which does not exist"),
                ));
            };
            district.lines += 1;
            order.lines += 1;
            match order_line::DELIVERY_D.get(row) {
                0 => order.undelivered_lines += 1,
                _ => order.delivered_amount += i64::from(order_line::AMOUNT.get(row)),
            }
            if o > loaded_orders {
                take(goods, w, row).map_err(|(condition, what)| {
                    broken(condition, &format!("warehouse {w}, district {d}, order {o}"), &what)
                })?;
            }
            Ok(())
        })
    }

    /// Customer by customer: 10 and 12; their deliveries together: 11.
    fn conditions_10_to_12(&mut self, district: &District, payments: &Payments) -> Result<(), TxError> {
        let District { w, d, .. } = *district;
        let mut delivered = vec![0; self.scale.customers as usize];
        for (o, order) in district.orders() {
            let Some(sum) = (order.c as usize).checked_sub(1).and_then(|at| delivered.get_mut(at)) else {
                return Err(broken(
                    CONDITION_10,
                    &district.place(),
                    &format!("order {o} of customer {}", order.c),
                ));
            };
            *sum += order.delivered_amount;
        }
        let scale = *self.scale;
        let (mut customers, mut deliveries) = (0, 0);
        let (from, to) = (key::customer(w, d, 0), key::customer(w, d + 1, 0));
        self.each(&self.tables.customer, &from, &to, |key, row| {
            let c = key::number(key, 5);
            let place = format!("warehouse {w}, district {d}, customer {c}");
            let Some(at) = place_of_customer(&scale, w, d, c) else {
                return Err(broken(SIZES, &place, "no such customer was loaded"));
            };
            let (balance, ytd) = (customer::BALANCE.get(row), customer::YTD_PAYMENT.get(row));
            let delivered = delivered[c as usize - 1];
            let paid = payments.by_customer[at];
            ensure_equal!(CONDITION_10, place, balance, delivered - paid.cents);
            ensure_equal!(PAYMENTS, place, u64::from(customer::PAYMENT_CNT.get(row)), paid.rows);
            ensure_equal!(CONDITION_12, place, balance + ytd, delivered);
            customers += 1;
            deliveries += u64::from(customer::DELIVERY_CNT.get(row));
            Ok(())
        })?;
        ensure_equal!(SIZES, district.place() + ", CUSTOMER", customers, scale.customers);
        let loaded = u64::from(scale.customers - scale.new_orders());
        let (all, new) = (district.orders().count() as u64, district.new_orders.len() as u64);
        ensure_equal!(CONDITION_11, district.place(), all, new + loaded + deliveries);
        Ok(())
    }

    /// Every customer is found by name, and nobody else.
    fn names(&mut self, w: u32, d: u8) -> Result<(), TxError> {
        let (from, to) = (key::district(w, d), key::district(w, d + 1));
        let mut names = Vec::new();
        self.each(&self.tables.customer_name, &from, &to, |name, _| {
            names.push(name.to_vec());
            Ok(())
        })?;
        let mut customers = Vec::new();
        let (from, to) = (key::customer(w, d, 0), key::customer(w, d + 1, 0));
        self.each(&self.tables.customer, &from, &to, |key, row| {
            let text = |number| row::text(row, customer::FIXED, number);
            let c = key::number(key, 5);
            customers.push(key::customer_name(w, d, text(customer::LAST), text(customer::FIRST), c).to_vec());
            Ok(())
        })?;
        customers.sort_unstable();
        let odd = names.iter().zip(&customers).find(|(name, customer)| name != customer);
        ensure_equal!(NAMES, format!("warehouse {w}, district {d}"), odd, None);
        ensure_equal!(NAMES, format!("warehouse {w}, district {d}"), names.len(), customers.len());
        Ok(())
    }

    /// Every order is found by its customer, and nothing else.
    fn last_orders(&mut self, district: &District) -> Result<(), TxError> {
        let District { w, d, .. } = *district;
        let mut entries = 0;
        let (from, to) = (key::order_customer(w, d, 0, 0), key::order_customer(w, d + 1, 0, 0));
        self.each(&self.tables.order_customer, &from, &to, |key, _| {
            let (c, o) = (key::number(key, 5), key::number(key, 9));
            let order = (o as usize).checked_sub(1).and_then(|at| district.orders.get(at));
            if !order.is_some_and(|order| order.exists && order.c == c) {
                return Err(broken(LAST_ORDERS, &district.place(), &format!("order {o} of customer {c}")));
            }
            entries += 1;
            Ok(())
        })?;
        ensure_equal!(LAST_ORDERS, district.place(), entries, district.orders().count());
        Ok(())
    }

    fn stocks(&mut self, w: u32, taken: &[Taken]) -> Result<(), TxError> {
        let mut items = 0;
        self.each(&self.tables.stock, &key::stock(w, 0), &key::stock(w + 1, 0), |key, row| {
            let counts = [stock::YTD.get(row), stock::ORDER_CNT.get(row), stock::REMOTE_CNT.get(row)];
            let i = key::number(key, 4);
            let expected = (i as usize).checked_sub(1).and_then(|at| taken.get(at));
            let place = format!("warehouse {w}, item {i}");
            ensure_equal!(STOCKS, place, Some(&counts), expected);
            let quantity = stock::QUANTITY.get(row);
            if !(10..=100).contains(&quantity) {
                return Err(broken(QUANTITIES, &place, &quantity.to_string()));
            }
            items += 1;
            Ok(())
        })?;
        ensure_equal!(SIZES, format!("warehouse {w}, STOCK"), items, self.scale.items);
        Ok(())
    }

    /// Shows the rows of `from..to` to `each`, until it fails. Each comes once, in the order of the keys.
    fn each(
        &mut self,
        table: &Table<T::Table>,
        from: &[u8],
        to: &[u8],
        mut each: impl FnMut(&[u8], &[u8]) -> Result<(), TxError>,
    ) -> Result<(), TxError> {
        let mut outcome = Ok(());
        let mut last: Option<Vec<u8>> = None;
        self.tx.scan(&table.handle, from, to, false, |key, row| {
            outcome = if row.len() < table.row_bytes_min {
                Err(TxError::Wrong(format!("{} {key:02x?} has only {} bytes", table.name, row.len())))
            } else if last.as_ref().is_some_and(|last| key <= last.as_slice()) {
                Err(TxError::Wrong(format!("a scan of {} finds {key:02x?} after {last:02x?}", table.name)))
            } else {
                each(key, row)
            };
            let last = last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(key);
            if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        outcome
    }
}

fn condition_2(district: &District) -> Result<(), TxError> {
    let last = district.next_o_id.saturating_sub(1);
    let max = district.orders().map(|(o, _)| o).max();
    ensure_equal!(CONDITION_2, district.place(), Some(last), max);
    if let Some(&max) = district.new_orders.last() {
        ensure_equal!(CONDITION_2, district.place(), last, max);
    }
    Ok(())
}

fn condition_3(district: &District) -> Result<(), TxError> {
    let new = &district.new_orders;
    if let (Some(&min), Some(&max)) = (new.first(), new.last()) {
        ensure_equal!(CONDITION_3, district.place(), u64::from(max - min) + 1, new.len() as u64);
    }
    Ok(())
}

fn condition_4(district: &District) -> Result<(), TxError> {
    let sum: u64 = district.orders().map(|(_, order)| u64::from(order.line_count)).sum();
    ensure_equal!(CONDITION_4, district.place(), sum, district.lines);
    Ok(())
}

fn condition_5(district: &District) -> Result<(), TxError> {
    let mut new_orders = district.new_orders.iter();
    let without_carrier = district.orders().filter(|(_, order)| order.carrier == 0).map(|(o, _)| o);
    for o in without_carrier {
        ensure_equal!(CONDITION_5, district.place(), Some(o), new_orders.next().copied());
    }
    ensure_equal!(CONDITION_5, district.place(), None, new_orders.next());
    Ok(())
}

fn conditions_6_and_7(district: &District) -> Result<(), TxError> {
    for (o, order) in district.orders() {
        let place = format!("warehouse {}, district {}, order {o}", district.w, district.d);
        ensure_equal!(CONDITION_6, place, u64::from(order.line_count), order.lines);
        let expected = if order.carrier == 0 { order.lines } else { 0 };
        ensure_equal!(CONDITION_7, place, order.undelivered_lines, expected);
    }
    Ok(())
}

/// What was done in a district since the load, as the rows say, which the conditions hold together.
fn done_in(district: &District, payments: u64, scale: &Scale) -> Done {
    let customers = u64::from(scale.customers);
    let orders = u64::from(district.next_o_id.saturating_sub(1)).saturating_sub(customers);
    let undelivered = district.new_orders.len() as u64;
    Done {
        orders,
        payments: payments.saturating_sub(customers),
        paid: district.ytd - i64::from(scale.customers) * FIRST_PAYMENT,
        delivered: (u64::from(scale.new_orders()) + orders).saturating_sub(undelivered),
    }
}

impl Payments {
    fn district(&self, w: u32, d: u8) -> Paid {
        self.by_district[(w as usize - 1) * usize::from(DISTRICTS) + usize::from(d) - 1]
    }
}

/// A line of a warehouse's order takes from a stock; else the condition that does not hold, and why.
fn take(goods: &mut Goods, w: u32, line: &[u8]) -> Result<(), (&'static str, String)> {
    let (supply_w, i) = (order_line::SUPPLY_W_ID.get(line), order_line::I_ID.get(line));
    let (quantity, amount) = (u32::from(order_line::QUANTITY.get(line)), order_line::AMOUNT.get(line));
    let item = (i as usize).checked_sub(1).filter(|item| *item < goods.prices.len());
    let stocks = (supply_w as usize).checked_sub(1).map(|stocks| stocks * goods.prices.len());
    let taken = stocks.zip(item).and_then(|(stocks, item)| goods.taken.get_mut(stocks + item));
    let Some((item, [sum, lines, remote])) = item.zip(taken) else {
        return Err((STOCKS, format!("item {i}, supplied by {supply_w}")));
    };
    *sum += quantity;
    *lines += 1;
    *remote += u32::from(supply_w != w);
    let cost = quantity * goods.prices[item];
    if amount == cost { Ok(()) } else { Err((PRICES, format!("item {i} for {amount}, but {cost}"))) }
}

/// A district's place among all; `None` if there is no such district.
fn place_of_district(scale: &Scale, w: u32, d: u8) -> Option<usize> {
    let exists = (1..=scale.warehouses).contains(&w) && (1..=DISTRICTS).contains(&d);
    exists.then(|| (w as usize - 1) * usize::from(DISTRICTS) + usize::from(d) - 1)
}

/// A customer's place among all; `None` if there is no such customer.
fn place_of_customer(scale: &Scale, w: u32, d: u8, c: u32) -> Option<usize> {
    let district = place_of_district(scale, w, d)?;
    (1..=scale.customers).contains(&c).then(|| district * scale.customers as usize + c as usize - 1)
}
