//! PostgreSQL.
//!
//! - `sync`: its default. `buffered`: `fsync=off`, so that each commit writes the log to the operating system.
//!   `relaxed`: `synchronous_commit=off`, the log waits in the server's buffers.
//! - Transactions are SERIALIZABLE; read-only ones REPEATABLE READ, its cheapest way to see one state. A statement alone runs at its
//!   default level, READ COMMITTED: one row is read or written whole at any level.
//! - `--cache` is `shared_buffers`. The log may grow to 4 GiB between checkpoints.

use super::server::{Home, Server, program};
use super::{Connection, Dialect, Page, Row, SqlTables};
use foreshore_workloads::tx_spec::RunSpec;
use foreshore_workloads::{Durability, StoreError, TxError, TxKind, TxStore};
use postgres::error::SqlState;
use postgres::{Client, Config, NoTls, Statement};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Where Debian keeps the server's programs.
const PROGRAMS: &[&str] = &["/usr/lib/postgresql/*/bin"];

/// The version of the server that is installed.
pub fn version() -> Option<String> {
    super::server::version("postgresql", "postgres", PROGRAMS)
}

/// Starts a server in `dir`.
///
/// Errors: what its programs say, or that they are missing.
pub fn create(dir: &Path, run: &RunSpec) -> Result<impl TxStore, StoreError> {
    let home = Home::new(dir, libc::SIGQUIT)?; // its immediate shutdown, which ends its children too
    let mut initdb = home.command(&program("postgresql", "initdb", PROGRAMS)?)?;
    initdb.arg("--pgdata").arg(home.data());
    initdb.args(["--username=peers", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]);
    home.run(initdb)?;

    let mut postgres = home.command(&program("postgresql", "postgres", PROGRAMS)?)?;
    postgres.arg("-D").arg(home.data()).arg("-k").arg(home.sockets());
    let durability = match run.durability {
        Durability::Sync => "fsync=on",
        Durability::Buffered => "fsync=off",
        Durability::Relaxed => "synchronous_commit=off",
    };
    for setting in [
        durability,
        "listen_addresses=",
        "max_wal_size=4GB",
        "max_pred_locks_per_transaction=1024",
        &format!("max_connections={}", 4 * run.threads + 16),
        &format!("shared_buffers={}MB", (run.cache_bytes >> 20).max(16)),
    ] {
        postgres.args(["-c", setting]);
    }
    let dialect = Postgresql { sockets: home.sockets().to_owned() };
    let (server, _) = Server::start(home, postgres, || dialect.client())?;
    Ok(SqlTables::new(dialect, server))
}

struct Postgresql {
    sockets: PathBuf,
}

impl Postgresql {
    fn client(&self) -> Result<Client, StoreError> {
        Ok(Config::new().host_path(&self.sockets).user("peers").dbname("postgres").connect(NoTls)?)
    }
}

impl Dialect for Postgresql {
    type Connection = PostgresqlConnection;

    fn create_table(&self, table: usize) -> String {
        format!("CREATE TABLE t{table} (k bytea PRIMARY KEY, v bytea NOT NULL)")
    }

    fn checkpoint(&self, _tables: usize) -> String {
        "VACUUM ANALYZE; CHECKPOINT".to_owned()
    }

