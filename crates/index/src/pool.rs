//! Where nodes live: huge pages, cut into nodes, which are never given back to the system.
//!
//! Why: a lookup misses the TLB as often as the cache; 2 MiB pages and nodes without an allocator's rounding bring a
//! third of the lookup time. Every thread keeps a few free nodes, so that splits meet no lock.
//! Source: OLFIT, which used one pool per processor.
//!
//! Invariants:
//! - P1: the memory of a node is never unmapped, and is only ever the memory of nodes of the same shelf and size, whose
//!   first word is the latch: its version survives reuse. On a shelf for nodes that are read without a pin, every word
//!   stays an atomic of the same width.
//!   Its first content is zeros, and nothing is written there but cells: to write a node whole would be to take the content
//!   from its gaps, where other nodes of its size may have cells.
//! - P2: a node in a free list is reachable from nowhere else.
//! - P3: all memory lies in one range of addresses, so the number of a node's first line there says where it is, in 32 bits.
//!   The range's first line is no node's.
//!
//! Memory of a dropped map serves other maps of the process. It is zeroed by the system when a huge page is first
//! touched: the first node costs up to 2 MiB of residence, for all maps together.

use crate::pooled::{Pooled, SHELVES};
use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

const LINE: usize = 64;
const ARENA_BYTES: usize = if cfg!(miri) { 4 << 20 } else { 64 << 20 };
/// The number of no node (P3).
pub(crate) const NOBODY: u32 = 0;
/// Addresses set aside, if the system lets us; memory comes with the arenas.
#[cfg_attr(miri, allow(dead_code, reason = "Miri has one arena"))]
const RANGE_BYTES: usize = LINE << 32;
/// The greatest node, in lines; node sizes are multiples of a line.
const LINES_MAX: usize = 96;
/// Lists of free nodes: one for each shelf and size.
const CLASSES: usize = SHELVES * LINES_MAX;
/// Nodes that pass between a thread and the shared lists at a time.
const BATCH: usize = 32;

/// A free node: its address, with exposed provenance.
type Address = usize;

/// Memory no node has used yet: up to `end` it may be used, up to `range_end` there are addresses.
struct Arena {
    next: Address,
    end: Address,
    range_end: Address,
}

static ARENA: Mutex<Arena> = Mutex::new(Arena { next: 0, end: 0, range_end: 0 });
/// Where the range begins (P3). Set once, before there is a node.
static RANGE: AtomicUsize = AtomicUsize::new(0);
static FREE: [Mutex<Vec<Address>>; CLASSES] = [const { Mutex::new(Vec::new()) }; CLASSES];

thread_local!(static CACHE: RefCell<Cache> = const { RefCell::new(Cache([const { Vec::new() }; CLASSES])) });

/// This thread's free nodes, by class.
struct Cache([Vec<Address>; CLASSES]);

impl Drop for Cache {
    fn drop(&mut self) {
        for (class, nodes) in self.0.iter_mut().enumerate().filter(|(_, nodes)| !nodes.is_empty()) {
            lock(&FREE[class]).append(nodes);
        }
    }
}

/// The lists hold plain addresses, consistent at every moment, so a panic elsewhere does not spoil them.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const fn class<N: Pooled>() -> usize {
    assert!(
        size_of::<N>().is_multiple_of(LINE) && size_of::<N>() / LINE <= LINES_MAX && align_of::<N>() <= LINE
    );
    assert!(N::SHELF < SHELVES);
    N::SHELF * LINES_MAX + size_of::<N>() / LINE - 1
}

/// A node that nobody else knows, with whatever content (zeros, if it is its first), but with a latch that is open.
///
/// Panics if the system has no memory.
pub(crate) fn take<N: Pooled>() -> NonNull<N> {
    let class = const { class::<N>() };
    let cached = CACHE.try_with(|cache| take_from::<N>(class, &mut cache.borrow_mut().0[class]));
    // A thread that is ending has no cache any more.
    let taken = cached.unwrap_or_else(|_| {
        let mut free = Vec::new();
        let taken = take_from::<N>(class, &mut free);
        lock(&FREE[class]).append(&mut free);
        taken
    });
    // Not before: the hook of a panic may use maps, which need the cache and the locks.
    let address = taken.expect("memory for index nodes");
    NonNull::new(std::ptr::with_exposed_provenance_mut(address)).expect("a node has an address")
}

