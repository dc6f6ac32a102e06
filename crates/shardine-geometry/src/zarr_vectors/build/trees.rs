//! Skeletons: each tree from its root down.

use super::invalid;
use crate::GeometryError;

/// Bytes for each vertex while trees are walked: its parent, its place, where its children begin,
/// its place among them, and the walk.
const EACH: u64 = 20;

/// No parent.
const NONE: u32 = u32::MAX;

/// The parent of each vertex.
#[derive(Debug, Default)]
pub(super) struct Trees {
    parents: Vec<u32>,
    /// Children in the order of their edges.
    edges: Vec<u32>,
}

impl Trees {
    /// Counts `rows` vertices in all, within `memory` bytes.
    pub fn grow(&mut self, rows: u64, memory: u64) -> Result<(), GeometryError> {
        let fits = rows.saturating_mul(EACH) <= memory;
        match usize::try_from(rows).ok().filter(|_| fits && rows < u64::from(NONE)) {
            Some(rows) => {
                self.parents.resize(rows, NONE);
                Ok(())
            }
            None => {
                let needs = rows.saturating_mul(EACH) >> 20;
                let reason = format!(
                    "{rows} vertices or more of skeletons need {needs} MiB of memory, which is more \
                     than their share; give more memory, or write them as a graph"
                );
                Err(invalid("skeletons", reason))
            }
        }
    }

    /// Adds an edge from a child to its parent.
    pub fn add(&mut self, child: u64, parent: u64) -> Result<(), GeometryError> {
        let at = usize::try_from(child).ok().filter(|at| *at < self.parents.len());
        let known = usize::try_from(parent).is_ok_and(|at| at < self.parents.len());
        let (Some(at), true) = (at, known) else {
            let rows = self.parents.len();
            let reason = format!("joins rows {child} and {parent}, and there are {rows}");
            return Err(invalid("an edge", reason));
        };
        if self.parents[at] != NONE {
            let reason = format!(
                "has two parents, rows {} and {parent}; edges of a skeleton are (child, parent)",
                self.parents[at]
            );
            return Err(invalid(format!("row {child}"), reason));
        }
        // Both are below the number of vertices, which 32 bits count.
        self.parents[at] = parent as u32;
        self.edges.push(child as u32);
        Ok(())
    }

    /// The place of each vertex in the order in which trees are stored: each one after its parent,
    /// and the first child immediately after it.
    pub fn places(&self) -> Result<Vec<u32>, GeometryError> {
        let count = self.parents.len();
        let mut begin = vec![0u32; count + 1];
        for &child in &self.edges {
            begin[self.parents[child as usize] as usize + 1] += 1;
        }
        for at in 0..count {
            begin[at + 1] += begin[at];
        }
        let (mut next, mut children) = (begin.clone(), vec![0u32; self.edges.len()]);
        for &child in &self.edges {
            let place = &mut next[self.parents[child as usize] as usize];
            children[*place as usize] = child;
            *place += 1;
        }
        drop(next);
        let (mut places, mut walked, mut stack) = (vec![NONE; count], 0u32, Vec::new());
        for (root, _) in (0u32..).zip(&self.parents).filter(|(_, parent)| **parent == NONE) {
            stack.push(root);
            while let Some(vertex) = stack.pop() {
                let vertex = vertex as usize;
                places[vertex] = walked;
                walked += 1;
                let of = &children[begin[vertex] as usize..begin[vertex + 1] as usize];
                stack.extend(of.iter().rev());
            }
        }
        if let Some(row) = places.iter().position(|place| *place == NONE) {
            let reason = "is its own ancestor: the edges of a skeleton must not form a loop";
            return Err(invalid(format!("row {row}"), reason.to_owned()));
        }
        Ok(places)
    }

    /// Whether a vertex has no parent.
    pub fn is_root(&self, row: u64) -> bool {
        let at = usize::try_from(row).unwrap_or(usize::MAX);
        self.parents.get(at).is_some_and(|parent| *parent == NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trees(count: u64, edges: &[(u64, u64)]) -> Result<Vec<u32>, GeometryError> {
        let mut trees = Trees::default();
        trees.grow(count, u64::MAX)?;
        edges.iter().try_for_each(|&(child, parent)| trees.add(child, parent))?;
        trees.places()
    }

    #[test]
    fn a_tree_is_walked_from_its_root_and_the_first_child_comes_first() {
        let edges = [(3, 1), (0, 3), (2, 1), (4, 3)];
        assert_eq!(trees(5, &edges).unwrap(), [2, 0, 4, 1, 3]);
        assert_eq!(trees(3, &[]).unwrap(), [0, 1, 2]);
        assert!(trees(0, &[]).unwrap().is_empty());
    }

    #[test]
    fn what_is_no_tree_is_refused() {
        for (edges, reason) in [
            (&[(0, 1), (1, 0)][..], "loop"),
            (&[(0, 0)], "loop"),
            (&[(0, 1), (0, 2)], "two parents"),
            (&[(0, 3)], "there are 3"),
            (&[(u64::MAX, 0)], "there are 3"),
        ] {
            let error = trees(3, edges).unwrap_err().to_string();
            assert!(error.contains(reason), "{edges:?}: {error}");
        }
    }

    #[test]
    fn more_than_its_share_of_memory_is_refused_before_it_is_taken() {
        assert!(Trees::default().grow(u64::MAX, 1 << 30).is_err());
        assert!(Trees::default().grow(1 << 20, 20 << 20).is_ok());
    }
}
