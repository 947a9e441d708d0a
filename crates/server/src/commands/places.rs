//! Rows under other keys: RENAME, RENAMENX, COPY.

use super::{Call, CommandError, Next, Outcome, SYNTAX, connection, refused};
use crate::shared::Target;
use std::cmp::{max, min};

pub fn rename(call: &mut Call<'_>) -> Outcome {
    move_row(call, true)?;
    call.reply().ok();
    Ok(Next::Go)
}

pub fn renamenx(call: &mut Call<'_>) -> Outcome {
    let done = move_row(call, false)?;
    call.reply().integer(done.into());
    Ok(Next::Go)
}

/// Gives the row of one key to another; says whether it did.
fn move_row(call: &mut Call<'_>, replaces: bool) -> Result<bool, CommandError> {
    let (old, new) = (call.args.at(1), call.args.at(2));
    call.session.atomically(call.shared, |rows| {
        // In their order, so that two of them do not wait for each other in a circle.
        let first = rows.get_for_update(min(old, new))?;
        let second = rows.get_for_update(max(old, new))?;
        let (value, obstacle) = if old <= new { (first, second) } else { (second, first) };
        let Some(value) = value else { return refused("ERR no such key") };
        if !replaces && obstacle.is_some() {
            return Ok(false);
        }
        if old != new {
            rows.put(new, &value)?;
            rows.remove(old)?;
        }
        Ok(true)
    })
}

/// What COPY asks for beside the keys.
struct CopyOptions {
    target: Target,
    replaces: bool,
}

impl CopyOptions {
    fn parse(call: &mut Call<'_>) -> Result<Self, CommandError> {
        let (mut database, mut replaces, mut at) = (None, false, 3);
        while at < call.args.len() {
            if call.is_word(at, "REPLACE") {
                replaces = true;
            } else if call.is_word(at, "DB") && at + 1 < call.args.len() {
                at += 1;
                database = Some(connection::database_at(call, at)?);
            } else {
                return refused(SYNTAX);
            }
            at += 1;
        }
        let target = match database {
            Some(wanted) => call.table(wanted)?,
            None => call.session.target.clone(),
        };
        Ok(Self { target, replaces })
    }
}

pub fn copy(call: &mut Call<'_>) -> Outcome {
    let options = CopyOptions::parse(call)?;
    let (from, to) = (call.args.at(1), call.args.at(2));
    let source = call.session.target.clone();
    // By the names that they have now: a transaction may still mean a table that others have renamed.
    if from == to && source.table().name() == options.target.table().name() {
        return refused("ERR source and destination objects are the same");
    }
    let done = call.session.transact(call.shared, |part| {
        let rows = part.rows(&options.target);
        match part.rows(&source).get(from)? {
            None => Ok(false),
            Some(value) if options.replaces => rows.put(to, &value).map(|()| true),
            Some(value) => rows.insert(to, &value),
        }
    })?;
    call.reply().integer(done.into());
    Ok(Next::Go)
}
