//! Tables, as mappings.

use crate::errors::{Failure, OrRaise, argument};
use crate::interpreter::{ALL, calling};
use crate::kind::Kinds;
use crate::lease::{Lease, Leases};
use crate::rows::{Part, RowIterator, Rows};
use foreshore::{Database, Result};
use foreshore_bindings::{Bounds, TableHandle};
use pyo3::Borrowed;
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::cell::Cell;
use std::sync::Arc;

/// How many bytes of rows are loaded at a time.
const LOAD_BYTES: usize = 1 << 20;

/// After how many rows on their way to the engine other threads may run.
const TURN_ROWS: usize = 1000;

/// How much memory a thread keeps for the next value that it reads.
const KEPT_BYTES: usize = 1 << 20;

thread_local! {
    /// Where values are read into on their way to Python, so that a read allocates once, not twice. Large ones are not worth the
    /// memory.
    static VALUE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// An ordered, durable mapping: a ``MutableMapping`` whose keys come in order.
///
/// Each call is a transaction of its own, unless the table is one of a transaction or a snapshot. It may be used from any
/// thread.
#[pyclass(frozen, generic, mapping, module = "foreshore")]
pub struct Table {
    name: String,
    kinds: Arc<Kinds>,
    leased: Lease<Leased>,
    leases: Arc<Leases>,
}

/// What goes when the database is closed.
struct Leased {
    database: Database,
    handle: TableHandle,
}

impl Table {
    pub fn new(database: Database, handle: TableHandle, kinds: Kinds, leases: Arc<Leases>) -> Self {
        let name = handle.name().to_owned();
        Self { name, kinds: Arc::new(kinds), leased: leases.give(Leased { database, handle }), leases }
    }

    /// The same table seen through something else. To be called as [`crate::interpreter`] says.
    pub fn through(&self, see: impl FnOnce(&TableHandle) -> TableHandle) -> Result<Self, Failure> {
        self.leased.with(|Leased { database, handle }| {
            let leased = Leased { database: database.clone(), handle: see(handle) };
            let (name, kinds, leases) = (self.name.clone(), self.kinds.clone(), self.leases.clone());
            Ok::<_, Failure>(Self { name, kinds, leased: leases.give(leased), leases })
        })
    }

    pub fn kinds(&self) -> &Arc<Kinds> {
        &self.kinds
    }

    pub fn leases(&self) -> &Leases {
        &self.leases
    }

    /// Calls `work`, which concerns so many rows, with the engine's handle, as [`interpreter::calling`].
    #[inline]
    pub fn with<R: Send>(
        &self,
        py: Python<'_>,
        rows: usize,
        work: impl FnOnce(&TableHandle) -> Result<R> + Send,
    ) -> PyResult<R> {
        calling(py, rows, || self.leased.with(|leased| work(&leased.handle))).or_raise(py)
    }

    /// How many rows lie in `bounds`. Ctrl-C is heard meanwhile.
    pub fn count(&self, py: Python<'_>, bounds: Bounds) -> PyResult<usize> {
        const COUNTED: u64 = 1 << 18;
        let (mut count, mut rest) = (0, Some(bounds));
        while let Some(bounds) = rest {
            let (more, then) = self.with(py, ALL, |table| table.count_some(bounds, COUNTED))?;
            (count, rest) = (count + more, then);
            py.check_signals()?;
        }
        Ok(count as usize)
    }

    /// Calls `work` with the table within a transaction, likewise; possibly more than once.
    fn atomically<R: Send>(
        &self,
        py: Python<'_>,
        rows: usize,
        work: impl FnMut(&TableHandle) -> Result<R> + Send,
    ) -> PyResult<R> {
        let call = || self.leased.with(|leased| leased.handle.atomically(&leased.database, work));
        calling(py, rows, call).or_raise(py)
    }

    /// The value of an encoded key.
    #[inline]
    fn read<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyAny>>> {
        let mut value = VALUE.take();
        let found = self.with(py, 1, |table| table.get_into(key, &mut value));
        let object = match found {
            Ok(true) => self.kinds.decode_value(py, &value).map(Some),
            Ok(false) => Ok(None),
            Err(error) => Err(error),
        };
        if value.capacity() <= KEPT_BYTES {
            VALUE.set(value);
        }
        object
    }

    fn rows(slf: &Bound<'_, Self>, part: Part, bounds: Bounds, reverse: bool) -> Rows {
        Rows::new(slf.clone().unbind(), bounds, part, reverse)
    }

    /// The bounds of a range, or of what begins with `prefix`, if there is one.
    fn bounds_or_prefix(
        &self,
        py: Python<'_>,
        (start, stop, include_stop): (Option<&Bound<'_, PyAny>>, Option<&Bound<'_, PyAny>>, bool),
        prefix: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bounds> {
        match prefix {
            None => self.kinds.bounds(start, stop, include_stop),
            Some(prefix) if start.is_none() && stop.is_none() => self.kinds.prefix(prefix),
            Some(_) => Err(argument(py, "a range or a prefix, not both")),
        }
    }

    /// The row that `take` takes; what is no row of the table's kinds stays, and raises `Encoding`.
    fn taken<'py>(
        &self,
        py: Python<'py>,
        mut take: impl FnMut(&TableHandle) -> Result<Option<(Vec<u8>, Vec<u8>)>> + Send,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let kinds = &self.kinds;
        let row = self.atomically(py, 1, |table| {
            let row = take(table)?;
            if let Some((key, value)) = &row
                && !kinds.fit(key, value)
            {
                table.put(key, value)?;
            }
            Ok(row)
        })?;
        row.map(|row| self.row(py, &row)).transpose()
    }

    fn row<'py>(&self, py: Python<'py>, (key, value): &(Vec<u8>, Vec<u8>)) -> PyResult<Bound<'py, PyTuple>> {
        (self.kinds.decode_key(py, key)?, self.kinds.decode_value(py, value)?).into_pyobject(py)
    }

    /// The encoded rows of a mapping or of an iterable of pairs.
    fn encoded(&self, rows: &Bound<'_, PyAny>) -> PyResult<Vec<(Vec<u8>, Vec<u8>)>> {
        if rows.hasattr("items")? {
            return each(&rows.call_method0("items")?)?.map(|pair| self.encoded_row(&pair?)).collect();
        }
        if rows.hasattr("keys")? {
            // All that `dict.update` asks of a mapping.
            let row = |key: Bound<'_, PyAny>| self.encode(&key, &rows.get_item(&key)?);
            return each(&rows.call_method0("keys")?)?.map(|key| row(key?)).collect();
        }
        each(rows)?.map(|pair| self.encoded_row(&pair?)).collect()
    }

    /// An encoded pair, which may be a tuple or any other two objects in a row.
    fn encoded_row(&self, pair: &Bound<'_, PyAny>) -> PyResult<(Vec<u8>, Vec<u8>)> {
        if let Ok((key, value)) = pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>() {
            return self.encode(&key, &value);
        }
        let parts: Vec<_> = pair.try_iter()?.take(3).collect::<PyResult<_>>()?;
        match &parts[..] {
            [key, value] => self.encode(key, value),
            _ => Err(PyTypeError::new_err("a row is a pair: a key and a value")),
        }
    }

    fn encode(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<(Vec<u8>, Vec<u8>)> {
        Ok((self.kinds.encode_key(key)?.into_owned(), self.kinds.encode_value(value)?.into_owned()))
    }
}

