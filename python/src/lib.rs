//! The native part of the Python package.
//!
//! Python's own half (`foreshore/`) holds the exceptions, the types for checkers, and what a program imports. Here is all
//! that touches the engine.
//!
//! Rules:
//! - P1: whatever may wait (locks, the disk, the log) runs detached from the interpreter, so that other Python threads go
//!   on; the owner of a lock that is waited for may be one of them.
//! - P2: a lease ([`lease`]) is held only while detached. Nobody then waits for the interpreter while holding a lease that
//!   another, attached thread waits for.

mod database;
mod decode;
mod encode;
mod errors;
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
