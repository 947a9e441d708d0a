//! `cargo xtask ci`: what must be green before a merge. `.ci/run` calls it.

use crate::step::{Cargo, Step, Work, choose, run_all};
use crate::{clients, python, seeded, sources, stages};
use std::io;

/// What the step `crash` runs.
const CRASH_TESTS: [&str; 3] = [
    "every_crash_point_recovers",
    "crashes_during_recovery_recover",
    "nothing_acknowledged_is_lost_to_kill_9",
];

/// All steps, the quickest verdicts first. Builds with other flags have target directories of their own, so that they
/// and the default build do not undo each other.
fn steps() -> io::Result<Vec<Step>> {
    let loom = Cargo::new(
        "test -p foreshore-base --release --test loom_latch --test loom_rwx --test loom_log_ring --test loom_standing --test loom_shown --test loom_gate --target-dir target/loom",
    );
    let shuttle = Cargo::new(
        "test -p foreshore-index --release --test shuttle_tree --test shuttle_csb --test shuttle_o2 \
         --test shuttle_o2_optimistic --test shuttle_layers_csb --test shuttle_layers_o2 \
         --test shuttle_bytes --target-dir target/shuttle",
    );
    let writes = Cargo::new("test -p foreshore --test reads_write_nothing").instrumented()?;
    // By the names of tests among all: with `--test` cargo builds most dependencies anew, as for a program without libraries
    // beside it. `tests` runs the same with seed 1.
    let crash = Cargo::new(&format!("test --workspace --tests -- --exact {}", CRASH_TESTS.join(" ")))
        .env("FORESHORE_SEED", "2")
        .env("FORESHORE_ROUNDS", "60");
    // Other tests see the crates from outside, so they compile with bugs in the code if they do without.
    let unit_tests =
        Cargo::new("test -p foreshore-base -p foreshore-io -p foreshore-index -p foreshore --lib --no-run");
    let peers =
        Cargo::new("check --manifest-path peers/Cargo.toml --all-targets --locked --target-dir target/peers");
    let mut steps = vec![
        Step::new("format", Work::Succeeds(Cargo::new("fmt --all --check"))),
        Step::new("sources", Work::Check(sources::check)),
        Step::new("lints", Work::Succeeds(Cargo::new("clippy --workspace --all-targets -- -D warnings"))),
        Step::new("tests", Work::Tests(Cargo::new("test --workspace --no-fail-fast"))),
        Step::new(
            "docs",
            Work::Succeeds(Cargo::new("doc --workspace --no-deps --lib").env("RUSTDOCFLAGS", "-D warnings")),
        ),
        Step::new("loom", Work::Tests(seeded::checked(loom, "loom"))),
        Step::new("shuttle", Work::Tests(seeded::checked(shuttle, "shuttle"))),
        Step::new("writes", Work::Tests(writes)),
        stages::step()?,
        Step::new("python", Work::Check(python::check)),
        Step::new("clients", Work::Check(clients::check)),
        // A workspace of its own, which nothing above compiles: without the engines whose libraries a bare machine lacks.
        Step::new("peers", Work::Succeeds(peers)),
        Step::new("crash", Work::Tests(crash)),
        Step::new("unit tests for seeded bugs compile", Work::Succeeds(unit_tests.instrumented()?)),
    ];
    steps.extend(seeded::ci_steps()?);
    Ok(steps)
}

/// Does the steps whose names contain one of `only`, or all.
pub fn run(only: &[String]) -> io::Result<bool> {
    let mut steps = steps()?;
    choose(&mut steps, only, "step", |step| &step.name, |name, part| name.contains(part))?;
    run_all(&steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A test that got another name would be left out without a word.
    #[test]
    fn crash_tests_exist() {
        let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/engine/tests");
        let read = |file| std::fs::read_to_string(format!("{tests}/{file}.rs")).unwrap();
        let code = read("crash") + &read("kill");
        for name in CRASH_TESTS {
            assert!(code.contains(&format!("#[test]\nfn {name}() {{")), "{name}");
        }
    }
}