/// What an iterable gives. Iterators of C do not hear Ctrl-C, nor let other threads run.
fn each<'py>(
    iterable: &Bound<'py, PyAny>,
) -> PyResult<impl Iterator<Item = PyResult<Bound<'py, PyAny>>> + use<'py>> {
    let py = iterable.py();
    let heard = move |(count, item): (usize, _)| {
        if count % TURN_ROWS == TURN_ROWS - 1 {
            py.detach(|| ());
        }
        py.check_signals().and(item)
    };
    Ok(iterable.try_iter()?.enumerate().map(heard))
}

/// A default that may have been left out, which is something else than `None`.
struct Fallback<'py>(Option<Bound<'py, PyAny>>);

impl<'a, 'py> FromPyObject<'a, 'py> for Fallback<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self(Some(object.to_owned())))
    }
}

fn absent(key: &Bound<'_, PyAny>) -> PyErr {
    // In a tuple: a key that is one itself would be taken for the exception's arguments.
    PyKeyError::new_err((key.clone().unbind(),))
}

#[pymethods]
impl Table {
    /// The table's name, as it was when this object was made: others may have renamed it since.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The index over the table's leaves: ``"bplus"``, ``"csb"`` or ``"o2"``.
    #[getter]
    fn index(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, 0, |table| Ok(table.index().to_string()))
    }

    /// The size of the table's leaves, in bytes.
    #[getter]
    fn leaf_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, 0, |table| Ok(table.leaf_bytes()))
    }

    /// The value of ``key``, or ``default``.
    #[pyo3(signature = (key, default = None))]
    fn get<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let encoded = self.kinds.encode_key(key)?;
        Ok(self.read(key.py(), &encoded)?.or(default))
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let encoded = self.kinds.encode_key(key)?;
        self.read(key.py(), &encoded)?.ok_or_else(|| absent(key))
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let encoded = self.kinds.encode_key(key)?;
        self.with(key.py(), 1, |table| table.contains(&encoded))
    }

    /// The values of many keys, in their order, ``None`` where there is none. Faster than one ``get`` each.
    fn multi_get<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
        let keys: Vec<_> = each(keys)?.collect::<PyResult<_>>()?;
        let encoded: Vec<_> = keys.iter().map(|key| self.kinds.encode_key(key)).collect::<PyResult<_>>()?;
        let values = self.with(py, encoded.len(), |table| table.multi_get(&encoded))?;
        values
            .into_iter()
            .map(|value| value.map(|value| self.kinds.decode_value(py, &value)).transpose())
            .collect()
    }

    /// As ``get``, for a row that the transaction is going to change: nobody else can lock it meanwhile.
    #[pyo3(signature = (key, default = None))]
    fn get_for_update<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (py, encoded) = (key.py(), self.kinds.encode_key(key)?);
        match self.with(py, 1, |table| table.get_for_update(&encoded))? {
            Some(value) => self.kinds.decode_value(py, &value).map(Some),
            None => Ok(default),
        }
    }

    /// Sets the value of ``key``, whether or not it had one; the same as ``table[key] = value``.
    fn put(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let (encoded, value) = (self.kinds.encode_key(key)?, self.kinds.encode_value(value)?);
        self.with(key.py(), 1, |table| table.put(&encoded, &value))
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.put(key, value)
    }

    /// Sets the value of ``key`` unless it has one; says whether it did.
    fn insert(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (encoded, value) = (self.kinds.encode_key(key)?, self.kinds.encode_value(value)?);
        self.with(key.py(), 1, |table| table.insert(&encoded, &value))
    }

    /// Removes ``key``; says whether it was there.
    fn remove(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let encoded = self.kinds.encode_key(key)?;
        self.with(key.py(), 1, |table| table.remove(&encoded))
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        if self.remove(key)? { Ok(()) } else { Err(absent(key)) }
    }

    /// Sets the value of ``key`` to ``default`` unless it has one; returns the value it has then.
    #[pyo3(signature = (key, default = None))]
    fn setdefault<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let none = key.py().None().into_bound(key.py());
        let default = default.unwrap_or(&none);
        let (py, encoded) = (key.py(), self.kinds.encode_key(key)?);
        let new = match self.kinds.encode_value(default) {
            Ok(new) => new,
            // It is wanted only where there is none; and `None` is no value of most tables.
            Err(error) => return self.read(py, &encoded)?.ok_or(error),
        };
        let old = self.atomically(py, 1, |table| {
            if table.insert(&encoded, &new)? { Ok(None) } else { table.get(&encoded) }
        })?;
        self.kinds.decode_value(py, old.as_deref().unwrap_or(&new)) // which may not be `default`: 0.1 is no `f32`
    }

    /// Removes ``key`` and returns its value; without one, returns the default or raises ``KeyError``.
    #[pyo3(signature = (key, default = Fallback(None)))]
    fn pop<'py>(&self, key: &Bound<'py, PyAny>, default: Fallback<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (py, encoded) = (key.py(), self.kinds.encode_key(key)?);
        let kinds = &self.kinds;
        let value = self.atomically(py, 1, |table| {
            let value = table.get_for_update(&encoded)?;
            if value.as_ref().is_some_and(|value| kinds.fits_value(value)) {
                table.remove(&encoded)?;
            }
            Ok(value)
        })?;
        match value {
            Some(value) => self.kinds.decode_value(py, &value),
            None => default.0.ok_or_else(|| absent(key)),
        }
    }

    /// The first row with ``start <= key < stop``, or of those whose keys begin with ``prefix``; ``None`` if there is none. Bounds as of
    /// ``range``, prefixes as of ``prefix``.
    #[pyo3(signature = (start = None, stop = None, *, include_stop = false, prefix = None))]
    fn first<'py>(
        &self,
        py: Python<'py>,
        start: Option<&Bound<'py, PyAny>>,
        stop: Option<&Bound<'py, PyAny>>,
        include_stop: bool,
        prefix: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let bounds = self.bounds_or_prefix(py, (start, stop, include_stop), prefix)?;
        let row = self.with(py, 1, |table| table.range(bounds).next().transpose())?;
        row.map(|row| self.row(py, &row)).transpose()
    }

    /// The last row with ``start <= key < stop``, or of those whose keys begin with ``prefix``; as ``first``.
    #[pyo3(signature = (start = None, stop = None, *, include_stop = false, prefix = None))]
    fn last<'py>(
        &self,
        py: Python<'py>,
        start: Option<&Bound<'py, PyAny>>,
        stop: Option<&Bound<'py, PyAny>>,
        include_stop: bool,
        prefix: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let bounds = self.bounds_or_prefix(py, (start, stop, include_stop), prefix)?;
        let row = self.with(py, 1, |table| table.range(bounds).next_back().transpose())?;
        row.map(|row| self.row(py, &row)).transpose()
    }

    /// Removes the first row and returns it; raises ``KeyError`` if the table is empty.
    fn popitem<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let first = self.taken(py, |table| table.pop_first(Bounds::default()))?;
        first.ok_or_else(|| PyKeyError::new_err("popitem(): the table is empty"))
    }

    /// Removes the first row with ``start <= key < stop``, or of those whose keys begin with ``prefix``, and returns it; ``None``
    /// if there is none. Bounds as of ``range``, prefixes as of ``prefix``. Of threads that do so at a time each gets another row.
    #[pyo3(signature = (start = None, stop = None, *, include_stop = false, prefix = None))]
    fn pop_first<'py>(
        &self,
        py: Python<'py>,
        start: Option<&Bound<'py, PyAny>>,
        stop: Option<&Bound<'py, PyAny>>,
        include_stop: bool,
        prefix: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let bounds = self.bounds_or_prefix(py, (start, stop, include_stop), prefix)?;
        self.taken(py, |table| table.pop_first(bounds.clone()))
    }

    /// Removes the last row with ``start <= key < stop``, or of those whose keys begin with ``prefix``, and returns it; as
    /// ``pop_first``.
    #[pyo3(signature = (start = None, stop = None, *, include_stop = false, prefix = None))]
    fn pop_last<'py>(
        &self,
        py: Python<'py>,
        start: Option<&Bound<'py, PyAny>>,
        stop: Option<&Bound<'py, PyAny>>,
        include_stop: bool,
        prefix: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let bounds = self.bounds_or_prefix(py, (start, stop, include_stop), prefix)?;
        self.taken(py, |table| table.pop_last(bounds.clone()))
    }

    /// Sets the rows of a mapping, or of an iterable of pairs, in one transaction.
    #[pyo3(signature = (rows = None, /, **named))]
    fn update(
        &self,
        py: Python<'_>,
        rows: Option<&Bound<'_, PyAny>>,
        named: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let mut encoded = rows.map_or(Ok(Vec::new()), |rows| self.encoded(rows))?;
        encoded.extend(named.map_or(Ok(Vec::new()), |named| self.encoded(named))?);
        self.atomically(py, encoded.len(), |table| table.put_many(&encoded))
    }

    /// Removes all rows, in one transaction.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, ALL, |table| table.remove_range(Bounds::default()).map(drop))
    }

    /// Removes the rows with ``start <= key < stop``, in one transaction; says how many. Bounds as of ``range``. Their values are
    /// not read: much faster than one ``remove`` each.
    #[pyo3(signature = (start = None, stop = None, *, include_stop = false))]
    fn remove_range(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        include_stop: bool,
    ) -> PyResult<u64> {
        let bounds = self.kinds.bounds(start, stop, include_stop)?;
        self.with(py, ALL, |table| table.remove_range(bounds))
    }

    /// Removes the rows whose keys begin with ``prefix``, in one transaction; says how many. Prefixes as of ``prefix``.
    fn remove_prefix(&self, py: Python<'_>, prefix: &Bound<'_, PyAny>) -> PyResult<u64> {
        let bounds = self.kinds.prefix(prefix)?;
        self.with(py, ALL, |table| table.remove_range(bounds))
    }

    /// Loads pairs in strictly ascending order of their keys, all above any key of the table; says how many. The fastest way
    /// to fill a table. Not one transaction: rows appear as they are loaded.
    fn bulk_load(&self, py: Python<'_>, rows: &Bound<'_, PyAny>) -> PyResult<u64> {
        let (mut count, mut rows) = (0, each(rows)?);
        loop {
            let (mut chunk, mut bytes) = (Vec::new(), 0);
            while bytes < LOAD_BYTES
                && let Some(row) = rows.next()
            {
                let (key, value) = self.encoded_row(&row?)?;
                bytes += key.len() + value.len();
                chunk.push((key, value));
            }
            if chunk.is_empty() {
                return Ok(count);
            }
            count += self.with(py, ALL, |table| table.bulk_load(chunk))?;
        }
    }

    /// The rows with ``start <= key < stop``, in order; without one, from the first or to the last. For tables whose keys are
    /// tuples, the leading parts are enough.
    #[pyo3(signature = (start = None, stop = None, *, include_stop = false, reverse = false))]
    fn range(
        slf: &Bound<'_, Self>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        include_stop: bool,
        reverse: bool,
    ) -> PyResult<Rows> {
        let bounds = slf.get().kinds.bounds(start, stop, include_stop)?;
        Ok(Self::rows(slf, Part::Items, bounds, reverse))
    }

    /// The rows whose keys begin with ``prefix``, in order: some bytes, the beginning of a text or a list, the leading parts of
    /// a tuple.
    #[pyo3(signature = (prefix, *, reverse = false))]
    fn prefix(slf: &Bound<'_, Self>, prefix: &Bound<'_, PyAny>, reverse: bool) -> PyResult<Rows> {
        let bounds = slf.get().kinds.prefix(prefix)?;
        Ok(Self::rows(slf, Part::Items, bounds, reverse))
    }

    /// The keys, in order.
    fn keys(slf: &Bound<'_, Self>) -> Rows {
        Self::rows(slf, Part::Keys, Bounds::default(), false)
    }

    /// The values, in the order of their keys.
    fn values(slf: &Bound<'_, Self>) -> Rows {
        Self::rows(slf, Part::Values, Bounds::default(), false)
    }

    /// The rows, in the order of their keys.
    fn items(slf: &Bound<'_, Self>) -> Rows {
        Self::rows(slf, Part::Items, Bounds::default(), false)
    }

    fn __iter__(slf: &Bound<'_, Self>) -> PyResult<RowIterator> {
        Self::keys(slf).iterate(slf.py(), false)
    }

    fn __reversed__(slf: &Bound<'_, Self>) -> PyResult<RowIterator> {
        Self::keys(slf).iterate(slf.py(), true)
    }

    /// Reads all keys to count them; ``estimate`` is quicker.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.count(py, Bounds::default())
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, 1, |table| table.any(Bounds::default()))
    }

    /// About how many rows have ``start <= key < stop``, without reading them all: as of now, also in a snapshot.
    #[pyo3(signature = (start = None, stop = None))]
    fn estimate(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let bounds = self.kinds.bounds(start, stop, false)?;
        self.with(py, 1, |table| table.estimate(bounds))
    }

    fn __repr__(&self) -> String {
        let kinds = if self.kinds.raw {
            "bytes, bytes".into()
        } else {
            format!("{}, {}", self.kinds.key, self.kinds.value)
        };
        format!("<foreshore.Table {:?} of {kinds}>", self.name)
    }
}
