//! What is run: parent and child must agree on it.

use crate::args::{cores, engine_durability, spelled};
use crate::bench::engine_tx::EngineTx;
use crate::failure::{Failure, Outcome};
use clap::Args;
use foreshore::{Database, Error};
use foreshore_workloads::Durability;
use foreshore_workloads::kv::BenchError;
use foreshore_workloads::tpcc::{Scale, Tpcc};
use std::path::Path;
use std::process::Command;

/// Clients for which a device's sync is worth sharing.
const SYNC_CLIENTS: usize = 16;

/// Warehouses beyond which loading would be most of the demonstration.
const WAREHOUSES_MAX: usize = 4;

/// The TPC-C database and its clients.
#[derive(Args, Clone, Debug)]
pub struct DemoSpec {
    /// Warehouses, about 100 MB each [default: one per core, at most 4]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    warehouses: Option<u32>,
    /// Items; the default is the standard's number
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    items: u32,
    /// Customers of each district; the default is the standard's number
    #[arg(long, default_value_t = 3_000, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    customers: u32,
    /// Clients, each a thread that enters one transaction after the other [default: one per core, 16 at least if each
    /// waits for the device]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    threads: Option<u16>,
    /// What an acknowledged commit survives: each survives kill -9, only sync ones are sure to survive a power failure
    #[arg(long, value_enum, default_value_t = Durability::Sync)]
    pub durability: Durability,
    /// Memory for leaf pages: bytes, or 64MiB, 2GiB …
    #[arg(long, value_name = "BYTES", default_value = "512MiB", value_parser = foreshore_workloads::parse_bytes)]
    cache: u64,
    /// Every random choice descends from it
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl DemoSpec {
    /// The flags that say the same to another process.
    pub fn pass_on(&self, command: &mut Command) {
        command.args(["--durability", &spelled(self.durability)]);
        for (flag, value) in [
            ("--warehouses", u64::from(self.scale().warehouses)),
            ("--items", u64::from(self.items)),
            ("--customers", u64::from(self.customers)),
            ("--threads", self.clients() as u64),
            ("--cache", self.cache),
            ("--seed", self.seed),
        ] {
            command.arg(flag).arg(value.to_string());
        }
    }

    /// How many clients.
    pub fn clients(&self) -> usize {
        match (self.threads, self.durability) {
            (Some(threads), _) => usize::from(threads),
            (None, Durability::Sync) => cores().max(SYNC_CLIENTS),
            (None, _) => cores(),
        }
    }

    /// How large the database is.
    pub fn scale(&self) -> Scale {
        let warehouses = self.warehouses.unwrap_or_else(|| cores().min(WAREHOUSES_MAX) as u32);
        Scale { warehouses, items: self.items, customers: self.customers }
    }

    /// Opens the database in `dir`.
    pub fn open(&self, dir: &Path) -> Result<Database, Error> {
        let cache = usize::try_from(self.cache).unwrap_or(usize::MAX);
        Database::builder().cache_bytes(cache).durability(engine_durability(self.durability)).open(dir)
    }

    /// The TPC-C tables of an open database.
    pub fn tpcc<'s>(&self, store: &'s EngineTx) -> Outcome<Tpcc<'s, EngineTx>> {
        Tpcc::open(store, self.scale(), self.seed).map_err(|e| Failure::from(BenchError::Store(e)))
    }
}
