//! Options by name, each value written as text.
//!
//! Every language can hand over pairs of strings; and an option that is new in the engine needs one line here, and none
//! in any binding.

use foreshore::{
    Builder, Database, Durability, Error, Index, Isolation, Result, TableOptions, TransactionOptions,
};
use parse_size::parse_size;
use std::path::Path;
use std::time::Duration;

/// Pairs of name and value. Of two with the same name, the later counts.
pub type Options = [(String, String)];

/// The names that [`open`] knows.
pub const OPEN_OPTIONS: [&str; 10] = [
    "create",
    "rebuild",
    "cache_bytes",
    "leaf_bytes",
    "segment_bytes",
    "ring_bytes",
    "log_bytes",
    "old_version_bytes",
    "durability",
    "redo_threads",
];

/// The names that [`table_options`] knows.
pub const TABLE_OPTIONS: [&str; 2] = ["index", "leaf_bytes"];

/// The names that [`transaction_options`] knows.
pub const TRANSACTION_OPTIONS: [&str; 4] = ["isolation", "durability", "lock_timeout_ms", "idle_timeout_ms"];

/// The path that stands for a database in memory.
const IN_MEMORY: &str = ":memory:";

/// Opens the database in `path`; `:memory:` is a new one in memory, which has no options.
///
/// Errors: as [`Builder::open`]; [`Error::Argument`] for an option that is unknown or has a senseless value.
pub fn open(path: &Path, options: &Options) -> Result<Database> {
    if path == Path::new(IN_MEMORY) {
        return match options {
            [] => Database::in_memory(),
            _ => Err(Error::Argument("a database in memory has no options; leave them out".into())),
        };
    }
    let builder = options
        .iter()
        .try_fold(Database::builder(), |builder, (name, value)| open_option(builder, name, value))?;
    builder.open(path)
}

fn open_option(builder: Builder, name: &str, value: &str) -> Result<Builder> {
    Ok(match name {
        "create" => builder.create(flag(name, value)?),
        "rebuild" => builder.rebuild(flag(name, value)?),
        "cache_bytes" => builder.cache_bytes(bytes(name, value)? as usize),
        "leaf_bytes" => builder.leaf_bytes(bytes(name, value)? as usize),
        "segment_bytes" => builder.segment_bytes(bytes(name, value)?),
        "ring_bytes" => builder.ring_bytes(bytes(name, value)? as usize),
        "log_bytes" => builder.log_bytes(bytes(name, value)?),
        "old_version_bytes" => builder.old_version_bytes(bytes(name, value)?),
        "durability" => builder.durability(durability(name, value)?),
        "redo_threads" => builder.redo_threads(number(name, value)? as usize),
        _ => return Err(unknown(name, &OPEN_OPTIONS)),
    })
}

/// What to make a table with.
///
/// Errors: [`Error::Argument`] for an option that is unknown or has a senseless value.
pub fn table_options(options: &Options) -> Result<TableOptions> {
    options.iter().try_fold(TableOptions::new(), |options, (name, value)| {
        Ok(match name.as_str() {
            "index" => options.index(index(name, value)?),
            "leaf_bytes" => options.leaf_bytes(bytes(name, value)? as usize),
            _ => return Err(unknown(name, &TABLE_OPTIONS)),
        })
    })
}

/// What to begin a transaction with.
///
/// Errors: [`Error::Argument`] for an option that is unknown or has a senseless value.
pub fn transaction_options(options: &Options) -> Result<TransactionOptions> {
    options.iter().try_fold(TransactionOptions::new(), |options, (name, value)| {
        Ok(match name.as_str() {
            "isolation" => options.isolation(isolation(name, value)?),
            "durability" => options.durability(durability(name, value)?),
            "lock_timeout_ms" => options.lock_timeout(Duration::from_millis(number(name, value)?)),
            "idle_timeout_ms" => options.idle_timeout(Duration::from_millis(number(name, value)?)),
            _ => return Err(unknown(name, &TRANSACTION_OPTIONS)),
        })
    })
}

