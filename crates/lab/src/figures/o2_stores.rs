//! The O2-Tree paper's Figures 4 to 8 and 10: key-value stores beside each other, each run a process of its own.

use crate::frame::{
    Drawn, Figure, LabError, OF_FLIGHTS, Panel, Paper, Scale, Settings, Source, Tell, Verdict, median,
};
use crate::peers::{Missing, Subject, Versions, listed};

const DIFFERS: &str = "Foreshore logs every operation and the paper's stores had no log: all run in their relaxed mode, where nothing is promised about the newest writes. Keys are 32 bits, values 8 bytes. Rows are fewer, and much of them fits into caches: half a million of the paper's 20 million in Figure 4, a quarter of a million in Figure 5, a million of 20 in Figure 6, half a million a thread of 2.5 in Figures 7 and 8. Paper: Berkeley DB 5, Kyoto Cabinet, LevelDB of 2012; here Debian's, and stores of today.";

/// Those figures.
pub const FIGURES: &[Figure] = &[
    Figure {
        name: "o2-fig4",
        paper: Paper::O2Tree,
        title: "O2-Tree Figure 4: building an index, by threads",
        found: "The time to insert 20 million pairs falls from 2 to 16 threads; the O2-Tree's store is 2 to 3 times as fast as Berkeley DB and Kyoto Cabinet.",
        differs: DIFFERS,
        draw: construction,
    },
    Figure {
        name: "o2-fig5",
        paper: Paper::O2Tree,
        title: "O2-Tree Figure 5: throughput by share of updates",
        found: "With 16 threads, the O2-Tree's store is fastest at every share of updates, and falls from 1.9 to 1.3 million operations/s; the others fall alike.",
        differs: DIFFERS,
        draw: mixes,
    },
    Figure {
        name: "o2-fig6",
        paper: Paper::O2Tree,
        title: "O2-Tree Figure 6: lookups, by threads",
        found: "Lookups take less time with more threads; the O2-Tree's store is fastest, though it gains least from threads.",
        differs: DIFFERS,
        draw: lookups,
    },
    Figure {
        name: "o2-fig7",
        paper: Paper::O2Tree,
        title: "O2-Tree Figure 7: insertions, data growing with the threads",
        found: "Times grow slowly when data and threads double together; the O2-Tree's store scales as well as the others or better.",
        differs: DIFFERS,
        draw: growing_insertions,
    },
    Figure {
        name: "o2-fig8",
        paper: Paper::O2Tree,
        title: "O2-Tree Figure 8: half updates, data growing with the threads",
        found: "As Figure 7: times grow slowly, the O2-Tree's store scales as well as the others or better.",
        differs: DIFFERS,
        draw: growing_mixes,
    },
    Figure {
        name: OF_FLIGHTS,
        paper: Paper::O2Tree,
        title: "O2-Tree Figure 10: loading real rows, by threads",
        found: "Loading flight statistics, the stores are comparable; the O2-Tree's store is ahead.",
        differs: "Flights where their tables are given (--flights), else TPC-H's ORDERS; half a million rows at most, of the paper's 10 million; whole rows as values. Foreshore logs, and the paper's stores had no log: all run in their relaxed mode.",
        draw: loading,
    },
];

/// This engine's table with the index of the paper.
const O2: &str = "Foreshore, O2 index";

/// The stores that the paper measures.
const OF_THE_PAPER: [(&str, &str); 3] =
    [("berkeleydb", "Berkeley DB"), ("kyoto", "Kyoto TreeDB"), ("leveldb", "LevelDB")];
/// Which of them logs nothing in its relaxed mode, so that a killed process may leave no store at all; all others do log.
const WITHOUT_LOG: &str = "Kyoto TreeDB";
/// Stores of today; few of them in a quick run.
const OF_TODAY: [(&str, &str); 5] = [
    ("wiredtiger", "WiredTiger"),
    ("lmdb", "LMDB"),
    ("rocksdb", "RocksDB"),
    ("redb", "redb"),
    ("fjall", "fjall"),
];

/// A store in a figure.
struct Store {
    name: &'static str,
    subject: Subject,
    /// What it is told beside what all are told.
    flags: &'static str,
}

/// The stores that there are, and what builds the others.
struct Field {
    stores: Vec<Store>,
    missing: Option<String>,
}

