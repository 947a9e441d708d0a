//! Compaction keeps every row, gives space back, and refuses what it would lose.

mod common;

use common::{TINY_SEGMENT_BYTES, tiny};
use foreshore::{Builder, Database, Error};
use foreshore_io::{DirVfs, Vfs};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use tempfile::TempDir;

/// Small files, so that what is left after a compaction is mostly rows.
fn builder() -> Builder {
    tiny().durability(foreshore::Durability::Relaxed)
}

/// A database with more leaves than its rows need: of `rows` rows, every fiftieth has stayed.
fn sparse(rows: u32) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flights.db");
    let db = builder().cache_bytes(64 << 20).open(&path).unwrap();
    let table = db.byte_table("t").unwrap();
    table.bulk_load((0..rows).map(|i| (i.to_be_bytes(), [i as u8; 1000]))).unwrap();
    db.checkpoint().unwrap();
    for i in (0..rows).filter(|i| i % 50 != 0) {
        table.remove(&i.to_be_bytes()).unwrap();
    }
    drop(table);
    db.close().unwrap();
    (dir, path)
}

fn rows(path: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    let db = builder().create(false).open(path).unwrap();
    db.check().unwrap();
    db.byte_table("t").unwrap().range(..).collect::<Result<_, _>>().unwrap()
}

fn beside(path: &Path) -> PathBuf {
    path.with_file_name("flights.db.compacting")
}

#[track_caller]
fn refused(path: &Path, reason: &str) {
    let error = builder().compact(path, |_| {}).unwrap_err();
    assert!(matches!(&error, Error::Argument(text) if text.contains(reason)), "{error}");
}

/// By which small files grow at least.
const GROWTH_BYTES: u64 = 8 << 20;

#[test]
fn rows_stay_and_space_goes() {
    // More than the bytes by which files grow.
    let (_dir, path) = sparse(20_000);
    let before = rows(&path);
    let compacted = builder().compact(&path, |_| {}).unwrap();
    assert_eq!((compacted.copied.rows, before.len()), (400, 400));
    assert!(compacted.bytes_now * 2 < compacted.bytes_before, "{compacted:?}");
    assert!(!beside(&path).exists());
    assert_eq!(rows(&path), before);

    let again = builder().compact(&path, |_| {}).unwrap();
    // But for a log file, and space in the file of leaves, which may just have been made ready for what comes next.
    let smallest = compacted.bytes_now + TINY_SEGMENT_BYTES + GROWTH_BYTES;
    assert!(again.bytes_now <= smallest, "it is as small as it gets: {compacted:?}, {again:?}");
    assert_eq!(rows(&path), before);
}

/// The rows go through the copy's log, and what they leave of it nobody needs.
#[test]
fn the_log_of_many_rows_is_no_longer_than_that_of_none() {
    let segments = |path: &Path| {
        let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_str().unwrap().starts_with("wal-")).count()
    };
    let segments_of = |rows: u32| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("flights.db");
        let db = builder().open(&path).unwrap();
        let table = db.byte_table("t").unwrap();
        table.bulk_load((0..rows).map(|i| (i.to_be_bytes(), [i as u8; 1000]))).unwrap();
        drop(table);
        db.close().unwrap();
        builder().compact(&path, |_| {}).unwrap();
        segments(&path)
    };
    let (many, none) = (segments_of(5000), segments_of(0));
    assert!(many <= none + 1, "{many} segments, where an empty database has {none}"); // where the log ends, one may be begun
}

/// What somebody else is making beside it is not thrown away under his hands.
#[test]
fn a_creation_beside_it_that_is_under_way_is_left_alone() {
    let (_dir, path) = sparse(500);
    let other = DirVfs::open(beside(&path), true).unwrap();
    let lock = other.lock("LOCK").unwrap();
    let permissions = fs::metadata(beside(&path)).unwrap().permissions();
    let files = ["FORESHORE.creating", "leaves.db"].map(|name| beside(&path).join(name));
    files.iter().for_each(|file| fs::write(file, "").unwrap());
    let error = builder().compact(&path, |_| {}).unwrap_err();
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    files.iter().for_each(|file| assert!(file.exists(), "{file:?} is gone"));
    assert_eq!(fs::metadata(beside(&path)).unwrap().permissions(), permissions);
    drop(lock); // its process has died
    builder().compact(&path, |_| {}).unwrap();
    assert!(!beside(&path).exists());
}

