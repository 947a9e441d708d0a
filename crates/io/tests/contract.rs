//! Every promise of [`Vfs`] and [`File`], asked of every backend.

mod support;

use foreshore_base::sync::Ordering::Relaxed;
use foreshore_io::{Access, AlignedBuf, BLOCK_BYTES, DirVfs, File, LockError, MemVfs, SimDisk, Vfs};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process;
use std::sync::Arc;
use std::thread;
use support::TempDir;

/// Runs a promise on a fresh directory of each backend.
fn on_every_backend(promise: impl Fn(&dyn Vfs)) {
    let dir = TempDir::on_disk();
    promise(&DirVfs::open(dir.path(), false).expect("the temporary directory"));
    let tmpfs = Path::new("/dev/shm");
    if tmpfs.is_dir() {
        let dir = TempDir::under(tmpfs);
        promise(&DirVfs::open(dir.path(), false).expect("the temporary directory"));
    }
    promise(&MemVfs::new());
    promise(&SimDisk::new(1));
}

fn buffered(vfs: &dyn Vfs, name: &str) -> Arc<dyn File> {
    vfs.open(name, Access::Buffered, true).expect("a new file")
}

fn content(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

fn names(vfs: &dyn Vfs) -> BTreeSet<String> {
    vfs.list().unwrap().into_iter().collect()
}

fn kind<T>(result: std::io::Result<T>) -> ErrorKind {
    match result {
        Ok(_) => panic!("this had to fail"),
        Err(error) => error.kind(),
    }
}

#[test]
fn open_creates_only_when_asked_and_never_empties() {
    on_every_backend(|vfs| {
        assert_eq!(kind(vfs.open("a", Access::Buffered, false)), ErrorKind::NotFound);
        let file = buffered(vfs, "a");
        assert!(file.is_empty().unwrap());
        file.write_at(b"kept", 0).unwrap();
        assert_eq!(content(&*buffered(vfs, "a")), b"kept");
        assert_eq!(content(&*vfs.open("a", Access::Buffered, false).unwrap()), b"kept");
    });
}

#[test]
fn names_are_flat() {
    on_every_backend(|vfs| {
        for name in ["", ".", "..", "a/b", "../a", "/a", "a\0"] {
            assert_eq!(kind(vfs.open(name, Access::Buffered, true)), ErrorKind::InvalidInput, "{name:?}");
            buffered(vfs, "a");
            assert_eq!(kind(vfs.rename("a", name)), ErrorKind::InvalidInput, "{name:?}");
            assert_eq!(kind(vfs.shared_memory(name, BLOCK_BYTES)), ErrorKind::InvalidInput, "{name:?}");
            assert!(matches!(vfs.lock(name), Err(LockError::Io(e)) if e.kind() == ErrorKind::InvalidInput));
        }
    });
}

#[test]
fn removed_and_renamed_names() {
    on_every_backend(|vfs| {
        for name in ["a", "b", "c"] {
            buffered(vfs, name).write_at(name.as_bytes(), 0).unwrap();
        }
        vfs.remove("a").unwrap();
        assert_eq!(kind(vfs.remove("a")), ErrorKind::NotFound);
        assert_eq!(kind(vfs.rename("a", "b")), ErrorKind::NotFound);
        vfs.rename("b", "c").unwrap();
        vfs.sync_dir().unwrap();
        assert_eq!(names(vfs), BTreeSet::from(["c".to_owned()]));
        assert_eq!(content(&*buffered(vfs, "c")), b"b");
    });
}

#[test]
fn an_open_file_outlives_its_name() {
    on_every_backend(|vfs| {
        let file = buffered(vfs, "a");
        file.write_at(b"old", 0).unwrap();
        vfs.remove("a").unwrap();
        vfs.sync_dir().unwrap();
        buffered(vfs, "a").write_at(b"new", 0).unwrap();
        assert_eq!(content(&*file), b"old");
        file.write_at(b"OLD", 0).unwrap();
        assert_eq!(content(&*file), b"OLD");
        assert_eq!(content(&*buffered(vfs, "a")), b"new");
    });
}

#[test]
fn writes_grow_the_file_over_zeros() {
    on_every_backend(|vfs| {
        let file = buffered(vfs, "a");
        file.write_at(b"end", 10_000).unwrap();
        file.write_at(b"begin", 0).unwrap();
        let mut expected = vec![0; 10_003];
        expected[..5].copy_from_slice(b"begin");
        expected[10_000..].copy_from_slice(b"end");
        assert_eq!(content(&*file), expected);
    });
}

#[test]
fn reading_past_the_end_is_an_error_and_reading_nothing_is_not() {
    on_every_backend(|vfs| {
        let file = buffered(vfs, "a");
        file.write_at(&[1; 100], 0).unwrap();
        file.write_at(&[], 5000).unwrap();
        assert_eq!(file.len().unwrap(), 100);
        for (offset, bytes) in [(0, 101), (99, 2), (100, 1), (5000, 1)] {
            assert_eq!(kind(file.read_at(&mut vec![0; bytes], offset)), ErrorKind::UnexpectedEof);
        }
        file.read_at(&mut [], 0).unwrap();
        file.read_at(&mut [0; 100], 0).unwrap();
    });
}

#[test]
fn what_was_cut_comes_back_as_zeros() {
    on_every_backend(|vfs| {
        let file = buffered(vfs, "a");
        file.write_at(&[1; 9000], 0).unwrap();
        file.set_len(4100).unwrap();
        assert_eq!(file.len().unwrap(), 4100);
        file.set_len(9000).unwrap();
        let mut expected = vec![1; 4100];
        expected.resize(9000, 0);
        assert_eq!(content(&*file), expected);
    });
}

/// Who asks for more than there is must not take it all before he fails.
#[test]
fn more_space_than_there_is_is_refused_and_none_taken() {
    let dir = TempDir::on_disk();
    let file = buffered(&DirVfs::open(dir.path(), false).unwrap(), "a");
    file.write_at(&[1; 5000], 0).unwrap();
    file.sync().unwrap();
    let blocks = || std::fs::metadata(dir.path().join("a")).unwrap().blocks();
    let before = blocks();
    let there = rustix::fs::statvfs(dir.path()).unwrap();
    let too_much = there.f_bfree * there.f_frsize + (1 << 30);
    assert_eq!(kind(file.allocate(too_much)), ErrorKind::StorageFull);
    assert!(content(&*file) == [1; 5000]);
    assert_eq!(blocks(), before);
}

#[test]
fn allocate_grows_with_zeros_and_never_shrinks() {
    on_every_backend(|vfs| {
        let file = buffered(vfs, "a");
        file.allocate(0).unwrap();
        file.write_at(&[1; 5000], 0).unwrap();
        file.allocate(3000).unwrap();
        assert_eq!(content(&*file), [1; 5000]);
        file.allocate(1 << 20).unwrap();
        let mut expected = vec![1; 5000];
        expected.resize(1 << 20, 0);
        assert_eq!(content(&*file), expected);
        // What was cut off is reserved anew.
        file.set_len(100).unwrap();
        file.allocate(5000).unwrap();
        expected = vec![1; 100];
        expected.resize(5000, 0);
        assert_eq!(content(&*file), expected);
    });
}

#[test]
fn direct_files_transfer_whole_blocks() {
    on_every_backend(|vfs| {
        let file = vfs.open("a", Access::Direct, true).unwrap();
        let mut block = AlignedBuf::zeroed(3 * BLOCK_BYTES);
        block.fill(3);
        file.allocate(8 * BLOCK_BYTES as u64).unwrap();
        file.write_at(&block, 2 * BLOCK_BYTES as u64).unwrap();
        file.sync().unwrap();
        let mut whole = AlignedBuf::zeroed(8 * BLOCK_BYTES);
        file.read_at(&mut whole, 0).unwrap();
        assert!(whole[..2 * BLOCK_BYTES].iter().all(|&byte| byte == 0));
        assert!(whole[2 * BLOCK_BYTES..5 * BLOCK_BYTES].iter().all(|&byte| byte == 3));
        assert!(whole[5 * BLOCK_BYTES..].iter().all(|&byte| byte == 0));
        assert_eq!(kind(file.read_at(&mut block, 6 * BLOCK_BYTES as u64)), ErrorKind::UnexpectedEof);
        file.write_at(&block, 7 * BLOCK_BYTES as u64).unwrap();
        assert_eq!(file.len().unwrap(), 10 * BLOCK_BYTES as u64);
        let again = vfs.open("a", Access::Buffered, false).unwrap();
        assert_eq!(content(&*again).len(), 10 * BLOCK_BYTES);
    });
}

#[cfg(debug_assertions)]
#[test]
fn misaligned_direct_transfers_panic_in_debug_builds() {
    on_every_backend(|vfs| {
        let file = vfs.open("a", Access::Direct, true).unwrap();
        let memory = AlignedBuf::zeroed(2 * BLOCK_BYTES);
        let refused = |transfer: &dyn Fn()| {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(transfer)).expect_err("a panic")
        };
        refused(&|| file.write_at(&memory[1..=BLOCK_BYTES], 0).unwrap());
        refused(&|| file.write_at(&memory[..512], 0).unwrap());
        refused(&|| file.write_at(&memory[..BLOCK_BYTES], 512).unwrap());
        refused(&|| file.set_len(100).unwrap());
        refused(&|| file.allocate(100).unwrap());
    });
}

