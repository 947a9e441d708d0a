//! Figures 1, 4 and 5: this engine beside others.

use crate::figures::shore::runs::{Effort, INSERT, Rates, words};
use crate::frame::{Drawn, LabError, Panel, Scale, Settings, Source, Tell, Verdict};
use crate::peers::{Missing, Subject, Versions, listed};
use std::sync::{Arc, Mutex, PoisonError};

const FORESHORE: &str = "Foreshore";

/// Who takes part, and what is to be said of those who do not.
struct Field {
    subjects: Vec<Subject>,
    /// What builds the peers, if they are not there.
    missing: Option<String>,
}

impl Field {
    fn of(settings: &Settings) -> Result<Self, LabError> {
        let mut subjects = vec![settings.programs.foreshore()?];
        let (peers, missing) = settings.programs.peers();
        subjects.extend(peers);
        Ok(Self { subjects, missing: missing.map(|missing| missing.to_string()) })
    }

    /// For a file's header: what the sizes do not say.
    fn header(&self, missing: &Missing, versions: &Versions) -> Vec<(&'static str, String)> {
        let [refused, failed] = missing.header();
        vec![refused, failed, ("not_built", listed(&self.missing)), versions.header()]
    }

    /// The end of a verdict's sentence.
    fn note(&self, missing: &Missing) -> String {
        let none = self.missing.as_ref();
        none.map_or_else(|| missing.note(), |none| format!(" No peer was measured: {none}."))
    }
}

/// What inserting records found.
type Insertion = Arc<(Field, Effort, Rates)>;

/// Record insertion on all engines: one experiment, of which the paper and this laboratory draw two figures.
fn insert(settings: &Settings, tell: Tell<'_>) -> Result<Insertion, LabError> {
    static LAST: Mutex<Option<(Settings, Insertion)>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, found)) = last.as_ref().filter(|(of, _)| of == settings) {
        return Ok(found.clone());
    }
    let field = Field::of(settings)?;
    let effort = settings.pick(Effort { seconds: 0.3, rounds: 3 }, Effort { seconds: 1.0, rounds: 3 });
    let rates = effort.measure(&field.subjects, &settings.threads(), &words(INSERT), settings.seed, tell)?;
    let found = Arc::new((field, effort, rates));
    *last = Some((settings.clone(), found.clone()));
    Ok(found)
}

/// A panel with a line for each engine; `of` makes what is drawn of threads, rate, and the rate of one thread.
fn panel(title: &str, y: &str, rates: &Rates, of: impl Fn(f64, f64, f64) -> f64) -> Panel {
    let mut panel = Panel::new(title, Source::Measured, "threads", y, Scale::Doubling);
    for name in rates.names() {
        let alone = rates.of(name).next().map_or(f64::NAN, |(_, rate)| rate);
        for (threads, rate) in rates.of(name) {
            panel.add(name, threads as f64, of(threads as f64, rate, alone));
        }
    }
    panel
}

/// The peers of a panel at x, the best one first.
fn peers_at(panel: &Panel, x: f64) -> Vec<(&str, f64)> {
    let names = panel.series.iter().map(|series| series.name.as_str()).filter(|name| *name != FORESHORE);
    let mut peers: Vec<_> = names.map(|name| (name, panel.at(name, x))).collect();
    peers.sort_by(|a, b| b.1.total_cmp(&a.1));
    peers
}

fn list(peers: &[(&str, f64)]) -> String {
    let each: Vec<_> = peers.iter().map(|(name, value)| format!("{name} {value:.2}")).collect();
    if each.is_empty() { "nobody".to_owned() } else { each.join(", ") }
}

/// Figure 1.
pub fn normalised(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let (field, effort, rates) = &*insert(settings, tell)?;
    let panel =
        panel("Record insertion", "throughput, one thread's = 1", rates, |_, rate, alone| rate / alone);
    let most = settings.threads_max as f64;
    let verdict = judge_scaling(&panel, most, &field.note(&rates.missing));
    let mut header = effort.header(settings);
    header.extend(field.header(&rates.missing, &rates.versions));
    Ok(Drawn { verdict, panels: vec![panel], settings: header })
}

/// Does no peer scale, and does Foreshore? Three quarters of linear is to scale.
fn judge_scaling(panel: &Panel, most: f64, note: &str) -> Verdict {
    let (own, peers) = (panel.at(FORESHORE, most), peers_at(panel, most));
    let sentence = format!(
        "With {most} threads instead of one, throughput is multiplied by {own:.2} for Foreshore; for the others: {}.{note}",
        list(&peers),
    );
    let all = |below: f64| !peers.is_empty() && peers.iter().all(|peer| peer.1 < below);
    Verdict::of(&[all(own), all(0.75 * most), own > 0.75 * most], sentence)
}

