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
            Ok(entered) => entered,
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
        let done = session.interrupt().during(|| {
            history.save(lines); // may take long, and the terminal makes a signal of Ctrl-C by now
            run_entered(session, &entered)
        });
        match done {
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
    let left_out = |failure: Failure, left: usize| match (left, lines.len()) {
        (0, _) | (_, 1) => failure,
        _ => failure.note(format!("of the lines that were pasted, {left} were not run")),
    };
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

/// The lines. One in which a quote is open goes on in the next: a value may have line breaks. Where nothing closes the quote, its
/// first line is to fail, and those behind it are lines of their own, which it leaves out.
fn split(entered: &str) -> Vec<&str> {
    let (mut lines, mut open, mut begin, mut end) = (Vec::new(), None, 0, 0);
    for line in entered.split_inclusive('\n') {
        end += line.len();
        let Ok(behind) = open_behind(line, open) else { break };
        open = behind;
        if open.is_none() {
            lines.push(entered[begin..end].trim_end_matches('\n'));
            begin = end;
        }
    }
    lines.extend(entered[begin..].lines());
    lines.retain(|line| !line.trim().is_empty());
    lines
}

/// A quote of an earlier line was none: it would end within a word, which has the next slip.
struct Slip;

/// What there is of a word.
#[derive(PartialEq)]
enum Word {
    /// Nothing: a character begins one.
    None,
    /// Quotes, and backslashes with their characters behind them: as sh spells a value with apostrophes.
    Quoted,
    /// Something else, too: a quote in it is a slip, as in it's, if it is still open behind the line.
    Plain,
}

/// The quote that is open behind `line`, if the next line belongs to it; `open` is the one before it. It has begun a word, or goes
/// on in a [quoted](Word::Quoted) one: an apostrophe within another is a slip, and would take in all lines up to the next slip.
fn open_behind(line: &str, mut open: Option<char>) -> Result<Option<char>, Slip> {
    let mut is_of_earlier_line = open.is_some();
    let mut word = if is_of_earlier_line { Word::Quoted } else { Word::None };
    let mut rest = line.chars();
    while let Some(char) = rest.next() {
        match (open, char) {
            (Some(quote), _) if char == quote => {
                let ends_word = |next: char| next.is_ascii_whitespace() || "\\'\"".contains(next);
                if is_of_earlier_line && !rest.clone().next().is_none_or(ends_word) {
                    return Err(Slip);
                }
                (open, is_of_earlier_line) = (None, false);
            }
            (Some('"'), '\\') => _ = rest.next(),
            (Some(_), _) => {}
            (None, '\'' | '"') => {
                open = Some(char);
                if word == Word::None {
                    word = Word::Quoted;
                }
            }
            (None, '\\') => {
                rest.next();
                if word == Word::None {
                    word = Word::Plain;
                }
            }
            (None, '#') if word == Word::None => return Ok(None), // a comment
            (None, _) => word = if char.is_ascii_whitespace() { Word::None } else { Word::Plain },
        }
    }
    Ok(open.filter(|_| word == Word::Quoted))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_word_that_begins_with_a_quote_goes_on_in_the_next_line() {
        for whole in [
            "put t a '1\n2'",
            "put t \"a\n\\\"\n\" 'b\n'",
            "put t a '1\nit'\\''s'",
            "put t a 'it'\\''s\ntwo lines'",
            "put t a 'it'\"'\"'s\ntwo lines'",
            "put t a'b c'd e",
        ] {
            assert_eq!(split(&format!("first\n{whole}\n\nlast")), ["first", whole, "last"]);
        }
        for slip in ["it's", "'a'b'c", "'a'b\\''c", "\\''a", "C:\\", "# 'tis", "a\\ 'b", "\"a\" b'"] {
            assert_eq!(split(&format!("{slip}\nlast '\n'")), [slip, "last '\n'"]);
        }
        assert_eq!(split("a 'b\n\nc \"\nd"), ["a 'b", "c \"", "d"], "nothing closes it");
        assert_eq!(
            split("a 'tis\nb\nthat's\nc"),
            ["a 'tis", "b", "that's", "c"],
            "nor does what is in a word"
        );
    }
}