#[test]
fn threads_write_side_by_side() {
    on_every_backend(|vfs| {
        let file = buffered(vfs, "a");
        thread::scope(|scope| {
            for thread in 0..4u8 {
                let file = &file;
                scope.spawn(move || {
                    for round in 0..64 {
                        let offset = (round * 4 + u64::from(thread)) * 100;
                        file.write_at(&[thread + 1; 100], offset).unwrap();
                    }
                    file.sync().unwrap();
                });
            }
        });
        for (index, chunk) in content(&*file).chunks(100).enumerate() {
            assert_eq!(chunk, [(index % 4) as u8 + 1; 100]);
        }
    });
}

#[test]
fn a_lock_has_one_owner() {
    on_every_backend(|vfs| {
        let guard = vfs.lock("LOCK").unwrap();
        match vfs.lock("LOCK") {
            Err(LockError::Held(owner)) => assert_eq!(owner, Some(process::id())),
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("two owners"),
        }
        drop(guard);
        let _again = vfs.lock("LOCK").unwrap();
        assert_eq!(names(vfs), BTreeSet::from(["LOCK".to_owned()]));
    });
}

#[test]
fn shared_memory_is_zero_at_first_then_as_it_was_left() {
    on_every_backend(|vfs| {
        let memory = vfs.shared_memory("ring", 4 * BLOCK_BYTES).unwrap();
        assert_eq!(memory.words().len(), 4 * BLOCK_BYTES / 8);
        assert!(memory.words().iter().all(|word| word.load(Relaxed) == 0));
        memory.words()[0].store(1, Relaxed);
        memory.words()[2047].store(u64::MAX, Relaxed);
        let same = vfs.shared_memory("ring", 4 * BLOCK_BYTES).unwrap();
        assert_eq!(same.words()[2047].load(Relaxed), u64::MAX);
        same.words()[5].store(5, Relaxed);
        assert_eq!(memory.words()[5].load(Relaxed), 5);
        drop((memory, same));
        let later = vfs.shared_memory("ring", 4 * BLOCK_BYTES).unwrap();
        assert_eq!(later.words()[0].load(Relaxed), 1);
        assert_eq!(names(vfs), BTreeSet::from(["ring".to_owned()]));
    });
}

