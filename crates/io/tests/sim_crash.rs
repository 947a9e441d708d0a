//! What a simulated crash may take, does take, and never takes.
//!
//! Statistics over seeds: each outcome that the model allows must be drawn, each that it forbids never.

use foreshore_base::sync::Ordering::Relaxed;
use foreshore_io::sim::{Crash, EventKind};
use foreshore_io::{Access, File, SimDisk, Vfs};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;

const SEEDS: std::ops::Range<u64> = 0..400;
const SECTOR: usize = 512;

fn open(disk: &SimDisk, name: &str) -> Arc<dyn File> {
    disk.open(name, Access::Buffered, true).expect("a file")
}

/// A file whose content, length and name are durable.
fn durable(disk: &SimDisk, name: &str, content: &[u8]) -> Arc<dyn File> {
    let file = open(disk, name);
    file.write_at(content, 0).unwrap();
    file.sync().unwrap();
    disk.sync_dir().unwrap();
    file
}

fn content(disk: &SimDisk, name: &str) -> Option<Vec<u8>> {
    let file = disk.open(name, Access::Buffered, false).ok()?;
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    Some(bytes)
}

/// The contents of `name` over all seeds.
fn outcomes(disk: &SimDisk, crash: Crash, name: &str) -> BTreeSet<Option<Vec<u8>>> {
    SEEDS.map(|seed| content(&disk.after_crash(crash, seed), name)).collect()
}

/// Each sector's first byte; every sector must be uniform, or it was torn inside.
fn sectors(bytes: &[u8]) -> Vec<u8> {
    let first_of = |sector: &[u8]| {
        assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector torn inside");
        sector[0]
    };
    bytes.chunks(SECTOR).map(first_of).collect()
}

#[test]
fn what_was_synced_survives_every_crash() {
    let disk = SimDisk::new(1);
    let bytes: Vec<u8> = (0..20_000).map(|i| i as u8).collect();
    let file = durable(&disk, "a", &bytes);
    file.write_at(b"tail", 30_000).unwrap();
    file.sync().unwrap();
    let mut expected = bytes;
    expected.resize(30_000, 0);
    expected.extend(b"tail");
    for crash in [Crash::ProcessKill, Crash::PowerLoss] {
        assert_eq!(outcomes(&disk, crash, "a"), BTreeSet::from([Some(expected.clone())]));
    }
}

#[test]
fn unsynced_sectors_vanish_survive_and_tear() {
    let disk = SimDisk::new(1);
    durable(&disk, "a", &[1; 16 * SECTOR]).write_at(&[2; 16 * SECTOR], 0).unwrap();
    let seen = outcomes(&disk, Crash::PowerLoss, "a");
    assert!(seen.contains(&Some(vec![1; 16 * SECTOR])), "all lost");
    assert!(seen.contains(&Some(vec![2; 16 * SECTOR])), "all kept");
    assert!(seen.len() > 100, "only {} mixtures", seen.len());
    let seen: Vec<_> = seen.into_iter().map(|bytes| sectors(&bytes.unwrap())).collect();
    for sector in 0..16 {
        let values: BTreeSet<u8> = seen.iter().map(|sectors| sectors[sector]).collect();
        assert_eq!(values, BTreeSet::from([1, 2]));
    }
}

#[test]
fn a_later_write_may_survive_without_an_earlier_one() {
    let disk = SimDisk::new(1);
    let first = durable(&disk, "a", &[0; 2 * SECTOR]);
    let second = durable(&disk, "b", &[0; SECTOR]);
    first.write_at(&[1; SECTOR], 0).unwrap();
    first.write_at(&[2; SECTOR], SECTOR as u64).unwrap();
    second.write_at(&[3; SECTOR], 0).unwrap();
    let within: BTreeSet<_> =
        outcomes(&disk, Crash::PowerLoss, "a").into_iter().map(|bytes| sectors(&bytes.unwrap())).collect();
    assert_eq!(within, BTreeSet::from([vec![0, 0], vec![0, 2], vec![1, 0], vec![1, 2]]));
    let across = |seed| {
        let next = disk.after_crash(Crash::PowerLoss, seed);
        (content(&next, "a").unwrap()[0], content(&next, "b").unwrap()[0])
    };
    let across: BTreeSet<_> = SEEDS.map(across).collect();
    assert_eq!(across, BTreeSet::from([(0, 0), (0, 3), (1, 0), (1, 3)]));
}

