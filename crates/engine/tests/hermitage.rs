//! What each isolation level lets a transaction notice of others: the Hermitage scenarios, at every level and for
//! snapshots.
//!
//! Each session is a thread of its own, so that a statement that waits for a lock is seen to wait, and later goes on or
//! fails as the victim of a deadlock. A scenario is a script of statements in the order in which they are *given*; its
//! verdict looks only at what the sessions saw, who committed, and what is left at the end. So waiting, failing and
//! answering rightly all count as prevention.
//!
//! A slow machine may make a statement seem to wait that does not, and so change the order. Then what a verdict calls an
//! anomaly is one all the same; where an anomaly is allowed, it must be seen in one of a few plays.
//!
//! Source: Kleppmann, "Hermitage" (2014), after Adya, "Weak Consistency" (1999), and Bailis et al., "Highly Available
//! Transactions" (VLDB 2014). Differs: a row is a key and a value, and a predicate is a range with a filter.
//!
//! The table that is expected is the one in `docs/isolation.md`; the last test compares them.

use foreshore::{ByteTable, Database, Isolation, Result, Snapshot, Transaction, TransactionOptions};
use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, Scope};
use std::time::Duration;

/// A statement that has not answered after this time waits for a lock.
const SEEMS_TO_WAIT: Duration = Duration::from_millis(120);

/// Plays, each more patient than the last, in which an anomaly that may happen must be seen to happen.
const PLAYS: u32 = 5;

/// No lock wait of a scenario is longer: whoever waits is granted or chosen as victim when the others go on.
const HANGS: Duration = Duration::from_secs(30);

/// Key and value of a row.
type Row = (u8, u32);

/// What every table holds at first.
const BEFORE: [Row; 2] = [(1, 10), (2, 20)];

/// What a session is told to do.
#[derive(Clone, Copy, Debug)]
enum Statement {
    Get(u8),
    /// Reads the row and locks it for a change.
    GetForUpdate(u8),
    /// Reads the rows whose keys are at most this and whose values divide by that.
    Scan(u8, u32),
    Put(u8, u32),
    Insert(u8, u32),
    /// Adds to the values of all rows.
    AddToAll(u32),
    /// Removes the rows with this value.
    RemoveWhere(u32),
    Commit,
    RollBack,
}
use Statement::{AddToAll, Commit, Get, GetForUpdate, Insert, Put, RemoveWhere, RollBack, Scan};

/// Every row with a key of this table.
const ALL: Statement = Scan(u8::MAX, 1);

/// What a session sees, or does its work in.
enum Work {
    Transaction(Transaction),
    Snapshot(Snapshot),
    Ended,
}

/// What a statement gave: the rows that it saw, or changed.
type Answer = Result<Vec<Row>>;

impl Work {
    fn get(&self, table: &ByteTable, key: u8) -> Answer {
        let value = match self {
            Work::Transaction(tx) => tx.bytes(table).get(&[key])?,
            Work::Snapshot(snapshot) => snapshot.bytes(table).get(&[key])?,
            Work::Ended => panic!("a script goes on after its session's end"),
        };
        Ok(value.map(|value| (key, number(&value))).into_iter().collect())
    }

    fn scan(&self, table: &ByteTable, to: u8) -> Answer {
        let row = |row: Result<(Vec<u8>, Vec<u8>)>| row.map(|(key, value)| (key[0], number(&value)));
        match self {
            Work::Transaction(tx) => tx.bytes(table).range(..=[to]).map(row).collect(),
            Work::Snapshot(snapshot) => snapshot.bytes(table).range(..=[to]).map(row).collect(),
            Work::Ended => panic!("a script goes on after its session's end"),
        }
    }

    fn transaction(&self) -> &Transaction {
        match self {
            Work::Transaction(tx) => tx,
            _ => panic!("only a running transaction writes"),
        }
    }

