//! Writing regions from bytes, whatever the type. `typed.rs` has what most programs call.

use shardine_codec::{ElementSize, ElementsRef};

use super::Array;
use super::span::Call;
use crate::Error;
use crate::engine::{Patch, WriteOptions, WriteReport};
use crate::selection::{IntoRegion, Region, Selection};
use crate::source::{MemorySource, PartOfSource, Source};

impl Array {
    /// Writes a region from memory, whatever the type: for strings and other variable-length
    /// elements, and for callers that learn the type at run time. See [`write`](Self::write).
    ///
    /// Fixed-size elements are little-endian bytes, in C order.
    pub fn write_elements(
        &self,
        region: impl IntoRegion,
        elements: ElementsRef<'_>,
        options: &WriteOptions,
    ) -> Result<WriteReport, Error> {
        self.format.check_writable(&self.location)?;
        let selection = region.resolve_in(self.shape())?;
        self.write_selection(selection, elements, options)
    }

    pub(super) fn write_selection(
        &self,
        selection: Selection,
        elements: ElementsRef<'_>,
        options: &WriteOptions,
    ) -> Result<WriteReport, Error> {
        let element = match self.data_type().size() {
            ElementSize::Fixed(size) => Some(size),
            ElementSize::Variable => None,
        };
        let source = MemorySource::new(elements, &selection.shape(), element)?;
        self.write_patches(&[Patch { selection, source: &source }], options)
    }

    /// Writes many regions from memory in one call, whatever the type. See
    /// [`write_many`](Self::write_many).
    pub fn write_many_elements(
        &self,
        parts: &[(&Region, ElementsRef<'_>)],
        options: &WriteOptions,
    ) -> Result<WriteReport, Error> {
        self.format.check_writable(&self.location)?;
        let parts =
            parts.iter().map(|(region, elements)| Ok((region.resolve(self.shape())?, *elements)));
        self.write_selections(&parts.collect::<Result<Vec<_>, Error>>()?, options)
    }

    pub(super) fn write_selections(
        &self,
        parts: &[(Selection, ElementsRef<'_>)],
        options: &WriteOptions,
    ) -> Result<WriteReport, Error> {
        let element = match self.data_type().size() {
            ElementSize::Fixed(size) => Some(size),
            ElementSize::Variable => None,
        };
        let mut sources = Vec::with_capacity(parts.len());
        for (selection, elements) in parts {
            let source = MemorySource::new(*elements, &selection.shape(), element)?;
            sources.push((selection, source));
        }
        let patches: Vec<Patch<'_>> = sources
            .iter()
            .map(|(selection, source): &(&Selection, MemorySource<'_>)| {
                let (selection, source) = (Selection::clone(selection), source as &dyn Source);
                Patch { selection, source }
            })
            .collect();
        self.write_patches(&patches, options)
    }

    /// Writes a region from a source, asking it for elements box by box.
    ///
    /// Memory use is proportional to the chunks in flight, whatever the size of the region. The
    /// source may read this or other arrays, but must not write to a shard that is being written:
    /// that would deadlock.
    pub fn write_from(
        &self,
        region: impl IntoRegion,
        source: &dyn Source,
        options: &WriteOptions,
    ) -> Result<WriteReport, Error> {
        self.format.check_writable(&self.location)?;
        let selection = region.resolve_in(self.shape())?;
        self.write_patches(&[Patch { selection, source }], options)
    }

    /// Writes several boxes from one source, whose coordinates are those of the array.
    pub(crate) fn write_boxes(
        &self,
        boxes: &[Selection],
        source: &dyn Source,
        options: &WriteOptions,
    ) -> Result<WriteReport, Error> {
        self.format.check_writable(&self.location)?;
        let part = |selection: &Selection| {
            let start = selection.axes.iter().map(|axis| axis.start).collect();
            PartOfSource { source, start }
        };
        let parts: Vec<PartOfSource<'_>> = boxes.iter().map(part).collect();
        let patches = boxes.iter().zip(&parts);
        let patches =
            patches.map(|(selection, part)| Patch { selection: selection.clone(), source: part });
        self.write_patches(&patches.collect::<Vec<_>>(), options)
    }

    pub(super) fn write_patches(
        &self,
        patches: &[Patch<'_>],
        options: &WriteOptions,
    ) -> Result<WriteReport, Error> {
        let _span = self.call_span(Call::Write, patches.len());
        let held = self.hold()?;
        let array = held.array();
        array.check_covers(patches.iter().map(|patch| &patch.selection))?;
        Ok(array.chunks.write(patches, options)?)
    }

    /// Writes a selection that may lie beyond the shape, as if the array already had the shape
    /// `grown`.
    ///
    /// No reader sees it before the array grows. A chunk that ends beyond `grown` is padded with
    /// the fill value, whatever it held there before.
    pub(crate) fn write_grown(
        &mut self,
        grown: Vec<u64>,
        selection: &Selection,
        source: &dyn Source,
        options: &WriteOptions,
    ) -> Result<WriteReport, Error> {
        let stored = std::mem::replace(&mut self.chunks.shape, grown);
        let patch = Patch { selection: selection.clone(), source };
        let result = self.chunks.write(&[patch], options);
        self.chunks.shape = stored;
        Ok(result?)
    }
}
