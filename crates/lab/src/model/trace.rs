//! What one operation did, in order: recorded once, replayed on a modelled core.

use crate::probe::{Branch, Hold, Probe};

/// A step of an operation. Addresses are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Reads.
    Load(u64),
    /// Writes.
    Store(u64),
    /// Reads and writes in one step.
    Exchange(u64),
    /// Takes a latch, waiting for it.
    Take(u64, Hold),
    /// Gives it back.
    Give(u64, Hold),
    /// Comes to a branch.
    Branch(Branch, bool),
    /// Computes for so many cycles, on what nobody else touches.
    Work(u64),
}

/// Records events.
#[derive(Clone, Debug, Default)]
pub struct Trace(pub Vec<Event>);

impl Probe for Trace {
    fn load(&mut self, at: u64) {
        self.0.push(Event::Load(at));
    }
    fn store(&mut self, at: u64) {
        self.0.push(Event::Store(at));
    }
    fn exchange(&mut self, at: u64) {
        self.0.push(Event::Exchange(at));
    }
    fn take(&mut self, at: u64, hold: Hold) {
        self.0.push(Event::Take(at, hold));
    }
    fn give(&mut self, at: u64, hold: Hold) {
        self.0.push(Event::Give(at, hold));
    }
    fn branch(&mut self, place: Branch, taken: bool) {
        self.0.push(Event::Branch(place, taken));
    }
}
