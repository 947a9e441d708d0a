//! A survey: one pass over what an embedded store is used for, a figure for each.
//!
//! Source of the order of things: the benchmark in redb's repository, which many embedded stores are compared by: random keys of 24 bytes,
//! values of 150, one large load, small and middling commits, lookups, short scans, and a large removal.
//!
//! Each phase is timed once, by the clock, and ends when its work is done; the answers of each are checked in it, and the
//! whole table at the end.

use crate::keys::{VALUE_BYTES_MIN, stamp, value_belongs, write_value};
use crate::kv::{BenchError, Progress, Tell};
use crate::memory;
use crate::random::{Random, mix};
use crate::threads;
use crate::tx_batch;
use crate::tx_report::{Columns, Setting, TxReport};
use crate::tx_spec::{RunSpec, TxWorkload};
use crate::tx_store::{KEYS_END, Tx, TxError, TxKind, TxSession, TxStore};
use serde::Serialize;
use std::ops::{ControlFlow, Range};
use std::time::Instant;

/// What the run is asked to do.
#[derive(Clone, Debug, PartialEq, Serialize, clap::Args)]
pub struct SurveySpec {
    /// Rows that are loaded
    #[arg(long, default_value_t = 1_000_000)]
    pub n: u64,
    /// Bytes of a key, from 8 on
    #[arg(long, default_value_t = 24)]
    pub key_bytes: usize,
    /// Bytes of a value, from 8 on
    #[arg(long, default_value_t = 150)]
    pub value_bytes: usize,
}

/// Commits of one row.
const COMMITS: u64 = 1000;
/// Commits of many rows.
const BATCHES: u64 = 100;
/// Rows of each of these.
const BATCH_ROWS: u64 = 1000;
/// A row's number, which has 32 bits in its value.
const ROWS_MAX: u64 = 4_000_000_000;
/// Rows of a short scan.
const SCAN_ROWS: u64 = 10;

/// What the run found. Its JSON names are kept stable.
#[derive(Clone, Debug, Serialize)]
pub struct SurveyReport {
    bench: &'static str,
    /// The engine measured.
    pub engine: String,
    /// What was run.
    #[serde(flatten)]
    pub workload: SurveySpec,
    /// Under which circumstances; seconds are those of all phases.
    #[serde(flatten)]
    pub setting: Setting,
    /// In the order in which they were run.
    pub phases: Vec<Phase>,
    /// Always true: a run with a wrong answer has no report.
    pub checked: bool,
}

/// A phase, timed.
#[derive(Clone, Debug, Serialize)]
pub struct Phase {
    /// What was done.
    pub phase: &'static str,
    /// By so many threads.
    pub threads: usize,
    /// So often, by all threads together.
    pub ops: u64,
    /// In so many seconds.
    pub seconds: f64,
    /// µs from one to the next.
    pub us_per_op: f64,
}

impl TxReport for SurveyReport {
    fn columns(&self) -> Columns {
        let SurveySpec { n, .. } = &self.workload;
        let each = |name: &str| {
            let phase = self.phases.iter().find(|phase| phase.phase == name);
            phase.map_or(String::new(), |phase| format!("{:.2}", phase.us_per_op))
        };
        [
            ("µs each", format!("{n} rows, {} threads", self.setting.threads)),
            ("durability", format!("{:?}", self.setting.durability).to_lowercase()),
            ("row loaded", each("load")),
            ("commit", each("commits")),
            ("row of 1000", each("batches")),
            ("lookup", each("lookups")),
            ("by all threads", each("lookups-by-all")),
            ("scan of 10", each("short-scans")),
            ("row of scan", each("whole-scan")),
            ("removal", each("removals")),
        ]
    }
}

impl TxWorkload for SurveySpec {
    const NAME: &'static str = "survey";
    type Report = SurveyReport;

    fn check(&self, _run: &RunSpec) -> Result<(), BenchError> {
        let complaint = match self {
            Self { n: 0..4, .. } => "--n: at least four rows",
            Self { n, .. } if *n > ROWS_MAX => "--n: at most 4 billion rows",
            Self { key_bytes, .. } if !(8..=crate::keys::KEY_BYTES_MAX).contains(key_bytes) => {
                "--key-bytes: 8 to 1024"
            }
            Self { value_bytes, .. } if *value_bytes < VALUE_BYTES_MIN => "--value-bytes: at least 8",
            _ => return Ok(()),
        };
        Err(BenchError::Usage(complaint.to_owned()))
    }

