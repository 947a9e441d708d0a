//! A database in use, and a damaged one.

mod common;

use common::{Shell, files};
use foreshore::{Database, Durability};
use serde_json::json;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A second process is refused, and told whom to ask. (That a killed holder leaves no lock behind, `demo` shows.)
#[test]
fn a_database_in_use_is_locked_with_its_holders_pid() {
    let shell = Shell::new();
    shell.ok(&["put", "--table", "t", "k", "v"]);
    let holder = Database::open(shell.database()).expect("nobody else has it");
    for args in [&["get", "--table", "t", "k"][..], &["put", "--table", "t", "k", "w"], &["check"]] {
        let complaint = shell.fails(4, args);
        assert!(complaint.contains(&std::process::id().to_string()), "{complaint}");
    }
    holder.close().expect("closed");
    assert_eq!(shell.ok(&["get", "--table", "t", "k"]), "v\n");
}

/// Whatever file is damaged: right answers or exit code 3, and nothing else.
#[test]
fn damage_is_corruption_and_never_a_wrong_answer() {
    let shell = Shell::new();
    small_database(&shell.database());
    let pristine: Vec<_> = files(&shell.database())
        .into_iter()
        .map(|path| {
            let bytes = std::fs::read(&path).expect("a file of the database");
            (path, bytes)
        })
        .collect();
    let restore = || pristine.iter().for_each(|(path, bytes)| std::fs::write(path, bytes).expect("restored"));
    let expected = shell.ok(&["dump"]);
    shell.ok(&["dump", "--output", "yesterday's"]);

    let mut refused = Vec::new();
    for (path, bytes) in &pristine {
        restore();
        let mut damaged = bytes.clone();
        damaged.iter_mut().step_by(64).for_each(|byte| *byte ^= 0xA5);
        std::fs::write(path, &damaged).expect("damage");
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let ran = shell.run(&["dump"]);
        match ran.code {
            3 => refused.push(name.clone()),
            0 => assert_eq!(ran.stdout, expected, "after damage to {name}"),
            code => panic!("after damage to {name}: exit code {code}: {}", ran.stderr),
        }
        if ran.code == 3 {
            shell.fails(3, &["dump", "--output", "yesterday's"]);
            assert_eq!(
                std::fs::read_to_string(shell.path("yesterday's")).expect("a file"),
                expected,
                "{name}"
            );
            assert!(!shell.path("yesterday's.part").exists(), "{name}");
        }
    }
    for needed in ["FORESHORE", "leaves.db"] {
        assert!(
            refused.iter().any(|name| name == needed),
            "damage to {needed} was not noticed; to {refused:?} it was"
        );
    }
    restore();
    assert_eq!(shell.ok(&["dump"]), expected);
}

/// Where the log keeps a salvage from succeeding, it is said how to do without the log.
#[test]
fn a_salvage_can_do_without_the_log() {
    let shell = Shell::new();
    small_database(&shell.database());
    let expected = shell.ok(&["dump"]);
    let begins = |path: &Path, with: &[&str]| {
        let name = path.file_name().expect("a file").to_string_lossy();
        with.iter().any(|beginning| name.starts_with(beginning))
    };
    for path in files(&shell.database()).iter().filter(|path| begins(path, &["wal-", "ring"])) {
        std::fs::OpenOptions::new().write(true).open(path).expect("a file").set_len(100).expect("cut");
    }
    let complaint = shell.fails(3, &["check", "--rebuild"]);
    assert!(complaint.contains("without the log") && complaint.contains("directory-*"), "{complaint}");
    for path in files(&shell.database()).iter().filter(|path| begins(path, &["wal-", "ring", "directory-"])) {
        std::fs::remove_file(path).expect("removed");
    }
    shell.ok(&["check", "--rebuild"]);
    assert_eq!(shell.ok(&["dump"]), expected);
}

