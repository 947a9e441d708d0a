//! `cargo xtask stages`: `target/stages/release/foreshore`, in which old primitives can be switched back in.
//!
//! `FORESHORE_OLD` chooses them at run time (`crates/engine/src/stage.rs`); `foreshore lab shoremt-fig7` does that. A target
//! directory of its own, so that this build and the usual one do not undo each other.

use crate::step::{Cargo, Step, Work, run_all};
use std::io;

/// The flag, and where what it builds lives.
fn with_stages(command: &str) -> Cargo {
    Cargo::new(&format!("{command} --target-dir target/stages")).env("RUSTFLAGS", "--cfg foreshore_stages")
}

/// Builds it. `Ok(true)` if it is there.
pub fn run() -> io::Result<bool> {
    run_all(&[Step::new("stages", Work::Succeeds(with_stages("build --release -p foreshore-cli")))])
}

/// The gate's step: every stage is a working engine.
pub fn step() -> Step {
    Step::new("stages", Work::Tests(with_stages("test -p foreshore --test stages")))
}
