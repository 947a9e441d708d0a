//! Figures 2 and 3: cycles per operation by reason, with nodes of one line.

use crate::counters::Tally;
use crate::figures::multicore::structures::{self, Cost, REASONS, Sizes};
use crate::figures::study::Input;
use crate::frame::{Drawn, LabError, Panel, Scale, Settings, Source, Tell, Verdict};

/// For all structures: what the first authors of the cache-conscious ones chose.
const LINE: usize = 64;

/// Figure 2.
pub fn lookups(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    const NAMES: &[&str] = &["B+", "T", "CSS", "CSB+"];
    let sizes = Sizes::of(settings);
    tell(0.0, "B+");
    let b_plus = structures::lookups(
        &mut structures::loaded(structures::empty_b_plus::<16>(&sizes), &sizes)?,
        &sizes,
        Input::Random,
    )?;
    tell(0.3, "T");
    let t = structures::lookups(
        &mut structures::loaded(structures::empty_t_tree(LINE), &sizes)?,
        &sizes,
        Input::Random,
    )?;
    tell(0.6, "CSS");
    let css = structures::lookups(&mut structures::css(&sizes, LINE), &sizes, Input::Random)?;
    tell(0.7, "CSB+");
    let csb = structures::lookups(
        &mut structures::loaded(structures::empty_csb(LINE), &sizes)?,
        &sizes,
        Input::Random,
    )?;
    let costs = [b_plus, t, css, csb];
    let [b_plus, t, css, csb] = costs.each_ref().map(Cost::total);
    let [l1_share, tlb_share] = [1, 3].map(|reason| costs[0].cycles[reason] / b_plus);
    let sentence = format!(
        "Modelled cycles per lookup: CSS {css:.0}, CSB+ {csb:.0}, B+ {b_plus:.0}, T {t:.0}; TLB misses are {:.0} % of B+'s, first-level misses {:.0} %. Measured here: CSS {:.0} ns, CSB+ {:.0} ns, B+ {:.0} ns, T {:.0} ns.",
        100.0 * tlb_share,
        100.0 * l1_share,
        costs[2].ns,
        costs[3].ns,
        costs[0].ns,
        costs[1].ns,
    );
    let conditions = [css < csb, csb < b_plus, b_plus < t, is_about(tlb_share, 3.0), is_about(l1_share, 6.0)];
    let verdict = Verdict::of(&conditions, sentence);
    Ok(Drawn { panels: panels(NAMES, &costs), verdict, settings: sizes.header() })
}

/// Is this share about one in so many: within a half of it?
fn is_about(share: f64, one_in: f64) -> bool {
    (0.5..1.5).contains(&(share * one_in))
}

/// Figure 3.
pub fn inserts(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    const NAMES: &[&str] = &["B+", "T", "CSB+"];
    let sizes = Sizes::of(settings);
    tell(0.0, "B+");
    let b_plus = structures::inserts(structures::empty_b_plus::<16>(&sizes), &sizes, Input::Random)?;
    tell(0.3, "T");
    let t = structures::inserts(structures::empty_t_tree(LINE), &sizes, Input::Random)?;
    tell(0.6, "CSB+");
    let csb = structures::inserts(structures::empty_csb(LINE), &sizes, Input::Random)?;
    let costs = [b_plus, t, csb];
    let sentence = format!(
        "Modelled cycles per insert: B+ {:.0}, T {:.0}, CSB+ {:.0}, of which busy {:.0}, {:.0} and {:.0}. Measured here: {:.0}, {:.0} and {:.0} ns.",
        costs[0].total(),
        costs[1].total(),
        costs[2].total(),
        costs[0].cycles[0],
        costs[1].cycles[0],
        costs[2].cycles[0],
        costs[0].ns,
        costs[1].ns,
        costs[2].ns,
    );
    let verdict = Verdict::of(
        &[costs[2].cycles[0] > costs[0].cycles[0], costs[2].counts.l1_misses > costs[0].counts.l1_misses],
        sentence,
    );
    Ok(Drawn { panels: panels(NAMES, &costs), verdict, settings: sizes.header() })
}

fn panels(names: &'static [&'static str], costs: &[Cost]) -> Vec<Panel> {
    let mut cycles = Panel::new(
        "By reason, machine B",
        Source::Modelled,
        "structure",
        "cycles per operation",
        Scale::Bars(names),
    );
    let mut time =
        Panel::new("On this machine", Source::Measured, "structure", "ns per operation", Scale::Bars(names));
    let mut tally = Tally::default();
    for (at, cost) in costs.iter().enumerate() {
        for (reason, value) in REASONS.into_iter().zip(cost.cycles) {
            cycles.add(reason, at as f64, value);
        }
        time.add("time", at as f64, cost.ns);
        tally.add(names[at], at as f64, cost.timed, &cost.counted);
    }
    let counted = tally.by_subject("structure", Scale::Bars(names));
    [cycles, time].into_iter().chain(counted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_is_neither_a_tenth_nor_two_thirds() {
        assert_eq!([0.1, 0.3, 0.4, 0.62].map(|share| is_about(share, 3.0)), [false, true, true, false]);
    }
}
