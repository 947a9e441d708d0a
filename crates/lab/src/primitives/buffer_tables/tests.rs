//! All tables, against a model by one thread, and against what threads know of pages that they hold.

use super::*;
use foreshore_workloads::random::Random;
use std::collections::HashMap;

/// What a test gives for each table. The last is so small that pages have to make room for others.
macro_rules! each_table {
    ($test:ident, $frames:expr, $pages:expr) => {
        [
            $test(Chained::<OneMutex>::new(new_frames($frames), $pages)),
            $test(Chained::<MutexPerBucket>::new(new_frames($frames), $pages)),
            $test(Flat::new(new_frames($frames), $pages)),
            $test(Cuckoo::new(new_frames($frames), $pages)),
            $test(Cuckoo::with_third(new_frames($frames), $frames / 4)),
        ]
    };
}

const FRAMES: usize = 24;
const PAGES: u64 = 60;

/// What is where, and how often it is fixed.
#[derive(Default)]
struct Model {
    resident: HashMap<PageId, FrameId>,
    fixed: Vec<Fixed>,
    spares: Vec<Spare>,
    /// Pages that left for another one.
    gave_way: usize,
    /// Pages for which there was no place.
    refused: usize,
}

impl Model {
    fn is_fixed(&self, page: PageId) -> bool {
        self.fixed.iter().any(|fixed| fixed.page == page)
    }

    fn fix<T: BufferTable>(&mut self, table: &T, page: PageId) {
        let fixed = table.fix(page);
        assert_eq!(fixed.as_ref().map(|fixed| fixed.frame), self.resident.get(&page).copied());
        if let Some(fixed) = fixed {
            assert_eq!(table.read(&fixed), page.0);
            self.fixed.push(fixed);
        }
    }

    fn unfix<T: BufferTable>(&mut self, table: &T, at: usize) {
        let fixed = self.fixed.swap_remove(at);
        let stayed = self.resident.get(&fixed.page) == Some(&fixed.frame);
        let (page, read) = (fixed.page.0, table.read(&fixed));
        let believed = table.unfix(fixed);
        assert!(believed || !T::PINS);
        assert!(!believed || stayed && read == page);
    }

    fn evict<T: BufferTable>(&mut self, table: &T, page: PageId) {
        let stays = T::PINS && self.is_fixed(page);
        let spare = table.evict(page);
        let expected = self.resident.get(&page).filter(|_| !stays).copied();
        assert_eq!(spare.as_ref().map(|spare| spare.0), expected);
        if let Some(spare) = spare {
            self.resident.remove(&page);
            self.spares.push(spare);
        }
    }

    fn load<T: BufferTable>(&mut self, table: &T, page: PageId) {
        let Some(spare) = self.spares.pop() else { return };
        let frame = spare.0;
        let left_over = table.load(page, spare);
        let refused = left_over.as_ref().is_some_and(|left_over| left_over.0 == frame);
        if let Some(left_over) = left_over.as_ref().filter(|_| !refused) {
            let left = *self.resident.iter().find(|entry| *entry.1 == left_over.0).unwrap().0;
            assert!(!self.is_fixed(left));
            self.resident.remove(&left);
            self.gave_way += 1;
        }
        let known = self.resident.contains_key(&page);
        assert!(refused || !known, "{page} is there twice");
        if !refused {
            self.resident.insert(page, frame);
        } else if !known {
            assert!(self.fixed.len() >= 3, "{page} was refused");
            self.refused += 1;
        }
        self.spares.extend(left_over);
    }
}

/// How many pages gave way, and how many were refused.
fn follows_the_model<T: BufferTable>(table: T) -> (usize, usize) {
    let mut random = Random::new(11, 0);
    let spares = (0..FRAMES as u32).map(|frame| Spare(FrameId(frame))).collect();
    let mut model = Model { spares, ..Model::default() };
    for _ in 0..30_000 {
        let page = PageId(1 + random.below(PAGES));
        match random.below(8) {
            0..=2 => model.fix(&table, page),
            3 if !model.fixed.is_empty() => {
                let at = random.below(model.fixed.len() as u64) as usize;
                model.unfix(&table, at);
            }
            4 => model.evict(&table, page),
            _ => model.load(&table, page),
        }
    }
    (0..model.fixed.len()).for_each(|_| model.unfix(&table, 0));
    let entries: HashMap<_, _> = table.entries().into_iter().collect();
    assert_eq!(entries, model.resident);
    let pool = Pool { table, spares: Mutex::new(model.spares), hand: CachePadded::default() };
    pool.check().unwrap();
    (model.gave_way, model.refused)
}

