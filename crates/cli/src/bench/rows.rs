//! `bench rows`: a load of real rows, as in the O2-Tree paper's Figure 10.

use crate::args::IndexKind;
use crate::bench::tx_bench;
use crate::failure::Outcome;
use crate::profile::ProfileArgs;
use clap::Args;
use foreshore_workloads::rows::RowsSpec;
use foreshore_workloads::tx_spec::TxArgs;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  foreshore bench rows --input flights-2011.csv.gz,flights-2014.csv.gz
  foreshore bench rows --n 1000000 --threads 16 --json     TPC-H's ORDERS

Files are read before the clock starts. At the end the table is compared with
them. --seconds and --warm-up do not apply: it ends when all rows are in.";

/// Time a load of flights or TPC-H orders; every row is a transaction
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct RowsBenchArgs {
    #[command(flatten)]
    args: TxArgs<RowsSpec>,
    #[command(flatten)]
    profile: ProfileArgs,
    /// Index over the table's leaves
    #[arg(long, value_enum, default_value_t)]
    index: IndexKind,
}

/// Runs `bench rows`.
pub fn run(args: &RowsBenchArgs, watch: Option<Duration>) -> Outcome {
    tx_bench::run_with(&args.args, &args.profile, watch, args.index)
}