impl Field {
    fn of(settings: &Settings) -> Result<Self, LabError> {
        let foreshore = settings.programs.foreshore()?;
        let mut stores = vec![
            Store { name: O2, subject: foreshore.clone(), flags: " --index o2" },
            Store { name: "Foreshore", subject: foreshore, flags: "" },
        ];
        let (peers, missing) = settings.programs.peers();
        let today = settings.pick(2, OF_TODAY.len());
        for (engine, name) in OF_THE_PAPER.iter().chain(&OF_TODAY[..today]) {
            let found = peers.iter().find(|peer| peer.name == *engine);
            stores.extend(found.map(|peer| Store { name, subject: peer.clone(), flags: "" }));
        }
        Ok(Self { stores, missing: missing.map(|missing| missing.to_string()) })
    }
}

/// What is run at a point of the x axis.
struct Point {
    x: f64,
    /// `bench` and its flags.
    line: String,
    /// Of how many operations times are told.
    operations: u64,
}

/// What is drawn of a rate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// Million operations/s.
    Millions,
    /// Seconds for the point's operations.
    Seconds,
}

impl Shown {
    fn of(self, rate: f64, operations: u64) -> f64 {
        match self {
            Self::Millions => rate / 1e6,
            Self::Seconds => operations as f64 / rate,
        }
    }
}

/// How the line of the O2-Tree's store goes from the first x to the last, in the paper.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Course {
    /// The paper says nothing of it.
    Any,
    /// It falls.
    Falls,
    /// It falls, less than the others'.
    FallsLeast,
    /// It grows slowly, and no faster than the others'; who is ahead is not said then. Slowly is: by less than the square root of
    /// what x, and the data with it, grows by.
    GrowsSlowly,
}

/// A figure on its way: what is asked of all stores, and what they did.
struct Study {
    panel: Panel,
    points: Vec<Point>,
    shown: Shown,
    course: Course,
    /// So many times as fast as the B-trees, Berkeley DB and Kyoto Cabinet, is the paper's store at least, if it is ahead.
    lead: f64,
    /// Flags that say where files lie on this machine, and so are not recorded.
    places: Vec<String>,
}

/// What the stores did.
#[derive(Default)]
struct Found {
    /// Of each store, at each point, in each round.
    rates: Vec<Vec<Vec<f64>>>,
    missing: Missing,
    versions: Versions,
}

const ROUNDS: usize = 3;

impl Study {
    fn new(panel: Panel, shown: Shown, course: Course, points: Vec<Point>) -> Self {
        Self { panel, points, shown, course, lead: 1.0, places: Vec::new() }
    }

    /// Runs all points on all stores and draws the medians of the rounds.
    fn draw(mut self, settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
        let field = Field::of(settings)?;
        let Found { rates, missing, versions } = self.measure(&field, settings, tell)?;
        for (store, rates) in field.stores.iter().zip(rates) {
            for (point, rates) in self.points.iter().zip(rates).filter(|(_, rates)| !rates.is_empty()) {
                self.panel.add(store.name, point.x, self.shown.of(median(rates), point.operations));
            }
        }
        let [refused, failed] = missing.header();
        let header = vec![
            ("rounds", format!("{ROUNDS}, by turns; medians")),
            ("runs", listed(self.points.iter().map(|point| &point.line))),
            ("durability", "relaxed".to_owned()),
            settings.programs.filesystem(),
            versions.header(),
            ("cache_bytes", cache_bytes(settings).to_string()),
            refused,
            failed,
            ("not_built", listed(&field.missing)),
        ];
        Ok(Drawn {
            verdict: self.verdict(field.missing, &missing),
            panels: vec![self.panel],
            settings: header,
        })
    }

    /// All rounds, by turns. A store that refuses or fails once is left out, also where it has run.
    fn measure(&self, field: &Field, settings: &Settings, tell: Tell<'_>) -> Result<Found, LabError> {
        let rates = vec![vec![Vec::new(); self.points.len()]; field.stores.len()];
        let mut found = Found { rates, ..Found::default() };
        for round in 0..ROUNDS {
            for (at, point) in self.points.iter().enumerate() {
                let done = (round * self.points.len() + at) as f64 / (ROUNDS * self.points.len()) as f64;
                for (store, rates) in field.stores.iter().zip(&mut found.rates) {
                    if found.missing.has(store.name) {
                        continue;
                    }
                    tell(done, &format!("{}, {} {}", store.name, self.panel.x, point.x));
                    let run = store.subject.bench(&self.args(point, store, settings, round))?;
                    if let Some((rate, report)) = found.missing.or_found(store.name, run) {
                        found.versions.note(store.name, &report);
                        rates[at].push(rate);
                    } else {
                        rates.iter_mut().for_each(Vec::clear);
                    }
                }
            }
        }
        Ok(found)
    }

