//! The step `clients` of `cargo xtask ci`: the server's tests with clients that others wrote, which are fetched for it.
//!
//! It needs Python 3.10 or later with `venv`, and PyPI; where there is Node, npm's registry, too. Of redis-cli and redis-benchmark it
//! takes what the machine has.

use crate::python::{environment, succeeds};
use std::path::Path;
use std::process::Command;

/// Where Node's modules are fetched to; kept, so that the next time is quick.
const NODE: &str = "target/node-clients";

/// The tests of `crates/server/tests/clients.rs`.
const TESTS: [&str; 4] = ["redis_cli", "redis_benchmark", "redis_py", "node"];

/// Does it all.
pub fn check() -> Result<(), String> {
    let python = environment()?;
    succeeds(Command::new(&python).args(["-m", "pip", "install", "--quiet", "redis"]))?;
    if Command::new("npm").arg("--version").output().is_ok_and(|ran| ran.status.success()) {
        std::fs::create_dir_all(NODE).map_err(|error| format!("{NODE}: {error}"))?;
        let npm = ["install", "--silent", "--no-audit", "--no-fund", "--prefix", NODE, "redis", "ioredis"];
        succeeds(Command::new("npm").args(npm))?;
    }
    let absolute =
        |path: &Path| std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()));
    succeeds(
        Command::new(env!("CARGO"))
            .args(["test", "--quiet", "--workspace", "--tests", "--", "--exact"]) // nothing is compiled anew
            .args(TESTS)
            .env("FORESHORE_PYTHON", absolute(&python)?)
            .env("NODE_PATH", absolute(&Path::new(NODE).join("node_modules"))?),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A test that got another name would be left out without a word.
    #[test]
    fn all_tests_are_named() {
        let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/server/tests/clients.rs");
        let code = std::fs::read_to_string(tests).unwrap();
        let named = TESTS.iter().filter(|name| code.contains(&format!("#[test]\nfn {name}() {{"))).count();
        assert_eq!((named, code.matches("#[test]").count()), (TESTS.len(), TESTS.len()));
    }
}
