//! MULTI, EXEC and WATCH as Redis has them, on serializable transactions; and KV.BEGIN, which Redis has not: a transaction
//! whose commands are answered one by one.
//!
//! EXEC is one transaction. One that loses against others is executed again as a whole; nothing of it is seen before.
//!
//! WATCH: EXEC happens only if each watched key has, under the transaction's lock, the value it had when it was watched,
//! and if this client, whenever it has read one since by its name, saw that value. So what EXEC does is as if the client
//! had read and written in one instant. A value that was changed and changed back unseen is no conflict, unlike in Redis.

use super::{
    Call, CommandError, Next, Outcome, READ_BYTES_MAX, REPLY_BYTES_MAX, TimeOnLoop, ok_or_error, refused,
    run, table,
};
use crate::request::OwnedArgs;
use crate::session::Queue;
use crate::shared::{OPEN_TRANSACTIONS_MAX, Open};
use crate::watches::WATCHED_MAX;
use std::time::{Duration, Instant};

/// How long an EXEC may take: what it has locked is nobody else's meanwhile, and a thread is its own.
const EXEC: Duration = Duration::from_secs(1);

pub fn multi(call: &mut Call<'_>) -> Outcome {
    if call.session.queue.is_some() {
        return refused("ERR MULTI calls can not be nested");
    }
    if call.session.transaction.is_some() {
        return refused("ERR MULTI is not possible after KV.BEGIN; its commands are a transaction already");
    }
    call.session.queue = Some(Queue::default());
    call.reply().ok();
    Ok(Next::Go)
}

/// Keeps a command for EXEC.
pub fn queue(call: &mut Call<'_>) -> Outcome {
    let args = OwnedArgs::from(call.args);
    let max = call.shared.options.queue_bytes_max;
    let queue = call.session.queue.as_mut().expect("only asked after MULTI");
    if queue.bytes() + args.bytes() > max {
        queue.is_broken = true;
        return refused(format!(
            "ERR more than {max} bytes of commands are queued; use smaller transactions"
        ));
    }
    queue.commands_bytes += args.bytes();
    queue.weight +=
        table::find(call.args.at(0)).map_or(0, |command| command.weight(call.shared.scale, &call.args));
    queue.commands.push(args);
    call.reply().simple("QUEUED");
    Ok(Next::Go)
}

pub fn discard(call: &mut Call<'_>) -> Outcome {
    if call.session.queue.take().is_none() {
        return refused("ERR DISCARD without MULTI");
    }
    call.session.unwatch();
    call.reply().ok();
    Ok(Next::Go)
}

pub fn exec(call: &mut Call<'_>) -> Outcome {
    let Some(queue) = call.session.queue.take() else {
        return refused("ERR EXEC without MULTI");
    };
    if queue.is_broken {
        call.session.unwatch();
        return refused("EXECABORT Transaction discarded because of previous errors.");
    }
    let (target, protocol) = (call.session.target.clone(), call.session.protocol);
    let names = call.session.client.told.lock().names.clone();
    let done = attempt(call, &queue);
    match &done {
        Ok(_) => {
            call.session.has_written = true; // what it has read may be younger than what is durable
            call.session.unwatch();
        }
        Err(error) => {
            (call.session.target, call.session.protocol) = (target, protocol);
            call.session.client.told.lock().names = names;
            if error.is_to_be_tried_again() {
                call.session.queue = Some(Queue { is_executing: true, ..queue }); // to be tried again
            } else {
                call.session.unwatch();
            }
        }
    }
    done
}

/// Is the command at hand an EXEC, of a client that may use it, and that does not hold a transaction of another kind?
pub fn is_exec_for_multi(call: &Call<'_>) -> bool {
    call.is_word(0, "EXEC") && call.session.is_trusted && call.session.place.is_none()
}

/// EXEC with arguments: as in Redis it is the end of what was begun. So whoever then goes on without a transaction is in none.
pub fn refuse_arguments(call: &mut Call<'_>) -> Outcome {
    call.session.queue = None;
    call.session.unwatch();
    refused("EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command")
}

