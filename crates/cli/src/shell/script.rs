//! Lines that come from a file, a pipe or `-c`: the first that fails ends them, and is named.

use crate::failure::{Failure, Kind, Outcome};
use crate::output::tell;
use crate::shell::session::{Next, Session};
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;

/// Files that read files that read files: deeper than this is a circle.
const DEPTH_MAX: usize = 16;

/// Runs lines.
pub struct Script {
    keep_going: bool,
    first_failure: Option<Failure>,
}

impl Script {
    /// `keep_going`: report failures, and tell the first at the end.
    pub fn new(keep_going: bool) -> Self {
        Self { keep_going, first_failure: None }
    }

    /// Runs what stands on stdin.
    pub fn run_stdin(mut self, session: &mut Session) -> Outcome {
        self.lines(session, "stdin", std::io::stdin().lock(), 0)?;
        self.end(session)
    }

    /// Runs these lines.
    pub fn run_lines(mut self, session: &mut Session, lines: &[String]) -> Outcome {
        for (number, line) in lines.iter().enumerate() {
            if self.line(session, &format!("command {}", number + 1), line, 0)? == Next::Quit {
                break;
            }
        }
        self.end(session)
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
        for (number, line) in lines.lines().enumerate() {
            let place = format!("{name}:{}", number + 1);
            let line = line.map_err(|e| match e.kind() {
                ErrorKind::InvalidData => {
                    Failure::usage(format!("{place}: the line is not UTF-8; .hex on takes any bytes"))
                }
                _ => Failure::io(&place, &e),
            })?;
            session.interrupt().heed()?;
            if self.line(session, &place, &line, depth)? == Next::Quit {
                return Ok(Next::Quit);
            }
        }
        Ok(Next::Line)
    }

    fn line(&mut self, session: &mut Session, place: &str, line: &str, depth: usize) -> Outcome<Next> {
        let done = match session.line(line) {
            Ok(Next::Read(file)) => self.file(session, &file, depth + 1),
            done => done,
        };
        match done {
            Err(failure) if failure.kind == Kind::ReaderGone => Err(failure),
            Err(failure) if self.keep_going => {
                let failure = failure.at(place);
                tell(format_args!("foreshore: {failure}"));
                self.first_failure.get_or_insert(failure);
                Ok(Next::Line)
            }
            done => done.map_err(|failure| failure.at(place)),
        }
    }

    /// No more lines.
    fn end(self, session: &Session) -> Outcome {
        if let Some(failure) = self.first_failure {
            return Err(failure.reported());
        }
        if session.is_in_transaction() {
            return Err(Failure::usage(
                "the last transaction was neither committed nor rolled back; it is rolled back now",
            ));
        }
        Ok(())
    }
}
