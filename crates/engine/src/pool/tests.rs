//! The pool as a whole: crashes, failures, full disks, threads.

use super::cleaner::Cleaner;
use super::testing::*;
use super::*;
use crate::before_waiting;
use crate::chance::{Random, seeds};
use foreshore_base::Restart;
use foreshore_io::sim::{Call, Crash, Fault, Intercepted, Repeat};
use foreshore_io::{MemVfs, SimDisk};
use parking_lot::MutexGuard;
use std::cell::Cell;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const FRAMES: usize = 16;
const LEAVES: usize = 40;
const STEPS: u64 = 250;

/// Says where a test stood when it panicked.
struct Context(String);

impl Drop for Context {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}

fn small() -> PoolOptions {
    options(FRAMES, 5)
}

/// Runs the seed's operations until the end or the first error. `None` if the database was never there.
fn run(disk: &SimDisk, seed: u64) -> (Option<Chain>, Result<()>) {
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let wal = Arc::new(FakeWal::new(Some(disk.clone()), Lsn::ZERO));
    let mut chain = match Chain::create(vfs, wal, &small()) {
        Ok(chain) => chain,
        Err(error) => return (None, Err(error)),
    };
    let mut rng = Random(seed);
    let result = (0..STEPS).try_for_each(|_| chain.step(&mut rng, LEAVES));
    (Some(chain), result)
}

/// Nothing of it is to be written, and there is no slot for what is changed.
fn clean_chain_on_a_full_disk() -> Chain {
    let disk = SimDisk::new(1);
    let (chain, result) = run(&disk, 1);
    let chain = chain.expect("created");
    result.and_then(|()| chain.pool.flush_all()).expect("no faults");
    {
        let slots = &mut chain.pool.cleaning.lock().slots;
        slots.take(slots.free()).expect("they are free");
    }
    disk.set_capacity(disk.used_bytes());
    chain
}

fn reopen(chain: Chain, disk: &SimDisk) -> Chain {
    chain
        .reopen(Arc::new(disk.clone()), &small(), Some(disk.clone()))
        .expect("what a crash leaves can be opened")
}

/// Rules 2 and 3 at every event: nothing claimed is lost, nothing torn is named, no slot has two pages; and the same
/// again after a second crash.
#[test]
fn every_crash_keeps_what_was_claimed() {
    for seed in seeds(2) {
        let whole = SimDisk::new(seed);
        let (chain, result) = run(&whole, seed);
        result.and_then(|()| chain.expect("created").check()).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        for event in 0..whole.events() {
            let _on_panic = Context(format!("seed {seed}, event {event} of {}", whole.events()));
            for crash in [Crash::PowerLoss, Crash::ProcessKill] {
                let disk = SimDisk::new(seed);
                disk.crash_at(event);
                let (Some(chain), _) = run(&disk, seed) else { continue };
                let disk = disk.after_crash(crash, event);
                let chain = reopen(chain, &disk);
                crash_again(chain, &disk, event);
            }
        }
    }
}

/// Changes every page, crashes at some event of writing them, and opens again.
fn crash_again(mut chain: Chain, disk: &SimDisk, event: u64) {
    disk.crash_at(disk.events() + event % 12);
    let _ = chain.touch_all().and_then(|()| chain.pool.flush_all());
    chain.claimed = chain.pool.oldest_rec_lsn();
    disk.crash();
    let disk = disk.after_crash(Crash::PowerLoss, event);
    reopen(chain, &disk);
}

/// Rules 2 and 3 at every event also on a full disk, where new pages take the places of dead ones.
#[test]
fn every_crash_on_a_full_disk_keeps_what_was_claimed() {
    let run = |disk: &SimDisk, seed| {
        let wal = Arc::new(FakeWal::new(Some(disk.clone()), Lsn::ZERO));
        let mut chain = Chain::create(Arc::new(disk.clone()), wal, &small()).ok()?;
        let (mut rng, mut refused) = (Random(seed), 0);
        for step in 0..2 * STEPS {
            if step == STEPS / 2 {
                disk.set_capacity(disk.used_bytes());
            }
            match chain.step(&mut rng, 2 * LEAVES) {
                Ok(()) => {}
                Err(Error::Full { .. }) => refused += 1,
                Err(_) => break, // it has crashed
            }
        }
        Some((chain, refused))
    };
    for seed in seeds(1) {
        let whole = SimDisk::new(seed);
        let (chain, refused) = run(&whole, seed).expect("created");
        chain.check().unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert!(refused > 10, "seed {seed}: {refused} steps were refused");
        for event in 0..whole.events() {
            let _on_panic = Context(format!("seed {seed}, event {event} of {}", whole.events()));
            for crash in [Crash::PowerLoss, Crash::ProcessKill] {
                let disk = SimDisk::new(seed);
                disk.crash_at(event);
                let Some((chain, _)) = run(&disk, seed) else { continue };
                let disk = disk.after_crash(crash, event);
                reopen(chain, &disk);
            }
        }
    }
}

