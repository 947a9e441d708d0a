//! `bench kv`: Foreshore behind the workloads' `Store`, measured by the code that measures its peers.

use crate::args::{IndexKind, engine_durability, parse_leaf_bytes};
use crate::bench::on_tables::{OnDisk, OnTables};
use crate::failure::{Failure, Outcome};
use crate::output::{Output, grouped, size};
use crate::profile::ProfileArgs;
use crate::progress::Phases;
use crate::scratch::{Scratch, remove_on_interrupt};
use crate::stats::inside::watched;
use clap::Args;
use foreshore::{Builder, ByteTable, Database};
use foreshore_workloads::kv;
use foreshore_workloads::{KvArgs, KvReport, KvSpec, Row, Session, Store, StoreError};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  foreshore bench kv --dir /srv --workload get --n 5000000 --cache 2560MiB
  foreshore bench kv --dir /srv --workload mix --update-ratio 40 --threads 2
  foreshore bench kv --dir /srv --workload put --threads 16 --durability sync
  foreshore bench kv --dir /srv --workload get --index csb --json
  foreshore bench kv --dir /srv --workload scan --leaf-bytes 32KiB --json
  foreshore bench kv --dir /srv --workload put --profile foreshore-tune.toml

Every answer is checked; a run with a wrong one has no figure.";

/// Time a key-value workload on this engine
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct KvBenchArgs {
    #[command(flatten)]
    args: KvArgs,
    /// Index over the table's leaves
    #[arg(long, value_enum, default_value_t)]
    index: IndexKind,
    /// Size of the leaves: 4KiB, 8KiB, 16KiB or 32KiB [default: the profile's, or 8KiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_leaf_bytes)]
    leaf_bytes: Option<usize>,
    #[command(flatten)]
    profile: ProfileArgs,
}

/// Runs `bench kv`.
pub fn run(args: &KvBenchArgs, watch: Option<Duration>) -> Outcome {
    let KvBenchArgs { args, index, leaf_bytes, profile } = args;
    args.spec.check()?;
    let options = profile.advise(Database::builder())?.index(index.engine());
    let scratch = args.scratch().map_err(|e| Failure::io(args.dir.display(), &e))?;
    remove_on_interrupt(Scratch::made(scratch.path()))?;
    let store = Foreshore::open(scratch.path(), &args.spec, *leaf_bytes, options)?;
    let report = {
        let phases = Phases::default();
        watched(&store.db, watch, || {
            kv::run("foreshore", &store, &args.spec, &|progress| phases.tell(progress))
        })?
    };
    let report = OnTables::of(&store.db, report)?;
    store.close()?;
    print(args.json, &report.in_dir(scratch.path())?)
}

fn print(json: bool, report: &OnDisk<KvReport>) -> Outcome {
    let mut out = Output::new(json);
    if out.is_json() {
        out.object(report)?;
    } else {
        let OnDisk { on_tables: OnTables { report, .. }, disk_bytes } = report;
        out.table(
            ["workload", "threads", "durability", "operations/s", "p50 µs", "p99 µs", "max µs", "syncs"],
            &[[
                format!("{:?}", report.workload).to_lowercase(),
                report.threads.to_string(),
                format!("{:?}", report.durability).to_lowercase(),
                grouped(report.ops_per_s as u64),
                format!("{:.2}", report.p50_us),
                format!("{:.2}", report.p99_us),
                format!("{:.1}", report.max_us),
                report.syncs.map_or("?".into(), grouped),
            ]],
        )?;
        out.line(format!("{} on disk once closed", size(*disk_bytes)))?;
    }
    out.finish()
}

/// The engine with one table.
struct Foreshore {
    db: Database,
    table: ByteTable,
}

impl Foreshore {
    fn open(dir: &Path, spec: &KvSpec, leaf_bytes: Option<usize>, mut options: Builder) -> Outcome<Self> {
        let cache = usize::try_from(spec.cache_bytes).unwrap_or(usize::MAX);
        // The database's own size: a size of one table only would have to share the cache.
        if let Some(leaf_bytes) = leaf_bytes {
            options = options.leaf_bytes(leaf_bytes);
        }
        let db = options.cache_bytes(cache).durability(engine_durability(spec.durability)).open(dir)?;
        let table = db.byte_table("bench")?;
        Ok(Self { db, table })
    }

    fn close(self) -> Outcome {
        Ok(self.db.close()?)
    }
}

impl Store for Foreshore {
    type Session<'a> = TableSession;

    fn session(&self) -> Result<TableSession, StoreError> {
        Ok(TableSession { table: self.table.clone(), value: Vec::new() })
    }

    fn sync_count(&self) -> Option<u64> {
        Some(self.db.stats().log_syncs)
    }

    fn settle(&self) -> Result<(), StoreError> {
        Ok(self.db.checkpoint()?)
    }
}

/// One thread's handle, and room for the value it reads.
struct TableSession {
    table: ByteTable,
    value: Vec<u8>,
}

impl Session for TableSession {
    #[inline]
    fn get<R>(&mut self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, StoreError> {
        Ok(self.table.get_into(key, &mut self.value)?.then(|| read(&self.value)))
    }

    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        Ok(self.table.put(key, value)?)
    }

    fn put_many(&mut self, rows: &[(Vec<u8>, Vec<u8>)]) -> Result<(), StoreError> {
        Ok(self.table.put_many(rows)?)
    }

    fn scan(
        &mut self,
        from: &[u8],
        limit: u64,
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64, StoreError> {
        let mut rows = 0;
        if limit > 0 {
            self.table.scan(from.., |key, value| {
                each(key, value);
                rows += 1;
                if rows == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
        }
        Ok(rows)
    }

    fn bulk(&mut self, rows: impl Iterator<Item = Row>) -> Result<u64, StoreError> {
        Ok(self.table.bulk_load(rows.map(|row| (row.key, row.value)))?)
    }
}
