//! What a client has set, begun, watched; and how its commands reach rows.
//!
//! A command outside a transaction is one of its own. Inside (between KV.BEGIN and its end, or in EXEC) it is a part: if it
//! fails, what it did is undone and the transaction goes on.

use crate::clients::Client;
use crate::commands::{Command, CommandError};
use crate::fingerprint::Fingerprint;
use crate::reply::Protocol;
use crate::request::OwnedArgs;
use crate::rows::Rows;
use crate::shared::{Open, Place, Shared, Target};
use crate::together::Kind;
use foreshore::{Error, Transaction};
use foreshore_base::seeded_bug;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::time::Instant;

/// Keys that a client may watch at a time.
pub const WATCHED_MAX: usize = 1024;

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
    /// Keys watched, each once, with what they were.
    pub watched: Vec<Watched>,
    /// Has a watched key been seen to be something else?
    pub is_watch_broken: bool,
    /// The transaction that commands are part of.
    pub transaction: Option<Transaction>,
    /// Set while that is one that the client holds.
    pub place: Option<Place>,
    /// How much there was to do in that one.
    pub weight: usize,
    /// Has it done something whose reply must wait for the device?
    pub has_written: bool,
    /// The value read last.
    pub value: Vec<u8>,
    /// Set when a table that the command at hand needs has been opened for it; or why it could not be.
    pub opened: Option<Result<(), String>>,
    /// The command executed last.
    pub last_command: Option<&'static Command>,
}

/// Commands between MULTI and EXEC.
#[derive(Default)]
pub struct Queue {
    /// In their order.
    pub commands: Vec<OwnedArgs>,
    /// Memory, in bytes.
    pub bytes: usize,
    /// How much there is to do.
    pub weight: usize,
    /// One was refused: EXEC will refuse all.
    pub is_broken: bool,
    /// EXEC has begun, and may have to begin again.
    pub is_executing: bool,
}

/// A watched key.
pub struct Watched {
    /// Its table.
    pub target: Target,
    /// The key.
    pub key: Vec<u8>,
    /// What its value was when it was watched.
    pub was: Fingerprint,
}

/// Rows of a range, from either end.
pub type Range = Box<dyn DoubleEndedIterator<Item = Result<(Vec<u8>, Vec<u8>), Error>>>;

impl Session {
    /// A client that has just come.
    pub fn new(client: Arc<Client>, target: Target, is_trusted: bool) -> Self {
        Self {
            client,
            protocol: Protocol::default(),
            is_trusted,
            target,
            queue: None,
            watched: Vec::new(),
            is_watch_broken: false,
            transaction: None,
            place: None,
            weight: 0,
            has_written: false,
            value: Vec::new(),
            opened: None,
            last_command: None,
        }
    }

    /// Memory, in bytes.
    pub fn bytes(&self) -> usize {
        let queued = self.queue.as_ref().map_or(0, |queue| queue.bytes);
        let watched: usize =
            self.watched.iter().map(|watched| size_of::<Watched>() + watched.key.len()).sum();
        self.value.capacity() + queued + watched
    }

    /// Tells others how it is; `active` is when it was last heard of.
    pub fn tell(&self, active: Instant) {
        let mut told = self.client.told.lock();
        told.active = active;
        told.in_transaction = self.queue.is_some() || self.transaction.is_some();
        told.protocol = if self.protocol == Protocol::Resp2 { 2 } else { 3 };
        told.command = self.last_command.map_or("none", |command| command.name);
        if told.table != self.target.name() {
            told.table = self.target.name().to_owned();
        }
    }

    /// Reads the value of `key` into `self.value`; is there one?
    pub fn read(&mut self, key: &[u8]) -> Result<bool, Error> {
        let table = self.target.table();
        match &self.transaction {
            Some(transaction) => return transaction.bytes(table).get_into(key, &mut self.value),
            None if self.watched.is_empty() => return table.get_into(key, &mut self.value),
            None => {}
        }
        let found = table.get_into(key, &mut self.value)?;
        self.is_watch_broken |= self.is_changed(key, found.then_some(&self.value));
        Ok(found)
    }

