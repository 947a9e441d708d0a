//! What a Redis has not: rows in key order, and tables by name.
//!
//! Bounds are written as in ZRANGEBYLEX: `[key` with the key, `(key` without it, `-` and `+` for the ends. Each call looks
//! at a bounded number of rows; the next one goes on at `(last key`.

use super::{Call, CommandError, HEAVY, Next, Outcome, SYNTAX, TimeOnLoop, refused};
use crate::SCHEMAS;
use crate::reply::Reply;
use crate::rows::Rows;
use crate::shared::{Target, Wanted};
use foreshore::{Index, TableOptions};
use std::ops::Bound;

/// Rows that one call returns or removes: by default, and at most.
pub const ROWS: usize = 1000;
const ROWS_MAX: i64 = 10_000;

/// Bytes of a reply from which on it takes no further row.
const REPLY_BYTES: usize = 1 << 20;

type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

struct RangeOptions {
    reverse: bool,
    keys_only: bool,
    limit: usize,
}

impl RangeOptions {
    fn parse(call: &Call<'_>, is_read: bool) -> Result<Self, CommandError> {
        let mut options = Self { reverse: false, keys_only: false, limit: ROWS };
        let mut at = 3;
        while at < call.args.len() {
            match call.arg(at).to_ascii_uppercase().as_slice() {
                b"REV" if is_read => options.reverse = true,
                b"KEYS" if is_read => options.keys_only = true,
                b"LIMIT" if at + 1 < call.args.len() => {
                    at += 1;
                    let limit = call.number(at)?;
                    if !(1..=ROWS_MAX).contains(&limit) {
                        return refused(format!("ERR LIMIT must be from 1 to {ROWS_MAX}"));
                    }
                    options.limit = limit as usize;
                }
                _ => return refused(SYNTAX),
            }
            at += 1;
        }
        Ok(options)
    }
}

pub fn range(call: &mut Call<'_>) -> Outcome {
    let options = RangeOptions::parse(call, true)?;
    let bounds = bounds(call)?;
    let mut rows = call.session.rows(call.shared, bounds, options.keys_only)?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    while found.len() < options.limit && bytes < REPLY_BYTES {
        let Some((key, value)) = rows.next(options.reverse)? else { break };
        bytes += key.len() + value.len();
        found.push((key, value));
    }
    drop(rows);
    let mut reply = call.reply();
    reply.array(if options.keys_only { found.len() } else { 2 * found.len() });
    for (key, value) in &found {
        reply.bulk(key);
        if !options.keys_only {
            reply.bulk(value);
        }
    }
    Ok(Next::Go)
}

pub fn delrange(call: &mut Call<'_>) -> Outcome {
    let options = RangeOptions::parse(call, false)?;
    let bounds = bounds(call)?;
    // How many there are is known when they are removed.
    if call.session.is_on_loop && options.limit >= HEAVY {
        return Err(CommandError::TooHeavy);
    }
    let time = TimeOnLoop::begin(call.session.is_on_loop);
    let removed =
        call.session.atomically(call.shared, |rows| remove_in_time(rows, bounds, options.limit, &time))?;
    call.reply().count(removed);
    Ok(Next::Go)
}

/// Removes the first rows, at most so many, or the time is up before; says how many.
fn remove_in_time(
    rows: &Rows<'_>,
    bounds: Bounds<'_>,
    limit: usize,
    time: &TimeOnLoop,
) -> Result<u64, CommandError> {
    let (limit, mut removed) = (limit as u64, 0);
    loop {
        time.ensure_left()?;
        let wanted = time.rows_at_a_time((limit - removed) as usize) as u64;
        let found = rows.remove_some(bounds, wanted)?;
        removed += found;
        if found < wanted || removed == limit {
            return Ok(removed);
        }
    }
}

pub fn pop(call: &mut Call<'_>) -> Outcome {
    let is_last = match call.args.len() {
        3 => false,
        4 if call.is_word(3, "REV") => true,
        _ => return refused(SYNTAX),
    };
    let bounds = bounds(call)?;
    let row = call.session.pop(call.shared, bounds, is_last)?;
    let mut reply = call.reply();
    reply.array(2 * usize::from(row.is_some()));
    for part in row.iter().flat_map(|(key, value)| [key, value]) {
        reply.bulk(part);
    }
    Ok(Next::Go)
}

