//! Any bytes, cut anywhere, guided by coverage. See `judge.rs` for what must hold.
//!
//! In `crates/server`, with `cargo install cargo-fuzz`, on the stable toolchain (nightly needs neither variable nor option):
//! `RUSTC_BOOTSTRAP=1 cargo fuzz run --sanitizer none request fuzz/corpus/request fuzz/seeds/request -- -max_len=4400`.

#![no_main]

#[path = "../judge.rs"]
mod judge;

use judge::Judge;
use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;

thread_local! {
    static JUDGE: RefCell<Judge> = RefCell::default();
}

fuzz_target!(|bytes: &[u8]| JUDGE.with_borrow_mut(|judge| judge.judge(bytes)));
