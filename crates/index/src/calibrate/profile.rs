//! What was measured on a machine, and the node and leaf sizes that follow from it.
//!
//! Parts that a file lacks, because it is older or someone took them out, are as if not measured.
//!
//! Without measurements the choice comes from the caches. For leaves see [`Leaves`]; a node is a thirty-second of the
//! first data cache, so that the nodes of a descent and their neighbours do not evict each other. That is a rule of
//! thumb, which gives 64 keys of 8 bytes on most machines.

use super::choose::{clearly_best, geometric_mean, wanted};
use super::experiment::Measured;
use super::{Favour, Leaves, Machine, NodeKeys, Searches, leaves};
use serde::{Deserialize, Deserializer, Serialize, de};
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
#[serde(deny_unknown_fields)] // a choice under a misspelt name would choose nothing
pub struct Profile {
    /// Where it was measured.
    pub machine: Machine,
    /// What follows from the figures, or was written here by hand; in the file, tables named `[[choice]]`.
    #[serde(default, rename = "choice", deserialize_with = "single_choices")]
    pub choices: Vec<Choice>,
    /// The figures of maps.
    #[serde(default)]
    pub measured: Vec<Measured>,
    /// Leaf sizes of the engine, and their figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaf: Option<Leaves>,
    /// Search methods, prefetch and huge pages, and their figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Searches>,
}

/// The node size for one kind of key and use. See [`Profile::node_keys`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// Bytes of a key as a node holds it: 4, or a multiple of 8.
    #[serde(deserialize_with = "held_key_bytes")]
    pub key_bytes: usize,
    /// What the map is wanted for.
    pub favour: Favour,
    /// Keys in a node.
    pub node_keys: NodeKeys,
}

/// A profile that cannot be used. See [`Profile::load`].
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
        Self { machine: Machine::this(), choices: Vec::new(), measured: Vec::new(), leaf: None, search: None }
    }
}

impl Profile {
    /// What these figures of maps on a machine say.
    ///
    /// ```
    /// use foreshore_index::calibrate::{Machine, experiment};
    /// use foreshore_index::{Favour, NodeKeys, Profile};
    ///
    /// // One turn over a few keys, only to show the way; `Plan::quick` measures.
    /// let plan = experiment::Plan { entries: vec![1000], turns: 1, operations: 100 };
    /// let (maps, _searches) = experiment::run(&plan, &mut |_done, _next| {});
    /// let profile = Profile::of(Machine::this(), maps);
    /// assert!(NodeKeys::ALL.contains(&profile.node_keys(8, Favour::Balanced)));
    /// ```
    pub fn of(machine: Machine, measured: Vec<Measured>) -> Self {
        let choices = wanted(measured.iter().map(|m| m.key_bytes))
            .map(|(key_bytes, favour)| Choice {
                key_bytes,
                favour,
                node_keys: best(&measured, key_bytes, favour),
            })
            .collect();
        Self { machine, choices, measured, leaf: None, search: None }
    }

    /// Reads a profile from its file.
    ///
    /// Errors: the file cannot be read, or is no profile.
    ///
    /// ```
    /// use foreshore_index::Profile;
    ///
    /// let missing = Profile::load("/nowhere/foreshore-tune.toml").unwrap_err();
    /// assert!(missing.to_string().contains("`foreshore tune` writes one"));
    /// ```
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ProfileError> {
        let path = path.as_ref();
        let read = std::fs::read_to_string(path);
        let text = read.map_err(|source| ProfileError::Read { path: path.into(), source })?;
        Self::from_toml(&text)
    }

    /// Reads a profile from its text.
    ///
    /// Errors: the text is no profile.
    ///
    /// See [`to_toml`](Self::to_toml).
    pub fn from_toml(text: &str) -> Result<Self, ProfileError> {
        Ok(toml::from_str(text)?)
    }