/// Puts a node back.
///
/// # Safety
/// The node came from [`take`], and nobody can reach it any more (P2).
pub(crate) unsafe fn give_back<N: Pooled>(node: NonNull<N>) {
    let class = const { class::<N>() };
    let address = node.as_ptr().expose_provenance();
    let cached = CACHE.try_with(|cache| {
        let free = &mut cache.borrow_mut().0[class];
        free.push(address);
        if free.len() > 2 * BATCH {
            lock(&FREE[class]).extend(free.drain(BATCH..));
        }
    });
    if cached.is_err() {
        lock(&FREE[class]).push(address);
    }
}

/// Takes a node from a list, which is filled if it is empty.
///
/// Errors: the system has no memory.
fn take_from<N: Pooled>(class: usize, free: &mut Vec<Address>) -> io::Result<Address> {
    if free.is_empty() {
        refill::<N>(class, free)?;
    }
    Ok(free.pop().expect("just filled"))
}

/// Fills an empty list from the shared one, or with new nodes.
///
/// Errors: the system has no memory.
fn refill<N: Pooled>(class: usize, free: &mut Vec<Address>) -> io::Result<()> {
    let mut shared = lock(&FREE[class]);
    let keep = shared.len().saturating_sub(BATCH);
    free.extend(shared.drain(keep..));
    drop(shared);
    if !free.is_empty() {
        return Ok(());
    }
    let first = cut(BATCH * size_of::<N>())?;
    // The last is taken first: nodes are handed out in the order of their addresses.
    free.extend((0..BATCH).rev().map(|i| first + i * size_of::<N>()));
    Ok(())
}

/// The number of a node, by its address: that of its first line in the range (P3).
pub(crate) fn number_of(address: u64) -> u32 {
    ((address as usize - RANGE.load(Relaxed)) / LINE) as u32
}

/// The address of the node of this number; some address, if there is none.
#[inline(always)]
pub(crate) fn address_of(number: u32) -> u64 {
    // ORDERING: whoever has a node's number has read it from a node, which was published after the range was set.
    (RANGE.load(Relaxed) + number as usize * LINE) as u64
}

/// Cuts `bytes` of zeros, a multiple of a line and no more than an arena, off the range.
///
/// Errors: the system has no memory.
pub(crate) fn cut(bytes: usize) -> io::Result<Address> {
    let mut arena = lock(&ARENA);
    if arena.next + bytes > arena.end {
        arena.grow()?;
    }
    let address = arena.next;
    arena.next += bytes;
    Ok(address)
}

/// Sets the addresses aside in which the nodes of all maps lie, and takes the first memory for them (64 MiB, which the system gives as it
/// is touched), unless that is done.
///
/// The first map that is made does the same. If the system refuses, as where `ulimit -v` leaves little, that is a panic there, and an
/// error here. Memory is taken 64 MiB at a time; so later ones may still be refused, by systems that do not overcommit.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// foreshore_index::reserve()?;
/// let map: foreshore_index::IntMap<u64> = (0..1000).map(|key| (key, 1)).collect();
/// # assert_eq!(map.len(), 1000);
/// # Ok(()) }
/// ```
pub fn reserve() -> io::Result<()> {
    let mut arena = lock(&ARENA);
    let is_done = arena.range_end > 0 && arena.next <= arena.end; // not so if there were addresses, and no memory
    if is_done { Ok(()) } else { arena.grow() }
}

impl Arena {
    /// Makes the next part of the range usable.
    ///
    /// Errors: the system has no memory, or no addresses are left.
    fn grow(&mut self) -> io::Result<()> {
        if self.range_end == 0 {
            let (first, bytes) = system::reserve()?;
            RANGE.store(first, Relaxed);
            *self = Self { next: first + LINE, end: first, range_end: first + bytes };
        }
        if self.end + ARENA_BYTES > self.range_end {
            return Err(ErrorKind::OutOfMemory.into());
        }
        system::make_usable(self.end)?;
        self.end += ARENA_BYTES;
        Ok(())
    }
}

