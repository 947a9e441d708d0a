//! One step of a chore: a command or a check, what is expected of it, and the table of how all went.

use crate::group::Group;
use comfy_table::{Table, presets};
use std::fmt::Write as _;
use std::fs::{File, Permissions};
use std::io::{self, BufRead, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Where each step's output is kept.
const LOGS: &str = "target/xtask";

/// Where compiler wrappers are written.
const WRAPPERS: &str = "target/xtask/wrappers";

/// No step of any chore takes this long; a test that hangs must not hang the chore.
pub const HANGS_AFTER: Duration = Duration::from_secs(45 * 60);

/// A cargo command with its surroundings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cargo {
    args: Vec<String>,
    env: Vec<(String, String)>,
}

impl Cargo {
    /// `cargo …`, the arguments separated by spaces.
    pub fn new(args: &str) -> Self {
        Self { args: args.split(' ').map(str::to_owned).collect(), env: Vec::new() }
    }

    /// With an environment variable set.
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.env.push((name.to_owned(), value.into()));
        self
    }

    /// With another of rustup's toolchains than the one that runs this.
    pub fn toolchain(self, name: &str) -> Self {
        self.env("RUSTUP_TOOLCHAIN", name)
    }

    /// Optimised, but quick to build: no optimisation across crates, no debug information.
    pub fn quick_release(self) -> Self {
        self.env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
            .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
    }

    /// With all that tests switch on in the code: bugs and old primitives, both chosen when a test runs, and atomics that
    /// count their writes. One build for all steps that need any of it.
    pub fn instrumented(self) -> io::Result<Self> {
        self.cfg("instrumented", &["count_writes", "foreshore_stages", "seeded_bugs"])
    }

    /// With each `--cfg` for the workspace's own crates, through a compiler wrapper of that name. `RUSTFLAGS` would do the
    /// same, but also compile every dependency anew. Cargo keeps what each wrapper compiled apart.
    pub fn cfg(self, name: &str, cfgs: &[&str]) -> io::Result<Self> {
        std::fs::create_dir_all(WRAPPERS)?;
        let path = format!("{WRAPPERS}/{name}");
        let flags: String = cfgs.iter().map(|cfg| format!(" --cfg '{cfg}'")).collect();
        std::fs::write(&path, format!("#!/bin/sh\nexec \"$@\"{flags}\n"))?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o755))?;
        Ok(self.env("RUSTC_WORKSPACE_WRAPPER", path))
    }

    /// A test command that compiles and runs nothing.
    pub fn no_run(mut self) -> Self {
        self.args.insert(1, "--no-run".to_owned());
        self
    }

    /// What to paste into a shell to run this again.
    pub fn shell(&self) -> String {
        let mut line = String::new();
        for (name, value) in &self.env {
            let _ = write!(line, "{name}='{value}' ");
        }
        line + "cargo " + &self.args.join(" ")
    }

    fn command(&self) -> Command {
        let is_other = self.env.iter().any(|(name, _)| name == "RUSTUP_TOOLCHAIN");
        let this = std::env::var_os("CARGO").filter(|_| !is_other);
        let mut command = Command::new(this.unwrap_or_else(|| "cargo".into()));
        command.args(&self.args);
        // Flags from outside would build other code than the step names; colours would hide the result lines.
        command
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env("CARGO_TERM_COLOR", "never");
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs it, echoing its output if `echo`, keeping it in `log`, and ending it after `limit`.
    pub fn run(&self, log: &Path, echo: bool, limit: Duration) -> io::Result<Ran> {
        std::fs::create_dir_all(log.parent().expect("logs live in a directory"))?;
        let started = Instant::now();
        let (reader, writer) = io::pipe()?;
        let mut command = self.command();
        let mut group = Group::start(command.stdout(writer.try_clone()?).stderr(writer))?;
        drop(command); // It holds the pipe's other end, and the reader waits for its last holder.
        let logged = File::create(log).and_then(|log| {
            let mut output = Output::new(log, echo);
            let was_all = output.read(reader, started + limit)?;
            Ok((output, was_all))
        });
        let (output, was_all) = logged.map_err(|e| io::Error::other(format!("{}: {e}", log.display())))?;
        Ok(Ran {
            // What it started may still print, though it has ended itself.
            status: if was_all { group.wait(started + limit)? } else { None },
            tests: output.tests,
            failed: output.failed,
            took: started.elapsed(),
        })
    }
}

