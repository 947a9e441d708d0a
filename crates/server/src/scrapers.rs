//! Those who ask for `/metrics`, over HTTP: a thread of its own for all of them, which waits for none.
//!
//! Why no HTTP library: it is asked a few times a minute, for one page. Why no event loop: what serves clients has nothing
//! to do with these.
//!
//! Invariants:
//! - S1: who says nothing, takes nothing, or never ends, keeps nobody else waiting, and goes: after a while, or for a newcomer.

use crate::metrics;
use crate::shared::{Shared, Thread};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How long a request may take to come, and its answer to go.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often the thread looks whether the server is shutting down, and pauses when it cannot accept.
const LOOK: Duration = Duration::from_millis(100);

/// At a time; from then on the oldest goes for a newcomer. Few, since they take files that are set aside for the database.
const SCRAPERS_MAX: usize = 32;

/// The longest request.
const REQUEST_BYTES_MAX: usize = 8 << 10;

/// Starts answering on `listener`.
pub fn start(shared: &Arc<Shared>, listener: TcpListener) -> io::Result<Thread> {
    listener.set_nonblocking(true)?;
    let shared = shared.clone();
    thread::Builder::new().name("foreshore-metrics".into()).spawn(move || {
        let mut scrapers = VecDeque::new();
        while !shared.is_stopping() {
            wait(&listener, &scrapers);
            accept(&listener, &mut scrapers);
            let now = Instant::now();
            scrapers.retain_mut(|scraper| !scraper.is_over(&shared, now));
        }
        Ok(())
    })
}

/// Sleeps until somebody comes, or one of those who are there can go on, or for a while.
fn wait(listener: &TcpListener, scrapers: &VecDeque<Scraper>) {
    let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 };
    let listening = PollFd::new(listener, PollFlags::IN);
    let going_on = scrapers.iter().map(|scraper| PollFd::new(&scraper.stream, scraper.waits_for()));
    // Whatever the reason for its end, the next step is to look.
    let _ = poll(&mut std::iter::once(listening).chain(going_on).collect::<Vec<_>>(), Some(&timeout));
}

/// Takes a newcomer in, if there is one.
fn accept(listener: &TcpListener, scrapers: &mut VecDeque<Scraper>) {
    match listener.accept().and_then(|(stream, _)| Scraper::new(stream)) {
        Ok(scraper) => {
            if scrapers.len() == SCRAPERS_MAX {
                scrapers.pop_front();
            }
            scrapers.push_back(scraper);
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
        // Out of files, or gone at once.
        Err(_) => thread::sleep(LOOK),
    }
}

/// One of them.
struct Scraper {
    stream: TcpStream,
    request: Vec<u8>,
    /// Empty until the request is there.
    answer: Vec<u8>,
    /// Bytes of it that have left.
    sent: usize,
    /// When it goes, whatever it has got.
    until: Instant,
}

impl Scraper {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            request: Vec::new(),
            answer: Vec::new(),
            sent: 0,
            until: Instant::now() + PATIENCE,
        })
    }

    fn waits_for(&self) -> PollFlags {
        if self.sent == self.answer.len() { PollFlags::IN } else { PollFlags::OUT }
    }

    /// Goes on with it; is it answered, or in vain?
    fn is_over(&mut self, shared: &Shared, now: Instant) -> bool {
        let advanced = self.advance(shared);
        let waits = |error: io::Error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted);
        now >= self.until || !advanced.is_err_and(waits)
    }

    /// Reads and writes what there is. Errors: those of the connection; `WouldBlock` if it is to be gone on with.
    fn advance(&mut self, shared: &Shared) -> io::Result<()> {
        let mut piece = [0; 1024];
        while self.answer.is_empty() {
            let bytes = self.stream.read(&mut piece)?;
            self.request.extend_from_slice(&piece[..bytes]);
            if bytes == 0 || is_whole(&self.request) {
                self.answer = answer(shared, &self.request);
            }
        }
        while self.sent < self.answer.len() {
            match self.stream.write(&self.answer[self.sent..])? {
                0 => return Err(ErrorKind::WriteZero.into()),
                bytes => self.sent += bytes,
            }
        }
        // It sees the end behind the answer, and stays until it has ended, too: closed with something unread, the connection would be
        // reset, and take back what is on its way. A piece at a time, as others have their turns (S1).
        self.stream.shutdown(Shutdown::Write)?;
        match self.stream.read(&mut piece)? {
            0 => Ok(()),
            _ => Err(ErrorKind::WouldBlock.into()),
        }
    }
}

/// Is the empty line after the headers there, or more than anybody needs to ask?
fn is_whole(request: &[u8]) -> bool {
    request.len() >= REQUEST_BYTES_MAX || request.windows(4).any(|end| end == b"\r\n\r\n")
}

fn answer(shared: &Shared, request: &[u8]) -> Vec<u8> {
    let is_asked = request.starts_with(b"GET /metrics ") || request.starts_with(b"GET /metrics?");
    let (status, body) = if is_asked {
        ("200 OK", metrics::render(shared))
    } else {
        ("404 Not Found", "there is /metrics, for GET\n".to_owned())
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    (head + &body).into_bytes()
}
