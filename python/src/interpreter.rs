//! Leaving the interpreter before the engine waits, and only then.
//!
//! Why: leaving costs little, but to come back to an interpreter that another thread has taken meanwhile costs a sleep and a
//! wake-up, and those take longer than a read or a write of a row. So short calls stay. If the engine is going to wait in
//! one, for a lock, the disk or the log, it says so ([`foreshore::before_waiting`]), and the thread leaves at that moment.
//! Calls that compute for long, such as loads and scans, leave at once ([`Python::detach`]).

use foreshore::before_waiting;
use foreshore_bindings::Host;
use pyo3::exceptions::PyImportError;
use pyo3::{PyResult, Python, ffi};
use std::cell::Cell;
use std::ptr;

/// Python, for what the interfaces to other languages share.
pub struct Attached<'py>(pub Python<'py>);

impl Host for Attached<'_> {
    fn engine<R: Send>(&self, call: impl FnOnce() -> R + Send) -> R {
        staying(self.0, call)
    }
}

/// Refuses interpreters beside the process's first, such as mod_wsgi makes: who comes back to the interpreter comes to the first,
/// and so waits for itself in another.
///
/// Errors: `ImportError`.
pub fn only_the_first(_attached: Python<'_>) -> PyResult<()> {
    // SAFETY: this thread is attached, so it has an interpreter.
    let number = unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) };
    if number == 0 {
        return Ok(());
    }
    Err(PyImportError::new_err(
        "foreshore works in a process's main interpreter only, not in a subinterpreter",
    ))
}

thread_local! {
    /// The thread's state while it has left in the middle of a call; otherwise null.
    static LEFT: Cell<*mut ffi::PyThreadState> = const { Cell::new(ptr::null_mut()) };
}

/// Calls that concern more rows than this are long.
const SHORT_ROWS: usize = 64;

/// All rows of a table, for [`calling`].
pub const ALL: usize = usize::MAX;

/// Calls `work`, which concerns so many rows and must not touch Python: the thread may have left it.
///
/// Rule P2 holds if `work` takes its leases itself: they are given back before the thread returns to the interpreter.
#[inline]
pub fn calling<R: Send>(py: Python<'_>, rows: usize, work: impl FnOnce() -> R + Send) -> R {
    if rows <= SHORT_ROWS { staying(py, work) } else { py.detach(work) }
}

/// Calls `work`, which is short unless it waits, and must not touch Python, be it by dropping an object of it.
#[inline]
pub fn staying<R: Send>(_attached: Python<'_>, work: impl FnOnce() -> R + Send) -> R {
    let _back = Back;
    before_waiting(leave, work)
}

fn leave() {
    // SAFETY: this thread is attached, for `staying` was given its token, and leaves once: the engine calls this at most
    // once in `before_waiting`. Until `Back` is dropped nobody uses the token or Python's objects: `work` is `Send`, so it has
    // neither a token nor anything bound to one; and a `Py`, which is `Send` too, no caller gives to it.
    LEFT.set(unsafe { ffi::PyEval_SaveThread() });
}

/// Returns to the interpreter if the thread has left, also on a panic.
struct Back;

impl Drop for Back {
    #[inline]
    fn drop(&mut self) {
        let left = LEFT.replace(ptr::null_mut());
        if !left.is_null() {
            // SAFETY: `left` is what `leave` got on this thread for leaving, and is used once: it was taken out just now.
            unsafe { ffi::PyEval_RestoreThread(left) };
        }
    }
}