/// Nor is a backup that somebody makes there spoilt, or called scrap when it is done.
#[test]
fn a_backup_beside_it_that_is_under_way_is_left_alone() {
    let ((_dir, path), (_others, other)) = (sparse(500), sparse(1000));
    let (before, others) = (rows(&path), rows(&other));
    let db = builder().open(&other).unwrap();
    let mut refused = 0;
    db.backup_with(beside(&path), |_| {
        let error = builder().compact(&path, |_| {}).unwrap_err();
        assert!(matches!(error, Error::Locked { .. }), "{error}");
        refused += 1;
    })
    .unwrap();
    assert!(refused > 0);
    assert_eq!(rows(&beside(&path)), others);
    assert_eq!(rows(&path), before);
    let files = fs::read_dir(beside(&path)).unwrap().map(|file| file.unwrap().file_name());
    assert!(!files.into_iter().any(|name| name == "FORESHORE.backup"));
}

/// Compacts a database of which somebody moves the directory away meanwhile, and gives its name to what `take` makes. That is refused, and
/// all rows are there, where only their owner may read them.
#[track_caller]
fn moved_while_it_is_copied(take: impl Fn(&Path, &Path)) -> (TempDir, PathBuf) {
    let (dir, path) = sparse(500);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    let (away, before) = (dir.path().join("away"), rows(&path));
    let compacted = builder().compact(&path, |_| {
        if !away.exists() {
            fs::rename(&path, &away).unwrap();
            take(&path, &away);
        }
    });
    let refused = matches!(&compacted, Err(Error::Argument(told)) if told.contains("no longer"));
    assert!(refused, "{compacted:?}");
    assert_eq!((rows(&away), rows(&beside(&path))), (before.clone(), before));
    assert_eq!(fs::metadata(beside(&path)).unwrap().mode() & 0o7777, 0o700);
    (dir, path)
}

/// Another database is not removed, nor renamed, because it has the path that this one had.
#[test]
fn what_has_taken_its_place_meanwhile_stays() {
    let (_dir, path) = moved_while_it_is_copied(|path, _| {
        let db = builder().open(path).unwrap();
        db.byte_table("t").unwrap().put(b"k", b"v").unwrap();
        db.close().unwrap();
    });
    assert_eq!(rows(&path), [(b"k".to_vec(), b"v".to_vec())]);
}

/// Nor is a link, even one to where the database is now: a directory would take its name, and what it leads to would be removed.
#[test]
fn a_link_that_has_taken_its_place_meanwhile_stays() {
    let (_dir, path) = moved_while_it_is_copied(|path, away| std::os::unix::fs::symlink(away, path).unwrap());
    assert!(path.is_symlink());
}

#[test]
fn a_link_to_the_directory_stays_one() {
    let (dir, path) = sparse(500);
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let before = rows(&path);
    builder().compact(&link, |_| {}).unwrap();
    assert!(link.is_symlink());
    assert_eq!((rows(&link), rows(&path)), (before.clone(), before));
}

/// What only its owner may read stays so, and stays the owner's whoever compacts it.
#[test]
fn owner_and_permissions_stay() {
    let (_dir, path) = sparse(500);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    // Only root may give files away.
    let given_away = chown(&path, Some(1234), Some(1234)).is_ok();
    builder().compact(&path, |_| {}).unwrap();
    let directory = fs::metadata(&path).unwrap();
    assert_eq!(directory.mode() & 0o7777, 0o700);
    if given_away {
        let files = fs::read_dir(&path).unwrap().map(|file| file.unwrap().metadata().unwrap());
        for found in files.chain([directory]) {
            assert_eq!((found.uid(), found.gid()), (1234, 1234));
        }
    }
}

