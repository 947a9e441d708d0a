//! What takes too long for an event loop: walks through whole tables, checkpoints, what may wait for the device, heavy
//! transactions, large reads. Threads of their own do it, and send the reply to the loop of the client, whose further requests wait for it.
//!
//! Why several queues: who opens a table, or asks for INFO, must not wait for the walks of others; and FLUSHDB waits for
//! transactions to end.

use crate::commands::{Attempt, CommandError};
use crate::event_loop::Message;
use crate::request::OwnedArgs;
use crate::session::Session;
use crate::shared::{Shared, Thread, start_thread};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// How long a chore takes, and so who does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// It waits for the device, or for who holds the list of tables.
    Brief,
    /// It walks through tables, or waits for transactions.
    Long,
    /// It ends a transaction, for which those of the other lengths may wait, or waits until one is rolled back; or reads much, and waits
    /// for nobody either.
    Ending,
}

impl Length {
    fn threads(self) -> usize {
        match self {
            Self::Brief => 1,
            Self::Long | Self::Ending => 2,
        }
    }
}

/// Chores that may wait, in each queue.
const QUEUED_MAX: usize = 1024;

/// What is to be done.
pub type Work = Box<dyn FnOnce(&Shared) -> Brought + Send>;

/// What it brings.
pub enum Brought {
    /// The reply.
    Reply(Vec<u8>),
    /// Whether the table is open that the command at hand needs.
    Opened(Result<(), CommandError>),
    /// The client's session, which was there for its command, that command's arguments, and the reply.
    Command(Box<Session>, OwnedArgs, Vec<u8>, Attempt),
}

/// A chore, and who waits for it.
pub struct Chore {
    /// What is to be done.
    pub work: Work,
    /// The client's event loop.
    pub home: usize,
    /// The client's place there, and its id, in case it has left.
    pub client: (usize, u64),
}

/// The queues of chores. Empty of threads until [`Chores::start`].
#[derive(Default)]
pub struct Chores {
    brief: Queue,
    long: Queue,
    ending: Queue,
    /// Nobody waits for replies any more.
    has_ended: AtomicBool,
}

type Queue = Mutex<Option<SyncSender<Chore>>>;

impl Chores {
    /// Starts the threads, and adds them to `threads`.
    pub fn start(&self, shared: &Arc<Shared>, threads: &mut Vec<Thread>) -> io::Result<()> {
        for length in [Length::Brief, Length::Long, Length::Ending] {
            let (sender, receiver) = sync_channel(QUEUED_MAX);
            let receiver = Arc::new(Mutex::new(receiver));
            *self.queue(length).lock() = Some(sender);
            for n in 0..length.threads() {
                let receiver = receiver.clone();
                let name = format!("foreshore-{length:?}-{n}").to_lowercase();
                threads.push(start_thread(shared, name, move |shared| {
                    run(shared, &receiver);
                    Ok(())
                })?);
            }
        }
        Ok(())
    }

    /// Hands a chore over; gives it back if too many wait.
    pub fn hand_over(&self, length: Length, chore: Chore) -> Result<(), Chore> {
        match self.queue(length).lock().as_ref() {
            Some(queue) => queue.try_send(chore).map_err(|error| match error {
                TrySendError::Full(chore) | TrySendError::Disconnected(chore) => chore,
            }),
            None => Err(chore),
        }
    }

    /// Lets the threads finish what they are at, and go; what is queued is not begun.
    pub fn stop(&self) {
        self.has_ended.store(true, Relaxed);
        for queue in [&self.brief, &self.long, &self.ending] {
            *queue.lock() = None;
        }
    }

    fn queue(&self, length: Length) -> &Queue {
        match length {
            Length::Brief => &self.brief,
            Length::Long => &self.long,
            Length::Ending => &self.ending,
        }
    }
}

fn run(shared: &Shared, queue: &Mutex<Receiver<Chore>>) {
    loop {
        // The mutex is held while waiting: the next chore goes to whoever waits for it.
        let Ok(Chore { work, home, client }) = queue.lock().recv() else { return };
        if shared.chores.has_ended.load(Relaxed) {
            continue;
        }
        let brought = work(shared);
        if let Some(inbox) = shared.inboxes.get().and_then(|inboxes| inboxes.get(home)) {
            inbox.send(Message::ChoreDone { client, brought });
        }
    }
}
