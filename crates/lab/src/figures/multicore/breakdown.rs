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
        &mut structures::loaded(structures::empty_t_tree(&sizes, LINE), &sizes)?,
        &sizes,
        Input::Random,
    )?;
    tell(0.6, "CSS");
    let css = structures::lookups(&mut structures::css(&sizes, LINE), &sizes, Input::Random)?;
    tell(0.7, "CSB+");
    let csb = structures::lookups(
        &mut structures::loaded(structures::empty_csb(&sizes, LINE), &sizes)?,
        &sizes,
        Input::Random,
    )?;
    let panels = panels(NAMES, &[b_plus, t, css, csb]);
    Ok(Drawn { verdict: judge_lookups(&panels[0], &panels[1]), panels, settings: sizes.header() })
}

/// By the cycles of each reason, and by the time measured here.
fn judge_lookups(cycles: &Panel, time: &Panel) -> Verdict {
    let all @ [b_plus, t, css, csb] = [0.0, 1.0, 2.0, 3.0];
    let total = |structure| REASONS.iter().map(|reason| cycles.at(reason, structure)).sum::<f64>();
    let share = |reason| cycles.at(reason, b_plus) / total(b_plus);
    let (tlb_share, l1_share) = (share("TLB misses"), share("L1 misses"));
    let ns = |structure| time.at("time", structure);
    let is_best = |reason: &str| all.iter().all(|other| cycles.at(reason, css) <= cycles.at(reason, *other));
    let best = REASONS.iter().filter(|reason| is_best(reason)).count();
    let sentence = format!(
        "Modelled cycles per lookup: CSS {:.0}, CSB+ {:.0}, B+ {:.0}, T {:.0}; TLB misses are {:.0} % of B+'s, first-level misses {:.0} %. Measured here: CSS {:.0} ns, CSB+ {:.0} ns, B+ {:.0} ns, T {:.0} ns. The CSS-tree is best by {} of {} counts.",
        total(css),
        total(csb),
        total(b_plus),
        total(t),
        100.0 * tlb_share,
        100.0 * l1_share,
        ns(css),
        ns(csb),
        ns(b_plus),
        ns(t),
        best,
        REASONS.len(),
    );
    let conditions = [
        total(css) < total(csb),
        best == REASONS.len(),
        total(csb) < total(b_plus),
        total(b_plus) < total(t),
        is_about(tlb_share, 3.0),
        is_about(l1_share, 6.0),
    ];
    Verdict::of(&conditions, sentence)
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
    let t = structures::inserts(structures::empty_t_tree(&sizes, LINE), &sizes, Input::Random)?;
    tell(0.6, "CSB+");
    let csb = structures::inserts(structures::empty_csb(&sizes, LINE), &sizes, Input::Random)?;
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

    /// The CSS-tree is best by every count, not only by their sum.
    #[test]
    fn every_count_is_asked() {
        let word = |css_mispredictions| {
            let [mut cycles, mut time] = [(); 2]
                .map(|()| Panel::new("", Source::Modelled, "", "", Scale::Bars(&["B+", "T", "CSS", "CSB+"])));
            for (structure, times) in [(0.0, 1.0), (1.0, 2.0), (2.0, 0.6), (3.0, 0.8)] {
                let of_each = [30.0, 17.0, 10.0, 33.0, 10.0].map(|cycles: f64| times * cycles);
                for (reason, value) in REASONS.into_iter().zip(of_each) {
                    let is_css = structure == 2.0 && reason == "mispredictions";
                    cycles.add(reason, structure, if is_css { css_mispredictions } else { value });
                }
                time.add("time", structure, times);
            }
            judge_lookups(&cycles, &time).word()
        };
        assert_eq!([6.0, 9.0].map(word), ["holds", "holds in part"]);
    }
}
