//! Promises between processes: who holds the lock, and what outlives a killed process.
//!
//! The other process is this test binary itself, started again with a role in its environment.

mod support;

use foreshore_base::sync::{AtomicBool, Ordering::Relaxed};
use foreshore_io::{Access, AlignedBuf, BLOCK_BYTES, DirVfs, File, LockError, Vfs};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::env;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::Path;
use std::process::{self, Child, Command, Stdio};
use std::thread;
use std::time::Duration;
use support::TempDir;

const ROLE: &str = "FORESHORE_IO_ROLE";
const DIR: &str = "FORESHORE_IO_DIR";
const RING_BYTES: usize = 64 << 10;

fn vfs(path: &Path) -> DirVfs {
    DirVfs::open(path, false).expect("the test's directory")
}

fn holder(result: Result<Box<dyn Send + Sync>, LockError>) -> Option<u32> {
    match result {
        Ok(_) => panic!("a second owner"),
        Err(LockError::Held(holder)) => holder,
        Err(LockError::Io(error)) => panic!("{error}"),
    }
}

/// Starts this binary in a role; its standard input is a pipe that stays open until the child is waited for.
fn start(role: &str, dir: &Path) -> Child {
    Command::new(env::current_exe().expect("this binary"))
        .args(["--exact", "other_process", "--nocapture"])
        .env(ROLE, role)
        .env(DIR, dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this binary, again")
}

/// Waits for the child's line `ready …` and returns what follows.
fn wait_ready(child: &mut Child) -> String {
    let output = BufReader::new(child.stdout.as_mut().expect("a pipe"));
    // The harness prints the test's name in front of our line.
    let line = output
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.split_once("ready").map(|(_, rest)| rest.trim().to_owned()));
    line.expect("the child's word")
}

