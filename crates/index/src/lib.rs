//! Foreshore index.