    fn run(&mut self, table: &ByteTable, statement: Statement) -> Answer {
        match statement {
            Get(key) => self.get(table, key),
            Scan(to, divisor) => {
                Ok(self.scan(table, to)?.into_iter().filter(|row| row.1.is_multiple_of(divisor)).collect())
            }
            GetForUpdate(key) => {
                let value = self.transaction().bytes(table).get_for_update(&[key])?;
                Ok(value.map(|value| (key, number(&value))).into_iter().collect())
            }
            Put(key, value) => {
                self.transaction().bytes(table).put(&[key], &bytes(value)).map(|()| vec![(key, value)])
            }
            Insert(key, value) => {
                let inserted = self.transaction().bytes(table).insert(&[key], &bytes(value))?;
                Ok(inserted.then_some((key, value)).into_iter().collect())
            }
            AddToAll(more) => {
                let mut changed = self.scan(table, u8::MAX)?;
                for (key, value) in &mut changed {
                    *value += more;
                    self.transaction().bytes(table).put(&[*key], &bytes(*value))?;
                }
                Ok(changed)
            }
            RemoveWhere(value) => {
                let doomed: Vec<Row> =
                    self.scan(table, u8::MAX)?.into_iter().filter(|row| row.1 == value).collect();
                for (key, _) in &doomed {
                    self.transaction().bytes(table).remove(&[*key])?;
                }
                Ok(doomed)
            }
            Commit => match std::mem::replace(self, Work::Ended) {
                Work::Transaction(tx) => tx.commit().map(|()| Vec::new()),
                _ => Ok(Vec::new()),
            },
            RollBack => match std::mem::replace(self, Work::Ended) {
                Work::Transaction(tx) => tx.rollback().map(|()| Vec::new()),
                _ => Ok(Vec::new()),
            },
        }
    }
}

fn bytes(value: u32) -> [u8; 4] {
    value.to_be_bytes()
}

fn number(value: &[u8]) -> u32 {
    u32::from_be_bytes(value.try_into().expect("values have four bytes"))
}

/// At what level a session works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Of(Isolation),
    /// Those sessions that only read are snapshots, the others serializable.
    Snapshot,
}

const LEVELS: [Level; 4] = [
    Level::Of(Isolation::ReadCommitted),
    Level::Of(Isolation::RepeatableRead),
    Level::Of(Isolation::Serializable),
    Level::Snapshot,
];

/// One session: a thread that does what it is told, one statement after another.
struct Session {
    statements: Sender<Statement>,
    answers: Receiver<Answer>,
    /// Statements given and not answered.
    open: usize,
    seen: Vec<Answer>,
}

impl Session {
    fn start<'s>(
        scope: &'s Scope<'s, '_>,
        db: &'s Database,
        table: &'s ByteTable,
        isolation: Option<Isolation>,
    ) -> Self {
        let ((statements, given), (answered, answers)) = (channel(), channel());
        scope.spawn(move || {
            let mut work = None;
            for statement in given {
                let work = work.get_or_insert_with(|| match isolation {
                    Some(level) => {
                        let options = TransactionOptions::new().isolation(level);
                        Work::Transaction(db.begin_with(options).expect("there is room for a few"))
                    }
                    None => Work::Snapshot(db.snapshot().expect("there is room for a few")),
                });
                // The verdict is given to a scenario that is no longer there if it panicked: nobody listens.
                let _ = answered.send(work.run(table, statement));
            }
        });
        Self { statements, answers, open: 0, seen: Vec::new() }
    }

    fn give(&mut self, statement: Statement) {
        self.statements.send(statement).expect("the session's thread lives");
        self.open += 1;
    }

    /// Waits for the answers to all that was given; `false` if one does not come in time.
    fn wait(&mut self, at_most: Duration) -> bool {
        while self.open > 0 {
            match self.answers.recv_timeout(at_most) {
                Ok(answer) => self.seen.push(answer),
                Err(RecvTimeoutError::Timeout) => return false,
                Err(RecvTimeoutError::Disconnected) => panic!("a session's thread panicked"),
            }
            self.open -= 1;
        }
        true
    }
}

/// What came of a scenario.
struct Outcome {
    /// Per session, the answer to each of its statements.
    seen: Vec<Vec<Answer>>,
    /// What is left.
    after: Vec<Row>,
}

impl Outcome {
    /// Session `n` (from 1) got through its script, the end included.
    fn committed(&self, session: usize) -> bool {
        self.seen[session - 1].iter().all(Result::is_ok)
    }

    fn both_committed(&self) -> bool {
        self.committed(1) && self.committed(2)
    }

    /// The rows that the `n`th statement (from 0) of a session saw, if it was answered.
    fn rows(&self, session: usize, n: usize) -> Option<&[Row]> {
        self.seen[session - 1][n].as_deref().ok()
    }

    /// The value of the only row that a statement saw, if it was answered.
    fn value(&self, session: usize, n: usize) -> Option<u32> {
        self.rows(session, n)?.first().map(|row| row.1)
    }

