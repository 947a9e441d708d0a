//! From the engine's errors to Python's exceptions, which are defined in `foreshore/errors.py`.

use foreshore::Error;
use foreshore_bindings::loser;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyModule, PyType};

/// The attribute that tells the transaction; only a `RetryableError` has it.
const LOSER: &str = "transaction_number";

/// What a detached call can fail with.
pub enum Failure {
    /// The engine said no.
    Engine(Error),
    /// The database was closed, and with it everything that belongs to it.
    Closed,
    /// The snapshot was closed, by itself or with its database.
    SnapshotClosed,
    /// The process was forked since, and what its parent opened is not its own.
    Forked,
    /// Python code that was called in between raised this.
    Raised(PyErr),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Engine(error)
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Failure::Raised(error)
    }
}

impl Failure {
    /// The exception, to be raised.
    pub fn into_py(self, py: Python<'_>) -> PyErr {
        match self {
            Failure::Engine(error) => engines(py, &error),
            Failure::Closed => exception(py, "Closed", "the database is closed; open it again".into()),
            Failure::SnapshotClosed => {
                let message = "the snapshot is closed, or its database; take another snapshot";
                exception(py, "Closed", message.into())
            }
            Failure::Forked => {
                let message =
                    "a forked process cannot use what its parent opened; open databases after the fork";
                exception(py, "Closed", message.into())
            }
            Failure::Raised(error) => error,
        }
    }

    /// The number of the transaction that may succeed if it is run again, if this is the failure of one.
    pub fn loser(&self) -> Option<u64> {
        match self {
            Failure::Engine(error) => loser(error),
            Failure::Closed | Failure::SnapshotClosed | Failure::Forked => None,
            Failure::Raised(error) => {
                Python::attach(|py| error.value(py).getattr(LOSER).ok()?.extract().ok())
            }
        }
    }
}

/// Raises what a detached call failed with.
pub trait OrRaise<T> {
    /// The result, or the exception.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T, E: Into<Failure>> OrRaise<T> for Result<T, E> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| error.into().into_py(py))
    }
}

/// An `Encoding` exception, for bytes that are not of the table's types and objects that do not become any.
pub fn encoding(py: Python<'_>, message: String) -> PyErr {
    exception(py, "Encoding", message)
}

/// An `Argument` exception.
pub fn argument(py: Python<'_>, message: impl Into<String>) -> PyErr {
    exception(py, "Argument", message.into())
}

/// The class of an error: named like the variant. One that is newer than this list is at least of the right base.
fn name(error: &Error) -> &'static str {
    match error {
        Error::KeyTooLong { .. } => "KeyTooLong",
        Error::ValueTooLarge { .. } => "ValueTooLarge",
        Error::Encoding { .. } => "Encoding",
        Error::BulkLoad { .. } => "BulkLoad",
        Error::Full { .. } => "Full",
        Error::TooManyFiles { .. } => "TooManyFiles",
        Error::Poisoned { .. } => "Poisoned",
        Error::Locked { .. } => "Locked",
        Error::Incompatible { .. } | Error::OtherFormat { .. } => "Incompatible",
        Error::Corrupt { .. } => "Corrupt",
        Error::Io { .. } => "Io",
        Error::TableDropped { .. } => "TableDropped",
        Error::Deadlock { .. } => "Deadlock",
        Error::LockTimeout { .. } => "LockTimeout",
        Error::Aborted { .. } => "Aborted",
        Error::Ended => "Ended",
        Error::TooManyTransactions { .. } => "TooManyTransactions",
        Error::SnapshotTooOld => "SnapshotTooOld",
        Error::TableInUse { .. } => "TableInUse",
        Error::UnknownTransaction { .. } => "UnknownTransaction",
        Error::Argument(_) => "Argument",
        other if other.is_retryable() => "RetryableError",
        _ => "Error",
    }
}

/// The exception for an error of the engine, which says whose it is.
fn engines(py: Python<'_>, error: &Error) -> PyErr {
    let raised = exception(py, name(error), error.to_string());
    match loser(error).map(|number| raised.value(py).setattr(LOSER, number)) {
        Some(Err(failed)) => failed,
        Some(Ok(())) | None => raised,
    }
}

fn exception(py: Python<'_>, name: &str, message: String) -> PyErr {
    match class(py, name) {
        Ok(class) => PyErr::from_type(class, message),
        Err(error) => error,
    }
}

fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyType>> {
    Ok(classes(py)?.as_any().get_item(name)?.cast_into()?)
}

/// The classes by their names. To be called once before it is needed: while Python ends nothing can be imported, and modules
/// are emptied. So it is a copy of what the module has.
pub fn classes(py: Python<'_>) -> PyResult<&Bound<'_, PyDict>> {
    static CLASSES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let copy = || PyModule::import(py, "foreshore.errors")?.dict().copy().map(Bound::unbind);
    Ok(CLASSES.get_or_try_init(py, copy)?.bind(py))
}
