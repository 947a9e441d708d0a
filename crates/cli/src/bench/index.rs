//! `bench index`: the index alone, against the standard library's map.

use crate::args::spelled;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, grouped};
use crate::profile::{self, Favoured};
use crate::progress::Meter;
use clap::Args;
use foreshore_index::NodeKeys;
use foreshore_workloads::index_bench::{
    self, IndexArgs, Inserts, KeyKind, Line, Options, PhaseResult, Structure,
};
use std::path::PathBuf;
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  foreshore bench index --structure bplus --threads 2
  foreshore bench index --structure std-btreemap --json
  foreshore bench index --structure bplus --keys bytes --n 1000000 --json
  foreshore bench index --structure static --keys u32 --n 64000000
  foreshore bench index --structure bplus --profile foreshore-tune.toml
  foreshore bench index --structure bplus --inserts sorted --insert-batch 100000

Every answer is checked; a run with a wrong one has no figures. A scan of 100
entries is one operation. The static index has phases of its own: build, lookup,
bound (without values), and both in batches of 128.";

/// Time the index alone: inserts, lookups, scans of 100, updates of popular entries, and half lookups with inserts and removals
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct IndexBenchArgs {
    /// What is measured
    #[arg(long, value_enum)]
    structure: Structure,
    #[command(flatten)]
    common: IndexArgs,
    /// Lookups in a batch of the phase multi_get (B+-tree)
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=128))]
    batch: u16,
    /// How the keys come in; many and sorted take batches, sorting included in the time (B+-tree)
    #[arg(long, value_enum, default_value_t = Inserts::Single)]
    inserts: Inserts,
    /// Entries in a batch of inserts
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    insert_batch: u32,
    /// Keys in a node of a B+-tree of integers: 16, 32, 64 or 128 [default: 64]
    #[arg(long, conflicts_with = "profile")]
    node_keys: Option<NodeKeys>,
    /// Take the node size from a profile that `foreshore tune` wrote
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// What the profile is asked for
    #[arg(long, value_enum, default_value_t = Favoured::Balanced, requires = "profile")]
    favour: Favoured,
}

/// Runs `bench index`.
pub fn run(args: &IndexBenchArgs) -> Outcome {
    let options = options(args)?;
    let results = measure(args, options)?;
    let mut out = Output::new(args.common.json);
    if out.is_json() {
        let (name, own) = (spelled(args.structure), args.structure != Structure::StdBTreeMap);
        let line = |result| Line::new(&name, own, &args.common, options, result);
        results.iter().try_for_each(|result| out.object(&line(result)))?;
    } else {
        let row = |result: &PhaseResult| {
            [
                result.phase.to_string(),
                result.threads.to_string(),
                grouped(result.ops_per_s as u64),
                format!("{:.1}", result.bytes_per_key),
            ]
        };
        out.table(PhaseResult::COLUMNS, &results.iter().map(row).collect::<Vec<_>>())?;
    }
    out.finish()
}

fn measure(args: &IndexBenchArgs, options: Options) -> Outcome<Vec<PhaseResult>> {
    let plan = args.common.plan(options)?;
    if args.structure == Structure::StdBTreeMap {
        args.common.choose_pages();
    }
    let meter = Meter::new("index", None);
    let started = Instant::now();
    let mut tell = |phase: &str| meter.set(started.elapsed().as_secs(), || phase.to_string());
    Ok(index_bench::run(args.structure, args.common.keys, &plan, &mut tell)?)
}

fn options(args: &IndexBenchArgs) -> Outcome<Options> {
    if !args.structure.takes(args.common.keys) {
        return Err(Failure::usage("--keys: this structure takes integers only; --structure names another"));
    }
    let batched = args.structure == Structure::BPlus;
    if !batched && args.inserts != Inserts::Single {
        return Err(Failure::usage("--inserts: of these structures, only bplus takes batches of inserts"));
    }
    let node_keys = node_keys(args)?;
    if node_keys.is_some() && (!batched || args.common.keys == KeyKind::Bytes) {
        return Err(Failure::usage("--node-keys, --profile: only for bplus with integer keys"));
    }
    let (batch, insert_batch) = (usize::from(args.batch), args.insert_batch as usize);
    Ok(Options { batch, inserts: args.inserts, insert_batch, node_keys })
}

/// The node size that was asked for, or that the profile tells.
fn node_keys(args: &IndexBenchArgs) -> Outcome<Option<NodeKeys>> {
    let Some(path) = &args.profile else { return Ok(args.node_keys) };
    let profile = profile::load(path)?;
    let key_bytes = if args.common.keys == KeyKind::U32 { size_of::<u32>() } else { size_of::<u64>() };
    Ok(Some(profile.node_keys(key_bytes, args.favour.favour())))
}
