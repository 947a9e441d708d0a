//! `bench tx`: transactions of a few reads and updates.

use crate::bench::tx_bench;
use crate::failure::Outcome;
use crate::profile::ProfileArgs;
use clap::Args;
use foreshore_workloads::tx::TxSpec;
use foreshore_workloads::tx_spec::TxArgs;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  foreshore bench tx --reads 4 --updates 4 --threads 16 --durability sync
  foreshore bench tx --reads 10 --updates 0 --threads 2 --json

An update adds one to a counter; at the end the counters must add up to the
updates committed.";

/// Time transactions of a few reads and updates of random rows
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct TxBenchArgs {
    #[command(flatten)]
    args: TxArgs<TxSpec>,
    #[command(flatten)]
    profile: ProfileArgs,
}

/// Runs `bench tx`.
pub fn run(args: &TxBenchArgs, watch: Option<Duration>) -> Outcome {
    tx_bench::run(&args.args, &args.profile, watch)
}
