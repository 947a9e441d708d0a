//! What the shell does with a command, and what it remembers from one to the next.

use crate::args::{existing_table, spelled};
use crate::backup;
use crate::drop::drop_table;
use crate::failure::{Failure, Outcome};
use crate::keys::{KeyRange, RemovedKeys};
use crate::output::{Output, tell};
use crate::rename::rename_table;
use crate::rows::{Shape, Target, no_such_row};
use crate::schema::{ensure_may_be_made, ensure_not_schemas};
use crate::shell::interrupt::Interrupt;
use crate::shell::print::{Mode, Rows, print_stats};
use crate::shell::statement::{Decision, Level, Row, Statement, Switch, Which, help, parse};
use crate::tables::{self, type_name};
use crate::text::{escape, unescape};
use crate::typed::{Type, Types};
use foreshore::{
    ByteTable, Database, Error, Isolation, RawBounds, Savepoint, Snapshot, Stats, TableOptions, Transaction,
    TransactionOptions,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::PathBuf;
use std::time::Instant;

/// What the line asks of whoever reads the lines.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// The next line.
    Line,
    /// The lines of this file, then the next one.
    Read(PathBuf),
    /// No more lines.
    Quit,
}

/// A shell in use.
pub struct Session {
    db: Database,
    open: Option<Open>,
    mode: Mode,
    hex: bool,
    /// What was said of the tables of programs.
    types: BTreeMap<String, Types>,
    timer: bool,
    /// What `.stats` showed last.
    shown: Stats,
    interrupt: Interrupt,
}

/// A transaction that was begun.
enum Open {
    Writing { tx: Transaction, savepoints: Vec<(String, Savepoint)> },
    Reading(Snapshot),
}

type Walk = Box<dyn DoubleEndedIterator<Item = foreshore::Result<(Vec<u8>, Vec<u8>)>>>;

impl Session {
    /// Outside any transaction.
    pub fn new(db: Database, mode: Mode) -> Self {
        Self {
            db,
            open: None,
            mode,
            hex: false,
            types: BTreeMap::new(),
            timer: false,
            shown: Stats::default(),
            interrupt: Interrupt::default(),
        }
    }

    /// What stops a command that walks many rows.
    pub fn interrupt(&self) -> Interrupt {
        self.interrupt.clone()
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.db
    }

    /// Is there an open transaction?
    pub fn is_in_transaction(&self) -> bool {
        self.open.is_some()
    }

    /// Does what a line says.
    pub fn line(&mut self, line: &str) -> Outcome<Next> {
        let Some(statement) = parse(line)? else { return Ok(Next::Line) };
        let begun = Instant::now();
        let next = self.execute(statement);
        if self.timer {
            tell(format_args!("{:.6} s", begun.elapsed().as_secs_f64()));
        }
        self.forget_what_was_rolled_back(&next);
        next.map_err(|wrong| match wrong {
            Wrong::Told(failure) => failure,
            Wrong::Engine(error) => error.into(),
        })
    }

    fn execute(&mut self, statement: Statement) -> Result<Next, Wrong> {
        match statement {
            Statement::Get { table, key } => self.get(&table, &key)?,
            Statement::Put(row) => _ = self.write(&row, false)?,
            Statement::Insert(row) => self.insert(&row)?,
            Statement::Del { table, key } => self.del(&table, &key)?,
            Statement::Scan { table, between, which } => {
                self.show(&table, |shape| between.keys(shape), &which)?
            }
            Statement::Prefix { table, prefix, which } => {
                self.show(&table, |shape| shape.beginning(&prefix), &which)?
            }
            Statement::Count { table, range } => self.count(&table, &range)?,
            Statement::Delete { table, rows } => self.delete(&table, &rows)?,
            Statement::Pop { table, range, reverse } => self.pop(&table, &range, reverse)?,
            Statement::Create { table } => drop(self.db.byte_table(&table)?),
            Statement::Drop { table } => self.drop_table(&table)?,
            Statement::Rename { from, to } => self.rename_table(&from, &to)?,
            Statement::Begin { level } => self.begin(level)?,
            Statement::Commit => self.commit()?,
            Statement::Rollback { savepoint } => self.roll_back(savepoint.as_deref())?,
            Statement::Savepoint { name } => self.savepoint(name)?,
            Statement::Tables { count } => self.tables(count)?,
            Statement::Mode { mode } => self.set_mode(mode)?,
            Statement::Hex { switch } => self.hex = switch == Switch::On,
            Statement::Types { table, key, value } => self.set_types(table, key, value)?,
            Statement::Timer { switch } => self.timer = switch == Switch::On,
            Statement::Stats => self.stats()?,
            Statement::Prepared { id, decision } => self.prepared(id.zip(decision))?,
            Statement::Backup { target } => self.backup(&target)?,
            Statement::Help { command } => self.say("help", &help(command.as_deref())?)?,
            Statement::Read { file } => return Ok(Next::Read(file)),
            Statement::Quit => return Ok(Next::Quit),
        }
        Ok(Next::Line)
    }

