//! What there is, as a model: all states since an opening, and how one is compared with a database.

use foreshore::Database;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub const TABLES: [&str; 3] = ["a", "b", "c"];

pub type Value = Arc<Vec<u8>>;
pub type Rows = BTreeMap<Vec<u8>, Value>;
/// What a transaction has written: table and key, and the value, if it was not removed.
pub type Written = BTreeMap<(usize, Vec<u8>), Option<Value>>;

/// What there is.
#[derive(Clone, Default, PartialEq)]
pub struct State {
    pub tables: [Option<Rows>; TABLES.len()],
    pub prepared: BTreeMap<Vec<u8>, Written>,
}

impl State {
    pub fn apply(&mut self, written: &Written) {
        for ((table, key), value) in written {
            let rows = self.tables[*table].as_mut().expect("a table in use is not dropped");
            match value {
                Some(value) => drop(rows.insert(key.clone(), value.clone())),
                None => drop(rows.remove(key)),
            }
        }
    }

    pub fn describe(&self) -> String {
        let tables = self.tables.iter().map(|rows| rows.as_ref().map(|rows| rows.len()));
        format!(
            "rows {:?}, prepared {:?}",
            tables.collect::<Vec<_>>(),
            self.prepared.keys().map(|gid| gid.escape_ascii().to_string()).collect::<Vec<_>>()
        )
    }
}

/// States since the last opening, in their order, and how many of them at least must survive.
pub struct History {
    pub states: Vec<State>,
    pub acknowledged: usize,
    pub durable: usize,
}

impl History {
    pub fn now(&self) -> &State {
        self.states.last().unwrap()
    }

    /// Something is going to be done that makes this of what there is.
    pub fn begin(&mut self, change: impl FnOnce(&mut State)) {
        let mut next = self.now().clone();
        change(&mut next);
        self.states.push(next);
    }
}

pub fn difference(found: &Rows, expected: &Rows) -> String {
    let keys: BTreeSet<_> = found.keys().chain(expected.keys()).collect();
    let show = |value: Option<&Value>| {
        value.map_or("none".into(), |v| format!("{} bytes {:?}", v.len(), &v[..v.len().min(4)]))
    };
    let wrong = keys.into_iter().filter(|key| found.get(*key) != expected.get(*key));
    wrong
        .map(|key| {
            format!("{}: {} for {}; ", key.escape_ascii(), show(found.get(key)), show(expected.get(key)))
        })
        .collect()
}

pub fn look(db: &Database) -> State {
    let names = db.tables().unwrap();
    let rows = |name: &&str| {
        names.iter().any(|known| known == name).then(|| {
            let rows = db
                .byte_table(name)
                .unwrap()
                .range(..)
                .map(|row| row.map(|(key, value)| (key, Arc::new(value))));
            rows.collect::<Result<Rows, _>>().unwrap()
        })
    };
    let tables = TABLES.each_ref().map(rows);
    State { tables, prepared: db.recover().into_iter().map(|gid| (gid, Written::new())).collect() }
}
