//! The DaMoN paper's figures: node size × search method × key size of a CSB+-tree.

mod keys;
mod methods;
mod tree;

use crate::frame::{Figure, Paper};

const DIFFERS: &str = "This processor predicts branches and runs ahead far better than an Itanium 2, so a crossover may lie elsewhere or nowhere. Key lengths are fixed at creation but compared word by word rather than through a function call.";

/// In the paper's order.
pub const FIGURES: &[Figure] = &[
    Figure {
        name: "damon-fig2",
        paper: Paper::Damon,
        title: "DaMoN Figure 2: linear against binary search in a node, and why",
        found: "Linear search takes fewer cycles than binary search in nodes below 384 bytes: it mispredicts fewer branches; its busy time grows with the node.",
        differs: DIFFERS,
        draw: methods::reasons,
    },
    Figure {
        name: "damon-fig3",
        paper: Paper::Damon,
        title: "DaMoN Figure 3: node size, search method and prefetching",
        found: "Binary search gains a little from larger nodes, linear search loses; both gain from prefetching the next node; they cross at 384 bytes with 8-byte keys.",
        differs: DIFFERS,
        draw: methods::prefetching,
    },
    Figure {
        name: "damon-fig4",
        paper: Paper::Damon,
        title: "DaMoN Figure 4: what prefetching saves",
        found: "With nodes of 128 bytes and linear search, prefetching takes away much of the data-cache stalls.",
        differs: "The model takes a prefetched line to be there when it is used, which is the most that prefetching can do; so the verdict goes by the time measured here.",
        draw: methods::stalls,
    },
    Figure {
        name: "damon-fig5",
        paper: Paper::Damon,
        title: "DaMoN Figure 5: best node size by key size",
        found: "The best node size grows with the key size, and differs between linear and binary search.",
        differs: DIFFERS,
        draw: keys::best_sizes,
    },
    Figure {
        name: "damon-fig6",
        paper: Paper::Damon,
        title: "DaMoN Figure 6: response time at the best node size",
        found: "With prefetching, linear search beats binary search for every key size.",
        differs: DIFFERS,
        draw: keys::response_times,
    },
    Figure {
        name: "damon-fig7",
        paper: Paper::Damon,
        title: "DaMoN Figure 7: scans by key size, with and without prefetching",
        found: "Scans get slower with the key size; prefetching two nodes ahead makes them much faster and nearly independent of it.",
        differs: "Nodes of 256 bytes for all key sizes, where the paper takes each key size's from its Figure 5. Of each key one word is read, which touches all lines of a leaf. Hardware prefetchers follow a scan by themselves today.",
        draw: keys::scans,
    },
    Figure {
        name: "damon-fig8",
        paper: Paper::Damon,
        title: "DaMoN Figure 8: best node size for inserts by key size",
        found: "The best node size for inserts depends on the key size.",
        differs: DIFFERS,
        draw: keys::best_for_inserts,
    },
    Figure {
        name: "damon-fig9",
        paper: Paper::Damon,
        title: "DaMoN Figure 9: the configuration table",
        found: "A table of the best node size by key size, for lookups by both methods and for inserts, which want different ones, is what an index should be created from.",
        differs: "foreshore-index offers the node sizes as a type parameter.",
        draw: keys::configuration,
    },
];
