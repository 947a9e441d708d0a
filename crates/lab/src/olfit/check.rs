//! Walks a quiet tree, and compares it with what it should be.

use crate::olfit::arena::{NodeId, Worker};
use crate::olfit::{ROOT, Scheme, Tree};
use crate::probe::Silent;

impl<S: Scheme, const W: usize> Tree<S, W> {
    /// Walks the tree while nobody changes it; the number of its keys, or what is wrong.
    pub fn check(&self) -> Result<usize, String> {
        let mut worker = self.worker(Silent);
        let mut keys = 0;
        let root = if S::ANCHORED { self.child_for(&mut worker, ROOT, 1, 0).1 } else { ROOT };
        let level = self.size(&mut worker, root).0;
        self.check_node(&mut worker, root, level, (0, u32::MAX), &mut keys)?;
        Ok(keys)
    }

    /// The number of levels: 1 if the root is a leaf.
    pub fn height(&self) -> u32 {
        let mut worker = self.worker(Silent);
        let root = if S::ANCHORED { self.child_for(&mut worker, ROOT, 1, 0).1 } else { ROOT };
        self.size(&mut worker, root).0 + 1
    }

    fn check_node(
        &self,
        worker: &mut Worker<'_, Silent>,
        node: NodeId,
        level: u32,
        (low, high): (u32, u32),
        keys: &mut usize,
    ) -> Result<(), String> {
        let (found, count) = self.size(worker, node);
        if found != level {
            return Err(format!("node {node} is of level {found} where {level} should be"));
        }
        let named = if level == 0 { count } else { count - 1 };
        let own: Vec<u32> = (0..named).map(|slot| self.entry(worker, node, slot).0).collect();
        if !own.is_sorted_by(|a, b| a < b) || own.iter().any(|key| !(low..high).contains(key)) {
            return Err(format!(
                "node {node} of level {level}: keys {own:?} are not in order within {low}..{high}"
            ));
        }
        if level == 0 {
            *keys += count;
            return Ok(());
        }
        let bounds: Vec<u32> = std::iter::once(low).chain(own).chain([high]).collect();
        for pair in bounds.windows(2) {
            let (_, child) = self.child_for(worker, node, count, pair[0]);
            self.check_node(worker, child, level - 1, (pair[0], pair[1]), keys)?;
        }
        Ok(())
    }
}
