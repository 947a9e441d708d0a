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
            Self { keys: 10_000_000, operations: 500_000, modelled: 1_500, rounds: 3 },
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

/// Measured; modelled on a server and on the paper's machine; coherence misses on the server.
type Panels = [Panel; 4];

/// Figure 7.
pub fn search(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let panels = scaling(settings, 0, tell)?;
    let verdict = judge_searches(&panels, settings.threads_max as f64);
    Ok(Drawn { panels: panels.concat(), verdict, settings: Sizes::of(settings).header() })
}

/// What schemes do in a panel, each as a text: `OL 93 %, VN 97 %`.
pub fn each(schemes: &[&str], text: impl Fn(&str) -> String) -> String {
    schemes.iter().map(|scheme| format!("{scheme} {}", text(scheme))).collect::<Vec<_>>().join(", ")
}

/// A scheme's searches, in those of NO.
fn of_no(panel: &Panel, scheme: &str, x: f64) -> f64 {
    panel.at(scheme, x) / panel.at("NO", x)
}

/// The B+-tree's panels, and those of the CSB+-tree, if they were drawn.
fn judge_searches(families: &[Panels], most: f64) -> Verdict {
    let (mut sentences, mut conditions) = (Vec::new(), Vec::new());
    for (family, [measured, server, e5500, misses]) in ["B+", "CSB+"].iter().zip(families) {
        let percent = |panel, x| move |scheme: &str| format!("{:.0} %", 100.0 * of_no(panel, scheme, x));
        let few = |scheme: &str| format!("{:.1} %", 100.0 * of_no(server, scheme, 128.0));
        sentences.push(format!(
            "{family}, of NO's searches: modelled on the paper's machine with 8 processors {}; on a server of 128 cores {}, {}; measured at {most} threads {}. LC has {:.1} coherence misses per search on 128 cores, OL {:.3}.",
            each(&["OL", "VN", "VT", "TL", "LC"], percent(e5500, 8.0)),
            each(&["OL"], percent(server, 128.0)),
            each(&["TL", "LC"], few),
            each(&["OL", "TL", "LC"], percent(measured, most)),
            misses.at("LC", 128.0),
            misses.at("OL", 128.0),
        ));
        let share = |scheme: &str, x: f64| of_no(e5500, scheme, x);
        conditions.extend([
            ["OL", "VN", "VT"].iter().all(|scheme| share(scheme, 8.0) > 0.7),
            ["TL", "LC"].iter().all(|scheme| share(scheme, 8.0) < share("OL", 8.0)),
            share("LC", 8.0) < share("TL", 8.0),
            CORES_E5500.windows(2).all(|pair| share("LC", pair[1] as f64) < share("LC", pair[0] as f64)),
            share("TL", 8.0) < share("TL", 1.0),
            of_no(measured, "LC", most) < of_no(measured, "OL", most),
        ]);
    }
    if let [[_, _, b_plus, _], [_, _, csb, _]] = families {
        conditions.push(of_no(csb, "OL", 8.0) < of_no(b_plus, "OL", 8.0));
    }
    Verdict::of(&conditions, sentences.join(" "))
}

/// Figure 8.
pub fn update(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let panels = scaling(settings, 100, tell)?;
    let verdict = judge_updates(&panels, settings.threads_max as f64);
    Ok(Drawn { panels: panels.concat(), verdict, settings: Sizes::of(settings).header() })
}

/// As [`judge_searches`].
fn judge_updates(families: &[Panels], most: f64) -> Verdict {
    let (mut sentences, mut conditions) = (Vec::new(), Vec::new());
    for (family, [measured, server, e5500, _]) in ["B+", "CSB+"].iter().zip(families) {
        let speedup = |panel: &Panel, scheme: &str, x: f64| panel.at(scheme, x) / panel.at(scheme, 1.0);
        let all = |panel: &Panel, x: f64| {
            each(&["OL", "VN", "LC", "TL", "VT"], |scheme| format!("{:.1}", speedup(panel, scheme, x)))
        };
        sentences.push(format!(
            "{family}, speed-up: modelled on the paper's machine with 8 processors {}; on a server of 128 cores {}; measured at {most} threads {}.",
            all(e5500, 8.0),
            all(server, 128.0),
            all(measured, most),
        ));
        let others = ["VN", "LC", "TL", "VT"];
        let slowly = 1.0..0.5 * speedup(e5500, "OL", 8.0);
        conditions.extend([
            speedup(e5500, "OL", 8.0) > 5.0,
            ["VN", "LC"].iter().all(|scheme| slowly.contains(&speedup(e5500, scheme, 8.0))),
            ["TL", "VT"].iter().all(|scheme| speedup(e5500, scheme, 8.0) < 1.0),
            others.iter().all(|scheme| server.at("OL", 128.0) > server.at(scheme, 128.0)),
        ]);
    }
    if let [[_, _, b_plus, _], [_, _, csb, _]] = families {
        let kept = |scheme: &str| csb.at(scheme, 8.0) / b_plus.at(scheme, 8.0);
        sentences.push(format!(
            "With 8 processors, modelled, CSB+ does of what B+ does: {}.",
            each(&["OL", "VN", "VT"], |scheme| format!("{:.0} %", 100.0 * kept(scheme)))
        ));
        conditions.push(["VN", "VT"].iter().all(|scheme| kept(scheme) < 1.0 && kept(scheme) < kept("OL")));
    }
    Verdict::of(&conditions, sentences.join(" "))
}

