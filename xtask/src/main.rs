//! Project chores: `cargo xtask ci | tidy | seeded | asan | miri | arm | torture | stages | python | redis | figures`.
//!
//! A chore is a table of [`step::Step`]s: each prints the command that repeats it, so that a red step is one paste away.

mod arm;
mod asan;
mod book;
mod ci;
mod clients;
mod figures;
mod group;
mod links;
mod miri;
mod python;
mod redis;
mod seeded;
mod sources;
mod stages;
mod step;
mod tidy;
mod torture;

use clap::{Parser, Subcommand};
use std::path::Path;
use std::process::ExitCode;

/// Chores of the Foreshore project.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Run what must be green before a merge
    Ci {
        /// Only steps whose name contains one of these
        #[arg(long, value_name = "NAME")]
        only: Vec<String>,
    },
    /// Format, then report lints, long files, and what must not be in the sources
    Tidy,
    /// Switch known bugs in, one at a time; each must be caught by its test
    Seeded {
        /// Only these bugs; all of them by default
        bugs: Vec<String>,
    },
    /// Run tests under AddressSanitizer, ten million operations on each index structure among them
    Asan,
    /// Run small tests in Miri, which sees undefined behaviour, data races and weak memory
    Miri,
    /// Compile everything for ARM, and run tests there in an emulator
    Arm,
    /// Run seeded crash and kill tests for hours, with a ledger of seeds and findings
    Torture(torture::Options),
    /// Build `foreshore` with the old primitives of Shore-MT, for the laboratory's figures of its stages
    Stages,
    /// Build the Python package in an environment of its own, and run its tests
    Python,
    /// Measure the figures that are promised, beside the peers', by turns
    Figures(figures::Options),
    /// Measure `foreshore serve` beside Redis, by turns
    Redis(redis::Options),
}

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is above xtask");
    std::env::set_current_dir(root).expect("the workspace this was built from is still there");
    let chore = Cli::parse().chore;
    group::end_with_the_chore();
    let all_well = match chore {
        Chore::Ci { only } => ci::run(&only),
        Chore::Tidy => tidy::run(),
        Chore::Seeded { bugs } => seeded::run(&bugs),
        Chore::Asan => asan::run(),
        Chore::Miri => miri::run(),
        Chore::Arm => arm::run(),
        Chore::Torture(options) => torture::run(&options),
        Chore::Stages => stages::run(),
        Chore::Python => python::run(),
        Chore::Figures(options) => figures::run(&options),
        Chore::Redis(options) => redis::run(&options),
    };
    match all_well {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(2)
        }
    }
}
