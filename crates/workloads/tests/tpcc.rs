//! TPC-C on the reference store: the conditions hold after every mix, and they are worth something, since they notice when
//! a row is changed behind the terminals' back.

mod common;

use common::object_of;
use foreshore_workloads::kv::{BenchError, Progress};
use foreshore_workloads::tpcc::{Home, Kind, Mix, Scale, Tpcc, TpccReport, TpccSpec, Trace};
use foreshore_workloads::tx_reference::MapTxStore;
use foreshore_workloads::tx_spec::{RunSpec, TxArgs};
use foreshore_workloads::tx_store::KEYS_END;
use foreshore_workloads::{Durability, Tx, TxError, TxKind, TxSession, TxStore};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;

const TABLES: [&str; 11] = [
    "warehouse",
    "district",
    "customer",
    "customer_name",
    "history",
    "new_order",
    "orders",
    "order_customer",
    "order_line",
    "item",
    "stock",
];

const SMALL: Scale = Scale { warehouses: 2, items: 200, customers: 30 };

fn silent(_: &Progress) {}

fn args(mix: Mix, threads: usize, affinity: bool) -> TxArgs<TpccSpec> {
    let Scale { warehouses, items, customers } = SMALL;
    TxArgs {
        dir: ".".into(),
        workload: TpccSpec { warehouses, mix, affinity, items, customers },
        run: RunSpec {
            threads,
            seconds: 0.3,
            warm_up_seconds: 0.05,
            durability: Durability::Relaxed,
            cache_bytes: 1 << 20,
            seed: 5,
        },
        json: false,
    }
}

fn run(store: &MapTxStore, mix: Mix, threads: usize, affinity: bool) -> Result<TpccReport, BenchError> {
    args(mix, threads, affinity).measure("test", store, &silent)
}

#[test]
fn every_mix_keeps_the_conditions() {
    for (mix, threads, affinity) in
        [(Mix::Full, 1, false), (Mix::Full, 4, true), (Mix::Payment, 2, false), (Mix::NewOrder, 3, false)]
    {
        let report = run(&MapTxStore::default(), mix, threads, affinity)
            .unwrap_or_else(|error| panic!("{mix:?} × {threads}: {error}"));
        assert!(report.tps > 0.0 && report.consistent, "{report:?}");
        assert_eq!(report.new_order_per_min > 0.0, mix != Mix::Payment, "{report:?}");
    }
}

/// A body that keeps something from a lost attempt breaks a condition or finds its own row.
#[test]
fn transactions_begin_afresh_after_a_conflict() {
    let report = run(&MapTxStore::with_conflicts(3), Mix::Full, 3, false).unwrap();
    assert!(report.figures.aborts > 0, "{report:?}");
}

#[test]
fn one_warehouse_has_no_remote_ones() {
    let store = MapTxStore::default();
    let tpcc = Tpcc::open(&store, Scale { warehouses: 1, ..SMALL }, 3).unwrap();
    tpcc.load(1, &silent).unwrap();
    let mut terminal = tpcc.terminal(1, Home::Any, Mix::Full).unwrap();
    let mut kinds = HashMap::new();
    for _ in 0..3_000 {
        *kinds.entry(terminal.step().unwrap()).or_insert(0) += 1;
    }
    assert_eq!(kinds.len(), 5, "every kind of transaction: {kinds:?}");
    assert!(kinds[&Kind::NewOrder] > 1_200, "{kinds:?}");
    tpcc.check(&silent).unwrap();
}

/// A terminal's transactions depend on its seed and stream only; dates are in neither of these tables.
#[test]
fn terminals_repeat_themselves() {
    let after = |stream| {
        let store = MapTxStore::default();
        let tpcc = Tpcc::open(&store, SMALL, 6).unwrap();
        tpcc.load(2, &silent).unwrap();
        let mut terminal = tpcc.terminal(stream, Home::Warehouse(2), Mix::Full).unwrap();
        for _ in 0..300 {
            terminal.step().unwrap();
        }
        (rows(&store, "customer"), rows(&store, "stock"))
    };
    let first = after(1);
    assert_eq!(first, after(1));
    assert_ne!(first, after(2));
}

/// Same seed and scale, same rows, however many threads; another seed, other rows.
#[test]
fn the_load_depends_on_seed_and_scale_only() {
    let digest = |seed, threads| {
        let store = MapTxStore::default();
        Tpcc::open(&store, SMALL, seed).unwrap().load(threads, &silent).unwrap();
        let mut hasher = DefaultHasher::new();
        for table in TABLES {
            rows(&store, table).hash(&mut hasher);
        }
        hasher.finish()
    };
    let first = digest(1, 1);
    assert_eq!(first, digest(1, 3));
    assert_ne!(first, digest(2, 1));
}

