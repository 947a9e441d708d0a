//! A chain of leaves against a `BTreeMap`.

use super::*;
use proptest::prelude::*;

/// One step of a random history.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Put(Vec<u8>, usize),
    /// New keys that begin with this one, in one record.
    Rows(Vec<u8>, usize),
    Remove(Vec<u8>),
    Absorb(Vec<u8>),
    /// A split just before this key.
    Split(Vec<u8>),
}

/// Keys that provoke what can go wrong: ties of heads, trailing zeros, long common prefixes, the longest keys.
pub(super) fn key(key_bytes_max: usize) -> impl Strategy<Value = Vec<u8>> {
    let nasty_bytes = prop::sample::select(vec![0u8, 1, b'a', 0xFF]);
    prop_oneof![
        3 => prop::collection::vec(nasty_bytes.clone(), 0..7),
        3 => any::<u16>().prop_map(|n| u32::from(n).to_be_bytes().to_vec()),
        2 => (prop::collection::vec(nasty_bytes, 0..6)).prop_map(|end| [b"a long common prefix/".as_slice(), &end].concat()),
        2 => any::<u16>().prop_map(|n| format!("user/{n:08}/profile").into_bytes()),
        2 => (0..=2usize, any::<u8>(), any::<u8>()).prop_map(move |(less, first, last)| {
            let mut key = vec![b'k'; key_bytes_max - less];
            key[0] = b'j' + first % 3;
            *key.last_mut().unwrap() = last % 8;
            key
        }),
    ]
}

fn value_len(value_bytes_max: usize) -> impl Strategy<Value = usize> {
    prop_oneof![6 => 0..20usize, 3 => 0..300usize, 1 => value_bytes_max - 2..=value_bytes_max]
}

pub(super) fn steps(page_bytes: usize, count: usize) -> impl Strategy<Value = Vec<Step>> {
    let limits = Limits::for_page(page_bytes);
    let key = key(limits.key_bytes_max);
    let step =
        (key, value_len(limits.value_bytes_max), 0..20u8).prop_map(|(key, len, choice)| match choice {
            0..10 => Step::Put(key, len),
            10..13 => Step::Rows(key, len),
            13..17 => Step::Remove(key),
            17..19 => Step::Absorb(key),
            _ => Step::Split(key),
        });
    prop::collection::vec(step, 0..count)
}

pub(super) fn history(count: usize) -> impl Strategy<Value = (usize, Vec<Step>)> {
    let page_bytes = prop::sample::select(vec![4096usize, 4096, 4096, 8192, 16384, 32768]);
    page_bytes.prop_flat_map(move |page_bytes| (Just(page_bytes), steps(page_bytes, count)))
}

/// The value of step `index`: its bytes tell whose it is.
pub(super) fn value(index: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (index * 31 + at) as u8).collect()
}

/// Does step `index` to the chain.
pub(super) fn step(chain: &mut Chain, index: usize, step: &Step) {
    match step {
        Step::Put(key, len) => chain.put(key, &value(index, *len), index as u64),
        Step::Rows(key, len) => _ = chain.insert_rows(key, &value(index, *len), index as u64),
        Step::Remove(key) => _ = chain.remove(key),
        Step::Absorb(key) => _ = chain.absorb(key),
        Step::Split(key) => _ = chain.split_at(key),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 4000, ..ProptestConfig::default() })]

    /// Whatever is put, removed, split and absorbed, the chain holds what a `BTreeMap` holds, and each leaf touched
    /// keeps every invariant.
    #[test]
    fn a_chain_is_a_map((page_bytes, steps) in history(500)) {
        let mut chain = Chain::new(page_bytes);
        let mut model = Rows::new();
        for (index, next) in steps.iter().enumerate() {
            match next {
                Step::Put(key, len) => {
                    model.insert(key.clone(), (value(index, *len), index as u64));
                    chain.put(key, &value(index, *len), index as u64);
                    prop_assert_eq!(chain.get(key), model.get(key).cloned());
                }
                Step::Rows(key, len) => {
                    for key in chain.insert_rows(key, &value(index, *len), index as u64) {
                        prop_assert_eq!(model.insert(key, (value(index, *len), index as u64)), None);
                    }
                }
                Step::Remove(key) => {
                    prop_assert_eq!(chain.remove(key), model.remove(key).is_some());
                    prop_assert_eq!(chain.get(key), None);
                }
                Step::Absorb(key) => {
                    chain.absorb(key);
                    prop_assert_eq!(chain.get(key), model.get(key).cloned());
                }
                Step::Split(key) => {
                    let has_split = chain.split_at(key);
                    prop_assert!(!has_split || chain.leaf(chain.seek(key)).low_fence().as_ref() == Some(key));
                    prop_assert_eq!(chain.get(key), model.get(key).cloned());
                }
            }
        }
        prop_assert_eq!(chain.rows(), model);
    }

    /// From any bound, a copy lists the same rows as the map, forwards and backwards.
    #[test]
    fn a_copy_lists_rows_from_any_bound((page_bytes, steps) in history(100), bound in key(992)) {
        let mut chain = Chain::new(page_bytes);
        for (index, next) in steps.iter().enumerate() {
            step(&mut chain, index, next);
        }
        let model = chain.rows();
        let mut leaf = LeafCopy::of(chain.leaf(chain.seek(&bound))).unwrap();
        let high = leaf.high_fence().map(<[u8]>::to_vec);
        let from = leaf.lower_bound(&bound).unwrap();
        let mut above = Vec::new();
        for index in from..leaf.len() {
            above.push(leaf.row(index).unwrap().key.to_vec());
        }
        let expected = model.keys().filter(|key| **key >= bound && high.as_ref().is_none_or(|high| *key < high));
        prop_assert!(expected.eq(above.iter()));
        let mut below = Vec::new();
        for index in (0..from).rev() {
            below.push(leaf.row(index).unwrap().key.to_vec());
        }
        let low = leaf.low_fence().to_vec();
        prop_assert!(model.keys().rev().filter(|key| **key < bound && **key >= low).eq(below.iter()));
        prop_assert_eq!(leaf.lower_bound(&low).unwrap(), 0);
    }
}

