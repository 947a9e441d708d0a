//! `foreshore serve`: the database over the Redis protocol.

use crate::args::{DbArgs, engine_durability};
use crate::failure::{Failure, Kind, Outcome};
use crate::profile::ProfileArgs;
use crate::signals;
use clap::Args;
use foreshore_server::{Limits, Options, Server, StartError, ThreadLost};
use foreshore_workloads::{Durability, parse_bytes};
use serde::Serialize;
use std::borrow::Cow;
use std::env::VarError;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

const AFTER_HELP: &str = "\
Examples:
  foreshore serve                        then: redis-cli set greeting hello
  foreshore serve --listen 127.0.0.1:7000 --durability buffered
  foreshore serve --metrics 127.0.0.1:9100
  foreshore serve --backups /var/backups then: redis-cli kv.backup monday
  foreshore serve --listen 0.0.0.0:6379 --password-file /etc/foreshore.password

Durability: with `sync` a reply to a write means that it survives the loss of
power; writes of many clients share one sync of the device. With `buffered` it
survives `kill -9`, and about a tenth of a second may be lost with the power.

An EXEC that takes more than a second, or would answer more than 128 MiB, is
undone and refused.

It ends in order on SIGINT, SIGTERM, SIGHUP (unless it was started by nohup) and
the command SHUTDOWN. What it answers is in docs/serve.md.";

/// Serve a database over the Redis protocol, for redis-cli and clients in any language
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct ServeArgs {
    #[command(flatten)]
    db: DbArgs,
    #[command(flatten)]
    profile: ProfileArgs,
    /// Address and port for clients; beyond this machine only with a password
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6379", value_parser = parse_addr)]
    listen: SocketAddr,
    /// File whose first line is the password that AUTH asks for; FORESHORE_PASSWORD sets one too
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Address and port of /metrics for Prometheus; off by default. It needs no password
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_addr)]
    metrics: Option<SocketAddr>,
    /// Directory below which clients make backups by KV.BACKUP; without it they cannot
    #[arg(long, value_name = "DIR")]
    backups: Option<PathBuf>,
    /// What the reply to a write waits for
    #[arg(long, value_enum, default_value_t = Durability::Sync)]
    durability: Durability,
    /// Event loops, each a thread; one for each core but one by default
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Clients at a time
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    clients: usize,
    /// The largest request: bytes, or 64KiB, 1MiB …
    #[arg(long, value_name = "BYTES", default_value = "65MiB", value_parser = parse_bytes)]
    request_bytes: u64,
    /// Unsent replies of a client beyond which its further requests wait
    #[arg(long, value_name = "BYTES", default_value = "1MiB", value_parser = parse_bytes)]
    reply_bytes: u64,
    /// Memory of all clients together; beyond it large ones are disconnected [default: an eighth of the memory, and at
    /// least 320 MiB for each event loop]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    client_memory: Option<u64>,
    /// Disconnect a client that sends nothing for so many seconds; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    idle_timeout: u64,
    /// Disconnect a client that stops within a request, or does not take its replies, for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    stall_timeout: u64,
    /// Roll back a transaction of KV.BEGIN whose client does nothing with rows for so many seconds; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    transaction_timeout: u64,
    /// A command gives up when it has waited so many milliseconds for locks of others; 0: at once
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    lock_timeout: u64,
    /// Put commands into the slow log that take so many microseconds; 0: all
    #[arg(long, value_name = "US", default_value_t = 10_000)]
    slow_log_from: u64,
}

/// What it says once it serves.
#[derive(Serialize)]
struct Serving<'a> {
    listen: SocketAddr,
    metrics: Option<SocketAddr>,
    threads: usize,
    durability: Durability,
    dir: Cow<'a, str>,
}

fn parse_addr(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "an IP address and a port are wanted, such as 127.0.0.1:6379 or [::1]:6379".into())
}

/// Serves until it is told to stop.
pub fn run(args: &ServeArgs) -> Outcome {
    let options = args.options()?;
    options.validate().map_err(Failure::usage)?;
    let threads = options.threads;
    let builder = args.profile.advise(args.db.builder())?.durability(options.durability);
    let db = args.db.open_or_create(builder)?;
    let server = Server::start(db.clone(), options)?;
    let stop = server.handle();
    signals::catch(move || stop.stop())?;
    match args.announce(&server, threads) {
        // Nobody wants to know where it is: clients may know.
        Err(unread) if unread.kind == Kind::ReaderGone => {}
        announced => announced?,
    }
    let served = server.wait();
    db.close()?;
    Ok(served?)
}

impl ServeArgs {
    fn options(&self) -> Outcome<Options> {
        let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let defaults = Options::default();
        let threads = self.threads.unwrap_or(defaults.threads);
        let client_memory = self.client_memory.map_or_else(|| Options::client_memory_for(threads), bytes);
        Ok(Options {
            listen: self.listen,
            metrics: self.metrics,
            backups: self.backups.clone(),
            password: self.password()?,
            threads,
            durability: engine_durability(self.durability),
            clients_max: self.clients,
            limits: Limits { request_bytes: bytes(self.request_bytes), ..defaults.limits },
            replies_bytes_max: bytes(self.reply_bytes),
            client_memory,
            stall_timeout: Duration::from_secs(self.stall_timeout),
            idle_timeout: Duration::from_secs(self.idle_timeout),
            transaction_timeout: Duration::from_secs(self.transaction_timeout),
            lock_timeout: Duration::from_millis(self.lock_timeout),
            slow_log_from: Duration::from_micros(self.slow_log_from),
            ..defaults
        })
    }

    /// Never an argument: those are seen by everyone on the machine.
    fn password(&self) -> Outcome<Option<String>> {
        let Some(path) = &self.password_file else {
            return match std::env::var("FORESHORE_PASSWORD") {
                Ok(password) => Ok(Some(password)),
                Err(VarError::NotPresent) => Ok(None),
                Err(VarError::NotUnicode(_)) => Err(Failure::usage("FORESHORE_PASSWORD must be UTF-8 text")),
            };
        };
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::io(format!("reading {}", path.display()), &error))?;
        Ok(Some(text.lines().next().unwrap_or_default().to_owned()))
    }

    fn announce(&self, server: &Server, threads: usize) -> Outcome {
        let serving = Serving {
            listen: server.addr(),
            metrics: server.metrics_addr(),
            threads,
            durability: self.durability,
            dir: self.db.dir.to_string_lossy(),
        };
        let mut output = self.db.output();
        if output.is_json() {
            output.object(&serving)?;
            return output.finish();
        }
        let (addr, dir) = (serving.listen, &serving.dir);
        output.line(format_args!(
            "{dir} is served at {addr}; try: redis-cli -h {} -p {}",
            addr.ip(),
            addr.port()
        ))?;
        if let Some(metrics) = serving.metrics {
            output.line(format_args!("metrics are at http://{metrics}/metrics"))?;
        }
        output.finish()
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Database(error) => error.into(),
            StartError::Io { what, source } if source.kind() == io::ErrorKind::AddrInUse => {
                Self::io(what, &source).note("name another address by --listen, or by --metrics")
            }
            StartError::Io { what, source } => Self::io(what, &source),
            other => Self::usage(other.to_string()),
        }
    }
}

/// Whoever watches over the server sees that it did not end because it was told to.
impl From<ThreadLost> for Failure {
    fn from(lost: ThreadLost) -> Self {
        Self::of(Kind::Io, lost.to_string())
    }
}
