//! Leaf sizes of the engine: what was measured, and what follows.
//!
//! Why: a leaf is a node that also lies on disk, so its size is a choice like a node's, made when a table is created. The
//! engine is measured by whoever can open one; here are the figures, and how they decide.
//! Differs from the paper, whose nodes are in memory: the figures are of rows in memory, and what a device has to read and
//! write for a row grows with the leaf. So another size than the default has to be worth more than a node's.

use super::choose::{clearly_best, geometric_mean};
use super::{Favour, Machine};
use serde::{Deserialize, Serialize};

/// Bytes of a leaf if nothing is known: what the engine makes by itself.
const DEFAULT_BYTES: usize = 8 << 10;
/// Leaves that the engine offers.
const LEAST_BYTES: usize = 4 << 10;
const GREATEST_BYTES: usize = 32 << 10;
/// Another size than the default is chosen if it is so many times as fast.
const WORTH_WHILE: f64 = 1.05;

/// The leaf size for each use, and the figures behind it.
///
/// ```
/// use foreshore_index::Favour;
/// use foreshore_index::calibrate::Leaves;
///
/// let unmeasured = Leaves::of(Vec::new());
/// assert_eq!(unmeasured.bytes(Favour::Lookups), 8192, "the engine's own size");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leaves {
    /// Bytes of a leaf for single rows that are read.
    pub lookups: usize,
    /// … for rows that are put.
    pub inserts: usize,
    /// … for both, and for ranges.
    pub balanced: usize,
    /// The figures.
    #[serde(default)]
    pub measured: Vec<LeafMeasured>,
}

/// Figures of one leaf size: nanoseconds of one operation on one thread, all rows in memory, nobody waiting for a device.
/// See [`Leaves`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeafMeasured {
    /// Bytes of a leaf.
    pub leaf_bytes: usize,
    /// Rows of the table, in the end.
    pub rows: u64,
    /// Bytes of a row's key and value.
    pub row_bytes: usize,
    /// Puts of new rows in random order, each its own transaction, from half the rows on.
    pub put_ns: f64,
    /// Gets of rows that are there.
    pub get_ns: f64,
    /// Scans of 100 rows from a random one.
    pub scan_ns: f64,
}

impl Leaves {
    /// What these figures say; the default if nothing is clearly better. See [`Leaves`].
    pub fn of(measured: Vec<LeafMeasured>) -> Self {
        let [lookups, inserts, balanced] =
            [Favour::Lookups, Favour::Inserts, Favour::Balanced].map(|favour| best(&measured, favour));
        Self { lookups, inserts, balanced, measured }
    }

    /// Bytes of a leaf for this use. See [`Leaves`].
    pub fn bytes(&self, favour: Favour) -> usize {
        match favour {
            Favour::Lookups => self.lookups,
            Favour::Inserts => self.inserts,
            Favour::Balanced => self.balanced,
        }
    }
}

fn best(measured: &[LeafMeasured], favour: Favour) -> usize {
    let of_size = |bytes| measured.iter().filter(move |m| m.leaf_bytes == bytes);
    clearly_best(measured.iter().map(|m| m.leaf_bytes), DEFAULT_BYTES, WORTH_WHILE, |bytes| {
        geometric_mean(of_size(bytes).map(|m| cost(m, favour)))
    })
}

fn cost(m: &LeafMeasured, favour: Favour) -> f64 {
    match favour {
        Favour::Lookups => m.get_ns,
        Favour::Inserts => m.put_ns,
        Favour::Balanced => geometric_mean([m.get_ns, m.put_ns, m.scan_ns]),
    }
}

/// The leaf size by the machine alone: a scan interprets a private copy of a leaf, and leaf and copy should fill no more
/// than half of the first data cache. A leaf smaller than the system's pages would save nothing on its way to the device.
pub(super) fn by_caches(machine: &Machine) -> usize {
    let quarter = (machine.l1d_bytes / 4).max(1);
    let greatest_power = 1 << quarter.ilog2();
    machine.page_bytes.max(greatest_power).clamp(LEAST_BYTES, GREATEST_BYTES)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn measured(leaf_bytes: usize, put_ns: f64, get_ns: f64) -> LeafMeasured {
        LeafMeasured { leaf_bytes, rows: 1000, row_bytes: 32, put_ns, get_ns, scan_ns: 1000.0 }
    }

    /// What is clearly faster is chosen, for what it is faster at.
    #[test]
    fn figures_decide() {
        let leaves = Leaves::of(vec![
            measured(4096, 1000.0, 300.0),
            measured(8192, 1000.0, 400.0),
            measured(16384, 970.0, 600.0),
        ]);
        assert_eq!(leaves.bytes(Favour::Lookups), 4096);
        assert_eq!(leaves.bytes(Favour::Inserts), 8192, "three in a hundred are noise");
        assert_eq!(leaves.bytes(Favour::Balanced), 4096);
        assert_eq!(Leaves::of(Vec::new()).bytes(Favour::Balanced), 8192);
    }

    #[test]
    fn caches_decide_without_figures() {
        let bytes = |l1d_kib: usize, page_kib: usize| {
            by_caches(&Machine { l1d_bytes: l1d_kib << 10, page_bytes: page_kib << 10, ..Machine::this() })
                >> 10
        };
        assert_eq!([bytes(32, 4), bytes(48, 4), bytes(128, 16), bytes(64, 4)], [8, 8, 32, 16]);
        assert_eq!([bytes(0, 4), bytes(16, 64), bytes(8, 4)], [4, 32, 4]);
    }
}