/// A file FORESHORE that is none of ours has nothing to do with the log, which the advice would give up.
#[test]
fn a_salvage_without_the_first_file_says_nothing_of_the_log() {
    let shell = Shell::new();
    shell.ok(&["put", "--table", "t", "k", "v"]);
    let path = shell.database().join("FORESHORE");
    let pristine = std::fs::read(&path).expect("the first file");
    for at in [0, pristine.len() - 1] {
        let mut damaged = pristine.clone();
        damaged[at] ^= 0xA5;
        std::fs::write(&path, damaged).expect("damage");
        let complaint = shell.fails(3, &["check", "--rebuild"]);
        assert!(complaint.contains("its file FORESHORE") && !complaint.contains("log"), "{complaint}");
    }
}

/// A salvage does without the leaf that is damaged. It says so, and how all other rows are read.
#[test]
fn a_salvage_tells_what_is_lost_and_how_to_read_the_rest() {
    let shell = Shell::new();
    small_database(&shell.database());
    let path = shell.database().join("leaves.db");
    let pristine = std::fs::read(&path).expect("the leaves");
    let is_leaf = |slot: &usize| pristine[slot * 8192..].starts_with(b"FL");
    // There are old images of leaves, too, which nobody misses.
    let is_noticed = |slot: &usize| {
        let mut damaged = pristine.clone();
        damaged[slot * 8192 + 4000] ^= 0xA5;
        std::fs::write(&path, &damaged).expect("damage");
        shell.run(&["check"]).stderr.contains(&format!("in slot {slot} of"))
    };
    let slots = (0..pristine.len() / 8192).filter(is_leaf).skip(20);
    slots.take(20).find(is_noticed).expect("some are in use");

    let complaint = shell.fails(3, &["check", "--rebuild"]);
    assert!(
        complaint.contains("the leaf that is damaged is lost") && complaint.contains("scan --reverse"),
        "{complaint}"
    );
    let rows = |args: &[&str]| {
        let ran = shell.run(&[&["scan", "--table", "t"], args].concat());
        assert_eq!(ran.code, 3, "{}", ran.stderr);
        ran.stdout.lines().count()
    };
    let found = rows(&[]) + rows(&["--reverse"]);
    assert!((4800..5000).contains(&found), "{found} of 5000 rows");
}

/// Between two leaves that are lost there are rows, of which neither end of the table knows.
#[test]
fn a_salvage_tells_how_to_read_between_two_leaves_that_are_lost() {
    let shell = Shell::new();
    small_database(&shell.database());
    damage_leaves(&shell, b"row 1000 ");
    damage_leaves(&shell, b"row 3000 ");
    let complaint = shell.fails(3, &["check", "--rebuild"]);
    assert!(complaint.contains("more than one leaf") && complaint.contains("scan --from"), "{complaint}");
    let scan = |args: &[&str]| {
        shell.run(&[&["scan", "--table", "t", "--hex"], args].concat()).expect(3, args).stdout
    };
    let shows = |rows: &str, key: u32| rows.lines().any(|row| row.starts_with(&format!("{key:08x}\t")));
    let ends = scan(&[]) + &scan(&["--reverse"]);
    assert!(shows(&ends, 0) && shows(&ends, 4999) && !shows(&ends, 2000));
    assert!(shows(&scan(&["--from", "000007d0"]), 2000));
}

/// Large values lie in a table that no command takes: the one whose values they are is named.
#[test]
fn a_salvage_tells_whose_large_values_are_lost() {
    let shell = Shell::new();
    let half = "v".repeat(10_000);
    for key in ["a", "b", "c"] {
        let put = ["put", "--table", "t", key, "-"];
        shell.run_with(&put, format!("{half} in the middle of {key} {half}").as_bytes()).expect(0, &put);
    }
    damage_leaves(&shell, b" in the middle of b ");
    let complaint = shell.fails(3, &["check", "--rebuild"]);
    assert!(complaint.contains("table is t"), "{complaint}");
    let lost = shell.fails(3, &["scan", "--table", "t"]);
    assert!(lost.contains("row b of table \"t\""), "{lost}");
    assert!(shell.ok(&["scan", "--table", "t", "--from", "c"]).starts_with("c\tvvv"));
}

