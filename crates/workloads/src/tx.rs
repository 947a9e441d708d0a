//! Transactions of a few reads and a few updates of uniformly chosen rows: the commit path with hardly any conflict.
//!
//! An update adds one to a counter in the row, so a lost, doubled or half-committed transaction shows in the sum.

use crate::keys::{Keys, stamp, value_belongs, write_value};
use crate::kv::{BenchError, Tell};
use crate::random::Random;
use crate::timed::Worker;
use crate::tx_batch;
use crate::tx_report::{Describe, Rate, Report};
use crate::tx_run::{self, Place, Tally};
use crate::tx_spec::{RunSpec, TxWorkload};
use crate::tx_store::{Tx, TxError, TxKind, TxSession, TxStore};
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub(crate) const KEY_BYTES: usize = 4;
/// A counter, which is the value's stamp, and its check.
const VALUE_BYTES: usize = 8;

/// Rows of a transaction, at most: it names them all before it begins.
const TX_ROWS_MAX: usize = 1_000_000;

/// What the run is asked to do.
#[derive(Clone, Debug, PartialEq, Serialize, clap::Args)]
pub struct TxSpec {
    /// Rows that a transaction reads
    #[arg(long, default_value_t = 4)]
    pub reads: usize,
    /// Rows that a transaction reads and changes
    #[arg(long, default_value_t = 4)]
    pub updates: usize,
    /// Rows, of 4-byte keys and 8-byte values
    #[arg(long, default_value_t = 5_000_000)]
    pub n: u64,
}

impl Describe for TxSpec {
    fn describe(&self) -> String {
        format!("{} reads + {} updates of {} rows", self.reads, self.updates, self.n)
    }
}

impl TxWorkload for TxSpec {
    const NAME: &'static str = "tx";
    type Report = Report<Self>;

    fn check(&self, _run: &RunSpec) -> Result<(), BenchError> {
        let complaint = if (self.reads, self.updates) == (0, 0) {
            "--reads, --updates: at least one of either"
        } else if self.reads.max(self.updates) > TX_ROWS_MAX {
            "--reads, --updates: at most a million of either"
        } else if self.n == 0 || u128::from(self.n) > Keys::room(KEY_BYTES) {
            "--n: at least one row, at most 2^32"
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
    ) -> Result<Self::Report, BenchError> {
        let table = store.table("rows")?;
        let keys = Keys::new(self.n, KEY_BYTES, run.seed);
        self.load(store, &table, (&keys, run.threads), progress)?;
        store.settle()?;
        self.check_sum(store, &table, (&keys, 0), progress)?;
        let updates = AtomicU64::new(0);
        let worker = |place: Place| {
            let random = Random::new(run.seed, place.stream);
            Ok(Client::new(store.session()?, self, (&table, &keys), random, &updates))
        };
        let measured = tx_run::measure(store, run, worker, progress)?;
        self.check_sum(store, &table, (&keys, updates.load(Relaxed)), progress)?;
        Ok(Report::new(engine, self, run, Rate::Transactions, &measured))
    }
}

impl TxSpec {
    pub(crate) fn load<S: TxStore>(
        &self,
        store: &S,
        table: &S::Table,
        (keys, threads): (&Keys, usize),
        progress: Tell<'_>,
    ) -> Result<(), BenchError> {
        let row = |row, key: &mut Vec<u8>, value: &mut Vec<u8>| {
            key.resize(KEY_BYTES, 0);
            value.resize(VALUE_BYTES, 0);
            let number = keys.number(row);
            keys.write(number, key);
            write_value(number, 0, value);
            true
        };
        tx_batch::load(store, table, (self.n, threads), row, progress)
    }

    /// All rows are there, and their counters add up to the updates committed.
    pub(crate) fn check_sum<S: TxStore>(
        &self,
        store: &S,
        table: &S::Table,
        (keys, updates): (&Keys, u64),
        progress: Tell<'_>,
    ) -> Result<(), BenchError> {
        let mut sum = 0;
        let rows = tx_batch::read_all(store, table, Some(self.n), progress, |key, value| {
            let is_right = keys.read(key).is_some_and(|number| value_belongs(number, VALUE_BYTES, value));
            sum += u64::from(stamp(value));
            is_right.then_some(()).ok_or_else(|| format!("row {key:02x?} is {value:02x?}"))
        })?;
        if (rows, sum) != (self.n, updates) {
            let what = format!(
                "{} rows with {updates} updates were committed, a scan finds {rows} with {sum}",
                self.n
            );
            return Err(BenchError::Wrong(what));
        }
        Ok(())
    }
}

/// One thread's transactions.
pub(crate) struct Client<'a, X: TxSession> {
    session: X,
    spec: &'a TxSpec,
    table: &'a X::Table,
    keys: Keys,
    random: Random,
    /// Keys of the transaction: first those read, then those updated.
    numbers: Vec<u64>,
    updates: u64,
    all_updates: &'a AtomicU64,
}

impl<'a, X: TxSession> Client<'a, X> {
    /// Adds its updates to `all_updates` at its end.
    pub(crate) fn new(
        session: X,
        spec: &'a TxSpec,
        (table, keys): (&'a X::Table, &Keys),
        random: Random,
        all_updates: &'a AtomicU64,
    ) -> Self {
        let keys = keys.clone();
        Self { session, spec, table, keys, random, numbers: Vec::new(), updates: 0, all_updates }
    }
}

impl<X: TxSession> Worker for Client<'_, X> {
    type Tally = Tally;

    fn work(&mut self, _call: u64) -> Result<u64, BenchError> {
        let Self { session, spec, table, keys, random, numbers, .. } = self;
        let TxSpec { reads, updates, n } = **spec;
        numbers.clear();
        numbers.extend((0..reads + updates).map(|_| keys.number(random.below(n))));
        let (read, updated) = numbers.split_at(reads);
        let kind = if updates == 0 { TxKind::ReadOnly } else { TxKind::ReadWrite };
        let mut key = [0; KEY_BYTES];
        session.transact(kind, |tx| {
            for &number in read {
                keys.write(number, &mut key);
                right(
                    number,
                    tx.get(table, &key, |value| value_belongs(number, VALUE_BYTES, value).then_some(0))?,
                )?;
            }
            for &number in updated {
                keys.write(number, &mut key);
                let found = tx.get_for_update(table, &key, |value| {
                    value_belongs(number, VALUE_BYTES, value).then(|| stamp(value))
                })?;
                let mut value = [0; VALUE_BYTES];
                write_value(number, right(number, found)? + 1, &mut value);
                tx.put(table, &key, &value)?;
            }
            Ok(())
        })?;
        self.updates += updates as u64;
        Ok(1)
    }

    fn tally(self) -> Tally {
        self.all_updates.fetch_add(self.updates, Relaxed);
        Tally { aborts: self.session.aborts(), marked: 0 }
    }
}

/// The counter found in a row that must exist and hold a value of its own.
fn right(number: u64, found: Option<Option<u32>>) -> Result<u32, TxError> {
    found.flatten().ok_or_else(|| TxError::Wrong(format!("row {number} is absent or holds another's value")))
}
