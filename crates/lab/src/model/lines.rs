//! Which cores have which line: the directory of a MESI protocol.
//!
//! A line is *modified* or *exclusive* (one core has it, and may write), *shared* (some have it, none may write without
//! telling the others), or *invalid* (nobody has it). Since the directory sees every access, exclusive and modified differ
//! only in who must be asked for the data: the model treats both as owned.

use foldhash::fast::FixedState;
use std::collections::HashMap;

/// Cores that the model can have.
pub const CORES_MAX: usize = 128;

/// What the directory knows of a line.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    /// Who has it, a bit per core.
    holders: u128,
    /// Who had it and lost it to a writer, a bit per core.
    lost: u128,
    /// Its one holder may write.
    owned: bool,
    /// Until when it is on its way between two cores, in cycles.
    moving_until: u64,
}

/// What an access to a line needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Another core's cache had to give or give up the line.
    pub transfer: bool,
    /// The core had the line before and lost it to a writer.
    pub coherence: bool,
    /// Who lost the line to this access, a bit per core.
    pub invalidated: u128,
}

/// All lines.
#[derive(Default)]
pub struct Lines(HashMap<u64, Line, FixedState>);

impl Lines {
    /// Core `core` reads or writes `line`.
    pub fn access(&mut self, core: usize, line: u64, write: bool) -> Outcome {
        let me = 1u128 << core;
        let line = self.0.entry(line).or_default();
        let had = line.holders & me != 0;
        let others = line.holders & !me;
        let mut outcome = Outcome { coherence: !had && line.lost & me != 0, ..Outcome::default() };
        if write {
            outcome.transfer = others != 0;
            outcome.invalidated = others;
            line.lost |= others;
            line.holders = me;
            line.owned = true;
        } else if !had {
            outcome.transfer = others != 0 && line.owned;
            line.owned = others == 0;
            line.holders |= me;
        }
        line.lost &= !me;
        outcome
    }

    /// Core `core` dropped `line` for want of room.
    pub fn evict(&mut self, core: usize, line: u64) {
        if let Some(line) = self.0.get_mut(&line) {
            line.holders &= !(1 << core);
            line.owned &= line.holders != 0;
        }
    }

    /// A transfer of `line` that may begin at `now` and takes `cycles`: when is it over? One after the other.
    pub fn transfer(&mut self, line: u64, now: u64, cycles: u64) -> u64 {
        let line = self.0.entry(line).or_default();
        line.moving_until = line.moving_until.max(now) + cycles;
        line.moving_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: read alone (exclusive), write (modified, silently), read by another (shared), write by the first (upgrade;
    /// the other loses it), read by the other (coherence miss).
    #[test]
    fn mesi_step_by_step() {
        let mut lines = Lines::default();
        let (read, write) = (false, true);
        assert_eq!(lines.access(0, 7, read), Outcome::default());
        assert_eq!(lines.access(0, 7, write), Outcome::default());
        assert_eq!(lines.access(1, 7, read), Outcome { transfer: true, ..Outcome::default() });
        let told = Outcome { transfer: true, invalidated: 0b10, ..Outcome::default() };
        assert_eq!(lines.access(0, 7, write), told);
        assert_eq!(
            lines.access(1, 7, read),
            Outcome { transfer: true, coherence: true, ..Outcome::default() }
        );
        assert_eq!(lines.access(1, 7, read), Outcome::default());
    }

    /// A line dropped for want of room is no coherence miss when it comes back.
    #[test]
    fn eviction_is_not_invalidation() {
        let mut lines = Lines::default();
        lines.access(0, 7, true);
        lines.evict(0, 7);
        assert_eq!(lines.access(0, 7, false), Outcome::default());
    }

    #[test]
    fn transfers_of_a_line_queue() {
        let mut lines = Lines::default();
        assert_eq!(lines.transfer(7, 100, 50), 150);
        assert_eq!(lines.transfer(7, 110, 50), 200);
        assert_eq!(lines.transfer(8, 110, 50), 160);
        assert_eq!(lines.transfer(7, 500, 50), 550);
    }
}