/// One table that cannot be counted hides no other.
#[test]
fn tables_are_listed_and_counted_beside_a_damaged_one() {
    let shell = Shell::new();
    for table in ["before", "damaged", "later"] {
        shell.ok(&["put", "--table", table, "k", &format!("value of {table}")]);
    }
    damage_leaves(&shell, b"value of damaged");
    let args = ["tables", "--count", "--json"];
    let listed = shell.run(&args).expect(3, &args);
    let rows: Vec<_> =
        listed.objects().iter().map(|table| (table["table"].clone(), table["rows"].clone())).collect();
    assert_eq!(
        rows,
        [("before", json!(1)), ("damaged", json!(null)), ("later", json!(1))].map(|(t, n)| (json!(t), n))
    );
    assert!(listed.objects()[1]["rows_error"].as_str().is_some_and(|why| why.contains("damaged")));
    assert!(listed.stderr.contains("foreshore check"), "{}", listed.stderr);
    for args in [&["tables", "--count"][..], &["shell", "-c", ".tables --count"]] {
        let shown = shell.run(args).expect(3, args).stdout;
        assert!(shown.contains("unreadable") && shown.contains("later"), "{shown}");
    }
}

/// Of a large value that is damaged the row is told: to put it, or to remove it, is enough, and no salvage is advised.
#[test]
fn who_has_a_damaged_value_is_told_its_row() {
    let shell = Shell::new();
    let value = "v".repeat(300_000);
    for key in ["a", "b", "c"] {
        let put = ["put", "--table", "t", key, "-"];
        shell.run_with(&put, value.as_bytes()).expect(0, &put);
    }
    let path = shell.database().join("blobs.db");
    let mut blobs = std::fs::read(&path).expect("the values");
    let middle = blobs.len() / 2;
    blobs[middle] ^= 1;
    std::fs::write(&path, blobs).expect("damage");
    for args in [&["check"][..], &["check", "--rebuild"], &["get", "--table", "t", "b"]] {
        let complaint = shell.fails(3, args);
        let told = "the large value of row b of table \"t\" is damaged: its checksum is wrong; put or remove that row";
        assert!(complaint.contains(told) && !complaint.contains("salvage"), "{complaint}");
    }
    shell.ok(&["rm", "--table", "t", "b"]);
    assert!(shell.ok(&["check"]).contains("everything is in order"));
}

/// Keys that `load` has made are no text: the command that removes such a row is told, and takes them.
#[test]
fn who_has_damaged_values_is_told_the_command_that_removes_them() {
    let shell = Shell::new();
    let value = "v".repeat(200_000);
    shell.write("t.csv", format!("id,text\n1,{value}\n2,{value}\n3,{value}\n"));
    shell.ok(&["load", "--table", "t", "--key", "id", "t.csv"]);
    let path = shell.database().join("blobs.db");
    let mut blobs = std::fs::read(&path).expect("the values");
    blobs.iter_mut().step_by(100_000).for_each(|byte| *byte ^= 1);
    std::fs::write(&path, blobs).expect("damage");
    let complaint = shell.fails(3, &["check"]);
    let [first, second, third] = ["1", "2", "3"].map(|id| format!("00800000000000000{id}"));
    let others = format!("the keys of the next ones are {second}, {third}");
    assert!(complaint.contains(&others), "{complaint}");
    let (_, command) = complaint.split_once("`foreshore ").expect("a command");
    let (command, _) = command.split_once('`').expect("its end");
    assert_eq!(command, format!("rm --hex --table TABLE {first}"));
    for key in [&first, &second, &third] {
        shell.ok(&["rm", "--hex", "--table", "t", key]);
    }
    assert!(shell.ok(&["check"]).contains("everything is in order"));
}

