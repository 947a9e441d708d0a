//! Table 1: entries of a node under each scheme, from the constants the trees are laid out by.

use crate::figures::olfit::subject::WORDS;
use crate::frame::{Drawn, LabError, Panel, Scale, Settings, Source, Tell, Verdict};
use crate::olfit::{
    BPlus, Csb, Family, LockCoupling, Optimistic, Scheme, Tree, TreeLatch, VersionsByNode, VersionsByTree,
};

const SCHEMES: &[&str] = &["OL", "LC", "TL", "VN", "VT"];
/// Leaf and inner fan-out, in the order of [`SCHEMES`].
type FanOuts = [(usize, usize); 5];
const PAPER_BPLUS: FanOuts = [(14, 14), (15, 15), (15, 16), (15, 15), (15, 16)];
const PAPER_CSB: FanOuts = [(14, 28), (15, 29), (15, 30), (15, 29), (15, 30)];

/// Table 1.
pub fn draw(_settings: &Settings, _tell: Tell<'_>) -> Result<Drawn, LabError> {
    let halves = [half::<BPlus>(&PAPER_BPLUS), half::<Csb>(&PAPER_CSB)];
    let [b_plus, csb] = [halves[0].1, halves[1].1];
    let verdict = Verdict::of(
        &[b_plus == 5, csb == 5],
        format!(
            "{b_plus} of 5 schemes have the paper's fan-outs on the B+-tree, {csb} of 5 on the CSB+-tree."
        ),
    );
    let panels = halves.into_iter().map(|(panel, _)| panel).collect();
    Ok(Drawn { panels, verdict, settings: vec![("node_bytes", (4 * WORDS).to_string())] })
}

/// One tree's half, and how many of its schemes have the paper's fan-outs.
fn half<F: Family>(paper: &FanOuts) -> (Panel, usize) {
    fn of<S: Scheme, F: Family>() -> (usize, usize) {
        (Tree::<S, WORDS, F>::LEAF_MAX, Tree::<S, WORDS, F>::INNER_MAX)
    }
    let ours: FanOuts = [
        of::<Optimistic, F>(),
        of::<LockCoupling, F>(),
        of::<TreeLatch, F>(),
        of::<VersionsByNode, F>(),
        of::<VersionsByTree, F>(),
    ];
    let title = format!("{}-tree, nodes of {} bytes", F::NAME, 4 * WORDS);
    let mut panel = Panel::new(title, Source::Computed, "scheme", "entries", Scale::Bars(SCHEMES));
    for (at, ((leaf, inner), (paper_leaf, paper_inner))) in ours.iter().zip(paper).enumerate() {
        panel.add("leaf", at as f64, *leaf as f64);
        panel.add("inner node", at as f64, *inner as f64);
        panel.add("leaf, paper", at as f64, *paper_leaf as f64);
        panel.add("inner node, paper", at as f64, *paper_inner as f64);
    }
    (panel, ours.iter().zip(paper).filter(|(ours, paper)| ours == paper).count())
}
