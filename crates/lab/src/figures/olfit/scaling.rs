//! Figures 7 and 8: throughput of searches, and of inserts and deletes, as threads are added.

use crate::figures::olfit::subject::{self, Load, Subject};
use crate::figures::olfit::work::Keys;
use crate::frame::{Drawn, LabError, Panel, Scale, Settings, Source, Tell, Verdict, rounds};
use crate::model::Machine;

const CORES: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
const CORES_E5500: [usize; 4] = [1, 2, 4, 8];
const RATE: &str = "million operations/s";

/// Sizes of an experiment.
pub struct Sizes {
    /// Keys in the tree.
    pub keys: usize,
    /// Timed operations of each thread.
    pub operations: u64,
    /// Modelled operations of each core, after as many that warm its caches.
    pub modelled: u64,
    /// Rounds of which the median counts.
    pub rounds: usize,
}

impl Sizes {
    /// By the settings: the paper's, or small ones.
    pub fn of(settings: &Settings) -> Self {
        settings.pick(
            Self { keys: 200_000, operations: 60_000, modelled: 150, rounds: 3 },
            Self { keys: 10_000_000, operations: 1_000_000, modelled: 1_500, rounds: 3 },
        )
    }

    /// For a file's header.
    pub fn header(&self) -> Vec<(&'static str, String)> {
        vec![
            ("keys", self.keys.to_string()),
            ("operations_per_thread", self.operations.to_string()),
            ("modelled_operations_per_core", self.modelled.to_string()),
            ("rounds", format!("{}, by turns; medians", self.rounds)),
            ("node_bytes", "128".to_owned()),
            ("model_server", Machine::SERVER.name.to_owned()),
            ("model_e5500", Machine::E5500.name.to_owned()),
        ]
    }
}

/// Figure 7.
pub fn search(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let panels = scaling(settings, 0, tell)?;
    let verdict = judge_searches(&panels, settings.threads_max as f64);
    Ok(Drawn { panels: panels.into(), verdict, settings: Sizes::of(settings).header() })
}

fn judge_searches(panels: &[Panel; 4], most: f64) -> Verdict {
    let [measured, server, e5500, misses] = panels;
    let ratio = |panel: &Panel, scheme: &str, x: f64| panel.at(scheme, x) / panel.at("NO", x);
    let sentence = format!(
        "Modelled on the paper's machine, of NO's searches at 8 processors OL does {:.0} %, VN {:.0} %, VT {:.0} %, TL {:.0} %, LC {:.0} %; on a server of 128 cores OL {:.0} %, TL {:.1} %, LC {:.1} %. Measured at {most} threads: OL {:.0} %, TL {:.0} %, LC {:.0} %. LC has {:.1} coherence misses per search on 128 cores, OL {:.3}.",
        100.0 * ratio(e5500, "OL", 8.0),
        100.0 * ratio(e5500, "VN", 8.0),
        100.0 * ratio(e5500, "VT", 8.0),
        100.0 * ratio(e5500, "TL", 8.0),
        100.0 * ratio(e5500, "LC", 8.0),
        100.0 * ratio(server, "OL", 128.0),
        100.0 * ratio(server, "TL", 128.0),
        100.0 * ratio(server, "LC", 128.0),
        100.0 * ratio(measured, "OL", most),
        100.0 * ratio(measured, "TL", most),
        100.0 * ratio(measured, "LC", most),
        misses.at("LC", 128.0),
        misses.at("OL", 128.0),
    );
    let conditions = [
        ["OL", "VN", "VT"].iter().all(|scheme| ratio(e5500, scheme, 8.0) > 0.7),
        ["TL", "LC"].iter().all(|scheme| ratio(e5500, scheme, 8.0) < ratio(e5500, "OL", 8.0)),
        ratio(e5500, "LC", 8.0) < ratio(e5500, "TL", 8.0),
        CORES_E5500
            .windows(2)
            .all(|pair| ratio(e5500, "LC", pair[1] as f64) < ratio(e5500, "LC", pair[0] as f64)),
        ratio(e5500, "TL", 8.0) < ratio(e5500, "TL", 1.0),
        ratio(measured, "LC", most) < ratio(measured, "OL", most),
    ];
    Verdict::of(&conditions, sentence)
}

/// Figure 8.
pub fn update(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let panels = scaling(settings, 100, tell)?;
    let verdict = judge_updates(&panels, settings.threads_max as f64);
    Ok(Drawn { panels: panels.into(), verdict, settings: Sizes::of(settings).header() })
}

fn judge_updates([measured, server, e5500, _]: &[Panel; 4], most: f64) -> Verdict {
    let speedup = |panel: &Panel, scheme: &str, x: f64| panel.at(scheme, x) / panel.at(scheme, 1.0);
    let each = |panel: &Panel, x: f64| {
        let of = |scheme| format!("{scheme} {:.1}", speedup(panel, scheme, x));
        ["OL", "VN", "LC", "TL", "VT"].map(of).join(", ")
    };
    let sentence = format!(
        "Speed-up, modelled on the paper's machine with 8 processors: {}; on a server of 128 cores: {}; measured at {most} threads: {}.",
        each(e5500, 8.0),
        each(server, 128.0),
        each(measured, most),
    );
    let others = ["VN", "LC", "TL", "VT"];
    let slowly = 1.0..0.5 * speedup(e5500, "OL", 8.0);
    let conditions = [
        speedup(e5500, "OL", 8.0) > 5.0,
        ["VN", "LC"].iter().all(|scheme| slowly.contains(&speedup(e5500, scheme, 8.0))),
        ["TL", "VT"].iter().all(|scheme| speedup(e5500, scheme, 8.0) < 1.0),
        others.iter().all(|scheme| server.at("OL", 128.0) > server.at(scheme, 128.0)),
    ];
    Verdict::of(&conditions, sentence)
}

