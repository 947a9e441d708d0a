//! `cargo xtask stages`: `target/stages/release/foreshore`, in which old primitives can be switched back in.
//!
//! `FORESHORE_OLD` chooses them at run time (`crates/engine/src/stage.rs`); `foreshore lab shoremt-fig7` does that. A target
//! directory of its own, so that this build and the usual one do not undo each other.

use crate::step::{Cargo, Step, Work, run_all};
use std::io;

/// Builds it. `Ok(true)` if it is there. Quick to build: what counts are ratios between runs of this one binary.
pub fn run() -> io::Result<bool> {
    let build = Cargo::new("build -p foreshore-cli --release --target-dir target/stages")
        .cfg("stages", &["foreshore_stages"])?;
    run_all(&[Step::new("stages", Work::Succeeds(build.quick_release()))])
}

/// The gate's step: every stage is a working engine.
pub fn step() -> io::Result<Step> {
    Ok(Step::new("stages", Work::Tests(Cargo::new("test -p foreshore --test stages").instrumented()?)))
}
