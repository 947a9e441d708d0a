//! Foreshore workloads.
