//! TPC-C, revision 5.11: nine tables, five transactions, twelve consistency conditions.
//!
//! What differs from a published result, so that nobody takes a figure for one: no think and keying times, so a few threads
//! are the whole load; no terminals' screens, though all that they show is read; deliveries are executed at once; rows have
//! lengths as generated, not padded. Call figures "TPC-C without think times".
//!
//! Each transaction comes to rows the sooner the fewer others want them: the warehouse's, which all of a warehouse's terminals
//! read or change, is its last. So locks on it are held for some microseconds before the commit, not throughout.
//!
//! A run loads the database, checks it, works, and checks it again ([`Tpcc::check`]): also whether all is there that was
//! acknowledged. A run that leaves the database inconsistent, or without an acknowledged commit, has no figures.

mod access;
mod acknowledged;
mod check;
mod delivery;
mod generate;
mod load;
mod new_order;
mod order_status;
mod payment;
mod row;
mod schema;
mod stock_level;
mod terminal;
mod trace;

use crate::StoreError;
use crate::kv::{BenchError, Tell};
use crate::random::Random;
use crate::tx_report::{self, Columns, Figures, Setting, TxReport};
use crate::tx_run;
use crate::tx_spec::{RunSpec, TxWorkload};
use crate::tx_store::TxStore;
use access::Who;
use acknowledged::{Acknowledged, Counting};
use clap::ValueEnum;
use generate::{Constants, customer_number, last_name_number};
use schema::Tables;
use serde::Serialize;
use std::sync::Mutex;
pub use terminal::{Home, Kind, Terminal};
pub use trace::Trace;

/// Which transactions are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mix {
    /// 45 % New-Order, 43 % Payment, 4 % each Order-Status, Delivery and Stock-Level
    Full,
    /// Payment only
    Payment,
    /// New-Order only
    NewOrder,
}

/// How large the database is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Warehouses, 1 at least.
    pub warehouses: u32,
    /// Items, and rows of STOCK of each warehouse; 100,000 in the standard.
    pub items: u32,
    /// Customers of each district, and orders loaded; 3,000 in the standard.
    pub customers: u32,
}

impl Scale {
    /// New orders of each district after the load: 900 of 3,000.
    fn new_orders(&self) -> u32 {
        self.customers * 3 / 10
    }
}

/// Customers of a district, at most: as many orders are loaded, and numbers above theirs are left for new ones.
const CUSTOMERS_MAX: u32 = 1 << 30;

/// What TPC-C is asked to do.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub struct TpccSpec {
    /// Warehouses
    #[arg(long, default_value_t = 1)]
    pub warehouses: u32,
    /// Which transactions are run
    #[arg(long, value_enum, default_value_t = Mix::Full)]
    pub mix: Mix,
    /// Each thread keeps to one warehouse, instead of choosing one for each transaction
    #[arg(long)]
    pub affinity: bool,
    /// Items; the standard's number is the default
    #[arg(long, default_value_t = 100_000)]
    pub items: u32,
    /// Customers of each district; the standard's number is the default
    #[arg(long, default_value_t = 3_000)]
    pub customers: u32,
}

/// What a TPC-C run found.
#[derive(Clone, Debug, Serialize)]
pub struct TpccReport {
    bench: &'static str,
    /// The engine measured.
    pub engine: String,
    /// Which transactions were run.
    pub mix: Mix,
    /// Warehouses.
    pub warehouses: u32,
    /// Did each thread keep to one warehouse?
    pub affinity: bool,
    /// Items.
    pub items: u32,
    /// Customers of each district.
    pub customers: u32,
    /// Under which circumstances.
    #[serde(flatten)]
    pub setting: Setting,
    /// Transactions per second, those included that roll back because the standard asks for it.
    pub tps: f64,
    /// New-Order transactions per minute, those included that roll back because the standard asks for it.
    pub new_order_per_min: f64,
    /// Latencies and counters.
    #[serde(flatten)]
    pub figures: Figures,
    /// Always true: a run that leaves the database inconsistent has no report.
    pub consistent: bool,
}

