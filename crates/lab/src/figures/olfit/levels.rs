//! Figure 2: how often a node of each level is changed by an insert, by formula 2 and as counted.

use crate::figures::olfit::subject::{Loaded, WORDS};
use crate::figures::olfit::work::{Keys, Stream};
use crate::frame::{Drawn, LabError, Panel, Scale, Settings, Source, Tell, Verdict};
use crate::olfit::{LockCoupling, Tree};
use crate::probe::Probe;

/// Counts changes by level.
#[derive(Default)]
struct Updates([u64; 24]);

impl Probe for Updates {
    fn updated(&mut self, level: u32) {
        self.0[level as usize] += 1;
    }
}

/// Figure 2.
pub fn draw(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let (keys, inserts) = settings.pick((200_000, 50_000), (10_000_000, 1_000_000));
    tell(0.0, "loading");
    let all = Keys::new(keys, settings.seed);
    // Fan-out 15, as in the paper, is that of the scheme with a latch per node.
    let loaded: Loaded<LockCoupling, WORDS> = Loaded::new(&all)?;
    tell(0.7, "inserting");
    let mut worker = loaded.tree.worker(Updates::default());
    let mut stream = Stream::new(&all, 0, 100, settings.seed);
    (0..inserts).try_for_each(|_| stream.insert(&loaded.tree, &mut worker))?;
    let counted = worker.probe.0;
    let height = loaded.tree.height();
    let fan_out = 0.69 * Tree::<LockCoupling, WORDS>::LEAF_MAX as f64;
    let mut panel = Panel::new(
        format!("Inserts into {keys} keys"),
        Source::Measured,
        "level (1 = root)",
        "probability of update, %",
        Scale::Linear,
    );
    for level in (0..height).rev() {
        let x = f64::from(height - level);
        panel.add("counted", x, 100.0 * counted[level as usize] as f64 / inserts as f64);
        panel.add("formula", x, 100.0 * fan_out.powi(-(level as i32)));
    }
    let verdict = judge(&panel, height);
    let settings =
        vec![("keys", keys.to_string()), ("inserts", inserts.to_string()), ("fan_out", "15".to_owned())];
    Ok(Drawn { panels: vec![panel], verdict, settings })
}

fn judge(panel: &Panel, height: u32) -> Verdict {
    let levels = (1..=height).map(f64::from);
    let apart = |x: f64| (panel.at("counted", x) - panel.at("formula", x)).abs();
    let apart = levels.map(apart).fold(0.0, f64::max);
    let above_leaves = panel.at("counted", f64::from(height - 1));
    let sentence = format!(
        "Counted and formula differ by at most {apart:.1} points; {above_leaves:.1} % of the inserts change a node above the leaves, of {height} levels.",
    );
    // The formula has a tenth of the inserts change a node above the leaves: a fifth more or less would be seen.
    Verdict::of(&[apart < 2.0, above_leaves < 25.0], sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Updates that never reach the level above the leaves, or do so twice as often, are not what the formula says.
    #[test]
    fn counted_must_be_near_the_formula() {
        let verdict = |counted| {
            let mut panel = Panel::new("", Source::Measured, "level", "%", Scale::Linear);
            for (x, counted, formula) in [(1.0, 0.1, 0.9), (2.0, counted, 9.7), (3.0, 100.0, 100.0)] {
                panel.add("counted", x, counted);
                panel.add("formula", x, formula);
            }
            judge(&panel, 3).word()
        };
        assert_eq!([9.4, 0.0, 19.0].map(verdict), ["holds", "holds in part", "holds in part"]);
    }
}
