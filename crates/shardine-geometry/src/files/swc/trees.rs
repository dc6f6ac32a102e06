//! Forests: which tree a node belongs to, and an order in which parents come first.

/// The tree of each node, numbered in the order of the first node of each, and how many there are.
///
/// Fails with a node that is its own ancestor.
pub(super) fn trees(parents: &[Option<usize>]) -> Result<(Vec<usize>, usize), usize> {
    const UNKNOWN: usize = usize::MAX;
    let mut root_of = vec![UNKNOWN; parents.len()];
    let mut path = Vec::new();
    for node in 0..parents.len() {
        let mut at = node;
        let root = loop {
            if root_of[at] != UNKNOWN {
                break root_of[at];
            }
            path.push(at);
            // A path as long as there are nodes has come round.
            if path.len() > parents.len() {
                return Err(node);
            }
            match parents[at] {
                Some(parent) => at = parent,
                None => break at,
            }
        };
        path.drain(..).for_each(|at| root_of[at] = root);
    }
    let mut number = vec![UNKNOWN; parents.len()];
    let mut count = 0;
    let mut tree_of = Vec::with_capacity(parents.len());
    for root in root_of {
        if number[root] == UNKNOWN {
            number[root] = count;
            count += 1;
        }
        tree_of.push(number[root]);
    }
    Ok((tree_of, count))
}

/// Gives each node a parent such that every edge joins a node to its parent.
///
/// `edges` are (child, parent) as far as they can be: if a node would get two parents, its whole
/// tree is directed away from its first node. Fails with an edge that closes a ring.
pub(super) fn parents(
    nodes: usize,
    edges: &[(usize, usize)],
) -> Result<Vec<Option<usize>>, (usize, usize)> {
    // Rings first: sets of joined nodes, by the usual forest of representatives.
    let mut set: Vec<usize> = (0..nodes).collect();
    let find = |set: &mut Vec<usize>, mut node: usize| {
        while set[node] != node {
            set[node] = set[set[node]];
            node = set[node];
        }
        node
    };
    for &(a, b) in edges {
        let (first, second) = (find(&mut set, a), find(&mut set, b));
        if first == second {
            return Err((a, b));
        }
        // The smaller number represents, so that a tree is known by its first node.
        set[first.max(second)] = first.min(second);
    }
    let mut parents = vec![None; nodes];
    let mut twice = vec![false; nodes];
    for &(child, parent) in edges {
        if parents[child].replace(parent).is_some() {
            let tree = find(&mut set, child);
            twice[tree] = true;
        }
    }
    if !twice.contains(&true) {
        return Ok(parents);
    }
    // Direct these trees away from their first node.
    let mut near: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    for &(a, b) in edges {
        let tree = find(&mut set, a);
        if twice[tree] {
            near[a].push(b);
            near[b].push(a);
        }
    }
    for (first, _) in twice.iter().enumerate().filter(|(_, twice)| **twice) {
        parents[first] = None;
        let mut stack = vec![first];
        while let Some(node) = stack.pop() {
            for next in std::mem::take(&mut near[node]) {
                if parents[node] != Some(next) {
                    parents[next] = Some(node);
                    stack.push(next);
                }
            }
        }
    }
    Ok(parents)
}

/// The nodes such that each comes after its parent: as they are if that is so already, else tree by
/// tree from the roots.
pub(super) fn parents_first(parents: &[Option<usize>]) -> Vec<usize> {
    let ordered = |(node, parent): (usize, &Option<usize>)| parent.is_none_or(|p| p < node);
    if parents.iter().enumerate().all(ordered) {
        return (0..parents.len()).collect();
    }
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); parents.len()];
    let mut stack = Vec::new();
    for node in (0..parents.len()).rev() {
        match parents[node] {
            Some(parent) => children[parent].push(node),
            None => stack.push(node),
        }
    }
    let mut order = Vec::with_capacity(parents.len());
    while let Some(node) = stack.pop() {
        order.push(node);
        stack.append(&mut children[node]);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forests_are_told_apart_and_rings_found() {
        let parents = [None, Some(0), Some(3), None, Some(2)];
        assert_eq!(trees(&parents), Ok((vec![0, 0, 1, 1, 1], 2)));
        assert_eq!(trees(&[Some(1), Some(0)]), Err(0));
        assert_eq!(trees(&[Some(0)]), Err(0));
        assert_eq!(trees(&[None, Some(2), Some(3), Some(1)]), Err(1));
    }

    #[test]
    fn edges_in_any_direction_become_parents() {
        assert_eq!(parents(3, &[(1, 0), (2, 0)]), Ok(vec![None, Some(0), Some(0)]));
        // The root is the last: the directions are kept.
        assert_eq!(parents(3, &[(0, 2), (1, 2)]), Ok(vec![Some(2), Some(2), None]));
        // Node 0 would have two parents.
        let directed = parents(4, &[(0, 1), (0, 2), (3, 2)]).unwrap();
        assert_eq!(directed, [None, Some(0), Some(0), Some(2)]);
        assert_eq!(parents(3, &[(0, 1), (1, 2), (2, 0)]), Err((2, 0)));
        assert_eq!(parents(1, &[(0, 0)]), Err((0, 0)));
    }

    #[test]
    fn parents_come_first() {
        assert_eq!(parents_first(&[None, Some(0), None]), [0, 1, 2]);
        assert_eq!(parents_first(&[Some(2), Some(2), None, None]), [2, 0, 1, 3]);
    }
}
