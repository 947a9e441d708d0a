//! What was counted, as panels of a figure; no panel where the processor counts nothing.

use crate::counters::{Counted, Event};
use crate::frame::{Panel, Scale, Source};

const UNIT: &str = "per operation";

/// What each subject of a figure was counted at.
#[derive(Default)]
pub struct Tally(Vec<Row>);

struct Row {
    series: String,
    x: f64,
    operations: f64,
    counted: Counted,
}

impl Row {
    fn per_operation(&self, event: Event) -> Option<f64> {
        Some(self.counted.get(event)?.value / self.operations)
    }

    fn is_scaled(&self, event: Event) -> bool {
        self.counted.get(event).is_some_and(|count| count.is_scaled())
    }
}

impl Tally {
    /// A subject's point: its line, its place on it, and what so many operations were counted at.
    pub fn add(&mut self, series: &str, x: f64, operations: f64, counted: &Counted) {
        self.0.push(Row { series: series.into(), x, operations, counted: counted.clone() });
    }

    /// A panel for each event, with the subjects' lines.
    pub fn by_event(&self, x: &str, scale: Scale) -> Vec<Panel> {
        let panel = |event: Event| {
            let title = format!("{}{}", capital(event.name()), self.remark(&[event]));
            let mut panel = Panel::new(title, Source::Measured, x, UNIT, scale);
            for row in &self.0 {
                if let Some(y) = row.per_operation(event) {
                    panel.add(&row.series, row.x, y);
                }
            }
            (!panel.series.is_empty()).then_some(panel)
        };
        Event::PROCESSOR.into_iter().filter_map(panel).collect()
    }

    /// Cycles and instructions in one panel, misses in another, with the events' lines: for subjects that stand side by side.
    pub fn by_subject(&self, x: &str, scale: Scale) -> Vec<Panel> {
        let panel = |(title, is_plenty): (&str, bool)| {
            let events: Vec<_> =
                Event::PROCESSOR.into_iter().filter(|event| event.is_plenty() == is_plenty).collect();
            let title = format!("{title}{}", self.remark(&events));
            let mut panel = Panel::new(title, Source::Measured, x, UNIT, scale);
            for event in events {
                for row in &self.0 {
                    if let Some(y) = row.per_operation(event) {
                        panel.add(event.name(), row.x, y);
                    }
                }
            }
            (!panel.series.is_empty()).then_some(panel)
        };
        [("Cycles and instructions", true), ("Misses", false)].into_iter().filter_map(panel).collect()
    }

    /// How the title goes on: counted, and perhaps scaled.
    fn remark(&self, events: &[Event]) -> &'static str {
        let scaled = |row: &Row| events.iter().any(|event| row.is_scaled(*event));
        if self.0.iter().any(scaled) { ", counted by turns and scaled" } else { ", counted" }
    }
}

fn capital(name: &str) -> String {
    let (first, rest) = name.split_at(1);
    first.to_uppercase() + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Count;

    const NAMES: &[&str] = &["B+", "T"];

    fn counted(counts: &[(Event, f64, f64)]) -> Counted {
        Counted(counts.iter().map(|&(event, value, share)| (event, Count { value, share })).collect())
    }

    fn tally() -> Tally {
        let mut tally = Tally::default();
        let b_plus = counted(&[(Event::Cycles, 1000.0, 1.0), (Event::L1Misses, 30.0, 0.5)]);
        let t = counted(&[(Event::Cycles, 2000.0, 1.0), (Event::PageFaults, 7.0, 1.0)]);
        tally.add("B+", 0.0, 10.0, &b_plus);
        tally.add("T", 1.0, 10.0, &t);
        tally
    }

    /// Only what was counted is drawn, per operation; what was scaled says so.
    #[test]
    fn a_panel_for_each_event() {
        let panels = tally().by_event("structure", Scale::Bars(NAMES));
        let titles: Vec<_> = panels.iter().map(|panel| panel.title.as_str()).collect();
        assert_eq!(titles, ["Cycles, counted", "L1 misses, counted by turns and scaled"]);
        assert_eq!((panels[0].at("B+", 0.0), panels[0].at("T", 1.0)), (100.0, 200.0));
        assert_eq!((panels[1].at("B+", 0.0), panels[1].series.len()), (3.0, 1));
    }

    #[test]
    fn subjects_side_by_side() {
        let panels = tally().by_subject("structure", Scale::Bars(NAMES));
        assert_eq!(panels.len(), 2);
        assert_eq!((panels[0].at("cycles", 0.0), panels[0].at("cycles", 1.0)), (100.0, 200.0));
        assert_eq!(panels[1].at("L1 misses", 0.0), 3.0);
        assert_eq!(panels[1].title, "Misses, counted by turns and scaled");
    }

    #[test]
    fn what_the_system_counts_makes_no_panel() {
        let mut tally = Tally::default();
        tally.add("B+", 0.0, 10.0, &counted(&[(Event::PageFaults, 7.0, 1.0)]));
        assert!(
            tally.by_event("", Scale::Linear).is_empty() && tally.by_subject("", Scale::Linear).is_empty()
        );
    }
}
