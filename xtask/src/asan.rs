//! `cargo xtask asan`: tests under AddressSanitizer: nothing is used after it was freed, nothing beyond its end, nothing is lost.
//!
//! Not a part of `cargo xtask ci`: everything is compiled anew. The stable compiler has the sanitizer, behind
//! `RUSTC_BOOTSTRAP`; a target is named so that build scripts are left as they are. The standard library is not
//! instrumented: what goes through it is seen by the allocator's checks alone.

use crate::step::{Cargo, Step, Work, run_all};
use std::io;

/// The tests: name and what `cargo test` is told.
const TESTS: &[(&str, &str)] = &[
    (
        "asan churn",
        "-p foreshore-index --test maps -- --ignored --exact churn::no_structure_grows --nocapture",
    ),
    ("asan maps", "-p foreshore-index --test maps"),
    ("asan engine", "-p foreshore --lib --test model --test concurrent --test large --test transactions"),
];

/// Operations of each thread in each round of the churn: ten million for each structure.
const CHURN: &str = "250000";

/// Does it all. `Ok(true)` if all went well.
pub fn run() -> io::Result<bool> {
    let steps = TESTS.iter().map(|(name, tests)| {
        let cargo =
            Cargo::new(&format!("test --target x86_64-unknown-linux-gnu --target-dir target/asan {tests}"))
                .env("RUSTC_BOOTSTRAP", "1")
                .env("RUSTFLAGS", "-Zsanitizer=address")
                // What was freed is kept a while, to see whether it is used; here not for longer than the test may grow.
                .env("ASAN_OPTIONS", "quarantine_size_mb=8")
                .env("CARGO_PROFILE_TEST_OPT_LEVEL", "2");
        let cargo = if name.contains("churn") { cargo.env("INDEX_STRESS_OPS", CHURN) } else { cargo };
        Step::new(*name, Work::Tests(cargo))
    });
    run_all(&steps.collect::<Vec<_>>())
}
