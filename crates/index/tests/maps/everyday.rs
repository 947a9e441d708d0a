//! What every kind of map promises of the operations that are written once for all.

use foreshore_index::*;
use std::collections::BTreeMap;

/// Runs a test for every kind of map, with three keys that rise.
macro_rules! for_every_map {
    ($test:ident) => {
        $test!(IntMap::<u64, 4>::new(), [1, 2, 3]);
        $test!(TunedMap::<u64>::default(), [1, 2, 3]);
        $test!(CsbMap::<u64, 4>::new(), [1, 2, 3]);
        $test!(O2Map::<u64, 4>::new(), [1, 2, 3]);
        $test!(OptimisticO2Map::<u64, 4>::new(), [1, 2, 3]);
        $test!(ByteMap::<4>::new(), [&b"a"[..], b"b", b"c"]);
        $test!(CsbByteMap::<4, 2>::new(), [&b"a"[..], b"b, and longer than a slice", b"c"]);
        $test!(OptimisticO2ByteMap::<4, 2>::new(), [&b"a"[..], b"b, and longer than a slice", b"c"]);
    };
}

pub(super) use for_every_map;

/// A closure may take its time: meanwhile the process goes on to use memory again.
#[test]
fn nothing_is_pinned_while_a_closure_runs() {
    macro_rules! test {
        ($map:expr, $keys:expr) => {
            let (map, keys) = ($map, $keys);
            map.fetch_update(keys[0], |_| {
                assert!(!is_pinned(), "fetch_update");
                Some(1)
            });
            let make = || {
                assert!(!is_pinned(), "get_or_insert_with");
                2
            };
            assert_eq!(map.get_or_insert_with(keys[1], make), 2);
            map.retain(|_, _| !is_pinned());
            assert_eq!(map.len(), 2, "retain");
        };
    }
    for_every_map!(test);
    let map = CsbMap::<u64, 4>::new();
    let _pinned = map.pin();
    assert!(is_pinned(), "or nothing is asked above");
}

thread_local!(static IMAGES_UNDER_A_PIN: std::cell::Cell<usize> = const { std::cell::Cell::new(0) });

/// A key that counts how often it was asked for its image under a pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Watching(u64);

impl IntKey for Watching {
    type Lane = u64;

    fn to_lane(self) -> u64 {
        IMAGES_UNDER_A_PIN.set(IMAGES_UNDER_A_PIN.get() + usize::from(is_pinned()));
        self.0
    }

    fn from_lane(lane: u64) -> Self {
        Self(lane)
    }
}

/// Nor between the values that a key loses, which may be many.
#[test]
fn nothing_is_pinned_between_values_that_go() {
    IMAGES_UNDER_A_PIN.set(0);
    let entries = (0..300).map(|i| (Watching(i / 100), i));
    let map: MultiMap<Watching> = entries.clone().collect();
    assert_eq!(map.remove_all(Watching(1)), 100);
    assert_eq!(IMAGES_UNDER_A_PIN.get(), 0);
    assert!(map.iter().eq(entries.filter(|(key, _)| key.0 != 1)));
}

/// Nor latched while keys in order are asked for their images, which may wait for somebody who uses the map.
#[test]
fn keys_in_order_are_asked_beforehand() {
    IMAGES_UNDER_A_PIN.set(0);
    let map = IntMap::<Watching, 4>::new();
    let entries: Vec<_> = (0..300).map(|i| (Watching(i), i)).collect();
    assert_eq!(map.insert_sorted(&entries), 300);
    assert_eq!((IMAGES_UNDER_A_PIN.get(), map.check()), (0, Ok(())));
}

/// Nor while a map waits for the entries that it is to be made of, which may come from a file, or from another thread.
#[test]
fn nothing_is_pinned_while_entries_are_waited_for() {
    fn entries<K>(key: impl Fn(u64) -> K) -> impl Iterator<Item = (K, u64)> {
        (0..100).map(move |i| {
            assert!(!is_pinned(), "bulk_load");
            (key(i), i)
        })
    }
    macro_rules! test {
        ($($map:expr;)*) => {
            $(
                let map = $map;
                assert_eq!((map.len(), map.check()), (100, Ok(())), "{map:?}");
            )*
        };
    }
    let name = |i| format!("{i:020}");
    test! {
        IntMap::<u64, 4>::bulk_load(entries(|i| i), 1.0);
        TunedMap::<u32>::bulk_load(NodeKeys::K16, entries(|i| i as u32), 1.0);
        CsbMap::<u64, 4>::bulk_load(entries(|i| i), 1.0);
        O2Map::<u64, 4>::bulk_load(entries(|i| i), 1.0);
        OptimisticO2Map::<u64, 4>::bulk_load(entries(|i| i), 1.0);
        ByteMap::<4>::bulk_load(entries(name), 1.0);
        CsbByteMap::<4, 2>::bulk_load(entries(name), 1.0);
        OptimisticO2ByteMap::<4, 2>::bulk_load(entries(name), 1.0);
    }
}

