//! Tables: reading and writing single rows.

use crate::cursor::Limit;
use crate::memory::{Buf, Bytes, array, array_mut, there};
use crate::status::{FS_ABSENT, FS_EXISTS, FS_OK, Failure, answer, guard, guard_free};
use foreshore::Index;
use foreshore_bindings::{Bounds, TableHandle};
use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int};
use std::mem::MaybeUninit;

/// A table of byte strings in byte order: as everybody sees it (`fs_open_table`), as a transaction sees and changes it
/// (`fs_tx_table`), or as a snapshot saw it (`fs_snapshot_table`). Calls are the same for all three, except that a snapshot
/// refuses writes with FS_ARGUMENT.
pub struct Table {
    pub(crate) handle: TableHandle,
}

/// Frees the handle.
#[unsafe(no_mangle)]
pub extern "C" fn fs_table_free(table: Option<Box<Table>>) {
    guard_free(table);
}

/// The index over the table's leaves: "bplus", "csb" or "o2"; NULL without a table. The text belongs to the library.
#[unsafe(no_mangle)]
pub extern "C" fn fs_table_index(table: Option<&Table>) -> *const c_char {
    let name = table.map(|table| match table.handle.index() {
        Index::BPlus => c"bplus",
        Index::CsbPlus => c"csb",
        Index::O2 => c"o2",
        // A kind that is newer than this interface.
        _ => c"",
    });
    name.map_or(std::ptr::null(), CStr::as_ptr)
}

/// The size of the table's leaves in bytes; 0 without a table.
#[unsafe(no_mangle)]
pub extern "C" fn fs_table_leaf_bytes(table: Option<&Table>) -> usize {
    table.map_or(0, |table| table.handle.leaf_bytes())
}

/// Replaces the content of `value` by the value of `key`; FS_ABSENT, and an empty `value`, if there is none. The key may lie in
/// `value`.
#[unsafe(no_mangle)]
pub extern "C" fn fs_get(table: Option<&Table>, key: Bytes, value: Option<&mut Buf>) -> c_int {
    answer(|| {
        let (table, key, value) = (there(table, "table")?, key.get()?, there(value, "value")?);
        // What is read replaces the key before the read is over.
        let key = if value.holds(key) { Cow::Owned(key.to_vec()) } else { Cow::Borrowed(key) };
        let found = value.fill(|value| table.handle.get_into(&key, value))?;
        Ok(if found { FS_OK } else { FS_ABSENT })
    })
}

/// As `fs_get`, for a row that the transaction is going to change: nobody else can lock it meanwhile, so two transactions that
/// do this to one row do not deadlock. FS_ARGUMENT outside a transaction.
#[unsafe(no_mangle)]
pub extern "C" fn fs_get_for_update(table: Option<&Table>, key: Bytes, value: Option<&mut Buf>) -> c_int {
    answer(|| {
        let (table, key, value) = (there(table, "table")?, key.get()?, there(value, "value")?);
        let found = table.handle.get_for_update(key)?;
        let status = if found.is_some() { FS_OK } else { FS_ABSENT };
        value.set(found.unwrap_or_default());
        Ok(status)
    })
}

/// FS_OK if `key` has a value, FS_ABSENT if not.
#[unsafe(no_mangle)]
pub extern "C" fn fs_contains(table: Option<&Table>, key: Bytes) -> c_int {
    answer(|| Ok(if there(table, "table")?.handle.contains(key.get()?)? { FS_OK } else { FS_ABSENT }))
}

/// Reads the values of `count` keys: for each key, its value into `values` and whether there is one into `found`. Faster than
/// one `fs_get` each when the data is larger than the processor's caches. All three arrays are yours and have `count`
/// elements; each element of `values` is a buffer of its own, to be started and freed like any other.
#[unsafe(no_mangle)]
pub extern "C" fn fs_multi_get(
    table: Option<&Table>,
    keys: *const Bytes,
    count: usize,
    values: *mut Buf,
    found: *mut MaybeUninit<bool>,
) -> c_int {
    guard(|| {
        let table = there(table, "table")?;
        // SAFETY: C promises three arrays of `count` elements.
        let (keys, values, found) = unsafe {
            (
                array(keys, count, "keys")?,
                array_mut(values, count, "values")?,
                array_mut(found, count, "found")?,
            )
        };
        keys.iter().try_for_each(|key| key.get().map(drop))?;
        let read = table.handle.multi_get(keys)?;
        for ((value, buf), found) in read.into_iter().zip(values).zip(found) {
            found.write(value.is_some());
            buf.set(value.unwrap_or_default());
        }
        Ok(())
    })
}

