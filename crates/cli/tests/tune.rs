//! `tune`, and the commands that use what it writes.

mod common;

use common::{Shell, words};
use serde_json::json;

/// One small tree: its figures mean nothing, but each must be there.
const SHORT: [&str; 6] = ["tune", "--quick", "--entries", "1000", "--out", "tune.toml"];

/// The profile, with leaf sizes that no measurement would give together.
fn by_hand(shell: &Shell) {
    let text = std::fs::read_to_string(shell.path("tune.toml")).expect("the profile");
    let (head, leaf) = text.split_once("[leaf]\n").expect("leaf sizes");
    let rest = leaf.split_once("balanced = ").expect("a choice").1.split_once('\n').expect("a line").1;
    let sizes = "lookups = 4096\ninserts = 32768\nbalanced = 16384";
    shell.write("tune.toml", format!("{head}[leaf]\n{sizes}\n{rest}"));
}

#[test]
fn a_profile_is_written_and_followed() {
    let shell = Shell::new();
    let printed = shell.ok(&SHORT);
    for part in [
        "maps, by node size",
        "searches",
        "simd",
        "small pages",
        "leaves of the engine",
        "chosen",
        "tune.toml",
    ] {
        assert!(printed.contains(part), "{part:?} in {printed}");
    }

    let bench = words("bench kv --dir . --workload put --n 1000 --seconds 0.1 --durability relaxed");
    let with = |more: &[&'static str]| [&bench[..], &["--profile", "tune.toml"], more].concat();
    assert!(shell.json(&with(&[]))[0]["ops_per_s"].as_f64().is_some_and(|rate| rate > 0.0));
    shell.json(&with(&["--favour", "inserts", "--leaf-bytes", "4KiB"]));

    by_hand(&shell);
    shell.ok(&["put", "--dir", "usual.db", "--table", "t", "k", "v"]);
    shell.write("rows.csv", "id,name\n1,Ada\n");
    for (table, favour, bytes) in
        [("reads", "lookups", 4096), ("writes", "inserts", 32768), ("both", "balanced", 16384)]
    {
        let profile = ["--profile", "tune.toml", "--favour", favour];
        shell.ok(&[&["load", "--table", table, "--key", "id", "rows.csv"][..], &profile].concat());
        let tables = shell.json(&["tables"]);
        let listed = tables.iter().find(|listed| listed["table"] == table).expect("the table");
        assert_eq!(listed["leaf_bytes"], json!(bytes), "{table}");
    }
    shell.ok(&["load", "--table", "reads", "--key", "id", "--profile", "tune.toml", "rows.csv"]);
    let tables = shell.json(&["tables"]);
    let sizes: Vec<_> = tables.iter().map(|listed| &listed["leaf_bytes"]).collect();
    assert_eq!(sizes, [16384, 4096, 32768], "both, reads, writes: a table keeps its size");

    let dump = shell.ok(&["dump", "--dir", "usual.db"]);
    shell.write("usual.dump", dump);
    shell.ok(&["restore", "--dir", "again.db", "--profile", "tune.toml", "usual.dump"]);
    let leaf_bytes = &shell.json(&["tables", "--dir", "again.db"])[0]["leaf_bytes"];
    assert_eq!(leaf_bytes, 16384, "of a table of which the dump says nothing");
}

#[test]
fn figures_are_json_objects_of_three_kinds() {
    let shell = Shell::new();
    let figures = shell.json(&SHORT);
    let count = |kind: &str| figures.iter().filter(|figure| figure["measured"] == kind).count();
    // Three key sizes and four node sizes; four searches with and without prefetch and huge pages; four leaf sizes.
    assert_eq!(
        (count("map"), count("search"), count("leaf"), figures.len()),
        (12, 12 * 16, 4, 12 + 12 * 16 + 4)
    );
}

#[test]
fn what_is_no_profile_is_refused_before_anything_is_made() {
    let shell = Shell::new();
    shell.write("broken.toml", "leaf = 3");
    for profile in ["broken.toml", "absent.toml"] {
        let said = shell.fails(2, &["put", "--table", "t", "--profile", profile, "key", "value"]);
        assert!(said.contains("foreshore tune"), "{said}");
    }
    assert!(!shell.database().exists());
}

/// Minutes of measuring are not spent on a profile that has no place.
#[test]
fn a_profile_without_a_place_is_refused_at_once() {
    let refused = Shell::new().fails(2, &["tune", "--out", "absent/tune.toml"]);
    assert!(refused.contains("no directory absent"), "{refused}");
}

/// It would take the place of one of its files.
#[test]
fn a_profile_does_not_lie_within_a_database() {
    let shell = Shell::new();
    shell.ok(&["put", "--table", "t", "k", "v"]);
    let refused = shell.fails(2, &[&SHORT[..4], &["--out", "foreshore.db/leaves.db"]].concat());
    assert!(refused.contains("--out: foreshore.db/leaves.db would lie within a database"), "{refused}");
    assert_eq!(shell.ok(&["get", "--table", "t", "k"]), "v\n");
}

/// The last profile stays, and what was measured is shown.
#[test]
fn a_profile_that_cannot_be_written_takes_no_other_with_it() {
    let shell = Shell::new();
    shell.write("tune.toml", "the last one");
    let line =
        format!("trap '' XFSZ; ulimit -f 1; exec {} {}", env!("CARGO_BIN_EXE_foreshore"), SHORT.join(" "));
    let ran = std::process::Command::new("sh").args(["-c", &line]).current_dir(shell.path(".")).output();
    let ran = ran.expect("sh");
    assert_eq!(ran.status.code(), Some(5), "{ran:?}");
    assert!(String::from_utf8_lossy(&ran.stdout).contains("chosen"), "{ran:?}");
    assert_eq!(std::fs::read_to_string(shell.path("tune.toml")).unwrap(), "the last one");
    assert!(!shell.path("tune.toml.part").exists());
}

/// The profile is made where the link leads to.
#[test]
fn a_link_to_a_profile_that_is_yet_to_be_made_stays() {
    let shell = Shell::new();
    std::fs::create_dir(shell.path("there")).expect("a directory");
    std::os::unix::fs::symlink("there/tune.toml", shell.path("tune.toml")).expect("a link");
    shell.ok(&SHORT);
    assert!(shell.path("tune.toml").is_symlink());
    let profile = std::fs::read_to_string(shell.path("there/tune.toml")).expect("a profile");
    assert!(profile.contains("[machine]"), "{profile}");
}

/// Of the benchmarks only that of the maps must be told: most maps have no choice.
#[test]
fn a_profile_of_the_shell_is_not_for_maps() {
    let shell = Shell::new();
    let bench = words("bench index --structure bplus --n 1000 --seconds 0.01 --json");
    let ran = shell.command(&bench).env("FORESHORE_PROFILE", "absent.toml").output().expect("bench");
    assert!(ran.status.success(), "{ran:?}");
    assert!(String::from_utf8_lossy(&ran.stdout).contains("\"node_keys\":null"), "{ran:?}");
}
