//! Known bugs behind `--cfg seeded_bug="…"`, and the tests that must catch them. A test that cannot find its bug is no
//! test.

use crate::step::{Cargo, Step, Work, run_all};
use std::io;
use std::time::Duration;

/// What a catch may take, compiling apart.
const CAUGHT_WITHIN: Duration = Duration::from_secs(60);

/// A bug and what catches it.
struct Bug {
    /// The value of `cfg(seeded_bug)`.
    name: &'static str,
    /// `""`, `"loom"` or `"shuttle"`: the model checker that the test runs under.
    checker: &'static str,
    /// What `cargo test --release` builds.
    test_args: &'static str,
    /// The test that must fail, by its full name; it runs alone.
    test: &'static str,
    /// Is this one of those that every CI run tries?
    in_ci: bool,
}

/// Every seeded bug.
const BUGS: &[Bug] = &[
    Bug {
        name: "latch_validate_fence",
        checker: "loom",
        test_args: "-p foreshore-base --test loom_latch",
        test: "a_reader_never_sees_half_an_update",
        in_ci: true,
    },
    Bug {
        name: "latch_upgrade_fence",
        checker: "loom",
        test_args: "-p foreshore-base --test loom_latch",
        test: "a_reader_never_sees_half_an_update",
        in_ci: true,
    },
    Bug {
        name: "latch_release_order",
        checker: "loom",
        test_args: "-p foreshore-base --test loom_latch",
        test: "updates_are_not_lost",
        in_ci: true,
    },
];

impl Bug {
    fn step(&self) -> Step {
        let cfgs = [self.checker.to_owned(), format!("seeded_bug=\"{}\"", self.name)];
        let flags: Vec<_> =
            cfgs.iter().filter(|cfg| !cfg.is_empty()).map(|cfg| format!("--cfg {cfg}")).collect();
        let cargo = Cargo::new(&format!(
            "test --release --target-dir target/seeded {} -- --exact {}",
            self.test_args, self.test
        ))
        .env("RUSTFLAGS", flags.join(" "));
        Step::new(
            format!("seeded {}", self.name),
            Work::Catches { cargo, test: self.test, within: CAUGHT_WITHIN },
        )
    }
}

/// The steps that CI runs.
pub fn ci_steps() -> impl Iterator<Item = Step> {
    BUGS.iter().filter(|bug| bug.in_ci).map(Bug::step)
}

/// `cargo xtask seeded`: the named bugs, or all.
pub fn run(names: &[String]) -> io::Result<bool> {
    if let Some(unknown) = names.iter().find(|name| !BUGS.iter().any(|bug| bug.name == **name)) {
        let known: Vec<_> = BUGS.iter().map(|bug| bug.name).collect();
        return Err(io::Error::other(format!("no seeded bug {unknown}; there are {}", known.join(", "))));
    }
    let wanted = |bug: &&Bug| names.is_empty() || names.iter().any(|name| name == bug.name);
    run_all(&BUGS.iter().filter(wanted).map(Bug::step).collect::<Vec<_>>())
}
