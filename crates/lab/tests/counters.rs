//! Counters on this machine: what the operating system counts is there nearly everywhere, and goes the same way as what
//! the processor counts.

use foreshore_lab::counters::{Count, Counted, Counters, Event, Trial};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The count of `event`; none where the system forbids it, which the summary must then explain.
fn count(counters: &Counters, counted: &Counted, event: Event) -> Option<Count> {
    let found = counted.get(event);
    if found.is_none() {
        assert!(
            counters.absent().iter().any(|(absent, _)| *absent == event),
            "{event:?}: neither counted nor absent"
        );
        eprintln!("not tested: {}", counters.summary());
    }
    found
}

/// Every event is either counted or absent for a reason that the summary gives.
#[test]
fn every_event_is_accounted_for() {
    let mut counters = Counters::of_this_thread();
    let ((), counted) = counters.around(|| ());
    let summary = counters.summary();
    for event in Event::all() {
        let absent = counters.absent().iter().any(|(absent, _)| *absent == event);
        assert!(!(absent && counted.get(event).is_some()), "{event:?} is counted and absent");
        let none_at_all = summary.starts_with("No hardware counters: ") && event.is_processors();
        assert!(none_at_all || summary.contains(event.name()), "{event:?} is not in {summary:?}");
    }
}

/// Fresh memory costs page faults, the same memory again costs none.
#[test]
fn page_faults_are_those_of_fresh_memory() {
    const BYTES: usize = 8 << 20;
    let mut counters = Counters::of_this_thread();
    let write = |memory: &mut Vec<u8>| (0..BYTES).step_by(4096).for_each(|at| memory[at] = 1);
    let (mut memory, first) = counters.around(|| {
        let mut memory = vec![0; BYTES];
        write(&mut memory);
        memory
    });
    let ((), again) = counters.around(|| write(&mut memory));
    let Some(first) = count(&counters, &first, Event::PageFaults) else { return };
    let again = again.get(Event::PageFaults).expect("counted before");
    assert!(first.value >= 1.0 && again.value < first.value, "{first:?}, then {again:?}");
    assert_eq!((first.share, first.is_scaled()), (1.0, false), "the system's events need no register");
}

/// Who sleeps gives up the processor, and its clock stands.
#[test]
fn sleep_switches_and_stops_the_task_clock() {
    const SLEEP: Duration = Duration::from_millis(20);
    let mut counters = Counters::of_this_thread();
    let ((), counted) = counters.around(|| (0..5).for_each(|_| std::thread::sleep(SLEEP)));
    if let Some(switches) = count(&counters, &counted, Event::ContextSwitches) {
        assert!(switches.value >= 5.0, "{switches:?}");
    }
    if let Some(clock) = count(&counters, &counted, Event::TaskClock) {
        assert!(clock.value > 0.0 && clock.value < 5.0 * SLEEP.as_nanos() as f64, "{clock:?}");
    }
}

/// Another thread's work is not counted here.
#[test]
fn a_thread_counts_itself() {
    let spin = || {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(50) {}
    };
    let mut counters = Counters::of_this_thread();
    let (tell, hear) = mpsc::channel();
    let (theirs, waited) = std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut counters = Counters::of_this_thread();
            let mut spent = 0.0;
            while spent < 50e6 {
                let ((), counted) = counters.around(spin);
                let Some(clock) = counted.get(Event::TaskClock) else { break };
                spent += clock.value;
            }
            tell.send(spent).expect("somebody listens");
        });
        counters.around(|| hear.recv().expect("it tells"))
    });
    let Some(waited) = count(&counters, &waited, Event::TaskClock) else { return };
    assert!(waited.value < theirs, "waiting: {} ns on a processor; the other thread: {theirs}", waited.value);
}

/// Where the processor counts, the trial's loads miss as they must; everywhere it costs the pages it is made of.
#[test]
fn the_trial_misses_as_it_must() {
    let trial = Trial { lines: 1 << 17 };
    let mut counters = Counters::of_this_thread();
    let counted = trial.run(&mut counters);
    let lines = trial.lines as f64;
    if let Some(faults) = count(&counters, &counted, Event::PageFaults) {
        let pages = trial.bytes() as f64 / 4096.0;
        assert!(faults.value >= 1.0 && faults.value <= 1.1 * pages + 16.0, "{faults:?} for {pages} pages");
    }
    // 8 MiB in random order: no first level holds a tenth of it.
    if let Some(misses) = counted.get(Event::L1Misses) {
        assert!(misses.value > 0.5 * lines, "{misses:?} of {lines} loads");
    }
    if let Some(instructions) = counted.get(Event::Instructions) {
        assert!(instructions.value > 2.0 * lines, "{instructions:?}");
    }
}
