//! The O2-Tree's mixes: lookups and updates of random keys, where 70 % of the updates are insertions and 30 % deletions.
//!
//! Source: "Concurrent operations of O2-Tree" (Ohene-Kwofie et al., ADC 2013), §5: `update ratio` is the percentage of updates;
//! keys are uniform 32-bit numbers.
//!
//! A key is hit whether it is there or not, so the table settles where 70 % of all keys are there, and is loaded so. Each thread
//! updates keys of its own and remembers of each whether it is there, and a bit of its value that every insertion flips: every
//! deletion, every lookup of an own key, and the table at the end are compared with that.

use crate::keys::{Keys, value_belongs, write_value};
use crate::kv::{BenchError, Tell};
use crate::random::{Random, below, mix};
use crate::timed::Worker;
use crate::tx_batch;
use crate::tx_report::{Describe, Rate, Report};
use crate::tx_run::{self, Place, Tally};
use crate::tx_spec::{RunSpec, TxWorkload};
use crate::tx_store::{Tx, TxKind, TxSession, TxStore};
use serde::Serialize;
use std::sync::{Mutex, MutexGuard};

const KEY_BYTES: usize = 4;
const VALUE_BYTES: usize = 8;
/// Insertions among updates, and so keys that are there, in percent.
const INSERT_PERCENT: u64 = 70;

/// What the mix is asked to do.
#[derive(Clone, Debug, PartialEq, Serialize, clap::Args)]
pub struct MixSpec {
    /// Updates among the operations, in percent: 70 of 100 insert, 30 delete
    #[arg(long, value_name = "PCT", default_value_t = 50, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub update_ratio: u8,
    /// About so many rows, of 4-byte keys and 8-byte values
    #[arg(long, default_value_t = 5_000_000)]
    pub n: u64,
}

impl Describe for MixSpec {
    fn describe(&self) -> String {
        format!("{} % updates of {} rows", self.update_ratio, self.n)
    }
}

impl TxWorkload for MixSpec {
    const NAME: &'static str = "mix";
    type Report = Report<Self>;

    fn check(&self, run: &RunSpec) -> Result<(), BenchError> {
        let complaint = if u128::from(self.key_count()) > Keys::room(KEY_BYTES) {
            "--n: at most 3 billion rows"
        } else if self.key_count() < run.threads as u64 {
            "--n: at least a row for each thread"
        } else {
            return Ok(());
        };
        Err(BenchError::Usage(complaint.to_owned()))
    }

    fn measure<S: TxStore>(
        &self,
        engine: &str,
        store: &S,
        run: &RunSpec,
        progress: Tell<'_>,
    ) -> Result<Self::Report, BenchError> {
        let table = store.table("rows")?;
        let universe = Universe::new(self.key_count(), run);
        let row = |key, key_bytes: &mut Vec<u8>, value: &mut Vec<u8>| {
            key_bytes.resize(KEY_BYTES, 0);
            value.resize(VALUE_BYTES, 0);
            let number = universe.keys.number(key);
            universe.keys.write(number, key_bytes);
            write_value(number, 0, value);
            universe.is_loaded(key)
        };
        tx_batch::load(store, &table, (universe.count, run.threads), row, progress)?;
        store.settle()?;
        universe.check(store, &table, progress)?;
        let worker = |place: Place| {
            Ok(Client {
                session: store.session()?,
                update_ratio: self.update_ratio,
                table: &table,
                universe: &universe,
                known: universe.known[place.thread as usize].lock().expect("no worker panicked"),
                thread: place.thread,
                random: Random::new(run.seed, place.stream),
            })
        };
        let measured = tx_run::measure(store, run, worker, progress)?;
        universe.check(store, &table, progress)?;
        Ok(Report::new(engine, self, run, Rate::Operations, &measured))
    }
}

impl MixSpec {
    /// Keys there can be, of which `n` are there.
    fn key_count(&self) -> u64 {
        u64::try_from(u128::from(self.n) * 100 / u128::from(INSERT_PERCENT)).unwrap_or(u64::MAX)
    }
}

/// All keys there can be. Key `k` belongs to thread `k % threads`, which knows it as its `k / threads`-th.
struct Universe {
    count: u64,
    threads: u64,
    seed: u64,
    keys: Keys,
    /// What each thread knows.
    known: Vec<Mutex<Known>>,
}

/// What a thread knows of its keys.
struct Known {
    /// Is it there?
    present: Bits,
    /// The last bit of its newest value's stamp, whether it is there or not.
    flips: Bits,
}

/// A bit for each of a thread's keys.
struct Bits(Vec<u64>);

impl Bits {
    fn new(count: u64) -> Self {
        Self(vec![0; count.div_ceil(64) as usize])
    }

    fn get(&self, at: u64) -> bool {
        self.0[(at / 64) as usize] >> (at % 64) & 1 == 1
    }

    fn set(&mut self, at: u64, to: bool) {
        let word = &mut self.0[(at / 64) as usize];
        *word = *word & !(1 << (at % 64)) | u64::from(to) << (at % 64);
    }
}

impl Known {
    /// What a value of the key looks like: its last stamp bit, or `None` if it is absent.
    fn expected(&self, own: u64) -> Option<bool> {
        self.present.get(own).then(|| self.flips.get(own))
    }
}

/// What a value looks like to a reader: its last stamp bit, or `None` if it is not the key's.
fn flip_of(number: u64, value: &[u8]) -> Option<bool> {
    value_belongs(number, VALUE_BYTES, value).then(|| value[0] & 1 == 1)
}

