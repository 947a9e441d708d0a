//! Figures 5 to 9: keys of 4 to 32 bytes, each with the node size that suits it.

use crate::figures::damon::tree::{Configuration, METHODS, Sizes};
use crate::frame::{Drawn, LabError, Panel, Scale, Settings, Source, Tell, Verdict};
use crate::trees::Method;

const KEY_BYTES: [usize; 5] = [4, 8, 16, 24, 32];
const NODE_BYTES: [usize; 5] = [128, 256, 384, 512, 1024];
const X: &str = "key size, bytes";

/// Times that are no more apart than this are not told from one another: the same sweep finds them the other way round.
const AS_GOOD: f64 = 1.1;

/// Nanoseconds of an operation with keys of one size, by node size.
#[derive(Clone, Copy)]
struct Times([f64; NODE_BYTES.len()]);

impl Times {
    fn measure(ns: impl Fn(usize) -> Result<f64, LabError>) -> Result<Self, LabError> {
        let mut times = [0.0; NODE_BYTES.len()];
        for (time, node_bytes) in times.iter_mut().zip(NODE_BYTES) {
            *time = ns(node_bytes)?;
        }
        Ok(Self(times))
    }

    /// Which node size is the best: the smallest one that is as good as any.
    fn best(&self) -> usize {
        let least = self.0.into_iter().fold(f64::INFINITY, f64::min);
        self.0.iter().position(|ns| *ns <= AS_GOOD * least).expect("the least one is")
    }

    fn node_bytes(&self) -> f64 {
        NODE_BYTES[self.best()] as f64
    }

    fn ns(&self) -> f64 {
        self.0[self.best()]
    }

    /// Does each of the two lose by the other's best node size?
    fn wants_other_than(&self, other: &Self) -> bool {
        let loses = |one: &Self, by: &Self| one.0[by.best()] > AS_GOOD * one.ns();
        loses(self, other) && loses(other, self)
    }
}

/// Lookups by both methods with prefetching, and inserts: times for each key size.
struct Sweep {
    sizes: Sizes,
    linear: Vec<Times>,
    binary: Vec<Times>,
    inserts: Vec<Times>,
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
                    let times = Times::measure(|node_bytes| {
                        Ok(configuration(node_bytes, method).lookups(small, count, rounds)?.ns)
                    })?;
                    if name == "linear" { sweep.linear.push(times) } else { sweep.binary.push(times) }
                }
            }
            if inserts {
                let of = |node_bytes| configuration(node_bytes, Method::Linear).insert_ns(inserted);
                sweep.inserts.push(Times::measure(of)?);
            }
        }
        Ok(sweep)
    }

    fn lines(&self) -> [(&'static str, &[Times]); 3] {
        [("linear search", &self.linear), ("binary search", &self.binary), ("inserts", &self.inserts)]
    }

    fn panel(&self, title: &str, y: &str, value: fn(&Times) -> f64) -> Panel {
        let mut panel = Panel::new(title, Source::Measured, X, y, Scale::Linear);
        for (name, line) in self.lines() {
            for (key_bytes, times) in KEY_BYTES.into_iter().zip(line) {
                panel.add(name, key_bytes as f64, value(times));
            }
        }
        panel
    }

    fn node_sizes(&self) -> Panel {
        self.panel("Best node size", "node size, bytes", Times::node_bytes)
    }

    fn times(&self) -> Panel {
        self.panel("Time with the best node size", "ns per operation", Times::ns)
    }

    /// All times, by which the best node sizes are told: one panel for each line.
    fn by_node_size(&self) -> impl Iterator<Item = Panel> {
        self.lines().into_iter().filter(|(_, line)| !line.is_empty()).map(|(name, line)| {
            let title = format!("By node size, {name}");
            let mut panel =
                Panel::new(title, Source::Measured, "node size, bytes", "ns per operation", Scale::Doubling);
            for (key_bytes, times) in KEY_BYTES.into_iter().zip(line) {
                for (node_bytes, ns) in NODE_BYTES.into_iter().zip(times.0) {
                    panel.add(&format!("keys of {key_bytes} bytes"), node_bytes as f64, ns);
                }
            }
            panel
        })
    }

    /// A figure whose verdict goes by best node sizes: beside its panels, the times.
    fn drawn_with_times(self, mut panels: Vec<Panel>, conditions: &[bool], sentence: String) -> Drawn {
        panels.extend(self.by_node_size());
        self.drawn(panels, conditions, sentence)
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
        header.push(("best_node", "the smallest within 10 % of the fastest".to_owned()));
        header
    }
}

fn listed(line: &[Times]) -> String {
    let each = KEY_BYTES.into_iter().zip(line).map(|(key, times)| format!("{key}: {}", times.node_bytes()));
    each.collect::<Vec<_>>().join(", ")
}

