//! Commits that are waited for later, or awaited.

use crate::core::Core;
use crate::error::Result;
use crate::log::{Durability, TaskName, Wanted};
use crate::spread::Held;
use foreshore_base::Lsn;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Says when an asynchronous commit is safe. Dropping it changes nothing. It does not keep the database open: whatever is
/// committed when that closes is safe then.
///
/// It is a future too, of any executor: `ticket.await` is [`CommitTicket::wait`] without a thread that waits. Its waker is called by a
/// thread of the log. Who goes on where it is woken, and waits there for something else than the engine, calls
/// [`will_wait`](crate::will_wait) first.
///
/// ```
/// # fn main() -> foreshore::Result<()> {
/// # let db = foreshore::Database::in_memory()?;
/// # let rows = db.byte_table("rows")?;
/// # fn block_on<T>(future: impl Future<Output = T>) -> T {
/// #     struct Unpark(std::thread::Thread);
/// #     impl std::task::Wake for Unpark {
/// #         fn wake(self: std::sync::Arc<Self>) {
/// #             self.0.unpark();
/// #         }
/// #     }
/// #     let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
/// #     let mut future = std::pin::pin!(future);
/// #     loop {
/// #         match future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
/// #             std::task::Poll::Ready(result) => return result,
/// #             std::task::Poll::Pending => std::thread::park(),
/// #         }
/// #     }
/// # }
/// let tx = db.begin()?;
/// tx.bytes(&rows).put(b"key", b"value")?;
/// let ticket = tx.commit_async()?;
/// assert_eq!(rows.get(b"key")?.as_deref(), Some(&b"value"[..]), "others see it before it is safe");
/// block_on(async { ticket.await })?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct CommitTicket {
    /// Not the engine, which would stay open: what a ticket waits for comes to pass without it.
    core: Held<Core>,
    end: Option<Lsn>,
    durability: Durability,
    /// What to ask for when it is awaited first.
    flight: Option<Wanted>,
    /// The task that awaited it last, which the log will wake.
    task: Option<TaskName>,
}

impl std::fmt::Debug for CommitTicket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CommitTicket({:?})", self.end)
    }
}

impl CommitTicket {
    /// For one commit, whose record ends at `end`, if it has one.
    pub(super) fn for_commit(core: Held<Core>, end: Option<Lsn>, durability: Durability) -> Self {
        Self { core, end, durability, flight: Some(Wanted::Own), task: None }
    }

    /// For everything committed so far.
    pub(super) fn for_all(core: Held<Core>) -> Self {
        let end = Some(core.log.logged());
        Self { core, end, durability: Durability::Sync, flight: Some(Wanted::Next), task: None }
    }

    /// Waits until the commit is as safe as its durability promises.
    ///
    /// Errors: [`Error::Poisoned`](crate::Error::Poisoned).
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// let tx = db.begin()?;
    /// tx.bytes(&t).put(b"k", b"v")?;
    /// let ticket = tx.commit_async()?;
    /// // … something else meanwhile …
    /// ticket.wait()?;
    /// # Ok(()) }
    /// ```
    pub fn wait(&self) -> Result<()> {
        let Some(end) = self.end else { return Ok(()) };
        match self.core.log.commit(end, self.durability) {
            Err(_) if self.is_durable() => Ok(()), // the database was closed meanwhile
            waited => waited,
        }
    }

    /// Would the commit survive a power failure by now?
    ///
    /// ```
    /// # fn main() -> foreshore::Result<()> {
    /// # let db = foreshore::Database::in_memory()?;
    /// # let t = db.byte_table("t")?;
    /// use foreshore::{Durability, TransactionOptions};
    /// let tx = db.begin_with(TransactionOptions::new().durability(Durability::Relaxed))?;
    /// tx.bytes(&t).put(b"k", b"v")?;
    /// let ticket = tx.commit_async()?;
    /// ticket.wait()?; // all that a relaxed commit waits for
    /// db.sync()?;
    /// assert!(ticket.is_durable());
    /// # Ok(()) }
    /// ```
    pub fn is_durable(&self) -> bool {
        self.end.is_none_or(|end| self.core.log.durable() >= end)
    }
}

