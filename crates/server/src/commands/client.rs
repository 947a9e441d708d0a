//! CLIENT: who is connected.

use super::{Call, CommandError, Next, Outcome, SYNTAX, refused, shown};
use crate::clients::Client;
use crate::number;
use std::collections::HashSet;
use std::time::Instant;

/// Bytes of what a client tells about itself.
pub const NAME_BYTES_MAX: usize = 256;

pub fn client(call: &mut Call<'_>) -> Outcome {
    let (name, count) = (call.arg(1).to_ascii_uppercase(), call.args.len());
    match (name.as_slice(), count) {
        (b"ID", 2) => {
            let id = call.session.client.id;
            call.reply().count(id);
        }
        (b"GETNAME", 2) => {
            let name = call.session.client.told.lock().names.client.clone();
            call.reply().bulk_or_null(Some(name.as_bytes()).filter(|name| !name.is_empty()));
        }
        (b"SETNAME", 3) => {
            let name = valid_name(call.text(2)?)?.to_owned();
            call.session.client.told.lock().names.client = name;
            call.reply().ok();
        }
        (b"SETINFO", 4) => set_info(call)?,
        (b"INFO", 2) => {
            call.session.tell(Instant::now());
            let line = call.session.client.line();
            call.reply().text(&format!("{line}\n"));
        }
        (b"LIST", _) => list(call)?,
        // Nothing is evicted to make room for clients, and to read a row does not touch it.
        (b"NO-EVICT" | b"NO-TOUCH", 3) => {
            if !call.is_word(2, "ON") && !call.is_word(2, "OFF") {
                return refused(SYNTAX);
            }
            call.reply().ok();
        }
        (b"KILL", 3..) => return kill(call),
        _ => return call.refuse_subcommand(),
    }
    Ok(Next::Go)
}

/// `LIST`, or `LIST ID id …`, or `LIST TYPE type`: there are no clients but normal ones.
fn list(call: &mut Call<'_>) -> Result<(), CommandError> {
    call.session.tell(Instant::now());
    let mut clients = call.shared.clients.list();
    if call.args.len() > 3 && call.is_word(2, "ID") {
        let ids: Option<HashSet<_>> = call.args.from(3).map(number::parse).collect();
        let Some(ids) = ids else { return refused("ERR Invalid client ID") };
        clients.retain(|client| ids.contains(&(client.id as i64)));
    } else if call.args.len() == 4 && call.is_word(2, "TYPE") {
        let is_meant = is_normal(call, 3)?;
        clients.retain(|_| is_meant);
    } else if call.args.len() > 2 {
        return refused(SYNTAX);
    }
    let lines: Vec<_> = clients.iter().map(|client| client.line() + "\n").collect();
    call.reply().text(&lines.concat());
    Ok(())
}

/// Is the type at `at` that of the clients there are?
fn is_normal(call: &Call<'_>, at: usize) -> Result<bool, CommandError> {
    if ["master", "replica", "slave", "pubsub"].iter().any(|kind| call.is_word(at, kind)) {
        return Ok(false);
    }
    if call.is_word(at, "normal") {
        return Ok(true);
    }
    refused(format!("ERR Unknown client type '{}'", shown(call.arg(at))))
}

/// A client's name.
pub fn valid_name(name: &str) -> Result<&str, CommandError> {
    valid("Client names", name)
}

/// What a client tells about itself, if CLIENT LIST can show it; `what` that is.
fn valid<'v>(what: &str, value: &'v str) -> Result<&'v str, CommandError> {
    if value.len() > NAME_BYTES_MAX {
        return refused(format!("ERR {what} cannot have more than {NAME_BYTES_MAX} bytes."));
    }
    if !value.chars().all(|c| c.is_ascii_graphic()) {
        return refused(format!("ERR {what} cannot contain spaces, newlines or special characters."));
    }
    Ok(value)
}

fn set_info(call: &mut Call<'_>) -> Result<(), CommandError> {
    let is_name = match call.args.at(2).to_ascii_uppercase().as_slice() {
        b"LIB-NAME" => true,
        b"LIB-VER" => false,
        _ => return refused("ERR CLIENT SETINFO knows LIB-NAME and LIB-VER"),
    };
    let what = if is_name { "lib-name" } else { "lib-ver" };
    let value = valid(what, call.text(3)?)?.to_owned();
    let mut told = call.session.client.told.lock();
    *(if is_name { &mut told.names.lib_name } else { &mut told.names.lib_version }) = value;
    drop(told);
    call.reply().ok();
    Ok(())
}

/// Whom KILL means: who is all of this.
#[derive(Default)]
struct Victims {
    id: Option<u64>,
    addr: Option<String>,
    local_addr: Option<String>,
    /// They are of a type, or a user's, that none is.
    are_none: bool,
    others_only: bool,
}

impl Victims {
    fn parse(call: &Call<'_>) -> Result<Self, CommandError> {
        let mut victims = Self { others_only: true, ..Self::default() };
        if !call.args.len().is_multiple_of(2) {
            return refused(SYNTAX);
        }
        for at in (2..call.args.len()).step_by(2) {
            let value = at + 1;
            match call.arg(at).to_ascii_uppercase().as_slice() {
                b"ID" => match number::parse(call.arg(value)) {
                    Some(id @ 1..) => victims.id = Some(id as u64),
                    _ => return refused("ERR client-id should be greater than 0"),
                },
                b"ADDR" => victims.addr = Some(call.text(value)?.to_owned()),
                b"LADDR" => victims.local_addr = Some(call.text(value)?.to_owned()),
                b"TYPE" => victims.are_none |= !is_normal(call, value)?,
                b"USER" if call.arg(value) == b"default" => {}
                b"USER" => return refused(format!("ERR No such user '{}'", shown(call.arg(value)))),
                b"SKIPME" if call.is_word(value, "yes") => victims.others_only = true,
                b"SKIPME" if call.is_word(value, "no") => victims.others_only = false,
                _ => return refused(SYNTAX),
            }
        }
        Ok(victims)
    }

    fn contain(&self, client: &Client) -> bool {
        !self.are_none
            && self.id.is_none_or(|id| id == client.id)
            && self.addr.as_ref().is_none_or(|addr| *addr == client.addr.to_string())
            && self.local_addr.as_ref().is_none_or(|addr| *addr == client.local_addr.to_string())
    }
}

/// `KILL addr`, which answers OK; or with what is in [`Victims`], which answers how many. Who means itself is answered first.
fn kill(call: &mut Call<'_>) -> Outcome {
    let by_addr = call.args.len() == 3;
    let victims = if by_addr {
        Victims { addr: Some(call.text(2)?.to_owned()), ..Victims::default() }
    } else {
        Victims::parse(call)?
    };
    let (own_id, mut killed, mut next) = (call.session.client.id, 0, Next::Go);
    for client in call.shared.clients.list().iter().filter(|client| victims.contain(client)) {
        match (client.id == own_id, victims.others_only) {
            (true, true) => continue,
            (true, false) => next = Next::Close,
            (false, _) => client.kill(call.shared),
        }
        killed += 1;
    }
    match (by_addr, killed) {
        (true, 0) => return refused("ERR No such client"),
        (true, _) => call.reply().ok(),
        (false, killed) => call.reply().count(killed),
    }
    Ok(next)
}