/// What only its files keep from others, in a directory that all may look into, others may not read either while it is copied, nor
/// afterwards. Nor may they in a directory that an interrupted compaction left.
#[test]
fn the_copy_is_as_private_as_the_files() {
    let (_dir, path) = sparse(500);
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    let set_mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let files = |path: &Path| fs::read_dir(path).unwrap().map(|file| file.unwrap().path());
    set_mode(&path, 0o755);
    for private in [0o600, 0o640] {
        files(&path).for_each(|file| set_mode(&file, private));
        let mut meanwhile = BTreeSet::new();
        builder().compact(&path, |_| _ = meanwhile.insert(mode(&beside(&path)))).unwrap();
        let files: BTreeSet<_> = files(&path).map(|file| mode(&file)).collect();
        let only = |mode| BTreeSet::from([mode]);
        assert_eq!((meanwhile, mode(&path), files), (only(0o700), 0o755, only(private)));
        // What a compaction leaves that was cut short while it removed the old files.
        fs::create_dir(beside(&path)).unwrap();
        fs::write(beside(&path).join("FORESHORE.backup"), "").unwrap();
        set_mode(&beside(&path), 0o755);
    }
}

/// The files are given to the group of the directory. If they had another one, it may do no more with them than others might.
#[test]
fn a_group_that_the_files_did_not_have_learns_nothing() {
    let (_dir, path) = sparse(500);
    let files = || fs::read_dir(&path).unwrap().map(|file| file.unwrap().path());
    // Only root may choose any group.
    if files().all(|file| chown(file, None, Some(4321)).is_ok()) {
        for (before, after) in [(0o660, 0o600), (0o664, 0o644)] {
            for file in files() {
                fs::set_permissions(&file, fs::Permissions::from_mode(before)).unwrap();
                chown(file, None, Some(4321)).unwrap();
            }
            builder().compact(&path, |_| {}).unwrap();
            let modes: BTreeSet<_> =
                files().map(|file| fs::metadata(file).unwrap().mode() & 0o7777).collect();
            assert_eq!(modes, BTreeSet::from([after]));
        }
    }
}

/// Who may not give the copy to the owner is told so before any row is copied, each time.
#[test]
fn who_may_not_give_it_away_leaves_nothing_beside() {
    let (dir, path) = sparse(500);
    let files = fs::read_dir(&path).unwrap().map(|file| file.unwrap().path());
    for path in files.chain([path.clone(), dir.path().to_path_buf()]) {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let compact_as_another = || {
        // SAFETY: changes who this thread is, and no other one but those that it starts. Only root's may.
        let is_another = unsafe { libc::syscall(libc::SYS_setresuid, 1234, 1234, 1234) } == 0;
        is_another.then(|| builder().compact(&path, |_| panic!("a table was copied")))
    };
    for _ in 0..2 {
        let compacted = thread::scope(|scope| scope.spawn(compact_as_another).join().unwrap());
        let Some(compacted) = compacted else { return };
        let Err(Error::Io { kind: io::ErrorKind::PermissionDenied, .. }) = compacted else {
            panic!("{compacted:?}");
        };
        assert!(!beside(&path).exists());
    }
}

#[test]
fn an_open_database_is_refused() {
    let (_dir, path) = sparse(500);
    let db = Database::open(&path).unwrap();
    assert!(matches!(builder().compact(&path, |_| {}), Err(Error::Locked { .. })));
    db.close().unwrap();
}

#[test]
fn prepared_transactions_are_not_lost() {
    let (_dir, path) = sparse(500);
    let db = builder().open(&path).unwrap();
    let tx = db.begin().unwrap();
    tx.bytes(&db.byte_table("t").unwrap()).put(b"new", b"row").unwrap();
    tx.prepare("gid").unwrap();
    db.close().unwrap();
    refused(&path, "1 transaction that has prepared waits to hear whether to commit, \"gid\"");
    let db = builder().open(&path).unwrap();
    db.commit_prepared("gid").unwrap();
    db.close().unwrap();
    assert_eq!(builder().compact(&path, |_| {}).unwrap().copied.rows, 11);
}

#[test]
fn other_files_are_not_moved_away() {
    let (_dir, path) = sparse(500);
    fs::write(path.join("letter.txt"), "dear").unwrap();
    refused(&path, "letter.txt");
    assert_eq!(fs::read_to_string(path.join("letter.txt")).unwrap(), "dear");
    assert!(!beside(&path).exists());
}

/// What its name begins with makes no file ours: a copy that somebody laid beside the original stays.
#[test]
fn files_with_names_like_ours_are_not_moved_away() {
    for name in
        ["leaves.db.bak", "ringtone.mp3", "directory-listing.txt", "wal-notes.md", "wal-7", "LOCK.old"]
    {
        let (_dir, path) = sparse(500);
        fs::write(path.join(name), "dear").unwrap();
        refused(&path, name);
        assert_eq!(fs::read_to_string(path.join(name)).unwrap(), "dear");
    }
}

/// Nor is what lies where the copy would be made.
#[test]
fn a_directory_in_the_way_is_left_alone() {
    let (_dir, path) = sparse(500);
    fs::create_dir(beside(&path)).unwrap();
    fs::write(beside(&path).join("letter.txt"), "dear").unwrap();
    refused(&path, "not ours");
    assert_eq!(fs::read_dir(beside(&path)).unwrap().count(), 1);
}

/// What an interrupted compaction leaves: a complete database is refused, half a one is thrown away.
#[test]
fn leftovers_are_told_apart() {
    let (_dir, path) = sparse(500);
    let before = rows(&path);
    let db = builder().open(&path).unwrap();
    db.backup(beside(&path)).unwrap();
    drop(db);
    refused(&path, "left from an interrupted compaction");
    assert_eq!(rows(&beside(&path)), before, "nobody touched it");

    fs::rename(beside(&path).join("FORESHORE"), beside(&path).join("FORESHORE.backup")).unwrap();
    builder().compact(&path, |_| {}).unwrap();
    assert_eq!(rows(&path), before);
}

/// Nor is a copy in the way that was made, but is not to take the database's place: who does as he is told can compact.
#[test]
fn what_fails_behind_the_copy_leaves_nothing_in_the_way() {
    let (_dir, path) = sparse(500);
    let (before, notes) = (rows(&path), beside(&path).join("notes.txt"));
    let failed = builder().compact(&path, |_| fs::write(&notes, "").unwrap()).unwrap_err();
    assert!(failed.to_string().contains("move it elsewhere, then compact"), "{failed}");
    fs::remove_file(&notes).unwrap();
    builder().compact(&path, |_| {}).unwrap();
    assert_eq!(rows(&path), before);
    assert!(!beside(&path).exists());
}

/// Whoever misspells the path is told that there is no such directory, as by opening it.
#[test]
fn what_is_not_there_is_no_failure_of_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("misspelt");
    let refused = builder().compact(&missing, |_| {}).unwrap_err();
    assert!(matches!(&refused, Error::Incompatible { .. }), "{refused}");
    assert!(refused.to_string().contains("misspelt") && !missing.exists(), "{refused}");
}

