//! Inserts and removals: what changes one leaf. What changes places is in [`super::split`] and [`super::unlink`].

use super::node::Words;
use super::{Csb, Latched};
use crate::node::int::IntKey;
use crate::reclaim::Pin;

impl<K: IntKey, const F: usize> Csb<K, F> {
    /// Sets the value of `key`; returns the old one.
    #[inline]
    pub fn insert(&self, key: K, value: u64, pin: &Pin) -> Option<u64> {
        self.insert_if(key, value, |_| true, pin)
    }

    /// Sets the value of `key` if `admit` agrees to the present one; returns that.
    #[inline(always)]
    pub fn insert_if(
        &self,
        key: K,
        value: u64,
        admit: impl Fn(Option<u64>) -> bool,
        pin: &Pin,
    ) -> Option<u64> {
        let lane = key.to_lane();
        loop {
            let Latched { node: leaf, latch, rank } = self.latch::<Words<F>>(0, lane, pin);
            if rank > 0 && leaf.lane(rank - 1) == lane {
                let old = leaf.word(rank - 1);
                if admit(Some(old)) {
                    leaf.set_word(rank - 1, value);
                } else {
                    latch.release_unchanged();
                }
                return Some(old);
            }
            if !admit(None) {
                latch.release_unchanged();
                return None;
            }
            if leaf.count() < F {
                leaf.insert_at(rank, lane, value);
                drop(latch);
                self.count(1);
                return None;
            }
            latch.release_unchanged();
            self.make_room(0, lane, pin);
        }
    }

    /// Removes `key`; returns its value.
    #[inline]
    pub fn remove(&self, key: K, pin: &Pin) -> Option<u64> {
        self.remove_if(key, |_| true, pin)
    }

    /// Removes `key` if `admit` agrees to its value; returns that.
    #[inline(always)]
    pub fn remove_if(&self, key: K, admit: impl Fn(u64) -> bool, pin: &Pin) -> Option<u64> {
        let lane = key.to_lane();
        let Latched { node: leaf, latch, rank } = self.latch::<Words<F>>(0, lane, pin);
        if rank == 0 || leaf.lane(rank - 1) != lane {
            latch.release_unchanged();
            return None;
        }
        let value = leaf.word(rank - 1);
        if !admit(value) {
            latch.release_unchanged();
            return Some(value);
        }
        leaf.remove_at(rank - 1);
        let emptied = leaf.count() == 0 && !leaf.is_open_ended();
        drop(latch);
        self.count(-1);
        if emptied {
            self.unlink_empty(lane, pin);
        }
        Some(value)
    }
}
