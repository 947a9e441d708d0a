//! Crashes at every event, in every life: nothing acknowledged is lost, nothing stale comes back.

use super::super::*;
use super::SMALL;
use super::world::{Work, World};
use crate::chance::{Random, seeds};
use foreshore_io::SimDisk;
use foreshore_io::sim::Crash::{self, PowerLoss, ProcessKill};
use std::time::Instant;

const FEW: Work = Work { threads: 2, records: 30, body_bytes_max: 300, truncate: false };
const LARGE: Work = Work { threads: 3, records: 40, body_bytes_max: 6000, truncate: true };

/// A life that crashes at its event `event`. `false` if it ended before.
fn live_until(world: &mut World, event: u64, work: Work) -> bool {
    world.disk.crash_at(event);
    let errors = world.live(work);
    assert!(world.disk.is_crashed() || errors.is_empty(), "errors without a crash: {errors:?}");
    world.disk.is_crashed()
}

/// Crash at every event of the first life, at random ones of the second (its recovery included) and the third.
fn crash_everywhere(seed: u64, work: Work, crash: Crash) {
    let mut random = Random(seed);
    for event in 0.. {
        let mut world = World::new(random.next());
        if !live_until(&mut world, event, work) {
            assert!(event > 5, "the work makes events");
            return;
        }
        world.crash(crash);
        for _ in 0..2 {
            let crash = if random.below(2) == 0 { ProcessKill } else { PowerLoss };
            live_until(&mut world, random.below(25), work);
            world.crash(crash);
        }
        let errors = world.live(FEW);
        assert!(errors.is_empty(), "seed {seed}, event {event}, {crash:?}: {errors:?}");
        world.crash(PowerLoss);
        world.recover().unwrap();
    }
}

/// `Sync` survives a loss of power. Catches `log_ack_before_sync`.
#[test]
fn power_loss_at_every_event() {
    seeds(3).into_iter().for_each(|seed| crash_everywhere(seed, FEW, PowerLoss));
}

/// Everything acknowledged survives the death of the process. Catches `log_release_cut_record`.
#[test]
fn kill_at_every_event() {
    seeds(3).into_iter().for_each(|seed| crash_everywhere(seed, FEW, ProcessKill));
}

/// A kill while the first files are made, and the power goes at every event of the next life: what the dead process
/// left unsynced, contents and names, was made durable before anything was built on it. Catches `log_name_not_synced`.
#[test]
fn power_loss_in_the_life_after_a_kill() {
    for seed in seeds(12) {
        for (kill, loss) in (5..12).flat_map(|kill| (0..12).map(move |loss| (kill, loss))) {
            let mut world = World::new(seed << 16 | kill << 8 | loss);
            live_until(&mut world, kill, FEW);
            world.crash(ProcessKill);
            live_until(&mut world, loss, FEW);
            world.crash(PowerLoss);
            let errors = world.live(FEW);
            assert!(errors.is_empty(), "seed {seed}, kill at {kill}, loss at {loss}: {errors:?}");
        }
    }
}

/// The same with records that span blocks, flights cut inside records, laps of the ring and recycled segments.
#[test]
fn crash_at_every_event_of_large_work() {
    for seed in seeds(1) {
        crash_everywhere(seed, LARGE, PowerLoss);
        crash_everywhere(seed, LARGE, ProcessKill);
    }
}

/// All of the above with ever new seeds, from `FORESHORE_SEED` on, for `FORESHORE_SECONDS`.
#[test]
#[ignore = "as long as you like"]
fn torture() {
    let setting = |name: &str, default| std::env::var(name).map_or(default, |value| value.parse().unwrap());
    let (begin, seconds) = (Instant::now(), setting("FORESHORE_SECONDS", 60));
    for seed in setting("FORESHORE_SEED", 1000).. {
        if begin.elapsed().as_secs() >= seconds {
            println!("next seed: {seed}");
            return;
        }
        println!("seed {seed}");
        for work in [FEW, LARGE] {
            crash_everywhere(seed, work, PowerLoss);
            crash_everywhere(seed, work, ProcessKill);
        }
    }
}

fn append(log: &Log, body: &[u8]) -> Lsn {
    log.room().unwrap();
    let reservation = log.reserve(body.len());
    let end = reservation.end();
    log.fill(reservation, body);
    end
}

/// A block that never reached the disk, a later one that did, an end in between, and new records that stop where the
/// stale block begins: its records do not come back. Catches `log_same_salt`.
#[test]
fn an_append_after_a_torn_tail_resurrects_nothing() {
    let disk = SimDisk::new(1);
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let first = Incarnation::after(Lsn::ZERO);
    let log = Log::open(vfs.clone(), SMALL, first).unwrap();
    // The second flight's pad is too short to tell that the first one was durable: only so are they torn together.
    let two = [&b"\x01two"[..], &[0; 4076]].concat();
    for body in [&b"\x01one"[..], &two] {
        let end = append(&log, body);
        log.commit(end, Durability::Sync).unwrap();
    }
    drop(log);
    disk.corrupt("wal-0000000000000000", |bytes| bytes[..4096].fill(0));
    disk.corrupt("ring", |bytes| bytes.fill(0));

    let end = repair_tail(&vfs, SMALL, &[first], Lsn::ZERO).unwrap();
    assert_eq!(end, Lsn::ZERO);
    let incarnations = [first, Incarnation::after(end)];
    let log = Log::open(vfs.clone(), SMALL, incarnations[1]).unwrap();
    let end = append(&log, b"\x01new");
    log.commit(end, Durability::Sync).unwrap();
    drop(log);
    let mut reader = LogReader::open(&vfs, SMALL, &incarnations, Lsn::ZERO).unwrap();
    assert_eq!(reader.next().unwrap().unwrap().body, b"\x01new");
    assert_eq!(reader.next().unwrap(), None);
}

