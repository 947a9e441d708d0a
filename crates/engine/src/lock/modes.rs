//! What can be held on a name, and what excludes what.
//!
//! ```text
//! bit 0  read     the key, shared
//! bit 1  write    the key, exclusive (always together with read when held)
//! bit 2  gap      the open interval below the key: nobody else inserts there
//! bit 3  insert   wanted: an inserter waits for the gap. held: its turn, see `queue`
//! ```

use super::Reach;

/// A lock on the key itself, whether the key is present, a ghost or absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyMode {
    /// Nothing.
    None,
    /// To read it.
    Shared,
    /// To write it.
    Exclusive,
}

/// A set of modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Modes(u8);

impl Modes {
    pub const NONE: Modes = Modes(0);
    pub const READ: Modes = Modes(1);
    pub const WRITE: Modes = Modes(2);
    pub const GAP: Modes = Modes(4);
    pub const INSERT: Modes = Modes(8);

    #[inline]
    pub fn of(key: KeyMode, gap: Reach) -> Self {
        let key = match key {
            KeyMode::None => Modes::NONE,
            KeyMode::Shared => Modes::READ,
            KeyMode::Exclusive => Modes::READ.with(Modes::WRITE),
        };
        if gap.is_none() { key } else { key.with(Modes::GAP) }
    }

    #[inline]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    #[inline]
    pub fn with(self, more: Modes) -> Self {
        Self(self.0 | more.0)
    }

    #[inline]
    pub fn without(self, less: Modes) -> Self {
        Self(self.0 & !less.0)
    }

    #[inline]
    pub fn touches(self, other: Modes) -> bool {
        self.0 & other.0 != 0
    }

    #[inline]
    pub fn contain(self, other: Modes) -> bool {
        self.0 & other.0 == other.0
    }

    /// What another owner must not have for these to be granted.
    #[inline]
    pub fn enemies(self) -> Modes {
        let mut enemies = Modes::NONE;
        if self.touches(Modes::WRITE) {
            enemies = Modes::READ.with(Modes::WRITE);
        } else if self.touches(Modes::READ) {
            enemies = Modes::WRITE;
        }
        if self.touches(Modes::GAP) {
            enemies = enemies.with(Modes::INSERT);
        }
        if self.touches(Modes::INSERT) {
            enemies = enemies.with(Modes::GAP);
        }
        enemies
    }
}
