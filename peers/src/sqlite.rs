//! SQLite: a B-tree in a file and a write-ahead log, one writer at a time. A row is a key and a value, in a table
//! `WITHOUT ROWID`, as its documentation advises for rows of up to a twentieth of a page; longer ones lie in a usual table beside an index.
//!
//! - `sync`: `journal_mode=WAL`, `synchronous=FULL`: each commit syncs the log.
//! - `buffered`: `synchronous=NORMAL`: only checkpoints sync.
//! - `relaxed`: `synchronous=OFF`.
//! - All writers use one connection, one after the other: a connection forgets its pages when another one has written, and finds
//!   out by sleeping that its turn has come. Each thread reads through a connection of its own, unless there is one thread only.
//!   Statements are prepared once. What one connection alone uses, it locks once (`locking_mode=EXCLUSIVE`). No memory is counted, as its
//!   documentation advises: all connections would do that under one mutex.
//! - `--cache` is shared out among the connections. Beside that the operating system caches the file. No memory map, and
//!   checkpoints of 4 MiB of log, as by default.

use foreshore_workloads::{Durability, KvSpec, Row, Session, Store, StoreError};
use rusqlite::{Connection, OpenFlags, ffi, params};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

/// A twentieth of a page of 4 KiB. In a table `WITHOUT ROWID`, much longer ones have a page of their own each.
const SHORT_ROW_BYTES: usize = 200;

/// A database file, and the connection of whose turn it is to write.
pub struct File {
    path: PathBuf,
    synchronous: &'static str,
    cache_kib: u64,
    is_shared: bool,
    writer: Mutex<Connection>,
}

/// How a thread reads: through a connection of its own, or as the only thread through the one that writes.
pub struct Reader<'a> {
    own: Option<Connection>,
    file: &'a File,
}

/// A table, as the statements that read and write it.
pub struct Statements {
    pub get: String,
    pub put: String,
    pub insert: String,
    pub remove: String,
    /// From a key on, so many rows.
    pub first: String,
    /// From a key on, up to another one, and the same downwards.
    pub up: String,
    pub down: String,
}

impl File {
    /// Creates it; so many threads are going to use it.
    ///
    /// Errors: what SQLite says.
    pub fn create(
        dir: &Path,
        durability: Durability,
        cache_bytes: u64,
        threads: usize,
    ) -> Result<Self, StoreError> {
        let path = dir.join("rows.sqlite");
        let synchronous = match durability {
            Durability::Sync => "FULL",
            Durability::Buffered => "NORMAL",
            Durability::Relaxed => "OFF",
        };
        count_no_memory()?;
        let is_shared = threads > 1;
        let connections = if is_shared { threads as u64 + 1 } else { 1 };
        let cache_kib = cache_bytes / 1024 / connections;
        let writer = connect(&path, synchronous, cache_kib)?;
        if !is_shared {
            writer.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        }
        writer.pragma_update(None, "journal_mode", "WAL")?;
        Ok(Self { path, synchronous, cache_kib, is_shared, writer: Mutex::new(writer) })
    }

    /// The table `name`, created if there is none, for rows of so many bytes, if all are as long.
    pub fn table(&self, name: &str, row_bytes: Option<usize>) -> Result<Statements, StoreError> {
        let kind = match row_bytes {
            Some(bytes) if bytes > SHORT_ROW_BYTES => "",
            _ => " WITHOUT ROWID",
        };
        self.writer()?.execute_batch(&format!(
            "CREATE TABLE IF NOT EXISTS \"{name}\" (k BLOB PRIMARY KEY, v BLOB NOT NULL){kind}"
        ))?;
        Ok(Statements::of(name))
    }

    /// What this thread reads through.
    pub fn reader(&self) -> Result<Reader<'_>, StoreError> {
        let connect = || connect(&self.path, self.synchronous, self.cache_kib);
        Ok(Reader { own: self.is_shared.then(connect).transpose()?, file: self })
    }

    /// The connection that writes, when it is this thread's turn.
    pub fn writer(&self) -> Result<MutexGuard<'_, Connection>, StoreError> {
        Ok(self.writer.lock().map_err(|_| "a thread panicked")?)
    }

    /// Copies the log into the file, and syncs that unless it is `relaxed`.
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        let is_busy: bool =
            self.writer()?.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        if is_busy { Err("sqlite: a reader keeps the log".into()) } else { Ok(()) }
    }
}

impl Reader<'_> {
    /// Lets `read` use it.
    pub fn with<R, E: From<StoreError>>(
        &self,
        read: impl FnOnce(&Connection) -> Result<R, E>,
    ) -> Result<R, E> {
        match &self.own {
            Some(own) => read(own),
            None => read(&*self.file.writer()?),
        }
    }
}

/// To be called before the first connection is opened.
fn count_no_memory() -> Result<(), StoreError> {
    // SAFETY: nobody uses SQLite yet; it refuses otherwise. The option takes one integer.
    match unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_MEMSTATUS, 0) } {
        ffi::SQLITE_OK => Ok(()),
        code => Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None).into()),
    }
}

