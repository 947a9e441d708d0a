//! One client's connection: bytes in, requests executed in their order, replies out.
//!
//! Invariants:
//! - C1: requests are executed one after another, and replies leave in their order.
//! - C2: what is kept for a client is bounded: requests, as long as one may be, `replies_bytes_max` and one reply, a queue.
//! - C3: no byte of a reply leaves before the batch that it belongs to is durable, if replies wait for that.

use crate::acknowledged;
use crate::chores::{Brought, Length, Work};
use crate::commands::{self, Attempt, Call, CommandError, Next, Parcel, Waited, note_if_slow};
use crate::counters::Counters;
use crate::reply::Reply;
use crate::request::{Limits, OwnedArgs, Parser};
use crate::session::Session;
use crate::shared::Shared;
use crate::together::{Kind, Together};
use mio::net::TcpStream;
use parking_lot::Mutex;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Memory that a connection keeps for its next requests and replies.
const KEPT_BYTES: usize = 16 << 10;

/// By how much a request must have become longer for its client not to have stopped: a large value may come over a slow line.
const PROGRESS_BYTES: usize = 64 << 10;

/// How long one client's turn may take before others have theirs; a command that has begun is finished.
const TURN: Duration = Duration::from_millis(5);

/// What a client takes in one round; others have theirs before the rest, however fast it takes it.
const SENT_PER_ROUND: usize = 1 << 20;

/// The pause before a command that met a lock is tried again: at first, and at most.
const PAUSE_FIRST: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// A client's connection.
pub struct Connection {
    pub stream: TcpStream,
    pub session: Session,
    parser: Parser,
    /// Bytes received, and how many of them are executed.
    input: Vec<u8>,
    executed: usize,
    replies: Replies,
    /// Where the replies of earlier rounds end.
    round_begun_at: u64,
    /// When no further request of this turn is begun.
    turn_ends: Instant,
    /// Commands are not executed while this is set.
    waits_for: Option<WaitsFor>,
    /// What the command at hand has become elsewhere.
    brought: Option<Attempt>,
    /// The session while it is elsewhere, if nobody there has come to it.
    away: Option<Parcel>,
    /// Memory of the session while it is elsewhere, and of the arguments of its command there.
    away_bytes: usize,
    /// These arguments, back from elsewhere, if the command is to be tried again: to copy them each time would keep the event loop.
    copied: Option<OwnedArgs>,
    /// Memory that its event loop has counted for it.
    pub counted_bytes: usize,
    put_off: Option<PutOff>,
    /// Nor before this.
    rests_until: Option<Instant>,
    /// Set when nothing more is executed; it closes when all is sent.
    pub is_closing: bool,
    /// Since when what comes is thrown away, as no request begins there: a client that is told why must be able to send all that it was
    /// about to, or it sees the connection break and never reads the reply.
    refused_since: Option<Instant>,
    /// Set by QUIT and the like, and by a shutdown: it stays until the client has its replies.
    ends_when_taken: bool,
    /// The client will send nothing more.
    has_ended: bool,
    /// As the operating system said last.
    pub is_readable: bool,
    pub is_writable: bool,
    /// The end is behind what is there to be read: it must be read up to there, since nobody will tell again.
    pub is_read_closed: bool,
    /// Since when the request at hand is incomplete, and has not become much longer; and how long it was then.
    incomplete: Option<(Instant, usize)>,
    /// Since when it could have said the password, and has not.
    stranger_since: Option<Instant>,
    /// Since when the client takes nothing of the replies that it could take.
    untaken_since: Option<Instant>,
    /// When bytes last came or went.
    active: Instant,
}

/// A command that met a lock.
struct PutOff {
    since: Instant,
    pause: Duration,
}

/// What a chore is to bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitsFor {
    /// The next reply.
    Reply,
    /// A table that the command at hand needs.
    Table,
    /// The session, and what the command at hand has become.
    Command,
}

