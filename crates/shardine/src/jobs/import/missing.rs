//! What of a grid is not there.

use std::ops::Range;

/// Boxes of a grid that hold every cell but those of a list, which is sorted: few, where the list
/// is a beginning or an end.
pub fn boxes(grid: &[u64], present: &[Vec<u64>]) -> Vec<Vec<Range<u64>>> {
    let mut found = Vec::new();
    if !grid.contains(&0) {
        split(grid, present, &mut Vec::new(), &mut found);
    }
    found
}

/// Looks at the cells whose first coordinates are `fixed`; `present` are those of them that are
/// there.
fn split(
    grid: &[u64],
    present: &[Vec<u64>],
    fixed: &mut Vec<Range<u64>>,
    found: &mut Vec<Vec<Range<u64>>>,
) {
    let axis = fixed.len();
    let Some(&length) = grid.get(axis) else {
        if present.is_empty() {
            found.push(fixed.clone());
        }
        return;
    };
    let mut absent = |from: u64, to: u64, fixed: &[Range<u64>]| {
        if from < to {
            let rest = grid[axis + 1..].iter().map(|&n| 0..n);
            found
                .push(fixed.iter().cloned().chain(std::iter::once(from..to)).chain(rest).collect());
        }
    };
    let mut next = 0;
    let mut inner = Vec::new();
    for layer in present.chunk_by(|a, b| a[axis] == b[axis]) {
        let at = layer[0][axis];
        if at >= length {
            break;
        }
        absent(next, at, fixed);
        inner.push((at, layer));
        next = at + 1;
    }
    absent(next, length, fixed);
    for (at, layer) in inner {
        fixed.push(at..at + 1);
        split(grid, layer, fixed, found);
        fixed.pop();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_stopped_run_left_is_few_boxes() {
        assert_eq!(boxes(&[2, 3], &[]), [[0..2, 0..3]]);
        let first: Vec<Vec<u64>> = (0..4).map(|i| vec![i / 3, i % 3]).collect();
        assert_eq!(boxes(&[4, 3], &first), [[2..4, 0..3], [1..2, 1..3]]);
        assert_eq!(boxes(&[], &[]), [[]; 1]);
        assert!(boxes(&[], &[vec![]]).is_empty());
        assert!(boxes(&[0, 2], &[]).is_empty());
    }

    proptest! {
        #[test]
        fn every_cell_is_there_or_in_one_box(
            grid in proptest::collection::vec(1u64..5, 0..4),
            there in proptest::collection::vec(any::<bool>(), 256),
        ) {
            let count: u64 = grid.iter().product();
            let cell = |mut i: u64| {
                let mut cell = vec![0; grid.len()];
                for k in (0..grid.len()).rev() {
                    cell[k] = i % grid[k];
                    i /= grid[k];
                }
                cell
            };
            let present: Vec<Vec<u64>> = (0..count).filter(|&i| there[i as usize]).map(cell).collect();
            let boxes = boxes(&grid, &present);
            for i in 0..count {
                let cell = cell(i);
                let inside = boxes.iter().filter(|b| b.iter().zip(&cell).all(|(r, at)| r.contains(at))).count();
                prop_assert_eq!(inside, usize::from(!there[i as usize]));
            }
        }
    }
}
