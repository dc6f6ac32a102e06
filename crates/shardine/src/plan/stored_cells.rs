//! Which objects of an array are there.

use std::collections::HashSet;

use shardine_store::StoreError;

use super::sample::Sample;
use super::situation::count;
use crate::{Array, Error};

/// Objects that an array may have room for, at most, for them to be listed although the sample has
/// found all it asked for.
const LISTED_LOCAL: u64 = 1_000_000;
const LISTED_REMOTE: u64 = 10_000;

/// The most cells that are mapped to another grid; beyond that the number is an estimate.
const MOST_MAPPED: u64 = 4_000_000;

/// The cells of an array's grid whose objects are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCells {
    /// Elements of an object along each axis.
    cell: Vec<u64>,
    /// Elements of the array along each axis.
    shape: Vec<u64>,
    cells: Vec<Vec<u64>>,
}

/// Lists the stored objects of an array; `None` if the store cannot list, listing would cost too
/// much, or there are none yet.
///
/// A listing for each folder, as of [`Array::objects`]. An array is not listed if it seems to have a
/// great many objects, by the share of its chunks that `sample` has found, or if its store cannot
/// list.
pub fn stored_cells(array: &Array, sample: Option<&Sample>) -> Result<Option<StoredCells>, Error> {
    if array.chunks.packing.shared().is_some() {
        return Ok(None);
    }
    let most = match array.location().store.read_cost().local {
        true => LISTED_LOCAL,
        false => LISTED_REMOTE,
    };
    let cells = array.cells().count;
    let likely = cells as f64 * sample.map_or(1.0, Sample::share);
    if cells > most && likely > most as f64 {
        return Ok(None);
    }
    match array.objects() {
        Ok(objects) if objects.is_empty() => Ok(None),
        Ok(objects) => Ok(Some(StoredCells {
            cell: array.cell_shape().to_vec(),
            shape: array.shape().to_vec(),
            cells: objects.into_iter().map(|object| object.cell).collect(),
        })),
        Err(Error::UnlistedObjects { .. } | Error::Store(StoreError::Unsupported { .. })) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

impl StoredCells {
    /// How many objects there are.
    pub fn count(&self) -> u64 {
        self.cells.len() as u64
    }

    /// How many objects of this shape hold what is stored, if each of them holds whole objects that
    /// are there; `None` if not, or if there are too many to tell.
    pub(super) fn packed(&self, object: &[u64]) -> Option<u64> {
        let whole = |(&new, &old): (&u64, &u64)| old > 0 && new.is_multiple_of(old);
        if object == self.cell {
            return Some(self.count());
        }
        let is_coarser =
            object.len() == self.cell.len() && object.iter().zip(&self.cell).all(whole);
        if !is_coarser || self.count() > MOST_MAPPED {
            return None;
        }
        let of = |cell: &Vec<u64>| -> Vec<u64> {
            let axes = cell.iter().zip(&self.cell).zip(object);
            axes.map(|((&i, &old), &new)| i / (new / old).max(1)).collect()
        };
        Some(self.cells.iter().map(of).collect::<HashSet<_>>().len() as u64)
    }

    /// The share of all there is room for that is stored, if objects hold as much as those of the
    /// sample. `None` if nothing was measured, or no object is missing, so that the sample alone
    /// tells.
    pub(super) fn share(&self, sample: Option<&Sample>) -> Option<f64> {
        let grid = |cell: &[u64]| -> u64 {
            let axes = self.shape.iter().zip(cell);
            count(&axes.map(|(&length, &n)| length.div_ceil(n.max(1))).collect::<Vec<_>>())
        };
        if self.count() >= grid(&self.cell) {
            return None;
        }
        let sample = sample.filter(|sample| sample.objects > 0)?;
        let each = sample.count as f64 / sample.objects as f64;
        Some((self.count() as f64 * each / grid(&sample.shape).max(1) as f64).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_that_share_a_larger_one_count_once() {
        let stored = StoredCells {
            cell: vec![4, 4],
            shape: vec![100, 100],
            cells: vec![vec![0, 0], vec![0, 1], vec![1, 1], vec![20, 20]],
        };
        assert_eq!(stored.packed(&[4, 4]), Some(4));
        assert_eq!(stored.packed(&[8, 8]), Some(2));
        assert_eq!(stored.packed(&[4, 8]), Some(3));
        // What is in the parts of an object is not known.
        assert_eq!((stored.packed(&[2, 2]), stored.packed(&[6, 4])), (None, None));
    }
}
