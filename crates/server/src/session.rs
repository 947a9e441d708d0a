//! What a client has set, begun, watched; and how its commands reach rows.
//!
//! A command outside a transaction is one of its own. Inside (between KV.BEGIN and its end, or in EXEC) it is a part: if it
//! fails, what it did is undone and the transaction goes on.

use crate::clients::Client;
use crate::commands::{Command, CommandError, READ_BYTES_MAX, REMOVED, TimeOnLoop, read_bytes_max};
use crate::counters::Counters;
use crate::fingerprint::Fingerprint;
use crate::reply::Protocol;
use crate::request::OwnedArgs;
use crate::rows::{Part, Rows, absent_if_too_long};
use crate::shared::{Open, Place, Shared, Target};
use crate::together::Kind;
use crate::watches::Watches;
use foreshore::{ByteRange, Error, Transaction, TransactionRange};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// A client's state.
pub struct Session {
    /// As others see it.
    pub client: Arc<Client>,
    /// As HELLO asked.
    pub protocol: Protocol,
    /// Has it said the password, or is there none?
    pub is_trusted: bool,
    /// The table its commands mean.
    pub target: Target,
    /// Commands between MULTI and EXEC.
    pub queue: Option<Queue>,
    /// What EXEC depends on.
    pub watches: Watches,
    /// The transaction that commands are part of.
    pub transaction: Option<Transaction>,
    /// Set while that is one that the client holds.
    pub place: Option<Place>,
    /// How much there was to do in that one.
    pub weight: usize,
    /// Are its commands executed by its event loop, which must not wait for the device? If not, by a thread that may.
    pub is_on_loop: bool,
    /// Has it done something whose reply must wait for the device?
    pub has_written: bool,
    /// The value read last.
    pub value: Vec<u8>,
    /// Tables that are opened, or have been, for the command at hand, by name; and why one could not be.
    pub opened: Vec<(String, Result<(), CommandError>)>,
    /// The command executed last.
    pub last_command: Option<&'static Command>,
    /// Commands that the attempt at hand has executed, those of EXEC included.
    pub commands: u64,
    /// Errors that it has answered, and that no command ended with.
    pub errors: u64,
}

/// Commands between MULTI and EXEC.
#[derive(Default)]
pub struct Queue {
    /// In their order.
    pub commands: Vec<OwnedArgs>,
    /// Memory of each, in bytes.
    pub commands_bytes: usize,
    /// How much there is to do.
    pub weight: usize,
    /// One was refused: EXEC will refuse all.
    pub is_broken: bool,
    /// EXEC has begun, and may have to begin again.
    pub is_executing: bool,
}

impl Queue {
    /// Memory, in bytes, with what the list has room for.
    pub fn bytes(&self) -> usize {
        let room = self.commands.capacity() - self.commands.len();
        self.commands_bytes + room * size_of::<OwnedArgs>()
    }
}

type Row = (Vec<u8>, Vec<u8>);

/// Rows of a range: those of a transaction, for which there is so much time, or of one point in time.
pub enum Range {
    Part(TransactionRange, TimeOnLoop),
    Whole(ByteRange),
}

impl Range {
    /// The first row that is left, or the last one.
    ///
    /// Errors: [`CommandError::TooHeavy`], if an event loop has looked for it for too long.
    pub fn next(&mut self, is_last: bool) -> Result<Option<Row>, CommandError> {
        if let Self::Part(_, time) = self {
            time.ensure_left()?;
        }
        let row = match self {
            Self::Part(rows, _) if is_last => rows.next_back(),
            Self::Part(rows, _) => rows.next(),
            Self::Whole(rows) if is_last => rows.next_back(),
            Self::Whole(rows) => rows.next(),
        };
        match (row, self) {
            (None, Self::Whole(rows)) if rows.left_off_at().is_some() => Err(CommandError::TooHeavy),
            (row, _) => Ok(row.transpose()?),
        }
    }
}

impl Session {
    /// A client that has just come.
    pub fn new(client: Arc<Client>, target: Target, is_trusted: bool) -> Self {
        Self {
            client,
            protocol: Protocol::default(),
            is_trusted,
            target,
            queue: None,
            watches: Watches::default(),
            transaction: None,
            place: None,
            weight: 0,
            is_on_loop: true,
            has_written: false,
            value: Vec::new(),
            opened: Vec::new(),
            last_command: None,
            commands: 0,
            errors: 0,
        }
    }

