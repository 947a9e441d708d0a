//! `shell`: scripts, transactions, modes, and failures that name their line.

mod common;

use common::Shell;
use serde_json::json;
use std::io::{self, Write};
use std::process::{Command, Stdio};

/// Runs a script on stdin; it must end with this exit code.
#[track_caller]
fn script(shell: &Shell, code: i32, lines: &str) -> common::Ran {
    shell.run_with(&["shell"], lines.as_bytes()).expect(code, &["shell", "<", lines])
}

fn ports() -> Shell {
    let shell = Shell::new();
    script(
        &shell,
        0,
        "# three ports\nput ports SEA Seattle\nput ports LAX 'Los Angeles'\nput ports JFK 'New York'\n",
    );
    shell
}

#[test]
fn what_a_script_writes_is_there() {
    let shell = ports();
    assert_eq!(shell.ok(&["get", "--table", "ports", "LAX"]), "Los Angeles\n");
    script(&shell, 0, "del ports LAX\ninsert ports BOS Boston\ncreate empty\n");
    assert_eq!(shell.ok(&["scan", "--table", "ports"]), "BOS\tBoston\nJFK\tNew York\nSEA\tSeattle\n");
    assert_eq!(
        script(&shell, 0, "count ports\ncount ports --from C --to S\ncount empty").stdout,
        "3\n1\n0\n"
    );
    script(&shell, 0, "drop empty\n");
    assert_eq!(
        shell.json(&["tables"]),
        [json!({"table": "ports", "key": null, "index": "bplus", "leaf_bytes": 8192})]
    );
}

/// Values lie elsewhere than keys, where they are large: nobody needs them to count.
#[test]
fn rows_are_counted_by_their_keys() {
    let shell = Shell::new();
    let value = "x".repeat(100_000);
    let puts: String = (0..10).map(|n| format!("put t {n} {value}\n")).collect();
    script(&shell, 0, &puts);
    let pages_read = |lines: &str, end: &str| {
        let ran = script(&shell, 0, &format!(".mode json\n{lines}\n.stats\n{end}"));
        ran.objects().last().expect("the statistics")["pool_reads"].as_u64().expect("a number")
    };
    let none = pages_read("", "");
    for (count, end) in [("count t", ""), ("begin\ncount t", "commit"), ("begin snapshot\ncount t", "commit")]
    {
        assert!(pages_read(count, end) < none + 10, "{count}");
    }
    assert!(pages_read("scan t", "") > none + 100);
}

#[test]
fn a_range_is_removed() {
    let shell = ports();
    let done =
        script(&shell, 0, "begin\ndelete ports --from K\nrollback\ndelete ports --prefix S\ncount ports")
            .stdout;
    assert_eq!(done, "2\n1\n2\n");
    script(&shell, 2, "delete ports");
    script(&shell, 2, "delete ports --prefix ''");
    script(&shell, 2, "begin snapshot\ndelete ports --from A");
    assert_eq!(
        script(&shell, 0, ".mode json\ndelete ports --to K").stdout,
        "{\"removed\":1,\"table\":\"ports\"}\n"
    );
    assert_eq!(shell.ok(&["scan", "--table", "ports"]), "LAX\tLos Angeles\n");
    assert_eq!(script(&shell, 0, "delete ports --all\ncount ports").stdout, "1\n0\n");
}

#[test]
fn rows_are_popped_from_either_end() {
    let shell = ports();
    let lines = ".mode csv\npop ports --from K\nbegin\npop ports --reverse\nrollback\npop ports --prefix S";
    let done = script(&shell, 0, lines).stdout;
    let shown = ["LAX,Los Angeles", "SEA,Seattle", "SEA,Seattle"].map(|row| format!("key,value\n{row}\n"));
    assert_eq!(done, shown.concat());
    script(&shell, 1, "pop ports --from K");
    script(&shell, 2, "begin snapshot\npop ports");
    script(&shell, 2, "pop foreshore.schemas");
    assert_eq!(shell.ok(&["scan", "--table", "ports"]), "JFK\tNew York\n");
}