impl Universe {
    fn new(count: u64, run: &RunSpec) -> Self {
        let threads = run.threads as u64;
        let keys = Keys::new(count, KEY_BYTES, run.seed);
        let mut universe = Self { count, threads, seed: mix(run.seed), keys, known: Vec::new() };
        universe.known = (0..threads).map(|thread| Mutex::new(universe.loaded(thread))).collect();
        universe
    }

    /// The number and the bytes of a key.
    fn key(&self, key: u64) -> (u64, [u8; KEY_BYTES]) {
        let number = self.keys.number(key);
        let mut bytes = [0; KEY_BYTES];
        self.keys.write(number, &mut bytes);
        (number, bytes)
    }

    /// Is the key loaded?
    fn is_loaded(&self, key: u64) -> bool {
        below(mix(key ^ self.seed), 100) < INSERT_PERCENT
    }

    /// How many keys a thread has.
    fn own(&self, thread: u64) -> u64 {
        (self.count - thread).div_ceil(self.threads)
    }

    /// What a thread knows after the load, which gives every value stamp 0.
    fn loaded(&self, thread: u64) -> Known {
        let count = self.own(thread);
        let mut known = Known { present: Bits::new(count), flips: Bits::new(count) };
        for own in (0..count).filter(|own| self.is_loaded(own * self.threads + thread)) {
            known.present.set(own, true);
        }
        known
    }

    /// The table holds the keys that are there with their newest values, and nothing else.
    fn check<S: TxStore>(&self, store: &S, table: &S::Table, progress: Tell<'_>) -> Result<(), BenchError> {
        let known: Vec<_> =
            self.known.iter().map(|known| known.lock().expect("no worker panicked")).collect();
        let mut expected = (0..self.count).filter_map(|key| {
            let flip = known[(key % self.threads) as usize].expected(key / self.threads)?;
            Some((self.keys.number(key), flip))
        });
        tx_batch::read_all(store, table, None, progress, |key, value| {
            let found = self.keys.read(key).and_then(|number| Some((number, flip_of(number, value)?)));
            let expected = expected.next();
            let is_right = found.is_some() && found == expected;
            is_right.then_some(()).ok_or_else(|| {
                format!("a scan finds {key:02x?} → {value:02x?}, where {expected:?} should be next")
            })
        })?;
        match expected.next() {
            None => Ok(()),
            Some((key, _)) => {
                Err(BenchError::Wrong(format!("a scan does not find key {key}, nor any after it")))
            }
        }
    }
}

struct Client<'a, X: TxSession> {
    session: X,
    update_ratio: u8,
    table: &'a X::Table,
    universe: &'a Universe,
    known: MutexGuard<'a, Known>,
    thread: u64,
    random: Random,
}

impl<X: TxSession> Client<'_, X> {
    fn update(&mut self) -> Result<(), BenchError> {
        let own = self.random.below(self.universe.own(self.thread));
        if self.random.below(100) < INSERT_PERCENT { self.insert(own) } else { self.delete(own) }
    }

    fn insert(&mut self, own: u64) -> Result<(), BenchError> {
        let Self { session, table, known, random, .. } = self;
        let (number, key) = self.universe.key(own * self.universe.threads + self.thread);
        let flip = !known.flips.get(own);
        let stamp = random.word() as u32 & !1 | u32::from(flip);
        let mut value = [0; VALUE_BYTES];
        write_value(number, stamp, &mut value);
        session.single(TxKind::ReadWrite, |tx| tx.put(table, &key, &value))?;
        known.present.set(own, true);
        known.flips.set(own, flip);
        Ok(())
    }

    fn delete(&mut self, own: u64) -> Result<(), BenchError> {
        let Self { session, table, known, .. } = self;
        let (number, key) = self.universe.key(own * self.universe.threads + self.thread);
        let removed = session.single(TxKind::ReadWrite, |tx| tx.remove(table, &key))?;
        if removed != known.present.get(own) {
            let what = format!("key {number}: the deletion says {removed}, which is not so");
            return Err(BenchError::Wrong(what));
        }
        known.present.set(own, false);
        Ok(())
    }

    fn look_up(&mut self) -> Result<(), BenchError> {
        let Self { session, table, universe, known, random, .. } = self;
        let place = random.below(universe.count);
        let (number, key) = universe.key(place);
        let found =
            session.single(TxKind::ReadOnly, |tx| tx.get(table, &key, |value| flip_of(number, value)))?;
        let is_own = place % universe.threads == self.thread;
        let is_right = match found {
            Some(None) => false,
            other => !is_own || other.flatten() == known.expected(place / universe.threads),
        };
        if !is_right {
            return Err(BenchError::Wrong(format!("lookup of key {number} says {found:?}")));
        }
        Ok(())
    }
}

impl<X: TxSession> Worker for Client<'_, X> {
    type Tally = Tally;

    fn work(&mut self, _call: u64) -> Result<u64, BenchError> {
        if self.random.below(100) < u64::from(self.update_ratio) {
            self.update()?;
        } else {
            self.look_up()?;
        }
        Ok(1)
    }

    fn tally(self) -> Tally {
        Tally { aborts: self.session.aborts(), marked: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Also where the keys that there can be do not fit into 64 bits.
    #[test]
    fn too_many_rows_are_refused() {
        for n in [1 << 32, 12_912_720_851_596_686_132, u64::MAX] {
            let outcome = MixSpec { update_ratio: 50, n }.check(&RunSpec::brief());
            assert!(
                matches!(&outcome, Err(BenchError::Usage(why)) if why.contains("at most 3 billion")),
                "{outcome:?}"
            );
        }
    }
}
