//! The server: what it is, how it is set, and what it is to do.

use super::{
    Call, CommandError, Next, Outcome, SYNTAX, connection, ensure_comparable, ok_or_error, refused, shown,
};
use crate::commands::table::{COMMANDS, Command, find};
use crate::glob;
use crate::number;
use crate::reply::{Protocol, Reply};
use crate::shared::{BackingUp, Place, Shared, Wanted, since_1970};
use foreshore::{ByteTable, Durability, Error, Stats};
use std::ops::ControlFlow;
use std::path::{Component, Path};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const BACKING_UP: &str = "BUSY a backup is being made; try again when it is done";
/// What a file's name has at most.
const NAME_BYTES_MAX: usize = 255;
/// Rows up to which DBSIZE counts.
const COUNTED_MAX: u64 = 10_000;
/// Commands of the slow log at most: a few MB, for which no client is charged.
const SLOW_KEPT_MAX: u64 = 1024;

pub fn dbsize(call: &mut Call<'_>) -> Outcome {
    let (wanted, protocol) = (call.session.target.again(), call.session.protocol);
    Ok(Next::brief_chore(move |shared| {
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, protocol);
        match shared.read_opened(&wanted, rows_of) {
            Ok(rows) => reply.count(rows),
            Err(error) => reply.error(&CommandError::Engine(error).text()),
        }
        out
    }))
}

/// Rows of a table; an estimate, which walks through its index, if they are many.
fn rows_of(table: &ByteTable) -> Result<u64, Error> {
    let mut rows = table.estimate_range(..)?;
    if rows <= COUNTED_MAX {
        rows = 0;
        table.scan_keys(.., |_| {
            rows += 1;
            // It may have grown since it was estimated.
            if rows < 2 * COUNTED_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
    }
    Ok(rows)
}

/// FLUSHDB drops the table; whoever uses it finds a new one, with the same index, leaves of the same size, and rows of the same
/// types.
pub fn flushdb(call: &mut Call<'_>) -> Outcome {
    ensure_mode(call, &["ASYNC", "SYNC"])?;
    let (target, protocol, shared) =
        (call.session.target.clone(), call.session.protocol, call.shared.clone());
    Ok(Next::long_chore(move |_| ok_or_error(protocol, empty(&shared, &target.again()))))
}

/// FLUSHALL empties what SELECT reaches, one table after another. Tables with names of their own may be somebody else's.
pub fn flushall(call: &mut Call<'_>) -> Outcome {
    ensure_mode(call, &["ASYNC", "SYNC"])?;
    let (protocol, shared) = (call.session.protocol, call.shared.clone());
    Ok(Next::long_chore(move |_| {
        let emptied = shared.db.tables().map_err(CommandError::from).and_then(|tables| {
            let databases = (0..connection::DATABASES).map(connection::database);
            databases.filter(|wanted| tables.contains(&wanted.name)).try_for_each(|wanted| {
                empty(&shared, &wanted).map_err(|error| left_off(&error, &wanted.name))
            })
        });
        ok_or_error(protocol, emptied)
    }))
}

/// FLUSHALL takes nothing back: why it has left off at this table.
fn left_off(error: &CommandError, table: &str) -> CommandError {
    let text = format!("{}; FLUSHALL has emptied the tables before {table:?}", error.text());
    CommandError::Refused(text.into())
}

/// Who uses the table has to wait until it is durably gone, and so must not wait in place.
fn empty(shared: &Arc<Shared>, wanted: &Wanted) -> Result<(), CommandError> {
    if shared.is_backing_up() {
        // Which has the table for so long that others should not wait for it meanwhile.
        return refused(BACKING_UP);
    }
    let _place = Place::take(shared);
    let target = shared.open(wanted)?;
    shared.db.drop_table(target.name())?;
    Ok(shared.open(&target.again()).map(drop)?)
}

/// At most one argument, and one of these: what is misspelt must not do the most it can.
fn ensure_mode(call: &Call<'_>, modes: &[&str]) -> Result<(), CommandError> {
    match call.args.len() {
        1 => Ok(()),
        2 if modes.iter().any(|mode| call.is_word(1, mode)) => Ok(()),
        _ => refused(SYNTAX),
    }
}

pub fn bgsave(call: &mut Call<'_>) -> Outcome {
    ensure_mode(call, &["SCHEDULE"])?;
    let protocol = call.session.protocol;
    Ok(Next::long_chore(move |shared| {
        let mut out = Vec::new();
        shared.saving.fetch_add(1, Relaxed);
        let saved = shared.db.checkpoint();
        shared.saving.fetch_sub(1, Relaxed);
        match saved {
            Ok(()) => {
                shared.saved_at_s.store(since_1970().as_secs(), Relaxed);
                Reply::new(&mut out, protocol).simple("Checkpoint done");
            }
            Err(error) => {
                shared.note_failure(&error);
                Reply::new(&mut out, protocol).error(&CommandError::Engine(error).text());
            }
        }
        out
    }))
}

/// Copies the database, while others read and write, into a directory of this name where the operator has said that backups go.
pub fn backup(call: &mut Call<'_>) -> Outcome {
    let Some(backups) = &call.shared.options.backups else {
        return refused("ERR the server was told no place for backups; start it with --backups DIR");
    };
    let name = call.text(1)?;
    if !is_one_name(name) {
        return refused("ERR a backup's name is that of one directory, such as 2026-11-29");
    }
    let Some(under_way) = BackingUp::begin(call.shared) else { return refused(BACKING_UP) };
    let (path, protocol, client) = (backups.join(name), call.session.protocol, call.session.client.clone());
    Ok(Next::long_chore(move |shared| {
        let _under_way = under_way;
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, protocol);
        if shared.is_stopping() || client.is_gone.load(Relaxed) {
            reply.error("ERR the server is being shut down");
            return out;
        }
        match shared.db.backup(path) {
            Ok(copied) => reply.count(copied.rows),
            Err(error) => reply.error(&CommandError::Engine(error).text()),
        }
        out
    }))
}

/// Is it the name of a place directly below?
fn is_one_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    let (first, second) = (parts.next(), parts.next());
    let is_one = second.is_none() && matches!(first, Some(Component::Normal(part)) if part == name);
    is_one && name.len() <= NAME_BYTES_MAX && !name.chars().any(char::is_control)
}

