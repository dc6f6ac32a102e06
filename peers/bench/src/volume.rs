//! The two volumes that everything is measured on, the same in every run.

use std::f64::consts::TAU;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::Result;
use crate::block::Triple;
use crate::random::{Random, mix};

/// Waves that the image is the sum of.
const WAVES: usize = 10;

/// How far the waves swing. Chosen, with the four bits of noise, for a zstd level 3 ratio near
/// 1.46.
const SWING: f64 = 3220.0;

/// One wave: the product of a cosine along each axis.
struct Wave {
    along: [Vec<f32>; 3],
}

/// Writes an image of 16 bits: smooth structure of many sizes, with four bits of noise.
pub fn image(path: &Path, shape: Triple) -> Result {
    let mut random = Random::new(20_261_101);
    let waves: Vec<Wave> = (0..WAVES)
        .map(|_| {
            let amplitude = SWING * (0.5 + random.unit()) / WAVES as f64;
            let mut axis = |length: u64, amplitude: f64| -> Vec<f32> {
                let period = 48.0 + 208.0 * random.unit();
                let phase = TAU * random.unit();
                let at = |i: u64| (amplitude * (TAU * i as f64 / period + phase).cos()) as f32;
                (0..length).map(at).collect()
            };
            Wave { along: [axis(shape[0], 1.0), axis(shape[1], 1.0), axis(shape[2], amplitude)] }
        })
        .collect();
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let width = shape[2] as usize;
    let mut row = vec![0f32; width];
    let mut bytes = Vec::with_capacity(width * 2);
    for z in 0..shape[0] as usize {
        for y in 0..shape[1] as usize {
            row.fill(6000.0);
            for wave in &waves {
                let factor = wave.along[0][z] * wave.along[1][y];
                for (value, along) in row.iter_mut().zip(&wave.along[2]) {
                    *value += factor * along;
                }
            }
            bytes.clear();
            let mut noise = 0;
            for (x, &value) in row.iter().enumerate() {
                noise = if x % 16 == 0 { random.next() } else { noise >> 4 };
                let value = value as u16 + (noise & 15) as u16;
                bytes.extend_from_slice(&value.to_le_bytes());
            }
            out.write_all(&bytes)?;
        }
    }
    Ok(out.flush()?)
}

/// Edge of the grid that each cell of the segmentation has one seed in.
const CELL: u64 = 40;

/// Writes a segmentation of 64 bits: each element is the number of its nearest seed.
pub fn segmentation(path: &Path, shape: Triple) -> Result {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut row = Vec::with_capacity(shape[2] as usize * 8);
    for z in 0..shape[0] {
        for y in 0..shape[1] {
            row.clear();
            let mut near: Vec<(Triple, u64)> = Vec::new();
            for x in 0..shape[2] {
                if x % CELL == 0 {
                    near = neighbours([z / CELL, y / CELL, x / CELL]);
                }
                let distance = |seed: Triple| {
                    let d = |a: u64, b: u64| (a + CELL).abs_diff(b).pow(2);
                    d(z, seed[0]) + d(y, seed[1]) + d(x, seed[2])
                };
                let nearest = near.iter().min_by_key(|(seed, _)| distance(*seed));
                let label = nearest.map_or(0, |&(_, label)| label);
                row.extend_from_slice(&label.to_le_bytes());
            }
            out.write_all(&row)?;
        }
    }
    Ok(out.flush()?)
}

/// The seeds around a cell and their labels. Coordinates are shifted by one cell, so none is
/// negative.
fn neighbours(cell: Triple) -> Vec<(Triple, u64)> {
    let mut seeds = Vec::with_capacity(27);
    for i in 0..27u64 {
        let at = [cell[0] + i / 9, cell[1] + i / 3 % 3, cell[2] + i % 3];
        let hash = mix(at[0] << 40 | at[1] << 20 | at[2]);
        let seed = [
            at[0] * CELL + hash % CELL,
            at[1] * CELL + (hash >> 16) % CELL,
            at[2] * CELL + (hash >> 32) % CELL,
        ];
        // Numbers as large as those of real segmentations.
        seeds.push((seed, mix(hash) >> 24));
    }
    seeds
}
