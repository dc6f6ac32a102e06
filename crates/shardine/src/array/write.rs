//! Writing regions.

use shardine_codec::{ElementSize, ElementsRef};

use super::Array;
use crate::Error;
use crate::engine::{Patch, WriteOptions, WriteReport};
use crate::selection::{Region, Selection};
use crate::source::{MemorySource, Source};

impl Array {
    /// Writes a region from memory, in C order.
    ///
    /// Each shard changes atomically. A shard that is only partly covered is rewritten, with its
    /// other chunks moved as bytes, or updated in place, as the options say. Concurrent writers of
    /// a shard wait for each other; if another writer got there first, its change is kept and this
    /// one is applied on top of it.
    pub fn write(
        &self,
        region: &Region,
        elements: ElementsRef<'_>,
        options: &WriteOptions,
    ) -> Result<WriteReport, Error> {
        self.format.check_writable(&self.location)?;
        let selection = region.resolve(self.shape())?;
        let element = match self.data_type().size() {
            ElementSize::Fixed(size) => Some(size),
            ElementSize::Variable => None,
        };
        let source = MemorySource::new(elements, &selection.shape(), element)?;
        self.write_patches(&[Patch { selection, source: &source }], options)
    }

    /// Writes many regions from memory in one go; where they overlap, later ones win.
    ///
    /// Each shard changes once and atomically, however many regions touch it. Costs what the
    /// regions would cost one by one, less the shards that they share; a chunk that several regions
    /// touch is encoded once for each of them.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use shardine::{ArrayNode, Elements, ElementsRef, Engine, Location, Region, WriteOptions};
    /// # use shardine::zarr::metadata::NodeMetadata;
    /// # let document = br#"{
    /// #     "zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "uint8",
    /// #     "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
    /// #     "chunk_key_encoding": {"name": "default"}, "fill_value": 0, "codecs": [{"name": "bytes"}]
    /// # }"#;
    /// # let NodeMetadata::Array(metadata) = NodeMetadata::parse(document)? else { unreachable!() };
    /// # let location = Location::root(Arc::new(shardine::store::MemoryStore::new()));
    /// # let array = ArrayNode::create(&Engine::shared()?, &location, metadata, false)?;
    /// let (first, second): (Region, Region) = ("0:3".parse()?, "2".parse()?);
    /// let parts = [(&first, ElementsRef::Fixed(&[1, 1, 1])), (&second, ElementsRef::Fixed(&[2]))];
    /// array.write_many(&parts, &WriteOptions::new())?;
    /// assert_eq!(array.read(&Region::all())?, Elements::Fixed(vec![1, 1, 2, 0]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_many(
        &self,
        parts: &[(&Region, ElementsRef<'_>)],
        options: &WriteOptions,
    ) -> Result<WriteReport, Error> {
        self.format.check_writable(&self.location)?;
        let element = match self.data_type().size() {
            ElementSize::Fixed(size) => Some(size),
            ElementSize::Variable => None,
        };
        let mut sources = Vec::with_capacity(parts.len());
        for (region, elements) in parts {
            let selection = region.resolve(self.shape())?;
            let source = MemorySource::new(*elements, &selection.shape(), element)?;
            sources.push((selection, source));
        }
        let patches: Vec<Patch<'_>> = sources
            .iter()
            .map(|part| {
                let (selection, source) = (part.0.clone(), &part.1 as &dyn Source);
                Patch { selection, source }
            })
            .collect();
        self.write_patches(&patches, options)
    }

    /// Writes a region from a source, asking it for elements box by box.
    ///
    /// Memory is in proportion to the chunks in flight, whatever the size of the region. The source
    /// may read this or other arrays, but must not write to a shard that is being written: it would
    /// wait for itself.
    pub fn write_from(
        &self,
        region: &Region,
        source: &dyn Source,
        options: &WriteOptions,
    ) -> Result<WriteReport, Error> {
        self.format.check_writable(&self.location)?;
        let selection = region.resolve(self.shape())?;
        self.write_patches(&[Patch { selection, source }], options)
    }

    fn write_patches(
        &self,
        patches: &[Patch<'_>],
        options: &WriteOptions,
    ) -> Result<WriteReport, Error> {
        let held = self.hold()?;
        let array = held.array();
        array.check_covers(patches.iter().map(|patch| &patch.selection))?;
        Ok(array.chunks.write(patches, options)?)
    }

    /// Writes a selection that may lie beyond the shape, as if the array had the shape `grown`
    /// already.
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
