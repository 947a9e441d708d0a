//! Compiles the shims of the C engines asked for, and links their libraries.

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
    let asked: Vec<_> = ENGINES.into_iter().filter(|(feature, ..)| is_on(feature)).collect();
    if asked.is_empty() {
        return;
    }
    let mut shims = cc::Build::new();
    shims.std("c11").define("_DEFAULT_SOURCE", None).warnings(true).extra_warnings(true);
    shims.file("shim/error.c");
    for (feature, header, _) in &asked {
        if !Path::new("/usr/include").join(header).exists() {
            println!("cargo::error=feature {feature} needs <{header}>: run `peers/setup`, which installs it");
            return;
        }
        shims.file(format!("shim/{feature}.c"));
    }
    shims.compile("shims");
    for (_, _, library) in asked {
        println!("cargo::rustc-link-lib=dylib={library}");
    }
}

fn is_on(feature: &str) -> bool {
    std::env::var_os(format!("CARGO_FEATURE_{}", feature.to_uppercase())).is_some()
}
