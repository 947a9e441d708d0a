//! Table 1: entries of a node under each scheme, from the constants the trees are laid out by.

use crate::figures::olfit::subject::WORDS;
use crate::frame::{Drawn, LabError, Panel, Scale, Settings, Source, Tell, Verdict};
use crate::olfit::{LockCoupling, Optimistic, Scheme, Tree, TreeLatch, VersionsByNode, VersionsByTree};

const SCHEMES: &[&str] = &["OL", "LC", "TL", "VN", "VT"];
/// Leaf and inner fan-out in the paper, in the order of [`SCHEMES`].
const PAPER: [(usize, usize); 5] = [(14, 14), (15, 15), (15, 16), (15, 15), (15, 16)];

/// Table 1.
pub fn draw(_settings: &Settings, _tell: Tell<'_>) -> Result<Drawn, LabError> {
    fn of<S: Scheme>() -> (usize, usize) {
        (Tree::<S, WORDS>::LEAF_MAX, Tree::<S, WORDS>::INNER_MAX)
    }
    let ours = [
        of::<Optimistic>(),
        of::<LockCoupling>(),
        of::<TreeLatch>(),
        of::<VersionsByNode>(),
        of::<VersionsByTree>(),
    ];
    let mut panel =
        Panel::new("Nodes of 128 bytes", Source::Computed, "scheme", "entries", Scale::Bars(SCHEMES));
    for (at, ((leaf, inner), (paper_leaf, paper_inner))) in ours.into_iter().zip(PAPER).enumerate() {
        panel.add("leaf", at as f64, leaf as f64);
        panel.add("inner node", at as f64, inner as f64);
        panel.add("leaf, paper", at as f64, paper_leaf as f64);
        panel.add("inner node, paper", at as f64, paper_inner as f64);
    }
    let same = ours.iter().zip(PAPER).filter(|(ours, paper)| **ours == *paper).count();
    let verdict =
        Verdict::of(&[same == PAPER.len()], format!("{same} of 5 schemes have the paper's fan-outs."));
    Ok(Drawn { panels: vec![panel], verdict, settings: vec![("node_bytes", (4 * WORDS).to_string())] })
}
