//! Serves a Foreshore database over the Redis protocol: `foreshore serve`, as a library.
//!
//! What it answers, and how that differs from Redis, is in the repository's `docs/serve.md`. Begin with [`Server`].
//!
//! ```text
//! accepting ─► event loops: request.rs ─► commands ─► engine ─► reply.rs
//!                  │ withheld replies          │ what takes long       ▲
//!                  ▼                           ▼                       │
//!              syncer.rs (device)          chores.rs ──────────────────┘
//! ```

mod acknowledged;
mod chores;
mod clients;
mod commands;
mod connection;
mod counters;
mod cursors;
mod decimal;
mod descriptors;
mod event_loop;
mod fingerprint;
mod glob;
mod inline;
mod metrics;
mod number;
mod options;
mod random_key;
mod reply;
pub mod request;
mod rows;
mod scrapers;
mod server;
mod session;
mod shared;
mod slow_log;
mod syncer;
mod together;
mod watches;

/// The table in which `foreshore load` keeps columns and keys of tables. Clients may not use it: a row there that is no schema would
/// damage the table that it is named after.
pub const SCHEMAS: &str = "foreshore.schemas";

pub use options::Options;
pub use request::Limits;
pub use server::{Handle, Server, StartError, ThreadLost};
