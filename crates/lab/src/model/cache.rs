//! A set-associative cache of numbers (lines, or pages), with least-recently-used replacement.

/// An empty place.
const NOBODY: u64 = u64::MAX;

/// Which numbers are held. A set's numbers stand in the order of their last use, the newest first.
#[derive(Clone, Debug)]
pub struct Cache {
    ways: usize,
    sets: u64,
    places: Vec<u64>,
}

impl Cache {
    /// Room for `entries` numbers in sets of `ways`.
    ///
    /// Panics if there is not one whole set.
    pub fn new(entries: u64, ways: usize) -> Self {
        let sets = entries / ways as u64;
        assert!(sets > 0, "a cache of {entries} entries has no set of {ways}");
        Self { ways, sets, places: vec![NOBODY; sets as usize * ways] }
    }

    fn set(&mut self, number: u64) -> &mut [u64] {
        let first = (number % self.sets) as usize * self.ways;
        &mut self.places[first..first + self.ways]
    }

    /// Uses `number`: was it held? It is the newest of its set then.
    #[inline]
    pub fn touch(&mut self, number: u64) -> bool {
        let set = self.set(number);
        let found = set.iter().position(|held| *held == number);
        if let Some(at) = found {
            set[..=at].rotate_right(1);
        }
        found.is_some()
    }

    /// Takes in a `number` that is not held; returns the one that had to go for it.
    #[inline]
    pub fn insert(&mut self, number: u64) -> Option<u64> {
        let set = self.set(number);
        let gone = set[set.len() - 1];
        set.rotate_right(1);
        set[0] = number;
        (gone != NOBODY).then_some(gone)
    }

    /// Uses `number`, taking it in if need be: was it held?
    #[inline]
    pub fn access(&mut self, number: u64) -> bool {
        let held = self.touch(number);
        if !held {
            self.insert(number);
        }
        held
    }

    /// Lets go of `number` if it is held.
    pub fn remove(&mut self, number: u64) {
        let set = self.set(number);
        if let Some(at) = set.iter().position(|held| *held == number) {
            set[at..].rotate_left(1);
            set[set.len() - 1] = NOBODY;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: one set of two ways. 1 and 2 fill it; touching 1 makes 2 the older, so 3 replaces 2.
    #[test]
    fn the_least_recently_used_goes() {
        let mut cache = Cache::new(2, 2);
        assert_eq!((cache.insert(1), cache.insert(2)), (None, None));
        assert!(cache.touch(1));
        assert_eq!(cache.insert(3), Some(2));
        assert!(cache.touch(1) && cache.touch(3) && !cache.touch(2));
        cache.remove(3);
        assert!(!cache.touch(3) && cache.touch(1));
        assert_eq!(cache.insert(4), None);
    }

    /// Numbers of different sets do not meet.
    #[test]
    fn sets_are_apart() {
        let mut cache = Cache::new(4, 1);
        assert!((0..4).all(|number| !cache.access(number)));
        assert!((0..4).all(|number| cache.access(number)));
        assert!(!cache.access(4));
        assert!(!cache.access(0) && cache.access(1));
    }
}