    fn row_bytes(&self) -> Option<usize> {
        Some(self.key_bytes + self.value_bytes)
    }

    /// `--seconds` and `--warm-up` do not apply: each phase ends when its work is done.
    fn measure<S: TxStore>(
        &self,
        engine: &str,
        store: &S,
        run: &RunSpec,
        progress: Tell<'_>,
    ) -> Result<SurveyReport, BenchError> {
        let table = store.table("rows")?;
        let rows = Rows { spec: self, seed: run.seed };
        let survey = Survey { store, table: &table, rows, progress };
        memory::touch(self.n.saturating_mul((self.key_bytes + self.value_bytes) as u64 + BESIDE_ROW));
        let phases = survey.run(run.threads)?;
        survey.check_all()?;
        let seconds = phases.iter().map(|phase| phase.seconds).sum();
        Ok(SurveyReport {
            bench: Self::NAME,
            engine: engine.to_owned(),
            workload: self.clone(),
            setting: Setting::new(run, store.isolation(), seconds, 0.0),
            phases,
            checked: true,
        })
    }
}

/// What an engine may take in memory and files for a row, besides its bytes.
const BESIDE_ROW: u64 = 1024;

/// The rows, computed from their numbers. Keys in the order of their rows are in no order.
#[derive(Clone, Copy)]
struct Rows<'a> {
    spec: &'a SurveySpec,
    seed: u64,
}

impl Rows<'_> {
    /// The first word of a row's key: another one for each row, since [`mix`] is a bijection.
    fn number(&self, row: u64) -> u64 {
        mix(row ^ mix(self.seed))
    }

    fn write_key(&self, row: u64, key: &mut [u8]) {
        let mut word = self.number(row);
        for chunk in key.chunks_mut(8) {
            chunk.copy_from_slice(&word.to_be_bytes()[..chunk.len()]);
            word = mix(word);
        }
    }

    /// A value tells the number of its row, which is its stamp.
    fn write_value(&self, row: u64, value: &mut [u8]) {
        write_value(self.number(row), row as u32, value);
    }

    /// Is this the row that its value names?
    fn is_whole(&self, key: &[u8], value: &[u8]) -> bool {
        let number = self.number(u64::from(stamp(value)));
        key.first_chunk() == Some(&number.to_be_bytes())
            && value_belongs(number, self.spec.value_bytes, value)
    }

    fn is_value_of(&self, row: u64, value: &[u8]) -> bool {
        u64::from(stamp(value)) == row && value_belongs(self.number(row), self.spec.value_bytes, value)
    }

    /// Rows that are there after the load, and after all commits.
    fn loaded(&self) -> Range<u64> {
        0..self.spec.n
    }

    fn after_commits(&self) -> u64 {
        self.spec.n + COMMITS + BATCHES * BATCH_ROWS
    }

    /// Rows that the last phase removes.
    fn removed(&self) -> Range<u64> {
        0..self.spec.n / 2
    }
}

/// A survey of a store.
struct Survey<'a, S: TxStore> {
    store: &'a S,
    table: &'a S::Table,
    rows: Rows<'a>,
    progress: Tell<'a>,
}

