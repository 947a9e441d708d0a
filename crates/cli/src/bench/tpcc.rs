//! `bench tpcc`: TPC-C without think times.

use crate::args::IndexKind;
use crate::bench::tx_bench;
use crate::failure::Outcome;
use crate::profile::ProfileArgs;
use clap::Args;
use foreshore_workloads::tpcc::TpccSpec;
use foreshore_workloads::tx_spec::TxArgs;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  foreshore bench tpcc --dir /srv --warehouses 2 --threads 2 --affinity
  foreshore bench tpcc --warehouses 16 --threads 16 --seconds 30 --cache 4GiB
  foreshore bench tpcc --dir /srv --mix payment --threads 2 --json
  foreshore bench tpcc --warehouses 2 --threads 2 --index csb --json

A warehouse is about 100 MB. The consistency conditions of clause 3.3.2 are
checked after the load and at the end; a run that breaks one has no figure.";

/// Time TPC-C: load, check, run without think times, check again
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct TpccBenchArgs {
    #[command(flatten)]
    args: TxArgs<TpccSpec>,
    #[command(flatten)]
    profile: ProfileArgs,
    /// Index over the tables' leaves
    #[arg(long, value_enum, default_value_t)]
    index: IndexKind,
}

/// Runs `bench tpcc`.
pub fn run(args: &TpccBenchArgs, watch: Option<Duration>) -> Outcome {
    tx_bench::run_with(&args.args, &args.profile, watch, args.index)
}