/// Every failing call gives a typed error and no panic; pages in memory stay readable; a full disk is passed over; and
/// what is on disk afterwards is right.
#[test]
fn every_failure_is_survived() {
    for seed in seeds(1) {
        let whole = SimDisk::new(seed);
        run(&whole, seed).1.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        for event in 0..whole.events() {
            for (fault, repeat) in [
                (Fault::Eio, Repeat::Once),
                (Fault::Eio, Repeat::Forever),
                (Fault::ShortWrite, Repeat::Once),
                (Fault::Enospc, Repeat::Once),
                (Fault::Enospc, Repeat::Forever),
            ] {
                let _on_panic = Context(format!("seed {seed}, event {event}, {fault:?} {repeat:?}"));
                let disk = SimDisk::new(seed);
                disk.fail_at(event, fault, repeat);
                let (Some(chain), result) = run(&disk, seed) else { continue };
                fail(chain, result, &disk, event);
            }
        }
    }
}

fn fail(chain: Chain, result: Result<()>, disk: &SimDisk, event: u64) {
    match result {
        // Pages are read as long as a frame is clean or free, so the last step may have gone well, or have failed elsewhere.
        Ok(()) | Err(Error::Full { .. } | Error::Poisoned { .. } | Error::Io { .. })
            if chain.wal.is_poisoned() =>
        {
            assert!(matches!(chain.pool.flush_all(), Err(Error::Poisoned { .. }) | Ok(())));
            chain.pool.check().expect("the pool is whole");
        }
        Ok(()) | Err(Error::Full { .. }) => {
            disk.clear_faults();
            chain.pool.flush_all().expect("there is space again");
            chain.check().expect("all pages can be read");
        }
        // Making room for a new page touches nothing that was written: the caller sees the error, and may go on.
        Err(Error::Io { .. }) => {
            disk.clear_faults();
            chain.check().expect("all pages can be read");
        }
        Err(other) => panic!("{other}"),
    }
    reopen(chain, &disk.after_crash(Crash::PowerLoss, event));
}

/// Who waits for the cleaner learns why it failed; after a full disk it goes on when there is space, after a failed
/// write never.
#[test]
fn waiters_learn_why_the_cleaner_failed() {
    for fault in [Fault::Enospc, Fault::Eio] {
        let disk = SimDisk::new(1);
        let (chain, result) = run(&disk, 1);
        let mut chain = chain.expect("created");
        result.expect("no faults");
        let _cleaner = Cleaner::start(Arc::clone(&chain.pool)).expect("a thread");
        fail_from_the_next_round(&chain, &disk, fault);
        let mut rng = Random(2);
        let error = (0..1000).find_map(|_| chain.write(rng.below(10_000) as u32).err()).expect("an error");
        disk.clear_faults();
        match fault {
            Fault::Enospc => {
                assert!(matches!(error, Error::Full { .. }), "{error}");
                // The cleaner may be in its last failing round.
                while chain.write(rng.below(10_000) as u32).is_err() {}
                chain.pool.flush_all().expect("there is space again");
                chain.check().expect("all pages can be read");
            }
            _ => {
                assert!(matches!(error, Error::Poisoned { .. }), "{error}");
                assert!(matches!(chain.pool.flush_all(), Err(Error::Poisoned { .. })));
                assert!(chain.wal.is_poisoned());
            }
        }
    }
}

/// Waits for the round under way, and lets every write and sync after it fail. The next round then begins with the
/// images. Within a round the first to fail could be the directory, whose space is reserved (J3 in `journal.rs`): for that the disk
/// cannot be full, so the database would be poisoned.
fn fail_from_the_next_round(chain: &Chain, disk: &SimDisk, fault: Fault) {
    chain.pool.flush_all().expect("no faults");
    let _between_rounds = chain.pool.cleaning.lock();
    disk.fail_at(disk.events(), fault, Repeat::Forever);
}