/// What is no record of the table's columns can only be shown as it is; until then nobody takes it.
#[test]
fn a_row_that_cannot_be_shown_is_not_popped() {
    let shell = Shell::new();
    shell.write("t.csv", "k,v\n1,2\n");
    shell.ok(&["load", "--table", "t", "--key", "k", "t.csv"]);
    shell.ok(&["put", "--table", "t", "--hex", "00", "ff"]);
    script(&shell, 3, "pop t");
    // Nor in a transaction that goes on.
    let args = ["shell", "--keep-going"];
    let ran = shell.run_with(&args, b".mode csv\nbegin\npop t\nput t 2 2,3\ncommit\n").expect(3, &args);
    assert_eq!(ran.stdout, "");
    assert_eq!(script(&shell, 0, ".hex on\n.mode csv\npop t").stdout, "key,value\n00,ff\n");
    assert_eq!(shell.ok(&["scan", "--table", "t"]), "1,2\n2,3\n");
}

/// What nobody has got is still there.
#[test]
fn a_row_that_nobody_reads_is_not_popped() {
    let shell = Shell::new();
    shell.ok(&["put", "--table", "q", "a", "1"]);
    for mode in ["table", "csv", "json"] {
        let line = format!(".mode {mode}\npop q");
        let full = std::fs::File::options().write(true).open("/dev/full").expect("the system's");
        into(&shell, full, &[], line.as_bytes()).expect(5, &[&line]);
        into(&shell, unread(), &[], line.as_bytes()).expect(0, &[&line]);
        let in_a_transaction = format!(".mode {mode}\nbegin\npop q\ncommit");
        let full = std::fs::File::options().write(true).open("/dev/full").expect("the system's");
        into(&shell, full, &["--keep-going"], in_a_transaction.as_bytes()).expect(5, &[&line]);
        assert_eq!(script(&shell, 0, "count q").stdout, "1\n", "{mode}");
    }
}

/// A pipe that nobody reads.
fn unread() -> std::io::PipeWriter {
    std::io::pipe().expect("a pipe").1
}

/// Runs the lines with this as stdout.
fn into(shell: &Shell, stdout: impl Into<Stdio>, args: &[&str], lines: &[u8]) -> common::Ran {
    let mut command = shell.command(&[&["shell"], args].concat());
    command.stdin(Stdio::piped()).stdout(stdout).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    child.stdin.take().expect("stdin is piped").write_all(lines).expect("it is read");
    common::Ran::from(child.wait_with_output().expect("it ends"))
}

#[test]
fn rows_in_front_of_one_that_cannot_be_shown_are_shown() {
    let shell = Shell::new();
    shell.write("t.csv", "k,v\n1,2\n3,4\n");
    shell.ok(&["load", "--table", "t", "--key", "k", "t.csv"]);
    shell.ok(&["put", "--table", "t", "--hex", "ff", "ff"]);
    for mode in ["table", "csv"] {
        let shown = script(&shell, 3, &format!(".mode {mode}\nscan t")).stdout;
        assert!(shown.contains('2') && shown.contains('4'), "{mode}: {shown}");
    }
}

#[test]
fn rows_are_shown_in_three_modes() {
    let shell = ports();
    let shown = script(
        &shell,
        0,
        ".mode csv\nscan ports --reverse --limit 2\n.mode json\nprefix ports J\nget ports SEA",
    );
    let expected = "key,value\nSEA,Seattle\nLAX,Los Angeles\n\
                    {\"key\":\"JFK\",\"value\":\"New York\"}\n{\"key\":\"SEA\",\"value\":\"Seattle\"}\n";
    assert_eq!(shown.stdout, expected);
    let table = script(&shell, 0, "scan ports").stdout;
    for cell in ["key", "value", "JFK", "New York"] {
        assert!(
            table.lines().any(|line| line.split(['│', '┆']).any(|found| found.trim() == cell)),
            "{table}"
        );
    }
    assert_eq!(script(&shell, 0, ".mode").stdout, "table\n");
    assert_eq!(
        script(&shell, 0, ".hex on\n.mode csv\nput bin 00ff c0\nscan bin").stdout,
        "key,value\n00ff,c0\n"
    );
}

/// What programs read as CSV is what was written, line ends included.
#[test]
fn csv_is_exact() {
    let shell = Shell::new();
    let text = "k,v\n1,\"two\nlines, \"\"quoted\"\"\"\n2,C:\\temp\n3,Z\u{fc}rich\t\n";
    shell.write("t.csv", text);
    shell.ok(&["load", "--table", "t", "--key", "k", "t.csv"]);
    assert_eq!(script(&shell, 0, ".mode csv\nscan t").stdout, text);
}

