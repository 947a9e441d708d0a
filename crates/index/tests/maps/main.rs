//! The maps on real threads and real memory. One program, since each map is generic: what the tests share of it is
//! compiled once.
#![cfg(not(any(loom, shuttle)))]

mod churn;
#[path = "../common/mod.rs"]
mod common;
mod everyday;
mod fill;
mod foreign;
mod linearizable;
mod model;
mod prefix;
mod stress;
mod tuned;