/// Why no further request was executed.
pub enum Stop {
    /// All that is there is executed.
    NeedsInput,
    /// Others' turn.
    Enough,
    /// The command at hand is to be tried again after this.
    PutOff(Duration),
    /// Nothing more is executed before this is done.
    Chore(Length, Work),
    /// Replies must leave first, or the connection closes.
    Waits,
}

/// What became of reading or writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io {
    /// Something was done.
    Progress,
    /// Nothing can be done now.
    Blocked,
    /// The connection is of no more use.
    Broken,
}

/// Replies that have not left yet. Positions count all bytes of the connection.
#[derive(Default)]
struct Replies {
    bytes: Vec<u8>,
    /// Position of `bytes[0]`.
    base: u64,
    /// Bytes of `bytes` that have left.
    sent: usize,
    /// Up to here they may leave, while `held` is not 0.
    free: u64,
    /// Batches that are not durable yet.
    held: usize,
}

impl Replies {
    fn end(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    fn unsent(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// What may leave now (C3).
    fn sendable(&self) -> &[u8] {
        let end = if self.held == 0 { self.bytes.len() } else { (self.free - self.base) as usize };
        &self.bytes[self.sent..end.max(self.sent)]
    }

    /// Takes a reply that was made elsewhere, which may be large, if possible without copying it.
    fn append(&mut self, reply: Vec<u8>) {
        if self.bytes.is_empty() {
            self.bytes = reply;
        } else {
            self.bytes.extend_from_slice(&reply);
        }
    }

    fn advance(&mut self, sent: usize) {
        self.sent += sent;
        // A client that is never quite done taking must not make us keep all it has ever taken. From half of it on, since to
        // move the rest costs as much as it has.
        if 2 * self.sent >= self.bytes.len() {
            self.forget_sent();
        }
    }

    fn forget_sent(&mut self) {
        self.base += self.sent as u64;
        self.bytes.drain(..self.sent);
        self.sent = 0;
        self.free = self.free.max(self.base);
        if self.bytes.is_empty() {
            self.bytes.shrink_to(KEPT_BYTES);
        }
    }
}

impl Connection {
    pub fn new(stream: TcpStream, session: Session, shared: &Shared) -> Self {
        let mut connection = Self {
            stream,
            session,
            parser: Parser::new(Limits::STRANGER),
            input: Vec::new(),
            executed: 0,
            replies: Replies::default(),
            round_begun_at: 0,
            turn_ends: Instant::now(),
            waits_for: None,
            brought: None,
            away: None,
            away_bytes: 0,
            copied: None,
            counted_bytes: 0,
            put_off: None,
            rests_until: None,
            is_closing: false,
            refused_since: None,
            ends_when_taken: false,
            has_ended: false,
            is_readable: true,
            is_writable: true,
            is_read_closed: false,
            incomplete: None,
            stranger_since: None,
            untaken_since: None,
            active: Instant::now(),
        };
        connection.set_limits(shared);
        connection
    }

    fn set_limits(&mut self, shared: &Shared) {
        if self.session.is_trusted {
            self.parser.set_limits(shared.options.limits);
            self.stranger_since = None;
        } else {
            self.parser.set_limits(Limits::STRANGER);
            self.stranger_since.get_or_insert_with(Instant::now);
        }
    }

    /// Executes up to `budget` of the requests that are there. `clock` is when the last one of the round was done, whoever's.
    pub fn execute(&mut self, shared: &Arc<Shared>, budget: &mut usize, clock: &mut Instant) -> Stop {
        let mut at = self.executed;
        let stop = loop {
            if self.brought.is_none() && !self.may_begin(shared) {
                break Stop::Waits;
            }
            if *budget == 0 || *clock >= self.turn_ends {
                break Stop::Enough;
            }
            match self.parser.advance(&self.input[at..]) {
                Ok(Some(bytes)) => {
                    let (executed, stop) = self.execute_next(shared, at, bytes, budget, clock);
                    at += executed;
                    if let Some(stop) = stop {
                        break stop;
                    }
                }
                Ok(None) => break self.needs_input(at),
                Err(error) => {
                    // Where the next request begins is unknown.
                    self.count_error(shared);
                    let error = if self.session.is_trusted { error } else { error.before_auth() };
                    Reply::new(&mut self.replies.bytes, self.session.protocol).error(&format!("ERR {error}"));
                    self.is_closing = true;
                    self.refused_since = Some(Instant::now());
                    at = self.input.len();
                }
            }
        };
        self.forget_executed(at);
        stop
    }

    /// Executes the request of so many bytes at `at`, perhaps together with those like it behind it. Returns how many bytes are
    /// executed, and why no more are for now, if so.
    #[inline]
    fn execute_next(
        &mut self,
        shared: &Arc<Shared>,
        at: usize,
        bytes: usize,
        budget: &mut usize,
        clock: &mut Instant,
    ) -> (usize, Option<Stop>) {
        self.incomplete = None;
        // What is told of the last command may be of this one, which was executed elsewhere.
        if self.brought.is_none()
            && at + bytes < self.input.len()
            && let Some(kind) = self.session.repeats()
        {
            let executed = self.execute_together(shared, kind, at, budget, clock);
            if executed > 0 {
                return (executed, None);
            }
        }
        *budget -= 1;
        let begun = *clock;
        let next = match self.execute_one(shared, at, clock) {
            Attempt::Done(next) => next,
            Attempt::PutOff => return (0, Some(Stop::PutOff(self.put_off(shared, begun)))),
            Attempt::Opens(work) => {
                self.waits_for = Some(WaitsFor::Table);
                return (0, Some(Stop::Chore(Length::Brief, work)));
            }
            Attempt::TooHeavy => return (0, Some(Stop::Chore(Length::Ending, self.elsewhere(shared, at)))),
        };
        (self.put_off, self.copied) = (None, None);
        self.parser.finish();
        self.set_limits(shared);
        let stop = match next {
            Next::Go => None,
            Next::Close => {
                (self.is_closing, self.ends_when_taken) = (true, true);
                None
            }
            Next::Chore(length, work) => {
                self.waits_for = Some(WaitsFor::Reply);
                Some(Stop::Chore(length, work))
            }
            Next::Rest(pause) => {
                self.rests_until = Some(Instant::now() + pause);
                Some(Stop::PutOff(pause))
            }
        };
        (bytes, stop)
    }

    /// What is executed goes from half of the input on, since to move the rest costs as much as that has.
    fn forget_executed(&mut self, executed: usize) {
        self.executed = executed;
        if 2 * executed >= self.input.len() {
            self.input.drain(..executed);
            self.executed = 0;
        }
        if self.input.is_empty() {
            self.input.shrink_to(KEPT_BYTES);
            self.session.forget_value(KEPT_BYTES);
        }
    }

    /// May a request be begun?
    fn may_begin(&mut self, shared: &Shared) -> bool {
        !self.is_closing && self.waits_for.is_none() && !self.rests() && !self.is_full(shared)
    }

    fn rests(&mut self) -> bool {
        self.rests_until = self.rests_until.filter(|until| Instant::now() < *until);
        self.rests_until.is_some()
    }

    fn needs_input(&mut self, at: usize) -> Stop {
        let bytes = self.input.len() - at;
        self.incomplete = match self.incomplete {
            _ if bytes == 0 => None,
            Some((since, before)) if at == self.executed && bytes < before + PROGRESS_BYTES => {
                Some((since, before))
            }
            before => {
                if before.is_some() {
                    self.session.keep_transaction();
                }
                Some((Instant::now(), bytes))
            }
        };
        if self.has_ended {
            self.is_closing = true;
            return Stop::Waits;
        }
        Stop::NeedsInput
    }

    /// Executes the request at `at`, which the parser has read.
    fn execute_one(&mut self, shared: &Arc<Shared>, at: usize, clock: &mut Instant) -> Attempt {
        if let Some(brought) = self.brought.take() {
            return brought;
        }
        let args = self.parser.args(&self.input[at..]);
        if args.is_empty() {
            return Attempt::Done(Next::Go);
        }
        // What has come back from elsewhere goes there again at once: it would find out anew, by what it reads, that it is too heavy.
        if self.copied.is_some() || commands::is_heavy(shared.scale, &self.session, &args) {
            return Attempt::TooHeavy;
        }
        let waited = self.waited(shared);
        let (session, out) = (&mut self.session, &mut self.replies.bytes);
        let done = commands::execute(&mut Call { shared, session, args, out }, waited);
        match done {
            Attempt::Done(Next::Chore(length, work)) => {
                *clock = Instant::now();
                Attempt::Done(Next::Chore(length, commands::noted(&self.session.client, args, work)))
            }
            Attempt::Done(next) => {
                note_if_slow(shared, &self.session.client, args.from(0), clock);
                Attempt::Done(next)
            }
            not_done => {
                *clock = Instant::now();
                not_done
            }
        }
    }

    /// What executes the request at `at` elsewhere. The session goes there and comes back.
    fn elsewhere(&mut self, shared: &Arc<Shared>, at: usize) -> Work {
        let copied = self.copied.take();
        let args = copied.unwrap_or_else(|| OwnedArgs::from(self.parser.args(&self.input[at..])));
        let waited = self.waited(shared);
        self.waits_for = Some(WaitsFor::Command);
        self.away_bytes = self.session.bytes() + args.bytes();
        let parcel = Arc::new(Mutex::new(Some((self.session.take_away(), args))));
        self.away = Some(parcel.clone());
        commands::elsewhere(shared, parcel, waited)
    }

    /// Its client leaves: a command that waits to be executed elsewhere is not, or those of clients who are sent away for their
    /// memory would keep it.
    pub fn recall(&mut self) {
        if let Some((session, _)) = self.away.take().and_then(|parcel| parcel.lock().take()) {
            self.session = session;
        }
    }

    /// Executes the requests of this kind from `at` on, which is where the parser is, if there are any. Returns the length of
    /// those done; 0 if the request at `at` is to be executed by itself.
    fn execute_together(
        &mut self,
        shared: &Shared,
        kind: Kind,
        at: usize,
        budget: &mut usize,
        clock: &mut Instant,
    ) -> usize {
        let input = &self.input[at..];
        let together = Together::at_the_beginning((kind, shared.scale), &mut self.parser, input, *budget);
        let full = self.replies.sent.saturating_add(shared.options.replies_bytes_max);
        let (done, bytes) = together.execute(shared, &mut self.session, &mut self.replies.bytes, full);
        if done == 0 {
            // It was read before: there is nothing new to be said of it.
            let _ = self.parser.advance(input);
            return 0;
        }
        (self.put_off, self.copied) = (None, None);
        *budget -= done;
        note_if_slow(shared, &self.session.client, together.args(done), clock);
        bytes
    }

    /// How long the request at hand has waited for locks.
    fn waited(&self, shared: &Shared) -> Waited {
        let timeout = Duration::from_millis(shared.lock_timeout_ms.load(Relaxed));
        let time = self.put_off.as_ref().map(|put_off| put_off.since.elapsed());
        Waited { time: time.unwrap_or_default(), is_enough: time.is_some_and(|time| time >= timeout) }
    }

    /// Puts off the request at hand, which was first tried at `begun` if it has not been put off before; for how long.
    fn put_off(&mut self, shared: &Shared, begun: Instant) -> Duration {
        Counters::add(&shared.counters[self.session.client.home].put_off, 1);
        let put_off = self.put_off.get_or_insert(PutOff { since: begun, pause: PAUSE_FIRST / 2 });
        put_off.pause = (put_off.pause * 2).min(PAUSE_MAX);
        let pause = put_off.pause;
        // Whatever its client sends meanwhile.
        self.rests_until = Some(Instant::now() + pause);
        pause
    }

    /// Reads what has come, into `scratch` first.
    pub fn receive(&mut self, scratch: &mut [u8], counters: &Counters, now: Instant) -> Io {
        if self.has_ended {
            self.is_readable = false;
            return Io::Blocked;
        }
        let room = scratch.len().min(self.parser.limits().request_bytes);
        let scratch = &mut scratch[..room];
        match self.stream.read(scratch) {
            Ok(0) => {
                self.has_ended = true;
                self.is_readable = false;
                Io::Progress
            }
            Ok(bytes) => {
                if !self.is_closing {
                    self.input.extend_from_slice(&scratch[..bytes]);
                }
                self.active = now;
                // Edge-triggered: less than asked for means that there is no more for now.
                self.is_readable = bytes == scratch.len() || self.is_read_closed;
                Counters::add(&counters.received_bytes, bytes as u64);
                Io::Progress
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.is_readable = false;
                Io::Blocked
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Io::Progress,
            Err(_) => Io::Broken,
        }
    }

    /// Sends what may leave, as much as a round allows.
    pub fn send(&mut self, counters: &Counters, now: Instant) -> Io {
        self.round_begun_at = self.replies.end();
        let mut room = SENT_PER_ROUND;
        while room > 0 && self.sends_on() {
            let sendable = self.replies.sendable();
            match self.stream.write(&sendable[..sendable.len().min(room)]) {
                Ok(0) => return Io::Broken,
                Ok(bytes) => {
                    room -= bytes;
                    self.replies.advance(bytes);
                    self.untaken_since = None;
                    self.active = now;
                    Counters::add(&counters.sent_bytes, bytes as u64);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.is_writable = false;
                    self.untaken_since.get_or_insert(now);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Io::Broken,
            }
        }
        if self.is_closing && self.waits_for.is_none() && self.replies.unsent() == 0 {
            // The client sees the end behind the last reply.
            return if self.is_waited_for() && self.stream.shutdown(Shutdown::Write).is_ok() {
                self.untaken_since.get_or_insert(now);
                Io::Progress
            } else {
                Io::Broken
            };
        }
        if self.replies.sendable().is_empty() { Io::Progress } else { Io::Blocked }
    }

    /// Does its socket stay, though all has been handed to it? Closed, it would answer whatever still comes by taking back the replies
    /// that are on their way. Only as long as some are, or who is idle would hold up a shutdown.
    fn is_waited_for(&self) -> bool {
        let has_to_take = self.ends_when_taken && !acknowledged::is_all(&self.stream);
        !self.has_ended && (self.refused_since.is_some() || has_to_take)
    }

    /// Is there something that may leave, and the client takes it?
    pub fn sends_on(&self) -> bool {
        self.is_writable && !self.replies.sendable().is_empty()
    }

    /// Has it to be tried whether the client takes something, or has taken all? The system tells of room when there is much, and a slow
    /// client takes little at a time; of the last acknowledgement it does not tell.
    pub fn is_to_be_tried(&mut self) -> bool {
        self.is_writable |= self.untaken_since.is_some();
        self.untaken_since.is_some() || self.ends_when_taken
    }

    /// Must replies leave before more is executed (C2)?
    pub fn is_full(&self, shared: &Shared) -> bool {
        let max = shared.options.replies_bytes_max;
        // Of a stranger little is kept: many of them must not push out those who have said the password.
        let max = if self.session.is_trusted { max } else { max.min(Limits::STRANGER.request_bytes) };
        self.replies.unsent() >= max
    }

    /// Are requests received though replies must leave first? Many clients send a whole pipeline before they take the first reply: each
    /// would wait for the other. They are not more than one request may have (C2).
    pub fn receives_ahead(&self, shared: &Shared) -> bool {
        let received = self.input.len() - self.executed;
        let has_room = received < self.parser.limits().request_bytes;
        let is_thrown_away = self.refused_since.is_some() || self.ends_when_taken;
        is_thrown_away || (self.is_full(shared) && !self.is_closing && has_room)
    }

    /// Memory that is kept for it.
    pub fn bytes(&self) -> usize {
        let buffers = self.input.capacity() + self.replies.bytes.capacity() + self.parser.bytes();
        let copied = self.copied.as_ref().map_or(0, OwnedArgs::bytes);
        buffers + self.session.bytes() + self.away_bytes + copied
    }

    /// A turn begins.
    pub fn begin_turn(&mut self, now: Instant) {
        self.turn_ends = now + TURN;
    }

    /// Withholds the replies of this round until a batch is durable; returns where they end. Earlier ones may leave as before.
    pub fn hold(&mut self) -> u64 {
        if self.replies.held == 0 {
            self.replies.free = self.round_begun_at;
        }
        self.replies.held += 1;
        self.session.has_written = false;
        self.replies.end()
    }

    /// The oldest batch that is held back is durable, whose replies end at `end`.
    pub fn release(&mut self, end: u64) {
        self.replies.held -= 1;
        self.replies.free = end;
    }

    /// Takes what a chore has brought.
    pub fn chore_done(&mut self, shared: &Shared, brought: Brought) {
        self.waits_for = None;
        match brought {
            Brought::Command(session, args, reply, attempt) => {
                let has_written = self.session.has_written;
                self.session = *session;
                self.away = None;
                self.away_bytes = 0;
                self.copied = Some(args).filter(|_| !matches!(attempt, Attempt::Done(_)));
                self.session.has_written |= has_written;
                self.replies.append(reply);
                self.brought = Some(attempt);
            }
            Brought::Opened(done) => {
                if let Some((_, opened)) = self.session.opened.last_mut() {
                    *opened = done;
                }
            }
            Brought::Reply(reply) => {
                if reply.starts_with(b"-") {
                    self.count_error(shared);
                }
                self.replies.append(reply);
            }
        }
    }

    /// Its chore could not be handed over.
    pub fn chore_refused(&mut self, shared: &Shared, length: Length, work: Work) {
        let why = CommandError::Busy;
        match (self.waits_for, length) {
            (Some(WaitsFor::Table), _) => self.chore_done(shared, Brought::Opened(Err(why))),
            // The session must come back; and a transaction that ends has ended, whatever is answered.
            (Some(WaitsFor::Command), _) | (_, Length::Ending) => self.chore_done(shared, work(shared)),
            _ => {
                self.waits_for = None;
                self.count_error(shared);
                Reply::new(&mut self.replies.bytes, self.session.protocol).error(&why.text());
            }
        }
    }

    /// Counts an error that is told beside its command.
    fn count_error(&self, shared: &Shared) {
        Counters::add(&shared.counters[self.session.client.home].errors, 1);
    }

    /// Executes nothing more; what was begun and not committed is undone.
    pub fn close(&mut self) {
        self.is_closing = true;
        // Who is still sending must be able to: an end with something unread takes back replies that are on their way.
        self.refused_since = self.is_readable.then(Instant::now);
        self.ends_when_taken = true;
        self.session.abandon();
    }

    /// Has it stalled, or been idle, for too long? Also tells others how it is.
    pub fn is_overdue(&self, shared: &Shared, now: Instant) -> bool {
        if self.waits_for != Some(WaitsFor::Command) {
            self.session.tell(self.active);
        }
        self.session.client.told.lock().bytes = self.counted_bytes;
        let quiet = now.saturating_duration_since(self.active);
        let stall = shared.options.stall_timeout;
        let idle = Duration::from_millis(shared.idle_timeout_ms.load(Relaxed));
        let is_past =
            |since: Option<Instant>| since.is_some_and(|since| now.saturating_duration_since(since) > stall);
        is_past(self.incomplete.map(|(since, _)| since))
            || is_past(self.stranger_since)
            || is_past(self.refused_since)
            || is_past(self.untaken_since)
            || (!idle.is_zero() && quiet > idle && !self.is_waiting())
    }

    /// Does the client wait, for others or for the device, and not the server for the client?
    fn is_waiting(&self) -> bool {
        self.waits_for.is_some() || self.put_off.is_some() || self.replies.held > 0 || self.sends_on()
    }
}

#[cfg(test)]
mod tests;
