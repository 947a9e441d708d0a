//! Options by name, each value written as text.
//!
//! Every language can hand over pairs of strings; and an option that is new in the engine needs one line here, and none
//! in any binding.

use foreshore::{
    Builder, Copied, Database, Durability, Error, Index, Isolation, Result, TableOptions, TransactionOptions,
};
use parse_size::parse_size;
use std::path::Path;
use std::time::Duration;

/// Pairs of name and value. Of two with the same name, the later counts.
pub type Options = [(String, String)];

/// An option: its name, and how its value is set.
type Known<T> = (&'static str, fn(T, Value<'_>) -> Result<T>);

/// A value, and the name of the option that it is for.
#[derive(Clone, Copy)]
struct Value<'a> {
    of: &'a str,
    text: &'a str,
}

const OPEN: [Known<Builder>; 10] = [
    ("create", |builder, value| Ok(builder.create(value.flag()?))),
    ("rebuild", |builder, value| Ok(builder.rebuild(value.flag()?))),
    ("cache_bytes", |builder, value| Ok(builder.cache_bytes(value.bytes()? as usize))),
    ("leaf_bytes", |builder, value| Ok(builder.leaf_bytes(value.bytes()? as usize))),
    ("segment_bytes", |builder, value| Ok(builder.segment_bytes(value.bytes()?))),
    ("ring_bytes", |builder, value| Ok(builder.ring_bytes(value.bytes()? as usize))),
    ("log_bytes", |builder, value| Ok(builder.log_bytes(value.bytes()?))),
    ("old_version_bytes", |builder, value| Ok(builder.old_version_bytes(value.bytes()?))),
    ("durability", |builder, value| Ok(builder.durability(value.durability()?))),
    ("redo_threads", |builder, value| Ok(builder.redo_threads(value.number()? as usize))),
];

const OF_TABLES: [Known<TableOptions>; 2] = [
    ("index", |options, value| Ok(options.index(value.index()?))),
    ("leaf_bytes", |options, value| Ok(options.leaf_bytes(value.bytes()? as usize))),
];

const OF_TRANSACTIONS: [Known<TransactionOptions>; 4] = [
    ("isolation", |options, value| Ok(options.isolation(value.isolation()?))),
    ("durability", |options, value| Ok(options.durability(value.durability()?))),
    ("lock_timeout_ms", |options, value| Ok(options.lock_timeout(Duration::from_millis(value.number()?)))),
    ("idle_timeout_ms", |options, value| Ok(options.idle_timeout(Duration::from_millis(value.number()?)))),
];

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
    set(Database::builder(), options, &OPEN)?.open(path)
}

/// Copies `db` into the directory `path`, where [`open`] must find the copy.
///
/// Errors: as [`Database::backup`]; [`Error::Argument`] for `:memory:`.
pub fn backup(db: &Database, path: &Path) -> Result<Copied> {
    if path == Path::new(IN_MEMORY) {
        let told = format!("{IN_MEMORY:?} opens a new database in memory, never a backup; name a directory");
        return Err(Error::Argument(told));
    }
    db.backup(path)
}

/// What to make a table with.
///
/// Errors: [`Error::Argument`] for an option that is unknown or has a senseless value.
pub fn table_options(options: &Options) -> Result<TableOptions> {
    set(TableOptions::new(), options, &OF_TABLES)
}

/// What to begin a transaction with.
///
/// Errors: [`Error::Argument`] for an option that is unknown or has a senseless value.
pub fn transaction_options(options: &Options) -> Result<TransactionOptions> {
    set(TransactionOptions::new(), options, &OF_TRANSACTIONS)
}

fn set<T>(begun: T, options: &Options, known: &[Known<T>]) -> Result<T> {
    options.iter().try_fold(begun, |begun, (name, text)| {
        let Some((_, set)) = known.iter().find(|(known, _)| known == name) else {
            let known: Vec<_> = known.iter().map(|(name, _)| *name).collect();
            let told = format!("there is no option {name:?} here; there are {}", known.join(", "));
            return Err(Error::Argument(told));
        };
        set(begun, Value { of: name, text })
    })
}

impl Value<'_> {
    fn flag(self) -> Result<bool> {
        match self.text {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            _ => Err(self.is_not("true or false")),
        }
    }

    fn number(self) -> Result<u64> {
        self.text.parse().map_err(|_| self.is_not("a whole number"))
    }

    /// A number of bytes: `67108864` or `64MiB`.
    fn bytes(self) -> Result<u64> {
        parse_size(self.text).map_err(|_| self.is_not("a number of bytes, such as 67108864 or 64MiB"))
    }

    fn durability(self) -> Result<Durability> {
        match self.text {
            "sync" => Ok(Durability::Sync),
            "buffered" => Ok(Durability::Buffered),
            "relaxed" => Ok(Durability::Relaxed),
            _ => Err(self.is_not("sync, buffered or relaxed")),
        }
    }

    fn index(self) -> Result<Index> {
        let found = Index::ALL.into_iter().find(|index| index.to_string() == self.text);
        found.ok_or_else(|| self.is_not("bplus, csb or o2"))
    }

    fn isolation(self) -> Result<Isolation> {
        match self.text {
            "serializable" => Ok(Isolation::Serializable),
            "repeatable_read" => Ok(Isolation::RepeatableRead),
            "read_committed" => Ok(Isolation::ReadCommitted),
            _ => Err(self.is_not("serializable, repeatable_read or read_committed")),
        }
    }

    fn is_not(self, wanted: &str) -> Error {
        Error::Argument(format!("the option {} cannot be {:?}; it is {wanted}", self.of, self.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    fn value(text: &str) -> Value<'_> {
        Value { of: "x", text }
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
            assert_eq!(value(&kind.to_string()).index().unwrap(), kind);
        }
    }

    #[test]
    fn bytes_may_have_a_unit() {
        assert_eq!(value("4096").bytes().unwrap(), 4096);
        assert_eq!(value("64MiB").bytes().unwrap(), 64 << 20);
        for wrong in ["", "MiB", "64X", "-1", "99999999999GiB"] {
            assert!(value(wrong).bytes().is_err(), "{wrong}");
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

    /// Nobody could open it by that name.
    #[test]
    fn no_backup_goes_where_a_database_in_memory_is_opened() {
        let db = open(Path::new(IN_MEMORY), &[]).unwrap();
        let refused = backup(&db, Path::new(IN_MEMORY));
        let _ = std::fs::remove_dir_all(IN_MEMORY); // if it was made
        let told = "\":memory:\" opens a new database in memory, never a backup; name a directory";
        assert!(matches!(refused, Err(Error::Argument(text)) if text == told));
        let dir = tempfile::tempdir().unwrap();
        backup(&db, &dir.path().join(IN_MEMORY)).unwrap();
    }
}
