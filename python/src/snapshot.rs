//! Snapshots.

use crate::errors::{Failure, OrRaise};
use crate::interpreter::staying;
use crate::lease::Lease;
use crate::table::Table;
use pyo3::prelude::*;

/// Everything that was committed when it was taken, and nothing else. It takes no locks, waits for nobody, and nobody
/// waits for it. Use it with ``with``, or call ``close``: old versions of rows stay while it is open, in memory, or
/// on disk where a large transaction replaces them.
#[pyclass(frozen, module = "foreshore")]
pub struct Snapshot {
    snapshot: Lease<foreshore::Snapshot>,
}

impl Snapshot {
    pub fn new(snapshot: Lease<foreshore::Snapshot>) -> Self {
        Self { snapshot }
    }

    /// Calls `work` with the engine's snapshot. To be called as [`crate::interpreter`] says.
    fn with<R, E: Into<Failure>>(
        &self,
        work: impl FnOnce(&foreshore::Snapshot) -> Result<R, E>,
    ) -> Result<R, Failure> {
        self.snapshot.with(work).map_err(|failure| match failure {
            Failure::Closed => Failure::SnapshotClosed,
            other => other,
        })
    }
}

#[pymethods]
impl Snapshot {
    /// The table as it was; read-only.
    fn table(&self, py: Python<'_>, table: &Bound<'_, Table>) -> PyResult<Table> {
        let table = table.get();
        staying(py, || self.with(|snapshot| table.through(|handle| handle.as_of(snapshot)))).or_raise(py)
    }

    /// Waits until everything that it sees would survive a power failure.
    fn wait_durable(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.with(foreshore::Snapshot::wait_durable)).or_raise(py)
    }

    /// Gives the snapshot up; it closes when its tables and iterators have gone too.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.snapshot.end()); // waits for the calls under way
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyAny>) {
        self.close(py);
    }
}
