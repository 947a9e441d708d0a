//! Tables of programs, whose keys and values are encoded: read and written by hand.

mod common;

use common::Shell;
use foreshore::Database;
use serde_json::json;

/// What a program with typed tables leaves.
fn program() -> Shell {
    let shell = Shell::new();
    fill(&Database::open(shell.database()).expect("nobody else has it"));
    shell
}

/// The same where the tables were made by the byte, and remember no types.
fn forgetful_program() -> Shell {
    let shell = Shell::new();
    let db = Database::open(shell.database()).expect("nobody else has it");
    for name in ["users", "stock"] {
        db.byte_table(name).expect("a table");
    }
    fill(&db);
    drop(db);
    shell
}

fn fill(db: &Database) {
    let users = db.table::<String, u64>("users").expect("a table");
    for (user, age) in [("ada@example.com", 36), ("ben@example.com", 7), ("bea, the 2nd", 300)] {
        users.put(user, &age).expect("written");
    }
    let stock = db.table::<(String, u32), i64>("stock").expect("a table");
    for (part, length, left) in [("bolt", 8, 5), ("nail", 40, -1), ("nail", 100, 12)] {
        stock.put(&(part.into(), length), &left).expect("written");
    }
    db.clone().close().expect("closed");
}

const USERS: [&str; 6] = ["--table", "users", "--key-type", "str", "--value-type", "u64"];
const STOCK: [&str; 6] = ["--table", "stock", "--key-type", "str,u32", "--value-type", "int"];

/// A command on a table, with arguments behind.
fn on<'a>(command: &'a str, table: [&'a str; 6], more: &[&'a str]) -> Vec<&'a str> {
    [&[command], &table[..], more].concat()
}

#[test]
fn rows_of_a_program_are_shown_as_it_has_them() {
    let shell = program();
    assert_eq!(shell.ok(&on("get", USERS, &["ada@example.com"])), "36\n");
    assert_eq!(shell.ok(&on("get", USERS, &["bea, the 2nd", "--raw"])), "300");
    assert_eq!(
        shell.json(&on("get", USERS, &["ben@example.com"])),
        [json!({"key": "ben@example.com", "value": "7"})]
    );
    assert_eq!(shell.ok(&on("scan", STOCK, &[])), "bolt,8\t5\nnail,40\t-1\nnail,100\t12\n");
    assert_eq!(shell.ok(&on("scan", STOCK, &["--csv", "--limit", "1"])), "key,value\n\"bolt,8\",5\n");
    let bytes = shell.ok(&["scan", "--table", "users", "--key-type", "str", "--limit", "1"]);
    assert_eq!(bytes, "ada@example.com\t$\n", "values of no type are bytes");
}

/// Nobody has to say what the table remembers.
#[test]
fn a_table_remembers_its_types() {
    let shell = program();
    let listed = shell.json(&["tables"]);
    assert_eq!((&listed[0]["key_type"], &listed[0]["value_type"]), (&json!("String,u32"), &json!("i64")));
    assert!(shell.ok(&["tables"]).contains("│ stock ┆ String,u32 ┆ i64 "), "{}", shell.ok(&["tables"]));
    assert_eq!(shell.ok(&["get", "--table", "users", "ada@example.com"]), "36\n");
    assert_eq!(shell.ok(&["scan", "--table", "stock", "--prefix", "nail"]), "nail,40\t-1\nnail,100\t12\n");
    shell.ok(&["put", "--table", "stock", "nail,7", "-300"]);
    shell.ok(&["rm", "--table", "users", "ada@example.com"]);
    shell.ok(&["shell", "-c", "put users eve 1000"]);
    for (wrong, expected) in [
        (&["put", "--table", "users", "ada", "many"][..], "\"many\" is no u64"),
        (&["put", "--table", "stock", "nail", "1"], "2 parts separated by commas"),
        (&["shell", "-c", "get stock nail"], "2 parts separated by commas"),
    ] {
        let complaint = shell.fails(2, wrong);
        assert!(complaint.contains(expected), "{wrong:?}: {complaint}");
    }
    assert_eq!(shell.ok(&["delete", "--table", "stock", "--from", "nail,50"]), "1\n");
    assert_eq!(shell.ok(&["count", "--table", "stock"]), "3\n");
    take(&shell, &["put", "--table", "users", "zoe", "-"], b"77\n");
    let db = Database::open(shell.database()).expect("nobody else has it");
    let stock = db.table::<(String, u32), i64>("stock").expect("a table");
    assert_eq!(stock.get(&("nail".into(), 7)).expect("read"), Some(-300));
    let users = db.table::<String, u64>("users").expect("a table");
    assert_eq!(users.get("eve").expect("read"), Some(1000));
    assert_eq!(users.get("zoe").expect("read"), Some(77));
    assert!(db.table::<u64, u64>("users").is_err());
}

