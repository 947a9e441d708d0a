//! Integers as Redis reads them: decimal digits with an optional minus, nothing else, and no leading zeros.

/// The number that `text` is, if it is one.
pub fn parse(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let canonical = match digits {
        [b'0'] => text.len() == 1,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    canonical.then(|| std::str::from_utf8(text).ok()?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn only_canonical_numbers_are_numbers() {
        for number in [0, 7, -7, 42, i64::MAX, i64::MIN] {
            assert_eq!(parse(number.to_string().as_bytes()), Some(number));
        }
        for text in ["", "-", "-0", "+1", "01", "1 ", " 1", "1.0", "0x1", "9223372036854775808", "a"] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }
}
