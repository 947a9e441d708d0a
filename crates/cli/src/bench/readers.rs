//! `bench readers`: what read-only transactions lose to writers.

use crate::bench::tx_bench;
use crate::failure::Outcome;
use crate::profile::ProfileArgs;
use clap::Args;
use foreshore_workloads::readers::ReadersSpec;
use foreshore_workloads::tx_spec::TxArgs;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  foreshore bench readers --readers 1 --threads 1 --durability buffered
  foreshore bench readers --readers 8 --threads 8 --seconds 3 --turns 5 --json

Use no more readers and writers together than there are cores: beyond that the
figure tells how cores are shared out. At the end the counters must add up to
the updates committed.";

/// Time read-only transactions alone and beside writers, by turns in one run
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ReadersBenchArgs {
    #[command(flatten)]
    args: TxArgs<ReadersSpec>,
    #[command(flatten)]
    profile: ProfileArgs,
}

/// Runs `bench readers`.
pub fn run(args: &ReadersBenchArgs, watch: Option<Duration>) -> Outcome {
    tx_bench::run(&args.args, &args.profile, watch)
}