impl Future for CommitTicket {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        match this.end {
            Some(end) if this.durability == Durability::Sync => {
                this.core.log.poll_commit(end, this.flight.take(), context.waker(), &mut this.task)
            }
            // This waits for nothing but the copying of records.
            _ => Poll::Ready(this.wait()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::log::Wanted;
    use crate::{ByteTable, CommitTicket, Database, Durability, Error, TransactionOptions};
    use foreshore_base::sync::{AtomicBool, AtomicUsize, Ordering::SeqCst};
    use foreshore_io::sim::{Call, Intercepted};
    use foreshore_io::{MemVfs, SimDisk};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::pin::Pin;
    use std::sync::{Arc, mpsc};
    use std::task::{Context, Poll, Wake, Waker};
    use std::time::{Duration, Instant};

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    fn commit(db: &Database, table: &ByteTable) -> CommitTicket {
        let tx = db.begin().unwrap();
        tx.bytes(table).put(b"k", b"v").unwrap();
        tx.commit_async().unwrap()
    }

    fn poll(ticket: &mut CommitTicket, waker: Waker) -> Poll<crate::Result<()>> {
        Pin::new(ticket).poll(&mut Context::from_waker(&waker))
    }

    /// However often it is polled, a ticket is one commit that waits. A task that polls it in the place of another is woken too.
    #[test]
    fn each_ticket_counts_once() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        let before = db.stats().log_waits;
        let hole = db.engine.core().log.reserve(8); // no flight carries what lies behind it
        let tx = db.begin_with(TransactionOptions::new().durability(Durability::Sync)).unwrap();
        tx.bytes(&table).put(b"k", b"v").unwrap();
        let mut ticket = tx.commit_async().unwrap();
        let tasks = [Arc::new(Woken::default()), Arc::new(Woken::default())];
        for task in &tasks {
            (0..5).for_each(|_| assert!(poll(&mut ticket, task.clone().into()).is_pending()));
        }
        assert_eq!(db.stats().log_waits, before + 1);
        hole.abandon();
        let begun = Instant::now();
        while tasks.iter().any(|task| task.0.load(SeqCst) == 0) {
            assert!(begun.elapsed() < Duration::from_secs(60), "nobody wakes it");
            std::thread::yield_now();
        }
        assert!(matches!(poll(&mut ticket, tasks[1].clone().into()), Poll::Ready(Ok(()))));
    }

    /// Nor does it leave a waker behind each time.
    #[test]
    fn each_task_is_woken_once() {
        let db = Database::in_memory().unwrap();
        let hole = db.engine.core().log.reserve(8); // no flight carries what lies behind it
        let mut ticket = db.sync_async();
        let task = Arc::new(Woken::default());
        let waker = Waker::from(task.clone());
        for _ in 0..1000 {
            assert!(poll(&mut ticket, waker.clone()).is_pending());
        }
        hole.abandon();
        ticket.wait().unwrap();
        db.close().unwrap(); // and with it the thread that wakes
        assert_eq!(task.0.load(SeqCst), 1);
    }

    /// What is dropped where its task is woken, as nobody else holds it.
    struct Forgotten {
        handles: Option<(Database, ByteTable)>,
        closed: mpsc::Sender<bool>,
    }

    impl Wake for Forgotten {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for Forgotten {
        fn drop(&mut self) {
            let closed = catch_unwind(AssertUnwindSafe(|| drop(self.handles.take())));
            self.closed.send(closed.is_ok()).unwrap();
        }
    }

    /// A task that is forgotten may hold the database itself, and nobody else: then it is closed by the thread that would wake the task.
    #[test]
    fn a_task_may_be_the_last_to_hold_the_database() {
        let disk = SimDisk::new(1);
        let options = Database::builder().cache_bytes(1 << 20).ring_bytes(1 << 20).segment_bytes(1 << 20);
        let open = || options.clone().open_on(Arc::new(disk.clone())).unwrap();
        let db = open();
        let table = db.byte_table("t").unwrap();
        let core = db.engine.core().clone();
        let hole = core.log.reserve(8); // no flight carries what lies behind it
        let mut ticket = commit(&db, &table);
        let (closed, is_closed) = mpsc::channel();
        let task = Arc::new(Forgotten { handles: Some((db, table)), closed });
        assert!(poll(&mut ticket, task.into()).is_pending());
        hole.abandon();
        assert!(is_closed.recv_timeout(Duration::from_secs(60)).unwrap(), "it waits for its own end");
        ticket.wait().unwrap();
        assert!(open().byte_table("t").unwrap().contains(b"k").unwrap());
        drop(ticket);
        assert_eq!(Arc::strong_count(&core), 1);
    }

