//! The transactional workloads on stores that lie: a wrong answer must never become a figure.

use foreshore_workloads::insert::InsertSpec;
use foreshore_workloads::kv::BenchError;
use foreshore_workloads::mix::MixSpec;
use foreshore_workloads::tpcc::{Mix, Scale, Tpcc, TpccSpec};
use foreshore_workloads::tx::TxSpec;
use foreshore_workloads::tx_spec::{RunSpec, TxArgs, TxWorkload};
use foreshore_workloads::tx_store::{Counters, Isolation};
use foreshore_workloads::ycsb::{Letter, YcsbSpec};
use foreshore_workloads::{Durability, StoreError, Tx, TxError, TxKind, TxSession, TxStore};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard};

/// What a lying store does wrong, again and again.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
    /// A put does nothing.
    LosesAPut,
    /// An insertion does nothing.
    LosesAnInsert,
    /// A removal does nothing, and says that it did.
    KeepsARow,
    /// A lookup finds nothing.
    MissesAGet,
    /// A lookup, for an update or not, hands over another row's value.
    MixesUpAGet,
    /// A lookup, for an update or not, hands over the beginning of the value.
    CutsAValue,
    /// A scan hands over the beginning of its second row's value.
    CutsAScannedValue,
    /// A commit is acknowledged and undone.
    UndoesACommit,
    /// A rollback does nothing.
    KeepsWhatIsRolledBack,
    /// A scan leaves out its second row.
    SkipsARow,
    /// A scan from a key on leaves out its first row.
    BeginsLate,
    /// A scan from a key on ends after its first row.
    EndsEarly,
    /// A scan of orders shows its second row twice.
    RepeatsAnOrder,
    /// The second row of a scan is that of another table, which has its key too.
    MixesUpTables,
}

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Maps under a mutex, and the lie to tell.
struct Liar {
    state: Mutex<State>,
}

#[derive(Clone)]
struct State {
    tables: Vec<(String, Map)>,
    lie: Lie,
    /// Calls that could lie, before the first one does.
    honest: u64,
    /// Calls that could lie, so far.
    calls: u64,
}

impl Liar {
    /// Tells the lie every tenth time that it is possible, after so many honest ones.
    fn new(lie: Lie, honest: u64) -> Self {
        Self { state: Mutex::new(State { tables: Vec::new(), lie, honest, calls: 0 }) }
    }
}

impl State {
    /// Is this the call to lie at?
    fn now(&mut self, lie: Lie) -> bool {
        self.calls += u64::from(self.lie == lie);
        self.lie == lie && self.calls > self.honest && (self.calls - self.honest) % 10 == 1
    }
}

impl TxStore for Liar {
    type Table = usize;
    type Session<'a> = &'a Liar;

    fn table(&self, name: &str) -> Result<usize, StoreError> {
        let tables = &mut self.state.lock().unwrap().tables;
        Ok(tables.iter().position(|(other, _)| other == name).unwrap_or_else(|| {
            tables.push((name.to_owned(), Map::new()));
            tables.len() - 1
        }))
    }

    fn session(&self) -> Result<&Liar, StoreError> {
        Ok(self)
    }

