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
mod interpreter;
mod kind;
mod lease;
mod options;
mod rows;
mod snapshot;
mod table;
mod transaction;

use pyo3::prelude::*;

/// The native part of foreshore; import `foreshore` instead.
#[pymodule]
mod _native {
    /// To be called in a process that was forked, before anything else.
    #[pyfunction]
    fn _was_forked() {
        crate::lease::was_forked();
    }

    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::database::{Database, open};
    #[pymodule_export]
    use crate::rows::{RowIterator, Rows};
    #[pymodule_export]
    use crate::snapshot::Snapshot;
    #[pymodule_export]
    use crate::table::Table;
    #[pymodule_export]
    use crate::transaction::{Savepoint, Transaction};
}