/// Sets the value of `key`, whether or not it had one. FS_KEY_TOO_LONG, FS_VALUE_TOO_LARGE, FS_FULL: nothing was changed.
#[unsafe(no_mangle)]
pub extern "C" fn fs_put(table: Option<&Table>, key: Bytes, value: Bytes) -> c_int {
    guard(|| Ok(there(table, "table")?.handle.put(key.get()?, value.get()?)?))
}

/// Sets the values of `count` keys, in their order; of two rows with one key the later counts. Within a transaction new rows
/// with ascending keys are written together, faster than by one `fs_put` each; elsewhere each row is a commit of its own, and
/// the call waits for all of them at once. Both arrays are yours. After an error other than one that ends the transaction, some
/// of the rows may be there.
#[unsafe(no_mangle)]
pub extern "C" fn fs_put_many(
    table: Option<&Table>,
    keys: *const Bytes,
    values: *const Bytes,
    count: usize,
) -> c_int {
    guard(|| {
        let table = there(table, "table")?;
        // SAFETY: C promises two arrays of `count` elements.
        let rows = unsafe { rows(keys, values, count)? };
        Ok(table.handle.put_many(&rows)?)
    })
}

/// Loads `count` rows in strictly ascending order of their keys, all above any key of the table: the fastest way to fill one.
/// Call it again with the next rows. Both arrays are yours. FS_BULK_LOAD if the order is broken: the rows before are there.
/// Rows appear as they are loaded, so this is no part of a transaction: FS_ARGUMENT within one.
#[unsafe(no_mangle)]
pub extern "C" fn fs_bulk_load(
    table: Option<&Table>,
    keys: *const Bytes,
    values: *const Bytes,
    count: usize,
) -> c_int {
    guard(|| {
        let table = there(table, "table")?;
        // SAFETY: C promises two arrays of `count` elements.
        let rows = unsafe { rows(keys, values, count)? };
        table.handle.bulk_load(rows)?;
        Ok(())
    })
}

/// A key and its value, lent by C.
type Row<'a> = (&'a [u8], &'a [u8]);

/// Rows of which C has the keys and the values apart.
///
/// # Safety
/// As [`array()`], of both.
unsafe fn rows<'a>(keys: *const Bytes, values: *const Bytes, count: usize) -> Result<Vec<Row<'a>>, Failure> {
    // SAFETY: as the caller promises.
    let (keys, values) = unsafe { (array(keys, count, "keys")?, array(values, count, "values")?) };
    keys.iter().zip(values).map(|(key, value)| Ok((key.get()?, value.get()?))).collect()
}

/// Sets the value of `key` unless it has one: then FS_EXISTS. Otherwise as `fs_put`.
#[unsafe(no_mangle)]
pub extern "C" fn fs_insert(table: Option<&Table>, key: Bytes, value: Bytes) -> c_int {
    answer(|| {
        let inserted = there(table, "table")?.handle.insert(key.get()?, value.get()?)?;
        Ok(if inserted { FS_OK } else { FS_EXISTS })
    })
}

/// Removes `key`; FS_ABSENT if it was not there, as is one that is too long.
#[unsafe(no_mangle)]
pub extern "C" fn fs_remove(table: Option<&Table>, key: Bytes) -> c_int {
    answer(|| Ok(if there(table, "table")?.handle.remove(key.get()?)? { FS_OK } else { FS_ABSENT }))
}

