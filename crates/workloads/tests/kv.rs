//! The driver on the reference map, and on stores that lie: a wrong answer must never become a figure.

mod common;

use common::object_of;
use foreshore_workloads::kv::{self, BenchError};
use foreshore_workloads::reference::MapStore;
use foreshore_workloads::{Durability, KvReport, KvSpec, Row, Session, Store, StoreError, Workload};

fn spec(workload: Workload) -> KvSpec {
    KvSpec {
        workload,
        update_ratio: 40,
        batch: 1,
        n: 3_000,
        threads: 1,
        seconds: 0.05,
        durability: Durability::Relaxed,
        cache_bytes: 1 << 20,
        key_bytes: 4,
        value_bytes: 8,
        seed: 7,
    }
}

fn run(store: &impl Store, spec: &KvSpec) -> Result<KvReport, BenchError> {
    kv::run("test", store, spec, &|_| {})
}

#[test]
fn every_workload_runs_on_a_right_store() {
    use Workload::{Bulk, Get, Mix, Put, Scan};
    for workload in [Put, Get, Mix, Scan, Bulk] {
        for (threads, key_bytes, value_bytes) in [(1, 4, 8), (2, 4, 8), (3, 16, 100)] {
            let threads = if workload == Bulk { 1 } else { threads };
            let spec = KvSpec { threads, key_bytes, value_bytes, ..spec(workload) };
            let report = run(&MapStore::default(), &spec).unwrap_or_else(|e| panic!("{spec:?}: {e}"));
            assert!(
                report.ops_per_s > 0.0 && report.p50_us <= report.p99_us && report.p99_us <= report.max_us,
                "{report}"
            );
            // A bulk load is one operation: its median is its maximum, but for the histogram's 1 %.
            assert!(workload != Workload::Bulk || report.p50_us >= report.max_us * 0.98, "{report}");
        }
    }
}

/// Whatever is handed over at a time, the last call included: every row is there once, and is counted.
#[test]
fn batches_add_up() {
    let one = KvSpec { batch: usize::MAX, ..spec(Workload::Put) };
    assert_eq!(run(&MapStore::default(), &one).unwrap().batch, usize::MAX, "all rows at once");
    for (threads, batch) in [(1, 7), (3, 64), (2, 5_000)] {
        let spec = KvSpec { threads, batch, seconds: 60.0, ..spec(Workload::Put) };
        let report = run(&MapStore::default(), &spec).unwrap();
        let rows = report.ops_per_s * report.seconds;
        assert!((rows - 3_000.0).abs() < 1.0, "{rows} rows by {threads} threads, {batch} at a time");
    }
}

/// Others read this object: its names and their order are a promise.
#[test]
fn the_report_keeps_its_fields() {
    let report = run(&MapStore::default(), &spec(Workload::Mix)).unwrap();
    let text = serde_json::to_string(&report).unwrap();
    let fields = "bench engine workload threads ops_per_s p50_us p99_us max_us syncs n seconds seed \
         durability cache_bytes key_bytes value_bytes batch update_ratio checked";
    object_of(&text, fields);
    assert!(text.starts_with(r#"{"bench":"kv","engine":"test","workload":"mix","threads":1,"#), "{text}");
}

#[test]
fn impossible_runs_are_refused_by_flag() {
    let cases: [(KvSpec, &str); 11] = [
        (KvSpec { n: 0, ..spec(Workload::Get) }, "--n"),
        (KvSpec { key_bytes: 1, ..spec(Workload::Get) }, "--key-bytes"),
        (KvSpec { key_bytes: usize::MAX, ..spec(Workload::Get) }, "--key-bytes"),
        (KvSpec { value_bytes: 7, ..spec(Workload::Get) }, "--value-bytes"),
        (KvSpec { value_bytes: usize::MAX, ..spec(Workload::Get) }, "--value-bytes"),
        (KvSpec { threads: 0, ..spec(Workload::Get) }, "--threads"),
        (KvSpec { threads: 100_000, ..spec(Workload::Get) }, "--threads"),
        (KvSpec { threads: 2, ..spec(Workload::Bulk) }, "--threads"),
        (KvSpec { batch: 0, ..spec(Workload::Put) }, "--batch"),
        (KvSpec { batch: 2, ..spec(Workload::Mix) }, "--batch"),
        (KvSpec { seconds: f64::NAN, ..spec(Workload::Get) }, "--seconds"),
    ];
    for (spec, flag) in cases {
        match run(&MapStore::default(), &spec) {
            Err(BenchError::Usage(text)) => assert!(text.starts_with(flag), "{text}"),
            other => panic!("{spec:?}: {other:?}"),
        }
    }
}

/// What a lying store does wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
    /// One put is acknowledged and dropped.
    LosesAPut,
    /// From the hundredth on, puts are acknowledged and dropped.
    StopsPutting,
    /// A lookup finds nothing once.
    MissesAGet,
    /// A lookup gives other bytes once.
    MixesUpAGet,
    /// A lookup gives the beginning of the value once.
    CutsAValue,
    /// A scan gives the beginning of a row's value.
    CutsAScannedValue,
    /// A scan ends one row early.
    CutsAScan,
    /// A scan shows one row twice, and another not at all.
    RepeatsARow,
    /// A bulk load leaves one row out and does not say so.
    SkipsABulkRow,
}

struct Liar {
    map: MapStore,
    lie: Lie,
}

struct LyingSession<'a> {
    inner: <MapStore as Store>::Session<'a>,
    lie: Lie,
    calls: u64,
}

