//! Foreshore workloads.

pub mod index_bench;
