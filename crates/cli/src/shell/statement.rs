//! What can be typed: one command a line, its words quoted as in sh.

use crate::HELP_COLUMNS;
use crate::failure::{Failure, Outcome};
use crate::keys::{Between, KeyRange, RemovedKeys};
use crate::shell::print::Mode;
use crate::typed::Type;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// A line of the shell. Its first word is the command, and no file that is called like one, as `multicall` would have it.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_subcommand = true, disable_help_flag = true, max_term_width = HELP_COLUMNS)]
struct Line {
    #[command(subcommand)]
    statement: Statement,
}

/// A command of the shell.
#[derive(Debug, Subcommand)]
pub enum Statement {
    /// Show the value of a key
    Get {
        /// Table
        table: String,
        /// Key: text; of a table with columns or types its parts, with commas between them
        #[arg(allow_hyphen_values = true)]
        key: String,
    },
    /// Set the value of a key; creates the table if absent
    Put(Row),
    /// Set the value of a key that has none yet; creates the table if absent
    Insert(Row),
    /// Remove a key and its value
    Del {
        /// Table
        table: String,
        /// Key
        #[arg(allow_hyphen_values = true)]
        key: String,
    },
    /// Show rows in key order
    Scan {
        /// Table
        table: String,
        #[command(flatten)]
        between: Between,
        #[command(flatten)]
        which: Which,
    },
    /// Show the rows whose keys begin so, or have these leading columns
    Prefix {
        /// Table
        table: String,
        /// Beginning of the keys
        #[arg(allow_hyphen_values = true)]
        prefix: String,
        #[command(flatten)]
        which: Which,
    },
    /// Count rows
    Count {
        /// Table
        table: String,
        #[command(flatten)]
        range: KeyRange,
    },
    /// Remove rows, and show how many: all of a range or none
    Delete {
        /// Table
        table: String,
        #[command(flatten)]
        rows: RemovedKeys,
    },
    /// Remove the first row, of a range or of all, and show it
    Pop {
        /// Table
        table: String,
        #[command(flatten)]
        range: KeyRange,
        /// The last row
        #[arg(long)]
        reverse: bool,
    },
    /// Create an empty table
    Create {
        /// Table
        table: String,
    },
    /// Remove a table with all its rows, at once, outside any transaction
    Drop {
        /// Table
        table: String,
    },
    /// Give a table another name, at once, outside any transaction
    Rename {
        /// Table
        from: String,
        /// Its new name
        to: String,
    },
    /// Begin a transaction
    Begin {
        /// What it may notice of others
        #[arg(value_enum, default_value_t = Level::Serializable)]
        level: Level,
    },
    /// Commit the transaction
    Commit,
    /// Undo the transaction, or what it did since a savepoint
    Rollback {
        /// Savepoint to go back to; the transaction goes on
        savepoint: Option<String>,
    },
    /// Name a place in the transaction to go back to
    Savepoint {
        /// Its name
        name: String,
    },
    /// List the tables
    #[command(name = ".tables")]
    Tables {
        /// Count the rows, by reading them
        #[arg(long)]
        count: bool,
    },
    /// How rows are shown; without an argument, how they are shown now
    #[command(name = ".mode")]
    Mode {
        /// As a table, as JSON objects, or as CSV with a header
        #[arg(value_enum)]
        mode: Option<Mode>,
    },
    /// Spell keys and values as hexadecimal digits, or as text again
    #[command(name = ".hex")]
    Hex {
        /// on or off
        #[arg(value_enum)]
        switch: Switch,
    },
    /// Say of which types a program's table is; without a type, of none
    ///
    /// Types are u64, i32, str, bytes …, and several for a tuple: str,u64. Without a table, shows what was
    /// said, and what other tables remember.
    #[command(name = ".types")]
    Types {
        /// Table
        table: Option<String>,
        /// Type of its keys
        #[arg(value_parser = Type::named)]
        key: Option<Type>,
        /// Type of its values
        #[arg(value_parser = Type::named)]
        value: Option<Type>,
    },
    /// Tell how long each command takes
    #[command(name = ".timer")]
    Timer {
        /// on or off
        #[arg(value_enum)]
        switch: Switch,
    },
    /// Show the counters that are not 0, and their gain since last shown
    #[command(name = ".stats")]
    Stats,
    /// Run the commands in a file
    #[command(name = ".read")]
    Read {
        /// File of commands
        file: PathBuf,
    },
    /// List the transactions that have prepared, or decide one
    ///
    /// Such a transaction is half of a commit over several databases; the program that prepared it knows how the other half ended.
    #[command(name = ".prepared")]
    Prepared {
        /// Its id, as it is listed
        #[arg(requires = "decision")]
        id: Option<String>,
        /// What becomes of it
        #[arg(value_enum)]
        decision: Option<Decision>,
    },
    /// Copy the database, as of now, into an absent or empty directory
    #[command(name = ".backup")]
    Backup {
        /// Directory
        target: PathBuf,
    },
    /// Leave
    #[command(name = ".quit", alias = ".exit", alias = "exit", alias = "quit")]
    Quit,
    /// List the commands, or explain one
    #[command(name = ".help", alias = "help")]
    Help {
        /// Command
        command: Option<String>,
    },
}

