//! Figures 5 to 9: keys of 4 to 32 bytes, each with the node size that suits it.

use crate::figures::damon::tree::{Configuration, METHODS, Sizes};
use crate::frame::{Drawn, LabError, Panel, Scale, Settings, Source, Tell, Verdict};
use crate::trees::Method;

const KEY_BYTES: [usize; 5] = [4, 8, 16, 24, 32];
const NODE_BYTES: [usize; 5] = [128, 256, 384, 512, 1024];
const X: &str = "key size, bytes";

/// The best node size for a key size, and the time it takes.
struct Best {
    node_bytes: f64,
    ns: f64,
}

/// Lookups by both methods with prefetching, and inserts: the best node size for each key size.
struct Sweep {
    sizes: Sizes,
    linear: Vec<Best>,
    binary: Vec<Best>,
    inserts: Vec<Best>,
}

impl Sweep {
    fn new(settings: &Settings, lookups: bool, inserts: bool, tell: Tell<'_>) -> Result<Self, LabError> {
        let mut sweep =
            Self { sizes: Sizes::of(settings), linear: Vec::new(), binary: Vec::new(), inserts: Vec::new() };
        let Sizes { small, inserted, lookups: count, rounds, .. } = sweep.sizes;
        for (at, key_bytes) in KEY_BYTES.into_iter().enumerate() {
            tell(at as f64 / KEY_BYTES.len() as f64, &format!("keys of {key_bytes} bytes"));
            let configuration =
                |node_bytes, method| Configuration { node_bytes, key_bytes, method, prefetch: true };
            if lookups {
                for (name, method) in METHODS {
                    let best = best(|node_bytes| {
                        Ok(configuration(node_bytes, method).lookups(small, count, rounds)?.ns)
                    })?;
                    if name == "linear" { sweep.linear.push(best) } else { sweep.binary.push(best) }
                }
            }
            if inserts {
                sweep
                    .inserts
                    .push(best(|node_bytes| configuration(node_bytes, Method::Linear).insert_ns(inserted))?);
            }
        }
        Ok(sweep)
    }

    fn panel(&self, title: &str, y: &str, value: fn(&Best) -> f64) -> Panel {
        let mut panel = Panel::new(title, Source::Measured, X, y, Scale::Linear);
        let lines =
            [("linear search", &self.linear), ("binary search", &self.binary), ("inserts", &self.inserts)];
        for (name, line) in lines {
            for (key_bytes, best) in KEY_BYTES.into_iter().zip(line) {
                panel.add(name, key_bytes as f64, value(best));
            }
        }
        panel
    }

    fn node_sizes(&self) -> Panel {
        self.panel("Best node size", "node size, bytes", |best| best.node_bytes)
    }

    fn times(&self) -> Panel {
        self.panel("Time with the best node size", "ns per operation", |best| best.ns)
    }

    fn drawn(self, panels: Vec<Panel>, conditions: &[bool], sentence: String) -> Drawn {
        Drawn { panels, verdict: Verdict::of(conditions, sentence), settings: self.header() }
    }

    /// The sizes; inserts are not repeated, since each fills a tree of its own.
    fn header(&self) -> Vec<(&'static str, String)> {
        let mut header = self.sizes.header();
        for (_, rounds) in header.iter_mut().filter(|(name, _)| *name == "rounds") {
            match (self.linear.is_empty(), self.inserts.is_empty()) {
                (true, false) => *rounds = "1".to_owned(),
                (false, false) => rounds.push_str(" of lookups; inserts once"),
                _ => {}
            }
        }
        header
    }
}

fn best(ns: impl Fn(usize) -> Result<f64, LabError>) -> Result<Best, LabError> {
    let mut best = Best { node_bytes: 0.0, ns: f64::INFINITY };
    for node_bytes in NODE_BYTES {
        let ns = ns(node_bytes)?;
        if ns < best.ns {
            best = Best { node_bytes: node_bytes as f64, ns };
        }
    }
    Ok(best)
}

fn listed(line: &[Best]) -> String {
    let each = KEY_BYTES.into_iter().zip(line).map(|(key, best)| format!("{key}: {}", best.node_bytes));
    each.collect::<Vec<_>>().join(", ")
}

/// Does the best node size grow from the smallest key to the largest?
fn grows(line: &[Best]) -> bool {
    line[0].node_bytes < line[line.len() - 1].node_bytes
}

/// Figure 5.
pub fn best_sizes(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let sweep = Sweep::new(settings, true, false, tell)?;
    let differ =
        sweep.linear.iter().zip(&sweep.binary).any(|(linear, binary)| linear.node_bytes != binary.node_bytes);
    let sentence = format!(
        "Best node bytes by key bytes: linear search {}; binary search {}.",
        listed(&sweep.linear),
        listed(&sweep.binary),
    );
    let conditions = [grows(&sweep.linear), grows(&sweep.binary), differ];
    let panels = vec![sweep.node_sizes()];
    Ok(sweep.drawn(panels, &conditions, sentence))
}

