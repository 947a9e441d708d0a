//! Requests out of bytes: the Redis protocol's arrays of bulk strings, and inline commands.
//!
//! Why: the bytes come in any pieces and from anybody. The parser goes on where it stopped, so that a request that
//! trickles in costs no more than one that comes at once, and it refuses what is too large before it is there.
//! Source: the RESP specification; of the RESP3 types a client sends only arrays of bulk strings.
//!
//! Invariants:
//! - R1: how the bytes are cut into pieces changes nothing.
//! - R2: no more than `Limits::request_bytes` are ever asked for.

use crate::inline;
use std::ops::Range;

/// The longest line `*N` or `$N`, its end included.
const HEADER_BYTES_MAX: usize = 32;

/// The longest inline command.
const INLINE_BYTES_MAX: usize = 16 << 10;

/// What Redis calls the two kinds of requests.
const MULTIBULK: &str = "multibulk";
const INLINE: &str = "inline request";

/// Arguments for which memory is kept from one request to the next.
const PARTS_KEPT: usize = 1024;

/// What a client may send in one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a whole request.
    pub request_bytes: usize,
    /// Arguments, the command's name included.
    pub arguments: usize,
}

impl Limits {
    /// Enough for HELLO and AUTH: for clients of whom nothing is known yet.
    pub const STRANGER: Self = Self { request_bytes: 4 << 10, arguments: 16 };
}

/// The bytes are not a request. Where the next one begins is unknown: the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// Not what the protocol has at this place.
    #[error("Protocol error: expected '{expected}', got '{got}'")]
    Unexpected {
        /// The type's first byte.
        expected: char,
        /// What came.
        got: char,
    },
    /// A length that is no number, or none that can be.
    #[error("Protocol error: invalid {0} length")]
    Length(&'static str),
    /// A bulk string that does not end where it said.
    #[error("Protocol error: a bulk string does not end with CRLF where its length says")]
    End,
    /// An inline command whose quotes do not match.
    #[error("Protocol error: unbalanced quotes in request")]
    Quotes,
    /// What a browser sends.
    #[error("Protocol error: this is HTTP, which is not served here")]
    Http,
    /// More than the limits allow.
    #[error("Protocol error: the request has more than {max} bytes; see the server's --request-bytes")]
    TooLong {
        /// The limit.
        max: usize,
    },
    /// An inline command that is longer than one may be.
    #[error("Protocol error: too big inline request: it has more than {max} bytes")]
    LineTooLong {
        /// The limit.
        max: usize,
    },
    /// More arguments than the limits allow.
    #[error("Protocol error: the request has more than {max} arguments; send several requests")]
    TooMany {
        /// The limit.
        max: usize,
        /// What they were part of, as Redis calls it.
        of: &'static str,
    },
    /// More of something than the limits allow who has not said the password.
    #[error("Protocol error: unauthenticated {0} length; send AUTH with the server's password first")]
    Unauthenticated(&'static str),
}

impl ProtocolError {
    /// The same for who has not said the password: more is allowed then.
    pub fn before_auth(self) -> Self {
        match self {
            Self::TooLong { .. } => Self::Unauthenticated("bulk"),
            Self::LineTooLong { .. } => Self::Unauthenticated(INLINE),
            Self::TooMany { of, .. } => Self::Unauthenticated(of),
            other => other,
        }
    }
}

/// A request's arguments, the command's name first.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    bytes: &'a [u8],
    parts: &'a [Range<usize>],
}

impl<'a> Args<'a> {
    /// How many.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(ExactSizeIterator::len).sum()
    }

    /// None at all: an empty line, which is no request.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The one at `at`.
    ///
    /// Panics: beyond the last.
    pub fn at(&self, at: usize) -> &'a [u8] {
        &self.bytes[self.parts[at].clone()]
    }

    /// Those from `from` on, as if they were all.
    pub fn rest(&self, from: usize) -> Self {
        Self { bytes: self.bytes, parts: &self.parts[from.min(self.parts.len())..] }
    }

    /// Those from `from` on.
    pub fn from(&self, from: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let (bytes, parts) = (self.bytes, self.parts);
        parts[from.min(parts.len())..].iter().map(move |part| &bytes[part.clone()])
    }
}

/// Arguments that outlive the buffer they came in.
#[derive(Clone, Debug)]
pub struct OwnedArgs {
    bytes: Vec<u8>,
    parts: Vec<Range<usize>>,
}

