//! Workloads: the rows, the drivers and the clocks with which Foreshore and its peers are measured.
//!
//! Why one crate: a comparison is only as good as what the two sides share. Every engine implements [`Store`]; the same
//! generator feeds it, the same loop times it, and the same checks read its answers back. A run that finds a wrong answer
//! has no figure.

pub mod disk;
mod fill;
pub mod flights;
pub mod index_bench;
pub mod insert;
pub mod keys;
pub mod kv;
pub mod latencies;
mod memory;
pub mod mix;
pub mod orders;
mod quantities;
pub mod random;
pub mod readers;
pub mod reference;
pub mod report;
pub mod rows;
pub mod source;
pub mod spec;
pub mod store;
pub mod survey;
mod threads;
mod timed;
mod together;
pub mod tpcc;
pub mod tx;
mod tx_batch;
pub mod tx_reference;
pub mod tx_report;
mod tx_run;
pub mod tx_spec;
pub mod tx_store;
mod updates;
pub mod ycsb;
mod zipf;

pub use quantities::{parse_bytes, parse_seconds};
pub use report::KvReport;
pub use spec::{Durability, KvArgs, KvSpec, Workload};
pub use store::{Bytes, Row, Session, Store, StoreError};
pub use tx_store::{Tx, TxError, TxKind, TxSession, TxStore};
