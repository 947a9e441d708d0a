//! `cargo xtask arm`: everything is compiled for ARM, and the tests of the crates with code of its own for it run in an emulator.
//!
//! Not a part of `cargo xtask ci`: it needs `rustup target add aarch64-unknown-linux-gnu` and Debian's packages
//! `gcc-aarch64-linux-gnu`, `libc6-dev-arm64-cross` and `qemu-user`. The emulator orders memory as this machine does: what ARM may reorder
//! only loom and Miri show.

use crate::step::{Cargo, Step, Work, run_all};
use std::io;

/// Tests that start their own program again (the emulator is not started with it), or look at what the emulator does not do.
const NOT_EMULATED: [&str; 4] = [
    "a_lock_is_not_inherited_by_started_programs",
    "a_lock_names_the_process_that_holds_it_and_dies_with_it",
    "shared_memory_is_not_shared_with_forks",
    "shared_memory_outlives_an_aborted_process",
];

/// Does it all. `Ok(true)` if all went well.
pub fn run() -> io::Result<bool> {
    let skipped: String = NOT_EMULATED.iter().map(|test| format!(" --skip {test}")).collect();
    let tests = "-p foreshore-base -p foreshore-io -p foreshore-index --lib --tests";
    run_all(&[
        Step::new("arm check", Work::Succeeds(cross("check", "--workspace --all-targets --exclude xtask"))),
        Step::new("arm tests", Work::Tests(cross("test", &format!("{tests} --{skipped}")))),
    ])
}

fn cross(command: &str, rest: &str) -> Cargo {
    Cargo::new(&format!("{command} --target aarch64-unknown-linux-gnu {rest}"))
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc")
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", "qemu-aarch64 -L /usr/aarch64-linux-gnu")
}
