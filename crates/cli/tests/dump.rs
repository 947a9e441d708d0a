//! `dump` and `restore`.

mod common;

use common::Shell;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::Command;
use std::time::Duration;

/// A database whose keys and values are every kind of bytes, and a table made by `load`.
fn everything() -> Shell {
    let shell = Shell::new();
    for (key, value) in [("00", "ff"), ("", "20"), ("5c6e", ""), ("ffffff", "0a0d00"), ("6b", "c3a4")] {
        shell.ok(&["put", "--table", "bytes", "--hex", key, value]);
    }
    shell.ok(&["put", "--table", "a table", "k", "v"]);
    shell.ok(&["put", "--table", "a table", "large", &"any text".repeat(10_000)]);
    shell.write("t.csv", "a,b\n1,\"x, \"\"y\"\"\"\n-2,\n");
    shell.ok(&["load", "--table", "csv", "--key", "a", "t.csv"]);
    shell
}

#[test]
fn both_formats_restore_to_the_same_database() {
    let shell = everything();
    let everything = shell.ok(&["dump"]);
    for format in ["print", "bytevalue"] {
        shell.ok(&["dump", "--format", format, "--output", "all.dump"]);
        let copy = format!("{format}.db");
        shell.ok(&["restore", "--dir", &copy, "all.dump"]);
        assert_eq!(shell.ok(&["dump", "--dir", &copy]), everything);
        assert_eq!(shell.ok(&["get", "--dir", &copy, "--table", "csv", "1"]), "1,\"x, \"\"y\"\"\"\n");
        assert_eq!(shell.ok(&["get", "--dir", &copy, "--table", "bytes", "--hex", ""]), "20\n");
        shell.ok(&["check", "--dir", &copy]);
    }
}

/// Their rows are in no dump: who upgrades would lose half of a distributed transaction.
#[test]
fn a_dump_tells_of_prepared_transactions() {
    let shell = Shell::new();
    shell.prepare("transfer 17");
    let ran = shell.run(&["dump"]);
    assert!(ran.stderr.contains("note: transactions that have prepared"), "{}", ran.stderr);
    let db = foreshore::Database::open(shell.database()).unwrap();
    db.commit_prepared("transfer 17").unwrap();
    drop(db);
    assert_eq!(shell.run(&["dump"]).stderr, "");
}

#[test]
fn the_text_is_that_of_db_dump() {
    let shell = Shell::new();
    shell.ok(&["put", "--table", "t", "--hex", "5c00", "41e9"]);
    let dump = shell.ok(&["dump", "--table", "t"]);
    assert_eq!(
        dump,
        "VERSION=3\nformat=print\ndatabase=t\ntype=btree\nHEADER=END\n \\5c\\00\n A\\e9\nDATA=END\n"
    );
    let dump = shell.ok(&["dump", "--table", "t", "--format", "bytevalue"]);
    assert_eq!(
        dump,
        "VERSION=3\nformat=bytevalue\ndatabase=t\ntype=btree\nHEADER=END\n 5c00\n 41e9\nDATA=END\n"
    );
}

#[test]
fn one_table_travels_with_its_columns() {
    let shell = everything();
    let dump = shell.ok(&["dump", "--table", "csv"]);
    let args = ["restore", "--dir", "copy.db", "--table", "csv", "--json", "-"];
    let ran = shell.run_with(&args, dump.as_bytes()).expect(0, &args);
    assert_eq!(ran.objects(), [serde_json::json!({"table": "csv", "rows": 2})]);
    assert_eq!(shell.ok(&["scan", "--dir", "copy.db", "--table", "csv"]), "-2,\n1,\"x, \"\"y\"\"\"\n");
    shell.fails(1, &["dump", "--table", "no such table"]);
}

#[test]
fn a_dump_without_a_name_needs_one() {
    let shell = Shell::new();
    let dump = b"VERSION=3\nformat=print\ntype=btree\nmapsize=1048576\nHEADER=END\n k\n v\nDATA=END\n";
    let args = ["restore", "-"];
    let ran = shell.run_with(&args, dump).expect(2, &args);
    assert!(ran.stderr.contains("--table"), "{}", ran.stderr);
    assert!(!shell.database().exists(), "nothing is made for it");
    let args = ["restore", "--table", "t", "-"];
    shell.run_with(&args, dump).expect(0, &args);
    assert_eq!(shell.ok(&["get", "--table", "t", "k"]), "v\n");
}

