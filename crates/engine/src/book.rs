//! The book's examples are compiled and run with the tests of the documentation.

#[doc = include_str!("../../../docs/first_hour.md")]
mod first_hour {}
#[doc = include_str!("../../../docs/concepts.md")]
mod concepts {}
#[doc = include_str!("../../../docs/operations.md")]
mod operations {}
#[doc = include_str!("../../../docs/tuning.md")]
mod tuning {}
#[doc = include_str!("../../../docs/faq.md")]
mod faq {}
#[doc = include_str!("../../../docs/file_format.md")]
mod file_format {}
