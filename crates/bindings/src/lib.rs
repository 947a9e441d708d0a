//! What the interfaces of Foreshore to other languages share.
//!
//! The Rust interface speaks through types: a transaction lends its tables for as long as it lives, its end consumes it,
//! options are methods. Other languages have none of this. Here are handles that live as long as anybody holds them, one
//! kind of table for whatever it is seen through, and options by name.

mod handle;
mod options;
mod rows;
mod transaction;

pub use handle::TableHandle;
pub use options::{Options, backup, open, table_options, transaction_options};
pub use rows::{Bounds, Rows};
pub use transaction::{Host, TransactionHandle, Unattached, WriteCount, loser, transact};
