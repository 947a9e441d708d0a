//! The foreshore command.
fn main() {}
