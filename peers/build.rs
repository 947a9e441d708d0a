//! Compiles the shims of the C engines asked for, and links their libraries. Tells the versions of engines that do not say
//! themselves.

use std::path::Path;

/// An engine written in C: its feature and shim, the header that its library brings, and the library.
const ENGINES: [(&str, &str, &str); 5] = [
    ("berkeleydb", "db.h", "db-5.3"),
    ("kyoto", "kclangc.h", "kyotocabinet"),
    ("leveldb", "leveldb/c.h", "leveldb"),
    ("rocksdb", "rocksdb/c.h", "rocksdb"),
    ("wiredtiger", "wiredtiger.h", "wiredtiger"),
];

fn main() {
    println!("cargo::rerun-if-changed=shim");
    println!("cargo::rerun-if-changed=Cargo.lock");
    for engine in ["redb", "fjall", "sled"] {
        println!("cargo::rustc-env=VERSION_{}={}", engine.to_uppercase(), locked_version(engine));
    }
    let asked: Vec<_> = ENGINES.into_iter().filter(|(feature, ..)| is_on(feature)).collect();
    if asked.is_empty() {
        return;
    }
    let mut shims = cc::Build::new();
    shims.std("c11").define("_DEFAULT_SOURCE", None).warnings(true).extra_warnings(true);
    shims.file("shim/common.c");
    for (feature, header, _) in &asked {
        if !Path::new("/usr/include").join(header).exists() {
            println!("cargo::error=feature {feature} needs <{header}>: run `peers/setup`, which installs it");
            return;
        }
        shims.file(format!("shim/{feature}.c"));
        if *feature == "rocksdb" {
            shims.define("ROCKSDB_VERSION", format!("\"{}\"", rocksdb_version()).as_str());
        }
    }
    shims.compile("shims");
    for (_, _, library) in asked {
        println!("cargo::rustc-link-lib=dylib={library}");
    }
}

fn is_on(feature: &str) -> bool {
    std::env::var_os(format!("CARGO_FEATURE_{}", feature.to_uppercase())).is_some()
}

/// The version of a crate in the lock file.
fn locked_version(name: &str) -> String {
    let lock = std::fs::read_to_string("Cargo.lock").expect("a lock file");
    let entry = format!("name = \"{name}\"\nversion = \"");
    let (_, rest) = lock.split_once(&entry).expect("the crate is locked");
    rest.split('"').next().expect("a version").to_owned()
}

/// RocksDB's version: its header says it to C++ only.
fn rocksdb_version() -> String {
    let header = std::fs::read_to_string("/usr/include/rocksdb/version.h").unwrap_or_default();
    let part = |name: &str| {
        let line = header.lines().find_map(|line| line.strip_prefix(&format!("#define ROCKSDB_{name} ")));
        line.map_or("?", str::trim).to_owned()
    };
    ["MAJOR", "MINOR", "PATCH"].map(part).join(".")
}
