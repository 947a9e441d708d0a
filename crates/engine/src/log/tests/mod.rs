//! The log as a whole: against real directories and the simulated disk.

mod basic;
