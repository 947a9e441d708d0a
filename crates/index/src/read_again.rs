//! Reading what others change: what an optimistic reader does when its first attempt has failed.
//!
//! Source: OLFIT (Cha et al., VLDB 2001), `read_node`, which tries for ever. Differs: who fails too often takes the latch, so that
//! writers who never pause do not keep a reader from its answer.

use crate::counters::Count;
use crate::node::Seen;
use foreshore_base::sync::Backoff;
use foreshore_base::{NodeLatch, Restart};

/// Optimistic attempts, with the first, before a reader takes the latch.
const ATTEMPTS_MAX: u32 = 16;

/// Reads under this latch's word until what was read is of one version. `restarts` and `latched_reads` are counts of the tree.
#[cold]
#[inline(never)]
pub(crate) fn read_again<'g, R>(
    latch: &'g NodeLatch,
    (restarts, latched_reads): (&Count, &Count),
    mut read: impl FnMut(&Seen<'g>) -> Result<R, Restart>,
) -> R {
    let mut backoff = Backoff::new();
    for _ in 1..ATTEMPTS_MAX {
        restarts.add();
        backoff.wait();
        let seen = latch.optimistic();
        if let Ok(result) = read(&Seen::Optimistic(seen))
            && seen.validate().is_ok()
        {
            return result;
        }
    }
    latched_reads.add();
    let latched = latch.exclusive();
    let result = read(&Seen::Latched).expect("reading under the latch never restarts");
    latched.release_unchanged();
    result
}