#[cfg(not(miri))]
mod system {
    use super::{ARENA_BYTES, Address, RANGE_BYTES};
    use foreshore_base::mapping::HUGE_PAGE_BYTES;
    use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap};
    use std::io;

    /// Sets addresses aside: the first, and how many. Fewer where the system limits them (`ulimit -v`): half as many again are
    /// left for all else that the process maps.
    pub fn reserve() -> io::Result<(Address, usize)> {
        let sizes = std::iter::successors(Some(RANGE_BYTES), |bytes| Some(bytes / 2));
        let mut ranges = sizes.take_while(|&bytes| bytes >= ARENA_BYTES).filter_map(|bytes| {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            let (used, left) = (bytes + HUGE_PAGE_BYTES, bytes / 2);
            // SAFETY: a new anonymous mapping, wherever the system likes, that nobody can use yet.
            let mapped =
                unsafe { mmap_anonymous(std::ptr::null_mut(), used + left, ProtFlags::empty(), flags) }
                    .ok()?;
            // SAFETY: the end of this mapping, which nobody knows.
            unsafe { munmap(mapped.wrapping_byte_add(used), left) }.expect("an own mapping can be unmapped");
            Some((mapped.expose_provenance().next_multiple_of(HUGE_PAGE_BYTES), bytes))
        });
        ranges.next().ok_or(io::ErrorKind::OutOfMemory.into())
    }

    /// Makes the arena that begins here memory.
    pub fn make_usable(first: Address) -> io::Result<()> {
        let first = std::ptr::with_exposed_provenance_mut(first);
        // SAFETY: a part of our own mapping that nobody has used yet. Without huge pages all works, only slower.
        unsafe {
            mprotect(first, ARENA_BYTES, MprotectFlags::READ | MprotectFlags::WRITE)?;
            let _ = madvise(first, ARENA_BYTES, Advice::LinuxHugepage);
        }
        Ok(())
    }
}

/// For Miri, which knows no addresses without memory: one arena, of zeros, is all there is.
#[cfg(miri)]
mod system {
    use super::{ARENA_BYTES, Address, LINE};
    use std::io;

    pub fn reserve() -> io::Result<(Address, usize)> {
        let range: &mut [[u128; LINE / 16]] = Box::leak(vec![[0; LINE / 16]; ARENA_BYTES / LINE + 1].into());
        Ok((range.as_mut_ptr().expose_provenance().next_multiple_of(LINE), ARENA_BYTES))
    }

