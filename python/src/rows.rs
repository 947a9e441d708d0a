//! Rows in key order: views, and iterators that read ahead.

use crate::errors::{Failure, OrRaise};
use crate::interpreter::calling;
use crate::kind::Kinds;
use crate::lease::Lease;
use crate::table::Table;
use foreshore::Error;
use foreshore_bindings::{Bounds, Rows as EngineRows, TableHandle, WriteCount};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyTuple;
use std::ops::Bound as End;
use std::sync::{self, Arc, PoisonError};

type Row = (Vec<u8>, Vec<u8>);

/// How many rows an iterator reads at first: few programs want only one, and many want no more than some.
const AHEAD_MIN: usize = 16;

/// How many it reads at a time in the end: then the interpreter is left and entered for nearly nothing per row.
const AHEAD_MAX: usize = 1024;

/// It reads no further ahead once keys and values take so much memory.
const AHEAD_BYTES: usize = 1 << 20;

/// What of each row is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The key.
    Keys,
    /// The value.
    Values,
    /// Both.
    Items,
}

/// Some rows of a table, in order: they can be iterated over, as often as one likes, in both directions. They are read when
/// they are iterated over.
#[pyclass(frozen, generic, module = "foreshore")]
pub struct Rows {
    table: Py<Table>,
    bounds: Bounds,
    part: Part,
    reverse: bool,
}

impl Rows {
    pub fn new(table: Py<Table>, bounds: Bounds, part: Part, reverse: bool) -> Self {
        Self { table, bounds, part, reverse }
    }

    /// An iterator, in the other direction if `reversed`.
    pub fn iterate(&self, py: Python<'_>, reversed: bool) -> PyResult<RowIterator> {
        let (table, bounds) = (self.table.get(), self.bounds.clone());
        let reverse = self.reverse != reversed;
        let ahead = table.with(py, 0, |handle| {
            let writes = handle.transaction().map(|transaction| transaction.writes());
            let keys_only = self.part == Part::Keys;
            let ahead = Ahead { handle: handle.clone(), bounds, rows: None, reverse, keys_only };
            Ok((table.leases().give(Mutex::new(ahead)), writes))
        });
        let (ahead, writes) = ahead?;
        Ok(RowIterator {
            kinds: table.kinds().clone(),
            part: self.part,
            ahead,
            read: sync::Mutex::new(Read {
                chunk: Vec::new().into_iter(),
                wanted: AHEAD_MIN,
                then: Then::More,
                writes: writes.map(|count| Seen { at: count.now(), count, last: None }),
            }),
        })
    }
}

#[pymethods]
impl Rows {
    fn __iter__(&self, py: Python<'_>) -> PyResult<RowIterator> {
        self.iterate(py, false)
    }

    fn __reversed__(&self, py: Python<'_>) -> PyResult<RowIterator> {
        self.iterate(py, true)
    }

    /// Looks a key up; reads the rows to find a value or a whole row.
    fn __contains__(&self, py: Python<'_>, wanted: &Bound<'_, PyAny>) -> PyResult<bool> {
        if self.part == Part::Keys {
            let table = self.table.get();
            let key = table.kinds().encode_key(wanted)?;
            return Ok(self.bounds.contains(&key) && table.with(py, 1, |table| table.contains(&key))?);
        }
        let rows = self.iterate(py, false)?;
        while let Some(row) = rows.__next__(py)? {
            if row.eq(wanted)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads the rows to count them.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.table.get().count(py, self.bounds.clone())
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        let bounds = self.bounds.clone();
        self.table.get().with(py, 1, |table| table.any(bounds))
    }
}

/// Rows on their way to Python.
///
/// It reads ahead, in growing chunks. Within a transaction that would miss what the transaction itself writes meanwhile; so
/// after a write what was read ahead is forgotten and read again. Of threads that share it each gets other rows.
#[pyclass(frozen, generic, module = "foreshore")]
pub struct RowIterator {
    kinds: Arc<Kinds>,
    part: Part,
    ahead: Lease<Mutex<Ahead>>,
    /// Who waits for it has left the interpreter, for who has it may have to come back.
    read: sync::Mutex<Read>,
}

/// What was read ahead.
struct Read {
    chunk: std::vec::IntoIter<Row>,
    wanted: usize,
    /// What comes behind the chunk.
    then: Then,
    /// Within a transaction only.
    writes: Option<Seen>,
}

/// Up to where a transaction's rows were seen.
struct Seen {
    count: WriteCount,
    /// The count when the chunk was read.
    at: u64,
    /// The last key that Python got.
    last: Option<Vec<u8>>,
}

/// What comes behind the rows that were read ahead.
enum Then {
    /// Perhaps more.
    More,
    /// Nothing.
    End,
    /// An error, to be raised when its turn comes.
    Failure(Error),
}

/// The engine's side of an iterator.
struct Ahead {
    handle: TableHandle,
    bounds: Bounds,
    rows: Option<EngineRows>,
    reverse: bool,
    /// Values are not read.
    keys_only: bool,
}

impl Ahead {
    /// Begins anew behind `last`.
    fn restart(&mut self, last: Option<Vec<u8>>) {
        self.rows = None;
        match last.map(End::Excluded) {
            Some(last) if self.reverse => self.bounds.to = last,
            Some(last) => self.bounds.from = last,
            None => {}
        }
    }

