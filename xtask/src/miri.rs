//! `cargo xtask miri`: small tests of the crates that have nearly all of the `unsafe` code, by Miri, which interprets them: no access
//! beyond its end or after the memory was given back, no data race, and loads that see what weaker processors may see.
//!
//! Not a part of `cargo xtask ci`: it needs a nightly compiler (`rustup toolchain install nightly --component miri,rust-src`)
//! and takes half an hour. Where instructions are written by hand, Miri gets what machines without them get.

use crate::step::{Cargo, Step, Work, run_all};
use std::io;

/// What Miri must be told:
/// - nodes refer to one another by exposed addresses, and crossbeam's collector keeps the rules of Tree Borrows only;
/// - memory for nodes is kept until the process ends, and so is what the collector still holds then;
/// - property tests read their settings from the environment.
const FLAGS: &str =
    "-Zmiri-permissive-provenance -Zmiri-tree-borrows -Zmiri-ignore-leaks -Zmiri-disable-isolation";

/// Schedules of the tests with several threads.
const SEEDS: &str = "-Zmiri-many-seeds=1..5";

/// Does it all. `Ok(true)` if all went well.
pub fn run() -> io::Result<bool> {
    run_all(&[
        Step::new(
            "miri base",
            Work::Tests(interpreted("-p foreshore-base --lib", "").env("PROPTEST_CASES", "16")),
        ),
        Step::new("miri maps", Work::Tests(interpreted("-p foreshore-index --test miri", ""))),
        Step::new(
            "miri threads",
            Work::Tests(interpreted("-p foreshore-index --test miri -- together", SEEDS)),
        ),
    ])
}

/// `cargo miri test` of these.
fn interpreted(tests: &str, more: &str) -> Cargo {
    Cargo::new(&format!("miri test {tests}"))
        .toolchain("nightly")
        .env("MIRIFLAGS", format!("{FLAGS} {more}").trim())
}