fn connect(path: &Path, synchronous: &str, cache_kib: u64) -> Result<Connection, StoreError> {
    // One thread at a time uses a connection.
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "cache_size", -i64::try_from(cache_kib)?)?;
    // TPC-C has nine tables, record insertion one for each thread.
    connection.set_prepared_statement_cache_capacity(256);
    Ok(connection)
}

impl Statements {
    fn of(table: &str) -> Self {
        let rows = format!("SELECT k, v FROM \"{table}\" WHERE k >= ?1");
        Self {
            get: format!("SELECT v FROM \"{table}\" WHERE k = ?1"),
            put: format!("INSERT INTO \"{table}\" VALUES (?1, ?2) ON CONFLICT DO UPDATE SET v = excluded.v"),
            insert: format!("INSERT INTO \"{table}\" VALUES (?1, ?2) ON CONFLICT DO NOTHING"),
            remove: format!("DELETE FROM \"{table}\" WHERE k = ?1"),
            first: format!("{rows} ORDER BY k LIMIT ?2"),
            up: format!("{rows} AND k < ?2 ORDER BY k"),
            down: format!("{rows} AND k < ?2 ORDER BY k DESC"),
        }
    }
}

/// Runs a statement that returns nothing; how many rows it changed.
pub fn change(
    connection: &Connection,
    statement: &str,
    parameters: impl rusqlite::Params,
) -> Result<usize, StoreError> {
    Ok(connection.prepare_cached(statement)?.execute(parameters)?)
}

/// Looks a key up.
pub fn get<R>(
    connection: &Connection,
    table: &Statements,
    key: &[u8],
    read: impl FnOnce(&[u8]) -> R,
) -> Result<Option<R>, StoreError> {
    let mut get = connection.prepare_cached(&table.get)?;
    let mut found = get.query(params![key])?;
    let Some(row) = found.next()? else { return Ok(None) };
    Ok(Some(read(row.get_ref(0)?.as_blob()?)))
}

/// SQLite with one table.
pub struct Sqlite {
    file: File,
    rows: Statements,
}

impl Sqlite {
    /// Creates it.
    ///
    /// Errors: what SQLite says.
    pub fn create(dir: &Path, spec: &KvSpec) -> Result<Self, StoreError> {
        let file = File::create(dir, spec.durability, spec.cache_bytes, spec.threads)?;
        let rows = file.table("rows", Some(spec.key_bytes + spec.value_bytes))?;
        Ok(Self { file, rows })
    }
}

impl Store for Sqlite {
    type Session<'a> = SqliteSession<'a>;

    fn session(&self) -> Result<SqliteSession<'_>, StoreError> {
        Ok(SqliteSession { store: self, reader: self.file.reader()? })
    }

    fn sync_count(&self) -> Option<u64> {
        None
    }

    fn settle(&self) -> Result<(), StoreError> {
        self.file.checkpoint()
    }
}

/// One thread's access.
pub struct SqliteSession<'a> {
    store: &'a Sqlite,
    reader: Reader<'a>,
}

impl Session for SqliteSession<'_> {
    fn get<R>(&mut self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, StoreError> {
        self.reader.with(|reader| get(reader, &self.store.rows, key, read))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        change(&*self.store.file.writer()?, &self.store.rows.put, params![key, value])?;
        Ok(())
    }

    fn scan(
        &mut self,
        from: &[u8],
        limit: u64,
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64, StoreError> {
        self.reader.with(|reader| {
            let mut statement = reader.prepare_cached(&self.store.rows.first)?;
            let mut found = statement.query(params![from, i64::try_from(limit).unwrap_or(i64::MAX)])?;
            let mut rows = 0;
            while let Some(row) = found.next()? {
                each(row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?);
                rows += 1;
            }
            Ok(rows)
        })
    }

    /// One transaction; SQLite has no other bulk load.
    fn bulk(&mut self, rows: impl Iterator<Item = Row>) -> Result<u64, StoreError> {
        let mut writer = self.store.file.writer()?;
        let transaction = writer.transaction()?;
        let mut count = 0;
        for row in rows {
            change(&transaction, &self.store.rows.put, params![row.key.as_slice(), row.value.as_slice()])?;
            count += 1;
        }
        transaction.commit()?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neither short rows nor long ones take much more than they have.
    #[test]
    fn rows_have_no_pages_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::create(dir.path(), Durability::Relaxed, 64 << 20, 1).unwrap();
        let mut before = 0;
        for row_bytes in [100, 1008] {
            let rows = file.table(&format!("rows of {row_bytes}"), Some(row_bytes)).unwrap();
            let value = vec![7_u8; row_bytes - 8];
            for key in 0..1000_u64 {
                change(&file.writer().unwrap(), &rows.put, params![key.to_be_bytes(), value]).unwrap();
            }
            file.checkpoint().unwrap();
            let bytes = std::fs::metadata(&file.path).unwrap().len();
            assert!(
                bytes - before < 2 * 1000 * row_bytes as u64,
                "{} for rows of {row_bytes}",
                bytes - before
            );
            before = bytes;
        }
    }
}
