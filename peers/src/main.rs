//! `peers`: other embedded stores, measured by the code that measures Foreshore.
//!
//! Each engine is set up as its own documentation recommends for the durability asked for, and refuses what it cannot
//! give: see the head of its file. What all share is written down in `foreshore_workloads::store`.

mod compare;
mod fjall;
mod host;
mod lmdb;
mod redb;
mod tx;

use clap::{Parser, Subcommand, ValueEnum};
use foreshore_workloads::insert::InsertSpec;
use foreshore_workloads::kv::{self, BenchError};
use foreshore_workloads::mix::MixSpec;
use foreshore_workloads::reference::MapStore;
use foreshore_workloads::tpcc::TpccSpec;
use foreshore_workloads::tx::TxSpec;
use foreshore_workloads::tx_spec::TxArgs;
use foreshore_workloads::ycsb::YcsbSpec;
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
}

#[derive(Subcommand)]
enum Bench {
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

/// The engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// Copy-on-write B+-tree in a memory map (C)
    Lmdb,
    /// Copy-on-write B+-tree (Rust)
    Redb,
    /// Log-structured merge tree (Rust)
    Fjall,
    /// `RwLock<BTreeMap>`, volatile
    Btreemap,
}

impl Engine {
    fn name(self) -> String {
        self.to_possible_value().expect("no engine is hidden").get_name().to_owned()
    }
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Bench(bench) => run(&bench),
        Command::Compare(options) => compare::run(&options).map_err(BenchError::from),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
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
        Bench::Kv { engine, args } => bench_kv(*engine, args),
        Bench::Tpcc(TxBench { engine, args }) => tx::bench(*engine, args),
        Bench::Insert(TxBench { engine, args }) => tx::bench(*engine, args),
        Bench::Ycsb(TxBench { engine, args }) => tx::bench(*engine, args),
        Bench::Mix(TxBench { engine, args }) => tx::bench(*engine, args),
        Bench::Tx(TxBench { engine, args }) => tx::bench(*engine, args),
    }
}

fn bench_kv(engine: Engine, args: &KvArgs) -> Result<(), BenchError> {
    let scratch = args.scratch().map_err(|error| BenchError::Store(error.into()))?;
    let (path, spec) = (scratch.path(), &args.spec);
    let report = match engine {
        Engine::Lmdb => measure(engine, &lmdb::Lmdb::create(path, spec)?, args)?,
        Engine::Redb => measure(engine, &redb::Redb::create(path, spec)?, args)?,
        Engine::Fjall => measure(engine, &fjall::Fjall::create(path, spec)?, args)?,
        Engine::Btreemap => measure(engine, &MapStore::new(spec.durability)?, args)?,
    };
    if args.json {
        println!("{}", serde_json::to_string(&report).map_err(|error| BenchError::Store(error.into()))?);
    } else {
        println!("{report}");
    }
    Ok(())
}

fn measure(engine: Engine, store: &impl Store, args: &KvArgs) -> Result<KvReport, BenchError> {
    kv::run(&engine.name(), store, &args.spec, &|_| {})
}