/// Figure 6.
pub fn response_times(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let sweep = Sweep::new(settings, true, false, tell)?;
    let ratios: Vec<_> =
        sweep.linear.iter().zip(&sweep.binary).map(|(linear, binary)| linear.ns / binary.ns).collect();
    let wins = ratios.iter().filter(|ratio| **ratio < 1.0).count();
    let each: Vec<_> =
        KEY_BYTES.iter().zip(&ratios).map(|(key, ratio)| format!("{key}: {ratio:.2}")).collect();
    let sentence = format!(
        "Linear search is the faster one for {wins} of {} key sizes; its time over binary search's, by key bytes: {}.",
        ratios.len(),
        each.join(", "),
    );
    let conditions: Vec<_> = ratios.iter().map(|ratio| *ratio < 1.0).collect();
    let panels = vec![sweep.times()];
    Ok(sweep.drawn(panels, &conditions, sentence))
}

/// Figure 7.
pub fn scans(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let sizes = Sizes::of(settings);
    let mut panel =
        Panel::new("Scan, nodes of 256 bytes", Source::Measured, X, "ns per entry", Scale::Linear);
    for (at, key_bytes) in KEY_BYTES.into_iter().enumerate() {
        tell(at as f64 / KEY_BYTES.len() as f64, &format!("keys of {key_bytes} bytes"));
        for (name, prefetch) in [("no prefetching", false), ("prefetching", true)] {
            let configuration =
                Configuration { node_bytes: 256, key_bytes, method: Method::Linear, prefetch };
            panel.add(name, key_bytes as f64, configuration.scan_ns(sizes.large, sizes.rounds)?);
        }
    }
    Ok(Drawn { verdict: judge_scans(&panel), panels: vec![panel], settings: sizes.header() })
}

fn judge_scans(panel: &Panel) -> Verdict {
    let growth = |name: &str| panel.at(name, 32.0) / panel.at(name, 4.0);
    let gain = panel.at("no prefetching", 32.0) / panel.at("prefetching", 32.0);
    let sentence = format!(
        "From 4 to 32 bytes a scan takes {:.2} times as long without prefetching and {:.2} times with it; with keys of 32 bytes prefetching makes it {gain:.2} times as fast.",
        growth("no prefetching"),
        growth("prefetching"),
    );
    // Much faster: in two thirds of the time; nearly independent of keys eight times as long: not twice as slow by far.
    let conditions = [growth("no prefetching") > 1.2, growth("prefetching") < 1.5, gain > 1.5];
    Verdict::of(&conditions, sentence)
}

/// Figure 8.
pub fn best_for_inserts(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let sweep = Sweep::new(settings, false, true, tell)?;
    let sentence = format!("Best node bytes for inserts by key bytes: {}.", listed(&sweep.inserts));
    let conditions = [sweep.inserts.iter().any(|best| best.node_bytes != sweep.inserts[0].node_bytes)];
    let panels = vec![sweep.node_sizes(), sweep.times()];
    Ok(sweep.drawn(panels, &conditions, sentence))
}

/// Figure 9.
pub fn configuration(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let sweep = Sweep::new(settings, true, true, tell)?;
    let differ = sweep
        .linear
        .iter()
        .zip(&sweep.inserts)
        .filter(|(lookup, insert)| lookup.node_bytes != insert.node_bytes);
    let differ = differ.count();
    let sentence = format!(
        "Best node bytes by key bytes: linear lookups {}; binary lookups {}; inserts {}. Lookups and inserts want different nodes for {differ} of {} key sizes.",
        listed(&sweep.linear),
        listed(&sweep.binary),
        listed(&sweep.inserts),
        KEY_BYTES.len(),
    );
    let panels = vec![sweep.node_sizes(), sweep.times()];
    Ok(sweep.drawn(panels, &[differ > 0], sentence))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A little faster is not much faster, and a little less dependent on the key size is not independent.
    #[test]
    fn prefetching_must_make_scans_much_faster() {
        let verdict = |[short, long, fetched_short, fetched_long]: [f64; 4]| {
            let mut panel = Panel::new("", Source::Measured, X, "ns", Scale::Linear);
            let lines = [("no prefetching", short, long), ("prefetching", fetched_short, fetched_long)];
            for (name, short, long) in lines {
                panel.add(name, 4.0, short);
                panel.add(name, 32.0, long);
            }
            judge_scans(&panel).word()
        };
        assert_eq!(verdict([2.0, 4.0, 1.0, 1.2]), "holds");
        assert_eq!(verdict([1.0, 4.57, 1.42, 4.04]), "holds in part");
    }

    #[test]
    fn the_header_says_what_was_repeated() {
        let best = || vec![Best { node_bytes: 128.0, ns: 1.0 }];
        let rounds = |lookups: Vec<Best>, inserts: Vec<Best>| {
            let sizes = Sizes::of(&Settings::quick(1));
            let header = Sweep { sizes, linear: lookups, binary: Vec::new(), inserts }.header();
            header.into_iter().find(|(name, _)| *name == "rounds").expect("it is there").1
        };
        assert_eq!(rounds(best(), Vec::new()), "3; medians");
        assert_eq!(rounds(Vec::new(), best()), "1");
        assert_eq!(rounds(best(), best()), "3; medians of lookups; inserts once");
    }
}
