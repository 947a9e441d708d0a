//! `/metrics` for Prometheus: the server's counters and the engine's, by the names that `foreshore stats` has for them.
//!
//! The format is a line per figure, which needs no library. As its users expect, what only rises has `_total` behind its name, and
//! threads wait for seconds. `scrapers.rs` answers with it.

use crate::counters;
use crate::shared::Shared;
use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;

/// Engine figures that go down as well as up.
const GAUGES: [&str; 18] = [
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
    "undone_at_open",
    "tables",
    "transactions",
    "snapshots",
    "image_bytes",
];

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
        let Some(value) = value.as_u64() else { continue };
        let help = format!("The engine's {name}; see `foreshore stats`");
        match GAUGES.contains(&name.as_str()) {
            true => figure(&mut text, name, "gauge", &help, value),
            false => figure(&mut text, &format!("{name}_total"), "counter", &help, value),
        }
    }
    for (what, label, field, unit, name, kind, help) in [
        ("waits", "what", "count", 1.0, "waits_total", "counter", "Waits of threads"),
        ("waits", "what", "ns", 1e-9, "waits_seconds_total", "counter", "Seconds that threads waited"),
        ("indexes", "table", "bytes", 1.0, "table_index_bytes", "gauge", "Memory of a table's index"),
        (
            "indexes",
            "table",
            "leaf_bytes",
            1.0,
            "table_leaf_bytes",
            "gauge",
            "Bytes of each of a table's leaves",
        ),
    ] {
        let _ = write!(text, "# HELP foreshore_{name} {help}\n# TYPE foreshore_{name} {kind}\n");
        for one in stats[what].as_array().into_iter().flatten() {
            let of = escaped(one[label].as_str().unwrap_or_default());
            let value = one[field].as_f64().unwrap_or_default() * unit;
            let _ = writeln!(text, "foreshore_{name}{{{label}=\"{of}\"}} {value}");
        }
    }
    text
}

fn figure(text: &mut String, name: &str, kind: &str, help: &str, value: u64) {
    let _ = write!(
        text,
        "# HELP foreshore_{name} {help}\n# TYPE foreshore_{name} {kind}\nforeshore_{name} {value}\n"
    );
}

/// A label's value, as the format has it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
