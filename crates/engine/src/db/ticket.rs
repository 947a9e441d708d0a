//! Commits that are waited for later, or awaited.

use crate::error::Result;
use crate::log::{Durability, Wanted};
use crate::spread::Held;
use crate::tree::Core;
use foreshore_base::Lsn;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Says when an asynchronous commit is safe. Dropping it changes nothing. It does not keep the database open: whatever is
/// committed when that closes is safe then.
///
/// It is a future too, of any executor: `ticket.await` is [`CommitTicket::wait`] without a thread that waits.
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
    /// Not the engine: the thread that wakes a task may be the last to hold the ticket, and cannot wait for its own end, as
    /// who closes a database must.
    pub(super) core: Held<Core>,
    pub(super) end: Option<Lsn>,
    pub(super) durability: Durability,
    pub(super) flight: Wanted,
}

impl std::fmt::Debug for CommitTicket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CommitTicket({:?})", self.end)
    }
}

impl CommitTicket {
    /// For everything committed so far.
    pub(super) fn for_all(core: Held<Core>) -> Self {
        let end = Some(core.log.reserved());
        Self { core, end, durability: Durability::Sync, flight: Wanted::Next }
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
        match self.end {
            Some(end) if self.durability == Durability::Sync => {
                self.core.log.poll_commit(end, self.flight, context.waker())
            }
            // This waits for nothing but the copying of records.
            _ => Poll::Ready(self.wait()),
        }
    }
}