/// What the program has for options and lists is shown, and not taken.
#[test]
fn parts_within_parts_are_shown() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Passenger {
        name: String,
        seat: Option<(u8, char)>,
        bags: Vec<(u32, Option<String>)>,
    }
    #[derive(serde::Serialize, serde::Deserialize)]
    enum Event {
        Boarded,
        Left(u32),
    }
    let shell = Shell::new();
    let db = Database::open(shell.database()).expect("made");
    let passengers = db.table::<u32, Passenger>("passengers").expect("a table");
    let ada = Passenger {
        name: "ada, née x".into(),
        seat: Some((12, 'A')),
        bags: vec![(7, None), (8, Some("y".into()))],
    };
    passengers.put(&1, &ada).expect("written");
    passengers.put(&2, &Passenger { name: "ben".into(), seat: None, bags: Vec::new() }).expect("written");
    let states = db.table::<u8, Event>("states").expect("a table");
    states.put(&1, &Event::Left(65)).expect("written");
    states.put(&2, &Event::Boarded).expect("written");
    db.table::<u8, ()>("seen").expect("a table").put(&1, &()).expect("written");
    drop((passengers, states));
    db.close().expect("closed");
    assert_eq!(
        shell.ok(&["scan", "--table", "passengers"]),
        "1\t\"ada, née x\",\"(12,A)\",\"[(7,null),(8,y)]\"\n2\tben,null,[]\n"
    );
    let complaint = shell.fails(2, &["put", "--table", "passengers", "3", "eve,null,[]"]);
    assert!(complaint.contains("of which there is no text"), "{complaint}");
    assert_eq!(shell.ok(&["scan", "--table", "states"]), "1\t\\01A\n2\t\\00\n", "an enum's value is bytes");
    let complaint = shell.fails(2, &["put", "--table", "states", "3", "x"]);
    assert!(
        complaint.contains("enum<>, of which there is no text that could be given; --hex"),
        "{complaint}"
    );
    assert_eq!(shell.ok(&["get", "--table", "seen", "1"]), "\n");
    shell.ok(&["put", "--table", "seen", "2", ""]);
    assert_eq!(shell.ok(&["count", "--table", "seen"]), "2\n");
}

/// No row of a table that knows of its types is found, changed or removed by a text that is none of its keys; nor by types of others.
#[test]
fn rows_of_a_typed_table_are_not_taken_for_bytes() {
    let shell = program();
    let db = Database::open(shell.database()).expect("nobody else has it");
    let guests = db.table::<Option<String>, u64>("guests").expect("a table");
    guests.put(&Some("zoe".into()), &7).expect("written");
    drop(guests);
    db.close().expect("closed");
    for command in [
        &["get", "--table", "guests", "zoe"][..],
        &["put", "--table", "guests", "eve", "9"],
        &["rm", "--table", "guests", "zoe"],
        &["count", "--table", "guests", "--to", "bob"],
        &["delete", "--table", "guests", "--to", "bob"],
        &["shell", "-c", "delete guests --to bob"],
    ] {
        let complaint = shell.fails(2, command);
        assert!(complaint.contains("Option<String>, of which there is no text"), "{command:?}: {complaint}");
    }
    assert_eq!(shell.ok(&["count", "--table", "guests"]), "1\n");
    assert_eq!(shell.ok(&["scan", "--table", "guests"]), "\\01\\01zoe\\00\\00\\00\\00\\00\\03\t7\n");
    for command in [
        &["delete", "--table", "users", "--key-type", "bytes", "--to", "x"][..],
        &["put", "--table", "users", "--key-type", "str", "--value-type", "bool", "cat", "true"],
        &["count", "--table", "users", "--key-type", "u64", "--value-type", "u64"],
        &["get", "--table", "users", "--key-type", "str", "--value-type", "str", "ada@example.com"],
        &["shell", "-c", ".types users i64", "-c", "scan users"],
    ] {
        let complaint = shell.fails(2, command);
        assert!(
            complaint.contains("has keys of String and values of u64: leave out --key-type"),
            "{complaint}"
        );
    }
    assert_eq!(shell.ok(&["count", "--table", "users"]), "3\n");
    shell.write("t.csv", "a,b\n1,2\n");
    shell.ok(&["delete", "--table", "users", "--all"]);
    let complaint = shell.fails(2, &["load", "--table", "users", "--key", "a", "t.csv"]);
    assert!(complaint.contains("\"users\" is a program's, with keys of String"), "{complaint}");
}