#[test]
fn any_version_of_a_sector_may_survive() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "a", &[0; SECTOR]);
    for version in 1..4 {
        file.write_at(&[version; SECTOR], 0).unwrap();
    }
    let seen: BTreeSet<_> =
        outcomes(&disk, Crash::PowerLoss, "a").into_iter().map(|bytes| bytes.unwrap()[0]).collect();
    assert_eq!(seen, BTreeSet::from([0, 1, 2, 3]));
}

#[test]
fn unsynced_growth_comes_back_whole_shorter_or_not_at_all() {
    let disk = SimDisk::new(1);
    durable(&disk, "a", &[1; SECTOR]).write_at(&[2; 8 * SECTOR], SECTOR as u64).unwrap();
    let mut lengths = BTreeSet::new();
    let mut zeros_inside = false;
    for bytes in outcomes(&disk, Crash::PowerLoss, "a").into_iter().flatten() {
        assert_eq!(&bytes[..SECTOR], [1; SECTOR]);
        let grown = sectors(&bytes[SECTOR..]);
        assert!(grown.iter().all(|&value| value == 0 || value == 2));
        zeros_inside |= grown.contains(&0);
        lengths.insert(bytes.len());
    }
    assert_eq!(lengths, (1..=9).map(|sectors| sectors * SECTOR).collect());
    assert!(zeros_inside, "a length without its data");
}

#[test]
fn an_unsynced_cut_happens_or_not_and_never_shows_foreign_bytes() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "a", &[1; 8 * SECTOR]);
    file.set_len(0).unwrap();
    file.allocate(8 * SECTOR as u64).unwrap();
    let seen = outcomes(&disk, Crash::PowerLoss, "a");
    assert!(seen.contains(&Some(vec![])) && seen.contains(&Some(vec![1; 8 * SECTOR])));
    assert!(seen.contains(&Some(vec![0; 8 * SECTOR])), "cut and allocated");
    for bytes in seen.into_iter().flatten() {
        let values: BTreeSet<u8> = bytes.iter().copied().collect();
        assert!(values.len() <= 1, "a cut is whole: {values:?}");
    }
    file.sync().unwrap();
    assert_eq!(outcomes(&disk, Crash::PowerLoss, "a"), BTreeSet::from([Some(vec![0; 8 * SECTOR])]));
}

#[test]
fn a_name_without_directory_sync_may_vanish_though_its_file_was_synced() {
    let disk = SimDisk::new(1);
    let file = open(&disk, "a");
    file.write_at(b"synced", 0).unwrap();
    file.sync().unwrap();
    let seen = outcomes(&disk, Crash::PowerLoss, "a");
    assert_eq!(seen, BTreeSet::from([None, Some(b"synced".to_vec())]));
    disk.sync_dir().unwrap();
    assert_eq!(outcomes(&disk, Crash::PowerLoss, "a"), BTreeSet::from([Some(b"synced".to_vec())]));
}

#[test]
fn a_removal_without_directory_sync_may_come_back() {
    let disk = SimDisk::new(1);
    durable(&disk, "a", b"content");
    disk.remove("a").unwrap();
    let seen = outcomes(&disk, Crash::PowerLoss, "a");
    assert_eq!(seen, BTreeSet::from([None, Some(b"content".to_vec())]));
    disk.sync_dir().unwrap();
    assert_eq!(outcomes(&disk, Crash::PowerLoss, "a"), BTreeSet::from([None]));
}

#[test]
fn a_rename_is_atomic() {
    let disk = SimDisk::new(1);
    durable(&disk, "to", b"old");
    durable(&disk, "from", b"new");
    disk.rename("from", "to").unwrap();
    let state = |seed| {
        let next = disk.after_crash(Crash::PowerLoss, seed);
        (content(&next, "from"), content(&next, "to"))
    };
    let before = (Some(b"new".to_vec()), Some(b"old".to_vec()));
    let after = (None, Some(b"new".to_vec()));
    assert_eq!(SEEDS.map(state).collect::<BTreeSet<_>>(), BTreeSet::from([before, after.clone()]));
    disk.sync_dir().unwrap();
    assert_eq!(SEEDS.map(state).collect::<BTreeSet<_>>(), BTreeSet::from([after]));
}

