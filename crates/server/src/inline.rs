//! Words on a line, as somebody types them into a terminal: quotes and escapes as Redis has them.

use std::ops::Range;

/// Splits `line` into words. Returns the words' bytes without quotes and escapes; `words` gets their places in them.
/// `None` if a quote has no end, or something follows it that is no space.
pub fn split(line: &[u8], words: &mut Vec<Range<usize>>) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(line.len());
    let mut rest = line.trim_ascii();
    while !rest.is_empty() {
        let start = text.len();
        rest = word(rest, &mut text)?;
        if rest.first().is_some_and(|next| !next.is_ascii_whitespace()) {
            return None;
        }
        words.push(start..text.len());
        rest = rest.trim_ascii_start();
    }
    Some(text)
}

/// A word's end may be in quotes, or all of it.
fn word<'l>(line: &'l [u8], text: &mut Vec<u8>) -> Option<&'l [u8]> {
    let is_end = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'');
    let (bare, rest) = line.split_at(line.iter().position(is_end).unwrap_or(line.len()));
    text.extend_from_slice(bare);
    match rest {
        [b'"', quoted @ ..] => double_quoted(quoted, text),
        [b'\'', quoted @ ..] => single_quoted(quoted, text),
        _ => Some(rest),
    }
}

fn single_quoted<'l>(mut line: &'l [u8], text: &mut Vec<u8>) -> Option<&'l [u8]> {
    loop {
        let (byte, rest) = match line {
            [b'\'', rest @ ..] => return Some(rest),
            [b'\\', b'\'', rest @ ..] => (b'\'', rest),
            [byte, rest @ ..] => (*byte, rest),
            [] => return None,
        };
        text.push(byte);
        line = rest;
    }
}

fn double_quoted<'l>(mut line: &'l [u8], text: &mut Vec<u8>) -> Option<&'l [u8]> {
    loop {
        let (byte, rest) = match line {
            [b'"', rest @ ..] => return Some(rest),
            [b'\\', b'x', high, low, rest @ ..] if hex(*high).is_some() && hex(*low).is_some() => {
                (hex(*high)? << 4 | hex(*low)?, rest)
            }
            [b'\\', escaped, rest @ ..] => (unescaped(*escaped), rest),
            [byte, rest @ ..] => (*byte, rest),
            [] => return None,
        };
        text.push(byte);
        line = rest;
    }
}

fn unescaped(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Option<Vec<String>> {
        let mut places = Vec::new();
        let text = split(line.as_bytes(), &mut places)?;
        Some(places.into_iter().map(|place| text[place].escape_ascii().to_string()).collect())
    }

    #[test]
    fn words_quotes_and_escapes() {
        assert_eq!(words("").unwrap(), [""; 0]);
        assert_eq!(words("  get   k ").unwrap(), ["get", "k"]);
        assert_eq!(words(r#"set "a b" 'c d' "" ''"#).unwrap(), ["set", "a b", "c d", "", ""]);
        assert_eq!(words(r#""\x41\n\"\\\q\xzz""#).unwrap(), [r#"A\n\"\\qxzz"#]);
        assert_eq!(words(r"'it\'s \n'").unwrap(), [r"it\'s \\n"]);
        assert_eq!(words(r#"set k="a b" 'k'"#).unwrap(), ["set", "k=a b", "k"]);
    }

    #[test]
    fn quotes_must_match() {
        for wrong in [r#"""#, r#""a"#, "'a", r#"a"b"#, r#""a"b""#, r#"a"b"c"#, r#""a\"#] {
            assert_eq!(words(wrong), None, "{wrong}");
        }
    }
}
