//! `foreshore`: the engine from the command line.
//!
//! Exit codes, the same for every command: 0 done, 1 absent (no such key or table), 2 usage, 3 corruption, 4 locked,
//! 5 I/O (a full disk included). Errors go to stderr and say what to do next; results go to stdout.

mod args;
mod backup;
mod bench;
mod check;
mod compact;
mod completions;
mod count;
mod delete;
mod demo;
mod drop;
mod dump;
mod dump_format;
mod failure;
mod keys;
mod lab;
mod load;
mod man;
mod output;
mod profile;
mod progress;
mod rename;
mod restore;
mod rows;
mod scan;
mod schema;
mod scratch;
mod serve;
mod shell;
mod signals;
mod stats;
mod table_kind;
mod tables;
mod text;
mod tune;
mod typed;
mod whole_file;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use failure::{Failure, Outcome};
use std::ffi::OsString;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Help is no wider than the terminal, nor than this.
const HELP_COLUMNS: usize = 80;

const AFTER_HELP: &str = "\
Exit codes: 0 done, 1 absent, 2 usage, 3 corruption, 4 locked, 5 I/O.

A first session:
  foreshore demo                      orders, kill -9, recover, verify
  foreshore put  --table notes milk 'two bottles'
  foreshore get  --table notes milk
  foreshore load --table flights --key Year,Month,Carrier,Flight flights.csv.gz
  foreshore scan --table flights --prefix 2011,12 --limit 5
  foreshore shell                     by hand, with transactions
  foreshore serve                     then: redis-cli set greeting hello
  foreshore check";

/// Keeps durable, ordered tables for programs with many threads.
#[derive(Parser)]
#[command(name = "foreshore", version, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Load(load::LoadArgs),
    Get(rows::GetArgs),
    Put(rows::PutArgs),
    Rm(rows::RmArgs),
    Scan(scan::ScanArgs),
    Count(count::CountArgs),
    Delete(delete::DeleteArgs),
    Tables(tables::TablesArgs),
    Rename(rename::RenameArgs),
    Drop(drop::DropArgs),
    Stats(stats::StatsArgs),
    Shell(shell::ShellArgs),
    Check(check::CheckArgs),
    Backup(backup::BackupArgs),
    Compact(compact::CompactArgs),
    Dump(dump::DumpArgs),
    Restore(restore::RestoreArgs),
    Serve(serve::ServeArgs),
    Demo(demo::DemoArgs),
    #[command(hide = true)]
    DemoChild(demo::ChildArgs),
    Bench(bench::BenchArgs),
    Tune(tune::TuneArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
    Lab(lab::LabArgs),
}

fn main() -> ExitCode {
    match parse().and_then(|cli| run(cli.command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            scratch::end_if_interrupted();
            failure.report()
        }
    }
}

fn parse() -> Outcome<Cli> {
    let words = options_behind_command(std::env::args_os().collect());
    let matches = match command().try_get_matches_from(&words) {
        Err(error) if error.kind() == ErrorKind::InvalidUtf8 => {
            return Err(Failure::usage(
                "an argument is not UTF-8 text; --hex takes keys and values of any bytes, and `put` a value from stdin",
            ));
        }
        matches => matches.unwrap_or_else(|error| with_hint(error, &words).exit()),
    };
    Ok(Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit()))
}

/// Adds what to do next, where what was typed does not show what is wrong.
fn with_hint(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    if let Some(hint) = hint(&error, words) {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    }
    error
}

fn hint(error: &clap::Error, words: &[OsString]) -> Option<String> {
    let context = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let is_typed = |option: &str| words.iter().any(|word| word.to_string_lossy().starts_with(option));
    let wrong = context(ContextKind::InvalidArg);
    match error.kind() {
        ErrorKind::UnknownArgument if !wrong.starts_with('-') && !is_typed("--table") => {
            let needs_table = context(ContextKind::Usage).contains("--table <NAME>");
            needs_table.then(|| "the table is named by '--table <NAME>'".into())
        }
        ErrorKind::InvalidValue => {
            let is_empty = |variable: &str| std::env::var_os(variable).is_some_and(|value| value.is_empty());
            let variables = [("--dir", "FORESHORE_DIR"), ("--profile", "FORESHORE_PROFILE")];
            let (_, empty) = variables.into_iter().find(|(option, variable)| {
                wrong.starts_with(option) && !is_typed(option) && is_empty(variable)
            })?;
            Some(format!("the environment has an empty {empty}: unset it, or give it a value"))
        }
        _ => None,
    }
}

