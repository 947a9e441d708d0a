//! Where SCANs go on. A cursor is a number to clients, a key to us: the newest of them are remembered.
//!
//! Why: a key does not fit into a number. The memory is bounded, and a cursor can be used twice; one that is pushed out
//! by newer ones gives an error, never wrong rows.

use parking_lot::Mutex;

/// Cursors remembered.
const REMEMBERED: usize = 4096;

/// The places where SCANs go on.
#[derive(Default)]
pub struct Cursors(Mutex<Ring>);

#[derive(Default)]
struct Ring {
    /// The number given last; 0 means "from the beginning", and is never given.
    last: u64,
    places: Vec<(u64, Vec<u8>)>,
}

impl Cursors {
    /// Remembers that a scan goes on behind `key`.
    pub fn remember(&self, key: &[u8]) -> u64 {
        let mut ring = self.0.lock();
        ring.last += 1;
        let (cursor, at) = (ring.last, ring.last as usize % REMEMBERED);
        if ring.places.len() <= at {
            ring.places.resize(at + 1, (0, Vec::new()));
        }
        ring.places[at] = (cursor, key.to_vec());
        cursor
    }

    /// The key behind which the scan goes on; `None` if that is forgotten.
    pub fn recall(&self, cursor: u64) -> Option<Vec<u8>> {
        let ring = self.0.lock();
        let (of, key) = ring.places.get(cursor as usize % REMEMBERED)?;
        (*of == cursor && cursor != 0).then(|| key.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_remembered() {
        let cursors = Cursors::default();
        assert_eq!(cursors.recall(0), None);
        let first = cursors.remember(b"first");
        assert_eq!(cursors.recall(first).as_deref(), Some(&b"first"[..]));
        for n in 1..REMEMBERED {
            cursors.remember(n.to_string().as_bytes());
        }
        assert!(cursors.recall(first).is_some(), "used twice, and still within the bound");
        let newest = cursors.remember(b"newest");
        assert_eq!(cursors.recall(first), None);
        assert_eq!(cursors.recall(newest).as_deref(), Some(&b"newest"[..]));
        assert_eq!(cursors.recall(newest + 1), None);
    }
}
