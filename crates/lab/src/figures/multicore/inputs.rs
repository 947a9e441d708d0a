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
    let mut t = structures::loaded(structures::empty_t_tree(&sizes, 64), &sizes)?;
    let mut css = structures::css(&sizes, 64);
    let mut csb = structures::loaded(structures::empty_csb(&sizes, 64), &sizes)?;
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
    Ok(drawn(NAMES, rows, &sizes, judge_lookups))
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
            structures::inserts(structures::empty_t_tree(&sizes, 64), &sizes, input)?,
            structures::inserts(structures::empty_csb(&sizes, 64), &sizes, input)?,
        ];
        rows.push((name, costs));
    }
    Ok(drawn(NAMES, rows, &sizes, judge_inserts))
}

/// A figure of the study: what a cost amounts to.
type Amount = fn(&Cost) -> f64;

/// By a figure's first four panels, which hold cycles, misses, mispredictions and time: is the finding seen?
type Judge = fn(&[Panel], &[&str]) -> Verdict;

fn drawn(names: &'static [&'static str], rows: Vec<(&str, Vec<Cost>)>, sizes: &Sizes, judge: Judge) -> Drawn {
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
    let verdict = judge(&panels, names);
    let mut tally = Tally::default();
    for (input, costs) in &rows {
        for (at, cost) in costs.iter().enumerate() {
            tally.add(input, at as f64, cost.timed, &cost.counted);
        }
    }
    panels.extend(tally.by_event("structure", Scale::Bars(names)));
    Drawn { verdict, panels, settings: sizes.header() }
}

/// What this input costs a structure, of what random keys cost it.
fn ratio(panel: &Panel, input: &str, structure: usize) -> f64 {
    panel.at(input, structure as f64) / panel.at("random", structure as f64)
}

/// Is it below `bound` for all structures?
fn is_below(bound: f64, panel: &Panel, input: &str, names: &[&str]) -> bool {
    (0..names.len()).all(|structure| ratio(panel, input, structure) < bound)
}

/// Keys in order, and keys of which few are asked for often, cost less, since they miss and mispredict less.
fn judge_lookups(panels: &[Panel], names: &[&str]) -> Verdict {
    let inputs = ["sequential", "skewed"];
    let less = |input| panels[..4].iter().map(move |panel| is_below(1.0, panel, input, names));
    let conditions: Vec<_> = inputs.into_iter().flat_map(less).collect();
    Verdict::of(&conditions, said(panels, &inputs, names))
}

/// Much cheaper: half.
fn judge_inserts(panels: &[Panel], names: &[&str]) -> Verdict {
    let conditions = [0, 3].map(|panel| is_below(0.5, &panels[panel], "sequential", names));
    Verdict::of(&conditions, said(panels, &["sequential"], names))
}

fn said(panels: &[Panel], inputs: &[&str], names: &[&str]) -> String {
    let each = |input: &&str| {
        let of = |panel: &Panel| {
            let percents =
                (0..names.len()).map(|at| format!("{} {:.0} %", names[at], 100.0 * ratio(panel, input, at)));
            percents.collect::<Vec<_>>().join(", ")
        };
        format!(
            "Of random keys' cost, {input} keys take: {}; of their misses: {}; of their mispredictions: {}; measured: {}.",
            of(&panels[0]),
            of(&panels[1]),
            of(&panels[2]),
            of(&panels[3]),
        )
    };
    inputs.iter().map(each).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each of four amounts, of one structure.
    fn panels(sequential: [f64; 4]) -> Vec<Panel> {
        let panel = |sequential| {
            let mut panel = Panel::new("", Source::Modelled, "structure", "", Scale::Bars(&["B+"]));
            [("sequential", sequential), ("random", 10.0), ("skewed", 8.0)]
                .into_iter()
                .for_each(|(input, cost)| panel.add(input, 0.0, cost));
            panel
        };
        sequential.map(panel).into()
    }

    /// What costs less for another reason than fewer misses and mispredictions is not what the study saw.
    #[test]
    fn the_reasons_are_asked_too() {
        let word = |sequential| judge_lookups(&panels(sequential), &["B+"]).word();
        assert_eq!(word([2.0, 3.0, 5.0, 2.0]), "holds");
        assert_eq!(word([2.0, 11.0, 5.0, 2.0]), "holds in part");
        assert_eq!(word([2.0, 3.0, 11.0, 2.0]), "holds in part");
    }

    #[test]
    fn a_little_cheaper_is_not_much_cheaper() {
        let word = |sequential| judge_inserts(&panels([sequential; 4]), &["B+"]).word();
        assert_eq!([4.0, 9.0].map(word), ["holds", "differs"]);
    }
}
