//! Known bugs behind `--cfg seeded_bug="…"`, and the tests that must catch them. A test that cannot find its bug is no
//! test.

use crate::step::{Cargo, Step, Work, run_all};
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

/// One compiler wrapper per bug. Cargo keeps what each wrapper compiled apart.
const WRAPPERS: &str = "target/xtask/seeded";

/// What a catch may take, compiling apart.
const CAUGHT_WITHIN: Duration = Duration::from_secs(60);

/// A bug and what catches it.
struct Bug {
    /// The value of `cfg(seeded_bug)`.
    name: &'static str,
    /// `""`, `"loom"` or `"shuttle"`: the model checker that the test runs under.
    checker: &'static str,
    /// What `cargo test` builds. Model checkers want `--release`; the rest shares the build of `cargo test --workspace`.
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
        test_args: "--release -p foreshore-base --test loom_latch",
        test: "a_reader_never_sees_half_an_update",
        in_ci: true,
    },
    Bug {
        name: "latch_upgrade_fence",
        checker: "loom",
        test_args: "--release -p foreshore-base --test loom_latch",
        test: "a_reader_never_sees_half_an_update",
        in_ci: true,
    },
    Bug {
        name: "latch_release_order",
        checker: "loom",
        test_args: "--release -p foreshore-base --test loom_latch",
        test: "updates_are_not_lost",
        in_ci: true,
    },
];

impl Bug {
    fn step(&self) -> io::Result<Step> {
        let Self { name, checker, test_args, test, .. } = self;
        let mut args = "test".to_owned();
        if !checker.is_empty() {
            args += &format!(" --target-dir target/{checker}");
        }
        args += &format!(" {test_args} -- --exact {test}");
        let mut cargo = Cargo::new(&args).env("RUSTC_WORKSPACE_WRAPPER", self.wrapper()?);
        if !checker.is_empty() {
            cargo = cargo.env("RUSTFLAGS", format!("--cfg {checker}"));
        }
        Ok(Step::new(format!("seeded {name}"), Work::Catches { cargo, test, within: CAUGHT_WITHIN }))
    }

    /// Writes the compiler wrapper that switches the bug in. `RUSTFLAGS` would do the same, but also compile every
    /// dependency anew for every bug; a wrapper is asked for the workspace's own crates only.
    fn wrapper(&self) -> io::Result<String> {
        std::fs::create_dir_all(WRAPPERS)?;
        let path = format!("{WRAPPERS}/{}", self.name);
        std::fs::write(&path, format!("#!/bin/sh\nexec \"$@\" --cfg 'seeded_bug=\"{}\"'\n", self.name))?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o755))?;
        Ok(path)
    }
}

/// The steps that CI runs.
pub fn ci_steps() -> io::Result<Vec<Step>> {
    BUGS.iter().filter(|bug| bug.in_ci).map(Bug::step).collect()
}

/// `cargo xtask seeded`: the named bugs, or all.
pub fn run(names: &[String]) -> io::Result<bool> {
    if let Some(unknown) = names.iter().find(|name| !BUGS.iter().any(|bug| bug.name == **name)) {
        let known: Vec<_> = BUGS.iter().map(|bug| bug.name).collect();
        return Err(io::Error::other(format!("no seeded bug {unknown}; there are {}", known.join(", "))));
    }
    let wanted = |bug: &&Bug| names.is_empty() || names.iter().any(|name| name == bug.name);
    run_all(&BUGS.iter().filter(wanted).map(Bug::step).collect::<io::Result<Vec<_>>>()?)
}
