//! Where there are no vectors, or a model checker sees every access.

use foreshore_base::sync::{AtomicU32, AtomicU64};

pub fn count_u64(_line: &[AtomicU64; 8], _key: u64) -> Option<usize> {
    None
}

pub fn count_two_u64(_lines: &[AtomicU64; 16], _key: u64) -> Option<usize> {
    None
}

pub fn count_u32(_line: &[AtomicU32; 16], _key: u32) -> Option<usize> {
    None
}

pub fn count_half_u64(_cells: &[AtomicU64; 4], _key: u64) -> Option<usize> {
    None
}

pub fn count_half_u32(_cells: &[AtomicU32; 8], _key: u32) -> Option<usize> {
    None
}

pub fn count_halves(_cells: &[AtomicU64; 4], _key: u32) -> Option<usize> {
    None
}

pub fn count_pairs(_cells: &[AtomicU64; 8], _key: [u64; 2]) -> Option<usize> {
    None
}

pub fn count_two_pairs(_cells: &[AtomicU64; 16], _key: [u64; 2]) -> Option<usize> {
    None
}
