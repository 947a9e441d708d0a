//! What replies wait for, if they wait for the device.
//!
//! With `Durability::Sync` the replies of a batch that wrote something are withheld. Once a batch is executed the loop
//! takes one ticket for all of it, and is woken when that is durable; meanwhile it serves others. The log writes once at a
//! time for such tickets: so all clients of all loops whose requests came while the device was busy share its next write.

use crate::event_loop::Inbox;
use foreshore::{CommitTicket, Result};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};

/// The batches of one loop, numbered in their order, and how far they are durable.
pub struct Syncer {
    bell: Arc<Bell>,
    waker: Waker,
    /// What is not known to be durable, in the order of the batches. Only the first ticket rings the bell: a flight lands for
    /// many, and would ring it for each.
    under_way: VecDeque<(u64, CommitTicket)>,
    durable: u64,
}

/// Rung when it is worth asking the tickets again.
struct Bell {
    has_rung: AtomicBool,
    inbox: Arc<Inbox>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        // Who has rung before has woken the loop, and it has not looked yet.
        if !self.has_rung.swap(true, SeqCst) {
            self.inbox.wake();
        }
    }
}

impl Syncer {
    /// Nothing is waited for yet. The loop behind `inbox` is woken when [`Syncer::advance`] has news.
    pub fn new(inbox: Arc<Inbox>) -> Self {
        let bell = Arc::new(Bell { has_rung: AtomicBool::new(false), inbox });
        Self { waker: bell.clone().into(), bell, under_way: VecDeque::new(), durable: 0 }
    }

    /// Waits for `batch` too, whose number is above those before.
    pub fn add(&mut self, batch: u64, mut ticket: CommitTicket) {
        let waker = if self.under_way.is_empty() { &self.waker } else { Waker::noop() };
        // The log is asked for its next write by this. If there is news already, `advance` is told it again.
        if Pin::new(&mut ticket).poll(&mut Context::from_waker(waker)).is_ready() {
            self.bell.has_rung.store(true, SeqCst);
        }
        self.under_way.push_back((batch, ticket));
    }

    /// The newest batch that is durable.
    ///
    /// Errors: nothing more will be.
    pub fn advance(&mut self) -> Result<u64> {
        if self.bell.has_rung.swap(false, SeqCst) {
            while let Some((batch, mut ticket)) = self.under_way.pop_front() {
                match Pin::new(&mut ticket).poll(&mut Context::from_waker(&self.waker)) {
                    Poll::Ready(result) => result?,
                    Poll::Pending => {
                        self.under_way.push_front((batch, ticket));
                        break;
                    }
                }
                self.durable = batch;
            }
        }
        Ok(self.durable)
    }
}