/// Tables made by `load` are spelled by their columns, as everywhere.
#[test]
fn csv_tables_have_their_columns() {
    let shell = Shell::new();
    shell.write("t.csv", "day,port,delay\n1,SEA,5\n1,LAX,\"-7, early\"\n2,SEA,0\n");
    shell.ok(&["load", "--table", "t", "--key", "day,port", "t.csv"]);
    let rows = script(&shell, 0, ".mode csv\nprefix t 1\nput t 2,LAX 2,LAX,9\nget t 2,LAX").stdout;
    assert_eq!(rows, "day,port,delay\n1,LAX,\"-7, early\"\n1,SEA,5\nday,port,delay\n2,LAX,9\n");
    let wrong = script(&shell, 2, "put t 2,LAX 3,LAX,9");
    assert!(wrong.stderr.contains("stdin:1: the row's own key is 3,LAX"), "{}", wrong.stderr);
}

#[test]
fn transactions_are_whole_or_not_there() {
    let shell = ports();
    script(
        &shell,
        0,
        "begin\nput ports A 1\nsavepoint s\nput ports B 2\ndel ports SEA\nrollback s\nput ports C 3\ncommit",
    );
    assert_eq!(script(&shell, 0, "count ports").stdout, "5\n");
    script(&shell, 0, "begin read-committed\nput ports D 4\nrollback");
    let ran = script(&shell, 1, "begin\nput ports E 5\nget ports E\nget ports nowhere\ncommit");
    assert!(ran.stdout.contains("│ E"), "a transaction sees its own rows: {}", ran.stdout);
    assert!(ran.stderr.contains("stdin:4: table \"ports\" has no row with key nowhere"), "{}", ran.stderr);
    assert_eq!(script(&shell, 0, "count ports").stdout, "5\n", "the failure has rolled back");
    let open = script(&shell, 2, "begin\nput ports F 6\n");
    assert!(open.stderr.contains("rolled back"), "{}", open.stderr);
    assert_eq!(script(&shell, 0, "count ports").stdout, "5\n");
}

#[test]
fn a_snapshot_reads_and_does_not_write() {
    let shell = ports();
    let ran = script(&shell, 2, "begin snapshot\ncount ports\nput ports X 1\n");
    assert_eq!(ran.stdout, "3\n");
    assert!(ran.stderr.contains("stdin:3: a snapshot is read-only"), "{}", ran.stderr);
    script(&shell, 0, "begin snapshot\nget ports SEA\ncommit\nput ports X 1");
}

#[test]
fn failures_have_the_usual_exit_codes() {
    let shell = ports();
    for (code, lines) in [
        (1, "get ports ORD"),
        (1, "scan nowhere"),
        (1, "del ports ORD"),
        (1, "drop nowhere"),
        (1, "begin\nrollback s"),
        (2, "frobnicate"),
        (2, "get ports"),
        (2, "put ports 'SEA"),
        (2, "commit"),
        (2, "savepoint s"),
        (2, "begin\nbegin"),
        (2, "insert ports SEA again"),
        (2, ".hex on\nput ports xyz 00"),
        (5, ".read no-such-file"),
    ] {
        let ran = script(&shell, code, lines);
        let place = format!("foreshore: stdin:{}: ", lines.lines().count());
        assert!(ran.stderr.starts_with(&place), "{lines}: {}", ran.stderr);
    }
    assert_eq!(script(&shell, 0, "count ports").stdout, "3\n");
}

/// What has a dot or a slash in it is no file whose name says what to do.
#[test]
fn what_only_looks_like_a_command_is_none() {
    let shell = ports();
    for wrong in
        ["drop.txt ports", "backup/drop ports", "./get ports SEA", "commit.", "/", "..", "''", "-", "--count"]
    {
        let ran = script(&shell, 2, wrong);
        let word = wrong.split(' ').next().unwrap_or_default().trim_matches('\'');
        assert!(
            ran.stdout.is_empty() && ran.stderr.contains(&format!("'{word}'")),
            "{wrong}: {}",
            ran.stderr
        );
    }
    assert_eq!(script(&shell, 0, "count ports").stdout, "3\n");
}

#[test]
fn keep_going_tells_all_and_ends_with_the_first() {
    let shell = ports();
    let args = ["shell", "--keep-going"];
    let ran = shell.run_with(&args, b"get ports ORD\nfrobnicate\nput ports ORD Chicago\n").expect(1, &args);
    assert_eq!(ran.stderr.lines().count(), 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("stdin:1: ") && ran.stderr.contains("stdin:2: "), "{}", ran.stderr);
    assert_eq!(shell.ok(&["get", "--table", "ports", "ORD"]), "Chicago\n");
}