/// Tables whose names are damaged come back under others, which a salvage tells.
#[test]
fn a_salvage_tells_of_tables_that_have_lost_their_names() {
    let shell = Shell::new();
    small_database(&shell.database());
    let path = shell.database().join("leaves.db");
    let mut leaves = std::fs::read(&path).expect("the leaves");
    let is_of_catalog = |leaf: &&mut [u8]| leaf.starts_with(b"FL") && leaf[32..36] == 1u32.to_le_bytes();
    leaves.chunks_exact_mut(8192).filter(is_of_catalog).for_each(|leaf| leaf.fill(0));
    std::fs::write(&path, leaves).expect("damage");
    let complaint = shell.fails(3, &["tables"]);
    assert!(complaint.contains("--rebuild"), "{complaint}");
    let told = shell.ok(&["check", "--rebuild"]);
    assert!(told.contains("called recovered-N now: 1"), "{told}");
    assert_eq!(shell.ok(&["scan", "--table", "recovered-16"]).lines().count(), 5000);
}

/// Columns are lost with a leaf of the table that keeps them. No row is, nor any table without columns.
#[test]
fn tables_are_bytes_where_their_columns_are_lost() {
    let shell = without_schemas();
    for (args, told) in [
        (&["scan", "--table", "plain"][..], "--hex"),
        (&["get", "--table", "plain", "k1"], "drop --table foreshore.schemas"),
        (&["put", "--table", "plain", "k2", "v2"], "--hex"),
        (&["load", "--table", "accounts", "--key", "id", "t.csv"], "--hex"),
        (&["drop", "--table", "plain"], "drop --table foreshore.schemas"),
        (&["shell", "-c", "drop plain"], "drop --table foreshore.schemas"),
    ] {
        let complaint = shell.fails(3, args);
        assert!(complaint.contains(told), "{args:?}: {complaint}");
    }
    assert_eq!(shell.ok(&["scan", "--hex", "--table", "plain"]), "6b31\t7631\n");
    shell.ok(&["put", "--hex", "--table", "plain", "6b32", "7632"]);

    shell.ok(&["drop", "--table", "foreshore.schemas"]);
    assert_eq!(shell.ok(&["scan", "--table", "plain"]), "k1\tv1\nk2\tv2\n");
    assert!(shell.ok(&["scan", "--table", "accounts"]).contains("\t1,a\n"));
    shell.ok(&["drop", "--table", "plain"]);
    assert!(shell.ok(&["check"]).contains("everything is in order"));
}

/// A dump has all rows then, says that columns are missing, and fails. A file is to be whole, and is not made.
#[test]
fn a_dump_does_without_columns_that_are_lost() {
    let shell = without_schemas();
    for (table, args) in
        [("plain", &["dump"][..]), ("plain", &["dump", "--table", "plain"]), ("accounts", &["dump"])]
    {
        let dumped = shell.run(args).expect(3, args);
        assert!(
            dumped.stderr.starts_with("note: ") && dumped.stderr.contains("columns"),
            "{}",
            dumped.stderr
        );
        let restore = ["restore", "--dir", "copy", "-"];
        shell.run_with(&restore, dumped.stdout.as_bytes()).expect(0, &restore);
        let rows = |dir| shell.ok(&["scan", "--hex", "--dir", dir, "--table", table]);
        assert_eq!(rows("copy"), rows("foreshore.db"), "{args:?}");
        std::fs::remove_dir_all(shell.path("copy")).expect("removed");
    }
    let complaint = shell.fails(3, &["dump", "--output", "rows"]);
    assert!(complaint.contains("leave out --output"), "{complaint}");
    assert!(!shell.path("rows").exists());
}

