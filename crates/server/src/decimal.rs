//! Decimal fractions, for INCRBYFLOAT: 17 places behind the point, added exactly.
//!
//! Why not floating point: values are decimal text, and a tenth has no binary form. Ten times 0.1 is 1 here, and a whole
//! number of 64 bits stays what it is.

/// Bytes of a number, as in Redis: more are never needed, and an event loop reads them.
const TEXT_BYTES_MAX: usize = 5 << 10;

/// Places behind the point.
const PLACES: i64 = 17;

/// A number, times 10 to the power of [`PLACES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decimal(i128);

impl Decimal {
    /// The number that `text` is, if it is one: digits with an optional sign, point and exponent. What lies beyond the
    /// 17th place is rounded.
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let (is_negative, unsigned) = sign(text);
        let (mantissa, exponent) = match unsigned.iter().position(|byte| byte.eq_ignore_ascii_case(&b'e')) {
            Some(at) => (&unsigned[..at], whole(&unsigned[at + 1..])?),
            None => (unsigned, 0),
        };
        let point = mantissa.iter().position(|byte| *byte == b'.').unwrap_or(mantissa.len());
        let digits = [&mantissa[..point], mantissa.get(point + 1..).unwrap_or_default()].concat();
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let scaled = scaled(&digits, point as i64 + exponent + PLACES)?;
        Some(Self(if is_negative { -scaled } else { scaled }))
    }

    /// The sum, if it is not too large.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }
}

impl std::fmt::Display for Decimal {
    /// Without exponent, and without zeros that say nothing.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (sign, one) = (if self.0 < 0 { "-" } else { "" }, 10_u128.pow(PLACES as u32));
        let (whole, fraction) = (self.0.unsigned_abs() / one, self.0.unsigned_abs() % one);
        if fraction == 0 {
            return write!(f, "{sign}{whole}");
        }
        let fraction = format!("{fraction:0width$}", width = PLACES as usize);
        write!(f, "{sign}{whole}.{}", fraction.trim_end_matches('0'))
    }
}

/// Is there a minus? And what follows the sign, if there is one.
fn sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    }
}

/// An exponent. One that is too large to matter is cut.
fn whole(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = sign(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0, |sum: i64, byte| (sum * 10 + i64::from(byte - b'0')).min(1 << 40));
    Some(if is_negative { -number } else { number })
}

/// The number whose point stands behind `point` of the digits, and which has none behind it: rounded, or filled up with
/// zeros. `None` if it is too large.
fn scaled(digits: &[u8], point: i64) -> Option<i128> {
    let kept = point.clamp(0, digits.len() as i64) as usize;
    let value = |byte: &u8| i128::from(byte - b'0');
    let whole =
        digits[..kept].iter().try_fold(0_i128, |sum, byte| sum.checked_mul(10)?.checked_add(value(byte)))?;
    let rounds_up = point >= 0 && digits.get(kept).is_some_and(|byte| *byte >= b'5');
    let zeros = if whole == 0 { 0 } else { point - kept as i64 };
    let power = 10_i128.checked_pow(u32::try_from(zeros.max(0)).ok()?)?;
    whole.checked_mul(power)?.checked_add(rounds_up.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        Decimal::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text} is a number")).to_string()
    }

    #[test]
    fn what_is_endless_is_no_number() {
        assert_eq!(Decimal::parse(&[b'0'; TEXT_BYTES_MAX]), Some(Decimal(0)));
        assert_eq!(Decimal::parse(&[b'0'; TEXT_BYTES_MAX + 1]), None);
    }

    #[test]
    fn numbers_are_read_and_shown() {
        for (text, expected) in [
            ("0", "0"),
            ("-0", "0"),
            ("+1", "1"),
            ("01", "1"),
            ("1.", "1"),
            (".5", "0.5"),
            ("-.5", "-0.5"),
            ("3.0e3", "3000"),
            ("5.0E-5", "0.00005"),
            ("10.50", "10.5"),
            ("0e999999999999999999999", "0"),
            ("1e-999999999999999999999", "0"),
            ("9223372036854775807", "9223372036854775807"),
            ("-9223372036854775808.25", "-9223372036854775808.25"),
            ("0.00000000000000001", "0.00000000000000001"),
            ("0.000000000000000005", "0.00000000000000001"),
            ("0.000000000000000004", "0"),
            ("0.0000000000000000009", "0"),
            ("1.99999999999999999999", "2"),
            ("1e21", "1000000000000000000000"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in [
            "", "-", ".", "e", "1e", "1e+", "e5", "--1", "1 ", " 1", "0x10", "nan", "inf", "1.2.3", "1e22",
            "1e99999", "1,5",
        ] {
            assert_eq!(Decimal::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn sums_are_exact_and_bounded() {
        let tenth = Decimal::parse(b"0.1").unwrap();
        let sum = (0..10).try_fold(Decimal::default(), |sum, _| sum.checked_add(tenth));
        assert_eq!(sum.unwrap().to_string(), "1");
        let large = Decimal::parse(b"1.7e21").unwrap();
        assert_eq!(large.checked_add(large), None);
    }
}
