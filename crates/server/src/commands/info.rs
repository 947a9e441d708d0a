//! INFO: figures about the server, by the names that tools for Redis look for, and by others for what a Redis has not.
//!
//! What is not counted here is not there, rather than 0: `keyspace_hits`, rates of the last second.

use super::{Call, CommandError, Next, Outcome, connection, ensure_comparable};
use crate::counters::{self, Counters};
use crate::reply::Reply;
use crate::shared::Shared;
use foreshore::{Durability, Error, Stats};
use foreshore_base::memory;
use std::fmt::Display;
use std::fs::read_to_string;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The Redis whose commands on strings are answered as it does: clients and tools ask for it before they use some.
pub const REDIS_VERSION: &str = "7.0.15";

/// INFO looks at all tables, whose list others may hold. What it asks for is kept meanwhile, and none of the client's memory.
pub fn info(call: &mut Call<'_>) -> Outcome {
    ensure_comparable(call.args.len() + call.args.bytes())?;
    let wanted: Vec<_> = call.args.from(1).map(<[u8]>::to_ascii_lowercase).collect();
    let protocol = call.session.protocol;
    Ok(Next::brief_chore(move |shared| {
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, protocol);
        match sections(shared) {
            Ok(sections) => reply.text(&described(&sections, &wanted)),
            Err(error) => reply.error(&CommandError::Engine(error).text()),
        }
        out
    }))
}

