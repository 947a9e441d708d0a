//! Starting, accepting, stopping.

use crate::clients::Client;
use crate::commands::default_table;
use crate::descriptors;
use crate::event_loop::{EventLoop, Message};
use crate::options::Options;
use crate::scrapers;
use crate::shared::{Shared, Thread, start_thread, tell};
use foreshore::Database;
use rustix::net::sockopt;
use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// A connection that says nothing is probed after this, and then at this interval, as often as this. So a peer that
/// vanished is noticed within three minutes, whatever the timeouts are; one that vanished with a reply on its way, which
/// is not probed but sent the reply again, within as long, or within the stall timeout if that is longer.
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(120);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEP_ALIVE_PROBES: u32 = 4;

/// How often the accepting thread looks whether the server is shutting down, and pauses when it cannot accept.
const LOOK: Duration = Duration::from_millis(50);

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The options contradict each other, or are unsafe.
    #[error("{0}")]
    Options(String),
    /// The operating system refused.
    #[error("{what}: {source}")]
    Io {
        /// What was attempted.
        what: String,
        /// Its reason.
        source: io::Error,
    },
    /// The database refused.
    #[error(transparent)]
    Database(#[from] foreshore::Error),
}

/// A server has lost one of its threads, by a panic or since the system refused what it needs: it has stopped, and may be started again.
#[derive(Debug, thiserror::Error)]
#[error("the server has lost its thread {name}; stderr says why")]
#[non_exhaustive]
pub struct ThreadLost {
    /// The thread's name.
    pub name: String,
}

/// A running server.
///
/// ```
/// use foreshore::Database;
/// use foreshore_server::{Options, Server};
/// use std::io::{Read, Write};
///
/// let db = Database::in_memory()?;
/// let options = Options { listen: "127.0.0.1:0".parse()?, ..Options::default() };
/// let server = Server::start(db.clone(), options)?;
/// let mut client = std::net::TcpStream::connect(server.addr())?;
/// client.write_all(b"SET greeting hello\r\nQUIT\r\n")?;
/// let mut replies = String::new();
/// client.read_to_string(&mut replies)?;
/// assert_eq!(replies, "+OK\r\n+OK\r\n");
/// server.handle().stop();
/// server.wait()?;
/// assert_eq!(db.byte_table("db0")?.get(b"greeting")?.as_deref(), Some(&b"hello"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Server {
    shared: Arc<Shared>,
    addr: SocketAddr,
    metrics_addr: Option<SocketAddr>,
    threads: Threads,
}

/// Stops a server from any thread.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

impl Handle {
    /// Begins the shutdown, and returns at once: nothing new is accepted or executed; replies to what was executed are
    /// still sent, for [`Options::grace`]; transactions that clients hold are rolled back.
    pub fn stop(&self) {
        self.0.stop();
    }
}

impl Server {
    /// Starts serving `db`.
    ///
    /// Errors: options that are unsafe, an address that is taken, no threads.
    pub fn start(db: Database, options: Options) -> Result<Self, StartError> {
        options.validate().map_err(StartError::Options)?;
        let (listener, addr) = listen(options.listen, "clients")?;
        let metrics_listener = options.metrics.map(|addr| listen(addr, "/metrics")).transpose()?;
        let metrics_addr = metrics_listener.as_ref().map(|(_, addr)| *addr);
        let clients_max = room_for_clients(&options);
        let shared = Arc::new(Shared::new(db, Options { listen: addr, clients_max, ..options }));
        shared.open(&default_table())?;
        let threads = Threads::start(&shared, listener, metrics_listener.map(|(listener, _)| listener))
            .map_err(|source| StartError::Io { what: "starting threads".into(), source })?;
        Ok(Self { shared, addr, metrics_addr, threads })
    }

    /// Where it listens; useful after asking for port 0.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Where `/metrics` is, if anywhere.
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics_addr
    }

    /// What stops it.
    pub fn handle(&self) -> Handle {
        Handle(self.shared.clone())
    }

    /// Waits until it has been stopped, by a [`Handle`] or by SHUTDOWN, and all its threads have ended. Then the caller
    /// can close the database.
    ///
    /// Errors: it has lost a thread, and stopped for that.
    pub fn wait(self) -> Result<(), ThreadLost> {
        self.threads.join(&self.shared)
    }
}

/// The threads of a server.
#[derive(Default)]
struct Threads {
    accepting: Option<Thread>,
    loops: Vec<Thread>,
    helpers: Vec<Thread>,
}

impl Threads {
    /// Starts all of them, or none.
    fn start(
        shared: &Arc<Shared>,
        listener: TcpListener,
        metrics_listener: Option<TcpListener>,
    ) -> io::Result<Self> {
        let mut threads = Self::default();
        match threads.start_each(shared, listener, metrics_listener) {
            Ok(()) => Ok(threads),
            Err(error) => {
                shared.stop();
                _ = threads.join(shared); // those that were started have done nothing yet
                Err(error)
            }
        }
    }