/// How a command went.
#[derive(Debug)]
pub struct Ran {
    /// `None` if it, or what it started, ran too long and was ended.
    pub status: Option<ExitStatus>,
    /// Tests that passed and failed, added up over all test binaries.
    pub tests: Tests,
    /// Names of tests that failed.
    pub failed: Vec<String>,
    /// How long it ran.
    pub took: Duration,
}

impl Ran {
    /// Did it end in time, and well?
    pub fn well(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }
}

/// Tests counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tests {
    pub passed: u64,
    pub failed: u64,
}

/// Reads what a command prints.
struct Output {
    log: File,
    echo: bool,
    tests: Tests,
    failed: Vec<String>,
}

impl Output {
    fn new(log: File, echo: bool) -> Self {
        Self { log, echo, tests: Tests::default(), failed: Vec::new() }
    }

    /// Reads to the end, or until `deadline`; tells whether that was the end.
    fn read(&mut self, pipe: io::PipeReader, deadline: Instant) -> io::Result<bool> {
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            let mut pipe = BufReader::new(pipe);
            let mut line = Vec::new();
            while pipe.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
                if sender.send(String::from_utf8_lossy(&std::mem::take(&mut line)).into_owned()).is_err() {
                    return;
                }
            }
        });
        loop {
            match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => self.line(&line)?,
                Err(why) => return Ok(why == RecvTimeoutError::Disconnected),
            }
        }
    }

    fn line(&mut self, line: &str) -> io::Result<()> {
        if self.echo {
            print!("{line}");
        }
        self.log.write_all(line.as_bytes())?;
        if let Some(tests) = test_result(line) {
            self.tests.passed += tests.passed;
            self.tests.failed += tests.failed;
        }
        self.failed.extend(failed_test(line));
        Ok(())
    }
}

/// Reads libtest's `test result: ok. 3 passed; 0 failed; …`.
fn test_result(line: &str) -> Option<Tests> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let count =
        |what: &str| counts.split("; ").find_map(|part| part.trim().strip_suffix(what)?.trim().parse().ok());
    Some(Tests { passed: count("passed")?, failed: count("failed")? })
}

/// Reads libtest's `test some::name ... FAILED`.
fn failed_test(line: &str) -> Option<String> {
    Some(line.trim_end().strip_prefix("test ")?.strip_suffix(" ... FAILED")?.to_owned())
}

/// What a step does.
pub enum Work {
    /// A command that must succeed.
    Succeeds(Cargo),
    /// Tests that must pass; at least one of them, or the step tests nothing.
    Tests(Cargo),
    /// Tests with a bug switched in: they must compile, and the named one must fail within the time.
    Catches { cargo: Cargo, test: &'static str, within: Duration },
    /// A check made here; `Err` says what is wrong.
    Check(fn() -> Result<(), String>),
}

/// A step of a chore.
pub struct Step {
    pub name: String,
    pub work: Work,
}

impl Step {
    pub fn new(name: impl Into<String>, work: Work) -> Self {
        Self { name: name.into(), work }
    }

    fn log(&self) -> PathBuf {
        let name: String =
            self.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        Path::new(LOGS).join(name + ".log")
    }

    /// What repeats the step, for the reader.
    fn shell(&self) -> String {
        match &self.work {
            Work::Succeeds(cargo) | Work::Tests(cargo) | Work::Catches { cargo, .. } => cargo.shell(),
            Work::Check(_) => format!("cargo xtask ci --only '{}'", self.name),
        }
    }

