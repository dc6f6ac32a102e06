use std::collections::TryReserveError;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The order in which the chunks of a new shard are written.
///
/// Any order is a valid shard. The choice depends on how the shard will be read; it is not part of
/// the format and never goes into the metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteOrder {
    /// Along the Morton (Z-order) curve: blocks of neighbouring chunks lie together.
    #[default]
    Morton,
    /// In C order: rows of chunks lie together.
    C,
    /// As they are ready: no chunk waits for another.
    Arrival,
}

impl FromStr for WriteOrder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "morton" => Ok(Self::Morton),
            "c" => Ok(Self::C),
            "arrival" => Ok(Self::Arrival),
            _ => Err(format!("\"{text}\" is not morton, c or arrival")),
        }
    }
}

impl fmt::Display for WriteOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Morton => "morton",
            Self::C => "c",
            Self::Arrival => "arrival",
        })
    }
}

/// The chunks of a grid, as C-order numbers, along the Morton curve.
///
/// Axes may have any length: the bits of an axis are interleaved as far as it has them, the last
/// axis varying fastest, and codes outside the grid do not occur.
///
/// An error if there is not enough memory.
pub fn morton_order(grid: &[u64]) -> Result<Vec<u32>, TryReserveError> {
    let chunks: u64 = grid.iter().product();
    let mut keyed: Vec<(u64, u32)> = Vec::new();
    keyed.try_reserve_exact(chunks as usize)?;
    let mut cell = vec![0u64; grid.len()];
    for number in 0..chunks {
        keyed.push((morton_code(&cell, grid), number as u32));
        for (i, &n) in cell.iter_mut().zip(grid).rev() {
            *i += 1;
            if *i < n {
                break;
            }
            *i = 0;
        }
    }
    keyed.sort_unstable();
    let mut order = Vec::new();
    order.try_reserve_exact(keyed.len())?;
    order.extend(keyed.into_iter().map(|(_, number)| number));
    Ok(order)
}

fn morton_code(cell: &[u64], grid: &[u64]) -> u64 {
    let mut code = 0u64;
    let mut at = 0;
    for bit in 0..u64::BITS {
        let mut any = false;
        for (&i, &n) in cell.iter().zip(grid).rev() {
            // An axis of n cells has as many bits as its last cell needs.
            if bit < u64::BITS - (n - 1).leading_zeros() {
                any = true;
                code |= (i >> bit & 1) << at;
                at += 1;
            }
        }
        if !any {
            break;
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_square_grid_follows_the_z_curve() {
        assert_eq!(morton_order(&[2, 2]).unwrap(), [0, 1, 2, 3]);
        assert_eq!(morton_order(&[4, 4]).unwrap()[..8], [0, 1, 4, 5, 2, 3, 6, 7]);
    }

    #[test]
    fn any_grid_is_visited_once() {
        for grid in [&[][..], &[1], &[7], &[3, 5], &[1, 6, 2], &[5, 1, 3, 2]] {
            let mut order = morton_order(grid).unwrap();
            order.sort_unstable();
            let chunks: u64 = grid.iter().product();
            assert_eq!(order, (0..chunks as u32).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_aligned_block_of_chunks_is_one_run() {
        let order = morton_order(&[8, 8, 8]).unwrap();
        let inside = |n: u32| [n / 64, n / 8 % 8, n % 8].iter().all(|&i| i < 4);
        let run: Vec<usize> = (0..512).filter(|&k| inside(order[k])).collect();
        assert_eq!(run, (0..64).collect::<Vec<_>>());
    }
}