/// A failing read is an error for its reader, and the page can be read later.
#[test]
fn a_failed_read_changes_nothing() {
    let disk = SimDisk::new(1);
    let (chain, result) = run(&disk, 1);
    let chain = chain.expect("created");
    result.and_then(|()| chain.pool.flush_all()).expect("no faults");
    let mut failed = 0;
    for key in chain.leaves.keys() {
        disk.fail_read_at(disk.read_events(), Repeat::Once);
        failed += u32::from(matches!(chain.read(*key), Err(Error::Io { .. })));
        disk.clear_faults();
    }
    assert!(failed > 10, "only {failed} reads failed");
    chain.check().expect("all pages can be read");
}

/// On a full disk the pages that exist can be changed and cleaned for ever, and new ones are refused cleanly.
#[test]
fn cleaning_works_on_a_full_disk() {
    let disk = SimDisk::new(1);
    let (chain, result) = run(&disk, 1);
    let mut chain = chain.expect("created");
    result.and_then(|()| chain.pool.flush_all()).expect("no faults");
    let stats = chain.pool.stats();
    disk.set_capacity(stats.file_bytes + (1 << 20));
    let mut rng = Random(1);
    for _ in 0..2000 {
        chain.write(rng.below(10_000) as u32).expect("a change needs no space");
    }
    chain.pool.flush_all().expect("cleaning needs no space");
    // What the file has room for beyond the pages there are; then no more, and everything else goes on.
    let refused = (0..1000).find_map(|_| chain.split(rng.below(10_000) as u32).err());
    assert!(matches!(refused, Some(Error::Full { .. })), "{refused:?}");
    for _ in 0..2000 {
        chain.write(rng.below(10_000) as u32).expect("a change needs no space");
    }
    chain.pool.flush_all().expect("cleaning needs no space");
    chain.check().expect("all pages can be read");
    disk.set_capacity(u64::MAX);
    (0..100).try_for_each(|_| chain.split(rng.below(10_000) as u32)).expect("there is space again");
    chain.check().expect("all pages can be read");
}

/// What is dead gives its slots to what is not, also where there is no other one.
#[test]
fn the_dead_leave_their_slots_to_the_living() {
    let mut chain = clean_chain_on_a_full_disk();
    let pool = Arc::clone(&chain.pool);
    chain.absorb(0).expect("it needs no space");
    pool.flush_all().expect("one page less is one slot more");
    assert!(pool.dead.lock().is_empty());
    chain.leaves.keys().try_for_each(|key| chain.read(*key)).expect("all pages can be read");
}

/// Where a large table was dropped more pages die than one round buries. Their slots are not kept for the next checkpoint.
#[test]
fn a_large_table_that_was_dropped_is_buried() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
    let mut chain = Chain::create(vfs, Arc::default(), &options(64, 8)).expect("a pool");
    (1..12_500).try_for_each(|key| chain.split(key)).expect("there is space");
    let pool = &chain.pool;
    pool.flush_all().expect("no faults");
    let _cleaner = Cleaner::start(Arc::clone(pool)).expect("a thread");
    let cleaning = pool.cleaning.lock();
    let in_memory = chain.leaves.values().filter(|pid| pool.free_unread(**pid).is_some()).count();
    assert!(in_memory <= 64);
    drop(cleaning);
    let since = Instant::now();
    while pool.dead.lock().len() >= 256 {
        assert!(since.elapsed() < Duration::from_secs(20), "{} are not buried", pool.dead.lock().len());
        thread::yield_now();
    }
}

/// Who asks how many pages there are is told of the living, though a round buries the dead just then.
#[test]
fn who_is_being_buried_does_not_count() {
    let mut chain = Chain::create(Arc::new(MemVfs::new()), Arc::default(), &small()).expect("a pool");
    (1..4).try_for_each(|key| chain.split(key)).expect("there is space");
    chain.absorb(0).expect("it needs no space");
    let (pool, living) = (&chain.pool, chain.leaves.len() as u64);
    let ids = pool.ids.lock();
    thread::scope(|scope| {
        let told = scope.spawn(|| pool.stats().pages);
        thread::sleep(Duration::from_millis(50)); // by now it probably waits for the ids
        scope.spawn(|| pool.flush_all().expect("no faults"));
        thread::sleep(Duration::from_millis(50)); // and this one, too, if it comes so far
        MutexGuard::unlock_fair(ids); // to who came first
        assert_eq!(told.join().expect("no panic"), living);
    });
    assert_eq!(pool.stats().pages, living);
}

