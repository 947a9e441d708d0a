//! `cargo xtask python`: builds the Python package as a user would, in an environment of its own, and runs its tests.
//!
//! It needs Python 3.10 or later with `venv`, and PyPI for maturin, pytest, pandas and mypy.

use crate::group::Group;
use crate::step::HANGS_AFTER;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The environment; kept, so that the next time is quick.
const VENV: &str = "target/python-venv";

/// Does it all. `Ok(true)` if all went well.
pub fn run() -> io::Result<bool> {
    let done = check();
    if let Err(failed) = &done {
        eprintln!("{failed}");
    }
    Ok(done.is_ok())
}

/// The same, as a step of `cargo xtask ci`.
pub fn check() -> Result<(), String> {
    let python = environment()?;
    succeeds(Command::new(&python).args(["-m", "pip", "install", "--quiet", "pytest", "pandas", "mypy"]))?;
    // Tests want a build that is soon there, not the quickest program; the lock file is as good here as anywhere.
    succeeds(
        Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "."])
            .env("MATURIN_PEP517_ARGS", "--profile dev --locked")
            .env("CARGO_TARGET_DIR", "python/target"),
    )?;
    // Isolated (-I): the package that was installed is tested, not the sources beside the tests.
    succeeds(Command::new(&python).args(["-I", "-m", "pytest", "-q", "-p", "no:cacheprovider"]))
}

/// The Python of the environment, which is made if there is none.
pub fn environment() -> Result<PathBuf, String> {
    let python = Path::new(VENV).join("bin/python");
    if !has_pip(&python) {
        succeeds(Command::new("python3").args(["-m", "venv", "--clear", VENV])).map_err(|error| {
            format!("{error}; install Python 3.10 or later with its module venv (Debian: python3-venv)")
        })?;
    }
    Ok(python)
}

/// One that was left half made has none, nor one whose Python has made place for a newer one.
fn has_pip(python: &Path) -> bool {
    Command::new(python).args(["-m", "pip", "--version"]).output().is_ok_and(|ran| ran.status.success())
}

/// Runs it, in sight.
pub fn succeeds(command: &mut Command) -> Result<(), String> {
    succeeds_within(command, HANGS_AFTER)
}

fn succeeds_within(command: &mut Command, limit: Duration) -> Result<(), String> {
    println!("{command:?}");
    let ended = Group::start(command).and_then(|mut group| group.wait(Instant::now() + limit));
    match ended {
        Ok(Some(status)) if status.success() => Ok(()),
        Ok(Some(status)) => Err(format!("{command:?}: {status}")),
        Ok(None) => Err(format!("{command:?}: still running after {} minutes", limit.as_secs() / 60)),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_hangs_is_ended() {
        let ran = succeeds_within(Command::new("sleep").arg("60"), Duration::from_millis(50));
        assert!(ran.is_err_and(|why| why.contains("still running")));
    }

    #[test]
    fn an_environment_without_pip_is_made_again() {
        assert!(!has_pip(Path::new("/bin/false")), "it stands for a Python that is there, and has no pip");
    }
}