fn say_ready_and_wait() {
    println!("ready");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// From now on the system answers any thread's use of its ring by `EPERM`.
fn forbid_rings() {
    let filter = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut filters = [
        filter(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0), // the number of the call
        filter(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_io_uring_enter as u32),
        filter(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        filter(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filters.len() as u16, filter: filters.as_mut_ptr() };
    // SAFETY: the kernel reads a program whose filters live, and forbids this process a call that nothing depends on.
    let forbidden = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                libc::SECCOMP_FILTER_FLAG_TSYNC,
                &program,
            ) == 0
    };
    assert!(forbidden, "a process may confine itself");
}

/// No test by itself: the roles of the other process.
#[test]
fn other_process() {
    let Ok(role) = env::var(ROLE) else { return };
    let vfs = vfs(Path::new(&env::var(DIR).expect("a directory")));
    match role.as_str() {
        "holder" => {
            let _guard = vfs.lock("LOCK").expect("a free lock");
            say_ready_and_wait();
        }
        "holder with a child" => {
            let _guard = vfs.lock("LOCK").expect("a free lock");
            // The program speaks for itself: our `spawn` may return before its descriptors are closed.
            let script = "echo ready $$; exec sleep 600";
            let mut child = Command::new("sh").args(["-c", script]).spawn().expect("a shell");
            child.wait().expect("its end");
        }
        "holder that leaves a fork" => {
            let _guard = vfs.lock("LOCK").expect("a free lock");
            // SAFETY: only waits for a signal.
            println!("ready {}", fork(|| _ = unsafe { libc::pause() }));
            process::abort();
        }
        "confined" => {
            let file = vfs.open("file", Access::Buffered, true).expect("a new file");
            file.write_many(&[(0, b"a"), (1, b"b")]).expect("by a ring, if there is one");
            forbid_rings();
            file.write_many(&[(2, b"c"), (3, b"d")]).expect("without one");
            let mut found = [[0], [0], [0], [0]];
            let mut reads: Vec<_> = (0..).zip(found.iter_mut().map(|byte| &mut byte[..])).collect();
            file.read_many(&mut reads, &mut |_, read| assert_eq!(read.expect("a read").len(), 1));
            assert_eq!(found.as_flattened(), b"abcd");
        }
        "confined while it writes" => {
            let file = vfs.open("file", Access::Direct, true).expect("a new file");
            file.allocate(1000 * BLOCK_BYTES as u64).expect("room");
            let data = AlignedBuf::zeroed(500 * BLOCK_BYTES);
            let writes: Vec<_> = (0..).step_by(2 * BLOCK_BYTES).zip(data.chunks(BLOCK_BYTES)).collect();
            let stop = AtomicBool::new(false);
            thread::scope(|s| {
                let writer = s.spawn(|| {
                    while !stop.load(Relaxed) {
                        file.write_many(&writes).expect("by a ring, or without one");
                    }
                });
                thread::sleep(Duration::from_millis(20));
                forbid_rings();
                thread::sleep(Duration::from_millis(20));
                stop.store(true, Relaxed);
                writer.join().expect("no panic");
            });
        }
        "limited" => {
            let file = vfs.open("file", Access::Buffered, true).expect("a new file");
            let long = vfs.open("long", Access::Direct, true).expect("a new file");
            long.allocate(2 << 20).expect("room");
            let limit = getrlimit(Resource::Fsize);
            setrlimit(Resource::Fsize, Rlimit { current: Some(1 << 20), ..limit }).expect("less than it was");
            file.allocate(1 << 20).expect("as long as it may be");
            let error = file.allocate((1 << 20) + 1).expect_err("longer than it may be");
            assert_eq!(error.kind(), ErrorKind::FileTooLarge);
            assert_eq!(file.len().expect("its length"), 1 << 20);
            vfs.open("file", Access::Direct, false).expect("as long as it may be");
            let refused =
                vfs.open("long", Access::Direct, false).map(drop).expect_err("longer than it may be");
            assert!(refused.to_string().contains("raise that limit"), "{refused}");
        }
        "writer" => {
            let memory = vfs.shared_memory("ring", RING_BYTES).expect("a ring");
            for (value, word) in memory.words().iter().enumerate() {
                word.store(value as u64, Relaxed);
            }
            process::abort();
        }
        _ => panic!("no role {role}"),
    }
}

#[test]
fn a_lock_names_the_process_that_holds_it_and_dies_with_it() {
    let dir = TempDir::on_disk();
    for _ in 0..5 {
        let mut child = start("holder", dir.path());
        wait_ready(&mut child);
        assert_eq!(holder(vfs(dir.path()).lock("LOCK")), Some(child.id()));
        child.kill().expect("kill -9");
        child.wait().expect("its end");
        vfs(dir.path()).lock("LOCK").expect("a dead owner's lock");
    }
}

#[test]
fn a_lock_is_not_inherited_by_started_programs() {
    let dir = TempDir::on_disk();
    let mut child = start("holder with a child", dir.path());
    let grandchild: libc::pid_t = wait_ready(&mut child).parse().expect("a process id");
    child.kill().expect("kill -9");
    child.wait().expect("its end");
    let relocked = vfs(dir.path()).lock("LOCK").map(drop);
    // SAFETY: a signal to the process that the child started and nobody has waited for.
    unsafe { libc::kill(grandchild, libc::SIGKILL) };
    relocked.expect("the program that it started holds nothing");
}

/// Who took it is gone, and would be looked for in vain.
#[test]
fn a_lock_that_only_a_fork_has_names_nobody() {
    let dir = TempDir::on_disk();
    let mut child = start("holder that leaves a fork", dir.path());
    let grandchild: libc::pid_t = wait_ready(&mut child).parse().expect("a process id");
    child.wait().expect("its end");
    let locked = vfs(dir.path()).lock("LOCK");
    // SAFETY: as above.
    unsafe { libc::kill(grandchild, libc::SIGKILL) };
    assert_eq!(holder(locked), None);
}

/// Others tell their process by a signal, which ends it.
#[test]
fn a_file_that_may_not_become_longer_is_an_error() {
    let dir = TempDir::on_disk();
    let ended = start("limited", dir.path()).wait().expect("its end");
    assert!(ended.success(), "{ended}");
}

/// Forks; the child runs `action` and exits without unwinding into the harness.
fn fork(action: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the child calls `action`, which makes system calls and frees memory (glibc's allocator is usable after
    // fork), and then leaves by `_exit`.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            action();
            // SAFETY: ends this process only.
            unsafe { libc::_exit(0) }
        }
        child => child,
    }
}

/// Waits for the end of a child; its status.
fn wait_for(child: libc::pid_t) -> libc::c_int {
    let mut status = 0;
    // SAFETY: waits for our own child, with a place for its status.
    let waited = unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(waited, child);
    status
}