impl OwnedArgs {
    /// The arguments.
    pub fn args(&self) -> Args<'_> {
        Args { bytes: &self.bytes, parts: &self.parts }
    }

    /// Memory, in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.bytes.capacity() + self.parts.capacity() * size_of::<Range<usize>>()
    }
}

impl From<Args<'_>> for OwnedArgs {
    fn from(args: Args<'_>) -> Self {
        let len = args.from(0).map(<[u8]>::len).sum();
        let (mut bytes, mut parts) = (Vec::with_capacity(len), Vec::with_capacity(args.len()));
        for arg in args.from(0) {
            parts.push(bytes.len()..bytes.len() + arg.len());
            bytes.extend_from_slice(arg);
        }
        Self { bytes, parts }
    }
}

/// Reads one request after another.
///
/// ```
/// use foreshore_server::request::{Limits, Parser};
/// let mut parser = Parser::new(Limits { request_bytes: 1 << 20, arguments: 1024 });
/// let mut input = b"*2\r\n$3\r\nGET\r\n$1\r\n".to_vec();
/// assert_eq!(parser.advance(&input), Ok(None), "the key is missing");
/// input.extend(b"k\r\nPING\r\n");
/// let bytes = parser.advance(&input).unwrap().unwrap();
/// assert_eq!(parser.args(&input).at(1), b"k");
/// parser.finish();
/// assert_eq!(parser.advance(&input[bytes..]), Ok(Some(6)));
/// ```
#[derive(Debug)]
pub struct Parser {
    limits: Limits,
    /// Bytes of the request that are understood.
    at: usize,
    /// Arguments it will have.
    wanted: Option<usize>,
    /// Length of the argument at hand.
    bulk: Option<usize>,
    parts: Vec<Range<usize>>,
    /// An inline command's arguments without quotes and escapes.
    inline: Option<Vec<u8>>,
}

impl Parser {
    /// A parser that expects a request's first byte.
    pub fn new(limits: Limits) -> Self {
        Self { limits, at: 0, wanted: None, bulk: None, parts: Vec::new(), inline: None }
    }

    /// Other limits from the next request on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Its limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Reads on in `input`, which begins with the first byte of the request, and has grown at its end since the last
    /// call. The number of the request's bytes, once they are all there; the same again, until [`Parser::finish`].
    pub fn advance(&mut self, input: &[u8]) -> Result<Option<usize>, ProtocolError> {
        match input.first() {
            None => Ok(None),
            Some(b'*') => self.array(input),
            Some(_) => self.line(input),
        }
    }

    /// The arguments of the request that [`Parser::advance`] has just read from `input`.
    pub fn args<'a>(&'a self, input: &'a [u8]) -> Args<'a> {
        Args { bytes: self.inline.as_deref().unwrap_or(input), parts: &self.parts }
    }

    /// Where in the input the argument at `at` of that request is; `None` if it was an inline command, whose arguments are
    /// elsewhere.
    ///
    /// Panics: beyond the last argument.
    pub fn place(&self, at: usize) -> Option<Range<usize>> {
        if self.inline.is_none() { Some(self.parts[at].clone()) } else { None }
    }