/// There are no replicas that could have heard of anything.
pub fn wait(call: &mut Call<'_>) -> Outcome {
    call.number(1)?;
    match number::parse(call.arg(2)) {
        None => return refused("ERR timeout is not an integer or out of range"),
        Some(..0) => return refused("ERR timeout is negative"),
        Some(_) => {}
    }
    call.reply().integer(0);
    Ok(Next::Go)
}

/// The master, how far its replicas should be, and none of them.
pub fn role(call: &mut Call<'_>) -> Outcome {
    let mut reply = call.reply();
    reply.array(3);
    reply.bulk(b"master");
    reply.integer(0);
    reply.array(0);
    Ok(Next::Go)
}

pub fn lastsave(call: &mut Call<'_>) -> Outcome {
    let saved_at_s = call.shared.saved_at_s.load(Relaxed);
    call.reply().count(saved_at_s);
    Ok(Next::Go)
}

pub fn time(call: &mut Call<'_>) -> Outcome {
    let now = since_1970();
    let mut reply = call.reply();
    reply.array(2);
    reply.bulk(now.as_secs().to_string().as_bytes());
    reply.bulk(now.subsec_micros().to_string().as_bytes());
    Ok(Next::Go)
}

pub fn shutdown(call: &mut Call<'_>) -> Outcome {
    let says = |word| (1..call.args.len()).any(|at| call.is_word(at, word));
    if call.args.len() == 2 && says("ABORT") {
        return refused("ERR No shutdown in progress.");
    }
    // Nothing is lost, whatever they say; but what contradicts itself, or is misspelt, must not end the server.
    let is_known = |at| ["NOSAVE", "SAVE", "NOW", "FORCE"].iter().any(|word| call.is_word(at, word));
    if (says("SAVE") && says("NOSAVE")) || !(1..call.args.len()).all(is_known) {
        return refused(SYNTAX);
    }
    call.shared.stop();
    Ok(Next::Close)
}

