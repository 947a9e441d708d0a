//! From a request to its reply: looking the command up, what must hold before it runs, and what becomes of its errors.
//!
//! A command either has happened and replied, or it has done nothing at all; only a FLUSHALL that fails has emptied tables. So one that
//! met a lock is simply executed again later, from the beginning: no event loop ever waits for a client.

mod admin;
mod client;
pub mod connection;
mod info;
mod keys;
mod ordered;
mod places;
mod ranges;
mod strings;
pub mod table;
mod time_on_loop;
mod transactions;
mod weight;

use crate::chores::{Brought, Length, Work};
use crate::clients::Client;
use crate::reply::{Protocol, Reply};
use crate::request::{Args, OwnedArgs};
use crate::session::Session;
use crate::shared::{Open, Place, Shared, Target, Wanted};
pub use client::NAME_BYTES_MAX;
use foreshore::{Error, Transaction};
use parking_lot::Mutex;
use std::borrow::Cow;
use std::mem::take;
use std::sync::Arc;
use std::time::{Duration, Instant};
pub use table::Command;
use table::{ARGUMENTS_MAX, READ, TRANSACTIONAL, UNTRUSTED, WRITE};
pub use time_on_loop::TimeOnLoop;
pub use weight::{HEAVY, REMOVED, Scale};

/// A command being executed.
pub struct Call<'c> {
    /// The server.
    pub shared: &'c Arc<Shared>,
    /// The client.
    pub session: &'c mut Session,
    /// The command's name and arguments.
    pub args: Args<'c>,
    /// Where replies go.
    pub out: &'c mut Vec<u8>,
}

/// What follows a command's reply.
pub enum Next {
    /// The next command.
    Go,
    /// The next command, but not before this has passed.
    Rest(Duration),
    /// Nothing: the client is sent away.
    Close,
    /// There is no reply yet; this makes it.
    Chore(Length, Work),
}

impl Next {
    fn brief_chore(work: impl FnOnce(&Shared) -> Vec<u8> + Send + 'static) -> Self {
        Self::Chore(Length::Brief, Box::new(|shared| Brought::Reply(work(shared))))
    }

    /// Rolls back a transaction, which takes as long as it did.
    fn rollback(open: Open, reply: impl FnOnce(Result<(), Error>) -> Vec<u8> + Send + 'static) -> Self {
        let work = |_: &Shared| {
            let Open { transaction, place } = open;
            let ended = transaction.rollback();
            drop(place);
            Brought::Reply(reply(ended))
        };
        Self::Chore(Length::Ending, Box::new(work))
    }

    fn long_chore(work: impl FnOnce(&Shared) -> Vec<u8> + Send + 'static) -> Self {
        Self::Chore(Length::Long, Box::new(|shared| Brought::Reply(work(shared))))
    }
}

/// Why a command has not happened.
#[derive(Clone, Debug)]
pub enum CommandError {
    /// The client is told this: a code, and what to do.
    Refused(Cow<'static, str>),
    /// The engine's.
    Engine(Error),
    /// It needs a table that has not been opened yet.
    NotOpen(Wanted),
    /// It would read or write what is too heavy for an event loop.
    TooHeavy,
    /// It is one of those that are done elsewhere, where too many wait.
    Busy,
}

/// What a command returns.
pub type Outcome = Result<Next, CommandError>;

/// How long a command has waited for locks of others before this attempt.
#[derive(Clone, Copy, Debug)]
pub struct Waited {
    /// In all.
    pub time: Duration,
    /// Is that as long as it may? Then it is not tried again, whoever holds what.
    pub is_enough: bool,
}

/// How an attempt at a command ended.
pub enum Attempt {
    /// It has replied, and this follows.
    Done(Next),
    /// It has done nothing, since somebody else holds a lock: to be tried again.
    PutOff,
    /// It has done nothing, since a table is to be opened by this: to be tried again then.
    Opens(Work),
    /// It has done nothing, since it is too heavy for an event loop: to be tried elsewhere.
    TooHeavy,
}

impl From<Error> for CommandError {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

/// An error whose text is known beforehand, or made.
pub fn refused<T>(text: impl Into<Cow<'static, str>>) -> Result<T, CommandError> {
    Err(CommandError::Refused(text.into()))
}

impl CommandError {
    /// Is this what somebody else's lock does, who holds it now and not for ever? A FLUSHDB is one of those: while it waits for the
    /// transactions that use the table, others run into their timeout there, and then the table is gone until its newer one is found.
    fn is_of_the_moment(&self) -> bool {
        matches!(
            self,
            Self::Engine(
                Error::LockTimeout { .. }
                    | Error::Deadlock { .. }
                    | Error::SnapshotTooOld
                    | Error::TableDropped { .. }
            ) | Self::NotOpen(_)
        )
    }