    /// A deadlock or an abort has ended the transaction, whatever the shell believes.
    fn forget_what_was_rolled_back(&mut self, done: &Result<Next, Wrong>) {
        if let Err(Wrong::Engine(Error::Deadlock { .. } | Error::Aborted { .. } | Error::Ended)) = done {
            self.open = None;
        }
    }

    fn get(&self, table: &str, key: &str) -> Result<(), Wrong> {
        let (tree, shape) = self.existing(table)?;
        let encoded = shape.key(key)?;
        let value = match &self.open {
            None => tree.get(&encoded)?,
            Some(Open::Writing { tx, .. }) => tx.bytes(&tree).get(&encoded)?,
            Some(Open::Reading(snapshot)) => snapshot.bytes(&tree).get(&encoded)?,
        };
        let value = value.ok_or_else(|| no_such_row(&tree, key, &shape))?;
        let mut rows = Rows::new(self.mode, shape);
        rows.push(&encoded, &value)?;
        Ok(rows.finish()?)
    }

    fn insert(&self, row: &Row) -> Result<(), Wrong> {
        if self.write(row, true)? {
            return Ok(());
        }
        let present = format!("table {:?} has a row with key {}; put replaces it", row.table, row.key);
        Err(Failure::usage(present).into())
    }

    /// Writes a row; `false` if only a new one is wanted, and it is not.
    fn write(&self, row: &Row, only_new: bool) -> Result<bool, Wrong> {
        ensure_may_be_made(&row.table)?;
        let shape = self.shape(&row.table)?;
        let key = shape.key(&row.key)?;
        let value = shape.value(&key, row.value.clone().into_bytes())?;
        self.ensure_writable()?;
        let said = self.types.get(&row.table).filter(|_| !self.hex);
        let table =
            self.db.byte_table_with(&row.table, said.map_or_else(TableOptions::new, Types::options))?;
        self.ensure_fits(&shape, &table, (Bound::Unbounded, Bound::Unbounded))?;
        Ok(match &self.open {
            Some(Open::Writing { tx, .. }) if only_new => tx.bytes(&table).insert(&key, &value)?,
            Some(Open::Writing { tx, .. }) => tx.bytes(&table).put(&key, &value).map(|()| true)?,
            _ if only_new => table.insert(&key, &value)?,
            _ => table.put(&key, &value).map(|()| true)?,
        })
    }

    fn del(&self, table: &str, key: &str) -> Result<(), Wrong> {
        self.ensure_writable()?;
        let (tree, shape) = self.existing(table)?;
        let encoded = shape.key(key)?;
        let was_there = match &self.open {
            Some(Open::Writing { tx, .. }) => tx.bytes(&tree).remove(&encoded)?,
            _ => tree.remove(&encoded)?,
        };
        if was_there { Ok(()) } else { Err(no_such_row(&tree, key, &shape).into()) }
    }

    fn show(
        &self,
        table: &str,
        keys: impl FnOnce(&Shape) -> Outcome<RawBounds>,
        which: &Which,
    ) -> Result<(), Wrong> {
        let (tree, shape) = self.existing(table)?;
        let mut walk = self.walk(&tree, keys(&shape)?);
        let mut rows = Rows::new(self.mode, shape);
        let mut push_all = || -> Result<(), Wrong> {
            for _ in 0..which.limit {
                let Some(row) = (if which.reverse { walk.next_back() } else { walk.next() }) else { break };
                self.interrupt.heed()?;
                let (key, value) = row?;
                rows.push(&key, &value)?;
            }
            Ok(())
        };
        // What comes before an error is shown before it is told.
        let pushed = push_all();
        let shown = rows.finish();
        pushed.and_then(|()| Ok(shown?))
    }