/// A scan that has told its end does not go on, whatever is inserted then.
#[test]
fn a_scan_at_its_end_stays_there() {
    macro_rules! test {
        ($map:expr, $keys:expr) => {
            let (map, [first, second, third]) = ($map, $keys);
            map.insert(second, 2);
            let (mut up, mut down) = (map.iter(), map.iter_rev());
            assert_eq!((up.by_ref().count(), down.by_ref().count()), (1, 1));
            (map.insert(first, 1), map.insert(third, 3));
            assert!(up.next().is_none() && down.next().is_none(), "{map:?}: {up:?} {down:?}");
        };
    }
    for_every_map!(test);
}

/// A closure that panics leaves nothing latched, and the map as it was.
#[test]
fn a_panic_in_a_closure_changes_nothing() {
    macro_rules! test {
        ($map:expr, $keys:expr) => {
            let (map, keys) = ($map, $keys);
            map.insert(keys[0], 1);
            let panics = |f: &dyn Fn()| {
                assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_err());
            };
            panics(&|| _ = map.fetch_update(keys[0], |_| panic!("on purpose")));
            panics(&|| _ = map.get_or_insert_with(keys[1], || panic!("on purpose")));
            panics(&|| map.retain(|_, _| panic!("on purpose")));
            assert_eq!((map.insert(keys[0], 2), map.len(), map.check()), (Some(1), 1, Ok(())));
        };
    }
    for_every_map!(test);
}

/// Threads that take entries from both ends take each once.
#[test]
fn each_entry_is_popped_once() {
    macro_rules! test {
        ($map:expr, $key:expr) => {
            let map = $map;
            (0..2000u64).for_each(|k| _ = map.insert($key(k).as_ref(), k));
            let mut taken: Vec<u64> = std::thread::scope(|s| {
                let first =
                    s.spawn(|| std::iter::from_fn(|| map.pop_first()).map(|(_, v)| v).collect::<Vec<_>>());
                let last =
                    s.spawn(|| std::iter::from_fn(|| map.pop_last()).map(|(_, v)| v).collect::<Vec<_>>());
                [first.join().unwrap(), last.join().unwrap()].concat()
            });
            taken.sort_unstable();
            assert!(taken.into_iter().eq(0..2000), "{map:?}");
            assert_eq!((map.is_empty(), map.check()), (true, Ok(())));
        };
    }
    test!(IntMap::<u64, 4>::new(), Number);
    test!(CsbMap::<u64, 4>::new(), Number);
    test!(O2Map::<u64, 4>::new(), Number);
    test!(OptimisticO2Map::<u64, 4>::new(), Number);
    test!(ByteMap::<4>::new(), |k: u64| format!("{k:020}").into_bytes());
    test!(CsbByteMap::<4, 2>::new(), |k: u64| format!("{k:020}").into_bytes());
}

/// Of many entries each is judged once, upwards, and goes only with the value that was judged.
#[test]
fn retain_judges_what_it_removes() {
    macro_rules! test {
        ($map:expr, $key:expr) => {
            let map = $map;
            (0..1000u64).for_each(|k| _ = map.insert($key(k).as_ref(), k));
            let mut judged = Vec::new();
            map.retain(|_, value| {
                judged.push(value);
                if value == 500 {
                    map.insert($key(502).as_ref(), 1503);
                }
                value % 2 == 1
            });
            let left = (0..1000).filter(|k| k % 2 == 1 || *k == 502);
            let left = left.map(|k| if k == 502 { 1503 } else { k });
            assert!(map.iter().map(|(_, value)| value).eq(left), "{map:?}");
            assert!(judged.contains(&1503), "{map:?}: {judged:?}");
            let others = judged.into_iter().filter(|value| ![502, 1503].contains(value));
            assert!(others.eq((0..1000).filter(|value| *value != 502)), "{map:?}");
        };
    }
    test!(IntMap::<u64, 4>::new(), Number);
    test!(O2Map::<u64, 4>::new(), Number);
    test!(ByteMap::<4>::new(), |k: u64| format!("{k:020}").into_bytes());
    test!(CsbByteMap::<4, 2>::new(), |k: u64| format!("{k:020}").into_bytes());
}

/// What maps of numbers take a number from, as those of byte strings do bytes.
struct Number(u64);

impl Number {
    fn as_ref(&self) -> u64 {
        self.0
    }
}

/// Two threads that claim and give back by `compare_exchange` never both have a key, while nodes and layers come and go.
#[test]
fn one_of_two_exchanges_wins() {
    macro_rules! test {
        ($map:expr, $keys:expr) => {
            let (map, keys) = ($map, $keys);
            let held = std::sync::atomic::AtomicU64::new(0);
            std::thread::scope(|s| {
                for owner in 1..=2 {
                    let (map, held) = (&map, &held);
                    s.spawn(move || {
                        for round in 0..3000 {
                            let key = keys[round % 3];
                            if map.compare_exchange(key, None, Some(owner)).is_ok() {
                                let bit = 1 << (round % 3);
                                assert_eq!(held.fetch_or(bit, std::sync::atomic::Ordering::AcqRel) & bit, 0);
                                held.fetch_and(!bit, std::sync::atomic::Ordering::AcqRel);
                                assert_eq!(map.compare_exchange(key, Some(owner), None), Ok(()));
                            }
                        }
                    });
                }
            });
            assert_eq!((map.len(), map.check()), (0, Ok(())));
        };
    }
    for_every_map!(test);
}

