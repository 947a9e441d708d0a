//! One database through many lives: several transactions at a time, some prepared, tables that come and go, snapshots, full
//! disks, failed syncs, and an end by a close, a killed process or a power loss, at any I/O event, of the opening too. Now and
//! then an opening rebuilds the directory.
//!
//! One thread does everything, so that the commits have one order, and a model knows what there was after each. What the
//! next life finds must be one of these states, none before the last that was promised.
//!
//! `FORESHORE_SEED` chooses the seed, `FORESHORE_ROUNDS` how many databases (default: enough for CI).

mod common;
mod life;

use common::{Rng, env, in_parallel};
use foreshore::{Database, Error};
use foreshore_io::{
    SimDisk,
    sim::{Crash, EventKind},
};
use life::{End, History, Life, State, TABLES, difference, look, options};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Many or few, by seed: few meet often, many do not fit into memory.
const KEYS: [usize; 2] = [60, 500];
/// The sizes of their leaves, by seed.
const LEAF_BYTES: [[usize; TABLES.len()]; 2] = [[4096, 4096, 4096], [4096, 8192, 16384]];
const LIVES: usize = 8;
const OPS: [usize; 2] = [120, 500];

/// Finds out which of the states survived.
fn settle(db: &Database, history: &mut History, least: usize, what: &str) {
    let report = db.check().unwrap_or_else(|e| panic!("{what}: {e}"));
    let found = look(db);
    let fits =
        |state: &State| state.tables == found.tables && state.prepared.keys().eq(found.prepared.keys());
    let Some(survivor) = history.states[least..].iter().rev().find(|state| fits(state)) else {
        let near = history.states[least..].iter().map(|state| {
            let tables = state.tables.iter().zip(&found.tables).map(|(state, found)| match (state, found) {
                (Some(state), Some(found)) => difference(found, state),
                (state, found) => format!("exists: {} for {}", found.is_some(), state.is_some()),
            });
            format!("{}: {:?}", state.describe(), tables.collect::<Vec<_>>())
        });
        panic!(
            "{what}: found {}\nwhich is none of\n{}",
            found.describe(),
            near.collect::<Vec<_>>().join("\n")
        );
    };
    if survivor.prepared.is_empty() {
        assert!(report.tables.iter().all(|table| table.large_stray == 0), "{what}: {report:?}");
    }
    *history = History { states: vec![survivor.clone()], acknowledged: 0, durable: 0 };
}

fn lives(seed: u64) {
    let mut rng = Rng(seed);
    let mut disk = SimDisk::new(seed);
    let mut history = History { states: vec![State::default()], acknowledged: 0, durable: 0 };
    let mut gids = 0;
    let mut kind = Crash::PowerLoss;
    for life in 0..LIVES {
        let what = format!("FORESHORE_SEED={seed} FORESHORE_ROUNDS=1, life {life}");
        let least = match kind {
            Crash::PowerLoss => history.durable,
            Crash::ProcessKill => history.acknowledged,
        };
        let Some(db) = open(&mut disk, &mut rng, &mut history, least, &what) else { return };
        kind = [Crash::PowerLoss, Crash::ProcessKill][rng.below(2)];
        if rng.below(4) > 0 {
            disk.crash_at(disk.events() + 1 + rng.below(600) as u64);
        }
        disk.start_trace();
        let tables = TABLES.map(|name| {
            let exists = db.tables().unwrap().iter().any(|known| known == name);
            exists.then(|| db.byte_table(name).unwrap())
        });
        let mut life = Life {
            rng: &mut rng,
            disk: &disk,
            db: &db,
            tables,
            history: &mut history,
            open: Vec::new(),
            snapshots: Vec::new(),
            gids: &mut gids,
            in_use: BTreeMap::new(),
            keys: KEYS[seed as usize % 2],
            leaf_bytes: LEAF_BYTES[seed as usize / 2 % 2],
            log: vec![what.clone()],
            faults: Vec::new(),
        };
        let end = (0..OPS[seed as usize % 2]).try_for_each(|_| life.step());
        let Life { open, snapshots, tables, log, faults, .. } = life;
        if env("FORESHORE_SHOW", 0) > 0 {
            println!("{}\n{end:?} {kind:?}", log.join("\n"));
        }
        if matches!(end, Err(End::Stuck)) {
            println!("{what}: stuck after {}", log.last().unwrap());
        }
        if rng.below(3) == 0 && end.is_ok() {
            disk.set_capacity(u64::MAX);
            drop((open, snapshots, tables));
            let closed = db.close();
            if !disk.is_crashed() && closed.is_ok() {
                history.durable = history.states.len() - 1;
                history.acknowledged = history.durable;
            }
            // A name whose sync failed is beyond what can be made good.
            if failed_a_name(&disk, &faults) {
                return;
            }
            disk = disk.after_crash(kind, rng.next());
        } else {
            let next = disk.after_crash(kind, rng.next());
            drop((open, snapshots, tables));
            drop(db);
            if failed_a_name(&disk, &faults) {
                return;
            }
            disk = next;
        }
    }
}

fn failed_a_name(disk: &SimDisk, faults: &[u64]) -> bool {
    disk.trace().iter().any(|event| faults.contains(&event.number) && event.kind == EventKind::SyncDir)
}

/// Opens the database, which may crash too, again and again; looks at what there is.
fn open(
    disk: &mut SimDisk,
    rng: &mut Rng,
    history: &mut History,
    mut least: usize,
    what: &str,
) -> Option<Database> {
    loop {
        let crashes = rng.below(3) == 0;
        disk.crash_at(if crashes { disk.events() + 1 + rng.below(60) as u64 } else { u64::MAX });
        let rebuild = rng.below(8) == 0; // with a whole directory as good as without
        match options().rebuild(rebuild).open_on(Arc::new(disk.clone())) {
            Err(Error::Full { .. }) if !disk.is_crashed() => disk.set_capacity(u64::MAX),
            Err(e) if !disk.is_crashed() => panic!("{what}: opening: {e}"),
            Err(_) => {
                *disk = disk.after_crash([Crash::PowerLoss, Crash::ProcessKill][rng.below(2)], rng.next());
                least = history.durable;
            }
            Ok(db) if crashes => {
                // What was begun at the opening may go on, and the crash may come while we look.
                drop(db);
                *disk = disk.after_crash([Crash::PowerLoss, Crash::ProcessKill][rng.below(2)], rng.next());
                disk.set_capacity(u64::MAX);
            }
            Ok(db) => {
                disk.set_capacity(u64::MAX);
                settle(&db, history, least, what);
                return Some(db);
            }
        }
    }
}

#[test]
fn one_life_goes_on_where_the_last_one_ended() {
    let seed = env("FORESHORE_SEED", 1);
    let rounds = env("FORESHORE_ROUNDS", 40);
    in_parallel(&(seed..seed + rounds).collect::<Vec<_>>(), |seed| lives(*seed));
}
