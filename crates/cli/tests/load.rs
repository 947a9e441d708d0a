//! `load`, and commands on the tables it makes.

mod common;

use common::{Shell, words};
use serde_json::json;
use std::process::Command;

const HEADER: &str = "Year,Month,Carrier,Flight,Note\n";
const ROWS: [&str; 5] = [
    "2011,1,AA,428,\"late, \"\"very\"\"\"",
    "2011,1,AA,1294,",
    "2011,2,WN,7,on time",
    "2011,12,WN,7,\"two\nlines\"",
    "2011,12,ZZ,N/A,Zürich",
];

/// A database with a few flights. `--key` is Year,Month,Carrier,Flight.
fn flights() -> Shell {
    let shell = Shell::new();
    // Not in key order, which loading must not mind.
    let file: String = ROWS.iter().rev().map(|row| format!("{row}\n")).collect();
    shell.write("flights.csv", format!("{HEADER}{file}"));
    let loaded =
        shell.json(&["load", "--table", "flights", "--key", "Year,Month,Carrier,Flight", "flights.csv"]);
    let loaded = &loaded[0];
    assert_eq!((&loaded["table"], &loaded["rows"]), (&json!("flights"), &json!(5)));
    assert_eq!(loaded["durability"], "sync");
    for field in ["seconds", "rows_per_s", "bytes", "threads", "syncs"] {
        assert!(loaded[field].is_number(), "{field} of {loaded}");
    }
    shell
}

#[test]
fn records_come_back_as_they_were_in_numeric_order() {
    let shell = flights();
    assert_eq!(shell.ok(&["get", "--table", "flights", "2011,1,AA,428"]), format!("{}\n", ROWS[0]));
    let scanned = shell.json(&["scan", "--table", "flights"]);
    let keys: Vec<_> = scanned.iter().map(|row| row["key"].as_str().expect("text")).collect();
    let expected = ["2011,1,AA,428", "2011,1,AA,1294", "2011,2,WN,7", "2011,12,WN,7", "2011,12,ZZ,N/A"];
    assert_eq!(keys, expected, "428 before 1294, February before December");
    assert_eq!(
        scanned[0]["row"],
        json!({"Year": "2011", "Month": "1", "Carrier": "AA", "Flight": "428", "Note": "late, \"very\""})
    );
    assert_eq!(scanned[3]["row"]["Note"], "two\nlines");
}

#[test]
fn leading_columns_make_ranges() {
    let shell = flights();
    let rows = |args: &[&str]| shell.json(&[&["scan", "--table", "flights"], args].concat()).len();
    assert_eq!(rows(&["--prefix", "2011,1"]), 2, "January, and not October to December");
    assert_eq!(rows(&["--prefix", "2011,12,WN"]), 1);
    assert_eq!(rows(&["--from", "2011,2", "--to", "2011,12"]), 1);
    assert_eq!(rows(&["--from", "2011,12"]), 2);
    shell.fails(2, &["scan", "--table", "flights", "--prefix", "2011,1,AA,428,more"]);
    shell.fails(2, &["get", "--table", "flights", "2011,1"]);
    shell.fails(1, &["get", "--table", "flights", "2011,1,AA,429"]);
}

#[test]
fn loading_again_replaces_rows_by_themselves() {
    let shell = flights();
    let again =
        ["load", "--table", "flights", "--key", "Year,Month,Carrier,Flight", "--threads", "3", "flights.csv"];
    let loaded = shell.json(&again);
    assert_eq!((&loaded[0]["rows"], &loaded[0]["replaced"]), (&json!(5), &json!(5)));
    let tables = shell.json(&["tables", "--count"]);
    assert_eq!(
        tables,
        [
            json!({"table": "flights", "key": ["Year", "Month", "Carrier", "Flight"], "index": "bplus", "leaf_bytes": 8192, "rows": 5})
        ]
    );
}

#[test]
fn the_last_of_equal_keys_wins_however_many_threads() {
    let shell = Shell::new();
    let rows: String = (0..2000).map(|n| format!("{},{n}\n", n % 10)).collect();
    let args = words("load --table t --key k --threads 8 --batch 1 --durability relaxed -");
    shell.run_with(&args, format!("k,n\n{rows}").as_bytes()).expect(0, &args);
    for key in 0..10 {
        assert_eq!(shell.ok(&["get", "--table", "t", &key.to_string()]), format!("{key},{}\n", 1990 + key));
    }
}

