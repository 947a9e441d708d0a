//! `lab`: the papers' figures, drawn anew by `foreshore-lab`.

use crate::failure::{Failure, Kind, Outcome};
use crate::output::{Output, grouped};
use crate::progress::Meter;
use crate::scratch::{Scratch, remove_on_interrupt};
use clap::Args;
use foreshore_lab::counters::{Counters, Event, Trial};
use foreshore_lab::figures;
use foreshore_lab::frame::{Drawn, Figure, Host, LabError, Settings, Tell, report, results, text_table};
use foreshore_lab::peers::Programs;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  foreshore lab list                  every figure, and what it shows
  foreshore lab olfit-fig7 --quick    one figure, small sizes: seconds
  foreshore lab all --quick           all of them: minutes
  foreshore lab all                   … at full size: up to an hour
  foreshore lab report                docs/results/index.html, of what was drawn
  foreshore lab counters              which hardware counters this machine has

Each figure prints its numbers, says whether the paper's finding holds here, and
writes <out>/<host>/<figure>.csv and .svg. The CSV's header holds all that is
needed to draw it again. Exit code 3 if a structure gave a wrong answer; of
several figures the others are drawn all the same, and the end says which were
not.";

/// What is no figure's name.
const ALONE: [&str; 4] = ["list", "report", "counters", "all"];

/// Draw the papers' figures on this machine, and build a page of them
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct LabArgs {
    /// Names of figures, or `all`, `list`, `report` or `counters`
    #[arg(value_name = "FIGURE", required = true)]
    what: Vec<String>,
    /// Small sizes, at most two threads
    #[arg(long)]
    quick: bool,
    /// Where all random choices come from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads of the largest measured run [default: one per processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: Option<u16>,
    /// The build of `foreshore` with old primitives, for shoremt-fig6 and shoremt-fig7; `cargo xtask stages` makes it
    #[arg(long, value_name = "PATH")]
    stages: Option<PathBuf>,
    /// The command that runs other engines; `cargo build --release --manifest-path peers/Cargo.toml` makes it
    #[arg(long, value_name = "PATH")]
    peers: Option<PathBuf>,
    /// Tables of flights (CSV, gzipped or not) for o2-fig10 [default: TPC-H's ORDERS instead]
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    flights: Vec<PathBuf>,
    /// Where stores may live while they are measured [default: the system's directory for temporary files]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Directory of the results
    #[arg(long, value_name = "DIR", default_value = "docs/results")]
    out: PathBuf,
}

/// Runs `lab`.
pub fn run(args: &LabArgs) -> Outcome {
    match args.what.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => list(),
        ["report"] => build_report(&args.out),
        ["counters"] => try_counters(),
        ["all"] => draw_all(args, &figures::all().collect::<Vec<_>>()),
        ref names => {
            if let Some(alone) = names.iter().find(|name| ALONE.contains(name)) {
                return Err(Failure::usage(format!("`{alone}` stands alone; leave the other names out")));
            }
            let named: Result<Vec<_>, _> = names.iter().map(|name| figures::named(name)).collect();
            draw_all(args, &named?)
        }
    }
}

fn list() -> Outcome {
    let mut out = Output::new(false);
    let rows: Vec<_> = figures::all().map(|figure| [figure.name.into(), figure.title.into()]).collect();
    out.table(["figure", "what it shows"], &rows)?;
    out.finish()
}

/// Tries each event on work whose misses are known.
fn try_counters() -> Outcome {
    let mut counters = Counters::of_this_thread();
    let trial = Trial::USUAL;
    let counted = trial.run(&mut counters);
    let row = |event: Event| {
        let absent = counters.absent().iter().find(|(absent, _)| *absent == event);
        let (count, remark) = match (counted.get(event), absent) {
            (Some(count), _) if count.is_scaled() => (
                grouped(count.value as u64),
                format!("scaled: counted for {:.0} % of the time", 100.0 * count.share),
            ),
            (Some(count), _) => (grouped(count.value as u64), String::new()),
            (None, Some((_, absence))) => (String::new(), absence.why(event)),
            (None, None) => (String::new(), "never had a register: another program counts, too".into()),
        };
        [event.name().into(), count, remark]
    };
    let mut out = Output::new(false);
    out.table(["event", "count", "remark"], &Event::all().map(row).collect::<Vec<_>>())?;
    out.line(format_args!(
        "The trial writes {} lines of fresh memory ({} MiB) in order, then loads each once, at random, one after the other. To \
         be expected: {} page faults of 4 KiB (fewer, larger ones with huge pages), an L1 miss for each load, and nearly as many \
         last-level loads and TLB misses (not with huge pages).",
        grouped(trial.lines as u64),
        trial.bytes() >> 20,
        grouped(trial.bytes() as u64 / 4096),
    ))?;
    out.line(counters.summary())?;
    out.finish()
}