    /// Does it say no more than that the attempt is to be made again, then or elsewhere?
    fn is_to_be_tried_again(&self) -> bool {
        matches!(self, Self::TooHeavy) || self.is_of_the_moment()
    }

    /// Does it concern this command alone, so that others of its EXEC go on?
    fn is_of_the_command(&self) -> bool {
        matches!(
            self,
            Self::Refused(_)
                | Self::Engine(Error::KeyTooLong { .. } | Error::ValueTooLarge { .. } | Error::Argument(_))
        )
    }

    /// As its client sees it, who does not know of the attempts before, which took so long.
    fn after(mut self, time: Duration) -> Self {
        if let Self::Engine(Error::LockTimeout { waited, .. }) = &mut self {
            *waited += time;
        }
        self
    }

    /// What the client is told.
    pub fn text(&self) -> Cow<'static, str> {
        let error = match self {
            Self::Refused(text) => return text.clone(),
            Self::NotOpen(wanted) => {
                return format!("TRYAGAIN table {:?} is being opened", wanted.name).into();
            }
            Self::TooHeavy => return "BUSY it is too much for now; try again later".into(),
            Self::Busy => return "BUSY too many long commands wait; try again later".into(),
            Self::Engine(error) => error,
        };
        match error {
            Error::LockTimeout { .. } => format!("TRYAGAIN {error}").into(),
            Error::TableInUse { name } => {
                format!("BUSY table {name:?} is used by open transactions; send the command again when they have ended")
                    .into()
            }
            Error::TableDropped { name } => format!("TRYAGAIN table {name:?} is being emptied").into(),
            error if is_end(error) => format!("ABORTED {error}").into(),
            Error::Full { .. } | Error::TooManyFiles { .. } | Error::Poisoned { .. } | Error::Io { .. } => {
                format!("MISCONF {error}").into()
            }
            _ => format!("ERR {error}").into(),
        }
    }
}

impl<'c> Call<'c> {
    /// Writes the reply.
    pub fn reply(&mut self) -> Reply<'_> {
        Reply::new(self.out, self.session.protocol)
    }

    /// The argument at `at`; the arity has been checked.
    pub fn arg(&self, at: usize) -> &[u8] {
        self.args.at(at)
    }

    /// The argument at `at` as text.
    pub fn text(&self, at: usize) -> Result<&str, CommandError> {
        std::str::from_utf8(self.args.at(at)).or_else(|_| refused("ERR the argument must be UTF-8 text"))
    }

    /// The argument at `at` as a number.
    pub fn number(&self, at: usize) -> Result<i64, CommandError> {
        crate::number::parse(self.args.at(at)).map_or_else(|| refused(NOT_AN_INTEGER), Ok)
    }

    /// The argument at `at` as a pattern.
    pub fn pattern(&self, at: usize) -> Result<&'c [u8], CommandError> {
        let pattern = self.args.at(at);
        ensure_comparable(pattern.len())?;
        Ok(pattern)
    }

    /// The table with this name, to be created if absent.
    pub fn table(&self, wanted: Wanted) -> Result<Target, CommandError> {
        match (self.shared.find(&wanted.name), self.session.opened(&wanted.name)) {
            (Some(target), _) => Ok(target),
            (None, Some(Err(why))) => Err(why.clone()),
            (None, _) => Err(CommandError::NotOpen(wanted)),
        }
    }

    /// Refuses the subcommand at hand, which the command has not, or which has the wrong arguments.
    pub fn refuse_subcommand<T>(&self) -> Result<T, CommandError> {
        let known = table::find(self.arg(0)).map(Command::subcommand_names).unwrap_or_default();
        let (command, name) = (shown(self.arg(0)), shown(self.arg(1)));
        let is_known = known.iter().any(|word| self.is_word(1, word));
        refused(if is_known {
            let (command, name) = (command.to_lowercase(), name.to_lowercase());
            format!("ERR wrong number of arguments for '{command}|{name}' command")
        } else {
            format!("ERR unknown subcommand '{name}'; {} has {}", command.to_uppercase(), known.join(", "))
        })
    }

    /// Is the argument at `at` this word, in any case?
    pub fn is_word(&self, at: usize, word: &str) -> bool {
        self.args.at(at).eq_ignore_ascii_case(word.as_bytes())
    }
}

