//! GETs that follow one another in a pipeline, answered together.
//!
//! Why: looking a row up is mostly waiting for memory, line after line. Keys that are known together are looked up together,
//! and the waits overlap.
//!
//! Invariants:
//! - G1: the answers are those of the requests one after another. Nothing else is between them, and none of them changes
//!   what another one sees.
//! - G2: what is not simply answered counts as not executed, from there on: the command itself finds out why, alone.

use crate::counters::Counters;
use crate::reply::Reply;
use crate::request::Parser;
use crate::session::Session;
use crate::shared::Shared;
use std::ops::ControlFlow;

/// Requests answered together: as many as the engine looks up at a time.
pub const TOGETHER_MAX: usize = 16;

/// Their keys, and where their requests end in the input.
#[derive(Default)]
pub struct Gets<'i> {
    keys: [&'i [u8]; TOGETHER_MAX],
    ends: [usize; TOGETHER_MAX],
    len: usize,
}

impl<'i> Gets<'i> {
    /// The GETs at the beginning of `input`, at most `max` of them. `parser` has read the first request, whatever it is, and
    /// has done so again afterwards if that is no GET; otherwise it expects a first byte.
    pub fn at_the_beginning(parser: &mut Parser, input: &'i [u8], max: usize) -> Self {
        let mut gets = Self::default();
        let mut begin = 0;
        while gets.len < max.min(TOGETHER_MAX)
            && let Ok(Some(bytes)) = parser.advance(&input[begin..])
            && let Some(key) = key_of_get(parser, &input[begin..])
        {
            parser.finish();
            begin += bytes;
            gets.keys[gets.len] = key;
            gets.ends[gets.len] = begin;
            gets.len += 1;
        }
        if gets.len > 0 {
            parser.finish();
        }
        gets
    }

    /// Answers them, as long as `out` is shorter than `full`. How many are done, and the length of their requests.
    pub fn answer(
        &self,
        shared: &Shared,
        session: &mut Session,
        out: &mut Vec<u8>,
        full: usize,
    ) -> (usize, usize) {
        let mut done = 0;
        // An error is the next request's, which is not done (G2).
        let _ = session.target.table().multi_get_with(&self.keys[..self.len], |value| {
            Reply::new(out, session.protocol).bulk_or_null(value);
            done += 1;
            if out.len() < full { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        Counters::add(&shared.counters[session.client.home].commands, done as u64);
        (done, if done == 0 { 0 } else { self.ends[done - 1] })
    }

    /// The first `done` of them, as one command that reads several keys.
    pub fn args(&self, done: usize) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..done + 1).map(|at| if at == 0 { &b"GET"[..] } else { self.keys[at - 1] })
    }
}

/// The key, if what the parser has read at the beginning of `input` is a GET, and no inline command.
fn key_of_get<'i>(parser: &Parser, input: &'i [u8]) -> Option<&'i [u8]> {
    let args = parser.args(input);
    if args.len() != 2 || !args.at(0).eq_ignore_ascii_case(b"get") {
        return None;
    }
    Some(&input[parser.place(1)?])
}
