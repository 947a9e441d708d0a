//! What terminals were told is committed. The consistency conditions are about the database alone: a transaction that was
//! acknowledged and undone as a whole leaves all of them true. So terminals that are timed count, and the last check compares.

use crate::kv::BenchError;
use crate::timed::Worker;
use crate::tpcc::schema::DISTRICTS;
use crate::tpcc::{Scale, Terminal, Trace};
use crate::tx_run::Tally;
use crate::tx_store::TxStore;
use std::sync::Mutex;

/// What commits have done in a district since the load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    pub orders: u64,
    pub payments: u64,
    /// Cents.
    pub paid: i64,
    /// Orders delivered.
    pub delivered: u64,
}

/// What acknowledged commits have done, district after district.
#[derive(Clone)]
pub(crate) struct Acknowledged(Vec<Done>);

impl Acknowledged {
    /// Nothing yet.
    pub fn new(scale: &Scale) -> Self {
        Self(vec![Done::default(); scale.warehouses as usize * usize::from(DISTRICTS)])
    }

    pub fn district(&self, w: u32, d: u8) -> Done {
        self.0[place(w, d)]
    }

    fn add(&mut self, trace: &Trace) {
        match *trace {
            Trace::Order { w, d, .. } => self.0[place(w, d)].orders += 1,
            Trace::Payment { w, d, amount, .. } => {
                let done = &mut self.0[place(w, d)];
                done.payments += 1;
                done.paid += amount;
            }
            Trace::Delivery { w, orders } => {
                let districts = &mut self.0[place(w, 1)..][..orders.len()];
                for (done, o) in districts.iter_mut().zip(orders) {
                    done.delivered += u64::from(o != 0);
                }
            }
        }
    }

    fn add_all(&mut self, others: &Self) {
        for (sum, done) in self.0.iter_mut().zip(&others.0) {
            sum.orders += done.orders;
            sum.payments += done.payments;
            sum.paid += done.paid;
            sum.delivered += done.delivered;
        }
    }
}

/// A district's place among all.
fn place(w: u32, d: u8) -> usize {
    (w as usize - 1) * usize::from(DISTRICTS) + usize::from(d) - 1
}

/// A terminal that counts what it is told is committed. The counters are its own until it ends.
pub(crate) struct Counting<'a, S: TxStore + 'a> {
    terminal: Terminal<'a, S>,
    own: Acknowledged,
    all: &'a Mutex<Acknowledged>,
}

impl<'a, S: TxStore> Counting<'a, S> {
    /// Adds its counts to `all` at its end.
    pub fn new(terminal: Terminal<'a, S>, scale: &Scale, all: &'a Mutex<Acknowledged>) -> Self {
        Self { terminal, own: Acknowledged::new(scale), all }
    }
}

impl<S: TxStore> Worker for Counting<'_, S> {
    type Tally = Tally;

    fn work(&mut self, _call: u64) -> Result<u64, BenchError> {
        // A commit that fails may have happened all the same: it ends the run, and nothing is compared.
        if let (_, Some(trace)) = self.terminal.step_traced()? {
            self.own.add(&trace);
        }
        Ok(1)
    }

    fn tally(self) -> Tally {
        self.all.lock().expect("no terminal panics while it adds").add_all(&self.own);
        Tally { aborts: self.terminal.aborts(), marked: self.terminal.new_orders() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::{Home, Mix, Tpcc};
    use crate::tx_reference::MapTxStore;

    /// One order, payment, cent or delivery more or less than acknowledged is noticed.
    #[test]
    fn the_check_compares_every_count() {
        let scale = Scale { warehouses: 2, items: 100, customers: 20 };
        let store = MapTxStore::default();
        let tpcc = Tpcc::open(&store, scale, 8).unwrap();
        tpcc.load(1, &|_| {}).unwrap();
        let all = Mutex::new(Acknowledged::new(&scale));
        let mut terminal = Counting::new(tpcc.terminal(1, Home::Any, Mix::Full).unwrap(), &scale, &all);
        (0..500).for_each(|call| assert_eq!(terminal.work(call).unwrap(), 1));
        terminal.tally();
        let all = all.into_inner().unwrap();
        tpcc.check_acknowledged(&all, &|_| {}).unwrap();
        let changes: [fn(&mut Done); 5] = [
            |done| done.orders += 1,
            |done| done.orders -= 1,
            |done| done.payments += 1,
            |done| done.paid -= 1,
            |done| done.delivered += 1,
        ];
        for change in changes {
            let mut other = all.clone();
            change(&mut other.0[place(2, DISTRICTS)]);
            match tpcc.check_acknowledged(&other, &|_| {}) {
                Err(BenchError::Wrong(what)) => {
                    assert!(
                        what.contains("acknowledged") && what.contains("warehouse 2, district 10"),
                        "{what}"
                    );
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
