//! Requests of one kind that follow one another in a pipeline, executed together: GETs, or SETs.
//!
//! Why: to find a row is mostly waiting for memory, line after line. Keys that are known together are looked for together,
//! and the waits overlap.
//!
//! Invariants:
//! - T1: replies and rows are those of the requests one after another. Nothing else is between them, and each is a commit of
//!   its own.
//! - T2: what is not simply done counts as not executed, from there on: the command itself finds out why, alone.

use crate::counters::Counters;
use crate::reply::Reply;
use crate::request::Parser;
use crate::session::Session;
use crate::shared::Shared;
use std::array;
use std::ops::ControlFlow;

/// Requests executed together: as many as the engine looks for at a time.
pub const TOGETHER_MAX: usize = 16;

/// What can be executed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `GET key`
    Get,
    /// `SET key value`
    Set,
}

impl Kind {
    /// The kind of the command with this name, in small letters.
    pub fn of(command: &str) -> Option<Self> {
        match command {
            "get" => Some(Self::Get),
            "set" => Some(Self::Set),
            _ => None,
        }
    }

    fn name(self) -> &'static [u8] {
        match self {
            Self::Get => b"GET",
            Self::Set => b"SET",
        }
    }

    /// Name, key and what else there is.
    fn args(self) -> usize {
        match self {
            Self::Get => 2,
            Self::Set => 3,
        }
    }
}

/// The requests: their keys, their last arguments, which are the values if they are SETs, and where they end in the input.
pub struct Together<'i> {
    kind: Kind,
    keys: [&'i [u8]; TOGETHER_MAX],
    values: [&'i [u8]; TOGETHER_MAX],
    ends: [usize; TOGETHER_MAX],
    len: usize,
}

impl<'i> Together<'i> {
    /// The requests of this kind at the beginning of `input`, at most `max` of them. `parser` has read the first request,
    /// whatever it is, and has done so again afterwards if that is of another kind; otherwise it expects a first byte.
    pub fn at_the_beginning(kind: Kind, parser: &mut Parser, input: &'i [u8], max: usize) -> Self {
        let none = [&[][..]; TOGETHER_MAX];
        let mut found = Self { kind, keys: none, values: none, ends: [0; TOGETHER_MAX], len: 0 };
        let mut begin = 0;
        while found.len < max.min(TOGETHER_MAX)
            && let Ok(Some(bytes)) = parser.advance(&input[begin..])
            && found.add(parser, &input[begin..])
        {
            parser.finish();
            begin += bytes;
            found.ends[found.len] = begin;
            found.len += 1;
        }
        if found.len > 0 {
            parser.finish();
        }
        found
    }

    /// Notes key and value of what the parser has read at the beginning of `input`, if that is of the kind, and no inline
    /// command.
    fn add(&mut self, parser: &Parser, input: &'i [u8]) -> bool {
        let args = parser.args(input);
        if args.len() != self.kind.args() || !args.at(0).eq_ignore_ascii_case(self.kind.name()) {
            return false;
        }
        let (Some(key), Some(last)) = (parser.place(1), parser.place(args.len() - 1)) else { return false };
        self.keys[self.len] = &input[key];
        // A GET has no value, and nobody asks for it: its last argument is the key.
        self.values[self.len] = &input[last];
        true
    }

    /// Executes them, GETs as long as `out` is shorter than `full`. How many are done, and the length of their requests.
    pub fn execute(
        &self,
        shared: &Shared,
        session: &mut Session,
        out: &mut Vec<u8>,
        full: usize,
    ) -> (usize, usize) {
        let done = match self.kind {
            Kind::Get => self.get(session, out, full),
            Kind::Set => self.set(shared, session, out),
        };
        Counters::add(&shared.counters[session.client.home].commands, done as u64);
        (done, if done == 0 { 0 } else { self.ends[done - 1] })
    }

    fn get(&self, session: &Session, out: &mut Vec<u8>, full: usize) -> usize {
        let mut done = 0;
        // An error is the next request's, which is not done (T2).
        let _ = session.target.table().multi_get_with(&self.keys[..self.len], |value| {
            Reply::new(out, session.protocol).bulk_or_null(value);
            done += 1;
            if out.len() < full { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        done
    }

    fn set(&self, shared: &Shared, session: &mut Session, out: &mut Vec<u8>) -> usize {
        let rows: [_; TOGETHER_MAX] = array::from_fn(|at| (self.keys[at], self.values[at]));
        session.has_written = true;
        // An error is the first request's, which is not done, nor any other (T2).
        let done = session.target.writer(shared).put_some(&rows[..self.len]).unwrap_or(0);
        (0..done).for_each(|_| Reply::new(out, session.protocol).ok());
        done
    }

    /// The first `done` of them, as one command with several keys.
    pub fn args(&self, done: usize) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..done + 1).map(|at| if at == 0 { self.kind.name() } else { self.keys[at - 1] })
    }
}