/// Changes of one name survive in order; other names go their own way.
#[test]
fn a_rename_never_survives_the_creation_it_needs() {
    let disk = SimDisk::new(1);
    let file = open(&disk, "tmp");
    file.write_at(b"x", 0).unwrap();
    file.sync().unwrap();
    disk.rename("tmp", "final").unwrap();
    open(&disk, "other");
    let seen: BTreeSet<_> = SEEDS.map(|seed| disk.after_crash(Crash::PowerLoss, seed).names()).collect();
    let expected = [&[][..], &["tmp"], &["final"], &["other"], &["other", "tmp"], &["final", "other"]];
    let expected = expected.iter().map(|names| names.iter().map(|name| name.to_string()).collect());
    assert_eq!(seen, expected.collect());
}

#[test]
fn a_killed_process_loses_nothing_that_returned() {
    let disk = SimDisk::new(1);
    let memory = disk.shared_memory("ring", 4096).unwrap();
    let file = open(&disk, "a");
    for round in 0..10u64 {
        file.write_at(&[round as u8; 700], round * 700).unwrap();
        memory.words()[round as usize].store(round, Relaxed);
    }
    disk.crash();
    memory.words()[0].store(99, Relaxed); // by a thread that does not know it is dead
    for seed in SEEDS {
        let next = disk.after_crash(Crash::ProcessKill, seed);
        let bytes = content(&next, "a").expect("the file");
        assert!(bytes.chunks(700).enumerate().all(|(round, chunk)| chunk == [round as u8; 700]));
        let memory = next.shared_memory("ring", 4096).unwrap();
        assert!((0..10).all(|round| memory.words()[round].load(Relaxed) == round as u64), "seed {seed}");
    }
}

/// Threads that store without any call to the disk: what they acknowledged before the crash was seen is there after it.
#[test]
fn an_acknowledgement_before_the_crash_stands_on_memory_that_survives() {
    for seed in 0..20 {
        let disk = SimDisk::new(seed);
        let memory = disk.shared_memory("ring", 64 << 10).unwrap();
        let file = open(&disk, "a");
        disk.crash_at(disk.events() + 20 * seed);
        let acknowledged: Vec<u64> = thread::scope(|scope| {
            let writers: Vec<_> = (0..2usize)
                .map(|writer| {
                    let (disk, word) = (&disk, &memory.words()[writer * 8000]);
                    let until_crash = move || {
                        (1..).find(|&value| {
                            word.store(value, Relaxed);
                            disk.is_crashed()
                        })
                    };
                    scope.spawn(move || until_crash().expect("a crash") - 1)
                })
                .collect();
            while file.write_at(b"x", 0).is_ok() {}
            writers.into_iter().map(|writer| writer.join().expect("a count")).collect()
        });
        let next = disk.after_crash(Crash::ProcessKill, seed).shared_memory("ring", 64 << 10).unwrap();
        for (writer, acknowledged) in acknowledged.into_iter().enumerate() {
            let survived = next.words()[writer * 8000].load(Relaxed);
            assert!(survived >= acknowledged, "seed {seed}: {survived} survived of {acknowledged}");
        }
    }
}

/// The kernel's cache outlives the process, and is no disk.
#[test]
fn a_power_loss_after_a_kill_takes_what_was_never_synced() {
    let disk = SimDisk::new(1);
    durable(&disk, "a", &[1; SECTOR]).write_at(&[2; SECTOR], 0).unwrap();
    let killed = disk.after_crash(Crash::ProcessKill, 1);
    assert_eq!(content(&killed, "a"), Some(vec![2; SECTOR]));
    let seen = outcomes(&killed, Crash::PowerLoss, "a");
    assert_eq!(seen, BTreeSet::from([Some(vec![1; SECTOR]), Some(vec![2; SECTOR])]));
    open(&killed, "a").sync().unwrap();
    assert_eq!(outcomes(&killed, Crash::PowerLoss, "a"), BTreeSet::from([Some(vec![2; SECTOR])]));
}