#[test]
fn tables_do_as_the_model_does() {
    let [roomy @ .., small] = each_table!(follows_the_model, FRAMES, PAGES);
    assert_eq!(roomy, [(0, 0); 4]);
    assert!(small.0 > 0 && small.1 > 0, "{small:?}");
}

/// Three threads that fix, hold, evict and read pages, of which half are in frames. Each counts what it holds, so that a frame
/// which is given away too early is noticed by the one who gets it as well as by the one who loses it.
fn keeps_what_is_held<T: BufferTable>(table: T) {
    const THREADS: u64 = 3;
    let pool = Pool::over(table);
    let held: Vec<_> = pool.table.frames().iter().map(|_| AtomicU32::new(0)).collect();
    let holders = |frame: FrameId| &held[frame.0 as usize];
    let evict = |page| {
        if let Some(spare) = pool.table.evict(page) {
            assert!(
                !T::PINS || holders(spare.0).load(Relaxed) == 0,
                "{}: a page in use was evicted",
                T::NAME
            );
            pool.spares().push(spare);
        }
    };
    let visit = |random: &mut Random, then: &mut dyn FnMut(&mut Random)| {
        let page = PageId(1 + random.below(SMALL_PAGES));
        let Some(fixed) = pool.fix(page) else { return };
        holders(fixed.frame).fetch_add(1, Relaxed);
        let first = pool.table.read(&fixed);
        then(random);
        let last = pool.table.read(&fixed);
        holders(fixed.frame).fetch_sub(1, Relaxed);
        let believed = pool.unfix(fixed);
        assert!(believed || !T::PINS);
        assert!(!believed || (first, last) == (page.0, page.0), "{}: {page} is {first}, {last}", T::NAME);
    };
    std::thread::scope(|scope| {
        for me in 0..THREADS {
            let (visit, evict) = (&visit, &evict);
            scope.spawn(move || {
                let mut random = Random::new(5, me);
                for _ in 0..8_000 {
                    match random.below(4) {
                        0 => evict(PageId(1 + random.below(SMALL_PAGES))),
                        1 => visit(&mut random, &mut |_| std::thread::yield_now()),
                        2 => visit(&mut random, &mut |random| visit(random, &mut |_| ())),
                        _ => visit(&mut random, &mut |_| ()),
                    }
                }
            });
        }
    });
    pool.check().unwrap();
}

const SMALL: usize = 7;
const SMALL_PAGES: u64 = 14;

#[test]
fn a_page_stays_while_it_is_held() {
    each_table!(keeps_what_is_held, SMALL, SMALL_PAGES);
}

/// Pages that all fit stay, whoever fixes them, and each says who it is.
#[test]
fn a_pool_reads_every_page() {
    fn reads<T: BufferTable>(table: T) {
        let pool = Pool::over(table);
        for page in (1..=PAGES).chain(1..=PAGES) {
            assert_eq!(pool.read(PageId(page)), page, "{}", T::NAME);
        }
        pool.check().unwrap();
    }
    each_table!(reads, FRAMES, PAGES);
}

/// B2: where everything is pinned, a page finds no room, and says so.
#[test]
fn pinned_pages_leave_no_room() {
    fn fills<T: BufferTable>(table: T) {
        let pool = Pool::over(table);
        let fixed: Vec<_> = (1..=PAGES).map_while(|page| pool.fix(PageId(page))).collect();
        assert_eq!(fixed.len() < PAGES as usize, T::PINS, "{}", T::NAME);
        assert!(fixed.len() <= FRAMES || !T::PINS);
        let believed = fixed.into_iter().map(|fixed| pool.unfix(fixed)).filter(|believed| *believed).count();
        assert!(believed <= FRAMES);
        assert_eq!(pool.read(PageId(PAGES)), PAGES);
        pool.check().unwrap();
    }
    each_table!(fills, FRAMES, PAGES);
}
