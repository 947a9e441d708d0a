//! `bench mix`: the O2-Tree's mixes.

use crate::args::IndexKind;
use crate::bench::tx_bench;
use crate::failure::Outcome;
use crate::profile::ProfileArgs;
use clap::Args;
use foreshore_workloads::mix::MixSpec;
use foreshore_workloads::tx_spec::TxArgs;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  foreshore bench mix --update-ratio 20 --threads 2 --durability buffered
  foreshore bench mix --update-ratio 100 --n 10000000 --threads 16 --json
  foreshore bench mix --update-ratio 50 --index o2 --json

Every answer is checked, and the whole table at the end.";

/// Time lookups, insertions and deletions of random keys; every operation is a transaction
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct MixBenchArgs {
    #[command(flatten)]
    args: TxArgs<MixSpec>,
    #[command(flatten)]
    profile: ProfileArgs,
    /// Index over the table's leaves
    #[arg(long, value_enum, default_value_t)]
    index: IndexKind,
}

/// Runs `bench mix`.
pub fn run(args: &MixBenchArgs, watch: Option<Duration>) -> Outcome {
    tx_bench::run_with(&args.args, &args.profile, watch, args.index)
}
