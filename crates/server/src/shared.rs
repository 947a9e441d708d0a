//! What all event loops share: the database, the clients, the limits.

use crate::chores::Chores;
use crate::clients::Clients;
use crate::commands::Scale;
use crate::counters::Counters;
use crate::cursors::Cursors;
use crate::event_loop::Inbox;
use crate::options::Options;
use crate::slow_log::SlowLog;
use foreshore::{ByteTable, Database, Durability, Error, TableOptions, Transaction, TransactionOptions};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a command waits for a lock in place. Where all locks are those of commands, they are held for microseconds,
/// and queueing for one is better than to come back; the bound is for those held longer all the same.
const PATIENCE: Duration = Duration::from_millis(100);

/// For how long none is waited for in place after somebody has done so in vain, as for one of a prepared transaction, or of the program
/// that the server is part of.
const HASTE: Duration = Duration::from_secs(1);

/// How often a table is read that others empty meanwhile; then who asks is told to ask again.
const READS: u32 = 10;

/// Transactions that clients may hold open. Fewer than the engine has room for: a command must never wait for a place.
pub const OPEN_TRANSACTIONS_MAX: usize = 512;

/// What all event loops share.
pub struct Shared {
    /// The database.
    pub db: Database,
    /// What makes a request heavy.
    pub scale: Scale,
    /// As the server was started.
    pub options: Options,
    /// `Options::idle_timeout` in milliseconds, as CONFIG SET may have changed it.
    pub idle_timeout_ms: AtomicU64,
    /// `Options::lock_timeout` in milliseconds, likewise.
    pub lock_timeout_ms: AtomicU64,
    /// Who is connected.
    pub clients: Clients,
    /// Where SCANs go on.
    pub cursors: Cursors,
    /// Clients for whom there was no room.
    pub turned_away: AtomicU64,
    /// What took long.
    pub slow_log: SlowLog,
    /// Memory of all clients, as their event loops have counted it.
    pub clients_bytes: AtomicUsize,
    /// By event loop; behind them those of commands executed elsewhere.
    pub counters: Box<[Counters]>,
    /// What takes too long for an event loop.
    pub chores: Chores,
    /// When the server was started.
    pub started: Instant,
    /// When BGSAVE succeeded last, or the server was started: seconds since 1970.
    pub saved_at_s: AtomicU64,
    /// BGSAVEs under way.
    pub saving: AtomicUsize,
    /// Is KV.BACKUP under way?
    backing_up: AtomicBool,
    /// Is it shutting down?
    pub stopping: AtomicBool,
    /// The way into each event loop; set once, before the first client.
    pub inboxes: OnceLock<Vec<Arc<Inbox>>>,
    /// The tables that have been opened, by name.
    targets: Mutex<HashMap<String, Target>>,
    /// How often one was.
    opened: AtomicU64,
    /// Transactions that outlive a command, and so hold locks for longer.
    open_transactions: AtomicUsize,
    /// Until when no lock is waited for in place, in milliseconds since `started`.
    hasty_until_ms: AtomicU64,
    /// Has somebody seen that writes cannot be acknowledged any more?
    has_failed: AtomicBool,
}

impl Shared {
    /// Around a database.
    pub fn new(db: Database, options: Options) -> Self {
        Self {
            scale: Scale::of(&db),
            db,
            idle_timeout_ms: AtomicU64::new(
                // Rounded up: 0 is never.
                options.idle_timeout.as_nanos().div_ceil(1_000_000).try_into().unwrap_or(u64::MAX),
            ),
            lock_timeout_ms: AtomicU64::new(options.lock_timeout.as_millis().try_into().unwrap_or(u64::MAX)),
            clients: Clients::default(),
            cursors: Cursors::default(),
            turned_away: AtomicU64::new(0),
            clients_bytes: AtomicUsize::new(0),
            slow_log: SlowLog::new(options.slow_log_from),
            counters: (0..=options.threads).map(|_| Counters::default()).collect(),
            chores: Chores::default(),
            started: Instant::now(),
            saved_at_s: AtomicU64::new(since_1970().as_secs()),
            saving: AtomicUsize::new(0),
            backing_up: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            inboxes: OnceLock::new(),
            targets: Mutex::default(),
            opened: AtomicU64::new(0),
            open_transactions: AtomicUsize::new(0),
            hasty_until_ms: AtomicU64::new(0),
            has_failed: AtomicBool::new(false),
            options,
        }
    }

    /// Do replies to writes wait for the device?
    pub fn is_sync(&self) -> bool {
        self.options.durability == Durability::Sync
    }

    /// What the engine's calls wait for. With `Sync` nothing: the event loop waits once for many (see `syncer.rs`).
    pub fn durability_of_calls(&self) -> Durability {
        if self.is_sync() { Durability::Relaxed } else { self.options.durability }
    }

    /// A table that has been opened before. Others may have dropped it since. One that has got another name is not the one of this name.
    pub fn find(&self, name: &str) -> Option<Target> {
        self.targets.lock().get(name).filter(|target| !target.is_renamed()).cloned()
    }

