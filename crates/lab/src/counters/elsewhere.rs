//! Other systems than Linux: nothing is counted.

use crate::counters::{Absence, Event, Reading};
use std::convert::Infallible;
use std::io;

/// There is none.
pub struct Counter(Infallible);

impl Counter {
    /// Says so.
    pub fn open(_event: Event) -> Result<Self, Absence> {
        Err(Absence::Failed("events are counted on Linux only".into()))
    }

    /// Never called.
    pub fn start(&mut self) -> io::Result<()> {
        match self.0 {}
    }

    /// Never called.
    pub fn stop(&mut self) -> io::Result<()> {
        match self.0 {}
    }

    /// Never called.
    pub fn read(&mut self) -> io::Result<Reading> {
        match self.0 {}
    }
}