/// Threads that find the file full grow it once, not once each.
#[test]
fn who_waited_for_growth_needs_none_of_his_own() {
    let pool =
        Chain::create(Arc::new(SimDisk::new(1)), Arc::default(), &options(64, 8)).expect("created").pool;
    fill_up(&pool);
    let (full, one_step) = (pool.leaves.slots().unwrap(), pool.leaves.step(0));
    let cleaning = pool.cleaning.lock();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| pool.allocate().map(drop).expect("there is space"));
        }
        while pool.room.missing() < Some(4) {
            thread::yield_now();
        }
        drop(cleaning);
    });
    assert_eq!(pool.leaves.slots().unwrap(), full + one_step);
}

/// The file grows before pages are refused a slot; on a full disk that is tried once.
#[test]
fn the_file_grows_ahead() {
    let disk = SimDisk::new(1);
    let pool = Chain::create(Arc::new(disk.clone()), Arc::default(), &options(64, 8)).expect("created").pool;
    fill_up(&pool);
    assert!(pool.room.is_low());
    let full = pool.leaves.slots().unwrap();
    disk.set_capacity(0);
    pool.grow_ahead();
    assert!(!pool.room.is_low() && pool.leaves.slots().unwrap() == full);
    assert!(matches!(pool.allocate().map(drop), Err(Error::Full { .. })));
    disk.set_capacity(u64::MAX);
    drop(pool.allocate().expect("there is space"));
    assert!(!pool.room.is_low());
    fill_up(&pool);
    let full = pool.leaves.slots().unwrap();
    let _cleaner = Cleaner::start(Arc::clone(&pool)).expect("a thread");
    pool.room.give_back();
    drop(pool.allocate().expect("there is a slot left"));
    let started = Instant::now();
    while pool.leaves.slots().unwrap() == full {
        assert!(started.elapsed() < Duration::from_secs(30), "the cleaner was not asked");
        thread::yield_now();
    }
}

/// A checkpoint that finds the disk full is no concern of who waits for a frame while there are clean pages.
#[test]
fn who_waits_for_a_frame_does_not_fail_with_a_checkpoint() {
    let disk = SimDisk::new(1);
    let (chain, result) = run(&disk, 1);
    let mut chain = chain.expect("created");
    result.and_then(|()| chain.pool.flush_all()).expect("no faults");
    {
        let slots = &mut chain.pool.cleaning.lock().slots;
        slots.take(slots.free()).expect("they are free");
    }
    disk.set_capacity(disk.used_bytes());
    chain.write(0).expect("a change needs no space");
    let (before, _) = chain.pool.pace.look();
    assert!(matches!(chain.pool.flush_all(), Err(Error::Full { .. })));
    let (rounds, _) = chain.pool.pace.look();
    assert!(rounds > before, "whoever waits is woken");
    chain.pool.pace.wait(rounds).expect("nobody has looked for a frame");
}

/// A full disk is not asked for spare slots with every round, nor a disk with some space for more than a large file needs.
#[test]
fn spare_slots_are_not_asked_for_again_and_again() {
    let disk = SimDisk::new(1);
    let pool = Chain::create(Arc::new(disk.clone()), Arc::default(), &options(64, 8)).expect("created").pool;
    let mut cleaning = pool.cleaning.lock();
    let slots = &mut cleaning.slots;
    pool.leaves.grow(slots, &pool.room, 1000).expect("there is space");
    disk.set_capacity(disk.used_bytes());
    let spare = slots.capacity() / 16;
    pool.leaves.take(slots, &pool.room, slots.free() - spare + 1).expect("there are enough");
    let before = disk.events();
    pool.leaves.take(slots, &pool.room, 1).expect("there is one");
    assert_eq!(disk.events(), before);
    disk.set_capacity(u64::MAX);
    pool.leaves.take(slots, &pool.room, spare).expect("there is space");
    assert!(slots.free() >= spare && disk.events() > before);
    assert_eq!(pool.leaves.step(1 << 30), (1 << 30) / PAGE_BYTES as u64);
}

