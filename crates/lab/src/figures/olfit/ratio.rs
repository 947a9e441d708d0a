//! Figures 9 and 10: throughput as updates are mixed in, with one thread and with eight.

use crate::figures::olfit::scaling::{Sizes, each};
use crate::figures::olfit::subject::{self, Load};
use crate::figures::olfit::work::Keys;
use crate::frame::{Drawn, LabError, Panel, Scale, Settings, Source, Tell, Verdict, rounds};
use crate::model::Machine;

const RATIOS: [u64; 6] = [0, 20, 40, 60, 80, 100];
/// The schemes that replace nodes by versions.
const VERSIONS: [&str; 2] = ["VN", "VT"];
/// Who was level with OL, and does less than this share of what that does, has fallen sharply.
const SHARPLY: f64 = 0.75;
const X: &str = "updates, % of operations";
const Y: &str = "million operations/s";

/// Figure 9.
pub fn one_thread(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let sizes = Sizes::of(settings);
    let keys = Keys::new(sizes.keys, settings.seed);
    let panels = subject::of_each_family(&keys, tell, |family, subjects, tell| {
        Ok([measure(family, settings, &sizes, subjects, 1, tell)?])
    })?
    .concat();
    let verdict = judge_one_thread(&panels);
    Ok(Drawn { verdict, panels, settings: sizes.header() })
}

/// From 0 to 100 % updates, what a scheme keeps of its throughput.
fn kept(panel: &Panel, scheme: &str) -> f64 {
    panel.at(scheme, 100.0) / panel.at(scheme, 0.0)
}