    /// Memory, in bytes.
    pub fn bytes(&self) -> usize {
        let queued = self.queue.as_ref().map_or(0, Queue::bytes);
        self.value.capacity() + queued + self.watches.bytes()
    }

    /// Tells others how it is; `active` is when it was last heard of.
    pub fn tell(&self, active: Instant) {
        let mut told = self.client.told.lock();
        told.active = active;
        told.queued = self.queue.as_ref().map_or(-1, |queue| queue.commands.len() as i64);
        told.in_transaction = self.is_within();
        told.protocol = if self.protocol == Protocol::Resp2 { 2 } else { 3 };
        told.command = self.last_command.map_or("none", |command| command.name);
        if told.table != self.target.name() {
            told.table = self.target.name().to_owned();
        }
    }

    /// Is the next command part of a transaction, or queued for one?
    pub fn is_within(&self) -> bool {
        self.queue.is_some() || self.transaction.is_some()
    }

    /// Reads the value of `key` into `self.value`; is there one?
    pub fn read(&mut self, key: &[u8]) -> Result<bool, CommandError> {
        let (table, name, bytes_max) =
            (self.target.table(), self.target.name(), read_bytes_max(self.is_on_loop));
        let found = match &self.transaction {
            Some(transaction) => transaction.bytes(table).get_up_to(key, bytes_max, &mut self.value)?,
            None => table.get_up_to(key, bytes_max, &mut self.value)?,
        };
        if found.is_some_and(|bytes| bytes > bytes_max) {
            return Err(CommandError::TooHeavy);
        }
        if self.transaction.is_none() && self.watches.may_break(name, key) {
            let value = found.is_some().then_some(&self.value[..]);
            self.watches.break_if(self.watches.is_changed(name, key, value));
        }
        Ok(found.is_some())
    }

    /// The same for who is going to write it: within a transaction it is locked as by a write, so that of two who do so one waits. Shared
    /// locks would let both read, and each then wait for the other. Outside of one a lock would end with the command.
    pub fn read_for_update(&mut self, key: &[u8]) -> Result<bool, CommandError> {
        let Some(transaction) = &self.transaction else { return self.read(key) };
        let (rows, bytes_max) = (transaction.bytes(self.target.table()), read_bytes_max(self.is_on_loop));
        let found = rows.get_for_update_up_to(key, bytes_max, &mut self.value)?;
        if found.is_some_and(|bytes| bytes > bytes_max) {
            return Err(CommandError::TooHeavy);
        }
        Ok(found.is_some())
    }

    /// How long the value of `key` is, which is read only if it is watched.
    pub fn value_bytes(&mut self, key: &[u8]) -> Result<Option<u64>, CommandError> {
        match &self.transaction {
            Some(transaction) => Ok(transaction.bytes(self.target.table()).value_bytes(key)?),
            None if self.watches.may_break(self.target.name(), key) => {
                Ok(self.read(key)?.then_some(self.value.len() as u64))
            }
            None => Ok(self.target.table().value_bytes(key)?),
        }
    }

    /// Gives back the memory of the value read last, but for so many bytes.
    pub fn forget_value(&mut self, kept_bytes: usize) {
        self.value.clear();
        self.value.shrink_to(kept_bytes);
    }

    /// May the last command be executed together with others of its kind, since each is nothing but itself: part of no
    /// transaction, neither queued nor watched, nor about a table that it has to come to first?
    pub fn repeats(&self) -> Option<Kind> {
        let is_plain = self.is_trusted && !self.is_within() && self.watches.is_empty();
        self.last_command
            .filter(|_| is_plain && !self.target.is_renamed())
            .and_then(|command| Kind::of(command.name))
    }

    /// Is `key` there? Its value, which may be large, is read only if it is watched.
    pub fn contains(&mut self, key: &[u8]) -> Result<bool, CommandError> {
        match &self.transaction {
            Some(transaction) => Ok(transaction.bytes(self.target.table()).contains(key)?),
            None if self.watches.may_break(self.target.name(), key) => self.read(key),
            None => Ok(self.target.table().contains(key)?),
        }
    }

