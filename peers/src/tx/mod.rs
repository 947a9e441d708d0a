//! The engines behind the transactional workloads' `TxStore`. What all share is written down in
//! `foreshore_workloads::tx_store`; what each does for a durability, at the head of its key-value file.

#[cfg(feature = "c-engines")]
mod c_engine;
mod fjall;
mod lmdb;
mod redb;
#[cfg(any(feature = "mariadb", feature = "postgresql"))]
pub mod sql;
#[cfg(feature = "sqlite")]
mod sqlite;

use crate::ending::remove_on_signal;
use crate::engine::Engine;
use foreshore_workloads::TxStore;
use foreshore_workloads::disk::disk_bytes;
use foreshore_workloads::kv::BenchError;
use foreshore_workloads::tx_reference::MapTxStore;
use foreshore_workloads::tx_report::TxReport;
use foreshore_workloads::tx_spec::{TxArgs, TxWorkload};

/// Runs a transactional workload on an engine and prints what it found.
pub fn bench<W: TxWorkload>(engine: Engine, args: &TxArgs<W>) -> Result<(), BenchError> {
    args.check()?;
    engine.must_keep(args.run.durability)?;
    let scratch = args.scratch().map_err(|error| BenchError::Store(error.into()))?;
    let (path, run) = (scratch.path(), &args.run);
    remove_on_signal(path)?;
    let report = match engine {
        #[cfg(feature = "c-engines")]
        c if c.api().is_some() => {
            let api = c.api().expect("just seen");
            measure(engine, &c_engine::CTables::create(api, path, run)?, args)?
        }
        Engine::Lmdb => measure(engine, &lmdb::LmdbTables::create(path, run)?, args)?,
        Engine::Redb => measure(engine, &redb::RedbTables::create(path, run)?, args)?,
        Engine::Fjall => measure(engine, &fjall::FjallTables::create(path, run)?, args)?,
        #[cfg(feature = "sqlite")]
        Engine::Sqlite => {
            let row_bytes = args.workload.row_bytes();
            measure(engine, &sqlite::SqliteTables::create(path, run, row_bytes)?, args)?
        }
        #[cfg(feature = "mariadb")]
        Engine::Mariadb => measure(engine, &sql::mariadb::create(path, run)?, args)?,
        #[cfg(feature = "postgresql")]
        Engine::Postgresql => measure(engine, &sql::postgresql::create(path, run)?, args)?,
        Engine::Btreemap => measure(engine, &MapTxStore::new(run.durability)?, args)?,
        other => return Err(other.not_here(W::NAME)),
    };
    let disk_bytes = disk_bytes(path).map_err(|error| BenchError::Store(error.into()))?;
    if args.json {
        engine.print_json(&report, run.durability, disk_bytes)?;
    } else {
        let mut table = comfy_table::Table::new();
        let (header, row): (Vec<_>, Vec<_>) = report.columns().into_iter().unzip();
        println!("{}", table.set_header(header).add_row(row));
        println!("{disk_bytes} bytes on disk once closed");
        if let Some(caveat) = engine.caveat() {
            println!("{}: {caveat}", engine.name());
        }
    }
    Ok(())
}

fn measure<W: TxWorkload>(
    engine: Engine,
    store: &impl TxStore,
    args: &TxArgs<W>,
) -> Result<W::Report, BenchError> {
    args.measure(&engine.name(), store, &|_| {})
}