/// Keys that differ in trailing zeros only, or in length beyond an equal head, are different keys.
#[test]
fn heads_that_tie_are_told_apart() {
    let mut keys: Vec<Vec<u8>> =
        ["", "a", "a\0", "a\0\0", "a\0\0\0", "a\0\0\0\0", "aaaa", "aaaab", "aaaac", "aaaabb", "aaab"]
            .map(|key| key.as_bytes().to_vec())
            .into();
    keys.extend([
        vec![0],
        vec![0, 0],
        vec![0; 5],
        vec![0xFF; 3],
        vec![0xFF; 4],
        vec![0xFF; 5],
        vec![0xFF; 6],
    ]);
    for skip in 0..keys.len() {
        let mut chain = Chain::new(4096);
        for (index, key) in keys.iter().enumerate().filter(|(index, _)| *index != skip) {
            chain.put(key, key, index as u64);
        }
        for (index, key) in keys.iter().enumerate() {
            let expected = (index != skip).then(|| (key.clone(), index as u64));
            assert_eq!(chain.get(key), expected, "{key:?}");
        }
    }
}

/// The largest cells go in wherever they come (F6; the chain asserts that two splits are enough).
#[test]
fn the_largest_cells_always_find_room() {
    for page_bytes in [4096, 8192, 16384, 32768] {
        let limits = Limits::for_page(page_bytes);
        let (key_bytes_max, largest) = (limits.key_bytes_max, limits.reference_bytes());
        for seed in 0..300 {
            let mut random = Random(seed);
            let mut chain = Chain::new(page_bytes);
            let mut model = Rows::new();
            for version in 0..40 {
                let mut key = vec![b'm'; key_bytes_max];
                key[0] = [b'a', b'm', b'm', b'm', b'z'][random.pick(5)];
                key[key_bytes_max - 1] = random.next() as u8;
                let len = [largest, largest - 47, 0, 1][random.pick(4)];
                let value = vec![version as u8; len];
                chain.put(&key, &value, version);
                model.insert(key, (value, version));
            }
            assert_eq!(chain.rows(), model, "page {page_bytes}, seed {seed}");
        }
    }
}

/// A cell of the largest size comes between two that fill their page, all with the longest fences and separators:
/// no cut has room for it with either neighbour, so the split has to be repeated, once (F6).
#[test]
fn the_worst_cell_takes_two_splits() {
    for (page_bytes, splits) in [(4096, 2), (8192, 2), (16384, 1), (32768, 0)] {
        let limits = Limits::for_page(page_bytes);
        let (key_bytes_max, largest) = (limits.key_bytes_max, limits.reference_bytes());
        let key = |first: u8, last: u8| {
            let mut key = vec![first; key_bytes_max];
            key[key_bytes_max - 1] = last;
            key
        };
        let mut chain = Chain::new(page_bytes);
        let (low, high) = (key(b'a', 0), key(b'z', 0));
        format(chain.leaf(FIRST), FIRST, TABLE, &low, Some(&high), PageId(99));
        let beside = (page_bytes - 64 - 2 * key_bytes_max) / 2 - (key_bytes_max + 14);
        for last in [1, 3, 2] {
            let len = if last == 2 { largest } else { beside.min(largest) };
            chain.put(&key(b'm', last), &vec![last; len], 1);
        }
        assert_eq!(chain.splits_in_a_row_max, splits, "{page_bytes} bytes");
    }
}

