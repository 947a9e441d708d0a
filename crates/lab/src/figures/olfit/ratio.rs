//! Figures 9 and 10: throughput as updates are mixed in, with one thread and with eight.

use crate::figures::olfit::scaling::Sizes;
use crate::figures::olfit::subject::{self, Load, Subject};
use crate::figures::olfit::work::Keys;
use crate::frame::{Drawn, LabError, Panel, Scale, Settings, Source, Tell, Verdict, rounds};
use crate::model::Machine;

const RATIOS: [u64; 6] = [0, 20, 40, 60, 80, 100];
const X: &str = "updates, % of operations";
const Y: &str = "million operations/s";

/// Figure 9.
pub fn one_thread(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let (sizes, subjects) = load(settings, tell)?;
    let measured = measure(settings, &sizes, subjects, 1, tell)?;
    let fall = |scheme: &str| measured.at(scheme, 100.0) / measured.at(scheme, 0.0);
    let of_no = |scheme: &str, x: f64| measured.at(scheme, x) / measured.at("NO", x);
    let sentence = format!(
        "Measured: at 100 % updates OL does {:.0} % of NO, TL {:.0} %, LC {:.0} %, VN {:.0} %, VT {:.0} %; from 0 to 100 % updates OL keeps {:.0} % of its throughput, VN {:.0} %, VT {:.0} %.",
        100.0 * of_no("OL", 100.0),
        100.0 * of_no("TL", 100.0),
        100.0 * of_no("LC", 100.0),
        100.0 * of_no("VN", 100.0),
        100.0 * of_no("VT", 100.0),
        100.0 * fall("OL"),
        100.0 * fall("VN"),
        100.0 * fall("VT"),
    );
    let conditions = [
        ["OL", "TL"].iter().all(|scheme| of_no(scheme, 100.0) > 0.75),
        RATIOS.iter().all(|ratio| of_no("LC", *ratio as f64) < of_no("OL", *ratio as f64)),
        ["VN", "VT"].iter().all(|scheme| fall(scheme) < fall("OL")),
    ];
    Ok(Drawn {
        verdict: Verdict::of(&conditions, sentence),
        panels: vec![measured],
        settings: sizes.header(),
    })
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
    let lead = |panel: &Panel, x: f64| {
        let best = ["LC", "TL", "VN", "VT"].iter().map(|scheme| panel.at(scheme, x)).fold(0.0, f64::max);
        panel.at("OL", x) / best
    };
    let sentence = format!(
        "OL's throughput over that of the best other scheme: modelled {:.2} at 20 %, {:.2} at 60 % and {:.2} at 100 % updates; measured with {} threads {:.2}, {:.2} and {:.2}.",
        lead(&modelled, 20.0),
        lead(&modelled, 60.0),
        lead(&modelled, 100.0),
        settings.threads_max.min(8),
        lead(&measured, 20.0),
        lead(&measured, 60.0),
        lead(&measured, 100.0),
    );
    let conditions = [20.0, 60.0, 100.0].map(|x| lead(&modelled, x) > 1.1);
    let verdict = Verdict::of(&conditions, sentence);
    Ok(Drawn { verdict, panels: vec![measured, modelled], settings: sizes.header() })
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
