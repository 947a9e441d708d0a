//! The leaf as a whole: a chain of leaves against a `BTreeMap`, replay against the original, readers against a writer.

mod copy;
mod cost;
mod disorder;
mod model;
mod race;
mod redo;

use super::*;
use crate::chance::Random;
use crate::page::Page;
use foreshore_base::sync::AtomicU64;
use foreshore_base::{Lsn, PageId, RelaxedBytes, TableId};
use std::collections::BTreeMap;

const TABLE: TableId = TableId(7);
const FIRST: PageId = PageId(1);

/// Memory of a page.
type Words = Box<[AtomicU64]>;

fn page(words: &Words) -> Page<'_> {
    Page(RelaxedBytes::new(words))
}

fn same_words(words: &Words) -> Words {
    let copy = RelaxedBytes::boxed(words.len() * 8);
    for index in 1..words.len() {
        RelaxedBytes::new(&copy).set_word(index, RelaxedBytes::new(words).word(index));
    }
    copy
}

/// An empty leaf that has the whole key space.
fn only_leaf(page_bytes: usize) -> Words {
    let words = RelaxedBytes::boxed(page_bytes);
    format(page(&words), FIRST, TABLE, b"", None, PageId::NONE);
    words
}

/// A table in miniature: leaves by page id, every change logged, no index.
struct Chain {
    page_bytes: usize,
    pages: BTreeMap<PageId, Words>,
    log: Vec<Vec<u8>>,
    splits_in_a_row_max: usize,
}

impl Chain {
    fn new(page_bytes: usize) -> Self {
        let mut chain = Self { page_bytes, pages: BTreeMap::new(), log: Vec::new(), splits_in_a_row_max: 0 };
        let words = only_leaf(page_bytes);
        let body = Change::Format { page: FIRST, table: TABLE, low: b"", high: None, right: PageId::NONE };
        let end = chain.append(&body);
        page(&words).set_lsn(end);
        chain.pages.insert(FIRST, words);
        chain
    }

    /// Logs a change; the end of its record. Record n ends at LSN n.
    fn append(&mut self, change: &Change<'_>) -> Lsn {
        let mut body = Vec::new();
        change.encode(&mut body);
        assert_eq!(body.len(), change.encoded_len());
        assert_eq!(Change::decode(&body).as_ref(), Ok(change));
        self.log.push(body);
        Lsn(self.log.len() as u64)
    }