#[test]
fn loaded_rows_have_the_standards_shape() {
    let store = MapTxStore::default();
    Tpcc::open(&store, SMALL, 1).unwrap().load(2, &silent).unwrap();
    let count = |table| rows(&store, table).len() as u32;
    assert_eq!((count("item"), count("stock")), (200, 400));
    assert_eq!((count("district"), count("customer"), count("history")), (20, 600, 600));
    assert_eq!((count("orders"), count("new_order")), (600, 180));
    let stock_bytes: Vec<_> = rows(&store, "stock").iter().map(|(_, row)| row.len()).collect();
    assert!(stock_bytes.iter().all(|bytes| (16 + 26 + 240..=16 + 50 + 240).contains(bytes)));
    let customer_bytes: usize = rows(&store, "customer").iter().map(|(_, row)| row.len()).sum();
    assert!((450..650).contains(&(customer_bytes / 600)), "a customer has {} bytes", customer_bytes / 600);
}

/// What a wrong engine might leave behind, and the condition that must say so.
#[test]
fn damage_is_noticed_and_named() {
    // Offsets of fixed fields: see the crate's `tpcc::row`.
    let damages: [(&str, Damage, &str); 16] = [
        ("warehouse", Damage::Add(0), "condition 1 "),
        ("district", Damage::Add(0), "condition 2 "),
        ("district", Damage::Add(4), "condition 9 "),
        ("new_order", Damage::Remove, "condition"),
        ("orders", Damage::Remove, "condition"),
        ("orders", Damage::Zero(0, 1), "condition 5 "),
        ("orders", Damage::Add(13), "condition"),
        ("order_line", Damage::Remove, "condition"),
        ("order_line", Damage::Zero(0, 8), "condition 7 "),
        ("history", Damage::Remove, "condition 9 "),
        ("customer", Damage::Add(0), "condition 10 "),
        ("customer", Damage::Add(8), "condition 12 "),
        ("customer", Damage::Add(16), "payment condition"),
        ("stock", Damage::Add(4), "stock condition"),
        ("stock", Damage::Zero(0, 4), "quantity condition"),
        ("order_customer", Damage::Remove, "index of orders by customer"),
    ];
    for (table, damage, condition) in damages {
        let store = MapTxStore::default();
        let tpcc = Tpcc::open(&store, SMALL, 4).unwrap();
        tpcc.load(1, &silent).unwrap();
        tpcc.check(&silent).unwrap();
        harm(&store, table, damage);
        match tpcc.check(&silent) {
            Err(BenchError::Wrong(what)) => {
                assert!(what.contains(condition), "{table}, {damage:?}: {what}")
            }
            other => panic!("{table}, {damage:?}: {other:?}"),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    Remove,
    /// Adds one to the byte at an offset.
    Add(usize),
    /// Clears so many bytes at an offset.
    Zero(usize, usize),
}

/// A database that has taken new orders, and is consistent.
fn ordered() -> MapTxStore {
    let store = MapTxStore::default();
    let tpcc = Tpcc::open(&store, SMALL, 4).unwrap();
    tpcc.load(1, &silent).unwrap();
    let mut terminal = tpcc.terminal(1, Home::Any, Mix::NewOrder).unwrap();
    for _ in 0..400 {
        terminal.step().unwrap();
    }
    tpcc.check(&silent).unwrap();
    drop(terminal);
    store
}

/// Rows of other items do not go unnoticed because sums over a warehouse, and balances, are as they were.
#[test]
fn what_was_ordered_is_held_to_its_item() {
    let put = |store: &MapTxStore, table: &str, (key, row): (&[u8], &[u8])| {
        let table = store.table(table).unwrap();
        store.session().unwrap().transact(TxKind::ReadWrite, |tx| tx.put(&table, key, row)).unwrap();
    };
    let must_find =
        |store: &MapTxStore, condition: &str| match Tpcc::open(store, SMALL, 4).unwrap().check(&silent) {
            Err(BenchError::Wrong(what)) => assert!(what.contains(condition), "{what}"),
            other => panic!("{condition}: {other:?}"),
        };
    let store = ordered();
    let stocks = rows(&store, "stock");
    let [first, other] =
        [&stocks[0], stocks[1..200].iter().find(|(_, row)| row[4..16] != stocks[0].1[4..16]).unwrap()];
    put(&store, "stock", (&first.0, &other.1));
    put(&store, "stock", (&other.0, &first.1));
    must_find(&store, "stock condition");

    let store = ordered();
    let (key, mut row) = rows(&store, "order_line").pop().unwrap();
    assert!(key[5..9] > SMALL.customers.to_be_bytes()[..], "it was ordered since the load");
    row[17] ^= 1; // its amount
    put(&store, "order_line", (&key, &row));
    must_find(&store, "price condition");
}

/// Harms the first row of a table.
fn harm(store: &MapTxStore, table: &str, damage: Damage) {
    let (key, mut row) = rows(store, table).swap_remove(0);
    let table = store.table(table).unwrap();
    store
        .session()
        .unwrap()
        .transact(TxKind::ReadWrite, |tx| {
            match damage {
                Damage::Remove => return tx.remove(&table, &key).map(drop),
                Damage::Add(at) => row[at] = row[at].wrapping_add(1),
                Damage::Zero(at, len) => row[at..at + len].fill(0),
            }
            tx.put(&table, &key, &row)
        })
        .unwrap();
}

fn rows(store: &MapTxStore, table: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let table = store.table(table).unwrap();
    let mut rows = Vec::new();
    let outcome: Result<(), TxError> = store.session().unwrap().transact(TxKind::ReadOnly, |tx| {
        tx.scan(&table, &[], KEYS_END, false, |key, row| {
            rows.push((key.to_vec(), row.to_vec()));
            ControlFlow::Continue(())
        })
    });
    outcome.unwrap();
    rows
}

/// Others read this object: its names and their order are a promise.
#[test]
fn the_report_keeps_its_fields() {
    let report = run(&MapTxStore::default(), Mix::NewOrder, 1, false).unwrap();
    let text = serde_json::to_string(&report).unwrap();
    let fields = "bench engine mix warehouses affinity items customers threads durability isolation \
         seconds warm_up_seconds seed cache_bytes tps new_order_per_min p50_us p99_us max_us \
         aborts log_bytes_per_tx syncs cpu_s consistent";
    object_of(&text, fields);
    assert!(
        text.starts_with(r#"{"bench":"tpcc","engine":"test","mix":"new-order","warehouses":2,"#),
        "{text}"
    );
    assert!(
        text.contains(r#""isolation":"serializable""#) && text.ends_with(r#""consistent":true}"#),
        "{text}"
    );
}

#[test]
fn impossible_runs_are_refused_by_flag() {
    let store = MapTxStore::default();
    let refused = |outcome: Result<TpccReport, BenchError>, flag: &str| match outcome {
        Err(BenchError::Usage(text)) => assert!(text.starts_with(flag), "{text}"),
        other => panic!("{flag}: {other:?}"),
    };
    refused(run(&store, Mix::Full, 0, false), "--threads");
    let mut huge = args(Mix::Full, 1, false);
    huge.workload.customers = u32::MAX;
    refused(huge.measure("test", &store, &silent), "--customers");
}

/// Every commit is found by its trace, and missed once its row is gone.
#[test]
fn traces_find_their_transactions() {
    let store = MapTxStore::default();
    let tpcc = Tpcc::open(&store, SMALL, 11).unwrap();
    tpcc.load(1, &silent).unwrap();
    assert_eq!(tpcc.orders_entered().unwrap(), 0);
    let mut terminal = tpcc.terminal(1, Home::Any, Mix::Full).unwrap();
    let traces: Vec<Trace> = (0..500).filter_map(|_| terminal.step_traced().unwrap().1).collect();
    assert_eq!(tpcc.lost(&traces).unwrap(), []);
    let orders = traces.iter().filter(|trace| matches!(trace, Trace::Order { .. })).count();
    assert_eq!(tpcc.orders_entered().unwrap(), orders as u64);

    let last_of = |is: fn(&Trace) -> bool| *traces.iter().rfind(|trace| is(trace)).expect("every kind");
    let order = last_of(|trace| matches!(trace, Trace::Order { .. }));
    let payment = last_of(|trace| matches!(trace, Trace::Payment { .. }));
    let Trace::Order { w, d, o, .. } = order else { unreachable!("an order") };
    remove(&store, "order_line", &[&w.to_be_bytes()[..], &[d], &o.to_be_bytes(), &[1]].concat());
    let Trace::Payment { w, d, number, .. } = payment else { unreachable!("a payment") };
    remove(&store, "history", &[&w.to_be_bytes()[..], &[d], &number.to_be_bytes()].concat());
    let mut lost = tpcc.lost(&traces).unwrap();
    lost.sort_by_key(|trace| matches!(trace, Trace::Payment { .. }));
    assert_eq!(lost, [order, payment]);
}

fn remove(store: &MapTxStore, table: &str, key: &[u8]) {
    let table = store.table(table).unwrap();
    let removed = store.session().unwrap().transact(TxKind::ReadWrite, |tx| tx.remove(&table, key)).unwrap();
    assert!(removed, "{key:02x?}");
}