    /// Gives back the memory of the value read last, but for so many bytes.
    pub fn forget_value(&mut self, kept_bytes: usize) {
        self.value.clear();
        self.value.shrink_to(kept_bytes);
    }

    /// May the last command be executed together with others of its kind, since each is nothing but itself: part of no
    /// transaction, neither queued nor watched?
    pub fn repeats(&self) -> Option<Kind> {
        let is_plain =
            self.is_trusted && self.transaction.is_none() && self.queue.is_none() && self.watched.is_empty();
        self.last_command.filter(|_| is_plain).and_then(|command| Kind::of(command.name))
    }

    /// Is `key` there? Its value, which may be large, is read only if it is watched.
    pub fn contains(&mut self, key: &[u8]) -> Result<bool, Error> {
        match &self.transaction {
            Some(transaction) => transaction.bytes(self.target.table()).contains(key),
            None if self.watched(key).is_some() => self.read(key),
            None => self.target.table().contains(key),
        }
    }

    /// How many of the keys are there at one point in time; one that is named twice counts twice.
    pub fn count(&mut self, shared: &Shared, keys: &[&[u8]]) -> Result<u64, Error> {
        if self.transaction.is_some() || keys.len() == 1 {
            return keys.iter().try_fold(0, |there, key| Ok(there + u64::from(self.contains(key)?)));
        }
        let snapshot = shared.db.snapshot()?;
        let rows = snapshot.bytes(self.target.table());
        let (mut there, mut is_changed) = (0, false);
        for key in keys {
            let found = rows.contains(key)?;
            if !self.is_watch_broken && !is_changed && self.watched(key).is_some() {
                is_changed = self.is_changed(key, rows.get(key)?.as_deref());
            }
            there += u64::from(found);
        }
        self.is_watch_broken |= is_changed;
        Ok(there)
    }