impl TxReport for TpccReport {
    fn columns(&self) -> Columns {
        let mix = self.mix.to_possible_value().expect("no mix is hidden");
        let workload = format!("{}, {} warehouses", mix.get_name(), self.warehouses);
        tx_report::columns(workload, ("tx/s", self.tps), &self.setting, &self.figures)
    }
}

impl TpccSpec {
    /// How large the database is.
    pub fn scale(&self) -> Scale {
        Scale { warehouses: self.warehouses, items: self.items, customers: self.customers }
    }
}

impl TxWorkload for TpccSpec {
    const NAME: &'static str = "tpcc";
    type Report = TpccReport;

    fn check(&self, _run: &RunSpec) -> Result<(), BenchError> {
        let complaint = if self.warehouses == 0 {
            "--warehouses: at least one"
        } else if self.items < 10 {
            "--items: at least 10"
        } else if self.customers < 10 {
            "--customers: at least 10"
        } else if self.customers > CUSTOMERS_MAX {
            "--customers: at most 2^30"
        } else {
            return Ok(());
        };
        Err(BenchError::Usage(complaint.to_owned()))
    }

    fn measure<S: TxStore>(
        &self,
        engine: &str,
        store: &S,
        run: &RunSpec,
        progress: Tell<'_>,
    ) -> Result<TpccReport, BenchError> {
        let tpcc = Tpcc::open(store, self.scale(), run.seed)?;
        tpcc.load(run.threads, progress)?;
        store.settle()?;
        let acknowledged = Mutex::new(Acknowledged::new(&tpcc.scale));
        let check = || {
            tpcc.check_acknowledged(&acknowledged.lock().expect("no terminal panics while it adds"), progress)
        };
        check()?;
        let worker = |place: tx_run::Place| {
            let home = if self.affinity { Home::of_thread(place.thread, &tpcc.scale) } else { Home::Any };
            let terminal = tpcc.terminal(place.stream, home, self.mix)?;
            Ok(Counting::new(terminal, &tpcc.scale, &acknowledged))
        };
        let measured = tx_run::measure(store, run, worker, progress)?;
        check()?;
        Ok(TpccReport {
            bench: Self::NAME,
            engine: engine.to_owned(),
            mix: self.mix,
            warehouses: self.warehouses,
            affinity: self.affinity,
            items: self.items,
            customers: self.customers,
            setting: Setting::of(run, &measured),
            tps: measured.rate(measured.timed.ops),
            new_order_per_min: (measured.marked() as f64 / measured.timed.seconds * 60.0).round(),
            figures: Figures::new(&measured),
            consistent: true,
        })
    }
}

/// A TPC-C database in a store.
pub struct Tpcc<'s, S: TxStore> {
    store: &'s S,
    tables: Tables<S::Table>,
    scale: Scale,
    seed: u64,
    constants: Constants,
}

impl<'s, S: TxStore> Tpcc<'s, S> {
    /// Opens the tables, or creates them. Scale and seed must be those of the load.
    ///
    /// Errors: what the store says.
    pub fn open(store: &'s S, scale: Scale, seed: u64) -> Result<Self, StoreError> {
        Ok(Self { store, tables: Tables::open(store)?, scale, seed, constants: Constants::new(seed) })
    }

    /// A terminal that enters one transaction after the other. It must be used on the thread that made it.
    ///
    /// `stream` must be new in the database's life, neither 0 nor that of another terminal: its history rows are named by it.
    /// Below 2^24.
    ///
    /// Errors: what the store says.
    pub fn terminal(&self, stream: u64, home: Home, mix: Mix) -> Result<Terminal<'_, S>, StoreError> {
        Terminal::new(self, stream, home, mix)
    }
}

/// What random choices of a terminal need.
struct Dice<'a> {
    random: &'a mut Random,
    constants: &'a Constants,
    scale: &'a Scale,
}

impl Dice<'_> {
    /// Sixty customers in a hundred are named by their last name.
    fn who(&mut self) -> Who {
        let Self { random, constants, scale } = self;
        if random.below(100) < 60 {
            Who::LastName(last_name_number(random, constants.last_name_run, scale.customers))
        } else {
            Who::Number(customer_number(random, constants, scale.customers))
        }
    }
}
