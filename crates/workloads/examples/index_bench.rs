//! Measures the index: `cargo run --release -p foreshore-workloads --example index_bench -- [keys n threads seconds]`,
//! where keys is `u64`, `u32` or `bytes`. Prints operations per second and the ratio to `BTreeMap` on one thread.

use foreshore_workloads::index_bench::{KeyKind, Structure, run};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arg = |i: usize, default: &str| args.get(i).cloned().unwrap_or_else(|| default.to_string());
    let keys = match arg(0, "u64").as_str() {
        "u64" => KeyKind::U64,
        "u32" => KeyKind::U32,
        "bytes" => KeyKind::Bytes,
        other => panic!("keys are u64, u32 or bytes, not {other}"),
    };
    let n: u64 = arg(1, "10000000").parse().expect("a number of keys");
    let threads: usize = arg(2, "1").parse().expect("a number of threads");
    let seconds: f64 = arg(3, "3").parse().expect("seconds");
    let progress = &mut |phase: &str| eprintln!("… {phase}");
    let base = run(Structure::StdBTreeMap, keys, n, 1, seconds, 1, progress).expect("right answers");
    let ours = run(Structure::BPlus, keys, n, threads, seconds, 1, progress).expect("right answers");
    println!("{:8} {:>12} {:>12} {:>6}", "phase", "BTreeMap 1t", format!("B+ {threads}t"), "ratio");
    for (base, ours) in base.iter().zip(&ours) {
        let ratio = ours.ops_per_s / base.ops_per_s;
        println!("{:8} {:12.0} {:12.0} {ratio:6.2}", base.phase, base.ops_per_s, ours.ops_per_s);
    }
    println!("bytes per key: BTreeMap {:.1}, B+ {:.1}", base[0].bytes_per_key, ours[0].bytes_per_key);
}
