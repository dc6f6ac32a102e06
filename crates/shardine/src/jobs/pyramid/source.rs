//! A level as the source of the next one's elements, for writes that go through the engine.

use shardine_codec::strided::{self, Placement};
use shardine_codec::{Downsample, VariableElements};

use super::reader::{Reader, Reduced};
use crate::source::{Source, SourceError, extents};
use crate::{Array, Error};

/// The elements that a level is to have, made from the level before it when they are asked for.
pub(super) struct Reducing<'a> {
    reader: Reader<'a>,
    kernel: &'a Downsample,
    factors: &'a [u64],
    /// Bytes of an element.
    element: usize,
}

impl<'a> Reducing<'a> {
    pub fn new(finer: &'a Array, kernel: &'a Downsample, factors: &'a [u64]) -> Self {
        let element = finer.chunks.layout.element_size();
        Self { reader: Reader::new(finer), kernel, factors, element }
    }

    fn reduce(&self, start: &[u64], shape: &[u64]) -> Result<Vec<u8>, Error> {
        let finer = self.reader.array();
        let scaled = |values: &[u64]| -> Vec<u64> {
            values.iter().zip(self.factors).map(|(&n, &f)| n.saturating_mul(f)).collect()
        };
        let (from, whole) = (scaled(start), scaled(shape));
        let axes = from.iter().zip(&whole).zip(finer.shape());
        let bounds: Vec<u64> =
            axes.map(|((&at, &n), &len)| n.min(len.saturating_sub(at))).collect();
        let fill = &finer.fill().0;
        let mut reduced = Reduced { shape, element: self.element, fill, elements: None };
        finer.engine().with_context(|context| {
            let (kernel, factors) = (self.kernel, self.factors);
            self.reader.reduce(context, kernel, &from, &whole, &bounds, factors, &mut reduced)?;
            // Where nothing is stored, everything is the fill value.
            reduced.begin(context)
        })?;
        Ok(reduced.elements.unwrap_or_default())
    }
}

impl Source for Reducing<'_> {
    fn element_size(&self) -> Option<usize> {
        Some(self.element)
    }

    fn copy_box(
        &self,
        start: &[u64],
        shape: &[u64],
        target: &mut [u8],
        to: &Placement,
    ) -> Result<(), SourceError> {
        let elements = self.reduce(start, shape)?;
        let from = Placement::contiguous(shape, self.element).ok_or(strided::OutOfMemory)?;
        strided::copy(&extents(shape), self.element, &elements, &from, target, to)?;
        Ok(())
    }

    fn variable_box(&self, _: &[u64], _: &[u64]) -> Result<VariableElements, SourceError> {
        Err("elements of variable length cannot be reduced".into())
    }
}
