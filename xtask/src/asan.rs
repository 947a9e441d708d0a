//! `cargo xtask asan`: tests under AddressSanitizer: nothing is used after it was freed, nothing beyond its end, nothing is lost.
//!
//! Not a part of `cargo xtask ci`: everything is compiled anew. The stable compiler has the sanitizer, behind
//! `RUSTC_BOOTSTRAP`; a target is named so that build scripts are left as they are. The standard library is not
//! instrumented: what goes through it is seen by the allocator's checks alone.

use crate::step::{Cargo, Step, Work, run_all};
use std::io;

/// Operations of each of four threads in each of ten rounds: ten million for each structure.
const CHURN: &str = "250000";

/// Does it all. `Ok(true)` if all went well.
pub fn run() -> io::Result<bool> {
    let churn = "-p foreshore-index --test maps -- --ignored --exact churn::no_structure_grows --nocapture";
    let maps = "-p foreshore-index --test maps";
    let engine = "-p foreshore --lib --test model --test concurrent --test large --test transactions";
    run_all(&[
        Step::new("asan churn", Work::Tests(sanitized(churn).env("INDEX_STRESS_OPS", CHURN))),
        Step::new("asan maps", Work::Tests(sanitized(maps))),
        Step::new("asan engine", Work::Tests(sanitized(engine))),
    ])
}

/// `cargo test` of these, with the sanitizer.
fn sanitized(tests: &str) -> Cargo {
    Cargo::new(&format!("test --target x86_64-unknown-linux-gnu --target-dir target/asan {tests}"))
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", "-Zsanitizer=address")
        // What was freed is kept a while, to see whether it is used; here not for longer than the test may grow.
        .env("ASAN_OPTIONS", "quarantine_size_mb=8")
        .env("CARGO_PROFILE_TEST_OPT_LEVEL", "2")
}
