//! `bench`: the drivers of `foreshore-workloads`, run on this engine and on its index alone.

mod index;
mod kv;

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
    Kv(kv::KvBenchArgs),
}

/// Runs `bench`.
pub fn run(args: &BenchArgs) -> Outcome {
    match &args.command {
        BenchCommand::Index(args) => index::run(args),
        BenchCommand::Kv(args) => kv::run(args),
    }
}
