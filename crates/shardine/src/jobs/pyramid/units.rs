//! The order in which the blocks of a task are made: depth first, so that a block is finished soon
//! after the last of those that it is made from.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::geometry::{Grid, Stage, grid_of, roots};
use crate::engine::Cells;

/// A block of the finest level of a stage, which one worker makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unit {
    /// Its number among all blocks of the task, each of which comes after those it is made from.
    pub number: u64,
    pub at: Vec<u64>,
    /// Whether a block above it is not stored yet, so that its elements are needed there.
    pub is_needed: bool,
}

/// A block that waits for those it is made from.
#[derive(Debug)]
pub(super) struct Waiting {
    pub state: Mutex<WaitingState>,
    /// Whether a block above it is not stored yet.
    pub is_needed: bool,
}

#[derive(Debug)]
pub(super) struct WaitingState {
    /// Its number, known when all that it is made from are under way.
    pub number: Option<u64>,
    /// How many it still waits for.
    pub missing: usize,
    /// Its elements so far; `None` if all are the fill value.
    pub elements: Option<Vec<u8>>,
}

/// Blocks of coarser levels that are being put together, by level of the stage and place.
pub(super) type Assembly = Mutex<HashMap<(usize, Vec<u64>), Arc<Waiting>>>;

/// Blocks of a stage that hold data, level by level.
pub(super) type Occupied = Vec<HashSet<Vec<u64>>>;

/// A block whose children are being visited.
struct Open {
    level: usize,
    waiting: Arc<Waiting>,
    children: std::vec::IntoIter<Vec<u64>>,
    /// Whether it, or a block above it, is not stored yet.
    needs_children: bool,
}

/// The units of a task.
pub(super) struct Units<'a> {
    stage: &'a Stage,
    levels: &'a [Grid],
    /// `None` if all blocks may hold data.
    occupied: Option<&'a Occupied>,
    /// Whether all objects of a block are stored already.
    is_stored: &'a (dyn Fn(usize, &[u64]) -> bool + Sync),
    assembly: &'a Assembly,
    roots: std::vec::IntoIter<Vec<u64>>,
    open: Vec<Open>,
    number: u64,
}

impl<'a> Units<'a> {
    /// Those of the task at a place; `levels` are those of the stage.
    pub fn new(
        stage: &'a Stage,
        levels: &'a [Grid],
        at: &[u64],
        occupied: Option<&'a Occupied>,
        is_stored: &'a (dyn Fn(usize, &[u64]) -> bool + Sync),
        assembly: &'a Assembly,
    ) -> Self {
        let roots = match (levels.last(), stage.blocks.last()) {
            (Some(level), Some(block)) => roots(&level.shape, block, &stage.task, at),
            _ => Vec::new(),
        };
        let mut units = Self {
            stage,
            levels,
            occupied,
            is_stored,
            assembly,
            roots: Vec::new().into_iter(),
            open: Vec::new(),
            number: 0,
        };
        let last = levels.len().saturating_sub(1);
        let roots: Vec<Vec<u64>> =
            roots.into_iter().filter(|at| units.may_hold_data(last, at)).collect();
        units.roots = roots.into_iter();
        units
    }

    fn may_hold_data(&self, level: usize, at: &[u64]) -> bool {
        self.occupied.is_none_or(|occupied| occupied.get(level).is_some_and(|all| all.contains(at)))
    }

    /// The next unit. Blocks of which it is the last get their numbers.
    pub fn next(&mut self) -> Option<Unit> {
        loop {
            let (level, at, is_needed) = match self.open.last_mut() {
                None => (self.levels.len().checked_sub(1)?, self.roots.next()?, false),
                Some(open) => {
                    // Blocks are closed with their last child.
                    let at = open.children.next()?;
                    (open.level - 1, at, open.needs_children)
                }
            };
            if level == 0 {
                let unit = Unit { number: self.number, at, is_needed };
                self.number += 1;
                self.close();
                return Some(unit);
            }
            let needs_children = is_needed || !(self.is_stored)(level, &at);
            let children = self.children(level, &at);
            let state = WaitingState { number: None, missing: children.len(), elements: None };
            let waiting = Arc::new(Waiting { state: Mutex::new(state), is_needed });
            let mut assembly = self.assembly.lock().unwrap_or_else(PoisonError::into_inner);
            assembly.insert((level, at), Arc::clone(&waiting));
            drop(assembly);
            let children = children.into_iter();
            self.open.push(Open { level, waiting, children, needs_children });
        }
    }

    /// Numbers the blocks whose last child has just been taken.
    fn close(&mut self) {
        while let Some(open) = self.open.last()
            && open.children.len() == 0
        {
            let mut state = open.waiting.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.number = Some(self.number);
            drop(state);
            self.number += 1;
            self.open.pop();
        }
    }

    /// The blocks that a block is made from, in C order.
    fn children(&self, level: usize, at: &[u64]) -> Vec<Vec<u64>> {
        children(self.stage, self.levels, level, at)
            .into_iter()
            .filter(|at| self.may_hold_data(level - 1, at))
            .collect()
    }
}

/// The blocks of the level below that a block is made from, in C order.
fn children(stage: &Stage, levels: &[Grid], level: usize, at: &[u64]) -> Vec<Vec<u64>> {
    let (block, below) = (&stage.blocks[level], &stage.blocks[level - 1]);
    let grid = grid_of(&levels[level - 1].shape, below);
    let span = |axis: usize| {
        let covers = block[axis].saturating_mul(levels[level].factors[axis]);
        let first = at[axis].saturating_mul(covers) / below[axis];
        let end = (at[axis] + 1).saturating_mul(covers).div_ceil(below[axis]).min(grid[axis]);
        (first, end.saturating_sub(first))
    };
    let (first, count): (Vec<u64>, Vec<u64>) = (0..at.len()).map(span).unzip();
    let place = |inside: Vec<u64>| -> Vec<u64> {
        first.iter().zip(&inside).map(|(&a, &b)| a + b).collect()
    };
    Cells::new(count).map(place).collect()
}

/// The block of the level above that a block belongs to.
pub(super) fn parent(stage: &Stage, levels: &[Grid], level: usize, at: &[u64]) -> Vec<u64> {
    let (block, above) = (&stage.blocks[level], &stage.blocks[level + 1]);
    let axes = at.iter().zip(block).zip(above).zip(&levels[level + 1].factors);
    axes.map(|(((&at, &n), &above), &f)| at.saturating_mul(n) / above.saturating_mul(f).max(1))
        .collect()
}