const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
const SYNTAX: &str = "ERR syntax error";

/// What an event loop reads for a command: more is read elsewhere, from the beginning. It takes a millisecond or two, and the threads
/// elsewhere are few.
pub const READ_BYTES_MAX: usize = 4 << 20;

/// The same, as how long a value may be that is read on an event loop, or elsewhere.
pub fn read_bytes_max(is_on_loop: bool) -> u64 {
    if is_on_loop { READ_BYTES_MAX as u64 } else { u64::MAX }
}

/// From this weight on, most of which is keys, a read is done elsewhere as well.
const HEAVY_READ: usize = 16_000;

/// What one reply may have, but for a single value, and what is read of values that are watched.
const REPLY_BYTES_MAX: usize = 128 << 20;

/// Bytes of a request's patterns, at most. Keys have at most 1024, and what matches none of them need not be compared with all.
const PATTERN_BYTES_MAX: usize = 4096;

/// May patterns of so many bytes be compared with many names? An event loop does it.
fn ensure_comparable(pattern_bytes: usize) -> Result<(), CommandError> {
    if pattern_bytes > PATTERN_BYTES_MAX {
        return refused(format!("ERR patterns and the like have at most {PATTERN_BYTES_MAX} bytes"));
    }
    Ok(())
}

/// The table that a client's commands mean at first.
pub fn default_table() -> Wanted {
    connection::database(0)
}

/// Executes the request in `call`.
pub fn execute(call: &mut Call<'_>, waited: Waited) -> Attempt {
    let attempt = attempt(call, waited);
    if !matches!(attempt, Attempt::Opens(_)) {
        call.session.opened.clear();
    }
    let (commands, errors) = (take(&mut call.session.commands), take(&mut call.session.errors));
    if matches!(attempt, Attempt::Done(_)) {
        call.session.count_up(call.shared, commands, |counters| &counters.commands);
        if errors > 0 {
            call.session.count_up(call.shared, errors, |counters| &counters.errors);
        }
    }
    attempt
}

fn attempt(call: &mut Call<'_>, waited: Waited) -> Attempt {
    let start = call.out.len();
    let mut outcome = dispatch(call);
    if matches!(outcome, Err(CommandError::Engine(Error::TableDropped { .. }))) && turns_to_newer(call) {
        call.out.truncate(start);
        (call.session.commands, call.session.errors) = (0, 0);
        outcome = dispatch(call);
    }
    let error = match outcome {
        Ok(next) => return Attempt::Done(next),
        Err(error) => error,
    };
    call.out.truncate(start);
    let error = match to_open(call, &error) {
        None => error,
        Some(wanted) => match call.session.opened(&wanted.name) {
            Some(Ok(())) => error,
            Some(Err(why)) => why.clone(),
            None => {
                call.session.opened.push((wanted.name.clone(), Ok(())));
                return Attempt::Opens(opening(wanted));
            }
        },
    };
    if matches!(error, CommandError::TooHeavy) {
        return Attempt::TooHeavy;
    }
    if let CommandError::Engine(error) = &error {
        call.shared.note_long_lock(error);
    }
    if has_ended_transaction(call.session, &error) {
        call.session.abandon();
    } else if error.is_of_the_moment() && !waited.is_enough {
        return Attempt::PutOff;
    }
    if let CommandError::Engine(error) = &error {
        call.shared.note_failure(error);
    }
    call.session.give_up_exec();
    call.session.errors = 1; // and none of those that it answered before
    call.reply().error(&error.after(waited.time).text());
    Attempt::Done(Next::Go)
}

