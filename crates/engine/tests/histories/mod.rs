//! Histories of random transactions, and a checker that looks for anomalies in them without knowing how the engine
//! works.
//!
//! Rows are lists. Every write adds an id that is never used again, so what a transaction reads tells exactly which
//! version of the row it saw. Absence has no id; which absence was seen follows from when it was seen.
//!
//! ```text
//! record   what a transaction did and saw, and when
//! drive    random transactions
//! check    from records to versions, dependencies, and verdicts
//! graph    cycles
//! ```
//!
//! Source: Kingsbury and Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations" (VLDB 2020), its
//! list-append; Adya, "Weak Consistency" (1999), the dependencies. Differs: rows are also removed and come back, and
//! ranges are read; the order of a row's versions is that of the moments at which their writers held its lock, and is
//! then verified against what everybody saw.
#![allow(dead_code)] // each test file uses its part

pub mod check;
pub mod drive;
pub mod graph;
pub mod record;
