//! Which objects of the new array to make: all, or in a large grid those that overlap what is
//! stored.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::axes::AxisMap;
use super::transfer::Transfer;
use crate::engine::tuning::SORTED_KEYS;
use crate::engine::{Cells, ObjectCells, SharedPacking};
use crate::{Array, Error};

/// A grid of more chunks than this is not walked: the stored objects show where there is data.
const DENSE: u64 = 1 << 20;

/// The most boxes of the new array kept in memory; with more, the whole grid is walked.
const MOST_BOXES: u64 = 1 << 26;

/// A box of elements, along the axes of the new array.
type Extent = Vec<Range<u64>>;

impl Transfer<'_> {
    /// Whether the grid is so large that only what is stored is visited.
    pub(super) fn is_sparse(&self) -> bool {
        self.chunk_count() > DENSE
    }

    /// Whether the object at a cell belongs to this process.
    pub(super) fn is_mine(&self, cell: &[u64]) -> bool {
        let cell: Vec<String> = cell.iter().map(u64::to_string).collect();
        self.takes(&format!("{}:{}", self.name, cell.join(",")))
    }

    /// The same for an object shared by chunks.
    pub(super) fn is_mine_shared(&self, object: u64) -> bool {
        self.takes(&format!("{}:{object}", self.name))
    }

    /// The same for the object that holds a chunk.
    pub(super) fn is_mine_chunk(&self, chunk: &[u64]) -> bool {
        match self.new.chunks.packing.shared() {
            Some(shared) => self.is_mine_shared(shared.object_of(shared.number(chunk))),
            None => self.is_mine(&self.new_cell(chunk)),
        }
    }

    fn takes(&self, task: &str) -> bool {
        self.part.is_none_or(|part| part.takes(task.as_bytes()))
    }

    /// The boxes of this shape, in elements, in C order: all, or in a large grid those that overlap
    /// stored objects. With `both`, objects of the new array count too.
    pub(super) fn boxes(
        &self,
        shape: &[u64],
        both: bool,
    ) -> Result<Box<dyn Iterator<Item = Vec<u64>> + Send>, Error> {
        let axes = self.new.shape().iter().zip(shape);
        let all = Cells::new(axes.map(|(&len, &n)| len.div_ceil(n.max(1))).collect());
        let Some(stored) = self.stored(both || self.resumed)? else { return Ok(Box::new(all)) };
        match touched(&stored, shape) {
            Some(found) => Ok(Box::new(found.into_iter())),
            None => Ok(Box::new(all)),
        }
    }

    /// The objects shared by chunks, each with its chunks.
    pub(super) fn shared_objects<'s>(
        &self,
        shared: &'s dyn SharedPacking,
    ) -> Result<Box<dyn Iterator<Item = ObjectCells> + Send + 's>, Error> {
        let Some(stored) = self.stored(self.resumed)? else { return Ok(shared.all_objects()) };
        let (grid, chunk) = (self.chunk_grid(), self.new.chunk_shape().to_vec());
        let Some(cells) = shared.object_shape() else {
            return Ok(Box::new(scattered(shared, stored, chunk)));
        };
        let shape: Vec<u64> =
            cells.iter().zip(&chunk).map(|(&cells, &n)| cells.saturating_mul(n)).collect();
        let Some(found) = touched(&stored, &shape) else { return Ok(shared.all_objects()) };
        Ok(Box::new(
            found.into_iter().filter_map(move |place| in_box(shared, &cells, &grid, &place)),
        ))
    }

    /// The object shared by chunks at a position, with its chunks.
    pub(super) fn object_at(
        &self,
        shared: &dyn SharedPacking,
        place: &[u64],
    ) -> Option<ObjectCells> {
        in_box(shared, &shared.object_shape()?, &self.chunk_grid(), place)
    }

    /// What stored objects cover; `None` if the whole grid has to be walked.
    fn stored(&self, both: bool) -> Result<Option<Vec<Extent>>, Error> {
        // Absent chunks have to be made too if they mean something else in the new array.
        if !self.is_sparse() || !self.absent_stays {
            return Ok(None);
        }
        let mut found = Vec::new();
        let identity = AxisMap::identity(self.new.shape().len());
        for (array, axes) in [(self.old, self.axes), (self.new, &identity)] {
            if std::ptr::eq(array, self.new) && !both {
                continue;
            }
            match extents(array) {
                Err(Error::UnlistedObjects { .. }) => return Ok(None),
                extents => found.extend(extents?.into_iter().map(|extent| {
                    let (start, end): (Vec<u64>, Vec<u64>) =
                        extent.into_iter().map(|range| (range.start, range.end)).unzip();
                    let (start, end) = (axes.to_new(&start, 0), axes.to_new(&end, 1));
                    start.into_iter().zip(end).map(|(start, end)| start..end).collect()
                })),
            }
        }
        Ok(Some(found))
    }
}

