//! One key of a table, each about as likely as any other.
//!
//! How: between the first key and the last the engine estimates how many rows lie below the middle and how many above, and
//! one side is chosen accordingly, again and again; among the few that are left each is as likely as any other.

use foreshore::{ByteTable, Error};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::ops::ControlFlow;

/// Rows among which one is chosen in the end.
const FEW: u64 = 256;

/// Halvings, at most: keys may be spread so that a half has them all, many times over.
const HALVINGS_MAX: usize = 256;

/// Bytes of keys of which the middle is taken, behind those that they share.
const WINDOW: usize = size_of::<u128>();

/// A key, unless the table was seen to be empty. Others may write it meanwhile: what was chosen among may have gone, and the first key
/// that is there then is as good.
pub fn choose(table: &ByteTable) -> Result<Option<Vec<u8>>, Error> {
    let Some(mut first) = first_key(table, Unbounded)? else { return Ok(None) };
    let mut last = last_key(table, Unbounded)?.unwrap_or_else(|| first.clone());
    for _ in 0..HALVINGS_MAX {
        if first >= last || rows(table, Included(&first), Included(&last))? <= FEW {
            break;
        }
        let middle = middle(&first, &last);
        let below = rows(table, Included(&first), Excluded(&middle))?;
        let above = rows(table, Included(&middle), Included(&last))?;
        if random_below(below + above) < below {
            let Some(key) = last_key(table, Excluded(&middle))? else { break };
            last = key;
        } else {
            let Some(key) = first_key(table, Included(&middle))? else { break };
            first = key;
        }
    }
    match among(table, &first, &last)? {
        Some(key) => Ok(Some(key)),
        None => first_key(table, Unbounded),
    }
}

fn first_key(table: &ByteTable, from: Bound<&[u8]>) -> Result<Option<Vec<u8>>, Error> {
    Ok(table.range((from, Unbounded)).keys_only().next().transpose()?.map(|(key, _)| key))
}

fn last_key(table: &ByteTable, to: Bound<&[u8]>) -> Result<Option<Vec<u8>>, Error> {
    Ok(table.range((Unbounded, to)).keys_only().next_back().transpose()?.map(|(key, _)| key))
}

fn rows(table: &ByteTable, from: Bound<&Vec<u8>>, to: Bound<&Vec<u8>>) -> Result<u64, Error> {
    table.estimate_range((from.map(Vec::as_slice), to.map(Vec::as_slice)))
}

/// One of the first few keys from `first` to `last`. `None` if all of them have gone meanwhile.
fn among(table: &ByteTable, first: &[u8], last: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    let mut keys = Vec::new();
    table.scan_keys((Included(first), Included(last)), |key| {
        keys.push(key.to_vec());
        if (keys.len() as u64) < 2 * FEW { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    let at = random_below(keys.len() as u64) as usize;
    Ok((at < keys.len()).then(|| keys.swap_remove(at)))
}

/// Something above `first` and not above `last`, halfway if they are numbers; `first` is below `last`.
fn middle(first: &[u8], last: &[u8]) -> Vec<u8> {
    let shared = first.iter().zip(last).take_while(|(a, b)| a == b).count();
    let number = |key: &[u8]| {
        let mut window = [0; WINDOW];
        let bytes = &key[shared..key.len().min(shared + WINDOW)];
        window[..bytes.len()].copy_from_slice(bytes);
        u128::from_be_bytes(window)
    };
    let (low, high) = (number(first), number(last));
    if high - low < 2 {
        return last.to_vec();
    }
    [&first[..shared], &(low + (high - low) / 2).to_be_bytes()].concat()
}

/// A number below `end`, or 0. The standard library's keys for hash maps are random; nothing here is secret.
fn random_below(end: u64) -> u64 {
    RandomState::new().build_hasher().finish().checked_rem(end).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreshore::Database;
    use std::collections::HashMap;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::thread;

    #[test]
    fn the_middle_lies_between() {
        for (first, last) in [
            (&b""[..], &b"\0"[..]),
            (b"", b"z"),
            (b"a", b"b"),
            (b"a", b"a\0"),
            (b"a", b"a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0x"),
            (b"key:0000", b"key:9999"),
            (&[7; 100], &[7; 101]),
            (&[0; 1024], &[0xFF; 1024]),
        ] {
            let middle = middle(first, last);
            assert!(*first < middle[..] && middle[..] <= *last, "{first:?} {middle:?} {last:?}");
        }
    }

    /// Whose only row always goes when the next one is there.
    #[test]
    fn a_table_that_is_never_empty_has_a_key() {
        let db = Database::in_memory().unwrap();
        let (table, is_done) = (db.byte_table("t").unwrap(), AtomicBool::new(false));
        table.put(&0_u64.to_be_bytes(), b"").unwrap();
        let missed = thread::scope(|scope| {
            scope.spawn(|| {
                for n in (0_u64..).take_while(|_| !is_done.load(Relaxed)) {
                    table.put(&(n + 1).to_be_bytes(), b"").unwrap();
                    assert!(table.remove(&n.to_be_bytes()).unwrap());
                }
            });
            let missed = (0..20_000).filter(|_| choose(&table).unwrap().is_none()).count();
            is_done.store(true, Relaxed);
            missed
        });
        assert_eq!(missed, 0);
    }

    /// Keys in clusters, of which one has most of the rows.
    #[test]
    fn every_part_is_met_as_often_as_it_is_large() {
        let db = Database::in_memory().unwrap();
        let table = db.byte_table("t").unwrap();
        assert_eq!(choose(&table).unwrap(), None);
        table.put(b"only", b"").unwrap();
        assert_eq!(choose(&table).unwrap().as_deref(), Some(&b"only"[..]));
        table.remove(b"only").unwrap();
        for (cluster, rows) in [("a:small:", 5_000), ("user:", 10_000), ("z", 5_000)] {
            for n in 0..rows {
                table.put(format!("{cluster}{n:08}").as_bytes(), b"").unwrap();
            }
        }
        let (mut met, draws) = (HashMap::<u8, u32>::new(), 400);
        for _ in 0..draws {
            let key = choose(&table).unwrap().unwrap();
            assert!(table.contains(&key).unwrap());
            *met.entry(key[0]).or_default() += 1;
        }
        for (cluster, expected) in [(b'a', draws / 4), (b'u', draws / 2), (b'z', draws / 4)] {
            let times = met.get(&cluster).copied().unwrap_or(0);
            assert!(times.abs_diff(expected) < expected / 2, "{} met {times} times", char::from(cluster));
        }
    }
}