#[test]
fn what_is_no_dump_creates_no_database() {
    let shell = Shell::new();
    shell.write("t.csv", "a,b\n1,2\n");
    let complaint = shell.fails(2, &["restore", "t.csv"]);
    assert!(complaint.contains("foreshore load"), "{complaint}");
    let complaint = shell.fails(2, &["restore", "."]);
    assert!(complaint.contains("--from-backup ."), "{complaint}");
    let complaint = shell.fails(2, &["restore", "--from-backup", "absent"]);
    assert!(complaint.contains("absent is no directory"), "{complaint}");
    let dump = "VERSION=3\nformat=print\nHEADER=END\n k\n v\nDATA=END\n";
    for (dump, told) in [(dump.replace('\n', "\r\n"), "CR LF"), (dump[..24].to_owned(), "incomplete")] {
        let args = ["restore", "--table", "t", "-"];
        let ran = shell.run_with(&args, dump.as_bytes()).expect(2, &args);
        assert!(ran.stderr.contains(told) && !ran.stderr.contains("restored already"), "{}", ran.stderr);
    }
    assert!(!shell.database().exists());
}

#[test]
fn a_cut_dump_is_refused() {
    let shell = everything();
    let dump = shell.ok(&["dump", "--table", "bytes"]);
    let cut = dump.strip_suffix("DATA=END\n").expect("the end");
    let args = ["restore", "--dir", "copy.db", "-"];
    let ran = shell.run_with(&args, cut.as_bytes()).expect(2, &args);
    assert!(ran.stderr.contains("incomplete"), "{}", ran.stderr);
    // Gzip's head, and a block as it is, of which one byte is missing.
    let len = cut.len() as u16 + 1;
    let head = [&b"\x1f\x8b\x08\0\0\0\0\0\0\xff\x01"[..], &len.to_le_bytes(), &(!len).to_le_bytes()];
    let gzipped = [&head.concat(), cut.as_bytes()].concat();
    let ran = shell.run_with(&args, &gzipped).expect(2, &args);
    assert!(ran.stderr.contains("incomplete or damaged"), "{}", ran.stderr);
}

/// What is left of a line looks like a shorter key or value: it must not take the place of a row that is whole.
#[test]
fn a_dump_that_is_cut_within_a_line_replaces_no_row() {
    let shell = Shell::new();
    shell.ok(&["put", "--table", "t", "k", "2222222222"]);
    for (format, rest) in [("print", "2222\nDATA=END\n"), ("bytevalue", "3232\nDATA=END\n")] {
        let dump = shell.ok(&["dump", "--format", format]);
        let cut = dump.strip_suffix(rest).expect("the end");
        let args = ["restore", "-"];
        let ran = shell.run_with(&args, cut.as_bytes()).expect(2, &args);
        assert!(ran.stderr.contains("line 7: the dump ends in the middle of a line"), "{}", ran.stderr);
        assert_eq!(shell.ok(&["get", "--table", "t", "k"]), "2222222222\n");
        // Who has edited it may have left the last line's end out.
        let whole = dump.strip_suffix('\n').expect("a line");
        shell.run_with(&args, whole.as_bytes()).expect(0, &args);
    }
}

/// So is the dump of a database without tables. It may also be all that a failed command has left.
#[test]
fn an_empty_dump_is_told() {
    let shell = Shell::new();
    let ran = shell.run(&["restore", "-"]).expect(0, &["restore", "-"]);
    assert!(ran.stderr.contains("the dump is empty, so nothing was restored"), "{}", ran.stderr);
}