/// A full disk on which nobody has promised a page anything, and a process that cannot open one more file: still a full disk.
#[test]
fn too_many_files_on_a_full_disk_are_a_full_disk() {
    let disk = SimDisk::new(1);
    drop(Directory::create(Arc::new(disk.clone())).expect("space"));
    disk.remove("directory.tmp").expect("the next file");
    disk.set_capacity(disk.used_bytes());
    let vfs = Intercepted::new(disk.clone(), |call, name, go| match (call, name) {
        (Call::Open, "directory.tmp") => Err(std::io::Error::from_raw_os_error(libc::EMFILE)),
        _ => go(),
    });
    let (directory, _) = Directory::open(Arc::new(vfs)).expect("it was whole");
    let batch = vec![DirectoryEntry::Redo(Lsn(8)); 100];
    let refused = (0..1000).find_map(|_| directory.append(&batch).err());
    assert!(matches!(refused, Some(Error::Full { .. })), "{refused:?}");
    disk.set_capacity(u64::MAX);
    directory.append(&batch).expect("there is space again");
}

/// H1: whoever makes more pages than space is reserved for waits for the device, and says so.
#[test]
fn who_has_space_reserved_says_that_he_waits() {
    thread_local!(static HAS_LEFT: Cell<bool> = const { Cell::new(false) });
    let directory = Directory::create(Arc::new(MemVfs::new())).expect("a directory");
    let promised = |pages: usize| {
        let promise = || (0..pages).for_each(|_| directory.promise().expect("there is space"));
        before_waiting(|| HAS_LEFT.set(true), promise);
        HAS_LEFT.get()
    };
    assert!(!promised(1), "there is space reserved ahead");
    assert!(promised(1000));
}

/// Promises slots until there are none left to promise.
fn fill_up(pool: &Pool) {
    while pool.room.missing().is_none() {
        pool.room.promise();
    }
    pool.room.give_back();
}

/// The leaves alone say what the directory says, once all is written.
#[test]
fn a_rebuild_equals_the_directory() {
    for seed in seeds(20) {
        let disk = SimDisk::new(seed);
        let (chain, result) = run(&disk, seed);
        let chain = chain.expect("created");
        result.and_then(|()| chain.pool.flush_all()).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let (_, loaded) = Directory::open(Arc::new(disk.clone())).expect("a directory");
        let rebuilt = rebuild(&disk, PAGE_BYTES, None).expect("readable leaves");
        assert_eq!(rebuilt, loaded.pages, "seed {seed}");
        assert_eq!(rebuilt.len(), chain.leaves.len(), "seed {seed}");
        let contents = Loaded { pages: rebuilt, redo_lsn: Lsn(5), incarnations: loaded.incarnations };
        Directory::create_with(Arc::new(disk.clone()), &contents).expect("space");
        let (_, again) = Directory::open(Arc::new(disk)).expect("the new directory");
        assert_eq!(again, contents, "seed {seed}");
    }
}

/// A slot that cannot be read costs the leaf in it, if there is one, and no other; one that is read at the second attempt costs nothing,
/// and a device that cannot be read at all is not taken for an empty one.
#[test]
fn a_rebuild_does_without_a_bad_sector() {
    let disk = SimDisk::new(1);
    let (chain, result) = run(&disk, 1);
    let chain = chain.expect("created");
    result.and_then(|()| chain.pool.flush_all()).expect("no faults");
    let (_, loaded) = Directory::open(Arc::new(disk.clone())).expect("a directory");
    let rebuild_failing = |reads: std::ops::Range<u64>| {
        let disk = disk.after_crash(Crash::PowerLoss, 1);
        reads.for_each(|read| disk.fail_read_at(read, Repeat::Once));
        let rebuilt = rebuild(&disk, PAGE_BYTES, Some(&loaded));
        (rebuilt, disk.read_events())
    };
    let (whole, reads) = rebuild_failing(0..0);
    assert_eq!(whole.expect("no faults"), loaded.pages);
    let slots = chain.pool.leaves.slots().unwrap();
    let mut lost = 0;
    for read in reads - slots..reads {
        let (once, _) = rebuild_failing(read..read + 1);
        assert_eq!(once.expect("the second attempt"), loaded.pages, "read {read}");
        let (twice, _) = rebuild_failing(read..read + 2);
        let twice = twice.unwrap_or_else(|e| panic!("read {read}: {e}"));
        let kept = loaded.pages.iter().filter(|page| twice.contains(page)).count();
        assert!(kept + 1 >= loaded.pages.len(), "read {read}");
        lost += loaded.pages.len() - kept;
    }
    assert_eq!(lost, loaded.pages.len(), "each leaf is in one slot");
    let (nothing, _) = rebuild_failing(reads - slots..reads + slots);
    assert!(matches!(nothing, Err(Error::Io { .. })), "{nothing:?}");
}

