//! Figures 2 to 4: linear and binary search, with and without prefetching, with 8-byte keys.

use crate::counters::{self, Tally};
use crate::figures::damon::tree::{Configuration, METHODS, Sizes};
use crate::frame::{Drawn, LabError, Panel, Scale, Settings, Source, Tell, Verdict};
use crate::trees::Method;

const NODE_BYTES: [usize; 7] = [128, 192, 256, 384, 512, 768, 1024];
const KEY_BYTES: usize = 8;
const X: &str = "node size, bytes";
const REASONS: [&str; 3] = ["busy", "data-cache stalls", "other stalls"];
/// Of Figure 4's bars.
const NAMES: &[&str] = &["no prefetching", "prefetching"];

/// Figure 2.
pub fn reasons(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let sizes = Sizes::of(settings);
    let mut panels: Vec<_> = REASONS
        .iter()
        .map(|reason| Panel::new(*reason, Source::Modelled, X, "cycles per lookup", Scale::Linear))
        .collect();
    let mut all = Panel::new("All cycles", Source::Modelled, X, "cycles per lookup", Scale::Linear);
    let mut time = Panel::new("On this machine", Source::Measured, X, "ns per lookup", Scale::Linear);
    let mut tally = Tally::default();
    for (at, node_bytes) in NODE_BYTES.into_iter().enumerate() {
        for (name, method) in METHODS {
            tell(at as f64 / NODE_BYTES.len() as f64, &format!("{name}, nodes of {node_bytes} bytes"));
            let configuration = Configuration { node_bytes, key_bytes: KEY_BYTES, method, prefetch: false };
            let cycles = configuration.lookup_cycles(sizes.large, sizes.lookups)?;
            panels
                .iter_mut()
                .zip(cycles)
                .for_each(|(panel, cycles)| panel.add(name, node_bytes as f64, cycles));
            all.add(name, node_bytes as f64, cycles.iter().sum());
            let timed = configuration.lookups(sizes.large, sizes.lookups, sizes.rounds)?;
            time.add(name, node_bytes as f64, timed.ns);
            tally.add(name, node_bytes as f64, timed.operations, &timed.counted);
        }
    }
    let others = &panels[2];
    let sentence = format!(
        "Modelled mispredictions cost linear search {:.0} cycles and binary search {:.0} with nodes of 128 bytes. Linear search is the faster one {}, modelled, and {}, measured.",
        others.at("linear", 128.0),
        others.at("binary", 128.0),
        linear_wins(&all),
        linear_wins(&time),
    );
    let busy = |x: f64| panels[0].at("linear", x);
    let conditions = [
        others.at("linear", 128.0) < others.at("binary", 128.0),
        busy(1024.0) > busy(128.0),
        time.at("linear", 128.0) < time.at("binary", 128.0),
        time.at("linear", 1024.0) > time.at("binary", 1024.0),
    ];
    panels.extend([all, time]);
    panels.extend(tally.by_event(X, Scale::Linear));
    let settings = [sizes.header(), vec![counters::header()]].concat();
    Ok(Drawn { panels, verdict: Verdict::of(&conditions, sentence), settings })
}

/// In which node sizes linear search wins.
fn linear_wins(panel: &Panel) -> String {
    let wins: Vec<_> = NODE_BYTES
        .iter()
        .filter(|&&bytes| panel.at("linear", bytes as f64) < panel.at("binary", bytes as f64))
        .map(ToString::to_string)
        .collect();
    if wins.is_empty() {
        "with no node size".into()
    } else {
        format!("with nodes of {} bytes", wins.join(", "))
    }
}

/// Figure 3.
pub fn prefetching(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let sizes = Sizes::of(settings);
    let mut panel = Panel::new("On this machine", Source::Measured, X, "ns per lookup", Scale::Linear);
    for (at, node_bytes) in NODE_BYTES.into_iter().enumerate() {
        tell(at as f64 / NODE_BYTES.len() as f64, &format!("nodes of {node_bytes} bytes"));
        for (name, method) in METHODS {
            for prefetch in [false, true] {
                let configuration = Configuration { node_bytes, key_bytes: KEY_BYTES, method, prefetch };
                let name = if prefetch { format!("{name}, prefetching") } else { name.to_owned() };
                panel.add(
                    &name,
                    node_bytes as f64,
                    configuration.lookups(sizes.large, sizes.lookups, sizes.rounds)?.ns,
                );
            }
        }
    }
    Ok(Drawn { verdict: judge_prefetching(&panel), panels: vec![panel], settings: sizes.header() })
}

