//! The clients: TPC-C terminals that acknowledge every commit. Run by a child process that will be killed, and by the parent
//! afterwards.

use crate::bench::engine_tx::EngineTx;
use crate::demo::message::Message;
use crate::demo::spec::DemoSpec;
use crate::failure::{Failure, Outcome};
use foreshore::Database;
use foreshore_base::seeded_bug;
use foreshore_workloads::tpcc::{Home, Mix, Terminal, Tpcc, Trace};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// How often the engine's counters are told.
const COUNTERS_EVERY: Duration = Duration::from_millis(50);

/// Which life of the database: the clients of each have random streams of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Before the kill.
    First,
    /// After it.
    Second,
}

/// Enters transactions with all clients until the deadline, if there is one, telling what happens through `pipe`.
///
/// Errors: of the engine; a wrong answer; of the pipe.
pub fn run<P>(db: &Database, spec: &DemoSpec, life: Life, deadline: Option<Instant>, pipe: &P) -> Outcome
where
    P: Sync,
    for<'p> &'p P: Write,
{
    let store = EngineTx(db.clone());
    let tpcc = spec.tpcc(&store)?;
    let first_stream = 1 + if life == Life::First { 0 } else { spec.clients() as u64 };
    let stop = AtomicBool::new(false);
    let client = |number: u64| {
        let outcome = enter(&tpcc, first_stream + number, &stop, pipe);
        if outcome.is_err() {
            stop.store(true, Relaxed);
        }
        outcome
    };
    let client = &client;
    thread::scope(|scope| {
        let start = |number| thread::Builder::new().spawn_scoped(scope, move || client(number));
        let clients =
            (0..spec.clients() as u64).map(start).collect::<Result<Vec<_>, _>>().map_err(|error| {
                stop.store(true, Relaxed); // or those that have started would go on for ever
                Failure::io("starting a client", &error)
            })?;
        while !stop.load(Relaxed) {
            // A broken pipe stops the clients too.
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) || counters(db).send(pipe).is_err()
            {
                stop.store(true, Relaxed);
            }
            thread::sleep(COUNTERS_EVERY);
        }
        clients.into_iter().try_for_each(|client| client.join().expect("clients do not panic"))
    })
}

fn counters(db: &Database) -> Message {
    let stats = db.stats();
    Message::Counters { log_bytes: stats.log_bytes, lock_waits: stats.lock_waits }
}

/// One client.
fn enter<P>(tpcc: &Tpcc<'_, EngineTx>, stream: u64, stop: &AtomicBool, pipe: &P) -> Outcome
where
    for<'p> &'p P: Write,
{
    let mut terminal =
        tpcc.terminal(stream, Home::Any, Mix::Full).map_err(foreshore_workloads::kv::BenchError::Store)?;
    while !stop.load(Relaxed) {
        transaction(&mut terminal)?.send(pipe)?;
    }
    Ok(())
}

fn transaction(terminal: &mut Terminal<'_, EngineTx>) -> Outcome<Message> {
    let began = Instant::now();
    let (_, trace) = terminal.step_traced()?;
    let latency_ns = began.elapsed().as_nanos() as u64;
    Ok(match trace {
        Some(trace) => Message::Committed { latency_ns, trace: lie(trace) },
        None => Message::Ended,
    })
}

/// The truth, unless a bug is seeded: then now and then an order is acknowledged that nobody entered.
fn lie(trace: Trace) -> Trace {
    match trace {
        Trace::Order { w, d, o, c, lines } if seeded_bug("demo_acknowledges_too_much") && o % 50 == 7 => {
            Trace::Order { w, d, o: o + 1_000_000, c, lines }
        }
        trace => trace,
    }
}
