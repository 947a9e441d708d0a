//! `bench`: the drivers of `foreshore-workloads`, run on this engine and on its index alone.

pub mod engine_tx;
mod index;
mod kv;
mod on_tables;
mod tx_bench;

use crate::failure::{Failure, Outcome};
use clap::{Args, Subcommand};
use foreshore_workloads::insert::InsertSpec;
use foreshore_workloads::mix::MixSpec;
use foreshore_workloads::parse_seconds;
use foreshore_workloads::readers::ReadersSpec;
use foreshore_workloads::rows::RowsSpec;
use foreshore_workloads::survey::SurveySpec;
use foreshore_workloads::tpcc::TpccSpec;
use foreshore_workloads::tx::TxSpec;
use foreshore_workloads::ycsb::YcsbSpec;
use std::time::Duration;
use tx_bench::{IndexedBenchArgs, TxBenchArgs};

/// Measure the engine, or the index alone
#[derive(Args)]
pub struct BenchArgs {
    /// Print rates and waits to stderr every so many seconds, the loading included; not for `index`
    #[arg(long, global = true, value_name = "SECONDS", value_parser = parse_seconds)]
    watch: Option<Duration>,
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Subcommand)]
enum BenchCommand {
    Index(index::IndexBenchArgs),
    /// Time record insertion: each thread fills a table of its own and commits every 1000 rows
    #[command(after_help = INSERT_EXAMPLES)]
    Insert(TxBenchArgs<InsertSpec>),
    Kv(kv::KvBenchArgs),
    /// Time lookups, insertions and deletions of random keys; every operation is a transaction
    #[command(after_help = MIX_EXAMPLES)]
    Mix(IndexedBenchArgs<MixSpec>),
    /// Time read-only transactions alone and beside writers, by turns in one run
    #[command(after_help = READERS_EXAMPLES)]
    Readers(TxBenchArgs<ReadersSpec>),
    /// Time a load of flights or TPC-H orders; every row is a transaction
    #[command(after_help = ROWS_EXAMPLES)]
    Rows(IndexedBenchArgs<RowsSpec>),
    /// Time one pass over all that a store is used for, from a large load to removals
    #[command(after_help = SURVEY_EXAMPLES)]
    Survey(IndexedBenchArgs<SurveySpec>),
    /// Time TPC-C: load, check, run without think times, check again
    #[command(after_help = TPCC_EXAMPLES)]
    Tpcc(IndexedBenchArgs<TpccSpec>),
    /// Time transactions of a few reads and updates of random rows
    #[command(after_help = TX_EXAMPLES)]
    Tx(TxBenchArgs<TxSpec>),
    /// Time YCSB's core workloads; every operation is a transaction
    #[command(after_help = YCSB_EXAMPLES)]
    Ycsb(TxBenchArgs<YcsbSpec>),
}

const INSERT_EXAMPLES: &str = "\
Examples:
  foreshore bench insert --dir /srv --threads 2 --durability buffered
  foreshore bench insert --threads 16 --seconds 10 --json

An operation is a row, a latency is a transaction's. Every row is looked for at
the end.";

const MIX_EXAMPLES: &str = "\
Examples:
  foreshore bench mix --update-ratio 20 --threads 2 --durability buffered
  foreshore bench mix --update-ratio 100 --n 10000000 --threads 16 --json
  foreshore bench mix --update-ratio 50 --index o2 --json

Every answer is checked, and the whole table at the end.";

const READERS_EXAMPLES: &str = "\
Examples:
  foreshore bench readers --readers 1 --threads 1 --durability buffered
  foreshore bench readers --readers 8 --threads 8 --seconds 3 --turns 5 --json

Use no more readers and writers together than there are cores: beyond that the
figure tells how cores are shared out. At the end the counters must add up to
the updates committed.";

const ROWS_EXAMPLES: &str = "\
Examples:
  foreshore bench rows --input flights-2011.csv.gz,flights-2014.csv.gz
  foreshore bench rows --n 1000000 --threads 16 --json     TPC-H's ORDERS

Files are read before the clock starts. At the end the table is compared with
them. --seconds and --warm-up do not apply: it ends when all rows are in.";

const SURVEY_EXAMPLES: &str = "\
Examples:
  foreshore bench survey --dir /srv
  foreshore bench survey --dir /srv --n 5000000 --cache 4GiB --threads 4 --json

One transaction loads the rows in random order; then come 1000 commits of a row,
100 of 1000 rows, lookups by one thread and by all, scans of 10 rows, a scan of
the table, and one transaction that removes half of the rows. Answers are
checked as they come, and the whole table at the end. --seconds and --warm-up do
not apply: each phase ends when its work is done.";

const TPCC_EXAMPLES: &str = "\
Examples:
  foreshore bench tpcc --dir /srv --warehouses 2 --threads 2 --affinity
  foreshore bench tpcc --warehouses 16 --threads 16 --seconds 30 --cache 4GiB
  foreshore bench tpcc --dir /srv --mix payment --threads 2 --json
  foreshore bench tpcc --warehouses 2 --threads 2 --index csb --json

A warehouse is about 100 MB. The consistency conditions of clause 3.3.2 are
checked after the load and at the end; a run that breaks one has no figure.";

const TX_EXAMPLES: &str = "\
Examples:
  foreshore bench tx --reads 4 --updates 4 --threads 16 --durability sync
  foreshore bench tx --reads 10 --updates 0 --threads 2 --json

An update adds one to a counter; at the end the counters must add up to the
updates committed.";

const YCSB_EXAMPLES: &str = "\
Examples:
  foreshore bench ycsb --workload a --dir /srv --threads 2 --durability buffered
  foreshore bench ycsb --workload e --n 2000000 --value-bytes 100 --json

Every value read is checked, and at the end every row with its last value.";

/// Runs `bench`.
pub fn run(args: &BenchArgs) -> Outcome {
    ensure_old_primitives()?;
    let watch = args.watch;
    match &args.command {
        BenchCommand::Index(args) => index::run(args),
        BenchCommand::Insert(args) => args.run(watch),
        BenchCommand::Kv(args) => kv::run(args, watch),
        BenchCommand::Mix(args) => args.run(watch),
        BenchCommand::Readers(args) => args.run(watch),
        BenchCommand::Rows(args) => args.run(watch),
        BenchCommand::Survey(args) => args.run(watch),
        BenchCommand::Tpcc(args) => args.run(watch),
        BenchCommand::Tx(args) => args.run(watch),
        BenchCommand::Ycsb(args) => args.run(watch),
    }
}

/// A build without old primitives would do without them, and be taken for one that has them.
fn ensure_old_primitives() -> Outcome {
    let wanted = std::env::var_os("FORESHORE_OLD").is_some_and(|named| !named.is_empty());
    if !wanted || cfg!(foreshore_stages) {
        return Ok(());
    }
    Err(Failure::usage(
        "FORESHORE_OLD: this build has no old primitives; `cargo xtask stages` makes target/stages/release/foreshore, \
         which has",
    ))
}
