//! The process that is going to be killed.

use crate::demo::clients::{self, Life};
use crate::demo::spec::DemoSpec;
use crate::failure::{Failure, Outcome};
use clap::Args;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

/// Enter the demonstration's transactions until killed, and tell each acknowledged one on stdout
#[derive(Args)]
pub struct ChildArgs {
    #[arg(long)]
    dir: PathBuf,
    #[command(flatten)]
    spec: DemoSpec,
}

/// Runs `demo-child`.
pub fn run_child(args: &ChildArgs) -> Outcome {
    let db = args.spec.open(&args.dir)?;
    let stdout = std::io::stdout().as_fd().try_clone_to_owned().map_err(|e| Failure::io("stdout", &e))?;
    // Not through `Stdout`: its buffer would hold acknowledgements back, and its lock would queue the clients.
    clients::run(&db, &args.spec, Life::First, None, &File::from(stdout))
}

/// The child; killed as well if the parent gives up.
pub struct Victim(Child);

/// Starts this program again, as the one with the clients.
pub fn spawn(spec: &DemoSpec, dir: &Path) -> Outcome<Victim> {
    let program = std::env::current_exe().map_err(|e| Failure::io("finding this program", &e))?;
    let mut command = Command::new(program);
    command.arg("demo-child").arg("--dir").arg(dir);
    spec.pass_on(&mut command);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    child.map(Victim).map_err(|e| Failure::io("starting the working process", &e))
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
        self.0.try_wait().map_err(|e| Failure::io("waiting for the working process", &e))
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill(mut self) -> Outcome {
        let killed = self.0.kill().and_then(|()| self.0.wait());
        killed.map(drop).map_err(|e| Failure::io("killing the working process", &e))
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // Already gone if all went well; otherwise nobody else would end it.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}