/// Its values may be wider by now, for all that is written.
#[test]
fn wider_values_are_shown() {
    let shell = program();
    let put = |ty, key, value| {
        shell.ok(&["put", "--table", "ages", "--key-type", "str", "--value-type", ty, key, value]);
    };
    put("u16", "ben", "7");
    put("u32", "ada", "70000");
    assert_eq!(shell.ok(&["scan", "--table", "ages"]), "ada\t70000\nben\t7\n");
    assert!(shell.fails(2, &["put", "--table", "ages", "eve", "70000"]).contains("is no u16"));
    shell.ok(&["put", "--table", "ages", "eve", "8"]);
}

/// A dump says the types, as a backup does.
#[test]
fn types_are_restored() {
    let shell = program();
    let dump = shell.ok(&["dump"]);
    shell.write("t.dump", &dump);
    shell.ok(&["restore", "--dir", "dumped", "t.dump"]);
    shell.ok(&["backup", "copied"]);
    shell.ok(&["compact"]);
    for dir in ["dumped", "copied"] {
        assert_eq!(shell.ok(&["scan", "--dir", dir, "--table", "stock", "--limit", "1"]), "bolt,8\t5\n");
        assert!(shell.fails(2, &["put", "--dir", dir, "--table", "users", "a", "x"]).contains("is no u64"));
    }
    assert_eq!(shell.ok(&["get", "--table", "stock", "bolt,8"]), "5\n");
    shell.ok(&[
        "put",
        "--dir",
        "other",
        "--table",
        "users",
        "--key-type",
        "u64",
        "--value-type",
        "u64",
        "1",
        "2",
    ]);
    let complaint = shell.fails(2, &["restore", "--dir", "other", "t.dump"]);
    assert!(complaint.contains("has keys of u64 and values of u64, and not keys of String"), "{complaint}");
}

#[test]
fn ranges_of_a_program_are_spelled_as_it_has_them() {
    let shell = program();
    let keys = |args: Vec<&str>| -> Vec<String> {
        shell.ok(&args).lines().map(|line| line.split('\t').next().expect("a key").to_string()).collect()
    };
    assert_eq!(keys(on("scan", STOCK, &["--prefix", "nail"])), ["nail,40", "nail,100"]);
    assert_eq!(keys(on("scan", STOCK, &["--from", "nail,50"])), ["nail,100"]);
    assert_eq!(keys(on("scan", STOCK, &["--to", "nail", "--reverse"])), ["bolt,8"]);
    assert_eq!(keys(on("scan", USERS, &["--prefix", "be"])), ["bea, the 2nd", "ben@example.com"]);
    assert_eq!(keys(on("scan", USERS, &["--from", "b", "--to", "ben"])), ["bea, the 2nd"]);
    assert_eq!(shell.ok(&on("count", USERS, &["--prefix", "b"])), "2\n");
    let complaint = shell.fails(2, &on("delete", USERS, &["--prefix", ""]));
    assert!(complaint.contains("or --all;"), "{complaint}");
    assert_eq!(shell.ok(&on("delete", USERS, &["--prefix", "b"])), "2\n");
    assert_eq!(keys(on("scan", USERS, &[])), ["ada@example.com"]);
}

