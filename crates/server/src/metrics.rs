//! `/metrics` for Prometheus: the server's counters and the engine's, by the names that `foreshore stats` has for them.
//!
//! A thread of its own, one request at a time: it is asked a few times a minute. The format is a line per figure, which
//! needs no library.

use crate::counters;
use crate::shared::Shared;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{sync::Arc, time::Instant};

/// How long a request may take to come, and its answer to go.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often the thread looks whether the server is shutting down.
const LOOK: Duration = Duration::from_millis(100);

/// The longest request.
const REQUEST_BYTES_MAX: usize = 8 << 10;

/// Engine figures that go down as well as up.
const GAUGES: [&str; 16] = [
    "log_durable_lsn",
    "log_to_redo_bytes",
    "pool_frames",
    "pool_resident",
    "pool_dirty",
    "pages",
    "leaf_file_bytes",
    "blob_file_bytes",
    "blob_free_bytes",
    "index_bytes",
    "redo_bytes",
    "redo_records",
    "open_ns",
    "transactions",
    "snapshots",
    "image_bytes",
];

/// Starts answering on `listener`.
pub fn start(shared: &Arc<Shared>, listener: TcpListener) -> io::Result<JoinHandle<()>> {
    listener.set_nonblocking(true)?;
    let shared = shared.clone();
    thread::Builder::new().name("foreshore-metrics".into()).spawn(move || {
        while !shared.is_stopping() {
            match listener.accept() {
                // A scraper that hangs up, or sends nothing, is its own affair.
                Ok((stream, _)) => _ = answer(&shared, stream),
                Err(_) => thread::sleep(LOOK),
            }
        }
    })
}

fn answer(shared: &Shared, mut stream: TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = read_head(&mut stream)?;
    let is_asked = request.starts_with(b"GET /metrics ") || request.starts_with(b"GET /metrics?");
    let (status, body) = if is_asked {
        ("200 OK", render(shared))
    } else {
        ("404 Not Found", "there is /metrics, for GET\n".to_owned())
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Reads up to the empty line after the headers, within [`PATIENCE`] in all.
fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let (mut head, mut piece, until) = (Vec::new(), [0; 1024], Instant::now() + PATIENCE);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < REQUEST_BYTES_MAX {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece)? {
            0 => break,
            n => head.extend_from_slice(&piece[..n]),
        }
    }
    Ok(head)
}

/// All figures as text.
pub fn render(shared: &Shared) -> String {
    let mut text = String::new();
    for (name, help, value) in counters::all(&shared.counters) {
        figure(&mut text, &format!("server_{name}"), "counter", help, value);
    }
    let clients = shared.clients.count() as u64;
    figure(&mut text, "server_clients", "gauge", "Clients connected", clients);
    figure(&mut text, "server_clients_total", "counter", "Clients that came", shared.clients.total());
    let turned_away = shared.turned_away.load(Relaxed);
    figure(
        &mut text,
        "server_turned_away_total",
        "counter",
        "Clients for whom there was no room",
        turned_away,
    );
    let open = shared.open_transactions() as u64;
    figure(&mut text, "server_open_transactions", "gauge", "Transactions that clients hold", open);
    let stats = serde_json::to_value(shared.db.stats()).unwrap_or_default();
    for (name, value) in stats.as_object().into_iter().flatten() {
        if let Some(value) = value.as_u64() {
            let kind = if GAUGES.contains(&name.as_str()) || name == "tables" { "gauge" } else { "counter" };
            figure(&mut text, name, kind, &format!("The engine's {name}; see `foreshore stats`"), value);
        }
    }
    waits(&mut text, &stats["waits"]);
    text
}

fn figure(text: &mut String, name: &str, kind: &str, help: &str, value: u64) {
    let _ = write!(
        text,
        "# HELP foreshore_{name} {help}\n# TYPE foreshore_{name} {kind}\nforeshore_{name} {value}\n"
    );
}

/// Where threads waited, as one figure with a label.
fn waits(text: &mut String, waits: &Value) {
    for (field, help) in [("count", "Waits of threads"), ("ns", "Nanoseconds that threads waited")] {
        let _ =
            write!(text, "# HELP foreshore_waits_{field} {help}\n# TYPE foreshore_waits_{field} counter\n");
        for wait in waits.as_array().into_iter().flatten() {
            let what = wait["what"].as_str().unwrap_or_default().replace('\\', "\\\\").replace('"', "\\\"");
            let value = wait[field].as_u64().unwrap_or_default();
            let _ =
                writeln!(text, "foreshore_waits_{field}{{what=\"{}\"}} {value}", what.replace('\n', "\\n"));
        }
    }
}