impl Statement {
    /// Does it, by itself, no more than to show something?
    pub fn only_shows(&self) -> bool {
        match self {
            Self::Get { .. } | Self::Scan { .. } | Self::Prefix { .. } | Self::Count { .. } => true,
            Self::Begin { .. } | Self::Commit | Self::Rollback { .. } | Self::Savepoint { .. } => true,
            Self::Tables { .. } | Self::Stats | Self::Help { .. } => true,
            Self::Mode { .. } | Self::Hex { .. } | Self::Types { .. } | Self::Timer { .. } => true,
            Self::Put(_) | Self::Insert(_) | Self::Del { .. } | Self::Delete { .. } => false,
            Self::Pop { .. } => false,
            Self::Create { .. } | Self::Drop { .. } | Self::Rename { .. } | Self::Backup { .. } => false,
            Self::Prepared { id, .. } => id.is_none(),
            Self::Read { .. } | Self::Quit => false,
        }
    }
}

/// A row that is written.
#[derive(Args, Debug)]
pub struct Row {
    /// Table
    pub table: String,
    /// Key: text; of a table with columns or types its parts, with commas between them
    #[arg(allow_hyphen_values = true)]
    pub key: String,
    /// Value: text; of a table with columns the whole record, of one with types its parts
    #[arg(allow_hyphen_values = true)]
    pub value: String,
}

/// Which rows of a range.
#[derive(Args, Debug)]
pub struct Which {
    /// Descending
    #[arg(long)]
    pub reverse: bool,
    /// At most so many rows
    #[arg(long, value_name = "N", default_value_t = usize::MAX, hide_default_value = true)]
    pub limit: usize,
}

/// What a transaction may notice of others.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Level {
    /// Nothing: as if transactions ran one after another
    Serializable,
    /// New rows in ranges that it reads again
    RepeatableRead,
    /// What is committed when it reads
    ReadCommitted,
    /// Read-only: everything as it was when it began; locks nothing, waits for nobody
    Snapshot,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Switch {
    /// From now on
    On,
    /// No longer
    Off,
}

/// What becomes of a transaction that has prepared.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Decision {
    /// All that it wrote
    Commit,
    /// As if it had not been
    Rollback,
}

/// Reads a line; `None` if it is empty or a comment.
///
/// Errors: usage, if there is no such command, or its arguments are not right.
pub fn parse(line: &str) -> Outcome<Option<Statement>> {
    let words = shlex::split(line).ok_or_else(|| {
        Failure::usage("a quote is not closed, or a backslash ends the line; quote as in sh")
    })?;
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => Ok(None),
        // Farther behind, these may be a key or a value.
        [command, "-h" | "--help"] => Ok(Some(Statement::Help { command: Some(command.to_string()) })),
        ref words => {
            let line = Line::try_parse_from(words).map_err(|error| Failure::usage(complaint(&error)))?;
            Ok(Some(line.statement))
        }
    }
}