fn judge_prefetching(panel: &Panel) -> Verdict {
    let gain = |method: &str| {
        let ratios = NODE_BYTES.map(|bytes| {
            panel.at(method, bytes as f64) / panel.at(&format!("{method}, prefetching"), bytes as f64)
        });
        ratios.iter().sum::<f64>() / ratios.len() as f64
    };
    let growth = |method: &str| panel.at(method, 1024.0) / panel.at(method, 128.0);
    let sentence = format!(
        "Prefetching makes linear search {:.2} and binary search {:.2} times as fast on average; from 128 to 1024 bytes linear search takes {:.2} times as long, binary search {:.2} times. Linear search wins {}.",
        gain("linear"),
        gain("binary"),
        growth("linear"),
        growth("binary"),
        linear_wins(panel),
    );
    let conditions = [
        gain("linear") > 1.0,
        gain("binary") > 1.0,
        growth("linear") > 1.0,
        growth("binary") < 1.0,
        panel.at("linear", 128.0) < panel.at("binary", 128.0),
        panel.at("linear", 1024.0) > panel.at("binary", 1024.0),
    ];
    Verdict::of(&conditions, sentence)
}

/// Figure 4.
pub fn stalls(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let sizes = Sizes::of(settings);
    let mut panel = Panel::new(
        "Nodes of 128 bytes, linear search",
        Source::Modelled,
        "",
        "cycles per lookup",
        Scale::Bars(NAMES),
    );
    let mut time = Panel::new("On this machine", Source::Measured, "", "ns per lookup", Scale::Bars(NAMES));
    let mut tally = Tally::default();
    for (at, prefetch) in [false, true].into_iter().enumerate() {
        tell(0.5 * at as f64, NAMES[at]);
        let configuration =
            Configuration { node_bytes: 128, key_bytes: KEY_BYTES, method: Method::Linear, prefetch };
        let cycles = configuration.lookup_cycles(sizes.large, sizes.lookups)?;
        REASONS.iter().zip(cycles).for_each(|(reason, cycles)| panel.add(reason, at as f64, cycles));
        let timed = configuration.lookups(sizes.large, sizes.lookups, sizes.rounds)?;
        time.add("time", at as f64, timed.ns);
        tally.add(NAMES[at], at as f64, timed.operations, &timed.counted);
    }
    let verdict = judge_stalls(&panel, &time);
    let panels = [panel, time].into_iter().chain(tally.by_subject("", Scale::Bars(NAMES))).collect();
    let settings = [sizes.header(), vec![counters::header()]].concat();
    Ok(Drawn { verdict, panels, settings })
}

/// By the time alone: in the model no prefetched line is waited for, whatever prefetching is worth. Much of the stalls is half of
/// them.
fn judge_stalls(cycles: &Panel, time: &Panel) -> Verdict {
    let all: f64 = REASONS.iter().map(|reason| cycles.at(reason, 0.0)).sum();
    let stalls = cycles.at(REASONS[1], 0.0);
    let much = all / (all - stalls / 2.0);
    let gain = time.at("time", 0.0) / time.at("time", 1.0);
    let sentence = format!(
        "Without half of the {stalls:.0} of {all:.0} modelled cycles that are data-cache stalls, lookups would be {much:.2} times as fast; measured, prefetching makes them {gain:.2} times as fast."
    );
    Verdict::of(&[gain > much], sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines that part, but do not cross, are not what the paper saw.
    #[test]
    fn the_methods_must_cross() {
        let verdict = |at_1024: [f64; 2]| {
            let mut panel = Panel::new("", Source::Measured, X, "ns", Scale::Linear);
            for bytes in NODE_BYTES {
                let share = (bytes - 128) as f64 / 896.0;
                for (method, at_128, at_1024) in [("linear", 1.0, at_1024[0]), ("binary", 2.0, at_1024[1])] {
                    let ns = at_128 + share * (at_1024 - at_128);
                    panel.add(method, bytes as f64, ns);
                    panel.add(&format!("{method}, prefetching"), bytes as f64, ns / 1.2);
                }
            }
            judge_prefetching(&panel).word()
        };
        assert_eq!(verdict([3.0, 1.8]), "holds");
        assert_eq!(verdict([1.5, 1.8]), "holds in part");
        assert_eq!(verdict([3.0, 2.2]), "holds in part", "binary search loses too");
    }

    /// A few percent are not much, though the model has no stalls left.
    #[test]
    fn prefetching_must_gain_what_half_of_the_stalls_cost() {
        let word = |prefetching| {
            let [mut cycles, mut time] =
                [(); 2].map(|()| Panel::new("", Source::Modelled, "", "", Scale::Bars(NAMES)));
            for (at, of_each, ns) in
                [(0.0, [280.0, 595.0, 91.0], 361.0), (1.0, [280.0, 0.0, 91.0], prefetching)]
            {
                REASONS.iter().zip(of_each).for_each(|(reason, value)| cycles.add(reason, at, value));
                time.add("time", at, ns);
            }
            judge_stalls(&cycles, &time).word()
        };
        assert_eq!([346.0, 220.0].map(word), ["differs", "holds"]);
    }
}
