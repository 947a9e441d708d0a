//! Figures 6 and 7: nodes of one to sixteen lines.

use crate::counters::Tally;
use crate::figures::multicore::structures::{self, Cost, Sizes};
use crate::figures::study::{Input, Study};
use crate::frame::{Drawn, LabError, Panel, Scale, Settings, Source, Tell, Verdict};

const BYTES: [usize; 5] = [64, 128, 256, 512, 1024];
const X: &str = "node size, bytes";

/// How a structure's cost is found: by filling an empty one, in one of two ways.
#[derive(Clone, Copy)]
enum Kind {
    Lookups,
    Inserts,
}

impl Kind {
    fn cost<T: Study>(self, empty: T, sizes: &Sizes) -> Result<Cost, LabError> {
        match self {
            Self::Lookups => {
                structures::lookups(&mut structures::loaded(empty, sizes)?, sizes, Input::Random)
            }
            Self::Inserts => structures::inserts(empty, sizes, Input::Random),
        }
    }
}

/// Figure 6.
pub fn lookups(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let panels = panels(settings, Kind::Lookups, tell)?;
    let verdict = judge_lookups(&panels);
    Ok(Drawn { panels, verdict, settings: sizes(settings).header() })
}

/// Figure 7.
pub fn inserts(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let panels = panels(settings, Kind::Inserts, tell)?;
    Ok(Drawn { verdict: judge_inserts(&panels[0]), panels, settings: sizes(settings).header() })
}

/// By the panels of cycles, first-level, second-level and TLB misses.
fn judge_lookups(panels: &[Panel]) -> Verdict {
    let gain = |name: &str, from: f64, to: f64| panels[0].at(name, from) / panels[0].at(name, to);
    let names = ["B+", "T", "CSB+"];
    let each =
        |name: &str| format!("{name} {:.2} and {:.2}", gain(name, 64.0, 256.0), gain(name, 256.0, 1024.0));
    let kept = |name: &str| {
        let kept = [1, 2, 3].map(|at| panels[at].at(name, 1024.0) / panels[at].at(name, 64.0));
        format!("{name} {}", kept.map(|kept| format!("{kept:.2}")).join(", "))
    };
    let sentence = format!(
        "Modelled gain from 64 to 256 bytes, and from there to 1024: {}. First-level, second-level and TLB misses with 1024 bytes over those with 64: {}.",
        names.map(each).join("; "),
        names.map(kept).join("; "),
    );
    let gains = |name| gain(name, 64.0, 256.0) > 1.0 && gain(name, 64.0, 256.0) > gain(name, 256.0, 1024.0);
    let falls = |panel: &Panel| names.iter().all(|name| panel.at(name, 1024.0) < panel.at(name, 64.0));
    let conditions: Vec<_> = panels[1..4].iter().map(falls).chain(names.map(gains)).collect();
    Verdict::of(&conditions, sentence)
}

fn judge_inserts(cycles: &Panel) -> Verdict {
    let growth = |name: &str| cycles.at(name, 1024.0) / cycles.at(name, 64.0);
    let sentence = format!(
        "Modelled cost with nodes of 1024 bytes over that with 64: B+ {:.2}, T {:.2}, CSB+ {:.2}.",
        growth("B+"),
        growth("T"),
        growth("CSB+"),
    );
    Verdict::of(&[growth("B+") < 1.0, growth("T") < 1.0, growth("CSB+") > 1.0], sentence)
}

/// Half of the study's keys: these are fifteen structures a figure.
fn sizes(settings: &Settings) -> Sizes {
    let mut sizes = Sizes::of(settings);
    sizes.keys.count /= 2;
    sizes
}