#[test]
fn the_survivors_of_a_power_loss_are_durable() {
    let disk = SimDisk::new(1);
    durable(&disk, "a", &[1; 8 * SECTOR]).write_at(&[2; 16 * SECTOR], 0).unwrap();
    open(&disk, "b");
    for seed in SEEDS {
        let next = disk.after_crash(Crash::PowerLoss, seed);
        let again = next.after_crash(Crash::PowerLoss, seed + 1);
        assert_eq!(next.names(), again.names(), "seed {seed}");
        assert_eq!(content(&next, "a"), content(&again, "a"), "seed {seed}");
    }
}

#[test]
fn shared_memory_survives_a_power_loss_in_parts() {
    let disk = SimDisk::new(1);
    let memory = disk.shared_memory("ring", 4 * 4096).unwrap();
    disk.sync_dir().unwrap();
    memory.words().iter().for_each(|word| word.store(u64::from_ne_bytes([7; 8]), Relaxed));
    let mut seen = BTreeSet::new();
    for seed in SEEDS {
        let next = disk.after_crash(Crash::PowerLoss, seed);
        let memory = next.shared_memory("ring", 4 * 4096).unwrap();
        let bytes: Vec<u8> = memory.words().iter().flat_map(|w| w.load(Relaxed).to_ne_bytes()).collect();
        seen.insert(sectors(&bytes));
    }
    assert!(seen.contains(&vec![0; 32]) && seen.contains(&vec![7; 32]) && seen.len() > 100);
    assert!(seen.iter().flatten().all(|&value| value == 0 || value == 7));
}

/// Never a file of a wrong size, which would keep the database from opening.
#[test]
fn shared_memory_is_created_whole_or_not_at_all() {
    let events = {
        let disk = SimDisk::new(1);
        disk.shared_memory("ring", 4 * 4096).unwrap();
        disk.sync_dir().unwrap();
        disk.events()
    };
    for event in 0..events {
        let disk = SimDisk::new(1);
        disk.crash_at(event);
        let _crashed = disk.shared_memory("ring", 4 * 4096).map(|_| disk.sync_dir());
        for (crash, seed) in SEEDS.flat_map(|seed| [(Crash::ProcessKill, seed), (Crash::PowerLoss, seed)]) {
            let next = disk.after_crash(crash, seed);
            let memory = next.shared_memory("ring", 4 * 4096);
            let memory =
                memory.unwrap_or_else(|error| panic!("event {event}, {crash:?}, seed {seed}: {error}"));
            assert!(memory.words().iter().all(|word| word.load(Relaxed) == 0));
        }
    }
}

#[test]
fn a_crash_stops_every_call_of_its_incarnation() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "a", b"content");
    let guard = disk.lock("LOCK").unwrap();
    disk.crash_at(disk.events());
    assert!(!disk.is_crashed());
    file.write_at(b"x", 0).expect_err("the event of the crash");
    assert!(disk.is_crashed());
    let events = disk.events();
    let dead: [std::io::Result<()>; 10] = [
        file.read_at(&mut [0], 0),
        file.write_at(b"x", 0),
        file.sync(),
        file.len().map(drop),
        file.set_len(0),
        file.allocate(1),
        disk.list().map(drop),
        disk.sync_dir(),
        disk.open("a", Access::Buffered, false).map(drop),
        disk.shared_memory("ring", 4096).map(drop),
    ];
    for (call, result) in dead.into_iter().enumerate() {
        let error = result.expect_err("a dead disk");
        assert_eq!(error.to_string(), "simulated crash", "call {call}");
    }
    assert!(disk.lock("OTHER").is_err());
    assert_eq!(disk.events(), events);

    let next = disk.after_crash(Crash::ProcessKill, 1);
    let _ours = next.lock("LOCK").expect("a lock dies with its owner");
    drop(guard);
    assert!(next.lock("LOCK").is_err(), "the dead owner's guard is for the dead disk");
    assert_eq!(next.events(), 0);
}

