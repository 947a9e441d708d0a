//! MariaDB with InnoDB.
//!
//! - `innodb_flush_log_at_trx_commit`: `sync` is 1, its default; `buffered` 2, each commit writes the log to the operating
//!   system; `relaxed` 0, the log is written once a second.
//! - Transactions are SERIALIZABLE; read-only ones read a REPEATABLE READ snapshot, its cheapest way to see one state, on a
//!   connection of their own, since a level belongs to a connection.
//! - `--cache` is InnoDB's buffer pool. There is no binary log.

use super::server::{Home, Server, program};
use super::{Connection, Dialect, Page, Row, SqlTables};
use foreshore_workloads::tx_spec::RunSpec;
use foreshore_workloads::{Durability, StoreError, TxError, TxKind, TxStore};
use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder, Statement};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Where Debian keeps the server's programs.
const PROGRAMS: &[&str] = &["/usr/sbin", "/usr/bin"];

/// The version of the server that is installed.
pub fn version() -> Option<String> {
    super::server::version("mariadb", "mariadbd", PROGRAMS)
}

/// Starts a server in `dir`.
///
/// Errors: what its programs say, or that they are missing.
pub fn create(dir: &Path, run: &RunSpec) -> Result<impl TxStore, StoreError> {
    start(dir, run)
}

fn start(dir: &Path, run: &RunSpec) -> Result<SqlTables<Mariadb>, StoreError> {
    let home = Home::new(dir, libc::SIGKILL)?; // it is one process
    let data = format!("--datadir={}", home.data().display());
    let mut install = home.command(&program("mariadb", "mariadb-install-db", PROGRAMS)?)?;
    install.args(["--no-defaults", &data, "--auth-root-authentication-method=normal", "--skip-test-db"]);
    home.run(install)?;

    let socket = home.sockets().join("mariadb.sock");
    let mut mariadbd = home.command(&program("mariadb", "mariadbd", PROGRAMS)?)?;
    let at_commit = match run.durability {
        Durability::Sync => 1,
        Durability::Buffered => 2,
        Durability::Relaxed => 0,
    };
    mariadbd.args(["--no-defaults", &data, "--skip-networking", "--skip-log-bin"]).args([
        format!("--socket={}", socket.display()),
        format!("--pid-file={}", home.sockets().join("pid").display()),
        format!("--innodb-flush-log-at-trx-commit={at_commit}"),
        format!("--innodb-buffer-pool-size={}", run.cache_bytes.max(16 << 20)),
        "--innodb-log-file-size=1G".to_owned(),
        "--transaction-isolation=SERIALIZABLE".to_owned(),
        // Each client has two connections, and those of the warm-up may be there when the timed phase opens its own.
        format!("--max-connections={}", 4 * run.threads + 16),
    ]);
    let dialect = Mariadb { socket };
    let (server, mut root) = Server::start(home, mariadbd, || Ok(dialect.conn(None)?))?;
    root.query_drop("CREATE DATABASE peers")?;
    Ok(SqlTables::new(dialect, server))
}

struct Mariadb {
    socket: PathBuf,
}

impl Mariadb {
    fn conn(&self, database: Option<&str>) -> Result<Conn, mysql::Error> {
        let socket = self.socket.to_string_lossy().into_owned();
        Conn::new(
            OptsBuilder::new().socket(Some(socket)).user(Some("root")).db_name(database).stmt_cache_size(0),
        )
    }
}

impl Dialect for Mariadb {
    type Connection = MariadbConnection;

    /// Keys of the workloads are short; values of up to 16 MiB.
    fn create_table(&self, table: usize) -> String {
        format!("CREATE TABLE t{table} (k VARBINARY(255) PRIMARY KEY, v MEDIUMBLOB NOT NULL) ENGINE = InnoDB")
    }

    /// `FLUSH TABLES` alone writes no page of InnoDB's. The lock that comes with it goes with the connection.
    fn checkpoint(&self, tables: usize) -> String {
        let names: Vec<_> = (0..tables).map(|table| format!("t{table}")).collect();
        let of_tables = if tables == 0 { String::new() } else { format!("{} FOR EXPORT", names.join(", ")) };
        format!("FLUSH TABLES {of_tables}")
    }

    fn connect(&self) -> Result<MariadbConnection, StoreError> {
        let writer = self.conn(Some("peers"))?;
        let mut reader = self.conn(Some("peers"))?;
        reader.query_drop("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")?;
        let connection = |conn| Prepared { conn, statements: HashMap::new() };
        Ok(MariadbConnection {
            writer: connection(writer),
            reader: connection(reader),
            kind: TxKind::ReadOnly,
        })
    }

    fn execute(&self, statement: &str) -> Result<(), StoreError> {
        Ok(self.conn(Some("peers"))?.query_drop(statement)?)
    }
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
            Self::Get => format!("SELECT v FROM t{table} WHERE k = ?"),
            Self::GetForUpdate => format!("SELECT v FROM t{table} WHERE k = ? FOR UPDATE"),
            Self::Put => {
                format!("INSERT INTO t{table} VALUES (?, ?) ON DUPLICATE KEY UPDATE v = VALUES(v)")
            }
            Self::Insert => format!("INSERT IGNORE INTO t{table} VALUES (?, ?)"),
            Self::Remove => format!("DELETE FROM t{table} WHERE k = ?"),
            Self::Page => {
                format!("SELECT k, v FROM t{table} WHERE k >= ? AND k < ? ORDER BY k LIMIT ?")
            }
            Self::PageReverse => {
                format!("SELECT k, v FROM t{table} WHERE k >= ? AND k < ? ORDER BY k DESC LIMIT ?")
            }
        }
    }
}