fn panels(settings: &Settings, kind: Kind, tell: Tell<'_>) -> Result<Vec<Panel>, LabError> {
    type Amount = fn(&Cost) -> f64;
    let amounts: [(&str, Source, &str, Amount); 6] = [
        ("All cycles, machine B", Source::Modelled, "cycles per operation", Cost::total),
        ("First-level misses", Source::Modelled, "per operation", |cost| {
            cost.counts.l1_misses as f64 / cost.sample
        }),
        ("Second-level misses", Source::Modelled, "per operation", |cost| {
            cost.counts.l2_misses as f64 / cost.sample
        }),
        ("TLB misses", Source::Modelled, "per operation", |cost| cost.counts.tlb_misses as f64 / cost.sample),
        ("Mispredicted branches", Source::Modelled, "per operation", |cost| {
            cost.counts.mispredicted as f64 / cost.sample
        }),
        ("On this machine", Source::Measured, "ns per operation", |cost| cost.ns),
    ];
    let mut panels: Vec<_> = amounts
        .iter()
        .map(|(title, source, unit, _)| Panel::new(*title, *source, X, unit, Scale::Doubling))
        .collect();
    let mut tally = Tally::default();
    let sizes = sizes(settings);
    for (at, bytes) in BYTES.into_iter().enumerate() {
        tell(at as f64 / BYTES.len() as f64, &format!("nodes of {bytes} bytes"));
        let b_plus = match bytes {
            64 => kind.cost(structures::empty_b_plus::<16>(&sizes), &sizes)?,
            128 => kind.cost(structures::empty_b_plus::<32>(&sizes), &sizes)?,
            256 => kind.cost(structures::empty_b_plus::<64>(&sizes), &sizes)?,
            512 => kind.cost(structures::empty_b_plus::<128>(&sizes), &sizes)?,
            _ => kind.cost(structures::empty_b_plus::<256>(&sizes), &sizes)?,
        };
        let t = kind.cost(structures::empty_t_tree(&sizes, bytes), &sizes)?;
        let csb = kind.cost(structures::empty_csb(&sizes, bytes), &sizes)?;
        for (name, cost) in [("B+", b_plus), ("T", t), ("CSB+", csb)] {
            for (panel, (.., amount)) in panels.iter_mut().zip(&amounts) {
                panel.add(name, bytes as f64, amount(&cost));
            }
            tally.add(name, bytes as f64, cost.timed, &cost.counted);
        }
    }
    panels.extend(tally.by_event(X, Scale::Doubling));
    Ok(panels)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the finding's three sentences each counts.
    #[test]
    fn larger_nodes_must_gain_where_the_study_saw_it() {
        let verdict = |growths: [f64; 3]| {
            let mut panel = Panel::new("", Source::Modelled, X, "cycles", Scale::Doubling);
            for (name, growth) in ["B+", "T", "CSB+"].into_iter().zip(growths) {
                panel.add(name, 64.0, 1.0);
                panel.add(name, 1024.0, growth);
            }
            judge_inserts(&panel).word()
        };
        assert_eq!(verdict([0.9, 0.8, 2.0]), "holds");
        assert_eq!(verdict([1.3, 1.4, 4.1]), "holds in part");
        assert_eq!(verdict([0.9, 0.8, 0.9]), "holds in part");
    }

    /// Nodes that cost less, but miss more, are not what the study saw.
    #[test]
    fn larger_nodes_must_miss_less() {
        let verdict = |tlb_misses_at_1024| {
            let panel = |at_1024: f64| {
                let mut panel = Panel::new("", Source::Modelled, X, "", Scale::Doubling);
                for name in ["B+", "T", "CSB+"] {
                    let points = [(64.0, 9.0), (256.0, 6.0), (1024.0, at_1024)];
                    points.into_iter().for_each(|(x, y)| panel.add(name, x, y));
                }
                panel
            };
            judge_lookups(&[panel(5.0), panel(5.0), panel(5.0), panel(tlb_misses_at_1024)]).word()
        };
        assert_eq!([5.0, 9.5].map(verdict), ["holds", "holds in part"]);
    }
}