    fn start_each(
        &mut self,
        shared: &Arc<Shared>,
        listener: TcpListener,
        metrics_listener: Option<TcpListener>,
    ) -> io::Result<()> {
        start_loops(shared, &mut self.loops)?;
        shared.chores.start(shared, &mut self.helpers)?;
        if let Some(listener) = metrics_listener {
            self.helpers.push(scrapers::start(shared, listener)?);
        }
        self.accepting = Some(start_accepting(shared, listener)?);
        Ok(())
    }

    /// Waits until all have ended, once the server has been stopped. Those that are not lost end as they should.
    fn join(self, shared: &Shared) -> Result<(), ThreadLost> {
        let Self { accepting, loops, helpers } = self;
        let served = join_all(accepting.into_iter().chain(loops));
        shared.chores.stop();
        let helped = join_all(helpers);
        shared.inboxes.get().into_iter().flatten().for_each(|inbox| inbox.clear());
        served.and(helped)
    }
}

/// Waits for all of them; the first error.
fn join_all(threads: impl IntoIterator<Item = Thread>) -> Result<(), ThreadLost> {
    threads.into_iter().map(join).fold(Ok(()), Result::and)
}

fn join(thread: Thread) -> Result<(), ThreadLost> {
    let name = thread.thread().name().unwrap_or_default().to_owned();
    match thread.join() {
        Ok(Ok(())) => Ok(()),
        _ => Err(ThreadLost { name }),
    }
}

/// At most as many as are wanted; says so if there are fewer.
fn room_for_clients(options: &Options) -> usize {
    let wanted = options.clients_max;
    let room = descriptors::room_for(wanted, options.threads);
    if room < wanted {
        tell(format_args!(
            "there is room for {room} clients, not {wanted}; allow more open files (ulimit -n)"
        ));
    }
    room
}

fn listen(addr: SocketAddr, what: &str) -> Result<(TcpListener, SocketAddr), StartError> {
    let failed = |source| StartError::Io { what: format!("listening for {what} on {addr}"), source };
    let listener = TcpListener::bind(addr).map_err(failed)?;
    let addr = listener.local_addr().map_err(failed)?;
    Ok((listener, addr))
}

/// Starts the event loops, and adds them to `threads`.
fn start_loops(shared: &Arc<Shared>, threads: &mut Vec<Thread>) -> io::Result<()> {
    let new = |home| EventLoop::new(home, shared.clone());
    let loops = (0..shared.options.threads).map(new).collect::<io::Result<Vec<_>>>()?;
    let inboxes = loops.iter().map(EventLoop::inbox).collect();
    assert!(shared.inboxes.set(inboxes).is_ok(), "a server is started once");
    for (home, event_loop) in loops.into_iter().enumerate() {
        threads.push(start_thread(shared, format!("foreshore-loop-{home}"), |_| {
            event_loop.run().inspect_err(|error| {
                tell(format_args!("an event loop ended, the server stops: {error}"));
            })
        })?);
    }
    Ok(())
}

fn start_accepting(shared: &Arc<Shared>, listener: TcpListener) -> io::Result<Thread> {
    listener.set_nonblocking(true)?;
    start_thread(shared, "foreshore-accept", move |shared| {
        let mut next = 0;
        while !shared.is_stopping() {
            match listener.accept() {
                Ok((stream, addr)) => {
                    welcome(shared, stream, addr, next);
                    next = (next + 1) % shared.options.threads;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => wait_for_client(&listener),
                // Out of files, or a client that was gone at once: others may leave, or come.
                Err(_) => thread::sleep(LOOK),
            }
        }
        Ok(())
    })
}

/// Sleeps until a client comes, or for a while.
fn wait_for_client(listener: &TcpListener) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 };
    // Whatever the reason for its end, the next step is to look.
    let _ = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&timeout));
}

/// Gives a new client to the event loop `home`.
fn welcome(shared: &Shared, stream: TcpStream, addr: SocketAddr, home: usize) {
    let max = shared.options.clients_max;
    let entered = set_up(&stream, shared.options.stall_timeout)
        .and_then(|()| stream.local_addr())
        .ok()
        .and_then(|local| shared.clients.enter((addr, local), home, &default_table().name, max));
    match entered {
        Some(client) => give(shared, stream, client),
        None => turn_away(shared, stream),
    }
}

fn give(shared: &Shared, stream: TcpStream, client: Arc<Client>) {
    let inboxes = shared.inboxes.get().expect("set before the first client");
    inboxes[client.home].send(Message::Client(stream, client));
}