    fn leaf(&self, id: PageId) -> Page<'_> {
        page(&self.pages[&id])
    }

    /// The leaf whose fences enclose `key`.
    fn seek(&self, key: &[u8]) -> PageId {
        let mut at = FIRST;
        loop {
            match route(self.leaf(at), TABLE, at, key).expect("nobody writes") {
                Route::Here => return at,
                Route::Right(next) => at = next,
                Route::Lost => panic!("the first leaf has the lowest keys"),
            }
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8], version: u64) {
        for splits in 0.. {
            let at = self.seek(key);
            if upsert(self.leaf(at), key, value, version).unwrap() {
                let end = self.append(&Change::Put { page: at, table: TABLE, key, value });
                self.leaf(at).set_lsn(end);
                self.splits_in_a_row_max = self.splits_in_a_row_max.max(splits);
                self.check(at);
                return;
            }
            assert!(splits < 2, "F6: two splits make room");
            self.split(at, key, value.len());
        }
    }

    /// Inserts the same value for a few keys that begin with `start`, as far as they are new and fit into one leaf: in one
    /// record. Those keys.
    fn insert_rows(&mut self, start: &[u8], value: &[u8], version: u64) -> Vec<Vec<u8>> {
        let key_bytes_max = Limits::for_page(self.page_bytes).key_bytes_max;
        let at = self.seek(start);
        let (mut body, mut keys) = (Vec::new(), Vec::new());
        Change::Rows { page: at, table: TABLE, rows: change::Rows::NONE }.encode(&mut body);
        for key in (0..6).map(|n| [start, &[n]].concat()) {
            if key.len() > key_bytes_max || self.seek(&key) != at || contains(self.leaf(at), &key).unwrap() {
                break;
            }
            if !upsert(self.leaf(at), &key, value, version).unwrap() {
                break;
            }
            change::Rows::push(&mut body, &key, value);
            keys.push(key);
        }
        if !keys.is_empty() {
            let end = self.append(&Change::decode(&body).unwrap());
            self.leaf(at).set_lsn(end);
            self.check(at);
        }
        keys
    }

    fn split(&mut self, at: PageId, key: &[u8], value_len: usize) {
        let split = Split::plan(self.leaf(at), self.next_id(), key, value_len).unwrap();
        self.apply_split(at, split);
    }

    /// Splits the leaf of `key` just before that, if it has rows on both sides.
    fn split_at(&mut self, key: &[u8]) -> bool {
        let at = self.seek(key);
        let split = Split::at(self.leaf(at), self.next_id(), key).unwrap();
        let rows: Vec<_> = content(self.leaf(at)).rows.into_iter().map(|(row, _)| row).collect();
        let has_both = rows.iter().any(|row| **row < *key) && rows.iter().any(|row| **row >= *key);
        assert!(has_both || split.is_none());
        split.map(|split| self.apply_split(at, split)).is_some()
    }

    fn next_id(&self) -> PageId {
        PageId(self.pages.keys().last().unwrap().0 + 1)
    }

    fn apply_split(&mut self, at: PageId, split: Split) {
        let (right, words) = (self.next_id(), RelaxedBytes::boxed(self.page_bytes));
        let end = self.append(&split.change());
        split.apply(self.leaf(at), page(&words), end);
        assert_eq!(page(&words).low_fence().as_deref(), Some(split.separator()));
        self.pages.insert(right, words);
        self.check(at);
        self.check(right);
    }

    fn remove(&mut self, key: &[u8]) -> bool {
        let at = self.seek(key);
        let is_there = contains(self.leaf(at), key).unwrap();
        remove(self.leaf(at), key).unwrap();
        if is_there {
            let end = self.append(&Change::Remove { page: at, table: TABLE, key });
            self.leaf(at).set_lsn(end);
            self.check(at);
        }
        is_there
    }

    /// Lets the leaf of `key` absorb its right neighbour, if they fit together.
    fn absorb(&mut self, key: &[u8]) -> bool {
        let at = self.seek(key);
        let right = self.leaf(at).right();
        if right.is_none() {
            return false;
        }
        let Some(absorb) = Absorb::plan(self.leaf(at), self.leaf(right)).unwrap() else { return false };
        let end = self.append(&absorb.change());
        absorb.apply(self.leaf(at), self.leaf(right), end);
        assert_eq!(route(self.leaf(right), TABLE, right, key), Ok(Route::Lost), "a dead leaf leads nowhere");
        self.check(at);
        true
    }

    fn get(&self, key: &[u8]) -> Option<(Vec<u8>, u64)> {
        let leaf = self.leaf(self.seek(key));
        let mut value = Vec::new();
        let version = get(leaf, key, &mut value).expect("nobody writes");
        assert_eq!(contains(leaf, key), Ok(version.is_some()));
        let place = |near| format!("{:?}", Place::find_near(leaf, key, near));
        for from in [0, 1, 2, 3, 20, 150, 1000] {
            for to in [from, from + 1, from + 32] {
                let near = Window::new(&(from..to));
                assert_eq!(lookup_near(leaf, key, near), lookup(leaf, key), "{key:?} looked for in {near:?}");
                assert_eq!(place(near), place(Window::default()), "{key:?} looked for in {near:?}");
            }
        }
        version.map(|version| (value, version))
    }

    fn check(&self, id: PageId) {
        LeafCopy::of(self.leaf(id))
            .and_then(|mut leaf| leaf.check().map_err(crate::Error::Argument))
            .unwrap();
    }

    /// All rows by walking the chain, every leaf and link checked.
    fn rows(&self) -> Rows {
        let mut rows = BTreeMap::new();
        let (mut at, mut low) = (FIRST, Vec::new());
        loop {
            self.check(at);
            let mut leaf = LeafCopy::of(self.leaf(at)).unwrap();
            assert_eq!(leaf.low_fence(), low, "the leaves tile the key space");
            for index in 0..leaf.len() {
                let row = leaf.row(index).unwrap();
                assert!(rows.insert(row.key.to_vec(), (row.value.to_vec(), row.version)).is_none());
            }
            match leaf.high_fence() {
                Some(high) => low = high.to_vec(),
                None => return rows,
            }
            at = leaf.right();
        }
    }
}

/// Key → value and version.
type Rows = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;

/// All that a page says, apart from where in it things lie.
#[derive(Debug, PartialEq)]
struct Content {
    id: PageId,
    lsn: Lsn,
    right: PageId,
    dead: bool,
    low: Vec<u8>,
    high: Option<Vec<u8>>,
    rows: Vec<(Vec<u8>, Vec<u8>)>,
    used_bytes: usize,
}

fn content(page: Page<'_>) -> Content {
    let mut leaf = LeafCopy::of(page).unwrap();
    leaf.check().unwrap();
    let mut rows = Vec::new();
    for index in 0..leaf.len() {
        let row = leaf.row(index).unwrap();
        rows.push((row.key.to_vec(), row.value.to_vec()));
    }
    Content {
        id: leaf.id(),
        lsn: page.lsn(),
        right: leaf.right(),
        dead: leaf.is_dead(),
        low: leaf.low_fence().to_vec(),
        high: leaf.high_fence().map(<[u8]>::to_vec),
        rows,
        used_bytes: leaf.layout().used_bytes(),
    }
}

/// A leaf that counts more dead bytes than it has has not the room that it seems to have.
#[test]
fn dead_bytes_that_are_not_there_are_damage() {
    let words = only_leaf(4096);
    let leaf = page(&words);
    for row in 0..10 {
        assert!(upsert(leaf, &[row], &[row; 380], 0).unwrap());
    }
    let header = leaf.header();
    leaf.set_counts(header.cells, header.heap_start, 1000);
    for key in [3, 77] {
        let refused = upsert(leaf, &[key], &[key; 700], 0).unwrap_err().to_string();
        assert!(refused.contains("F4"), "{refused}");
    }
    leaf.set_counts(header.cells, header.heap_start, header.dead_bytes);
    assert_eq!(content(leaf).rows.len(), 10, "nothing was changed");
}
