//! The machine's own counters: cycles, misses and stalls of one thread around a piece of work.
//!
//! Why: the models ([`crate::model`]) say what a described machine would do; where the real one counts, its numbers belong
//! beside theirs. Many machines do not count (virtual ones, guarded ones), so every event may be absent, with a reason
//! that says what to do about it; what the operating system counts is there nearly everywhere.
//!
//! A processor has few registers for counting. If more events are asked for, they take turns, and a count is scaled from
//! the time that its event had a register: [`Count::share`] tells.
//!
//! ```
//! use foreshore_lab::counters::{Counters, Event};
//!
//! let mut counters = Counters::of_this_thread();
//! let (sum, counted) = counters.around(|| (0..1000u64).sum::<u64>());
//! assert_eq!(sum, 499_500);
//! match counted.get(Event::Mispredicted) {
//!     Some(count) => println!("{} mispredicted branches", count.value),
//!     None => println!("{}", counters.summary()),
//! }
//! ```

mod absence;
mod event;
mod panels;
mod trial;

#[cfg(not(target_os = "linux"))]
#[path = "elsewhere.rs"]
mod system;
#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;

pub use absence::Absence;
pub use event::Event;
pub use panels::Tally;
pub use trial::Trial;

use std::marker::PhantomData;
use system::Counter;

/// A counter's state: the events, and for how long it was asked for and had a register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reading {
    count: u64,
    enabled_ns: u64,
    running_ns: u64,
}

/// How often an event happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Count {
    /// Events; scaled if they were counted for a part of the time only.
    pub value: f64,
    /// That part: 1 if they were counted throughout.
    pub share: f64,
}

impl Count {
    /// Between two readings; none if the event never had a register.
    fn between(before: Reading, after: Reading) -> Option<Self> {
        let running_ns = after.running_ns - before.running_ns;
        let enabled_ns = after.enabled_ns - before.enabled_ns;
        let count = (after.count - before.count) as f64;
        (running_ns > 0).then(|| Self {
            value: count * enabled_ns as f64 / running_ns as f64,
            share: running_ns as f64 / enabled_ns as f64,
        })
    }

    /// Was it scaled?
    pub fn is_scaled(self) -> bool {
        self.share < 1.0
    }
}

/// What was counted around a piece of work.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counted(Vec<(Event, Count)>);

impl Counted {
    /// How often `event` happened; none if it is not counted here, or never had a register.
    pub fn get(&self, event: Event) -> Option<Count> {
        self.0.iter().find(|(counted, _)| *counted == event).map(|(_, count)| *count)
    }
}

/// The counters of the thread that opened them.
pub struct Counters {
    open: Vec<(Event, Counter)>,
    absent: Vec<(Event, Absence)>,
    /// Used from another thread they would still count the one that opened them.
    stays: PhantomData<*const ()>,
}

impl Counters {
    /// All that this machine counts.
    pub fn of_this_thread() -> Self {
        let mut counters = Self { open: Vec::new(), absent: Vec::new(), stays: PhantomData };
        for event in Event::all() {
            match Counter::open(event) {
                Ok(counter) => counters.open.push((event, counter)),
                Err(absence) => counters.absent.push((event, absence)),
            }
        }
        counters
    }

    /// Counts while `work` runs, in this thread only.
    pub fn around<T>(&mut self, work: impl FnOnce() -> T) -> (T, Counted) {
        let before: Vec<_> = self.open.iter_mut().map(|(_, counter)| counter.read()).collect();
        // What cannot be started has no register, so it is not in the result.
        self.open.iter_mut().for_each(|(_, counter)| _ = counter.start());
        let answer = work();
        self.open.iter_mut().for_each(|(_, counter)| _ = counter.stop());
        let count = |((event, counter), before): (&mut (Event, Counter), std::io::Result<Reading>)| {
            Some((*event, Count::between(before.ok()?, counter.read().ok()?)?))
        };
        (answer, Counted(self.open.iter_mut().zip(before).filter_map(count).collect()))
    }

    /// The events that are not counted here, and why.
    pub fn absent(&self) -> &[(Event, Absence)] {
        &self.absent
    }

    /// What is counted here, what is not, and what to do about it.
    pub fn summary(&self) -> String {
        absence::summary(&self.open.iter().map(|(event, _)| *event).collect::<Vec<_>>(), &self.absent)
    }
}

/// A line of a figure's header: what this machine counts.
pub fn header() -> (&'static str, String) {
    ("counters", Counters::of_this_thread().summary())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_scaled_by_the_time_without_a_register() {
        let reading = |count, enabled_ns, running_ns| Reading { count, enabled_ns, running_ns };
        let throughout = Count::between(reading(5, 10, 10), reading(105, 110, 110)).unwrap();
        assert_eq!((throughout.value, throughout.share, throughout.is_scaled()), (100.0, 1.0, false));
        let a_quarter = Count::between(reading(5, 10, 10), reading(105, 410, 110)).unwrap();
        assert_eq!((a_quarter.value, a_quarter.share, a_quarter.is_scaled()), (400.0, 0.25, true));
        assert_eq!(Count::between(reading(5, 10, 10), reading(5, 110, 10)), None);
    }
}