#[test]
fn single_records_are_put_and_removed_by_their_columns() {
    let shell = flights();
    shell.ok(&["put", "--table", "flights", "2011,3,AA,1", "2011,3,AA,1,\"new, fresh\""]);
    assert_eq!(shell.ok(&["get", "--table", "flights", "2011,3,AA,1"]), "2011,3,AA,1,\"new, fresh\"\n");
    let complaint = shell.fails(2, &["put", "--table", "flights", "2011,3,AA,2", "2011,3,AA,1,x"]);
    assert!(complaint.contains("2011,3,AA,1"), "{complaint}");
    shell.fails(2, &["put", "--table", "flights", "2011,3,AA,2", "2011,3,AA,2"]);
    shell.ok(&["rm", "--table", "flights", "2011,3,AA,1"]);
    shell.fails(1, &["get", "--table", "flights", "2011,3,AA,1"]);
}

#[test]
fn another_file_does_not_fit_into_the_table() {
    let shell = flights();
    shell.write("other.csv", "a,b\n1,2\n");
    let complaint = shell.fails(2, &["load", "--table", "flights", "--key", "a", "other.csv"]);
    assert!(complaint.contains("Year,Month,Carrier,Flight"), "{complaint}");
    let complaint = shell.fails(2, &["load", "--table", "new", "--key", "c", "other.csv"]);
    assert!(complaint.contains("a,b"), "{complaint}");
    shell.ok(&["put", "--table", "bytes", "k", "v"]);
    shell.fails(2, &["load", "--table", "bytes", "--key", "a", "other.csv"]);
    shell.fails(5, &["load", "--table", "new", "--key", "a", "no-such-file.csv"]);
}

/// A load that failed before its first row decides nothing; one that has loaded rows does, and the next is told what differs.
#[test]
fn the_first_row_fixes_the_key() {
    let shell = Shell::new();
    let file = shell.write("t.csv", "a,b\n1\n");
    let load = |key| ["load", "--table", "t", "--key", key, "t.csv"];
    shell.fails(2, &load("a"));
    std::fs::write(file, "a,b\n1,2\n").expect("mended");
    shell.ok(&load("b"));
    assert_eq!(shell.ok(&["get", "--table", "t", "2"]), "1,2\n");
    let complaint = shell.fails(2, &load("a"));
    assert!(complaint.contains("has key b, and --key is a here; load the file into another"), "{complaint}");
    shell.ok(&["drop", "--table", "t"]);
    shell.ok(&load("a"));
}

/// What is prepared may become rows: the columns of a file would then be none of theirs.
#[test]
fn a_table_whose_rows_are_prepared_gets_no_columns() {
    let shell = Shell::new();
    shell.prepare("transfer 17");
    shell.write("a.csv", "x,y\n1,2\n");
    let complaint = shell.fails(4, &["load", "--table", "t", "--key", "x", "a.csv"]);
    assert!(complaint.contains("\"transfer 17\""), "{complaint}");
    let db = foreshore::Database::open(shell.database()).expect("nobody else has it");
    db.commit_prepared("transfer 17").expect("it is prepared");
    db.close().expect("closed");
    assert_eq!(shell.json(&["scan", "--table", "t"]), [json!({"key": "k", "value": "v"})]);
}

#[test]
fn a_broken_line_is_named_and_loading_can_go_on() {
    let shell = Shell::new();
    let broken = shell.write("t.csv", "a,b\n1,2\n3\n5,6\n");
    let complaint = shell.fails(2, &["load", "--table", "t", "--key", "a", "t.csv"]);
    assert!(complaint.contains("line 3") && complaint.contains("load the file again"), "{complaint}");
    std::fs::write(broken, "a,b\n1,2\n3,4\n5,6\n").expect("mended");
    shell.ok(&["load", "--table", "t", "--key", "a", "t.csv"]);
    assert_eq!(shell.ok(&["scan", "--table", "t"]), "1,2\n3,4\n5,6\n");
}

