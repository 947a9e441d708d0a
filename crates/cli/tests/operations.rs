//! `backup`, `restore --from-backup`, `compact`, `stats --watch`, `completions`, `man`.

mod common;

use common::{Shell, files};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

fn flights() -> Shell {
    let shell = Shell::new();
    let rows: String = (0..500).map(|i| format!("{},{i},{}\n", i % 7, "x".repeat(i % 90))).collect();
    shell.write("f.csv", format!("day,flight,note\n{rows}"));
    shell.ok(&["load", "--table", "flights", "--key", "day,flight", "f.csv"]);
    shell.ok(&["put", "--table", "notes", "hello", "world"]);
    shell.ok(&["put", "--table", "notes", "large", &"0123456789".repeat(10_000)]);
    shell
}

#[test]
fn a_backup_comes_back() {
    let shell = flights();
    let everything = shell.ok(&["dump"]);
    let told = shell.json(&["backup", "monday"]);
    assert_eq!(told[0]["copied"]["rows"], 503, "{told:?}");
    let checked = shell.json(&["check", "--dir", "monday"]);
    let tables = checked[0]["tables"].as_array().expect("a list");
    let notes = tables.iter().find(|table| table["name"] == "notes").expect("the table");
    assert_eq!(notes["large_bytes"], 100_000, "{checked:?}");
    assert!(shell.ok(&["check"]).contains("1 (97.66 KiB)"));
    shell.ok(&["rm", "--table", "notes", "hello"]);
    assert_eq!(shell.ok(&["dump", "--dir", "monday"]), everything, "the copy is another database");

    let told = shell.ok(&["restore", "--dir", "again.db", "--from-backup", "monday"]);
    assert!(told.contains("rows: 503"), "{told}");
    assert_eq!(shell.ok(&["dump", "--dir", "again.db"]), everything);
    for args in [["restore", "--from-backup", "monday"].as_slice(), &["backup", "foreshore.db"]] {
        let refused = shell.fails(2, args);
        assert!(refused.contains("absent or empty directory"), "{refused}");
    }
}

/// JSON is text, and a path need not be.
#[test]
fn a_backup_is_told_as_json_whatever_its_name() {
    let shell = flights();
    let mut command = shell.command(&["backup", "--json"]);
    let ran: common::Ran = command.arg(OsStr::from_bytes(b"mon\xffday")).output().unwrap().into();
    let told = ran.expect(0, &["backup"]).objects();
    assert_eq!(told[0]["backup"], "mon\u{fffd}day");
    let told = shell.json(&["shell", "-c", ".backup tuesday"]);
    assert_eq!(told[0]["backup"], "tuesday");
    assert_eq!(told[0]["copied"]["rows"], 503);
}

#[test]
fn a_backup_that_cannot_be_made_says_why() {
    let shell = flights();
    shell.write("occupied", "");
    shell.fails(5, &["backup", "occupied"]);
    std::fs::create_dir(shell.path("letters")).unwrap();
    shell.write("letters/dear.txt", "dear");
    let refused = shell.fails(2, &["backup", "letters"]);
    assert!(refused.contains("dear.txt"), "{refused}");
    shell.fails(2, &["backup", "--dir", "nowhere", "target"]);
    shell.fails(2, &["restore", "--dir", "new.db"]);
    shell.fails(2, &["restore", "--dir", "new.db", "--from-backup", "nowhere"]);
    shell.fails(2, &["restore", "--from-backup", "monday", "all.dump"]);
    std::fs::create_dir(shell.path("empty")).unwrap();
    let refused = shell.fails(2, &["restore", "--dir", "new.db", "--from-backup", "empty"]);
    assert!(refused.contains("there is no backup in empty") && !refused.contains("--dir"), "{refused}");
}

