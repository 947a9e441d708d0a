//! `bench ycsb`: YCSB A to F.

use crate::bench::tx_bench;
use crate::failure::Outcome;
use crate::profile::ProfileArgs;
use clap::Args;
use foreshore_workloads::tx_spec::TxArgs;
use foreshore_workloads::ycsb::YcsbSpec;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  foreshore bench ycsb --workload a --dir /srv --threads 2 --durability buffered
  foreshore bench ycsb --workload e --n 2000000 --value-bytes 100 --json

Every value read is checked, and at the end every row with its last value.";

/// Time YCSB's core workloads; every operation is a transaction
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct YcsbBenchArgs {
    #[command(flatten)]
    args: TxArgs<YcsbSpec>,
    #[command(flatten)]
    profile: ProfileArgs,
}

/// Runs `bench ycsb`.
pub fn run(args: &YcsbBenchArgs, watch: Option<Duration>) -> Outcome {
    tx_bench::run(&args.args, &args.profile, watch)
}