    fn connect(&self) -> Result<PostgresqlConnection, StoreError> {
        let mut client = self.client()?;
        let [begin, begin_read_only, commit, roll_back] = [
            client.prepare("BEGIN ISOLATION LEVEL SERIALIZABLE")?,
            client.prepare("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?,
            client.prepare("COMMIT")?,
            client.prepare("ROLLBACK")?,
        ];
        Ok(PostgresqlConnection {
            client,
            begin,
            begin_read_only,
            commit,
            roll_back,
            statements: HashMap::new(),
        })
    }

    /// Each statement is a transaction of its own, as VACUUM asks for.
    fn execute(&self, statements: &str) -> Result<(), StoreError> {
        let mut client = self.client()?;
        for statement in statements.split("; ") {
            client.batch_execute(statement)?;
        }
        Ok(())
    }
}

struct PostgresqlConnection {
    client: Client,
    begin: Statement,
    begin_read_only: Statement,
    commit: Statement,
    roll_back: Statement,
    /// By what they do, and on which table.
    statements: HashMap<(Operation, usize), Statement>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Operation {
    Get,
    GetForUpdate,
    Put,
    Insert,
    Remove,
    Page,
    PageReverse,
}

impl Operation {
    fn sql(self, table: usize) -> String {
        match self {
            Self::Get => format!("SELECT v FROM t{table} WHERE k = $1"),
            Self::GetForUpdate => format!("SELECT v FROM t{table} WHERE k = $1 FOR UPDATE"),
            Self::Put => {
                format!("INSERT INTO t{table} VALUES ($1, $2) ON CONFLICT (k) DO UPDATE SET v = excluded.v")
            }
            Self::Insert => format!("INSERT INTO t{table} VALUES ($1, $2) ON CONFLICT DO NOTHING"),
            Self::Remove => format!("DELETE FROM t{table} WHERE k = $1"),
            Self::Page => {
                format!("SELECT k, v FROM t{table} WHERE k >= $1 AND k < $2 ORDER BY k LIMIT $3")
            }
            Self::PageReverse => {
                format!("SELECT k, v FROM t{table} WHERE k >= $1 AND k < $2 ORDER BY k DESC LIMIT $3")
            }
        }
    }
}

fn failed(error: postgres::Error) -> TxError {
    match error.code() {
        Some(&SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED) => TxError::Conflict,
        _ => TxError::Store(error.into()),
    }
}

impl PostgresqlConnection {
    fn statement(&mut self, operation: Operation, table: usize) -> Result<Statement, TxError> {
        if let Some(statement) = self.statements.get(&(operation, table)) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(&operation.sql(table)).map_err(failed)?;
        self.statements.insert((operation, table), statement.clone());
        Ok(statement)
    }

    fn execute(&mut self, operation: Operation, table: usize, row: &[&[u8]]) -> Result<u64, TxError> {
        let statement = self.statement(operation, table)?;
        let fields: Vec<_> = row.iter().map(|bytes| bytes as &(dyn postgres::types::ToSql + Sync)).collect();
        self.client.execute(&statement, &fields).map_err(failed)
    }
}

impl Connection for PostgresqlConnection {
    fn begin(&mut self, kind: TxKind) -> Result<(), TxError> {
        let statement = match kind {
            TxKind::ReadWrite => &self.begin,
            TxKind::ReadOnly => &self.begin_read_only,
        };
        self.client.execute(statement, &[]).map(drop).map_err(failed)
    }

    fn commit(&mut self) -> Result<(), TxError> {
        self.client.execute(&self.commit, &[]).map(drop).map_err(failed)
    }

    fn roll_back(&mut self) -> Result<(), TxError> {
        self.client.execute(&self.roll_back, &[]).map(drop).map_err(failed)
    }

    fn get(&mut self, table: usize, key: &[u8], is_for_update: bool) -> Result<Option<Vec<u8>>, TxError> {
        let operation = if is_for_update { Operation::GetForUpdate } else { Operation::Get };
        let statement = self.statement(operation, table)?;
        let row = self.client.query_opt(&statement, &[&key]).map_err(failed)?;
        Ok(row.map(|row| row.get(0)))
    }

    fn put(&mut self, table: usize, key: &[u8], value: &[u8]) -> Result<(), TxError> {
        self.execute(Operation::Put, table, &[key, value]).map(drop)
    }

    fn insert(&mut self, table: usize, key: &[u8], value: &[u8]) -> Result<bool, TxError> {
        self.execute(Operation::Insert, table, &[key, value]).map(|rows| rows == 1)
    }

    fn remove(&mut self, table: usize, key: &[u8]) -> Result<bool, TxError> {
        self.execute(Operation::Remove, table, &[key]).map(|rows| rows == 1)
    }

    fn page(&mut self, table: usize, page: &Page<'_>) -> Result<Vec<Row>, TxError> {
        let operation = if page.is_reverse { Operation::PageReverse } else { Operation::Page };
        let statement = self.statement(operation, table)?;
        let rows =
            self.client.query(&statement, &[&page.from, &page.to, &i64::from(page.rows)]).map_err(failed)?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }
}
