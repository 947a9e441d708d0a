//! Foreshore's C interface.
//!
//! Everything here is declared in `include/foreshore.h`, which cbindgen makes from these files, and introduced in
//! `docs/c.md`. The interface is that of Rust with three changes: an error is a negative number, and its text waits in the
//! thread ([`status`]); a table is one type, whether it is seen as everybody does, within a transaction or as of a
//! snapshot; and options have names.
//!
//! Why the functions look safe: parameters are `Option<&T>` and `Option<Box<T>>`, which in C are pointers that may be
//! NULL. That C passes valid ones is its promise, written down in the header; what unsafe code remains is in [`memory`].
//!
//! Invariants:
//! - C1: no call unwinds into C: every function that can panic runs inside [`status::guard`] or [`status::answer`].
//! - C2: nothing that C passed for output is read before it is written.
//! - C3: a call that gives FS_ARGUMENT because something is NULL, be it the place for its result, has done nothing; but a
//!   transaction is ended by the calls that end it.

#![allow(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "only C calls these, and the header is where it reads its part"
)]

// In the order of the header.
pub mod status;

pub mod memory;

pub mod options;

pub mod database;

pub mod table;

pub mod cursor;

pub mod transaction;

pub mod snapshot;