    /// Does the step; `Err` of the verdict says why it failed.
    fn run(&self) -> io::Result<Done> {
        let started = Instant::now();
        let (verdict, tests) = match &self.work {
            Work::Succeeds(cargo) => {
                let ran = cargo.run(&self.log(), true, HANGS_AFTER)?;
                (succeeded(&ran), ran.tests)
            }
            Work::Tests(cargo) => {
                let ran = cargo.run(&self.log(), true, HANGS_AFTER)?;
                let nothing = ran.tests == Tests::default();
                let verdict = if ran.well() && nothing { Err("ran no test".into()) } else { succeeded(&ran) };
                (verdict, ran.tests)
            }
            Work::Catches { cargo, test, within } => (self.catches(cargo, test, *within)?, Tests::default()),
            Work::Check(check) => (check(), Tests::default()),
        };
        Ok(Done { name: self.name.clone(), shell: self.shell(), verdict, tests, took: started.elapsed() })
    }

    /// A bug that does not compile proves nothing, so compiling comes first and is not timed.
    fn catches(&self, cargo: &Cargo, test: &str, within: Duration) -> io::Result<Result<(), String>> {
        let log = self.log();
        if !cargo.clone().no_run().run(&log, false, HANGS_AFTER)?.well() {
            return Ok(Err(format!("does not compile, see {}", log.display())));
        }
        let ran = cargo.run(&log, false, within)?;
        Ok(if ran.failed.iter().any(|name| name == test) {
            println!("{test} failed after {:.1} s, as it must", ran.took.as_secs_f64());
            Ok(())
        } else if ran.well() && ran.tests == Tests::default() {
            Err(format!("there is no test {test}"))
        } else if ran.well() {
            Err(format!("{test} passed with the bug in"))
        } else if ran.status.is_none() {
            Err(format!("not caught within {} s", within.as_secs()))
        } else {
            Err(format!("something else failed, see {}", log.display()))
        })
    }
}

fn succeeded(ran: &Ran) -> Result<(), String> {
    match ran.status {
        Some(status) if status.success() => Ok(()),
        Some(_) if !ran.failed.is_empty() => Err(format!("failed: {}", ran.failed.join(", "))),
        Some(status) => Err(status.to_string()),
        None => Err(format!("still running after {} minutes", HANGS_AFTER.as_secs() / 60)),
    }
}

/// How a step went.
struct Done {
    name: String,
    shell: String,
    verdict: Result<(), String>,
    tests: Tests,
    took: Duration,
}

/// Keeps those of `all` whose name one of `only` stands for, as `is_meant` says of a name and it, or all if there is no such.
///
/// Errors: one of them stands for nothing. Left out without a word, it would be thought done.
pub fn choose<T>(
    all: &mut Vec<T>,
    only: &[String],
    what: &str,
    name: impl Fn(&T) -> &str,
    is_meant: fn(&str, &str) -> bool,
) -> io::Result<()> {
    if let Some(unknown) = only.iter().find(|part| !all.iter().any(|one| is_meant(name(one), part))) {
        let known: Vec<_> = all.iter().map(name).collect();
        return Err(io::Error::other(format!("no {what} {unknown:?}; there are {}", known.join(", "))));
    }
    all.retain(|one| only.is_empty() || only.iter().any(|part| is_meant(name(one), part)));
    Ok(())
}

/// Does all steps, whatever becomes of each, and prints the table. `Ok(true)` if all went well.
pub fn run_all(steps: &[Step]) -> io::Result<bool> {
    let mut done = Vec::new();
    for step in steps {
        println!("\n── {} ── {}", step.name, step.shell());
        let outcome = step.run().map_err(|e| io::Error::other(format!("{}: {e}", step.name)))?;
        if let Err(why) = &outcome.verdict {
            println!("FAILED: {why}");
        }
        done.push(outcome);
    }
    Ok(summary(&done))
}

/// Prints the table, what to repeat, and the last line `N passed, N failed` (steps).
fn summary(done: &[Done]) -> bool {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["step", "result", "tests", "seconds"]);
    for step in done {
        let tests = match step.tests {
            Tests { passed: 0, failed: 0 } => String::new(),
            Tests { passed, failed: 0 } => passed.to_string(),
            Tests { passed, failed } => format!("{passed} + {failed} failed"),
        };
        let result = if step.verdict.is_ok() { "passed" } else { "FAILED" };
        table.add_row([&step.name, result, &tests, &format!("{:.1}", step.took.as_secs_f64())]);
    }
    println!("\n{table}\n");
    let failed: Vec<_> = done.iter().filter_map(|step| Some((step, step.verdict.as_ref().err()?))).collect();
    for (step, why) in &failed {
        println!("{}: {why}\n    again: {}", step.name, step.shell);
    }
    println!("{} passed, {} failed", done.len() - failed.len(), failed.len());
    failed.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_are_counted() {
        let line = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.59s\n";
        assert_eq!(test_result(line), Some(Tests { passed: 12, failed: 0 }));
        let line = "test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(test_result(line), Some(Tests { passed: 3, failed: 1 }));
        assert_eq!(test_result("running 3 tests\n"), None);
    }