fn attempt(call: &mut Call<'_>, queue: &Queue) -> Outcome {
    // What answers little may have read much.
    let time = TimeOnLoop::begin(call.session.is_on_loop);
    let transaction = call.shared.begin()?;
    call.session.watches.break_if_renamed();
    // A key watched before FLUSHDB is looked for in the table of the name, and what is queued writes to the one that MULTI has found.
    let is_elsewhere = !call.session.watches.is_empty() && call.session.target.is_renamed();
    call.session.watches.break_if(is_elsewhere);
    if !call.session.watches.are_kept(call.shared, &transaction, &time)? {
        call.reply().null_array();
        return Ok(Next::Go);
    }
    call.session.transaction = Some(transaction);
    let (begun, start) = (Instant::now(), call.out.len());
    call.reply().array(queue.commands.len());
    let done = queue.commands.iter().try_for_each(|command| {
        time.ensure_left()?;
        part(call, command)?;
        ensure_within_bounds(begun.elapsed(), call.out.len() - start, call.session.is_on_loop)
    });
    let transaction = call.session.transaction.take().expect("no command of a queue ends it");
    done?;
    transaction.commit()?;
    Ok(Next::Go)
}

fn ensure_within_bounds(took: Duration, bytes: usize, is_on_loop: bool) -> Result<(), CommandError> {
    if is_on_loop && bytes > READ_BYTES_MAX {
        return Err(CommandError::TooHeavy);
    }
    if took > EXEC {
        return refused(format!(
            "ERR EXEC took more than {EXEC:?}, and was undone; use smaller transactions, or KV.BEGIN"
        ));
    }
    if bytes > REPLY_BYTES_MAX {
        return refused(format!(
            "ERR EXEC would answer more than {REPLY_BYTES_MAX} bytes, and was undone; use smaller transactions"
        ));
    }
    Ok(())
}

/// Executes one of the queued commands.
fn part(call: &mut Call<'_>, command: &OwnedArgs) -> Result<(), CommandError> {
    let args = command.args();
    let found = table::find(args.at(0)).expect("it was found when it was queued");
    let (session, out) = (&mut *call.session, &mut *call.out);
    let start = out.len();
    let mut call = Call { shared: call.shared, session, args, out };
    match run(&mut call, found) {
        // After a wrong password there is no need to rest: only who has said the right one can queue commands.
        Ok(Next::Go | Next::Rest(_)) => Ok(()),
        Ok(Next::Chore(..) | Next::Close) => unreachable!("{} is marked as possible within EXEC", found.name),
        Err(error) if error.is_of_the_command() => {
            call.out.truncate(start);
            call.session.errors += 1;
            call.reply().error(&error.text());
            Ok(())
        }
        Err(error) => Err(error),
    }
}

pub fn watch(call: &mut Call<'_>) -> Outcome {
    if call.session.queue.is_some() {
        return refused("ERR WATCH inside MULTI is not allowed");
    }
    if call.session.transaction.is_some() {
        return refused("ERR WATCH is not possible after KV.BEGIN: what it reads is locked already");
    }
    let mut keys: Vec<_> = call.args.from(1).collect();
    keys.sort_unstable();
    keys.dedup(); // each is read, and may be large
    let (watches, table) = (&call.session.watches, call.session.target.name());
    if watches.len() + keys.iter().filter(|key| !watches.has(table, key)).count() > WATCHED_MAX {
        return refused(format!("ERR at most {WATCHED_MAX} keys can be watched at a time"));
    }
    if !call.session.watch(&keys, REPLY_BYTES_MAX)? {
        return refused("ERR the values that are watched have more than 128 MiB; watch fewer keys at a time");
    }
    call.reply().ok();
    Ok(Next::Go)
}

/// Within EXEC it changes nothing, as in Redis: should EXEC be executed again, it depends on what is watched as before.
pub fn unwatch(call: &mut Call<'_>) -> Outcome {
    if call.session.transaction.is_none() {
        call.session.unwatch();
    }
    call.reply().ok();
    Ok(Next::Go)
}

pub fn begin(call: &mut Call<'_>) -> Outcome {
    let Some(open) = call.shared.begin_open()? else {
        return refused(format!(
            "BUSY {OPEN_TRANSACTIONS_MAX} transactions are open; try again when some have ended"
        ));
    };
    call.session.unwatch();
    (call.session.transaction, call.session.place) = (Some(open.transaction), Some(open.place));
    call.session.weight = 0;
    call.reply().ok();
    Ok(Next::Go)
}

pub fn commit(call: &mut Call<'_>) -> Outcome {
    open(call)?.transaction.commit()?;
    call.session.has_written = true; // what it has read may be younger than what is durable
    call.reply().ok();
    Ok(Next::Go)
}

pub fn rollback(call: &mut Call<'_>) -> Outcome {
    let (open, protocol) = (open(call)?, call.session.protocol);
    Ok(Next::rollback(open, move |ended| ok_or_error(protocol, ended)))
}

/// The transaction that the client holds, and does no longer.
fn open(call: &mut Call<'_>) -> Result<Open, CommandError> {
    call.session.take_open().map_or_else(|| refused("ERR there is no transaction; KV.BEGIN begins one"), Ok)
}
