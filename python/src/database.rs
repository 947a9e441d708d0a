//! Databases.

use crate::errors::{Failure, OrRaise};
use crate::interpreter::{Attached, staying};
use crate::kind::{Kind, Kinds};
use crate::lease::{Lease, Leases};
use crate::options::pairs;
use crate::snapshot::Snapshot;
use crate::table::Table;
use crate::transaction::Transaction;
use foreshore::{Error, TableOptions};
use foreshore_bindings::{
    TableHandle, TransactionHandle, backup, table_options, transact, transaction_options,
};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::path::PathBuf;
use std::sync::Arc;

/// Opens the database in the directory ``path``, creating it if there is none; ``":memory:"`` makes one in memory.
#[pyfunction]
#[pyo3(signature = (path, **options))]
pub fn open(py: Python<'_>, path: PathBuf, options: Option<&Bound<'_, PyDict>>) -> PyResult<Database> {
    let options = pairs(options)?;
    let database = py.detach(|| foreshore_bindings::open(&path, &options)).or_raise(py)?;
    let leases = Arc::new(Leases::default());
    Ok(Database { database: leases.give(database), leases, closing: Mutex::default() })
}

/// An open database. It may be used from any thread. Use it with ``with``, or call ``close``.
#[pyclass(frozen, module = "foreshore")]
pub struct Database {
    database: Lease<foreshore::Database>,
    leases: Arc<Leases>,
    /// Held by who closes it.
    closing: Mutex<()>,
}

impl Database {
    /// Calls `work` with the engine's database, detached.
    fn with<R: Send, E: Into<Failure>>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&foreshore::Database) -> Result<R, E> + Send,
    ) -> PyResult<R> {
        py.detach(|| self.database.with(work)).or_raise(py)
    }

    /// Calls `work`, which is short unless it waits, with the engine's database.
    fn briefly<R: Send, E: Into<Failure>>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&foreshore::Database) -> Result<R, E> + Send,
    ) -> PyResult<R> {
        staying(py, || self.database.with(work)).or_raise(py)
    }

    /// A clone of the engine's handle, for calls during which the lease must not be held, since Python runs in them.
    fn handle(&self, py: Python<'_>) -> PyResult<foreshore::Database> {
        self.briefly(py, |database| Ok::<_, Error>(database.clone()))
    }
}