fn build_report(results: &Path) -> Outcome {
    let order: Vec<_> = figures::all().map(|figure| figure.name).collect();
    let page = report::build(results, &order)?;
    let mut out = Output::new(false);
    out.line(page.display())?;
    out.finish()
}

fn draw_all(args: &LabArgs, figures: &[&Figure]) -> Outcome {
    let mut settings = if args.quick { Settings::quick(args.seed) } else { Settings::full(args.seed) };
    if let Some(threads) = args.threads {
        settings.threads_max = threads.into();
    }
    settings.programs = programs(args)?;
    let scratch = scratch(&settings.programs.scratch)?;
    settings.programs.scratch = scratch.path().to_owned();
    for file in &args.flights {
        std::fs::File::open(file).map_err(|error| Failure::io(file.display(), &error))?;
    }
    settings.flights.clone_from(&args.flights);
    results::prepare(&args.out, &Host::here())?;
    let meter = Meter::new("lab", Some(1000 * figures.len() as u64));
    let (mut out, mut failed) = (Output::new(false), Vec::new());
    for (at, figure) in figures.iter().enumerate() {
        let kept = draw(figure, &settings, &args.out, &mut |share, what| {
            meter.set(1000 * at as u64 + (1000.0 * share) as u64, || format!("{}: {what}", figure.name));
        });
        match kept {
            Ok((drawn, path)) => {
                out.line(format_args!("{}\nThe paper: {}", figure.title, figure.found))?;
                out.line(format_args!("{}{}\n", text_table(&drawn), path.display()))?;
            }
            Err(error) if figures.len() == 1 => return Err(error.into()),
            Err(error) => {
                out.line(format_args!("{}: not drawn. {error}\n", figure.name))?;
                // Who asked for all figures did not ask for a build that only one of them needs.
                if !matches!(error, LabError::Absent { .. }) {
                    failed.push((figure.name, Failure::from(error)));
                }
            }
        }
    }
    drop(meter);
    out.finish()?;
    worst(failed)
}

/// Draws a figure and keeps it; where.
fn draw(
    figure: &Figure,
    settings: &Settings,
    results: &Path,
    tell: Tell<'_>,
) -> Result<(Drawn, PathBuf), LabError> {
    let host = Host::here();
    let drawn = figure.run(settings, tell)?;
    let kept = results::keep(results, &host, figure, settings, &drawn)?;
    Ok((drawn, kept))
}

/// What became of many figures, of which these failed: a wrong answer is worse than a device that refuses.
fn worst(failed: Vec<(&str, Failure)>) -> Outcome {
    let kinds = || failed.iter().map(|(_, failure)| failure.kind);
    let Some(kind) = kinds().find(|kind| *kind == Kind::Corrupt).or_else(|| kinds().next()) else {
        return Ok(());
    };
    let each: Vec<_> = failed.iter().map(|(name, failure)| format!("{name}: {failure}")).collect();
    Err(Failure::of(kind, format!("not drawn, among others that were:\n{}", each.join("\n"))))
}

/// A directory for the stores of all engines, which goes also when Ctrl-C ends them: not every program cleans up then.
fn scratch(dir: &Path) -> Outcome<tempfile::TempDir> {
    let failed = |error| Failure::io(dir.display(), &error);
    std::fs::create_dir_all(dir).map_err(failed)?;
    let scratch = tempfile::Builder::new().prefix("lab-").tempdir_in(dir).map_err(failed)?;
    remove_on_interrupt(Scratch::made(scratch.path()))?;
    Ok(scratch)
}

/// The programs that whole engines are measured by: this one, and those that the flags name.
fn programs(args: &LabArgs) -> Outcome<Programs> {
    let usual = Programs::default();
    let foreshore = std::env::current_exe().map_err(|error| Failure::io("this program", &error))?;
    Ok(Programs {
        foreshore,
        stages: args.stages.clone().unwrap_or(usual.stages),
        peers: args.peers.clone().unwrap_or(usual.peers),
        scratch: args.scratch.clone().unwrap_or(usual.scratch),
        patience: usual.patience,
    })
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        let message = error.to_string();
        let kind = match error {
            LabError::Unknown { .. } | LabError::Absent { .. } | LabError::Undrawn { .. } => Kind::Usage,
            LabError::Wrong(_) | LabError::Foreign { .. } => Kind::Corrupt,
            _ => Kind::Io,
        };
        Self::of(kind, message)
    }
}