/// What clap says, short enough for one of many lines.
fn complaint(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let first = text.lines().take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let lines: Vec<_> = first.map(str::trim).filter(|line| !line.is_empty()).collect();
    let said = lines.join(" ");
    format!("{}; .help explains the commands", said.strip_prefix("error: ").unwrap_or(&said))
}

/// All commands with one line each, or all about one.
pub fn help(command: Option<&str>) -> Outcome<String> {
    let line = Line::command();
    let Some(name) = command else {
        let widest = line.get_subcommands().map(|c| c.get_name().len()).max().unwrap_or(0);
        let about = |c: &clap::Command| c.get_about().map(ToString::to_string).unwrap_or_default();
        let lines = line.get_subcommands().map(|c| format!("{:widest$}  {}", c.get_name(), about(c)));
        return Ok(lines.collect::<Vec<_>>().join("\n") + "\n\n.help COMMAND explains one of them");
    };
    match line.find_subcommand(name) {
        Some(command) => {
            let mut command = command.clone().disable_help_flag(true).max_term_width(HELP_COLUMNS);
            Ok(command.render_long_help().to_string().trim_end().to_string())
        }
        None => Err(Failure::usage(format!("there is no command {name:?}; .help lists them"))),
    }
}

/// The names of all commands.
pub fn names() -> Vec<String> {
    Line::command().get_subcommands().map(|c| c.get_name().to_string()).collect()
}

/// The options of a command, as they are typed.
pub fn options_of(command: &str) -> Vec<String> {
    let line = Line::command();
    let options = line.find_subcommand(command).into_iter().flat_map(clap::Command::get_arguments);
    options.filter_map(|option| Some(format!("--{}", option.get_long()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(line: &str) -> Statement {
        match parse(line) {
            Ok(Some(statement)) => statement,
            Ok(None) => panic!("{line}: nothing to do"),
            Err(failure) => panic!("{line}: {failure}"),
        }
    }

    #[test]
    fn words_are_quoted_as_in_sh() {
        let Statement::Put(row) = statement("put 'my ports' \"S E A\" it\\'s # a comment") else { panic!() };
        assert_eq!((row.table.as_str(), row.key.as_str(), row.value.as_str()), ("my ports", "S E A", "it's"));
        assert!(matches!(parse("   # only a comment"), Ok(None)));
        assert!(parse("put t k 'v").is_err());
    }

    #[test]
    fn keys_may_begin_with_a_dash() {
        let Statement::Scan { between, which, .. } =
            statement("scan t --from -5 --to -1 --limit 3 --reverse")
        else {
            panic!()
        };
        assert_eq!((between.from.as_deref(), between.to.as_deref()), (Some("-5"), Some("-1")));
        assert_eq!((which.limit, which.reverse), (3, true));
        assert!(matches!(statement("get t -7"), Statement::Get { key, .. } if key == "-7"));
        assert!(matches!(statement("put t -k -v"), Statement::Put(row) if row.value == "-v"));
    }

    #[test]
    fn a_complaint_is_one_line_that_says_what_to_do() {
        for wrong in
            ["frobnicate", "get", "get t", "scan t --limit x", "begin now", ".mode xml", "commit now"]
        {
            let Err(failure) = parse(wrong) else { panic!("{wrong} is accepted") };
            let text = failure.to_string();
            assert!(text.contains(".help") && !text.contains('\n'), "{wrong}: {text}");
        }
    }

    #[test]
    fn every_command_is_explained() {
        let list = help(None).unwrap();
        for name in names() {
            let line = list.lines().find(|line| line.split_whitespace().next() == Some(&name));
            assert!(line.is_some_and(|line| line.len() > name.len() + 4), "{name}");
            assert!(help(Some(&name)).unwrap().contains("Usage"), "{name}");
            let explained = [list.clone(), help(Some(&name)).unwrap()].join("\n");
            assert!(explained.lines().all(|line| line.chars().count() <= HELP_COLUMNS), "{explained}");
        }
        assert!(help(Some("frobnicate")).is_err());
    }
}