#[test]
fn shared_memory_of_another_size_is_refused() {
    on_every_backend(|vfs| {
        vfs.shared_memory("ring", 2 * BLOCK_BYTES).unwrap();
        for bytes in [BLOCK_BYTES, 3 * BLOCK_BYTES] {
            assert_eq!(kind(vfs.shared_memory("ring", bytes)), ErrorKind::InvalidData);
        }
        buffered(vfs, "short").write_at(b"short", 0).unwrap();
        assert_eq!(kind(vfs.shared_memory("short", BLOCK_BYTES)), ErrorKind::InvalidData);
    });
}

#[test]
fn an_unfinished_creation_of_shared_memory_is_repeated() {
    on_every_backend(|vfs| {
        buffered(vfs, "ring.new").write_at(&[1; 10_000], 0).unwrap();
        let memory = vfs.shared_memory("ring", BLOCK_BYTES).unwrap();
        assert!(memory.words().iter().all(|word| word.load(Relaxed) == 0));
    });
}

#[test]
fn a_directory_is_created_only_when_asked() {
    let dir = TempDir::on_disk();
    let path = dir.path().join("one/two");
    assert_eq!(kind(DirVfs::open(&path, false)), ErrorKind::NotFound);
    let vfs = DirVfs::open(&path, true).unwrap();
    buffered(&vfs, "a");
    let again = DirVfs::open(&path, true).unwrap();
    assert_eq!(again.list().unwrap(), ["a"]);
    assert_eq!(again.describe(), path.to_str().unwrap());
    assert_eq!(kind(DirVfs::open(path.join("a"), false)), ErrorKind::NotADirectory);
}

/// What is asked of a directory, or of a file in it, is asked of the one that was opened, which may have another name by now.
#[test]
fn a_directory_is_known_again_when_it_has_moved() {
    let dir = TempDir::on_disk();
    let [path, away] = ["a", "away"].map(|name| dir.path().join(name));
    let vfs = DirVfs::open(&path, true).unwrap();
    buffered(&vfs, "a");
    std::fs::rename(&path, &away).unwrap();
    std::fs::create_dir(&path).unwrap();
    let inode = |path: &Path| std::fs::metadata(path).unwrap().ino();
    let opened = vfs.metadata().unwrap();
    assert!(opened.is_dir());
    assert_eq!(opened.ino(), inode(&away));
    assert_ne!(opened.ino(), inode(&path));
    assert_eq!(vfs.metadata_of("a").unwrap().ino(), inode(&away.join("a")));
    assert_eq!(kind(vfs.metadata_of("b")), ErrorKind::NotFound);
    assert_eq!(kind(vfs.metadata_of("..")), ErrorKind::InvalidInput);
}

/// A directory that holds others is not empty, but the root of a file system may be.
#[test]
fn what_a_file_system_makes_for_itself_is_not_listed() {
    let dir = TempDir::on_disk();
    std::fs::create_dir(dir.path().join("lost+found")).unwrap();
    let vfs = DirVfs::open(dir.path(), false).unwrap();
    assert_eq!(vfs.list().unwrap(), [""; 0]);
    std::fs::create_dir(dir.path().join("a")).unwrap();
    std::fs::write(dir.path().join(OsStr::from_bytes(b"\xff")), "").unwrap();
    let mut names = vfs.list().unwrap();
    names.sort_unstable();
    assert_eq!(names, ["a", "\u{fffd}"]);
}