#[test]
fn a_row_that_is_too_large_is_named() {
    let shell = Shell::new();
    shell.write("t.csv", format!("a,b\n1,2\n{},3\n", "x".repeat(2000)));
    let complaint = shell.fails(2, &["load", "--table", "t", "--key", "a", "t.csv"]);
    assert!(complaint.contains("line 3") && complaint.contains("shorten"), "{complaint}");
}

/// Spreadsheets of half of the world write semicolons.
#[test]
fn fields_are_separated_as_the_file_does_it() {
    let shell = Shell::new();
    shell.write("semicolons.csv", "a;b\n1;2,5\n");
    shell.write("tabs.csv", "a\tb\n1\t\"x\ty\"\n");
    for (delimiter, file, row) in [(";", "semicolons.csv", "1,\"2,5\"\n"), ("tab", "tabs.csv", "1,x\\09y\n")]
    {
        shell.ok(&["load", "--table", file, "--key", "a", "--delimiter", delimiter, file]);
        assert_eq!(shell.ok(&["scan", "--table", file]), row);
    }
    let complaint = shell.fails(2, &["load", "--table", "t", "--key", "a", "semicolons.csv"]);
    assert!(complaint.contains("--delimiter"), "{complaint}");
    for wrong in ["", ";;", "\"", "\n", "ü"] {
        shell.fails(2, &["load", "--table", "t", "--key", "a", "--delimiter", wrong, "tabs.csv"]);
    }
}

/// What else people have lying about: the message says what to do with it, and no table is left behind.
#[test]
fn files_that_are_no_csv_are_told() {
    let shell = Shell::new();
    shell.write("t.xz", b"\xfd7zXZ\0\0\x04\xe6\xd6");
    let complaint = shell.fails(2, &["load", "--table", "t", "--key", "a", "t.xz"]);
    assert!(complaint.contains("xzcat") && complaint.contains("iconv"), "{complaint}");
    let complaint = shell.fails(2, &["load", "--table", "t", "--key", "a", "."]);
    assert!(complaint.contains("directory"), "{complaint}");
    shell.write("t.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\x03K\xd4I");
    let complaint = shell.fails(2, &["load", "--table", "t", "--key", "a", "t.gz"]);
    assert!(complaint.contains("incomplete"), "{complaint}");
    assert!(!shell.database().exists());
    let wide: Vec<_> = (0..200).map(|n| format!("c{n}")).collect();
    shell.write("wide.csv", wide.join(","));
    let complaint = shell.fails(2, &["load", "--table", "t", "--key", "a", "wide.csv"]);
    assert!(complaint.contains("c19 and 180 more") && !complaint.contains("c20"), "{complaint}");
}

/// A header may hold anything: a terminal is told no control characters, and not hundreds of megabytes in a line.
#[test]
fn of_a_header_only_what_people_can_read_is_told() {
    let shell = Shell::new();
    let is_for_people = |told: &str| assert!(told.len() < 1000 && !told.contains('\x1b'), "{told:.2000}");
    let long = "x".repeat(1 << 20);
    shell.write("coloured.csv", "a\x1b[31m,b\n1,2\n");
    shell.write("long.csv", format!("a,{long}\n1,2\n"));
    shell.write("longer.csv", format!("{long}\n1\n"));
    for file in ["coloured.csv", "long.csv", "longer.csv"] {
        is_for_people(&shell.fails(2, &["load", "--table", "t", "--key", "k", file]));
    }
    shell.ok(&["load", "--table", "coloured", "--key", "a\x1b[31m", "coloured.csv"]);
    shell.ok(&["load", "--table", "long", "--key", "a", "long.csv"]);
    is_for_people(&shell.fails(2, &["load", "--table", "coloured", "--key", "a", "long.csv"]));
    is_for_people(&shell.fails(2, &["load", "--table", "long", "--key", "b", "coloured.csv"]));
    is_for_people(&shell.fails(2, &["put", "--table", "coloured", "1", "1"]));
    is_for_people(&shell.fails(2, &["put", "--table", "long", "1", "1"]));
    is_for_people(&shell.fails(2, &["get", "--table", "coloured", "1,2"]));
    is_for_people(&shell.fails(2, &["scan", "--table", "coloured", "--prefix", "1,2"]));
    shell.run_with(&["put", "--table", "coloured", "--hex", "00", "-"], "00".repeat(10_000).as_bytes());
    is_for_people(&shell.fails(3, &["scan", "--table", "coloured", "--json"]));
}

