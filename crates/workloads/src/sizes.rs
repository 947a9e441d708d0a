//! Numbers of bytes as people write them.

/// Reads `4096`, `64MiB`, `2GiB`, `10MB` …: binary units with an `i`, decimal ones without.
///
/// Errors: what was expected.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    parse_size::parse_size(text).map_err(|_| "expected bytes such as 4096, 64MiB or 2GB".to_string())
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