    #[test]
    fn what_stands_for_nothing_is_refused() {
        let choose = |only: &[&str]| {
            let mut all = vec!["lints", "docs"];
            let only: Vec<_> = only.iter().map(|name| (*name).to_owned()).collect();
            choose(&mut all, &only, "step", |one| one, |name, part| name.contains(part)).map(|()| all)
        };
        assert_eq!(choose(&[]).unwrap(), ["lints", "docs"]);
        assert_eq!(choose(&["lint"]).unwrap(), ["lints"]);
        assert!(choose(&["lint", "dosc"]).unwrap_err().to_string().contains("dosc"));
    }

    #[test]
    fn failed_tests_are_named() {
        assert_eq!(failed_test("test latch::tests::one ... FAILED\n").as_deref(), Some("latch::tests::one"));
        assert_eq!(failed_test("test latch::tests::one ... ok\n"), None);
    }

    /// A command that ends, but leaves something behind which goes on, has not ended well.
    #[test]
    fn what_a_command_leaves_behind_is_ended() {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        let (reader, writer) = io::pipe().unwrap();
        let until = Instant::now() + Duration::from_millis(500);
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & echo $! > \"$0\""]).arg(&pid).stdout(writer);
        let mut group = Group::start(&mut command).unwrap();
        drop(command);
        let mut output = Output::new(File::create(dir.path().join("log")).unwrap(), false);
        assert!(!output.read(reader, until).unwrap(), "it may still print");
        let patience = Duration::from_secs(10);
        assert!(group.wait(Instant::now() + patience).unwrap().is_some(), "it has ended itself");
        drop(group);
        let left = std::fs::read_to_string(&pid).unwrap();
        let until = Instant::now() + patience;
        while Path::new("/proc").join(left.trim()).join("exe").exists() {
            assert!(Instant::now() < until, "it goes on");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// What cargo started ends with it: the pipe's other end closes, so that the log is complete.
    #[test]
    fn a_command_past_its_limit_is_ended() {
        let dir = tempfile::tempdir().unwrap();
        let ran = Cargo::new("tree --workspace").run(&dir.path().join("log"), false, Duration::ZERO).unwrap();
        assert!(ran.status.is_none() && !ran.well());
    }

    #[test]
    fn a_log_that_cannot_be_written_is_named() {
        let refused = Cargo::new("tree --workspace").run(Path::new("/dev/full"), false, HANGS_AFTER);
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("/dev/full"), "{refused}");
    }
}
