//! CLIENT: who is connected.

use super::{Call, CommandError, Next, Outcome, SYNTAX, refused};
use crate::event_loop::Message;

/// Bytes of what a client tells about itself.
const NAME_BYTES_MAX: usize = 256;

pub fn client(call: &mut Call<'_>) -> Outcome {
    let (name, count) = (call.arg(1).to_ascii_uppercase(), call.args.len());
    match (name.as_slice(), count) {
        (b"ID", 2) => {
            let id = call.session.client.id;
            call.reply().count(id);
        }
        (b"GETNAME", 2) => {
            let name = call.session.client.told.lock().name.clone();
            call.reply().bulk_or_null(Some(name.as_bytes()).filter(|name| !name.is_empty()));
        }
        (b"SETNAME", 3) => {
            let name = valid_name(call.text(2)?)?.to_owned();
            call.session.client.told.lock().name = name;
            call.reply().ok();
        }
        (b"SETINFO", 4) => set_info(call)?,
        (b"INFO", 2) => {
            let line = call.session.client.line();
            call.reply().text(&format!("{line}\n"));
        }
        (b"LIST", _) => list(call)?,
        // Nothing is evicted to make room for clients, and to read a row does not touch it.
        (b"NO-EVICT" | b"NO-TOUCH", 3) if call.is_word(2, "ON") || call.is_word(2, "OFF") => {
            call.reply().ok()
        }
        (b"KILL", 3..) => kill(call)?,
        _ => {
            return refused(
                "ERR unknown CLIENT subcommand or wrong arguments; there are ID, GETNAME, SETNAME, SETINFO, INFO, LIST, \
                 KILL, NO-EVICT, NO-TOUCH",
            );
        }
    }
    Ok(Next::Go)
}

/// `LIST`, or `LIST ID id …`, or `LIST TYPE type`: there are no clients but normal ones.
fn list(call: &mut Call<'_>) -> Result<(), CommandError> {
    let mut clients = call.shared.clients.list();
    if call.args.len() > 3 && call.is_word(2, "ID") {
        let ids = (3..call.args.len()).map(|at| call.number(at)).collect::<Result<Vec<_>, _>>()?;
        clients.retain(|client| ids.contains(&(client.id as i64)));
    } else if call.args.len() == 4 && call.is_word(2, "TYPE") {
        if !["normal", "master", "replica", "slave", "pubsub"].iter().any(|kind| call.is_word(3, kind)) {
            return refused("ERR Unknown client type; there are normal ones");
        }
        clients.retain(|_| call.is_word(3, "normal"));
    } else if call.args.len() > 2 {
        return refused(SYNTAX);
    }
    let lines: Vec<_> = clients.iter().map(|client| client.line() + "\n").collect();
    call.reply().text(&lines.concat());
    Ok(())
}

/// A name that CLIENT LIST can show.
pub fn valid_name(name: &str) -> Result<&str, CommandError> {
    if name.len() > NAME_BYTES_MAX || !name.chars().all(|c| c.is_ascii_graphic()) {
        return refused("ERR Client names cannot contain spaces, newlines or special characters");
    }
    Ok(name)
}

fn set_info(call: &mut Call<'_>) -> Result<(), CommandError> {
    let value = valid_name(call.text(3)?)?.to_owned();
    let mut told = call.session.client.told.lock();
    match call.args.at(2).to_ascii_uppercase().as_slice() {
        b"LIB-NAME" => told.lib_name = value,
        b"LIB-VER" => told.lib_version = value,
        _ => return refused("ERR CLIENT SETINFO knows LIB-NAME and LIB-VER"),
    }
    drop(told);
    call.reply().ok();
    Ok(())
}

/// Whom KILL means.
#[derive(Default)]
struct Victims {
    id: Option<u64>,
    addr: Option<String>,
    others_only: bool,
}

impl Victims {
    fn parse(call: &Call<'_>) -> Result<Self, CommandError> {
        let mut victims = Self { others_only: true, ..Self::default() };
        if !call.args.len().is_multiple_of(2) {
            return refused(SYNTAX);
        }
        for at in (2..call.args.len()).step_by(2) {
            match call.arg(at).to_ascii_uppercase().as_slice() {
                b"ID" => match call.number(at + 1).map(u64::try_from) {
                    Ok(Ok(id @ 1..)) => victims.id = Some(id),
                    _ => return refused("ERR client-id should be greater than 0"),
                },
                b"ADDR" => victims.addr = Some(call.text(at + 1)?.to_owned()),
                b"SKIPME" if call.is_word(at + 1, "yes") => victims.others_only = true,
                b"SKIPME" if call.is_word(at + 1, "no") => victims.others_only = false,
                _ => return refused(SYNTAX),
            }
        }
        Ok(victims)
    }
}

/// `KILL addr`, which answers OK; or `KILL ID id`, `ADDR addr`, `SKIPME yes|no`, which answer how many.
fn kill(call: &mut Call<'_>) -> Result<(), CommandError> {
    let by_addr = call.args.len() == 3;
    let victims = if by_addr {
        Victims { addr: Some(call.text(2)?.to_owned()), ..Victims::default() }
    } else {
        Victims::parse(call)?
    };
    let mut killed = 0;
    for client in call.shared.clients.list() {
        let is_meant = victims.id.is_none_or(|id| id == client.id)
            && victims.addr.as_ref().is_none_or(|addr| *addr == client.addr.to_string())
            && !(victims.others_only && client.id == call.session.client.id);
        if is_meant {
            let inboxes = call.shared.inboxes.get().expect("set before the first client");
            inboxes[client.home].send(Message::Kill(client.id));
            killed += 1;
        }
    }
    match (by_addr, killed) {
        (true, 0) => refused("ERR No such client"),
        (true, _) => {
            call.reply().ok();
            Ok(())
        }
        (false, killed) => {
            call.reply().count(killed);
            Ok(())
        }
    }
}