type Section = (&'static str, Vec<(String, String)>);

fn described(sections: &[Section], wanted: &[Vec<u8>]) -> String {
    let is_wanted = |section: &str| {
        let every =
            wanted.is_empty() || wanted.iter().any(|w| matches!(&w[..], b"all" | b"default" | b"everything"));
        every || wanted.iter().any(|w| w.eq_ignore_ascii_case(section.as_bytes()))
    };
    let mut text = String::new();
    for (name, fields) in sections.iter().filter(|(name, _)| is_wanted(name)) {
        text += &format!("# {name}\r\n");
        fields.iter().for_each(|(field, value)| text += &format!("{field}:{value}\r\n"));
        text += "\r\n";
    }
    text
}

fn sections(shared: &Shared) -> Result<Vec<Section>, Error> {
    let stats = shared.db.stats();
    Ok(vec![
        ("Server", server(shared)),
        ("Clients", clients(shared)),
        ("Memory", memory(shared, &stats)),
        ("Persistence", persistence(shared, &stats)),
        ("Stats", counted(shared)),
        (
            "Replication",
            vec![field("role", "master"), field("connected_slaves", 0), field("master_repl_offset", 0)],
        ),
        ("CPU", cpu()),
        ("Cluster", vec![field("cluster_enabled", 0)]),
        (
            "Transactions",
            vec![
                field("commits", stats.commits),
                field("rollbacks", stats.rollbacks),
                field("lock_waits", stats.lock_waits),
                field("lock_timeouts", stats.lock_timeouts),
                field("deadlocks", stats.deadlocks),
            ],
        ),
        ("Keyspace", keyspace(shared)?),
    ])
}

fn field(name: &str, value: impl Display) -> (String, String) {
    (name.to_owned(), value.to_string())
}

fn server(shared: &Shared) -> Vec<(String, String)> {
    let uptime_s = shared.started.elapsed().as_secs();
    let kernel = read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    vec![
        field("server_name", "foreshore"),
        field("foreshore_version", env!("CARGO_PKG_VERSION")),
        field("redis_version", REDIS_VERSION),
        field("redis_mode", "standalone"),
        field("os", format_args!("Linux {} {}", kernel.trim(), std::env::consts::ARCH)),
        field("arch_bits", usize::BITS),
        field("multiplexing_api", "epoll"),
        field("process_id", std::process::id()),
        field("tcp_port", shared.options.listen.port()),
        field("io_threads_active", shared.options.threads),
        field("uptime_in_seconds", uptime_s),
        field("uptime_in_days", uptime_s / 86_400),
    ]
}

fn clients(shared: &Shared) -> Vec<(String, String)> {
    vec![
        field("connected_clients", shared.clients.count()),
        field("blocked_clients", 0),
        field("maxclients", shared.options.clients_max),
        field("open_transactions", shared.open_transactions()),
    ]
}

fn memory(shared: &Shared, stats: &Stats) -> Vec<(String, String)> {
    // 0 if the operating system does not tell.
    let [now, peak] = ["VmRSS:", "VmHWM:"].map(|kind| memory::of_process(kind).unwrap_or(0));
    vec![
        field("used_memory", now),
        field("used_memory_human", human(now)),
        field("used_memory_rss", now),
        field("used_memory_peak", peak),
        field("used_memory_peak_human", human(peak)),
        field("total_system_memory", memory::allowed().unwrap_or(0)),
        field("maxmemory", 0),
        field("maxmemory_human", human(0)),
        field("maxmemory_policy", "noeviction"),
        field("mem_clients_normal", shared.clients_bytes.load(Relaxed)),
        field("index_bytes", stats.index_bytes),
        field("old_versions_bytes", stats.image_bytes),
        field("cache_frames", stats.pool_frames),
        field("cache_frames_used", stats.pool_resident),
    ]
}

/// A Redis answers BGSAVE at once, and tells here when that is done; here it is done when it is answered. Its append-only file is the log.
fn persistence(shared: &Shared, stats: &Stats) -> Vec<(String, String)> {
    let durability = shared.options.durability;
    vec![
        field("loading", 0),
        field("rdb_bgsave_in_progress", u8::from(shared.saving.load(Relaxed) > 0)),
        field("rdb_last_save_time", shared.saved_at_s.load(Relaxed)),
        field("aof_enabled", u8::from(durability != Durability::Relaxed)),
        field("aof_last_write_status", if shared.has_failed() { "err" } else { "ok" }),
        field("durability", format!("{durability:?}").to_lowercase()),
        field("log_bytes", stats.log_bytes),
        field("log_syncs", stats.log_syncs),
        field("checkpoints", stats.checkpoints),
    ]
}

fn counted(shared: &Shared) -> Vec<(String, String)> {
    let mut counted: Vec<_> =
        counters::all(&shared.counters).iter().map(|(name, _, value)| field(name, value)).collect();
    let sum = |counter: fn(&Counters) -> &AtomicU64| counters::sum(&shared.counters, counter);
    counted.extend([
        field("total_connections_received", shared.clients.total()),
        field("total_commands_processed", sum(|c| &c.commands)),
        field("total_net_input_bytes", sum(|c| &c.received_bytes)),
        field("total_net_output_bytes", sum(|c| &c.sent_bytes)),
        field("total_error_replies", sum(|c| &c.errors)),
        field("rejected_connections", shared.turned_away.load(Relaxed)),
        field("evicted_clients", sum(|c| &c.evicted)),
        field("expired_keys", 0),
        field("evicted_keys", 0),
    ]);
    counted
}

/// Rows of each table, roughly.
fn keyspace(shared: &Shared) -> Result<Vec<(String, String)>, Error> {
    let mut keyspace = Vec::new();
    for name in shared.db.tables()? {
        let rows = shared.db.existing_byte_table(&name).map(|table| table.estimate_range(..));
        match rows {
            None | Some(Err(Error::TableDropped { .. })) => {} // meanwhile
            Some(rows) => {
                // Clients read all sections as one list, where a table `loading` must not pass for the server's field.
                let is_numbered = connection::number_of(&name).is_some();
                let shown = if is_numbered { name } else { format!("table_{}", one_field(&name)) };
                keyspace.push(field(&shown, format_args!("keys={},expires=0,avg_ttl=0", rows?)));
            }
        }
    }
    Ok(keyspace)
}

/// A name may contain anything, and must not end its line, or what stands before the colon.
fn one_field(name: &str) -> String {
    name.escape_debug().to_string().replace(':', "\\u{3a}")
}

/// Seconds of processors that all threads have had; none if the operating system does not tell.
fn cpu() -> Vec<(String, String)> {
    let stat = read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is the program's name, in brackets, which may contain anything.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let seconds = |at| {
        let ticks: f64 = fields.split_whitespace().nth(at)?.parse().ok()?;
        Some(format!("{:.6}", ticks / rustix::param::clock_ticks_per_second() as f64))
    };
    // The first of these fields is the third of the line.
    [("used_cpu_sys", 15), ("used_cpu_user", 14)]
        .into_iter()
        .filter_map(|(name, nth)| Some(field(name, seconds(nth - 3)?)))
        .collect()
}

/// As people write it: `1.50M`.
fn human(bytes: u64) -> String {
    let (mut value, mut unit) = (bytes as f64, "B");
    for larger in ["K", "M", "G", "T"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, larger);
    }
    if unit == "B" { format!("{bytes}B") } else { format!("{value:.2}{unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_as_redis_writes_them() {
        for (bytes, expected) in
            [(0, "0B"), (1023, "1023B"), (1024, "1.00K"), (3 << 19, "1.50M"), (5 << 30, "5.00G")]
        {
            assert_eq!(human(bytes), expected);
        }
    }
}
