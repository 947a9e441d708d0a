//! How a server is set up, and what it refuses to be set up as.

use crate::commands::NAME_BYTES_MAX;
use crate::request::Limits;
use foreshore::Durability;
use foreshore_base::memory;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Options of [`Server::start`](crate::Server::start).
///
/// ```
/// use foreshore_server::Options;
/// let options = Options { threads: 2, ..Options::default() };
/// assert!(options.validate().is_ok());
/// let open = Options { listen: "0.0.0.0:6379".parse().unwrap(), ..options };
/// assert!(open.validate().unwrap_err().contains("password"));
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// Where clients connect. Beyond this machine only with a password.
    pub listen: SocketAddr,
    /// Where Prometheus fetches `/metrics`, if anywhere. Needs no password: it tells counters and table names.
    pub metrics: Option<SocketAddr>,
    /// The directory in which KV.BACKUP makes its own; `None`: it is refused.
    pub backups: Option<PathBuf>,
    /// What AUTH asks for; `None`: nothing.
    pub password: Option<String>,
    /// Event loops, each a thread: by default one for each core but one, which the log, the system's network and clients on the same
    /// machine share.
    pub threads: usize,
    /// What the reply to a write waits for.
    pub durability: Durability,
    /// Clients at a time; further ones are turned away.
    pub clients_max: usize,
    /// What a client may send in one request.
    pub limits: Limits,
    /// Unsent replies per client, in bytes, beyond which its further requests wait. One reply may exceed it.
    pub replies_bytes_max: usize,
    /// Memory of all clients together, in bytes: requests, replies, what is queued and watched. If they have more, the largest client of
    /// an event loop whose clients have more than an equal share is disconnected. One turn may exceed it.
    pub client_memory: usize,
    /// Bytes of commands that a client may queue between MULTI and EXEC.
    pub queue_bytes_max: usize,
    /// A client that has sent half a request and less than 64 KiB more of it, or does not take its replies, is disconnected
    /// after this.
    pub stall_timeout: Duration,
    /// A client that sends nothing is disconnected after this; zero: never.
    pub idle_timeout: Duration,
    /// A transaction begun with KV.BEGIN is rolled back if its client sends nothing that concerns rows for about this long; zero: never.
    pub transaction_timeout: Duration,
    /// A command that waits this long for others' locks gives up.
    pub lock_timeout: Duration,
    /// Commands that take longer are put into the slow log.
    pub slow_log_from: Duration,
    /// How long a shutdown waits for clients to take their last replies.
    pub grace: Duration,
}

impl Default for Options {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, |cores| (cores.get() - 1).max(1));
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 6379)),
            metrics: None,
            backups: None,
            password: None,
            threads,
            durability: Durability::Sync,
            clients_max: 10_000,
            // A value of 64 MiB, and what stands around it.
            limits: Limits { request_bytes: 65 << 20, arguments: 1 << 16 },
            replies_bytes_max: 1 << 20,
            client_memory: Self::client_memory_for(threads),
            queue_bytes_max: 16 << 20,
            stall_timeout: Duration::from_secs(60),
            idle_timeout: Duration::ZERO,
            transaction_timeout: Duration::from_secs(10),
            lock_timeout: Duration::from_secs(1),
            slow_log_from: Duration::from_millis(10),
            grace: Duration::from_secs(5),
        }
    }
}

/// One part in so many of the machine's memory is for clients, but at least so much for each event loop: a client may have the largest reply, in a
/// buffer with room for as much again, beside a value of 64 MiB.
const CLIENTS_SHARE: u64 = 8;
const LOOP_BYTES_MIN: usize = 320 << 20;

/// The longest password. Before it is said a client may send little, and HELLO has other arguments as well, such as the client's name.
const PASSWORD_BYTES_MAX: usize = Limits::STRANGER.request_bytes - NAME_BYTES_MAX - 128;

/// More threads than any machine has use for, and fewer than it cannot start.
const THREADS_MAX: usize = 1024;

impl Options {
    /// The default of `client_memory` with so many event loops.
    pub fn client_memory_for(threads: usize) -> usize {
        let share = memory::allowed().unwrap_or(0) / CLIENTS_SHARE;
        usize::try_from(share).unwrap_or(usize::MAX).max(threads.saturating_mul(LOOP_BYTES_MIN))
    }

