//! Where SCANs go on. A cursor is a number to clients, a key to us: the newest of them are remembered.
//!
//! Why: a key does not fit into a number. The memory is bounded, and a cursor can be used twice; one that is pushed out
//! by others gives an error, never wrong rows. Those go first whose scans have gone on or ended since: a scan of many steps
//! pushes out itself, not one that takes its time.

use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};

/// Cursors remembered.
const REMEMBERED: usize = 4096;

/// The places where SCANs go on.
#[derive(Default)]
pub struct Cursors(Mutex<Places>);

#[derive(Default)]
struct Places {
    /// The number given last; 0 means "from the beginning", and is never given.
    last: u64,
    by_cursor: BTreeMap<u64, Place>,
    /// Those of them whose scans have gone on, so that they are hardly used again; each once.
    passed: VecDeque<u64>,
}

struct Place {
    /// The cursor that this one was given for.
    before: u64,
    is_passed: bool,
    key: Vec<u8>,
}

impl Cursors {
    /// Remembers that the scan which came with the cursor `from` goes on behind `key`.
    pub fn remember(&self, from: u64, key: &[u8]) -> u64 {
        let mut places = self.0.lock();
        places.pass_before(from);
        places.last += 1;
        let cursor = places.last;
        places.by_cursor.insert(cursor, Place { before: from, is_passed: false, key: key.to_vec() });
        if places.by_cursor.len() > REMEMBERED {
            match places.passed.pop_front() {
                Some(passed) => places.by_cursor.remove(&passed),
                None => places.by_cursor.pop_first().map(|(_, place)| place),
            };
        }
        cursor
    }

    /// The scan which came with the cursor `from` has come to its end.
    pub fn end(&self, from: u64) {
        let mut places = self.0.lock();
        places.pass_before(from);
        places.pass(from);
    }

    /// The key behind which the scan goes on; `None` if that is forgotten.
    pub fn recall(&self, cursor: u64) -> Option<Vec<u8>> {
        self.0.lock().by_cursor.get(&cursor).map(|place| place.key.clone())
    }
}

impl Places {
    /// Who comes with `from` has it, and so does not need the one before. It may come with `from` again.
    fn pass_before(&mut self, from: u64) {
        if let Some(place) = self.by_cursor.get(&from) {
            self.pass(place.before);
        }
    }

    fn pass(&mut self, cursor: u64) {
        let place = self.by_cursor.get_mut(&cursor).filter(|place| !place.is_passed);
        if let Some(place) = place {
            place.is_passed = true;
            self.passed.push_back(cursor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_remembered() {
        let cursors = Cursors::default();
        assert_eq!(cursors.recall(0), None);
        let first = cursors.remember(0, b"first");
        assert_eq!(cursors.recall(first).as_deref(), Some(&b"first"[..]));
        for n in 1..REMEMBERED {
            cursors.remember(0, n.to_string().as_bytes());
        }
        assert!(cursors.recall(first).is_some(), "used twice, and still within the bound");
        let newest = cursors.remember(0, b"newest");
        assert_eq!(cursors.recall(first), None);
        assert_eq!(cursors.recall(newest).as_deref(), Some(&b"newest"[..]));
        assert_eq!(cursors.recall(newest + 1), None);
    }

    /// Else a scan that works on what it finds would have to begin again whenever another one is quick.
    #[test]
    fn a_scan_may_take_its_time_beside_others() {
        let cursors = Cursors::default();
        let slow = cursors.remember(0, b"slow");
        for _ in 0..3 * REMEMBERED {
            let short = cursors.remember(0, b"short");
            (0..2).for_each(|_| cursors.end(short));
        }
        let mut quick = 0;
        for n in 0..3 * REMEMBERED {
            let before = quick;
            quick = cursors.remember(before, n.to_string().as_bytes());
            assert!(n == 0 || cursors.recall(before).is_some(), "its reply may be lost");
        }
        assert_eq!(cursors.recall(slow).as_deref(), Some(&b"slow"[..]));
        let places = cursors.0.lock();
        assert!(places.by_cursor.len() <= REMEMBERED && places.passed.len() <= REMEMBERED);
    }
}
