//! The loader: run by a child process that will be killed, and by the parent for the rest.

use crate::demo::LoadSpec;
use crate::demo::acks::Acks;
use crate::demo::data::Dataset;
use crate::failure::{Failure, Outcome};
use clap::{Args, ValueEnum};
use foreshore::{ByteTable, Database};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Load the demonstration's rows and tell each acknowledged one on stdout, four bytes each
#[derive(Args)]
pub struct ChildArgs {
    #[arg(long)]
    dir: PathBuf,
    #[command(flatten)]
    load: LoadSpec,
}

/// The process that is going to be killed; killed as well if the parent gives up.
pub struct Victim(Child);

/// Starts this program again as the loader.
pub fn spawn(spec: &LoadSpec, dir: &Path) -> Outcome<Victim> {
    let program = std::env::current_exe().map_err(|e| Failure::io("finding this program", &e))?;
    let durability = spec.durability.to_possible_value().expect("no variant is hidden");
    let mut command = Command::new(program);
    command.arg("demo-child").arg("--dir").arg(dir);
    command.args(["--durability", durability.get_name()]);
    for (flag, value) in [
        ("--rows", spec.rows),
        ("--threads", spec.threads() as u64),
        ("--cache", spec.cache),
        ("--seed", spec.seed),
    ] {
        command.arg(flag).arg(value.to_string());
    }
    if !spec.flights.is_empty() {
        command.arg("--flights").args(&spec.flights);
    }
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    child.map(Victim).map_err(|e| Failure::io("starting the loading process", &e))
}

impl Victim {
    /// The end of the pipe that acknowledgements come out of.
    pub fn take_pipe(&mut self) -> ChildStdout {
        self.0.stdout.take().expect("stdout is piped, and taken once")
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Has it ended by itself?
    pub fn exited(&mut self) -> Outcome<Option<ExitStatus>> {
        self.0.try_wait().map_err(|e| Failure::io("waiting for the loading process", &e))
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill(mut self) -> Outcome {
        self.0
            .kill()
            .and_then(|()| self.0.wait())
            .map_err(|e| Failure::io("killing the loading process", &e))?;
        Ok(())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // Already gone if all went well; otherwise nobody else would end it.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Runs `demo-child`.
pub fn run_child(args: &ChildArgs) -> Outcome {
    let dataset = Dataset::make(&args.load)?;
    let db = args.load.open(&args.dir)?;
    let stdout = std::io::stdout().as_fd().try_clone_to_owned().map_err(|e| Failure::io("stdout", &e))?;
    // Not through `Stdout`: its buffer would hold acknowledgements back, and its lock would queue the loaders.
    let pipe = File::from(stdout);
    let nothing = Acks::none(dataset.len());
    load(
        &db,
        &dataset,
        &args.load,
        &nothing,
        None,
        &|row| Ok((&pipe).write_all(&(row as u32).to_le_bytes())?),
        &mut |_| {},
    )?;
    db.close()?;
    Ok(())
}

/// What the loader threads share.
struct Work<'a> {
    dataset: &'a Dataset,
    tables: Vec<ByteTable>,
    skip: &'a Acks,
    next: AtomicUsize,
    done: AtomicUsize,
    stop: AtomicBool,
}

/// Puts all rows that `skip` lacks, calling `acknowledged` with the number of each once it is put, and `progress` now
/// and then with how many there are. Ends at the deadline.
pub fn load(
    db: &Database,
    dataset: &Dataset,
    spec: &LoadSpec,
    skip: &Acks,
    deadline: Option<Instant>,
    acknowledged: &(dyn Fn(usize) -> Outcome + Sync),
    progress: &mut dyn FnMut(usize),
) -> Outcome {
    let work = Work {
        dataset,
        tables: dataset.open_tables(db)?,
        skip,
        next: AtomicUsize::new(0),
        done: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
    };
    std::thread::scope(|scope| {
        let put_rows = || {
            let outcome = work.put_rows(acknowledged);
            if outcome.is_err() {
                work.stop.store(true, Relaxed);
            }
            outcome
        };
        let loaders: Vec<_> = (0..spec.threads()).map(|_| scope.spawn(put_rows)).collect();
        while !loaders.iter().all(|loader| loader.is_finished()) {
            progress(work.done.load(Relaxed));
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                work.stop.store(true, Relaxed);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        loaders.into_iter().try_for_each(|loader| loader.join().expect("loaders do not panic"))
    })
}

impl Work<'_> {
    fn put_rows(&self, acknowledged: &(dyn Fn(usize) -> Outcome + Sync)) -> Outcome {
        while !self.stop.load(Relaxed) {
            let place = self.next.fetch_add(1, Relaxed);
            if place >= self.dataset.len() {
                break;
            }
            let number = self.dataset.at(place);
            if !self.skip.has(number) {
                self.put_row(number)?;
                acknowledged(number)?;
                self.done.fetch_add(1, Relaxed);
            }
        }
        Ok(())
    }

    fn put_row(&self, number: usize) -> Outcome {
        if cfg!(seeded_bug = "demo_skips_a_put") && number % 1000 == 7 {
            return Ok(());
        }
        let row = self.dataset.row(number);
        Ok(self.tables[row.table].put(&row.key, &row.value)?)
    }
}
