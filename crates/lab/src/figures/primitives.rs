//! Latches, log reservations and tables of buffer pools by themselves: the primitives that Shore-MT exchanged one by one.

use crate::frame::{
    Drawn, Figure, Host, LabError, Panel, Paper, Scale, Settings, Source, Tell, Verdict, rounds, span_s,
};
use crate::primitives::buffer_tables::{
    BufferTable, Chained, Chains, Cuckoo, Flat, MutexPerBucket, OneMutex, Pool,
};
use crate::primitives::latches::{Latch, Mcs, StdMutex, TestAndSet, Ticket};
use crate::primitives::reservations::{Consolidation, FetchAdd, Latched, Reservation};
use foreshore_base::PageId;
use foreshore_workloads::random::{below, mix};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

const DIFFERS: &str = "A figure of the laboratory's own: the primitives alone, with nothing between two uses, which is the worst case. Threads beyond this machine's processors are not measured: a queue of sleeping threads says nothing about latches.";

/// Not figures of the paper, but of what its stages exchange.
pub const FIGURES: &[Figure] = &[
    Figure {
        name: "shoremt-latches",
        paper: Paper::ShoreMt,
        title: "Latches of three generations under contention",
        found: "Test-and-set and sleeping mutexes lose throughput as threads are added; a queue (MCS) latch hands over at a constant cost (§6.2.1).",
        differs: DIFFERS,
        draw: latches,
    },
    Figure {
        name: "shoremt-log",
        paper: Paper::ShoreMt,
        title: "Log reservation: mutex, queue lock, consolidation, fetch-and-add",
        found: "The position in the log is the last word that all writers share: a mutex around it collapses, a queue lock holds, consolidation lets a group pay once (§6.2.4, and Aether).",
        differs: DIFFERS,
        draw: log,
    },
    Figure {
        name: "shoremt-pool",
        paper: Paper::ShoreMt,
        title: "Fixing pages: one mutex, a mutex per bucket, cuckoo table with pin-if-pinned, no pins",
        found: "One mutex around the buffer pool's table cripples it beyond about four threads; with one per bucket, and pins added by compare-and-swap, the engine became twice as fast on one thread and nearly 5 times on 32 (§6.2.3, §7.2). Buckets of hot pages remained a bottleneck; what a cuckoo table gains for many threads more than offsets what its hash functions cost (§6.2.1, §6.2.3), in a step that nearly doubled scalability (§7.4).",
        differs: "A figure of the laboratory's own: the tables alone, with nothing between two uses, so it asks whether each step is ahead of the one before, and not by how much an engine gains. Shore-MT's pins and cheaper mutexes came with its first step; here all mutexes are the standard library's, and pin-if-pinned comes with the cuckoo table. Only the threads that measure have the hot page pinned, so few of them often find it unpinned and need the latch. Pages in transit have no lists, the clock has no mutex (§7.6). No more threads than processors. The table without pins is Foreshore's.",
        draw: pool,
    },
];

/// Bytes of a log record.
const RECORD: u64 = 64;

struct Sizes {
    operations: u64,
    rounds: usize,
}

impl Sizes {
    fn of(settings: &Settings) -> Self {
        settings.pick(Self { operations: 100_000, rounds: 3 }, Self { operations: 2_000_000, rounds: 5 })
    }

    fn header(&self) -> Vec<(&'static str, String)> {
        vec![
            ("operations_per_thread", self.operations.to_string()),
            ("rounds", format!("{}, by turns; medians", self.rounds)),
        ]
    }
}

