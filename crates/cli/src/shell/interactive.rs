//! The shell at a terminal: a prompt, a history, and failures that end nothing.

use crate::failure::{Failure, Kind, Outcome};
use crate::output::{Output, tell};
use crate::shell::complete::Complete;
use crate::shell::script::Script;
use crate::shell::session::{Next, Session};
use crate::signals::drop_typed;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{CompletionType, Config, Editor};
use std::io;
use std::mem;
use std::path::{Path, PathBuf};

/// Lines that are kept.
const HISTORY_LINES: usize = 10_000;

type Lines = Editor<Complete, DefaultHistory>;

/// Asks for lines until there are no more.
pub fn run(session: &mut Session, dir: &Path) -> Outcome {
    let mut lines = editor(session).map_err(terminal)?;
    let history = History::load(&mut lines);
    session.interrupt().listen()?;
    greet(dir)?;
    ask(session, &mut lines, history)
}

fn greet(dir: &Path) -> Outcome {
    let mut out = Output::new(false);
    out.line(format_args!(
        "Foreshore {}, {}. Tab completes, .help lists the commands, .quit ends.",
        env!("CARGO_PKG_VERSION"),
        dir.display()
    ))?;
    out.finish()
}

fn editor(session: &Session) -> rustyline::Result<Lines> {
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .history_ignore_space(true)
        .max_history_size(HISTORY_LINES)?
        .auto_add_history(true)
        .build();
    let mut lines = Editor::with_config(config)?;
    lines.set_helper(Some(Complete::new(session.database().clone())));
    Ok(lines)
}

fn ask(session: &mut Session, lines: &mut Lines, mut history: History) -> Outcome {
    let ended = loop {
        let prompt = if session.is_in_transaction() { "foreshore*> " } else { "foreshore> " };
        let entered = match lines.readline(prompt) {
            Ok(entered) => {
                history.save(lines);
                entered
            }
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break Ok(()),
            // At least one byte was read, so a broken terminal does not come here again and again.
            Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
                drop_typed(); // or what is pasted would go on in the middle of a line
                tell("\nwhat was typed or pasted is not UTF-8 text, and is dropped; .hex on takes any bytes");
                continue;
            }
            Err(error) => break Err(terminal(error)),
        };
        match session.interrupt().during(|| run_entered(session, &entered)) {
            Ok(Next::Quit) => break Ok(()),
            Ok(_) => {}
            Err(failure) if failure.kind == Kind::ReaderGone => break Err(failure),
            Err(failure) => tell(failure),
        }
    };
    if !session.is_in_transaction() {
        return ended;
    }
    tell("the open transaction is rolled back");
    // That is more than that nobody reads on.
    ended.map_err(|mut failure| {
        if failure.kind == Kind::ReaderGone {
            failure.kind = Kind::Io;
        }
        failure
    })
}

/// Runs a line, or several that were pasted at once: the first that fails ends them, as in a script.
fn run_entered(session: &mut Session, entered: &str) -> Outcome<Next> {
    let lines = split(entered);
    for (run, line) in lines.iter().enumerate() {
        session.interrupt().heed().map_err(|failure| left_out(failure, lines.len() - run))?;
        let done = match session.line(line) {
            Ok(Next::Read(file)) => Script::run_file(session, &file),
            done => done,
        };
        if done.map_err(|failure| left_out(failure, lines.len() - run - 1))? == Next::Quit {
            return Ok(Next::Quit);
        }
    }
    Ok(Next::Line)
}

/// The lines. One in which a quote is open goes on in the next: a value may have line breaks.
fn split(entered: &str) -> Vec<String> {
    let (mut lines, mut open) = (Vec::new(), String::new());
    for line in entered.lines() {
        if !open.is_empty() {
            open.push('\n');
        }
        open.push_str(line);
        if shlex::split(&open).is_some() {
            lines.extend(Some(mem::take(&mut open)).filter(|line| !line.trim().is_empty()));
        }
    }
    lines.extend(Some(open).filter(|rest| !rest.is_empty()));
    lines
}

/// Adds how many of the lines a failure leaves out.
fn left_out(failure: Failure, lines: usize) -> Failure {
    match lines {
        0 => failure,
        _ => failure.note(format!("of the lines that were pasted, {lines} were not run")),
    }
}

fn terminal(error: ReadlineError) -> Failure {
    let error = match error {
        ReadlineError::Io(error) => error,
        ReadlineError::Errno(error) => error.into(),
        other => io::Error::other(other.to_string()),
    };
    match error.kind() {
        io::ErrorKind::BrokenPipe => error.into(), // of what it shows there
        _ => Failure::io("reading the terminal", &error),
    }
}

/// Where lines are kept; `None` if nowhere, or if that has failed.
struct History(Option<PathBuf>);

impl History {
    fn load(lines: &mut Lines) -> Self {
        let named = std::env::var_os("FORESHORE_HISTORY").map(PathBuf::from);
        let usual = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".foreshore_history"));
        let file = named.or_else(usual);
        if let Some(file) = &file {
            let _ = lines.load_history(file); // the first time there is none
        }
        Self(file)
    }

    /// Keeps what was typed since the last time: before it is done, since a second Ctrl-C ends the shell.
    fn save(&mut self, lines: &mut Lines) {
        if let Some(file) = &self.0
            && let Err(error) = lines.append_history(file)
        {
            tell(format_args!("the history is not saved to {}: {error}", file.display()));
            self.0 = None;
        }
    }
}