    /// Did this session, in whatever became of it, ever see this value?
    fn ever_saw(&self, session: usize, value: u32) -> bool {
        self.seen[session - 1].iter().flatten().flatten().any(|row| row.1 == value)
    }
}

/// A scenario: who says what in which order, and how to tell that the anomaly happened.
struct Scenario {
    name: &'static str,
    script: &'static [(usize, Statement)],
    /// Sessions that only read, and may be snapshots. None: the anomaly is one between writers.
    readers: &'static [usize],
    happened: fn(&Outcome) -> bool,
    /// At which of `LEVELS` it may happen.
    may_happen: [bool; 3],
}

const NO: bool = false;
const YES: bool = true;

/// The table. Snapshots prevent everything that a reader can meet.
const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "G0: dirty write",
        script: &[
            (1, Put(1, 11)),
            (2, Put(1, 12)),
            (1, Put(2, 21)),
            (1, Commit),
            (2, Put(2, 22)),
            (2, Commit),
        ],
        readers: &[],
        happened: |o| o.after != [(1, 12), (2, 22)] && o.after != [(1, 11), (2, 21)],
        may_happen: [NO, NO, NO],
    },
    Scenario {
        name: "G1a: aborted read",
        script: &[(1, Put(1, 101)), (2, ALL), (1, RollBack), (2, ALL), (2, Commit)],
        readers: &[2],
        happened: |o| o.ever_saw(2, 101),
        may_happen: [NO, NO, NO],
    },
    Scenario {
        name: "G1b: intermediate read",
        script: &[(1, Put(1, 101)), (2, ALL), (1, Put(1, 11)), (1, Commit), (2, ALL), (2, Commit)],
        readers: &[2],
        happened: |o| o.ever_saw(2, 101),
        may_happen: [NO, NO, NO],
    },
    Scenario {
        name: "G1c: circular information flow",
        script: &[(1, Put(1, 11)), (2, Put(2, 22)), (1, Get(2)), (2, Get(1)), (1, Commit), (2, Commit)],
        readers: &[],
        happened: |o| {
            (o.committed(1) && o.value(1, 1) == Some(22)) && (o.committed(2) && o.value(2, 1) == Some(11))
        },
        may_happen: [NO, NO, NO],
    },
    Scenario {
        name: "OTV: observed transaction vanishes",
        script: &[
            (1, Put(1, 11)),
            (1, Put(2, 19)),
            (2, Put(1, 12)),
            (1, Commit),
            (3, Get(1)),
            (2, Put(2, 18)),
            (3, Get(2)),
            (2, Commit),
            (3, Get(2)),
            (3, Get(1)),
            (3, Commit),
        ],
        readers: &[3],
        happened: |o| {
            // How far into the row's history each look went; who has seen a transaction goes on seeing it.
            let far = |n: usize| {
                o.value(3, n).map(|value| {
                    [10, 20, 11, 19, 12, 18].iter().position(|v| *v == value).expect("a value of the script")
                        / 2
                })
            };
            let looks: Vec<_> = (0..4).filter_map(far).collect();
            !looks.is_sorted()
        },
        may_happen: [NO, NO, NO],
    },
    Scenario {
        name: "PMP: predicate-many-preceders, read",
        script: &[(1, Scan(9, 30)), (2, Insert(3, 30)), (2, Commit), (1, Scan(9, 3)), (1, Commit)],
        readers: &[1],
        happened: |o| o.rows(1, 0) == Some(&[]) && o.rows(1, 1) == Some(&[(3, 30)]),
        may_happen: [YES, YES, NO],
    },
    Scenario {
        name: "PMP: predicate-many-preceders, write",
        script: &[(1, AddToAll(10)), (2, RemoveWhere(20)), (1, Commit), (2, Commit)],
        readers: &[],
        // Afterwards the row with 20 is row 1; row 2 was chosen by what it held before.
        happened: |o| o.committed(2) && o.rows(2, 0) == Some(&[(2, 20)]),
        may_happen: [YES, NO, NO],
    },
    Scenario {
        name: "P4: lost update",
        script: &[(1, Get(1)), (2, Get(1)), (1, Put(1, 11)), (2, Put(1, 11)), (1, Commit), (2, Commit)],
        readers: &[],
        happened: |o| o.both_committed() && o.value(1, 0) == Some(10) && o.value(2, 0) == Some(10),
        may_happen: [YES, NO, NO],
    },
    Scenario {
        name: "P4: lost update, with get_for_update",
        script: &[
            (1, GetForUpdate(1)),
            (2, GetForUpdate(1)),
            (1, Put(1, 11)),
            (1, Commit),
            (2, Put(1, 11)),
            (2, Commit),
        ],
        readers: &[],
        happened: |o| o.both_committed() && o.value(1, 0) == Some(10) && o.value(2, 0) == Some(10),
        may_happen: [NO, NO, NO],
    },
    Scenario {
        name: "G-single: read skew",
        script: &[
            (1, Get(1)),
            (2, Get(1)),
            (2, Get(2)),
            (2, Put(1, 12)),
            (2, Put(2, 18)),
            (2, Commit),
            (1, Get(2)),
            (1, Commit),
        ],
        readers: &[1],
        happened: |o| o.value(1, 0) == Some(10) && o.value(1, 1) == Some(18),
        may_happen: [YES, NO, NO],
    },
    Scenario {
        name: "G-single: read skew, predicate and change",
        script: &[(1, Scan(9, 5)), (2, Put(1, 12)), (2, Commit), (1, Scan(9, 3)), (1, Commit)],
        readers: &[1],
        happened: |o| o.rows(1, 0) == Some(&BEFORE) && o.rows(1, 1) == Some(&[(1, 12)]),
        may_happen: [YES, NO, NO],
    },
    Scenario {
        name: "G-single: read skew, predicate and insertion",
        script: &[
            (1, Scan(5, 1)),
            (2, Insert(3, 30)),
            (2, Insert(9, 3)),
            (2, Commit),
            (1, Get(9)),
            (1, Commit),
        ],
        readers: &[1],
        happened: |o| o.rows(1, 0) == Some(&BEFORE) && o.value(1, 1) == Some(3),
        may_happen: [YES, YES, NO],
    },
    Scenario {
        name: "G-single: read skew, write predicate",
        script: &[
            (1, Get(1)),
            (2, ALL),
            (2, Put(1, 12)),
            (2, Put(2, 18)),
            (2, Commit),
            (1, RemoveWhere(20)),
            (1, Commit),
        ],
        readers: &[],
        happened: |o| o.committed(1) && o.value(1, 0) == Some(10) && o.rows(1, 1) == Some(&[]),
        may_happen: [YES, NO, NO],
    },
    Scenario {
        name: "G2-item: write skew",
        script: &[
            (1, Get(1)),
            (1, Get(2)),
            (2, Get(1)),
            (2, Get(2)),
            (1, Put(1, 11)),
            (2, Put(2, 21)),
            (1, Commit),
            (2, Commit),
        ],
        readers: &[],
        happened: |o| o.both_committed() && o.value(1, 1) == Some(20) && o.value(2, 0) == Some(10),
        may_happen: [YES, NO, NO],
    },
    Scenario {
        name: "G2: write skew, predicates",
        script: &[
            (1, Scan(9, 3)),
            (2, Scan(9, 3)),
            (1, Insert(3, 30)),
            (2, Insert(4, 42)),
            (1, Commit),
            (2, Commit),
        ],
        readers: &[],
        happened: |o| o.both_committed() && o.rows(1, 0) == Some(&[]) && o.rows(2, 0) == Some(&[]),
        may_happen: [YES, YES, NO],
    },
    Scenario {
        name: "G2: two edges, with a reader between",
        script: &[(1, ALL), (2, Put(2, 25)), (2, Commit), (3, ALL), (3, Commit), (1, Put(1, 0)), (1, Commit)],
        readers: &[3],
        happened: |o| {
            o.committed(1) && o.rows(1, 0) == Some(&BEFORE) && o.rows(3, 0) == Some(&[(1, 10), (2, 25)])
        },
        may_happen: [YES, NO, NO],
    },
    Scenario {
        name: "G2: two edges, insertion, with a reader between",
        script: &[
            (1, ALL),
            (2, Insert(3, 30)),
            (2, Commit),
            (3, ALL),
            (3, Commit),
            (1, Put(1, 0)),
            (1, Commit),
        ],
        readers: &[3],
        happened: |o| {
            o.committed(1)
                && o.rows(1, 0) == Some(&BEFORE)
                && o.rows(3, 0) == Some(&[(1, 10), (2, 20), (3, 30)])
        },
        may_happen: [YES, YES, NO],
    },
];

