//! An event loop: one thread that serves its clients, and waits for nothing but readiness.
//!
//! A round: who is ready has a turn, in which its requests are executed; then, if replies must wait for the device, one
//! ticket is taken for all that was written in the round; then replies leave. What would take long or might block goes
//! elsewhere: the device to `syncer.rs`, walks through tables to `chores.rs`, locks of others to a later round.

use crate::chores::{Brought, Chore, Length};
use crate::clients::Client;
use crate::commands::default_table;
use crate::connection::{Connection, Io, Stop};
use crate::counters::Counters;
use crate::session::Session;
use crate::shared::{Open, Shared, tell};
use crate::syncer::Syncer;
use foreshore::Error;
use foreshore_base::seeded_bug;
use mio::{Events, Interest, Poll, Token, Waker};
use parking_lot::Mutex;
use slab::Slab;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

const WAKER: Token = Token(usize::MAX);

/// Requests of one client in one turn.
const REQUESTS_PER_TURN: usize = 256;

/// After a round of so many requests the loop looks so often who is ready, giving way in between, before it sleeps: to be
/// woken costs both the loop and who wakes it. After a small round that would be dearer than the requests, unless the loop is alone
/// and waits for no device: then there is a core that nobody else needs.
const BUSY_FROM: usize = 64;
const LOOKS: u32 = 30;

/// Bytes read at a time, and how often in one turn: a client that sends a large value as fast as it is taken stops nobody.
const READ_BYTES: usize = 64 << 10;
const READS_PER_TURN: usize = 16;

/// How often overdue clients are looked for.
const LOOK: Duration = Duration::from_millis(500);

/// The same during a shutdown, which ends when all clients have their replies.
const LAST_LOOK: Duration = Duration::from_millis(5);

/// A shutdown waits no longer than a year. No clock could tell the end of the longest grace there is.
const GRACE_MAX: Duration = Duration::from_secs(365 * 86_400);

/// What others tell a loop.
pub enum Message {
    /// A new client.
    Client(TcpStream, Arc<Client>),
    /// A chore is done.
    ChoreDone {
        /// The client's place and id.
        client: (usize, u64),
        /// What it brings.
        brought: Brought,
    },
    /// Some of its clients are gone, as they say.
    Kill,
}

/// The way into a loop, from any thread.
pub struct Inbox {
    messages: Mutex<Vec<Message>>,
    waker: Waker,
}

impl Inbox {
    /// Leaves a message.
    pub fn send(&self, message: Message) {
        self.messages.lock().push(message);
        self.wake();
    }

    /// Forgets what its loop, which has ended, has not read: clients see their connection end, transactions are rolled back.
    pub fn clear(&self) {
        let unread = std::mem::take(&mut *self.messages.lock());
        drop(unread);
    }

    /// Makes the loop look around.
    pub fn wake(&self) {
        // The only way to fail is a waker without its loop, which has nothing to look at any more.
        let _ = self.waker.wake();
    }
}

/// Replies that wait for the device.
struct Held {
    batch: u64,
    client: (usize, u64),
    end: u64,
}

/// The loop.
pub struct EventLoop {
    home: usize,
    shared: Arc<Shared>,
    poll: Poll,
    inbox: Arc<Inbox>,
    /// There if replies to writes wait for the device.
    syncer: Option<Syncer>,
    connections: Slab<Connection>,
    /// Memory of the clients that are counted, and how much of it is theirs whatever those of other loops have.
    clients_bytes: usize,
    share_bytes: usize,
    /// Who has a turn in the next round.
    ready: Vec<usize>,
    /// Who has one in this round. Empty between rounds.
    turns: Vec<usize>,
    /// Whose command is to be tried again, and when.
    put_off: BinaryHeap<Reverse<(Instant, usize, u64)>>,
    /// In the order of their batches.
    held: VecDeque<Held>,
    batch: u64,
    scratch: Box<[u8]>,
    looked: Instant,
    /// Requests of a round after which it looks.
    busy_from: usize,
    /// How often it still looks who is ready before it sleeps.
    looks: u32,
    /// When a shutdown gives up on clients that do not take their replies.
    ends: Option<Instant>,
}

