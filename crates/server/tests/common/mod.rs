//! A server in this process, and a client that speaks bytes, whose reader of replies is somebody else's.

#![allow(dead_code, reason = "every test file uses its own part")]

use foreshore::Database;
use foreshore_server::{Options, Server};
use resp_rs::resp3::{Frame, Parser};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Long enough for a loaded machine; reached only by a test that fails.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A server over a database in memory, which stops with the test.
pub struct Running {
    pub db: Database,
    server: Option<Server>,
    addr: SocketAddr,
}

/// Options for tests: any port, two event loops.
pub fn options() -> Options {
    Options { listen: "127.0.0.1:0".parse().expect("an address"), threads: 2, ..Options::default() }
}

impl Running {
    pub fn new() -> Self {
        Self::with(options())
    }

    pub fn with(options: Options) -> Self {
        Self::over(Database::in_memory().expect("memory"), options)
    }

    pub fn over(db: Database, options: Options) -> Self {
        let server = Server::start(db.clone(), options).expect("a server");
        Self { addr: server.addr(), db, server: Some(server) }
    }

    pub fn client(&self) -> Client {
        Client::connect(self.addr)
    }

    pub fn server(&self) -> &Server {
        self.server.as_ref().expect("not stopped yet")
    }

    /// Stops the server as an operator would, and waits for it.
    pub fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.handle().stop();
            let ended = server.wait();
            assert!(ended.is_ok() || std::thread::panicking(), "{ended:?}");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A reply, whichever version of the protocol it came in.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Int(i64),
    Text(String),
    Error(String),
    List(Vec<Value>),
}

#[allow(unused_imports, reason = "every test file uses its own part")]
pub use Value::{Int, List, Null};

pub fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

pub fn ok() -> Value {
    text("OK")
}

pub fn list<const N: usize>(words: [&str; N]) -> Value {
    List(words.map(text).to_vec())
}

impl From<Frame> for Value {
    fn from(frame: Frame) -> Self {
        let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match frame {
            Frame::SimpleString(bytes) | Frame::BulkString(Some(bytes)) => Self::Text(lossy(&bytes)),
            Frame::VerbatimString { payload } => Self::Text(lossy(&payload[4..])),
            Frame::Error(bytes) => Self::Error(lossy(&bytes)),
            Frame::Integer(number) => Self::Int(number),
            Frame::Array(Some(frames)) | Frame::Set(frames) => {
                Self::List(frames.into_iter().map(Self::from).collect())
            }
            Frame::Map(pairs) => {
                Self::List(pairs.into_iter().flat_map(|(k, v)| [k.into(), v.into()]).collect())
            }
            Frame::Null | Frame::BulkString(None) | Frame::Array(None) => Self::Null,
            other => panic!("a reply that no command has: {other:?}"),
        }
    }
}

impl Value {
    /// The text of an error.
    #[track_caller]
    pub fn error(&self) -> &str {
        match self {
            Self::Error(text) => text,
            other => panic!("{other:?} is no error"),
        }
    }

    #[track_caller]
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            other => panic!("{other:?} is no text"),
        }
    }

    #[track_caller]
    pub fn list(&self) -> &[Value] {
        match self {
            Self::List(values) => values,
            other => panic!("{other:?} is no list"),
        }
    }
}

/// A client.
pub struct Client {
    pub stream: TcpStream,
    parser: Parser,
}

impl Client {
    pub fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Self { stream, parser: Parser::new() }
    }

    /// Sends a command of words, and waits for its reply.
    #[track_caller]
    pub fn call(&mut self, line: &str) -> Value {
        self.call_args(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    }

    /// Sends a command, and waits for its reply.
    #[track_caller]
    pub fn call_args(&mut self, args: &[&[u8]]) -> Value {
        self.send_raw(&encode(args));
        self.reply()
    }

    /// Sends commands of words, and does not wait.
    pub fn send(&mut self, lines: &[&str]) {
        let one = |line: &&str| encode(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        self.send_raw(&lines.iter().flat_map(one).collect::<Vec<_>>());
    }

    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server takes it");
    }

    /// The next reply.
    #[track_caller]
    pub fn reply(&mut self) -> Value {
        self.try_reply().expect("a reply")
    }

    /// The next reply; `None` if the server has closed the connection.
    #[track_caller]
    pub fn try_reply(&mut self) -> Option<Value> {
        self.try_frame().map(Value::from)
    }

    /// The same, exactly as it came.
    #[track_caller]
    pub fn try_frame(&mut self) -> Option<Frame> {
        let mut piece = [0; 64 << 10];
        loop {
            if let Some(frame) = self.parser.next_frame().expect("replies are RESP") {
                return Some(frame);
            }
            match self.stream.read(&mut piece) {
                Ok(0) => return None,
                Ok(bytes) => self.parser.feed(piece[..bytes].to_vec().into()),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no reply within {PATIENCE:?}: {error}"),
            }
        }
    }
}

/// A request as clients send it.
pub fn encode(args: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend(format!("${}\r\n", arg.len()).bytes());
        bytes.extend(*arg);
        bytes.extend(b"\r\n");
    }
    bytes
}

/// Waits until `reached`.
#[track_caller]
pub fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !reached() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Memory that this process has, where it is Linux.
pub fn resident_bytes() -> usize {
    status_bytes("VmRSS:")
}

/// Memory of this process, of this kind.
pub fn status_bytes(kind: &str) -> usize {
    foreshore_base::memory::of_process(kind).expect("Linux tells it") as usize
}
