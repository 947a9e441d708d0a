//! The native part of the Python package.
//!
//! Python's own half (`foreshore/`) holds the exceptions, the types for checkers, and what a program imports. Here is all
//! that touches the engine.
//!
//! Rules:
//! - P1: whatever waits (for locks, the disk, the log) does so detached from the interpreter, so that other Python threads go
//!   on; the owner of a lock that is waited for may be one of them. What may be long is detached from its beginning, what is
//!   short when it is going to wait ([`interpreter`]).
//! - P2: nobody waits for the interpreter while holding a lease ([`lease`]) that another, attached thread may wait for: it is
//!   given back first. And nobody waits for a lease attached.

mod database;
mod decode;
mod encode;
mod errors;
mod fits;
mod interpreter;
mod kind;
mod lease;
mod options;
mod rows;
mod snapshot;
mod table;
mod transaction;

use pyo3::prelude::*;

/// To be called in a process that was forked, before anything else.
#[pyfunction]
fn _was_forked() {
    lease::was_forked();
}

/// The native part of foreshore; import `foreshore` instead.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    interpreter::only_the_first(module.py())?; // before it gets any of the classes, of which the process has one set
    errors::classes(module.py())?;
    module.add_function(wrap_pyfunction!(_was_forked, module)?)?;
    module.add_function(wrap_pyfunction!(database::open, module)?)?;
    module.add_class::<database::Database>()?;
    module.add_class::<rows::RowIterator>()?;
    module.add_class::<rows::Rows>()?;
    module.add_class::<snapshot::Snapshot>()?;
    module.add_class::<table::Table>()?;
    module.add_class::<transaction::Savepoint>()?;
    module.add_class::<transaction::Transaction>()
}
