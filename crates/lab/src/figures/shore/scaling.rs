//! Where insertion would stop to scale, and what each way out is worth.

use crate::figures::shore::design::{self, CORES, Design};
use crate::figures::shore::runs::{Effort, INSERT, words};
use crate::frame::{Drawn, LabError, Panel, Scale, Settings, Source, Tell, Verdict};

const TODAY: &str = "one reservation word (today)";

const DESIGNS: [(&str, Design); 4] = [
    (TODAY, Design::TODAY),
    ("8 log streams", Design { streams: 8, ..Design::TODAY }),
    ("log mutex", Design { log_mutex: true, ..Design::TODAY }),
    ("pool mutex", Design { pool_mutexes: 1, ..Design::TODAY }),
];

/// The figure.
pub fn scaling(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let rows = settings.pick(300, 3000);
    let rate = "million rows/s";
    let panel = |title: &str, source, y| Panel::new(title, source, "cores", y, Scale::Doubling);
    let mut rates = panel("Record insertion", Source::Modelled, rate);
    let mut misses = panel("Lines taken from another core", Source::Modelled, "coherence misses per row");
    for (name, design) in DESIGNS {
        for cores in CORES {
            tell(0.1, &format!("{name}, {cores} cores"));
            let (per_s, missed) = design.run(cores, rows, settings.seed);
            rates.add(name, cores as f64, per_s / 1e6);
            misses.add(name, cores as f64, missed);
        }
    }
    let effort = settings.pick(Effort { seconds: 0.5, rounds: 3 }, Effort { seconds: 2.0, rounds: 3 });
    let mut both = Panel::new("This machine", Source::Measured, "threads", rate, Scale::Doubling);
    let foreshore = [settings.programs.foreshore()?];
    let measured = effort.measure(&foreshore, &settings.threads(), &words(INSERT), settings.seed, tell)?;
    for (threads, per_s) in measured.of(&foreshore[0].name) {
        both.add("measured", threads as f64, per_s / 1e6);
        both.add("predicted", threads as f64, Design::TODAY.run(threads, rows, settings.seed).0 / 1e6);
    }
    let mut header = effort.header(settings);
    header.extend(design::header());
    let verdict = judge(&rates, &both, settings.threads_max as f64);
    Ok(Drawn { verdict, panels: vec![rates, misses, both], settings: header })
}

fn judge(rates: &Panel, both: &Panel, most: f64) -> Verdict {
    let speedup = |panel: &Panel, name: &str, x: f64| panel.at(name, x) / panel.at(name, 1.0);
    let (measured, predicted) = (speedup(both, "measured", most), speedup(both, "predicted", most));
    let each = |(name, _): &(&str, Design)| {
        let linear = |cores: &&usize| speedup(rates, name, **cores as f64) > 0.75 * **cores as f64;
        let until = CORES.iter().rev().find(linear).expect("one core is as fast as itself");
        format!("{name} until {until} cores, {:.0} times one at 128", speedup(rates, name, 128.0))
    };
    let sentence = format!(
        "At least three quarters of linear, in the model: {}. {most} threads here: predicted {predicted:.2} times one, measured {measured:.2}.",
        DESIGNS.iter().map(each).collect::<Vec<_>>().join("; "),
    );
    let at_most = |name: &str| rates.at(name, 128.0);
    let conditions = [
        at_most("log mutex") < 0.5 * at_most(TODAY),
        at_most("pool mutex") < at_most(TODAY),
        at_most("8 log streams") > at_most(TODAY),
        (measured - predicted).abs() < 0.2 * predicted,
    ];
    Verdict::of(&conditions, sentence)
}
