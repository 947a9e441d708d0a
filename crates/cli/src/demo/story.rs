//! The demonstration, step by step.

use crate::args::spelled;
use crate::bench::engine_tx::EngineTx;
use crate::demo::chart::Chart;
use crate::demo::child::{self, Victim};
use crate::demo::clients::{self, Life};
use crate::demo::journal::{Journal, Receiving, quantile_us};
use crate::demo::live::{Live, time};
use crate::demo::spec::DemoSpec;
use crate::demo::steps::Steps;
use crate::demo::{DemoArgs, verify};
use crate::failure::{Failure, Outcome};
use crate::output::{self, grouped, rate, size};
use crate::progress::Phases;
use crate::tables::count_rows;
use foreshore::{Database, Error};
use foreshore_workloads::tpcc::Trace;
use serde_json::json;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Part of the time that comes before the kill.
const FIRST_LIFE: f64 = 2.0 / 3.0;

/// How often the parent looks at what goes on.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Tells the story.
///
/// Errors: corruption if anything was lost.
pub fn tell(args: &DemoArgs, dir: &Path) -> Outcome {
    let spec = &args.spec;
    let mut steps = Steps::new(args.json);
    output::tell(format_args!("TPC-C on {} warehouses in {}", spec.scale().warehouses, dir.display()));
    load(spec, dir, &mut steps)?;

    let origin = Instant::now();
    let (first, killed) = work_until_killed(args, dir, origin, &mut steps)?;
    let db = recover(spec, dir, &mut steps)?;
    let open = Instant::now();
    verify::all(&db, spec, &first.traces, &mut steps)?;

    let resumed = Instant::now();
    let second = go_on(args, &db, origin, &mut steps)?;
    let acknowledged: Vec<Trace> = first.traces.iter().chain(&second.traces).copied().collect();
    verify::all(&db, spec, &acknowledged, &mut steps)?;
    close(db, &mut steps)?;

    let seconds = |instant: Instant| (instant - origin).as_secs_f64();
    let chart = Chart {
        title: format!(
            "Foreshore: TPC-C without think times, {} warehouses, {} clients, durability {}",
            spec.scale().warehouses,
            spec.clients(),
            spelled(spec.durability)
        ),
        lives: [&first.points, &second.points],
        killed_s: seconds(killed),
        open_s: seconds(open),
        resumed_s: seconds(resumed),
    };
    draw(&chart, &args.svg, &mut steps)?;
    steps.finish(acknowledged.len())
}

fn load(spec: &DemoSpec, dir: &Path, steps: &mut Steps) -> Outcome {
    let started = Instant::now();
    let db = spec.open(dir)?;
    let rows = load_rows(spec, &db)?;
    db.close()?;
    let elapsed = started.elapsed();
    let per_second = grouped(rate(rows, elapsed.as_secs_f64()) as u64);
    let warehouses = spec.scale().warehouses;
    steps.done(
        "load",
        elapsed,
        format!("{} rows of {warehouses} warehouses at {per_second} rows/s", grouped(rows)),
        json!({"rows": rows, "warehouses": warehouses}),
    )
}

/// Loads on all cores; returns how many rows.
fn load_rows(spec: &DemoSpec, db: &Database) -> Outcome<u64> {
    let store = EngineTx(db.clone());
    {
        let phases = Phases::default();
        spec.tpcc(&store)?.load(spec.clients(), &|progress| phases.tell(progress))?;
    }
    db.tables()?.iter().map(|table| count_rows(db, table)).sum()
}

/// A child runs the clients; when its part of the time is over, it is killed. Returns when that was.
fn work_until_killed(
    args: &DemoArgs,
    dir: &Path,
    origin: Instant,
    steps: &mut Steps,
) -> Outcome<(Journal, Instant)> {
    let spec = &args.spec;
    let mut child = child::spawn(spec, dir)?;
    let receiving = Receiving::begin(child.take_pipe(), origin)?;
    let refusal = watch(args, dir, &mut child, &receiving)?;
    let killed = Instant::now();
    child.kill()?;
    let journal = receiving.finish();
    let gone = killed.elapsed();
    worked("work", spec, &journal, killed, steps)?;
    steps.done("second open", Duration::ZERO, refusal, json!({"refused": true}))?;
    let text = "the working process is gone in the middle of its transactions".into();
    steps.done("kill -9", gone, text, json!({"signal": 9}))?;
    Ok((journal, killed))
}