/// Four panels: measured; modelled on a server and on the paper's machine; coherence misses on the server.
fn scaling(settings: &Settings, update_percent: u64, tell: Tell<'_>) -> Result<[Panel; 4], LabError> {
    let sizes = Sizes::of(settings);
    let keys = Keys::new(sizes.keys, settings.seed);
    tell(0.05, "loading");
    let mut subjects = subject::all(&keys)?;
    if update_percent > 0 {
        subjects.retain(|subject| subject.is_concurrent());
    }
    let load = |threads, operations| Load { threads, operations, update_percent, seed: settings.seed };
    let mut measured = Panel::new("On this machine", Source::Measured, "threads", RATE, Scale::Doubling);
    for threads in settings.threads() {
        tell(0.3, &format!("{threads} threads"));
        let load = load(threads, sizes.operations);
        let medians = rounds(sizes.rounds, &mut subjects, |subject| subject.measure(load))?;
        for (subject, median) in subjects.iter().zip(medians) {
            measured.add(subject.name(), threads as f64, median / 1e6);
        }
    }
    tell(0.5, "modelling");
    let [server, e5500, misses] = modelled(&subjects, |cores| load(cores, sizes.modelled))?;
    Ok([measured, server, e5500, misses])
}

/// Three panels: the rates on a server and on the paper's machine, and coherence misses on the server.
fn modelled(
    subjects: &[Box<dyn Subject>],
    load: impl Fn(usize) -> Load + Sync,
) -> Result<[Panel; 3], LabError> {
    let panel = |title: &str, x, y| Panel::new(title, Source::Modelled, x, y, Scale::Doubling);
    let mut server = panel("A server of many cores", "cores", RATE);
    let mut e5500 = panel("The paper's machine", "processors", RATE);
    let mut misses = panel("Coherence misses, server", "cores", "coherence misses per operation");
    let found = subject::at_once(subjects, |subject| {
        let on = |machine: &Machine, cores| {
            let load = load(cores);
            let (per_s, counts) = subject.model(machine, load)?;
            let missed = counts.coherence_misses as f64 / (load.operations * cores as u64) as f64;
            Ok((cores as f64, per_s / 1e6, missed))
        };
        let points = |machine: &Machine, cores: &[usize]| {
            cores.iter().map(|&cores| on(machine, cores)).collect::<Result<Vec<_>, LabError>>()
        };
        let found = (points(&Machine::SERVER, &CORES)?, points(&Machine::E5500, &CORES_E5500)?);
        subject.check()?;
        Ok(found)
    })?;
    for (subject, (on_server, on_e5500)) in subjects.iter().zip(found) {
        for (cores, per_s, missed) in on_server {
            server.add(subject.name(), cores, per_s);
            misses.add(subject.name(), cores, missed);
        }
        for (processors, per_s, _) in on_e5500 {
            e5500.add(subject.name(), processors, per_s);
        }
    }
    Ok([server, e5500, misses])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another scheme that scales as well is not what the paper saw, even if it comes second.
    #[test]
    fn only_one_scheme_may_scale() {
        let verdict = |speedups: [f64; 5]| {
            let mut panel = Panel::new("", Source::Modelled, "cores", RATE, Scale::Doubling);
            for (scheme, speedup) in ["OL", "VN", "LC", "TL", "VT"].into_iter().zip(speedups) {
                panel.add(scheme, 1.0, 1.0);
                panel.add(scheme, 8.0, speedup);
                panel.add(scheme, 128.0, speedup);
            }
            judge_updates(&[(); 4].map(|()| panel.clone()), 8.0).word()
        };
        assert_eq!(verdict([7.5, 3.0, 2.6, 0.9, 0.9]), "holds");
        assert_eq!(verdict([7.5, 7.3, 2.6, 0.9, 0.9]), "holds in part");
        assert_eq!(verdict([7.5, 3.0, 2.6, 1.4, 0.9]), "holds in part");
    }

    /// Lock coupling is worst, and falls behind with each processor, not only from the first to the last.
    #[test]
    fn lock_coupling_must_fall_behind_step_by_step() {
        let verdict = |lc: [f64; 4], tl: f64| {
            let mut panel = Panel::new("", Source::Modelled, "cores", RATE, Scale::Doubling);
            for (at, cores) in [1.0, 2.0, 4.0, 8.0, 128.0].into_iter().enumerate() {
                let shares = [("NO", 1.0), ("OL", 0.95), ("VN", 0.97), ("VT", 0.97)];
                shares.into_iter().for_each(|(scheme, share)| panel.add(scheme, cores, share));
                panel.add("TL", cores, if cores == 1.0 { 0.9 } else { tl });
                panel.add("LC", cores, lc[at.min(3)]);
            }
            judge_searches(&[(); 4].map(|()| panel.clone()), 8.0).word()
        };
        assert_eq!(verdict([0.6, 0.5, 0.4, 0.3], 0.5), "holds");
        assert_eq!(verdict([0.6, 0.3, 0.4, 0.3], 0.5), "holds in part");
        assert_eq!(verdict([0.6, 0.5, 0.4, 0.3], 0.2), "holds in part");
    }
}
