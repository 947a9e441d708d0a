//! What suits this machine: measured, written down, and used when a map or a table is made.
//!
//! Why: the best number of keys in a node depends on caches, on how many misses the processor follows at a time, and on
//! what is done most. Whoever compiles a program does not know the machine; whoever runs it can measure for some minutes.
//! Source: the processor-conscious CSB+-tree's configuration experiment: key size × node size × search method × prefetch,
//! for lookups and for inserts, at several tree sizes; its table, from which an index takes what suits it when it is
//! created.
//! Differs: what a map takes from the table is its node size. Search methods, prefetch and huge pages are measured too, on
//! a tree made for that ([`Search`]), and the profile says which was best; but the maps keep their one search (by heads of
//! blocks, then counting), their prefetch, and huge pages. Node sizes are compared on the maps themselves, with the
//! latches and versions that the paper's tree has not. The engine's leaf size is a choice more.
//!
//! - [`experiment`] measures maps and searches; [`Profile`] holds the figures and what follows from them, as TOML;
//!   [`Machine`] says where.
//! - [`TunedMap`](crate::TunedMap) is made with the node size that a profile chooses.
//! - [`Leaves`]: leaf sizes. The engine is measured by `foreshore tune`, and asked to follow by `Builder::profile`.

mod choose;
mod cpuid;
pub mod experiment;
mod leaves;
mod machine;
mod profile;
mod search;
pub mod turns;

pub use leaves::{LeafMeasured, Leaves};
pub use machine::Machine;
pub use profile::{Choice, Profile, ProfileError};
pub use search::{BestWay, Search, SearchMeasured, Searches, Way};

use serde::{Deserialize, Serialize};

/// What a map is wanted for most.
///
/// ```
/// use foreshore_index::{Favour, Profile};
///
/// let profile = Profile::default();
/// for favour in Favour::ALL {
///     assert!(profile.node_keys(8, favour).get() >= 16);
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Favour {
    /// Lookups, singly and in batches.
    Lookups,
    /// Inserts.
    Inserts,
    /// Lookups, inserts and scans alike.
    #[default]
    Balanced,
}

impl Favour {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Lookups, Self::Inserts, Self::Balanced];
}

/// Keys in a node: one of the sizes that maps are compiled for.
///
/// ```
/// use foreshore_index::NodeKeys;
///
/// assert_eq!("64".parse(), Ok(NodeKeys::default()));
/// assert_eq!(NodeKeys::at_most(100), NodeKeys::K64);
/// assert!(NodeKeys::try_from(17).unwrap_err().contains("16, 32, 64, 128"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "usize", into = "usize")]
pub enum NodeKeys {
    /// 16 keys.
    K16,
    /// 32 keys.
    K32,
    /// 64 keys: what [`IntMap`](crate::IntMap) has.
    #[default]
    K64,
    /// 128 keys.
    K128,
}

impl NodeKeys {
    /// All sizes, rising.
    pub const ALL: [Self; 4] = [Self::K16, Self::K32, Self::K64, Self::K128];

    /// The number.
    ///
    /// ```
    /// assert_eq!(foreshore_index::NodeKeys::K32.get(), 32);
    /// ```
    pub fn get(self) -> usize {
        match self {
            Self::K16 => 16,
            Self::K32 => 32,
            Self::K64 => 64,
            Self::K128 => 128,
        }
    }

    /// The greatest size of at most so many keys, or the smallest.
    ///
    /// ```
    /// use foreshore_index::NodeKeys;
    ///
    /// assert_eq!([NodeKeys::at_most(1), NodeKeys::at_most(127)], [NodeKeys::K16, NodeKeys::K64]);
    /// ```
    pub fn at_most(keys: usize) -> Self {
        Self::ALL.into_iter().rfind(|size| size.get() <= keys).unwrap_or(Self::K16)
    }
}

impl From<NodeKeys> for usize {
    fn from(keys: NodeKeys) -> usize {
        keys.get()
    }
}

impl TryFrom<usize> for NodeKeys {
    type Error = String;

    fn try_from(keys: usize) -> Result<Self, String> {
        let sizes = || Self::ALL.map(|size| size.get().to_string()).join(", ");
        let found = Self::ALL.into_iter().find(|size| size.get() == keys);
        found.ok_or_else(|| format!("no node holds {keys} keys; the sizes are {}", sizes()))
    }
}

impl std::str::FromStr for NodeKeys {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse::<usize>().map_err(|e| e.to_string())?.try_into()
    }
}