/// A mounted directory keeps its name. That is told before anything is copied, which would lie in another file system.
#[test]
fn a_mounted_directory_is_refused() {
    refused(Path::new("/proc"), "mounted at /proc");
}

/// So does, in an overlay file system, a directory of a lower layer, as a container's image brings it.
#[test]
fn a_directory_of_a_lower_layer_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for layer in ["lower", "upper", "work", "merged"] {
        fs::create_dir(dir.path().join(layer)).unwrap();
    }
    Database::open(dir.path().join("lower/db")).unwrap().close().unwrap();
    let in_an_overlay = |command: &str| {
        let mount = "cd \"$0\" && mount -t overlay overlay -o userxattr,lowerdir=lower,upperdir=upper,workdir=work merged";
        let mut unshare = Command::new("unshare");
        unshare.args(["--user", "--map-root-user", "--mount", "sh", "-c", &format!("{mount} && {command}")]);
        unshare.arg(dir.path()).arg(std::env::current_exe().unwrap()).output()
    };
    // Not every system lets us have one.
    if in_an_overlay("true").is_ok_and(|output| output.status.success()) {
        let output = in_an_overlay("exec \"$1\" --exact compact_in_an_overlay --ignored").unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        // The system lets nobody look into its own directory there, who removes all.
        fs::set_permissions(dir.path().join("work/work"), fs::Permissions::from_mode(0o700)).unwrap();
    }
}

#[test]
#[ignore = "a part of the test above, in a process that sees the overlay"]
fn compact_in_an_overlay() {
    let path = Path::new("merged/db");
    let copied = Cell::new(0);
    let refused = builder().compact(path, |_| copied.set(copied.get() + 1)).unwrap_err();
    assert!(matches!(&refused, Error::Argument(told) if told.contains("elsewhere")), "{refused}");
    assert!(copied.get() == 0 && !beside(path).exists());
    builder().open(path).unwrap().close().unwrap();
    // One that was made above the lower layer can be renamed.
    builder().open("merged/new").unwrap().close().unwrap();
    builder().compact("merged/new", |_| {}).unwrap();
}
