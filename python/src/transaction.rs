//! Transactions.

use crate::errors::OrRaise;
use crate::interpreter::staying;
use crate::lease::Lease;
use crate::table::Table;
use foreshore_bindings::TransactionHandle;
use pyo3::prelude::*;

/// A read-write transaction: what it does happens as a whole or not at all, and as if nobody else were there.
///
/// Use it with ``with``: the end of the block commits, an exception that leaves it rolls back.
#[pyclass(frozen, module = "foreshore")]
pub struct Transaction {
    number: u64,
    handle: Lease<TransactionHandle>,
}

impl Transaction {
    pub fn new(number: u64, handle: Lease<TransactionHandle>) -> Self {
        Self { number, handle }
    }
}

#[pymethods]
impl Transaction {
    /// The number by which messages and ``Database.abort`` name it.
    #[getter]
    fn number(&self) -> u64 {
        self.number
    }

    /// The table as this transaction sees and changes it.
    fn table(&self, py: Python<'_>, table: &Bound<'_, Table>) -> PyResult<Table> {
        let table = table.get();
        staying(py, || self.handle.with(|tx| table.through(|handle| handle.within(tx)))).or_raise(py)
    }

    /// A place to which ``rollback_to`` can go back.
    fn savepoint(&self, py: Python<'_>) -> PyResult<Savepoint> {
        let place = staying(py, || self.handle.with(TransactionHandle::savepoint)).or_raise(py)?;
        Ok(Savepoint { place })
    }

    /// Undoes what was done since the savepoint, which stays valid; one that was taken later stands for the same place from then on.
    /// Locks stay too.
    fn rollback_to(&self, py: Python<'_>, savepoint: &Bound<'_, Savepoint>) -> PyResult<()> {
        let place = savepoint.get().place;
        py.detach(|| self.handle.with(|tx| tx.rollback_to(place))).or_raise(py)
    }

    /// Commits, and waits as long as the durability asks.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        staying(py, || self.handle.with(TransactionHandle::commit)).or_raise(py)
    }

    /// Rolls back. One that has lost by then, as a ``Deadlock`` or ``Aborted`` said, is rolled back already: that is raised again.
    fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.handle.with(TransactionHandle::rollback)).or_raise(py)
    }

    /// First half of a commit over several databases: afterwards the transaction waits, also across crashes, for
    /// ``Database.commit_prepared`` or ``Database.rollback_prepared`` with the same ``gid``, and keeps its locks. A ``gid`` that
    /// is taken, or has more than 256 bytes, raises ``Argument``, and the transaction is rolled back.
    fn prepare(&self, py: Python<'_>, gid: &[u8]) -> PyResult<()> {
        py.detach(|| self.handle.with(|tx| tx.prepare(gid))).or_raise(py)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (raised, *_details))]
    fn __exit__(
        &self,
        py: Python<'_>,
        raised: &Bound<'_, PyAny>,
        _details: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let rolls_back = !raised.is_none();
        let end = |tx: &TransactionHandle| match tx.is_running() {
            false => Ok(()),
            true if rolls_back => tx.rollback(),
            true => tx.commit(),
        };
        let ended = staying(py, || self.handle.with(end));
        // What is raised says more than that the transaction had been rolled back already, or its database closed.
        if rolls_back { Ok(()) } else { ended.or_raise(py) }
    }
}

/// A place in a transaction.
#[pyclass(frozen, module = "foreshore")]
pub struct Savepoint {
    place: foreshore::Savepoint,
}