    /// How many of the keys are there at one point in time; one that is named twice counts twice.
    pub fn count(&mut self, shared: &Shared, keys: &[&[u8]]) -> Result<u64, CommandError> {
        if let [key] = keys {
            return Ok(u64::from(self.contains(key)?));
        }
        let time = TimeOnLoop::begin(self.is_on_loop);
        if self.transaction.is_some() {
            return keys.iter().try_fold(0, |there, key| {
                time.ensure_left()?;
                Ok(there + u64::from(self.contains(key)?))
            });
        }
        let snapshot = shared.db.snapshot()?;
        let (rows, table) = (snapshot.bytes(self.target.table()), self.target.name());
        let there = keys.iter().try_fold(0, |there, key| {
            time.ensure_left()?;
            Ok::<_, CommandError>(there + u64::from(rows.contains(key)?))
        })?;
        let mut watched: Vec<_> = keys.iter().filter(|key| self.watches.may_break(table, key)).collect();
        watched.sort_unstable();
        watched.dedup(); // each is read, and may be large
        let mut read_bytes = 0;
        for key in watched {
            read_bytes += rows.value_bytes(key)?.unwrap_or(0);
            if read_bytes > read_bytes_max(self.is_on_loop) {
                return Err(CommandError::TooHeavy);
            }
            let value = rows.get(key)?;
            if self.watches.is_changed(table, key, value.as_deref()) {
                self.watches.break_if(true);
                break; // what is broken need not be read
            }
        }
        Ok(there)
    }