#[test]
fn an_empty_field_is_a_key_like_any_other() {
    let shell = Shell::new();
    shell.write("t.csv", "\u{feff}a,b\r\n,x\r\n1,y\r\n");
    shell.ok(&["load", "--table", "t", "--key", "a", "t.csv"]);
    assert_eq!(shell.ok(&["get", "--table", "t", ""]), ",x\n");
}

/// What `scan --csv` prints is what `load` reads, for both kinds of tables, quotes and empty tables included.
#[test]
fn an_exported_table_is_loaded_again() {
    let shell = Shell::new();
    shell.write("t.csv", "a,b\n2,\"x, \"\"y\"\"\"\n10,\"two\nlines\"\n");
    shell.ok(&["load", "--table", "t", "--key", "a", "t.csv"]);
    let csv = shell.ok(&["scan", "--table", "t", "--csv"]);
    assert_eq!(csv, "a,b\n2,\"x, \"\"y\"\"\"\n10,\"two\nlines\"\n");
    assert_eq!(shell.ok(&["scan", "--table", "t", "--csv", "--from", "3"]), "a,b\n10,\"two\nlines\"\n");
    shell.write("empty.csv", "a,b\n");
    shell.ok(&["load", "--table", "empty", "--key", "a", "empty.csv"]);
    assert_eq!(shell.ok(&["scan", "--table", "empty", "--csv"]), "a,b\n");

    shell.ok(&["put", "--table", "ports", "SEA", "Seattle, Tacoma"]);
    let csv = shell.ok(&["scan", "--table", "ports", "--csv", "--reverse"]);
    assert_eq!(csv, "key,value\nSEA,\"Seattle, Tacoma\"\n");
    shell.write("ports.csv", csv);
    shell.ok(&["load", "--table", "again", "--key", "key", "ports.csv"]);
    assert_eq!(shell.ok(&["scan", "--table", "again"]), "SEA,\"Seattle, Tacoma\"\n");
    shell.fails(2, &["scan", "--table", "t", "--csv", "--json"]);
}

#[test]
fn a_header_without_columns_and_a_column_named_twice_are_told() {
    let shell = Shell::new();
    shell.write("empty.csv", "");
    let complaint = shell.fails(2, &["load", "--table", "t", "--key", "a", "empty.csv"]);
    assert!(complaint.contains("empty"), "{complaint}");
    shell.write("t.csv", "a,b\n1,2\n");
    let complaint = shell.fails(2, &["load", "--table", "t", "--key", "a,a", "t.csv"]);
    assert!(complaint.contains("\"a\" twice"), "{complaint}");
}

/// Keys are named as CSV names them, and so do messages: a comma within a name is quoted.
#[test]
fn a_column_with_a_comma_in_its_name_is_a_key() {
    let shell = Shell::new();
    shell.write("t.csv", "\"city, state\",b\nx,2\n");
    let complaint = shell.fails(2, &["load", "--table", "t", "--key", "city, state", "t.csv"]);
    assert!(complaint.contains("the header has \"city, state\",b"), "{complaint}");
    shell.ok(&["load", "--table", "t", "--key", "\"city, state\",b", "t.csv"]);
    assert_eq!(shell.ok(&["get", "--table", "t", "x,2"]), "x,2\n");
    let tables = shell.ok(&["tables"]);
    assert!(tables.contains("\"city, state\",b"), "{tables}");
    // One option for each column does as well.
    shell.ok(&["load", "--table", "t", "--key", "\"city, state\"", "--key", "b", "t.csv"]);
}

/// The parser would take all that follows for one field, and lose it.
#[test]
fn a_quote_that_is_never_closed_is_named() {
    let shell = Shell::new();
    for text in ["a,b\n1,2\n3,\"x\n5,6\n", "a,b\n1,2\n3,\"x\n5,6", "a,b\n1,2\n3,\"x\n5,6\n\n\n"] {
        shell.write("t.csv", text);
        let complaint = shell.fails(2, &["load", "--table", "t", "--key", "a", "t.csv"]);
        assert!(complaint.contains("line 3") && complaint.contains("quote"), "{complaint}");
    }
    shell.write("t.csv", "a,\"b\n1,2\n");
    let complaint = shell.fails(2, &["load", "--table", "t", "--key", "a", "t.csv"]);
    assert!(complaint.contains("line 1"), "{complaint}");
    shell.write("t.csv", "a,b\n1,\"2\n\n\"");
    shell.ok(&["load", "--table", "t", "--key", "a", "t.csv"]);
}