    /// The text of the profile.
    ///
    /// ```
    /// use foreshore_index::Profile;
    ///
    /// let profile = Profile::default();
    /// assert_eq!(Profile::from_toml(&profile.to_toml()).unwrap(), profile);
    /// ```
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a profile is numbers, names and tables")
    }

    /// Bytes of a leaf of the engine's tables.
    ///
    /// ```
    /// use foreshore_index::{Favour, Profile};
    ///
    /// assert!(Profile::default().leaf_bytes(Favour::Balanced).is_power_of_two());
    /// ```
    pub fn leaf_bytes(&self, favour: Favour) -> usize {
        let measured = self.leaf.as_ref().map(|leaves| leaves.bytes(favour));
        measured.unwrap_or_else(|| leaves::by_caches(&self.machine))
    }

    /// The node size for keys of which a node holds so many bytes: 4, or a multiple of 8. An `i16` takes as many as a `u32`, a
    /// byte array whole words.
    ///
    /// ```
    /// use foreshore_index::{Favour, NodeKeys, Profile};
    /// use foreshore_index::calibrate::Choice;
    ///
    /// let by_hand = Choice { key_bytes: 8, favour: Favour::Inserts, node_keys: NodeKeys::K32 };
    /// let profile = Profile { choices: vec![by_hand], ..Profile::default() };
    /// assert_eq!(profile.node_keys(8, Favour::Inserts), NodeKeys::K32);
    /// ```
    pub fn node_keys(&self, key_bytes: usize, favour: Favour) -> NodeKeys {
        let choice = self.choices.iter().find(|c| c.key_bytes == key_bytes && c.favour == favour);
        choice.map_or_else(|| by_caches(&self.machine, key_bytes), |choice| choice.node_keys)
    }
}

/// A choice for other keys would choose nothing.
fn held_key_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let key_bytes = usize::deserialize(deserializer)?;
    if key_bytes == 4 || (key_bytes > 0 && key_bytes.is_multiple_of(8)) {
        return Ok(key_bytes);
    }
    let message = format!("no node holds {key_bytes} bytes of a key: name 4, or a multiple of 8");
    Err(de::Error::custom(message))
}

/// Of two choices for the same keys and use, one would choose nothing.
fn single_choices<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Choice>, D::Error> {
    let choices = Vec::<Choice>::deserialize(deserializer)?;
    for (at, choice) in choices.iter().enumerate() {
        let Choice { key_bytes, favour, .. } = *choice;
        if choices[..at].iter().any(|other| (other.key_bytes, other.favour) == (key_bytes, favour)) {
            let message =
                format!("there are two choices for keys of {key_bytes} bytes and {favour:?}: leave one");
            return Err(de::Error::custom(message));
        }
    }
    Ok(choices)
}

/// See the module.
fn by_caches(machine: &Machine, key_bytes: usize) -> NodeKeys {
    NodeKeys::at_most(machine.l1d_bytes / 32 / key_bytes.saturating_add(size_of::<u64>()))
}

/// The size with the least cost, the default one if nothing is clearly better.
fn best(measured: &[Measured], key_bytes: usize, favour: Favour) -> NodeKeys {
    let of_size = |size| measured.iter().filter(move |m| m.key_bytes == key_bytes && m.node_keys == size);
    clearly_best(NodeKeys::ALL, NodeKeys::default(), WORTH_WHILE, |size| {
        geometric_mean(of_size(size).map(|m| cost(m, favour)))
    })
}

