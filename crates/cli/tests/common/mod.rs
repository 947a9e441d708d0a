//! Runs the `foreshore` binary in a directory of its own.

#![allow(dead_code, reason = "every test file uses its own part")]

use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A scratch directory, and the command that works in it.
pub struct Shell {
    dir: tempfile::TempDir,
}

/// What a command did.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Shell {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a scratch directory") }
    }

    /// A path in the scratch directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The database that commands use unless told otherwise.
    pub fn database(&self) -> PathBuf {
        self.path("foreshore.db")
    }

    /// Leaves a prepared transaction in the database, which has nothing else but an empty table.
    pub fn prepare(&self, gid: &str) {
        let db = foreshore::Database::open(self.database()).expect("nobody else has it");
        let table = db.byte_table("t").expect("a table");
        let tx = db.begin().expect("a transaction");
        tx.bytes(&table).put(b"k", b"v").expect("a write");
        tx.prepare(gid).expect("prepared");
    }

    /// Writes a file.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).expect("a file in the scratch directory");
        path
    }

    /// The command, to be started with the scratch directory as its own.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_foreshore"));
        command.current_dir(self.dir.path()).args(args);
        command.env_remove("FORESHORE_DIR").env_remove("FORESHORE_PROFILE");
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, args: &[&str]) -> Ran {
        self.run_with(args, b"")
    }

    /// Runs a command to its end, with this on its stdin.
    pub fn run_with(&self, args: &[&str], stdin: &[u8]) -> Ran {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        // A command that refuses its arguments closes stdin unread.
        _ = child.stdin.take().expect("stdin is piped").write_all(stdin);
        child.wait_with_output().expect("the binary ends").into()
    }

    /// Runs a command that must succeed; returns its stdout.
    #[track_caller]
    pub fn ok(&self, args: &[&str]) -> String {
        self.run(args).expect(0, args).stdout
    }

    /// Runs a command that must succeed; returns its JSON lines.
    #[track_caller]
    pub fn json(&self, args: &[&str]) -> Vec<Value> {
        let mut with_json = args.to_vec();
        with_json.push("--json");
        self.run(&with_json).expect(0, args).objects()
    }

    /// Runs a command that must fail so; returns its stderr.
    #[track_caller]
    pub fn fails(&self, code: i32, args: &[&str]) -> String {
        self.run(args).expect(code, args).stderr
    }
}

impl Ran {
    #[track_caller]
    pub fn expect(self, code: i32, args: &[&str]) -> Self {
        assert_eq!(self.code, code, "foreshore {args:?}\n{}{}", self.stdout, self.stderr);
        self
    }

    /// Stdout as one JSON object per line.
    #[track_caller]
    pub fn objects(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line:?}: {e}"));
        self.stdout.lines().map(parse).collect()
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        // A signal has no code: any expectation fails on it.
        let code = output.status.code().unwrap_or(-1);
        Self { code, stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }
}

/// The words of a command, none of which has blanks.
pub fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// All regular files of a directory.
pub fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).expect("the database's directory");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}