    /// A database whose log is being written, as long as the device stands still. Many who come meanwhile travel with the next flight, as
    /// far as it knows.
    fn beside_many() -> (Database, ByteTable, Arc<AtomicBool>) {
        let (stands, reached) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (its, has_reached) = (stands.clone(), reached.clone());
        let slow = Intercepted::new(MemVfs::new(), move |call, name, go| {
            if call == Call::Sync && name == "wal-0000000000000000" {
                has_reached.store(true, SeqCst);
                while its.load(SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            go()
        });
        let options = Database::builder().cache_bytes(1 << 20).ring_bytes(1 << 20).segment_bytes(1 << 20);
        let db = options.open_on(Arc::new(slow)).unwrap();
        let table = db.byte_table("t").unwrap();
        stands.store(true, SeqCst);
        reached.store(false, SeqCst);
        let (mut first, idle) = (commit(&db, &table), Arc::new(Woken::default()));
        assert!(poll(&mut first, idle.clone().into()).is_pending());
        while !reached.load(SeqCst) {
            std::thread::yield_now();
        }
        for _ in 0..20 {
            let mut again = CommitTicket { flight: Some(Wanted::Own), ..first.clone() };
            assert!(poll(&mut again, idle.clone().into()).is_pending());
        }
        (db, table, stands)
    }

    /// A task that goes on where it is woken, and writes.
    struct Writes(ByteTable, mpsc::Sender<crate::Result<()>>);

    impl Wake for Writes {
        fn wake(self: Arc<Self>) {
            std::thread::sleep(Duration::from_millis(50)); // the other flusher has gone to sleep
            self.1.send(self.0.put(b"by the task", b"v")).unwrap();
        }
    }

    /// It may wait for what it writes: the flusher that it keeps from flying is not the one who is to carry that, however many commits
    /// the last flight has carried.
    #[test]
    fn a_task_may_wait_where_it_is_woken() {
        let (db, table, stands) = beside_many();
        let (written, is_written) = mpsc::channel();
        let mut ticket = commit(&db, &table);
        assert!(poll(&mut ticket, Arc::new(Writes(table.clone(), written)).into()).is_pending());
        stands.store(false, SeqCst);
        is_written
            .recv_timeout(Duration::from_secs(60))
            .expect("it waits for the thread that it is on")
            .unwrap();
    }

    /// A task that goes on where it is woken, and wants a row that somebody has locked, whom it tells so.
    struct Wants(ByteTable, mpsc::Sender<()>, mpsc::Sender<crate::Result<()>>);

    impl Wake for Wants {
        fn wake(self: Arc<Self>) {
            std::thread::sleep(Duration::from_millis(50)); // the other flusher has gone to sleep
            self.1.send(()).unwrap();
            self.2.send(self.0.put(b"row", b"by the task")).unwrap();
        }
    }

    /// It may wait for a thread that waits for the device, though that asks for no flight of its own.
    #[test]
    fn a_task_may_wait_for_who_waits_for_the_next_flight() {
        let (db, table, stands) = beside_many();
        let locks = db.begin().unwrap();
        locks.bytes(&table).put(b"row", b"by the thread").unwrap();
        let ((wants, is_wanted), (written, is_written)) = (mpsc::channel(), mpsc::channel());
        let task = Wants(table.with_lock_timeout(Duration::from_secs(300)), wants, written);
        let mut ticket = commit(&db, &table);
        assert!(poll(&mut ticket, Arc::new(task).into()).is_pending());
        stands.store(false, SeqCst);
        is_wanted.recv().unwrap();
        let (put, is_put) = mpsc::channel();
        let other = table.clone();
        std::thread::spawn(move || put.send(other.put(b"another row", b"v")));
        is_put.recv_timeout(Duration::from_secs(60)).expect("it waits for the task").unwrap();
        locks.commit().unwrap();
        is_written.recv_timeout(Duration::from_secs(60)).expect("nobody has it locked").unwrap();
    }

    /// A task that goes on where it is woken, and drops the table, of which it tells.
    struct Drops(Database, mpsc::Sender<()>, mpsc::Sender<crate::Result<bool>>);

    impl Wake for Drops {
        fn wake(self: Arc<Self>) {
            std::thread::sleep(Duration::from_millis(50)); // the other flusher has gone to sleep
            self.1.send(()).unwrap();
            self.2.send(self.0.drop_table("t")).unwrap();
        }
    }

    /// It may wait for a table's user, who waits for the device.
    #[test]
    fn a_task_may_drop_a_table_whose_user_waits_for_the_next_flight() {
        let (db, table, stands) = beside_many();
        let uses = db.begin().unwrap();
        uses.bytes(&table).put(b"row", b"by the thread").unwrap();
        let ((drops, begun), (dropped, is_dropped)) = (mpsc::channel(), mpsc::channel());
        let mut ticket = commit(&db, &table);
        assert!(poll(&mut ticket, Arc::new(Drops(db.clone(), drops, dropped)).into()).is_pending());
        stands.store(false, SeqCst);
        begun.recv().unwrap();
        uses.bytes(&table).put(b"another row", b"by the thread").unwrap();
        let (synced, is_synced) = mpsc::channel();
        std::thread::spawn(move || synced.send(db.sync()));
        is_synced.recv_timeout(Duration::from_secs(60)).expect("it waits for the task").unwrap();
        uses.commit().unwrap();
        let dropped = is_dropped.recv_timeout(Duration::from_secs(60)).expect("nobody uses it");
        assert!(matches!(dropped, Ok(true)), "{dropped:?}");
    }

    /// A task that goes on where it is woken, for long, with something else than the engine. It tells when it begins.
    struct Lingers(mpsc::Sender<()>, parking_lot::Mutex<mpsc::Receiver<()>>);

    impl Wake for Lingers {
        fn wake(self: Arc<Self>) {
            std::thread::sleep(Duration::from_millis(50)); // the other flusher has gone to sleep
            self.0.send(()).unwrap();
            let _ = self.1.lock().recv_timeout(Duration::from_secs(60));
        }
    }

    /// Others do not wait for it, though it does not say that it takes long.
    #[test]
    fn a_task_that_takes_long_where_it_is_woken_delays_no_other() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        let ((lingers, begun), (_ends, is_to_end)) = (mpsc::channel(), mpsc::channel());
        let task = Arc::new(Lingers(lingers, parking_lot::Mutex::new(is_to_end)));
        let hole = db.engine.core().log.reserve(8); // no flight carries what lies behind it
        assert!(poll(&mut db.sync_async(), task.into()).is_pending());
        hole.abandon();
        begun.recv_timeout(Duration::from_secs(60)).expect("the flight has landed");
        table.with_durability(Durability::Relaxed).put(b"k", b"v").unwrap();
        let mut ticket = db.sync_async();
        let (begin, idle) = (Instant::now(), Arc::new(Woken::default()));
        while poll(&mut ticket, idle.clone().into()).is_pending() {
            assert!(begin.elapsed() < Duration::from_secs(30), "it waits for the task");
            std::thread::sleep(Duration::from_millis(1));
        }
        ticket.wait().unwrap();
    }

    /// A task that goes on where it is woken, commits something for which another task waits, and then waits itself.
    struct Commits(Database, ByteTable, mpsc::Sender<crate::Result<()>>);

    impl Wake for Commits {
        fn wake(self: Arc<Self>) {
            let writes = Writes(self.1.clone(), self.2.clone());
            let _ = poll(&mut commit(&self.0, &self.1), Arc::new(writes).into());
            // It may give up something of its own while it waits.
            self.2.send(crate::before_waiting(|| (), || self.1.put(b"by the task", b"v"))).unwrap();
        }
    }

    /// However many tasks wait where they are woken, somebody is left who carries what they wait for.
    #[test]
    fn many_tasks_may_wait_where_they_are_woken() {
        const TASKS: usize = 5;
        let (db, table, stands) = beside_many();
        let (written, is_written) = mpsc::channel();
        for _ in 0..TASKS {
            let mut ticket = CommitTicket { flight: Some(Wanted::Next), ..commit(&db, &table) };
            let task = Commits(db.clone(), table.clone(), written.clone());
            assert!(poll(&mut ticket, Arc::new(task).into()).is_pending());
        }
        stands.store(false, SeqCst);
        for _ in 0..2 * TASKS {
            is_written.recv_timeout(Duration::from_secs(60)).expect("they wait for each other").unwrap();
        }
    }

    /// A task that goes on where it is woken, and looks at the database first.
    struct Looks(Database, mpsc::Sender<u64>);

    impl Wake for Looks {
        fn wake(self: Arc<Self>) {
            self.1.send(self.0.stats().pages).unwrap();
        }
    }

    /// Who meets a failure holds what others need, and is not the one who wakes tasks because of it.
    #[test]
    fn a_task_may_use_the_database_that_fails() {
        let fails = Arc::new(AtomicBool::new(false));
        let its = fails.clone();
        let vfs = Intercepted::new(MemVfs::new(), move |call, name, go| {
            let fails = call == Call::Write && name == "leaves.db" && its.load(SeqCst);
            if fails { Err(std::io::ErrorKind::Other.into()) } else { go() }
        });
        let db = Database::builder().cache_bytes(1 << 20).open_on(Arc::new(vfs)).unwrap();
        db.byte_table("t").unwrap().put(b"k", b"v").unwrap();
        let core = db.engine.core().clone();
        let hole = core.log.reserve(8); // no flight carries it
        let mut ticket = db.sync_async();
        let (looked, looks) = mpsc::channel();
        assert!(poll(&mut ticket, Arc::new(Looks(db.clone(), looked)).into()).is_pending());
        fails.store(true, SeqCst);
        let failed = std::thread::spawn(move || db.checkpoint());
        looks.recv_timeout(Duration::from_secs(60)).expect("it waits for who woke it");
        assert!(matches!(failed.join().unwrap(), Err(Error::Poisoned { .. })));
        assert!(matches!(ticket.wait(), Err(Error::Poisoned { .. })));
        hole.abandon();
    }
}