/// Nanoseconds, so to speak, of what is favoured.
fn cost(m: &Measured, favour: Favour) -> f64 {
    let lookups = [m.lookup_ns, m.multi_get_ns];
    match favour {
        Favour::Lookups => geometric_mean(lookups),
        Favour::Inserts => m.insert_ns,
        Favour::Balanced => geometric_mean([geometric_mean(lookups), m.insert_ns, m.scan_ns]),
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::calibrate::{LeafMeasured, Search, SearchMeasured, Way};

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

    /// Who writes a choice by hand is told that it has another name.
    #[test]
    fn what_no_profile_has_is_refused() {
        let written = Profile::default().to_toml().replace("choice = []\n", "");
        let with = |more: &str| Profile::from_toml(&format!("{written}\n{more}"));
        let choice = "key_bytes = 8\nfavour = \"lookups\"\nnode_keys = 16\n";
        let chosen = with(&format!("[[choice]]\n{choice}")).unwrap().node_keys(8, Favour::Lookups);
        assert_eq!(chosen, NodeKeys::K16);
        let leaf = "[leaf]\nlookups = 8192\ninserts = 8192\nbalanced = 8192\n";
        with(leaf).unwrap();
        for misspelt in [
            format!("[[choices]]\n{choice}"),
            format!("[[choice]]\n{choice}node_bytes = 256\n"),
            format!("{leaf}lookup = 4096\n"),
        ] {
            let refused = with(&misspelt).unwrap_err().to_string();
            assert!(refused.contains("unknown field"), "{refused}");
        }
        let machine = written.replace("page_bytes", "page_byte");
        assert!(Profile::from_toml(&machine).unwrap_err().to_string().contains("unknown field"));
        let twice = with(&format!("[[choice]]\n{choice}[[choice]]\n{choice}")).unwrap_err().to_string();
        assert!(twice.contains("two choices for keys of 8 bytes and Lookups: leave one"), "{twice}");
    }

    /// A choice for keys of which no node holds so many bytes would choose nothing.
    #[test]
    fn key_bytes_that_no_node_holds_are_refused() {
        let with = |key_bytes| {
            let choice = Choice { key_bytes, favour: Favour::Lookups, node_keys: NodeKeys::K16 };
            Profile::from_toml(&Profile { choices: vec![choice], ..Profile::default() }.to_toml())
        };
        for key_bytes in [4, 8, 16, 24] {
            assert_eq!(with(key_bytes).unwrap().node_keys(key_bytes, Favour::Lookups), NodeKeys::K16);
        }
        for key_bytes in [0, 2, 12, 20] {
            let refused = with(key_bytes).unwrap_err().to_string();
            assert!(
                refused.contains("4, or a multiple of 8") && refused.contains("mend the line"),
                "{refused}"
            );
        }
    }

    /// Keys that were not measured, and machines, go by the caches.
    #[test]
    fn caches_decide_without_figures() {
        let with_l1d = |l1d_bytes| Machine { l1d_bytes, ..Machine::this() };
        assert_eq!(by_caches(&with_l1d(32 << 10), 8), NodeKeys::K64);
        assert_eq!(by_caches(&with_l1d(48 << 10), 4), NodeKeys::K128);
        assert_eq!(by_caches(&with_l1d(4 << 10), 8), NodeKeys::K16);
        assert_eq!(by_caches(&with_l1d(32 << 10), usize::MAX - 7), NodeKeys::K16, "however long");
    }

    /// Every part comes back as it was.
    #[test]
    fn text_and_back_changes_nothing() {
        let leaf = LeafMeasured {
            leaf_bytes: 4096,
            rows: 10,
            row_bytes: 32,
            put_ns: 1.5,
            get_ns: 2.5,
            scan_ns: 3.0,
        };
        let way = Way { search: Search::Simd, ..Way::of_maps(NodeKeys::K32) };
        let searched = SearchMeasured { key_bytes: 8, entries: 10, way, lookup_ns: 1.0, insert_ns: 2.0 };
        let mut profile = Profile::of(Machine::this(), vec![measured(NodeKeys::K16, 1.0, 1.0)]);
        profile.leaf = Some(Leaves::of(vec![leaf]));
        profile.search = Some(Searches::of(vec![searched]));
        assert_eq!(Profile::from_toml(&profile.to_toml()).unwrap(), profile);
    }

    /// A file of before leaves and searches were measured, as the first version wrote it.
    #[test]
    fn an_old_profile_loads() {
        let text = "[machine]\nprocessor = \"A\"\ncores = 2\nline_bytes = 64\nl1d_bytes = 32768\nl2_bytes = 1048576\n\
                    l3_bytes = 0\n\n[[choice]]\nkey_bytes = 8\nfavour = \"lookups\"\nnode_keys = 32\n\n[[measured]]\n\
                    key_bytes = 8\nnode_keys = 32\nentries = 1000\ninsert_ns = 90.0\nlookup_ns = 50.5\n\
                    multi_get_ns = 20.0\nscan_ns = 100.0\n";
        let profile = Profile::from_toml(text).unwrap();
        assert_eq!(profile.node_keys(8, Favour::Lookups), NodeKeys::K32);
        assert_eq!(profile.machine.page_bytes, 4096);
        assert_eq!((&profile.leaf, &profile.search), (&None, &None));
        assert_eq!(profile.leaf_bytes(Favour::Inserts), 8192, "by the caches of the machine it names");
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
