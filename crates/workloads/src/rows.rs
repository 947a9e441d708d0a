//! Loading real rows: threads put the rows of a file, each a transaction of its own, until all are in.
//!
//! Source: "Concurrent operations of O2-Tree" (Ohene-Kwofie et al., ADC 2013), Figure 10: flight statistics with 32-bit keys,
//! loaded by up to 16 threads. Without a file at hand, the rows are TPC-H's ORDERS.
//!
//! Reading and parsing come before the clock starts. At the end, the table must hold exactly the rows.

use crate::flights;
use crate::kv::{BenchError, Tell};
use crate::memory;
use crate::orders;
use crate::timed::{self, Limits, Worker};
use crate::tx_batch;
use crate::tx_report::{Describe, Rate, Report};
use crate::tx_run::{Measured, Tally};
use crate::tx_spec::{RunSpec, TxWorkload};
use crate::tx_store::{Tx, TxKind, TxSession, TxStore};
use serde::Serialize;
use std::path::PathBuf;

/// What is loaded.
#[derive(Clone, Debug, PartialEq, Serialize, clap::Args)]
pub struct RowsSpec {
    /// Tables of flights, CSV, gzipped or not; without any, TPC-H's ORDERS
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub input: Vec<PathBuf>,
    /// Rows, at most
    #[arg(long, default_value_t = 500_000)]
    pub n: u64,
}

impl Describe for RowsSpec {
    fn describe(&self) -> String {
        format!("{} loaded", if self.input.is_empty() { "TPC-H ORDERS" } else { "flights" })
    }
}

/// A key of 32 bits, and the rest of the row.
type KeyedRow = (u32, String);

impl TxWorkload for RowsSpec {
    const NAME: &'static str = "rows";
    type Report = Report<Self>;

    fn check(&self, _run: &RunSpec) -> Result<(), BenchError> {
        if self.n == 0 {
            return Err(BenchError::Usage("--n: at least one row".to_owned()));
        }
        Ok(())
    }

    /// `--seconds` and `--warm-up` do not apply: it ends when all rows are in.
    fn measure<S: TxStore>(
        &self,
        engine: &str,
        store: &S,
        run: &RunSpec,
        progress: Tell<'_>,
    ) -> Result<Self::Report, BenchError> {
        let mut rows = self.rows()?;
        must_differ(&rows)?;
        let table = store.table("rows")?;
        let threads = run.threads as u64;
        let worker = |thread: u64| {
            let mine = rows.iter().skip(thread as usize).step_by(run.threads);
            Ok(Loader { session: store.session()?, table: &table, mine })
        };
        let limits = |thread: u64| Limits {
            calls: (rows.len() as u64).saturating_sub(thread).div_ceil(threads),
            seconds: f64::MAX,
        };
        memory::touch_for(1.0);
        let measured = Measured::around(store, 0.0, || timed::run(run.threads, limits, worker, progress))?;
        rows.sort_unstable();
        check(store, &table, &rows, progress)?;
        Ok(Report::new(engine, self, run, Rate::Operations, &measured))
    }
}

impl RowsSpec {
    /// In the order of the files: flights by date, orders by key.
    fn rows(&self) -> Result<Vec<KeyedRow>, BenchError> {
        let n = usize::try_from(self.n).unwrap_or(usize::MAX);
        if self.input.is_empty() {
            let scale = self.n as f64 / ORDERS_AT_SCALE_1;
            let orders = orders::orders(scale.max(0.001), 1, 1).take(n);
            return Ok(orders.map(|order| (order.key as u32, order.row)).collect());
        }
        let mut rows = Vec::new();
        for path in &self.input {
            let unusable = |error: String| BenchError::Usage(format!("--input {}: {error}", path.display()));
            for flight in flights::open(path).map_err(|error| unusable(error.to_string()))? {
                let flight = flight.map_err(|error| unusable(error.to_string()))?;
                let key = flight.key.packed().ok_or_else(|| {
                    unusable(format!("{:?} is not a flight of the known tables", flight.key))
                })?;
                rows.push((key, flight.row));
                if rows.len() == n {
                    return Ok(rows);
                }
            }
        }
        Ok(rows)
    }
}

/// A row that another one replaces would not be there at the end.
///
/// Errors: [`BenchError::Usage`], also if there are no rows.
fn must_differ(rows: &[KeyedRow]) -> Result<(), BenchError> {
    let mut keys: Vec<_> = rows.iter().map(|row| row.0).collect();
    keys.sort_unstable();
    if keys.is_empty() {
        return Err(BenchError::Usage("--input: there are no rows".to_owned()));
    }
    match keys.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(()),
        Some(pair) => Err(BenchError::Usage(format!("--input: two rows have the key {}", pair[0]))),
    }
}

const ORDERS_AT_SCALE_1: f64 = 1_500_000.0;

/// The table holds the rows, which are sorted, and nothing else.
fn check<S: TxStore>(
    store: &S,
    table: &S::Table,
    rows: &[KeyedRow],
    progress: Tell<'_>,
) -> Result<(), BenchError> {
    let mut expected = rows.iter();
    let found = tx_batch::read_all(store, table, Some(rows.len() as u64), progress, |key, value| {
        let is_right = expected.next().is_some_and(|(k, v)| key == k.to_be_bytes() && value == v.as_bytes());
        is_right.then_some(()).ok_or_else(|| format!("row {key:02x?} was not loaded so"))
    })?;
    if found != rows.len() as u64 {
        let what = format!("{} rows were loaded, a scan finds {found}", rows.len());
        return Err(BenchError::Wrong(what));
    }
    Ok(())
}

struct Loader<'a, X: TxSession, I> {
    session: X,
    table: &'a X::Table,
    mine: I,
}

impl<'r, X: TxSession, I: Iterator<Item = &'r KeyedRow>> Worker for Loader<'_, X, I> {
    type Tally = Tally;

    fn work(&mut self, _call: u64) -> Result<u64, BenchError> {
        let (key, row) = self.mine.next().expect("as many calls as rows");
        let key = key.to_be_bytes();
        self.session.single(TxKind::ReadWrite, |tx| tx.put(self.table, &key, row.as_bytes()))?;
        Ok(1)
    }

    fn tally(self) -> Tally {
        Tally { aborts: self.session.aborts(), marked: 0 }
    }
}
