//! The commands there are.

use super::ordered::ROWS;
use super::weight::Scale;
use super::{
    Call, Outcome, admin, client, connection, info, keys, ordered, places, ranges, strings, transactions,
};
use crate::request::Args;

/// A command.
pub struct Command {
    /// In lower case.
    pub name: &'static str,
    /// How many arguments it takes, its name included; negative: at least.
    arity: i8,
    flags: u8,
    /// First and last argument that is a key, and the step; the last counts from the end if negative. 0: no keys.
    pub keys: (i8, i8, i8),
    /// What it belongs to.
    pub group: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// Its subcommands, if it is nothing without one, and how many arguments each takes.
    subcommands: &'static [(&'static str, i8)],
    /// Does it.
    pub run: fn(&mut Call<'_>) -> Outcome,
}

/// It changes rows.
pub const WRITE: u8 = 1;
/// It may be part of a transaction.
pub const TRANSACTIONAL: u8 = 2;
/// It may be used before AUTH.
pub const UNTRUSTED: u8 = 4;
/// It is executed, not queued, after MULTI.
const ENDS_QUEUE: u8 = 8;
/// It reads rows.
pub const READ: u8 = 16;
/// It concerns the server, not rows.
const ADMIN: u8 = 32;
/// It goes through rows, and may be part of a transaction.
const WALKS: u8 = 64;
/// It begins a transaction, which keeps the table that the client's commands mean.
const BEGINS: u8 = 128;

/// Arguments of a command that is not about rows, at most: its event loop goes through them, and nobody has use for so many.
pub const ARGUMENTS_MAX: usize = 4096;

const R: u8 = READ | TRANSACTIONAL;
const W: u8 = WRITE | TRANSACTIONAL;

/// Commands, and their subcommands if they have any, that read or empty, but not the table that the client's commands mean.
const OF_ALL_TABLES: &[(&str, &str)] = &[("kv.tables", ""), ("flushall", ""), ("memory", "STATS")];

/// Commands, and their subcommands, that a rollback does not take back.
const FINAL: &[(&str, &str)] = &[("client", "KILL"), ("config", "SET"), ("slowlog", "RESET")];

const NONE: (i8, i8, i8) = (0, 0, 0);
const ONE: (i8, i8, i8) = (1, 1, 1);
const TWO: (i8, i8, i8) = (1, 2, 1);
const ALL: (i8, i8, i8) = (1, -1, 1);
const PAIRS: (i8, i8, i8) = (1, -1, 2);

impl Command {
    /// Has it this flag?
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Is it executed after MULTI, when others are queued?
    pub fn ends_queue(&self) -> bool {
        self.has(ENDS_QUEUE)
    }

    /// Must be settled which table it means? What only concerns the client, or the server, makes none.
    pub fn means_table(&self, args: &Args<'_>) -> bool {
        let is = |(name, word): &(&str, &str)| {
            self.name == *name && (word.is_empty() || args.at(1).eq_ignore_ascii_case(word.as_bytes()))
        };
        self.has(READ | WRITE | BEGINS) && !OF_ALL_TABLES.iter().any(is)
    }

    /// Does it take `count` arguments, its name included?
    pub fn takes(&self, count: usize) -> bool {
        is_enough(self.arity, count)
    }

    /// Has it subcommands, and the one at hand is none of them, or takes another number of arguments?
    pub fn refuses_subcommand(&self, args: &Args<'_>) -> bool {
        let takes = |(name, arity): &(&str, i8)| {
            args.at(1).eq_ignore_ascii_case(name.as_bytes()) && is_enough(*arity, args.len())
        };
        !self.subcommands.is_empty() && args.len() > 1 && !self.subcommands.iter().any(takes)
    }

    /// Is it done for good at once, whatever becomes of the transaction that it is part of?
    pub fn is_final(&self, args: &Args<'_>) -> bool {
        let is = |(name, word): &(&str, &str)| {
            self.name == *name && args.at(1).eq_ignore_ascii_case(word.as_bytes())
        };
        FINAL.iter().any(is)
    }

