//! Other programs, run as children: this engine, the same with old primitives, and its peers.
//!
//! Why children: a run has a process, an allocator and a directory of its own, so that no engine meets what another one
//! left; and the laboratory needs no other engine's libraries. All of them print the same JSON (`crates/workloads`), one
//! object for a run; exit code 2 means that the program refuses the run, and says why, 3 that an engine gave a wrong answer.

use crate::frame::LabError;
use serde_json::Value;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Where the programs are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    /// The `foreshore` command.
    pub foreshore: PathBuf,
    /// The same, built with the old primitives.
    pub stages: PathBuf,
    /// The command that runs other engines.
    pub peers: PathBuf,
    /// Where stores may live while they are measured.
    pub scratch: PathBuf,
    /// How long a run may take; one that takes longer hangs.
    pub patience: Duration,
}

impl Default for Programs {
    /// As cargo builds them, seen from the root of the repository.
    fn default() -> Self {
        Self {
            foreshore: "target/release/foreshore".into(),
            stages: "target/stages/release/foreshore".into(),
            peers: "peers/target/release/peers".into(),
            scratch: std::env::temp_dir(),
            patience: Duration::from_secs(30 * 60),
        }
    }
}

/// The peers, as `peers bench … --engine` calls them. Those that a build of `peers` does not know refuse by themselves.
pub const PEERS: &[&str] = &[
    "berkeleydb",
    "mariadb",
    "postgresql",
    "rocksdb",
    "wiredtiger",
    "lmdb",
    "redb",
    "fjall",
    "kyoto",
    "leveldb",
    "sled",
    "sqlite",
];

/// An engine, and how it is run.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Its name in the figure.
    pub name: String,
    program: PathBuf,
    /// Flags that make the program this engine.
    flags: Vec<String>,
    /// The old primitives, for the build that has them.
    old: String,
    scratch: PathBuf,
    patience: Duration,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Run {
    /// The rate, whatever it counts, per second; and all that it printed.
    Found(f64, Value),
    /// The peer does not do this: why.
    Refused(String),
    /// The peer crashed, hangs, or makes no sense: how.
    Failed(String),
}

impl Programs {
    /// This engine, as it is.
    ///
    /// Errors: [`LabError::Absent`].
    pub fn foreshore(&self) -> Result<Subject, LabError> {
        self.subject("Foreshore", &self.foreshore, "cargo build --release -p foreshore-cli")
    }

    /// This engine with the old primitives named, separated by commas (`crates/engine/src/stage.rs`).
    ///
    /// Errors: [`LabError::Absent`].
    pub fn stage(&self, name: &str, old: &str) -> Result<Subject, LabError> {
        let subject = self.subject(name, &self.stages, "cargo xtask stages")?;
        Ok(Subject { old: old.to_owned(), ..subject })
    }

    /// All peers; none if their command was not built, with what builds it.
    pub fn peers(&self) -> (Vec<Subject>, Option<LabError>) {
        let build = "cargo build --release --manifest-path peers/Cargo.toml";
        match self.subject("peers", &self.peers, build) {
            Err(absent) => (Vec::new(), Some(absent)),
            Ok(peers) => {
                let peer = |name: &&str| Subject {
                    name: (*name).to_owned(),
                    flags: vec!["--engine".to_owned(), (*name).to_owned()],
                    ..peers.clone()
                };
                (PEERS.iter().map(peer).collect(), None)
            }
        }
    }

    /// For a file's header: what kind of file system stores live in, which a commit that waits for the device depends on.
    pub fn filesystem(&self) -> (&'static str, String) {
        let told = Command::new("df").arg("--output=fstype").arg(&self.scratch).output();
        let told = told.map(|told| String::from_utf8_lossy(&told.stdout).into_owned()).unwrap_or_default();
        ("filesystem", told.lines().nth(1).unwrap_or("unknown").trim().to_owned())
    }

    fn subject(&self, name: &str, program: &Path, build: &'static str) -> Result<Subject, LabError> {
        if !program.is_file() {
            return Err(LabError::Absent { program: program.to_owned(), build });
        }
        Ok(Subject {
            name: name.to_owned(),
            program: program.to_owned(),
            flags: Vec::new(),
            old: String::new(),
            scratch: self.scratch.clone(),
            patience: self.patience,
        })
    }
}

impl Subject {
    /// Runs `bench <args> --json` in a process of its own.
    ///
    /// Errors: [`LabError::Wrong`] if the engine gives a wrong answer; [`LabError::Child`] if this engine, without which there is no
    /// figure, refuses or fails. A figure can do without a peer.
    pub fn bench(&self, args: &[String]) -> Result<Run, LabError> {
        let failed = match self.try_bench(args)? {
            Run::Failed(how) if self.is_peer() => return Ok(Run::Failed(in_a_line(&how))),
            Run::Refused(why) if self.is_peer() => {
                return Ok(Run::Refused(why.lines().next().unwrap_or("it says not why").to_owned()));
            }
            Run::Failed(how) => how,
            Run::Refused(why) => format!("it refuses: {why}"),
            found @ Run::Found(..) => return Ok(found),
        };
        Err(LabError::Child { name: self.name.clone(), what: failed })
    }

