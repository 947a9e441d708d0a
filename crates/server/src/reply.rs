//! Replies into bytes, in RESP2 or RESP3.
//!
//! Why not a crate: `resp-rs` serializes a tree of owned values into a buffer of its own, for each reply. Here replies are
//! appended to the connection's buffer as they arise. `resp-rs` reads them in the tests.

/// Which version of the protocol a client has asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// What every client speaks, and begins with.
    #[default]
    Resp2,
    /// With maps, sets and a null of its own, after `HELLO 3`.
    Resp3,
}

/// Writes one reply. What is nested is announced by its length, then written.
#[derive(Debug)]
pub struct Reply<'o> {
    out: &'o mut Vec<u8>,
    protocol: Protocol,
}

impl<'o> Reply<'o> {
    /// Appends to `out`.
    pub fn new(out: &'o mut Vec<u8>, protocol: Protocol) -> Self {
        Self { out, protocol }
    }

    /// `+OK`.
    pub fn ok(&mut self) {
        self.simple("OK");
    }

    /// A short text of the server's own, without line breaks.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error: a code in capitals, then what is wrong and what to do. Line breaks become spaces.
    pub fn error(&mut self, text: &str) {
        self.out.push(b'-');
        self.out.extend(text.bytes().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
        self.out.extend_from_slice(b"\r\n");
    }

    /// An integer.
    pub fn integer(&mut self, number: i64) {
        self.line(b':', itoa::Buffer::new().format(number).as_bytes());
    }

    /// A count.
    pub fn count(&mut self, count: u64) {
        self.line(b':', itoa::Buffer::new().format(count).as_bytes());
    }

    /// Bytes.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.length(b'$', bytes.len());
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Bytes, or that there are none.
    pub fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// No value.
    pub fn null(&mut self) {
        self.nothing(b"$-1\r\n");
    }

    /// No array: a transaction that did not happen.
    pub fn null_array(&mut self) {
        self.nothing(b"*-1\r\n");
    }

    /// `len` replies follow.
    pub fn array(&mut self, len: usize) {
        self.length(b'*', len);
    }

    /// `len` pairs of replies follow; in RESP2 an array of twice the length.
    pub fn map(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.length(b'*', 2 * len),
            Protocol::Resp3 => self.length(b'%', len),
        }
    }

    /// `len` replies follow, whose order means nothing; in RESP2 an array.
    pub fn set(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.array(len),
            Protocol::Resp3 => self.length(b'~', len),
        }
    }

    /// Text for people.
    pub fn text(&mut self, text: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => {
                self.length(b'=', text.len() + 4);
                self.out.extend_from_slice(b"txt:");
                self.out.extend_from_slice(text.as_bytes());
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    fn nothing(&mut self, resp2: &[u8]) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => resp2,
            Protocol::Resp3 => b"_\r\n",
        });
    }

    fn length(&mut self, kind: u8, len: usize) {
        self.line(kind, itoa::Buffer::new().format(len).as_bytes());
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.out.push(kind);
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use resp_rs::{resp2, resp3};

    fn written(protocol: Protocol, write: impl FnOnce(&mut Reply<'_>)) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut Reply::new(&mut out, protocol));
        out
    }

    fn everything(reply: &mut Reply<'_>) {
        reply.array(9);
        reply.ok();
        reply.error("ERR two\r\nlines");
        reply.integer(i64::MIN);
        reply.count(u64::MAX >> 1);
        reply.bulk(b"\0\r\n");
        reply.null();
        reply.null_array();
        reply.map(1);
        reply.bulk(b"k");
        reply.set(1);
        reply.integer(1);
        reply.text("hello");
    }

    /// Somebody else's reader understands what is written.
    #[test]
    fn resp2_is_read_by_others() {
        use resp2::Frame::{Array, BulkString, Error, Integer, SimpleString};
        let bytes = written(Protocol::Resp2, everything);
        let (frame, rest) = resp2::parse_frame(bytes.into()).expect("it is RESP2");
        let bulk = |bytes: &'static [u8]| BulkString(Some(bytes.into()));
        let expected = vec![
            SimpleString("OK".into()),
            Error("ERR two  lines".into()),
            Integer(i64::MIN),
            Integer(i64::MAX),
            bulk(b"\0\r\n"),
            BulkString(None),
            Array(None),
            Array(Some(vec![bulk(b"k"), Array(Some(vec![Integer(1)]))])),
            bulk(b"hello"),
        ];
        assert_eq!((frame, rest.len()), (Array(Some(expected)), 0));
    }

    #[test]
    fn resp3_is_read_by_others() {
        use resp3::Frame::{Array, BulkString, Error, Integer, Map, Null, Set, SimpleString, VerbatimString};
        let bytes = written(Protocol::Resp3, everything);
        let (frame, rest) = resp3::parse_frame(bytes.into()).expect("it is RESP3");
        let bulk = |bytes: &'static [u8]| BulkString(Some(bytes.into()));
        let expected = vec![
            SimpleString("OK".into()),
            Error("ERR two  lines".into()),
            Integer(i64::MIN),
            Integer(i64::MAX),
            bulk(b"\0\r\n"),
            Null,
            Null,
            Map(vec![(bulk(b"k"), Set(vec![Integer(1)]))]),
            VerbatimString { payload: "txt:hello".into() },
        ];
        assert_eq!((frame, rest.len()), (Array(Some(expected)), 0));
    }
}
