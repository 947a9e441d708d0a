//! Patterns of keys, as KEYS, SCAN and CONFIG GET have them: `*`, `?`, `[a-z]`, `[^a]`, and `\` before a literal byte.
//!
//! Why not a crate: keys are bytes, not text, and the classes are Redis's. The match takes time linear in pattern times
//! text, whatever the pattern: only the last `*` is ever gone back to.

/// Does `text` match `pattern` as a whole? What is empty matches `*`, but not `**`, as in Redis 7.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    if text.is_empty() {
        return matches!(pattern, b"" | b"*");
    }
    let (mut pattern, mut text) = (pattern, text);
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        if let Some(rest) = pattern.strip_prefix(b"*") {
            star = Some((rest, text));
            pattern = rest;
            continue;
        }
        let matched = match text.split_first() {
            None if pattern.is_empty() => return true,
            None => return false,
            Some((byte, rest)) => one(pattern, *byte).map(|pattern| (pattern, rest)),
        };
        (pattern, text) = match (matched, &mut star) {
            (Some(next), _) => next,
            (None, Some((after, from))) => {
                *from = &from[1..];
                (*after, *from)
            }
            (None, None) => return false,
        };
    }
}

/// Matches one byte with the beginning of `pattern`; what is left of it.
fn one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [b'?', rest @ ..] => Some(rest),
        [b'[', class @ ..] => {
            let (is_in, rest) = in_class(class, byte);
            is_in.then_some(rest)
        }
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] => (*literal == byte).then_some(rest),
        [] => None,
    }
}

/// Is `byte` in the class, whose `[` is read? And what follows it. A class without its `]` ends with the pattern.
fn in_class(class: &[u8], byte: u8) -> (bool, &[u8]) {
    let (negated, mut class) = match class {
        [b'^', rest @ ..] => (true, rest),
        _ => (false, class),
    };
    let mut found = false;
    loop {
        class = match class {
            [] => return (found != negated, class),
            [b']', rest @ ..] => return (found != negated, rest),
            [b'\\', literal, rest @ ..] => {
                found |= *literal == byte;
                rest
            }
            [from, b'-', to, rest @ ..] if *to != b']' => {
                found |= (*from.min(to)..=*from.max(to)).contains(&byte);
                rest
            }
            [literal, rest @ ..] => {
                found |= *literal == byte;
                rest
            }
        };
    }
}

/// The literal beginning of `pattern`: whatever matches begins with it.
pub fn prefix(pattern: &[u8]) -> &[u8] {
    let end = pattern.iter().position(|byte| b"*?[\\".contains(byte));
    &pattern[..end.unwrap_or(pattern.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_redis() {
        let cases = [
            ("*", "", true),
            ("*", "any", true),
            ("**", "", false),
            ("**", "any", true),
            ("any**", "any", true),
            ("", "", true),
            ("", "a", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "hllo", true),
            ("h*llo", "heeello", true),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hbllo", true),
            ("h[a-b]llo", "hcllo", false),
            ("[a-]", "-", true),
            (r"h\*llo", "h*llo", true),
            (r"h\*llo", "hello", false),
            (r"[\]]", "]", true),
            ("[a", "a", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("*a", "aab", false),
            ("user:*:name", "user:1:name", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} on {text}");
        }
    }

    /// This would take longer than anyone lives if every star were tried with every other.
    #[test]
    fn many_stars_take_no_longer() {
        assert!(!matches("a*".repeat(50).as_bytes().strip_suffix(b"*").unwrap(), &[b'b'; 10_000]));
        let pattern = format!("{}b", "*a".repeat(50));
        assert!(!matches(pattern.as_bytes(), &[b'a'; 10_000]));
    }

    #[test]
    fn a_prefix_ends_before_the_first_sign() {
        assert_eq!(prefix(b"user:*"), b"user:");
        assert_eq!(prefix(br"a\*"), b"a");
        assert_eq!(prefix(b"all"), b"all");
    }
}
