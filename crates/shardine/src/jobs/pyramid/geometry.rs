//! How the levels of a pyramid are cut: into blocks that are computed as one, into tasks that no two
//! processes share, and into stages where one pass does not do.
//!
//! A *block* of a level consists of whole chunks, and is made from whole blocks of the level below.
//! Where chunks have the same shape on all levels and the factors are 2, each chunk is a block and
//! is made from 2 x 2 x 2 others.
//!
//! A *task* makes all objects of a box, on all levels of its *stage*. A stage begins from one level,
//! which is read, and ends with the level up to which boxes do not get too large; the next stage
//! begins there. Most pyramids have one stage, or a second one that is tiny.

use serde::{Deserialize, Serialize};

use crate::engine::Cells;
use crate::shard::morton_order;

/// The largest block in bytes, unless a single chunk is larger.
const LARGEST_BLOCK: u64 = 16 << 20;

/// A stage has at least this many tasks, unless they are small.
const ENOUGH_TASKS: u64 = 64;

/// Bytes of the level that is read up to which a task is small, if nothing else is asked for.
pub(super) const SMALL_TASK: u64 = 4 << 30;

/// The most shards of one level that a task makes; some of them are open at the same time.
const MOST_SHARDS: u64 = 512;

/// The most blocks that are sorted along a Morton curve.
const MOST_SORTED: u64 = 1 << 20;

/// A level, as far as its geometry matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Grid {
    pub shape: Vec<u64>,
    /// What is encoded as one: a chunk.
    pub piece: Vec<u64>,
    /// What is stored as one: a shard, or a chunk.
    pub object: Vec<u64>,
    /// How many elements of the level below make one, along each axis.
    pub factors: Vec<u64>,
}

/// Some levels that are made in one pass over the level below them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stage {
    /// The level that is read.
    pub source: usize,
    /// The shape of the blocks of each level that is made, the finest first.
    pub blocks: Vec<Vec<u64>>,
    /// The shape of a task, in elements of the coarsest level that is made.
    pub task: Vec<u64>,
}

/// A task: its stage, and its place in the grid of the stage's tasks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PyramidTask {
    pub(super) stage: usize,
    pub(super) at: Vec<u64>,
}

impl PyramidTask {
    /// A name by which processes share tasks.
    pub(super) fn name(&self) -> String {
        let at: Vec<String> = self.at.iter().map(u64::to_string).collect();
        format!("{}:{}", self.stage, at.join(","))
    }
}