#[test]
fn the_program_reads_what_is_written_by_hand() {
    let shell = program();
    shell.ok(&on("put", STOCK, &["nail,7", "-300"]));
    shell.ok(&on("rm", STOCK, &["bolt,8"]));
    shell.ok(&[
        "shell",
        "-c",
        ".types users str u64",
        "-c",
        "put users eve 1000",
        "-c",
        "del users ada@example.com",
    ]);
    let db = Database::open(shell.database()).expect("nobody else has it");
    let stock = db.table::<(String, u32), i64>("stock").expect("a table");
    assert_eq!(stock.get(&("nail".into(), 7)).expect("read"), Some(-300));
    assert_eq!(stock.get(&("bolt".into(), 8)).expect("read"), None);
    let users = db.table::<String, u64>("users").expect("a table");
    assert_eq!(users.get("eve").expect("read"), Some(1000));
    assert_eq!(users.get("ada@example.com").expect("read"), None);
}

/// A row that the program cannot read is not written, and no database is made for it.
#[test]
fn what_is_no_row_of_the_program_is_refused() {
    let shell = Shell::new();
    for (wrong, expected) in [
        (on("put", STOCK, &["nail", "1"]), "2 parts separated by commas"),
        (on("put", STOCK, &["nail,x", "1"]), "\"x\" is no u32"),
        (on("put", STOCK, &["nail,1", "many"]), "\"many\" is no int"),
        (vec!["put", "--table", "t", "--key-type", "str", "k", "v"], "say their type by --value-type"),
        (vec!["put", "--table", "t", "--key-type", "text", "k", "v"], "no type \"text\"; there are bool"),
        (vec!["put", "--table", "t", "--value-type", "str", "k", "v"], "--key-type <TYPE>"),
        (vec!["get", "--table", "t", "--key-type", "str", "--hex", "00"], "cannot be used with"),
    ] {
        let complaint = shell.fails(2, &wrong);
        assert!(complaint.contains(expected), "{wrong:?}: {complaint}");
    }
    assert!(!shell.database().exists());
}

#[test]
fn rows_of_another_type_are_told() {
    let shell = forgetful_program();
    let complaint = shell.fails(2, &["scan", "--table", "users", "--key-type", "u64"]);
    assert!(complaint.contains("a key of the table is not of type u64"), "{complaint}");
    let complaint =
        shell.fails(2, &["scan", "--table", "stock", "--key-type", "str,u32", "--value-type", "bool"]);
    assert!(complaint.contains("a value of the table is not of type bool"), "{complaint}");
    shell.write("t.csv", "a,b\n1,2\n");
    shell.ok(&["load", "--table", "t", "--key", "a", "t.csv"]);
    let complaint = shell.fails(2, &["get", "--table", "t", "--key-type", "str", "1"]);
    assert!(complaint.contains("leave out --key-type"), "{complaint}");
}

/// By the wrong types other rows would be removed, and what is written the program could not read.
#[test]
fn rows_are_changed_by_the_types_that_they_have() {
    let shell = forgetful_program();
    let nails = ["--table", "stock", "--key-type", "str", "--prefix", "nail"];
    for wrong in [
        &[&["delete"], &nails[..]].concat()[..],
        &[&["count"], &nails[..]].concat(),
        &["shell", "-c", ".types stock str", "-c", "delete stock --prefix nail"],
        &["shell", "-c", ".types stock str", "-c", "count stock"],
    ] {
        let complaint = shell.fails(2, wrong);
        assert!(complaint.contains("of the table is not of type"), "{wrong:?}: {complaint}");
    }
    assert_eq!(shell.ok(&on("count", STOCK, &[])) + &shell.ok(&on("count", USERS, &[])), "3\n3\n");
    let stray = shell.fails(2, &["scan", "--table", "users", "--key-type", "str", "--value-type", "bool"]);
    assert!(stray.contains("the value of ada@example.com; `rm --hex`"), "{stray}");
    let all = ["delete", "--table", "files", "--key-type", "bytes", "--from", "0x"];
    shell.ok(&["put", "--table", "files", "--key-type", "bytes", "--value-type", "u8", "a", "1"]);
    let complaint = shell.fails(2, &all);
    assert!(complaint.contains("say which rows"), "{complaint}");
}

