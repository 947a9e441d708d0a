//! Known bugs, to be switched on: a test that cannot find its bug is no test.
//!
//! Each place that a test watches over asks [`seeded_bug`] whether to go wrong. In every usual build the answer is the constant
//! `false`, and nothing of it is left. A build with `--cfg seeded_bugs` takes the name of the one bug to be wrong by from the
//! environment variable `FORESHORE_BUG`, so that one build serves for all of them; `cargo xtask seeded` has their table.

/// Is the known bug `name` switched on?
#[cfg(not(seeded_bugs))]
#[inline(always)]
pub const fn seeded_bug(_name: &str) -> bool {
    false
}

/// Is the known bug `name` switched on?
#[cfg(seeded_bugs)]
#[must_use]
pub fn seeded_bug(name: &str) -> bool {
    use std::sync::OnceLock;

    // The standard library's, not the seam's: it is the same in every schedule, so no model checker needs to see it.
    static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var("FORESHORE_BUG").ok()).as_deref() == Some(name)
}
