//! `peers bench index`: concurrent ordered maps in memory that people use, measured as Foreshore's are.
//!
//! Each is used by its own quickest documented calls. Memory per key is the growth of the process's resident memory, as for
//! `BTreeMap`. All allocate through the allocator of this program, which asks for huge pages; they get them with `--huge-pages`.

mod any_key;
pub mod compare;
mod congee;
mod masstree;

use crate::compare::name;
use any_key::{Bplustree, Concurrent, Ferntree, SccTree, Skiplist};
use clap::ValueEnum;
use comfy_table::{Table, presets};
use congee::Congee;
use foreshore_workloads::index_bench::{
    IndexArgs, KeyKind, Keys, Line, Options, PhaseResult, Shared, StringKeys, U32Keys, U64Keys,
};
use foreshore_workloads::kv::BenchError;
use masstree::Masstree;

/// A map on random keys.
#[derive(clap::Args)]
pub struct IndexBench {
    /// What is measured
    #[arg(long, value_enum)]
    structure: Map,
    #[command(flatten)]
    args: IndexArgs,
}

/// The maps, by the names of their crates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Map {
    /// B+-tree with optimistic lock coupling
    Bplustree,
    /// Lock-free B+-tree
    #[value(name = "concurrent-map")]
    Concurrent,
    /// Adaptive radix tree with optimistic lock coupling; integer keys
    Congee,
    /// Lock-free skip list
    CrossbeamSkiplist,
    /// B+-tree with optimistic lock coupling
    Ferntree,
    /// Masstree; integer keys
    Masstree,
    /// scc::TreeIndex, a B+-tree for readers
    Scc,
}

impl Map {
    /// Can it be ordered by such keys?
    fn takes(self, keys: KeyKind) -> bool {
        keys != KeyKind::Bytes || !matches!(self, Self::Congee | Self::Ferntree | Self::Masstree)
    }
}

type Phases = Result<Vec<PhaseResult>, BenchError>;

/// Runs all phases, and prints them.
pub fn run(bench: &IndexBench) -> Result<(), BenchError> {
    let args = &bench.args;
    if !bench.structure.takes(args.keys) {
        return Err(BenchError::Usage("--keys: this map takes u64 and u32".into()));
    }
    let results = match args.keys {
        KeyKind::U64 if bench.structure == Map::Congee => measure(args, &Congee::new(), U64Keys),
        KeyKind::U32 if bench.structure == Map::Congee => measure(args, &Congee::new(), U32Keys),
        KeyKind::U64 => with_any_key(bench, U64Keys),
        KeyKind::U32 => with_any_key(bench, U32Keys),
        KeyKind::Bytes => with_strings(bench),
    }?;
    print(bench, &results);
    Ok(())
}

fn with_any_key<K>(bench: &IndexBench, keys: K) -> Phases
where
    K: Keys<Key: any_key::Integer>,
{
    let args = &bench.args;
    match bench.structure {
        Map::Bplustree => measure(args, &Bplustree::new(), keys),
        Map::Concurrent => measure(args, &Concurrent::new(), keys),
        Map::Congee => unreachable!("has calls of its own"),
        Map::CrossbeamSkiplist => measure(args, &Skiplist::new(), keys),
        Map::Ferntree => measure(args, &Ferntree::new(), keys),
        Map::Masstree => measure(args, &Masstree::new(), keys),
        Map::Scc => measure(args, &SccTree::new(), keys),
    }
}

fn with_strings(bench: &IndexBench) -> Phases {
    let args = &bench.args;
    match bench.structure {
        Map::Bplustree => measure(args, &Bplustree::new(), StringKeys),
        Map::Concurrent => measure(args, &Concurrent::new(), StringKeys),
        Map::CrossbeamSkiplist => measure(args, &Skiplist::new(), StringKeys),
        Map::Scc => measure(args, &SccTree::new(), StringKeys),
        Map::Congee | Map::Ferntree | Map::Masstree => unreachable!("does not take them"),
    }
}

fn measure<K: Keys>(args: &IndexArgs, map: &impl Shared<K::Key>, keys: K) -> Phases {
    args.choose_pages();
    args.plan(Options::default())?.concurrent(map, keys, &mut |_| {})
}

fn print(IndexBench { structure, args }: &IndexBench, results: &[PhaseResult]) {
    let name = name(structure);
    if args.json {
        for result in results {
            println!(
                "{}",
                serde_json::to_string(&Line::new(&name, false, args, Options::default(), result))
                    .expect("numbers and names")
            );
        }
        return;
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(PhaseResult::COLUMNS);
    for PhaseResult { phase, threads, ops_per_s, bytes_per_key } in results {
        table.add_row([
            (*phase).to_owned(),
            threads.to_string(),
            format!("{ops_per_s:.0}"),
            format!("{bytes_per_key:.1}"),
        ]);
    }
    println!("{table}");
}