/// What failed before is no reason to keep it to oneself.
#[test]
fn keep_going_tells_that_a_transaction_was_left_open() {
    let shell = ports();
    let args = ["shell", "--keep-going"];
    let ran = shell.run_with(&args, b"begin\nput ports ORD Chicago\nget ports nowhere\n").expect(1, &args);
    assert!(ran.stderr.ends_with("it is rolled back now\n"), "{}", ran.stderr);
    let ran = shell.run_with(&args, b"begin\nget ports nowhere\ncommit\n").expect(1, &args);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
}

/// A line that is no text fails as others do.
#[test]
fn lines_that_are_no_text_are_passed_over_too() {
    let shell = Shell::new();
    let args = ["shell", "--keep-going"];
    let ran = shell.run_with(&args, b"get t k\nput t \xff 1\nput t a 1\n").expect(1, &args);
    assert!(ran.stderr.contains("stdin:2: the line is not UTF-8"), "{}", ran.stderr);
    assert_eq!(shell.ok(&["get", "--table", "t", "a"]), "1\n");
    let ran = shell.run_with(&["shell"], b"put t b 1\nput t \xff 1\nput t c 1\n").expect(2, &args);
    assert!(ran.stderr.contains("stdin:2: the line is not UTF-8"), "{}", ran.stderr);
    assert_eq!(shell.ok(&["count", "--table", "t"]), "2\n");
}

/// As Windows writes them: it is a mark in front of a file's first line, and of no other.
#[test]
fn a_byte_order_mark_begins_no_command() {
    let shell = ports();
    shell.write("marked", "\u{feff}get ports SEA\r\n");
    let script = ".mode csv\n.read marked\n";
    assert_eq!(self::script(&shell, 0, &format!("\u{feff}{script}")).stdout, "key,value\nSEA,Seattle\n");
    self::script(&shell, 2, &format!(".mode csv\n\u{feff}{script}"));
}

#[test]
fn files_are_read_and_their_lines_named() {
    let shell = ports();
    shell.write("good.txt", "put ports A 1\n.quit\nfrobnicate\n");
    script(&shell, 0, ".read good.txt\nfrobnicate, but good.txt has quit\n");
    shell.write("outer.txt", "\n.read inner.txt\n");
    shell.write("inner.txt", "put ports B 2\n# comment\nget ports\n");
    let ran = script(&shell, 2, ".read outer.txt");
    assert!(ran.stderr.contains("stdin:1: outer.txt:2: inner.txt:3: "), "{}", ran.stderr);
    shell.write("circle.txt", ".read circle.txt\n");
    let ran = script(&shell, 2, ".read circle.txt");
    assert!(ran.stderr.contains("16 deep"), "{}", ran.stderr);
    assert_eq!(script(&shell, 0, "count ports").stdout, "5\n");
}

#[test]
fn commands_come_from_the_command_line_too() {
    let shell = ports();
    let counted =
        shell.json(&["shell", "-c", "put ports A 1", "-c", "count ports", "-c", ".quit", "-c", "frobnicate"]);
    assert_eq!(counted, [json!({"table": "ports", "rows": 4})]);
    let ran = shell.run(&["shell", "-c", "begin", "-c", "put ports B"]).expect(2, &["shell"]);
    assert!(ran.stderr.starts_with("foreshore: command 2: "), "{}", ran.stderr);
}

/// A line that is no object would stop the program that reads them.
#[test]
fn what_is_said_is_an_object_for_programs() {
    let shell = ports();
    let said = shell.json(&["shell", "-c", ".mode", "-c", ".help get"]);
    assert!(said[0] == json!({"mode": "json"}) && said[1]["help"].as_str().expect("text").contains("Usage"));
}

/// What was said of its types goes with it.
#[test]
fn a_table_is_renamed() {
    let shell = ports();
    let lines =
        ".types notes str str\nput notes a b\nrename ports 'my harbours'\nrename notes memos\nget memos a";
    let ran = script(&shell, 0, &format!(".mode csv\n{lines}\ncount 'my harbours'"));
    assert_eq!(ran.stdout, "key,value\na,b\n3\n");
    script(&shell, 1, "rename ports harbours");
    script(&shell, 2, "rename memos 'my harbours'");
    let lines = ".types last str u64\nput last a 5\ndrop last\nrename memos last\nput last k v";
    script(&shell, 0, lines); // the types said of the dropped one are not those of this
    script(&shell, 0, "rename last memos");
    let ran = script(&shell, 2, "begin\nrename memos notes\n");
    assert!(ran.stderr.contains("a transaction is open"), "{}", ran.stderr);
}