fn set_up(stream: &TcpStream, stall_timeout: Duration) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEP_ALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEP_ALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, KEEP_ALIVE_PROBES)?;
    let unanswered = stall_timeout.max(KEEP_ALIVE_IDLE + KEEP_ALIVE_PROBES * KEEP_ALIVE_INTERVAL);
    // The system takes no more milliseconds than that.
    let unanswered_ms = unanswered.as_millis().min(i32::MAX as u128) as u32;
    sockopt::set_tcp_user_timeout(stream, unanswered_ms)?;
    Ok(())
}

fn turn_away(shared: &Shared, mut stream: TcpStream) {
    shared.turned_away.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    // Its buffer is empty: this does not block, and if it fails the closing says enough.
    let _ = stream.write_all(b"-ERR max number of clients reached\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chores::Brought;
    use crate::commands::Attempt;
    use crate::request::{Limits, OwnedArgs, Parser};
    use crate::session::Session;
    use std::io::Read;

    fn local_listener() -> TcpListener {
        TcpListener::bind("127.0.0.1:0").expect("a port")
    }

    /// Nobody goes on with the database of a server that has not been started.
    #[test]
    fn who_cannot_start_all_threads_leaves_none() {
        use std::os::fd::OwnedFd;
        use std::os::unix::fs::OpenOptionsExt;
        const O_PATH: i32 = 0o10_000_000;
        let shared = Arc::new(Shared::new(Database::in_memory().expect("memory"), Options::default()));
        // A file that is only a place is no listener that one could set up.
        let place =
            std::fs::OpenOptions::new().read(true).custom_flags(O_PATH).open("/").expect("it is there");
        let unusable = TcpListener::from(OwnedFd::from(place));
        assert!(Threads::start(&shared, local_listener(), Some(unusable)).is_err());
        assert_eq!(Arc::strong_count(&shared), 1);
    }

    /// A client that came too late for its event loop sees its connection end, and what comes back from elsewhere is undone,
    /// though somebody can still say that the server is to stop.
    #[test]
    fn nothing_stays_with_loops_that_have_ended() {
        let db = Database::in_memory().expect("memory");
        let options = Options { listen: ([127, 0, 0, 1], 0).into(), threads: 1, ..Options::default() };
        let server = Server::start(db.clone(), options).expect("a server");
        let Handle(shared) = server.handle();
        shared.stop();
        while !server.threads.loops.iter().all(Thread::is_finished) {
            thread::sleep(Duration::from_millis(1));
        }
        let listener = local_listener();
        let mut late = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        let (stream, addr) = listener.accept().expect("a client");
        let client = shared.clients.enter((addr, addr), 0, &default_table().name, 1).expect("room for it");
        let target = shared.find_opened(&default_table().name).expect("opened at the start");
        let mut session = Session::new(client.clone(), target, true);
        let open = shared.begin_open().expect("memory").expect("room for it");
        (session.transaction, session.place) = (Some(open.transaction), Some(open.place));
        let args = OwnedArgs::from(Parser::new(Limits::STRANGER).args(b""));
        let brought = Brought::Command(Box::new(session), args, Vec::new(), Attempt::PutOff);
        let inboxes = shared.inboxes.get().expect("set at the start");
        inboxes[0].send(Message::ChoreDone { client: (0, client.id), brought });
        give(&shared, stream, client);
        server.wait().expect("all threads end as they should");
        late.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
        assert_eq!(late.read(&mut [0]).expect("an end"), 0);
        assert!(db.transactions().is_empty() && shared.open_transactions() == 0);
    }

    /// Whoever watches over the server is to start it again.
    #[test]
    fn who_waits_is_told_of_a_lost_thread() {
        let ends: [fn() -> io::Result<()>; 2] =
            [|| panic!("as it should"), || Err(io::Error::other("as it should"))];
        for end in ends {
            let options = Options { listen: ([127, 0, 0, 1], 0).into(), threads: 1, ..Options::default() };
            let mut server =
                Server::start(Database::in_memory().expect("memory"), options).expect("a server");
            let thread = start_thread(&server.shared, "foreshore-lost", move |_| end()).expect("a thread");
            server.threads.helpers.push(thread);
            let lost = server.wait().expect_err("a thread was lost");
            assert!(lost.to_string().contains("foreshore-lost"), "{lost}");
        }
    }

    /// A reply that is never acknowledged keeps the system from probing: it must have an end of its own.
    #[test]
    fn a_peer_that_vanished_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        for (stall_timeout_s, noticed_ms) in [(60, 180_000), (600, 600_000), (365 * 86_400, i32::MAX as u32)]
        {
            set_up(&stream, Duration::from_secs(stall_timeout_s)).expect("options that there are");
            assert_eq!(sockopt::tcp_user_timeout(&stream).expect("set"), noticed_ms);
        }
    }
}
