//! `foreshore lab`, as a newcomer would use it.

mod common;

use common::Shell;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_figure_is_drawn_and_reported() {
    let shell = Shell::new();
    assert!(shell.ok(&["lab", "list"]).contains("olfit-fig7"));
    let shown = shell.ok(&["lab", "olfit-table1", "--quick", "--out", "results"]);
    assert!(shown.contains("Here this holds. 5 of 5 schemes"), "{shown}");
    assert_eq!(shell.ok(&["lab", "report", "--out", "results"]), "results/index.html\n");
    let page = std::fs::read_to_string(shell.path("results/index.html")).expect("the page");
    assert!(page.contains("OLFIT Table 1"));
}

/// Every event has its row, and at least a reason.
#[test]
fn the_machines_counters_are_listed() {
    let shown = Shell::new().ok(&["lab", "counters"]);
    for event in ["cycles", "L1 misses", "TLB misses", "mispredicted branches", "page faults"] {
        let row = shown.lines().find(|line| line.starts_with(&format!("│ {event} "))).expect(event);
        assert!(row.split('┆').skip(1).any(|cell| cell.contains(char::is_alphanumeric)), "{row}");
    }
    assert!(shown.contains("8,192 page faults"), "{shown}");
}

#[test]
fn an_unknown_figure_is_a_usage_error_that_says_where_to_look() {
    let shell = Shell::new();
    assert!(shell.fails(2, &["lab", "olfit-fig99"]).contains("foreshore lab list"));
    for wrong in [["list", "olfit-fig2"], ["olfit-fig2", "report"]] {
        assert!(shell.fails(2, &["lab", wrong[0], wrong[1]]).contains("` stands alone"), "{wrong:?}");
    }
}

/// Whether the directory is there or not.
#[test]
fn a_report_of_nothing_is_refused() {
    let shell = Shell::new();
    for out in [".", "nowhere"] {
        let complaint = shell.fails(2, &["lab", "report", "--out", out]);
        assert!(complaint.contains(&format!("{out} holds no figure yet; draw some first")), "{complaint}");
    }
    assert!(!shell.path("index.html").exists());
}

/// Before anything is drawn, also by figures that do not read it.
#[test]
fn a_table_that_cannot_be_read_is_told_first() {
    let args = ["lab", "olfit-table1", "--quick", "--out", "results", "--flights", "nowhere.csv"];
    assert!(Shell::new().fails(5, &args).contains("nowhere.csv"));
}

/// Before anything is drawn: this figure cannot be, for want of a program.
#[test]
fn a_place_that_cannot_be_written_is_told_first() {
    let shell = Shell::new();
    assert!(shell.fails(2, &["lab", "shoremt-fig6", "--quick"]).contains("cargo xtask stages"));
    std::fs::write(shell.path("file"), "").expect("a file");
    assert!(
        shell.fails(5, &["lab", "shoremt-fig6", "--quick", "--out", "file/results"]).contains("file/results")
    );
}

/// Who asked for several gets the others, and is told at the end which could not be drawn; a wrong answer counts most.
#[test]
fn a_figure_that_fails_leaves_the_others() {
    let shell = Shell::new();
    let engine = shell.write("stages", "#!/bin/sh\necho out of order >&2\nexit 1\n");
    std::fs::set_permissions(&engine, std::fs::Permissions::from_mode(0o755)).expect("it may run");
    let figures = ["shoremt-fig6", "olfit-table1"];
    let args = ["--quick", "--threads", "1", "--stages", "./stages", "--out", "results"];
    let args = [&["lab"], &figures[..], &args[..]].concat();
    let run = shell.run(&args).expect(5, &args);
    assert!(run.stdout.contains("shoremt-fig6: not drawn."), "{}", run.stdout);
    assert!(run.stdout.contains("5 of 5 schemes"), "{}", run.stdout);
    assert!(run.stderr.contains("shoremt-fig6: ") && run.stderr.contains("out of order"), "{}", run.stderr);
    assert!(shell.path("results").read_dir().expect("it is there").count() == 1);
}

/// Stores of engines that do not clean up go, too.
#[test]
fn an_interrupted_laboratory_leaves_nothing_behind() {
    let shell = Shell::new();
    let engine = shell.write("peers", PEER);
    std::fs::set_permissions(&engine, std::fs::Permissions::from_mode(0o755)).expect("it may run");
    let args =
        ["lab", "shoremt-fig1", "--quick", "--threads", "1", "--peers", "./peers", "--scratch", "scratch"];
    shell.fails(130, &args);
    assert!(shell.path("was-here").exists(), "the peer has run");
    assert_eq!(std::fs::read_dir(shell.path("scratch")).expect("it stays").count(), 0);
}

/// Makes a file where its store may live, and presses Ctrl-C.
const PEER: &str = r#"#!/bin/sh
while [ "$1" != --dir ]; do shift; done
touch "$2/store" was-here
kill -INT $PPID
exec sleep 5
"#;
