//! Atomics that count the writes of each thread, for tests of the rule that reads write nothing shared.
//!
//! Only with `--cfg count_writes`. A failed compare-exchange counts too: it takes the cache line like a write.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{self, Ordering};

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

thread_local! {
    static WRITES: Cell<u64> = const { Cell::new(0) };
    static LINES: RefCell<Option<Vec<usize>>> = const { RefCell::new(None) };
}

/// Writes to atomics by this thread so far.
pub fn writes() -> u64 {
    WRITES.with(Cell::get)
}

/// Runs `work`; returns which cache lines this thread wrote meanwhile (address / 64), once for each write.
///
/// Only writes to atomics are seen: neither those of the standard library's own types nor plain ones.
pub fn lines_written<R>(work: impl FnOnce() -> R) -> (R, Vec<usize>) {
    LINES.with(|lines| lines.replace(Some(Vec::new())));
    let result = work();
    (result, LINES.with(RefCell::take).unwrap_or_default())
}

fn count<T>(written: &T) {
    WRITES.with(|writes| writes.set(writes.get() + 1));
    LINES.with(|lines| {
        if let Some(lines) = &mut *lines.borrow_mut() {
            lines.push(std::ptr::from_ref(written).addr() / LINE_BYTES);
        }
    });
}

macro_rules! counted {
    ($name:ident, $value:ty) => {
        #[doc = concat!("As in `std`, with its writes counted: `", stringify!($name), "`.")]
        #[repr(transparent)]
        #[derive(Debug, Default)]
        pub struct $name(atomic::$name);

        #[allow(missing_docs)] // as in `std`
        impl $name {
            pub const fn new(value: $value) -> Self {
                Self(atomic::$name::new(value))
            }

            pub fn load(&self, order: Ordering) -> $value {
                self.0.load(order)
            }

            pub fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }

            pub fn store(&self, value: $value, order: Ordering) {
                count(&self.0);
                self.0.store(value, order);
            }

            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                count(&self.0);
                self.0.swap(value, order)
            }

            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                count(&self.0);
                self.0.compare_exchange(current, new, success, failure)
            }

            pub fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                update: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                count(&self.0);
                self.0.fetch_update(set, fetch, update)
            }
        }
    };
}

macro_rules! arithmetic {
    ($name:ident, $value:ty: $($method:ident)*) => {
        #[allow(missing_docs)] // as in `std`
        impl $name {
            $(pub fn $method(&self, value: $value, order: Ordering) -> $value {
                count(&self.0);
                self.0.$method(value, order)
            })*
        }
    };
}

counted!(AtomicBool, bool);
counted!(AtomicU32, u32);
counted!(AtomicU64, u64);
counted!(AtomicUsize, usize);
arithmetic!(AtomicU32, u32: fetch_add fetch_sub fetch_or fetch_and fetch_max fetch_min);
arithmetic!(AtomicU64, u64: fetch_add fetch_sub fetch_or fetch_and fetch_max fetch_min);
arithmetic!(AtomicUsize, usize: fetch_add fetch_sub fetch_or fetch_and fetch_max fetch_min);