    fn args(&self, point: &Point, store: &Store, settings: &Settings, round: usize) -> Vec<String> {
        let shared = format!(
            "{}{} --durability relaxed --cache {} --seed {}",
            point.line,
            store.flags,
            cache_bytes(settings),
            settings.seed.wrapping_add(round as u64)
        );
        shared.split(' ').map(str::to_owned).chain(self.places.iter().cloned()).collect()
    }

    /// Is the store with the O2 index as far ahead of each of the paper's stores as theirs, at every x, and does its line go as
    /// theirs did? Of those of today, who is ahead of it?
    fn verdict(&self, not_built: Option<String>, missing: &Missing) -> Verdict {
        if self.course != Course::Any && self.ends().is_none_or(|(first, last)| first == last) {
            return Verdict::Differs("Only one thread ran, so nothing is told of more.".to_owned());
        }
        let mut conditions = Vec::new();
        let mut said = Vec::new();
        for (_, name) in OF_THE_PAPER {
            let Some(factors) = self.factors(name) else { continue };
            let lead = if name == "LevelDB" { 1.0 } else { self.lead };
            conditions.push(match self.course {
                Course::Any | Course::Falls | Course::FallsLeast => {
                    factors.iter().all(|factor| *factor > lead)
                }
                Course::GrowsSlowly => self.growth(O2) < AS_WELL * self.growth(name),
            });
            let least = factors.iter().copied().fold(f64::INFINITY, f64::min);
            let most = factors.iter().copied().fold(0.0, f64::max);
            said.push(format!("{name} {least:.1} to {most:.1}"));
        }
        if conditions.is_empty() {
            let why = not_built.unwrap_or_else(|| {
                "this build of peers has none of the paper's stores: run peers/setup, build with --features embedded"
                    .to_owned()
            });
            return Verdict::Differs(format!(
                "None of the paper's stores was measured: {why}.{}",
                missing.note()
            ));
        }
        conditions.extend(self.goes_as_found());
        let ahead: Vec<_> = OF_TODAY
            .iter()
            .filter(|(_, name)| {
                self.factors(name).is_some_and(|factors| factors.iter().any(|factor| *factor < 1.0))
            })
            .map(|(_, name)| *name)
            .collect();
        Verdict::of(
            &conditions,
            format!(
                "The store with the O2 index is so many times as fast as: {}. Of today's stores, faster than it somewhere: {}.{}{}{}",
                said.join(", "),
                listed(ahead),
                self.caveat().unwrap_or_default(),
                self.way(),
                missing.note()
            ),
        )
    }

    /// The first x and the last.
    fn ends(&self) -> Option<(f64, f64)> {
        Some((self.points.first()?.x, self.points.last()?.x))
    }

    /// Does the line of the store with the O2 index go as the paper's did? `None` if that says nothing, or there is one point only.
    fn goes_as_found(&self) -> Option<bool> {
        let (first, last) = self.ends()?;
        match self.course {
            Course::Falls if last > first => Some(self.growth(O2) < 1.0),
            Course::FallsLeast if last > first => {
                let mut others = OF_THE_PAPER.iter().filter(|(_, name)| self.is_drawn(name));
                let own = self.growth(O2);
                Some(own < 1.0 && others.all(|(_, name)| self.growth(name) < own))
            }
            Course::GrowsSlowly if last > first => Some(self.growth(O2) < (last / first).sqrt()),
            _ => None,
        }
    }

    /// How the lines go, in a sentence, where that was asked.
    fn way(&self) -> String {
        let (Some((from, to)), Some(_)) = (self.ends(), self.goes_as_found()) else {
            return String::new();
        };
        let (x, y) = (&self.panel.x, &self.panel.y);
        let grown = |name| format!("{name} {:.2}", self.growth(name));
        let each = [O2].into_iter().chain(OF_THE_PAPER.map(|(_, name)| name));
        let each = each.filter(|name| self.is_drawn(name)).map(grown);
        format!(
            " From {from} to {to} ({x}), {y} become so many times what they were: {}.",
            each.collect::<Vec<_>>().join(", ")
        )
    }

    fn is_drawn(&self, name: &str) -> bool {
        self.panel.series.iter().any(|series| series.name == name)
    }

    /// The last point of a store's line divided by its first.
    fn growth(&self, name: &str) -> f64 {
        let at = |point: Option<&Point>| self.panel.at(name, point.expect("a figure has points").x);
        at(self.points.last()) / at(self.points.first())
    }