/// What a crash in the middle of a backup leaves.
#[test]
fn half_a_backup_is_refused_and_replaced() {
    let shell = flights();
    shell.ok(&["backup", "monday"]);
    std::fs::rename(shell.path("monday/FORESHORE"), shell.path("monday/FORESHORE.backup")).unwrap();
    for command in [&["tables", "--dir", "monday"][..], &["put", "--dir", "monday", "--table", "t", "k", "v"]]
    {
        let refused = shell.fails(2, command);
        assert!(refused.contains("a backup that was interrupted"), "{refused}");
    }
    shell.ok(&["backup", "monday"]);
    assert_eq!(shell.ok(&["dump", "--dir", "monday"]), shell.ok(&["dump"]));
}

#[test]
fn compaction_keeps_everything() {
    let shell = flights();
    let everything = shell.ok(&["dump"]);
    shell.write("foreshore.db/directory.tmp", "what a crash leaves of a directory being rewritten");
    let told = shell.json(&["compact"]);
    assert_eq!(told[0]["copied"]["rows"], 503, "{told:?}");
    assert_eq!(shell.ok(&["dump"]), everything);
    let told = shell.ok(&["compact"]);
    assert!(told.contains("before") && told.contains("rows: 503"), "{told}");
    assert!(files(&shell.path(".")).iter().all(|file| !file.ends_with("foreshore.db.compacting")));
    shell.fails(2, &["compact", "--dir", "nowhere"]);
}

/// Another process has the database open: it is seen, and not disturbed; who wants to open it is told.
#[test]
fn an_open_database_is_watched_from_outside() {
    let shell = flights();
    let watch = ["stats", "--watch", "0.05", "--times", "3"];
    assert!(shell.json(&watch).iter().all(|seen| seen["pid"].is_null()));

    let mut command = shell.command(&["shell"]);
    let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = holder.stdin.take().unwrap();
    stdin.write_all(b"count notes\n").unwrap();
    let mut answer = String::new();
    BufReader::new(holder.stdout.as_mut().unwrap()).read_line(&mut answer).unwrap();
    assert_eq!(answer, "2\n");

    let seen = shell.json(&watch);
    assert_eq!(seen.len(), 3);
    for look in &seen {
        assert_eq!(look["pid"], holder.id(), "{look}");
        assert!(look["leaf_file_bytes"].as_u64() > Some(0), "{look}");
    }
    assert!(seen[0]["cpu_percent"].is_null() && !seen[2]["cpu_percent"].is_null(), "{seen:?}");
    let line = shell.ok(&["stats", "--watch", "0.05", "--times", "1"]);
    assert!(line.starts_with(&format!("process {}", holder.id())), "{line}");
    for command in [&["stats"][..], &["backup", "copy"], &["compact"]] {
        assert!(shell.fails(4, command).contains("is in use"), "{command:?}");
    }
    drop(stdin);
    assert!(holder.wait().unwrap().success());
    shell.ok(&["stats"]);
}

/// While no process has the database open, that is said once, not at every look.
#[test]
fn a_closed_database_is_waited_for() {
    let shell = flights();
    let mut command = shell.command(&["stats", "--watch", "0.02"]);
    let mut watch = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map(Result::unwrap);
    for _ in 0..2 {
        let closed = lines.by_ref().find(|line| !line.starts_with("process")).unwrap();
        assert!(closed.starts_with("no process has it open; leaves "), "{closed}");
        assert!(lines.next().unwrap().starts_with("waiting for a process"));
        std::thread::sleep(Duration::from_millis(100)); // some looks, none of which is news
        let mut holder =
            shell.command(&["shell"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let seen = lines.next().unwrap();
        assert!(seen.starts_with(&format!("process {}", holder.id())), "{seen}");
        drop(holder.stdin.take());
        assert!(holder.wait().unwrap().success());
    }
    watch.kill().unwrap();
    watch.wait().unwrap();
}

/// Who has seen enough of a closed database does not wait until somebody opens it.
#[test]
fn a_watch_ends_when_its_reader_leaves() {
    let shell = flights();
    let mut command = shell.command(&["stats", "--watch", "0.02"]);
    let mut watch = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.starts_with("waiting for a process")));
    drop(lines);
    let begun = Instant::now();
    let ended = loop {
        match watch.try_wait().unwrap() {
            None if begun.elapsed() < Duration::from_secs(30) => std::thread::sleep(Duration::from_millis(5)),
            ended => break ended,
        }
    };
    _ = watch.kill();
    assert!(ended.expect("it has ended by itself").success());
}

