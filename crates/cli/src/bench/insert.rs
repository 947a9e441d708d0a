//! `bench insert`: record insertion, into a table of each thread's own.

use crate::bench::tx_bench;
use crate::failure::Outcome;
use crate::profile::ProfileArgs;
use clap::Args;
use foreshore_workloads::insert::InsertSpec;
use foreshore_workloads::tx_spec::TxArgs;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  foreshore bench insert --dir /srv --threads 2 --durability buffered
  foreshore bench insert --threads 16 --seconds 10 --json

An operation is a row, a latency is a transaction's. Every row is looked for at
the end.";

/// Time record insertion: each thread fills a table of its own and commits every 1000 rows
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct InsertBenchArgs {
    #[command(flatten)]
    args: TxArgs<InsertSpec>,
    #[command(flatten)]
    profile: ProfileArgs,
}

/// Runs `bench insert`.
pub fn run(args: &InsertBenchArgs, watch: Option<Duration>) -> Outcome {
    tx_bench::run(&args.args, &args.profile, watch)
}
