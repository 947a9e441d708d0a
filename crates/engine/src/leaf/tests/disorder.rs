//! Leaves whose rows are out of order, as only a crafted file has them: what is logged of them can also be done.

use super::*;

/// A split or absorption is refused before it is logged, or done.
#[test]
fn what_is_planned_of_disordered_leaves_can_be_done() {
    for seed in 0..300 {
        let mut random = Random(seed);
        let mut chain = Chain::new(4096);
        for n in 0..60u64 {
            let key = format!("{:0width$}", random.pick(100), width = 1 + random.pick(60));
            chain.put(key.as_bytes(), &vec![n as u8; random.pick(80)], n);
        }
        let ids: Vec<PageId> = chain.pages.keys().copied().collect();
        for id in ids {
            let (left, right) = (chain.leaf(id), chain.leaf(id).right());
            let cells = usize::from(left.header().cells);
            for _ in 0..4 {
                let slots = [random.pick(cells), random.pick(cells)].map(|n| layout::FIRST_SLOT_WORD + n);
                let words = slots.map(|at| left.0.word(at));
                left.0.set_word(slots[0], words[1]);
                left.0.set_word(slots[1], words[0]);
            }
            let scratch = [same_words(&chain.pages[&id]), only_leaf(4096)];
            let key = left.low_fence().unwrap();
            if let Ok(split) = Split::plan(page(&scratch[0]), PageId(9999), &key, 1000) {
                split.apply(page(&scratch[0]), page(&scratch[1]), Lsn::MAX);
            }
            let Some(words) = chain.pages.get(&right) else { continue };
            let scratch = [same_words(&chain.pages[&id]), same_words(words)];
            if let Ok(Some(absorb)) = Absorb::plan(page(&scratch[0]), page(&scratch[1])) {
                absorb.apply(page(&scratch[0]), page(&scratch[1]), Lsn::MAX);
            }
        }
    }
}