    /// The same, whatever it is called by now: for a client that has just come. Its first command that is about rows waits until the one
    /// of this name is opened.
    pub fn find_opened(&self, name: &str) -> Option<Target> {
        self.targets.lock().get(name).cloned()
    }

    /// What has been opened since under the name of `target`.
    pub fn newer(&self, target: &Target) -> Option<Target> {
        self.find(target.name()).filter(|newer| newer.is_newer_than(target))
    }

    /// A table, created if absent, for all to find. May wait for the device, and for others who create or drop tables, so
    /// this is not for event loops.
    pub fn open(&self, wanted: &Wanted) -> Result<Target, Error> {
        let table = match self.db.existing_byte_table(&wanted.name) {
            // Whatever it is like: it may have got the name of the one that a client has used, whose rows were of other types.
            Some(table) => table,
            None => self.db.byte_table_with(&wanted.name, wanted.options.clone())?,
        };
        let table = table.with_durability(self.durability_of_calls());
        let target = Target {
            name: wanted.name.as_str().into(),
            patient: table.with_lock_timeout(PATIENCE),
            hasty: table.with_lock_timeout(Duration::ZERO),
            opened: self.opened.fetch_add(1, Relaxed),
        };
        self.targets.lock().insert(wanted.name.clone(), target.clone());
        Ok(target)
    }

    /// What `read` finds in a table, once more with what others put in its place while they empty it. For chores, like `open`.
    pub fn read_opened<T>(
        &self,
        wanted: &Wanted,
        mut read: impl FnMut(&ByteTable) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut read = || self.open(wanted).and_then(|target| read(target.table()));
        for _ in 1..READS {
            match read() {
                Err(Error::TableDropped { .. }) => {}
                done => return done,
            }
        }
        read()
    }

    /// A transaction for one command, or for one EXEC.
    pub fn begin(&self) -> Result<Transaction, Error> {
        let patience = if self.locks_are_brief() { PATIENCE } else { Duration::ZERO };
        self.db.begin_with(
            TransactionOptions::new().durability(self.durability_of_calls()).lock_timeout(patience),
        )
    }

    /// If this says that writes cannot be acknowledged any more: tells of it, once.
    pub fn note_failure(&self, error: &Error) {
        if matches!(error, Error::Poisoned { .. }) && !self.has_failed.swap(true, Relaxed) {
            tell(format_args!(
                "writes can no longer be acknowledged, and clients who wait for that are disconnected: {error}"
            ));
        }
    }

    /// Can writes not be acknowledged any more, as somebody has seen who tried?
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Relaxed)
    }

    /// A transaction for a client to hold; `None` if there are too many.
    pub fn begin_open(self: &Arc<Self>) -> Result<Option<Open>, Error> {
        let place = Place::take(self);
        if self.open_transactions.load(Relaxed) > OPEN_TRANSACTIONS_MAX {
            return Ok(None);
        }
        let options =
            TransactionOptions::new().durability(self.durability_of_calls()).lock_timeout(Duration::ZERO);
        let timeout = self.options.transaction_timeout;
        let options = if timeout.is_zero() { options } else { options.idle_timeout(timeout) };
        Ok(Some(Open { transaction: self.db.begin_with(options)?, place }))
    }

    /// Is nobody there, as far as is known, who holds locks beyond a command? Only then a lock may be waited for in place.
    fn locks_are_brief(&self) -> bool {
        self.open_transactions.load(Relaxed) == 0 && !self.is_hasty()
    }

    /// Notes a lock that was waited for in place in vain, if this is the error: no command holds one for so long.
    pub fn note_long_lock(&self, error: &Error) {
        if matches!(error, Error::LockTimeout { waited, .. } if *waited >= PATIENCE) {
            let until = self.started.elapsed() + HASTE;
            self.hasty_until_ms.store(until.as_millis() as u64, Relaxed);
        }
    }

    /// Was such a lock noted a short while ago?
    fn is_hasty(&self) -> bool {
        // Without one the clock is not read.
        let until_ms = self.hasty_until_ms.load(Relaxed);
        let is_hasty = until_ms > 0 && self.started.elapsed().as_millis() < until_ms.into();
        if until_ms > 0 && !is_hasty {
            self.hasty_until_ms.store(0, Relaxed);
        }
        is_hasty
    }

    /// Transactions that clients hold.
    pub fn open_transactions(&self) -> usize {
        self.open_transactions.load(Relaxed)
    }

    /// Makes all event loops but `home` look around.
    pub fn wake_others(&self, home: usize) {
        let inboxes = self.inboxes.get().into_iter().flatten().enumerate();
        inboxes.filter(|(at, _)| *at != home).for_each(|(_, inbox)| inbox.wake());
    }

    /// Begins the shutdown. Returns at once.
    pub fn stop(&self) {
        self.stopping.store(true, SeqCst);
        self.inboxes.get().into_iter().flatten().for_each(|inbox| inbox.wake());
    }

    /// Is a backup being made?
    pub fn is_backing_up(&self) -> bool {
        self.backing_up.load(Relaxed)
    }

    /// Is the server shutting down?
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(SeqCst)
    }
}

