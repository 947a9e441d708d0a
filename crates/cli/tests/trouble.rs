//! A database in use, and a damaged one.

mod common;

use common::{Shell, files};
use std::io::Write;
use std::process::Stdio;

/// A second process is refused, and told whom to ask; after a kill the database opens again.
#[test]
fn a_database_in_use_is_locked_with_its_holders_pid() {
    let shell = Shell::new();
    shell.ok(&["put", "--table", "t", "k", "v"]);
    // A load from a pipe that stays open keeps the database.
    let mut load = shell.command(&["load", "--table", "csv", "--key", "a", "--batch", "1", "-"]);
    let mut holder = load.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("the binary starts");
    holder.stdin.as_mut().expect("stdin is piped").write_all(b"a,b\n").expect("the header is read");

    let mut refused = None;
    for _ in 0..500 {
        let ran = shell.run(&["get", "--table", "t", "k"]);
        if ran.code == 4 {
            refused = Some(ran.stderr);
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let complaint = refused.expect("locked within ten seconds");
    assert!(complaint.contains(&holder.id().to_string()), "{complaint}");

    holder.kill().expect("killed");
    holder.wait().expect("gone");
    assert_eq!(shell.ok(&["get", "--table", "t", "k"]), "v\n");
}

/// Whatever file is overwritten by garbage: right answers or exit code 3, and nothing else.
#[test]
fn damage_is_corruption_and_never_a_wrong_answer() {
    let shell = Shell::new();
    let rows: String = (0..5000).map(|n| format!("{n},{}\n", "abcdefgh".repeat(8))).collect();
    shell.write("t.csv", format!("n,x\n{rows}"));
    shell.ok(&["load", "--table", "t", "--key", "n", "--durability", "relaxed", "t.csv"]);
    let expected = shell.ok(&["dump"]);

    let mut refused = 0;
    for path in files(&shell.database()) {
        let original = std::fs::read(&path).expect("a file of the database");
        let mut damaged = original.clone();
        damaged.iter_mut().step_by(64).for_each(|byte| *byte ^= 0xA5);
        std::fs::write(&path, &damaged).expect("damage");
        let ran = shell.run(&["dump"]);
        match ran.code {
            3 => refused += 1,
            0 => assert_eq!(ran.stdout, expected, "{}", path.display()),
            code => panic!("{}: exit code {code}: {}", path.display(), ran.stderr),
        }
        std::fs::write(&path, &original).expect("repaired");
    }
    assert!(refused >= 2, "at least FORESHORE and the leaves are read by every dump");
    assert_eq!(shell.ok(&["dump"]), expected);
}

/// A directory of something else is a wrong `--dir`, and stays as it is.
#[test]
fn a_foreign_directory_is_left_alone() {
    let shell = Shell::new();
    std::fs::create_dir(shell.path("photos")).expect("a directory");
    shell.write("photos/a.jpg", "not ours");
    for args in [&["put", "--dir", "photos", "--table", "t", "k", "v"][..], &["check", "--dir", "photos"]] {
        shell.fails(2, args);
    }
    assert_eq!(std::fs::read(shell.path("photos/a.jpg")).expect("still there"), b"not ours");
}