    /// See [`bench`](Self::bench): an error only if the answer is wrong.
    fn try_bench(&self, args: &[String]) -> Result<Run, LabError> {
        let mut command = Command::new(&self.program);
        command.arg("bench").args(args).args(&self.flags).arg("--dir").arg(&self.scratch).arg("--json");
        // As it is, not as this shell's profile would have it.
        command.env("FORESHORE_OLD", &self.old).env_remove("FORESHORE_PROFILE");
        let output = match output_within(&mut command, self.patience) {
            Ok(Some(output)) => output,
            Ok(None) => {
                return Ok(Run::Failed(format!(
                    "it hangs: it was ended after {} s",
                    self.patience.as_secs()
                )));
            }
            Err(error) => return Ok(Run::Failed(format!("{}: {error}", self.program.display()))),
        };
        let complaint = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Ok(match output.status.code() {
            Some(0) => {
                rate(&output.stdout).map_or_else(Run::Failed, |(rate, report)| Run::Found(rate, report))
            }
            Some(2) => Run::Refused(complaint),
            Some(3) => return Err(LabError::Wrong(format!("{}: {complaint}", self.name))),
            _ => Run::Failed(format!("{}: {complaint}", output.status)),
        })
    }

    /// Only peers are chosen by flags.
    fn is_peer(&self) -> bool {
        !self.flags.is_empty()
    }
}

/// The rate in a report, and the report; what is wrong if there is none, or nothing was done: what divides by that has no place on a
/// chart.
fn rate(printed: &[u8]) -> Result<(f64, Value), String> {
    let report: Value =
        serde_json::from_slice(printed).map_err(|error| format!("it printed no JSON object: {error}"))?;
    let rate = ["tps", "ops_per_s"].iter().find_map(|name| report[name].as_f64());
    match rate.filter(|rate| *rate > 0.0) {
        Some(rate) => Ok((rate, report)),
        None => Err(format!("no rate in {report}")),
    }
}

/// For a line of a header.
fn in_a_line(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

/// What a program printed, once it has ended; `None` if it had to be killed, since it had not ended after `patience`.
fn output_within(command: &mut Command, patience: Duration) -> io::Result<Option<Output>> {
    let deadline = Instant::now() + patience;
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let stdout = read_aside(child.stdout.take().expect("it is piped"));
    let stderr = read_aside(child.stderr.take().expect("it is piped"));
    let until_deadline = |bytes: mpsc::Receiver<_>| {
        bytes.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()
    };
    match (until_deadline(stdout), until_deadline(stderr)) {
        (Some(stdout), Some(stderr)) => Ok(Some(Output { status: child.wait()?, stdout, stderr })),
        _ => {
            child.kill()?;
            child.wait()?;
            Ok(None)
        }
    }
}

/// All that comes through a pipe, read by a thread: a full pipe would stop the program.
fn read_aside(mut pipe: impl Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (tell, hear) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came before an error is a report cut short, and is told as such.
        let _ = pipe.read_to_end(&mut bytes);
        let _ = tell.send(bytes);
    });
    hear
}

/// The peers that a figure does without, and why.
#[derive(Clone, Debug, Default)]
pub struct Missing {
    refused: Vec<(String, String)>,
    failed: Vec<(String, String)>,
}

impl Missing {
    /// Notes how a run of `name` ended, if it found nothing; else its rate and its report.
    pub fn or_found(&mut self, name: &str, run: Run) -> Option<(f64, Value)> {
        match run {
            Run::Found(rate, report) => return Some((rate, report)),
            Run::Refused(why) => self.refused.push((name.to_owned(), why)),
            Run::Failed(how) => self.failed.push((name.to_owned(), how)),
        }
        None
    }

    /// Is this one of them?
    pub fn has(&self, name: &str) -> bool {
        self.refused.iter().chain(&self.failed).any(|(missing, _)| missing == name)
    }

    /// Takes in those of another run, each reason but once.
    pub fn extend(&mut self, other: Self) {
        add_new(&mut self.refused, other.refused);
        add_new(&mut self.failed, other.failed);
    }

    /// For a file's header.
    pub fn header(&self) -> [(&'static str, String); 2] {
        [("refused", listed(reasons(&self.refused))), ("failed", listed(reasons(&self.failed)))]
    }

    /// The end of a verdict's sentence, if a peer failed that should have been there.
    pub fn note(&self) -> String {
        if self.failed.is_empty() {
            return String::new();
        }
        format!(" Not measured, since they failed: {}.", listed(reasons(&self.failed)))
    }
}

fn add_new<T: PartialEq>(all: &mut Vec<T>, more: Vec<T>) {
    for one in more {
        if !all.contains(&one) {
            all.push(one);
        }
    }
}

fn reasons(missing: &[(String, String)]) -> impl Iterator<Item = String> {
    missing.iter().map(|(name, why)| format!("{name}: {why}"))
}

/// For a line of a header: all of these, or that there is none.
pub(crate) fn listed<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<_> = items.into_iter().map(|item| item.to_string()).collect();
    if items.is_empty() { "none".to_owned() } else { items.join("; ") }
}