/// What the table says of one scenario at one level.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cell {
    Prevented,
    Happens,
    /// Snapshots do not write.
    Pointless,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cell::Prevented => "prevented",
            Cell::Happens => "happens",
            Cell::Pointless => "–",
        })
    }
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Scenario {
    fn expected(&self, level: Level) -> Cell {
        let column = LEVELS.iter().position(|l| *l == level).expect("a level of the table");
        match self.may_happen.get(column) {
            Some(true) => Cell::Happens,
            Some(false) => Cell::Prevented,
            None if self.readers.is_empty() => Cell::Pointless,
            None => Cell::Prevented,
        }
    }

    /// Plays the script; a statement that has not answered for so long is taken to wait.
    fn play(&self, level: Level, seems_to_wait: Duration) -> Outcome {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("rows").unwrap();
        for (key, value) in BEFORE {
            table.put(&[key], &bytes(value)).unwrap();
        }
        let count = self.script.iter().map(|(session, _)| *session).max().expect("scripts say something");
        let seen = thread::scope(|scope| {
            let mut sessions: Vec<_> = (1..=count)
                .map(|session| {
                    let isolation = match level {
                        Level::Of(isolation) => Some(isolation),
                        Level::Snapshot if self.readers.contains(&session) => None,
                        Level::Snapshot => Some(Isolation::Serializable),
                    };
                    Session::start(scope, &db, &table, isolation)
                })
                .collect();
            for (step, (session, statement)) in self.script.iter().enumerate() {
                let never_waits = step == 0 || self.reads_wait_for_nobody(level, *session);
                let session = &mut sessions[session - 1];
                session.give(*statement);
                let answered = session.wait(if never_waits { HANGS } else { seems_to_wait });
                assert!(answered || !never_waits, "{}, {level:?}: {statement:?} waits", self.name);
            }
            for session in &mut sessions {
                assert!(session.wait(HANGS), "{}, {level:?}: a session waits for ever", self.name);
            }
            sessions.into_iter().map(|session| session.seen).collect()
        });
        let after = table.range(..).map(|row| row.map(|(k, v)| (k[0], number(&v)))).collect::<Result<_>>();
        assert!(db.transactions().is_empty(), "{}, {level:?}", self.name);
        Outcome { seen, after: after.unwrap() }
    }

    /// Snapshots, and readers of what is committed, wait for nobody.
    fn reads_wait_for_nobody(&self, level: Level, session: usize) -> bool {
        self.readers.contains(&session)
            && matches!(level, Level::Snapshot | Level::Of(Isolation::ReadCommitted))
    }

    fn observed(&self, level: Level) -> Cell {
        if level == Level::Snapshot && self.readers.is_empty() {
            return Cell::Pointless;
        }
        let plays = if self.expected(level) == Cell::Happens { PLAYS } else { 1 };
        let happens = (1..=plays).any(|play| (self.happened)(&self.play(level, SEEMS_TO_WAIT * play)));
        if happens { Cell::Happens } else { Cell::Prevented }
    }
}

