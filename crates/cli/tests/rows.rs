//! `get`, `put`, `rm`, `scan`, `tables`, `stats`, `check`: what a user meets first.

mod common;

use common::Shell;
use serde_json::json;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// A database with a few ports.
fn ports() -> Shell {
    let shell = Shell::new();
    for (key, value) in [("SEA", "Seattle-Tacoma"), ("IAH", "Houston"), ("PDX", "Portland"), ("PDZ", "Päö")]
    {
        shell.ok(&["put", "--table", "ports", key, value]);
    }
    shell
}

#[test]
fn a_row_comes_back_until_it_is_removed() {
    let shell = ports();
    assert_eq!(shell.ok(&["get", "--table", "ports", "SEA"]), "Seattle-Tacoma\n");
    assert_eq!(shell.json(&["get", "--table", "ports", "PDZ"]), [json!({"key": "PDZ", "value": "Päö"})]);
    assert_eq!(
        shell.json(&["rm", "--table", "ports", "SEA"]),
        [json!({"table": "ports", "key": "SEA", "removed": true})]
    );
    let complaint = shell.fails(1, &["get", "--table", "ports", "SEA"]);
    assert!(complaint.contains("no row with key SEA"), "{complaint}");
    shell.fails(1, &["rm", "--table", "ports", "SEA"]);
}

