//! Keys: whether they are there, which there are, and that they stay.

use super::{Call, CommandError, Next, Outcome, SYNTAX, TimeOnLoop, refused};
use crate::clients::Client;
use crate::glob;
use crate::number;
use crate::random_key;
use crate::reply::{Protocol, Reply};
use crate::shared::{Shared, Wanted};
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

pub const NO_EXPIRY: &str = "ERR not supported: rows do not expire; remove them with DEL or KV.DELRANGE";

/// Rows that one SCAN looks at, at most.
const SCANNED_MAX: usize = 10_000;

/// How long one SCAN may look; then it answers with what it has found, and where to go on.
const SCAN: Duration = Duration::from_millis(5);

/// Bytes of keys that KEYS returns, at most.
const LISTED_BYTES_MAX: usize = 64 << 20;

pub fn del(call: &mut Call<'_>) -> Outcome {
    let removed = if call.args.len() == 2 {
        u64::from(call.session.remove(call.shared, call.args.at(1))?)
    } else {
        let mut keys: Vec<_> = call.args.from(1).collect();
        keys.sort_unstable(); // so that two of them do not wait for each other in a circle
        let time = TimeOnLoop::begin(call.session.is_on_loop);
        call.session.atomically(call.shared, |rows| {
            let mut removed = 0;
            for key in keys {
                time.ensure_left()?;
                removed += u64::from(rows.remove(key)?);
            }
            Ok(removed)
        })?
    };
    call.reply().count(removed);
    Ok(Next::Go)
}

pub fn exists(call: &mut Call<'_>) -> Outcome {
    let keys: Vec<_> = call.args.from(1).collect();
    let there = call.session.count(call.shared, &keys)?;
    call.reply().count(there);
    Ok(Next::Go)
}

pub fn kind(call: &mut Call<'_>) -> Outcome {
    let found = call.session.contains(call.args.at(1))?;
    call.reply().simple(if found { "string" } else { "none" });
    Ok(Next::Go)
}

pub fn object(call: &mut Call<'_>) -> Outcome {
    let name = call.arg(1).to_ascii_uppercase();
    match (name.as_slice(), call.args.len()) {
        (b"ENCODING", 3) => {
            let found = call.session.read(call.args.at(2))?;
            let encoding = found.then(|| encoding(&call.session.value));
            call.reply().bulk_or_null(encoding.map(str::as_bytes));
        }
        (b"REFCOUNT", 3) => {
            let found = call.session.contains(call.args.at(2))?;
            if found { call.reply().integer(1) } else { call.reply().null() }
        }
        _ => return call.refuse_subcommand(),
    }
    Ok(Next::Go)
}

/// What Redis would call the value's encoding: tools show it, though here all values are kept alike.
fn encoding(value: &[u8]) -> &'static str {
    match value.len() {
        _ if number::parse(value).is_some() => "int",
        0..=44 => "embstr",
        _ => "raw",
    }
}

pub fn ttl(call: &mut Call<'_>) -> Outcome {
    let found = call.session.contains(call.args.at(1))?;
    call.reply().integer(if found { -1 } else { -2 });
    Ok(Next::Go)
}

pub fn persist(call: &mut Call<'_>) -> Outcome {
    call.reply().integer(0);
    Ok(Next::Go)
}

pub fn no_expiry(_: &mut Call<'_>) -> Outcome {
    refused(NO_EXPIRY)
}

/// KEYS walks the whole table, so it is no work for an event loop.
pub fn keys(call: &mut Call<'_>) -> Outcome {
    let (pattern, protocol) = (call.pattern(1)?.to_vec(), call.session.protocol);
    let (wanted, client) = (call.session.target.again(), call.session.client.clone());
    Ok(Next::long_chore(move |shared| {
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, protocol);
        match matching(shared, &client, &wanted, (&pattern, protocol)) {
            Ok((count, keys)) => {
                reply.array(count);
                out.extend_from_slice(&keys);
            }
            Err(error) => reply.error(&error.text()),
        }
        out
    }))
}

pub fn randomkey(call: &mut Call<'_>) -> Outcome {
    let (wanted, protocol) = (call.session.target.again(), call.session.protocol);
    Ok(Next::brief_chore(move |shared| {
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, protocol);
        match shared.read_opened(&wanted, random_key::choose) {
            Ok(key) => reply.bulk_or_null(key.as_deref()),
            Err(error) => reply.error(&CommandError::Engine(error).text()),
        }
        out
    }))
}

