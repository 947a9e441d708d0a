//! Names the commit that the laboratory is built from, for the headers of its results.

use std::process::Command;

fn main() {
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=FORESHORE_COMMIT={commit}");
    match git(&["rev-parse", "--absolute-git-dir"]) {
        // Every commit and checkout adds a line there.
        Some(dir) => println!("cargo::rerun-if-changed={dir}/logs/HEAD"),
        None => println!("cargo::rerun-if-changed=build.rs"),
    }
}

/// What git says; `None` without git, and outside a clone.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