pub fn memory(call: &mut Call<'_>) -> Outcome {
    let name = call.arg(1).to_ascii_uppercase();
    match (name.as_slice(), call.args.len()) {
        (b"USAGE", count @ 3..) => {
            // Of a string there is nothing to sample.
            if count > 3 && (count != 5 || !call.is_word(3, "SAMPLES") || call.number(4)? < 0) {
                return refused(SYNTAX);
            }
            let key = call.args.at(2);
            match call.session.value_bytes(key)? {
                // A cell: slot, version, length.
                Some(bytes) => call.reply().count(18 + key.len() as u64 + bytes),
                None => call.reply().null(),
            }
        }
        (b"STATS", 2) => {
            let protocol = call.session.protocol;
            return Ok(Next::brief_chore(move |shared| memory_stats(&shared.db.stats(), protocol)));
        }
        _ => return call.refuse_subcommand(),
    }
    Ok(Next::Go)
}

fn memory_stats(stats: &Stats, protocol: Protocol) -> Vec<u8> {
    let mut out = Vec::new();
    let mut reply = Reply::new(&mut out, protocol);
    reply.map(4);
    for (name, value) in [
        ("index.bytes", stats.index_bytes),
        ("old-versions.bytes", stats.image_bytes),
        ("cache.frames", stats.pool_frames),
        ("cache.frames.used", stats.pool_resident),
    ] {
        reply.bulk(name.as_bytes());
        reply.count(value);
    }
    out
}

pub fn slowlog(call: &mut Call<'_>) -> Outcome {
    let name = call.arg(1).to_ascii_uppercase();
    match (name.as_slice(), call.args.len()) {
        (b"GET", 2 | 3) => {
            let count = if call.args.len() == 3 { number::parse(call.arg(2)) } else { Some(10) };
            let Some(count @ -1..) = count else {
                return refused("ERR count should be greater than or equal to -1");
            };
            let entries = call.shared.slow_log.newest(usize::try_from(count).unwrap_or(usize::MAX));
            let mut reply = call.reply();
            reply.array(entries.len());
            for entry in entries {
                reply.array(6);
                reply.count(entry.id);
                reply.count(entry.at_s);
                reply.count(entry.took.as_micros() as u64);
                reply.array(entry.args.len());
                entry.args.iter().for_each(|arg| reply.bulk(arg));
                reply.bulk(entry.client.0.as_bytes());
                reply.bulk(entry.client.1.as_bytes());
            }
        }
        (b"LEN", 2) => {
            let len = call.shared.slow_log.len();
            call.reply().count(len as u64);
        }
        (b"RESET", 2) => {
            call.shared.slow_log.clear();
            call.reply().ok();
        }
        _ => return call.refuse_subcommand(),
    }
    Ok(Next::Go)
}

pub fn config(call: &mut Call<'_>) -> Outcome {
    let name = call.arg(1).to_ascii_uppercase();
    match (name.as_slice(), call.args.len()) {
        (b"GET", 3..) => {
            ensure_comparable(call.args.len() + call.args.bytes())?;
            let parameters = parameters(call.shared);
            let patterns: Vec<_> = call.args.from(2).map(<[u8]>::to_ascii_lowercase).collect();
            let is_asked =
                |name: &str| patterns.iter().any(|pattern| glob::matches(pattern, name.as_bytes()));
            let asked: Vec<_> = parameters.iter().filter(|(name, _)| is_asked(name)).collect();
            let mut reply = call.reply();
            reply.map(asked.len());
            for (name, value) in asked {
                reply.bulk(name.as_bytes());
                reply.bulk(value.as_bytes());
            }
        }
        (b"SET", 4..) if call.args.len().is_multiple_of(2) => {
            let set = (2..call.args.len())
                .step_by(2)
                .map(|at| parameter(call, at))
                .collect::<Result<Vec<_>, _>>()?;
            set.into_iter().for_each(|parameter| parameter.apply(call.shared));
            call.reply().ok();
        }
        (b"SET", 5..) => return refused(SYNTAX),
        (b"RESETSTAT", 2) => return refused("ERR not supported: counters only grow; take differences"),
        _ => return call.refuse_subcommand(),
    }
    Ok(Next::Go)
}