fn flag(name: &str, value: &str) -> Result<bool> {
    match value {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(senseless(name, value, "true or false")),
    }
}

fn number(name: &str, value: &str) -> Result<u64> {
    value.parse().map_err(|_| senseless(name, value, "a whole number"))
}

/// A number of bytes: `67108864` or `64MiB`.
fn bytes(name: &str, value: &str) -> Result<u64> {
    parse_size(value).map_err(|_| senseless(name, value, "a number of bytes, such as 67108864 or 64MiB"))
}

fn durability(name: &str, value: &str) -> Result<Durability> {
    match value {
        "sync" => Ok(Durability::Sync),
        "buffered" => Ok(Durability::Buffered),
        "relaxed" => Ok(Durability::Relaxed),
        _ => Err(senseless(name, value, "sync, buffered or relaxed")),
    }
}

fn index(name: &str, value: &str) -> Result<Index> {
    let found = Index::ALL.into_iter().find(|index| index.to_string() == value);
    found.ok_or_else(|| senseless(name, value, "bplus, csb or o2"))
}

fn isolation(name: &str, value: &str) -> Result<Isolation> {
    match value {
        "serializable" => Ok(Isolation::Serializable),
        "repeatable_read" => Ok(Isolation::RepeatableRead),
        "read_committed" => Ok(Isolation::ReadCommitted),
        _ => Err(senseless(name, value, "serializable, repeatable_read or read_committed")),
    }
}

fn senseless(name: &str, value: &str, wanted: &str) -> Error {
    Error::Argument(format!("the option {name} cannot be {value:?}; it is {wanted}"))
}

fn unknown(name: &str, known: &[&str]) -> Error {
    Error::Argument(format!("there is no option {name:?} here; there are {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    /// A list of names is only of use in a message if each of them is understood.
    #[test]
    fn every_listed_option_is_known() {
        let open = OPEN_OPTIONS.map(|name| (name, open_option(Database::builder(), name, "?").err()));
        let table = TABLE_OPTIONS.map(|name| (name, table_options(&pairs(&[(name, "?")])).err()));
        let of_transaction = |name| (name, transaction_options(&pairs(&[(name, "?")])).err());
        for (name, error) in open.into_iter().chain(table).chain(TRANSACTION_OPTIONS.map(of_transaction)) {
            let told = error.expect("no option can be that").to_string();
            assert!(told.contains(&format!("the option {name} cannot be \"?\"")), "{told}");
        }
    }

    #[test]
    fn unknown_names_are_told_the_known_ones() {
        let dir = tempfile::tempdir().unwrap();
        let error = open(dir.path(), &pairs(&[("cach_bytes", "1")])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no option \"cach_bytes\" here; there are create, rebuild, cache_bytes, leaf_bytes, \
             segment_bytes, ring_bytes, log_bytes, old_version_bytes, durability, redo_threads"
        );
    }

    #[test]
    fn every_index_has_its_name() {
        for kind in Index::ALL {
            assert_eq!(index("index", &kind.to_string()).unwrap(), kind);
        }
    }

    #[test]
    fn bytes_may_have_a_unit() {
        assert_eq!(bytes("x", "4096").unwrap(), 4096);
        assert_eq!(bytes("x", "64MiB").unwrap(), 64 << 20);
        for wrong in ["", "MiB", "64X", "-1", "99999999999GiB"] {
            assert!(bytes("x", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn options_reach_the_database() {
        let dir = tempfile::tempdir().unwrap();
        let absent = dir.path().join("absent");
        assert!(open(&absent, &pairs(&[("create", "false")])).is_err());
        let db = open(&absent, &pairs(&[("cache_bytes", "2MiB"), ("ring_bytes", "128KiB")])).unwrap();
        assert_eq!(db.stats().pool_frames, (2 << 20) / 8192);
        assert!(open(Path::new(IN_MEMORY), &pairs(&[("cache_bytes", "2MiB")])).is_err());
    }
}
