//! Bytes as text: hexadecimal, the escapes of `db_dump`, and what a terminal may be shown.

use std::fmt::Write;

/// Lowercase hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("strings grow");
        text
    })
}

/// The inverse of [`hex`], capitals allowed; `None` for anything else.
pub fn unhex(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|d| d as u8);
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

/// Printable ASCII as it is, a backslash doubled, any other byte as `\` and two digits: `db_dump -p`.
pub fn escape(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len()), |mut text, &byte| {
        match byte {
            b'\\' => text.push_str("\\\\"),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => write!(text, "\\{byte:02x}").expect("strings grow"),
        }
        text
    })
}

/// The inverse of [`escape`]; `None` if a backslash stands before anything but a backslash or two digits.
pub fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        rest = match (first, tail) {
            (b'\\', [b'\\', tail @ ..]) => {
                bytes.push(b'\\');
                tail
            }
            (b'\\', [high, low, tail @ ..]) => {
                bytes.extend(unhex(&[*high, *low])?);
                tail
            }
            (b'\\', _) => return None,
            _ => {
                bytes.push(first);
                tail
            }
        };
    }
    Some(bytes)
}

/// One line for people: text as it is, control characters and what is no text escaped.
pub fn for_people(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(|c| c.is_control() || c == '\\') => text.to_string(),
        _ => escape(bytes),
    }
}

/// A text as a part of a message, which may have come from a file of any size: its beginning, if it is long.
pub fn shortened(text: &str) -> String {
    const CHARS: usize = 400;
    match text.char_indices().nth(CHARS) {
        None => text.to_string(),
        Some((end, _)) => format!("{} …", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_come_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(unhex(hex(&all).as_bytes()), Some(all.clone()));
        assert_eq!(unescape(escape(&all).as_bytes()), Some(all));
    }

    #[test]
    fn escapes_are_those_of_db_dump() {
        assert_eq!(escape(b"a\\b\n\xff"), "a\\\\b\\0a\\ff");
        assert_eq!(unescape(b"\\5c"), Some(b"\\".to_vec()), "mdb_dump writes a backslash so");
    }

    #[test]
    fn broken_escapes_are_refused() {
        for wrong in [&b"\\"[..], b"\\4", b"\\zz", b"ab\\"] {
            assert_eq!(unescape(wrong), None);
        }
        assert_eq!((unhex(b"abc"), unhex(b"gg"), unhex(b"AbC0")), (None, None, Some(vec![0xab, 0xc0])));
    }

    #[test]
    fn people_see_text_and_no_control_characters() {
        assert_eq!(for_people("Zürich".as_bytes()), "Zürich");
        assert_eq!(for_people(b"a\x1b[31m"), "a\\1b[31m");
    }
}
