//! What was measured on a machine, and the node sizes that follow from it.
//!
//! Without measurements the choice comes from the caches: a node is a thirty-second of the first data cache, so that the
//! nodes of a descent and their neighbours do not evict each other. That is a rule of thumb, which gives 64 keys of
//! 8 bytes on most machines.

use super::experiment::Measured;
use super::{Favour, Machine, NodeKeys};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// Another size than the default is chosen if it is so many times as fast: less is noise.
const WORTH_WHILE: f64 = 1.03;

/// See the module. Written by `foreshore tune`.
///
/// ```
/// use foreshore_index::{Favour, Profile, TunedMap};
///
/// let profile = Profile::default(); // or `Profile::load("foreshore-tune.toml")?`
/// let map: TunedMap<u64> = TunedMap::tuned(&profile, Favour::Lookups);
/// map.insert(1, 10);
/// assert_eq!(map.get(1), Some(10));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Where it was measured.
    pub machine: Machine,
    /// What follows from the figures, or was written here by hand.
    #[serde(default, rename = "choice")]
    pub choices: Vec<Choice>,
    /// The figures.
    #[serde(default)]
    pub measured: Vec<Measured>,
}

/// The node size for one kind of key and use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// Bytes of a key: 4 or 8.
    pub key_bytes: usize,
    /// What the map is wanted for.
    pub favour: Favour,
    /// Keys in a node.
    pub node_keys: NodeKeys,
}

/// A profile that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The file cannot be read.
    #[error("cannot read the profile {}: {source}; `foreshore tune` writes one", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The text is no profile.
    #[error("not a profile: {0}\nmend the line, or let `foreshore tune` write a new profile")]
    Syntax(#[from] toml::de::Error),
}

impl Default for Profile {
    /// This machine, without measurements: caches decide.
    fn default() -> Self {
        Self { machine: Machine::this(), choices: Vec::new(), measured: Vec::new() }
    }
}

impl Profile {
    /// What these figures of a machine say.
    pub fn of(machine: Machine, measured: Vec<Measured>) -> Self {
        let mut key_sizes: Vec<usize> = measured.iter().map(|m| m.key_bytes).collect();
        key_sizes.sort_unstable();
        key_sizes.dedup();
        let wanted = key_sizes.iter().flat_map(|&size| Favour::ALL.map(|favour| (size, favour)));
        let choices = wanted
            .map(|(key_bytes, favour)| Choice {
                key_bytes,
                favour,
                node_keys: best(&measured, key_bytes, favour),
            })
            .collect();
        Self { machine, choices, measured }
    }

    /// Reads a profile from its file.
    ///
    /// Errors: the file cannot be read, or is no profile.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ProfileError> {
        let path = path.as_ref();
        let read = std::fs::read_to_string(path);
        let text = read.map_err(|source| ProfileError::Read { path: path.into(), source })?;
        Self::from_toml(&text)
    }

    /// Reads a profile from its text.
    ///
    /// Errors: the text is no profile.
    pub fn from_toml(text: &str) -> Result<Self, ProfileError> {
        Ok(toml::from_str(text)?)
    }

    /// The text of the profile.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a profile is numbers, names and tables")
    }

    /// The node size for keys of so many bytes.
    pub fn node_keys(&self, key_bytes: usize, favour: Favour) -> NodeKeys {
        let choice = self.choices.iter().find(|c| c.key_bytes == key_bytes && c.favour == favour);
        choice.map_or_else(|| by_caches(&self.machine, key_bytes), |choice| choice.node_keys)
    }
}

/// See the module.
fn by_caches(machine: &Machine, key_bytes: usize) -> NodeKeys {
    NodeKeys::at_most(machine.l1d_bytes / 32 / (key_bytes + size_of::<u64>()))
}

/// The size with the least cost, the default one if nothing is clearly better.
fn best(measured: &[Measured], key_bytes: usize, favour: Favour) -> NodeKeys {
    let cost = |node_keys| {
        let costs: Vec<f64> = measured
            .iter()
            .filter(|m| m.key_bytes == key_bytes && m.node_keys == node_keys)
            .map(|m| cost(m, favour))
            .collect();
        if costs.is_empty() { f64::INFINITY } else { geometric_mean(&costs) }
    };
    let least =
        NodeKeys::ALL.into_iter().min_by(|a, b| cost(*a).total_cmp(&cost(*b))).expect("there are sizes");
    let default = NodeKeys::default();
    if cost(default) > cost(least) * WORTH_WHILE { least } else { default }
}

/// Nanoseconds, so to speak, of what is favoured.
fn cost(m: &Measured, favour: Favour) -> f64 {
    let lookups = [m.lookup_ns, m.multi_get_ns];
    match favour {
        Favour::Lookups => geometric_mean(&lookups),
        Favour::Inserts => m.insert_ns,
        Favour::Balanced => geometric_mean(&[geometric_mean(&lookups), m.insert_ns, m.scan_ns]),
    }
}

/// No unit and no tree size counts more than another.
fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn measured(node_keys: NodeKeys, insert_ns: f64, lookup_ns: f64) -> Measured {
        let (key_bytes, entries, multi_get_ns, scan_ns) = (8, 1000, lookup_ns, 100.0);
        Measured { key_bytes, node_keys, entries, insert_ns, lookup_ns, multi_get_ns, scan_ns }
    }

    /// What is clearly faster is chosen, for what it is faster at; text and back changes nothing.
    #[test]
    fn figures_decide() {
        let figures = vec![
            measured(NodeKeys::K16, 100.0, 300.0),
            measured(NodeKeys::K32, 99.0, 200.0),
            measured(NodeKeys::K64, 100.0, 300.0),
        ];
        let profile = Profile::of(Machine::this(), figures);
        assert_eq!(profile.node_keys(8, Favour::Lookups), NodeKeys::K32);
        assert_eq!(profile.node_keys(8, Favour::Inserts), NodeKeys::K64, "one in a hundred is noise");
        assert_eq!(profile.node_keys(8, Favour::Balanced), NodeKeys::K32);
        assert_eq!(Profile::from_toml(&profile.to_toml()).unwrap(), profile);
    }

    /// Keys that were not measured, and machines, go by the caches.
    #[test]
    fn caches_decide_without_figures() {
        let with_l1d = |l1d_bytes| Machine { l1d_bytes, ..Machine::this() };
        assert_eq!(by_caches(&with_l1d(32 << 10), 8), NodeKeys::K64);
        assert_eq!(by_caches(&with_l1d(48 << 10), 4), NodeKeys::K128);
        assert_eq!(by_caches(&with_l1d(4 << 10), 8), NodeKeys::K16);
    }

    /// A size that no map is compiled for is named, and where.
    #[test]
    fn a_foreign_size_is_refused() {
        let mut profile = Profile::of(Machine::this(), vec![measured(NodeKeys::K16, 1.0, 1.0)]);
        profile.measured.clear();
        let text = profile.to_toml().replace("node_keys = 16", "node_keys = 17");
        let message = Profile::from_toml(&text).unwrap_err().to_string();
        assert!(message.contains("16, 32, 64, 128") && message.contains("foreshore tune"), "{message}");
    }
}
