//! The engines: which there are, which this build has, and what each makes of a durability and of `--cache`.

use clap::ValueEnum;
use comfy_table::{Table, presets};
use foreshore_workloads::Durability;
use foreshore_workloads::kv::BenchError;
use serde::Serialize;

/// The engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// Copy-on-write B+-tree in a memory map (C)
    Lmdb,
    /// Copy-on-write B+-tree (Rust)
    Redb,
    /// Log-structured merge tree (Rust)
    Fjall,
    /// B-tree with page locks and a log (C)
    Berkeleydb,
    /// Kyoto Cabinet's TreeDB: B+-tree over a hash file (C++)
    Kyoto,
    /// Log-structured merge tree (C++)
    Leveldb,
    /// Log-structured merge tree with transactions (C++)
    Rocksdb,
    /// B-tree with versions in memory and a log (C)
    Wiredtiger,
    /// Bw-tree-like log of page deltas (Rust)
    Sled,
    /// SQLite: B-tree in a file with a write-ahead log (C)
    Sqlite,
    /// InnoDB behind SQL and a socket; TPC-C and other transactions
    Mariadb,
    /// PostgreSQL behind SQL and a socket; TPC-C and other transactions
    Postgresql,
    /// `RwLock<BTreeMap>`, volatile
    Btreemap,
}

/// How an engine keeps each durability: `None` where it cannot.
struct Means {
    sync: Option<&'static str>,
    buffered: Option<&'static str>,
    relaxed: Option<&'static str>,
    /// What `--cache` sets.
    cache: &'static str,
    /// How its transactions are isolated; `None` if it has none that several threads can run over ranges.
    transactions: Option<&'static str>,
}

impl Engine {
    /// As on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().expect("no engine is hidden").get_name().to_owned()
    }

    /// Has this build got it?
    pub fn is_built(self) -> bool {
        match self {
            Self::Lmdb | Self::Redb | Self::Fjall | Self::Btreemap => true,
            Self::Berkeleydb => cfg!(feature = "berkeleydb"),
            Self::Kyoto => cfg!(feature = "kyoto"),
            Self::Leveldb => cfg!(feature = "leveldb"),
            Self::Rocksdb => cfg!(feature = "rocksdb"),
            Self::Wiredtiger => cfg!(feature = "wiredtiger"),
            Self::Sled => cfg!(feature = "sled"),
            Self::Sqlite => cfg!(feature = "sqlite"),
            Self::Mariadb => cfg!(feature = "mariadb"),
            Self::Postgresql => cfg!(feature = "postgresql"),
        }
    }

    /// Its functions, if it is written in C and this build has it.
    #[cfg(feature = "c-engines")]
    pub fn api(self) -> Option<crate::c_engine::Api> {
        match self {
            #[cfg(feature = "berkeleydb")]
            Self::Berkeleydb => Some(crate::c_engine::BERKELEYDB),
            #[cfg(feature = "kyoto")]
            Self::Kyoto => Some(crate::c_engine::KYOTO),
            #[cfg(feature = "leveldb")]
            Self::Leveldb => Some(crate::c_engine::LEVELDB),
            #[cfg(feature = "rocksdb")]
            Self::Rocksdb => Some(crate::c_engine::ROCKSDB),
            #[cfg(feature = "wiredtiger")]
            Self::Wiredtiger => Some(crate::c_engine::WIREDTIGER),
            _ => None,
        }
    }

    /// The settings that the heads of the engines' files explain, in short.
    fn means(self) -> Means {
        let means = |sync, buffered, relaxed, cache, transactions| Means {
            sync: Some(sync),
            buffered: Some(buffered),
            relaxed: Some(relaxed),
            cache,
            transactions,
        };
        const SERIALIZABLE: Option<&str> = Some("serializable");
        const SNAPSHOT: Option<&str> = Some("snapshot isolation");
        match self {
            Self::Lmdb => means(
                "MDB_NORDAHEAD",
                "MDB_NORDAHEAD | MDB_NOSYNC | MDB_WRITEMAP",
                "as buffered",
                "nothing: the page cache holds its map",
                SERIALIZABLE,
            ),
            Self::Redb => Means {
                buffered: None,
                ..means("Immediate", "", "Durability::None", "its cache", SERIALIZABLE)
            },
            Self::Fjall => means(
                "SyncData after each commit",
                "Buffer: default",
                "manual_journal_persist",
                "its cache",
                SERIALIZABLE,
            ),
            Self::Berkeleydb => {
                means("default", "DB_TXN_WRITE_NOSYNC", "DB_TXN_NOSYNC", "memory pool", SERIALIZABLE)
            }
            Self::Kyoto => {
                means("OAUTOTRAN | OAUTOSYNC", "OAUTOTRAN", "default: no log", "page cache (pccap)", None)
            }
            Self::Leveldb => means("WriteOptions.sync", "default", "as buffered", "block cache", None),
            Self::Rocksdb => {
                means("WriteOptions.sync", "default", "manual_wal_flush", "block cache", SNAPSHOT)
            }
            Self::Wiredtiger => means(
                "transaction_sync, fsync",
                "transaction_sync, none",
                "transaction_sync off",
                "its cache",
                SNAPSHOT,
            ),
            Self::Sled => Means {
                buffered: None,
                ..means("flush after each write", "", "flush every 500 ms: default", "its cache", None)
            },
            Self::Sqlite => means(
                "WAL, synchronous=FULL",
                "WAL, synchronous=NORMAL",
                "WAL, synchronous=OFF",
                "its page caches together",
                SERIALIZABLE,
            ),
            Self::Mariadb => means(
                "innodb_flush_log_at_trx_commit=1",
                "innodb_flush_log_at_trx_commit=2",
                "innodb_flush_log_at_trx_commit=0",
                "InnoDB's buffer pool",
                SERIALIZABLE,
            ),
            Self::Postgresql => {
                means("default", "fsync=off", "synchronous_commit=off", "shared_buffers", SERIALIZABLE)
            }
            Self::Btreemap => Means {
                sync: None,
                buffered: None,
                ..means("", "", "volatile", "nothing: all is in memory", SERIALIZABLE)
            },
        }
    }

    /// The version that is measured; `None` if there is none, or nobody says it.
    pub fn version(self) -> Option<String> {
        #[cfg(feature = "c-engines")]
        if let Some(api) = self.api() {
            return Some(api.version());
        }
        match self {
            Self::Lmdb => Some(crate::lmdb::version()),
            Self::Redb => Some(env!("VERSION_REDB").to_owned()),
            Self::Fjall => Some(env!("VERSION_FJALL").to_owned()),
            Self::Sled => Some(env!("VERSION_SLED").to_owned()),
            #[cfg(feature = "sqlite")]
            Self::Sqlite => Some(rusqlite::version().to_owned()),
            #[cfg(feature = "mariadb")]
            Self::Mariadb => crate::tx::sql::mariadb::version(),
            #[cfg(feature = "postgresql")]
            Self::Postgresql => crate::tx::sql::postgresql::version(),
            _ => None,
        }
    }

    /// What must be said beside its figures.
    pub fn caveat(self) -> Option<&'static str> {
        matches!(self, Self::Mariadb | Self::Postgresql).then_some(
            "client and server are two processes, with a round trip per operation: compare tps / cpu_s, not tps",
        )
    }

    fn keeps(self, durability: Durability) -> Option<&'static str> {
        let means = self.means();
        match durability {
            Durability::Sync => means.sync,
            Durability::Buffered => means.buffered,
            Durability::Relaxed => means.relaxed,
        }
    }

    /// Can it keep this durability? It is not measured at a weaker one.
    ///
    /// Errors: [`BenchError::Usage`].
    pub fn must_keep(self, durability: Durability) -> Result<(), BenchError> {
        if self.keeps(durability).is_some() {
            return Ok(());
        }
        let asked = format!("{durability:?}").to_lowercase();
        let name = self.name();
        Err(BenchError::Usage(format!(
            "{name} has no --durability {asked}; `peers engines` shows which it has"
        )))
    }

    /// Can it run a workload whose transactions have several operations?
    ///
    /// Errors: [`BenchError::Usage`].
    pub fn must_have_transactions(self) -> Result<(), BenchError> {
        if self.means().transactions.is_some() {
            return Ok(());
        }
        let runs = if self == Self::Sled { "kv" } else { "kv, mix, rows, and ycsb a to e" };
        Err(BenchError::Usage(format!("{} has no transactions for this; it runs {runs}", self.name())))
    }

    /// Why it does not run this benchmark.
    pub fn not_here(self, bench: &str) -> BenchError {
        let name = self.name();
        BenchError::Usage(if self.is_built() {
            format!("{name} does not run `bench {bench}`; peers/README.md shows what each engine runs")
        } else {
            format!(
                "this build has no {name}: run `peers/setup {name}`, then build with `--features {name}`, or `all`"
            )
        })
    }

    /// Prints a report as one JSON object, with what the engine makes of the durability and of `--cache`.
    pub fn print_json(
        self,
        report: &impl Serialize,
        durability: Durability,
        disk_bytes: u64,
    ) -> Result<(), BenchError> {
        let told = Told {
            report,
            disk_bytes,
            version: self.version(),
            durability_by: self.keeps(durability),
            cache_by: self.means().cache,
            caveat: self.caveat(),
        };
        let text = serde_json::to_string(&told).map_err(|error| BenchError::Store(error.into()))?;
        println!("{text}");
        Ok(())
    }
}

