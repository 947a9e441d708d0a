//! `peers`: other embedded stores, measured by the code that measures Foreshore.
//!
//! Each engine is set up as its own documentation recommends for the durability asked for, and refuses what it cannot
//! give: see the head of its file. What all share is written down in `foreshore_workloads::store`.

#[cfg(feature = "c-engines")]
mod c_engine;
mod compare;
mod ending;
mod engine;
mod fjall;
mod host;
mod lmdb;
mod maps;
mod redb;
#[cfg(feature = "sled")]
mod sled;
#[cfg(feature = "sqlite")]
mod sqlite;
mod tx;

use clap::{Parser, Subcommand};
use engine::Engine;
use foreshore_workloads::disk::disk_bytes;
use foreshore_workloads::insert::InsertSpec;
use foreshore_workloads::kv::{self, BenchError};
use foreshore_workloads::mix::MixSpec;
use foreshore_workloads::reference::MapStore;
use foreshore_workloads::rows::RowsSpec;
use foreshore_workloads::survey::SurveySpec;
use foreshore_workloads::tpcc::TpccSpec;
use foreshore_workloads::tx::TxSpec;
use foreshore_workloads::tx_spec::{TxArgs, TxWorkload};
use foreshore_workloads::ycsb::{Letter, YcsbSpec};
use foreshore_workloads::{KvArgs, KvReport, Store};
use std::process::ExitCode;

/// Both binaries of a comparison use it, so that no engine wins by its allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures other embedded stores with the code that measures Foreshore.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a benchmark on one engine
    #[command(subcommand)]
    Bench(Bench),
    /// Run Foreshore and peers by turns; print medians and record every run
    Compare(compare::Options),
    /// Run Foreshore's ordered map, BTreeMap and other maps by turns; print medians and record every run
    CompareIndex(maps::compare::Options),
    /// List the engines: whether this build has them, how each keeps a durability, what --cache sets
    Engines {
        /// Only the names of those that this build has, one per line
        #[arg(long)]
        built: bool,
    },
}

#[derive(Subcommand)]
enum Bench {
    /// Concurrent ordered maps in memory
    Index(maps::IndexBench),
    /// Key-value operations
    Kv {
        /// The engine
        #[arg(long, value_enum)]
        engine: Engine,
        #[command(flatten)]
        args: KvArgs,
    },
    /// TPC-C without think times
    Tpcc(TxBench<TpccSpec>),
    /// Record insertion into a table of each thread's own
    Insert(TxBench<InsertSpec>),
    /// YCSB A to F
    Ycsb(TxBench<YcsbSpec>),
    /// Lookups, insertions and deletions of random keys
    Mix(TxBench<MixSpec>),
    /// A load of real rows, each a transaction of its own
    Rows(TxBench<RowsSpec>),
    /// One pass over all that a store is used for
    Survey(TxBench<SurveySpec>),
    /// Transactions of a few reads and updates
    Tx(TxBench<TxSpec>),
}

/// A transactional workload on an engine.
#[derive(clap::Args)]
struct TxBench<W: clap::Args> {
    /// The engine
    #[arg(long, value_enum)]
    engine: Engine,
    #[command(flatten)]
    args: TxArgs<W>,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Bench(bench) => run(&bench),
        Command::Compare(options) => compare::run(&options).map_err(BenchError::from),
        Command::CompareIndex(options) => maps::compare::run(&options).map_err(BenchError::from),
        Command::Engines { built } => {
            engine::list(built);
            Ok(())
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            ending::end_if_interrupted();
            eprintln!("peers: {error}");
            ExitCode::from(exit_code(&error))
        }
    }
}

/// The exit codes of `foreshore`: 2 usage, 3 corruption, 5 everything else that an engine may report.
fn exit_code(error: &BenchError) -> u8 {
    match error {
        BenchError::Usage(_) => 2,
        BenchError::Wrong(_) => 3,
        _ => 5,
    }
}

fn run(bench: &Bench) -> Result<(), BenchError> {
    match bench {
        Bench::Index(bench) => maps::run(bench),
        Bench::Kv { engine, args } => bench_kv(*engine, args),
        Bench::Tpcc(TxBench { engine, args }) => with_transactions(*engine, args),
        Bench::Insert(TxBench { engine, args }) => with_transactions(*engine, args),
        Bench::Ycsb(TxBench { engine, args }) if args.workload.workload == Letter::F => {
            with_transactions(*engine, args)
        }
        Bench::Ycsb(TxBench { engine, args }) => tx::bench(*engine, args),
        Bench::Mix(TxBench { engine, args }) => tx::bench(*engine, args),
        Bench::Rows(TxBench { engine, args }) => tx::bench(*engine, args),
        Bench::Survey(TxBench { engine, args }) => with_transactions(*engine, args),
        Bench::Tx(TxBench { engine, args }) => with_transactions(*engine, args),
    }
}

/// A workload whose transactions have several operations.
fn with_transactions<W: TxWorkload>(engine: Engine, args: &TxArgs<W>) -> Result<(), BenchError> {
    engine.must_have_transactions()?;
    tx::bench(engine, args)
}

fn bench_kv(engine: Engine, args: &KvArgs) -> Result<(), BenchError> {
    args.spec.check()?;
    engine.must_keep(args.spec.durability)?;
    let scratch = args.scratch().map_err(|error| BenchError::Store(error.into()))?;
    let (path, spec) = (scratch.path(), &args.spec);
    ending::remove_on_signal(path)?;
    let report = match engine {
        #[cfg(feature = "c-engines")]
        c if c.api().is_some() => {
            let api = c.api().expect("just seen");
            measure(engine, &c_engine::CRows::create(api, path, spec)?, args)?
        }
        Engine::Lmdb => measure(engine, &lmdb::Lmdb::create(path, spec)?, args)?,
        Engine::Redb => measure(engine, &redb::Redb::create(path, spec)?, args)?,
        Engine::Fjall => measure(engine, &fjall::Fjall::create(path, spec)?, args)?,
        #[cfg(feature = "sled")]
        Engine::Sled => measure(engine, &sled::Sled::create(path, spec)?, args)?,
        #[cfg(feature = "sqlite")]
        Engine::Sqlite => measure(engine, &sqlite::Sqlite::create(path, spec)?, args)?,
        Engine::Btreemap => measure(engine, &MapStore::new(spec.durability)?, args)?,
        other => return Err(other.not_here("kv")),
    };
    let disk_bytes = disk_bytes(path).map_err(|error| BenchError::Store(error.into()))?;
    if args.json {
        engine.print_json(&report, spec.durability, disk_bytes)
    } else {
        println!("{report}");
        Ok(())
    }
}

fn measure(engine: Engine, store: &impl Store, args: &KvArgs) -> Result<KvReport, BenchError> {
    kv::run(&engine.name(), store, &args.spec, &|_| {})
}
