//! What others in the process retire goes when they pin, not when we do: it may do whatever it likes.

use super::everyday::for_every_map;
use foreshore_index::*;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// Retires something that does this when it goes, as who keeps values that are more than a word (see the README). What was retired
/// before may go here.
fn retire(when_it_goes: impl FnOnce() + Send + 'static) {
    crossbeam_epoch::pin().defer(when_it_goes);
}

/// Or who looks something up with a latch held, as the engine does, could wait for itself there.
#[test]
fn no_operation_runs_what_others_retired() {
    thread_local!(static IS_IN_A_MAP: Cell<bool> = const { Cell::new(false) });
    static RUN_IN_A_MAP: AtomicU64 = AtomicU64::new(0);

    fn in_a_map(operation: impl FnOnce()) {
        IS_IN_A_MAP.set(true);
        operation();
        IS_IN_A_MAP.set(false);
    }
    macro_rules! test {
        ($map:expr, $keys:expr) => {
            let (map, keys) = ($map, $keys);
            for _ in 0..300 {
                retire(|| _ = RUN_IN_A_MAP.fetch_add(IS_IN_A_MAP.get().into(), Relaxed));
                keys.into_iter().for_each(|key| in_a_map(|| _ = map.insert(key, 1)));
                in_a_map(|| assert_eq!(map.get(keys[1]), Some(1)));
                in_a_map(|| assert_eq!(map.iter().count(), 3));
                keys.into_iter().for_each(|key| in_a_map(|| assert_eq!(map.remove(key), Some(1))));
            }
            assert_eq!(RUN_IN_A_MAP.load(Relaxed), 0, "{map:?}");
        };
    }
    for_every_map!(test);
}

/// A layer that empties is taken out by one thread alone, which would wait for ever if it came by again on the way.
#[test]
fn what_goes_may_use_the_map_that_it_was_in() {
    static MAP: LazyLock<CsbByteMap> = LazyLock::new(CsbByteMap::new);

    fn key(i: u64) -> String {
        format!("session/cache/us-east/objects/{i:06}")
    }
    let (done, is_done) = channel();
    thread::spawn(move || {
        for _ in 0..50 {
            (0..200).for_each(|i| _ = MAP.insert(key(i).as_bytes(), i));
            for i in 0..200 {
                assert_eq!(MAP.remove(key(i).as_bytes()), Some(i));
                retire(move || _ = MAP.remove((key(i) + "/alias").as_bytes()));
            }
        }
        done.send(()).unwrap();
    });
    is_done.recv_timeout(Duration::from_secs(60)).expect("`remove` comes back");
}

/// Its panic comes out where others pin, and passes no operation by halfway.
#[test]
fn a_panic_of_what_goes_leaves_maps_whole() {
    thread_local!(static PANICS: Cell<bool> = const { Cell::new(false) });

    fn retire_what_panics() {
        retire(|| {
            if PANICS.get() {
                resume_unwind(Box::new(()))
            }
        });
    }
    fn attempt(act: &dyn Fn()) {
        PANICS.set(true); // in this thread, for now: other tests pin, too
        let _ = catch_unwind(AssertUnwindSafe(act));
        PANICS.set(false);
    }
    macro_rules! test {
        ($map:ty) => {
            let map = <$map>::new();
            let key = |i: u64| format!("session/cache/us-east/objects/{i:06}").into_bytes();
            for _ in 0..10 {
                for i in 0..300 {
                    attempt(&|| _ = map.insert(&key(i), i));
                    attempt(&retire_what_panics);
                }
                for i in 0..300 {
                    attempt(&|| _ = map.remove(&key(i)));
                    attempt(&retire_what_panics);
                }
            }
            assert_eq!((map.iter().count() as u64, map.check()), (map.len(), Ok(())), "{map:?}");
        };
    }
    test!(CsbByteMap);
    test!(O2ByteMap);
    test!(ByteMap);
}

/// What goes with a thread may use maps, though what we keep for the thread is gone already.
#[test]
fn what_goes_with_a_thread_may_use_maps() {
    static MAP: LazyLock<CsbByteMap> = LazyLock::new(CsbByteMap::new);

    struct LastWill;

    impl Drop for LastWill {
        fn drop(&mut self) {
            MAP.insert(b"all that I have", 1);
            MAP.remove(b"what I had");
        }
    }
    thread_local!(static LAST_WILL: LastWill = const { LastWill });
    let heir = thread::spawn(|| {
        LAST_WILL.with(|_| ()); // what a thread has later goes earlier
        MAP.insert(b"what I had", 1);
    });
    heir.join().unwrap();
    assert_eq!(MAP.iter().collect::<Vec<_>>(), [(b"all that I have".to_vec(), 1)]);
}
