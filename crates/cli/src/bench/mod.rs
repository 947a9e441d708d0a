//! `bench`: the drivers of `foreshore-workloads`, run on this engine and on its index alone.

pub mod engine_tx;
mod index;
mod insert;
mod kv;
mod mix;
mod on_tables;
mod readers;
mod rows;
mod tpcc;
mod tx;
mod tx_bench;
mod ycsb;

use crate::failure::Outcome;
use crate::stats::parse_seconds;
use clap::{Args, Subcommand};
use std::time::Duration;

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
    Insert(insert::InsertBenchArgs),
    Kv(kv::KvBenchArgs),
    Mix(mix::MixBenchArgs),
    Readers(readers::ReadersBenchArgs),
    Rows(rows::RowsBenchArgs),
    Tpcc(tpcc::TpccBenchArgs),
    Tx(tx::TxBenchArgs),
    Ycsb(ycsb::YcsbBenchArgs),
}

/// Runs `bench`.
pub fn run(args: &BenchArgs) -> Outcome {
    let watch = args.watch;
    match &args.command {
        BenchCommand::Index(args) => index::run(args),
        BenchCommand::Insert(args) => insert::run(args, watch),
        BenchCommand::Kv(args) => kv::run(args, watch),
        BenchCommand::Mix(args) => mix::run(args, watch),
        BenchCommand::Readers(args) => readers::run(args, watch),
        BenchCommand::Rows(args) => rows::run(args, watch),
        BenchCommand::Tpcc(args) => tpcc::run(args, watch),
        BenchCommand::Tx(args) => tx::run(args, watch),
        BenchCommand::Ycsb(args) => ycsb::run(args, watch),
    }
}