    /// Reads up to `wanted` rows, fewer if they are large.
    fn read(&mut self, wanted: usize) -> (Vec<Row>, Then) {
        let rows = self.rows.get_or_insert_with(|| self.handle.range(self.bounds.clone()));
        rows.set_keys_only(self.keys_only);
        let (mut read, mut bytes) = (Vec::with_capacity(wanted), 0);
        while read.len() < wanted && bytes < AHEAD_BYTES {
            let row = if self.reverse { rows.next_back() } else { rows.next() };
            match row {
                Some(Ok(row)) => {
                    bytes += row.0.len() + row.1.len();
                    read.push(row);
                }
                Some(Err(error)) => return (read, Then::Failure(error)),
                None => return (read, Then::End),
            }
        }
        (read, Then::More)
    }
}

impl RowIterator {
    /// The next row, bytes still.
    fn advance(&self, py: Python<'_>) -> Result<Option<Row>, Failure> {
        if self.ahead.is_parents() {
            return Err(Failure::Forked); // a thread that had the lock is not here to give it back
        }
        py.check_signals()?; // who iterates may be written in C, as `list` is
        self.read.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner).next(py, &self.ahead)
    }
}

impl Read {
    fn next(&mut self, py: Python<'_>, ahead: &Lease<Mutex<Ahead>>) -> Result<Option<Row>, Failure> {
        let restart = self.writes.as_ref().is_some_and(|seen| seen.count.now() != seen.at);
        if restart || (self.chunk.len() == 0 && matches!(self.then, Then::More)) {
            self.read_ahead(py, ahead, restart)?;
        }
        let Some(row) = self.chunk.next() else {
            return match std::mem::replace(&mut self.then, Then::End) {
                Then::Failure(error) => {
                    self.then = Then::More; // after a wait in vain the engine's rows go on, and end after all else
                    Err(error.into())
                }
                Then::More | Then::End => Ok(None),
            };
        };
        if let Some(seen) = &mut self.writes {
            seen.last = Some(row.0.clone());
        }
        Ok(Some(row))
    }

    fn read_ahead(
        &mut self,
        py: Python<'_>,
        ahead: &Lease<Mutex<Ahead>>,
        restart: bool,
    ) -> Result<(), Failure> {
        (self.chunk, self.then) = (Vec::new().into_iter(), Then::More);
        if restart {
            // Who writes between rows does so again: the more was read ahead, the more is read anew after each write.
            self.wanted = AHEAD_MIN;
        }
        let wanted = self.wanted;
        let last = self.writes.as_mut().filter(|_| restart).and_then(|seen| {
            seen.at = seen.count.now();
            seen.last.clone()
        });
        let (rows, then) = calling(py, wanted, || {
            ahead.with(|ahead| {
                let mut ahead = ahead.lock();
                if restart {
                    ahead.restart(last);
                }
                Ok::<_, Error>(ahead.read(wanted))
            })
        })?;
        (self.chunk, self.then) = (rows.into_iter(), then);
        self.wanted = (2 * wanted).min(AHEAD_MAX);
        Ok(())
    }
}

#[pymethods]
impl RowIterator {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some((key, value)) = self.advance(py).or_raise(py)? else { return Ok(None) };
        Ok(Some(match self.part {
            Part::Keys => self.kinds.decode_key(py, &key)?,
            Part::Values => self.kinds.decode_value(py, &value)?,
            Part::Items => {
                let row = [self.kinds.decode_key(py, &key)?, self.kinds.decode_value(py, &value)?];
                PyTuple::new(py, row)?.into_any()
            }
        }))
    }
}
