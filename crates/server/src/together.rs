//! Requests of one kind that follow one another in a pipeline, executed together: GETs, or SETs.
//!
//! Why: to find a row is mostly waiting for memory, line after line. Keys that are known together are looked for together,
//! and the waits overlap.
//!
//! Invariants:
//! - T1: replies and rows are those of the requests one after another. Nothing else is between them, and each is a commit of
//!   its own.
//! - T2: what is not simply done counts as not executed, from there on: the command itself finds out why, alone.

use crate::commands::{HEAVY, READ_BYTES_MAX, Scale};
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

    /// How it begins.
    fn header(self) -> &'static [u8] {
        match self {
            Self::Get => b"*2\r\n",
            Self::Set => b"*3\r\n",
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

/// A bulk string of at most 99 bytes, which every request may have, and what follows it.
#[inline]
fn short(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let digit = |byte: &u8| usize::from(byte - b'0');
    let (len, rest) = match input {
        [b'$', ones @ b'0'..=b'9', b'\r', b'\n', rest @ ..] => (digit(ones), rest),
        [b'$', tens @ b'1'..=b'9', ones @ b'0'..=b'9', b'\r', b'\n', rest @ ..] => {
            (10 * digit(tens) + digit(ones), rest)
        }
        _ => return None,
    };
    let (bytes, rest) = rest.split_at_checked(len)?;
    Some((bytes, rest.strip_prefix(b"\r\n")?))
}

/// The requests: their keys, their last arguments, which are the values if they are SETs, and where they end in the input.
pub struct Together<'i> {
    kind: Kind,
    scale: Scale,
    keys: [&'i [u8]; TOGETHER_MAX],
    values: [&'i [u8]; TOGETHER_MAX],
    ends: [usize; TOGETHER_MAX],
    len: usize,
}

impl<'i> Together<'i> {
    /// The requests of this kind at the beginning of `input`, at most `max` of them. `parser` expects a first byte afterwards.
    pub fn at_the_beginning(
        (kind, scale): (Kind, Scale),
        parser: &mut Parser,
        input: &'i [u8],
        max: usize,
    ) -> Self {
        let none = [&[][..]; TOGETHER_MAX];
        let mut found = Self { kind, scale, keys: none, values: none, ends: [0; TOGETHER_MAX], len: 0 };
        let mut begin = 0;
        parser.finish();
        while found.len < max.min(TOGETHER_MAX)
            && let Some(bytes) =
                found.add_plain(&input[begin..]).or_else(|| found.add_parsed(parser, &input[begin..]))
        {
            begin += bytes;
            found.ends[found.len] = begin;
            found.len += 1;
        }
        found
    }

    /// Notes key and value of a request of the kind, as nearly all are written: from its first byte to its last, and all
    /// of it short. Returns its length.
    fn add_plain(&mut self, input: &'i [u8]) -> Option<usize> {
        let (name, rest) = short(input.strip_prefix(self.kind.header())?)?;
        if !name.eq_ignore_ascii_case(self.kind.name()) {
            return None;
        }
        let (key, rest) = short(rest)?;
        let (value, rest) = if self.kind.args() == 3 { short(rest)? } else { (key, rest) };
        (self.keys[self.len], self.values[self.len]) = (key, value);
        Some(input.len() - rest.len())
    }

    /// The same of any request, by the parser, which expects a first byte before and afterwards.
    fn add_parsed(&mut self, parser: &mut Parser, input: &'i [u8]) -> Option<usize> {
        let read = parser.advance(input).ok().flatten();
        let added = read.filter(|_| self.add(parser, input));
        parser.finish();
        added
    }

    /// Notes key and value of what the parser has read at the beginning of `input`, if that is of the kind, and no inline
    /// command.
    fn add(&mut self, parser: &Parser, input: &'i [u8]) -> bool {
        let args = parser.args(input);
        if args.len() != self.kind.args() || !args.at(0).eq_ignore_ascii_case(self.kind.name()) {
            return false;
        }
        if self.scale.weigh(&args) >= HEAVY {
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
        // An error is the next request's, which is not done (T2), and neither is one whose value is too long to be read here.
        let _ =
            session.target.table().multi_get_up_to(&self.keys[..self.len], READ_BYTES_MAX as u64, |value| {
                Reply::new(out, session.protocol).bulk_or_null(value);
                done += 1;
                if out.len() < full { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
        done
    }

    fn set(&self, shared: &Shared, session: &mut Session, out: &mut Vec<u8>) -> usize {
        let rows: [_; TOGETHER_MAX] = array::from_fn(|at| (self.keys[at], self.values[at]));
        // An error is the first request's, which is not done, nor any other (T2).
        let put = session.target.writer(shared).put_some(&rows[..self.len]);
        let done = put.inspect_err(|error| shared.note_long_lock(error)).unwrap_or(0);
        session.has_written |= done > 0;
        (0..done).for_each(|_| Reply::new(out, session.protocol).ok());
        done
    }

    /// The first `done` of them, as one command with several keys.
    pub fn args(&self, done: usize) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..done + 1).map(|at| if at == 0 { self.kind.name() } else { self.keys[at - 1] })
    }
}
