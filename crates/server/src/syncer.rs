//! Waits for the device, so that an event loop need not.
//!
//! With `Durability::Sync` the replies of a batch that wrote something are withheld. Once a batch is executed the loop
//! takes one ticket for all of it; this thread waits for the newest ticket there is, and tells the loop. So all
//! clients whose requests came while the device was busy share its next write, and reads of others go on meanwhile.

use crate::event_loop::Inbox;
use foreshore::{CommitTicket, Error};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

/// What a loop and its syncer tell each other.
#[derive(Default)]
pub struct Progress {
    /// The newest batch that is durable.
    pub durable: AtomicU64,
    /// A sync has failed: nothing more will be durable.
    pub has_failed: AtomicBool,
}

/// The way to the thread. It goes when this is dropped.
pub struct Syncer {
    batches: Sender<(u64, CommitTicket)>,
    /// What it has reached.
    pub progress: Arc<Progress>,
}

impl Syncer {
    /// Starts the thread for the loop behind `inbox`.
    pub fn start(home: usize, inbox: Arc<Inbox>) -> io::Result<(Self, JoinHandle<()>)> {
        let (batches, receiver) = channel();
        let progress = Arc::new(Progress::default());
        let told = progress.clone();
        let thread = thread::Builder::new()
            .name(format!("foreshore-sync-{home}"))
            .spawn(move || run(&receiver, &told, &inbox))?;
        Ok((Self { batches, progress }, thread))
    }

    /// Asks for `batch`, whose number is above those asked for before.
    pub fn ask(&self, batch: u64, ticket: CommitTicket) {
        // The thread lives as long as this sender.
        let _ = self.batches.send((batch, ticket));
    }
}

fn run(batches: &Receiver<(u64, CommitTicket)>, progress: &Progress, inbox: &Inbox) {
    while let Ok(first) = batches.recv() {
        // Tickets of one loop only grow: the newest covers the others.
        let (batch, ticket) = batches.try_iter().last().unwrap_or(first);
        match ticket.wait() {
            Ok(()) => progress.durable.store(batch, SeqCst),
            Err(error) => fail(progress, &error),
        }
        inbox.wake();
    }
}

fn fail(progress: &Progress, error: &Error) {
    if !progress.has_failed.swap(true, SeqCst) {
        eprintln!(
            "foreshore: writes can no longer be acknowledged, and their clients are disconnected: {error}"
        );
    }
}