fn scaling(settings: &Settings, update_percent: u64, tell: Tell<'_>) -> Result<Vec<Panels>, LabError> {
    let sizes = Sizes::of(settings);
    let keys = Keys::new(sizes.keys, settings.seed);
    subject::of_each_family(&keys, tell, |family, mut subjects, tell| {
        if update_percent > 0 {
            subjects.retain(|subject| subject.is_concurrent());
        }
        let load = |threads, operations| Load { threads, operations, update_percent, seed: settings.seed };
        let title = format!("{family}, on this machine");
        let mut measured = Panel::new(title, Source::Measured, "threads", RATE, Scale::Doubling);
        for threads in settings.threads() {
            tell(0.3, &format!("{threads} threads"));
            let load = load(threads, sizes.operations);
            let medians = rounds(sizes.rounds, &mut subjects, |subject| subject.measure(load))?;
            for (subject, median) in subjects.iter().zip(medians) {
                measured.add(subject.name(), threads as f64, median / 1e6);
            }
        }
        tell(0.5, "modelling");
        let [server, e5500, misses] = modelled(family, &subjects, |cores| load(cores, sizes.modelled))?;
        Ok([measured, server, e5500, misses])
    })
}

/// Three panels: the rates on a server and on the paper's machine, and coherence misses on the server.
fn modelled(
    family: &str,
    subjects: &[Box<dyn Subject>],
    load: impl Fn(usize) -> Load + Sync,
) -> Result<[Panel; 3], LabError> {
    let panel =
        |title: &str, x, y| Panel::new(format!("{family}, {title}"), Source::Modelled, x, y, Scale::Doubling);
    let mut server = panel("a server of many cores", "cores", RATE);
    let mut e5500 = panel("the paper's machine", "processors", RATE);
    let mut misses = panel("coherence misses on the server", "cores", "coherence misses per operation");
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

    /// What each scheme does by numbers of cores, the same in every panel.
    fn family(rates: &[(&str, &[(f64, f64)])]) -> Panels {
        let mut panel = Panel::new("", Source::Modelled, "cores", RATE, Scale::Doubling);
        for (scheme, points) in rates {
            points.iter().for_each(|(cores, rate)| panel.add(scheme, *cores, *rate));
        }
        [(); 4].map(|()| panel.clone())
    }

    /// Updates of OL, VN, LC, TL and VT: on one processor, and on many.
    fn updates(one: f64, many: [f64; 5]) -> Panels {
        let points = many.map(|many| [(1.0, one), (8.0, many), (128.0, many)]);
        let schemes = ["OL", "VN", "LC", "TL", "VT"];
        let rates: Vec<_> = schemes.into_iter().zip(points.iter().map(|points| &points[..])).collect();
        family(&rates)
    }

    /// Another scheme that scales as well is not what the paper saw, even if it comes second.
    #[test]
    fn only_one_scheme_may_scale() {
        let verdict = |speedups| judge_updates(&[updates(1.0, speedups)], 8.0).word();
        assert_eq!(verdict([7.5, 3.0, 2.6, 0.9, 0.9]), "holds");
        assert_eq!(verdict([7.5, 7.3, 2.6, 0.9, 0.9]), "holds in part");
        assert_eq!(verdict([7.5, 3.0, 2.6, 1.4, 0.9]), "holds in part");
    }

    /// On the CSB+-tree, too; and versions lose there, whatever they gain by threads.
    #[test]
    fn versions_must_cost_more_on_the_csb_tree() {
        let b_plus = updates(1.0, [7.5, 3.0, 2.6, 0.9, 0.9]);
        let verdict = |csb| judge_updates(&[b_plus.clone(), csb], 8.0).word();
        assert_eq!(verdict(updates(0.5, [3.7, 1.2, 1.3, 0.4, 0.4])), "holds");
        assert_eq!(verdict(updates(0.5, [3.7, 3.2, 1.3, 0.4, 0.4])), "holds in part");
        assert_eq!(verdict(updates(1.1, [8.0, 3.5, 2.6, 0.9, 0.9])), "holds in part");
    }

    /// Searches in those of NO; of LC by 1, 2, 4, 8 and 128 cores, of the others but TL everywhere.
    fn searches(ol: f64, tl: f64, lc: [f64; 4]) -> Panels {
        let cores = [1.0, 2.0, 4.0, 8.0, 128.0];
        let even = |share: f64| cores.map(|cores| (cores, share));
        let falling = |at: &dyn Fn(usize) -> f64| std::array::from_fn(|place| (cores[place], at(place)));
        family(&[
            ("NO", &even(1.0)),
            ("OL", &even(ol)),
            ("VN", &even(0.97)),
            ("VT", &even(0.97)),
            ("TL", &falling(&|place| if place == 0 { 0.9 } else { tl }) as &[_; 5]),
            ("LC", &falling(&|place| lc[place.min(3)]) as &[_; 5]),
        ])
    }

    /// Lock coupling is worst, and falls behind with each processor, not only from the first to the last.
    #[test]
    fn lock_coupling_must_fall_behind_step_by_step() {
        let verdict = |lc, tl| judge_searches(&[searches(0.95, tl, lc)], 8.0).word();
        assert_eq!(verdict([0.6, 0.5, 0.4, 0.3], 0.5), "holds");
        assert_eq!(verdict([0.6, 0.3, 0.4, 0.3], 0.5), "holds in part");
        assert_eq!(verdict([0.6, 0.5, 0.4, 0.3], 0.2), "holds in part");
    }

    /// High keys cost more on the CSB+-tree, said the paper.
    #[test]
    fn the_gap_must_be_wider_on_the_csb_tree() {
        let lc = [0.6, 0.5, 0.4, 0.3];
        let verdict = |ol| judge_searches(&[searches(0.95, 0.5, lc), searches(ol, 0.5, lc)], 8.0).word();
        assert_eq!([0.9, 0.96].map(verdict), ["holds", "holds in part"]);
    }
}