/// The columns of a very wide table are a large value: it can be damaged where its key is not.
#[test]
fn columns_that_are_lost_may_be_a_large_value() {
    let shell = Shell::new();
    let columns: Vec<_> = (0..200).map(|n| format!("column_with_a_long_name_{n}")).collect();
    shell.write("t.csv", format!("{}\n{}\n", columns.join(","), ["1"; 200].join(",")));
    shell.ok(&["load", "--table", "wide", "--key", &columns[0], "t.csv"]);
    damage_leaves(&shell, columns[150].as_bytes());
    let complaint = shell.fails(3, &["scan", "--table", "wide"]);
    assert!(complaint.contains("drop --table foreshore.schemas"), "{complaint}");
    shell.ok(&["drop", "--table", "foreshore.schemas"]);
    assert!(shell.ok(&["scan", "--table", "wide"]).contains("\t1,1,1,"));
}

/// Columns on both sides of a leaf that is damaged are in the dump, and the tables whose columns are not are named.
#[test]
fn a_dump_has_all_columns_that_can_be_read() {
    let shell = Shell::new();
    let db = Database::open(shell.database()).expect("a new database");
    let schemas = db.byte_table("foreshore.schemas").expect("a new table");
    for n in 0..20 {
        let name = format!("table-{n:02}");
        db.byte_table(&name).and_then(|table| table.put(b"k", b"v")).expect("a row");
        let columns = format!("{{\"columns\":[\"of {name}{}\"],\"key\":[0]}}", "-".repeat(1500));
        schemas.put(name.as_bytes(), columns.as_bytes()).expect("its columns");
    }
    // A rebuild may have called its table `recovered-17`.
    schemas.put(b"was called so", b"{\"columns\":[\"c\"],\"key\":[0]}").expect("its columns");
    drop(schemas);
    db.close().expect("closed");
    damage_leaves(&shell, b"of table-10-");
    let dumped = shell.run(&["dump"]).expect(3, &["dump"]);
    let (schemas, _) = dumped.stdout.split_once("DATA=END").expect("one table");
    for there in ["\"of table-00-", "\"of table-19-", "was called so"] {
        assert!(schemas.contains(there), "{there}: {schemas}");
    }
    let told = &dumped.stderr;
    assert!(told.contains("\"table-10\"") && !told.contains("\"table-19\""), "{told}");
    assert_eq!(dumped.stdout.matches(" k\n v\n").count(), 20);
}

/// Nobody knows the names under which these columns were kept: that some may be missing is told nevertheless.
#[test]
fn a_dump_tells_of_columns_between_damages() {
    let shell = Shell::new();
    let db = Database::open(shell.database()).expect("a new database");
    let schemas = db.byte_table("foreshore.schemas").expect("a new table");
    db.byte_table("recovered-17").and_then(|table| table.put(b"k", b"v")).expect("a row");
    for n in 0..20 {
        let columns = format!("{{\"columns\":[\"of table-{n:02}{}\"],\"key\":[0]}}", "-".repeat(1500));
        schemas.put(format!("table-{n:02}").as_bytes(), columns.as_bytes()).expect("its columns");
    }
    drop(schemas);
    db.close().expect("closed");
    damage_leaves(&shell, b"of table-10-");
    shell.fails(3, &["dump", "--output", "rows"]);
    assert!(!shell.path("rows").exists());
    let dumped = shell.run(&["dump"]).expect(3, &["dump"]);
    assert!(dumped.stderr.contains("that have lost their names"), "{}", dumped.stderr);
    assert!(dumped.stdout.contains("of table-00-") && dumped.stdout.contains("of table-19-"));
    assert_eq!(dumped.stdout.matches(" k\n v\n").count(), 1);
}

/// A table made by `load` and one without columns, salvaged without the leaf that says so.
fn without_schemas() -> Shell {
    let shell = Shell::new();
    shell.write("t.csv", "id,name\n1,a\n2,b\n");
    shell.ok(&["load", "--table", "accounts", "--key", "id", "t.csv"]);
    shell.ok(&["put", "--table", "plain", "k1", "v1"]);
    damage_leaves(&shell, b"{\"columns\"");
    shell.fails(3, &["check", "--rebuild"]);
    shell
}

