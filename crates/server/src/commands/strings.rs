//! Values: reading, setting, counting.

use super::keys::NO_EXPIRY;
use super::{
    Call, CommandError, NOT_AN_INTEGER, Next, Outcome, READ_BYTES_MAX, REPLY_BYTES_MAX, SYNTAX, TimeOnLoop,
    refused,
};
use crate::decimal::Decimal;
use crate::number;
use crate::reply::Reply;
use crate::rows::Rows;
use std::ops::ControlFlow;

/// Values after which MGET looks at the clock: as many as the engine looks for at a time.
const READ_AT_A_TIME: usize = 16;

pub fn get(call: &mut Call<'_>) -> Outcome {
    let found = call.session.read(call.args.at(1))?;
    Ok(answer_read(call, found))
}

/// `KV.GET key [UPDATE]`.
pub fn get_for_update(call: &mut Call<'_>) -> Outcome {
    match call.args.len() {
        2 => get(call),
        3 if call.is_word(2, "UPDATE") => {
            let found = call.session.read_for_update(call.args.at(1))?;
            Ok(answer_read(call, found))
        }
        _ => refused(SYNTAX),
    }
}

/// The value that was read, if there was one.
fn answer_read(call: &mut Call<'_>, found: bool) -> Next {
    let value = found.then_some(&call.session.value[..]);
    Reply::new(call.out, call.session.protocol).bulk_or_null(value);
    Next::Go
}

pub fn getex(call: &mut Call<'_>) -> Outcome {
    match call.args.len() {
        2 => get(call),
        // What never expires persists.
        3 if call.is_word(2, "PERSIST") => get(call),
        4 if ["EX", "PX", "EXAT", "PXAT"].iter().any(|word| call.is_word(2, word)) => refused(NO_EXPIRY),
        _ => refused(SYNTAX),
    }
}

pub fn strlen(call: &mut Call<'_>) -> Outcome {
    let bytes = call.session.value_bytes(call.args.at(1))?;
    call.reply().count(bytes.unwrap_or(0));
    Ok(Next::Go)
}

/// What SET asks for beside key and value.
#[derive(Default)]
struct SetOptions {
    only_new: bool,
    only_old: bool,
    get: bool,
}

impl SetOptions {
    fn parse(call: &Call<'_>) -> Result<Self, CommandError> {
        let mut options = Self::default();
        for at in 3..call.args.len() {
            match call.arg(at).to_ascii_uppercase().as_slice() {
                b"NX" => options.only_new = true,
                b"XX" => options.only_old = true,
                b"GET" => options.get = true,
                b"KEEPTTL" => {} // what never expires keeps that
                b"EX" | b"PX" | b"EXAT" | b"PXAT" => return refused(NO_EXPIRY),
                _ => return refused(SYNTAX),
            }
        }
        if options.only_new && options.only_old { refused(SYNTAX) } else { Ok(options) }
    }
}

pub fn set(call: &mut Call<'_>) -> Outcome {
    let (key, value) = (call.args.at(1), call.args.at(2));
    match SetOptions::parse(call)? {
        SetOptions { only_new: false, only_old: false, get: false } => {
            call.session.put(call.shared, key, value)?;
            call.reply().ok();
        }
        SetOptions { only_new: true, get: false, .. } => {
            let done = call.session.insert(call.shared, key, value)?;
            ok_or_null(call, done);
        }
        options => return set_looking(call, &options),
    }
    Ok(Next::Go)
}

/// SET that depends on the old value, or returns it.
fn set_looking(call: &mut Call<'_>, options: &SetOptions) -> Outcome {
    let (key, value) = (call.args.at(1), call.args.at(2));
    let (old, done) = call.session.atomically(call.shared, |rows| {
        let old = rows.get_for_update(key)?;
        let done = if old.is_some() { !options.only_new } else { !options.only_old };
        if done {
            rows.put(key, value)?;
        }
        Ok((old, done))
    })?;
    if options.get {
        call.reply().bulk_or_null(old.as_deref());
    } else {
        ok_or_null(call, done);
    }
    Ok(Next::Go)
}

fn ok_or_null(call: &mut Call<'_>, done: bool) {
    if done { call.reply().ok() } else { call.reply().null() }
}

pub fn setnx(call: &mut Call<'_>) -> Outcome {
    let done = call.session.insert(call.shared, call.args.at(1), call.args.at(2))?;
    call.reply().integer(done.into());
    Ok(Next::Go)
}

pub fn getset(call: &mut Call<'_>) -> Outcome {
    let (key, value) = (call.args.at(1), call.args.at(2));
    let old = call.session.atomically(call.shared, |rows| {
        let old = rows.get_for_update(key)?;
        rows.put(key, value)?;
        Ok(old)
    })?;
    call.reply().bulk_or_null(old.as_deref());
    Ok(Next::Go)
}

pub fn getdel(call: &mut Call<'_>) -> Outcome {
    let key = call.args.at(1);
    let old = call.session.atomically(call.shared, |rows| {
        let old = rows.get_for_update(key)?;
        rows.remove(key)?;
        Ok(old)
    })?;
    call.reply().bulk_or_null(old.as_deref());
    Ok(Next::Go)
}