/// The object at a position where objects are boxes of `cells` chunks, with its chunks in the grid.
fn in_box(
    shared: &dyn SharedPacking,
    cells: &[u64],
    grid: &[u64],
    place: &[u64],
) -> Option<ObjectCells> {
    let object = shared.object_at(place)?;
    let start: Vec<u64> = place.iter().zip(cells).map(|(&i, &n)| i.saturating_mul(n)).collect();
    let axes = start.iter().zip(cells).zip(grid);
    let count = axes.map(|((&at, &n), &all)| n.min(all.saturating_sub(at))).collect();
    let number = |inside: Vec<u64>| {
        let cell: Vec<u64> = start.iter().zip(&inside).map(|(&a, &b)| a + b).collect();
        shared.number(&cell)
    };
    let mut cells: Vec<u64> = Cells::new(count).map(number).collect();
    cells.sort_unstable();
    Some(ObjectCells { object, cells })
}

/// The boxes of elements that the stored objects of an array cover.
pub(in crate::jobs) fn extents(array: &Array) -> Result<Vec<Extent>, Error> {
    let (shape, cell_shape) = (array.shape(), array.cell_shape());
    let of_cells = |first: &[u64], cells: &[u64]| -> Extent {
        let axes = first.iter().zip(cells).zip(cell_shape).zip(shape);
        axes.map(|(((&first, &cells), &n), &len)| {
            let start = first.saturating_mul(n);
            start..start.saturating_add(cells.saturating_mul(n)).min(len)
        })
        .collect()
    };
    let one = vec![1; shape.len()];
    let shared = array.chunks.packing.shared();
    let mut found = Vec::new();
    for object in array.possible_objects()? {
        match (shared, shared.and_then(SharedPacking::object_shape)) {
            (None, _) => found.push(of_cells(&object.cell, &one)),
            (Some(_), Some(cells)) => {
                let place = object.cell.iter().zip(&cells);
                let first: Vec<u64> = place.map(|(&i, &n)| i.saturating_mul(n)).collect();
                found.push(of_cells(&first, &cells));
            }
            (Some(shared), None) => {
                for number in shared.stored_cells(array.engine(), &object.cell)? {
                    found.extend(shared.cell(number).map(|cell| of_cells(&cell, &one)));
                }
            }
        }
    }
    found.retain(|extent| extent.iter().all(|range| !range.is_empty()));
    Ok(found)
}

/// The positions of boxes of this shape that overlap these extents; `None` if there are too many.
fn touched(stored: &[Extent], shape: &[u64]) -> Option<BTreeSet<Vec<u64>>> {
    let mut found = BTreeSet::new();
    for extent in stored {
        let (first, inside) = covered(extent, shape);
        if inside.count.saturating_add(found.len() as u64) > MOST_BOXES {
            return None;
        }
        found.extend(inside.map(|inside| -> Vec<u64> {
            first.iter().zip(&inside).map(|(&a, &b)| a + b).collect()
        }));
    }
    Some(found)
}

/// The first box of such a shape that an extent overlaps, and how many there are from there.
fn covered(extent: &Extent, shape: &[u64]) -> (Vec<u64>, Cells) {
    let axes = || extent.iter().zip(shape);
    let first: Vec<u64> = axes().map(|(range, &n)| range.start / n.max(1)).collect();
    let count = axes()
        .map(|(range, &n)| range.end.div_ceil(n.max(1)).saturating_sub(range.start / n.max(1)));
    let cells = Cells::new(count.collect());
    (first, cells)
}

/// Objects whose chunks are scattered over the grid: walks what is stored several times, collecting
/// a share of the objects in each pass.
fn scattered(
    shared: &dyn SharedPacking,
    stored: Vec<Extent>,
    chunk: Vec<u64>,
) -> impl Iterator<Item = ObjectCells> + Send + '_ {
    let count = |extent: &Extent| covered(extent, &chunk).1.count;
    let total = stored.iter().map(count).fold(0u64, u64::saturating_add);
    let passes = total.div_ceil(SORTED_KEYS).max(1);
    (0..passes).flat_map(move |pass| {
        let mut found: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for extent in &stored {
            let (first, inside) = covered(extent, &chunk);
            for inside in inside {
                let cell: Vec<u64> = first.iter().zip(&inside).map(|(&a, &b)| a + b).collect();
                let number = shared.number(&cell);
                let object = shared.object_of(number);
                if object % passes == pass {
                    found.entry(object).or_default().insert(number);
                }
            }
        }
        let object = |(object, cells): (u64, BTreeSet<u64>)| ObjectCells {
            object,
            cells: cells.into_iter().collect(),
        };
        found.into_iter().map(object).collect::<Vec<_>>()
    })
}
