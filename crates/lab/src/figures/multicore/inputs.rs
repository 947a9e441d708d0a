//! Figures 4 and 5: sequential, random and skewed keys.

use crate::counters::Tally;
use crate::figures::multicore::structures::{self, Cost, Sizes};
use crate::figures::study::Input;
use crate::frame::{Drawn, LabError, Panel, Scale, Settings, Source, Tell, Verdict};

/// Figure 4.
pub fn lookups(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    const NAMES: &[&str] = &["B+", "T", "CSS", "CSB+"];
    let sizes = Sizes::of(settings);
    tell(0.0, "loading");
    let mut b_plus = structures::loaded(structures::empty_b_plus::<16>(&sizes), &sizes)?;
    let mut t = structures::loaded(structures::empty_t_tree(64), &sizes)?;
    let mut css = structures::css(&sizes, 64);
    let mut csb = structures::loaded(structures::empty_csb(64), &sizes)?;
    let mut rows = Vec::new();
    for (name, input) in
        [("sequential", Input::Sequential), ("random", Input::Random), ("skewed", Input::Skewed)]
    {
        tell(0.5, name);
        let costs = vec![
            structures::lookups(&mut b_plus, &sizes, input)?,
            structures::lookups(&mut t, &sizes, input)?,
            structures::lookups(&mut css, &sizes, input)?,
            structures::lookups(&mut csb, &sizes, input)?,
        ];
        rows.push((name, costs));
    }
    Ok(drawn(NAMES, rows, &sizes))
}

/// Figure 5.
pub fn inserts(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    const NAMES: &[&str] = &["B+", "T", "CSB+"];
    let sizes = Sizes::of(settings);
    let mut rows = Vec::new();
    for (name, input) in [("sequential", Input::Sequential), ("random", Input::Random)] {
        tell(0.5, name);
        let costs = vec![
            structures::inserts(structures::empty_b_plus::<16>(&sizes), &sizes, input)?,
            structures::inserts(structures::empty_t_tree(64), &sizes, input)?,
            structures::inserts(structures::empty_csb(64), &sizes, input)?,
        ];
        rows.push((name, costs));
    }
    Ok(drawn(NAMES, rows, &sizes))
}

/// A figure of the study: what a cost amounts to.
type Amount = fn(&Cost) -> f64;

fn drawn(names: &'static [&'static str], rows: Vec<(&str, Vec<Cost>)>, sizes: &Sizes) -> Drawn {
    let kinds: [(&str, Source, &str, Amount); 4] = [
        ("All cycles, machine B", Source::Modelled, "cycles per operation", Cost::total),
        ("Cache and TLB misses", Source::Modelled, "cycles per operation", |cost| {
            cost.cycles[1..4].iter().sum()
        }),
        ("Mispredicted branches", Source::Modelled, "per operation", |cost| {
            cost.counts.mispredicted as f64 / cost.sample
        }),
        ("On this machine", Source::Measured, "ns per operation", |cost| cost.ns),
    ];
    let mut panels = Vec::new();
    for (title, source, unit, amount) in kinds {
        let mut panel = Panel::new(title, source, "structure", unit, Scale::Bars(names));
        for (input, costs) in &rows {
            costs.iter().enumerate().for_each(|(at, cost)| panel.add(input, at as f64, amount(cost)));
        }
        panels.push(panel);
    }
    let ratio =
        |panel: &Panel, input: &str, at: usize| panel.at(input, at as f64) / panel.at("random", at as f64);
    let inputs: Vec<_> = rows.iter().map(|row| row.0).filter(|input| *input != "random").collect();
    let cheaper =
        |panel: &Panel, input: &str| (0..names.len()).all(|structure| ratio(panel, input, structure) < 1.0);
    let conditions: Vec<_> =
        inputs.iter().flat_map(|input| [0, 3].map(|panel| cheaper(&panels[panel], input))).collect();
    let each = |input: &&str| {
        let of = |panel: &Panel| {
            let percents =
                (0..names.len()).map(|at| format!("{} {:.0} %", names[at], 100.0 * ratio(panel, input, at)));
            percents.collect::<Vec<_>>().join(", ")
        };
        format!("Of random keys' cost, {input} keys take: {}; measured: {}.", of(&panels[0]), of(&panels[3]))
    };
    let sentence = inputs.iter().map(each).collect::<Vec<_>>().join(" ");
    let mut tally = Tally::default();
    for (input, costs) in &rows {
        for (at, cost) in costs.iter().enumerate() {
            tally.add(input, at as f64, cost.timed, &cost.counted);
        }
    }
    panels.extend(tally.by_event("structure", Scale::Bars(names)));
    Drawn { verdict: Verdict::of(&conditions, sentence), panels, settings: sizes.header() }
}