#[test]
fn help_timer_and_stats_tell_what_they_should() {
    let shell = ports();
    let help = script(&shell, 0, ".help\n.help scan\nscan --help").stdout;
    for expected in ["savepoint", ".timer", "--reverse", "Usage: scan"] {
        assert!(help.contains(expected), "{expected} is missing: {help}");
    }
    let timed = script(&shell, 0, ".timer on\ncount ports\n.timer off\ncount ports");
    assert_eq!(
        (timed.stdout.as_str(), timed.stderr.matches(" s\n").count()),
        ("3\n3\n", 2),
        "{}",
        timed.stderr
    );
    let stats = script(&shell, 0, "begin\nput ports A 1\ncommit\n.stats").stdout;
    assert!(stats.contains("commits") && stats.contains("+1 "), "{stats}");
    let stats = shell.json(&["shell", "-c", "put ports A 1", "-c", ".stats"]);
    assert!(stats[0]["log_records"].as_u64() > Some(0), "{stats:?}");
}

/// Help is asked for by the word behind the command. Farther behind, the same words are keys and values.
#[test]
fn keys_and_values_may_be_spelled_as_help_is() {
    let shell = ports();
    script(
        &shell,
        0,
        "begin\nput ports -h x\nput ports --help -h\ninsert ports K -- --help\ndel ports -h\ncommit\nget ports --help",
    );
    let rows = "--help\t-h\nJFK\tNew York\nK\t--help\nLAX\tLos Angeles\nSEA\tSeattle\n";
    assert_eq!(shell.ok(&["scan", "--table", "ports"]), rows);
    for line in ["scan ports --help", "put ports --help", "count ports -h"] {
        let ran = script(&shell, 2, &format!("begin\nput ports BOS Boston\n{line}\ncommit"));
        assert!(ran.stderr.starts_with("foreshore: stdin:3: ") && ran.stdout.is_empty(), "{}", ran.stderr);
    }
    assert_eq!(shell.ok(&["scan", "--table", "ports"]), rows);
    shell.ok(&["put", "--table", "ports", "--", "-h", "--json"]);
    assert_eq!(shell.ok(&["get", "--table", "ports", "--", "-h"]), "--json\n");
}

#[test]
fn a_backup_is_made_from_within_a_transaction_without_it() {
    let shell = ports();
    script(&shell, 0, "begin\nput ports A 1\n.backup copy.db\ncommit");
    assert_eq!(shell.run_with(&["shell", "--dir", "copy.db"], b"count ports").expect(0, &[]).stdout, "3\n");
    assert_eq!(script(&shell, 0, "count ports").stdout, "4\n");
}