/// Is the request known to be so heavy, or to wait for so long, that the loop's other clients should not wait for it? What turns out
/// to be heavy is [`CommandError::TooHeavy`].
pub fn is_heavy(scale: Scale, session: &Session, args: &Args<'_>) -> bool {
    let is = |name: &str| args.at(0).eq_ignore_ascii_case(name.as_bytes());
    match &session.queue {
        Some(queue) => {
            is("EXEC") && (queue.weight >= HEAVY || session.watches.value_bytes() > READ_BYTES_MAX)
        }
        // Nobody else calls it: it was idle, and is being rolled back, which takes as long as it did.
        None if session.transaction.as_ref().is_some_and(Transaction::is_busy) => true,
        None if session.place.is_some() && is("KV.COMMIT") => session.weight >= HEAVY,
        None => {
            let weight = scale.weigh(args);
            let is_of = |command: &Command| command.has(WRITE) || (command.has(READ) && weight >= HEAVY_READ);
            weight >= HEAVY && table::find(args.at(0)).is_some_and(is_of)
        }
    }
}

/// A session and its command, which is to be executed elsewhere. Until somebody takes them to do so, they can be had back.
pub type Parcel = Arc<Mutex<Option<(Session, OwnedArgs)>>>;

/// Executes a request elsewhere than on the client's event loop, which has a stand-in for its session meanwhile. Others do not
/// wait in place for what it locks.
pub fn elsewhere(shared: &Arc<Shared>, parcel: Parcel, waited: Waited) -> Work {
    let shared = shared.clone();
    Box::new(move |_| {
        let Some((mut session, args)) = parcel.lock().take() else {
            return Brought::Reply(Vec::new()); // its client has left
        };
        let writes = table::find(args.args().at(0)).is_some_and(|command| command.has(WRITE));
        let _place = (writes || session.queue.is_some()).then(|| Place::take(&shared));
        let (mut out, begun) = (Vec::new(), Instant::now());
        session.is_on_loop = false;
        let call = &mut Call { shared: &shared, session: &mut session, args: args.args(), out: &mut out };
        let attempt = execute(call, waited);
        session.is_on_loop = true;
        if matches!(attempt, Attempt::Done(_)) {
            note_if_slow(&shared, &session.client, args.args().from(0), &mut { begun });
        }
        Brought::Command(Box::new(session), args, out, attempt)
    })
}

/// A chore that is noted if it takes long.
pub fn noted(client: &Arc<Client>, args: Args<'_>, work: Work) -> Work {
    let (client, args) = (client.clone(), OwnedArgs::from(args));
    Box::new(move |shared| {
        let mut begun = Instant::now();
        let brought = work(shared);
        note_if_slow(shared, &client, args.args().from(0), &mut begun);
        brought
    })
}

/// Notes what began at `clock` and is done now, if it took long. Attempts that were put off before do not count.
pub fn note_if_slow<'a>(
    shared: &Shared,
    client: &Client,
    args: impl ExactSizeIterator<Item = &'a [u8]>,
    clock: &mut Instant,
) {
    // The end of one command is the beginning of the next: reading the clock costs as much as parsing a request.
    let begun = std::mem::replace(clock, Instant::now());
    let took = clock.saturating_duration_since(begun);
    if shared.slow_log.wants(took) {
        let name = client.told.lock().names.client.clone();
        shared.slow_log.note(took, args, (client.addr.to_string(), name));
    }
}

/// The table was emptied by FLUSHDB, which makes a new one: is it there?
fn turns_to_newer(call: &mut Call<'_>) -> bool {
    let newer = call.shared.newer(&call.session.target).filter(|_| call.session.target.is_gone());
    newer.map(|newer| call.session.target = newer).is_some()
}

/// A chore's reply that says no more than whether it was done.
fn ok_or_error(protocol: Protocol, done: Result<(), impl Into<CommandError>>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut reply = Reply::new(&mut out, protocol);
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(&error.into().text()),
    }
    out
}