/// A damaged image is an error, again and again, and harms no other page.
#[test]
fn a_damaged_image_is_never_returned() {
    let disk = SimDisk::new(1);
    let (chain, result) = run(&disk, 1);
    let chain = chain.expect("created");
    result.and_then(|()| chain.pool.flush_all()).expect("no faults");
    let disk = disk.after_crash(Crash::PowerLoss, 1);
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let (directory, loaded) = Directory::open(Arc::clone(&vfs)).expect("a directory");
    let victim = loaded.pages[3].clone();
    disk.corrupt("leaves.db", |bytes| bytes[victim.slot.0 as usize * PAGE_BYTES + 777] ^= 4);
    let pool = Pool::open(&*vfs, &small(), chain.wal, Arc::new(directory), &loaded.pages).expect("a pool");
    for page in loaded.pages.iter().chain(&loaded.pages) {
        match pool.page(page.pid) {
            Err(Error::Corrupt { what, .. }) => {
                assert_eq!(page.pid, victim.pid);
                assert!(what.contains(&format!("slot {}", victim.slot)), "{what}");
            }
            found => assert_eq!(read_page(found.unwrap().unwrap().page, page.pid), Some(page.lsn)),
        }
    }
    let mut twice = loaded.pages.clone();
    twice[1].slot = twice[0].slot;
    let directory = Arc::clone(&pool.directory);
    let opened = Pool::open(&*vfs, &small(), Arc::clone(&pool.wal), directory, &twice);
    assert!(matches!(opened, Err(Error::Corrupt { .. })), "two pages share a slot");
}

/// M1: a million gets of resident pages leave every word of table and frames as it was.
#[test]
fn gets_of_resident_pages_write_nothing() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
    let wal = Arc::new(FakeWal::new(None, Lsn::ZERO));
    let mut chain = Chain::create(vfs, wal, &options(64, 8)).expect("a pool");
    (1..30).try_for_each(|i| chain.split(i * 100)).expect("space");
    let pids: Vec<PageId> = chain.leaves.values().copied().collect();
    let words = |pool: &Pool| {
        let table: Vec<_> = pool.table.pages().collect();
        let frames = pool.free.touched().flat_map(|f| pool.frames.page(f).0.words());
        (table, frames.map(|word| word.load(Relaxed)).collect::<Vec<_>>(), pool.stats())
    };
    let before = words(&chain.pool);
    for i in 0..1_000_000 {
        let pid = pids[i % pids.len()];
        chain.pool.prefetch(pid);
        let found = chain.pool.page(pid).expect("no I/O").expect("a living page");
        assert_eq!(found.page.id(), pid);
    }
    assert!(before == words(&chain.pool), "a get wrote");
}

/// F1: who comes with the number of a frame that was given away finds it out from the id.
#[test]
fn an_evicted_frame_holds_no_page() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
    let chain = Chain::create(vfs, Arc::new(FakeWal::default()), &small()).expect("a pool");
    chain.pool.flush_all().expect("no faults");
    let (pid, _) = chain.find(0);
    let stale = chain.pool.page(pid).expect("no I/O").expect("a living page");
    assert!(matches!(chain.pool.visit(stale.frame), clock::Visit::Passed), "marked first");
    assert!(matches!(chain.pool.visit(stale.frame), clock::Visit::Freed));
    assert_eq!(stale.page.id(), PageId::NONE);
    assert!(chain.pool.resident(pid).is_none());
    chain.pool.free.push(stale.frame);
    chain.check().expect("it can be loaded again");
}

