//! Shore-MT (Johnson et al., EDBT 2009): storage managers as threads are added, and what each of its stages is worth here.
//!
//! These figures measure whole engines, as children ([`crate::peers`]): by turns, medians of some rounds.

mod design;
mod engines;
mod runs;
mod scaling;
mod stages;

use crate::frame::{Figure, Paper};

const MACHINE: &str = "The paper's machine is a Sun T2000 with 32 hardware contexts. Here as many threads run as there are processors, unless --threads asks for more.";
const ENGINES: &str = "The paper's machine is a Sun T2000 with 32 hardware contexts; here as many threads run as there are processors. Foreshore stands where Shore and Shore-MT stand; the peers are today's, those that this machine has. Commits survive the process, not the machine (`buffered`): the paper keeps I/O off the critical path too. Engines that refuse that are left out. MariaDB and PostgreSQL answer over a socket, as in the paper. TPC-C's tables have a tenth of the standard's items and customers. The axis is linear.";

/// The figures of the paper.
pub const FIGURES: &[Figure] = &[
    Figure {
        name: "shoremt-fig1",
        paper: Paper::ShoreMt,
        title: "Shore-MT Figure 1: record insertion, scalability of storage managers",
        found: "None of four open-source storage managers scales to 32 hardware contexts: PostgreSQL and Shore reach a plateau, BerkeleyDB and MySQL fall (Figure 1).",
        differs: ENGINES,
        draw: engines::normalised,
    },
    Figure {
        name: "shoremt-fig4",
        paper: Paper::ShoreMt,
        title: "Shore-MT Figure 4: record insertion, throughput of each thread",
        found: "Shore-MT keeps its throughput per thread where the others lose theirs, and is 2 to 4 times as fast as the fastest open-source engine (Figure 4).",
        differs: ENGINES,
        draw: engines::insertion,
    },
    Figure {
        name: "shoremt-fig5",
        paper: Paper::ShoreMt,
        title: "Shore-MT Figure 5: New Order and Payment, throughput of each client",
        found: "Shore-MT is the fastest of the three in both; New Order meets contention for rows at 16 clients in all of them, Payment scales to 32 threads (Figure 5).",
        differs: ENGINES,
        draw: engines::transactions,
    },
    Figure {
        name: "shoremt-fig6",
        paper: Paper::ShoreMt,
        title: "Shore-MT Figure 6: a critical section, three latches, and without it",
        found: "A lighter latch (T&T&S) doubles one thread's throughput and gains nothing at 32; a queue latch (MCS) scales somewhat; only moving the work out of the critical section triples throughput (Figure 6).",
        differs: "Foreshore's insertion with the old critical section around finding and latching a leaf (crates/engine/src/stage.rs); a ticket latch stands for MCS: both serve in the order of arrival. With more threads than processors a latch that spins or serves in order waits for threads that do not run.",
        draw: stages::free_space,
    },
    Figure {
        name: "shoremt-fig7",
        paper: Paper::ShoreMt,
        title: "Shore-MT Figure 7: what each stage is worth in this engine",
        found: "From one mutex in each component to Shore-MT: stage by stage throughput at 32 threads nearly doubles or more. The baseline does 2.4 transactions of a thousand rows a second with one thread and 1.2 with four or more; in the end threads share the hardware only, and one alone is nearly three times as fast (Figure 7).",
        differs: MACHINE,
        draw: stages::stages,
    },
    Figure {
        name: "shoremt-scaling",
        paper: Paper::ShoreMt,
        title: "Record insertion on up to 128 cores",
        found: "A critical section in the log or in the buffer pool bounds throughput whatever the number of threads; fixing one bottleneck exposes the next, and the log comes last (§5, §7.8).",
        differs: "A figure of the laboratory's own, modelled: instructions of a row and the lines that threads share are counted (docs/scaling.md), its time on one core is measured, more cores are predicted. Waiting for the device, memory bandwidth and splits are left out.",
        draw: scaling::scaling,
    },
];