/// Plays every scenario at one level, all at once: they mostly wait.
fn verify(level: Level) {
    let wrong: Vec<String> = thread::scope(|scope| {
        let playing: Vec<_> = SCENARIOS.iter().map(|s| (s, scope.spawn(move || s.observed(level)))).collect();
        playing
            .into_iter()
            .filter_map(|(scenario, observed)| {
                let (observed, expected) = (observed.join().unwrap(), scenario.expected(level));
                (observed != expected).then(|| format!("{}: {observed}, not {expected}", scenario.name))
            })
            .collect()
    });
    assert!(wrong.is_empty(), "{level:?}: {wrong:#?}");
}

#[test]
fn read_committed() {
    verify(Level::Of(Isolation::ReadCommitted));
}

#[test]
fn repeatable_read() {
    verify(Level::Of(Isolation::RepeatableRead));
}

#[test]
fn serializable() {
    verify(Level::Of(Isolation::Serializable));
}

#[test]
fn snapshots() {
    verify(Level::Snapshot);
}

/// The published table is the tested one.
#[test]
fn the_documented_table_is_the_tested_one() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/isolation.md");
    let page = std::fs::read_to_string(page).expect("docs/isolation.md is part of the repository");
    let documented: Vec<&str> =
        page.lines().filter(|line| line.ends_with(" |") && line.contains("prevented")).collect();
    let tested: Vec<String> = SCENARIOS
        .iter()
        .map(|scenario| {
            let cells: String =
                LEVELS.iter().map(|level| format!(" {} |", scenario.expected(*level))).collect();
            format!("| {} |{cells}", scenario.name)
        })
        .collect();
    assert_eq!(documented, tested, "the table should be\n{}", tested.join("\n"));
}
