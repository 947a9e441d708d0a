//! A latch in one word that readers share: for lock coupling's nodes, and for whole trees.
//!
//! A waiting writer keeps new readers out, so that readers in turns cannot starve it.

use crate::wait::until;
use std::sync::atomic::{AtomicU32, Ordering::*};

/// Held alone.
const EXCLUSIVE: u32 = 1 << 31;
/// Somebody wants to hold it alone.
const WANTED: u32 = 1 << 30;

/// Takes the latch with other readers.
#[inline(always)]
pub fn share(word: &AtomicU32) {
    until(|| {
        let seen = word.load(Relaxed);
        seen & (EXCLUSIVE | WANTED) == 0
            && word.compare_exchange_weak(seen, seen + 1, Acquire, Relaxed).is_ok()
    });
}

/// Gives it back.
#[inline(always)]
pub fn unshare(word: &AtomicU32) {
    word.fetch_sub(1, Release);
}

/// Takes the latch alone.
#[inline(always)]
pub fn exclude(word: &AtomicU32) {
    until(|| {
        let seen = word.load(Relaxed);
        if seen & !WANTED == 0 {
            return word.compare_exchange_weak(seen, EXCLUSIVE, Acquire, Relaxed).is_ok();
        }
        if seen & WANTED == 0 {
            word.fetch_or(WANTED, Relaxed);
        }
        false
    });
}

/// Gives it back. A wish of others for the latch that was noted meanwhile stays noted.
#[inline(always)]
pub fn unexclude(word: &AtomicU32) {
    word.fetch_and(!EXCLUSIVE, Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_writer_keeps_new_readers_out() {
        let word = AtomicU32::new(0);
        share(&word);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| exclude(&word));
            until(|| word.load(Relaxed) & WANTED != 0);
            assert_eq!(word.load(Relaxed) & EXCLUSIVE, 0);
            unshare(&word);
            writer.join().expect("the writer gets the latch");
        });
        assert_eq!(word.load(Relaxed), EXCLUSIVE);
        unexclude(&word);
        assert_eq!(word.load(Relaxed), 0);
    }

    /// Increments under the latch are never lost.
    #[test]
    fn holders_exclude_each_other() {
        let (word, sum) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        exclude(&word);
                        sum.store(sum.load(Relaxed) + 1, Relaxed);
                        unexclude(&word);
                        share(&word);
                        unshare(&word);
                    }
                });
            }
        });
        assert_eq!(sum.into_inner(), 15_000);
    }
}