/// Shows how the child fares until its time is over. Says how it was refused to open the database meanwhile.
fn watch(args: &DemoArgs, dir: &Path, child: &mut Victim, receiving: &Receiving) -> Outcome<String> {
    let seconds = args.seconds * FIRST_LIFE;
    let live = Live::new("work", seconds);
    let mut refusal = None;
    loop {
        if let Some(status) = child.exited()? {
            let status = std::io::Error::other(status.to_string());
            return Err(Failure::io("the working process ended by itself", &status));
        }
        let (commits, worked) =
            receiving.look(|journal| (journal.traces.len(), journal.seconds(Instant::now())));
        match refusal {
            None if commits > 0 => refusal = Some(second_open(&args.spec, dir, child.pid())?),
            Some(refusal) if worked >= seconds => return Ok(refusal),
            _ => {}
        }
        live.show(receiving);
        thread::sleep(LOOK_EVERY);
    }
}

/// While the child has the database, nobody else may: the error must name the child.
fn second_open(spec: &DemoSpec, dir: &Path, pid: u32) -> Outcome<String> {
    match spec.open(dir) {
        Err(error @ Error::Locked { pid: Some(holder), .. }) if holder == pid => {
            Ok(format!("refused: {error}"))
        }
        Err(error) => Err(Failure::from(error).note(format!("expected: locked by process {pid}"))),
        Ok(_) => Err(Failure::corrupt(format!("the database could be opened while process {pid} has it"))),
    }
}

fn recover(spec: &DemoSpec, dir: &Path, steps: &mut Steps) -> Outcome<Database> {
    let started = Instant::now();
    let db = spec.open(dir)?;
    let stats = db.stats();
    steps.done(
        "recover",
        started.elapsed(),
        format!(
            "{} of log redone ({} records), {} unfinished transactions undone",
            size(stats.redo_bytes),
            grouped(stats.redo_records),
            stats.undone_at_open
        ),
        json!({
            "redo_bytes": stats.redo_bytes,
            "redo_records": stats.redo_records,
            "undone": stats.undone_at_open,
            "open_ns": stats.open_ns
        }),
    )?;
    Ok(db)
}

/// The rest of the time, with clients in this process.
fn go_on(args: &DemoArgs, db: &Database, origin: Instant, steps: &mut Steps) -> Outcome<Journal> {
    let seconds = args.seconds * (1.0 - FIRST_LIFE);
    let (reader, writer) = std::io::pipe().map_err(|e| Failure::io("making a pipe", &e))?;
    let receiving = Receiving::begin(reader, origin)?;
    let live = Live::new("go on", seconds);
    let deadline = Instant::now() + Duration::from_secs_f64(seconds);
    thread::scope(|scope| {
        let run = || clients::run(db, &args.spec, Life::Second, Some(deadline), &writer);
        let clients = thread::Builder::new().spawn_scoped(scope, run);
        let clients = clients.map_err(|error| Failure::io("starting the clients", &error))?;
        while !clients.is_finished() {
            live.show(&receiving);
            thread::sleep(LOOK_EVERY);
        }
        clients.join().expect("clients do not panic")
    })?;
    let ended = Instant::now();
    drop((live, writer));
    let journal = receiving.finish();
    worked("go on", &args.spec, &journal, ended, steps)?;
    Ok(journal)
}

/// Tells what the clients of one life did until `ended`.
fn worked(
    step: &'static str,
    spec: &DemoSpec,
    journal: &Journal,
    ended: Instant,
    steps: &mut Steps,
) -> Outcome {
    let seconds = journal.seconds(ended);
    let tps = rate(journal.transactions, seconds);
    let [p50_us, p99_us] = [0.5, 0.99].map(|quantile| quantile_us(&journal.latency_ns, quantile));
    steps.done(
        step,
        Duration::from_secs_f64(seconds),
        format!(
            "{} transactions of {} clients, of which {} wrote; {} tx/s; commits in {} (p50), {} (p99)",
            grouped(journal.transactions),
            spec.clients(),
            grouped(journal.traces.len() as u64),
            grouped(tps as u64),
            time(p50_us),
            time(p99_us)
        ),
        json!({
            "transactions": journal.transactions,
            "acknowledged": journal.traces.len(),
            "clients": spec.clients(),
            "durability": spec.durability,
            "tps": tps,
            "p50_us": p50_us,
            "p99_us": p99_us
        }),
    )
}

fn close(db: Database, steps: &mut Steps) -> Outcome {
    let started = Instant::now();
    db.close()?;
    steps.done("close", started.elapsed(), "all leaves written out".into(), json!({}))
}

fn draw(chart: &Chart<'_>, path: &Path, steps: &mut Steps) -> Outcome {
    let started = Instant::now();
    chart.write(path)?;
    let text = format!("throughput and commit latency in {}", path.display());
    steps.done("chart", started.elapsed(), text, json!({"svg": path.to_string_lossy()}))
}
