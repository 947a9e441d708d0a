//! Lines that come from a file, a pipe or `-c`: the first that fails ends them, and is named.

use crate::failure::{Failure, Kind, Outcome};
use crate::output::tell;
use crate::shell::session::{Next, Session};
use crate::shell::statement::{Statement, parse};
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;

/// Files that read files that read files: deeper than this is a circle.
const DEPTH_MAX: usize = 16;

/// Lines that are looked at, and not run, after nobody reads the output any more.
const LOOK_MAX: usize = 10_000;

/// Some editors begin a file with it.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Runs lines.
pub struct Script {
    keep_going: bool,
    first_failure: Option<Failure>,
    /// Is there a line that was not run because nobody reads the output any more, and that does more than to show something?
    is_cut_short: bool,
}

impl Script {
    /// `keep_going`: report failures, and tell the first at the end.
    pub fn new(keep_going: bool) -> Self {
        Self { keep_going, first_failure: None, is_cut_short: false }
    }

    /// Runs what stands on stdin.
    pub fn run_stdin(mut self, session: &mut Session) -> Outcome {
        let done = self.lines(session, "stdin", std::io::stdin().lock(), 0);
        self.end(session, done.map(|_| ()))
    }

    /// Runs these lines.
    pub fn run_lines(mut self, session: &mut Session, lines: &[String]) -> Outcome {
        let mut rest = lines.iter().enumerate();
        while let Some((number, line)) = rest.next() {
            match self.line(session, &format!("command {}", number + 1), line, 0) {
                Ok(Next::Quit) => break,
                Ok(_) => {}
                Err(failure) => {
                    self.leave_out(&failure, rest.map(|(_, line)| line.as_str()));
                    return self.end(session, Err(failure));
                }
            }
        }
        self.end(session, Ok(()))
    }

    /// Runs the lines of a file that a person asked for: nothing is left open or hidden that the person would not see.
    pub fn run_file(session: &mut Session, file: &Path) -> Outcome<Next> {
        Self::new(false).file(session, file, 1)
    }

    fn file(&mut self, session: &mut Session, path: &Path, depth: usize) -> Outcome<Next> {
        if depth > DEPTH_MAX {
            return Err(Failure::usage(format!(
                "{} is read by files that read each other, {DEPTH_MAX} deep",
                path.display()
            )));
        }
        let file = File::open(path).map_err(|e| Failure::io(path.display(), &e))?;
        self.lines(session, &path.display().to_string(), BufReader::new(file), depth)
    }

    fn lines(
        &mut self,
        session: &mut Session,
        name: &str,
        lines: impl BufRead,
        depth: usize,
    ) -> Outcome<Next> {
        let mut lines = lines.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            let place = format!("{name}:{}", number + 1);
            session.interrupt().heed()?;
            let done = match line {
                Ok(line) if number == 0 => {
                    self.line(session, &place, line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&line), depth)
                }
                Ok(line) => self.line(session, &place, &line, depth),
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    self.done(&place, Err(Failure::usage("the line is not UTF-8; .hex on takes any bytes")))
                }
                Err(error) => return Err(Failure::io(&place, &error)),
            };
            match done {
                Ok(Next::Quit) => return Ok(Next::Quit),
                Ok(_) => {}
                Err(failure) => {
                    self.leave_out(&failure, lines.map_while(|(_, line)| line.ok()));
                    return Err(failure);
                }
            }
        }
        Ok(Next::Line)
    }

    fn line(&mut self, session: &mut Session, place: &str, line: &str, depth: usize) -> Outcome<Next> {
        let done = match session.line(line) {
            Ok(Next::Read(file)) => self.file(session, &file, depth + 1),
            done => done,
        };
        self.done(place, done)
    }

    /// What a line did: a failure names the line, and may be passed over.
    fn done(&mut self, place: &str, done: Outcome<Next>) -> Outcome<Next> {
        match done {
            Err(failure) if self.keep_going && failure.kind != Kind::ReaderGone => {
                let failure = failure.at(place);
                tell(format_args!("foreshore: {failure}"));
                self.first_failure.get_or_insert(failure);
                Ok(Next::Line)
            }
            done => done.map_err(|failure| failure.at(place)),
        }
    }

    /// The lines that a failure leaves out. Who has seen enough minds only those that do more than to show something.
    fn leave_out(&mut self, failure: &Failure, mut lines: impl Iterator<Item = impl AsRef<str>>) {
        if failure.kind == Kind::ReaderGone {
            // Of a stream that never ends nobody knows.
            let mut known = lines.by_ref().take(LOOK_MAX).map(|line| parse(line.as_ref()));
            let first = known.find(|line| match line {
                Ok(statement) => !statement.as_ref().is_none_or(Statement::only_shows),
                Err(_) => true,
            });
            self.is_cut_short |= match first {
                Some(Ok(Some(Statement::Quit))) => false,
                Some(_) => true,
                None => lines.next().is_some(),
            };
        }
    }

    /// No more lines, or `done` tells why not.
    fn end(self, session: &Session, done: Outcome) -> Outcome {
        if let Err(mut failure) = done {
            if failure.kind != Kind::ReaderGone {
                return Err(failure);
            }
            if !self.is_cut_short && !session.is_in_transaction() {
                return Err(self.first_failure.map_or(failure, Failure::reported));
            }
            failure.kind = Kind::Io;
            return Err(failure.note(
                "nobody reads the output any more: what stands behind that was not run, and an open transaction is rolled back",
            ));
        }
        let left_open = session.is_in_transaction().then(|| {
            Failure::usage(
                "the last transaction was neither committed nor rolled back; it is rolled back now",
            )
        });
        let Some(first) = self.first_failure else { return left_open.map_or(Ok(()), Err) };
        if let Some(left_open) = left_open {
            tell(format_args!("foreshore: {left_open}"));
        }
        Err(first.reported())
    }
}