pub fn incr(call: &mut Call<'_>) -> Outcome {
    add(call, 1)
}

pub fn decr(call: &mut Call<'_>) -> Outcome {
    add(call, -1)
}

pub fn incrby(call: &mut Call<'_>) -> Outcome {
    add(call, call.number(2)?)
}

pub fn decrby(call: &mut Call<'_>) -> Outcome {
    match call.number(2)?.checked_neg() {
        Some(by) => add(call, by),
        None => refused("ERR decrement would overflow"),
    }
}

fn add(call: &mut Call<'_>, by: i64) -> Outcome {
    let key = call.args.at(1);
    let sum = call.session.atomically(call.shared, |rows| {
        let Some(old) = rows.get_for_update(key)?.map_or(Some(0), |value| number::parse(&value)) else {
            return refused(NOT_AN_INTEGER);
        };
        let Some(sum) = old.checked_add(by) else {
            return refused("ERR increment or decrement would overflow");
        };
        rows.put(key, sum.to_string().as_bytes())?;
        Ok(sum)
    })?;
    call.reply().integer(sum);
    Ok(Next::Go)
}

pub fn incrbyfloat(call: &mut Call<'_>) -> Outcome {
    let (key, by) = (call.args.at(1), decimal(call.args.at(2))?);
    let sum = call.session.atomically(call.shared, |rows| {
        let old = rows.get_for_update(key)?.map_or(Ok(Decimal::default()), |value| decimal(&value))?;
        let Some(sum) = old.checked_add(by) else { return refused("ERR increment would overflow") };
        let sum = sum.to_string();
        rows.put(key, sum.as_bytes())?;
        Ok(sum)
    })?;
    call.reply().bulk(sum.as_bytes());
    Ok(Next::Go)
}

fn decimal(text: &[u8]) -> Result<Decimal, CommandError> {
    Decimal::parse(text).map_or_else(|| refused("ERR value is not a valid float"), Ok)
}

pub fn mget(call: &mut Call<'_>) -> Outcome {
    let keys: Vec<_> = call.args.from(1).collect();
    let is_on_loop = call.session.is_on_loop;
    let full = call.out.len() + if is_on_loop { READ_BYTES_MAX } else { REPLY_BYTES_MAX };
    let (time, mut seen, mut is_late) = (TimeOnLoop::begin(is_on_loop), 0, false);
    call.reply().array(keys.len());
    let (out, protocol) = (&mut *call.out, call.session.protocol);
    call.session.read_each(call.shared, &keys, |value| {
        Reply::new(out, protocol).bulk_or_null(value);
        seen += 1;
        is_late = seen % READ_AT_A_TIME == 0 && time.is_up();
        if out.len() < full && !is_late { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    match is_late || call.out.len() >= full || seen < keys.len() {
        false => Ok(Next::Go),
        true if is_on_loop => Err(CommandError::TooHeavy),
        true => refused("ERR the values have more than 128 MiB; ask for fewer keys at a time"),
    }
}

pub fn mset(call: &mut Call<'_>) -> Outcome {
    let pairs = pairs(call)?;
    let time = TimeOnLoop::begin(call.session.is_on_loop);
    call.session.atomically(call.shared, |rows| put_in_time(rows, &pairs, &time))?;
    call.reply().ok();
    Ok(Next::Go)
}

pub fn msetnx(call: &mut Call<'_>) -> Outcome {
    let pairs = pairs(call)?;
    let time = TimeOnLoop::begin(call.session.is_on_loop);
    let done = call.session.atomically(call.shared, |rows| {
        for (key, _) in &pairs {
            time.ensure_left()?;
            if rows.get_for_update(key)?.is_some() {
                return Ok(false);
            }
        }
        put_in_time(rows, &pairs, &time)?;
        Ok(true)
    })?;
    call.reply().integer(done.into());
    Ok(Next::Go)
}

type Pair<'a> = (&'a [u8], &'a [u8]);

/// Sets all of them, or the time is up before.
fn put_in_time(rows: &Rows<'_>, pairs: &[Pair<'_>], time: &TimeOnLoop) -> Result<(), CommandError> {
    pairs.chunks(time.rows_at_a_time(pairs.len())).try_for_each(|pairs| {
        time.ensure_left()?;
        Ok(rows.put_many(pairs)?)
    })
}

/// Keys and values. Sorted, so that two MSETs of the same keys do not wait for each other in a circle; of a key that is
/// there twice the later value comes later.
fn pairs<'a>(call: &Call<'a>) -> Result<Vec<Pair<'a>>, CommandError> {
    if call.args.len().is_multiple_of(2) {
        let name = String::from_utf8_lossy(call.args.at(0)).to_lowercase();
        return refused(format!("ERR wrong number of arguments for '{name}' command"));
    }
    let keys = call.args.from(1).step_by(2);
    let mut pairs: Vec<_> = keys.zip(call.args.from(2).step_by(2)).collect();
    pairs.sort_by_key(|(key, _)| *key);
    Ok(pairs)
}
