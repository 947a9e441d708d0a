//! The sizes and latencies of a modelled machine.

/// Bytes of a cache line, everywhere.
pub const LINE_BYTES: u64 = 64;

/// A processor, and how long each kind of access takes it, in its cycles.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// What it resembles.
    pub name: &'static str,
    /// Cycles per nanosecond.
    pub ghz: f64,
    /// First-level data cache of each core: bytes and ways.
    pub l1: (u64, usize),
    /// Second-level cache of each core: bytes and ways.
    pub l2: (u64, usize),
    /// Last-level cache, shared: bytes per core and ways; none with 0 bytes.
    pub llc: (u64, usize),
    /// Translations that the TLB holds, and its ways.
    pub tlb: (u64, usize),
    /// Bytes of a page.
    pub page_bytes: u64,
    /// A load that hits the first level, with its share of the instructions around it.
    pub l1_cycles: u64,
    /// More if it hits the second level.
    pub l2_cycles: u64,
    /// More if it hits the last level.
    pub llc_cycles: u64,
    /// More if it goes to memory.
    pub memory_cycles: u64,
    /// More if another core's cache has the line, or must give it up.
    pub transfer_cycles: u64,
    /// More if the page's translation must be looked up.
    pub tlb_cycles: u64,
    /// More if a branch was mispredicted.
    pub branch_cycles: u64,
    /// An atomic read-modify-write, beyond its access.
    pub atomic_cycles: u64,
    /// An operation's instructions around the structure: the loop, the next key, the answer.
    pub operation_cycles: u64,
}

impl Machine {
    /// A server of today: Xeon-like, 2.5 GHz, up to 128 cores.
    pub const SERVER: Self = Self {
        name: "server: 32 KiB L1, 1 MiB L2, 1.375 MiB LLC per core, 1536 TLB entries of 4 KiB, 2.5 GHz",
        ghz: 2.5,
        l1: (32 << 10, 8),
        l2: (1 << 20, 16),
        llc: (1408 << 10, 11),
        tlb: (1536, 12),
        page_bytes: 4096,
        l1_cycles: 3,
        l2_cycles: 11,
        llc_cycles: 50,
        memory_cycles: 220,
        transfer_cycles: 120,
        tlb_cycles: 30,
        branch_cycles: 15,
        atomic_cycles: 17,
        operation_cycles: 40,
    };

    /// OLFIT's machine: Sun Enterprise 5500, 400 MHz UltraSPARC II, 8 MiB of second-level cache each.
    pub const E5500: Self = Self {
        name: "Sun E5500: 16 KiB L1, 8 MiB L2, 64 TLB entries of 8 KiB, 400 MHz",
        ghz: 0.4,
        l1: (16 << 10, 1),
        l2: (8 << 20, 1),
        llc: (0, 1),
        tlb: (64, 64),
        page_bytes: 8192,
        l1_cycles: 3,
        l2_cycles: 10,
        llc_cycles: 0,
        memory_cycles: 110,
        transfer_cycles: 130,
        tlb_cycles: 40,
        branch_cycles: 4,
        atomic_cycles: 15,
        operation_cycles: 60,
    };

    /// Machine A of the multicore study: a core of a Core 2 Quad, 2.33 GHz, 256 TLB entries.
    pub const CORE_2_QUAD: Self = Self {
        name: "Core 2 Quad: 32 KiB L1, 2 MiB L2, 256 TLB entries of 4 KiB, 2.33 GHz",
        ghz: 2.33,
        l1: (32 << 10, 8),
        tlb: (256, 4),
        l1_cycles: 3,
        l2_cycles: 17,
        memory_cycles: 170,
        transfer_cycles: 170,
        tlb_cycles: 170,
        ..Self::PENTIUM_D
    };

    /// Machine C of the multicore study: Pentium 4, 2.4 GHz, 512 KiB of second-level cache.
    pub const PENTIUM_4: Self = Self {
        name: "Pentium 4: 8 KiB L1, 512 KiB L2, 64 TLB entries of 4 KiB, 2.4 GHz",
        ghz: 2.4,
        l1: (8 << 10, 4),
        l2: (512 << 10, 8),
        l1_cycles: 3,
        l2_cycles: 23,
        memory_cycles: 285,
        transfer_cycles: 285,
        tlb_cycles: 285,
        ..Self::PENTIUM_D
    };

    /// Machine B of the multicore study: Pentium D, 3.4 GHz, 64 TLB entries.
    pub const PENTIUM_D: Self = Self {
        name: "Pentium D: 16 KiB L1, 2 MiB L2, 64 TLB entries of 4 KiB, 3.4 GHz",
        ghz: 3.4,
        l1: (16 << 10, 8),
        l2: (2 << 20, 8),
        llc: (0, 1),
        tlb: (64, 64),
        page_bytes: 4096,
        l1_cycles: 5,
        l2_cycles: 40,
        llc_cycles: 0,
        memory_cycles: 450,
        transfer_cycles: 450,
        tlb_cycles: 450,
        branch_cycles: 10,
        atomic_cycles: 60,
        operation_cycles: 40,
    };
}
