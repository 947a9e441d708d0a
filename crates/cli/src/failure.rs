//! Why a command fails, and the exit code that says so to scripts.

use crate::output::tell;
use crate::text::hex;
use foreshore::Error;
use foreshore_workloads::kv::BenchError;
use std::io;
use std::process::ExitCode;

/// Keys that a message spells for a command, at most: as many as the engine names.
const KEYS_TOLD: usize = 11;

/// What every command returns.
pub type Outcome<T = ()> = Result<T, Failure>;

/// The kinds of failure that scripts can tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No such key or table.
    Absent = 1,
    /// The arguments or the input are at fault.
    Usage = 2,
    /// Stored bytes are not what was written.
    Corrupt = 3,
    /// Another owner has the database open, or a transaction has a lock.
    Locked = 4,
    /// The operating system refused, or the disk is full.
    Io = 5,
    /// Whoever read our output has seen enough (`foreshore scan … | head`): not a failure at all.
    ReaderGone = 0,
}

/// A failure, with a message that says what to do next.
#[derive(Debug)]
pub struct Failure {
    /// Decides the exit code.
    pub kind: Kind,
    message: String,
}

impl Failure {
    /// A failure of this kind.
    pub fn of(kind: Kind, message: String) -> Self {
        Self { kind, message }
    }

    /// The key or table is not there.
    pub fn absent(message: impl Into<String>) -> Self {
        Self { kind: Kind::Absent, message: message.into() }
    }

    /// The user can mend it.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { kind: Kind::Usage, message: message.into() }
    }

    /// Data is not what it should be.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self { kind: Kind::Corrupt, message: message.into() }
    }

    /// The operating system refused `what`.
    pub fn io(what: impl std::fmt::Display, source: &io::Error) -> Self {
        Self { kind: Kind::Io, message: format!("{what}: {source}") }
    }

    /// Adds what happened before, or what to do next.
    pub fn note(mut self, note: impl std::fmt::Display) -> Self {
        self.message = format!("{}\n{note}", self.message);
        self
    }

    /// Says where in the input it happened.
    pub fn at(mut self, place: impl std::fmt::Display) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// The message has been printed: only the exit code is left to tell.
    pub fn reported(mut self) -> Self {
        self.message.clear();
        self
    }

    /// Prints the message and gives the exit code.
    pub fn report(&self) -> ExitCode {
        if self.kind != Kind::ReaderGone && !self.message.is_empty() {
            tell(format_args!("foreshore: {}", self.message));
        }
        ExitCode::from(self.kind as u8)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::KeyTooLong { .. }
            | Error::ValueTooLarge { .. }
            | Error::Encoding { .. }
            | Error::BulkLoad { .. }
            | Error::OtherFormat { .. }
            | Error::TableInUse { .. }
            | Error::Argument(_) => Kind::Usage,
            Error::TableDropped { .. } | Error::UnknownTransaction { .. } => Kind::Absent,
            Error::Corrupt { .. } | Error::Incompatible { .. } => Kind::Corrupt,
            Error::Locked { .. } | Error::LockTimeout { .. } => Kind::Locked,
            _ => Kind::Io,
        };
        match &error {
            Error::Corrupt { rows, .. } if !rows.is_empty() => {
                Self { kind, message: format!("{error}\n{}", removal(rows)) }
            }
            _ => Self { kind, message: error.to_string() },
        }
    }
}

/// How rows are removed whose large values are damaged. Keys that `load` has made are no text: as digits all are taken.
fn removal(rows: &[Vec<u8>]) -> String {
    let spelled = |key: &Vec<u8>| if key.is_empty() { "''".to_string() } else { hex(key) };
    let keys: Vec<_> = rows.iter().take(KEYS_TOLD).map(spelled).collect();
    let command =
        format!("`foreshore rm --hex --table TABLE {}`, with that table's name, removes the row", keys[0]);
    match keys.len() {
        1 => command,
        _ => format!("{command}; the keys of the next ones are {}", keys[1..].join(", ")),
    }
}

/// Only output is written through bare `?`; every other I/O names its object by [`Failure::io`].
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let kind = if error.kind() == io::ErrorKind::BrokenPipe { Kind::ReaderGone } else { Kind::Io };
        Self { kind, message: format!("writing the output: {error}") }
    }
}

impl From<csv::Error> for Failure {
    fn from(error: csv::Error) -> Self {
        match error.kind() {
            csv::ErrorKind::UnequalLengths { pos, expected_len, len } => {
                let line = pos.as_ref().map_or(0, csv::Position::line);
                Self::usage(format!(
                    "reading CSV: the row in line {line} has {len} fields, and the header has {expected_len}"
                ))
            }
            csv::ErrorKind::Io(cause) if is_bad_input(cause.kind()) => {
                Self::usage(format!("reading CSV: {cause}; the file is incomplete or damaged"))
            }
            csv::ErrorKind::Io(cause) => Self { kind: Kind::Io, message: format!("reading CSV: {cause}") },
            _ => Self::usage(format!("reading CSV: {error}")),
        }
    }
}

/// Is it the input that is wrong, cut short or no gzip after all, and not that the system refused?
pub fn is_bad_input(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput)
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        match error {
            BenchError::Usage(message) => Self::usage(message),
            BenchError::Wrong(_) => Self::corrupt(error.to_string()),
            BenchError::Store(inner) => match inner.downcast::<Error>() {
                Ok(error) => Self::from(*error),
                Err(other) => Self { kind: Kind::Io, message: other.to_string() },
            },
            other => Self { kind: Kind::Io, message: other.to_string() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_its_exit_code() {
        let kind = |error: Error| Failure::from(error).kind as u8;
        assert_eq!(kind(Error::TableDropped { name: "t".into() }), 1);
        assert_eq!(kind(Error::KeyTooLong { len: 2000, max: 1024 }), 2);
        assert_eq!(kind(Error::OtherFormat { dir: "d".into(), found: 2, supported: 1 }), 2);
        assert_eq!(
            kind(Error::Corrupt { what: "leaf 7".into(), detail: "checksum".into(), rows: vec![] }),
            3
        );
        assert_eq!(kind(Error::Locked { dir: "d".into(), pid: Some(1) }), 4);
        assert_eq!(kind(Error::Full { what: "the log".into() }), 5);
        assert_eq!(kind(Error::Poisoned { cause: "EIO".into() }), 5);
    }

    /// Without quotes, an empty key would be none at all.
    #[test]
    fn the_command_that_removes_a_row_takes_an_empty_key() {
        let rows = vec![vec![], vec![0]];
        let error = Error::Corrupt { what: "values".into(), detail: "checksums".into(), rows };
        let told = Failure::from(error).to_string();
        assert!(told.contains("--table TABLE ''`") && told.ends_with("ones are 00"), "{told}");
    }

    #[test]
    fn an_engine_error_keeps_its_code_through_a_benchmark() {
        let error = Error::Full { what: "the log".into() };
        assert_eq!(Failure::from(BenchError::Store(Box::new(error))).kind, Kind::Io);
        assert_eq!(Failure::from(BenchError::Wrong("3 rows".into())).kind, Kind::Corrupt);
    }
}