/// Who waits for a page whose loader panics goes on, and loads it.
#[test]
fn a_load_that_panics_keeps_nobody_waiting() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
    let chain = Chain::create(vfs, Arc::new(FakeWal::default()), &small()).expect("a pool");
    chain.pool.flush_all().expect("no faults");
    let (pool, (pid, _)) = (chain.pool.clone(), chain.find(0));
    let frame = pool.page(pid).expect("no I/O").expect("a living page").frame;
    while !matches!(pool.visit(frame), clock::Visit::Freed) {}
    pool.free.push(frame);
    let (free, table::State::OnDisk(slot)) = (pool.free.len(), pool.table.load(pid).state()) else {
        panic!("it was evicted");
    };
    let transfer =
        pool.begin_load(pid, slot, pool.reserve_frame().expect("a free one")).expect("nobody else");
    let (found, waits) = mpsc::channel();
    thread::spawn({
        let pool = pool.clone();
        move || found.send(pool.page(pid).map(|page| page.is_some()))
    });
    thread::sleep(Duration::from_millis(50)); // by now it probably waits
    let loader = std::panic::AssertUnwindSafe(move || {
        let _under_way = transfer;
        panic!("a test");
    });
    assert!(std::panic::catch_unwind(loader).is_err());
    let found = waits.recv_timeout(Duration::from_secs(60)).expect("it waits for ever");
    assert!(found.expect("no faults"));
    assert_eq!(pool.free.len(), free - 1, "only the second load has a frame");
    chain.check().expect("whole");
}

#[test]
fn sizes_are_checked() {
    let open = |options: PoolOptions| {
        let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
        let directory = Arc::new(Directory::create(Arc::clone(&vfs)).expect("a directory"));
        Pool::open(&*vfs, &options, Arc::new(FakeWal::default()), directory, &[]).map(drop)
    };
    assert!(open(small()).is_ok());
    assert!(matches!(open(options(FRAMES_MAX + 1, 1)), Err(Error::Argument(_))));
}

#[test]
fn what_is_not_used_goes_back() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
    let chain = Chain::create(vfs, Arc::new(FakeWal::default()), &small()).expect("a pool");
    let pool = &chain.pool;
    let free = pool.free.len();
    let new = pool.allocate().expect("space");
    let pid = new.pid();
    pool.before_change(new.frame_page().frame);
    assert!(pool.page(pid).expect("no I/O").is_none(), "not published");
    drop(new);
    assert_eq!(pool.free.len(), free);
    assert_eq!(pool.allocate().expect("space").pid(), pid);
    assert!(pool.allocate_for_redo(PageId(100)).expect("space").is_some_and(|new| new.pid() == PageId(100)));
    assert!(pool.allocate_for_redo(*chain.leaves.first_key_value().unwrap().1).expect("space").is_none());
    assert!(matches!(pool.allocate_for_redo(PageId(1 << 32)), Err(Error::Corrupt { .. })));
    pool.flush_all().expect("no faults");
    assert_eq!(pool.oldest_rec_lsn(), pool.wal.reserved());
}

/// Frames that are kept back hold no page, be they given by now or not.
#[test]
fn what_is_kept_back_is_not_in_use() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
    let mut chain = Chain::create(vfs, Arc::new(FakeWal::default()), &small()).expect("a pool");
    (1..4).try_for_each(|key| chain.split(key)).expect("space");
    for is_given in [false, true] {
        if is_given {
            chain.pool.free.give_all();
        }
        let stats = chain.pool.stats();
        assert_eq!(stats.frames - stats.frames_free, stats.pages, "{is_given}: {stats:?}");
    }
}

/// Data of 8 × the cache: writers, readers, the cleaner and checkpoints at once. No change is lost, and no reader sees
/// half of one.
#[test]
fn threads_share_a_small_cache() {
    const PAGES: u64 = 8 * FRAMES as u64;
    let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
    let wal = Arc::new(FakeWal::new(None, Lsn::ZERO));
    let mut chain = Chain::create(vfs, Arc::clone(&wal), &small()).expect("a pool");
    (1..PAGES).try_for_each(|i| chain.split(i as u32)).expect("space");
    let pool = Arc::clone(&chain.pool);
    let cleaner = Cleaner::start(Arc::clone(&pool)).expect("a thread");
    let newest: Vec<AtomicU64> = (0..=PAGES).map(|_| AtomicU64::new(0)).collect();
    for (pid, history) in &chain.history {
        newest[pid.0 as usize].store(history.last_key_value().unwrap().0.0, Relaxed);
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|seed| {
                scope.spawn({
                    let (pool, wal, newest) = (&pool, &wal, &newest);
                    move || work(pool, wal, newest, seed)
                })
            })
            .collect();
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                let target = pool.wal.reserved();
                pool.flush_until(target).expect("no faults");
                assert!(pool.oldest_rec_lsn() <= pool.wal.reserved());
            }
        });
        let results: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        stop.store(true, Relaxed);
        results.into_iter().for_each(|result| result.expect("a worker"));
    });
    drop(cleaner);
    pool.flush_all().expect("no faults");
    pool.check().expect("whole");
    for pid in (1..=PAGES).map(PageId) {
        let page = pool.page(pid).expect("no faults").expect("a living page").page;
        assert_eq!(read_page(page, pid), Some(Lsn(newest[pid.0 as usize].load(Relaxed))), "page {pid}");
    }
    let stats = pool.stats();
    assert!(stats.evictions > PAGES && stats.cleaned > PAGES, "{stats:?}");
}