    fn isolation(&self) -> Isolation {
        Isolation::Serializable
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn settle(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl TxSession for &Liar {
    type Table = usize;
    type Tx<'t> = LyingTx<'t>;

    fn transact<R>(
        &mut self,
        kind: TxKind,
        mut body: impl FnMut(&mut LyingTx<'_>) -> Result<R, TxError>,
    ) -> Result<R, TxError> {
        let mut tx = LyingTx { state: self.state.lock().unwrap(), undo: Vec::new() };
        let result = body(&mut tx);
        let undoes = match &result {
            Ok(_) => kind == TxKind::ReadWrite && tx.state.now(Lie::UndoesACommit),
            Err(_) => !tx.state.now(Lie::KeepsWhatIsRolledBack),
        };
        if undoes {
            tx.undo();
        }
        result
    }

    fn aborts(&self) -> u64 {
        0
    }
}

struct LyingTx<'t> {
    state: MutexGuard<'t, State>,
    /// Table, key, and what it held before.
    undo: Vec<(usize, Vec<u8>, Option<Vec<u8>>)>,
}

impl LyingTx<'_> {
    fn set(&mut self, table: usize, key: &[u8], value: Option<&[u8]>) -> bool {
        let map = &mut self.state.tables[table].1;
        let before = match value {
            Some(value) => map.insert(key.to_vec(), value.to_vec()),
            None => map.remove(key),
        };
        let was_there = before.is_some();
        self.undo.push((table, key.to_vec(), before));
        was_there
    }

    /// Tells the lies about scans, of which there must be rows enough.
    fn garble(&mut self, table: usize, from: &[u8], rows: &mut Vec<(Vec<u8>, Vec<u8>)>) {
        if rows.len() < 3 {
            return;
        }
        if self.state.now(Lie::SkipsARow) {
            rows.remove(1);
        }
        if self.state.now(Lie::CutsAScannedValue) {
            rows[1].1.pop();
        }
        if !from.is_empty() && self.state.now(Lie::BeginsLate) {
            rows.remove(0);
        }
        if !from.is_empty() && self.state.now(Lie::EndsEarly) {
            rows.truncate(1);
        }
        if self.state.tables[table].0 == "orders" && self.state.now(Lie::RepeatsAnOrder) {
            rows.insert(1, rows[1].clone());
        }
        let others = self.state.tables.iter().enumerate().filter(|(other, _)| *other != table);
        let other = others.into_iter().find_map(|(_, (_, map))| map.get(&rows[1].0)).cloned();
        if let Some(value) = other
            && self.state.now(Lie::MixesUpTables)
        {
            rows[1].1 = value;
        }
    }

    fn undo(&mut self) {
        while let Some((table, key, before)) = self.undo.pop() {
            let map = &mut self.state.tables[table].1;
            match before {
                Some(value) => map.insert(key, value),
                None => map.remove(&key),
            };
        }
    }
}

impl Tx for LyingTx<'_> {
    type Table = usize;

    fn get<R>(
        &mut self,
        table: &usize,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, TxError> {
        if self.state.now(Lie::MissesAGet) {
            return Ok(None);
        }
        let mixes_up = self.state.now(Lie::MixesUpAGet);
        let cut = usize::from(self.state.now(Lie::CutsAValue));
        let map = &self.state.tables[*table].1;
        let mut rows = map.range(key.to_vec()..);
        let found = rows.next().filter(|(found, _)| found.as_slice() == key);
        let other = mixes_up.then(|| rows.next()).flatten();
        Ok(other.or(found).map(|(_, value)| read(&value[..value.len() - cut])))
    }

    fn get_for_update<R>(
        &mut self,
        table: &usize,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, TxError> {
        self.get(table, key, read)
    }

    fn put(&mut self, table: &usize, key: &[u8], value: &[u8]) -> Result<(), TxError> {
        if !self.state.now(Lie::LosesAPut) {
            self.set(*table, key, Some(value));
        }
        Ok(())
    }

    fn insert(&mut self, table: &usize, key: &[u8], value: &[u8]) -> Result<bool, TxError> {
        if self.state.tables[*table].1.contains_key(key) {
            return Ok(false);
        }
        if !self.state.now(Lie::LosesAnInsert) {
            self.set(*table, key, Some(value));
        }
        Ok(true)
    }

    fn remove(&mut self, table: &usize, key: &[u8]) -> Result<bool, TxError> {
        if self.state.now(Lie::KeepsARow) {
            return Ok(true);
        }
        Ok(self.set(*table, key, None))
    }

    fn scan(
        &mut self,
        table: &usize,
        from: &[u8],
        to: &[u8],
        reverse: bool,
        mut each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), TxError> {
        let mut rows: Vec<_> = self.state.tables[*table].1.range(from.to_vec()..to.to_vec()).collect();
        if reverse {
            rows.reverse();
        }
        let mut rows: Vec<_> = rows.into_iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        self.garble(*table, from, &mut rows);
        for (key, value) in &rows {
            if each(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// The lie must be told, and the run must say that an answer is wrong: a longer one, if a slow machine has come to few lies.
fn is_found<W: TxWorkload + Clone>(lie: Lie, workload: &W, honest: u64) {
    for seconds in [0.1, 1.0, 10.0] {
        let run = RunSpec {
            threads: 2,
            seconds,
            warm_up_seconds: 0.05,
            durability: Durability::Relaxed,
            cache_bytes: 1 << 20,
            seed: 9,
        };
        let store = Liar::new(lie, honest);
        let args = TxArgs { dir: ".".into(), workload: workload.clone(), run, json: false };
        let outcome = args.measure("test", &store, &|_| {});
        let calls = store.state.lock().unwrap().calls;
        match outcome {
            Err(BenchError::Wrong(_)) if calls > honest => return,
            Ok(_) if calls < honest + 10_000 => {} // a few lies may hurt nobody
            other => panic!("{lie:?} in {}, {calls} calls: {:?}", W::NAME, other.err()),
        }
    }
    panic!("{} does not come to {lie:?} often enough", W::NAME);
}

const TPCC: TpccSpec = TpccSpec { warehouses: 2, mix: Mix::Full, affinity: false, items: 200, customers: 30 };

#[test]
fn lies_in_tpcc_are_found() {
    // The load puts 24,000 rows.
    is_found(Lie::LosesAPut, &TPCC, 30_000);
    is_found(Lie::LosesAnInsert, &TPCC, 500);
    is_found(Lie::KeepsARow, &TPCC, 5);
    is_found(Lie::MissesAGet, &TPCC, 1_000);
    is_found(Lie::UndoesACommit, &TPCC, 120);
    is_found(Lie::KeepsWhatIsRolledBack, &TPCC, 0);
    is_found(Lie::RepeatsAnOrder, &TPCC, 0);
}

/// A commit undone as a whole leaves every consistency condition true; only who was told of it can miss it.
#[test]
fn a_lost_commit_of_a_tpcc_terminal_is_found() {
    let TpccSpec { warehouses, items, customers, .. } = TPCC;
    let honest = Liar::new(Lie::UndoesACommit, u64::MAX);
    Tpcc::open(&honest, Scale { warehouses, items, customers }, 9).unwrap().load(2, &|_| {}).unwrap();
    let loaded = honest.state.lock().unwrap().calls;
    assert!(loaded > 100, "{loaded} commits of the load");
    for mix in [Mix::Full, Mix::Payment, Mix::NewOrder] {
        is_found(Lie::UndoesACommit, &TpccSpec { mix, ..TPCC }, loaded + 20);
    }
}

#[test]
fn lies_in_record_insertion_are_found() {
    let insert = InsertSpec { rows_per_commit: 50, rows_per_call: 20, row_bytes: 100 };
    is_found(Lie::LosesAnInsert, &insert, 300);
    is_found(Lie::UndoesACommit, &insert, 7);
    is_found(Lie::SkipsARow, &insert, 0);
    is_found(Lie::MixesUpTables, &insert, 0);
    is_found(Lie::CutsAScannedValue, &insert, 0);
}

#[test]
fn lies_in_tx_are_found() {
    let tx = TxSpec { reads: 4, updates: 4, n: 500 };
    is_found(Lie::LosesAPut, &tx, 700);
    is_found(Lie::MissesAGet, &tx, 300);
    is_found(Lie::MixesUpAGet, &tx, 300);
    is_found(Lie::UndoesACommit, &tx, 100);
    is_found(Lie::SkipsARow, &tx, 1);
}

#[test]
fn lies_in_the_mixes_are_found() {
    let mix = MixSpec { update_ratio: 60, n: 700 };
    is_found(Lie::LosesAPut, &mix, 800);
    is_found(Lie::KeepsARow, &mix, 30);
    is_found(Lie::MixesUpAGet, &mix, 50);
    is_found(Lie::UndoesACommit, &mix, 200);
    is_found(Lie::SkipsARow, &mix, 1);
}

#[test]
fn lies_in_ycsb_are_found() {
    let ycsb = |workload| YcsbSpec { workload, n: 500, value_bytes: 100 };
    is_found(Lie::LosesAPut, &ycsb(Letter::A), 100);
    // The load puts 500 rows.
    is_found(Lie::LosesAPut, &ycsb(Letter::A), 500);
    is_found(Lie::LosesAPut, &ycsb(Letter::F), 500);
    is_found(Lie::MissesAGet, &ycsb(Letter::C), 100);
    is_found(Lie::MixesUpAGet, &ycsb(Letter::F), 100);
    is_found(Lie::CutsAValue, &ycsb(Letter::C), 100);
    is_found(Lie::CutsAValue, &ycsb(Letter::F), 100);
    is_found(Lie::CutsAScannedValue, &ycsb(Letter::E), 20);
    is_found(Lie::CutsAScannedValue, &ycsb(Letter::A), 0);
    is_found(Lie::LosesAnInsert, &ycsb(Letter::D), 20);
    is_found(Lie::LosesAnInsert, &ycsb(Letter::E), 20);
    is_found(Lie::UndoesACommit, &ycsb(Letter::E), 20);
    is_found(Lie::BeginsLate, &ycsb(Letter::E), 20);
    is_found(Lie::EndsEarly, &ycsb(Letter::E), 20);
}
