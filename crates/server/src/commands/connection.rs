//! The connection itself: who speaks, in which protocol, about which table.

use super::info::REDIS_VERSION;
use super::{Call, CommandError, Next, Outcome, SYNTAX, refused, shown};
use crate::number;
use crate::reply::Protocol;
use crate::shared::Wanted;
use foreshore::TableOptions;
use std::time::Duration;
use subtle::ConstantTimeEq;

/// Databases that SELECT knows.
pub const DATABASES: i64 = 16;

/// How long a client's next request waits after a wrong password.
const WRONG_PASSWORD: Duration = Duration::from_secs(1);

pub fn ping(call: &mut Call<'_>) -> Outcome {
    match call.args.len() {
        1 => call.reply().simple("PONG"),
        2 => {
            let said = call.args.at(1);
            call.reply().bulk(said);
        }
        _ => return refused("ERR wrong number of arguments for 'ping' command"),
    }
    Ok(Next::Go)
}

pub fn echo(call: &mut Call<'_>) -> Outcome {
    let said = call.args.at(1);
    call.reply().bulk(said);
    Ok(Next::Go)
}

pub fn quit(call: &mut Call<'_>) -> Outcome {
    call.reply().ok();
    Ok(Next::Close)
}

pub fn auth(call: &mut Call<'_>) -> Outcome {
    let user_and_password = match call.args.len() {
        2 => (&b"default"[..], call.args.at(1)),
        3 => (call.args.at(1), call.args.at(2)),
        _ => return refused(SYNTAX),
    };
    if call.shared.options.password.is_none() && call.args.len() == 2 {
        return refused(
            "ERR AUTH <password> called without any password configured for the default user. Are you sure your \
             configuration is correct?",
        );
    }
    if !trust(call, user_and_password) {
        return Ok(wrong_password(call));
    }
    call.reply().ok();
    Ok(Next::Go)
}

/// Trusts a client that knows the password. There is one user, `default`; without a password any will do.
fn trust(call: &mut Call<'_>, (user, password): (&[u8], &[u8])) -> bool {
    let expected = call.shared.options.password.as_ref();
    let is_right = expected.is_none_or(|expected| expected.as_bytes().ct_eq(password).into());
    let is_known = user == b"default" && is_right;
    call.session.is_trusted |= is_known;
    is_known
}

/// Who guesses passwords has to wait in between.
fn wrong_password(call: &mut Call<'_>) -> Next {
    call.session.errors += 1;
    call.reply().error("WRONGPASS invalid username-password pair or user is disabled. The user is 'default'");
    Next::Rest(WRONG_PASSWORD)
}

pub fn hello(call: &mut Call<'_>) -> Outcome {
    let protocol = match call.args.len() {
        1 => call.session.protocol,
        _ => match call.arg(1) {
            b"2" => Protocol::Resp2,
            b"3" => Protocol::Resp3,
            other if number::parse(other).is_none() => {
                return refused("ERR Protocol version is not an integer or out of range");
            }
            _ => return refused("NOPROTO unsupported protocol version; 2 and 3 are supported"),
        },
    };
    let (mut at, mut name) = (2, None);
    while at < call.args.len() {
        let left = call.args.len() - at;
        match call.arg(at).to_ascii_uppercase().as_slice() {
            b"AUTH" if left > 2 => {
                if !trust(call, (call.args.at(at + 1), call.args.at(at + 2))) {
                    return Ok(wrong_password(call));
                }
                at += 3;
            }
            b"SETNAME" if left > 1 => {
                name = Some(super::client::valid_name(call.text(at + 1)?)?.to_owned());
                at += 2;
            }
            _ => return refused(format!("ERR Syntax error in HELLO option '{}'", shown(call.arg(at)))),
        }
    }
    if !call.session.is_trusted {
        return refused(
            "NOAUTH HELLO must be called with the client already authenticated, or with the server's password: HELLO 3 \
             AUTH default <password>",
        );
    }
    call.session.protocol = protocol;
    if let Some(name) = name {
        call.session.client.told.lock().names.client = name;
    }
    greet(call);
    Ok(Next::Go)
}

fn greet(call: &mut Call<'_>) {
    let id = call.session.client.id;
    let version: i64 = if call.session.protocol == Protocol::Resp2 { 2 } else { 3 };
    let mut reply = call.reply();
    reply.map(7);
    for (name, value) in [("server", "foreshore"), ("version", REDIS_VERSION)] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"proto");
    reply.integer(version);
    reply.bulk(b"id");
    reply.count(id);
    for (name, value) in [("mode", "standalone"), ("role", "master")] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
}

pub fn select(call: &mut Call<'_>) -> Outcome {
    call.session.target = call.table(database_at(call, 1)?)?;
    call.reply().ok();
    Ok(Next::Go)
}

/// Others may have renamed the client's table: then it comes to what has the name by which it knows that one, as it would by SELECT.
/// All commands agree by that, those that reach rows through the table and those that open it by its name elsewhere. Within a
/// transaction it keeps what it has.
pub fn come_to_table(call: &mut Call<'_>) -> Result<(), CommandError> {
    if call.session.is_within() || !call.session.target.is_renamed() {
        return Ok(());
    }
    call.session.watches.break_if_renamed(); // before its name may be given back to it
    call.session.target = call.table(call.session.target.again())?;
    Ok(())
}

/// The table that the number at `at` means.
pub fn database_at(call: &Call<'_>, at: usize) -> Result<Wanted, CommandError> {
    let number = call.number(at)?;
    if !(0..DATABASES).contains(&number) {
        return refused(format!("ERR DB index is out of range; there are 0 to {}", DATABASES - 1));
    }
    Ok(database(number))
}

/// The table that SELECT means.
pub fn database(number: i64) -> Wanted {
    Wanted { name: format!("db{number}"), options: TableOptions::new() }
}

/// The number that SELECT has for a table, if it has one.
pub fn number_of(table: &str) -> Option<i64> {
    let number = number::parse(table.strip_prefix("db")?.as_bytes())?;
    (0..DATABASES).contains(&number).then_some(number)
}

pub fn reset(call: &mut Call<'_>) -> Outcome {
    let target = call.table(database(0))?;
    let open = call.session.take_open();
    call.session.abandon();
    call.session.target = target;
    call.session.protocol = Protocol::default();
    call.session.is_trusted = call.shared.options.password.is_none();
    call.session.client.told.lock().names.client.clear();
    match open {
        // Whatever becomes of it, the client has none any more.
        Some(open) => Ok(Next::rollback(open, |_| b"+RESET\r\n".to_vec())),
        None => {
            call.reply().simple("RESET");
            Ok(Next::Go)
        }
    }
}
