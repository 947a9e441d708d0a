//! Figures 8 and 9: the B+-tree on the study's machines A, B and C.

use crate::counters::Tally;
use crate::figures::multicore::structures::{self, Cost, Sizes};
use crate::figures::study::Input;
use crate::frame::{Drawn, LabError, Panel, Scale, Settings, Source, Tell, Verdict};
use crate::model::Machine;

const NAMES: &[&str] = &["A, Core 2 Quad", "B, Pentium D", "C, Pentium 4"];
const HERE: &[&str] = &["this machine"];
const MACHINES: [Machine; 3] = [Machine::CORE_2_QUAD, Machine::PENTIUM_D, Machine::PENTIUM_4];

/// Figure 8.
pub fn lookups(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let mut sizes = Sizes::of(settings);
    tell(0.0, "loading");
    let mut tree = structures::loaded(structures::empty_b_plus::<16>(&sizes), &sizes)?;
    draw(
        tell,
        |machine| {
            sizes.machine = machine;
            structures::lookups(&mut tree, &sizes, Input::Random)
        },
        &Sizes::of(settings),
    )
}

/// Figure 9.
pub fn inserts(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let mut sizes = Sizes::of(settings);
    draw(
        tell,
        |machine| {
            sizes.machine = machine;
            structures::inserts(structures::empty_b_plus::<16>(&sizes), &sizes, Input::Random)
        },
        &Sizes::of(settings),
    )
}

fn draw(
    tell: Tell<'_>,
    mut cost: impl FnMut(Machine) -> Result<Cost, LabError>,
    sizes: &Sizes,
) -> Result<Drawn, LabError> {
    let mut misses = Panel::new("Misses", Source::Modelled, "processor", "per operation", Scale::Bars(NAMES));
    let mut time = Panel::new("Time", Source::Modelled, "processor", "ns per operation", Scale::Bars(NAMES));
    let mut tally = Tally::default();
    for (at, machine) in MACHINES.into_iter().enumerate() {
        tell(at as f64 / 3.0, NAMES[at]);
        let ghz = machine.ghz;
        let cost = cost(machine)?;
        let counts = &cost.counts;
        let kinds = [("L1", counts.l1_misses), ("L2", counts.l2_misses), ("TLB", counts.tlb_misses)];
        kinds.into_iter().for_each(|(kind, count)| misses.add(kind, at as f64, count as f64 / cost.sample));
        time.add("time", at as f64, cost.total() / ghz);
        // Every machine's turn runs the same operations here: one of them is enough.
        if at == 0 {
            tally.add(HERE[0], 0.0, cost.timed, &cost.counted);
        }
    }
    let verdict = judge(&misses);
    let mut settings = sizes.header();
    settings.retain(|(name, _)| *name != "model");
    settings.extend(
        ["model_a", "model_b", "model_c"].into_iter().zip(MACHINES.map(|machine| machine.name.to_owned())),
    );
    let panels = [misses, time].into_iter().chain(tally.by_subject("processor", Scale::Bars(HERE))).collect();
    Ok(Drawn { verdict, panels, settings })
}

fn judge(misses: &Panel) -> Verdict {
    let each = |kind: &str| [0.0, 1.0, 2.0].map(|at| misses.at(kind, at));
    let (l1, l2, tlb) = (each("L1"), each("L2"), each("TLB"));
    let listed = |values: [f64; 3]| values.map(|value| format!("{value:.2}")).join(", ");
    let sentence = format!(
        "Misses per operation on A, B, C: first level {}; second level {}; TLB {}.",
        listed(l1),
        listed(l2),
        listed(tlb),
    );
    // Far more: half as many again at least.
    Verdict::of(&[l1[0] < l1[1], l1[1] < l1[2], l2[2] > 1.5 * l2[1]], sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_more_is_not_far_more() {
        let word = |l2_of_c| {
            let mut misses = Panel::new("", Source::Modelled, "processor", "", Scale::Bars(NAMES));
            for (kind, of_each) in [("L1", [6.0, 7.0, 8.0]), ("L2", [3.5, 3.5, l2_of_c]), ("TLB", [6.0; 3])] {
                (0..3).zip(of_each).for_each(|(at, count)| misses.add(kind, f64::from(at), count));
            }
            judge(&misses).word()
        };
        assert_eq!([7.0, 4.5].map(word), ["holds", "holds in part"]);
    }
}