impl EventLoop {
    /// A loop without clients, and the way into it.
    pub fn new(home: usize, shared: Arc<Shared>) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let inbox = Arc::new(Inbox { messages: Mutex::default(), waker });
        let is_alone = shared.options.threads == 1 && !shared.is_sync();
        Ok(Self {
            home,
            syncer: shared.is_sync().then(|| Syncer::new(inbox.clone())),
            clients_bytes: 0,
            share_bytes: shared.options.client_memory / shared.options.threads,
            shared,
            poll,
            inbox,
            connections: Slab::new(),
            ready: Vec::new(),
            turns: Vec::new(),
            put_off: BinaryHeap::new(),
            held: VecDeque::new(),
            batch: 0,
            scratch: vec![0; READ_BYTES].into(),
            looked: Instant::now(),
            busy_from: if is_alone { 1 } else { BUSY_FROM },
            looks: 0,
            ends: None,
        })
    }

    /// The way into it.
    pub fn inbox(&self) -> Arc<Inbox> {
        self.inbox.clone()
    }

    /// Serves until the server stops.
    ///
    /// Errors: those of `epoll_wait`, after which nothing goes on.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        while !self.has_ended() {
            let patience = if self.looks_again() { Duration::ZERO } else { self.patience() };
            match self.poll.poll(&mut events, Some(patience)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in &events {
                self.note(event);
            }
            self.read_messages();
            self.round();
        }
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.ends.is_some_and(|ends| self.connections.is_empty() || Instant::now() >= ends)
    }

    /// Does the loop only look who is ready, instead of sleeping? Then it has given way to others.
    fn looks_again(&mut self) -> bool {
        let looks = self.looks > 0 && self.ready.is_empty();
        if looks {
            self.looks -= 1;
            thread::yield_now();
        }
        looks
    }

    /// How long the loop may sleep.
    fn patience(&self) -> Duration {
        if !self.ready.is_empty() {
            return Duration::ZERO;
        }
        let next = self.put_off.peek().map(|Reverse((at, ..))| at.saturating_duration_since(Instant::now()));
        // `epoll_wait` counts milliseconds and rounds up.
        next.map_or(self.look(), |next| next.min(self.look()))
    }

    fn look(&self) -> Duration {
        if self.ends.is_some() { LAST_LOOK } else { LOOK }
    }

    fn note(&mut self, event: &mio::event::Event) {
        let Some(connection) = self.connections.get_mut(event.token().0) else { return };
        connection.is_read_closed |= event.is_read_closed() || event.is_error();
        connection.is_readable |= event.is_readable() || connection.is_read_closed;
        connection.is_writable |= event.is_writable() || event.is_error();
        if event.is_write_closed() {
            connection.session.client.is_gone.store(true, Relaxed);
        }
        self.ready.push(event.token().0);
    }

    fn read_messages(&mut self) {
        let messages = std::mem::take(&mut *self.inbox.messages.lock());
        let mut some_are_gone = false;
        for message in messages {
            match message {
                Message::Client(stream, client) => self.welcome(stream, client),
                Message::ChoreDone { client, brought } => {
                    let shared = self.shared.clone();
                    if let Some(connection) = self.find(client) {
                        connection.chore_done(&shared, brought);
                        self.ready.push(client.0);
                    } else if let Brought::Command(mut session, ..) = brought {
                        self.give_up(session.take_open(), client);
                    }
                }
                Message::Kill => some_are_gone = true,
            }
        }
        if some_are_gone {
            self.drop_gone();
        }
    }

    /// Forgets who is gone. All at once: to look for each through all of them takes long if many are killed.
    fn drop_gone(&mut self) {
        let is_gone = |(at, c): (usize, &Connection)| c.session.client.is_gone.load(Relaxed).then_some(at);
        let gone: Vec<_> = self.connections.iter().filter_map(is_gone).collect();
        gone.into_iter().for_each(|at| self.leave(at));
    }

    /// The connection at this place, if it is still this client's.
    fn find(&mut self, (at, id): (usize, u64)) -> Option<&mut Connection> {
        self.connections.get_mut(at).filter(|connection| connection.session.client.id == id)
    }

    fn welcome(&mut self, stream: TcpStream, client: Arc<Client>) {
        let id = client.id;
        if client.is_gone.load(Relaxed) {
            self.shared.clients.leave(id);
        } else if self.shared.is_stopping() || self.enter(stream, client).is_err() {
            self.shared.clients.leave(id);
            self.count_dropped();
        }
    }

    fn enter(&mut self, stream: TcpStream, client: Arc<Client>) -> io::Result<()> {
        let target =
            self.shared.find_opened(&default_table().name).expect("opened when the server was started");
        let session = Session::new(client, target, self.shared.options.password.is_none());
        let entry = self.connections.vacant_entry();
        let mut stream = mio::net::TcpStream::from_std(stream);
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, Token(entry.key()), interest)?;
        self.ready.push(entry.key());
        entry.insert(Connection::new(stream, session, &self.shared));
        Ok(())
    }

    fn round(&mut self) {
        let now = Instant::now();
        while self.put_off.peek().is_some_and(|Reverse((at, ..))| *at <= now) {
            let Reverse((_, at, id)) = self.put_off.pop().expect("just seen");
            if self.find((at, id)).is_some() {
                self.ready.push(at);
            }
        }
        self.release_durable();
        self.stop_if_asked();
        let mut turns = std::mem::take(&mut self.turns);
        turns.append(&mut self.ready);
        turns.sort_unstable();
        turns.dedup();
        let mut clock = now;
        let served: usize = turns.iter().map(|&at| self.turn(at, &mut clock)).sum();
        if served >= self.busy_from {
            self.looks = LOOKS;
        }
        self.hold(&turns);
        turns.iter().for_each(|&at| self.send(at, clock));
        turns.iter().for_each(|&at| self.count_bytes(at));
        self.evict_largest();
        turns.clear();
        self.turns = turns;
        if now.saturating_duration_since(self.looked) >= self.look() {
            self.looked = now;
            self.give_back_places();
            self.drop_overdue(now);
            self.try_the_slow();
        }
    }

    /// Executes what a client has sent; returns how many requests. `clock` is when the last command was done.
    fn turn(&mut self, at: usize, clock: &mut Instant) -> usize {
        let mut budget = REQUESTS_PER_TURN;
        self.turn_within(at, &mut budget, clock);
        // Who has quit may take a while for its replies, and others wait for what it has locked.
        let closing = self.connections.get_mut(at).filter(|connection| connection.is_closing);
        let open = closing.and_then(|connection| connection.session.take_open());
        self.give_up(open, (at, 0));
        REQUESTS_PER_TURN - budget
    }

    fn turn_within(&mut self, at: usize, budget: &mut usize, clock: &mut Instant) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        connection.begin_turn(*clock);
        let mut reads = 0;
        loop {
            let Some(connection) = self.connections.get_mut(at) else { return };
            let stop = connection.execute(&self.shared, budget, clock);
            let receives = match stop {
                Stop::NeedsInput => connection.is_readable,
                Stop::Waits => connection.is_readable && connection.receives_ahead(&self.shared),
                _ => false,
            };
            match stop {
                _ if receives && reads == READS_PER_TURN => return self.ready.push(at),
                _ if receives => {
                    reads += 1;
                    match connection.receive(&mut self.scratch, &self.shared.counters[self.home], *clock) {
                        Io::Progress => {}
                        Io::Blocked => return,
                        Io::Broken => return self.leave(at),
                    }
                }
                Stop::NeedsInput | Stop::Waits => return,
                Stop::Enough => return self.ready.push(at),
                Stop::PutOff(pause) => {
                    let id = connection.session.client.id;
                    return self.put_off.push(Reverse((Instant::now() + pause, at, id)));
                }
                Stop::Chore(length, work) => {
                    let client = (at, connection.session.client.id);
                    let chore = Chore { work, home: self.home, client };
                    if let Err(chore) = self.shared.chores.hand_over(length, chore) {
                        connection.chore_refused(&self.shared, length, chore.work);
                    }
                }
            }
        }
    }

    /// Withholds the replies of clients that have written in this round.
    fn hold(&mut self, turns: &[usize]) {
        if self.syncer.is_none() {
            return;
        }
        let batch = self.batch + 1;
        let held_before = self.held.len();
        for &at in turns {
            let Some(connection) = self.connections.get_mut(at) else { continue };
            if connection.session.has_written && !seeded_bug("serve_reply_before_sync") {
                let end = connection.hold();
                let client = (at, connection.session.client.id);
                self.held.push_back(Held { batch, client, end });
            }
        }
        if self.held.len() == held_before {
            return;
        }
        self.batch = batch;
        Counters::add(&self.shared.counters[self.home].batches, 1);
        let ticket = self.shared.db.sync_async();
        self.syncer.as_mut().expect("looked at above").add(batch, ticket);
        self.release_durable();
    }

    /// Lets replies leave whose batch is durable.
    fn release_durable(&mut self) {
        match self.syncer.as_mut().map(Syncer::advance) {
            Some(Ok(durable)) => self.release(durable),
            Some(Err(error)) => self.fail(&error),
            None => {}
        }
    }

    /// Lets replies leave whose batch is at most `durable`.
    fn release(&mut self, durable: u64) {
        while self.held.front().is_some_and(|held| held.batch <= durable) {
            let Held { client, end, .. } = self.held.pop_front().expect("just seen");
            if let Some(connection) = self.find(client) {
                connection.release(end);
                self.ready.push(client.0);
            }
        }
    }

    /// What cannot be acknowledged is not: those clients see their connection end.
    fn fail(&mut self, error: &Error) {
        self.shared.note_failure(error);
        for held in std::mem::take(&mut self.held) {
            if self.find(held.client).is_some() {
                self.leave(held.client.0);
            }
        }
    }

    fn send(&mut self, at: usize, now: Instant) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        let was_full = connection.is_full(&self.shared);
        match connection.send(&self.shared.counters[self.home], now) {
            Io::Broken => self.leave(at),
            // It takes more in the next round, or had to wait for this.
            _ if connection.sends_on() || (was_full && !connection.is_full(&self.shared)) => {
                self.ready.push(at);
            }
            _ => {}
        }
    }

    fn count_bytes(&mut self, at: usize) {
        let Some(connection) = self.connections.get_mut(at) else { return };
        let (before, now) = (connection.counted_bytes, connection.bytes());
        connection.counted_bytes = now;
        self.count(before, now);
    }

    /// What a client has becomes `now`, in the sum of this loop's and in that of all.
    fn count(&mut self, before: usize, now: usize) {
        if before != now {
            self.clients_bytes = self.clients_bytes - before + now;
            self.shared.clients_bytes.fetch_add(now.wrapping_sub(before), Relaxed);
        }
    }

    /// Sends clients away, the largest first, as long as those of all loops have too much memory, and those of this one more
    /// than their share of it. If these have not, there are some that have.
    fn evict_largest(&mut self) {
        let max = self.shared.options.client_memory;
        while self.shared.clients_bytes.load(Relaxed) > max {
            if self.clients_bytes <= self.share_bytes {
                return self.shared.wake_others(self.home);
            }
            let largest = self.connections.iter().max_by_key(|(_, c)| c.counted_bytes);
            let (at, largest) = largest.expect("somebody has what is counted");
            tell(format_args!(
                "client {} is disconnected: it has {} KiB, and all clients more than the {} KiB that they may have; see \
                 --client-memory",
                largest.session.client.addr,
                largest.counted_bytes >> 10,
                max >> 10
            ));
            self.leave(at);
            Counters::add(&self.shared.counters[self.home].evicted, 1);
        }
    }

    fn stop_if_asked(&mut self) {
        if self.shared.is_stopping() && self.ends.is_none() {
            self.ends = Some(Instant::now() + self.shared.options.grace.min(GRACE_MAX));
            let mut connections = std::mem::take(&mut self.connections);
            for (at, connection) in &mut connections {
                // The client may be waiting for a reply, and this is none: nobody has the id 0.
                self.give_up(connection.session.take_open(), (at, 0));
                connection.close();
                self.ready.push(at);
            }
            self.connections = connections;
        }
    }

    /// Gives back the places of transactions that were idle for too long.
    fn give_back_places(&mut self) {
        if self.shared.open_transactions() > 0 {
            let running = self.shared.db.transactions();
            self.connections.iter_mut().for_each(|(_, c)| c.session.give_back_place(&running));
        }
    }

    fn drop_overdue(&mut self, now: Instant) {
        let overdue = |(at, c): (usize, &Connection)| c.is_overdue(&self.shared, now).then_some(at);
        let overdue: Vec<_> = self.connections.iter().filter_map(overdue).collect();
        for at in overdue {
            self.leave(at);
            self.count_dropped();
        }
    }

    fn try_the_slow(&mut self) {
        let slow = self.connections.iter_mut().filter_map(|(at, c)| c.is_to_be_tried().then_some(at));
        self.ready.extend(slow);
    }

    fn count_dropped(&self) {
        Counters::add(&self.shared.counters[self.home].dropped, 1);
    }

    /// Forgets a client.
    fn leave(&mut self, at: usize) {
        let mut connection = self.connections.remove(at);
        self.count(connection.counted_bytes, 0);
        let id = connection.session.client.id;
        connection.session.client.is_gone.store(true, Relaxed);
        connection.recall();
        self.give_up(connection.session.take_open(), (at, id));
        // Closing the socket would deregister it too; an error changes nothing.
        let _ = self.poll.registry().deregister(&mut connection.stream);
        self.shared.clients.leave(id);
    }

    /// Rolls back what a client held that has left, or is to.
    fn give_up(&self, open: Option<Open>, client: (usize, u64)) {
        if let Some(open) = open {
            // To roll it back takes as long as it did. Not handed over, it is done here.
            let work = Box::new(move |_: &Shared| {
                drop(open);
                Brought::Reply(Vec::new())
            });
            let chore = Chore { work, home: self.home, client };
            drop(self.shared.chores.hand_over(Length::Ending, chore));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use foreshore::Database;
    use std::net::TcpListener;

    /// Others see a client when it has been accepted, and the message of its coming may be later than that of its going.
    #[test]
    fn a_client_that_is_killed_before_it_is_here_goes() {
        let shared = Arc::new(Shared::new(Database::in_memory().unwrap(), Options::default()));
        shared.open(&default_table()).unwrap();
        let mut event_loop = EventLoop::new(0, shared.clone()).unwrap();
        assert!(shared.inboxes.set(vec![event_loop.inbox()]).is_ok());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let stream = TcpStream::connect(addr).unwrap();
        let client = shared.clients.enter((addr, addr), 0, &default_table().name, 1).unwrap();
        client.kill(&shared);
        event_loop.inbox.send(Message::Client(stream, client));
        event_loop.read_messages();
        assert!(event_loop.connections.is_empty());
        assert_eq!(shared.clients.count(), 0);
    }

    /// Clients whose writes are executed wait for their answers meanwhile, and only as long as the grace.
    #[test]
    fn a_loop_that_stops_leaves_rollbacks_to_others() {
        let shared = Arc::new(Shared::new(Database::in_memory().unwrap(), Options::default()));
        shared.open(&default_table()).unwrap();
        let mut event_loop = EventLoop::new(0, shared.clone()).unwrap();
        let mut helpers = Vec::new();
        shared.chores.start(&shared, &mut helpers).unwrap();
        let keep_busy = |_| {
            let (held, released) = std::sync::mpsc::channel::<()>();
            let work = Box::new(move |_: &Shared| {
                _ = released.recv();
                Brought::Reply(Vec::new())
            });
            assert!(shared.chores.hand_over(Length::Ending, Chore { work, home: 0, client: (0, 0) }).is_ok());
            held
        };
        let busy: Vec<_> = (0..2).map(keep_busy).collect();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let client = shared.clients.enter((addr, addr), 0, &default_table().name, 1).unwrap();
        event_loop.enter(TcpStream::connect(addr).unwrap(), client).unwrap();
        let (_, connection) = event_loop.connections.iter_mut().next().unwrap();
        let open = shared.begin_open().unwrap().unwrap();
        (connection.session.transaction, connection.session.place) =
            (Some(open.transaction), Some(open.place));
        shared.stop();
        event_loop.stop_if_asked();
        assert_eq!(shared.db.transactions().len(), 1, "who could roll it back is busy");
        shared.chores.stop();
        drop(busy);
        helpers.into_iter().for_each(|helper| helper.join().unwrap().unwrap());
        assert!(shared.db.transactions().is_empty() && shared.open_transactions() == 0);
    }

    #[test]
    fn a_grace_may_have_any_length() {
        let options = Options { grace: Duration::MAX, ..Options::default() };
        let shared = Arc::new(Shared::new(Database::in_memory().unwrap(), options));
        let mut event_loop = EventLoop::new(0, shared.clone()).unwrap();
        shared.stop();
        event_loop.stop_if_asked();
        assert!(event_loop.has_ended(), "there is nobody to wait for");
    }
}
