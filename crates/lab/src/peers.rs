//! Other programs, run as children: this engine, the same with old primitives, and its peers.
//!
//! Why children: a run has a process, an allocator and a directory of its own, so that no engine meets what another one
//! left; and the laboratory needs no other engine's libraries. All of them print the same JSON (`crates/workloads`), one
//! object for a run; exit code 2 means that the program refuses the run, and says why, 3 that an engine gave a wrong answer.

use crate::frame::LabError;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

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
}

impl Default for Programs {
    /// As cargo builds them, seen from the root of the repository.
    fn default() -> Self {
        Self {
            foreshore: "target/release/foreshore".into(),
            stages: "target/stages/release/foreshore".into(),
            peers: "peers/target/release/peers".into(),
            scratch: std::env::temp_dir(),
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
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Run {
    /// What it printed.
    Found(Value),
    /// The peer does not do this: why.
    Refused(String),
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
        })
    }
}

impl Subject {
    /// Runs `bench <args> --json` in a process of its own.
    ///
    /// Errors: [`LabError::Wrong`] if the engine gives a wrong answer; [`LabError::Child`] if it fails otherwise than by refusing,
    /// refuses and is this engine, without which there is no figure, or prints something else.
    pub fn bench(&self, args: &[String]) -> Result<Run, LabError> {
        let failed = |what: String| LabError::Child { name: self.name.clone(), what };
        let output = Command::new(&self.program)
            .arg("bench")
            .args(args)
            .args(&self.flags)
            .arg("--dir")
            .arg(&self.scratch)
            .arg("--json")
            .env("FORESHORE_OLD", &self.old)
            .output()
            .map_err(|error| failed(format!("{}: {error}", self.program.display())))?;
        let complaint = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        match output.status.code() {
            Some(0) => serde_json::from_slice(&output.stdout)
                .map(Run::Found)
                .map_err(|error| failed(format!("it printed no JSON object: {error}"))),
            Some(2) if self.is_peer() => {
                Ok(Run::Refused(complaint.lines().next().unwrap_or("it says not why").to_owned()))
            }
            Some(3) => Err(LabError::Wrong(format!("{}: {complaint}", self.name))),
            _ => Err(failed(format!("{}: {complaint}", output.status))),
        }
    }

    /// Only peers are chosen by flags.
    fn is_peer(&self) -> bool {
        !self.flags.is_empty()
    }

    /// The rate in a report, whatever it counts, per second.
    ///
    /// Errors: [`LabError::Child`] if there is none, or nothing was done: what divides by that has no place on a chart.
    pub fn rate(&self, report: &Value) -> Result<f64, LabError> {
        let rate = ["tps", "ops_per_s"].iter().find_map(|name| report[name].as_f64());
        rate.filter(|rate| *rate > 0.0)
            .ok_or_else(|| LabError::Child { name: self.name.clone(), what: format!("no rate in {report}") })
    }
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
        Programs { foreshore: path.clone(), stages: path.clone(), peers: path, scratch: dir.to_owned() }
    }

    #[test]
    fn a_child_finds_refuses_or_fails() {
        let dir = tempfile::tempdir().unwrap();
        let args = ["insert".to_owned()];
        let found = script(dir.path(), r#"echo "{\"ops_per_s\": 5.0, \"args\": \"$*\"}""#);
        let Run::Found(report) = found.peers().0[0].bench(&args).unwrap() else {
            panic!("it was not refused")
        };
        let expected = format!("bench insert --engine {} --dir {} --json", PEERS[0], dir.path().display());
        assert_eq!(report["args"], expected);
        assert_eq!(found.foreshore().unwrap().rate(&report).unwrap(), 5.0);

        let stage = script(dir.path(), r#"echo "{\"tps\": 1.5, \"old\": \"$FORESHORE_OLD\"}""#);
        let Run::Found(report) = stage.stage("s", "log-mutex").unwrap().bench(&args).unwrap() else {
            panic!()
        };
        assert_eq!((report["tps"].as_f64(), report["old"].as_str()), (Some(1.5), Some("log-mutex")));

        let idle = stage.foreshore().unwrap().rate(&serde_json::json!({ "tps": 0.0 })).unwrap_err();
        assert!(matches!(&idle, LabError::Child { what, .. } if what.contains("no rate")), "{idle}");

        let refused = script(dir.path(), "echo 'not that\nwhy' >&2; exit 2");
        assert_eq!(refused.peers().0[0].bench(&args).unwrap(), Run::Refused("not that".into()));
        let own = refused.foreshore().unwrap().bench(&args).unwrap_err();
        assert!(matches!(&own, LabError::Child { what, .. } if what.contains("not that")), "{own}");
        let failed =
            script(dir.path(), "echo broken >&2; exit 5").foreshore().unwrap().bench(&args).unwrap_err();
        assert!(matches!(&failed, LabError::Child { what, .. } if what.contains("broken")), "{failed}");
        let wrong =
            script(dir.path(), "echo lost >&2; exit 3").foreshore().unwrap().bench(&args).unwrap_err();
        assert!(matches!(&wrong, LabError::Wrong(what) if what.contains("lost")), "{wrong}");
        let chatty = script(dir.path(), "echo hello").foreshore().unwrap().bench(&args).unwrap_err();
        assert!(chatty.to_string().contains("no JSON"), "{chatty}");
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
