//! The engine's face: databases, tables, transactions, snapshots.
//!
//! What users hold are handles; behind them is one `Engine`.
//!
//! | file | concept |
//! |---|---|
//! | `options`, `memory`, `meta` | how a database is opened; the default cache; the file `FORESHORE` |
//! | `engine`, `upkeep`, `running` | an open database; what it needs now and then; transactions that run |
//! | `tables`, `catalog`, `index` | which tables there are, and where that is written; what a table is made with |
//! | `prepared` | transactions that wait to hear whether to commit |
//! | `table`, `codec`, `prefix`, `byte_table` | tables with types, and how these become bytes; tables of bytes |
//! | `range` | iterators over rows |
//! | `value_bytes` | how long values are; reads that leave the longest alone |
//! | `transact` | how transactions and snapshots begin |
//! | `transaction`, `isolation`, `ticket` | a transaction, its options, and a commit that is waited for later |
//! | `transaction_table`, `transaction_bytes`, `transaction_range` | tables and ranges within a transaction |
//! | `snapshot` | read-only transactions |
//! | `backup`, `compact`, `stats` | copies; a database written anew; what is counted |

mod backup;
mod byte_table;
pub(crate) mod catalog;
mod codec;
mod compact;
mod engine;
mod index;
mod isolation;
mod memory;
pub(crate) mod meta;
pub(crate) mod options;
mod prefix;
mod prepared;
mod range;
mod running;
mod snapshot;
mod stats;
mod table;
mod tables;
mod ticket;
mod trace;
mod transact;
mod transaction;
mod transaction_bytes;
mod transaction_range;
mod transaction_table;
mod types;
mod upkeep;
mod value_bytes;

use crate::blob;
use crate::core::Core;
use crate::error::Result;
use crate::log::Durability;
use crate::spread::Spread;
use crate::tree::Tree;
use engine::Engine;
use foreshore_io::{MemVfs, Vfs};
use std::panic::RefUnwindSafe;
use std::path::Path;
use std::sync::Arc;

pub use backup::Copied;
#[doc(hidden)]
pub use backup::ensure_beside_databases;
pub use byte_table::ByteTable;
#[doc(hidden)]
pub use codec::Endless;
pub use codec::{Key, Value};
pub use compact::Compacted;
pub use index::{Index, TableOptions};
pub use isolation::{Isolation, TransactionOptions};
pub use options::Builder;
pub use prefix::{KeyComponent, KeyPrefix, Prefix};
pub use range::{ByteBounds, ByteRange, KeyBounds, Range};
pub use snapshot::{Snapshot, SnapshotBytes, SnapshotTable};
pub use stats::{CheckReport, IndexStats, Stats, TableReport};
pub use table::Table;
pub use ticket::CommitTicket;
pub use transaction::{Savepoint, Transaction};
pub use transaction_bytes::TransactionBytes;
pub use transaction_range::TransactionRange;
pub use transaction_table::TransactionTable;
pub use types::Types;

/// An open database. Cheap to clone; usable from any thread. The last handle to go closes it; tables, snapshots, the iterators of both, and
/// transactions count.
///
/// It is its process's own: one that is forked, and does not begin another program, can let go of handles, and no more. To write ends it.
/// To open another database there may wait for ever for what a thread of the parent held just then, even one of the engine's:
/// fork before you open any, or start another program.
///
/// It may be used after a panic, as its tables and snapshots may ([`UnwindSafe`](std::panic::UnwindSafe)): where code that the caller
/// gave panics, such as the work of [`transact`](Database::transact), what was under way is rolled back, and no lock stays.
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path();
/// use foreshore::Database;
/// let db = Database::open(path)?;
/// let ports = db.table::<String, u32>("ports")?;
/// ports.put("SEA", &98158)?;
/// assert_eq!(ports.get("SEA")?, Some(98158));
/// db.close()?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Database {
    engine: Arc<Engine>,
    /// What transactions and snapshots keep of it.
    engines: Arc<Spread<Engine>>,
}