/// The table without which there is this error.
fn to_open(call: &Call<'_>, error: &CommandError) -> Option<Wanted> {
    let own = &call.session.target;
    match error {
        CommandError::NotOpen(wanted) => Some(wanted.clone()),
        CommandError::Engine(Error::TableDropped { name }) if own.table().name() == name && own.is_gone() => {
            Some(own.again())
        }
        CommandError::Engine(Error::TableDropped { name }) => {
            call.shared.find(name).map(|target| target.again())
        }
        _ => None,
    }
}

fn opening(wanted: Wanted) -> Work {
    Box::new(move |shared| Brought::Opened(shared.open(&wanted).map(drop).map_err(CommandError::Engine)))
}

/// Has the client lost the transaction that it holds?
fn has_ended_transaction(session: &Session, error: &CommandError) -> bool {
    session.place.is_some() && matches!(error, CommandError::Engine(error) if is_end(error))
}

/// Does it say that there is no transaction any more? The engine has rolled it back, or could not, as it has told before.
fn is_end(error: &Error) -> bool {
    matches!(error, Error::Deadlock { .. } | Error::Aborted { .. } | Error::Ended)
}

fn dispatch(call: &mut Call<'_>) -> Outcome {
    let checked = find(call).and_then(|command| check(call, command).map(|()| command));
    if checked.is_err() && transactions::is_exec_for_multi(call) {
        return transactions::refuse_arguments(call);
    }
    let queue = call.session.queue.as_mut();
    match (checked, queue) {
        (Err(error), Some(queue)) => {
            queue.is_broken = true;
            Err(error)
        }
        (Err(error), None) => Err(error),
        (Ok(command), Some(_)) if !command.ends_queue() => transactions::queue(call),
        (Ok(command), _) => {
            if command.means_table(&call.args) {
                connection::come_to_table(call)?;
            }
            run(call, command)
        }
    }
}

/// Runs a command that may run.
fn run(call: &mut Call<'_>, command: &'static Command) -> Outcome {
    call.session.commands += 1;
    call.session.last_command = Some(command);
    if call.session.place.is_some() {
        call.session.weight += command.weight(call.shared.scale, &call.args);
    }
    (command.run)(call)
}

