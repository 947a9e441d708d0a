//! Cycles in a directed graph.

use std::collections::{HashMap, VecDeque};

/// Nodes are numbers from 0, edges carry a label.
pub struct Graph<L> {
    edges: Vec<Vec<(usize, L)>>,
}

impl<L: Copy> Graph<L> {
    pub fn new(nodes: usize) -> Self {
        Self { edges: (0..nodes).map(|_| Vec::new()).collect() }
    }

    pub fn add_node(&mut self) -> usize {
        self.edges.push(Vec::new());
        self.edges.len() - 1
    }

    pub fn add_edge(&mut self, from: usize, to: usize, label: L) {
        if from != to {
            self.edges[from].push((to, label));
        }
    }

    pub fn edges(&self) -> usize {
        self.edges.iter().map(Vec::len).sum()
    }

    /// A shortest cycle through some node that is on one: its nodes, each with the label of the edge to the next.
    pub fn cycle(&self) -> Option<Vec<(usize, L)>> {
        let component = self.cyclic_component()?;
        let inside = |node: usize| component.binary_search(&node).is_ok();
        component.iter().filter_map(|&start| self.cycle_through(start, &inside)).min_by_key(Vec::len)
    }

    /// The nodes of a strongly connected component with more than one node, sorted.
    ///
    /// Source: Tarjan, "Depth-first search and linear graph algorithms" (SIAM J. Comput. 1972), with a stack of its own.
    fn cyclic_component(&self) -> Option<Vec<usize>> {
        const UNSEEN: usize = usize::MAX;
        let n = self.edges.len();
        let (mut order, mut low, mut on_stack) = (vec![UNSEEN; n], vec![0; n], vec![false; n]);
        let (mut stack, mut count) = (Vec::new(), 0);
        for root in 0..n {
            let mut path = Vec::new();
            if order[root] == UNSEEN {
                path.push((root, 0));
            }
            while let Some((node, next)) = path.last_mut() {
                let node = *node;
                if *next == 0 {
                    (order[node], low[node], on_stack[node]) = (count, count, true);
                    count += 1;
                    stack.push(node);
                }
                if let Some(&(to, _)) = self.edges[node].get(*next) {
                    *next += 1;
                    if order[to] == UNSEEN {
                        path.push((to, 0));
                    } else if on_stack[to] {
                        low[node] = low[node].min(order[to]);
                    }
                    continue;
                }
                path.pop();
                if let Some((parent, _)) = path.last() {
                    low[*parent] = low[*parent].min(low[node]);
                }
                if low[node] == order[node] {
                    let from = stack.iter().rposition(|n| *n == node).expect("it was pushed");
                    let mut component = stack.split_off(from);
                    component.iter().for_each(|node| on_stack[*node] = false);
                    if component.len() > 1 {
                        component.sort_unstable();
                        return Some(component);
                    }
                }
            }
        }
        None
    }

    fn cycle_through(&self, start: usize, inside: &dyn Fn(usize) -> bool) -> Option<Vec<(usize, L)>> {
        let mut reached: HashMap<usize, (usize, L)> = HashMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            for &(to, label) in self.edges[node].iter().filter(|(to, _)| inside(*to)) {
                if to == start {
                    let mut cycle = vec![(node, label)];
                    while let Some(&(before, label)) = reached.get(&cycle[0].0) {
                        cycle.insert(0, (before, label));
                    }
                    return Some(cycle);
                }
                if let std::collections::hash_map::Entry::Vacant(vacant) = reached.entry(to) {
                    vacant.insert((node, label));
                    queue.push_back(to);
                }
            }
        }
        None
    }
}
