//! Which cells of a grid an import writes: those of its part that do not exist.

use std::ops::Range;

use crate::jobs::frame::Part;

/// Runs of cells for each process, where several share a grid: enough for all to take about as
/// long, few enough for a run to be written in few calls.
const RUNS_OF_PART: u64 = 64;

/// Boxes that hold the cells of a part; without one, of the whole grid.
///
/// The grid is cut into runs in C order, which are dealt out to the parts in turn.
pub fn of_part(grid: &[u64], part: Option<Part>) -> Vec<Vec<Range<u64>>> {
    let all = || vec![grid.iter().map(|&n| 0..n).collect()];
    let (index, count) = match part {
        _ if grid.contains(&0) => return Vec::new(),
        None => return all(),
        Some(Part::Finish) => return Vec::new(),
        Some(Part::Of { index, count }) => (u128::from(index), u128::from(count.max(1))),
    };
    let cells = grid.iter().fold(1u128, |all, &n| all.saturating_mul(u128::from(n)));
    let runs = count.saturating_mul(u128::from(RUNS_OF_PART)).min(cells);
    // A grid that cannot be counted in 128 bits has no such objects; the product must not overflow.
    let bound = |run: u128| cells / runs * run + cells % runs * run / runs;
    let mut boxes = Vec::new();
    let mut run = index.saturating_sub(1);
    while run < runs {
        range(grid, bound(run), bound(run + 1), &mut Vec::new(), &mut boxes);
        run += count;
    }
    boxes
}

/// Adds the boxes of the cells from `start` to `end` in C order, below the coordinates in `fixed`.
fn range(
    grid: &[u64],
    start: u128,
    end: u128,
    fixed: &mut Vec<Range<u64>>,
    boxes: &mut Vec<Vec<Range<u64>>>,
) {
    if start >= end {
        return;
    }
    let Some(rest) = grid.get(fixed.len()..).filter(|rest| !rest.is_empty()) else {
        boxes.push(fixed.clone());
        return;
    };
    let layer = rest[1..].iter().fold(1u128, |all, &n| all.saturating_mul(u128::from(n)));
    let index = |at: u128| u64::try_from(at / layer).unwrap_or(u64::MAX);
    let (first, last) = (index(start), index(end));
    let mut within = |at: u64, start: u128, end: u128, boxes: &mut Vec<Vec<Range<u64>>>| {
        fixed.push(at..at.saturating_add(1));
        range(grid, start, end, fixed, boxes);
        fixed.pop();
    };
    if first == last {
        return within(first, start % layer, end % layer, boxes);
    }
    let whole = if start.is_multiple_of(layer) { first } else { first + 1 };
    if whole > first {
        within(first, start % layer, layer, boxes);
    }
    if whole < last {
        let whole = std::iter::once(whole..last).chain(rest[1..].iter().map(|&n| 0..n));
        boxes.push(fixed.iter().cloned().chain(whole).collect());
    }
    fixed.push(last..last.saturating_add(1));
    range(grid, 0, end % layer, fixed, boxes);
    fixed.pop();
}

/// Whether a cell lies in a box.
pub fn contains(cells: &[Range<u64>], cell: &[u64]) -> bool {
    cells.iter().zip(cell).all(|(range, at)| range.contains(at))
}

/// Boxes that hold every cell of a box except those in a list, which is sorted.
pub fn without(cells: &[Range<u64>], present: &[Vec<u64>]) -> Vec<Vec<Range<u64>>> {
    let lengths: Vec<u64> = cells.iter().map(|range| range.end - range.start).collect();
    let inside = present.iter().filter(|cell| contains(cells, cell));
    let relative = |cell: &Vec<u64>| cell.iter().zip(cells).map(|(at, r)| at - r.start).collect();
    let inside: Vec<Vec<u64>> = inside.map(relative).collect();
    let moved = |found: Vec<Range<u64>>| -> Vec<Range<u64>> {
        found.iter().zip(cells).map(|(f, r)| f.start + r.start..f.end + r.start).collect()
    };
    boxes(&lengths, &inside).into_iter().map(moved).collect()
}

/// Boxes of a grid that hold every cell except those in a list, which is sorted: few, if the list
/// is a prefix or a suffix.
fn boxes(grid: &[u64], present: &[Vec<u64>]) -> Vec<Vec<Range<u64>>> {
    let mut found = Vec::new();
    if !grid.contains(&0) {
        split(grid, present, &mut Vec::new(), &mut found);
    }
    found
}

/// Handles the cells whose first coordinates are `fixed`; `present` are those of them that exist.
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
    fn parts_of_a_grid_beyond_counting_are_few_boxes() {
        let grid = [u64::MAX; 5];
        for index in [1, 3] {
            let boxes = of_part(&grid, Some(Part::Of { index, count: 3 }));
            assert!(boxes.len() <= 64 * 11, "{}", boxes.len());
        }
    }

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
                let inside = boxes.iter().filter(|cells| contains(cells, &cell)).count();
                prop_assert_eq!(inside, usize::from(!there[i as usize]));
            }
            // The same cells, whichever box of the grid is used.
            for i in 0..count {
                let at = cell(i);
                let part: Vec<_> = at.iter().zip(&grid).map(|(&at, &n)| at..n).collect();
                let left: u64 =
                    without(&part, &present).iter().map(|b| b.iter().map(|r| r.end - r.start).product::<u64>()).sum();
                let expected =
                    (0..count).filter(|&i| contains(&part, &cell(i)) && !there[i as usize]).count();
                prop_assert_eq!(left, expected as u64);
            }
        }

        #[test]
        fn every_cell_belongs_to_one_part(
            grid in proptest::collection::vec(0u64..40, 0..4),
            count in 1u32..9,
        ) {
            let cells: u64 = grid.iter().product();
            let parts: Vec<_> = (1..=count)
                .map(|index| of_part(&grid, Some(Part::Of { index, count })))
                .collect();
            let sizes = parts.iter().flatten().map(|b| b.iter().map(|r| r.end - r.start).product::<u64>());
            prop_assert_eq!(sizes.sum::<u64>(), cells);
            for i in (0..cells).step_by(7) {
                let mut at = i;
                let mut cell = vec![0; grid.len()];
                for k in (0..grid.len()).rev() {
                    cell[k] = at % grid[k];
                    at /= grid[k];
                }
                prop_assert_eq!(parts.iter().flatten().filter(|b| contains(b, &cell)).count(), 1);
            }
            prop_assert!(of_part(&grid, Some(Part::Finish)).is_empty());
        }
    }
}