/// The first row that counts is the one that the open transaction has.
#[test]
fn rows_of_the_open_transaction_say_of_which_types_they_are() {
    let shell = Shell::new();
    let run = |code, lines: &str| shell.run_with(&["shell"], lines.as_bytes()).expect(code, &[lines]);
    run(0, ".hex on\nput m 016100 01");
    run(0, "begin\ndelete m --all\n.types m u32 u64\nput m 7 1\ncommit");
    run(0, ".types m u32 u64\nbegin snapshot\ncount m\ncommit");
    let first = "begin\ndelete m --all\n.types m str u64\nput m a 1\n.types m u32 u64\n";
    for wrong in ["put m 7 1", "count m", "delete m --from 0"] {
        let ran = run(2, &format!("{first}{wrong}\ncommit"));
        assert!(ran.stderr.contains("a key of the table is not of type u32"), "{wrong}: {}", ran.stderr);
    }
    run(0, ".types m u32 u64\nget m 7");
}

/// As `put` has it.
#[test]
fn a_table_that_the_shell_makes_remembers_what_was_said() {
    let shell = Shell::new();
    shell.ok(&["shell", "-c", ".types ages str u64", "-c", "put ages ada 36"]);
    assert_eq!(shell.ok(&["scan", "--table", "ages"]), "ada\t36\n");
    let complaint = shell.fails(2, &["shell", "-c", ".types ages str str", "-c", "put ages eve old"]);
    assert!(complaint.contains("keys of String and values of u64"), "{complaint}");
}

/// Not even who mends it could.
#[test]
fn a_first_value_that_is_damaged_keeps_nobody_from_writing() {
    let shell = Shell::new();
    let photos = ["--table", "photos", "--key-type", "str", "--value-type", "bytes"];
    let files = ["--table", "files", "--key-type", "str", "--value-type", "bytes"];
    let value = [b"\xff".repeat(100_000), b"the middle".repeat(10_000)].concat();
    shell.ok(&["put", "--table", "files", "--hex", "01610000000000000001", "00"]);
    for table in [photos, files] {
        take(&shell, &on("put", table, &["a", "-"]), &value);
    }
    let blobs = shell.database().join("blobs.db");
    let mut bytes = std::fs::read(&blobs).expect("large values");
    for at in 0..bytes.len() {
        if bytes[at..].starts_with(b"middle") {
            bytes[at] = b'r';
        }
    }
    std::fs::write(&blobs, bytes).expect("damaged");
    shell.fails(3, &on("get", files, &["a"]));
    assert_eq!(shell.ok(&on("count", files, &[])), "1\n");
    let wrong = ["--table", "files", "--key-type", "u64", "--value-type", "bytes"];
    let complaint = shell.fails(2, &on("count", wrong, &[]));
    assert!(complaint.contains("a key of the table is not of type u64"), "{complaint}");
    for (table, bytes) in [(photos, b"mended"), (files, b"MENDED")] {
        take(&shell, &on("put", table, &["a", "-"]), bytes);
        assert_eq!(shell.ok(&on("get", table, &["a"])).as_bytes(), [&bytes[..], b"\n"].concat());
    }
}

/// A terminal does what control characters say.
#[test]
fn a_key_in_a_message_is_no_command_to_the_terminal() {
    let shell = forgetful_program();
    shell.ok(&on("put", USERS, &["\x1b[31m", "1"]));
    let complaint =
        shell.fails(2, &["scan", "--table", "users", "--key-type", "str", "--value-type", "u8,u8,u8"]);
    assert!(complaint.contains("the value of \\1b[31m;"), "{complaint:?}");
}

/// A command takes this on stdin.
#[track_caller]
fn take(shell: &Shell, args: &[&str], stdin: &[u8]) {
    shell.run_with(args, stdin).expect(0, args);
}

