//! What can be counted: events of the processor, and of the operating system.

/// One kind of event. The processor's are counted in the program's own code only, not in the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Cycles, at whatever frequency the core runs.
    Cycles,
    /// Instructions retired.
    Instructions,
    /// Cycles in which no instruction was issued for want of decoded ones. Many processors do not tell.
    StalledFront,
    /// Cycles in which no instruction was issued for want of data or units. Many processors do not tell.
    StalledBack,
    /// Loads that missed the first-level data cache.
    L1Misses,
    /// Loads that came to the last level: on processors with three levels, those that missed the second.
    LastLevelLoads,
    /// Loads that missed the last level.
    LastLevelMisses,
    /// Loads whose translation had to be looked up in the page tables.
    TlbMisses,
    /// Branches mispredicted.
    Mispredicted,
    /// Nanoseconds that the thread spent on a processor.
    TaskClock,
    /// Pages that the system had to provide.
    PageFaults,
    /// Times that the thread gave up its processor, or lost it.
    ContextSwitches,
}

impl Event {
    /// The processor's events.
    pub const PROCESSOR: [Self; 9] = [
        Self::Cycles,
        Self::Instructions,
        Self::StalledFront,
        Self::StalledBack,
        Self::L1Misses,
        Self::LastLevelLoads,
        Self::LastLevelMisses,
        Self::TlbMisses,
        Self::Mispredicted,
    ];

    /// The operating system's events, which virtual machines have as well.
    pub const SYSTEM: [Self; 3] = [Self::TaskClock, Self::PageFaults, Self::ContextSwitches];

    /// All of them, the processor's first.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::PROCESSOR.into_iter().chain(Self::SYSTEM)
    }

    /// Its name on charts and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cycles => "cycles",
            Self::Instructions => "instructions",
            Self::StalledFront => "stalled cycles, front end",
            Self::StalledBack => "stalled cycles, back end",
            Self::L1Misses => "L1 misses",
            Self::LastLevelLoads => "last-level loads",
            Self::LastLevelMisses => "last-level misses",
            Self::TlbMisses => "TLB misses",
            Self::Mispredicted => "mispredicted branches",
            Self::TaskClock => "task clock, ns",
            Self::PageFaults => "page faults",
            Self::ContextSwitches => "context switches",
        }
    }

    /// Does the processor count it?
    pub fn is_processors(self) -> bool {
        Self::PROCESSOR.contains(&self)
    }

    /// Is it counted in hundreds per operation, rather than in single misses?
    pub fn is_plenty(self) -> bool {
        matches!(self, Self::Cycles | Self::Instructions | Self::StalledFront | Self::StalledBack)
    }

    /// Does it happen in the kernel? A thread is taken off its processor there.
    pub(super) fn is_in_kernel(self) -> bool {
        self == Self::ContextSwitches
    }
}