#[test]
fn a_reader_that_leaves_ends_the_shell_quietly() {
    let shell = Shell::new();
    let rows: String = (0..20_000).map(|i| format!("put t {i} {}\n", "x".repeat(50))).collect();
    let args = ["shell", "--durability", "relaxed"];
    shell.run_with(&args, format!("begin\n{rows}commit\n").as_bytes()).expect(0, &args);
    let mut command = shell.command(&["shell", "-c", "scan t", "-c", "scan t"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ended = common::Ran::from(child.wait_with_output().unwrap()).expect(0, &["shell", "| head"]);
    assert_eq!(ended.stderr, "");
}

/// Nobody reads on, but there was more to do than to show rows: that it was not done is no success.
#[test]
fn a_reader_that_leaves_before_the_work_is_done_is_told() {
    let shell = ports();
    let ended = |args: &[&str], lines: &[u8]| into(&shell, unread(), args, lines);
    for lines in
        ["begin\nput ports A 1\nscan ports\ncommit\n", "scan ports\n\nput ports B 2\n", "scan ports\nwrong\n"]
    {
        let ran = ended(&[], lines.as_bytes()).expect(5, &[lines]);
        assert!(ran.stderr.contains("nobody reads the output any more"), "{}", ran.stderr);
        let commands: Vec<_> = lines.lines().flat_map(|line| ["-c", line]).collect();
        ended(&commands, b"").expect(5, &commands);
    }
    shell.write("lines.txt", "scan ports\n");
    ended(&[], b".read lines.txt\nput ports C 3\n").expect(5, &["shell"]);
    ended(&["--keep-going"], b"get ports nowhere\nscan ports\n").expect(1, &["shell"]);
    for lines in ["scan ports", "scan ports\nscan ports\n# put\n", "scan ports\n.quit\nput ports D 4"] {
        let ran = ended(&[], lines.as_bytes()).expect(0, &[lines]);
        assert_eq!(ran.stderr, "");
    }
    assert_eq!(script(&shell, 0, "count ports").stdout, "3\n");
}

/// Is there a program that makes a terminal?
fn makes_terminals() -> bool {
    let there = Command::new("script").arg("--version").output().is_ok_and(|ran| ran.status.success());
    if !there {
        // Not by a macro: the harness keeps to itself what those print in a test that passes.
        let skipped = "script (util-linux) is not on this machine, so no terminal was made";
        _ = writeln!(io::stderr(), "\n*** SKIPPED: {skipped} ***\n");
    }
    there
}

/// The same for somebody who types, into a terminal, and has sent the output elsewhere.
#[test]
fn output_that_cannot_be_written_is_an_error_at_a_terminal_too() {
    if !makes_terminals() {
        return;
    }
    let shell = Shell::new();
    let history = shell.path("history");
    let foreshore = env!("CARGO_BIN_EXE_foreshore");
    let changes = ["begin", "put t a two", "get t a", "get t a", "get t a"];
    for (to, lines, code) in [
        ("> /dev/full", &[".tables"][..], "5"),
        ("| head -1", &[".tables"], "0"),
        ("| sed /two/q", &changes, "5"), // which leaves in the middle of a transaction
    ] {
        let inside = format!("{{ {foreshore} shell; echo $? > ended; }} {to}");
        let typed: String = lines.iter().map(|line| format!("sleep 0.4; echo {line};")).collect();
        let typed = format!("({typed}) | script -qec '{inside}' /dev/null");
        let mut command = Command::new("sh");
        command.arg("-c").arg(typed).current_dir(shell.path(".")).env("FORESHORE_HISTORY", &history);
        let ran = command.output();
        let told = common::Ran::from(ran.expect("sh")).stdout;
        let ended = std::fs::read_to_string(shell.path("ended")).expect("it ended");
        assert_eq!(ended.trim(), code, "shell {to}: {told}");
    }
    let kept = std::fs::read_to_string(history).expect("a history");
    assert!(kept.lines().any(|line| line == "put t a two"), "{kept}");
}

/// The line editor has made keys come one by one and unseen. Who ends the shell at its prompt leaves no such terminal behind.
#[test]
fn a_shell_that_is_ended_from_elsewhere_puts_the_terminal_back() {
    if !makes_terminals() {
        return;
    }
    let shell = Shell::new();
    let foreshore = env!("CARGO_BIN_EXE_foreshore");
    let inside = format!("sh -c \"echo \\$\\$ > pid; exec {foreshore} shell\"; stty -a > modes");
    let killed = "until grep -q Foreshore told; do sleep 0.1; done; sleep 0.5; kill `cat pid`; sleep 0.5";
    let ended = format!("({killed}) | script -qec '{inside}' /dev/null > told");
    let mut command = Command::new("sh");
    command.arg("-c").arg(ended).current_dir(shell.path(".")).env("FORESHORE_HISTORY", shell.path("history"));
    assert!(command.status().expect("sh").success());
    let modes = std::fs::read_to_string(shell.path("modes")).expect("it ended");
    assert!(modes.contains(" icanon") && modes.contains(" echo "), "{modes}");
}

/// Who wrote the script can mend it: nothing is wrong with disk or system.
#[test]
fn what_a_script_does_wrong_is_usage() {
    let shell = ports();
    let ran = shell.run_with(&["shell"], b"count ports\nput ports K \xff\n").expect(2, &["shell"]);
    assert!(ran.stderr.contains("stdin:2: the line is not UTF-8"), "{}", ran.stderr);
    script(&shell, 0, ".hex on\nput ports 4b ff\n");
    let ran = script(&shell, 2, "begin\nput ports BOS Boston\ndrop ports\n");
    assert!(ran.stderr.contains("a transaction is open; commit it or roll it back first"), "{}", ran.stderr);
}

/// A thousand rows of megabytes are not gathered into one table.
#[test]
fn large_rows_do_not_wait_for_each_other() {
    let shell = Shell::new();
    let value = "x".repeat(600_000);
    for key in ["a", "b", "c", "d"] {
        shell.run_with(&["put", "--table", "t", key, "-"], value.as_bytes()).expect(0, &["put"]);
    }
    let shown = shell.ok(&["shell", "-c", "scan t"]);
    assert_eq!(shown.lines().filter(|line| line.starts_with('┌')).count(), 2);
}