impl LyingSession<'_> {
    /// Is this the call to lie at? The hundredth of its kind.
    fn now(&mut self, lie: Lie) -> bool {
        self.calls += u64::from(self.lie == lie);
        self.lie == lie && (self.calls == 100 || lie == Lie::StopsPutting && self.calls > 100)
    }
}

impl Store for Liar {
    type Session<'a> = LyingSession<'a>;

    fn session(&self) -> Result<LyingSession<'_>, StoreError> {
        Ok(LyingSession { inner: self.map.session()?, lie: self.lie, calls: 0 })
    }

    fn sync_count(&self) -> Option<u64> {
        None
    }

    fn settle(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Session for LyingSession<'_> {
    fn get<R>(&mut self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, StoreError> {
        if self.now(Lie::MissesAGet) {
            return Ok(None);
        }
        if self.now(Lie::MixesUpAGet) {
            let value = self.inner.get(key, |value| value.iter().rev().copied().collect::<Vec<_>>())?;
            return Ok(value.map(|value| read(&value)));
        }
        if self.now(Lie::CutsAValue) {
            return self.inner.get(key, |value| read(&value[..value.len() - 1]));
        }
        self.inner.get(key, read)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let loses = self.now(Lie::LosesAPut) || self.now(Lie::StopsPutting);
        if loses { Ok(()) } else { self.inner.put(key, value) }
    }

    fn scan(
        &mut self,
        from: &[u8],
        limit: u64,
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64, StoreError> {
        let mut rows = Vec::new();
        self.inner.scan(from, limit, |key, value| rows.push((key.to_vec(), value.to_vec())))?;
        match self.lie {
            Lie::CutsAScan => drop(rows.pop()),
            Lie::RepeatsARow => rows[10] = rows[9].clone(),
            Lie::CutsAScannedValue => drop(rows[10].1.pop()),
            _ => {}
        }
        rows.iter().for_each(|(key, value)| each(key, value));
        Ok(rows.len() as u64)
    }

    fn bulk(&mut self, rows: impl Iterator<Item = Row>) -> Result<u64, StoreError> {
        let skip = if self.lie == Lie::SkipsABulkRow { 50 } else { usize::MAX };
        let mut count = 0;
        self.inner
            .bulk(rows.inspect(|_| count += 1).enumerate().filter(|(i, _)| *i != skip).map(|(_, row)| row))?;
        Ok(count)
    }
}

#[test]
fn lies_are_found() {
    use Workload::{Bulk, Get, Mix, Put, Scan};
    let cases = [
        (Lie::LosesAPut, Put),
        (Lie::StopsPutting, Mix),
        (Lie::MissesAGet, Get),
        (Lie::MissesAGet, Mix),
        (Lie::MixesUpAGet, Get),
        (Lie::CutsAValue, Get),
        (Lie::CutsAValue, Mix),
        (Lie::CutsAScannedValue, Put),
        (Lie::CutsAScannedValue, Get),
        (Lie::CutsAScan, Scan),
        (Lie::CutsAScan, Put),
        (Lie::RepeatsARow, Scan),
        (Lie::RepeatsARow, Put),
        (Lie::SkipsABulkRow, Bulk),
        (Lie::SkipsABulkRow, Get),
    ];
    for (lie, workload) in cases {
        let store = Liar { map: MapStore::default(), lie };
        match run(&store, &KvSpec { value_bytes: 100, ..spec(workload) }) {
            Err(BenchError::Wrong(_)) => {}
            other => panic!("{lie:?} in {workload:?}: {other:?}"),
        }
    }
}
