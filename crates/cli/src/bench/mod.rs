//! `bench`: the drivers of `foreshore-workloads`, run on this engine and on its index alone.

pub mod engine_tx;
mod index;
mod insert;
mod kv;
mod mix;
mod tpcc;
mod tx;
mod tx_bench;
mod ycsb;

use crate::failure::Outcome;
use clap::{Args, Subcommand};

/// Measure the engine, or the index alone
#[derive(Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Subcommand)]
enum BenchCommand {
    Index(index::IndexBenchArgs),
    Insert(insert::InsertBenchArgs),
    Kv(kv::KvBenchArgs),
    Mix(mix::MixBenchArgs),
    Tpcc(tpcc::TpccBenchArgs),
    Tx(tx::TxBenchArgs),
    Ycsb(ycsb::YcsbBenchArgs),
}

/// Runs `bench`.
pub fn run(args: &BenchArgs) -> Outcome {
    match &args.command {
        BenchCommand::Index(args) => index::run(args),
        BenchCommand::Insert(args) => insert::run(args),
        BenchCommand::Kv(args) => kv::run(args),
        BenchCommand::Mix(args) => mix::run(args),
        BenchCommand::Tpcc(args) => tpcc::run(args),
        BenchCommand::Tx(args) => tx::run(args),
        BenchCommand::Ycsb(args) => ycsb::run(args),
    }
}
