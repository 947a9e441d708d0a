//! Figures 9 and 10: throughput as updates are mixed in, with one thread and with eight.

use crate::figures::olfit::scaling::Sizes;
use crate::figures::olfit::subject::{self, Load, Subject};
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
    let (sizes, subjects) = load(settings, tell)?;
    let measured = measure(settings, &sizes, subjects, 1, tell)?;
    let verdict = judge_one_thread(&measured);
    Ok(Drawn { verdict, panels: vec![measured], settings: sizes.header() })
}

fn judge_one_thread(measured: &Panel) -> Verdict {
    let fall = |scheme: &str| measured.at(scheme, 100.0) / measured.at(scheme, 0.0);
    let of_no = |scheme: &str, x: f64| measured.at(scheme, x) / measured.at("NO", x);
    let of_ol = |scheme: &str, x: f64| measured.at(scheme, x) / measured.at("OL", x);
    let sentence = format!(
        "Measured: at 100 % updates OL does {:.0} % of NO, TL {:.0} %, LC {:.0} %, VN {:.0} %, VT {:.0} %; from 0 to 100 % updates OL keeps {:.0} % of its throughput, VN {:.0} %, VT {:.0} %. Of OL's, VN and VT do {:.0} % and {:.0} % without updates, {:.0} % and {:.0} % with updates only.",
        100.0 * of_no("OL", 100.0),
        100.0 * of_no("TL", 100.0),
        100.0 * of_no("LC", 100.0),
        100.0 * of_no("VN", 100.0),
        100.0 * of_no("VT", 100.0),
        100.0 * fall("OL"),
        100.0 * fall("VN"),
        100.0 * fall("VT"),
        100.0 * of_ol("VN", 0.0),
        100.0 * of_ol("VT", 0.0),
        100.0 * of_ol("VN", 100.0),
        100.0 * of_ol("VT", 100.0),
    );
    let everywhere = |holds: &dyn Fn(f64) -> bool| RATIOS.iter().all(|ratio| holds(*ratio as f64));
    let conditions = [
        everywhere(&|x| of_no("OL", x) > 0.75 && of_no("TL", x) > 0.75),
        everywhere(&|x| of_ol("LC", x) < 1.0),
        VERSIONS.iter().all(|scheme| of_ol(scheme, 0.0) > 0.9),
        VERSIONS.iter().all(|scheme| of_ol(scheme, 100.0) < SHARPLY),
    ];
    Verdict::of(&conditions, sentence)
}

/// Figure 10.
pub fn many_threads(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let (sizes, mut subjects) = load(settings, tell)?;
    subjects.retain(|subject| subject.is_concurrent());
    let mut modelled = Panel::new("Eight processors like the paper's", Source::Modelled, X, Y, Scale::Linear);
    tell(0.3, "modelling");
    let rates = subject::at_once(&subjects, |subject| {
        let rate = |update_percent| {
            let load = Load { threads: 8, operations: sizes.modelled, update_percent, seed: settings.seed };
            Ok(subject.model(&Machine::E5500, load)?.0)
        };
        RATIOS.into_iter().map(rate).collect::<Result<Vec<_>, LabError>>()
    })?;
    for (subject, rates) in subjects.iter().zip(rates) {
        for (update_percent, per_s) in RATIOS.into_iter().zip(rates) {
            modelled.add(subject.name(), update_percent as f64, per_s / 1e6);
        }
    }
    let measured = measure(settings, &sizes, subjects, settings.threads_max.min(8), tell)?;
    let verdict = judge_many_threads(&measured, &modelled, settings.threads_max.min(8));
    Ok(Drawn { verdict, panels: vec![measured, modelled], settings: sizes.header() })
}

fn judge_many_threads(measured: &Panel, modelled: &Panel, threads: usize) -> Verdict {
    let lead = |panel: &Panel, x: f64| {
        let best = ["LC", "TL", "VN", "VT"].iter().map(|scheme| panel.at(scheme, x)).fold(0.0, f64::max);
        panel.at("OL", x) / best
    };
    let of_ol = |scheme: &str, x: f64| modelled.at(scheme, x) / modelled.at("OL", x);
    let sentence = format!(
        "OL's throughput over that of the best other scheme: modelled {:.2} at 20 %, {:.2} at 60 % and {:.2} at 100 % updates; measured with {} threads {:.2}, {:.2} and {:.2}. Of OL's, modelled, VN and VT do {:.0} % and {:.0} % without updates, {:.0} % and {:.0} % with updates only; TL and LC {:.0} % and {:.0} % without.",
        lead(modelled, 20.0),
        lead(modelled, 60.0),
        lead(modelled, 100.0),
        threads,
        lead(measured, 20.0),
        lead(measured, 60.0),
        lead(measured, 100.0),
        100.0 * of_ol("VN", 0.0),
        100.0 * of_ol("VT", 0.0),
        100.0 * of_ol("VN", 100.0),
        100.0 * of_ol("VT", 100.0),
        100.0 * of_ol("TL", 0.0),
        100.0 * of_ol("LC", 0.0),
    );
    let conditions = [
        RATIOS[1..].iter().all(|ratio| lead(modelled, *ratio as f64) > 1.1),
        VERSIONS.iter().all(|scheme| of_ol(scheme, 0.0) > 0.9 && of_ol(scheme, 100.0) < SHARPLY),
        ["TL", "LC"].iter().all(|scheme| of_ol(scheme, 0.0) < 1.0),
    ];
    Verdict::of(&conditions, sentence)
}

fn load(settings: &Settings, tell: Tell<'_>) -> Result<(Sizes, Vec<Box<dyn Subject>>), LabError> {
    let sizes = Sizes::of(settings);
    let keys = Keys::new(sizes.keys, settings.seed);
    tell(0.1, "loading");
    let subjects = subject::all(&keys)?;
    Ok((sizes, subjects))
}

fn measure(
    settings: &Settings,
    sizes: &Sizes,
    mut subjects: Vec<Box<dyn Subject>>,
    threads: usize,
    tell: Tell<'_>,
) -> Result<Panel, LabError> {
    let title =
        if threads == 1 { "One thread".to_owned() } else { format!("{threads} threads on this machine") };
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

    /// Versions that lose a little are not what the paper saw, nor are ones that are behind from the beginning.
    #[test]
    fn versions_must_fall_sharply() {
        let word = |from, to| {
            let common = [("NO", 3.0, 2.5), ("OL", 2.9, 2.4), ("TL", 3.0, 2.4), ("LC", 2.0, 1.8)];
            let versions = [("VN", from, to), ("VT", from, to)];
            judge_one_thread(&panel(&[common.as_slice(), &versions].concat())).word()
        };
        assert_eq!(word(2.9, 1.2), "holds");
        assert_eq!(word(2.9, 2.3), "holds in part");
        assert_eq!(word(2.0, 1.2), "holds in part");
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
        assert_eq!(judge_many_threads(&modelled, &modelled, 2).word(), "holds");
        let at_40 = modelled.series.iter_mut().find(|series| series.name == "LC").unwrap().points.iter_mut();
        at_40.filter(|point| point.0 == 40.0).for_each(|point| point.1 = 3.0);
        assert_eq!(judge_many_threads(&modelled, &modelled, 2).word(), "holds in part");
    }
}
