//! What a check of any structure tells.

use foreshore_base::sync::Backoff;
use std::fmt;
use std::time::{Duration, Instant};

/// Longer than anybody has a latch who only looks, be it a thread that is not running at the moment.
const LATCHED_FOR_EVER: Duration = Duration::from_secs(10);

/// Will this latch not be given back? Who has it may be one who only looks, as a lookup may at last, and as
/// [`bytes`](crate::ByteMap::bytes) does.
pub(crate) fn stays_latched(is_latched: impl Fn() -> bool) -> bool {
    let (mut backoff, mut since) = (Backoff::new(), None);
    while is_latched() {
        if since.get_or_insert_with(Instant::now).elapsed() > LATCHED_FOR_EVER {
            return true;
        }
        backoff.wait();
    }
    false
}

/// A broken invariant: which, and where.
///
/// ```
/// let map = foreshore_index::IntMap::<u64>::new();
/// if let Err(broken) = map.check() {
///     panic!("a defect of this crate: {broken}");
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken(String);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Broken {}

pub(crate) fn broken<T>(what: impl Into<String>) -> Result<T, Broken> {
    Err(Broken(what.into()))
}