/// Bytes go in and out as they are, and what one command prints another one takes.
#[test]
fn values_go_from_one_command_to_another() {
    let shell = Shell::new();
    for (table, ty) in [("photos", "bytes"), ("films", "ByteBuf")] {
        let photos = ["--table", table, "--key-type", ty, "--value-type", ty];
        for bytes in [&b"\xff\xd8\xff\xe0\0\x10"[..], b"0xcafe", b"two\nlines\n", b""] {
            take(&shell, &on("put", photos, &["0xff", "-"]), bytes);
            let raw =
                shell.command(&on("get", photos, &["0xff", "--raw"])).output().expect("the binary ends");
            assert_eq!(raw.stdout, bytes);
        }
        assert_eq!(shell.ok(&["scan", "--table", table]), "0xff\t\n");
    }
    let ages = ["--table", "ages", "--key-type", "str", "--value-type", "u64,str"];
    take(&shell, &on("put", ages, &["ada", "-"]), b"36,young\n");
    let shown = shell.ok(&on("get", ages, &["ada"]));
    take(&shell, &on("put", ages, &["eve", "-"]), shown.as_bytes());
    assert_eq!(shell.ok(&on("get", ages, &["eve"])), "36,young\n");
    let letters = ["--table", "letters", "--key-type", "str", "--value-type", "char"];
    for letter in ["x", "é", "\n", "\r"] {
        shell.ok(&on("put", letters, &["a", letter]));
        let shown = shell.ok(&on("get", letters, &["a"]));
        take(&shell, &on("put", letters, &["b", "-"]), shown.as_bytes());
        assert_eq!(shell.ok(&on("get", letters, &["b", "--raw"])), letter);
    }
    take(&shell, &on("put", letters, &["c", "-"]), b"x\r\n");
    take(&shell, &on("put", ages, &["bob", "-"]), b"36,young\r\n");
    let numbers = ["--table", "numbers", "--key-type", "str", "--value-type", "u64"];
    take(&shell, &on("put", numbers, &["k", "-"]), b"36\r\n");
    let complaint = shell.fails(2, &on("put", ages, &["k", "\n1,x"]));
    assert!(complaint.contains("begins with a line end"), "{complaint}");
}

/// Who asks for a key as the program calls it learns why it is not found; who misspells one of a byte table is told no such thing.
#[test]
fn a_key_that_is_not_found_may_be_encoded() {
    let shell = program();
    let db = Database::open(shell.database()).expect("nobody else has it");
    db.byte_table("guests").expect("a table that remembers nothing");
    db.table::<String, u64>("guests").expect("a table").put("ada", &36).expect("written");
    db.close().expect("closed");
    for args in [
        &["get", "--table", "guests", "ada"][..],
        &["rm", "--table", "guests", "ada"],
        &["shell", "-c", "get guests ada"],
    ] {
        let complaint = shell.fails(1, args);
        assert!(complaint.contains("no row with key ada") && complaint.contains("--key-type"), "{complaint}");
    }
    let complaint = shell.fails(1, &on("get", USERS, &["nobody"]));
    assert!(!complaint.contains("--key-type"), "{complaint}");
    shell.ok(&["put", "--table", "ports", r"C:\SEA", "Seattle"]);
    let complaint = shell.fails(1, &["get", "--table", "ports", "SAE"]);
    assert!(!complaint.contains("--key-type"), "{complaint}");
}

#[test]
fn the_shell_is_told_the_types_of_a_table() {
    let shell = program();
    let said = |lines: &[&str]| {
        let commands = lines.iter().flat_map(|line| ["-c", line]);
        shell.json(&["shell"].into_iter().chain(commands).collect::<Vec<_>>())
    };
    let types = json!({"table": "stock", "key_type": "str,u32", "value_type": "int", "said": true});
    let remembered = |table: &str, key: &str, value: &str| json!({"table": table, "key_type": key, "value_type": value, "said": false});
    let users = remembered("users", "String", "u64");
    assert_eq!(
        said(&[".types stock str,u32 int", ".types", "prefix stock nail --limit 1", "pop stock"]),
        [
            types,
            users.clone(),
            json!({"key": "nail,40", "value": "-1"}),
            json!({"key": "bolt,8", "value": "5"})
        ]
    );
    let stock = remembered("stock", "String,u32", "i64");
    assert_eq!(said(&[".types stock str,u32", ".types stock", ".types"]), [stock, users]);
    let shown =
        shell.ok(&["shell", "-c", ".types users str u64", "-c", ".types", "-c", "get users ben@example.com"]);
    assert!(
        shown.contains("│ users ┆ str        ┆ u64    ┆ said       │")
            && shown.contains("│ stock ┆ String,u32 ┆ i64    ┆ remembered │")
            && shown.contains("│ ben@example.com ┆ 7     │"),
        "{shown}"
    );
    let hex =
        shell.ok(&["shell", "-c", ".types users str u64", "-c", ".hex on", "-c", "scan users --limit 1"]);
    assert!(hex.contains("01616461"), "{hex}");
}