/// Latin-1, for example. JSON has no bytes: digits say what there is, not a replacement for it.
#[test]
fn fields_that_are_no_text_come_back_as_they_were() {
    let shell = Shell::new();
    shell.write("t.csv", b"city,note\nZ\xfcrich,\xff\nBern,x\n");
    shell.ok(&["load", "--table", "t", "--key", "city", "t.csv"]);
    let rows = shell.json(&["scan", "--table", "t"]);
    assert_eq!(rows[0], json!({"key": "Bern", "row": {"city": "Bern", "note": "x"}}));
    assert_eq!(
        rows[1],
        json!({"key_hex": "5afc72696368", "row": {"city_hex": "5afc72696368", "note_hex": "ff"}})
    );
}

#[test]
fn negative_numbers_are_keys_and_not_flags() {
    let shell = Shell::new();
    shell.write("t.csv", "a,b\n-12,x\n-5,y\n3,z\n");
    shell.ok(&["load", "--table", "t", "--key", "a", "t.csv"]);
    assert_eq!(shell.ok(&["get", "--table", "t", "-5"]), "-5,y\n");
    assert_eq!(shell.ok(&["scan", "--table", "t", "--from", "-6", "--to", "3"]), "-5,y\n");
    assert_eq!(shell.ok(&["put", "--table", "t", "-7", "-7,w"]), "");
    assert_eq!(shell.json(&["rm", "--table", "t", "-12"])[0]["removed"], true);
    assert_eq!(shell.ok(&["scan", "--table", "t"]), "-7,w\n-5,y\n3,z\n");
}

