use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::geometry::{Grid, SMALL_TASK, Stage, grid_of, stages};
use super::units::{Assembly, Units, parent};
use crate::engine::Cells;

fn level(shape: &[u64], piece: &[u64], object: &[u64], factors: &[u64]) -> Grid {
    let of = |values: &[u64]| values.to_vec();
    Grid { shape: of(shape), piece: of(piece), object: of(object), factors: of(factors) }
}

/// A pyramid of equal chunks and shards, up to the level that fits one chunk.
fn even(shape: &[u64], chunk: &[u64], shard: &[u64], factors: &[u64]) -> (Grid, Vec<Grid>) {
    let finest = level(shape, chunk, shard, &vec![1; shape.len()]);
    let (mut levels, mut shape) = (Vec::new(), shape.to_vec());
    while shape.iter().zip(chunk).any(|(len, chunk)| len > chunk) && levels.len() < 12 {
        shape = shape.iter().zip(factors).map(|(&n, &f)| n.div_ceil(f)).collect();
        levels.push(level(&shape, chunk, shard, factors));
    }
    (finest, levels)
}

#[test]
fn chunks_of_the_same_shape_are_the_blocks_of_one_stage() {
    let (finest, levels) = even(&[512, 1024, 1024], &[64; 3], &[512; 3], &[2; 3]);
    let stages = stages(&finest, &levels, 2, SMALL_TASK);
    let blocks = vec![vec![64; 3]; 4];
    assert_eq!(stages, [Stage { source: 0, blocks, task: vec![64; 3] }]);
}

#[test]
fn a_large_image_has_many_tasks_and_a_second_stage() {
    let (finest, levels) = even(&[32768; 3], &[64; 3], &[512; 3], &[2; 3]);
    let stages = stages(&finest, &levels, 2, SMALL_TASK);
    assert!(stages.len() > 1 && stages[0].source == 0);
    let made = stages[0].blocks.len();
    let tasks: u64 = grid_of(&levels[made - 1].shape, &stages[0].task).iter().product();
    assert!(tasks >= 64, "{stages:?}");
    assert!(made >= 2, "the second stage reads a 64th at most");
}

#[test]
fn chunks_that_never_line_up_are_made_in_stages_of_their_own() {
    let finest = level(&[5000; 3], &[100; 3], &[100; 3], &[1; 3]);
    let levels = [
        level(&[2500; 3], &[64; 3], &[64; 3], &[2; 3]),
        level(&[1250; 3], &[99; 3], &[99; 3], &[2; 3]),
    ];
    let stages = stages(&finest, &levels, 2, SMALL_TASK);
    assert_eq!(stages.len(), 2);
    assert_eq!(stages[0].blocks, [[64; 3]]);
    assert_eq!(stages[1].blocks, [[99; 3]]);
}

/// Any geometry of up to three axes.
fn geometries() -> impl Strategy<Value = (Grid, Vec<Grid>)> {
    let axis = (1u64..60, 1u64..9, prop::collection::vec((1u64..9, 1u64..4, 1u64..5), 1..5));
    (prop::collection::vec(axis, 1..4), 1usize..5).prop_map(|(axes, count)| {
        let count = axes.iter().map(|axis| axis.2.len()).min().unwrap_or(1).min(count);
        let mut shape: Vec<u64> = axes.iter().map(|axis| axis.0).collect();
        let chunk: Vec<u64> = axes.iter().map(|axis| axis.1).collect();
        let finest = level(&shape, &chunk, &chunk, &vec![1; shape.len()]);
        let mut levels = Vec::new();
        for i in 0..count {
            let of = |pick: fn(&(u64, u64, u64)) -> u64| -> Vec<u64> {
                axes.iter().map(|axis| pick(&axis.2[i])).collect()
            };
            let (piece, per, factors) = (of(|a| a.0), of(|a| a.1), of(|a| a.2));
            shape = shape.iter().zip(&factors).map(|(&n, &f)| n.div_ceil(f)).collect();
            let object: Vec<u64> = piece.iter().zip(&per).map(|(&a, &b)| a * b).collect();
            levels.push(level(&shape, &piece, &object, &factors));
        }
        (finest, levels)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn each_block_is_made_once_after_those_it_is_made_from(
        (finest, levels) in geometries(),
        small in prop_oneof![Just(1u64), Just(1000), Just(SMALL_TASK)],
    ) {
        let stages = stages(&finest, &levels, 1, small);
        let mut source = 0;
        for stage in &stages {
            assert_eq!(stage.source, source);
            source += stage.blocks.len();
            check_stage(stage, &levels[stage.source..source]);
        }
        assert_eq!(source, levels.len());
    }
}

fn check_stage(stage: &Stage, levels: &[Grid]) {
    let last = levels.len() - 1;
    let mut seen: Vec<HashSet<Vec<u64>>> = vec![HashSet::new(); levels.len()];
    let mut makers: HashMap<(usize, Vec<u64>), Vec<u64>> = HashMap::new();
    let mut own = |stage: &Stage, level: usize, at: &[u64], task: &[u64]| {
        let (block, grid) = (&stage.blocks[level], &levels[level]);
        let start = at.iter().zip(block).map(|(&i, &n)| i * n);
        let bounds =
            start.zip(block).zip(&grid.shape).map(|((at, &n), &len)| (at, n.min(len - at)));
        let cells: Vec<(u64, u64)> = bounds
            .zip(&grid.object)
            .map(|((at, n), &object)| (at / object, (at + n).div_ceil(object) - at / object))
            .collect();
        for inside in Cells::new(cells.iter().map(|cell| cell.1).collect()) {
            let cell: Vec<u64> = cells.iter().zip(&inside).map(|(c, i)| c.0 + i).collect();
            let maker = makers.entry((level, cell)).or_insert_with(|| task.to_vec());
            assert_eq!(maker, task, "two tasks write one object");
        }
    };
    for task in Cells::new(grid_of(&levels[last].shape, &stage.task)) {
        let assembly = Assembly::default();
        let never = |_: usize, _: &[u64]| false;
        let mut units = Units::new(stage, levels, &task, None, &never, &assembly);
        let mut next = 0;
        while let Some(unit) = units.next() {
            assert!(unit.number >= next, "a block comes before its children");
            assert_eq!(unit.is_needed, last > 0);
            next = unit.number + 1;
            let (mut level, mut at) = (0, unit.at);
            loop {
                assert!(seen[level].insert(at.clone()), "{at:?} twice");
                own(stage, level, &at, &task);
                if level == last {
                    break;
                }
                let above = parent(stage, levels, level, &at);
                let key = (level + 1, above.clone());
                let waiting = assembly.lock().unwrap().get(&key).cloned().unwrap();
                let mut state = waiting.state.lock().unwrap();
                state.missing -= 1;
                if state.missing > 0 {
                    break;
                }
                assert_eq!(state.number, Some(next), "numbers have no gaps");
                next += 1;
                drop(state);
                assembly.lock().unwrap().remove(&key);
                (level, at) = (level + 1, above);
            }
        }
        assert!(assembly.lock().unwrap().is_empty());
    }
    for ((seen, level), block) in seen.iter().zip(levels).zip(&stage.blocks) {
        let all: u64 = grid_of(&level.shape, block).iter().product();
        assert_eq!(seen.len() as u64, all);
        assert!(block.iter().zip(&level.piece).all(|(block, piece)| block % piece == 0));
    }
}