impl<S: TxStore> Survey<'_, S> {
    fn run(&self, threads: usize) -> Result<Vec<Phase>, BenchError> {
        let n = self.rows.spec.n;
        let batch = |at: u64| n + COMMITS + at * BATCH_ROWS..n + COMMITS + (at + 1) * BATCH_ROWS;
        let mut phases = vec![self.timed("load", n, || self.put(self.rows.loaded()))?];
        self.store.settle()?;
        phases.push(self.timed("commits", COMMITS, || self.put_singly(n..n + COMMITS))?);
        phases.push(self.timed("batches", BATCHES * BATCH_ROWS, || {
            (0..BATCHES).try_for_each(|at| self.put(batch(at)))
        })?);
        self.store.settle()?;
        phases.push(self.timed("lookups", n, || self.look_up(0, n))?);
        phases.push(self.timed_by(threads, "lookups-by-all", n, |thread| self.look_up(thread + 1, n))?);
        phases.push(self.timed("short-scans", n / 4, || self.scan_shortly(n / 4))?);
        phases.push(self.timed("whole-scan", self.rows.after_commits(), || self.scan())?);
        phases.push(self.timed("removals", n / 2, || self.remove(self.rows.removed()))?);
        Ok(phases)
    }

    fn timed(
        &self,
        phase: &'static str,
        ops: u64,
        work: impl Fn() -> Result<(), TxError> + Sync,
    ) -> Result<Phase, BenchError> {
        self.timed_by(1, phase, ops, |_| work())
    }

    /// `ops` is how often each thread does it.
    fn timed_by(
        &self,
        threads: usize,
        phase: &'static str,
        ops: u64,
        work: impl Fn(u64) -> Result<(), TxError> + Sync,
    ) -> Result<Phase, BenchError> {
        (self.progress)(&Progress { phase, done: 0, total: None });
        let begun = Instant::now();
        let done = threads::run(threads, work)?;
        let seconds = begun.elapsed().as_secs_f64();
        done.into_iter().collect::<Result<(), TxError>>()?;
        let ops = ops * threads as u64;
        Ok(Phase { phase, threads, ops, seconds, us_per_op: seconds * 1e6 / ops as f64 })
    }

    /// These rows, in one transaction.
    fn put(&self, rows: Range<u64>) -> Result<(), TxError> {
        let (mut key, mut value) = self.buffers();
        self.store.session()?.transact(TxKind::ReadWrite, |tx| {
            rows.clone().try_for_each(|row| {
                self.rows.write_key(row, &mut key);
                self.rows.write_value(row, &mut value);
                tx.put(self.table, &key, &value)
            })
        })
    }

    /// Rows, each in a transaction of its own.
    fn put_singly(&self, rows: Range<u64>) -> Result<(), TxError> {
        let (mut key, mut value) = self.buffers();
        let mut session = self.store.session()?;
        for row in rows {
            self.rows.write_key(row, &mut key);
            self.rows.write_value(row, &mut value);
            session.single(TxKind::ReadWrite, |tx| tx.put(self.table, &key, &value))?;
        }
        Ok(())
    }

    /// So many loaded rows, as random stream `stream` names them, in one read-only transaction.
    fn look_up(&self, stream: u64, times: u64) -> Result<(), TxError> {
        let (mut key, _) = self.buffers();
        self.store.session()?.transact(TxKind::ReadOnly, |tx| {
            let mut random = Random::new(self.rows.seed, stream);
            for _ in 0..times {
                let row = random.below(self.rows.spec.n);
                self.rows.write_key(row, &mut key);
                if tx.get(self.table, &key, |value| self.rows.is_value_of(row, value))? != Some(true) {
                    return Err(TxError::Wrong(format!("row {row}, {key:02x?}, is not found as it was put")));
                }
            }
            Ok(())
        })
    }

    /// So many short scans, each from a loaded row on, in one read-only transaction.
    fn scan_shortly(&self, times: u64) -> Result<(), TxError> {
        let ((mut from, _), mut last) = (self.buffers(), Vec::new());
        self.store.session()?.transact(TxKind::ReadOnly, |tx| {
            let mut random = Random::new(self.rows.seed, SCANS_STREAM);
            for _ in 0..times {
                self.rows.write_key(random.below(self.rows.spec.n), &mut from);
                let (mut seen, mut is_right) = (0, true);
                last.clear();
                tx.scan(self.table, &from, KEYS_END, false, |key, value| {
                    let is_next = if seen == 0 { key == from } else { key > &last[..] };
                    is_right &= self.rows.is_whole(key, value) && is_next;
                    last.clear();
                    last.extend_from_slice(key);
                    seen += 1;
                    if seen < SCAN_ROWS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                })?;
                // Fewer are right only at the end of the table.
                if !is_right || seen < SCAN_ROWS && (seen == 0 || self.last_key(tx)? != last) {
                    return Err(TxError::Wrong(format!("a scan from {from:02x?} does not see what was put")));
                }
            }
            Ok(())
        })
    }

    fn last_key(&self, tx: &mut impl Tx<Table = S::Table>) -> Result<Vec<u8>, TxError> {
        let mut last = Vec::new();
        tx.scan(self.table, &[], KEYS_END, true, |key, _| {
            last.extend_from_slice(key);
            ControlFlow::Break(())
        })?;
        Ok(last)
    }

    /// All rows in one scan.
    fn scan(&self) -> Result<(), TxError> {
        let expected = self.rows.after_commits();
        self.store.session()?.transact(TxKind::ReadOnly, |tx| {
            let (mut seen, mut stamps) = (0, 0);
            tx.scan(self.table, &[], KEYS_END, false, |_, value| {
                seen += 1;
                stamps += u64::from(stamp(value));
                ControlFlow::Continue(())
            })?;
            let sum = expected * (expected - 1) / 2;
            if (seen, stamps) != (expected, sum) {
                let what =
                    format!("a scan sees {seen} rows with numbers of {stamps}, not {expected} of {sum}");
                return Err(TxError::Wrong(what));
            }
            Ok(())
        })
    }

    /// Removes these rows, in one transaction.
    fn remove(&self, rows: Range<u64>) -> Result<(), TxError> {
        let (mut key, _) = self.buffers();
        self.store.session()?.transact(TxKind::ReadWrite, |tx| {
            rows.clone().try_for_each(|row| {
                self.rows.write_key(row, &mut key);
                let was_there = tx.remove(self.table, &key)?;
                was_there.then_some(()).ok_or_else(|| TxError::Wrong(format!("row {row} was not there")))
            })
        })
    }

    /// The table holds what was put and not removed, and nothing else.
    fn check_all(&self) -> Result<(), BenchError> {
        let removed = self.rows.removed();
        let left = self.rows.after_commits() - (removed.end - removed.start);
        let mut stamps = 0;
        let found = tx_batch::read_all(self.store, self.table, Some(left), self.progress, |key, value| {
            let row = u64::from(stamp(value));
            stamps += row;
            let is_right = self.rows.is_whole(key, value) && !removed.contains(&row);
            is_right.then_some(()).ok_or_else(|| format!("{key:02x?} → {value:02x?} should not be there"))
        })?;
        let expected: u64 = (removed.end..self.rows.after_commits()).sum();
        if (found, stamps) != (left, expected) {
            return Err(BenchError::Wrong(format!("{left} rows should be left, a scan finds {found}")));
        }
        Ok(())
    }

    /// For a key and for a value.
    fn buffers(&self) -> (Vec<u8>, Vec<u8>) {
        (vec![0; self.rows.spec.key_bytes], vec![0; self.rows.spec.value_bytes])
    }
}