// Who catches a panic finds nothing half done through a handle. The engine changes nothing of its own while it runs the caller's code,
// and holds no latch, only what a transaction has locked; that is rolled back on the way out (`tests/callbacks.rs` goes through such
// calls). Transactions and ranges are left out: what one has done before the panic is still to be seen in it.
impl RefUnwindSafe for Engine {}
impl RefUnwindSafe for Core {}
impl RefUnwindSafe for Tree {}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Database({})", self.engine.describe())
    }
}

impl Database {
    /// Opens the database in `path`, creating it if the directory is absent or empty. After a crash this recovers:
    /// the log written since the last checkpoint is redone.
    ///
    /// Errors: see [`Builder::open`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path();
    /// use foreshore::Database;
    /// let db = Database::open(path)?;
    /// db.byte_table("ports")?.put(b"SEA", b"Seattle")?;
    /// db.close()?;
    ///
    /// let db = Database::open(path)?; // by the next run of the program
    /// assert_eq!(db.byte_table("ports")?.get(b"SEA")?.as_deref(), Some(&b"Seattle"[..]));
    /// # Ok(()) }
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::builder().open(path)
    }

    /// Options before opening.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use foreshore::Database;
    /// let db = Database::builder().create(true).cache_bytes(1 << 30).open(dir.path())?;
    /// db.byte_table("t")?.put(b"k", b"v")?;
    /// # Ok(()) }
    /// ```
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A database that lives in memory and dies with its last handle. Its commits are `Relaxed` unless asked for otherwise, as there is
    /// nothing that they could survive: a [`CommitTicket`] then says that it is not durable.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// let db = foreshore::Database::in_memory()?; // for tests, and for data that need not last
    /// let words = db.table::<String, u64>("words")?;
    /// words.put("foreshore", &1)?;
    /// assert!(words.contains("foreshore")?);
    /// # Ok(()) }
    /// ```
    pub fn in_memory() -> Result<Self> {
        // Its log is soon truncated and never read: small buffers and segments will do.
        Self::builder()
            .durability(Durability::Relaxed)
            .ring_bytes(1 << 20)
            .segment_bytes(1 << 20)
            .log_bytes(16 << 20)
            .open_on(Arc::new(MemVfs::new()))
    }

    pub(crate) fn open_with(vfs: Arc<dyn Vfs>, options: Builder) -> Result<Self> {
        let engine = Engine::open(vfs, options)?;
        Ok(Self { engines: Arc::new(Spread::new(&engine)), engine })
    }

    /// The table `name` with typed keys and values, created if absent. It remembers its [`Types`] from then on. (A table that was made as
    /// a byte table has none: its types are the caller's promise, and rows that do not decode give
    /// [`Error::Encoding`](crate::Error::Encoding).)
    ///
    /// Errors: [`Error::Argument`](crate::Error::Argument) if it has rows of other types, if the name is empty, or longer than a key may
    /// be; as [`ByteTable::put`] if it is created.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let flights = db.table::<(String, u32), i16>("flights")?; // carrier and number → minutes late
    /// flights.put(&("AA".into(), 428), &-10)?;
    ///
    /// let again = db.table::<(String, u32), i16>("flights")?; // another handle to the same table
    /// assert_eq!(again.get(&("AA".to_string(), 428_u32))?, Some(-10));
    ///
    /// let mistaken = db.table::<u64, String>("flights");
    /// let message = mistaken.unwrap_err().to_string();
    /// assert!(message.contains("has keys of String,u32 and values of i16, and not keys of u64"), "{message}");
    /// # Ok(()) }
    /// ```
    pub fn table<K: Key, V: Value>(&self, name: &str) -> Result<Table<K, V>> {
        self.table_with(name, TableOptions::new())
    }

    /// [`Database::table`] with options.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// use foreshore::{Index, TableOptions};
    /// let options = TableOptions::new().index(Index::CsbPlus).leaf_bytes(16 << 10);
    /// let counters = db.table_with::<u64, u64>("counters", options)?;
    /// counters.put(&7, &1)?;
    /// assert_eq!(counters.as_bytes().leaf_bytes(), 16384);
    /// # Ok(()) }
    /// ```
    pub fn table_with<K: Key, V: Value>(&self, name: &str, options: TableOptions) -> Result<Table<K, V>> {
        let types = Types::of::<K, V>();
        self.byte_table_with(name, options.types(types)).map(Table::new)
    }

    /// The table `name` with byte strings for keys and values, created if absent.
    ///
    /// Errors: as [`Database::table`].
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let pages = db.byte_table("pages")?;
    /// pages.put(b"/index.html", b"<h1>Hello</h1>")?;
    /// assert!(pages.contains(b"/index.html")?);
    /// # Ok(()) }
    /// ```
    pub fn byte_table(&self, name: &str) -> Result<ByteTable> {
        self.byte_table_with(name, TableOptions::new())
    }

    /// [`Database::byte_table`] with options.
    ///
    /// Errors: as [`Database::table`]; [`Error::Argument`](crate::Error::Argument) if no leaf can have the size asked for.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// use foreshore::{Error, TableOptions};
    /// db.byte_table_with("documents", TableOptions::new().leaf_bytes(32 << 10))?;
    /// let no_size = db.byte_table_with("others", TableOptions::new().leaf_bytes(5000));
    /// assert!(matches!(no_size, Err(Error::Argument(_))));
    /// # Ok(()) }
    /// ```
    pub fn byte_table_with(&self, name: &str, options: TableOptions) -> Result<ByteTable> {
        let tree = self.engine.tables.get_or_create(name, options)?;
        Ok(ByteTable::new(self.engine.clone(), tree))
    }

    /// The byte table `name`, if there is one: for who looks at tables that others may drop, and must not bring one back.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// db.byte_table("pages")?.put(b"/index.html", b"<h1>Hello</h1>")?;
    /// let pages = db.existing_byte_table("pages").expect("it was made");
    /// assert_eq!(pages.range(..).count(), 1);
    /// assert!(db.existing_byte_table("posts").is_none());
    /// assert_eq!(db.tables()?, ["pages"]);
    /// # Ok(()) }
    /// ```
    pub fn existing_byte_table(&self, name: &str) -> Option<ByteTable> {
        self.engine.tables.existing(name).map(|tree| ByteTable::new(self.engine.clone(), tree))
    }

    /// [`Database::existing_byte_table`] with types.
    ///
    /// Errors: [`Error::Argument`](crate::Error::Argument) if its rows are of others.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// db.table::<String, u32>("ports")?.put("SEA", &98158)?;
    /// let ports = db.existing_table::<String, u32>("ports")?.expect("it was made");
    /// assert_eq!(ports.get("SEA")?, Some(98158));
    /// assert!(db.existing_table::<String, u32>("prots")?.is_none(), "and a slip of the pen makes none");
    /// assert_eq!(db.tables()?, ["ports"]);
    /// # Ok(()) }
    /// ```
    pub fn existing_table<K: Key, V: Value>(&self, name: &str) -> Result<Option<Table<K, V>>> {
        let tree = self.engine.tables.existing_of_types(name, Types::of::<K, V>())?;
        Ok(tree.map(|tree| Table::new(ByteTable::new(self.engine.clone(), tree))))
    }

    /// The names of all tables, in byte order.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// db.byte_table("ports")?;
    /// db.byte_table("flights")?;
    /// assert_eq!(db.tables()?, ["flights", "ports"]);
    /// # Ok(()) }
    /// ```
    pub fn tables(&self) -> Result<Vec<String>> {
        Ok(self.engine.tables.names())
    }

    /// Gives the table `from` the name `to`, durably; says whether there was one. Its rows, index and size of leaves stay. A crash leaves
    /// it with one of the two names, and all rows.
    ///
    /// It is the same table: handles, transactions, also those that have [prepared](crate::Transaction::prepare), snapshots and backups
    /// that use it go on, and nobody waits for anybody but for a [drop](Database::drop_table) that is under way. Handles tell the
    /// new name. A backup that has begun gives the table in the copy the name that it had then. `from` is free:
    /// [`byte_table`](Database::byte_table) makes a new table. Clients of a server in this process that have selected it
    /// come to the table of the name with their next command, which makes one if there is none.
    ///
    /// Others find it by the new name before that is durable.
    ///
    /// Errors: [`Error::Argument`](crate::Error::Argument) if a table is called `to` already, or none can have that name;
    /// [`Error::Full`](crate::Error::Full), [`Error::LockTimeout`](crate::Error::LockTimeout),
    /// [`Error::TooManyTransactions`](crate::Error::TooManyTransactions) (it is a transaction, of the list of tables): nothing was changed;
    /// [`Error::Poisoned`](crate::Error::Poisoned): the table keeps its name, and the next opening finds the one or the other.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// use foreshore::Error;
    /// let words = db.table::<String, u64>("new words")?;
    /// words.bulk_load([("fore".into(), 1), ("shore".into(), 2)])?;
    /// assert!(db.rename_table("new words", "words")?);
    /// assert_eq!((words.name(), words.get("shore")?), ("words", Some(2)));
    /// assert!(!db.rename_table("new words", "others")?, "there is none");
    ///
    /// db.byte_table("others")?;
    /// assert!(matches!(db.rename_table("words", "others"), Err(Error::Argument(_))));
    /// assert_eq!(db.tables()?, ["others", "words"]);
    /// # Ok(()) }
    /// ```
    pub fn rename_table(&self, from: &str, to: &str) -> Result<bool> {
        self.engine.tables.rename_table(from, to)
    }

    /// Removes a table with all its rows; says whether it existed. Its handles give
    /// [`Error::TableDropped`](crate::Error::TableDropped) from then on, in snapshots, too, which it does not wait for. It waits for
    /// the transactions that use the table, those that have [prepared](crate::Transaction::prepare) too, and for backups; transactions
    /// that come meanwhile wait for it, as for a lock, and one that closes a circle of waits gives way
    /// ([`Error::Deadlock`](crate::Error::Deadlock)).
    ///
    /// Errors: [`Error::TableInUse`](crate::Error::TableInUse) if those that it waits for do not end within 10 seconds, as the caller's
    /// own transaction cannot; [`Error::Corrupt`](crate::Error::Corrupt) if the list of tables does not have it under this name. The table
    /// stays then.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// let old = db.byte_table("old")?;
    /// old.put(b"k", b"v")?;
    /// assert!(db.drop_table("old")?);
    /// assert!(!db.drop_table("old")?, "there is none");
    /// assert!(matches!(old.get(b"k"), Err(foreshore::Error::TableDropped { .. })));
    /// assert!(!db.byte_table("old")?.contains(b"k")?, "a new one, without its rows");
    /// # Ok(()) }
    /// ```
    pub fn drop_table(&self, name: &str) -> Result<bool> {
        self.engine.tables.drop_table(name)
    }

    /// Writes changed leaves out, so that a restart has little log to redo. Happens by itself as the log grows.
    ///
    /// Errors: [`Error::Full`](crate::Error::Full): nothing was changed; [`Error::Poisoned`](crate::Error::Poisoned).
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// t.put_many(&[(b"a", b"1"), (b"b", b"2")])?;
    /// let before = db.stats();
    /// db.checkpoint()?;
    /// let now = db.stats();
    /// assert_eq!(now.checkpoints, before.checkpoints + 1);
    /// assert!(now.log_to_redo_bytes <= before.log_to_redo_bytes);
    /// # Ok(()) }
    /// ```
    pub fn checkpoint(&self) -> Result<()> {
        self.engine.checkpoint()
    }

    /// Waits until everything acknowledged so far, in whatever durability, would survive a power failure.
    ///
    /// Errors: [`Error::Poisoned`](crate::Error::Poisoned).
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// use foreshore::Durability;
    /// let events = db.byte_table("events")?.with_durability(Durability::Relaxed);
    /// for event in 0..1000_u32 {
    ///     events.put(&event.to_be_bytes(), b"")?; // waits for nothing
    /// }
    /// db.sync()?; // all thousand are safe
    /// # Ok(()) }
    /// ```
    pub fn sync(&self) -> Result<()> {
        self.engine.sync()
    }

    /// [`Database::sync`] without the waiting: a ticket for everything acknowledged so far, by whomever and in whatever
    /// durability. For servers that answer many clients at once: commit with [`Durability::Relaxed`](crate::Durability::Relaxed),
    /// take one ticket for all, and hold the answers back until it is done. Commits that gather while the log is being written
    /// travel together, with the next write.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// use foreshore::Durability;
    /// let orders = db.byte_table("orders")?.with_durability(Durability::Relaxed);
    /// for order in 0..100_u32 {
    ///     orders.put(&order.to_be_bytes(), b"new")?;
    /// }
    /// let ticket = db.sync_async(); // a future, too
    /// assert_eq!(orders.range(..).count(), 100, "there is time for other things");
    /// ticket.wait()?; // now all hundred may be confirmed
    /// # Ok(()) }
    /// ```
    pub fn sync_async(&self) -> CommitTicket {
        CommitTicket::for_all(self.engine.hold_core())
    }

    /// Walks every structure and compares them: leaves, fences, links, index, page accounting. Reads all leaves; writers
    /// may go on, but what they change meanwhile is checked only loosely, and splits of a table wait while its index is walked.
    ///
    /// Errors: [`Error::Corrupt`](crate::Error::Corrupt) names the first broken invariant; of damaged large values the rows of
    /// all that the same table has.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// t.put(b"k", b"v")?;
    /// let report = db.check()?;
    /// let of_t = report.tables.iter().find(|table| table.name == "t").expect("it is there");
    /// assert_eq!((of_t.rows, of_t.leaves, report.stray_pages), (1, 1, 0));
    /// # Ok(()) }
    /// ```
    pub fn check(&self) -> Result<CheckReport> {
        self.engine.check()
    }

    /// Counters since the database was opened.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// let before = db.stats().commits;
    /// db.transact(|tx| tx.bytes(&t).put(b"k", b"v"))?;
    /// let stats = db.stats();
    /// assert_eq!(stats.commits, before + 1);
    /// for wait in stats.waits {
    ///     println!("{}: {} times, {} ns in all", wait.what, wait.count, wait.ns);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }

    /// No shorter value is written past the log; for one that is, a transaction waits for the device before it commits, whatever the
    /// durability. For the server, whose event loops must not.
    #[doc(hidden)]
    pub fn past_log_from_bytes(&self) -> usize {
        blob::past_log_from_bytes(self.engine.core().pools.own().page_bytes())
    }

    /// Writes everything out and stops accepting writes, telling the errors that a mere drop would swallow. The directory
    /// stays locked until the last handle is gone, and who has one may read: no leaf is written for that any more, and no checkpoint
    /// taken. Who closes it while another handle does, or once more, is told the same, when that is done. A task that goes on where the
    /// log [wakes](CommitTicket) it, of any database, does not wait for another who closes it: it is told `Ok` at once, whatever comes of
    /// that.
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// db.clone().close()?;
    /// assert!(t.put(b"k", b"too late").is_err());
    /// # Ok(()) }
    /// ```
    pub fn close(self) -> Result<()> {
        self.engine.close()
    }
}
