//! What is broken in a node, while nobody else is active.

use super::pack::Entry;
use super::{Bound, BytesNode, Slot, print_of, second_of};

impl<const F: usize, const H: usize> BytesNode<F, H> {
    /// Names the first invariant found broken.
    pub(super) fn check_content(&self) -> Result<(), String> {
        let mut arena = Vec::new();
        let entries = self.unpack(&mut arena).entries;
        self.check_entries(&entries)?;
        self.check_unused(entries.len())?;
        self.check_ties(entries.len())?;
        self.blocks.check(Self::BLOCKS, self.block_heads())?;
        if (self.header.link() == 0) != (self.bound() == Bound::Infinite) {
            return Err(format!("Y3: bound {:?} with link {:#x}", self.bound(), self.header.link()));
        }
        self.check_heap()
    }

    /// The order of the entries, their prints, and their second words; not those of the entry without a bound (Y1).
    fn check_entries(&self, entries: &[Entry]) -> Result<(), String> {
        let bounded = entries.iter().enumerate().filter(|(i, _)| !self.is_unbounded_entry(*i));
        for (i, entry) in bounded {
            let suffix = &entry.key[self.prefix_len()..];
            if entries.get(i + 1).is_some_and(|next| entry.key >= next.key) {
                return Err(format!("order: entries {i} and {}", i + 1));
            }
            if self.slot(i).print() != print_of(suffix) {
                return Err(format!("Y6: the print of entry {i}"));
            }
            if !self.has_second(i, second_of(suffix)) {
                return Err(format!("Y7: the second word of entry {i}"));
            }
        }
        Ok(())
    }

    fn has_second(&self, i: usize, second: u64) -> bool {
        self.seconds().is_none_or(|seconds| seconds.get(i) == second)
    }

    fn check_unused(&self, count: usize) -> Result<(), String> {
        if (count..F).all(|i| self.head(i) == u64::MAX && self.has_second(i, u64::MAX)) {
            Ok(())
        } else {
            Err("Y2: an unused head is not the greatest".into())
        }
    }

    fn check_ties(&self, count: usize) -> Result<(), String> {
        let says_none = self.seconds().is_some() && !self.has_ties();
        if says_none && (1..count).any(|i| self.head(i - 1) == self.head(i)) {
            return Err("Y7: equal heads, and the node says that there are none".into());
        }
        Ok(())
    }

    /// Cells and what is dead make up the heap in use.
    fn check_heap(&self) -> Result<(), String> {
        let (live, dead) = (self.cells().map(Slot::heap_bytes).sum::<usize>(), self.heap_dead());
        if live + dead != self.heap_end() {
            return Err(format!("heap: {live} live and {dead} dead of {}", self.heap_end()));
        }
        Ok(())
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::node::Node;
    use crate::pooled::Pooled;
    use foreshore_base::sync::Ordering::Relaxed;

    #[test]
    fn a_wrong_print_is_found() {
        let node = BytesNode::<64, 88>::vacant();
        node.reset(0);
        node.insert_at(0, b"longer than a head", 1);
        node.check().unwrap();
        let slot = node.slot(0);
        let wrong = Slot::new(slot.offset(), slot.print() ^ 1, slot.suffix_len() as u8);
        node.slots[0].store(wrong.0, Relaxed);
        assert_eq!(node.check(), Err("Y6: the print of entry 0".into()));
    }
}
