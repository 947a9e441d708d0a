//! Cursors: rows in key order, from both ends.

use crate::memory::{Bytes, give, there};
use crate::status::{FS_ABSENT, FS_OK, Failure, answer, guard, guard_free};
use crate::table::Table;
use foreshore::Result;
use foreshore_bindings::{Bounds, Rows};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ops::Bound;

type Row = (Vec<u8>, Vec<u8>);

/// Rows on their way to the caller. It holds no lock of its own and blocks nobody; rows written meanwhile may or may not
/// appear, except within a transaction or a snapshot.
pub struct Cursor {
    rows: Source,
    /// The row that is lent to C.
    lent: Row,
}

enum Source {
    Table(Box<Rows>),
    Names(std::vec::IntoIter<Vec<u8>>),
}

impl Cursor {
    fn new(rows: Rows) -> Self {
        Self { rows: Source::Table(Box::new(rows)), lent: Row::default() }
    }

    /// A list of names, as keys without values.
    pub fn of_names(names: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let names: Vec<_> = names.into_iter().collect();
        Self { rows: Source::Names(names.into_iter()), lent: Row::default() }
    }

    /// Values that a caller does not want are not read.
    fn set_keys_only(&mut self, keys_only: bool) {
        if let Source::Table(rows) = &mut self.rows {
            rows.set_keys_only(keys_only);
        }
    }

    fn next(&mut self) -> Option<Result<Row>> {
        match &mut self.rows {
            Source::Table(rows) => rows.next(),
            Source::Names(names) => names.next().map(|name| Ok((name, Vec::new()))),
        }
    }

    fn next_back(&mut self) -> Option<Result<Row>> {
        match &mut self.rows {
            Source::Table(rows) => rows.next_back(),
            Source::Names(names) => names.next_back().map(|name| Ok((name, Vec::new()))),
        }
    }

    /// Lends a row to C, until the next one.
    fn lend(
        &mut self,
        row: Option<Result<Row>>,
        key: Option<&mut MaybeUninit<Bytes>>,
        value: Option<&mut MaybeUninit<Bytes>>,
    ) -> Result<c_int, Failure> {
        let Some(row) = row else { return Ok(FS_ABSENT) };
        self.lent = row?;
        // A caller may want only one of the two.
        if let Some(key) = key {
            key.write(Bytes::lend(&self.lent.0));
        }
        if let Some(value) = value {
            value.write(Bytes::lend(&self.lent.1));
        }
        Ok(FS_OK)
    }
}

/// An end of a range of keys.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Limit {
    /// The key at the end.
    pub key: Bytes,
    /// Does the range include it?
    pub inclusive: bool,
}

impl Limit {
    fn bound(limit: Option<&Self>) -> Result<Bound<Vec<u8>>, Failure> {
        let Some(limit) = limit else { return Ok(Bound::Unbounded) };
        let key = limit.key.get()?.to_vec();
        Ok(if limit.inclusive { Bound::Included(key) } else { Bound::Excluded(key) })
    }

    /// What lies between two of them.
    pub(crate) fn bounds(from: Option<&Self>, to: Option<&Self>) -> Result<Bounds, Failure> {
        Ok(Bounds { from: Self::bound(from)?, to: Self::bound(to)? })
    }
}

/// Makes a cursor over the rows from `from` to `to`, in byte order; NULL is no limit. Free it with `fs_cursor_free`.
#[unsafe(no_mangle)]
pub extern "C" fn fs_range(
    table: Option<&Table>,
    from: Option<&Limit>,
    to: Option<&Limit>,
    out: Option<&mut MaybeUninit<Option<Box<Cursor>>>>,
) -> c_int {
    guard(|| {
        let out = there(out, "out")?;
        let rows = there(table, "table")?.handle.range(Limit::bounds(from, to)?);
        give(out, Cursor::new(rows));
        Ok(())
    })
}

/// Makes a cursor over the rows whose keys begin with `prefix`. Free it with `fs_cursor_free`.
#[unsafe(no_mangle)]
pub extern "C" fn fs_prefix(
    table: Option<&Table>,
    prefix: Bytes,
    out: Option<&mut MaybeUninit<Option<Box<Cursor>>>>,
) -> c_int {
    guard(|| {
        let out = there(out, "out")?;
        let rows = there(table, "table")?.handle.range(Bounds::prefix(prefix.get()?));
        give(out, Cursor::new(rows));
        Ok(())
    })
}

/// The next row in ascending order; FS_ABSENT after the last. `key` and `value` may be NULL; without `value` none is read, however
/// large. What is stored there belongs to the cursor, and is valid until its next call.
#[unsafe(no_mangle)]
pub extern "C" fn fs_next(
    cursor: Option<&mut Cursor>,
    key: Option<&mut MaybeUninit<Bytes>>,
    value: Option<&mut MaybeUninit<Bytes>>,
) -> c_int {
    answer(|| {
        let cursor = there(cursor, "cursor")?;
        cursor.set_keys_only(value.is_none());
        let row = cursor.next();
        cursor.lend(row, key, value)
    })
}

/// The next row in descending order, from the other end; otherwise as `fs_next`. The two ends meet: each row comes once.
#[unsafe(no_mangle)]
pub extern "C" fn fs_next_back(
    cursor: Option<&mut Cursor>,
    key: Option<&mut MaybeUninit<Bytes>>,
    value: Option<&mut MaybeUninit<Bytes>>,
) -> c_int {
    answer(|| {
        let cursor = there(cursor, "cursor")?;
        cursor.set_keys_only(value.is_none());
        let row = cursor.next_back();
        cursor.lend(row, key, value)
    })
}

/// Frees a cursor.
#[unsafe(no_mangle)]
pub extern "C" fn fs_cursor_free(cursor: Option<Box<Cursor>>) {
    guard_free(cursor);
}
