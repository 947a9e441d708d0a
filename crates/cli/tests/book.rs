//! The commands that the book shows, run as a reader would: what follows a `$` line is what the command prints.
//!
//! A block of ```` ```console ```` has `$ command` lines, each followed by its output. `…` alone on a line stands for any lines, within a
//! line for anything. `? 1` says the exit code, which is 0 otherwise. All blocks of a page run one after another in one directory.

mod common;

use common::Shell;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A command and what the page says about it.
struct Step {
    line: usize,
    command: String,
    output: Vec<String>,
    code: i32,
}

/// The steps of a page.
fn steps(page: &str) -> Vec<Step> {
    let (mut steps, mut is_console) = (Vec::<Step>::new(), false);
    for (line, text) in page.lines().enumerate() {
        if text.starts_with("```") {
            is_console = !is_console && text == "```console";
        } else if is_console {
            match (text.strip_prefix("$ "), text.strip_prefix("? "), steps.last_mut()) {
                (Some(command), ..) => {
                    steps.push(Step { line: line + 1, command: command.into(), output: Vec::new(), code: 0 });
                }
                (None, Some(code), Some(step)) => step.code = code.parse().expect("an exit code"),
                (None, None, Some(step)) => step.output.push(text.into()),
                (None, _, None) => panic!("line {}: output before the first command", line + 1),
            }
        }
    }
    steps
}

/// Is `text` what `pattern` says, in which `…` stands for anything?
fn line_matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('…');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Are `lines` what `patterns` say, in which a line `…` stands for any lines?
fn matches(patterns: &[String], lines: &[&str]) -> bool {
    match patterns.split_first() {
        None => lines.is_empty(),
        Some((first, rest)) if first == "…" => {
            (0..=lines.len()).any(|skipped| matches(rest, &lines[skipped..]))
        }
        Some((first, rest)) => {
            lines.split_first().is_some_and(|(line, lines)| line_matches(first, line) && matches(rest, lines))
        }
    }
}

/// Runs the steps of a page; says how many there were.
fn run(page: &Path) -> usize {
    let text = std::fs::read_to_string(page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
    let shell = Shell::new();
    let binary = Path::new(env!("CARGO_BIN_EXE_foreshore"));
    let others = std::env::var_os("PATH").unwrap_or_default();
    let first = binary.parent().expect("a binary lies in a directory").to_path_buf();
    let path =
        std::env::join_paths(std::iter::once(first).chain(std::env::split_paths(&others))).expect("a PATH");
    let steps = steps(&text);
    for step in &steps {
        let mut command = Command::new("sh");
        command.args(["-c", &step.command]).current_dir(shell.path("."));
        let ran = command.env("PATH", &path).env_remove("FORESHORE_DIR").output().expect("sh is there");
        let stdout = String::from_utf8_lossy(&ran.stdout);
        let lines: Vec<_> = stdout.lines().map(str::trim_end).collect();
        assert!(
            ran.status.code() == Some(step.code) && matches(&step.output, &lines),
            "{}:{}: $ {}\nsays: {:#?} and {}\nprints:\n{stdout}{}{}",
            page.display(),
            step.line,
            step.command,
            step.output,
            step.code,
            String::from_utf8_lossy(&ran.stderr),
            ran.status
        );
    }
    steps.len()
}

#[test]
fn the_books_commands_print_what_it_says() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut pages: Vec<PathBuf> =
        std::fs::read_dir(&docs).expect("the book").map(|entry| entry.expect("a page").path()).collect();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    let ran: usize = pages.iter().map(|page| run(page)).sum();
    assert!(ran >= 20, "only {ran} commands were found");
}

#[test]
fn patterns_match_what_they_should() {
    assert!(line_matches("rows: …, took …", "rows: 5, took 3 ms"));
    assert!(!line_matches("rows: …, took …", "rows: 5"));
    assert!(line_matches("all", "all") && !line_matches("all", "all of it"));
    let patterns = ["a", "…", "z"].map(String::from);
    assert!(matches(&patterns, &["a", "b", "c", "z"]) && matches(&patterns, &["a", "z"]));
    assert!(!matches(&patterns, &["a", "b"]) && !matches(&patterns, &["z"]));
}