/// Collecting, extending and going over it is as with `BTreeMap`.
#[test]
fn collections_agree() {
    let entries = [(3u64, 30), (1, 10), (2, 20), (1, 11)];
    let model: BTreeMap<u64, u64> = entries.into_iter().collect();
    let numbers: IntMap<u64> = entries.into_iter().collect();
    assert!((&numbers).into_iter().eq(model.clone()));
    assert!(IntMap::<u64>::from(entries).iter().eq(model.clone()));
    assert!(IntMap::<u64>::bulk_load(&numbers, 0.9).iter().eq(model.clone()), "a copy");
    let mut names: ByteMap = [("b", 2), ("a", 1)].into_iter().collect();
    names.extend([(vec![b'c'], 3)]);
    assert!(names.iter().map(|(_, value)| value).eq(1..=3));
    let names: O2ByteMap = [("b", 2), ("a", 1), ("b", 3)].into();
    assert!(names.iter().map(|(_, value)| value).eq([1, 3]));
    assert!(MultiMap::from([(1_u32, 20), (1, 10), (0, 5)]).iter().eq([(0, 5), (1, 10), (1, 20)]));
    let fixed = StaticMap::from_sorted(model.iter().map(|(k, v)| (*k, *v)));
    for key in 0..5 {
        assert_eq!(fixed.floor(key), numbers.floor(key), "{key}");
        assert_eq!(fixed.below(key), numbers.below(key), "{key}");
    }
    assert_eq!((fixed.first_key_value(), fixed.last_key_value()), (Some((1, 11)), Some((3, 30))));
    assert!((&fixed).into_iter().eq(model.clone()) && fixed.iter().rev().eq(model.into_iter().rev()));
    let mut last = fixed.range(2..);
    assert_eq!((last.len(), last.next_back(), last.len(), last.next()), (2, Some((3, 30)), 1, Some((2, 20))));
    assert_eq!((last.len(), last.next(), last.next_back(), last.next()), (0, None, None, None));
    let none = StaticMap::<u64>::from_sorted(std::iter::empty::<(u64, u64)>());
    assert_eq!((none.first_key_value(), none.last_key_value(), none.floor(u64::MAX)), (None, None, None));
}

/// The order of keys is that of their numbers, up to both ends of each type.
#[test]
fn integers_of_all_widths_are_keys() {
    macro_rules! test {
        ($($key:ty)*) => {
            $(
                let keys = [<$key>::MIN, <$key>::MIN + 1, <$key>::MAX / 2, <$key>::MAX - 1, <$key>::MAX];
                let map: IntMap<$key, 4> = keys.iter().rev().map(|key| (*key, 0)).collect();
                assert!(map.iter().map(|(key, _)| key).eq(keys), "{}", stringify!($key));
                assert!(map.range(keys[1]..keys[4]).map(|(key, _)| key).eq(keys[1..4].iter().copied()));
                let fixed = CsbMap::<$key, 4>::from_iter(map.iter());
                assert!(fixed.iter_rev().map(|(key, _)| key).eq(keys.into_iter().rev()));
            )*
        };
    }
    test!(u8 i8 u16 i16 u32 i32 u64 i64 u128 i128 usize isize);
}

/// Maps go between threads and are shared by them; a map in which a panic passed by may be used on.
#[test]
fn maps_are_shared() {
    fn shared<T: Send + Sync + std::panic::UnwindSafe + std::panic::RefUnwindSafe>() {}
    shared::<IntMap<u64>>();
    shared::<TunedMap<i32>>();
    shared::<CsbMap<u128>>();
    shared::<O2Map<[u8; 20]>>();
    shared::<OptimisticO2Map<u64>>();
    shared::<ByteMap>();
    shared::<CsbByteMap>();
    shared::<O2ByteMap>();
    shared::<MultiMap<u64>>();
    shared::<StaticMap<u32>>();
}

/// A key that may panic: an entry is entered and counted, or neither.
#[test]
fn a_key_that_panics_leaves_the_map_whole() {
    thread_local!(static IMAGES_LEFT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) });

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Fragile(u64);

    impl IntKey for Fragile {
        type Lane = u64;

        fn to_lane(self) -> u64 {
            IMAGES_LEFT.set(IMAGES_LEFT.get().checked_sub(1).expect("on purpose"));
            self.0
        }

        fn from_lane(lane: u64) -> Self {
            Self(lane)
        }
    }

    let entries: Vec<_> = (0..20).map(|key| (Fragile(key), key)).collect();
    for images in 0..100 {
        for insert in [IntMap::<Fragile, 4>::insert_sorted, IntMap::insert_many] {
            let map = IntMap::new();
            IMAGES_LEFT.set(images);
            let _ = std::panic::catch_unwind(|| insert(&map, &entries));
            assert_eq!(map.check(), Ok(()), "after {images} images");
        }
    }
}