    /// Their names.
    pub fn subcommand_names(&self) -> Vec<&'static str> {
        self.subcommands.iter().map(|(name, _)| *name).collect()
    }

    /// The same command with subcommands.
    const fn with(mut self, subcommands: &'static [(&'static str, i8)]) -> Self {
        self.subcommands = subcommands;
        self
    }

    /// How many arguments it takes, as COMMAND INFO says it.
    pub fn arity(&self) -> i64 {
        self.arity.into()
    }

    /// How much there is to do and to lock within a transaction, roughly in rows.
    pub fn weight(&self, scale: Scale, args: &Args<'_>) -> usize {
        scale.weigh(args) + if self.has(WALKS) { ROWS } else { 0 }
    }

    /// The flags, as COMMAND INFO names them.
    pub fn flag_names(&self) -> Vec<&'static str> {
        [(WRITE, "write"), (READ, "readonly"), (ADMIN, "admin"), (UNTRUSTED, "no_auth")]
            .into_iter()
            .filter_map(|(flag, name)| self.has(flag).then_some(name))
            .collect()
    }

    /// The keys among its arguments.
    pub fn keys_of<'a>(&self, args: &Args<'a>) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (first, last, step) = self.keys;
        let len = args.len() as i64;
        let last = if last < 0 { len + i64::from(last) } else { i64::from(last) };
        let count = if first == 0 { 0 } else { (last.min(len - 1) + 1 - i64::from(first)).max(0) };
        args.from(first as usize).take(count as usize).step_by(step.max(1) as usize)
    }
}

/// Are so many arguments enough for an arity, and not too many?
fn is_enough(arity: i8, count: usize) -> bool {
    let wanted = usize::from(arity.unsigned_abs());
    if arity < 0 { count >= wanted } else { count == wanted }
}

/// The command with this name, in any case.
pub fn find(name: &[u8]) -> Option<&'static Command> {
    let mut lower = [0; 16];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    let at = COMMANDS.binary_search_by(|command| command.name.as_bytes().cmp(lower)).ok()?;
    Some(&COMMANDS[at])
}