/// The versions of the engines that were measured, as their reports tell them, for a file's header; each but once.
#[derive(Clone, Debug, Default)]
pub struct Versions(Vec<String>);

impl Versions {
    /// Takes it from a report. This engine's own is that of the laboratory.
    pub fn note(&mut self, name: &str, report: &Value) {
        let version = report["version"].as_str().map(|version| format!("{name} {version}"));
        self.0.extend(version.filter(|version| !self.0.contains(version)));
    }

    /// Takes in those of another run.
    pub fn extend(&mut self, other: Self) {
        add_new(&mut self.0, other.0);
    }

    /// The header's line.
    pub fn header(&self) -> (&'static str, String) {
        ("versions", if self.0.is_empty() { "none told".to_owned() } else { self.0.join("; ") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A program that does what a shell script says.
    fn script(dir: &Path, text: &str) -> Programs {
        let path = dir.join("program");
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let scratch = dir.to_owned();
        Programs {
            foreshore: path.clone(),
            stages: path.clone(),
            peers: path,
            scratch,
            ..Programs::default()
        }
    }

    #[test]
    fn a_child_finds_refuses_or_fails() {
        let dir = tempfile::tempdir().unwrap();
        let args = ["insert".to_owned()];
        let found = script(dir.path(), r#"echo "{\"ops_per_s\": 5.0, \"args\": \"$*\"}""#);
        let Run::Found(rate, report) = found.peers().0[0].bench(&args).unwrap() else {
            panic!("it has a rate")
        };
        let expected = format!("bench insert --engine {} --dir {} --json", PEERS[0], dir.path().display());
        assert_eq!((rate, report["args"].as_str()), (5.0, Some(expected.as_str())));

        let stage = script(dir.path(), r#"echo "{\"tps\": 1.5, \"old\": \"$FORESHORE_OLD\"}""#);
        let Run::Found(rate, report) = stage.stage("s", "log-mutex").unwrap().bench(&args).unwrap() else {
            panic!()
        };
        assert_eq!((rate, report["old"].as_str()), (1.5, Some("log-mutex")));

        let refused = script(dir.path(), "echo 'not that\nwhy' >&2; exit 2");
        assert_eq!(refused.peers().0[0].bench(&args).unwrap(), Run::Refused("not that".into()));
        let own = refused.foreshore().unwrap().bench(&args).unwrap_err();
        assert!(matches!(&own, LabError::Child { what, .. } if what.contains("not that")), "{own}");
        let wrong = script(dir.path(), "echo lost >&2; exit 3").peers().0[0].bench(&args).unwrap_err();
        assert!(matches!(&wrong, LabError::Wrong(what) if what.contains("lost")), "{wrong}");
    }

    /// A peer that fails in whatever way is told as missing, in a line; this engine's failure is an error.
    #[test]
    fn a_figure_does_without_a_peer_that_fails() {
        let dir = tempfile::tempdir().unwrap();
        let args = ["insert".to_owned()];
        let failures = [
            ("echo 'broken\n at line 1' >&2; exit 5", "exit status: 5: broken at line 1"),
            ("kill -SEGV $$", "SIGSEGV"),
            ("echo hello", "no JSON"),
            ("echo '{\"tps\": 0.0}'", "no rate"),
            ("exec sleep 60", "it hangs: it was ended after 1 s"),
        ];
        for (text, expected) in failures {
            let patience = Duration::from_secs(if text.contains("sleep") { 1 } else { 60 });
            let programs = Programs { patience, ..script(dir.path(), text) };
            let Run::Failed(how) = programs.peers().0[0].bench(&args).unwrap() else { panic!("{text}") };
            assert!(how.contains(expected) && !how.contains('\n'), "{text}: {how}");
        }
        for text in ["exit 5", "echo hello", "echo '{\"tps\": 0.0}'"] {
            let own = script(dir.path(), text).foreshore().unwrap().bench(&args);
            assert!(matches!(own, Err(LabError::Child { .. })), "{text}: {own:?}");
        }
    }

    #[test]
    fn what_is_not_built_says_how() {
        let programs = Programs { peers: "no/such".into(), stages: "no/such".into(), ..Programs::default() };
        let absent = programs.stage("s", "").unwrap_err().to_string();
        assert!(absent.contains("no/such") && absent.contains("cargo xtask stages"), "{absent}");
        let (peers, absent) = programs.peers();
        assert!(peers.is_empty() && absent.unwrap().to_string().contains("peers/Cargo.toml"));
    }
}
