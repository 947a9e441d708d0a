//! The rlock / wlock / xlock word under all interleavings and weak memory.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p foreshore-base --release --test loom_rwx`.
//! The seeded bugs `rwx_xlock_does_not_wait` and `rwx_release_order` must each make a test fail.
#![cfg(loom)]

use foreshore_base::rwx::RwxLock;
use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;

/// A pair that only an xlock may change. Loom reports any access that the lock does not order.
struct Guarded {
    lock: RwxLock,
    pair: UnsafeCell<(u32, u32)>,
}

// SAFETY: the tests touch `pair` under the lock only; that this suffices is what loom checks.
unsafe impl Sync for Guarded {}
// SAFETY: as above.
unsafe impl Send for Guarded {}

impl Guarded {
    fn new() -> Arc<Self> {
        Arc::new(Self { lock: RwxLock::new(), pair: UnsafeCell::new((0, 0)) })
    }

    fn bump(&self) {
        let mut writer = self.lock.wlock();
        // Under a wlock nobody else writes.
        // SAFETY: W1: no other writer exists.
        let (a, b) = self.pair.with(|pair| unsafe { *pair });
        writer.xlock();
        // SAFETY: W2: nobody else reads or writes.
        self.pair.with_mut(|pair| unsafe { *pair = (a + 1, b + 1) });
    }

    fn read(&self) -> (u32, u32) {
        let _reader = self.lock.rlock();
        // SAFETY: W2: while a reader exists nobody writes.
        self.pair.with(|pair| unsafe { *pair })
    }
}

fn bounded(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(test);
}

/// A reader sees a whole update, or none of it.
#[test]
fn readers_and_an_xlock_exclude_each_other() {
    bounded(|| {
        let guarded = Guarded::new();
        let writer = guarded.clone();
        let bump = thread::spawn(move || writer.bump());
        let reader = guarded.clone();
        let read = thread::spawn(move || reader.read());
        let (a, b) = read.join().unwrap();
        assert_eq!(a, b);
        bump.join().unwrap();
        assert_eq!(guarded.read(), (1, 1));
    });
}

/// No update is lost.
#[test]
fn writers_exclude_each_other() {
    bounded(|| {
        let guarded = Guarded::new();
        let writers: Vec<_> = (0..2)
            .map(|_| {
                let writer = guarded.clone();
                thread::spawn(move || writer.bump())
            })
            .collect();
        writers.into_iter().for_each(|w| w.join().unwrap());
        assert_eq!(guarded.read(), (2, 2));
    });
}