/// A report, with what must be known of its engine.
#[derive(Serialize)]
struct Told<'r, R> {
    #[serde(flatten)]
    report: &'r R,
    disk_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    durability_by: Option<&'static str>,
    cache_by: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    caveat: Option<&'static str>,
}

/// Prints the engines as a table, or only the names of those that this build has.
pub fn list(built_only: bool) {
    if built_only {
        Engine::value_variants()
            .iter()
            .filter(|engine| engine.is_built())
            .for_each(|engine| println!("{}", engine.name()));
        return;
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["engine", "built", "sync", "buffered", "relaxed", "--cache", "transactions"]);
    for engine in Engine::value_variants() {
        let means = engine.means();
        table.add_row([
            engine.name().as_str(),
            if engine.is_built() { "yes" } else { "no" },
            means.sync.unwrap_or("refused"),
            means.buffered.unwrap_or("refused"),
            means.relaxed.unwrap_or("refused"),
            means.cache,
            means.transactions.unwrap_or("none"),
        ]);
    }
    println!("{table}");
    println!(
        "An engine that is not built: `peers/setup ENGINE`, then build with `--features ENGINE`, or `all`."
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the table in `README.md` has it.
    #[test]
    fn engines_without_transactions_say_what_they_run() {
        let refused = |engine: Engine| engine.must_have_transactions().unwrap_err().to_string();
        assert!(refused(Engine::Sled).ends_with("sled has no transactions for this; it runs kv"));
        for engine in [Engine::Kyoto, Engine::Leveldb] {
            let told = refused(engine);
            assert!(told.ends_with("it runs kv, mix, rows, and ycsb a to e"), "{told}");
        }
        assert!(Engine::Lmdb.not_here("kv").to_string().contains("peers/README.md"));
    }
}