/// Parameters by Redis's names where it has them.
fn parameters(shared: &Shared) -> Vec<(&'static str, String)> {
    let options = &shared.options;
    let (is_synced, fsync) = match options.durability {
        Durability::Sync => ("yes", "always"),
        Durability::Buffered => ("yes", "everysec"),
        Durability::Relaxed => ("no", "no"),
    };
    vec![
        ("appendfsync", fsync.into()),
        ("appendonly", is_synced.into()),
        ("bind", options.listen.ip().to_string()),
        ("databases", connection::DATABASES.to_string()),
        ("io-threads", options.threads.to_string()),
        ("lock-timeout-ms", shared.lock_timeout_ms.load(Relaxed).to_string()),
        ("maxclients", options.clients_max.to_string()),
        ("maxmemory", "0".into()),
        ("maxmemory-clients", options.client_memory.to_string()),
        ("maxmemory-policy", "noeviction".into()),
        ("port", options.listen.port().to_string()),
        ("proto-max-bulk-len", options.limits.request_bytes.to_string()),
        ("save", String::new()),
        ("slowlog-log-slower-than", shared.slow_log.from_us.load(Relaxed).to_string()),
        ("slowlog-max-len", shared.slow_log.kept.load(Relaxed).to_string()),
        ("timeout", shared.idle_timeout_ms.load(Relaxed).div_ceil(1000).to_string()),
    ]
}

/// A parameter with its new value.
enum Parameter {
    IdleTimeout(u64),
    LockTimeout(u64),
    SlowFrom(i64),
    SlowKept(usize),
}

impl Parameter {
    fn apply(self, shared: &Shared) {
        match self {
            Self::IdleTimeout(s) => shared.idle_timeout_ms.store(s.saturating_mul(1000), Relaxed),
            Self::LockTimeout(ms) => shared.lock_timeout_ms.store(ms, Relaxed),
            Self::SlowFrom(us) => shared.slow_log.from_us.store(us, Relaxed),
            Self::SlowKept(count) => shared.slow_log.kept.store(count, Relaxed),
        }
    }
}

/// The parameter named at `at`, with the value that follows it. Nothing is set before all are known to be right.
fn parameter(call: &Call<'_>, at: usize) -> Result<Parameter, CommandError> {
    let failed = |why| {
        let name = shown(call.arg(at));
        CommandError::Refused(
            format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}").into(),
        )
    };
    let number = || {
        number::parse(call.arg(at + 1)).ok_or_else(|| failed("argument couldn't be parsed into an integer"))
    };
    let positive =
        || u64::try_from(number()?).map_err(|_| failed("argument must be between 0 and the largest integer"));
    let has_name = |before: usize| call.arg(before).eq_ignore_ascii_case(call.arg(at));
    match call.arg(at).to_ascii_lowercase().as_slice() {
        _ if (2..at).step_by(2).any(has_name) => Err(failed("duplicate parameter")),
        b"timeout" => positive().map(Parameter::IdleTimeout),
        b"lock-timeout-ms" => positive().map(Parameter::LockTimeout),
        b"slowlog-log-slower-than" => number().map(Parameter::SlowFrom),
        b"slowlog-max-len" => match positive()? {
            count @ ..=SLOW_KEPT_MAX => Ok(Parameter::SlowKept(count as usize)),
            _ => Err(failed(&format!("argument must be between 0 and {SLOW_KEPT_MAX}"))),
        },
        other => refused(format!(
            "ERR Unknown option or number of arguments for CONFIG SET - '{}'; it knows timeout, lock-timeout-ms, \
             slowlog-log-slower-than and slowlog-max-len; the rest is set when the server is started",
            shown(other)
        )),
    }
}