    /// Reads many keys at one point in time, until `read` breaks.
    pub fn read_each(
        &mut self,
        shared: &Shared,
        keys: &[&[u8]],
        mut read: impl FnMut(Option<&[u8]>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let table = self.target.table();
        if let Some(transaction) = &self.transaction {
            return transaction.bytes(table).multi_get_with(keys, read);
        }
        let (mut named, mut is_changed) = (keys.iter(), false);
        shared.db.snapshot()?.bytes(table).multi_get_with(keys, |value| {
            is_changed |= named.next().is_some_and(|key| self.is_changed(key, value));
            read(value)
        })?;
        self.is_watch_broken |= is_changed;
        Ok(())
    }

    /// Rows of a range, outside a transaction those at one point in time.
    pub fn rows(&self, shared: &Shared, bounds: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<Range, Error> {
        let table = self.target.table();
        Ok(match &self.transaction {
            Some(transaction) => Box::new(transaction.bytes(table).range(bounds)),
            None => Box::new(shared.db.snapshot()?.bytes(table).range(bounds)),
        })
    }

    /// Sets the value of `key`.
    pub fn put(&mut self, shared: &Shared, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.has_written = true;
        match &self.transaction {
            Some(transaction) => transaction.bytes(self.target.table()).put(key, value),
            None => self.target.writer(shared).put(key, value),
        }
    }

    /// Sets the value of `key` unless it has one; says whether it did.
    pub fn insert(&mut self, shared: &Shared, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        let done = match &self.transaction {
            Some(transaction) => transaction.bytes(self.target.table()).insert(key, value),
            None => self.target.writer(shared).insert(key, value),
        };
        self.has_written |= !matches!(done, Ok(false));
        done
    }

    /// Removes `key`; says whether it was there.
    pub fn remove(&mut self, shared: &Shared, key: &[u8]) -> Result<bool, Error> {
        let done = match &self.transaction {
            Some(transaction) => transaction.bytes(self.target.table()).remove(key),
            None => self.target.writer(shared).remove(key),
        };
        self.has_written |= !matches!(done, Ok(false));
        done
    }

    /// Does several things to rows of its table, all or none.
    pub fn atomically<R>(
        &mut self,
        shared: &Shared,
        work: impl FnOnce(&Rows<'_>) -> Result<R, CommandError>,
    ) -> Result<R, CommandError> {
        let target = self.target.clone();
        self.transact(shared, |transaction| {
            let rows = Rows::new(transaction.bytes(target.table()));
            Ok((work(&rows)?, rows.has_changed()))
        })
    }

    /// As [`Session::atomically`], with rows of several tables; `work` also says whether it has changed any.
    pub fn transact<R>(
        &mut self,
        shared: &Shared,
        work: impl FnOnce(&Transaction) -> Result<(R, bool), CommandError>,
    ) -> Result<R, CommandError> {
        let done = match &self.transaction {
            Some(transaction) => part(transaction, work),
            None => whole(shared, work),
        };
        self.has_written |= !matches!(done, Ok((_, false)));
        done.map(|(result, _)| result)
    }

    /// Remembers what `key` is now, for EXEC.
    pub fn watch(&mut self, key: &[u8]) -> Result<(), Error> {
        if self.watched(key).is_some() {
            return self.read(key).map(drop);
        }
        self.target.table().get_into(key, &mut self.value).map(|found| {
            let was = Fingerprint::of(found.then_some(&self.value));
            self.watched.push(Watched { target: self.target.clone(), key: key.to_vec(), was });
        })
    }

    /// The key of its table, if it is watched.
    fn watched(&self, key: &[u8]) -> Option<&Watched> {
        let name = self.target.name();
        self.watched.iter().find(|watched| watched.key == key && watched.target.name() == name)
    }

    /// Is `key` watched, and was something else then? If the client has learnt that, EXEC must not happen, even if it is
    /// again what it was by then.
    fn is_changed(&self, key: &[u8], value: Option<&[u8]>) -> bool {
        self.watched(key).is_some_and(|watched| watched.was != Fingerprint::of(value))
    }

    /// The client itself has changed `key`.
    pub fn note_write(&mut self, key: &[u8]) {
        self.is_watch_broken |= self.watched(key).is_some();
    }

    /// Are watched keys what they were? To be asked in the transaction, which keeps them so.
    pub fn is_watch_kept(&self, shared: &Shared, transaction: &Transaction) -> Result<bool, Error> {
        for Watched { target, key, was } in &self.watched {
            let mut value = transaction.bytes(target.table()).get(key);
            if let (Err(Error::TableDropped { .. }), Some(newer)) = (&value, shared.newer(target)) {
                // FLUSHDB has made another table, in which the key may be missing as it was before.
                value = transaction.bytes(newer.table()).get(key);
            }
            let value = value?;
            if Fingerprint::of(value.as_deref()) != *was {
                return Ok(false);
            }
        }
        Ok(!self.is_watch_broken || seeded_bug("serve_watch_forgets"))
    }

    /// Watches nothing any more.
    pub fn unwatch(&mut self) {
        self.watched.clear();
        self.is_watch_broken = false;
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

    /// Takes the transaction that the client holds away from it.
    pub fn take_open(&mut self) -> Option<Open> {
        let place = self.place.take()?;
        Some(Open { transaction: self.transaction.take().expect("it goes together with its place"), place })
    }

    /// Ends what was begun, without effect.
    pub fn abandon(&mut self) {
        self.queue = None;
        self.unwatch();
        self.transaction = None;
        self.place = None;
    }
}

/// Does something within a transaction; if it fails, what it did is undone.
fn part<R>(
    transaction: &Transaction,
    work: impl FnOnce(&Transaction) -> Result<R, CommandError>,
) -> Result<R, CommandError> {
    let savepoint = transaction.savepoint()?;
    work(transaction).inspect_err(|_| {
        // If the transaction itself has failed there is nothing to go back in, and the error says why.
        let _ = transaction.rollback_to(savepoint);
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