/// What a scheme does of what another one does.
fn share(panel: &Panel, scheme: &str, other: &str, x: f64) -> f64 {
    panel.at(scheme, x) / panel.at(other, x)
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// The B+-tree's panel, and that of the CSB+-tree, if it was drawn.
fn judge_one_thread(families: &[Panel]) -> Verdict {
    let (mut sentences, mut conditions) = (Vec::new(), Vec::new());
    for (family, panel) in ["B+", "CSB+"].iter().zip(families) {
        let of_no = |scheme: &str, x: f64| share(panel, scheme, "NO", x);
        let of_ol = |scheme: &str, x: f64| share(panel, scheme, "OL", x);
        sentences.push(format!(
            "{family}, measured: with updates only, of NO's throughput {}; of their own without updates {}; of OL's {}, and without updates {}.",
            each(&["OL", "TL", "LC", "VN", "VT"], |scheme| percent(of_no(scheme, 100.0))),
            each(&["OL", "VN", "VT"], |scheme| percent(kept(panel, scheme))),
            each(&VERSIONS, |scheme| percent(of_ol(scheme, 100.0))),
            each(&VERSIONS, |scheme| percent(of_ol(scheme, 0.0))),
        ));
        let everywhere = |holds: &dyn Fn(f64) -> bool| RATIOS.iter().all(|ratio| holds(*ratio as f64));
        conditions.extend([
            everywhere(&|x| of_no("OL", x) > 0.75 && of_no("TL", x) > 0.75),
            everywhere(&|x| of_ol("LC", x) < 1.0),
            VERSIONS.iter().all(|scheme| of_ol(scheme, 0.0) > 0.9),
            VERSIONS.iter().all(|scheme| of_ol(scheme, 100.0) < SHARPLY),
        ]);
    }
    if let [b_plus, csb] = families {
        let heavier = |scheme: &&str| share(csb, scheme, "OL", 100.0) < share(b_plus, scheme, "OL", 100.0);
        conditions.push(VERSIONS.iter().all(heavier));
    }
    Verdict::of(&conditions, sentences.join(" "))
}

/// Figure 10.
pub fn many_threads(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let sizes = Sizes::of(settings);
    let keys = Keys::new(sizes.keys, settings.seed);
    let threads = settings.threads_max.min(8);
    let panels = subject::of_each_family(&keys, tell, |family, mut subjects, tell| {
        subjects.retain(|subject| subject.is_concurrent());
        tell(0.3, "modelling");
        let modelled = model(family, settings, &sizes, &subjects)?;
        let measured = measure(family, settings, &sizes, subjects, threads, tell)?;
        Ok([measured, modelled])
    })?;
    let verdict = judge_many_threads(&panels, threads);
    Ok(Drawn { verdict, panels: panels.concat(), settings: sizes.header() })
}

fn model(
    family: &str,
    settings: &Settings,
    sizes: &Sizes,
    subjects: &subject::Subjects,
) -> Result<Panel, LabError> {
    let title = format!("{family}, eight processors like the paper's");
    let mut panel = Panel::new(title, Source::Modelled, X, Y, Scale::Linear);
    let rates = subject::at_once(subjects, |subject| {
        let rate = |update_percent| {
            let load = Load { threads: 8, operations: sizes.modelled, update_percent, seed: settings.seed };
            Ok(subject.model(&Machine::E5500, load)?.0)
        };
        RATIOS.into_iter().map(rate).collect::<Result<Vec<_>, LabError>>()
    })?;
    for (subject, rates) in subjects.iter().zip(rates) {
        for (update_percent, per_s) in RATIOS.into_iter().zip(rates) {
            panel.add(subject.name(), update_percent as f64, per_s / 1e6);
        }
    }
    Ok(panel)
}

/// As [`judge_one_thread`]: measured panels, and modelled ones.
fn judge_many_threads(families: &[[Panel; 2]], threads: usize) -> Verdict {
    let (mut sentences, mut conditions) = (Vec::new(), Vec::new());
    for (family, [measured, modelled]) in ["B+", "CSB+"].iter().zip(families) {
        let lead = |panel: &Panel, x: f64| {
            let best = ["LC", "TL", "VN", "VT"].iter().map(|scheme| panel.at(scheme, x)).fold(0.0, f64::max);
            panel.at("OL", x) / best
        };
        let leads = |panel| [20.0, 60.0, 100.0].map(|x| format!("{:.2}", lead(panel, x))).join(", ");
        let of_ol = |scheme: &str, x: f64| share(modelled, scheme, "OL", x);
        sentences.push(format!(
            "{family}, OL's throughput over that of the best other scheme at 20, 60 and 100 % updates: modelled {}; measured with {threads} threads {}. Of OL's, modelled, without updates {}; with updates only {}.",
            leads(modelled),
            leads(measured),
            each(&["VN", "VT", "TL", "LC"], |scheme| percent(of_ol(scheme, 0.0))),
            each(&VERSIONS, |scheme| percent(of_ol(scheme, 100.0))),
        ));
        conditions.extend([
            RATIOS[1..].iter().all(|ratio| lead(modelled, *ratio as f64) > 1.1),
            VERSIONS.iter().all(|scheme| of_ol(scheme, 0.0) > 0.9 && of_ol(scheme, 100.0) < SHARPLY),
            ["TL", "LC"].iter().all(|scheme| of_ol(scheme, 0.0) < 1.0),
        ]);
    }
    if let [[_, b_plus], [_, csb]] = families {
        let below_tl = |ratio: &u64, scheme: &&str| share(csb, scheme, "TL", *ratio as f64) < 1.0;
        let beyond_20 = RATIOS.iter().filter(|ratio| **ratio > 20);
        sentences.push(format!(
            "With updates only, modelled, OL keeps {} of its throughput without on the B+-tree, {} on the CSB+-tree; there VN and VT do {} and {} of TL's.",
            percent(kept(b_plus, "OL")),
            percent(kept(csb, "OL")),
            percent(share(csb, "VN", "TL", 100.0)),
            percent(share(csb, "VT", "TL", 100.0)),
        ));
        conditions.extend([
            kept(csb, "OL") < kept(b_plus, "OL"),
            beyond_20.clone().all(|ratio| VERSIONS.iter().all(|scheme| below_tl(ratio, scheme))),
        ]);
    }
    Verdict::of(&conditions, sentences.join(" "))
}

fn measure(
    family: &str,
    settings: &Settings,
    sizes: &Sizes,
    mut subjects: subject::Subjects,
    threads: usize,
    tell: Tell<'_>,
) -> Result<Panel, LabError> {
    let title = match threads {
        1 => format!("{family}, one thread"),
        _ => format!("{family}, {threads} threads on this machine"),
    };
    let mut panel = Panel::new(title, Source::Measured, X, Y, Scale::Linear);
    for update_percent in RATIOS {
        tell(0.5 + update_percent as f64 / 250.0, &format!("{update_percent} % updates"));
        let load = Load { threads, operations: sizes.operations, update_percent, seed: settings.seed };
        let medians = rounds(sizes.rounds, &mut subjects, |subject| subject.measure(load))?;
        for (subject, median) in subjects.iter().zip(medians) {
            panel.add(subject.name(), update_percent as f64, median / 1e6);
        }
    }
    subjects.iter().try_for_each(|subject| subject.check())?;
    Ok(panel)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each scheme does at 0 and at 100 % updates, and evenly between.
    fn panel(ends: &[(&str, f64, f64)]) -> Panel {
        let mut panel = Panel::new("", Source::Measured, X, Y, Scale::Linear);
        for (scheme, from, to) in ends {
            for ratio in RATIOS.map(|ratio| ratio as f64) {
                panel.add(scheme, ratio, from + (to - from) * ratio / 100.0);
            }
        }
        panel
    }

    /// Versions begin and end with so much; the other schemes do what the paper saw.
    fn one_thread(from: f64, to: f64) -> Panel {
        let common = [("NO", 3.0, 2.5), ("OL", 2.9, 2.4), ("TL", 3.0, 2.4), ("LC", 2.0, 1.8)];
        panel(&[common.as_slice(), &[("VN", from, to), ("VT", from, to)]].concat())
    }

    /// Versions that lose a little are not what the paper saw, nor are ones that are behind from the beginning.
    #[test]
    fn versions_must_fall_sharply() {
        let word = |from, to| judge_one_thread(&[one_thread(from, to)]).word();
        assert_eq!(word(2.9, 1.2), "holds");
        assert_eq!(word(2.9, 2.3), "holds in part");
        assert_eq!(word(2.0, 1.2), "holds in part");
    }

    /// And most sharply where whole groups are copied.
    #[test]
    fn versions_of_groups_must_cost_more() {
        let word = |to| judge_one_thread(&[one_thread(2.9, 1.2), one_thread(2.9, to)]).word();
        assert_eq!([0.5, 1.4].map(word), ["holds", "holds in part"]);
    }

    /// Also between the ratios of which the sentence tells.
    #[test]
    fn the_lead_is_asked_at_every_ratio() {
        let mut modelled = panel(&[
            ("OL", 2.8, 2.8),
            ("VN", 2.8, 1.0),
            ("VT", 2.8, 0.3),
            ("TL", 1.5, 0.4),
            ("LC", 0.9, 0.9),
        ]);
        assert_eq!(judge_many_threads(&[[modelled.clone(), modelled.clone()]], 2).word(), "holds");
        let at_40 = modelled.series.iter_mut().find(|series| series.name == "LC").unwrap().points.iter_mut();
        at_40.filter(|point| point.0 == 40.0).for_each(|point| point.1 = 3.0);
        assert_eq!(judge_many_threads(&[[modelled.clone(), modelled.clone()]], 2).word(), "holds in part");
    }

    /// On the CSB+-tree OL keeps less, and versions do less than the tree's latch from 40 % on.
    #[test]
    fn groups_must_cost_more_with_many_threads() {
        let modelled = |ol, vn| {
            panel(&[("OL", 2.8, ol), ("VN", 2.8, vn), ("VT", 2.8, 0.1), ("TL", 2.7, 1.2), ("LC", 0.9, 0.9)])
        };
        let families = |ol, vn| [[(); 2].map(|()| modelled(2.8, 1.0)), [(); 2].map(|()| modelled(ol, vn))];
        let word = |ol, vn| judge_many_threads(&families(ol, vn), 2).word();
        assert_eq!(word(2.7, 0.1), "holds");
        assert_eq!(word(2.9, 0.1), "holds in part");
        assert_eq!(word(2.7, 1.4), "holds in part");
    }
}
