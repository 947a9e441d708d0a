//! Readers who show themselves, and who closes their bucket, under every interleaving and every reordering that the memory model allows.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p foreshore-base --release --test loom_shown`.
//! The seeded bugs `lock_shown_without_fence` and `lock_shown_again_unnoticed` must each make a test fail.
#![cfg(loom)]

#[allow(dead_code)] // the engine uses the rest
#[path = "../../engine/src/lock/shown.rs"]
mod shown;

use foreshore_base::sync::Ordering::Relaxed;
use foreshore_base::sync::{AtomicU64, Mutex, thread};
use loom::sync::Arc;
use shown::{Door, Places};
use std::num::NonZeroU64;

const ROW: NonZeroU64 = NonZeroU64::new(1).unwrap();
const OTHER: NonZeroU64 = NonZeroU64::new(2).unwrap();

/// An open bucket with two names, one owner who reads, and two words of the row that a writer changes together.
struct World {
    door: Door,
    /// The bucket's latch, and the requests behind it: names that the owner reads.
    requests: Mutex<Vec<NonZeroU64>>,
    places: [Places; 1],
    words: [AtomicU64; 2],
}

fn world() -> Arc<World> {
    let words = [AtomicU64::new(0), AtomicU64::new(0)];
    let door = Door::default();
    while !door.is_open() {
        door.count_read(false, || true);
    }
    Arc::new(World { door, requests: Mutex::default(), places: Default::default(), words })
}

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(4);
    builder.check(model);
}

impl World {
    fn row(&self) -> [u64; 2] {
        [0, 1].map(|word: usize| self.words[word].load(Relaxed))
    }

    /// Locks `name` to read it, reads the row, and ends.
    fn read(&self, name: NonZeroU64) -> [u64; 2] {
        let [places] = &self.places;
        if !places.show(name, &self.door) {
            let _latched = self.requests.lock().unwrap(); // stands for a request
            return self.row();
        }
        let row = self.row();
        for moved in places.empty() {
            let mut requests = self.requests.lock().unwrap();
            let at = requests.iter().position(|request| *request == moved);
            requests.swap_remove(at.expect("what was moved is a request"));
        }
        row
    }

    /// Changes the row, if nobody has locked it; it does so under the latch, which stands for a lock.
    fn write(&self) -> bool {
        let mut requests = self.requests.lock().unwrap();
        if self.door.is_open() {
            self.door.close(|| &self.places, |_| true, |_, name| requests.push(name));
        }
        let is_free = !requests.contains(&ROW);
        if is_free {
            self.words.iter().for_each(|word| word.store(1, Relaxed));
        }
        is_free
    }
}

/// A reader of the row and a writer exclude each other, and nothing is left.
#[test]
fn a_shown_reader_keeps_a_writer_out() {
    explore(|| {
        let world = world();
        let reader = {
            let world = world.clone();
            thread::spawn(move || world.read(ROW))
        };
        let wrote = world.write();
        let row = reader.join().unwrap();
        assert_eq!(row[0], row[1], "half a change was read");
        assert!(wrote || row == [0, 0], "a change that was not made");
        assert!(!world.places[0].any() && world.requests.lock().unwrap().is_empty());
    });
}

/// The same if the reader has shown another name in its place just before.
#[test]
fn a_place_that_is_used_again_is_another() {
    explore(|| {
        let world = world();
        let reader = {
            let world = world.clone();
            thread::spawn(move || {
                world.read(OTHER);
                world.read(ROW)
            })
        };
        world.write();
        let row = reader.join().unwrap();
        assert_eq!(row[0], row[1], "half a change was read");
        assert!(!world.places[0].any() && world.requests.lock().unwrap().is_empty());
    });
}
