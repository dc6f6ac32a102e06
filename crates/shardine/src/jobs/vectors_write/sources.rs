//! What is built, as sources of elements for the engine.

use std::collections::BTreeMap;

use shardine_codec::VariableElements;
use shardine_codec::strided::Placement;
use shardine_geometry::GeometryError;
use shardine_geometry::zarr_vectors::{
    BuiltGroups, BuiltObjects, BuiltStore, GridArray, ObjectArray,
};

use crate::source::{GeneratorSource, Source, SourceError};

/// The objects that cells of a grid lie in, with the bytes of their cells.
pub(in crate::jobs) fn grid_objects(
    cells: impl Iterator<Item = (Vec<u64>, u64)>,
    shard: Option<&[u64]>,
) -> BTreeMap<Vec<u64>, u64> {
    let mut objects = BTreeMap::new();
    for (cell, bytes) in cells {
        *objects.entry(object_of(cell, shard)).or_insert(0u64) += bytes;
    }
    objects
}

/// The object that a cell lies in.
pub(in crate::jobs) fn object_of(mut cell: Vec<u64>, shard: Option<&[u64]>) -> Vec<u64> {
    if let Some(shard) = shard {
        cell.iter_mut().zip(shard).for_each(|(at, length)| *at /= (*length).max(1));
    }
    cell
}

/// The cells of an array of a store, with their bytes.
pub(super) fn built_cells<'a>(
    store: &'a BuiltStore,
    array: &'a GridArray,
) -> impl Iterator<Item = (Vec<u64>, u64)> + 'a {
    store.chunks(array).into_iter().map(move |chunk| {
        let cell = store.cell(&chunk);
        let bytes = store.cell_len(array, &cell);
        (cell, bytes)
    })
}

/// Replaces the contents of a vector with a cell.
type ReadCell<'a> = dyn Fn(&[u64], &mut Vec<u8>) -> Result<(), GeometryError> + Send + Sync + 'a;

/// The cells of a grid, each a string of bytes.
pub(in crate::jobs) struct CellSource<'a>(Box<ReadCell<'a>>);

impl<'a> CellSource<'a> {
    /// Cells that `read` gives; one without bytes is empty.
    pub fn new(
        read: impl Fn(&[u64], &mut Vec<u8>) -> Result<(), GeometryError> + Send + Sync + 'a,
    ) -> Self {
        Self(Box::new(read))
    }
}

impl Source for CellSource<'_> {
    fn copy_box(
        &self,
        _: &[u64],
        _: &[u64],
        _: &mut [u8],
        _: &Placement,
    ) -> Result<(), SourceError> {
        Err(NOT_NUMBERS.into())
    }

    fn variable_box(&self, start: &[u64], shape: &[u64]) -> Result<VariableElements, SourceError> {
        let mut elements = VariableElements::new();
        let mut bytes = Vec::new();
        let mut cell = start.to_vec();
        let count = shape.iter().product::<u64>();
        for number in 0..count {
            let mut rest = number;
            for axis in (0..shape.len()).rev() {
                cell[axis] = start[axis] + rest % shape[axis];
                rest /= shape[axis];
            }
            (self.0)(&cell, &mut bytes)?;
            elements.push(&bytes);
        }
        Ok(elements)
    }
}

const NOT_NUMBERS: &str = "the array does not hold numbers";

/// Hands the rows of a block to a function.
type ReadBlock<'a> =
    dyn Fn(u64, &mut dyn FnMut(&[u8])) -> Result<(), GeometryError> + Send + Sync + 'a;

/// Rows of any length, which come in blocks: manifests, or members of groups.
pub(in crate::jobs) struct RowSource<'a> {
    pub block: u64,
    read: Box<ReadBlock<'a>>,
}

impl<'a> RowSource<'a> {
    /// Rows that `read` gives, in blocks of `block`.
    pub fn new(
        block: u64,
        read: impl Fn(u64, &mut dyn FnMut(&[u8])) -> Result<(), GeometryError> + Send + Sync + 'a,
    ) -> Self {
        Self { block, read: Box::new(read) }
    }

    pub(super) fn manifests(objects: BuiltObjects<'a>) -> Self {
        Self::new(BuiltObjects::BLOCK, move |block, each| objects.read_manifests(block, each))
    }

    pub(super) fn members(groups: BuiltGroups<'a>) -> Self {
        Self::new(BuiltGroups::BLOCK, move |block, each| groups.read_members(block, each))
    }
}

impl Source for RowSource<'_> {
    fn copy_box(
        &self,
        _: &[u64],
        _: &[u64],
        _: &mut [u8],
        _: &Placement,
    ) -> Result<(), SourceError> {
        Err(NOT_NUMBERS.into())
    }

    fn variable_box(&self, start: &[u64], shape: &[u64]) -> Result<VariableElements, SourceError> {
        let first = start.first().copied().unwrap_or(0);
        let count = shape.first().copied().unwrap_or(0);
        let mut elements = VariableElements::new();
        let mut block = first / self.block;
        let mut number = block * self.block;
        let end = first.saturating_add(count);
        while number < end {
            (self.read)(block, &mut |row| {
                if (first..end).contains(&number) {
                    elements.push(row);
                }
                number += 1;
            })?;
            block += 1;
            // Also if there are fewer than were asked for.
            number = number.max(block * self.block);
        }
        Ok(elements)
    }
}

/// An attribute of objects.
pub(super) fn value_source<'a>(store: &'a BuiltStore, array: &'a ObjectArray) -> impl Source + 'a {
    let element = array.element;
    GeneratorSource::new(element, move |start: &[u64], shape: &[u64], out: &mut [u8]| {
        let (first, rows) = (start.first().copied(), shape.first().copied());
        let (column, columns) = (start.get(1).copied(), shape.get(1).copied());
        let mut values = Vec::new();
        store.read_object_rows(array, first.unwrap_or(0), rows.unwrap_or(0), &mut values)?;
        // Chunks have all columns, but a part of them may be asked for.
        let row = array.elements() as usize * element;
        let begin = column.unwrap_or(0) as usize * element;
        let end = begin + columns.unwrap_or(1) as usize * element;
        let wanted = values.chunks_exact(row.max(1)).filter_map(|row| row.get(begin..end));
        let mut places = out.chunks_exact_mut((end - begin).max(1));
        for (place, value) in places.by_ref().zip(wanted) {
            place.copy_from_slice(value);
        }
        match (places.next(), places.into_remainder()) {
            (None, []) => Ok(()),
            _ => Err(Box::new(GeometryError::Spool(std::io::ErrorKind::UnexpectedEof.into()))),
        }
    })
}

/// The ids of objects, which `read` gives from a row on, of 64 bits each.
pub(in crate::jobs) fn id_source<'a>(
    read: impl Fn(u64, u64, &mut Vec<u8>) -> Result<(), GeometryError> + Send + Sync + 'a,
) -> impl Source + 'a {
    GeneratorSource::new(8, move |start: &[u64], shape: &[u64], out: &mut [u8]| {
        let (start, count) = (start.first().copied(), shape.first().copied());
        let mut ids = Vec::new();
        read(start.unwrap_or(0), count.unwrap_or(0), &mut ids)?;
        if ids.len() != out.len() {
            return Err(Box::new(GeometryError::Spool(std::io::ErrorKind::UnexpectedEof.into())));
        }
        out.copy_from_slice(&ids);
        Ok(())
    })
}
