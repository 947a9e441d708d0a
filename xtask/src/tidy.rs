//! `cargo xtask tidy`: formats, then reports lints, long files, and what must not be in the sources.

use crate::sources::{self, LINES_MANY};
use crate::step::{Cargo, Step, Work, run_all};
use std::io;

/// Formats and reports. `Ok(true)` if nothing is left to do.
pub fn run() -> io::Result<bool> {
    let tidy = run_all(&[
        Step::new("format", Work::Succeeds(Cargo::new("fmt --all"))),
        Step::new("lints", Work::Succeeds(Cargo::new("clippy --workspace --all-targets -- -D warnings"))),
        Step::new("sources", Work::Check(sources::check)),
    ])?;
    report_long_files()?;
    Ok(tidy)
}

/// Names the files that may hold a second concept.
fn report_long_files() -> io::Result<()> {
    let mut sources = sources::all()?;
    sources.retain(|source| source.name.ends_with(".rs"));
    let lines: usize = sources.iter().map(|source| source.text.lines().count()).sum();
    println!("{} Rust files, {lines} lines", sources.len());
    for source in &sources {
        let lines = source.text.lines().count();
        if lines > LINES_MANY {
            println!("{}: {lines} lines: does a second concept wait for a name?", source.name);
        }
    }
    Ok(())
}