    fn count(&self, table: &str, range: &KeyRange) -> Result<(), Wrong> {
        let (tree, shape) = self.existing(table)?;
        let keys = range.keys(&shape)?;
        self.ensure_fits(&shape, &tree, keys.clone())?;
        let mut rows = 0u64;
        let count = |row: foreshore::Result<_>| -> Result<(), Wrong> {
            self.interrupt.heed()?;
            row?;
            rows += 1;
            Ok(())
        };
        match &self.open {
            None => tree.range(keys).keys_only().try_for_each(count)?,
            Some(Open::Writing { tx, .. }) => tx.bytes(&tree).range(keys).keys_only().try_for_each(count)?,
            Some(Open::Reading(snapshot)) => {
                snapshot.bytes(&tree).range(keys).keys_only().try_for_each(count)?
            }
        }
        self.show_number(table, "rows", rows)
    }

    fn delete(&self, table: &str, rows: &RemovedKeys) -> Result<(), Wrong> {
        ensure_not_schemas(table)?;
        self.ensure_writable()?;
        let (tree, shape) = self.existing(table)?;
        let keys = rows.keys(&shape)?;
        self.ensure_fits(&shape, &tree, keys.clone())?;
        let removed = match &self.open {
            Some(Open::Writing { tx, .. }) => tx.bytes(&tree).remove_range(keys)?,
            _ => tree.remove_range(keys)?,
        };
        self.show_number(table, "removed", removed)
    }

    /// A row that cannot be shown stays, be it that nobody reads what is shown.
    fn pop(&self, table: &str, range: &KeyRange, is_last: bool) -> Result<(), Wrong> {
        ensure_not_schemas(table)?;
        self.ensure_writable()?;
        let (tree, shape) = self.existing(table)?;
        let keys = range.keys(&shape)?;
        let mut rows = Rows::new(self.mode, shape);
        let take = move |tx: &Transaction| -> Result<(), Wrong> {
            let tree = tx.bytes(&tree);
            let row = if is_last { tree.pop_last_in(keys) } else { tree.pop_first_in(keys) }?;
            let (key, value) =
                row.ok_or_else(|| Failure::absent(format!("table {table:?} has no such row")))?;
            rows.push(&key, &value)?;
            Ok(rows.finish()?)
        };
        match &self.open {
            Some(Open::Writing { tx, .. }) => {
                let before = tx.savepoint()?;
                take(tx).map_err(|wrong| match tx.rollback_to(before) {
                    Ok(()) | Err(Error::Ended) => wrong, // if the transaction had ended before, `wrong` says why
                    Err(not_undone) => not_undone.into(), // it has by now, and why is told only once
                })
            }
            _ => {
                let tx = self.db.begin()?;
                take(&tx)?;
                Ok(tx.commit()?)
            }
        }
    }

    fn show_number(&self, table: &str, what: &str, number: u64) -> Result<(), Wrong> {
        let mut out = self.output();
        match self.mode {
            Mode::Json => out.object(&json!({"table": table, what: number}))?,
            Mode::Table | Mode::Csv => out.line(number)?,
        }
        Ok(out.finish()?)
    }

    fn walk(&self, table: &ByteTable, keys: RawBounds) -> Walk {
        match &self.open {
            None => Box::new(table.range(keys)),
            Some(Open::Writing { tx, .. }) => Box::new(tx.bytes(table).range(keys)),
            Some(Open::Reading(snapshot)) => Box::new(snapshot.bytes(table).range(keys)),
        }
    }