/// Figure 4.
pub fn insertion(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let (field, effort, rates) = &*insert(settings, tell)?;
    let panel = panel("Record insertion", "thousand rows/s, each thread", rates, |n, rate, _| rate / 1e3 / n);
    // The paper's was 2 to 4 times as fast.
    let (fact, sentence) = ahead(&panel, settings.threads_max as f64, 2.0);
    let mut header = effort.header(settings);
    header.extend(field.header(&rates.missing, &rates.versions));
    let verdict = Verdict::of(&fact, sentence + &field.note(&rates.missing));
    Ok(Drawn { verdict, panels: vec![panel], settings: header })
}

/// Figure 5.
pub fn transactions(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let field = Field::of(settings)?;
    let effort = settings.pick(Effort { seconds: 0.4, rounds: 1 }, Effort { seconds: 3.0, rounds: 1 });
    let size = settings.pick("--items 1000 --customers 100", "--items 10000 --customers 300");
    let (mut panels, mut facts, mut sentences) = (Vec::new(), Vec::new(), Vec::new());
    let (mut missing, mut versions) = (Missing::default(), Versions::default());
    for (mix, title) in [("new-order", "New Order"), ("payment", "Payment")] {
        let warehouses = settings.threads_max;
        let line = format!(
            "tpcc --mix {mix} --warehouses {warehouses} --affinity {size} --durability buffered --warm-up 0.2"
        );
        let rates =
            effort.measure(&field.subjects, &settings.threads(), &words(&line), settings.seed, tell)?;
        let panel = panel(title, "thousand tx/s, each client", &rates, |n, rate, _| rate / 1e3 / n);
        let (fact, sentence) = ahead(&panel, settings.threads_max as f64, 1.0);
        facts.extend(fact);
        sentences.push(format!("{title}: {sentence}"));
        panels.push(panel);
        missing.extend(rates.missing);
        versions.extend(rates.versions);
    }
    let mut header = effort.header(settings);
    header.push(("sizes", format!("{} warehouses, a client keeps to one; {size}", settings.threads_max)));
    header.extend(field.header(&missing, &versions));
    let verdict = Verdict::of(&facts, sentences.join(" ") + &field.note(&missing));
    Ok(Drawn { verdict, panels, settings: header })
}

/// Is Foreshore more than `times` as fast as any peer at `most` threads, and does each of its threads keep its throughput? With the
/// numbers.
fn ahead(panel: &Panel, most: f64, times: f64) -> (Vec<bool>, String) {
    let (own, alone) = (panel.at(FORESHORE, most), panel.at(FORESHORE, 1.0));
    let peers = peers_at(panel, most);
    let best = peers.first().copied().unwrap_or(("nobody", f64::NAN));
    let against = if peers.is_empty() {
        String::new()
    } else {
        format!(", {:.1} times the best peer ({})", own / best.1, best.0)
    };
    let sentence = format!(
        "At {most} threads each does {own:.1} thousand/s on Foreshore{against}, {:.0} % of what one alone does.",
        100.0 * own / alone,
    );
    (vec![!peers.is_empty() && own > times * best.1, own > 0.75 * alone], sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(engines: &[(&str, f64)]) -> Panel {
        let mut panel = Panel::new("", Source::Measured, "threads", "", Scale::Doubling);
        for (name, at_8) in engines {
            panel.add(name, 1.0, 1.0);
            panel.add(name, 8.0, *at_8);
        }
        panel
    }

    /// None of the paper's peers scales: one that does is not what it saw, if another does not.
    #[test]
    fn no_peer_may_scale() {
        let word = |lmdb| {
            judge_scaling(&panel(&[(FORESHORE, 7.5), ("lmdb", lmdb), ("rocksdb", 2.0)]), 8.0, "").word()
        };
        assert_eq!([1.0, 7.0].map(word), ["holds", "holds in part"]);
    }

    #[test]
    fn ahead_is_so_many_times_as_fast() {
        let facts = |times| ahead(&panel(&[(FORESHORE, 1.5), ("lmdb", 1.0)]), 8.0, times).0;
        assert_eq!([facts(1.0), facts(2.0)], [[true, true], [false, true]]);
    }
}