    pub fn make_usable(_first: Address) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests {
    use super::*;
    use crate::{Coupled, CsbByteMap, CsbMap, IntMap, O2ByteMap, O2Map};
    use foreshore_base::Mapping;
    use std::panic::catch_unwind;
    use std::process::Command;
    use std::sync::TryLockError;

    /// Runs a test in a process that may have so many KiB of addresses. A sanitizer's own may be more than that: then it does not.
    fn run_limited(addresses_kib: u32, test: &str) {
        let limited = |arguments: &str| {
            let line = format!("ulimit -v {addresses_kib} && exec \"$0\" {arguments}");
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(line).arg(std::env::current_exe().unwrap());
            // Some tests panic many thousand times.
            shell.env("RUST_BACKTRACE", "0").output().unwrap()
        };
        if limited("--list").status.success() {
            let output = limited(&format!("--exact pool::tests::{test} --ignored"));
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        }
    }

    /// A process that may have a little more than 2 GiB of addresses is not left without any.
    #[test]
    fn addresses_are_left_for_others() {
        run_limited(2_300_000, "in_a_limited_process");
    }

    #[test]
    #[ignore = "a part of the test above, in a process of its own"]
    fn in_a_limited_process() {
        cut(LINE).unwrap();
        Mapping::zeroed(700 << 20, false).unwrap();
    }

    /// Who asks beforehand is told that there are too few addresses.
    #[test]
    fn too_few_addresses_are_an_error() {
        reserve().unwrap();
        run_limited(90_000, "in_a_process_without_addresses");
    }

    #[test]
    #[ignore = "a part of the test above, in a process of its own"]
    fn in_a_process_without_addresses() {
        assert_eq!(reserve().unwrap_err().kind(), ErrorKind::OutOfMemory);
    }

    /// What finds no memory panics, and leaves its map whole.
    #[test]
    fn refused_memory_spoils_no_map() {
        run_limited(2_300_000, "in_a_process_whose_memory_ends");
    }

    /// A node as large as an O2-Tree's above its leaves.
    #[repr(C, align(64))]
    struct OneLine([std::sync::atomic::AtomicU64; 8]);

    impl Pooled for OneLine {
        fn vacant() -> Self {
            Self(std::array::from_fn(|_| 0.into()))
        }
    }

    /// Of a size that no map's nodes have.
    #[repr(C, align(64))]
    struct ManyLines([std::sync::atomic::AtomicU64; 95 * 8]);

    impl Pooled for ManyLines {
        fn vacant() -> Self {
            Self(std::array::from_fn(|_| 0.into()))
        }
    }

    #[test]
    fn a_thread_that_ends_leaves_its_nodes() {
        let used = || {
            let thread = std::thread::spawn(|| {
                let nodes: Vec<_> = (0..BATCH).map(|_| take::<ManyLines>()).collect();
                let used: std::collections::BTreeSet<_> = nodes.iter().map(|node| node.addr()).collect();
                // SAFETY: nobody else knows them.
                nodes.into_iter().for_each(|node| unsafe { give_back(node) });
                used
            });
            thread.join().unwrap() // unlike the end of a scope, after the thread's destructors
        };
        assert_eq!(used(), used());
    }

    /// Takes all memory that no node has used yet.
    fn exhaust() {
        for bytes in [ARENA_BYTES, 1 << 20, LINE] {
            while cut(bytes).is_ok() {}
        }
    }

    /// Takes all of these that there are where memory is at an end.
    fn take_lines() -> Vec<NonNull<OneLine>> {
        std::iter::from_fn(|| catch_unwind(take::<OneLine>).ok()).collect()
    }

    fn give_lines_back(taken: impl IntoIterator<Item = NonNull<OneLine>>) {
        // SAFETY: nobody else knows them.
        taken.into_iter().for_each(|node| unsafe { give_back(node) });
    }

    fn free_lines() -> usize {
        let taken = take_lines();
        let count = taken.len();
        give_lines_back(taken);
        count
    }

    #[test]
    #[ignore = "a part of the test above, in a process of its own"]
    fn in_a_process_whose_memory_ends() {
        const KEYS: u64 = 100;
        // Nodes above leaves, and groups of leaves, so that these are there when their counterparts are not.
        drop(O2Map::<u64>::bulk_load((0..5000).map(|key| (key, key)), 1.0));
        drop((0..20).map(|_| CsbMap::<u64, 4>::new()).collect::<Vec<_>>());
        macro_rules! filled {
            ($map:ident) => {
                $map::<u64, 4>::from_iter((0..KEYS).map(|key| (key, key)))
            };
        }
        let (bplus, csb, o2) = (filled!(IntMap), filled!(CsbMap), filled!(O2Map));
        exhaust();
        macro_rules! test {
            ($map:expr) => {
                let refused = (KEYS..).find(|key| catch_unwind(|| $map.insert(*key, *key)).is_err());
                assert_eq!((refused, $map.check()), (Some($map.len()), Ok(())));
                assert!($map.iter().map(|(key, _)| key).eq(0..$map.len()));
            };
        }
        test!(bplus);
        test!(csb);
        test!(o2);
        // Nodes above leaves are there, and none of these.
        let before = free_lines();
        (0..10).for_each(|_| assert!(catch_unwind(|| o2.insert(o2.len(), 0)).is_err()));
        assert_eq!(free_lines(), before, "refused inserts keep nodes");
        // Whose header is there, and no leaf.
        assert!(catch_unwind(O2Map::<u64, 32>::new).is_err());
    }

    /// The hook of a panic may use maps: nothing is locked or borrowed while it runs.
    #[test]
    fn refused_memory_is_told_to_a_hook_that_uses_maps() {
        run_limited(2_300_000, "in_a_process_whose_hook_uses_a_map");
    }

    #[test]
    #[ignore = "a part of the test above, in a process of its own"]
    fn in_a_process_whose_hook_uses_a_map() {
        let use_map = || drop(IntMap::<u64, 4>::from_iter([(1, 1)]));
        use_map(); // so there are free nodes of this size
        exhaust();
        std::panic::set_hook(Box::new(move |_| {
            // Not `lock`: it would wait for ever. A panic in a hook ends the process.
            assert!(!matches!(ARENA.try_lock(), Err(TryLockError::WouldBlock)));
            use_map();
        }));
        assert!(catch_unwind(take::<ManyLines>).is_err());
    }

    /// What a load or an insert had made when it was refused memory goes with it.
    #[test]
    fn refused_memory_takes_no_more() {
        run_limited(2_300_000, "in_a_process_whose_memory_ends_amid_loads");
        run_limited(2_300_000, "in_a_process_whose_memory_ends_before_a_slice");
    }

    #[test]
    #[ignore = "a part of the test above, in a process of its own"]
    fn in_a_process_whose_memory_ends_amid_loads() {
        macro_rules! loads {
            ($map:ty, $count:expr, $key:expr) => {
                catch_unwind(|| drop(<$map>::bulk_load((0..$count).map(|i| ($key(i), i)), 1.0))).is_ok()
            };
        }
        let numbers = |key: fn(u64) -> u64| loads!(IntMap<u64, 4>, 5000, key);
        let groups = |count: u64| loads!(CsbMap<u64, 4>, count, |i| i);
        let blocks = |count: u64| loads!(O2Map<u64, 4>, count, |i| i);
        // Each two share a slice, and a bag holds one: so they get a layer.
        let pair = |i: u64| format!("{:015}{}", i / 2, i % 2);
        let csb_layers = |count: u64| loads!(CsbByteMap<4, 1>, count, pair);
        let o2_layers = |count: u64| loads!(O2ByteMap<4, Coupled, 1>, count, pair);

        // More groups of leaves than of nodes above.
        drop((0..400).map(|_| CsbMap::<u64, 4>::new()).collect::<Vec<_>>());
        assert!(numbers(|i| i) && groups(1000) && blocks(5000) && csb_layers(2000) && o2_layers(2000));
        exhaust();
        // What is refused, for there are leaves but not as many nodes above, and then what was there before.
        let far_apart = |i| ((i / 8) << 45) | (i % 8); // so nodes above leaves hold few children
        let of_numbers = [numbers(far_apart), numbers(|i| i)];
        let of_groups = [groups(5000), groups(1000)];
        let mut lines = take_lines();
        give_lines_back(lines.drain(..1000));
        let of_blocks = [blocks(5000), blocks(3000)];
        give_lines_back(lines);
        let of_csb_layers = [csb_layers(20_000), csb_layers(2000)];
        let of_o2_layers = [o2_layers(20_000), o2_layers(2000)];
        assert_eq!([of_numbers, of_groups, of_blocks, of_csb_layers, of_o2_layers], [[false, true]; 5]);
    }

    #[test]
    #[ignore = "a part of the test above, in a process of its own"]
    fn in_a_process_whose_memory_ends_before_a_slice() {
        fn resident_bytes() -> usize {
            let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
            pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
        }
        let (map, tail) = (O2ByteMap::<4>::new(), "x".repeat(1000));
        exhaust();
        let insert =
            |key: u64| catch_unwind(|| map.insert(format!("{key:015}{tail}").as_bytes(), key)).is_ok();
        let refused = (0..).find(|key| !insert(*key)).unwrap();
        let before = resident_bytes();
        (0..20_000).for_each(|_| assert!(!insert(refused)));
        let more = resident_bytes().saturating_sub(before);
        assert!(more < 10 << 20, "refused inserts keep {more} bytes");
        assert_eq!((map.len(), map.check()), (refused, Ok(())));
    }
}
