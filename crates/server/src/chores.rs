//! What takes too long for an event loop: walks through whole tables, checkpoints. Two threads do it, and send the reply
//! to the loop of the client, whose further requests wait for it.

use crate::event_loop::Message;
use crate::shared::Shared;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

const THREADS: usize = 2;

/// Chores that may wait.
const QUEUED_MAX: usize = 1024;

/// What is to be done; returns the reply.
pub type Work = Box<dyn FnOnce(&Shared) -> Vec<u8> + Send>;

/// A chore, and who waits for it.
pub struct Chore {
    /// What is to be done.
    pub work: Work,
    /// The client's event loop.
    pub home: usize,
    /// The client's place there, and its id, in case it has left.
    pub client: (usize, u64),
}

/// The queue of chores. Empty of threads until [`Chores::start`].
#[derive(Default)]
pub struct Chores {
    queue: Mutex<Option<SyncSender<Chore>>>,
}

impl Chores {
    /// Starts the threads.
    pub fn start(&self, shared: &Arc<Shared>) -> std::io::Result<Vec<JoinHandle<()>>> {
        let (sender, receiver) = sync_channel(QUEUED_MAX);
        let receiver = Arc::new(Mutex::new(receiver));
        *self.queue.lock() = Some(sender);
        let thread = |n| {
            let (shared, receiver) = (shared.clone(), receiver.clone());
            thread::Builder::new().name(format!("foreshore-chore-{n}")).spawn(move || run(&shared, &receiver))
        };
        (0..THREADS).map(thread).collect()
    }

    /// Hands a chore over; `false` if too many wait.
    pub fn hand_over(&self, chore: Chore) -> bool {
        self.queue.lock().as_ref().is_some_and(|queue| queue.try_send(chore).is_ok())
    }

    /// Lets the threads finish what is queued, and go.
    pub fn stop(&self) {
        *self.queue.lock() = None;
    }
}

fn run(shared: &Shared, queue: &Mutex<Receiver<Chore>>) {
    loop {
        // The mutex is held while waiting: the next chore goes to whoever waits for it.
        let Ok(Chore { work, home, client }) = queue.lock().recv() else { return };
        let reply = work(shared);
        if let Some(inbox) = shared.inboxes.get().and_then(|inboxes| inboxes.get(home)) {
            inbox.send(Message::ChoreDone { client, reply });
        }
    }
}