    /// [`Shape::ensure_fits`], of the rows as the open transaction has them.
    fn ensure_fits(&self, shape: &Shape, table: &ByteTable, keys: RawBounds) -> Outcome {
        match &self.open {
            None => shape.ensure_fits(table, &keys),
            Some(Open::Writing { tx, .. }) => {
                let rows = tx.bytes(table);
                shape.ensure_first_fits(rows.range(keys).keys_only(), |key| rows.get(key))
            }
            Some(Open::Reading(snapshot)) => {
                let rows = snapshot.bytes(table);
                shape.ensure_first_fits(rows.range(keys).keys_only(), |key| rows.get(key))
            }
        }
    }

    /// Not within a transaction, which might use the table: the drop would wait for it in vain.
    fn drop_table(&self, table: &str) -> Result<(), Wrong> {
        self.ensure_none_open()?;
        if drop_table(&self.db, table)? { Ok(()) } else { Err(no_table(table)) }
    }

    /// What was said of the table goes with it. Not within a transaction, which would not take it back.
    fn rename_table(&mut self, from: &str, to: &str) -> Result<(), Wrong> {
        self.ensure_none_open()?;
        if !rename_table(&self.db, from, to)? {
            return Err(no_table(from));
        }
        let said = self.types.remove(from);
        self.types.remove(to); // which was another table
        self.types.extend(said.map(|said| (to.into(), said)));
        Ok(())
    }

    fn ensure_none_open(&self) -> Result<(), Wrong> {
        match self.open {
            Some(_) => Err(Failure::usage("a transaction is open; commit it or roll it back first").into()),
            None => Ok(()),
        }
    }

