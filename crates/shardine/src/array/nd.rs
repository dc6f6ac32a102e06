//! Reading and writing `ndarray` arrays.

use std::borrow::Cow;

use ndarray::{ArrayBase, ArrayD, ArrayViewD, Data, Dimension, IxDyn};
use shardine_codec::strided::{self, Placement};
use shardine_codec::{Element, VariableElements};

use super::Array;
use crate::Error;
use crate::engine::{Patch, WriteOptions, WriteReport};
use crate::selection::{IntoRegion, RegionError};
use crate::source::{Source, SourceError, extents};

impl Array {
    /// Reads a region as an in-memory array with as many axes as this one. See
    /// [`read`](Self::read).
    ///
    /// Needs the feature `ndarray`.
    ///
    /// ```
    /// # use shardine::{Array, Location};
    /// let array = Array::builder([4, 4], "uint16").create(&Location::memory())?;
    /// array.write((1, ..), &[1u16, 2, 3, 4])?;
    /// let corner = array.read_ndarray::<u16>((..2, ..2))?;
    /// assert_eq!(corner, ndarray::array![[0, 0], [1, 2]].into_dyn());
    /// # Ok::<(), shardine::Error>(())
    /// ```
    pub fn read_ndarray<T: Element>(&self, region: impl IntoRegion) -> Result<ArrayD<T>, Error> {
        self.check_type::<T>()?;
        let selection = region.resolve_in(self.shape())?;
        let shape = selection.shape();
        let elements = self.read_selection::<T>(selection)?;
        ArrayD::from_shape_vec(IxDyn(&extents(&shape)), elements)
            .map_err(|_| RegionError::TooLarge { shape }.into())
    }

    /// Writes a region from an in-memory array or a view of one, whatever its strides. See
    /// [`write`](Self::write).
    ///
    /// It must have the shape of the region; axes of length 1 may be left out or added. Elements
    /// are copied box by box as chunks are encoded, so a view that is not in C order costs no
    /// second copy of itself.
    ///
    /// Needs the feature `ndarray`.
    ///
    /// ```
    /// # use shardine::{Array, Location};
    /// let array = Array::builder([2, 3], "float64").create(&Location::memory())?;
    /// let columns = ndarray::array![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]];
    /// array.write_ndarray(.., &columns.t())?;
    /// assert_eq!(array.read::<f64>(..)?, [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]);
    /// # Ok::<(), shardine::Error>(())
    /// ```
    pub fn write_ndarray<T: Element, S: Data<Elem = T>, D: Dimension>(
        &self,
        region: impl IntoRegion,
        elements: &ArrayBase<S, D>,
    ) -> Result<WriteReport, Error> {
        self.write_ndarray_with(region, elements, &WriteOptions::new())
    }

    /// Writes a region from an in-memory array with these options. See
    /// [`write_ndarray`](Self::write_ndarray).
    pub fn write_ndarray_with<T: Element, S: Data<Elem = T>, D: Dimension>(
        &self,
        region: impl IntoRegion,
        elements: &ArrayBase<S, D>,
        options: &WriteOptions,
    ) -> Result<WriteReport, Error> {
        self.format.check_writable(&self.location)?;
        self.check_type::<T>()?;
        let selection = region.resolve_in(self.shape())?;
        let shape = selection.shape();
        let actual: Vec<u64> = elements.shape().iter().map(|&n| n as u64).collect();
        let long = |shape: &[u64]| shape.iter().copied().filter(|&n| n != 1).collect::<Vec<_>>();
        if long(&shape) != long(&actual) {
            return Err(RegionError::Shape { expected: shape, actual }.into());
        }
        // Drop its axes of length 1, and insert the region's.
        let mut view = elements.view().into_dyn();
        for axis in (0..view.ndim()).rev().filter(|&axis| actual[axis] == 1) {
            view = view.index_axis_move(ndarray::Axis(axis), 0);
        }
        for axis in (0..shape.len()).filter(|&axis| shape[axis] == 1) {
            view = view.insert_axis(ndarray::Axis(axis));
        }
        let source = View { array: self, elements: view };
        self.write_patches(&[Patch { selection, source: &source }], options)
    }
}

/// A view as the source of a write.
struct View<'a, T> {
    array: &'a Array,
    elements: ArrayViewD<'a, T>,
}

impl<T: Element> Source for View<'_, T> {
    fn element_size(&self) -> Option<usize> {
        Some(size_of::<T>())
    }

    fn copy_box(
        &self,
        start: &[u64],
        shape: &[u64],
        target: &mut [u8],
        to: &Placement,
    ) -> Result<(), SourceError> {
        let part = self.elements.slice_each_axis(|axis| {
            let start = start[axis.axis.index()] as usize;
            let end = start + shape[axis.axis.index()] as usize;
            ndarray::Slice::from(start..end)
        });
        let extents = extents(shape);
        let from = Placement::contiguous(shape, size_of::<T>()).ok_or(strided::OutOfMemory)?;
        let part = part.as_standard_layout();
        // In standard layout it is a slice.
        let elements = part.as_slice().ok_or(strided::OutOfMemory)?;
        let bytes: Cow<'_, [u8]> = self.array.little_endian(elements);
        strided::copy(&extents, size_of::<T>(), &bytes, &from, target, to)?;
        Ok(())
    }

    fn variable_box(&self, _: &[u64], _: &[u64]) -> Result<VariableElements, SourceError> {
        Err("elements of variable length are not in an ndarray".into())
    }
}
