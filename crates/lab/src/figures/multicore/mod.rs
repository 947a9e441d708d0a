//! The multicore study's figures: B+, T-, CSS- and CSB+-tree on the same work, with the reasons for their cycles.

mod breakdown;
mod inputs;
mod node_size;
mod processors;
mod structures;

use crate::frame::{Figure, Paper};

/// Where the counters come from.
macro_rules! counters {
    () => {
        "Counters come from the model of the paper's machine B, fed with the accesses of the same code that is timed on this machine; one core: an operation is one thread, and the study sees the same order and trends there; that more cores add second-level and TLB misses (its §5.4) is not modelled. Instructions are counted by the accesses they make. Of the study's 10 million operations half a million are timed, and as many modelled. What this machine's own counters say, if it has any, is drawn beside."
    };
}

const DIFFERS: &str = counters!();

/// Before [`counters`], of the two figures that tell cycles by reason.
macro_rules! reasons {
    () => {
        "First-level misses are charged here if they hit the second level; the study's formula (3) charges those as well that do not, beside what they cost as second-level misses. "
    };
}

const LOOKUPS_DIFFER: &str = concat!(reasons!(), counters!());

const INSERTS_DIFFER: &str = concat!(
    "That inserts pay more for memory than lookups is seen beside Figure 2. ",
    reasons!(),
    counters!()
);

const PROCESSORS_DIFFER: &str = "All three processors are modelled, one core each. The study also sees more second-level and TLB misses on processors with more cores, since its operating system moves the thread among them; a model of one core cannot show that. What this machine's own counters say, if it has any, is drawn beside.";

const NODE_SIZES_DIFFER: &str = concat!("Five million keys, of the study's ten. ", counters!());

const INPUTS_DIFFER: &str = concat!(
    "Keys in order are the first ones; skewed ones are key n·u⁴ of n for a uniform u, where the study asks for keys i^1.3 ÷ 10 for i = 1, 2 and so on. ",
    counters!()
);

/// In the paper's order; figures come in pairs, lookups and inserts.
pub const FIGURES: &[Figure] = &[
    Figure {
        name: "multicore-fig2",
        paper: Paper::Multicore,
        title: "Multicore study Figure 2: where a lookup's cycles go",
        found: "The CSS-tree is best by every count, then CSB+, then B+; the T-tree is worst. TLB misses are about a third of a B+ lookup; first-level misses a sixth.",
        differs: LOOKUPS_DIFFER,
        draw: breakdown::lookups,
    },
    Figure {
        name: "multicore-fig3",
        paper: Paper::Multicore,
        title: "Multicore study Figure 3: where an insert's cycles go",
        found: "CSB+ executes more and misses more than B+, because its splits copy sibling nodes.",
        differs: INSERTS_DIFFER,
        draw: breakdown::inserts,
    },
    Figure {
        name: "multicore-fig4",
        paper: Paper::Multicore,
        title: "Multicore study Figure 4: lookups by input",
        found: "Sequential and skewed lookups repeat paths, so they miss less and mispredict less than random ones: sort batches.",
        differs: INPUTS_DIFFER,
        draw: inputs::lookups,
    },
    Figure {
        name: "multicore-fig5",
        paper: Paper::Multicore,
        title: "Multicore study Figure 5: inserts by input",
        found: "Sequential inserts are much cheaper than random ones in every structure.",
        differs: DIFFERS,
        draw: inputs::inserts,
    },
    Figure {
        name: "multicore-fig6",
        paper: Paper::Multicore,
        title: "Multicore study Figure 6: lookups by node size",
        found: "Larger nodes have fewer TLB and cache misses; the gain is greatest up to three cache lines, and then flattens.",
        differs: NODE_SIZES_DIFFER,
        draw: node_size::lookups,
    },
    Figure {
        name: "multicore-fig7",
        paper: Paper::Multicore,
        title: "Multicore study Figure 7: inserts by node size",
        found: "B+ and T-tree inserts gain a little from larger nodes; CSB+ inserts get worse with node size, as splits copy more.",
        differs: NODE_SIZES_DIFFER,
        draw: node_size::inserts,
    },
    Figure {
        name: "multicore-fig8",
        paper: Paper::Multicore,
        title: "Multicore study Figure 8: B+ lookups on three processors",
        found: "First-level misses follow the size of that cache: fewest on A, most on C; second-level misses are far more on C, whose cache is a quarter.",
        differs: PROCESSORS_DIFFER,
        draw: processors::lookups,
    },
    Figure {
        name: "multicore-fig9",
        paper: Paper::Multicore,
        title: "Multicore study Figure 9: B+ inserts on three processors",
        found: "As for lookups: first-level misses follow the size of that cache, second-level misses are far more on C.",
        differs: PROCESSORS_DIFFER,
        draw: processors::inserts,
    },
];