/// How many keys match at one point in time, and all of them as they are replied, unless they are too many, or the server is to
/// end, or the client is gone, before all are compared. A key of its own, each, would take several times the memory.
fn matching(
    shared: &Shared,
    client: &Client,
    wanted: &Wanted,
    (pattern, protocol): (&[u8], Protocol),
) -> Result<(usize, Vec<u8>), CommandError> {
    let prefix = glob::prefix(pattern);
    let is_in_vain = || shared.is_stopping() || client.is_gone.load(Relaxed);
    let from: Bound<&[u8]> = Bound::Included(prefix);
    let (keys, count, bytes) = shared.read_opened(wanted, |table| {
        let (mut keys, mut count, mut bytes) = (Vec::new(), 0, 0);
        shared.db.snapshot()?.bytes(table).scan_keys((from, Bound::Unbounded), |key| {
            if !key.starts_with(prefix) || bytes > LISTED_BYTES_MAX || is_in_vain() {
                return ControlFlow::Break(());
            }
            if glob::matches(pattern, key) {
                (count, bytes) = (count + 1, bytes + key.len());
                Reply::new(&mut keys, protocol).bulk(key);
            }
            ControlFlow::Continue(())
        })?;
        Ok((keys, count, bytes))
    })?;
    match (bytes > LISTED_BYTES_MAX, is_in_vain()) {
        (false, false) => Ok((count, keys)),
        (true, _) => refused("ERR too many keys match; walk through them with SCAN or KV.RANGE"),
        (false, true) => refused("ERR the server is being shut down"),
    }
}

/// What SCAN asks for beside the cursor.
struct ScanOptions<'a> {
    pattern: &'a [u8],
    count: usize,
    /// TYPE with something else than `string`: there is no such row.
    is_in_vain: bool,
}

pub fn scan(call: &mut Call<'_>) -> Outcome {
    let Some(cursor) = std::str::from_utf8(call.arg(1)).ok().and_then(|cursor| cursor.parse().ok()) else {
        return refused("ERR invalid cursor");
    };
    let after = call.shared.cursors.recall(cursor);
    if after.is_none() && cursor != 0 {
        return refused("ERR the cursor is no longer known; begin again with 0");
    }
    let mut options = ScanOptions { pattern: b"*", count: 10, is_in_vain: false };
    for at in (2..call.args.len()).step_by(2) {
        if at + 1 == call.args.len() {
            return refused(SYNTAX);
        }
        match call.arg(at).to_ascii_uppercase().as_slice() {
            b"MATCH" => options.pattern = call.pattern(at + 1)?,
            b"COUNT" => match call.number(at + 1)? {
                count @ 1.. => options.count = count.min(SCANNED_MAX as i64) as usize,
                _ => return refused(SYNTAX),
            },
            b"TYPE" => options.is_in_vain = !call.is_word(at + 1, "string"),
            _ => return refused(SYNTAX),
        }
    }
    scan_from(call, (cursor, after), &options)
}

fn scan_from(
    call: &mut Call<'_>,
    (cursor, after): (u64, Option<Vec<u8>>),
    options: &ScanOptions<'_>,
) -> Outcome {
    let prefix = glob::prefix(options.pattern);
    let from = match &after {
        Some(key) if key.as_slice() >= prefix => Bound::Excluded(key.as_slice()),
        _ => Bound::Included(prefix),
    };
    let (mut found, mut seen, mut last, ends) = (Vec::new(), 0, None, Instant::now() + SCAN);
    let mut keys = call.session.target.table().range((from, Bound::Unbounded)).keys_only();
    keys.set_ends(ends);
    while last.is_none()
        && !options.is_in_vain
        && let Some((key, _)) = keys.next().transpose()?
        && key.starts_with(prefix)
    {
        seen += 1;
        if seen == options.count || Instant::now() >= ends {
            last = Some(key.clone());
        }
        if glob::matches(options.pattern, &key) {
            found.push(key);
        }
    }
    // There may have been none to be seen for so long.
    let left_off_at = keys.left_off_at().filter(|key| key.starts_with(prefix));
    let next = match last.or_else(|| left_off_at.map(<[u8]>::to_vec)) {
        Some(last) => call.shared.cursors.remember(cursor, &last),
        None => {
            call.shared.cursors.end(cursor);
            0
        }
    };
    let mut reply = call.reply();
    reply.array(2);
    reply.bulk(next.to_string().as_bytes());
    reply.array(found.len());
    found.iter().for_each(|key| reply.bulk(key));
    Ok(Next::Go)
}
