//! What must hold for any bytes that a client sends, cut anywhere. The fuzz target and `tests/mutations.rs` share it.
//!
//! The parser must not panic; must judge pieces as it judges the whole (R1 in `request.rs`); must not want more bytes than
//! its limits allow (R2); and what it has understood, written down as an array of bulk strings, it must understand again.

use foreshore_server::request::{Limits, Parser, ProtocolError};

const LIMITS: Limits = Limits { request_bytes: 4096, arguments: 32 };

/// An inline command takes more bytes as an array.
const LIMITS_AGAIN: Limits = Limits { request_bytes: 2 * LIMITS.request_bytes, ..LIMITS };

/// The arguments of one request after another, and what ended them. Its memory is used again.
#[derive(Debug, Default, PartialEq, Eq)]
struct Verdict {
    /// All arguments, each behind its `$length`, each request behind its `*count`.
    requests: Vec<u8>,
    error: Option<ProtocolError>,
}

/// Judges bytes; keeps its memory from one time to the next.
#[derive(Default)]
pub struct Judge {
    whole: Verdict,
    pieces: Verdict,
    again: Verdict,
}

impl Judge {
    /// Judges `bytes`, whose first says how long the pieces are.
    ///
    /// Panics: if the parser is wrong.
    pub fn judge(&mut self, bytes: &[u8]) {
        let Some((len, bytes)) = bytes.split_first() else { return };
        parse(bytes, bytes.len(), LIMITS, &mut self.whole);
        parse(bytes, usize::from(*len).max(1), LIMITS, &mut self.pieces);
        assert_eq!(self.whole, self.pieces, "R1: {}", bytes.escape_ascii());
        parse(&self.whole.requests, self.whole.requests.len(), LIMITS_AGAIN, &mut self.again);
        assert_eq!(self.again.error, None, "{}", bytes.escape_ascii());
        assert_eq!(self.whole.requests, self.again.requests, "{}", bytes.escape_ascii());
    }
}

/// Feeds pieces of `len` bytes.
fn parse(bytes: &[u8], len: usize, limits: Limits, verdict: &mut Verdict) {
    verdict.requests.clear();
    verdict.error = None;
    let mut parser = Parser::new(limits);
    let (mut begin, mut end) = (0, 0);
    while end < bytes.len() {
        end = (end + len).min(bytes.len());
        loop {
            match parser.advance(&bytes[begin..end]) {
                Ok(Some(used)) => {
                    write(&parser, &bytes[begin..end], &mut verdict.requests);
                    parser.finish();
                    begin += used;
                }
                Ok(None) => break,
                Err(error) => {
                    verdict.error = Some(error);
                    return;
                }
            }
        }
        assert!(end - begin < limits.request_bytes + len, "R2: {}", bytes.escape_ascii());
    }
}

/// Writes the request that `parser` has read. One without arguments is none.
fn write(parser: &Parser, input: &[u8], requests: &mut Vec<u8>) {
    let args = parser.args(input);
    if args.is_empty() {
        return;
    }
    header(b'*', args.len(), requests);
    for arg in args.from(0) {
        header(b'$', arg.len(), requests);
        requests.extend_from_slice(arg);
        requests.extend_from_slice(b"\r\n");
    }
}

/// Writes `<kind><number>` and a line's end. By hand, since most of the time of an execution would go into `write!`.
fn header(kind: u8, number: usize, out: &mut Vec<u8>) {
    out.push(kind);
    for power in [1000, 100, 10] {
        if number >= power {
            out.push(b'0' + (number / power % 10) as u8);
        }
    }
    out.extend_from_slice(&[b'0' + (number % 10) as u8, b'\r', b'\n']);
}