/// The kinds of indexes travel with the tables, one or all, and to a table that is there nothing happens.
#[test]
fn indexes_come_back() {
    let shell = Shell::new();
    shell.write("t.csv", "a,b\n1,2\n");
    for index in ["bplus", "csb", "o2"] {
        shell.ok(&["load", "--table", index, "--index", index, "--key", "a", "t.csv"]);
    }
    let indexes = |dir: &str| {
        let index = |table: &serde_json::Value| format!("{} {}", table["table"], table["index"]);
        shell.json(&["tables", "--dir", dir]).iter().map(index).collect::<Vec<_>>().join(", ")
    };
    for format in ["print", "bytevalue"] {
        shell.ok(&["dump", "--format", format, "--output", "all.dump"]);
        shell.ok(&["restore", "--dir", format, "all.dump"]);
        assert_eq!(indexes(format), r#""bplus" "bplus", "csb" "csb", "o2" "o2""#);
    }
    let dump = shell.ok(&["dump", "--table", "o2"]);
    let args = ["restore", "--dir", "one", "-"];
    shell.run_with(&args, dump.as_bytes()).expect(0, &args);
    assert_eq!(indexes("one"), r#""o2" "o2""#);
    let other = dump.replace("database=o2", "database=csb").replace(" o2\n o2\n", " csb\n o2\n");
    let args = ["restore", "--dir", "print", "-"];
    shell.run_with(&args, other.as_bytes()).expect(0, &args);
    assert_eq!(indexes("print"), r#""bplus" "bplus", "csb" "csb", "o2" "o2""#, "it keeps the index it has");
}

/// Leaf sizes travel too, with and without another index; one that is usual is not named.
#[test]
fn leaf_sizes_come_back() {
    let shell = Shell::new();
    shell.write("t.csv", "a,b\n1,2\n");
    let small = ["load", "--table", "small", "--leaf-bytes", "4KiB", "--key", "a", "t.csv"];
    let wide = ["load", "--table", "wide", "--index", "csb", "--leaf-bytes", "32KiB", "--key", "a", "t.csv"];
    for load in [&small[..], &wide[..], &["load", "--table", "usual", "--key", "a", "t.csv"]] {
        shell.ok(load);
    }
    let dump = shell.ok(&["dump"]);
    assert!(dump.contains(" small\n bplus 4096\n wide\n csb 32768\nDATA=END\n"), "{dump}");
    let args = ["restore", "--dir", "copy.db", "-"];
    shell.run_with(&args, dump.as_bytes()).expect(0, &args);
    let kind =
        |table: &serde_json::Value| format!("{} {} {}", table["table"], table["index"], table["leaf_bytes"]);
    let kinds: Vec<_> = shell.json(&["tables", "--dir", "copy.db"]).iter().map(kind).collect();
    assert_eq!(kinds, [r#""small" "bplus" 4096"#, r#""usual" "bplus" 8192"#, r#""wide" "csb" 32768"#]);
    assert_eq!(shell.ok(&["dump", "--dir", "copy.db"]), dump);
    shell.ok(&["check", "--dir", "copy.db"]);
}

/// A table of the same name with other columns stays as it is, and is not mixed with rows of the dump.
#[test]
fn columns_are_not_replaced_by_others() {
    let shell = Shell::new();
    shell.write("there.csv", "a,b\n1,2\n");
    shell.write("dumped.csv", "x,y,z\n3,4,5\n");
    shell.ok(&["load", "--table", "a", "--key", "a", "there.csv"]);
    shell.ok(&["load", "--dir", "other.db", "--table", "a", "--key", "x", "dumped.csv"]);
    for which in [&["--table", "a"][..], &[]] {
        shell.ok(&[&["dump", "--dir", "other.db", "--output", "a.dump"], which].concat());
        let complaint = shell.fails(2, &["restore", "a.dump"]);
        assert!(complaint.contains("table \"a\" is there with other columns"), "{complaint}");
        let rows = shell.json(&["scan", "--table", "a"]);
        assert_eq!(rows, [serde_json::json!({"key": "1", "row": {"a": "1", "b": "2"}})]);
    }
    // The same columns are welcome, again and again; so are others once the table is gone.
    shell.ok(&["restore", "--dir", "other.db", "a.dump"]);
    shell.ok(&["drop", "--table", "a"]);
    shell.ok(&["restore", "a.dump"]);
    assert_eq!(shell.ok(&["scan", "--table", "a"]), "3,4,5\n");
}

/// Rows with columns and rows without are not mixed: neither `scan --json` nor `scan --csv` could show such a table.
#[test]
fn tables_with_columns_and_without_are_not_mixed() {
    let shell = Shell::new();
    shell.write("t.csv", "a,b\n1,2\n");
    shell.ok(&["load", "--table", "t", "--key", "a", "t.csv"]);
    shell.ok(&["put", "--dir", "plain.db", "--table", "t", "k", "v"]);
    shell.ok(&["dump", "--output", "columns.dump"]);
    shell.ok(&["dump", "--dir", "plain.db", "--output", "plain.dump"]);

    let complaint = shell.fails(2, &["restore", "--dir", "plain.db", "columns.dump"]);
    assert!(complaint.contains("or with none; drop it"), "{complaint}");
    let rows = shell.json(&["scan", "--dir", "plain.db", "--table", "t"]);
    assert_eq!(rows, [serde_json::json!({"key": "k", "value": "v"})]);

    let complaint = shell.fails(2, &["restore", "plain.dump"]);
    assert!(complaint.contains("line 7: table \"t\" is there with columns"), "{complaint}");
    assert_eq!(shell.ok(&["scan", "--table", "t", "--csv"]), "a,b\n1,2\n");

    // A row that fits is welcome, whoever dumped it; and so are the columns behind their rows.
    let dump = shell.ok(&["dump"]);
    let (schemas, rows) = dump.split_at(dump.rfind("VERSION=3").unwrap());
    for (dir, dump) in [("foreshore.db", rows.replace("1,2", "1,3")), ("new.db", [rows, schemas].concat())] {
        let args = ["restore", "--dir", dir, "-"];
        shell.run_with(&args, dump.as_bytes()).expect(0, &args);
    }
    assert_eq!(shell.ok(&["scan", "--table", "t"]), "1,3\n");
    assert_eq!(shell.json(&["scan", "--dir", "new.db", "--table", "t"])[0]["row"]["b"], "2");
}

/// What is there beside schemas, the next command that writes would remove; and a schema that is none would make a table unreadable.
#[test]
fn only_schemas_are_restored_where_they_are_kept() {
    let shell = Shell::new();
    for not_one in ["two bottles", "{}", r#"{"columns":["a"],"key":[1]}"#] {
        let dump = format!(
            "VERSION=3\nformat=print\ndatabase=foreshore.schemas\nHEADER=END\n milk\n {not_one}\nDATA=END\n"
        );
        let args = ["restore", "-"];
        let complaint = shell.run_with(&args, dump.as_bytes()).expect(2, &args).stderr;
        assert!(complaint.contains("line 6: this is no row of foreshore.schemas"), "{complaint}");
    }
    assert_eq!(shell.ok(&["count", "--table", "foreshore.schemas"]), "0\n");
}

/// Part of a dump would be taken for all of it, and the last one that was whole is not overwritten for it.
#[test]
fn what_cannot_be_dumped_is_known_before_anything_is_written() {
    let shell = Shell::new();
    shell.ok(&["put", "--table", "a", "k", "v"]);
    shell.ok(&["dump", "--output", "all.dump"]);
    let yesterdays = shell.ok(&["dump"]);
    for table in ["two\nlines", "foreshore.indexes"] {
        let db = foreshore::Database::open(shell.database()).expect("nobody else has it");
        db.byte_table(table).expect("a table");
        drop(db);
        let ran = shell.run(&["dump"]).expect(2, &["dump"]);
        assert!(ran.stderr.contains("`foreshore rename`"), "{}", ran.stderr);
        shell.ok(&["dump", "--table", "a"]);
        assert_eq!(ran.stdout, "", "{table}");
        shell.fails(2, &["dump", "--output", "all.dump"]);
        assert_eq!(std::fs::read_to_string(shell.path("all.dump")).expect("a file"), yesterdays, "{table}");
        shell.ok(&["rename", table, "b"]);
        shell.ok(&["drop", "--table", "b"]);
    }
    shell.ok(&["dump", "--output", "all.dump"]);
}

/// A dump takes the place of the one before: where a link leads to, and nobody may read it who might not read that.
#[test]
fn a_dump_is_kept_as_the_one_before() {
    let shell = Shell::new();
    shell.ok(&["put", "--table", "a", "k", "v"]);
    shell.write("monday.dump", "");
    let (monday, latest) = (shell.path("monday.dump"), shell.path("latest.dump"));
    std::fs::set_permissions(&monday, Permissions::from_mode(0o600)).expect("its owner");
    symlink(&monday, &latest).expect("a link");
    shell.ok(&["dump", "--output", "latest.dump"]);
    assert_eq!(std::fs::read_to_string(&monday).expect("a file"), shell.ok(&["dump"]));
    assert!(latest.is_symlink());
    assert_eq!(std::fs::metadata(&monday).expect("a file").mode() & 0o777, 0o600);
    std::fs::create_dir(shell.path("here")).expect("a directory");
    shell.fails(5, &["dump", "--output", "here"]);
}

/// Links may lead to links, and the last one to a file that is yet to be made.
#[test]
fn a_dump_is_made_where_links_lead() {
    let shell = Shell::new();
    shell.ok(&["put", "--table", "a", "k", "v"]);
    std::fs::create_dir(shell.path("dumps")).expect("a directory");
    let links = [("latest", "dumps/monday"), ("dumps/monday", "all"), ("dumps/all", "../new.dump")];
    for (link, target) in links {
        symlink(target, shell.path(link)).expect("a link");
    }
    shell.ok(&["dump", "--output", "latest"]);
    assert!(links.iter().all(|(link, _)| shell.path(link).is_symlink()));
    assert_eq!(std::fs::read_to_string(shell.path("new.dump")).expect("a file"), shell.ok(&["dump"]));
}

/// Until it takes its place it has a name that nobody else has. Who may read it is what the process's mask says.
#[test]
fn a_dump_writes_over_no_other_file() {
    let shell = Shell::new();
    shell.ok(&["put", "--table", "a", "k", "v"]);
    shell.write("all.dump.part", "a letter");
    shell.write("photos", "of last year");
    symlink(shell.path("photos"), shell.path("one.dump.part")).expect("a link");
    let before = entries(&shell);
    for (name, mask, mode) in [("all.dump", "022", 0o644), ("one.dump", "077", 0o600)] {
        let masked = format!("umask {mask}; exec \"$0\" dump --output {name}");
        let mut command = Command::new("sh");
        command.current_dir(shell.path(".")).args(["-c", &masked, env!("CARGO_BIN_EXE_foreshore")]);
        assert!(command.env_remove("FORESHORE_DIR").status().expect("sh").success());
        assert_eq!(std::fs::read_to_string(shell.path(name)).expect("a file"), shell.ok(&["dump"]));
        assert_eq!(std::fs::metadata(shell.path(name)).expect("a file").mode() & 0o777, mode);
    }
    assert_eq!(std::fs::read_to_string(shell.path("all.dump.part")).expect("a file"), "a letter");
    assert_eq!(std::fs::read_to_string(shell.path("photos")).expect("a file"), "of last year");
    let made = entries(&shell).into_iter().filter(|entry| !before.contains(entry)).collect::<Vec<_>>();
    assert_eq!(made, ["all.dump", "one.dump"]);
}

#[test]
fn a_directory_that_is_missing_is_named() {
    let shell = Shell::new();
    shell.ok(&["put", "--table", "a", "k", "v"]);
    let complaint = shell.fails(2, &["dump", "--output", "nodir/all.dump"]);
    assert!(complaint.contains("there is no directory nodir to write nodir/all.dump to"), "{complaint}");
    let complaint = shell.fails(2, &["dump", "--output", "newname/"]);
    assert!(complaint.contains("newname/ is the name of a directory; name a file"), "{complaint}");
}

/// A shell's `>(…)` has a name in `/dev/fd`, which leads to none.
#[test]
fn a_dump_goes_to_a_pipe_by_any_name() {
    let shell = Shell::new();
    shell.ok(&["put", "--table", "a", "k", "v"]);
    let dump = shell.command(&["dump", "--output", "/dev/fd/3"]);
    let mut command = Command::new("sh");
    command.args(["-c", "\"$@\" 3>&1 >&2 | cat", "sh"]).arg(dump.get_program()).args(dump.get_args());
    command.current_dir(dump.get_current_dir().expect("the scratch directory"));
    let piped = command.output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&piped.stdout), shell.ok(&["dump"]));
}

/// What of a dump is written when Ctrl-C ends it is of no use to anybody. A script's shell has what it runs in the background ignore that.
#[test]
fn an_interrupted_dump_leaves_nothing() {
    for is_ignored in [false, true] {
        interrupt_a_dump(is_ignored);
    }
}

fn interrupt_a_dump(is_ignored: bool) {
    let shell = Shell::new();
    let db = foreshore::Database::open(shell.database()).expect("nobody else has it");
    let table = db.byte_table("t").expect("a table").with_durability(foreshore::Durability::Relaxed);
    (0..20u8).for_each(|key| table.put(&[key], &vec![0; 1 << 20]).expect("a write"));
    drop(table);
    db.close().expect("closed");
    let before = entries(&shell);
    let dump = shell.command(&["dump", "--output", "all.dump"]);
    let mut command = Command::new("sh");
    command.args(["-c", if is_ignored { "trap '' INT; exec \"$@\"" } else { "exec \"$@\"" }, "sh"]);
    command.arg(dump.get_program()).args(dump.get_args());
    command.current_dir(dump.get_current_dir().expect("the scratch directory"));
    let mut child = command.spawn().expect("it starts");
    while entries(&shell) == before {
        assert_eq!(child.try_wait().expect("a child"), None, "it has made nothing");
        std::thread::sleep(Duration::from_millis(1));
    }
    let signalled = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(signalled.expect("kill is there").success());
    // On a busy machine it may have got to its end before.
    let is_whole = child.wait().expect("it ends").success();
    assert!(is_whole || !is_ignored);
    let left = entries(&shell).into_iter().filter(|entry| !before.contains(entry)).collect::<Vec<_>>();
    assert_eq!(left, if is_whole { vec!["all.dump"] } else { vec![] });
}

/// What is in the scratch directory.
fn entries(shell: &Shell) -> Vec<String> {
    let entries = std::fs::read_dir(shell.path(".")).expect("a directory");
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Among the database's files it would take the place of one of them, or keep `compact` from its work.
#[test]
fn a_dump_does_not_lie_within_its_database() {
    let shell = Shell::new();
    shell.ok(&["put", "--table", "a", "k", "v"]);
    let dump = shell.ok(&["dump"]);
    symlink("foreshore.db/new.dump", shell.path("latest.dump")).expect("a link");
    let names = [
        "foreshore.db/leaves.db",
        "foreshore.db/new.dump",
        "foreshore.db/../foreshore.db/wal-0",
        "latest.dump",
    ];
    for name in names {
        let complaint = shell.fails(2, &["dump", "--output", name]);
        assert!(complaint.contains("would lie within a database"), "{complaint}");
    }
    assert_eq!(shell.ok(&["dump"]), dump);
    shell.ok(&["compact"]);
    shell.ok(&["dump", "--output", "foreshore.db/../new.dump"]);
    assert_eq!(std::fs::read_to_string(shell.path("new.dump")).expect("a file"), dump);
}

/// Nor within another one.
#[test]
fn a_dump_does_not_lie_within_another_database() {
    let shell = Shell::new();
    for dir in ["foreshore.db", "other.db"] {
        shell.ok(&["put", "--dir", dir, "--table", "a", "k", "v"]);
    }
    for name in ["other.db/leaves.db", "other.db/new.dump"] {
        let complaint = shell.fails(2, &["dump", "--output", name]);
        assert!(complaint.contains("would lie within a database"), "{complaint}");
    }
    shell.ok(&["check", "--dir", "other.db"]);
}

/// What is no file keeps nothing that could be synced.
#[test]
fn a_dump_is_written_to_a_pipe_or_a_device_too() {
    let shell = everything();
    let dump = shell.ok(&["dump"]);
    assert_eq!(shell.ok(&["dump", "--output", "/dev/stdout"]), dump);
    shell.ok(&["dump", "--output", "/dev/null"]);
}

/// Berkeley DB's keys may be of any length.
#[test]
fn a_row_that_no_table_takes_is_named() {
    let shell = Shell::new();
    let key = "6b".repeat(2000);
    let dump =
        format!("VERSION=3\nformat=bytevalue\ntype=btree\nHEADER=END\n 6b\n 76\n {key}\n 76\nDATA=END\n");
    let args = ["restore", "--table", "t", "-"];
    let complaint = shell.run_with(&args, dump.as_bytes()).expect(2, &args).stderr;
    assert!(complaint.contains("line 8: the key has 2000 bytes"), "{complaint}");
}

/// An index that nobody knows yet, and tables in the place where dumps keep indexes.
#[test]
fn indexes_that_cannot_be_kept_are_refused() {
    let shell = Shell::new();
    let dump =
        b"VERSION=3\nformat=print\ndatabase=foreshore.indexes\ntype=btree\nHEADER=END\n t\n trie\nDATA=END\n";
    let args = ["restore", "-"];
    let ran = shell.run_with(&args, dump).expect(2, &args);
    assert!(ran.stderr.contains("line 7") && ran.stderr.contains("newer"), "{}", ran.stderr);
    shell.write("t.csv", "a,b\n1,2\n");
    shell.ok(&["put", "--table", "t", "k", "v"]);
    for args in [
        &["put", "--table", "foreshore.indexes", "t", "csb"][..],
        &["load", "--table", "foreshore.indexes", "--key", "a", "t.csv"],
        &["rename", "t", "foreshore.indexes"],
    ] {
        let refused = shell.fails(2, args);
        assert!(refused.contains("choose another name"), "{refused}");
    }
}