/// The random stream of short scans; those before it are the lookups' of each thread.
const SCANS_STREAM: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tx_reference::MapTxStore;

    const SPEC: SurveySpec = SurveySpec { n: 3000, key_bytes: 24, value_bytes: 20 };

    #[test]
    fn every_phase_is_told() {
        let store = MapTxStore::default();
        let report =
            SPEC.measure("map", &store, &RunSpec { threads: 2, ..RunSpec::brief() }, &|_| {}).unwrap();
        let told: Vec<_> = report.phases.iter().map(|phase| (phase.phase, phase.ops)).collect();
        let expected = [
            ("load", 3000),
            ("commits", 1000),
            ("batches", 100_000),
            ("lookups", 3000),
            ("lookups-by-all", 6000),
            ("short-scans", 750),
            ("whole-scan", 104_000),
            ("removals", 1500),
        ];
        assert_eq!(told, expected);
        let columns = report.columns();
        assert!(columns.iter().all(|(_, value)| !value.is_empty()), "{columns:?}");
    }

    #[test]
    fn short_scans_that_show_too_little_are_noticed() {
        let store = MapTxStore::default();
        let table = store.table("rows").unwrap();
        let rows = Rows { spec: &SPEC, seed: 1 };
        let survey = Survey { store: &store, table: &table, rows, progress: &|_| {} };
        assert!(survey.scan_shortly(750).is_err(), "there is no row");
        survey.put(rows.loaded()).unwrap();
        survey.scan_shortly(750).unwrap();
        survey.remove(0..SPEC.n / 2).unwrap();
        assert!(survey.scan_shortly(750).is_err(), "half of the rows are not there");
    }

    /// A store that has lost a row, has one too many or a wrong one is found out.
    #[test]
    fn wrong_rows_are_noticed() {
        for fault in ["lost", "added", "wrong"] {
            let store = MapTxStore::default();
            let table = store.table("rows").unwrap();
            let rows = Rows { spec: &SPEC, seed: 1 };
            let survey = Survey { store: &store, table: &table, rows, progress: &|_| {} };
            survey.put(rows.removed().end..rows.after_commits()).unwrap();
            survey.check_all().unwrap();
            let mut key = vec![0; SPEC.key_bytes];
            rows.write_key(SPEC.n - 1, &mut key);
            let mut session = store.session().unwrap();
            let tampered = session.transact(TxKind::ReadWrite, |tx| match fault {
                "lost" => tx.remove(&table, &key).map(drop),
                "added" => tx.put(&table, &key[1..], &[7; 20]),
                _ => tx.put(&table, &key, &[7; 20]),
            });
            tampered.unwrap();
            assert!(matches!(survey.check_all(), Err(BenchError::Wrong(_))), "{fault}");
        }
    }
}
