//! One configuration of the CSB+-tree, built, timed and modelled.

use crate::counters::{Counted, Counters};
use crate::figures::study::{Input, Keys, Named, Study};
use crate::frame::{LabError, Settings, median};
use crate::model::{Machine, OneCore};
use crate::probe::Silent;
use crate::trees::{CsbTree, Method};
use std::time::Instant;

/// Both search methods, with their names.
pub const METHODS: [(&str, Method); 2] = [("linear", Method::Linear), ("binary", Method::Binary)];

/// How a tree is laid out and searched.
#[derive(Clone, Copy, Debug)]
pub struct Configuration {
    pub node_bytes: usize,
    pub key_bytes: usize,
    pub method: Method,
    pub prefetch: bool,
}

impl Configuration {
    fn name(self) -> &'static str {
        if self.method == Method::Linear { "CSB+, linear search" } else { "CSB+, binary search" }
    }

    /// A bulk-loaded tree.
    pub fn loaded(self, keys: Keys) -> Named<CsbTree> {
        let Self { node_bytes, key_bytes, method, prefetch } = self;
        Named(self.name(), CsbTree::bulk_load(&keys.entries(), node_bytes, key_bytes, method, prefetch))
    }

    /// Lookups, timed: the median of `rounds`.
    pub fn lookups(self, keys: Keys, lookups: u32, rounds: usize) -> Result<Timed, LabError> {
        let mut tree = self.loaded(keys);
        let operations = keys.gets(Input::Random, lookups);
        tree.run_checked(&operations, &mut Silent)?;
        let mut round = |_| {
            let begun = Instant::now();
            tree.run_checked(&operations, &mut Silent)?;
            Ok::<_, LabError>(begun.elapsed().as_nanos() as f64 / f64::from(lookups))
        };
        let (times, counted) =
            Counters::of_this_thread().around(|| (0..rounds).map(&mut round).collect::<Result<Vec<_>, _>>());
        Ok(Timed { ns: median(times?), operations: f64::from(lookups) * rounds as f64, counted })
    }

    /// Nanoseconds per insert into an empty tree with room for them, in random order.
    pub fn insert_ns(self, keys: Keys) -> Result<f64, LabError> {
        let Self { node_bytes, key_bytes, method, prefetch } = self;
        let empty = CsbTree::new(node_bytes, key_bytes, method, prefetch).with_room_for(keys.count as usize);
        let mut tree = Named(self.name(), empty);
        let operations = keys.inserts(Input::Random);
        let begun = Instant::now();
        tree.run_checked(&operations, &mut Silent)?;
        Ok(begun.elapsed().as_nanos() as f64 / f64::from(keys.count))
    }

    /// Nanoseconds per entry of a scan of everything: the median of `rounds`.
    pub fn scan_ns(self, keys: Keys, rounds: usize) -> Result<f64, LabError> {
        let Named(_, tree) = self.loaded(keys);
        let expected =
            keys.entries().iter().map(|entry| u64::from(entry.0) + u64::from(entry.1)).sum::<u64>();
        let times: Result<Vec<_>, LabError> = (0..rounds)
            .map(|_| {
                let begun = Instant::now();
                let seen = tree.scan(&mut Silent);
                let ns = begun.elapsed().as_nanos() as f64 / f64::from(keys.count);
                if seen == (u64::from(keys.count), expected) {
                    Ok(ns)
                } else {
                    Err(LabError::Wrong(format!("a scan of {} entries saw {}", keys.count, seen.0)))
                }
            })
            .collect();
        Ok(median(times?))
    }

    /// The model's cycles per lookup: busy, data-cache stalls (TLB included), other stalls.
    pub fn lookup_cycles(self, keys: Keys, lookups: u32) -> Result<[f64; 3], LabError> {
        let mut tree = self.loaded(keys);
        let operations = keys.gets(Input::Random, lookups);
        let mut core = OneCore::new(Machine::SERVER);
        tree.run_checked(&operations[..operations.len() / 4], &mut core)?;
        core.reset();
        tree.run_checked(&operations, &mut core)?;
        let cycles = core.cycles();
        let sample = f64::from(lookups);
        Ok([cycles.busy, cycles.l1 + cycles.l2 + cycles.tlb, cycles.branches].map(|cycles| cycles / sample))
    }
}

/// Operations that were timed.
pub struct Timed {
    /// Nanoseconds per operation.
    pub ns: f64,
    /// Operations of all rounds.
    pub operations: f64,
    /// What this machine counted in them.
    pub counted: Counted,
}

/// Sizes of the paper's experiments, by the settings.
pub struct Sizes {
    /// For figures by node size: 1 million keys.
    pub large: Keys,
    /// For figures by key size: 100 thousand keys.
    pub small: Keys,
    /// For inserts: 2 million keys.
    pub inserted: Keys,
    pub lookups: u32,
    pub rounds: usize,
}

impl Sizes {
    pub fn of(settings: &Settings) -> Self {
        let keys = |count| Keys { count, seed: settings.seed };
        let (large, small, inserted) =
            settings.pick((200_000, 50_000, 50_000), (1_000_000, 100_000, 2_000_000));
        Self {
            large: keys(large),
            small: keys(small),
            inserted: keys(inserted),
            lookups: settings.pick(50_000, 200_000),
            rounds: settings.pick(3, 5),
        }
    }

    /// For a file's header.
    pub fn header(&self) -> Vec<(&'static str, String)> {
        vec![
            ("keys_by_node_size", self.large.count.to_string()),
            ("keys_by_key_size", self.small.count.to_string()),
            ("inserts", self.inserted.count.to_string()),
            ("lookups", self.lookups.to_string()),
            ("rounds", format!("{}; medians", self.rounds)),
            ("model", Machine::SERVER.name.to_owned()),
        ]
    }
}