/// Ascending keys leave their leaves full, random ones about two thirds.
#[test]
fn ascending_loads_fill_leaves() {
    let fill = |chain: &Chain| {
        let used: usize = chain.pages.values().map(|words| content(page(words)).used_bytes).sum();
        used as f64 / (chain.pages.len() * chain.page_bytes) as f64
    };
    let mut ascending = Chain::new(4096);
    let mut scattered = Chain::new(4096);
    for n in 0..20_000u32 {
        ascending.put(&n.to_be_bytes(), &[1; 8], 0);
        scattered.put(&n.wrapping_mul(0x9E37_79B1).to_be_bytes(), &[1; 8], 0);
    }
    assert!(fill(&ascending) > 0.95, "ascending: {}", fill(&ascending));
    assert!(fill(&scattered) > 0.6, "scattered: {}", fill(&scattered));
}

/// Rows that ascend in several ranges of the table at once leave full leaves behind, too, and splits move little.
#[test]
fn runs_within_a_table_fill_leaves() {
    const RUNS: u16 = 10;
    let mut chain = Chain::new(8192);
    for n in 0..2000u32 {
        for run in 0..RUNS {
            // A few rows of one run, then some of the next: how orders of several districts come.
            for row in 0..5u32 {
                let key = [&run.to_be_bytes()[..], &(n * 5 + row).to_be_bytes()].concat();
                chain.put(&key, &[7; 40], 1);
            }
        }
    }
    let used: usize = chain.pages.values().map(|words| content(page(words)).used_bytes).sum();
    let filled = used * 100 / (chain.pages.len() * 8192);
    assert!(filled > 75, "leaves are {filled} % full");
    assert_eq!(chain.rows().len(), 2000 * 5 * usize::from(RUNS));
}

/// A replacement that grows and shrinks over and over lives on compaction alone.
#[test]
fn replacing_reuses_dead_bytes() {
    let mut chain = Chain::new(4096);
    let mut random = Random(5);
    for round in 0..5000usize {
        let key = [random.pick(16) as u8];
        let len = random.pick(200);
        chain.put(&key, &value(round, len), round as u64);
        assert_eq!(chain.get(&key), Some((value(round, len), round as u64)), "round {round}");
    }
    assert_eq!(chain.pages.len(), 1);
}

/// Neighbours that were split come together again when they have emptied, and only then.
#[test]
fn underfull_leaves_merge() {
    let mut chain = Chain::new(4096);
    for n in 0..1000u32 {
        chain.put(&n.to_be_bytes(), b"12345678", 0);
    }
    assert!(!chain.absorb(&[]), "full leaves stay apart");
    for n in (0..1000u32).filter(|n| n % 8 != 0) {
        assert!(chain.remove(&n.to_be_bytes()));
    }
    assert_eq!(is_underfull(chain.leaf(FIRST)), Ok(true));
    while chain.absorb(&[]) {}
    let leaf = content(chain.leaf(FIRST));
    assert!(leaf.rows.len() >= 100 && leaf.used_bytes <= 4096 / 5 * 4, "{} rows", leaf.rows.len());
    assert_eq!(chain.rows().len(), 125);
}

/// A bulk load by builders: ready-made right leaves, nothing moves, all keys stay.
#[test]
fn a_bulk_load_appends_ready_made_leaves() {
    for page_bytes in [4096, 32768] {
        let mut chain = Chain::new(page_bytes);
        let keys: Vec<Vec<u8>> = (0..5000).map(|n| format!("customer/{n:06}/name").into_bytes()).collect();
        let mut rows = keys.iter().zip(0..).peekable();
        let mut at = FIRST;
        while let Some((key, _)) = rows.peek() {
            let last = LeafCopy::of(chain.leaf(at)).unwrap();
            let low = match last.len() {
                0 => b"a".to_vec(),
                rows => split::separator(
                    {
                        let mut last = last;
                        last.row(rows - 1).unwrap().key.to_vec()
                    }
                    .as_slice(),
                    key,
                )
                .to_vec(),
            };
            let mut builder = Builder::new(page_bytes, &low, None);
            while let Some((key, n)) =
                rows.next_if(|(key, n)| builder.load(key, key, *n, page_bytes * 9 / 10))
            {
                let _ = (key, n);
            }
            let right = PageId(at.0 + 1);
            let words = RelaxedBytes::boxed(page_bytes);
            let split = Split::append(chain.leaf(at), right, low, builder).unwrap();
            let end = chain.append(&split.change());
            split.apply(chain.leaf(at), page(&words), end);
            chain.pages.insert(right, words);
            at = right;
        }
        let expected: Rows = keys.iter().zip(0..).map(|(key, n)| (key.clone(), (key.clone(), n))).collect();
        assert_eq!(chain.rows(), expected);
        let fullest = content(chain.leaf(at)).rows.len();
        assert!(fullest > 0);
    }
}
