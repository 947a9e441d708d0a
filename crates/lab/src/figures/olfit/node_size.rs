//! Figure 6: OLFIT's throughput by node size, B+-tree and CSB+-tree, searches and inserts.

use crate::figures::olfit::subject::{Load, Loaded, Subject};
use crate::figures::olfit::work::{Keys, value_of};
use crate::frame::{Drawn, LabError, Panel, Scale, Settings, Source, Tell, Verdict, median};
use crate::olfit::Optimistic;
use foreshore_index::CsbMap;
use foreshore_workloads::random::Random;
use std::time::Instant;

/// Operations per second: searches, and the inserts that built the tree.
struct Rates {
    search: f64,
    insert: f64,
}

type Measure = fn(&Keys, u64, u64) -> Result<Rates, LabError>;

/// Node bytes, and how to measure them. A CSB+ node is named by the bytes of its keys.
const BPLUS: [(u32, Measure); 6] = [
    (64, bplus::<16>),
    (128, bplus::<32>),
    (192, bplus::<48>),
    (256, bplus::<64>),
    (384, bplus::<96>),
    (512, bplus::<128>),
];
const CSB: [(u32, Measure); 4] = [(64, csb::<16>), (128, csb::<32>), (256, csb::<64>), (512, csb::<128>)];

/// Figure 6.
pub fn draw(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let (count, searches) = settings.pick((200_000, 100_000), (10_000_000, 1_000_000));
    let rounds = settings.pick(3, 1);
    let keys = Keys::new(count, settings.seed);
    let mut panel =
        Panel::new("One thread", Source::Measured, "node size, bytes", "million operations/s", Scale::Linear);
    let structures = [("B+", &BPLUS[..]), ("CSB+", &CSB[..])];
    for (at, (name, sizes)) in structures.into_iter().enumerate() {
        for &(bytes, measure) in sizes {
            tell(0.5 * at as f64 + f64::from(bytes) / 1100.0, &format!("{name}, nodes of {bytes} bytes"));
            let rates: Result<Vec<_>, _> =
                (0..rounds).map(|_| measure(&keys, searches, settings.seed)).collect();
            let (search, insert) = rates?.into_iter().map(|rates| (rates.search, rates.insert)).unzip();
            panel.add(&format!("{name} search"), f64::from(bytes), median(search) / 1e6);
            panel.add(&format!("{name} insert"), f64::from(bytes), median(insert) / 1e6);
        }
    }
    let verdict = judge(&panel);
    let header =
        vec![("keys", count.to_string()), ("searches", searches.to_string()), ("rounds", rounds.to_string())];
    Ok(Drawn { panels: vec![panel], verdict, settings: header })
}

fn judge(panel: &Panel) -> Verdict {
    let best = |name: &str| {
        let series = panel.series.iter().find(|series| series.name == name).expect("drawn above");
        series.points.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).expect("has points").0
    };
    let (search, insert, csb) = (best("B+ search"), best("B+ insert"), best("CSB+ insert"));
    let kept = |name: &str| panel.at(name, 512.0) / panel.at(name, 128.0);
    let sentence = format!(
        "B+ searches are fastest with nodes of {search} bytes, B+ inserts with {insert}, CSB+ inserts with {csb}; 128-byte nodes reach {:.0} % of the best search. With nodes of 512 bytes instead of 128, B+ inserts keep {:.0} % of their throughput, CSB+ inserts {:.0} %.",
        100.0 * panel.at("B+ search", 128.0) / panel.at("B+ search", search),
        100.0 * kept("B+ insert"),
        100.0 * kept("CSB+ insert"),
    );
    let near = |name: &str, x: f64| panel.at(name, 128.0) > 0.9 * panel.at(name, x);
    let conditions =
        [near("B+ search", search), near("B+ insert", insert), kept("CSB+ insert") < kept("B+ insert")];
    Verdict::of(&conditions, sentence)
}

fn bplus<const W: usize>(keys: &Keys, searches: u64, seed: u64) -> Result<Rates, LabError> {
    let tree = Loaded::empty(keys); // its memory is not the inserts'
    let begun = Instant::now();
    let loaded: Loaded<Optimistic, W> = Loaded::filled(tree, keys)?;
    let insert = keys.count() as f64 / begun.elapsed().as_secs_f64();
    let search = loaded.measure(Load { threads: 1, operations: searches, update_percent: 0, seed })?;
    loaded.check()?;
    Ok(Rates { search, insert })
}

fn csb<const F: usize>(keys: &Keys, searches: u64, seed: u64) -> Result<Rates, LabError> {
    let map: CsbMap<u32, F> = CsbMap::new();
    let begun = Instant::now();
    let new = keys.inserted().filter(|&key| map.insert(key, u64::from(value_of(key))).is_none()).count();
    let insert = keys.count() as f64 / begun.elapsed().as_secs_f64();
    let mut random = Random::new(seed, 0);
    let begun = Instant::now();
    let right = (0..searches).filter(|_| {
        let key = keys.any(&mut random);
        map.get(key) == Some(u64::from(value_of(key)))
    });
    let right = right.count() as u64;
    let search = searches as f64 / begun.elapsed().as_secs_f64();
    if new == keys.count() && right == searches {
        Ok(Rates { search, insert })
    } else {
        Err(LabError::Wrong(format!("CSB+, {F} keys per node: {new} inserted, {right} of {searches} found")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csb_inserts_must_lose_faster_with_larger_nodes() {
        let verdict = |csb_at_512| {
            let mut panel = Panel::new("", Source::Measured, "node size", "", Scale::Linear);
            for (x, b_plus, csb) in [(64.0, 1.8, 1.9), (128.0, 2.0, 2.0), (512.0, 1.8, csb_at_512)] {
                ["B+ search", "B+ insert", "CSB+ search"].iter().for_each(|name| panel.add(name, x, b_plus));
                panel.add("CSB+ insert", x, csb);
            }
            judge(&panel).word()
        };
        assert_eq!([1.5, 1.9].map(verdict), ["holds", "holds in part"]);
    }
}