fn find(call: &Call<'_>) -> Result<&'static Command, CommandError> {
    let name = call.arg(0);
    // Most clients send the same command again and again.
    match call.session.last_command {
        Some(last) if name.eq_ignore_ascii_case(last.name.as_bytes()) => Ok(last),
        _ => table::find(name).map_or_else(|| refused(unknown(name)), Ok),
    }
}

fn check(call: &Call<'_>, command: &'static Command) -> Result<(), CommandError> {
    if !call.session.is_trusted && !command.has(UNTRUSTED) {
        return refused("NOAUTH Authentication required. Send AUTH with the server's password");
    }
    if !command.takes(call.args.len()) {
        return refused(format!("ERR wrong number of arguments for '{}' command", command.name));
    }
    if call.args.len() > ARGUMENTS_MAX && !command.has(READ | WRITE) {
        return refused(format!("ERR '{}' takes at most {ARGUMENTS_MAX} arguments", command.name));
    }
    if command.refuses_subcommand(&call.args) {
        return call.refuse_subcommand();
    }
    if call.session.is_within() && !command.has(TRANSACTIONAL) {
        return refused(format!(
            "ERR {} is not possible within a transaction; end it first",
            command.name.to_uppercase()
        ));
    }
    if call.session.queue.is_some() && command.is_final(&call.args) {
        return refused(format!(
            "ERR {} {} is not possible after MULTI: EXEC could not take it back",
            command.name.to_uppercase(),
            shown(call.arg(1)).to_uppercase()
        ));
    }
    Ok(())
}

fn unknown(name: &[u8]) -> String {
    format!("ERR unknown command '{}'; COMMAND lists those there are", shown(name))
}

/// The beginning of what a client has sent, for an error's text.
fn shown(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(64)].escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::request::{Limits, Parser};
    use foreshore::{Database, Durability, TransactionOptions};
    use foreshore_io::MemVfs;

    /// A server over an empty table, and its only client.
    fn served(options: Options) -> (Arc<Shared>, Session) {
        served_over(Database::in_memory().unwrap(), options)
    }

    fn served_over(db: Database, options: Options) -> (Arc<Shared>, Session) {
        let addr = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        let shared = Arc::new(Shared::new(db, options));
        let target = shared.open(&default_table()).unwrap();
        let client = shared.clients.enter((addr, addr), 0, target.name(), 1).unwrap();
        let session = Session::new(client, target, true);
        (shared, session)
    }

    const NOT_YET: Waited = Waited { time: Duration::ZERO, is_enough: false };

    /// Executes a line once, on the event loop, unless it is known to be too heavy; what it says.
    fn attempt_at(shared: &Arc<Shared>, session: &mut Session, line: &str) -> (Attempt, String) {
        let (mut parser, mut out) = (Parser::new(Limits::STRANGER), Vec::new());
        let line = format!("{line}\n");
        parser.advance(line.as_bytes()).unwrap().unwrap();
        let args = parser.args(line.as_bytes());
        if is_heavy(shared.scale, session, &args) {
            return (Attempt::TooHeavy, String::new());
        }
        let attempt = execute(&mut Call { shared, session, args, out: &mut out }, NOT_YET);
        (attempt, String::from_utf8(out).unwrap())
    }

    /// The same elsewhere.
    fn attempt_elsewhere(shared: &Arc<Shared>, session: &mut Session, line: &str) -> (Attempt, String) {
        let mut parser = Parser::new(Limits::STRANGER);
        let line = format!("{line}\n");
        parser.advance(line.as_bytes()).unwrap().unwrap();
        let args = OwnedArgs::from(parser.args(line.as_bytes()));
        let parcel = Arc::new(Mutex::new(Some((session.take_away(), args))));
        let brought = elsewhere(shared, parcel, NOT_YET)(shared);
        let Brought::Command(back, _, out, attempt) = brought else { panic!("the session comes back") };
        *session = *back;
        (attempt, String::from_utf8(out).unwrap())
    }

    /// A transaction of somebody else's, which keeps key `k` for itself.
    fn holder(shared: &Shared) -> Transaction {
        let holder = shared.db.begin_with(TransactionOptions::new()).unwrap();
        holder.bytes(shared.find("db0").unwrap().table()).put(b"k", b"v").unwrap();
        holder
    }

    /// Nothing is read, let alone filled with zeros, to see that it is too much for an event loop.
    #[test]
    fn setrange_goes_elsewhere_before_it_fills() {
        let (shared, mut session) = served(Options::default());
        let holder = holder(&shared);
        for (line, expected) in [("SETRANGE k 1000000 x", true), ("SETRANGE k 1 x", false)] {
            let (attempt, _) = attempt_at(&shared, &mut session, line);
            assert_eq!(matches!(attempt, Attempt::TooHeavy), expected, "{line}");
        }
        drop(holder);
    }

    /// What reads much, or asks for many keys, is done elsewhere, and there it is done.
    #[test]
    fn much_is_read_elsewhere() {
        let (shared, mut session) = served(Options::default());
        let large = vec![b'x'; READ_BYTES_MAX * 3 / 5];
        for key in [&b"a"[..], b"b"] {
            session.put(&shared, key, &large).unwrap();
        }
        session.put(&shared, b"c", b"small").unwrap();
        for (lines, is_elsewhere) in [
            (&["MGET a c"][..], false),
            (&["MGET a b"], true),
            (&["KV.BEGIN", "MGET b a", "KV.ROLLBACK"], true),
            (&["WATCH c", "MULTI", "GET c", "EXEC"], false), // to hash `a` may take all the time there is
            (&["WATCH a b", "UNWATCH"], true),
            (&["WATCH a", "WATCH b", "MULTI", "GET c", "EXEC"], true),
            (&["MULTI", "MGET a b", "EXEC"], true),
            (&["MULTI", "GET a", "GET c", "EXEC"], false),
            (&["MULTI", "GET a", "GET b", "EXEC"], true),
        ] {
            // On a busy machine anything may be elsewhere, as it was not done in time.
            let is_always = (0..5).all(|_| goes_elsewhere(&shared, &mut session, lines));
            assert_eq!(is_always, is_elsewhere, "{lines:?}");
        }
        for (keys, is_elsewhere) in [(2500, false), (20_000, true)] {
            let request = format!("*{}\r\n$6\r\nEXISTS\r\n{}", keys + 1, "$1\r\nc\r\n".repeat(keys));
            let mut parser = Parser::new(Options::default().limits);
            parser.advance(request.as_bytes()).unwrap().unwrap();
            let args = parser.args(request.as_bytes());
            assert_eq!(is_heavy(shared.scale, &session, &args), is_elsewhere, "{keys} keys");
        }
    }

    /// Keys whose leaves are on disk take much longer than others, and there may be many before a request is too heavy for it.
    #[test]
    fn keys_that_take_long_are_looked_for_elsewhere() {
        let small = Database::builder().cache_bytes(1 << 20).durability(Durability::Relaxed);
        let (shared, mut session) =
            served_over(small.open_on(Arc::new(MemVfs::new())).unwrap(), Options::default());
        let keys: Vec<_> = (0..2000).map(|n| format!("{:04}", n * 997 % 2000)).collect();
        keys.iter().for_each(|key| session.put(&shared, key.as_bytes(), &[7; 1900]).unwrap());
        let named: String = keys.iter().map(|key| format!("$4\r\n{key}\r\n")).collect();
        for (name, times) in [("EXISTS", 6), ("MGET", 1)] {
            for is_within in [false, true] {
                session.transaction = is_within.then(|| shared.begin().unwrap());
                let request =
                    format!("*{}\r\n${}\r\n{name}\r\n{}", 2000 * times + 1, name.len(), named.repeat(times));
                let mut parser = Parser::new(Options::default().limits);
                parser.advance(request.as_bytes()).unwrap().unwrap();
                let (args, mut out) = (parser.args(request.as_bytes()), Vec::new());
                assert!(!is_heavy(shared.scale, &session, &args), "{name}: only the time tells");
                let call = &mut Call { shared: &shared, session: &mut session, args, out: &mut out };
                assert!(matches!(execute(call, NOT_YET), Attempt::TooHeavy), "{name}, within: {is_within}");
                assert!(out.is_empty());
                session.is_on_loop = false;
                let call = &mut Call { shared: &shared, session: &mut session, args, out: &mut out };
                assert!(matches!(execute(call, NOT_YET), Attempt::Done(Next::Go)));
                session.is_on_loop = true;
            }
        }
    }

    /// Executes these; is one of them done elsewhere?
    fn goes_elsewhere(shared: &Arc<Shared>, session: &mut Session, lines: &[&str]) -> bool {
        let mut went = false;
        for line in lines {
            let (mut attempt, mut reply) = attempt_at(shared, session, line);
            if matches!(attempt, Attempt::TooHeavy) {
                assert!(reply.is_empty(), "{lines:?}, {line}: nothing is answered yet");
                went = true;
                (attempt, reply) = attempt_elsewhere(shared, session, line);
            }
            assert!(matches!(attempt, Attempt::Done(_)) && !reply.starts_with('-'), "{lines:?}, {line}");
        }
        went
    }

    /// To compare a large value with what was watched takes longer than to read it.
    #[test]
    fn what_is_watched_is_compared_elsewhere() {
        let (shared, mut session) = served(Options::default());
        session.put(&shared, b"a", &vec![b'x'; READ_BYTES_MAX + 1]).unwrap();
        assert!(matches!(attempt_elsewhere(&shared, &mut session, "WATCH a").0, Attempt::Done(_)));
        for line in ["GET a", "INCR a", "APPEND a x"] {
            let (attempt, reply) = attempt_at(&shared, &mut session, line);
            assert!(matches!(attempt, Attempt::TooHeavy) && reply.is_empty(), "{line}");
        }
    }

    /// What is too much is not watched, be it by one WATCH or by several.
    #[test]
    fn watched_values_are_bounded() {
        let (shared, mut session) = served(Options::default());
        session.is_on_loop = false; // it may take its time
        for key in [&b"a"[..], b"b"] {
            session.put(&shared, key, b"0123456789").unwrap();
        }
        assert!(!session.watch(&[b"a", b"b"], 19).unwrap());
        assert_eq!(session.watches.len(), 0);
        for _ in 0..2 {
            assert!(session.watch(&[b"a", b"absent"], 19).unwrap());
            assert!(!session.watch(&[b"another", b"b"], 19).unwrap());
            assert_eq!(session.watches.len(), 2);
        }
        assert!(session.watch(&[b"b"], 20).unwrap());
    }

    /// An EXEC that is tried again has answered nothing before.
    #[test]
    fn a_wrong_password_counts_once() {
        let (shared, mut session) = served(Options { password: Some("right".into()), ..Options::default() });
        let mut say = |line: &str| attempt_at(&shared, &mut session, line);
        let errors = || crate::counters::sum(&shared.counters, |c| &c.errors);
        for line in ["MULTI", "AUTH wrong", "SET k w"] {
            assert!(matches!(say(line).0, Attempt::Done(Next::Go)), "{line}");
        }
        let holder = holder(&shared);
        assert!(matches!(say("EXEC").0, Attempt::PutOff));
        assert_eq!(errors(), 0);
        drop(holder);
        let (attempt, replies) = say("EXEC");
        assert!(matches!(attempt, Attempt::Done(Next::Go)));
        assert!(replies.contains("-WRONGPASS") && replies.ends_with("+OK\r\n"), "{replies}");
        assert_eq!(errors(), 1);
        assert!(matches!(say("AUTH wrong").0, Attempt::Done(Next::Rest(_))));
        assert_eq!(errors(), 2);
    }

    /// Who has prepared keeps its locks until somebody decides: an event loop waits for them once, and not at each attempt.
    #[test]
    fn a_lock_that_stays_is_waited_for_once() {
        let (shared, mut session) = served(Options::default());
        holder(&shared).prepare("gid").unwrap();
        for line in ["SET k w", "INCR k"] {
            let mut attempt = || {
                let begun = Instant::now();
                let (attempt, _) = attempt_at(&shared, &mut session, line);
                assert!(matches!(attempt, Attempt::PutOff), "{line}");
                begun.elapsed()
            };
            attempt();
            let again = (0..5).map(|_| attempt()).min().expect("five of them");
            assert!(again < Duration::from_millis(50), "{line}: {again:?}");
        }
    }

    /// FLUSHDB and FLUSHALL wait for ten seconds before they say it.
    #[test]
    fn who_empties_a_table_in_use_is_told_to_come_again() {
        let in_use = CommandError::from(Error::TableInUse { name: "db1".into() });
        assert_eq!(
            in_use.text(),
            "BUSY table \"db1\" is used by open transactions; send the command again when they have ended"
        );
    }

    /// Loops count with plain accesses, so what others count as well would be lost now and then.
    #[test]
    fn who_executes_elsewhere_leaves_the_counters_of_loops_alone() {
        let (shared, session) = served(Options::default());
        let (client, target) = (session.client, session.target);
        for line in ["SET k v\n", "APPEND k\n"] {
            let mut parser = Parser::new(Limits::STRANGER);
            parser.advance(line.as_bytes()).unwrap().unwrap();
            let args = OwnedArgs::from(parser.args(line.as_bytes()));
            let session = Session::new(client.clone(), target.clone(), true);
            elsewhere(&shared, Arc::new(Mutex::new(Some((session, args)))), NOT_YET)(&shared);
        }
        let of_loops = &shared.counters[..shared.options.threads];
        for (counters, expected) in [(of_loops, 0), (&shared.counters[..], 1)] {
            assert_eq!(crate::counters::sum(counters, |c| &c.commands), expected);
            assert_eq!(crate::counters::sum(counters, |c| &c.errors), expected);
        }
    }

    /// To estimate rows takes a walk through the index.
    #[test]
    fn rows_are_not_estimated_on_an_event_loop() {
        let (shared, mut session) = served(Options::default());
        for line in ["DBSIZE", "RANDOMKEY", "INFO"] {
            let (attempt, _) = attempt_at(&shared, &mut session, line);
            assert!(matches!(attempt, Attempt::Done(Next::Chore(..))), "{line}");
        }
    }
}
