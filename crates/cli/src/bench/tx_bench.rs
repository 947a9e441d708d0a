//! The commands of the transactional workloads: run one on the engine, show progress, print what it found.

use crate::args::IndexKind;
use crate::bench::engine_tx::EngineTx;
use crate::bench::on_tables::{OnDisk, OnTables};
use crate::failure::{Failure, Outcome};
use crate::output::{Output, grouped, size};
use crate::profile::ProfileArgs;
use crate::progress::Phases;
use crate::scratch::{Scratch, remove_on_interrupt};
use crate::stats::inside::watched;
use clap::Args;
use foreshore::{Database, Wait};
use foreshore_workloads::tx_report::TxReport;
use foreshore_workloads::tx_spec::{TxArgs, TxWorkload};
use std::time::Duration;

/// A transactional workload, to be run on a database of its own.
#[derive(Args)]
pub struct TxBenchArgs<W: Args> {
    #[command(flatten)]
    args: TxArgs<W>,
    #[command(flatten)]
    profile: ProfileArgs,
}

/// The same over tables with an index that is named.
#[derive(Args)]
pub struct IndexedBenchArgs<W: Args> {
    #[command(flatten)]
    bench: TxBenchArgs<W>,
    /// Index over the tables' leaves
    #[arg(long, value_enum, default_value_t)]
    index: IndexKind,
}

impl<W: TxWorkload> IndexedBenchArgs<W> {
    /// Runs it.
    pub fn run(&self, watch: Option<Duration>) -> Outcome {
        self.bench.run_over(self.index, watch)
    }
}

impl<W: TxWorkload> TxBenchArgs<W> {
    /// Runs it.
    pub fn run(&self, watch: Option<Duration>) -> Outcome {
        self.run_over(IndexKind::default(), watch)
    }

    fn run_over(&self, index: IndexKind, watch: Option<Duration>) -> Outcome {
        let Self { args, profile } = self;
        args.check()?;
        let options = profile.advise(Database::builder())?;
        let scratch = args.scratch().map_err(|e| Failure::io(args.dir.display(), &e))?;
        remove_on_interrupt(Scratch::made(scratch.path()))?;
        let store = EngineTx::open(scratch.path(), &args.run, options.index(index.engine()))?;
        let report = {
            let phases = Phases::default();
            watched(&store.0, watch, || args.measure("foreshore", &store, &|progress| phases.tell(progress)))?
        };
        let report = OnTables::of(&store.0, report)?;
        let waits = store.0.stats().waits;
        store.close()?;
        print(args.json, &report.in_dir(scratch.path())?, &waits)
    }
}

fn print(json: bool, report: &OnDisk<impl TxReport>, waits: &[Wait]) -> Outcome {
    let mut out = Output::new(json);
    if out.is_json() {
        out.object(report)?;
    } else {
        let columns = report.on_tables.report.columns();
        out.table(columns.each_ref().map(|(name, _)| *name), &[columns.map(|(_, value)| value)])?;
        out.line(format!("{} on disk once closed", size(report.disk_bytes)))?;
        // Loading included: who waited for what.
        out.table(
            ["waits for", "times", "ms in all", "µs each"],
            &waits.iter().map(wait).collect::<Vec<_>>(),
        )?;
    }
    out.finish()
}

fn wait(wait: &Wait) -> [String; 4] {
    let each = wait.ns as f64 / 1e3 / wait.count.max(1) as f64;
    [wait.what.clone(), grouped(wait.count), format!("{:.1}", wait.ns as f64 / 1e6), format!("{each:.1}")]
}