/// A primitive's name, and its million operations per second, used by so many threads so often.
type Subject<M = fn(usize, u64) -> Result<f64, LabError>> = (&'static str, M);

fn latches(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let mut subjects: [Subject; 4] = [
        (TestAndSet::NAME, latch_rate::<TestAndSet>),
        (Ticket::NAME, latch_rate::<Ticket>),
        (Mcs::NAME, latch_rate::<Mcs>),
        (StdMutex::NAME, latch_rate::<StdMutex>),
    ];
    let settings = &on_processors(settings);
    let panel = panel("Acquire, add one, release", &mut subjects, settings, tell)?;
    let verdict = judge_latches(&panel, settings.threads_max as f64);
    Ok(Drawn { verdict, panels: vec![panel], settings: Sizes::of(settings).header() })
}

/// With no more threads than there are processors: who waits for a thread that does not run measures the scheduler.
fn on_processors(settings: &Settings) -> Settings {
    let threads_max = settings.threads_max.min(Host::here().cores);
    Settings { threads_max, ..settings.clone() }
}

/// What is said of threads that met nobody.
pub fn uncontended() -> Verdict {
    Verdict::Differs("Only one thread ran, so nothing was contended.".to_owned())
}

fn judge_latches(panel: &Panel, most: f64) -> Verdict {
    if most < 2.0 {
        return uncontended();
    }
    let kept = |name: &str| panel.at(name, most) / panel.at(name, 1.0);
    let sentence = format!(
        "From 1 to {most} threads, throughput becomes: test-and-set {:.2}, ticket {:.2}, MCS {:.2}, mutex {:.2} times.",
        kept("test-and-set"),
        kept("ticket"),
        kept("MCS"),
        kept("mutex"),
    );
    let conditions = [kept("test-and-set") < 1.0, kept("mutex") < 1.0, kept("MCS") > kept("mutex")];
    Verdict::of(&conditions, sentence)
}

fn log(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let mut subjects: [Subject; 5] = [
        (Latched::<StdMutex>::NAME, log_rate::<Latched<StdMutex>>),
        (Latched::<TestAndSet>::NAME, log_rate::<Latched<TestAndSet>>),
        (Latched::<Mcs>::NAME, log_rate::<Latched<Mcs>>),
        (Consolidation::NAME, log_rate::<Consolidation>),
        (FetchAdd::NAME, log_rate::<FetchAdd>),
    ];
    let settings = &on_processors(settings);
    let panel = panel("Reservations", &mut subjects, settings, tell)?;
    let verdict = judge_log(&panel, settings.threads_max as f64);
    Ok(Drawn { verdict, panels: vec![panel], settings: Sizes::of(settings).header() })
}

fn judge_log(panel: &Panel, most: f64) -> Verdict {
    if most < 2.0 {
        return uncontended();
    }
    let rates: Vec<_> = panel
        .series
        .iter()
        .map(|series| format!("{} {:.1}", series.name, panel.at(&series.name, most)))
        .collect();
    let sentence = format!("Million reservations a second at {most} threads: {}.", rates.join(", "));
    let rate = |name: &str| panel.at(name, most);
    let conditions = [
        rate("mutex") < panel.at("mutex", 1.0),
        rate("MCS") > rate("mutex"),
        rate("consolidation") > rate("MCS"),
    ];
    Verdict::of(&conditions, sentence)
}

/// Which pages are fixed.
#[derive(Clone, Copy)]
struct Fixing {
    title: &'static str,
    frames: usize,
    /// Pages there are: if more than frames, some have to be brought in.
    pages: u64,
    seed: u64,
}

impl Fixing {
    /// What the panels show, in their order.
    fn all(settings: &Settings) -> [Self; 3] {
        let frames = settings.pick(1 << 12, 1 << 16);
        let of = |title, frames, pages| Self { title, frames, pages, seed: settings.seed };
        [
            of("One hot page", 1, 1),
            of("Random pages, all in frames", frames, frames as u64),
            of("Random pages, an eighth not in frames", frames, frames as u64 * 8 / 7),
        ]
    }
}

type FixRate = fn(Fixing, usize, u64) -> Result<f64, LabError>;

fn pool(settings: &Settings, tell: Tell<'_>) -> Result<Drawn, LabError> {
    let subjects: [(&'static str, FixRate); 4] = [
        (Chained::<OneMutex>::NAME, fix_rate::<Chained<OneMutex>>),
        (Chained::<MutexPerBucket>::NAME, fix_rate::<Chained<MutexPerBucket>>),
        (Cuckoo::NAME, fix_rate::<Cuckoo>),
        (Flat::NAME, fix_rate::<Flat>),
    ];
    let settings = &on_processors(settings);
    let all = Fixing::all(settings);
    let mut panels = Vec::new();
    for (at, fixing) in all.into_iter().enumerate() {
        let mut subjects = subjects.map(|(name, rate)| (name, move |threads, n| rate(fixing, threads, n)));
        let mut tell = |share, what: &str| tell((at as f64 + share) / all.len() as f64, what);
        panels.push(panel(fixing.title, &mut subjects, settings, &mut tell)?);
    }
    let verdict = judge_pool(&panels[0], &panels[1], settings.threads_max as f64);
    let mut header = Sizes::of(settings).header();
    header.push(("frames", format!("1; {}", all[1].frames)));
    Ok(Drawn { verdict, panels, settings: header })
}

fn judge_pool(hot: &Panel, random: &Panel, most: f64) -> Verdict {
    if most < 2.0 {
        return uncontended();
    }
    let [mutex, buckets, cuckoo] = [OneMutex::NAME, MutexPerBucket::NAME, Cuckoo::NAME];
    let rate = |name: &str| random.at(name, most);
    let rates: Vec<_> = random
        .series
        .iter()
        .map(|series| format!("{} {:.1}, {:.1}", series.name, hot.at(&series.name, most), rate(&series.name)))
        .collect();
    let sentence = format!(
        "Million fixes a second at {most} threads, of one hot page and of random ones: {}. With one mutex, they fix {:.2} times as many random pages as one thread does.",
        rates.join("; "),
        rate(mutex) / random.at(mutex, 1.0),
    );
    let conditions = [
        rate(mutex) < random.at(mutex, 1.0),
        rate(buckets) > rate(mutex),
        hot.at(cuckoo, most) > hot.at(buckets, most),
        rate(cuckoo) > rate(buckets),
    ];
    Verdict::of(&conditions, sentence)
}

fn panel<M: Fn(usize, u64) -> Result<f64, LabError>>(
    title: &str,
    subjects: &mut [Subject<M>],
    settings: &Settings,
    tell: Tell<'_>,
) -> Result<Panel, LabError> {
    let sizes = Sizes::of(settings);
    let mut panel = Panel::new(title, Source::Measured, "threads", "million operations/s", Scale::Doubling);
    let all = settings.threads();
    for (step, &threads) in all.iter().enumerate() {
        tell(step as f64 / all.len() as f64, &format!("{threads} threads"));
        let rates = rounds(sizes.rounds, subjects, |(_, measure)| measure(threads, sizes.operations))?;
        for ((name, _), rate) in subjects.iter().zip(rates) {
            panel.add(name, threads as f64, rate);
        }
    }
    Ok(panel)
}

/// Million operations per second of `work` on all threads, from the first start to the last end. It is told which thread does
/// which of its operations.
fn rate(threads: usize, operations: u64, work: impl Fn(usize, u64) + Sync) -> f64 {
    let barrier = Barrier::new(threads);
    let spans: Vec<_> = std::thread::scope(|scope| {
        let thread = |me| {
            let (barrier, work) = (&barrier, &work);
            scope.spawn(move || {
                barrier.wait();
                let begun = Instant::now();
                (0..operations).for_each(|step| work(me, step));
                (begun, Instant::now())
            })
        };
        let threads: Vec<_> = (0..threads).map(thread).collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread panics")).collect()
    });
    (threads as u64 * operations) as f64 / span_s(&spans) / 1e6
}

fn latch_rate<L: Latch>(threads: usize, operations: u64) -> Result<f64, LabError> {
    let (latch, sum) = (L::new(threads), AtomicU64::new(0));
    let rate =
        rate(threads, operations, |me, _| latch.with(me, || sum.store(sum.load(Relaxed) + 1, Relaxed)));
    match sum.into_inner() {
        sum if sum == threads as u64 * operations => Ok(rate),
        sum => {
            Err(LabError::Wrong(format!("{}: {sum} increments of {}", L::NAME, threads as u64 * operations)))
        }
    }
}

fn log_rate<R: Reservation>(threads: usize, operations: u64) -> Result<f64, LabError> {
    let log = R::new(threads);
    let rate = rate(threads, operations, |me, _| _ = log.reserve(me, RECORD));
    match log.position() {
        end if end == threads as u64 * operations * RECORD => Ok(rate),
        end => Err(LabError::Wrong(format!("{}: the log ends at {end}", R::NAME))),
    }
}

/// Each fix reads the page, and says what it reads.
fn fix_rate<T: BufferTable>(fixing: Fixing, threads: usize, operations: u64) -> Result<f64, LabError> {
    let pool = Pool::<T>::new(fixing.frames, fixing.pages);
    let wrong = AtomicU64::new(0);
    let read = |page: u64| {
        if pool.read(PageId(page)) != page {
            wrong.fetch_add(1, Relaxed);
        }
    };
    (1..=fixing.pages).for_each(read);
    let stream = |me: usize| mix(fixing.seed ^ (me as u64) << 32);
    let rate = rate(threads, operations, |me, step| read(1 + below(mix(stream(me) ^ step), fixing.pages)));
    pool.check().map_err(|what| LabError::Wrong(format!("{}: {what}", T::NAME)))?;
    match wrong.into_inner() {
        0 => Ok(rate),
        wrong => Err(LabError::Wrong(format!("{}: {wrong} pages that are others", T::NAME))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mutex that is ahead of the queue lock has not collapsed, and a group that pays more than its members has not paid once.
    #[test]
    fn each_generation_must_be_ahead_of_the_one_before() {
        let verdict = |rates: [f64; 3]| {
            let mut panel = Panel::new("", Source::Measured, "threads", "", Scale::Doubling);
            for (name, rate) in ["mutex", "MCS", "consolidation"].into_iter().zip(rates) {
                panel.add(name, 1.0, 100.0);
                panel.add(name, 2.0, rate);
            }
            judge_log(&panel, 2.0).word()
        };
        assert_eq!(verdict([10.0, 20.0, 30.0]), "holds");
        assert_eq!(verdict([38.2, 17.7, 21.7]), "holds in part");
        assert_eq!(verdict([10.0, 20.0, 15.0]), "holds in part");
    }

    /// A step of which another page or thread has nothing is no step, and a mutex that gains from threads has not crippled them.
    #[test]
    fn each_table_must_be_ahead_of_the_one_before() {
        let names = [OneMutex::NAME, MutexPerBucket::NAME, Cuckoo::NAME];
        let panel = |rates: [f64; 3]| {
            let mut panel = Panel::new("", Source::Measured, "threads", "", Scale::Doubling);
            for (name, rate) in names.into_iter().zip(rates) {
                panel.add(name, 1.0, 10.0);
                panel.add(name, 2.0, rate);
            }
            panel
        };
        let verdict = |hot, random| judge_pool(&panel(hot), &panel(random), 2.0).word();
        assert_eq!(verdict([5.0, 5.0, 8.0], [5.0, 15.0, 20.0]), "holds");
        assert_eq!(verdict([5.0, 5.0, 4.0], [5.0, 15.0, 20.0]), "holds in part");
        assert_eq!(verdict([5.0, 5.0, 8.0], [5.0, 15.0, 14.0]), "holds in part");
        assert_eq!(verdict([5.0, 5.0, 8.0], [11.0, 15.0, 20.0]), "holds in part");
        assert_eq!(verdict([5.0, 5.0, 4.0], [12.0, 11.0, 10.0]), "differs");
    }

    /// As the figures say.
    #[test]
    fn no_more_threads_run_than_there_are_processors() {
        let settings = Settings { threads_max: 64, ..Settings::quick(1) };
        for figure in FIGURES {
            let drawn = figure.run(&settings, &mut |_, _| {}).unwrap();
            let series = drawn.panels.iter().flat_map(|panel| &panel.series);
            let most = series.flat_map(|series| &series.points).map(|point| point.0);
            assert_eq!(most.fold(0.0, f64::max), Host::here().cores.min(64) as f64, "{}", figure.name);
        }
    }

    /// Who was never met by anybody has neither kept nor lost anything.
    #[test]
    fn one_thread_contends_with_nobody() {
        let panel = Panel::new("", Source::Measured, "threads", "", Scale::Doubling);
        for verdict in [judge_latches(&panel, 1.0), judge_log(&panel, 1.0), judge_pool(&panel, &panel, 1.0)] {
            assert!(verdict.sentence().contains("one thread"), "{}", verdict.sentence());
        }
    }
}
