//! Real threads on real memory: every thread knows what its own keys must answer, and the structure is checked.

use crate::common::U64Map;
use foreshore_base::random;
use foreshore_index::{
    ByteMap, CsbByteMap, CsbMap, IntMap, LeafIndex, O2Map, OptimisticO2ByteMap, OptimisticO2Map,
};
use foreshore_index::{Coupled, LayerTree, O2ByteMap, TrieMap};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const THREADS: u64 = 4;

/// The one seed; every thread derives its own from it.
fn seed() -> u64 {
    std::env::var("INDEX_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1)
}

/// Operations per thread; `INDEX_STRESS_OPS` asks for more.
fn operations() -> u64 {
    std::env::var("INDEX_STRESS_OPS").ok().and_then(|n| n.parse().ok()).unwrap_or(60_000)
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        random::next(&mut self.0)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// Keys of all threads are interleaved, so that they meet in every node; whole stretches are emptied and refilled.
pub fn own_keys_answer_as_expected(map: &impl U64Map) {
    let seed = seed();
    std::thread::scope(|s| {
        for thread in 0..THREADS {
            s.spawn(move || {
                let mut random = Random(seed * 1000 + thread);
                let mut model = BTreeMap::new();
                for i in 0..operations() {
                    // A window that wanders over the keys empties what it leaves behind.
                    let key = (i / 2000 * 500 + random.below(1500)) * THREADS + thread;
                    match random.below(10) {
                        0..=3 => assert_eq!(map.insert(key, i), model.insert(key, i), "seed {seed}"),
                        4..=6 => assert_eq!(map.get(key), model.get(&key).copied(), "seed {seed}"),
                        _ => assert_eq!(map.remove(key), model.remove(&key), "seed {seed}"),
                    }
                    if i % 2000 == 0 {
                        let floor = key.saturating_sub(8000);
                        for old in model.split_off(&0) {
                            if old.0 < floor {
                                assert_eq!(map.remove(old.0), Some(old.1), "seed {seed}");
                            } else {
                                model.insert(old.0, old.1);
                            }
                        }
                    }
                }
                model.iter().for_each(|(k, v)| assert_eq!(map.get(*k), Some(*v), "seed {seed}"));
            });
        }
    });
    map.check().unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    assert!(map.unlinked() > 0, "seed {seed}: no node died");
}

#[test]
fn own_keys_in_a_bplus_tree() {
    own_keys_answer_as_expected(&IntMap::<u64, 4>::new());
}

#[test]
fn own_keys_in_a_csb_tree() {
    own_keys_answer_as_expected(&CsbMap::<u64, 4>::new());
}

#[test]
fn own_keys_in_an_o2_tree() {
    own_keys_answer_as_expected(&O2Map::<u64, 4>::new());
    own_keys_answer_as_expected(&OptimisticO2Map::<u64, 4>::new());
}

#[test]
fn own_keys_in_layers() {
    own_keys_answer_as_expected(&CsbByteMap::<4, 2>::new());
    own_keys_answer_as_expected(&O2ByteMap::<4, Coupled, 2>::new());
    own_keys_answer_as_expected(&OptimisticO2ByteMap::<4, 2>::new());
}

/// A queue lets the leftmost nodes of all levels die while others ask for what is below the least key: nothing is.
#[test]
fn nothing_is_below_the_least_key() {
    const LONG: u64 = 200;
    let map = &IntMap::<i64, 4>::new();
    let stop = &AtomicBool::new(false);
    std::thread::scope(|s| {
        let queue = s.spawn(|| {
            for i in 0..operations() {
                map.insert(i64::MIN + i as i64, i);
                if i >= LONG {
                    assert_eq!(map.remove(i64::MIN + (i - LONG) as i64), Some(i - LONG));
                }
            }
        });
        s.spawn(|| {
            while !stop.load(Relaxed) {
                assert_eq!(map.below(i64::MIN), None);
                assert_eq!(map.pin().below(i64::MIN), None);
                assert_eq!(map.range_rev(..i64::MIN).next(), None);
            }
        });
        let outcome = queue.join();
        stop.store(true, Relaxed);
        outcome.unwrap();
    });
    map.check().unwrap();
}

/// Even keys stay; scans in both directions hand out each of them once, while odd ones come and go in crowds.
fn scans_miss_nothing<M: U64Map>() {
    const STAYING: u64 = 4000;
    let map = &M::load((0..STAYING).map(|k| (k * 64, k)), 0.7);
    let seed = seed();
    let stop = &AtomicBool::new(false);
    std::thread::scope(|s| {
        for thread in 0..2 {
            s.spawn(move || {
                let mut random = Random(seed * 2000 + thread);
                while !stop.load(Relaxed) {
                    let crowd = random.below(STAYING) * 64;
                    for offset in 1..64 {
                        map.insert(crowd + offset, 0);
                    }
                    for offset in 1..64 {
                        map.remove(crowd + offset);
                    }
                }
            });
        }
        let scanner = s.spawn(move || {
            for _ in 0..operations() / 2000 {
                let up = map.up();
                assert!(up.is_sorted_by(|a, b| a < b), "seed {seed}: rising");
                assert_eq!(
                    up.iter().filter(|k| *k % 64 == 0).count() as u64,
                    STAYING,
                    "seed {seed}: upwards"
                );
                let down = map.down();
                assert!(down.is_sorted_by(|a, b| a > b), "seed {seed}: falling");
                assert_eq!(
                    down.iter().filter(|k| *k % 64 == 0).count() as u64,
                    STAYING,
                    "seed {seed}: downwards"
                );
            }
        });
        let outcome = scanner.join();
        stop.store(true, Relaxed);
        outcome.unwrap();
    });
    map.check().unwrap_or_else(|e| panic!("seed {seed}: {e}"));
}

#[test]
fn scans_of_a_bplus_tree() {
    scans_miss_nothing::<IntMap<u64, 4>>();
}

#[test]
fn scans_of_a_csb_tree() {
    scans_miss_nothing::<CsbMap<u64, 4>>();
}

#[test]
fn scans_of_an_o2_tree() {
    scans_miss_nothing::<O2Map<u64, 4>>();
}

#[test]
fn scans_of_an_optimistic_o2_tree() {
    scans_miss_nothing::<OptimisticO2Map<u64, 4>>();
}

#[test]
fn scans_of_layers() {
    scans_miss_nothing::<CsbByteMap<4, 2>>();
    scans_miss_nothing::<OptimisticO2ByteMap<4, 2>>();
}

/// Scans of known length visit, in order and once, each key that stays, and no key with another's value, while others come and go in
/// crowds: leaves are split, emptied, and used again elsewhere.
fn scans_of_known_length_miss_nothing<const F: usize>() {
    const STAYING: u64 = 4000;
    const WANTED: usize = 500;
    let map = &IntMap::<u64, F>::bulk_load((0..STAYING).map(|k| (k * 64, !(k * 64))), 0.7);
    let seed = seed();
    let stop = &AtomicBool::new(false);
    std::thread::scope(|s| {
        for thread in 0..2 {
            s.spawn(move || {
                let mut random = Random(seed * 4000 + thread);
                while !stop.load(Relaxed) {
                    let crowd = random.below(STAYING) * 64;
                    (crowd + 1..crowd + 64).for_each(|key| _ = map.insert(key, !key));
                    (crowd + 1..crowd + 64).for_each(|key| _ = map.remove(key));
                }
            });
        }
        let scanner = s.spawn(move || {
            let mut random = Random(seed * 4000 + 99);
            for _ in 0..operations() / 6 {
                let first = random.below(STAYING);
                let mut keys = Vec::new();
                let count = map.scan(first * 64 - first % 2, WANTED, |key, value| {
                    assert_eq!(value, !key, "seed {seed}");
                    keys.push(key);
                });
                assert_eq!(count, keys.len(), "seed {seed}");
                assert!(keys.is_sorted_by(|a, b| a < b), "seed {seed}: rising");
                // A scan that ended before its time has seen the last key.
                let end = if count == WANTED { keys[count - 1] / 64 + 1 } else { STAYING };
                let staying = keys.iter().filter(|key| **key % 64 == 0).map(|key| key / 64);
                assert!(staying.eq(first..end), "seed {seed}: from {first} to {end}");
            }
        });
        let outcome = scanner.join();
        stop.store(true, Relaxed);
        outcome.unwrap();
    });
    map.check().unwrap_or_else(|e| panic!("seed {seed}: {e}"));
}

#[test]
fn scans_of_known_length() {
    scans_of_known_length_miss_nothing::<4>();
    scans_of_known_length_miss_nothing::<64>();
}

/// An index over leaves, and what a test wants to know of it besides.
trait Fences: LeafIndex {
    fn check(&self) -> Result<(), String>;
    fn pages(&self) -> Vec<u64>;
}

impl<const F: usize, const H: usize> Fences for ByteMap<F, H> {
    fn check(&self) -> Result<(), String> {
        self.check().map_err(|e| e.to_string())
    }
    fn pages(&self) -> Vec<u64> {
        self.iter().map(|(_, page)| page).collect()
    }
}

impl<M: LayerTree, const C: usize> Fences for TrieMap<M, C> {
    fn check(&self) -> Result<(), String> {
        self.check().map_err(|e| e.to_string())
    }
    fn pages(&self) -> Vec<u64> {
        self.iter().map(|(_, page)| page).collect()
    }
}

/// Byte strings with shared prefixes and long keys; `floor` always finds the fence that stays below.
fn floors_hold_while_fences_come_and_go<M: Fences>() {
    const FENCES: u64 = 500;
    let fence = |k: u64, sub: u64| {
        let filler = if k.is_multiple_of(7) { 140 } else { (k % 3) as usize * 11 };
        format!("tenant/{:04}/{}{:03}", k, "x".repeat(filler), sub).into_bytes()
    };
    let map = &M::bulk_load((0..FENCES).map(|k| (fence(k, 0), k << 16)), 0.8);
    let seed = seed();
    let stop = &AtomicBool::new(false);
    std::thread::scope(|s| {
        for thread in 0..2u64 {
            s.spawn(move || {
                let mut random = Random(seed * 3000 + thread);
                while !stop.load(Relaxed) {
                    let k = random.below(FENCES) / 2 * 2 + thread;
                    for sub in 1..20 {
                        map.post(&fence(k, sub * 10), k << 16 | sub);
                    }
                    for sub in 1..20 {
                        let (fence, page) = (fence(k, sub * 10), k << 16 | sub);
                        assert!(!map.unpost(&fence, page + 1), "seed {seed}: another page's");
                        assert!(map.unpost(&fence, page), "seed {seed}");
                    }
                }
            });
        }
        let seeker = s.spawn(move || {
            let mut random = Random(seed * 3000 + 99);
            for _ in 0..operations() {
                let (k, sub) = (random.below(FENCES), random.below(200));
                let found =
                    map.seek(&fence(k, sub)).unwrap_or_else(|| panic!("seed {seed}: no floor of {k}/{sub}"));
                assert_eq!(found >> 16, k, "seed {seed}: floor of {k}/{sub}");
                assert!((found & 0xFFFF) * 10 <= sub, "seed {seed}: floor of {k}/{sub} is {found:#x}");
                if k > 0 {
                    let before = map
                        .seek_before(&fence(k, 0))
                        .unwrap_or_else(|| panic!("seed {seed}: nothing below {k}"));
                    assert_eq!(before >> 16, k - 1, "seed {seed}: below {k}");
                }
            }
        });
        let outcome = seeker.join();
        stop.store(true, Relaxed);
        outcome.unwrap();
    });
    map.check().unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    assert_eq!(map.pages(), (0..FENCES).map(|k| k << 16).collect::<Vec<_>>(), "seed {seed}");
}

#[test]
fn floors_of_a_bplus_tree() {
    floors_hold_while_fences_come_and_go::<ByteMap<8>>();
}

#[test]
fn floors_of_layers() {
    floors_hold_while_fences_come_and_go::<CsbByteMap<4, 8>>();
    floors_hold_while_fences_come_and_go::<O2ByteMap<4, Coupled, 8>>();
    floors_hold_while_fences_come_and_go::<OptimisticO2ByteMap<4, 8>>();
}

/// What threads empty leaves the tree, however many threads there were.
fn memory_survives_its_threads(map: &impl U64Map) {
    for round in 0..50 {
        std::thread::scope(|s| {
            for thread in 0..THREADS {
                s.spawn(move || {
                    (0..500).for_each(|k| _ = map.insert(k * THREADS + thread, round));
                    (0..500).for_each(|k| _ = map.remove(k * THREADS + thread));
                });
            }
        });
        map.check().unwrap_or_else(|e| panic!("round {round}: {e}"));
    }
    assert!(map.bytes() < 1 << 20, "{} bytes", map.bytes());
}

#[test]
fn memory_of_a_bplus_tree() {
    memory_survives_its_threads(&IntMap::<u64, 4>::new());
}

#[test]
fn memory_of_a_csb_tree() {
    memory_survives_its_threads(&CsbMap::<u64, 4>::new());
}

#[test]
fn memory_of_an_o2_tree() {
    memory_survives_its_threads(&O2Map::<u64, 4>::new());
    memory_survives_its_threads(&OptimisticO2Map::<u64, 4>::new());
}

#[test]
fn memory_of_layers() {
    memory_survives_its_threads(&CsbByteMap::<4, 2>::new());
    memory_survives_its_threads(&OptimisticO2ByteMap::<4, 2>::new());
}

/// Nodes of one size serve all structures in turn: what one left in them must not disturb the next.
#[test]
fn nodes_pass_between_structures() {
    fn fill(map: &impl U64Map) {
        (0..20_000u64).for_each(|k| assert_eq!(map.insert(k.wrapping_mul(0x9E37_79B9_7F4A_7C15), k), None));
        map.check().unwrap();
    }
    for _ in 0..2 {
        fill(&IntMap::<u64>::new());
        fill(&O2Map::<u64>::new());
        fill(&OptimisticO2Map::<u64>::new());
        fill(&CsbMap::<u64>::new());
    }
}

/// Whatever it finds beside who changes the map, it follows no address that is none: long keys lie outside of the nodes, where others
/// write shorter ones.
#[test]
fn a_check_beside_who_writes_looks_at_nothing_else() {
    let map: ByteMap<64, 88> = ByteMap::new();
    let written = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random(seed());
            for _ in 0..20 * operations() {
                let (first, len) =
                    (b'a' + random.below(4) as u8, [90, 100, 110, 200][random.below(4) as usize]);
                let key = [vec![first; len], vec![random.below(8) as u8]].concat();
                if random.below(3) > 0 {
                    map.insert(&key, 1);
                } else {
                    map.remove(&key);
                }
            }
            written.store(true, Relaxed);
        });
        while !written.load(Relaxed) {
            let _ = map.check();
        }
    });
    map.check().unwrap();
}

/// Who asks what a map takes looks into each of its nodes. That a node is being looked into is no damage.
#[test]
fn a_check_beside_who_only_looks_finds_nothing() {
    let map: ByteMap = (0..50_000u64).map(|key| (key.to_be_bytes(), key)).collect();
    let (checked, bytes) = (AtomicBool::new(false), map.bytes());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !checked.load(Relaxed) {
                assert_eq!(map.bytes(), bytes);
            }
        });
        let found = (0..200).find_map(|_| map.check().err());
        checked.store(true, Relaxed);
        assert_eq!(found, None);
    });
}