/// Removes the rows from `from` to `to`, in byte order; NULL is no limit. All or none, and as of one moment. How many they
/// were is stored in `removed`, which may be NULL. Their values are not read: much faster than a cursor and `fs_remove`. Until
/// the transaction ends, what it has removed is kept, beyond a quarter of "old_version_bytes" on disk.
#[unsafe(no_mangle)]
pub extern "C" fn fs_remove_range(
    table: Option<&Table>,
    from: Option<&Limit>,
    to: Option<&Limit>,
    removed: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    guard(|| remove(table, Limit::bounds(from, to)?, removed))
}

/// Removes the rows whose keys begin with `prefix`; as `fs_remove_range`.
#[unsafe(no_mangle)]
pub extern "C" fn fs_remove_prefix(
    table: Option<&Table>,
    prefix: Bytes,
    removed: Option<&mut MaybeUninit<u64>>,
) -> c_int {
    guard(|| remove(table, Bounds::prefix(prefix.get()?), removed))
}

fn remove(
    table: Option<&Table>,
    bounds: Bounds,
    removed: Option<&mut MaybeUninit<u64>>,
) -> Result<(), Failure> {
    let count = there(table, "table")?.handle.remove_range(bounds)?;
    if let Some(removed) = removed {
        removed.write(count);
    }
    Ok(())
}

/// Removes the first row from `from` to `to`, in byte order; NULL is no limit. Replaces the content of `key` and `value`, two
/// buffers or NULL, by what the row was. FS_ABSENT, and both empty, if there is none. Of threads that do so at a time each gets
/// another row: a table is a queue, or many of them. Within a transaction the row is there again if that is rolled back, and
/// until it ends others who want the same row wait. The limits' keys may lie in the buffers.
#[unsafe(no_mangle)]
pub extern "C" fn fs_pop_first(
    table: Option<&Table>,
    from: Option<&Limit>,
    to: Option<&Limit>,
    key: Option<&mut Buf>,
    value: Option<&mut Buf>,
) -> c_int {
    answer(|| pop(table, Limit::bounds(from, to)?, TableHandle::pop_first, key, value))
}

/// Removes the last row from `from` to `to`; as `fs_pop_first`.
#[unsafe(no_mangle)]
pub extern "C" fn fs_pop_last(
    table: Option<&Table>,
    from: Option<&Limit>,
    to: Option<&Limit>,
    key: Option<&mut Buf>,
    value: Option<&mut Buf>,
) -> c_int {
    answer(|| pop(table, Limit::bounds(from, to)?, TableHandle::pop_last, key, value))
}

/// Removes the first of the rows whose keys begin with `prefix`; as `fs_pop_first`.
#[unsafe(no_mangle)]
pub extern "C" fn fs_pop_first_prefix(
    table: Option<&Table>,
    prefix: Bytes,
    key: Option<&mut Buf>,
    value: Option<&mut Buf>,
) -> c_int {
    answer(|| pop(table, Bounds::prefix(prefix.get()?), TableHandle::pop_first, key, value))
}

/// Removes the last of the rows whose keys begin with `prefix`; as `fs_pop_first`.
#[unsafe(no_mangle)]
pub extern "C" fn fs_pop_last_prefix(
    table: Option<&Table>,
    prefix: Bytes,
    key: Option<&mut Buf>,
    value: Option<&mut Buf>,
) -> c_int {
    answer(|| pop(table, Bounds::prefix(prefix.get()?), TableHandle::pop_last, key, value))
}

fn pop(
    table: Option<&Table>,
    bounds: Bounds,
    pop: impl FnOnce(&TableHandle, Bounds) -> foreshore::Result<Option<(Vec<u8>, Vec<u8>)>>,
    key: Option<&mut Buf>,
    value: Option<&mut Buf>,
) -> Result<c_int, Failure> {
    let row = pop(&there(table, "table")?.handle, bounds)?;
    let status = if row.is_some() { FS_OK } else { FS_ABSENT };
    let row = row.unwrap_or_default();
    // A caller may want only one of the two.
    for (buf, content) in [(key, row.0), (value, row.1)] {
        if let Some(buf) = buf {
            buf.set(content);
        }
    }
    Ok(status)
}