/// Both bounds. An end on the wrong side must not mean the other end: a range that was meant to be empty would be everything.
fn bounds<'a>(call: &Call<'a>) -> Result<Bounds<'a>, CommandError> {
    let (from, to) = (call.args.at(1), call.args.at(2));
    if from == b"+" || to == b"-" {
        return refused(
            "ERR a range goes from the smaller key to the larger, also with REV: it does not begin at + nor end at -",
        );
    }
    Ok((bound(from)?, bound(to)?))
}

fn bound(arg: &[u8]) -> Result<Bound<&[u8]>, CommandError> {
    match arg {
        b"-" | b"+" => Ok(Bound::Unbounded),
        [b'[', key @ ..] => Ok(Bound::Included(key)),
        [b'(', key @ ..] => Ok(Bound::Excluded(key)),
        _ => refused("ERR a bound is [key with the key, (key without it, - for the beginning, + for the end"),
    }
}

pub fn tables(call: &mut Call<'_>) -> Outcome {
    let protocol = call.session.protocol;
    Ok(Next::brief_chore(move |shared| {
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, protocol);
        match shared.db.tables() {
            Ok(tables) => {
                reply.array(tables.len());
                tables.iter().for_each(|table| reply.bulk(table.as_bytes()));
            }
            Err(error) => reply.error(&CommandError::Engine(error).text()),
        }
        out
    }))
}

pub fn use_table(call: &mut Call<'_>) -> Outcome {
    let name = call.text(1)?;
    ensure_usable(name)?;
    let wanted = Kind::parse(call)?;
    let target = call.table(Wanted { name: name.to_owned(), options: wanted.options() })?;
    wanted.ensure_is_that_of(&target)?;
    call.session.target = target;
    call.reply().ok();
    Ok(Next::Go)
}

/// May clients use a table of this name? CLIENT LIST shows it in one field of a line.
fn ensure_usable(name: &str) -> Result<(), CommandError> {
    if name == SCHEMAS {
        return refused(format!(
            "ERR table {SCHEMAS} is where `foreshore load` keeps columns and keys of tables; choose another name"
        ));
    }
    if name.is_empty() || name.len() > 255 || name.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return refused(
            "ERR KV.USE takes names of 1 to 255 bytes, without spaces and control characters, since CLIENT LIST shows them; \
             other tables are reached by the library and the other commands of foreshore",
        );
    }
    Ok(())
}

/// What KV.USE wants a table to be like, where it says so.
#[derive(Default)]
struct Kind {
    index: Option<Index>,
    leaf_bytes: Option<usize>,
}

impl Kind {
    fn parse(call: &Call<'_>) -> Result<Self, CommandError> {
        let mut kind = Self::default();
        for at in (2..call.args.len()).step_by(2) {
            if at + 1 == call.args.len() {
                return refused(SYNTAX);
            }
            match call.arg(at).to_ascii_uppercase().as_slice() {
                b"INDEX" => kind.index = Some(index(call.arg(at + 1))?),
                b"LEAFBYTES" => kind.leaf_bytes = Some(usize::try_from(call.number(at + 1)?).unwrap_or(0)),
                _ => return refused(SYNTAX),
            }
        }
        Ok(kind)
    }

    /// How a table is made that is not there yet.
    fn options(&self) -> TableOptions {
        let usual = TableOptions::new();
        let options = self.index.into_iter().fold(usual, TableOptions::index);
        self.leaf_bytes.into_iter().fold(options, TableOptions::leaf_bytes)
    }

    /// A table that was there stays what it is; the client should know if that is not what it asked for.
    fn ensure_is_that_of(&self, target: &Target) -> Result<(), CommandError> {
        let (index, leaf_bytes) = (target.table().index(), target.table().leaf_bytes());
        if self.index.unwrap_or(index) == index && self.leaf_bytes.unwrap_or(leaf_bytes) == leaf_bytes {
            return Ok(());
        }
        refused(format!(
            "ERR the table is there already, with INDEX {index} LEAFBYTES {leaf_bytes}; say that, or nothing, or choose \
             another name"
        ))
    }
}

fn index(arg: &[u8]) -> Result<Index, CommandError> {
    let found = Index::ALL.into_iter().find(|index| arg.eq_ignore_ascii_case(index.to_string().as_bytes()));
    found.map_or_else(|| refused("ERR an index is bplus, csb or o2"), Ok)
}
