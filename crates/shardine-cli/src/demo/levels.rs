//! The lower levels of the demo's images.

use shardine::{Array, DataSet, ElementsRef, Region, WriteOptions};

use super::data::{LEVELS, level_shape};
use crate::failure::Failure;

/// How voxels become one.
#[derive(Debug, Clone, Copy)]
pub enum Method {
    /// Their mean, for intensities.
    Mean,
    /// The first of them: a mean of labels would be another label.
    First,
}

/// Computes the lower levels of an image, where a box of the finest has changed.
pub fn renew(
    image: &dyn DataSet,
    method: Method,
    start: &[u64; 3],
    shape: &[u64; 3],
) -> Result<(), Failure> {
    let mut finer = image.array(0)?;
    let (mut start, mut end) = (*start, std::array::from_fn::<u64, 3, _>(|k| start[k] + shape[k]));
    for level in 1..LEVELS {
        let coarser = image.array(level)?;
        let most = level_shape(level);
        start = start.map(|i| i / 2);
        end = std::array::from_fn(|k| end[k].div_ceil(2).min(most[k]));
        downsample(&finer, &coarser, method, &start, &end)?;
        finer = coarser;
    }
    Ok(())
}

/// Computes a box of a level from two times as many voxels along each axis.
fn downsample(
    finer: &Array,
    coarser: &Array,
    method: Method,
    start: &[u64; 3],
    end: &[u64; 3],
) -> Result<(), Failure> {
    let shape: [u64; 3] = std::array::from_fn(|k| end[k] - start[k]);
    let (fine_start, fine_shape) = (start.map(|i| 2 * i), shape.map(|n| 2 * n));
    let fine = finer.read_elements(Region::of_box(&fine_start, &fine_shape))?;
    let fine = fine.into_fixed().unwrap_or_default();
    let [_, rows, columns] = fine_shape.map(|n| n as usize);
    let value = |z: usize, y: usize, x: usize| {
        let at = 2 * ((z * rows + y) * columns + x);
        fine.get(at..at + 2).map_or(0, |bytes| u32::from(u16::from_le_bytes([bytes[0], bytes[1]])))
    };
    let mut out = Vec::new();
    let [depth, height, width] = shape.map(|n| n as usize);
    for z in 0..depth {
        for y in 0..height {
            for x in 0..width {
                let of = |i: usize| value(2 * z + i / 4, 2 * y + i / 2 % 2, 2 * x + i % 2);
                let one = match method {
                    Method::First => of(0),
                    // Rounded to the nearest.
                    Method::Mean => ((0..8).map(of).sum::<u32>() + 4) / 8,
                };
                out.extend((one as u16).to_le_bytes());
            }
        }
    }
    let region = Region::of_box(start, &shape);
    coarser.write_elements(&region, ElementsRef::Fixed(&out), &WriteOptions::new())?;
    Ok(())
}
