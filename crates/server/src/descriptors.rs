//! Room for clients among the files that the process may have open.
//!
//! Why: the database opens files while it runs, such as the next segment of its log. If clients hold every descriptor there
//! is, that fails, and nothing can be written until some of them leave. So some are set aside.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors for everything that is neither client nor event loop: files of the database, listeners, a scraper.
const SET_ASIDE: u64 = 128;

/// What an event loop needs to wait and to be woken.
const PER_LOOP: u64 = 2;

/// How many clients there is room for beside so many event loops, at most `wanted`. Asks the operating system for more room
/// if it needs to.
pub fn room_for(wanted: usize, loops: usize) -> usize {
    let (wanted, set_aside) = (wanted as u64, SET_ASIDE + PER_LOOP * loops as u64);
    let limit = getrlimit(Resource::Nofile);
    let (Some(mut current), maximum) = (limit.current, limit.maximum) else { return wanted as usize };
    let needed = wanted.saturating_add(set_aside).min(maximum.unwrap_or(u64::MAX));
    if needed > current && setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum }).is_ok() {
        current = needed;
    }
    clients_of(current, set_aside).min(wanted) as usize
}

/// How many of so many descriptors are for clients. Where there are few, half of them.
fn clients_of(descriptors: u64, set_aside: u64) -> u64 {
    (descriptors - set_aside.min(descriptors / 2)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_are_always_set_aside() {
        for (descriptors, clients) in [(10_128, 10_000), (1024, 896), (64, 32), (1, 1), (0, 1)] {
            assert_eq!(clients_of(descriptors, 128), clients);
        }
    }
}
