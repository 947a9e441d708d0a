//! OLFIT's figures: update probability by level, node size, search and update scaling, update ratios, fan-out.

mod fanout;
mod levels;
mod node_size;
mod ratio;
mod scaling;
mod subject;
mod work;

use crate::frame::{Figure, Paper};

const ONE_LAYOUT: &str = "Keys are unique here, and a node that becomes empty stays. This machine's threads are measured; more processors are modelled from the same code's accesses. Both trees are the laboratory's, of one layout; the production CSB+-tree is in Figure 6.";

/// In the paper's order.
pub const FIGURES: &[Figure] = &[
    Figure {
        name: "olfit-fig2",
        paper: Paper::Olfit,
        title: "OLFIT Figure 2: probability of update per level, inserts only",
        found: "Nearly all updates happen in the leaves: the probability falls by the fan-out with each level, as the formula says, so most latches of inner nodes are taken in vain.",
        differs: "Keys are inserted where the paper's are, between uniformly distributed ones; splits of full inner nodes happen a little ahead of need.",
        draw: levels::draw,
    },
    Figure {
        name: "olfit-fig6",
        paper: Paper::Olfit,
        title: "OLFIT Figure 6: OLFIT with varying node size",
        found: "Nodes of 128 bytes, two cache lines, are fastest; larger ones lose slowly, and faster for CSB+ inserts.",
        differs: "One thread here, eight there. CSB+ is the production tree of foreshore-index, whose nodes are larger for as many keys (eight-byte values). Today's processors fetch neighbouring lines ahead, which favours larger nodes.",
        draw: node_size::draw,
    },
    Figure {
        name: "olfit-fig7",
        paper: Paper::Olfit,
        title: "OLFIT Figure 7: search throughput by threads",
        found: "OL, VN and VT search nearly as fast as without any control (NO); TL falls behind as threads are added, and LC is worst, further behind with each thread. The gap between OL and NO is wider on the CSB+-tree.",
        differs: ONE_LAYOUT,
        draw: scaling::search,
    },
    Figure {
        name: "olfit-fig8",
        paper: Paper::Olfit,
        title: "OLFIT Figure 8: insert and delete throughput by threads",
        found: "Only OL scales. VN and LC rise slowly; TL and VT get slower with each thread. Versions are slowest on the CSB+-tree, where a whole group of nodes is copied for each update.",
        differs: ONE_LAYOUT,
        draw: scaling::update,
    },
    Figure {
        name: "olfit-fig9",
        paper: Paper::Olfit,
        title: "OLFIT Figure 9: one thread, varying update ratio",
        found: "OL and TL are close to NO; LC pays for its latches at every ratio; VN and VT begin level with OL and fall sharply as updates are added, most on the CSB+-tree.",
        differs: ONE_LAYOUT,
        draw: ratio::one_thread,
    },
    Figure {
        name: "olfit-fig10",
        paper: Paper::Olfit,
        title: "OLFIT Figure 10: eight threads, varying update ratio",
        found: "With eight threads OL leads clearly at every ratio with updates; VN and VT fall sharply; TL is held back by its one latch, LC by coherence misses. On the CSB+-tree throughput falls more sharply, for splits cost more, and VN and VT are worse than TL when more than 20 % are updates.",
        differs: ONE_LAYOUT,
        draw: ratio::many_threads,
    },
    Figure {
        name: "olfit-table1",
        paper: Paper::Olfit,
        title: "OLFIT Table 1: maximum fan-out under each scheme",
        found: "In a node of 128 bytes of the B+-tree: OL 14 entries; LC and VN 15; TL and VT 15 in leaves and 16 in inner nodes. Leaves of the CSB+-tree have as many, its inner nodes 28 under OL, 29 under LC and VN, 30 under TL and VT.",
        differs: "Taken from the constants by which the code lays out its nodes, so the table is the code's.",
        draw: fanout::draw,
    },
];
