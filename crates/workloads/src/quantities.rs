//! Bytes and seconds as people write them.

use std::time::Duration;

/// Reads `4096`, `64MiB`, `2GiB`, `10MB` …: binary units with an `i`, decimal ones without.
///
/// Errors: what was expected.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    parse_size::parse_size(text).map_err(|_| "expected bytes such as 4096, 64MiB or 2GB".to_string())
}

/// Reads a positive number of seconds, such as `0.5`.
///
/// Errors: what was expected.
pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let seconds = seconds.filter(|seconds| !seconds.is_zero());
    seconds.ok_or_else(|| "expected seconds such as 1 or 0.5".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_units() {
        for (text, bytes) in [("4096", 4096), ("64MiB", 64 << 20), ("2 gib", 2 << 30), ("10MB", 10_000_000)] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "MiB", "64X", "99999999999TiB", "-1"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }
}
