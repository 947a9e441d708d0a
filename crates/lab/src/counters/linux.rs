//! Linux: each event is a file of `perf_event_open`, which counts the thread that opened it.
//!
//! The events are not grouped: a group larger than the processor's registers would never be counted at all. Single ones
//! take turns on the registers, and the kernel says for how long each had one.

use crate::counters::{Absence, Event, Reading};
use perf_event::Builder;
use perf_event::events::{self, CacheOp, CacheResult, Hardware, Software, WhichCache};
use std::fs;
use std::io::{self, ErrorKind};

/// One event of this thread.
pub struct Counter(perf_event::Counter);

impl Counter {
    /// Opens it, stopped.
    pub fn open(event: Event) -> Result<Self, Absence> {
        let mut builder = Builder::new().kind(kind(event));
        builder.exclude_kernel(!event.is_in_kernel());
        builder.build().map(Self).map_err(|error| absence(&error))
    }

    /// Counts from here on.
    pub fn start(&mut self) -> io::Result<()> {
        self.0.enable()
    }

    /// Counts no more.
    pub fn stop(&mut self) -> io::Result<()> {
        self.0.disable()
    }

    /// What was counted since it was opened.
    pub fn read(&mut self) -> io::Result<Reading> {
        let seen = self.0.read_count_and_time()?;
        Ok(Reading { count: seen.count, enabled_ns: seen.time_enabled, running_ns: seen.time_running })
    }
}

fn kind(event: Event) -> events::Event {
    let loads = |which, result| events::Cache { which, operation: CacheOp::READ, result }.into();
    match event {
        Event::Cycles => Hardware::CPU_CYCLES.into(),
        Event::Instructions => Hardware::INSTRUCTIONS.into(),
        Event::StalledFront => Hardware::STALLED_CYCLES_FRONTEND.into(),
        Event::StalledBack => Hardware::STALLED_CYCLES_BACKEND.into(),
        Event::L1Misses => loads(WhichCache::L1D, CacheResult::MISS),
        Event::LastLevelLoads => loads(WhichCache::LL, CacheResult::ACCESS),
        Event::LastLevelMisses => loads(WhichCache::LL, CacheResult::MISS),
        Event::TlbMisses => loads(WhichCache::DTLB, CacheResult::MISS),
        Event::Mispredicted => Hardware::BRANCH_MISSES.into(),
        Event::TaskClock => Software::TASK_CLOCK.into(),
        Event::PageFaults => Software::PAGE_FAULTS.into(),
        Event::ContextSwitches => Software::CONTEXT_SWITCHES.into(),
    }
}

fn absence(error: &io::Error) -> Absence {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::Unsupported | ErrorKind::InvalidInput => Absence::Unknown,
        ErrorKind::PermissionDenied => Absence::Forbidden(paranoid()),
        _ => Absence::Failed(error.to_string()),
    }
}

fn paranoid() -> Option<i32> {
    fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?.trim().parse().ok()
}