    /// What must be said where a store is ahead that does less.
    fn caveat(&self) -> Option<String> {
        let is_ahead = self.factors(WITHOUT_LOG)?.iter().any(|factor| *factor < 1.0);
        is_ahead.then(|| {
            format!(
                " {WITHOUT_LOG} is ahead somewhere and keeps no log: what it has taken waits in its process, and is \
                 lost when that is killed; Foreshore's writes survive this in the same mode."
            )
        })
    }

    /// How many times as fast as this store is the one with the O2 index, at each x? `None` if it was not measured.
    fn factors(&self, name: &str) -> Option<Vec<f64>> {
        let series = self.panel.series.iter().find(|series| series.name == name)?;
        let factor = |&(x, y): &(f64, f64)| {
            let own = self.panel.at(O2, x);
            if self.shown == Shown::Millions { own / y } else { y / own }
        };
        Some(series.points.iter().map(factor).collect())
    }
}

/// Lines that grow by a tenth more than another one grow as well as that.
const AS_WELL: f64 = 1.1;

/// The paper's 2.5 GB, or room enough for a quick run.
fn cache_bytes(settings: &Settings) -> u64 {
    settings.pick(256 << 20, 5 << 29)
}

fn panel(settings: &Settings, title: &str, x: &str, y: String) -> Panel {
    let scale = if x == "threads" { Scale::Doubling } else { Scale::Linear };
    Panel::new(format!("{title}, up to {} threads", settings.threads_max), Source::Measured, x, &y, scale)
}

/// A point for each number of threads, as `line` says for it and its operations.
fn by_threads(
    settings: &Settings,
    operations: impl Fn(usize) -> u64,
    line: impl Fn(usize, u64) -> String,
) -> Vec<Point> {
    let point = |threads: usize| {
        let operations = operations(threads);
        Point { x: threads as f64, line: line(threads, operations), operations }
    };
    settings.threads().into_iter().map(point).collect()
}

/// Random insertions until all rows are in: the limit in seconds is longer than any run.
fn insertions(threads: usize, n: u64) -> String {
    format!("kv --workload put --n {n} --threads {threads} --seconds 36000")
}

/// Figure 4.
fn construction(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let n: u64 = settings.pick(50_000, 500_000);
    let points = by_threads(settings, |_| n, insertions);
    let panel = panel(settings, "Random insertions", "threads", format!("seconds for {n}"));
    let study = Study::new(panel, Shown::Seconds, Course::Falls, points);
    Study { lead: 2.0, ..study }.draw(settings, tell)
}

/// Figure 5.
fn mixes(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let (operations, time_s) = settings.pick((50_000, 0.2), (250_000, 0.5));
    let ratios: &[u32] = settings.pick(&[0, 50, 100], &[0, 20, 40, 60, 80, 100]);
    let threads = settings.threads_max;
    let point = |ratio: &u32| {
        let line = format!(
            "mix --update-ratio {ratio} --n {operations} --threads {threads} --seconds {time_s} --warm-up 0.1"
        );
        Point { x: f64::from(*ratio), line, operations }
    };
    let y = "million operations/s".to_owned();
    let panel = panel(settings, "Lookups and updates", "updates, % of operations", y);
    let points = ratios.iter().map(point).collect();
    Study::new(panel, Shown::Millions, Course::Falls, points).draw(settings, tell)
}

/// Figure 6.
fn lookups(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let (n, time_s): (u64, f64) = settings.pick((50_000, 0.2), (1_000_000, 1.0));
    let line = |threads, n| format!("kv --workload get --n {n} --threads {threads} --seconds {time_s}");
    let points = by_threads(settings, |_| n, line);
    let panel = panel(settings, "Lookups", "threads", format!("seconds for {n}"));
    Study::new(panel, Shown::Seconds, Course::FallsLeast, points).draw(settings, tell)
}

/// Data for so many threads: the paper has 2.5 million rows a thread.
fn grown(settings: &Settings, threads: usize) -> u64 {
    settings.pick(25_000, 500_000) * threads as u64
}

/// Figure 7.
fn growing_insertions(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let points = by_threads(settings, |threads| grown(settings, threads), insertions);
    let y = format!("seconds for {} a thread", grown(settings, 1));
    let panel = panel(settings, "Random insertions", "threads", y);
    Study::new(panel, Shown::Seconds, Course::GrowsSlowly, points).draw(settings, tell)
}

