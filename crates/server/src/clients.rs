//! The clients that are connected, for those who list them, and who send them away.

use crate::commands::connection;
use crate::event_loop::Message;
use crate::shared::Shared;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// One client, as others see it.
pub struct Client {
    /// Unique while the server runs.
    pub id: u64,
    /// Its end of the connection.
    pub addr: SocketAddr,
    /// Ours.
    pub local_addr: SocketAddr,
    /// The event loop that serves it.
    pub home: usize,
    /// When it came.
    pub since: Instant,
    /// Has it left, or been sent away, or can nothing reach it? Others may see it before its event loop does.
    pub is_gone: AtomicBool,
    /// What it has told about itself, and what it did last.
    pub told: Mutex<Told>,
}

/// What a client calls itself.
#[derive(Clone, Default)]
pub struct Names {
    /// CLIENT SETNAME.
    pub client: String,
    /// CLIENT SETINFO LIB-NAME.
    pub lib_name: String,
    /// CLIENT SETINFO LIB-VER.
    pub lib_version: String,
}

/// What changes about a client.
pub struct Told {
    /// What it calls itself.
    pub names: Names,
    /// The table its commands mean.
    pub table: String,
    /// Is it between MULTI and EXEC, or between KV.BEGIN and its end?
    pub in_transaction: bool,
    /// Commands that are queued since MULTI; -1 outside.
    pub queued: i64,
    /// RESP version.
    pub protocol: u8,
    /// The last command that was not quite ordinary, or that the loop looked at.
    pub command: &'static str,
    /// Memory that is kept for it, in bytes.
    pub bytes: usize,
    /// When it was last heard of.
    pub active: Instant,
}

impl Client {
    /// A line of CLIENT LIST, without its end. Some clients' libraries read it, and refuse a field that Redis has not, or a `db`
    /// that is no number; so only a table that Redis cannot have is named. Others miss those of Redis's that are numbers: of memory all is
    /// in `tot-mem` here, and the parts are 0.
    pub fn line(&self) -> String {
        let told = self.told.lock();
        let (db, table) = match connection::number_of(&told.table) {
            Some(number) => (number, String::new()),
            None => (-1, format!(" table={}", told.table)),
        };
        format!(
            "id={} addr={} laddr={} name={} age={} idle={} flags={} db={db} sub=0 psub=0 multi={} qbuf=0 \
             qbuf-free=0 argv-mem=0 obl=0 oll=0 omem=0 tot-mem={} cmd={} user=default resp={} lib-name={} \
             lib-ver={} io-thread={}{table}",
            self.id,
            self.addr,
            self.local_addr,
            told.names.client,
            self.since.elapsed().as_secs(),
            told.active.elapsed().as_secs(),
            if told.in_transaction { "x" } else { "N" },
            told.queued,
            told.bytes,
            told.command,
            told.protocol,
            told.names.lib_name,
            told.names.lib_version,
            self.home,
        )
    }

    /// Sends it away.
    pub fn kill(&self, shared: &Shared) {
        self.is_gone.store(true, Relaxed); // the loop looks when it has come to the message, or to a later one
        let inboxes = shared.inboxes.get().expect("set before the first client");
        inboxes[self.home].send(Message::Kill);
    }
}

/// All clients.
#[derive(Default)]
pub struct Clients {
    last: AtomicU64,
    by_id: Mutex<BTreeMap<u64, Arc<Client>>>,
}

impl Clients {
    /// A new client with its end of the connection and ours, unless there are `max`.
    pub fn enter(
        &self,
        (addr, local_addr): (SocketAddr, SocketAddr),
        home: usize,
        table: &str,
        max: usize,
    ) -> Option<Arc<Client>> {
        let mut by_id = self.by_id.lock();
        if by_id.len() >= max {
            return None;
        }
        let now = Instant::now();
        let told = Told {
            names: Names::default(),
            table: table.to_owned(),
            in_transaction: false,
            queued: -1,
            protocol: 2,
            command: "none",
            bytes: 0,
            active: now,
        };
        let id = self.last.fetch_add(1, Relaxed) + 1;
        let is_gone = AtomicBool::new(false);
        let told = Mutex::new(told);
        let client = Arc::new(Client { id, addr, local_addr, home, since: now, is_gone, told });
        by_id.insert(id, client.clone());
        Some(client)
    }

    /// It is gone.
    pub fn leave(&self, id: u64) {
        self.by_id.lock().remove(&id);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.by_id.lock().len()
    }

    /// How many have come so far.
    pub fn total(&self) -> u64 {
        self.last.load(Relaxed)
    }

    /// All, oldest first.
    pub fn list(&self) -> Vec<Arc<Client>> {
        self.by_id.lock().values().cloned().collect()
    }
}