#[test]
fn a_kill_leaves_the_beginning_of_the_write_it_interrupts() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "a", &[1; 4 * SECTOR]);
    disk.crash_at(disk.events());
    file.write_at(&[2; 4 * SECTOR], 0).expect_err("the crash");
    let seen: BTreeSet<_> =
        outcomes(&disk, Crash::ProcessKill, "a").into_iter().map(|bytes| sectors(&bytes.unwrap())).collect();
    let prefixes =
        [[1, 1, 1, 1], [2, 1, 1, 1], [2, 2, 1, 1], [2, 2, 2, 1], [2, 2, 2, 2]].map(|state| state.to_vec());
    assert_eq!(seen, BTreeSet::from(prefixes));
    assert_eq!(outcomes(&disk, Crash::PowerLoss, "a").len(), 16);
}

#[test]
fn an_interrupted_change_of_names_happened_or_not() {
    for crash in [Crash::ProcessKill, Crash::PowerLoss] {
        let disk = SimDisk::new(1);
        durable(&disk, "a", b"");
        disk.crash_at(disk.events());
        disk.rename("a", "b").expect_err("the crash");
        let seen: BTreeSet<_> = SEEDS.map(|seed| disk.after_crash(crash, seed).names()).collect();
        assert_eq!(seen, BTreeSet::from([vec!["a".to_owned()], vec!["b".to_owned()]]));
    }
}

#[test]
fn a_seed_repeats_itself() {
    let run = || {
        let disk = SimDisk::new(7);
        for name in ["a", "b", "c"] {
            durable(&disk, name, &[1; 5000]).write_at(&[2; 9000], 100).unwrap();
        }
        disk.rename("a", "d").unwrap();
        disk
    };
    let (one, two) = (run(), run());
    for seed in SEEDS {
        let (one, two) = (one.after_crash(Crash::PowerLoss, seed), two.after_crash(Crash::PowerLoss, seed));
        assert_eq!(one.names(), two.names());
        for name in one.names() {
            assert_eq!(content(&one, &name), content(&two, &name), "seed {seed}");
        }
    }
}

#[test]
fn the_trace_names_events() {
    let disk = SimDisk::new(1);
    open(&disk, "unseen");
    disk.start_trace();
    let file = open(&disk, "a");
    file.write_at(b"abc", 5).unwrap();
    file.sync().unwrap();
    disk.rename("a", "b").unwrap();
    file.set_len(1).unwrap();
    disk.remove("b").unwrap();
    disk.sync_dir().unwrap();
    let trace: Vec<_> =
        disk.trace().into_iter().map(|event| (event.number, event.name, event.kind)).collect();
    let expected = [
        ("a", EventKind::Create),
        ("a", EventKind::Write { offset: 5, bytes: 3 }),
        ("a", EventKind::Sync),
        ("a", EventKind::Rename { to: "b".to_owned() }),
        ("b", EventKind::SetLen { bytes: 1 }),
        ("b", EventKind::Remove),
        (".", EventKind::SyncDir),
    ];
    let expected = (1..).zip(expected).map(|(number, (name, kind))| (number, name.to_owned(), kind));
    assert_eq!(trace, expected.collect::<Vec<_>>());
}

#[test]
fn corruption_is_durable() {
    let disk = SimDisk::new(1);
    durable(&disk, "a", b"content");
    disk.corrupt("a", |bytes| bytes.truncate(3));
    assert_eq!(outcomes(&disk, Crash::PowerLoss, "a"), BTreeSet::from([Some(b"con".to_vec())]));
    disk.corrupt("a", |bytes| bytes.extend([0; 5000]));
    assert_eq!(content(&disk, "a").unwrap().len(), 5003);
}

/// Not a promise but a figure: how many crash states a second a test can visit.
#[test]
#[ignore = "prints a rate; run in release mode on an idle machine"]
fn crash_states_per_second() {
    let disk = SimDisk::new(1);
    let files: Vec<_> = (0..4).map(|file| durable(&disk, &format!("f{file}"), &[1; 1 << 20])).collect();
    for (file, round) in files.iter().flat_map(|file| (0..32u64).map(move |round| (file, round))) {
        file.write_at(&[2; 16 << 10], round * (32 << 10)).unwrap();
    }
    for crash in [Crash::ProcessKill, Crash::PowerLoss] {
        let start = std::time::Instant::now();
        for seed in 0..1000 {
            std::hint::black_box(disk.after_crash(crash, seed));
        }
        println!("{crash:?}: {:.0} states/s of 4 files of 1 MiB", 1000.0 / start.elapsed().as_secs_f64());
    }
}
