//! Replaying records gives the pages that the original changes gave; decoding survives anything.

use super::model::{history, step};
use super::*;
use crate::version::Version;
use proptest::prelude::*;

/// Replays the log from record `from` on onto `pages`, each page by itself, as recovery does.
fn replay(log: &[Vec<u8>], from: usize, pages: &mut BTreeMap<PageId, Words>, page_bytes: usize) {
    for (index, body) in log.iter().enumerate().skip(from) {
        let change = Change::decode(body).unwrap();
        let (first, second) = change.pages();
        for id in [Some(first), second].into_iter().flatten() {
            let words = pages.entry(id).or_insert_with(|| RelaxedBytes::boxed(page_bytes));
            change
                .redo(page(words), id, Lsn(index as u64 + 1), Version::SETTLED)
                .unwrap_or_else(|e| panic!("record {index}: {e}"));
        }
    }
}

fn contents(pages: &BTreeMap<PageId, Words>) -> Vec<Content> {
    pages.values().map(|words| content(page(words))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 4000, ..ProptestConfig::default() })]

    /// Pages copied at any moments and replayed, from any record not after their copies, equal the originals; a
    /// second replay changes nothing, nor does one from the middle (C1 in `change.rs`).
    #[test]
    fn replay_equals_the_original((page_bytes, steps) in history(200), moments in any::<[u16; 4]>()) {
        let mut chain = Chain::new(page_bytes);
        let mut copied = BTreeMap::new();
        for (index, next) in steps.iter().enumerate() {
            step(&mut chain, index, next);
            // Some pages are written out now, others keep an older image or none.
            if moments.iter().any(|moment| usize::from(*moment) % steps.len() == index) {
                for (id, words) in chain.pages.iter().filter(|(id, _)| (id.0 + index as u64).is_multiple_of(3)) {
                    copied.insert(*id, same_words(words));
                }
            }
        }
        let original = contents(&chain.pages);
        replay(&chain.log, 0, &mut copied, page_bytes);
        prop_assert_eq!(&contents(&copied), &original);
        for from in [0, chain.log.len() / 2, chain.log.len() - 1] {
            let end = (from + chain.log.len()) / 2;
            replay(&chain.log[..end], from, &mut copied, page_bytes);
            prop_assert_eq!(&contents(&copied), &original, "a replay of {}..{} again", from, end);
        }
    }

    /// Bytes that were never a record: an error or a change, no panic, and redo of it hurts nobody.
    #[test]
    fn decoding_survives_any_bytes(mut body in prop::collection::vec(any::<u8>(), 0..200), kind in 0u8..10) {
        if let Some(first) = body.first_mut() {
            *first = kind;
        }
        if let Ok(change) = Change::decode(&body) {
            prop_assert_ne!(kind, 0);
            let mut again = Vec::new();
            change.encode(&mut again);
            prop_assert_eq!(again, body);
        }
    }
}

/// Records with flipped bytes, cut short or grown, applied to real pages: an error or some change, never a panic, and
/// afterwards every reading of the page ends.
#[test]
fn damaged_records_never_panic() {
    for seed in 0..4 {
        let mut random = Random(seed);
        let mut chain = Chain::new(4096);
        for n in 0..400u64 {
            let key = format!("user/{:03}", random.pick(300));
            chain.put(key.as_bytes(), &vec![n as u8; random.pick(60)], n);
            if random.pick(4) == 0 {
                chain.absorb(key.as_bytes());
            }
        }
        for round in 0..15_000 {
            let mut body = chain.log[random.pick(chain.log.len())].clone();
            for _ in 0..=random.pick(3) {
                let at = random.pick(body.len());
                body[at] =
                    if random.pick(2) == 0 { random.next() as u8 } else { body[at] ^ 1 << random.pick(8) };
            }
            match random.pick(8) {
                0 => body.truncate(random.pick(body.len() + 1)),
                1 => body.extend((0..random.pick(40)).map(|n| n as u8)),
                _ => {}
            }
            let Ok(change) = Change::decode(&body) else { continue };
            let (first, second) = change.pages();
            for id in [Some(first), second].into_iter().flatten() {
                let words = chain.pages.get(&id).map_or_else(|| only_leaf(4096), same_words);
                let page = page(&words);
                if change.redo(page, id, Lsn::MAX, Version::SETTLED).is_err() {
                    continue;
                }
                let Ok(mut leaf) = LeafCopy::of(page) else { continue };
                let _ = leaf.check();
                for index in 0..leaf.len() {
                    let _ = leaf.row(index);
                }
                let _ = lookup(page, b"user/123");
                let _ = upsert(page, b"user/123", &[0; 100], round);
                let _ = Split::plan(page, PageId(9999), b"user/123", 1000);
            }
        }
    }
}

/// A made-up split or merge of a leaf with itself is refused.
#[test]
fn no_leaf_is_its_own_neighbour() {
    let mut chain = Chain::new(4096);
    for n in 0..400u64 {
        chain.put(format!("user/{n:03}").as_bytes(), &[0; 60], n);
    }
    let mut splits = 0;
    for body in &chain.log {
        let Ok(Change::Split { table, right, separator, image, .. }) = Change::decode(body) else { continue };
        splits += 1;
        for made_up in [
            Change::Split { table, left: right, right, separator, image },
            Change::Absorb { table, left: right, right, image },
        ] {
            let mut body = Vec::new();
            made_up.encode(&mut body);
            assert!(Change::decode(&body).unwrap_err().contains("its own right neighbour"));
        }
    }
    assert!(splits > 0);
}

/// A put record is a few bytes beside key and value.
#[test]
fn a_put_record_is_compact() {
    let change = Change::Put { page: PageId(1), table: TABLE, key: b"key", value: b"value" };
    assert_eq!(change.encoded_len(), 4 + 3 + 5);
    let of_no_kind = &[0, 1, 16]; // of page 1 and table 16
    assert!(Change::decode(of_no_kind).unwrap_err().contains("no kind"));
}