/// Damages all leaves that hold these bytes.
fn damage_leaves(shell: &Shell, with: &[u8]) {
    let path = shell.database().join("leaves.db");
    let mut leaves = std::fs::read(&path).expect("the leaves");
    let holds = |leaf: &&mut [u8]| leaf.starts_with(b"FL") && leaf.windows(with.len()).any(|at| at == with);
    leaves.chunks_exact_mut(8192).filter(holds).for_each(|leaf| leaf[4000] ^= 0xA5);
    std::fs::write(&path, leaves).expect("damage");
}

/// A name that only begins like those of a rebuild was given by somebody.
#[test]
fn a_table_called_recovered_by_its_owner_has_not_lost_its_name() {
    let shell = Shell::new();
    for name in ["recovered-orders", "recovered-+7", "recovered-"] {
        shell.ok(&["put", "--table", name, "k", "v"]);
    }
    let told = shell.ok(&["check", "--rebuild"]);
    assert!(!told.contains("lost their names"), "{told}");
}

/// Closed cleanly, so that the rows are in the leaf file; with files small enough to copy often.
fn small_database(dir: &Path) {
    let small =
        Database::builder().segment_bytes(256 << 10).ring_bytes(256 << 10).durability(Durability::Relaxed);
    let db = small.open(dir).expect("a new database");
    let table = db.byte_table("t").expect("a new table");
    for row in 0u32..5000 {
        table
            .put(&row.to_be_bytes(), format!("row {row} {}", "abcdefgh".repeat(8)).as_bytes())
            .expect("a small row");
    }
    drop(table);
    db.close().expect("closed");
}

/// A directory of something else is a wrong `--dir`, and stays as it is.
#[test]
fn a_foreign_directory_is_left_alone() {
    let shell = Shell::new();
    std::fs::create_dir(shell.path("photos")).expect("a directory");
    shell.write("photos/a.jpg", "not ours");
    for args in [
        &["put", "--dir", "photos", "--table", "t", "k", "v"][..],
        &["check", "--dir", "photos"],
        &["compact", "--dir", "photos"],
        &["stats", "--watch", "--times", "1", "--dir", "photos"],
    ] {
        shell.fails(2, args);
    }
    assert_eq!(std::fs::read(shell.path("photos/a.jpg")).expect("still there"), b"not ours");

    // One that holds nothing but others, a database among them.
    shell.ok(&["put", "--table", "t", "k", "v"]);
    let entries = || std::fs::read_dir(shell.path(".")).expect("a directory").count();
    let before = entries();
    for args in [
        &["put", "--dir", ".", "--table", "t", "k", "v"][..],
        &["tables", "--dir", "."],
        &["backup", "."],
        &["compact", "--dir", "."],
    ] {
        shell.fails(2, args);
    }
    assert_eq!(entries(), before);
}

/// A full disk cuts a creation short.
#[test]
fn what_is_left_of_a_creation_is_no_database() {
    let shell = Shell::new();
    std::fs::create_dir(shell.path("new")).expect("a directory");
    shell.write("new/FORESHORE.creating", "");
    shell.write("new/LOCK", "");
    for command in ["tables", "check", "compact"] {
        let complaint = shell.fails(2, &[command, "--dir", "new"]);
        assert!(complaint.contains("there is no database in new; `foreshore load`"), "{complaint}");
    }
    shell.ok(&["put", "--dir", "new", "--table", "t", "k", "v"]);
}