#[test]
fn watching_asks_for_sense() {
    let shell = flights();
    for wrong in [&["stats", "--watch", "0"][..], &["stats", "--watch", "x"], &["stats", "--times", "3"]] {
        shell.fails(2, wrong);
    }
    shell.fails(2, &["stats", "--watch", "1", "--dir", "nowhere"]);
}

#[test]
fn a_benchmark_can_be_watched() {
    let shell = Shell::new();
    let args =
        ["bench", "tx", "--watch", "0.1", "--n", "1000", "--seconds", "0.5", "--warm-up", "0", "--json"];
    let ran = shell.run(&args).expect(0, &args);
    assert_eq!(ran.objects()[0]["bench"], "tx");
    assert_eq!(ran.objects()[0]["leaf_bytes"], 8192);
    assert!(ran.stderr.contains(" commits/s, "), "{}", ran.stderr);
}

#[test]
fn every_command_is_completed_and_has_a_page() {
    let shell = Shell::new();
    for kind in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = shell.ok(&["completions", kind]);
        assert!(script.contains("from-backup") && script.contains("compact"), "{kind}");
        assert!(!script.contains("demo-child"), "{kind}: what is only for the demonstration itself");
    }
    assert!(shell.ok(&["man"]).starts_with(".ie"));
    shell.ok(&["man", "--output", "man1"]);
    for page in ["foreshore.1", "foreshore-backup.1", "foreshore-shell.1", "foreshore-bench-tpcc.1"] {
        assert!(shell.path("man1").join(page).exists(), "{page}");
    }
}

/// What they have written is in no copy: who restores it would lose half of a distributed transaction.
#[test]
fn a_backup_tells_of_prepared_transactions() {
    let shell = Shell::new();
    shell.prepare("transfer 17");
    for args in [["backup", "monday", "--json"], ["shell", "-c", ".backup tuesday"]] {
        let ran = shell.run(&args).expect(0, &args);
        let told = "note: transactions that have prepared wait to hear whether to commit, and are in no backup: \"transfer 17\"";
        assert!(ran.stderr.contains(told), "{}", ran.stderr);
    }
    let args = ["backup", "--dir", "monday", "wednesday"];
    assert_eq!(shell.run(&args).expect(0, &args).stderr, "");
}

/// Who operates a database can end what its program has left.
#[test]
fn the_shell_decides_what_has_prepared() {
    let shell = Shell::new();
    for (id, decision, value) in [("transfer 17", "commit", Some("v")), ("t\u{1}\\", "rollback", None)] {
        shell.prepare(id);
        let held = shell.fails(4, &["put", "--table", "t", "k", "other"]);
        assert!(held.contains("waited"), "{held}");
        let refused = shell.fails(2, &["compact"]);
        assert!(refused.contains("1 transaction that has prepared waits"), "{refused}");
        let listed = shell.ok(&["shell", "-c", ".prepared"]);
        let line = format!(".prepared '{}' {decision}", listed.trim_end());
        shell.ok(&["shell", "-c", &line]);
        assert_eq!(shell.ok(&["shell", "-c", ".prepared"]), "");
        let rows = shell.json(&["scan", "--table", "t"]);
        assert_eq!(rows.first().and_then(|row| row["value"].as_str()), value, "{id}");
        shell.fails(1, &["shell", "-c", &line]);
        shell.ok(&["delete", "--table", "t", "--all"]);
    }
}