    /// Memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.parts.capacity() * size_of::<Range<usize>>() + self.inline.as_ref().map_or(0, Vec::capacity)
    }

    /// Done with this request; the next one begins.
    pub fn finish(&mut self) {
        self.parts.clear();
        self.parts.shrink_to(PARTS_KEPT);
        (self.at, self.wanted, self.bulk, self.inline) = (0, None, None, None);
    }

    fn array(&mut self, input: &[u8]) -> Result<Option<usize>, ProtocolError> {
        let wanted = match self.wanted {
            Some(wanted) => wanted,
            None => {
                let Some(count) = self.header(input, b'*', MULTIBULK)? else { return Ok(None) };
                let max = self.limits.arguments;
                *self.wanted.insert(at_most(count.max(0), max, MULTIBULK)?)
            }
        };
        while self.parts.len() < wanted {
            let Some(part) = self.bulk_string(input)? else { return Ok(None) };
            self.parts.push(part);
        }
        Ok(Some(self.at))
    }

    fn bulk_string(&mut self, input: &[u8]) -> Result<Option<Range<usize>>, ProtocolError> {
        let len = match self.bulk {
            Some(len) => len,
            None => {
                let Some(len) = self.header(input, b'$', "bulk")? else { return Ok(None) };
                let left = self.limits.request_bytes.saturating_sub(self.at + 2);
                let Ok(len) = usize::try_from(len) else { return Err(ProtocolError::Length("bulk")) };
                if len > left {
                    return Err(self.too_long());
                }
                *self.bulk.insert(len)
            }
        };
        let (from, to) = (self.at, self.at + len);
        let Some(end) = input.get(to..to + 2) else { return Ok(None) };
        if end != b"\r\n" {
            return Err(ProtocolError::End);
        }
        self.at = to + 2;
        self.bulk = None;
        Ok(Some(from..to))
    }

    /// Reads the line `<kind><number>`.
    fn header(&mut self, input: &[u8], kind: u8, what: &'static str) -> Result<Option<i64>, ProtocolError> {
        let rest = &input[self.at..];
        match rest.first() {
            None => return Ok(None),
            Some(first) if *first != kind => {
                return Err(ProtocolError::Unexpected { expected: kind.into(), got: printable(*first) });
            }
            Some(_) => {}
        }
        let digit = |byte: &u8| i64::from(byte - b'0');
        let (number, bytes) = match rest {
            // Nearly every line is one of these.
            [_, ones @ b'0'..=b'9', b'\r', b'\n', ..] => (Some(digit(ones)), 4),
            [_, tens @ b'1'..=b'9', ones @ b'0'..=b'9', b'\r', b'\n', ..] => {
                (Some(10 * digit(tens) + digit(ones)), 5)
            }
            _ => {
                let window = &rest[..rest.len().min(HEADER_BYTES_MAX)];
                let Some(end) = window.iter().position(|byte| *byte == b'\n') else {
                    let hopeless = window.len() == HEADER_BYTES_MAX;
                    return if hopeless { Err(ProtocolError::Length(what)) } else { Ok(None) };
                };
                (window[1..end].strip_suffix(b"\r").and_then(crate::number::parse), end + 1)
            }
        };
        self.at += bytes;
        if self.at > self.limits.request_bytes {
            return Err(self.too_long());
        }
        number.map(Some).ok_or(ProtocolError::Length(what))
    }

    /// Reads an inline command: words on a line.
    fn line(&mut self, input: &[u8]) -> Result<Option<usize>, ProtocolError> {
        let max = INLINE_BYTES_MAX.min(self.limits.request_bytes);
        let new = &input[self.at..input.len().min(max)];
        let Some(end) = new.iter().position(|byte| *byte == b'\n').map(|end| self.at + end) else {
            self.at += new.len();
            return if self.at == max { Err(ProtocolError::LineTooLong { max }) } else { Ok(None) };
        };
        let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
        // A web page has made somebody's browser ask here, and has chosen the method, which may be SET or DEL. Nothing behind it is
        // executed either, since that may be commands of the page's.
        if line.ends_with(b" HTTP/1.1") || line.ends_with(b" HTTP/1.0") {
            return Err(ProtocolError::Http);
        }
        self.parts.clear(); // a complete request may be read again
        let text = inline::split(line, &mut self.parts).ok_or(ProtocolError::Quotes)?;
        at_most(self.parts.len() as i64, self.limits.arguments, INLINE)?;
        self.inline = Some(text);
        Ok(Some(end + 1))
    }

    fn too_long(&self) -> ProtocolError {
        ProtocolError::TooLong { max: self.limits.request_bytes }
    }
}

fn at_most(count: i64, max: usize, of: &'static str) -> Result<usize, ProtocolError> {
    usize::try_from(count).ok().filter(|count| *count <= max).ok_or(ProtocolError::TooMany { max, of })
}

