//! Options by name.

use crate::memory::{give, text, there};
use crate::status::{guard, guard_free};
use foreshore_bindings as bindings;
use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;

/// Options of a database to open, of a table to make, or of a transaction to begin.
#[derive(Default)]
pub struct Options {
    pairs: Vec<(String, String)>,
}

impl Options {
    /// The pairs; none if there are no options.
    pub fn pairs(options: Option<&Self>) -> &bindings::Options {
        options.map_or(&[], |options| &options.pairs)
    }
}

/// Makes an empty set of options. Free it with `fs_options_free`, at the earliest after its last use.
#[unsafe(no_mangle)]
pub extern "C" fn fs_options_new(out: Option<&mut MaybeUninit<Option<Box<Options>>>>) -> c_int {
    guard(|| {
        give(there(out, "out")?, Options::default());
        Ok(())
    })
}

/// Sets an option, both strings in UTF-8. Names and values are looked at when the options are used.
///
/// A database knows "create" and "rebuild" (true, false), "cache_bytes", "leaf_bytes", "segment_bytes", "ring_bytes",
/// "log_bytes" and "old_version_bytes" (67108864 or 64MiB), "durability" (sync, buffered, relaxed) and "redo_threads". A
/// table knows "index" (bplus, csb, o2) and "leaf_bytes" (4KiB, 8KiB, 16KiB, 32KiB). A transaction knows "isolation"
/// (serializable, repeatable_read, read_committed), "durability", "lock_timeout_ms" and "idle_timeout_ms".
#[unsafe(no_mangle)]
pub extern "C" fn fs_options_set(
    options: Option<&mut Options>,
    name: *const c_char,
    value: *const c_char,
) -> c_int {
    guard(|| {
        // SAFETY: C promises terminated strings, or NULL.
        let (name, value) = unsafe { (text(name, "name")?, text(value, "value")?) };
        there(options, "options")?.pairs.push((name.to_owned(), value.to_owned()));
        Ok(())
    })
}

/// Frees options.
#[unsafe(no_mangle)]
pub extern "C" fn fs_options_free(options: Option<Box<Options>>) {
    guard_free(options);
}