/// Random reads and changes of random pages.
fn work(pool: &Pool, wal: &FakeWal, newest: &[AtomicU64], seed: u64) {
    let mut rng = Random(seed);
    for step in 0..20_000 {
        let pid = PageId(1 + rng.below(newest.len() as u64 - 1));
        let change = rng.below(3) == 0;
        while attempt(pool, wal, newest, pid, change, step % 16 == 0).is_err() {}
    }
}

fn attempt(
    pool: &Pool,
    wal: &FakeWal,
    newest: &[AtomicU64],
    pid: PageId,
    change: bool,
    dawdle: bool,
) -> Result<(), Restart> {
    let FramePage { frame, page } = pool.page(pid).expect("no faults").expect("a living page");
    if dawdle {
        // Long enough for the frame to go to another page.
        thread::sleep(std::time::Duration::from_micros(200));
    }
    if change {
        let latch = page.latch().exclusive();
        if page.id() != pid {
            latch.release_unchanged();
            return Err(Restart);
        }
        pool.before_change(frame);
        let lsn = wal.reserve();
        write_page(page, pid, lsn, (0, None));
        newest[pid.0 as usize].store(lsn.0, Relaxed);
        return Ok(());
    }
    let read = page.latch().try_optimistic()?;
    let lsn = read_page(page, pid);
    read.validate()?;
    if page.id() == pid {
        assert!(lsn.is_some(), "page {pid} is torn");
    }
    lsn.map(drop).ok_or(Restart)
}

/// Nothing is read for a change that is refused.
#[test]
fn what_cannot_be_changed_is_not_read_for_that() {
    let disk = SimDisk::new(1);
    let (chain, result) = run(&disk, 1);
    let chain = chain.expect("created");
    let pool = &chain.pool;
    result.and_then(|()| pool.flush_all()).expect("no faults");
    let cold = *chain.leaves.values().find(|pid| pool.is_on_disk(**pid)).expect("more leaves than frames");
    pool.end_cleaning(&Error::Poisoned { cause: "a test".into() });
    assert!(pool.page_to_change(cold).is_err());
    assert!(pool.is_on_disk(cold), "it was read in vain");
}

/// A round that finds the disk full has freed frames all the same: who waits for one takes it.
#[test]
fn who_waits_takes_what_a_round_freed_before_it_failed() {
    let mut chain = clean_chain_on_a_full_disk();
    let pool = Arc::clone(&chain.pool);
    while pool.free.pop().is_some() {} // others have them
    let on_disk = chain.leaves.iter().find(|(_, pid)| pool.is_on_disk(**pid));
    let cold = *on_disk.expect("more leaves than frames").0;
    let resident: Vec<_> =
        chain.leaves.iter().filter_map(|(key, pid)| Some((pool.resident(*pid)?.frame, *key))).collect();
    // The page that the hand comes to next is the only one that stays clean.
    let clean = loop {
        let next = (pool.next_frame().0 + 1) % FRAMES as u32;
        if let Some((_, key)) = resident.iter().find(|(frame, _)| frame.0 == next) {
            break *key;
        }
    };
    for (_, key) in &resident {
        let used = if *key == clean { chain.read(*key) } else { chain.write(*key) };
        used.expect("a change needs no space");
    }
    let round = pool.cleaning.lock();
    let _cleaner = Cleaner::start(Arc::clone(&pool)).expect("a thread");
    thread::scope(|scope| {
        let reader = scope.spawn(|| chain.read(cold));
        thread::sleep(Duration::from_millis(50)); // by now it waits for the round
        drop(round);
        reader.join().expect("no panic").expect("the round has freed a frame");
    });
}