    /// Reads many keys at one point in time, until `read` breaks, or a value is longer than an event loop reads.
    pub fn read_each(
        &mut self,
        shared: &Shared,
        keys: &[&[u8]],
        mut read: impl FnMut(Option<&[u8]>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let (table, bytes_max) = (self.target.table(), read_bytes_max(self.is_on_loop));
        if let Some(transaction) = &self.transaction {
            return transaction.bytes(table).multi_get_up_to(keys, bytes_max, read);
        }
        let (mut named, name, watches) = (keys.iter(), self.target.name(), &mut self.watches);
        shared.db.snapshot()?.bytes(table).multi_get_up_to(keys, bytes_max, |value| {
            watches.break_if(named.next().is_some_and(|key| watches.is_changed(name, key, value)));
            read(value)
        })
    }

    /// Rows of a range, outside a transaction those at one point in time; without their values if `keys_only`.
    pub fn rows(
        &self,
        shared: &Shared,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        keys_only: bool,
    ) -> Result<Range, Error> {
        let table = self.target.table();
        Ok(match &self.transaction {
            Some(transaction) => {
                let mut rows = transaction.bytes(table).range(bounds);
                rows.set_keys_only(keys_only);
                Range::Part(rows, TimeOnLoop::begin(self.is_on_loop))
            }
            None => {
                let mut rows = shared.db.snapshot()?.bytes(table).range(bounds);
                rows.set_keys_only(keys_only);
                if let Some(ends) = TimeOnLoop::begin(self.is_on_loop).ends() {
                    rows.set_ends(ends);
                }
                Range::Whole(rows)
            }
        })
    }

    /// Sets the value of `key`.
    pub fn put(&mut self, shared: &Shared, key: &[u8], value: &[u8]) -> Result<(), Error> {
        match &self.transaction {
            Some(transaction) => transaction.bytes(self.target.table()).put(key, value)?,
            None => {
                self.target.writer(shared).put(key, value)?;
                self.watches.break_if(self.watches.has(self.target.name(), key));
            }
        }
        self.tells_of_write();
        Ok(())
    }

    /// Sets the value of `key` unless it has one; says whether it did.
    pub fn insert(&mut self, shared: &Shared, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        let done = match &self.transaction {
            Some(transaction) => transaction.bytes(self.target.table()).insert(key, value),
            None => self.target.writer(shared).insert(key, value),
        }?;
        self.tells_of_write();
        Ok(self.note(key, done, true))
    }

    /// Removes `key`; says whether it was there.
    pub fn remove(&mut self, shared: &Shared, key: &[u8]) -> Result<bool, Error> {
        let removed = match &self.transaction {
            Some(transaction) => transaction.bytes(self.target.table()).remove(key),
            None => self.target.writer(shared).remove(key),
        };
        let done = absent_if_too_long(removed)?;
        self.weight += REMOVED * usize::from(done);
        self.tells_of_write();
        Ok(self.note(key, done, false))
    }

    /// Removes the first row of a range, or the last, and returns it.
    pub fn pop(
        &mut self,
        shared: &Shared,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        is_last: bool,
    ) -> Result<Option<Row>, Error> {
        let table = self.target.table();
        let row = match &self.transaction {
            Some(transaction) if is_last => transaction.bytes(table).pop_last_in(bounds),
            Some(transaction) => transaction.bytes(table).pop_first_in(bounds),
            None if is_last => self.target.writer(shared).pop_last_in(bounds),
            None => self.target.writer(shared).pop_first_in(bounds),
        }?;
        self.weight += REMOVED * usize::from(row.is_some());
        self.tells_of_write();
        Ok(row)
    }

    /// Does several things to rows of its table, all or none.
    pub fn atomically<R>(
        &mut self,
        shared: &Shared,
        work: impl FnOnce(&Rows<'_>) -> Result<R, CommandError>,
    ) -> Result<R, CommandError> {
        let target = self.target.clone();
        self.transact(shared, |part| work(&part.rows(&target)))
    }

    /// As [`Session::atomically`], with rows of several tables.
    pub fn transact<R>(
        &mut self,
        shared: &Shared,
        work: impl FnOnce(&Part<'_>) -> Result<R, CommandError>,
    ) -> Result<R, CommandError> {
        let work = |transaction: &Transaction| {
            let part = Part::new(transaction, &self.watches, self.is_on_loop, shared.scale);
            Ok((work(&part)?, part.effects()))
        };
        let (result, effects) = match &self.transaction {
            Some(transaction) => part(transaction, work),
            None => whole(shared, work),
        }?;
        self.tells_of_write();
        self.weight += effects.weight;
        self.watches.break_if(effects.breaks_watch && self.transaction.is_none());
        Ok(result)
    }

    /// Remembers what `keys`, each of them there once, are now, for EXEC. Nothing, and `false`, if the values that are watched would
    /// have more than `bytes_max`.
    pub fn watch(&mut self, keys: &[&[u8]], bytes_max: usize) -> Result<bool, CommandError> {
        self.watches.break_if_renamed(); // or the key at hand might be taken for that of another table
        let (mut new, mut bytes, mut read_bytes) = (Vec::new(), self.watches.value_bytes(), 0);
        let time = TimeOnLoop::begin(self.is_on_loop);
        for key in keys {
            time.ensure_left()?;
            let is_new = !self.watches.has(self.target.name(), key);
            if !is_new && !self.watches.may_break(self.target.name(), key) {
                continue; // what is broken need not be read
            }
            let value = self.read(key)?.then_some(&self.value[..]);
            let value_bytes = value.map_or(0, <[u8]>::len);
            read_bytes += value_bytes;
            if self.is_on_loop && read_bytes > READ_BYTES_MAX {
                return Err(CommandError::TooHeavy);
            }
            if is_new {
                new.push((key, Fingerprint::of(value), value_bytes));
                bytes += value_bytes;
            }
            if bytes > bytes_max {
                return Ok(false);
            }
        }
        for (key, was, value_bytes) in new {
            self.watches.add(&self.target, key, was, value_bytes);
        }
        Ok(true)
    }

    /// Watches nothing any more.
    pub fn unwatch(&mut self) {
        self.watches = Watches::default();
    }

    /// The reply waits for the device, also if it is that there was nothing to do: what that rests on may not be durable yet.
    /// Within a transaction its end waits. An error waits for nothing, least of all for a device that has failed.
    fn tells_of_write(&mut self) {
        self.has_written |= self.transaction.is_none();
    }

    /// Notes that `key` was to be inserted or removed, and whether that was done; what was there if not.
    fn note(&mut self, key: &[u8], is_done: bool, is_there: bool) -> bool {
        let is_met = self.watches.is_met(self.target.name(), key, is_done, is_there);
        self.watches.break_if(is_met && self.transaction.is_none());
        is_done
    }

    /// An EXEC that has to be given up is over, like one that was refused.
    pub fn give_up_exec(&mut self) {
        if self.queue.as_ref().is_some_and(|queue| queue.is_executing) {
            self.queue = None;
            self.unwatch();
        }
    }

    /// Takes the session away for a while. The stand-in shows others the client; what has been written stays its to withhold replies for.
    pub fn take_away(&mut self) -> Self {
        let stand_in = Self {
            protocol: self.protocol,
            has_written: std::mem::take(&mut self.has_written),
            last_command: self.last_command,
            ..Self::new(self.client.clone(), self.target.clone(), self.is_trusted)
        };
        std::mem::replace(self, stand_in)
    }

    /// Counts what its commands did.
    pub fn count_up(&self, shared: &Shared, by: u64, counter: impl Fn(&Counters) -> &AtomicU64) {
        match shared.counters.last() {
            Some(elsewhere) if !self.is_on_loop => _ = counter(elsewhere).fetch_add(by, Relaxed),
            _ => Counters::add(counter(&shared.counters[self.client.home]), by),
        }
    }

    /// Gives the place of the transaction that the client holds back if that is none of those `running`: the engine has rolled
    /// it back, and the client, which will be told, may be silent for hours.
    pub fn give_back_place(&mut self, running: &[u64]) {
        if let (Some(place), Some(transaction)) = (&mut self.place, &self.transaction)
            && !running.contains(&transaction.number())
        {
            place.give_back();
        }
    }

    /// The transaction that the client holds is not idle: a long request for it is on its way.
    pub fn keep_transaction(&self) {
        // One that is just being rolled back would be waited for.
        if let Some(transaction) = self.transaction.as_ref().filter(|transaction| !transaction.is_busy()) {
            // Any call counts, and this one does nothing. If there is no transaction any more, the request will be told so, too.
            let _ = transaction.savepoint();
        }
    }

    /// Takes the transaction that the client holds away from it.
    pub fn take_open(&mut self) -> Option<Open> {
        let place = self.place.take()?;
        Some(Open { transaction: self.transaction.take().expect("it goes together with its place"), place })
    }

    /// What has become of opening the table of this name for the command at hand; `None` if that has not been tried.
    pub fn opened(&self, name: &str) -> Option<&Result<(), CommandError>> {
        self.opened.iter().find(|(opened, _)| opened == name).map(|(_, done)| done)
    }

    /// Ends what was begun, without effect.
    pub fn abandon(&mut self) {
        self.queue = None;
        self.unwatch();
        self.transaction = None;
        self.place = None;
    }
}

/// Does something within a transaction; if it fails, what it did is undone. If that cannot be undone the transaction is over,
/// and the error says why.
fn part<R>(
    transaction: &Transaction,
    work: impl FnOnce(&Transaction) -> Result<R, CommandError>,
) -> Result<R, CommandError> {
    let savepoint = transaction.savepoint()?;
    work(transaction).map_err(|error| match transaction.rollback_to(savepoint) {
        Ok(()) | Err(Error::Ended) => error, // if the transaction had ended before, `error` says why
        Err(not_undone) => not_undone.into(), // it has by now, and why is told only once
    })
}

/// Does something as a transaction of its own.
fn whole<R>(
    shared: &Shared,
    work: impl FnOnce(&Transaction) -> Result<R, CommandError>,
) -> Result<R, CommandError> {
    let transaction = shared.begin()?;
    let result = work(&transaction)?;
    transaction.commit()?;
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::refused;
    use foreshore::{Database, Durability};
    use foreshore_io::sim::{Repeat, SimDisk};

    /// Whose part could not be undone has no transaction any more, and is told why.
    #[test]
    fn a_part_that_cannot_be_undone_says_why() {
        let disk = SimDisk::new(1);
        let db =
            Database::builder().cache_bytes(1 << 20).open_on(Arc::new(disk.clone())).expect("a new disk");
        let [table, others] = ["t", "others"].map(|name| db.byte_table(name).expect("there is space"));
        let others = others.with_durability(Durability::Buffered);
        let transaction = db.begin().expect("memory");
        let failed = part(&transaction, |transaction| {
            transaction.bytes(&table).put(b"k", b"undone")?;
            // More than the cache: the leaf has left it.
            (0..2000_u32).try_for_each(|i| others.put(&i.to_be_bytes(), &[5; 900]))?;
            db.checkpoint()?;
            disk.fail_read_at(disk.read_events(), Repeat::Once);
            refused::<()>("ERR of the part")
        });
        assert!(matches!(failed, Err(CommandError::Engine(Error::Io { .. }))), "{failed:?}");
        let over = transaction.bytes(&table).put(b"k", b"");
        assert!(matches!(over, Err(Error::Ended)), "{over:?}");
    }
}
