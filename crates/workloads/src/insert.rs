//! Record insertion: each thread fills a table of its own and commits every thousand rows.
//!
//! Source: Shore-MT (Johnson et al., EDBT 2009), §3.2. Nothing is shared by the threads' data: what does not scale here is the
//! engine's own (free space, buffer pool, log).

use crate::fill;
use crate::keys::{VALUE_BYTES_MAX, VALUE_BYTES_MIN};
use crate::kv::{BenchError, Tell};
use crate::spec::{CALL_BYTES_MAX, CALL_ROWS_MAX};
use crate::timed::Worker;
use crate::tx_batch;
use crate::tx_report::{Describe, Rate, Report};
use crate::tx_run::{self, Place, Tally};
use crate::tx_spec::{RunSpec, TxWorkload};
use crate::tx_store::{Tx, TxError, TxKind, TxSession, TxStore};
use crossbeam_utils::CachePadded;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes of a key, which counts the rows of its table.
const KEY_BYTES: usize = 8;

/// What record insertion is asked to do.
#[derive(Clone, Debug, PartialEq, Serialize, clap::Args)]
pub struct InsertSpec {
    /// Rows between two commits
    #[arg(long, default_value_t = 1000)]
    pub rows_per_commit: u64,
    /// Rows handed over in one call, by an engine that has a call for several; the paper's are 1
    #[arg(long, default_value_t = 50)]
    pub rows_per_call: usize,
    /// Bytes of a row, its 8-byte key included
    #[arg(long, default_value_t = 100)]
    pub row_bytes: usize,
}

impl Describe for InsertSpec {
    fn describe(&self) -> String {
        let Self { rows_per_commit, rows_per_call, row_bytes } = self;
        format!("insert, {row_bytes} bytes, {rows_per_commit} a commit, {rows_per_call} a call")
    }
}

/// A thread's table.
struct Private<H> {
    table: H,
    /// Rows committed; the next key.
    rows: CachePadded<AtomicU64>,
}

impl TxWorkload for InsertSpec {
    const NAME: &'static str = "insert";
    type Report = Report<Self>;

    fn check(&self, _run: &RunSpec) -> Result<(), BenchError> {
        let rows = self.rows_per_commit.min(self.rows_per_call as u64);
        let complaint = if self.rows_per_commit == 0 {
            "--rows-per-commit: at least one".to_owned()
        } else if self.rows_per_call == 0 {
            "--rows-per-call: at least one".to_owned()
        } else if rows > CALL_ROWS_MAX {
            "--rows-per-call: at most a million, unless --rows-per-commit is less".to_owned()
        } else if self.row_bytes < KEY_BYTES + VALUE_BYTES_MIN {
            format!("--row-bytes: at least {}, so that rows can be checked", KEY_BYTES + VALUE_BYTES_MIN)
        } else if self.row_bytes > KEY_BYTES + VALUE_BYTES_MAX {
            format!("--row-bytes: at most {}", KEY_BYTES + VALUE_BYTES_MAX)
        } else if rows * self.row_bytes as u64 > CALL_BYTES_MAX {
            "--rows-per-call, --row-bytes: at most 4 GiB a call".to_owned()
        } else {
            return Ok(());
        };
        Err(BenchError::Usage(complaint))
    }

    fn row_bytes(&self) -> Option<usize> {
        Some(self.row_bytes)
    }

    fn measure<S: TxStore>(
        &self,
        engine: &str,
        store: &S,
        run: &RunSpec,
        progress: Tell<'_>,
    ) -> Result<Self::Report, BenchError> {
        let private = |thread| -> Result<_, BenchError> {
            Ok(Private { table: store.table(&format!("rows-{thread}"))?, rows: CachePadded::default() })
        };
        let tables = (0..run.threads).map(private).collect::<Result<Vec<_>, _>>()?;
        let worker = |Place { thread, .. }: Place| {
            let (session, private) = (store.session()?, &tables[thread as usize]);
            let row = ([0; KEY_BYTES], vec![0; self.row_bytes - KEY_BYTES]);
            Ok(Inserter {
                session,
                spec: self,
                private,
                thread,
                rows: vec![row; self.rows_per_call.min(self.rows_per_commit as usize)],
            })
        };
        let measured = tx_run::measure(store, run, worker, progress)?;
        for (thread, private) in (0..).zip(&tables) {
            check(store, thread, private, self.row_bytes - KEY_BYTES, progress)?;
        }
        Ok(Report::new(engine, self, run, Rate::Operations, &measured))
    }
}

struct Inserter<'a, X: TxSession> {
    session: X,
    spec: &'a InsertSpec,
    private: &'a Private<X::Table>,
    thread: u64,
    rows: Vec<([u8; KEY_BYTES], Vec<u8>)>,
}

impl<X: TxSession> Worker for Inserter<'_, X> {
    type Tally = Tally;

    /// One transaction; its rows are the operations.
    fn work(&mut self, _call: u64) -> Result<u64, BenchError> {
        let Self { session, spec, private, thread, rows } = self;
        let next = private.rows.load(Relaxed);
        session.transact(TxKind::ReadWrite, |tx| {
            let end = next + spec.rows_per_commit;
            for first in (next..end).step_by(spec.rows_per_call) {
                let together = &mut rows[..spec.rows_per_call.min((end - first) as usize)];
                for (number, (key, value)) in (first..).zip(&mut *together) {
                    *key = number.to_be_bytes();
                    fill::write(number, *thread as u32, value);
                }
                if tx.insert_each(&private.table, together)? < together.len() {
                    let what = format!("a row behind row {first} of thread {thread} was there already");
                    return Err(TxError::Wrong(what));
                }
            }
            Ok(())
        })?;
        private.rows.store(next + spec.rows_per_commit, Relaxed);
        Ok(spec.rows_per_commit)
    }

    fn tally(self) -> Tally {
        Tally { aborts: self.session.aborts(), marked: 0 }
    }
}

/// Every row committed is there as this thread wrote it, and no other.
fn check<S: TxStore>(
    store: &S,
    thread: u32,
    private: &Private<S::Table>,
    value_bytes: usize,
    progress: Tell<'_>,
) -> Result<(), BenchError> {
    let committed = private.rows.load(Relaxed);
    let mut expected = 0u64;
    let rows = tx_batch::read_all(store, &private.table, Some(committed), progress, |key, value| {
        // The stamp says whose row it is: other threads' tables have the same keys.
        let is_own = value.starts_with(&thread.to_le_bytes());
        let is_right = key == expected.to_be_bytes() && is_own && fill::belongs(expected, value_bytes, value);
        expected += 1;
        is_right.then_some(()).ok_or_else(|| format!("row {key:02x?} of thread {thread}"))
    })?;
    if rows != committed {
        let what = format!("thread {thread} committed {committed} rows, a scan finds {rows}");
        return Err(BenchError::Wrong(what));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// They would end in a panic.
    #[test]
    fn calls_of_too_many_rows_are_refused() {
        let check = |rows_per_call, row_bytes| {
            InsertSpec { rows_per_commit: u64::MAX, rows_per_call, row_bytes }.check(&RunSpec::brief())
        };
        check(1_000_000, 100).unwrap();
        for (rows_per_call, row_bytes) in [(1_000_001, 100), (usize::MAX, 100), (1_000_000, 100_000)] {
            let outcome = check(rows_per_call, row_bytes);
            assert!(
                matches!(&outcome, Err(BenchError::Usage(why)) if why.contains("--rows-per-call")),
                "{outcome:?}"
            );
        }
    }
}
