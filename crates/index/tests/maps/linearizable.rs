//! Recorded histories of real threads on few keys, checked for linearizability.
//!
//! Every operation touches one key, so a history is linearizable if its part on each key is (Herlihy and Wing:
//! locality). A key is a register with `get`, `insert` and `remove`, the last two returning the old value; the search for
//! a witness is Wing and Gong's, with Lowe's memory of states already tried.

use crate::common::U64Map;
use foreshore_index::{
    ByteMap, Coupled, CsbByteMap, CsbMap, IntMap, O2ByteMap, O2Map, OptimisticO2ByteMap, OptimisticO2Map,
};
use std::collections::HashSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

const THREADS: u64 = 4;
const KEYS: u64 = 24;

#[derive(Clone, Copy, Debug)]
enum Call {
    Get,
    Insert(u64),
    Remove,
}

#[derive(Clone, Copy, Debug)]
struct Event {
    key: u64,
    call: Call,
    result: Option<u64>,
    /// Moments of call and return on a common clock.
    from: u64,
    to: u64,
}

impl Event {
    /// The state of the register after this operation, if its result fits the state before.
    fn apply(&self, before: Option<u64>) -> Option<Option<u64>> {
        (self.result == before).then_some(match self.call {
            Call::Get => before,
            Call::Insert(value) => Some(value),
            Call::Remove => None,
        })
    }
}

/// Is there an order of these operations on one key that respects time and explains every result?
fn is_linearizable(events: &[Event]) -> bool {
    let mut events = events.to_vec();
    events.sort_by_key(|e| e.from);
    // Chunks between quiet moments are searched one after another, from every state the last one may end in.
    let mut states: HashSet<Option<u64>> = [None].into();
    let mut start = 0;
    while start < events.len() {
        let mut end = start + 1;
        let mut latest = events[start].to;
        while end < events.len() && events[end].from < latest {
            latest = latest.max(events[end].to);
            end += 1;
        }
        states = states.iter().flat_map(|state| end_states(&events[start..end], *state)).collect();
        if states.is_empty() {
            return false;
        }
        start = end;
    }
    true
}

/// The states in which some valid order of all these events can end.
fn end_states(events: &[Event], state: Option<u64>) -> HashSet<Option<u64>> {
    let mut ends = HashSet::new();
    let mut seen = HashSet::new();
    let mut open = vec![(vec![false; events.len()], state)];
    while let Some((done, state)) = open.pop() {
        if !seen.insert((done.clone(), state)) {
            continue;
        }
        if done.iter().all(|d| *d) {
            ends.insert(state);
            continue;
        }
        let waiting = || (0..events.len()).filter(|&i| !done[i]);
        let earliest_return = waiting().map(|i| events[i].to).min().expect("something is waiting");
        for i in waiting().filter(|&i| events[i].from <= earliest_return) {
            if let Some(next) = events[i].apply(state) {
                let mut done = done.clone();
                done[i] = true;
                open.push((done, next));
            }
        }
    }
    ends
}

/// Runs `operations` random calls in each thread and returns what happened.
fn record(seed: u64, operations: u64, call: impl Fn(u64, Call) -> Option<u64> + Sync) -> Vec<Event> {
    let clock = AtomicU64::new(0);
    let barrier = Barrier::new(THREADS as usize);
    std::thread::scope(|s| {
        let (clock, barrier, call) = (&clock, &barrier, &call);
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                s.spawn(move || {
                    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ thread << 48 | 1;
                    barrier.wait();
                    let mut events = Vec::new();
                    for i in 0..operations {
                        random ^= random << 13;
                        random ^= random >> 7;
                        random ^= random << 17;
                        let key = random % KEYS;
                        let what = match random >> 32 & 3 {
                            0 => Call::Insert(i * THREADS + thread),
                            1 => Call::Remove,
                            _ => Call::Get,
                        };
                        let from = clock.fetch_add(1, SeqCst);
                        let result = call(key, what);
                        let to = clock.fetch_add(1, SeqCst);
                        events.push(Event { key, call: what, result, from, to });
                    }
                    events
                })
            })
            .collect();
        threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
    })
}

fn assert_linearizable(seed: u64, events: &[Event]) {
    for key in 0..KEYS {
        let of_key: Vec<Event> = events.iter().filter(|e| e.key == key).copied().collect();
        assert!(is_linearizable(&of_key), "seed {seed}: key {key} has no linear order");
    }
}

/// Rounds of 20,000 operations; `INDEX_HISTORIES` asks for more.
fn rounds() -> u64 {
    std::env::var("INDEX_HISTORIES").ok().and_then(|n| n.parse().ok()).unwrap_or(10)
}

/// Few keys in nodes of four: splits and unlinkings all the time.
fn int_histories<M: U64Map>() {
    for seed in 1..=rounds() {
        let map = M::load(std::iter::empty(), 1.0);
        let events = record(seed, 5000, |key, call| match call {
            Call::Get => map.get(key),
            Call::Insert(value) => map.insert(key, value),
            Call::Remove => map.remove(key),
        });
        assert_linearizable(seed, &events);
        map.check().unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
}

#[test]
fn bplus_histories() {
    int_histories::<IntMap<u64, 4>>();
}

#[test]
fn csb_histories() {
    int_histories::<CsbMap<u64, 4>>();
}

#[test]
fn o2_histories() {
    int_histories::<O2Map<u64, 4>>();
}

#[test]
fn optimistic_o2_histories() {
    int_histories::<OptimisticO2Map<u64, 4>>();
}

/// Eight keys to a slice: bags burst, layers are emptied and closed.
#[test]
fn layer_histories() {
    int_histories::<CsbByteMap<4, 1>>();
    int_histories::<O2ByteMap<4, Coupled, 2>>();
    int_histories::<OptimisticO2ByteMap<4, 1>>();
}

#[test]
fn byte_string_histories() {
    let names: Vec<Vec<u8>> =
        (0..KEYS).map(|k| format!("{}/{k}", "p".repeat(k as usize % 3 * 70)).into_bytes()).collect();
    for seed in 1..=rounds() {
        let map = ByteMap::<4>::new();
        let events = record(seed, 5000, |key, call| {
            let name = &names[key as usize];
            match call {
                Call::Get => map.get(name),
                Call::Insert(value) => map.insert(name, value),
                Call::Remove => map.remove(name),
            }
        });
        assert_linearizable(seed, &events);
        map.check().unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
}

/// The checker itself: it accepts overlap in either order and refuses a value from nowhere, a lost one, a stale one.
#[test]
fn the_checker_can_fail() {
    let event = |call, result, from, to| Event { key: 0, call, result, from, to };
    let insert = event(Call::Insert(7), None, 0, 3);
    assert!(is_linearizable(&[insert, event(Call::Get, Some(7), 1, 2)]));
    assert!(is_linearizable(&[insert, event(Call::Get, None, 1, 2)]));
    assert!(!is_linearizable(&[insert, event(Call::Get, Some(8), 1, 2)]));
    assert!(!is_linearizable(&[insert, event(Call::Get, None, 4, 5)]));
    assert!(!is_linearizable(&[insert, event(Call::Get, Some(7), 1, 2), event(Call::Get, None, 4, 5)]));
    assert!(!is_linearizable(&[
        insert,
        event(Call::Remove, Some(7), 4, 7),
        event(Call::Remove, Some(7), 5, 6)
    ]));
}