/// A record in the ring alone survives the process, and from its repair on also the machine.
#[test]
fn what_only_the_ring_holds_is_repaired() {
    let disk = SimDisk::new(1);
    let first = Incarnation::after(Lsn::ZERO);
    let log = Log::open(Arc::new(disk.clone()), SMALL, first).unwrap();
    let end = append(&log, b"\x01relaxed");
    log.commit(end, Durability::Relaxed).unwrap();

    let killed = disk.after_crash(ProcessKill, 1);
    let vfs: Arc<dyn Vfs> = Arc::new(killed.clone());
    assert_eq!(repair_tail(&vfs, SMALL, &[first], Lsn::ZERO).unwrap(), end);
    let vfs: Arc<dyn Vfs> = Arc::new(killed.after_crash(PowerLoss, 1));
    assert_eq!(repair_tail(&vfs, SMALL, &[first], Lsn::ZERO).unwrap(), end);
}

/// A name that the dead process has left unsynced is durable, too, once the end of the log is found.
#[test]
fn a_repair_makes_the_names_of_segments_durable() {
    for seed in 0..20 {
        let disk = SimDisk::new(seed);
        let first = Incarnation::after(Lsn::ZERO);
        let log = Log::open(Arc::new(disk.clone()), SMALL, first).unwrap();
        let end = append(&log, b"\x01relaxed");
        log.commit(end, Durability::Relaxed).unwrap();

        let killed = disk.after_crash(ProcessKill, seed);
        let segment = segments::name(0);
        killed.rename(&segment, "unnamed").unwrap();
        killed.sync_dir().unwrap();
        killed.rename("unnamed", &segment).unwrap();
        let vfs: Arc<dyn Vfs> = Arc::new(killed.clone());
        assert_eq!(repair_tail(&vfs, SMALL, &[first], Lsn::ZERO).unwrap(), end);
        let names = killed.after_crash(PowerLoss, seed).names();
        assert!(names.contains(&segment), "seed {seed}: {names:?}");
    }
}

/// The system writes the ring's blocks when it likes: a piece of long ago has a repair keep all from there on, which it lets go of but
/// for the last ring of bytes. Those are not in the segments yet.
#[test]
fn a_long_repair_keeps_the_last_ring_of_bytes() {
    let disk = SimDisk::new(1);
    let first = Incarnation::after(Lsn::ZERO);
    let log = Log::open(Arc::new(disk.clone()), SMALL, first).unwrap();
    append(&log, &[1; 3000]);
    let old = log.reserved();
    let two_rings = Lsn(2 * SMALL.ring());
    while log.reserved() < Lsn(two_rings.0 - 2 * options::BLOCK) {
        log.commit(append(&log, &[1; 1000]), Durability::Sync).unwrap();
    }
    while log.reserved() <= two_rings {
        log.commit(append(&log, &[1; 1000]), Durability::Relaxed).unwrap();
    }
    let end = log.reserved();
    assert!(end < old + 2 * SMALL.ring(), "the old piece's place is free");

    let killed = disk.after_crash(ProcessKill, 1);
    let mut header = [0; HEADER_BYTES];
    let place = old.0 as usize..old.0 as usize + HEADER_BYTES;
    killed.corrupt(&segments::name(0), |bytes| header.copy_from_slice(&bytes[place.clone()]));
    killed.corrupt("ring", |bytes| bytes[place].copy_from_slice(&header));
    let vfs: Arc<dyn Vfs> = Arc::new(killed.clone());
    assert_eq!(repair_tail(&vfs, SMALL, &[first], Lsn::ZERO).unwrap(), end);
    killed.corrupt("ring", |bytes| bytes.fill(0));
    assert_eq!(repair_tail(&vfs, SMALL, &[first], Lsn::ZERO).unwrap(), end);
}

/// Nor does a ring alone make a log: where the record at which the reading begins shares its block with others, the segments
/// must hold those.
#[test]
fn a_ring_whose_segments_are_gone_is_damage() {
    let disk = SimDisk::new(1);
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let first = Incarnation::after(Lsn::ZERO);
    let log = Log::open(vfs.clone(), SMALL, first).unwrap();
    // Nobody asks for room, which would send them to the segments.
    let [from, _] = [&b"\x01not read"[..], b"\x01read"].map(|body| {
        let reservation = log.reserve(body.len());
        let end = reservation.end();
        log.fill(reservation, body);
        end
    });
    let killed = disk.after_crash(ProcessKill, 1);
    killed
        .names()
        .iter()
        .filter(|name| name.starts_with("wal-"))
        .for_each(|name| killed.remove(name).unwrap());
    let vfs: Arc<dyn Vfs> = Arc::new(killed);
    let refused = repair_tail(&vfs, SMALL, &[first], from).unwrap_err();
    assert!(matches!(&refused, Error::Corrupt { what, .. } if what.contains("wal-")), "{refused}");
}

/// A place that was used a lap ago is not complete before it is filled again, nor is anything behind it. Catches
/// `log_ring_not_zeroed`.
#[test]
fn a_reserved_place_is_incomplete_until_filled() {
    let log = Log::open(Arc::new(SimDisk::new(1)), SMALL, Incarnation::after(Lsn::ZERO)).unwrap();
    for i in 0..5000 {
        log.room().unwrap();
        let first = log.reserve(56);
        let end = append(&log, &[1; 56]);
        assert!(log.shared.ring.advance(end) <= first.start(), "record {i}");
        log.fill(first, &[1; 56]);
        log.commit(end, if i % 8 == 0 { Durability::Sync } else { Durability::Buffered }).unwrap();
    }
    log.close().unwrap();
}