pub fn command(call: &mut Call<'_>) -> Outcome {
    let name = if call.args.len() > 1 { call.arg(1).to_ascii_uppercase() } else { Vec::new() };
    match (name.as_slice(), call.args.len()) {
        (b"LIST", _) => return command_list(call),
        (b"GETKEYS", 3..) => return command_keys(call),
        (b"COUNT", 2) | (b"" | b"INFO" | b"DOCS", _) => {}
        _ => return call.refuse_subcommand(),
    }
    // An event loop finds them, and writes what it knows of each.
    if call.args.len() > 2 + COMMANDS.len() {
        return refused(format!("ERR more names than the {} commands that there are", COMMANDS.len()));
    }
    let named: Vec<_> = call.args.from(2).map(find).collect();
    let all = || COMMANDS.iter().map(Some).collect::<Vec<_>>();
    let asked = if named.is_empty() { all() } else { named };
    let mut reply = call.reply();
    match name.as_slice() {
        b"COUNT" => reply.count(COMMANDS.len() as u64),
        b"DOCS" => {
            let known: Vec<_> = asked.into_iter().flatten().collect();
            reply.map(known.len());
            known.into_iter().for_each(|command| write_docs(&mut reply, command));
        }
        _ => {
            reply.array(asked.len());
            for command in asked {
                match command {
                    Some(command) => write_info(&mut reply, command),
                    None => reply.null(),
                }
            }
        }
    }
    Ok(Next::Go)
}

/// `LIST`, or `LIST FILTERBY PATTERN pattern`.
fn command_list(call: &mut Call<'_>) -> Outcome {
    let pattern = match call.args.len() {
        2 => b"*".to_vec(),
        5 if call.is_word(2, "FILTERBY") && call.is_word(3, "PATTERN") => {
            call.pattern(4)?.to_ascii_lowercase()
        }
        _ => return refused(SYNTAX),
    };
    let asked = COMMANDS.iter().filter(|command| glob::matches(&pattern, command.name.as_bytes()));
    let asked: Vec<_> = asked.collect();
    let mut reply = call.reply();
    reply.array(asked.len());
    asked.iter().for_each(|command| reply.bulk(command.name.as_bytes()));
    Ok(Next::Go)
}

/// `GETKEYS command argument …`: which of the arguments are keys.
fn command_keys(call: &mut Call<'_>) -> Outcome {
    let asked = call.args.rest(2);
    let Some(command) = find(asked.at(0)) else { return refused("ERR Invalid command specified") };
    if !command.takes(asked.len()) {
        return refused("ERR Invalid number of arguments specified for command");
    }
    let keys: Vec<_> = command.keys_of(&asked).collect();
    if keys.is_empty() {
        return refused("ERR The command has no key arguments");
    }
    let mut reply = call.reply();
    reply.array(keys.len());
    keys.iter().for_each(|key| reply.bulk(key));
    Ok(Next::Go)
}

fn write_info(reply: &mut Reply<'_>, command: &Command) {
    let flags = command.flag_names();
    reply.array(10);
    reply.bulk(command.name.as_bytes());
    reply.integer(command.arity());
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.simple(flag));
    let (first, last, step) = command.keys;
    [first, last, step].iter().for_each(|n| reply.integer((*n).into()));
    // Categories for access rights, tips, specifications of keys, subcommands: none, but clients look for them.
    (0..4).for_each(|_| reply.set(0));
}

fn write_docs(reply: &mut Reply<'_>, command: &Command) {
    reply.bulk(command.name.as_bytes());
    reply.map(2);
    for (name, value) in [("summary", command.summary), ("group", command.group)] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
}