    /// Says what is wrong with them.
    pub fn validate(&self) -> Result<(), String> {
        if self.password.as_ref().is_some_and(String::is_empty) {
            return Err("the password is empty; name one of at least one byte, or none".into());
        }
        if self.password.as_ref().is_some_and(|password| password.len() > PASSWORD_BYTES_MAX) {
            return Err(format!(
                "the password has more than the {PASSWORD_BYTES_MAX} bytes that a client may say before it is known; choose a \
                 shorter one"
            ));
        }
        if !self.listen.ip().is_loopback() && self.password.is_none() {
            return Err(format!(
                "{} can be reached from other machines, and no password is set; set one (--password-file), or listen on 127.0.0.1",
                self.listen
            ));
        }
        if self.threads == 0 || self.clients_max == 0 {
            return Err("a server needs at least one thread, and room for one client".into());
        }
        if self.threads > THREADS_MAX {
            return Err(format!("{} threads are too many; {THREADS_MAX} are possible", self.threads));
        }
        if self.replies_bytes_max == 0 {
            return Err(
                "a client must be allowed at least one byte of replies, or none of its requests begins"
                    .into(),
            );
        }
        if self.stall_timeout.is_zero() {
            return Err(
                "the stall timeout is 0, which would disconnect any client whose request comes in pieces"
                    .into(),
            );
        }
        if self.client_memory == 0 {
            return Err("clients must be allowed some memory, or each is disconnected at once".into());
        }
        if self.limits.request_bytes < Limits::STRANGER.request_bytes
            || self.limits.arguments < Limits::STRANGER.arguments
        {
            return Err(format!(
                "requests must be allowed at least {} bytes and {} arguments",
                Limits::STRANGER.request_bytes,
                Limits::STRANGER.arguments
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Parser;

    #[test]
    fn other_machines_need_a_password() {
        let at = |listen: &str, password: Option<&str>| Options {
            listen: listen.parse().expect("an address"),
            password: password.map(Into::into),
            ..Options::default()
        };
        for (listen, password, fine) in [
            ("127.0.0.1:0", None, true),
            ("127.9.9.9:0", None, true),
            ("[::1]:0", None, true),
            ("0.0.0.0:0", None, false),
            ("[::]:0", None, false),
            ("192.0.2.1:0", None, false),
            ("0.0.0.0:0", Some("secret"), true),
            ("127.0.0.1:0", Some(""), false),
        ] {
            assert_eq!(at(listen, password).validate().is_ok(), fine, "{listen} {password:?}");
        }
    }

    /// With the longest one a client can say it.
    #[test]
    fn a_password_that_nobody_could_say_is_refused() {
        let with = |bytes| Options { password: Some("p".repeat(bytes)), ..Options::default() };
        assert!(with(PASSWORD_BYTES_MAX).validate().is_ok());
        assert!(with(PASSWORD_BYTES_MAX + 1).validate().unwrap_err().contains("shorter"));
        let (password, mut parser) = ("p".repeat(PASSWORD_BYTES_MAX), Parser::new(Limits::STRANGER));
        let name = "n".repeat(NAME_BYTES_MAX);
        let words = ["HELLO", "3", "AUTH", "default", &password, "SETNAME", &name];
        let word = |word: &str| format!("${}\r\n{word}\r\n", word.len());
        let hello = format!("*{}\r\n{}", words.len(), words.map(word).concat());
        assert_eq!(parser.advance(hello.as_bytes()), Ok(Some(hello.len())));
    }

    #[test]
    fn what_serves_nobody_is_refused() {
        for useless in [
            Options { threads: 0, ..Options::default() },
            Options { threads: usize::MAX, ..Options::default() },
            Options { clients_max: 0, ..Options::default() },
            Options { replies_bytes_max: 0, ..Options::default() },
            Options { client_memory: 0, ..Options::default() },
            Options { stall_timeout: Duration::ZERO, ..Options::default() },
        ] {
            assert!(useless.validate().is_err(), "{useless:?}");
        }
        assert_eq!(Options::client_memory_for(usize::MAX), usize::MAX);
    }
}
