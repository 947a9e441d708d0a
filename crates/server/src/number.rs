//! Integers as Redis reads them: decimal digits with an optional minus, nothing else, and no leading zeros.

/// The number that `text` is, if it is one.
pub fn parse(text: &[u8]) -> Option<i64> {
    let (digits, is_negative) = match text {
        [b'0'] => return Some(0),
        [b'-', digits @ ..] => (digits, true),
        digits => (digits, false),
    };
    if !matches!(digits, [b'1'..=b'9', ..]) {
        return None;
    }
    // Below zero there is room for one more.
    let negated = digits.iter().try_fold(0, |sum: i64, byte| {
        let digit = byte.is_ascii_digit().then(|| i64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_sub(digit)
    })?;
    if is_negative { Some(negated) } else { negated.checked_neg() }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn only_canonical_numbers_are_numbers() {
        for number in [0, 7, -7, 42, -100, i64::MAX, i64::MIN] {
            assert_eq!(parse(number.to_string().as_bytes()), Some(number));
        }
        for text in [
            "",
            "-",
            "-0",
            "+1",
            "01",
            "1 ",
            " 1",
            "1.0",
            "0x1",
            "-0x1",
            "9223372036854775808",
            "-9223372036854775809",
            "a",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }
}