pub(super) fn gcd(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

/// The least common multiple; `None` if it is too large to be of use.
fn lcm(a: u64, b: u64) -> Option<u64> {
    (a / gcd(a, b)).checked_mul(b)
}

fn bytes(shape: &[u64], element: u64) -> u64 {
    shape.iter().fold(element, |n, &len| n.saturating_mul(len))
}

/// The number of boxes of a shape along each axis.
pub(super) fn grid_of(shape: &[u64], each: &[u64]) -> Vec<u64> {
    shape.iter().zip(each).map(|(&len, &n)| len.div_ceil(n.max(1))).collect()
}

/// The shapes of the blocks of some levels, made from the chunks of the one below.
fn blocks(below: &Grid, levels: &[Grid]) -> Vec<Vec<u64>> {
    // The length of a block, and whether it is the only one along the axis.
    let axes = below.piece.iter().zip(&below.shape);
    let mut before: Vec<(u64, bool)> = axes.map(|(&n, &len)| (n, n >= len)).collect();
    let mut blocks = Vec::new();
    for (i, level) in levels.iter().enumerate() {
        let after = levels.get(i + 1);
        for (axis, before) in before.iter_mut().enumerate() {
            let (chunk, len) = (level.piece[axis].max(1), level.shape[axis]);
            let (block, is_whole) = *before;
            // Whole blocks below, and nothing that a box of the level above would cut.
            let fitting = || {
                let multiple = lcm(chunk, block / gcd(block, level.factors[axis]))?;
                lcm(multiple, after.map_or(1, |after| after.factors[axis]))
            };
            let fitting = if is_whole { None } else { fitting() };
            *before = match fitting {
                Some(block) if block < len => (block, false),
                _ => (len.max(1).div_ceil(chunk).saturating_mul(chunk), true),
            };
        }
        blocks.push(before.iter().map(|(block, _)| *block).collect());
    }
    blocks
}

/// The shape of tasks that make these levels, in elements of the coarsest.
fn task(levels: &[Grid], blocks: &[Vec<u64>]) -> Vec<u64> {
    let Some((last, last_block)) = levels.last().zip(blocks.last()) else { return Vec::new() };
    let along = |axis: usize| -> Option<u64> {
        let mut task = 1;
        // From an element of the coarsest level to those it is made from.
        let mut factor = 1u64;
        for (level, block) in levels.iter().zip(blocks).rev() {
            let unit = lcm(level.object[axis], block[axis])?;
            if unit >= level.shape[axis] {
                return None;
            }
            task = lcm(task, unit / gcd(unit, factor))?;
            factor = factor.checked_mul(level.factors[axis])?;
        }
        Some(task).filter(|task| *task < last.shape[axis])
    };
    let whole = |axis: usize| {
        let block = last_block[axis].max(1);
        last.shape[axis].max(1).div_ceil(block).saturating_mul(block)
    };
    (0..last.shape.len()).map(|axis| along(axis).unwrap_or_else(|| whole(axis))).collect()
}

/// Whether tasks of this shape are of a good size.
fn suits(below: &Grid, levels: &[Grid], task: &[u64], element: u64, small: u64) -> bool {
    let Some(last) = levels.last() else { return true };
    let mut extent = task.to_vec();
    for level in levels.iter().rev() {
        let clipped: Vec<u64> = extent.iter().zip(&level.shape).map(|(&a, &b)| a.min(b)).collect();
        let shards = grid_of(&clipped, &level.object);
        if level.object != level.piece && bytes(&shards, 1) > MOST_SHARDS {
            return false;
        }
        extent = clipped.iter().zip(&level.factors).map(|(&n, &f)| n.saturating_mul(f)).collect();
    }
    let read: Vec<u64> = extent.iter().zip(&below.shape).map(|(&a, &b)| a.min(b)).collect();
    let tasks = bytes(&grid_of(&last.shape, task), 1);
    tasks >= ENOUGH_TASKS || bytes(&read, element) <= small
}

/// Cuts a pyramid into stages. `finest` is the level that exists, `element` the size of an element,
/// and a task that reads `small_task` bytes is small.
pub(super) fn stages(finest: &Grid, levels: &[Grid], element: u64, small_task: u64) -> Vec<Stage> {
    let mut stages = Vec::new();
    let mut source = 0;
    while source < levels.len() {
        let below = if source == 0 { finest } else { &levels[source - 1] };
        let above = &levels[source..];
        let fits = |count: usize| {
            let (levels, blocks) = (&above[..count], blocks(below, &above[..count]));
            let small = levels.iter().zip(&blocks).all(|(level, block)| {
                bytes(block, element) <= LARGEST_BLOCK.max(bytes(&level.piece, element))
            });
            let task = task(levels, &blocks);
            (small && (count == 1 || suits(below, levels, &task, element, small_task)))
                .then_some((blocks, task))
        };
        let found = (1..=above.len()).rev().find_map(|count| fits(count).map(|fit| (count, fit)));
        let (count, (blocks, task)) = found.unwrap_or_else(|| {
            // Chunks that do not line up: those below are read more than once.
            let blocks = vec![above[0].piece.clone()];
            let task = task(&above[..1], &blocks);
            (1, (blocks, task))
        });
        stages.push(Stage { source, blocks, task });
        source += count;
    }
    stages
}

/// The blocks of a task's coarsest level, along a Morton curve.
pub(super) fn roots(shape: &[u64], block: &[u64], task: &[u64], at: &[u64]) -> Vec<Vec<u64>> {
    let grid = grid_of(shape, block);
    let inside = grid_of(task, block);
    let place = |cell: Vec<u64>| -> Option<Vec<u64>> {
        let axes = cell.iter().zip(at).zip(&inside).zip(&grid);
        axes.map(|(((&i, &at), &n), &all)| {
            Some(at.checked_mul(n)?.checked_add(i)?).filter(|&i| i < all)
        })
        .collect()
    };
    let order = match bytes(&inside, 1) <= MOST_SORTED {
        true => morton_order(&inside).ok(),
        false => None,
    };
    let Some(order) = order else {
        // In C order, and only those in the grid.
        let axes = grid.iter().zip(at).zip(&inside);
        let within = axes.map(|((&all, &at), &n)| n.min(all.saturating_sub(at.saturating_mul(n))));
        return Cells::new(within.collect()).filter_map(place).collect();
    };
    let cell = |number: u32| -> Vec<u64> {
        let mut number = u64::from(number);
        let mut cell = vec![0; inside.len()];
        for (i, &n) in cell.iter_mut().zip(&inside).rev() {
            (*i, number) = (number % n, number / n);
        }
        cell
    };
    order.into_iter().filter_map(|number| place(cell(number))).collect()
}