/// Figure 8.
fn growing_mixes(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let time_s = settings.pick(0.2, 1.0);
    let line = |threads, n| {
        format!("mix --update-ratio 50 --n {n} --threads {threads} --seconds {time_s} --warm-up 0.1")
    };
    let points = by_threads(settings, |threads| grown(settings, threads), line);
    let y = format!("seconds for {} a thread", grown(settings, 1));
    let panel = panel(settings, "Half lookups, half updates", "threads", y);
    Study::new(panel, Shown::Seconds, Course::GrowsSlowly, points).draw(settings, tell)
}

/// Figure 10.
fn loading(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let n = settings.pick(50_000, 500_000);
    let title = if settings.flights.is_empty() { "TPC-H ORDERS" } else { "Flights" };
    let points = by_threads(settings, |_| n, |threads, n| format!("rows --n {n} --threads {threads}"));
    let panel = panel(settings, title, "threads", "million rows/s".to_owned());
    let files = settings.flights.iter().flat_map(|file| ["--input".to_owned(), file.display().to_string()]);
    let study = Study::new(panel, Shown::Millions, Course::Any, points);
    Study { places: files.collect(), ..study }.draw(settings, tell)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds of stores with one thread and with two.
    fn study(course: Course, seconds: &[(&str, [f64; 2])]) -> Study {
        let point = |x| Point { x, line: String::new(), operations: 1 };
        let mut panel = Panel::new("", Source::Measured, "threads", "seconds", Scale::Doubling);
        for (name, [one, two]) in seconds {
            panel.add(name, 1.0, *one);
            panel.add(name, 2.0, *two);
        }
        Study::new(panel, Shown::Seconds, course, vec![point(1.0), point(2.0)])
    }

    /// With twice the data and threads, who needs as many seconds as before has scaled, quick or slow.
    #[test]
    fn who_scales_need_not_be_ahead() {
        let verdict = study(Course::GrowsSlowly, &[(O2, [4.0, 4.8]), ("LevelDB", [2.0, 3.0])])
            .verdict(None, &Missing::default());
        assert!(verdict.holds(), "{}", verdict.sentence());
        assert!(verdict.sentence().contains("index 1.20, LevelDB 1.50."), "{}", verdict.sentence());
        for seconds in [[1.0, 1.9], [1.0, 1.3]] {
            let verdict = study(Course::GrowsSlowly, &[(O2, seconds), ("LevelDB", [2.0, 2.2])])
                .verdict(None, &Missing::default());
            assert!(!verdict.holds(), "ahead, but its time grows: {}", verdict.sentence());
        }
    }

    /// One thread tells nothing of more, whoever is ahead.
    #[test]
    fn more_threads_must_have_run() {
        let mut study = study(Course::GrowsSlowly, &[(O2, [1.0, 1.0]), ("LevelDB", [9.0, 9.0])]);
        study.points.truncate(1);
        assert!(!study.verdict(None, &Missing::default()).holds());
    }

    /// Threads that gain nothing are not what the paper saw, whoever is ahead.
    #[test]
    fn more_threads_must_take_less_time() {
        let verdict = |seconds| {
            study(Course::Falls, &[(O2, seconds), ("LevelDB", [2.0, 1.9])]).verdict(None, &Missing::default())
        };
        assert!(verdict([1.0, 0.6]).holds());
        assert_eq!(verdict([1.0, 1.1]).word(), "holds in part");
        assert_eq!(
            study(Course::Any, &[(O2, [1.0, 1.1]), ("LevelDB", [2.0, 1.9])])
                .verdict(None, &Missing::default())
                .word(),
            "holds"
        );
    }

    /// The paper's store was two to three times as fast as those with B-trees, and ahead of LevelDB.
    #[test]
    fn as_far_ahead_as_the_papers_store() {
        let word = |times: f64| {
            let others = [("Kyoto TreeDB", [times, 0.6 * times]), ("LevelDB", [1.3, 0.8])];
            let study = study(Course::Falls, &[[(O2, [1.0, 0.6])].as_slice(), &others].concat());
            Study { lead: 2.0, ..study }.verdict(None, &Missing::default()).word()
        };
        assert_eq!((word(2.2), word(1.2)), ("holds", "holds in part"));
    }

    /// Where the paper's store gains least from threads, one that gains most is not what it saw.
    #[test]
    fn who_gains_least_is_asked() {
        let word = |seconds| {
            let stores = [(O2, seconds), ("LevelDB", [2.0, 1.2])];
            study(Course::FallsLeast, &stores).verdict(None, &Missing::default()).word()
        };
        assert_eq!(
            [[1.0, 0.8], [1.0, 0.5], [1.0, 1.1]].map(word),
            ["holds", "holds in part", "holds in part"]
        );
    }
}