#[test]
fn a_table_is_loaded_with_the_index_and_leaves_asked_for() {
    let shell = flights();
    let load = |table: &str, options: &[&str]| {
        let args = ["load", "--table", table, "--key", "Year,Month,Carrier,Flight", "flights.csv"];
        [&args[..], options].concat().iter().map(|arg| arg.to_string()).collect::<Vec<_>>()
    };
    let run = |args: &[String]| shell.ok(&args.iter().map(String::as_str).collect::<Vec<_>>());
    run(&load("quick", &["--index", "csb", "--leaf-bytes", "16KiB"]));
    run(&load("quick", &[]));
    let listed = shell.json(&["tables", "--count"]);
    let made: Vec<_> = listed
        .iter()
        .map(|table| json!([table["table"], table["index"], table["leaf_bytes"], table["rows"]]))
        .collect();
    assert_eq!(made, [json!(["flights", "bplus", 8192, 5]), json!(["quick", "csb", 16384, 5])]);
    for wrong in [["--index", "o2"], ["--leaf-bytes", "8KiB"], ["--leaf-bytes", "5000"]] {
        let wrong = load("quick", &wrong);
        shell.fails(2, &wrong.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

/// What stood in a dropped table's header says nothing of the next table with its name.
#[test]
fn a_dropped_table_takes_its_columns_along() {
    let shell = flights();
    shell.ok(&["shell", "-c", "drop flights", "-c", "put flights k v", "-c", "get flights k"]);
    shell.ok(&["shell", "-c", "drop flights"]);
    shell.write("other.csv", "a,b\n1,2\n");
    shell.ok(&["load", "--table", "flights", "--key", "a", "other.csv"]);
    assert_eq!(shell.ok(&["get", "--table", "flights", "1"]), "1,2\n");
}

/// What a `load` or a `drop` leaves that is killed between the table and its columns.
#[test]
fn columns_without_a_table_are_nobodys() {
    let shell = flights();
    let db = foreshore::Database::open(shell.database()).expect("nobody else has it");
    assert!(db.drop_table("flights").expect("it is there"));
    db.close().expect("closed");
    shell.ok(&["put", "--table", "flights", "AA 428", "late"]);
    assert_eq!(shell.ok(&["get", "--table", "flights", "AA 428"]), "late\n");
    assert_eq!(shell.json(&["tables"])[0]["key"], serde_json::Value::Null);
}

/// A table that somebody has made and not used may be given columns. One with rows of another origin is not mixed with others.
#[test]
fn only_rows_keep_a_table_from_getting_columns() {
    let shell = flights();
    shell.ok(&["shell", "-c", "create t", "-c", "put plain k v"]);
    let load =
        |table| shell.run(&["load", "--table", table, "--key", "Year,Month,Carrier,Flight", "flights.csv"]);
    load("t").expect(0, &["load"]);
    let refused = load("plain").expect(2, &["load"]).stderr;
    assert!(refused.contains("holds rows that did not come from CSV"), "{refused}");
}

/// Where a rebuild has given tables other names, columns without a table are theirs: they wait until it has its name back.
#[test]
fn columns_stay_where_tables_have_lost_their_names() {
    let shell = flights();
    let restore = |dir: &str, dump: String| {
        let args = ["restore", "--dir", dir, "-"];
        shell.run_with(&args, dump.as_bytes()).expect(0, &args);
    };
    restore("salvaged.db", shell.ok(&["dump"]).replace("database=flights\n", "database=recovered-17\n"));
    shell.ok(&["shell", "--dir", "salvaged.db", "-c", "put notes k v"]);
    assert_eq!(shell.ok(&["count", "--dir", "salvaged.db", "--table", "foreshore.schemas"]), "1\n");

    // As the book says.
    shell.ok(&["backup", "--dir", "salvaged.db", "copy.db"]);
    shell.ok(&["rename", "--dir", "copy.db", "recovered-17", "flights"]);
    let row = shell.ok(&["get", "--dir", "copy.db", "--table", "flights", "2011,2,WN,7"]);
    assert_eq!(row, format!("{}\n", ROWS[2]));

    let dump = |table: &str| shell.ok(&["dump", "--dir", "salvaged.db", "--table", table]);
    let renamed = dump("recovered-17").replace("database=recovered-17\n", "database=flights\n");
    restore("new.db", dump("foreshore.schemas") + &renamed);
    let row = shell.ok(&["get", "--dir", "new.db", "--table", "flights", "2011,2,WN,7"]);
    assert_eq!(row, format!("{}\n", ROWS[2]));
}

/// Under the name that a table has lost its columns are kept: another one neither gets them nor puts its own there.
#[test]
fn columns_are_kept_for_the_table_that_has_lost_its_name() {
    let shell = flights();
    let dump = shell.ok(&["dump"]).replace("database=flights\n", "database=recovered-17\n");
    shell.run_with(&["restore", "--dir", "s.db", "-"], dump.as_bytes()).expect(0, &["restore"]);
    shell.write("ports.csv", "x,y\n1,2\n");
    shell.ok(&["load", "--dir", "s.db", "--table", "ports", "--key", "x", "ports.csv"]);
    shell.ok(&["put", "--dir", "s.db", "--table", "notes", "k", "v"]);
    for other in ["ports", "notes"] {
        let complaint = shell.fails(2, &["rename", "--dir", "s.db", other, "flights"]);
        assert!(complaint.contains("are kept under \"flights\": give that table its name"), "{complaint}");
    }
    // Nor are they forgotten when the engine refuses the name.
    let db = foreshore::Database::open(shell.path("s.db")).expect("nobody else has it");
    let kept = db.byte_table("foreshore.schemas").expect("a table");
    kept.put(b"", &kept.get(b"flights").expect("read").expect("columns")).expect("written");
    drop((kept, db));
    let count = || shell.ok(&["count", "--dir", "s.db", "--table", "foreshore.schemas"]);
    let before = count();
    shell.fails(2, &["rename", "--dir", "s.db", "recovered-17", ""]);
    assert_eq!(count(), before);
    // Nor by a wrong name: with the last table that has lost its name they go.
    let complaint = shell.fails(2, &["rename", "--dir", "s.db", "recovered-17", "harbours"]);
    assert!(complaint.contains("columns are kept for \"\", \"flights\", which are not there"), "{complaint}");
    // What a rename leaves that is killed is no other table's.
    let db = foreshore::Database::open(shell.path("s.db")).expect("nobody else has it");
    let kept = db.byte_table("foreshore.schemas").expect("a table");
    kept.put(b"havens", &kept.get(b"ports").expect("read").expect("columns")).expect("written");
    drop((kept, db));
    shell.ok(&["rename", "--dir", "s.db", "ports", "havens"]);
    shell.ok(&["rename", "--dir", "s.db", "recovered-17", "flights"]);
    let row = shell.ok(&["get", "--dir", "s.db", "--table", "flights", "2011,2,WN,7"]);
    assert_eq!(row, format!("{}\n", ROWS[2]));
}

/// Files behind one another have each its mark of the byte order; only the first stands where it means nothing.
#[test]
fn a_mark_of_the_byte_order_within_a_file_belongs_to_its_field() {
    let shell = Shell::new();
    let file = "\u{feff}name,n\na,1\n\u{feff}name,n\nb,2\n";
    shell.write("twice.csv", file);
    shell.ok(&["load", "--table", "t", "--key", "name", "twice.csv"]);
    assert_eq!(shell.ok(&["get", "--table", "t", "\u{feff}name"]), "\u{feff}name,n\n");
    for args in [&["scan", "--table", "t", "--from", "c"][..], &["scan", "--table", "t", "--from", "b"]] {
        let rows = shell.json(args);
        assert_eq!(rows.last().expect("a row")["key"], "\u{feff}name");
        let csv = shell.ok(&[args, &["--csv"]].concat());
        assert_eq!(csv.lines().last(), Some("\u{feff}name,n"), "{csv}");
    }
    shell.ok(&["put", "--table", "t", "\u{feff}name", "\u{feff}name,m"]);
    shell.ok(&["rm", "--table", "t", "\u{feff}name"]);
    assert_eq!(shell.ok(&["count", "--table", "t"]), "2\n");
}

/// A named pipe whose writer is done is not opened again: there would be nobody to wait for.
#[test]
fn a_named_pipe_is_read_once() {
    let shell = Shell::new();
    let pipe = shell.path("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    let args = ["load", "--table", "t", "--key", "k", "pipe"];
    let mut loading = shell.command(&args).spawn().expect("the binary starts");
    std::fs::write(&pipe, "k,v\n1,a\n2,b\n").expect("it reads the pipe");
    let begun = std::time::Instant::now();
    let status = loop {
        if let Some(status) = loading.try_wait().expect("it is there") {
            break status;
        }
        if begun.elapsed() > std::time::Duration::from_secs(60) {
            loading.kill().expect("it is there");
            panic!("it waits for another writer");
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    assert!(status.success());
    assert_eq!(shell.ok(&["count", "--table", "t"]), "2\n");
}

/// Rows that replace others wait for the device as those do that are new: many together.
#[test]
fn rows_that_are_replaced_share_syncs() {
    let shell = Shell::new();
    let rows: String = (0..5000).map(|n| format!("k,{n}\n")).collect();
    shell.write("rows.csv", format!("key,n\n{rows}"));
    let loaded = &shell.json(&["load", "--table", "t", "--key", "key", "--threads", "1", "rows.csv"])[0];
    assert_eq!((&loaded["rows"], &loaded["replaced"]), (&5000.into(), &4999.into()));
    assert!(loaded["syncs"].as_u64() < Some(200), "{loaded}");
    assert_eq!(shell.ok(&["get", "--table", "t", "k"]), "k,4999\n");
}

/// A container may allow few threads: then fewer load. (Here it is their stacks that do not fit.)
#[test]
fn a_load_takes_the_threads_that_there_are() {
    let shell = Shell::new();
    shell.write("rows.csv", "k,v\na,1\nb,2\n");
    let load = "load rows.csv --table t --key k --cache 16MiB --json";
    let line = format!("ulimit -v 6000000 && exec {} {load}", env!("CARGO_BIN_EXE_foreshore"));
    let mut limited = Command::new("sh");
    limited.current_dir(shell.path(".")).args(["-c", &line]).env("RUST_MIN_STACK", (128 << 20).to_string());
    let ran = limited.output().expect("a shell");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let told: serde_json::Value = serde_json::from_slice(&ran.stdout).expect("a line");
    let threads = told["threads"].as_u64().expect("how many");
    assert!(told["rows"] == 2 && (1..64).contains(&threads), "{told}");
}