/// A thread of the server. Its error, if it could not go on, has been told.
pub type Thread = JoinHandle<io::Result<()>>;

/// Starts a thread that the server needs: when it ends, be it by a panic, the server stops. Clients would wait for ever for one
/// that is gone.
pub fn start_thread(
    shared: &Arc<Shared>,
    name: impl Into<String>,
    work: impl FnOnce(&Arc<Shared>) -> io::Result<()> + Send + 'static,
) -> io::Result<Thread> {
    let needed = Needed(shared.clone());
    thread::Builder::new().name(name.into()).spawn(move || work(&needed.0))
}

/// Stops the server when it is dropped.
struct Needed(Arc<Shared>);

impl Drop for Needed {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// A table through two handles: what a write may wait for depends on who else is there.
#[derive(Clone)]
pub struct Target {
    /// By which clients know it, whatever others call it. Shared, since a client may keep a target for each key that it watches.
    name: Arc<str>,
    patient: ByteTable,
    hasty: ByteTable,
    /// Later openings have larger numbers.
    opened: u64,
}

/// A table that is to be opened.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Its name.
    pub name: String,
    /// How it is created if absent.
    pub options: TableOptions,
}

impl Target {
    /// For reads, and within transactions, which have a patience of their own.
    pub fn table(&self) -> &ByteTable {
        &self.patient
    }

    /// For writes of their own.
    pub fn writer(&self, shared: &Shared) -> &ByteTable {
        if shared.locks_are_brief() { &self.patient } else { &self.hasty }
    }

    /// The name by which it was opened.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Has it got another name since? Asked before each command: as long as it has not, this compares two short names.
    pub fn is_renamed(&self) -> bool {
        self.patient.name() != &*self.name
    }

    /// Was it dropped? Others may have been, by the name that it has got since: a read tells.
    pub fn is_gone(&self) -> bool {
        matches!(self.patient.contains(b""), Err(Error::TableDropped { .. }))
    }

    /// What has its name now, should it have been dropped or renamed; created like it if absent.
    pub fn again(&self) -> Wanted {
        let options = TableOptions::new().index(self.patient.index()).leaf_bytes(self.patient.leaf_bytes());
        let options = self.patient.types().cloned().into_iter().fold(options, TableOptions::types);
        Wanted { name: self.name().to_owned(), options }
    }

    /// Was it opened later than `other`?
    fn is_newer_than(&self, other: &Self) -> bool {
        self.opened > other.opened
    }
}

/// A transaction that a client holds.
pub struct Open {
    /// The transaction.
    pub transaction: Transaction,
    /// Its place among those.
    pub place: Place,
}

/// Counts as long as it lives, unless it is given back before.
pub struct Place(Option<Arc<Shared>>);

impl Place {
    /// One more.
    pub fn take(shared: &Arc<Shared>) -> Self {
        shared.open_transactions.fetch_add(1, Relaxed);
        Self(Some(shared.clone()))
    }

    /// Counts no longer.
    pub fn give_back(&mut self) {
        if let Some(shared) = self.0.take() {
            shared.open_transactions.fetch_sub(1, Relaxed);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// A backup is being made as long as this lives.
pub struct BackingUp(Arc<Shared>);

impl BackingUp {
    /// Begins one, unless another one is being made.
    pub fn begin(shared: &Arc<Shared>) -> Option<Self> {
        (!shared.backing_up.swap(true, Relaxed)).then(|| Self(shared.clone()))
    }
}

impl Drop for BackingUp {
    fn drop(&mut self) {
        self.0.backing_up.store(false, Relaxed);
    }
}

/// The time of day, from the beginning of 1970.
pub fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Says something on stderr. Who has closed it hears nothing, and the server goes on.
pub fn tell(text: impl std::fmt::Display) {
    _ = writeln!(io::stderr(), "foreshore: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who asks for its rows meanwhile is answered.
    #[test]
    fn a_table_that_is_emptied_is_read_again() {
        let shared = Shared::new(Database::in_memory().unwrap(), Options::default());
        let wanted = crate::commands::default_table();
        let mut reads = 0;
        let rows = shared.read_opened(&wanted, |table| {
            reads += 1;
            if reads < READS {
                shared.db.drop_table(&wanted.name)?;
            }
            table.estimate_range(..)
        });
        assert_eq!((rows.unwrap(), reads), (0, READS));
    }

    #[test]
    fn a_thread_that_panics_stops_the_server() {
        let shared = Arc::new(Shared::new(Database::in_memory().unwrap(), Options::default()));
        let thread = start_thread(&shared, "panics", |_| panic!("as it should")).unwrap();
        assert!(thread.join().is_err() && shared.is_stopping());
    }
}