#[pymethods]
impl Database {
    /// The table ``name``, created if there is none. ``key`` and ``value`` say what its rows are of: ``bytes``, ``str``,
    /// ``int``, ``float``, ``bool``, a number of Rust such as ``"u32"``, ``T | None``, ``list[T]``, or a tuple of these.
    ///
    /// The table remembers that, unless both are ``bytes``, and ``foreshore.Argument`` (a ``ValueError``) is raised if it has rows of other
    /// types. ``bytes`` for both, if they are said, take the rows of any table as they are.
    ///
    /// Options, where the table is new: ``index`` (``"bplus"``, ``"csb"``, ``"o2"``) and ``leaf_bytes``. One that exists stays
    /// what it is.
    #[pyo3(signature = (name, key = None, value = None, **options))]
    fn table(
        &self,
        py: Python<'_>,
        name: &str,
        key: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Table> {
        let options = table_options(&pairs(options)?).or_raise(py)?;
        let kind = |described: Option<&Bound<'_, PyAny>>| described.map_or(Ok(Kind::Bytes), Kind::of);
        let kinds = Kinds::new(kind(key)?, kind(value)?);
        let options = kinds.types().into_iter().fold(options, TableOptions::types);
        let is_said = key.is_some() || value.is_some();
        self.with(py, |database| {
            let table = database.byte_table_with(name, options)?;
            if let Some(types) = table.types().filter(|_| !is_said) {
                return Err(Error::Argument(format!(
                    "table {name:?} has {types}: say its key and value (bytes and bytes take its rows as they are)"
                )));
            }
            let handle = TableHandle::latest(table);
            Ok::<_, Error>(Table::new(database.clone(), handle, kinds, self.leases.clone()))
        })
    }

    /// The names of all tables, in byte order.
    fn tables(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.with(py, foreshore::Database::tables)
    }

    /// Gives the table ``old`` the name ``new``, durably; says whether there was one. Its handles, and what else uses it, go on. A
    /// ``foreshore.Argument`` (a ``ValueError``) if there is a table ``new`` already.
    fn rename_table(&self, py: Python<'_>, old: &str, new: &str) -> PyResult<bool> {
        self.with(py, |database| database.rename_table(old, new))
    }

    /// Removes a table with all its rows; says whether it existed.
    fn drop_table(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.with(py, |database| database.drop_table(name))
    }

    /// Begins a transaction. Options: ``isolation``, ``durability``, ``lock_timeout_ms``, ``idle_timeout_ms``.
    #[pyo3(signature = (**options))]
    fn begin(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Transaction> {
        let options = transaction_options(&pairs(options)?).or_raise(py)?;
        self.briefly(py, |database| {
            let handle = TransactionHandle::begin(database, options)?;
            Ok::<_, Error>(Transaction::new(handle.number(), self.leases.give(handle)))
        })
    }

    /// Runs ``work(transaction)`` in a transaction and commits it; runs it again, in a new one, as long as the transaction loses
    /// against another: a call of it raises a ``RetryableError``, which leaves ``work``. Returns what ``work`` did. Options as of
    /// ``begin``.
    ///
    /// It does not return while somebody keeps a lock that ``work`` needs, be it a ``begin`` of this very thread around it.
    #[pyo3(signature = (work, **options))]
    fn transact(
        &self,
        py: Python<'_>,
        work: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let options = transaction_options(&pairs(options)?).or_raise(py)?;
        let database = self.handle(py)?;
        let run = |handle: &TransactionHandle| {
            let transaction = Transaction::new(handle.number(), self.leases.give(handle.clone()));
            let done = work.call1((transaction,)).map(Bound::unbind).map_err(Failure::Raised);
            if self.database.is_parents() {
                handle.forget(); // `work` has forked
                return done.and(Err(Failure::Forked));
            }
            done
        };
        transact(&Attached(py), &database, options, run, Failure::loser).or_raise(py)
    }

    /// A read-only view of everything that is committed now.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        self.briefly(py, |database| {
            database.snapshot().map(|snapshot| Snapshot::new(self.leases.give(snapshot)))
        })
    }

    /// Rolls back the transaction with this number, whatever its thread is doing; ``False`` if it had ended.
    fn abort(&self, py: Python<'_>, number: u64) -> PyResult<bool> {
        self.with(py, |database| database.abort(number))
    }

    /// The ids of the transactions that were prepared and wait to hear whether to commit, also those from before a crash.
    fn prepared<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let gids = self.with(py, |database| Ok::<_, Error>(database.recover()))?;
        Ok(gids.iter().map(|gid| PyBytes::new(py, gid)).collect())
    }

    /// Commits a prepared transaction, durably.
    fn commit_prepared(&self, py: Python<'_>, gid: &[u8]) -> PyResult<()> {
        self.with(py, |database| database.commit_prepared(gid))
    }

    /// Rolls back a prepared transaction.
    fn rollback_prepared(&self, py: Python<'_>, gid: &[u8]) -> PyResult<()> {
        self.with(py, |database| database.rollback_prepared(gid))
    }

    /// Waits until everything acknowledged so far, in whatever durability, would survive a power failure.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, foreshore::Database::sync)
    }

    /// Writes changed leaves out, so that a restart has little log to read. Happens by itself as the log grows.
    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, foreshore::Database::checkpoint)
    }

    /// Counters since the database was opened, by names that end in their units.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let stats = self.with(py, |database| Ok::<_, Error>(database.stats()))?;
        from_json(py, &stats)
    }

    /// Walks and compares all structures; says what each table is like. Raises ``Corrupt`` for the first that is broken.
    fn check<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let report = self.with(py, foreshore::Database::check)?;
        from_json(py, &report)
    }

    /// Copies the database into the absent or empty directory ``path`` while others read and write; the copy is a database.
    /// It shows what was committed when the call began, and is durable when it returns. Says how much was copied.
    fn backup<'py>(&self, py: Python<'py>, path: PathBuf) -> PyResult<Bound<'py, PyAny>> {
        // Through a handle: a backup may take long, and `close` must not wait for it.
        let database = self.handle(py)?;
        let copied = py.detach(|| backup(&database, &path)).or_raise(py)?;
        from_json(py, &copied)
    }

    /// Writes everything out and closes the database, together with its tables, transactions, snapshots and iterators: they
    /// raise ``Closed`` from then on. Running transactions are rolled back. Closing twice does nothing, but waits for the first.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.database.is_parents() {
            return Ok(());
        }
        py.detach(|| {
            let _one_at_a_time = self.closing.lock();
            let Ok(database) = self.database.with(|database| Ok::<_, Error>(database.clone())) else {
                return Ok(());
            };
            // First the transactions: a call that is waited for may itself wait for a lock of one that is open. What `transact` runs
            // again meanwhile has no transaction to wait with.
            self.leases.stop_giving();
            for number in database.transactions() {
                let _ = database.abort(number); // if the disk is at fault, closing says so too
            }
            self.leases.revoke();
            database.close()
        })
        .or_raise(py)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyAny>) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let described = self.with(py, |database| Ok::<_, Error>(format!("{database:?}")));
        described
            .map_or("<foreshore.Database, closed>".into(), |described| format!("<foreshore.{described}>"))
    }
}

fn from_json<'py>(py: Python<'py>, counted: &impl serde::Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text =
        serde_json::to_string(counted).map_err(|error| Failure::Engine(Error::Argument(error.to_string())));
    py.import("json")?.getattr("loads")?.call1((text.or_raise(py)?,))
}