/// Does the best node size grow from the smallest key to the largest?
fn grows(line: &[Times]) -> bool {
    let (first, last) = (&line[0], &line[line.len() - 1]);
    first.best() < last.best() && first.wants_other_than(last)
}

/// For how many key sizes two lines want different nodes.
fn differ(one: &[Times], other: &[Times]) -> usize {
    one.iter().zip(other).filter(|(one, other)| one.wants_other_than(other)).count()
}

/// Does some key size want other nodes for inserts than the first one?
fn judge_inserts(inserts: &[Times]) -> bool {
    inserts.iter().any(|times| times.wants_other_than(&inserts[0]))
}

/// Figure 5.
pub fn best_sizes(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let sweep = Sweep::new(settings, true, false, tell)?;
    let sentence = format!(
        "Best node bytes by key bytes: linear search {}; binary search {}.",
        listed(&sweep.linear),
        listed(&sweep.binary),
    );
    let conditions = [grows(&sweep.linear), grows(&sweep.binary), differ(&sweep.linear, &sweep.binary) > 0];
    let panels = vec![sweep.node_sizes()];
    Ok(sweep.drawn_with_times(panels, &conditions, sentence))
}

/// Figure 6.
pub fn response_times(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let sweep = Sweep::new(settings, true, false, tell)?;
    let ratios: Vec<_> =
        sweep.linear.iter().zip(&sweep.binary).map(|(linear, binary)| linear.ns() / binary.ns()).collect();
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
    let conditions = [judge_inserts(&sweep.inserts)];
    let panels = vec![sweep.node_sizes(), sweep.times()];
    Ok(sweep.drawn_with_times(panels, &conditions, sentence))
}

/// Figure 9.
pub fn configuration(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let sweep = Sweep::new(settings, true, true, tell)?;
    let differ = differ(&sweep.linear, &sweep.inserts);
    let sentence = format!(
        "Best node bytes by key bytes: linear lookups {}; binary lookups {}; inserts {}. Lookups and inserts want different nodes for {differ} of {} key sizes.",
        listed(&sweep.linear),
        listed(&sweep.binary),
        listed(&sweep.inserts),
        KEY_BYTES.len(),
    );
    let panels = vec![sweep.node_sizes(), sweep.times()];
    Ok(sweep.drawn_with_times(panels, &[differ > 0], sentence))
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
        let times = || vec![Times([1.0; NODE_BYTES.len()])];
        let rounds = |lookups: Vec<Times>, inserts: Vec<Times>| {
            let sizes = Sizes::of(&Settings::quick(1));
            let header = Sweep { sizes, linear: lookups, binary: Vec::new(), inserts }.header();
            header.into_iter().find(|(name, _)| *name == "rounds").expect("it is there").1
        };
        assert_eq!(rounds(times(), Vec::new()), "3; medians");
        assert_eq!(rounds(Vec::new(), times()), "1");
        assert_eq!(rounds(times(), times()), "3; medians of lookups; inserts once");
    }

    /// Who has the file can find every best node size again, with the times that lose against it.
    #[test]
    fn all_times_are_kept() {
        let line = |ns: f64| (0..KEY_BYTES.len()).map(|_| Times([ns, 2.0, 3.0, 4.0, 5.0])).collect();
        let (linear, inserts) = (line(1.0), line(9.0));
        let sweep = Sweep { sizes: Sizes::of(&Settings::quick(1)), linear, binary: Vec::new(), inserts };
        let panels = vec![sweep.node_sizes()];
        let drawn = sweep.drawn_with_times(panels, &[true], String::new());
        let titles: Vec<_> = drawn.panels.iter().map(|panel| panel.title.as_str()).collect();
        assert_eq!(titles, ["Best node size", "By node size, linear search", "By node size, inserts"]);
        for key_bytes in KEY_BYTES {
            let name = format!("keys of {key_bytes} bytes");
            let kept =
                drawn.panels[2..].iter().map(|panel| NODE_BYTES.map(|bytes| panel.at(&name, bytes as f64)));
            assert_eq!(kept.collect::<Vec<_>>(), [[9.0, 2.0, 3.0, 4.0, 5.0]]);
        }
    }

    /// Times that waver by a little want no other nodes, whichever is the least by accident.
    #[test]
    fn different_nodes_must_matter() {
        let wavering = [Times([1.0, 1.03, 1.02, 0.99, 1.0]), Times([1.02, 1.0, 0.98, 1.03, 1.01])];
        assert!(!judge_inserts(&wavering) && !grows(&wavering));
        assert_eq!(differ(&wavering[..1], &wavering[1..]), 0);
        let clear = [Times([1.0, 1.2, 1.4, 1.6, 1.8]), Times([2.0, 1.5, 1.2, 1.0, 1.05])];
        assert!(judge_inserts(&clear) && grows(&clear));
        assert_eq!(differ(&clear[..1], &clear[1..]), 1);
        assert_eq!([clear[0], clear[1]].map(|times| times.node_bytes()), [128.0, 512.0]);
    }
}