/// It would go with that one, and keeps `compact` from its work.
#[test]
fn no_database_is_made_within_another() {
    let shell = Shell::new();
    shell.ok(&["put", "--table", "t", "k", "v"]);
    shell.write("t.dump", shell.ok(&["dump"]));
    std::os::unix::fs::symlink("foreshore.db/linked", shell.path("link")).expect("a link");
    for dir in [
        "foreshore.db/y",
        "foreshore.db/y/z",
        "foreshore.db/../foreshore.db/y",
        "nodir/../foreshore.db/y",
        "link",
    ] {
        for command in
            [&["put", "--table", "t", "k", "v"][..], &["restore", "t.dump"], &["demo", "--seconds", "1"]]
        {
            let complaint = shell.fails(2, &[command, &["--dir", dir]].concat());
            assert!(complaint.contains("would lie within the database"), "{complaint}");
        }
    }
    shell.ok(&["compact"]);
    shell.ok(&["put", "--dir", "foreshore.db/../beside/it", "--table", "t", "k", "v"]);
    // Whoever writes notes of a walk there.
    std::fs::create_dir(shell.path("home")).expect("a directory");
    shell.write("home/FORESHORE", "shells, and a heron");
    shell.ok(&["put", "--dir", "home/db", "--table", "t", "k", "v"]);
}

/// Nobody hears the message; the exit code tells nevertheless.
#[test]
fn a_closed_stderr_changes_no_exit_code() {
    let shell = Shell::new();
    shell.ok(&["put", "--table", "t", "k", "v"]);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let ran = shell.command(&["get", "--table", "t", "absent"]).stderr(writer).status().expect("it starts");
    assert_eq!(ran.code(), Some(1));
}

/// A directory that cannot be looked into is not one without a database.
#[test]
fn what_is_no_directory_is_told_as_such() {
    let shell = Shell::new();
    shell.write("a.jpg", "not ours");
    for args in [&["tables"][..], &["check"], &["put", "--table", "t", "k", "v"]] {
        let complaint = shell.fails(5, &[args, &["--dir", "a.jpg"]].concat());
        assert!(complaint.contains("directory") && complaint.contains("--dir"), "{complaint}");
    }
}

/// Minutes of work are not lost to a file that cannot be written.
#[test]
fn where_results_go_is_tried_before_the_work() {
    let shell = Shell::new();
    std::fs::create_dir(shell.path("there")).expect("a directory");
    for args in [["tune", "--out", "there"], ["demo", "--svg", "there"]] {
        let ran = shell.run(&args).expect(5, &args);
        assert!(ran.stderr.starts_with("foreshore: there: "), "{}", ran.stderr);
    }
}

/// It would measure the engine as it is, under another's name.
#[test]
fn a_benchmark_without_the_old_primitives_that_are_asked_for_is_refused() {
    let shell = Shell::new();
    let bench = ["bench", "kv", "--workload", "get", "--dir", "."];
    let ran = shell.command(&bench).env("FORESHORE_OLD", "log-mutex").output().expect("it starts");
    let told = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.code() == Some(2) && told.contains("cargo xtask stages"), "{told}");
}

/// Ctrl-C ends what would take minutes; what it had made for itself is gone with it.
#[test]
fn an_interrupted_benchmark_leaves_nothing() {
    let shell = Shell::new();
    let bench = ["bench", "kv", "--workload", "get", "--n", "1000", "--seconds", "600", "--dir"];
    let demo =
        ["demo", "--warehouses", "1", "--items", "1000", "--customers", "30", "--seconds", "600", "--dir"];
    for (command, dir, made) in [(&bench[..], "bench", 1), (&demo[..], "demo", 3)] {
        let dir = shell.path(dir);
        let command = [command, &[dir.to_str().expect("a name in UTF-8")]].concat();
        let mut child = shell.command(&command).stderr(Stdio::null()).spawn().expect("it starts");
        let entries = || std::fs::read_dir(&dir).map_or(0, Iterator::count);
        while entries() < made {
            assert_eq!(child.try_wait().expect("a child"), None, "{command:?} goes on for minutes");
            std::thread::sleep(Duration::from_millis(20));
        }
        let signalled = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(signalled.expect("kill is there").success());
        assert_eq!(child.wait().expect("it ends").code(), Some(130), "{command:?}");
        assert_eq!(entries(), 0, "{command:?}");
    }
}