fn failed(error: mysql::Error) -> TxError {
    const LOCK_WAIT_TIMEOUT: u16 = 1205;
    const LOCK_DEADLOCK: u16 = 1213;
    match &error {
        mysql::Error::MySqlError(server) if [LOCK_WAIT_TIMEOUT, LOCK_DEADLOCK].contains(&server.code) => {
            TxError::Conflict
        }
        _ => TxError::Store(error.into()),
    }
}

/// A connection, and its statements by what they do and on which table.
struct Prepared {
    conn: Conn,
    statements: HashMap<(Operation, usize), Statement>,
}

impl Prepared {
    fn statement(&mut self, operation: Operation, table: usize) -> Result<Statement, TxError> {
        if let Some(statement) = self.statements.get(&(operation, table)) {
            return Ok(statement.clone());
        }
        let statement = self.conn.prep(operation.sql(table)).map_err(failed)?;
        self.statements.insert((operation, table), statement.clone());
        Ok(statement)
    }

    fn query(&mut self, text: &str) -> Result<(), TxError> {
        self.conn.query_drop(text).map_err(failed)
    }
}

struct MariadbConnection {
    writer: Prepared,
    reader: Prepared,
    /// Of the running transaction or statement.
    kind: TxKind,
}

impl MariadbConnection {
    fn current(&mut self) -> &mut Prepared {
        match self.kind {
            TxKind::ReadWrite => &mut self.writer,
            TxKind::ReadOnly => &mut self.reader,
        }
    }

    fn execute<P: Into<mysql::Params>>(
        &mut self,
        operation: Operation,
        table: usize,
        row: P,
    ) -> Result<bool, TxError> {
        let statement = self.writer.statement(operation, table)?;
        self.writer.conn.exec_drop(&statement, row).map_err(failed)?;
        Ok(self.writer.conn.affected_rows() > 0)
    }
}

impl Connection for MariadbConnection {
    fn turn_to(&mut self, kind: TxKind) {
        self.kind = kind;
    }

    fn begin(&mut self, kind: TxKind) -> Result<(), TxError> {
        self.current().query(match kind {
            TxKind::ReadWrite => "START TRANSACTION",
            TxKind::ReadOnly => "START TRANSACTION READ ONLY",
        })
    }

    fn commit(&mut self) -> Result<(), TxError> {
        self.current().query("COMMIT")
    }

    fn roll_back(&mut self) -> Result<(), TxError> {
        self.current().query("ROLLBACK")
    }

    fn get(&mut self, table: usize, key: &[u8], is_for_update: bool) -> Result<Option<Vec<u8>>, TxError> {
        let operation = if is_for_update { Operation::GetForUpdate } else { Operation::Get };
        let current = self.current();
        let statement = current.statement(operation, table)?;
        current.conn.exec_first(&statement, (key,)).map_err(failed)
    }

    fn put(&mut self, table: usize, key: &[u8], value: &[u8]) -> Result<(), TxError> {
        self.execute(Operation::Put, table, (key, value)).map(drop)
    }

    fn insert(&mut self, table: usize, key: &[u8], value: &[u8]) -> Result<bool, TxError> {
        self.execute(Operation::Insert, table, (key, value))
    }

    fn remove(&mut self, table: usize, key: &[u8]) -> Result<bool, TxError> {
        self.execute(Operation::Remove, table, (key,))
    }

    fn page(&mut self, table: usize, page: &Page<'_>) -> Result<Vec<Row>, TxError> {
        let operation = if page.is_reverse { Operation::PageReverse } else { Operation::Page };
        let current = self.current();
        let statement = current.statement(operation, table)?;
        current.conn.exec(&statement, (page.from, page.to, page.rows)).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreshore_workloads::{Tx, TxSession};

    /// What a load has left in the buffer pool is not written in the timed phase. Passed over where there is no server.
    #[test]
    fn a_store_at_rest_has_written_its_pages() {
        if version().is_none() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let run = RunSpec {
            threads: 1,
            seconds: 1.0,
            warm_up_seconds: 0.0,
            durability: Durability::Buffered,
            cache_bytes: 64 << 20,
            seed: 1,
        };
        let store = start(dir.path(), &run).unwrap();
        let tables = ["one", "two"].map(|name| store.table(name).unwrap());
        let mut session = store.session().unwrap();
        for table in &tables {
            let rows = (0..1000u32).map(|row| (row.to_be_bytes(), [7u8; 200])).collect::<Vec<_>>();
            session.transact(TxKind::ReadWrite, |tx| tx.insert_each(table, &rows)).unwrap();
        }
        let unwritten = || -> usize {
            let pages = "SELECT COUNT(*) FROM information_schema.INNODB_BUFFER_PAGE \
                         WHERE TABLE_NAME LIKE '%peers%' AND OLDEST_MODIFICATION > 1";
            store.dialect.conn(None).unwrap().query_first(pages).unwrap().expect("a count")
        };
        assert!(unwritten() > 10, "{}", unwritten());
        store.settle().unwrap();
        assert_eq!(unwritten(), 0);
        session.transact(TxKind::ReadWrite, |tx| tx.put(&tables[0], b"key", b"value")).unwrap();
    }
}