#[test]
fn a_forked_child_cannot_give_up_its_parents_lock() {
    let dir = TempDir::on_disk();
    let guard = vfs(dir.path()).lock("LOCK").expect("a free lock");
    let copy = std::mem::ManuallyDrop::new(guard);
    // SAFETY: the bits of the guard are used once in each process: dropped by the child, and by the parent below.
    let child = fork(|| drop(unsafe { std::ptr::read(&*copy) }));
    wait_for(child);
    assert_eq!(holder(vfs(dir.path()).lock("LOCK")), Some(process::id()));
    drop(std::mem::ManuallyDrop::into_inner(copy));
    vfs(dir.path()).lock("LOCK").expect("a lock that was given up");
}

#[test]
fn a_forked_child_does_not_keep_a_lock_that_its_parent_gave_up() {
    let dir = TempDir::on_disk();
    let guard = vfs(dir.path()).lock("LOCK").expect("a free lock");
    let child = fork(|| {
        // SAFETY: only waits for a signal.
        unsafe { libc::pause() };
    });
    drop(guard);
    let relocked = vfs(dir.path()).lock("LOCK").map(drop);
    // SAFETY: a signal to our own child, not yet waited for.
    unsafe { libc::kill(child, libc::SIGKILL) };
    wait_for(child);
    relocked.expect("the child holds nothing");
}

/// As somebody does who takes the file for what a dead process has left.
#[test]
fn who_removes_the_locks_file_lets_nobody_in() {
    let dir = TempDir::on_disk();
    let guard = vfs(dir.path()).lock("LOCK").expect("a free lock");
    std::fs::remove_file(dir.path().join("LOCK")).expect("removing it");
    assert_eq!(holder(vfs(dir.path()).lock("LOCK")), None);
    drop(guard);
    vfs(dir.path()).lock("LOCK").expect("a lock that was given up");
}

#[test]
fn shared_memory_outlives_an_aborted_process() {
    let dir = TempDir::on_disk();
    let mut child = start("writer", dir.path());
    let status = child.wait().expect("its end");
    assert!(status.code().is_none(), "ended by a signal, not with {status}");
    let memory = vfs(dir.path()).shared_memory("ring", RING_BYTES).expect("the ring");
    assert!(memory.words().iter().enumerate().all(|(value, word)| word.load(Relaxed) == value as u64));
}

/// A forked process has the handles, but none of the threads, and counters of its own: it must not write to the same memory.
#[test]
#[cfg(target_os = "linux")]
fn shared_memory_is_not_shared_with_forks() {
    let dir = TempDir::on_disk();
    let vfs = DirVfs::open(dir.path(), false).expect("the temporary directory");
    let memory = vfs.shared_memory("memory", 1 << 16).unwrap();
    let start = format!("{:x}-", memory.words().as_ptr().addr());
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut of_memory = maps.lines().skip_while(|line| !line.starts_with(&start));
    let flags = of_memory.find(|line| line.starts_with("VmFlags:")).expect("the mapping's flags");
    assert!(flags.split(' ').any(|flag| flag == "dc"), "no \"do not copy\" among {flags}");
}

/// A forked process may open what is its own. Its transfers are none of its parent's, nor the other way round.
#[test]
fn a_forked_process_transfers_for_itself() {
    let dir = TempDir::on_disk();
    let vfs = vfs(dir.path());
    let [ours, the_childs] =
        ["ours", "the child's"].map(|name| vfs.open(name, Access::Buffered, true).expect("a new file"));
    let write = |file: &dyn File, byte| file.write_many(&[(0, &[byte; 4]), (4, &[byte; 4])]);
    let read = |file: &dyn File| {
        let mut bytes = [0; 8];
        let (first, second) = bytes.split_at_mut(4);
        file.read_many(&mut [(0, first), (4, second)], &mut |_, read| assert!(read.is_ok()));
        bytes
    };
    write(&*ours, 1).expect("a write");
    let child = fork(|| {
        if write(&*the_childs, 2).is_err() || read(&*ours) != [1; 8] {
            process::abort();
        }
    });
    assert_eq!(wait_for(child), 0, "the child does without");
    write(&*ours, 3).expect("a write");
    assert_eq!((read(&*ours), read(&*the_childs)), ([3; 8], [2; 8]));
}

/// A process may confine itself once it has opened all that it needs.
#[test]
fn who_forbids_itself_rings_goes_on_without() {
    // The second one in the middle of something, nearly always.
    for role in ["confined", "confined while it writes", "confined while it writes"] {
        let dir = TempDir::on_disk();
        let status = start(role, dir.path()).wait().expect("its end");
        assert!(status.success(), "{role}");
    }
}