    fn begin(&mut self, level: Level) -> Result<(), Wrong> {
        self.ensure_none_open()?;
        let isolation = match level {
            Level::Serializable => Isolation::Serializable,
            Level::RepeatableRead => Isolation::RepeatableRead,
            Level::ReadCommitted => Isolation::ReadCommitted,
            Level::Snapshot => {
                self.open = Some(Open::Reading(self.db.snapshot()?));
                return Ok(());
            }
        };
        let tx = self.db.begin_with(TransactionOptions::new().isolation(isolation))?;
        self.open = Some(Open::Writing { tx, savepoints: Vec::new() });
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Wrong> {
        match self.open.take().ok_or_else(no_transaction)? {
            Open::Writing { tx, .. } => Ok(tx.commit()?),
            Open::Reading(_) => Ok(()),
        }
    }

    fn roll_back(&mut self, savepoint: Option<&str>) -> Result<(), Wrong> {
        let Some(name) = savepoint else {
            return match self.open.take().ok_or_else(no_transaction)? {
                Open::Writing { tx, .. } => Ok(tx.rollback()?),
                Open::Reading(_) => Ok(()),
            };
        };
        let (tx, savepoints) = self.writing()?;
        let at = savepoints.iter().rposition(|(known, _)| known == name);
        let at = at.ok_or_else(|| Failure::absent(format!("this transaction has no savepoint {name:?}")))?;
        tx.rollback_to(savepoints[at].1)?;
        savepoints.truncate(at + 1); // those set later are undone with the rest
        Ok(())
    }

    fn savepoint(&mut self, name: String) -> Result<(), Wrong> {
        let (tx, savepoints) = self.writing()?;
        savepoints.push((name, tx.savepoint()?));
        Ok(())
    }

    fn writing(&mut self) -> Outcome<(&Transaction, &mut Vec<(String, Savepoint)>)> {
        self.ensure_writable()?;
        match &mut self.open {
            Some(Open::Writing { tx, savepoints }) => Ok((tx, savepoints)),
            _ => Err(no_transaction()),
        }
    }

    fn ensure_writable(&self) -> Outcome {
        match &self.open {
            Some(Open::Reading(_)) => {
                Err(Failure::usage("a snapshot is read-only; commit ends it, begin allows writing"))
            }
            _ => Ok(()),
        }
    }

    fn tables(&self, count: bool) -> Outcome {
        let mut out = self.output();
        tables::list(&self.db, count, false, &mut out)?;
        out.finish()
    }

    fn set_mode(&mut self, mode: Option<Mode>) -> Outcome {
        match mode {
            Some(mode) => self.mode = mode,
            None => self.say("mode", &spelled(self.mode))?,
        }
        Ok(())
    }

    fn set_types(&mut self, table: Option<String>, key: Option<Type>, value: Option<Type>) -> Outcome {
        match table {
            None => return self.show_types(),
            Some(table) if key.is_none() => _ = self.types.remove(&table),
            Some(table) => _ = self.types.insert(table, Types { key, value }),
        }
        Ok(())
    }

    /// Decides one of those that have prepared, or lists them.
    fn prepared(&self, decided: Option<(String, Decision)>) -> Result<(), Wrong> {
        if let Some((id, decision)) = decided {
            let gid = unescape(id.as_bytes())
                .ok_or_else(|| Failure::usage(format!("{id:?} is no id as they are listed")))?;
            let decided = match decision {
                Decision::Commit => self.db.commit_prepared(gid),
                Decision::Rollback => self.db.rollback_prepared(gid),
            };
            return Ok(decided?);
        }
        let mut out = self.output();
        for gid in self.db.recover() {
            let id = escape(&gid);
            if self.mode == Mode::Json { out.object(&json!({"prepared": id}))? } else { out.line(id)? }
        }
        Ok(out.finish()?)
    }

    /// Those that were said, then those that other tables remember.
    fn show_types(&self) -> Outcome {
        let spelled = |one: &Option<Type>| one.as_ref().map(Type::to_string);
        let mut of_tables: Vec<_> = (self.types.iter())
            .map(|(table, of)| (table.clone(), spelled(&of.key), spelled(&of.value), true))
            .collect();
        for table in self.db.tables()?.into_iter().filter(|table| !self.types.contains_key(table)) {
            if let Some(of) = self.db.existing_byte_table(&table).as_ref().and_then(ByteTable::types) {
                of_tables.push((table, Some(of.key().into()), Some(of.value().into()), false));
            }
        }
        let mut out = self.output();
        if self.mode == Mode::Json {
            for (table, key, value, said) in of_tables {
                out.object(&json!({"table": table, "key_type": key, "value_type": value, "said": said}))?;
            }
        } else {
            let row = |(table, key, value, said): (_, Option<String>, Option<String>, _)| {
                let [key, value] =
                    [key, value].map(|one| one.map_or("as they are".into(), |name| type_name(&name)));
                [table, key, value, if said { "said" } else { "remembered" }.into()]
            };
            let rows: Vec<_> = of_tables.into_iter().map(row).collect();
            out.table(["table", "keys", "values", "known"], &rows)?;
        }
        out.finish()
    }

    fn stats(&mut self) -> Outcome {
        let before = std::mem::replace(&mut self.shown, self.db.stats());
        let mut out = self.output();
        match self.mode {
            Mode::Json => out.object(&self.shown)?,
            Mode::Table | Mode::Csv => print_stats(&mut out, &self.shown, &before)?,
        }
        out.finish()
    }

    fn backup(&self, target: &std::path::Path) -> Outcome {
        let copied = backup::copy(&self.db, "backup", target)?;
        backup::tell_copied(self.output(), "backup", &copied, target)
    }

    fn existing(&self, table: &str) -> Outcome<(ByteTable, Shape)> {
        Ok((existing_table(&self.db, table)?, self.shape(table)?))
    }

    fn shape(&self, table: &str) -> Outcome<Shape> {
        let types = self.types.get(table).cloned().unwrap_or_default();
        Shape::of(&self.db, &Target { table: table.to_string(), hex: self.hex, types })
    }

    fn output(&self) -> Output {
        Output::new(self.mode == Mode::Json)
    }

    fn say(&self, what: &str, text: &str) -> Outcome {
        let mut out = self.output();
        match self.mode {
            Mode::Json => out.object(&json!({what: text}))?,
            Mode::Table | Mode::Csv => out.line(text)?,
        }
        out.finish()
    }
}

fn no_table(name: &str) -> Wrong {
    Failure::absent(format!("there is no table {name:?}; .tables lists them")).into()
}

fn no_transaction() -> Failure {
    Failure::usage("no transaction is open; begin opens one")
}

/// Why a command failed: the engine's errors tell whether the transaction goes on.
enum Wrong {
    Engine(Error),
    Told(Failure),
}

impl From<Error> for Wrong {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl From<Failure> for Wrong {
    fn from(failure: Failure) -> Self {
        Self::Told(failure)
    }
}
