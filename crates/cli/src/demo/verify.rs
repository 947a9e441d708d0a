//! Is everything there that was acknowledged, and nothing by halves?

use crate::args::cores;
use crate::bench::engine_tx::EngineTx;
use crate::demo::spec::DemoSpec;
use crate::demo::steps::Steps;
use crate::failure::{Failure, Outcome};
use crate::output::grouped;
use crate::progress::Phases;
use foreshore::Database;
use foreshore_workloads::tpcc::{Tpcc, Trace};
use serde_json::json;
use std::thread;
use std::time::Instant;

/// All that can be checked after a life of the database, of whose commits these were acknowledged.
///
/// Errors: corruption names the first thing that is wrong, and how many transactions were lost.
pub fn all(db: &Database, spec: &DemoSpec, acknowledged: &[Trace], steps: &mut Steps) -> Outcome {
    let store = EngineTx(db.clone());
    let tpcc = spec.tpcc(&store)?;
    every_commit(&tpcc, spec, acknowledged, steps)?;
    conditions(&tpcc, steps)?;
    structures(db, steps)
}

/// Looks every acknowledged transaction up.
fn every_commit(
    tpcc: &Tpcc<'_, EngineTx>,
    spec: &DemoSpec,
    acknowledged: &[Trace],
    steps: &mut Steps,
) -> Outcome {
    let started = Instant::now();
    let lost = lost(tpcc, acknowledged)?;
    if let Some(first) = lost.first() {
        let lost = grouped(lost.len() as u64);
        return Err(Failure::corrupt(format!(
            "{lost} acknowledged transactions are not there, or not whole; first {first:?}"
        )));
    }
    let orders = acknowledged.iter().filter(|trace| matches!(trace, Trace::Order { .. })).count() as u64;
    let entered = tpcc.orders_entered()?;
    // Each client has one transaction on its way at most: it may have been committed, and not told any more.
    let unacknowledged = entered.checked_sub(orders).filter(|extra| *extra <= spec.clients() as u64);
    let unacknowledged = unacknowledged.ok_or_else(|| {
        Failure::corrupt(format!("{entered} orders were entered, but {orders} were acknowledged"))
    })?;
    steps.done(
        "verify",
        started.elapsed(),
        format!(
            "all {} acknowledged transactions are there, and {unacknowledged} orders whose acknowledgement the kill cut off",
            grouped(acknowledged.len() as u64)
        ),
        json!({"acknowledged": acknowledged.len(), "lost": 0, "unacknowledged_orders": unacknowledged}),
    )
}

/// Looks all transactions up, on all cores.
fn lost(tpcc: &Tpcc<'_, EngineTx>, acknowledged: &[Trace]) -> Outcome<Vec<Trace>> {
    let share = acknowledged.len().div_ceil(cores()).max(1);
    thread::scope(|scope| {
        let look = |traces| thread::Builder::new().spawn_scoped(scope, move || tpcc.lost(traces));
        let searches: Result<Vec<_>, _> = acknowledged.chunks(share).map(look).collect();
        let searches = searches.map_err(|error| Failure::io("starting a search", &error))?;
        let mut lost = Vec::new();
        for search in searches {
            lost.extend(search.join().expect("the search does not panic")?);
        }
        Ok(lost)
    })
}

/// No transaction is there by halves: the sums that TPC-C's transactions keep are right.
fn conditions(tpcc: &Tpcc<'_, EngineTx>, steps: &mut Steps) -> Outcome {
    let started = Instant::now();
    {
        let phases = Phases::default();
        tpcc.check(&|progress| phases.tell(progress))?;
    }
    let text = "TPC-C's consistency conditions hold (clause 3.3.2): no half transaction".into();
    steps.done("conditions", started.elapsed(), text, json!({"consistent": true}))
}

/// Walks all structures.
fn structures(db: &Database, steps: &mut Steps) -> Outcome {
    let started = Instant::now();
    let report = db.check()?;
    let leaves: u64 = report.tables.iter().map(|table| table.leaves).sum();
    let rows: u64 = report.tables.iter().map(|table| table.rows).sum();
    let tables = report.tables.len();
    steps.done(
        "check",
        started.elapsed(),
        format!("{tables} tables, {} rows in {} leaves, all in order", grouped(rows), grouped(leaves)),
        json!({"tables": tables, "rows": rows, "leaves": leaves}),
    )
}