/// A line break in a name is told in one way, whether the table is there or not.
#[test]
fn names_are_told_alike() {
    let shell = ports();
    shell.ok(&["put", "--table", "a\nb", "k", "v"]);
    let complaint = shell.fails(1, &["get", "--table", "c\nd", "k"]);
    assert!(complaint.contains(r#"no table "c\nd"; there are "a\nb", "ports""#), "{complaint}");
}

#[test]
fn what_is_absent_is_told_and_not_created() {
    let shell = ports();
    let complaint = shell.fails(1, &["get", "--table", "prots", "SEA"]);
    assert!(complaint.contains(r#"there are "ports""#), "{complaint}");
    shell.fails(1, &["scan", "--table", "prots"]);
    assert_eq!(
        shell.json(&["tables"]),
        [json!({"table": "ports", "key": null, "index": "bplus", "leaf_bytes": 8192})]
    );
    let complaint = shell.fails(2, &["get", "--dir", "elsewhere", "--table", "ports", "SEA"]);
    assert!(complaint.contains("there is no database in elsewhere"), "{complaint}");
    assert!(!shell.path("elsewhere").exists());
}

#[test]
fn scans_go_both_ways_within_bounds() {
    let shell = ports();
    let keys = |args: &[&str]| -> Vec<String> {
        let rows = shell.json(&[&["scan", "--table", "ports"], args].concat());
        rows.iter().map(|row| row["key"].as_str().expect("a text key").to_string()).collect()
    };
    assert_eq!(keys(&[]), ["IAH", "PDX", "PDZ", "SEA"]);
    assert_eq!(keys(&["--reverse"]), ["SEA", "PDZ", "PDX", "IAH"]);
    assert_eq!(keys(&["--from", "PDX", "--to", "SEA"]), ["PDX", "PDZ"]);
    assert_eq!(keys(&["--prefix", "PD", "--reverse"]), ["PDZ", "PDX"]);
    assert_eq!(keys(&["--limit", "2"]), ["IAH", "PDX"]);
    assert_eq!(keys(&["--reverse", "--limit", "1"]), ["SEA"]);
    assert!(keys(&["--prefix", "X"]).is_empty());
    assert_eq!(shell.ok(&["scan", "--table", "ports", "--limit", "1"]), "IAH\tHouston\n");
    shell.fails(2, &["scan", "--table", "ports", "--prefix", "P", "--from", "A"]);
}

#[test]
fn bytes_that_are_no_text_are_spelled_in_hexadecimal() {
    let shell = Shell::new();
    shell.ok(&["put", "--table", "t", "--hex", "00ff", "C0ffee"]);
    assert_eq!(shell.ok(&["get", "--table", "t", "--hex", "00FF"]), "c0ffee\n");
    assert_eq!(shell.json(&["scan", "--table", "t"]), [json!({"key_hex": "00ff", "value_hex": "c0ffee"})]);
    assert_eq!(shell.ok(&["scan", "--table", "t"]), "\\00\\ff\t\\c0\\ff\\ee\n");
    shell.fails(2, &["get", "--table", "t", "--hex", "0"]);
    let refused = shell.command(&["get", "--table", "t"]).arg(OsStr::from_bytes(b"\xff")).output();
    let refused = common::Ran::from(refused.expect("the binary starts")).expect(2, &["get"]);
    assert!(refused.stderr.contains("--hex"), "{}", refused.stderr);
}

/// A file that was put comes back as it was.
#[test]
fn raw_values_have_nothing_behind_them() {
    let shell = Shell::new();
    let all: Vec<u8> = (0..=255).collect();
    shell.run_with(&["put", "--table", "t", "k", "-"], &all).expect(0, &["put"]);
    let got = shell.command(&["get", "--table", "t", "--raw", "k"]).output().expect("it starts");
    assert_eq!(got.stdout, all);
    shell.fails(2, &["get", "--table", "t", "--raw", "--json", "k"]);
}

/// Names are shown as rows are: nothing in them moves a terminal's cursor.
#[test]
fn a_strange_name_is_shown_in_one_line() {
    let shell = Shell::new();
    shell.ok(&["put", "--table", "two\nlines\u{1b}[31m", "k", "v"]);
    let complaint = shell.fails(1, &["get", "--table", "t", "k"]);
    assert!(complaint.contains("\"two\\nlines\\u{1b}[31m\""), "{complaint}");
}

#[test]
fn only_what_was_asked_for_has_a_column() {
    let shell = ports();
    let header = |args: &[&str]| shell.ok(args).lines().nth(1).map(|line| line.matches('┆').count());
    assert_eq!((header(&["tables"]), header(&["tables", "--count"])), (Some(4), Some(5)));
}

#[test]
fn a_value_may_come_from_stdin() {
    let shell = Shell::new();
    let args = ["put", "--table", "t", "--durability", "buffered", "k", "-"];
    shell.run_with(&args, b"two\nlines").expect(0, &args);
    assert_eq!(shell.ok(&["get", "--table", "t", "k"]), "two\nlines\n");
    assert_eq!(shell.ok(&["scan", "--table", "t"]), "k\ttwo\\0alines\n");
}

#[test]
fn a_row_that_is_too_large_is_refused_without_a_trace() {
    let shell = ports();
    let long_key = "k".repeat(1025);
    let complaint = shell.fails(2, &["put", "--table", "ports", &long_key, "v"]);
    assert!(complaint.contains("1024"), "{complaint}");
    assert_eq!(
        shell.json(&["tables", "--count"]),
        [json!({"table": "ports", "key": null, "index": "bplus", "leaf_bytes": 8192, "rows": 4})]
    );
}

#[test]
fn stats_and_check_answer() {
    let shell = ports();
    let stats = shell.json(&["stats"]);
    assert!(stats[0]["pages"].as_u64().expect("a count") >= 1, "{stats:?}");
    let text = shell.ok(&["stats"]);
    for part in ["│ leaf_file_bytes ", "indexes:\n", "│ bplus ┆ ports ┆ ", "waits:\n", "│ page read "]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() < 80), "{text}");
    let report = &shell.json(&["check"])[0];
    assert_eq!(report["check"], "ok");
    let tables = report["tables"].as_array().expect("a list");
    let ports = tables.iter().find(|table| table["name"] == "ports").expect("the table");
    assert_eq!(ports["rows"], 4);
    assert!(shell.ok(&["check"]).contains("everything is in order"));
    let rebuilt = &shell.json(&["check", "--rebuild"])[0];
    assert_eq!(rebuilt["tables"], report["tables"]);
}

#[test]
fn wrong_arguments_are_usage() {
    let shell = Shell::new();
    for args in [
        &["nonsense"][..],
        &["get", "--table", "t"],
        &["get", "k"],
        &["put", "--table", "t", "--durability", "perhaps", "k", "v"],
        &["scan", "--table", "t", "--limit", "many"],
        &["put", "--table", "t", "--cache", "1 mile", "k", "v"],
        &["put", "--table", "t", "--hex", "zz", "00"],
        &["put", "--table", "t", "--hex", "00", "0"],
    ] {
        shell.fails(2, args);
    }
    assert!(!shell.database().exists(), "a refused command leaves nothing behind");
}

/// Who has typed no option does not see that one is missing.
#[test]
fn a_table_without_its_option_is_told_of_it() {
    let shell = Shell::new();
    for args in [&["put", "notes", "k", "v"][..], &["get", "notes", "k"], &["scan", "notes"]] {
        let complaint = shell.fails(2, args);
        assert!(complaint.contains("named by '--table <NAME>'"), "{complaint}");
    }
    let complaint = shell.fails(2, &["put", "--table", "notes", "k", "two", "words"]);
    assert!(!complaint.contains("named by"), "{complaint}");
}

/// As a script sets it from a variable of its own that is not set. Nobody has typed the option that it stands for.
#[test]
fn an_empty_variable_of_the_environment_is_named() {
    let shell = Shell::new();
    let told = |variable: &str, args: &[&str]| {
        let ran = shell.command(args).env(variable, "").output().expect("it starts");
        assert_eq!(ran.status.code(), Some(2));
        String::from_utf8(ran.stderr).expect("text")
    };
    let complaint = told("FORESHORE_DIR", &["tables"]);
    assert!(complaint.contains("empty FORESHORE_DIR: unset it"), "{complaint}");
    let complaint = told("FORESHORE_PROFILE", &["put", "--table", "t", "k", "v"]);
    assert!(complaint.contains("empty FORESHORE_PROFILE: unset it"), "{complaint}");
    let complaint = told("FORESHORE_DIR", &["tables", "--dir", ""]);
    assert!(!complaint.contains("FORESHORE_DIR"), "{complaint}");
}

#[test]
fn every_command_explains_itself_with_examples() {
    let shell = Shell::new();
    let commands = [
        "load", "get", "put", "rm", "scan", "count", "delete", "tables", "rename", "drop", "stats", "check",
        "dump", "restore", "demo",
    ];
    for command in commands.iter().map(|c| vec![*c]).chain([vec!["bench", "kv"], vec!["bench", "index"]]) {
        let help = shell.ok(&[&command[..], &["--help"]].concat());
        assert!(help.contains("Examples:"), "{command:?}: {help}");
        assert!(help.contains("--json"), "{command:?}: {help}");
    }
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let shell = Shell::new();
    let rows: String = (0..20_000).map(|n| format!("{n},{}\n", "x".repeat(50))).collect();
    shell.write("many.csv", format!("n,x\n{rows}"));
    shell.ok(&["load", "--table", "many", "--key", "n", "--durability", "relaxed", "many.csv"]);
    let mut scan = shell.command(&["scan", "--table", "many"]);
    let mut child = scan.stdout(std::process::Stdio::piped()).spawn().expect("the binary starts");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("the binary ends").code(), Some(0));
}

#[test]
fn rows_are_counted_within_bounds() {
    let shell = ports();
    let all = shell.ok(&["scan", "--table", "ports"]).lines().count();
    assert_eq!(shell.ok(&["count", "--table", "ports"]), format!("{all}\n"));
    let from = shell.ok(&["scan", "--table", "ports", "--from", "K"]).lines().count();
    assert!(from < all);
    let counted = shell.json(&["count", "--table", "ports", "--from", "K"]);
    assert_eq!(counted, [serde_json::json!({"table": "ports", "rows": from})]);
    shell.fails(1, &["count", "--table", "port"]);
}

#[test]
fn rows_are_removed_within_bounds() {
    let shell = ports();
    let count = |args: &[&str]| shell.ok(&[&["count", "--table", "ports"], args].concat());
    let (all, from) = (count(&[]), count(&["--from", "K"]));
    for all in [&[][..], &["--prefix", ""], &["--from", ""]] {
        let complaint = shell.fails(2, &[&["delete", "--table", "ports"], all].concat());
        assert!(complaint.contains("or --all;"), "{complaint}");
    }
    shell.fails(2, &["delete", "--table", "ports", "--all", "--from", "K"]);
    shell.fails(1, &["delete", "--table", "port", "--from", "K"]);
    assert_eq!(count(&[]), all, "nothing was said to go");
    assert_eq!(shell.ok(&["delete", "--table", "ports", "--from", "K"]), from);
    assert_eq!(count(&["--from", "K"]), "0\n");
    let removed = shell.json(&["delete", "--table", "ports", "--all"]);
    assert_eq!(removed[0]["table"], "ports");
    assert_eq!(count(&[]), "0\n");
}

#[test]
fn a_dropped_table_is_gone_and_its_name_free() {
    let shell = ports();
    shell.write("t.csv", "a,b\n1,2\n");
    shell.ok(&["load", "--table", "t", "--key", "a", "t.csv"]);
    shell.ok(&["drop", "--table", "t"]);
    shell.fails(1, &["get", "--table", "t", "1"]);
    let complaint = shell.fails(1, &["drop", "--table", "t"]);
    assert!(complaint.contains("ports"), "{complaint}");
    // Without the columns of the old one.
    shell.ok(&["put", "--table", "t", "k", "v"]);
    let suggestion = shell.fails(2, &["drop-table", "--table", "t"]);
    assert!(suggestion.contains("'drop'"), "{suggestion}");
    let answer = shell.json(&["drop", "--table", "t"]);
    assert_eq!(answer, [serde_json::json!({"table": "t", "dropped": true})]);
    shell.ok(&["check"]);
}

/// With all that it has, its columns among them.
#[test]
fn a_renamed_table_takes_its_columns_along() {
    let shell = ports();
    shell.write("t.csv", "a,b\n1,2\n");
    shell.ok(&["load", "--table", "t", "--key", "a", "t.csv"]);
    assert_eq!(shell.ok(&["rename", "t", "new"]), "");
    assert_eq!(shell.ok(&["get", "--table", "new", "1"]), "1,2\n");
    let complaint = shell.fails(1, &["rename", "t", "new"]);
    assert!(complaint.contains("there is no table \"t\"; there are \"new\", \"ports\""), "{complaint}");
    // Without the columns of the old one.
    shell.ok(&["put", "--table", "t", "k", "v"]);
    for to in ["new", "t", "", "foreshore.schemas"] {
        shell.fails(2, &["rename", "t", to]);
    }
    shell.fails(2, &["rename", "foreshore.schemas", "u"]);
    let long = "n".repeat(2000);
    let refused = ["new", "ports"].map(|from| shell.fails(2, &["rename", from, &long]));
    assert!(
        refused[0] == refused[1] && refused[0].contains("the table's name has 2000 bytes"),
        "{refused:?}"
    );
    assert_eq!(shell.ok(&["get", "--table", "new", "1"]), "1,2\n");
    let answer = shell.json(&["rename", "new", "u"]);
    assert_eq!(answer, [serde_json::json!({"table": "u", "was": "new"})]);
    assert_eq!(shell.ok(&["count", "--table", "foreshore.schemas"]), "1\n");
    shell.ok(&["check"]);
    shell.ok(&["put", "--table", "recovered-17", "k", "precious"]);
    let kept = || shell.run(&["count", "--table", "foreshore.schemas"]).stdout;
    let before = kept();
    let complaint = shell.fails(2, &["rename", "recovered-17", "foreshore.schemas"]);
    assert!(complaint.contains("its row k is none"), "{complaint}");
    shell.fails(2, &["rename", "u", ""]);
    assert_eq!(kept(), before);
}

/// A row there that is no schema would damage the table that it is named after.
#[test]
fn schemas_are_not_written_by_hand() {
    let shell = ports();
    shell.fails(2, &["put", "--table", "foreshore.schemas", "ports", "x"]);
    shell.fails(2, &["drop", "--table", "foreshore.schemas"]);
    for line in [
        "put foreshore.schemas ports x",
        "insert foreshore.schemas ports x",
        "delete foreshore.schemas --prefix p",
        "drop foreshore.schemas",
    ] {
        let complaint = shell.fails(2, &["shell", "-c", line]);
        assert!(complaint.contains("schemas are kept"), "{line}: {complaint}");
    }
}

/// What other programs write there spoils the list of tables in one row only.
#[test]
fn a_schema_that_cannot_be_read_hides_no_table() {
    let shell = ports();
    shell.write("t.csv", "a,b\n1,2\n");
    shell.ok(&["load", "--table", "t", "--key", "a", "t.csv"]);
    let db = foreshore::Database::open(shell.database()).expect("nobody else has it");
    db.byte_table("foreshore.schemas").expect("a table").put(b"ports", b"x").expect("written");
    db.close().expect("closed");
    let shown = shell.run(&["tables"]).expect(3, &["tables"]);
    assert!(shown.stdout.contains("ports") && shown.stdout.contains("unreadable"), "{}", shown.stdout);
    assert!(shown.stderr.contains("foreshore rm --table foreshore.schemas ports"), "{}", shown.stderr);
    let rows = shell.run(&["tables", "--json"]).expect(3, &["tables"]).objects();
    assert_eq!((&rows[0]["table"], &rows[0]["key"]), (&json!("ports"), &json!(null)));
    assert!(rows[0]["schema_error"].as_str().is_some_and(|why| why.contains("cannot be read")), "{rows:?}");
    assert_eq!((&rows[1]["key"], &rows[1]["schema_error"]), (&json!(["a"]), &json!(null)));
}

#[test]
fn a_directory_may_be_named_before_the_command() {
    let shell = Shell::new();
    shell.ok(&["--dir", "a", "put", "--table", "t", "k", "v"]);
    assert_eq!(shell.ok(&["--dir=a", "get", "--table", "t", "k"]), "v\n");
    let counted = shell.ok(&["--json", "--dir", "a", "count", "--table", "t"]);
    assert_eq!(counted, "{\"rows\":1,\"table\":\"t\"}\n");
    assert!(!shell.database().exists());
}

/// A table's name is whatever somebody chose; a terminal does what control characters say.
#[test]
fn names_are_shown_without_control_characters() {
    let shell = Shell::new();
    shell.ok(&["put", "--table", "red\x1b[31m", "k", "v"]);
    for command in ["tables", "check"] {
        let shown = shell.ok(&[command]);
        assert!(shown.contains("red\\1b[31m") && !shown.contains('\x1b'), "{shown}");
    }
}

/// Whatever a header says: in JSON no two fields are called alike, and a terminal is shown no control characters.
#[test]
fn columns_may_be_called_anything() {
    let shell = Shell::new();
    let file = "k,,,\u{1b}[31m\n1,2,3,4\n";
    shell.write("t.csv", file);
    shell.ok(&["load", "--table", "t", "--key", "k", "t.csv"]);
    let rows = shell.run(&["scan", "--table", "t", "--json"]).expect(0, &["scan"]);
    assert_eq!(
        rows.stdout,
        "{\"key\":\"1\",\"row\":{\"k\":\"1\",\"\":\"2\",\"_2\":\"3\",\"\\u001b[31m\":\"4\"}}\n"
    );
    let shown = shell.ok(&["shell", "-c", "scan t"]);
    assert!(shown.contains("\\1b[31m") && !shown.contains('\u{1b}'), "{shown}");
    assert_eq!(shell.ok(&["scan", "--table", "t", "--csv"]), file);
}