/// The command line with `--dir`, `--cache` and `--json` behind the command, where it knows them: some type them before it.
fn options_behind_command(mut words: Vec<OsString>) -> Vec<OsString> {
    let mut at = 1;
    while let Some(word) = words.get(at) {
        let word = word.to_string_lossy(); // a path may be no text
        at += match &*word {
            "--dir" | "--cache" => 2,
            "--json" => 1,
            _ if word.starts_with("--dir=") || word.starts_with("--cache=") => 1,
            _ => break,
        };
    }
    if at < words.len() {
        words[1..=at].rotate_right(1);
    }
    words
}

/// The command line.
fn command() -> clap::Command {
    Cli::command().max_term_width(HELP_COLUMNS)
}

fn run(command: Command) -> Outcome {
    match command {
        Command::Load(args) => load::run(&args),
        Command::Get(args) => rows::get(&args),
        Command::Put(args) => rows::put(&args),
        Command::Rm(args) => rows::rm(&args),
        Command::Scan(args) => scan::run(&args),
        Command::Count(args) => count::run(&args),
        Command::Delete(args) => delete::run(&args),
        Command::Tables(args) => tables::tables(&args),
        Command::Rename(args) => rename::run(&args),
        Command::Drop(args) => drop::run(&args),
        Command::Stats(args) => stats::run(&args),
        Command::Shell(args) => shell::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Backup(args) => backup::run(&args),
        Command::Compact(args) => compact::run(&args),
        Command::Dump(args) => dump::run(&args),
        Command::Restore(args) => restore::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::DemoChild(args) => demo::run_child(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
        Command::Lab(args) => lab::run(&args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    /// What clap wraps, examples in columns among it, is hard to read: they are written to fit.
    #[test]
    fn help_fits_a_terminal() {
        let mut command = command();
        command.build();
        let mut wrong = Vec::new();
        too_wide(&mut command, "foreshore", &mut wrong);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn options_may_stand_before_the_command() {
        for (typed, means) in [
            ("foreshore --dir a --json tables --count", "foreshore tables --dir a --json --count"),
            ("foreshore --dir=a --cache=1MiB get k", "foreshore get --dir=a --cache=1MiB k"),
            ("foreshore tables --dir a", "foreshore tables --dir a"),
            ("foreshore --dir a", "foreshore --dir a"),
            ("foreshore --dir", "foreshore --dir"),
            ("foreshore --help", "foreshore --help"),
            ("foreshore", "foreshore"),
        ] {
            let words = options_behind_command(typed.split(' ').map(OsString::from).collect());
            assert_eq!(words.join(" ".as_ref()), means, "{typed}");
        }
        let no_text = OsStr::from_bytes(b"--dir=\xff");
        let words = ["foreshore".as_ref(), no_text, "tables".as_ref()].map(OsStr::to_owned);
        assert_eq!(options_behind_command(words.to_vec())[1..], ["tables".as_ref(), no_text]);
    }

    /// Lines of examples that are wider than a terminal, in this command and those below it.
    fn too_wide(command: &mut clap::Command, name: &str, wrong: &mut Vec<String>) {
        let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let help = command.render_long_help().to_string();
        for line in examples.lines().chain(help.lines()).filter(|line| line.chars().count() > HELP_COLUMNS) {
            wrong.push(format!("{name}: {line}"));
        }
        let below: Vec<_> = command.get_subcommands().map(|c| c.get_name().to_string()).collect();
        for sub in below.iter().filter(|sub| *sub != "help") {
            let command = command.find_subcommand_mut(sub).expect("it was listed");
            too_wide(command, &format!("{name} {sub}"), wrong);
        }
    }
}
