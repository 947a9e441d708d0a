//! Walks a quiet tree, and compares it with what it should be.

use crate::olfit::arena::{NodeId, Worker};
use crate::olfit::node::{HIGH, LINK};
use crate::olfit::{Family, ROOT, Scheme, Tree};
use crate::probe::Silent;

/// What a walk has seen so far.
struct Walk {
    keys: usize,
    /// The node met last, by level.
    left: Vec<Option<NodeId>>,
}

impl<S: Scheme, const W: usize, F: Family> Tree<S, W, F> {
    /// Walks the tree while nobody changes it; the number of its keys, or what is wrong.
    pub fn check(&self) -> Result<usize, String> {
        let mut worker = self.worker(Silent);
        let root = self.root(&mut worker);
        let level = self.size(&mut worker, root).0;
        let mut walk = Walk { keys: 0, left: vec![None; level as usize + 1] };
        self.check_node(&mut worker, root, level, (0, u32::MAX), &mut walk)?;
        Ok(walk.keys)
    }

    /// The number of levels: 1 if the root is a leaf.
    pub fn height(&self) -> u32 {
        let mut worker = self.worker(Silent);
        let root = self.root(&mut worker);
        self.size(&mut worker, root).0 + 1
    }

    fn root(&self, worker: &mut Worker<'_, Silent>) -> NodeId {
        if S::ANCHORED { self.child_for(worker, ROOT, 1, 0).1 } else { ROOT }
    }

    fn check_node(
        &self,
        worker: &mut Worker<'_, Silent>,
        node: NodeId,
        level: u32,
        (low, high): (u32, u32),
        walk: &mut Walk,
    ) -> Result<(), String> {
        let (found, count) = self.size(worker, node);
        if found != level {
            return Err(format!("node {node} is of level {found} where {level} should be"));
        }
        let named = if level == 0 { count } else { count - 1 };
        let own: Vec<u32> = (0..named).map(|slot| self.key_at(worker, node, level, slot)).collect();
        if !own.is_sorted_by(|a, b| a < b) || own.iter().any(|key| !(low..high).contains(key)) {
            return Err(format!(
                "node {node} of level {level}: keys {own:?} are not in order within {low}..{high}"
            ));
        }
        if S::LINKED {
            self.check_links(worker, node, level, high, walk)?;
        }
        if level == 0 {
            walk.keys += count;
            return Ok(());
        }
        let bounds: Vec<u32> = std::iter::once(low).chain(own).chain([high]).collect();
        for pair in bounds.windows(2) {
            let (_, child) = self.child_for(worker, node, count, pair[0]);
            self.check_node(worker, child, level - 1, (pair[0], pair[1]), walk)?;
        }
        Ok(())
    }

    /// The high key is the bound, and a step to the right leads here from the left neighbour.
    fn check_links(
        &self,
        worker: &mut Worker<'_, Silent>,
        node: NodeId,
        level: u32,
        high: u32,
        walk: &mut Walk,
    ) -> Result<(), String> {
        let found = self.load(worker, node, HIGH);
        if found != high {
            return Err(format!("node {node} of level {level}: high key {found} instead of {high}"));
        }
        if let Some(left) = walk.left[level as usize].replace(node) {
            let right = if !F::GROUPED {
                self.load(worker, left, LINK)
            } else {
                let (group, slot) = Self::place_of(left);
                let is_last = slot + 1 == Self::INNER_MAX || self.load(worker, left + 1, HIGH) == 0;
                if is_last { self.load(worker, Self::header(group), LINK) } else { left + 1 }
            };
            if right != node {
                return Err(format!("node {left} of level {level}: to its right is {right}, not {node}"));
            }
        }
        Ok(())
    }
}
