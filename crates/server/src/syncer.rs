//! What replies wait for, if they wait for the device.
//!
//! With `Durability::Sync` the replies of a batch that wrote something are withheld. Once a batch is executed the loop
//! takes one ticket for all of it, and is woken when that is durable; meanwhile it serves others. While one ticket is waited
//! for, newer ones replace each other: so all clients whose requests came while the device was busy share its next write.

use crate::event_loop::Inbox;
use foreshore::{CommitTicket, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Wake};

/// The batches of one loop, numbered in their order, and how far they are durable.
pub struct Syncer {
    bell: Arc<Bell>,
    /// Which ticket is waited for.
    waits_for: Option<(u64, CommitTicket)>,
    /// The newest one behind it.
    next: Option<(u64, CommitTicket)>,
    durable: u64,
}

/// Rung when it is worth asking the ticket again.
struct Bell {
    has_rung: AtomicBool,
    inbox: Arc<Inbox>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.has_rung.store(true, SeqCst);
        self.inbox.wake();
    }
}

impl Syncer {
    /// Nothing is waited for yet. The loop behind `inbox` is woken when [`Syncer::advance`] has news.
    pub fn new(inbox: Arc<Inbox>) -> Self {
        let bell = Arc::new(Bell { has_rung: AtomicBool::new(false), inbox });
        Self { bell, waits_for: None, next: None, durable: 0 }
    }

    /// Waits for `batch` too, whose number is above those before, from the next [`Syncer::advance`] on.
    pub fn add(&mut self, batch: u64, ticket: CommitTicket) {
        self.next = Some((batch, ticket));
    }

    /// The newest batch that is durable.
    ///
    /// Errors: nothing more will be.
    pub fn advance(&mut self) -> Result<u64> {
        let is_due = self.bell.has_rung.swap(false, SeqCst);
        while is_due || self.waits_for.is_none() {
            let Some((batch, mut ticket)) = self.waits_for.take().or_else(|| self.next.take()) else { break };
            let waker = self.bell.clone().into();
            match Pin::new(&mut ticket).poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(result) => result?,
                Poll::Pending => {
                    self.waits_for = Some((batch, ticket));
                    break;
                }
            }
            self.durable = batch;
        }
        Ok(self.durable)
    }
}
