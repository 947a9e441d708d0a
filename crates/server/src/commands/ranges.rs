//! Parts of values. A value is read and written as a whole; only the client is spared the rest.

use super::{Call, CommandError, HEAVY, Next, Outcome, refused};
use foreshore::VALUE_BYTES_MAX;
use std::ops::Range;

/// The bytes of a value of length `len` that `from` and `to` mean, both included; negative ones count from its end.
fn part(from: i64, to: i64, len: usize) -> Range<usize> {
    let len = len as i64;
    let place = |at: i64| if at < 0 { at.saturating_add(len).max(0) } else { at };
    let (from, to) =
        if from < 0 && to < 0 && from > to { (0, -1) } else { (place(from), place(to).min(len - 1)) };
    if from > to { 0..0 } else { from as usize..to as usize + 1 }
}

pub fn getrange(call: &mut Call<'_>) -> Outcome {
    let (from, to) = (call.number(2)?, call.number(3)?);
    let found = call.session.read(call.args.at(1))?;
    let value = if found { &call.session.value[..] } else { &[] };
    let part = &value[part(from, to, value.len())];
    crate::reply::Reply::new(call.out, call.session.protocol).bulk(part);
    Ok(Next::Go)
}

pub fn setrange(call: &mut Call<'_>) -> Outcome {
    let (key, patch) = (call.args.at(1), call.args.at(3));
    let Ok(at) = usize::try_from(call.number(2)?) else { return refused("ERR offset is out of range") };
    let (max, end) = (bytes_max(call), at.saturating_add(patch.len()));
    // What comes before the patch is filled with zeros, which takes long.
    let is_heavy = call.shared.scale.weigh_bytes(end) >= HEAVY;
    if call.session.is_on_loop && !patch.is_empty() && end <= max && is_heavy {
        return Err(CommandError::TooHeavy);
    }
    let len = call.session.atomically(call.shared, |rows| {
        let mut value = rows.get_for_update(key)?.unwrap_or_default();
        if patch.is_empty() {
            return Ok(value.len());
        }
        ensure_length(end, max)?;
        value.resize(value.len().max(end), 0);
        value[at..end].copy_from_slice(patch);
        rows.put(key, &value)?;
        Ok(value.len())
    })?;
    call.reply().count(len as u64);
    Ok(Next::Go)
}

pub fn append(call: &mut Call<'_>) -> Outcome {
    let (key, more) = (call.args.at(1), call.args.at(2));
    let max = bytes_max(call);
    let len = call.session.atomically(call.shared, |rows| {
        let mut value = rows.get_for_update(key)?.unwrap_or_default();
        ensure_length(value.len() + more.len(), max)?;
        value.extend_from_slice(more);
        rows.put(key, &value)?;
        Ok(value.len())
    })?;
    call.reply().count(len as u64);
    Ok(Next::Go)
}

/// Bytes of a value, at most. What no request could bring must not be put together from parts either: each further part would
/// hold up an event loop for the whole of it. And what no table takes is not made first.
fn bytes_max(call: &Call<'_>) -> usize {
    call.shared.options.limits.request_bytes.min(VALUE_BYTES_MAX)
}

fn ensure_length(len: usize, max: usize) -> Result<(), CommandError> {
    if len > max { refused("ERR string exceeds maximum allowed size (proto-max-bulk-len)") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn ends_are_included_and_cut() {
        for (from, to, expected) in [
            (0, -1, 0..5),
            (1, 2, 1..3),
            (-3, -2, 2..4),
            (3, 99, 3..5),
            (-99, 0, 0..1),
            (-99, -98, 0..1),
            (2, 1, 0..0),
            (5, 9, 0..0),
            (0, i64::MIN, 0..1),
            (i64::MIN, i64::MAX, 0..5),
            (i64::MAX, i64::MAX, 0..0),
        ] {
            assert_eq!(part(from, to, 5), expected, "{from} {to}");
        }
        assert_eq!(part(0, -1, 0), 0..0);
        assert_eq!(part(-1, -2, 5), 0..0);
    }
}