const fn command(
    name: &'static str,
    arity: i8,
    flags: u8,
    keys: (i8, i8, i8),
    group: &'static str,
    summary: &'static str,
    run: fn(&mut Call<'_>) -> Outcome,
) -> Command {
    Command { name, arity, flags, keys, group, summary, subcommands: &[], run }
}

/// All of them, by name.
#[rustfmt::skip] // a table
pub static COMMANDS: &[Command] = &[
    command("append", 3, W, ONE, "string", "Appends to a value; its new length", ranges::append),
    command("auth", -2, UNTRUSTED | TRANSACTIONAL, NONE, "connection", "Says the password", connection::auth),
    command("bgsave", -1, ADMIN, NONE, "server", "Makes a checkpoint, and answers when it is done", admin::bgsave),
    command("client", -2, TRANSACTIONAL, NONE, "connection", "ID, GETNAME, SETNAME, SETINFO, INFO, LIST, KILL, NO-EVICT, NO-TOUCH", client::client)
        .with(&[("ID", 2), ("GETNAME", 2), ("SETNAME", 3), ("SETINFO", 4), ("INFO", 2), ("LIST", -2), ("KILL", -3), ("NO-EVICT", 3), ("NO-TOUCH", 3)]),
    command("command", -1, TRANSACTIONAL, NONE, "server", "COUNT, DOCS, GETKEYS, INFO, LIST", admin::command)
        .with(&[("COUNT", 2), ("DOCS", -2), ("GETKEYS", -3), ("INFO", -2), ("LIST", -2)]),
    command("config", -2, ADMIN | TRANSACTIONAL, NONE, "server", "GET, SET", admin::config)
        .with(&[("GET", -3), ("SET", -4), ("RESETSTAT", 2)]),
    command("copy", -3, W, TWO, "generic", "Copies a row: [DB n] [REPLACE]", places::copy),
    command("dbsize", 1, READ, NONE, "server", "Rows of the table; an estimate beyond 10,000", admin::dbsize),
    command("decr", 2, W, ONE, "string", "Subtracts one", strings::decr),
    command("decrby", 3, W, ONE, "string", "Subtracts", strings::decrby),
    command("del", -2, W, ALL, "generic", "Removes keys; how many were there", keys::del),
    command("discard", 1, TRANSACTIONAL | ENDS_QUEUE, NONE, "transactions", "Forgets what was queued since MULTI", transactions::discard),
    command("echo", 2, TRANSACTIONAL, NONE, "connection", "Says it back", connection::echo),
    command("exec", 1, TRANSACTIONAL | ENDS_QUEUE, NONE, "transactions", "Executes what was queued, as one serializable transaction", transactions::exec),
    command("exists", -2, R, ALL, "generic", "How many of the keys are there", keys::exists),
    command("expire", -3, W, ONE, "generic", "Not supported: rows do not expire", keys::no_expiry),
    command("expireat", -3, W, ONE, "generic", "Not supported: rows do not expire", keys::no_expiry),
    command("expiretime", 2, R, ONE, "generic", "-1: a row does not expire; -2: no such row", keys::ttl),
    command("flushall", -1, WRITE, NONE, "server", "Empties the tables that SELECT reaches", admin::flushall),
    command("flushdb", -1, WRITE, NONE, "server", "Empties the table", admin::flushdb),
    command("get", 2, R, ONE, "string", "A value", strings::get),
    command("getdel", 2, W, ONE, "string", "A value, which is removed", strings::getdel),
    command("getex", -2, W, ONE, "string", "A value: [PERSIST]; rows do not expire", strings::getex),
    command("getrange", 4, R, ONE, "string", "Bytes of a value: from, to", ranges::getrange),
    command("getset", 3, W, ONE, "string", "Sets a value; the old one", strings::getset),
    command("hello", -1, UNTRUSTED | TRANSACTIONAL, NONE, "connection", "Chooses RESP2 or RESP3", connection::hello),
    command("incr", 2, W, ONE, "string", "Adds one", strings::incr),
    command("incrby", 3, W, ONE, "string", "Adds", strings::incrby),
    command("incrbyfloat", 3, W, ONE, "string", "Adds a decimal fraction, exactly", strings::incrbyfloat),
    command("info", -1, 0, NONE, "server", "About the server", info::info),
    command("keys", 2, READ, NONE, "generic", "Keys that match a pattern; SCAN is kinder", keys::keys),
    command("kv.backup", 2, ADMIN, NONE, "foreshore", "Copies the database into a directory of this name below --backups; its rows", admin::backup),
    command("kv.begin", 1, BEGINS, NONE, "foreshore", "Begins a transaction, serializable, which is rolled back when idle", transactions::begin),
    command("kv.commit", 1, TRANSACTIONAL, NONE, "foreshore", "Commits it", transactions::commit),
    command("kv.delrange", -3, W | WALKS, NONE, "foreshore", "Removes a range of keys: from, to, [LIMIT n]; how many", ordered::delrange),
    command("kv.get", -2, R, ONE, "foreshore", "A value: [UPDATE], for who is going to write it in the same transaction", strings::get_for_update),
    command("kv.pop", -3, W, NONE, "foreshore", "Removes the first row of a range: from, to, [REV]; the row", ordered::pop),
    command("kv.range", -3, R | WALKS, NONE, "foreshore", "Rows in key order: from, to, [REV] [LIMIT n] [KEYS]", ordered::range),
    command("kv.rollback", 1, TRANSACTIONAL, NONE, "foreshore", "Rolls it back", transactions::rollback),
    command("kv.tables", 1, READ, NONE, "foreshore", "Names of the tables", ordered::tables),
    command("kv.use", -2, TRANSACTIONAL, NONE, "foreshore", "The table that further commands mean: name, [INDEX kind] [LEAFBYTES n]", ordered::use_table),
    command("lastsave", 1, TRANSACTIONAL, NONE, "server", "When BGSAVE succeeded last, or the server was started", admin::lastsave),
    command("memory", -2, READ, NONE, "server", "USAGE, STATS", admin::memory)
        .with(&[("USAGE", -3), ("STATS", 2)]),
    command("mget", -2, R, ALL, "string", "Values, all of one point in time", strings::mget),
    command("mset", -3, W, PAIRS, "string", "Sets values, all or none", strings::mset),
    command("msetnx", -3, W, PAIRS, "string", "Sets values if none of the keys is there", strings::msetnx),
    command("multi", 1, TRANSACTIONAL | ENDS_QUEUE | BEGINS, NONE, "transactions", "Queues further commands for EXEC", transactions::multi),
    command("object", -2, R, (2, 2, 1), "generic", "ENCODING, REFCOUNT", keys::object)
        .with(&[("ENCODING", 3), ("REFCOUNT", 3)]),
    command("persist", 2, W, ONE, "generic", "0: rows do not expire", keys::persist),
    command("pexpire", -3, W, ONE, "generic", "Not supported: rows do not expire", keys::no_expiry),
    command("pexpireat", -3, W, ONE, "generic", "Not supported: rows do not expire", keys::no_expiry),
    command("pexpiretime", 2, R, ONE, "generic", "-1: a row does not expire; -2: no such row", keys::ttl),
    command("ping", -1, TRANSACTIONAL, NONE, "connection", "PONG, or what was said", connection::ping),
    command("psetex", 4, W, ONE, "string", "Not supported: rows do not expire", keys::no_expiry),
    command("pttl", 2, R, ONE, "generic", "-1: a row does not expire; -2: no such row", keys::ttl),
    command("quit", -1, UNTRUSTED | TRANSACTIONAL | ENDS_QUEUE, NONE, "connection", "Ends the connection", connection::quit),
    command("randomkey", 1, READ, NONE, "generic", "Some key, each about as likely", keys::randomkey),
    command("rename", 3, W, TWO, "generic", "Gives a row another key", places::rename),
    command("renamenx", 3, W, TWO, "generic", "Gives a row another key if that is not there", places::renamenx),
    command("reset", 1, UNTRUSTED | TRANSACTIONAL | ENDS_QUEUE, NONE, "connection", "The connection as it was at first", connection::reset),
    command("role", 1, TRANSACTIONAL, NONE, "server", "master: there are no replicas", admin::role),
    command("scan", -2, READ, NONE, "generic", "Some keys, and where to go on: cursor, [MATCH pattern] [COUNT n]", keys::scan),
    command("select", 2, TRANSACTIONAL, NONE, "connection", "The database, 0 to 15, that further commands mean: table db0 to db15", connection::select),
    command("set", -3, W, ONE, "string", "Sets a value: [NX | XX] [GET] [KEEPTTL]", strings::set),
    command("setex", 4, W, ONE, "string", "Not supported: rows do not expire", keys::no_expiry),
    command("setnx", 3, W, ONE, "string", "Sets a value if there is none", strings::setnx),
    command("setrange", 4, W, ONE, "string", "Overwrites bytes of a value from an offset on; its length", ranges::setrange),
    command("shutdown", -1, ADMIN, NONE, "server", "Ends the server, when all is written", admin::shutdown),
    command("slowlog", -2, ADMIN | TRANSACTIONAL, NONE, "server", "GET, LEN, RESET", admin::slowlog)
        .with(&[("GET", -2), ("LEN", 2), ("RESET", 2)]),
    command("strlen", 2, R, ONE, "string", "Bytes of a value", strings::strlen),
    command("substr", 4, R, ONE, "string", "As GETRANGE", ranges::getrange),
    command("time", 1, TRANSACTIONAL, NONE, "server", "Seconds since 1970, and microseconds", admin::time),
    command("touch", -2, R, ALL, "generic", "How many of the keys are there", keys::exists),
    command("ttl", 2, R, ONE, "generic", "-1: a row does not expire; -2: no such row", keys::ttl),
    command("type", 2, R, ONE, "generic", "string, or none", keys::kind),
    command("unlink", -2, W, ALL, "generic", "Removes keys; how many were there", keys::del),
    command("unwatch", 1, TRANSACTIONAL, NONE, "transactions", "Watches nothing any more", transactions::unwatch),
    command("wait", 3, TRANSACTIONAL, NONE, "generic", "0: there are no replicas", admin::wait),
    command("watch", -2, READ | TRANSACTIONAL | ENDS_QUEUE, ALL, "transactions", "EXEC will not happen if one of the keys changes", transactions::watch),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Limits, Parser};
    use foreshore::Database;

    #[test]
    fn they_are_in_order_and_found_in_any_case() {
        assert!(COMMANDS.is_sorted_by(|a, b| a.name < b.name), "the search is binary");
        for command in COMMANDS {
            let found = find(command.name.to_uppercase().as_bytes()).expect("it is there");
            assert_eq!(found.name, command.name);
        }
        assert!(find(b"").is_none() && find(b"gett").is_none() && find(&[b'x'; 100]).is_none());
    }

    /// Only what goes through rows does much more than its arguments say.
    #[test]
    fn what_walks_weighs_more() {
        let scale = Scale::of(&Database::in_memory().unwrap());
        for command in COMMANDS.iter().filter(|command| command.has(TRANSACTIONAL)) {
            let mut parser = Parser::new(Limits::STRANGER);
            let line = format!("{} a b\n", command.name);
            parser.advance(line.as_bytes()).unwrap().unwrap();
            let is_much = command.weight(scale, &parser.args(line.as_bytes())) >= ROWS;
            assert_eq!(is_much, ["kv.delrange", "kv.range"].contains(&command.name), "{}", command.name);
        }
    }

    #[test]
    fn keys_are_told_from_other_arguments() {
        for (line, expected) in [
            ("get k", "k"),
            ("set k v NX", "k"),
            ("del a b c", "a b c"),
            ("mset a 1 b 2", "a b"),
            ("mset a 1 b", "a b"),
            ("copy a b DB 1", "a b"),
            ("object encoding k", "k"),
            ("ping x", ""),
            ("kv.range a b", ""),
        ] {
            let mut parser = Parser::new(Limits::STRANGER);
            let line = format!("{line}\n");
            parser.advance(line.as_bytes()).unwrap().unwrap();
            let args = parser.args(line.as_bytes());
            let keys: Vec<_> = find(args.at(0)).unwrap().keys_of(&args).collect();
            assert_eq!(keys.join(&b' '), expected.as_bytes(), "{line}");
        }
    }
}