fn printable(byte: u8) -> char {
    if byte.is_ascii_graphic() { byte.into() } else { '?' }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: Limits = Limits { request_bytes: 1000, arguments: 20 };

    type Parsed = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

    /// Feeds `pieces` one after another; all requests, and the error that ended them.
    fn parse<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> Parsed {
        let (mut parser, mut input, mut requests) = (Parser::new(LIMITS), Vec::new(), Vec::new());
        for piece in pieces {
            input.extend_from_slice(piece);
            loop {
                match parser.advance(&input) {
                    Ok(Some(bytes)) => {
                        assert_eq!(parser.advance(&input), Ok(Some(bytes)), "the same again");
                        requests.push(parser.args(&input).from(0).map(<[u8]>::to_vec).collect());
                        parser.finish();
                        input.drain(..bytes);
                    }
                    Ok(None) => break,
                    Err(error) => return (requests, Some(error)),
                }
            }
            assert!(input.len() <= LIMITS.request_bytes + piece.len(), "R2");
        }
        (requests, None)
    }

    fn encode(request: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = format!("*{}\r\n", request.len()).into_bytes();
        for arg in request {
            bytes.extend(format!("${}\r\n", arg.len()).bytes());
            bytes.extend(arg);
            bytes.extend(b"\r\n");
        }
        bytes
    }

    fn pieces<'b>(bytes: &'b [u8], cuts: &[usize]) -> Vec<&'b [u8]> {
        let mut at: Vec<_> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
        at.extend([0, bytes.len()]);
        at.sort_unstable();
        at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
    }

    fn error(bytes: &[u8]) -> ProtocolError {
        parse([bytes]).1.unwrap_or_else(|| panic!("{} is taken", bytes.escape_ascii()))
    }

    proptest! {
        /// R1, for requests that are well formed.
        #[test]
        fn pieces_do_not_matter(
            requests in prop::collection::vec(
                prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..8), 0..6),
            cuts in prop::collection::vec(any::<usize>(), 0..10),
        ) {
            let bytes: Vec<u8> = requests.iter().flat_map(|request| encode(request)).collect();
            prop_assert_eq!(parse(pieces(&bytes, &cuts)), (requests, None));
        }

        /// R1 for what is not well formed, out of the protocol's own signs so that it gets far; nothing panics.
        #[test]
        fn garbage_is_judged_the_same_in_pieces(
            words in prop::collection::vec(prop::sample::select(vec![
                "*", "$", "\r\n", "\n", "1", "2", "-1", "999", "99999999999999999999", "a", " ", "\"", "'", "\\x4", "\0",
                "*2\r\n", "$1\r\n", "x\r\n", "PING\r\n",
            ]), 0..40),
            cuts in prop::collection::vec(any::<usize>(), 0..10),
        ) {
            let bytes = words.concat().into_bytes();
            prop_assert_eq!(parse(pieces(&bytes, &cuts)), parse([&bytes[..]]));
        }

        #[test]
        fn any_bytes_are_judged_the_same_in_pieces(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            cuts in prop::collection::vec(any::<usize>(), 0..10),
        ) {
            prop_assert_eq!(parse(pieces(&bytes, &cuts)), parse([&bytes[..]]));
        }
    }

    #[test]
    fn inline_commands_and_empty_lines_are_requests_too() {
        let (requests, error) = parse([&b"PING\r\n\r\nset k \"a b\"\n*0\r\n*-1\r\n*1\r\n$4\r\nPING\r\n"[..]]);
        let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
        let expected =
            [words(&["PING"]), vec![], words(&["set", "k", "a b"]), vec![], vec![], words(&["PING"])];
        assert_eq!((requests, error), (expected.to_vec(), None));
    }

    #[test]
    fn what_is_too_large_is_refused_before_it_is_there() {
        assert_eq!(error(b"*21\r\n"), ProtocolError::TooMany { max: 20, of: MULTIBULK });
        assert_eq!(error(b"*2\r\n$1000\r\n"), ProtocolError::TooLong { max: 1000 });
        assert_eq!(error(&[b'x'; 1000]), ProtocolError::LineTooLong { max: 1000 });
        let three = b"*3\r\n$450\r\n".iter().chain(&[b'x'; 450]).chain(b"\r\n$600\r\n").copied();
        assert_eq!(error(&three.collect::<Vec<_>>()), ProtocolError::TooLong { max: 1000 });
    }

    #[test]
    fn what_is_malformed_is_named() {
        assert_eq!(error(b"*1\r\n:5\r\n"), ProtocolError::Unexpected { expected: '$', got: ':' });
        assert_eq!(error(b"*x\r\n"), ProtocolError::Length("multibulk"));
        assert_eq!(error(b"*1\n"), ProtocolError::Length("multibulk"));
        assert_eq!(error(b"*1\r\n$-1\r\n"), ProtocolError::Length("bulk"));
        assert_eq!(error(b"*1\r\n$+3\r\n"), ProtocolError::Length("bulk"));
        assert_eq!(error(&[b'*'; 32]), ProtocolError::Length("multibulk"));
        assert_eq!(error(b"*1\r\n$2\r\nabcd"), ProtocolError::End);
        assert_eq!(error(b"get \"k\r\n"), ProtocolError::Quotes);
    }

    #[test]
    fn arguments_outlive_their_buffer() {
        let mut parser = Parser::new(LIMITS);
        let input = b"SET  k 'v w'\r\n";
        parser.advance(input).unwrap().unwrap();
        let owned = OwnedArgs::from(parser.args(input));
        assert_eq!(owned.args().from(1).collect::<Vec<_>>(), [&b"k"[..], b"v w"]);
        assert_eq!(owned.args().from(7).count(), 0);
    }
}
