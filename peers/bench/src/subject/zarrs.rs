//! The `zarrs` crate: for each workload the quickest of its public calls, as measured here.
//!
//! Into the caller's buffer for whole shards and chunks, a fresh result for boxes that cut chunks,
//! and the calls that keep indexes for planes. For single chunks whose index may be kept, a decoder
//! per shard is kept. It has no call for output in Fortran order: there the result is read in C
//! order into a buffer that is kept, and turned over with all threads.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::Arc;

use memmap2::MmapMut;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use unsafe_cell_slice::UnsafeCellSlice;
use zarrs::array::{
    Array, ArrayBytes, ArrayBytesDecodeIntoTarget, ArrayBytesFixedDisjointView,
    ArrayMetadataOptions, ArrayPartialDecoderTraits, ArrayShardedReadableExt,
    ArrayShardedReadableExtCache, ArraySubset, CodecOptions,
};
use zarrs::filesystem::{FilesystemStore, FilesystemStoreOptions};
use zarrs::metadata::ArrayMetadata;

use super::Subject;
use crate::Result;
use crate::block::{Block, each};
use crate::floor::{Layout, Output, Piece, scatter};
use crate::job::{Job, Order};
use crate::memory::aligned;

/// Open files that the store may keep; more than any array here has shards.
const HANDLES: usize = 64;

pub struct Zarrs {
    job: Job,
    options: CodecOptions,
    opened: Option<Opened>,
    /// What is read in C order before it is turned over.
    turned: Option<MmapMut>,
}

struct Opened {
    array: Array<FilesystemStore>,
    indexes: ArrayShardedReadableExtCache,
    decoders: RefCell<HashMap<[u64; 3], Arc<dyn ArrayPartialDecoderTraits>>>,
}

impl Opened {
    fn new(array: Array<FilesystemStore>) -> Self {
        let indexes = ArrayShardedReadableExtCache::new(&array);
        Self { array, indexes, decoders: RefCell::default() }
    }
}

impl Zarrs {
    /// `append` turns on the experimental update of shards in place.
    pub fn new(job: &Job, append: bool) -> Result<Self> {
        rayon::ThreadPoolBuilder::new().num_threads(job.threads).build_global()?;
        zarrs::config::global_config_mut().set_codec_concurrent_target(job.threads);
        let options = CodecOptions::default()
            .with_concurrent_target(job.threads)
            .with_experimental_partial_encoding(append);
        Ok(Self { job: job.clone(), options, opened: None, turned: None })
    }

    fn opened(&self) -> Result<&Opened> {
        Ok(self.opened.as_ref().ok_or("no array is open")?)
    }

    /// Whether a block holds parts of chunks.
    fn cuts_chunks(&self, block: &Block) -> bool {
        let cut = |axis: usize, at: u64| !at.is_multiple_of(self.job.chunk[axis]);
        (0..3).any(|axis| cut(axis, block.start[axis]) || cut(axis, block.shape[axis]))
    }

    /// Reads one inner chunk through the kept decoder of its shard, which keeps the index.
    fn read_chunk(&self, block: &Block, out: &mut [u8]) -> Result<Option<Vec<u8>>> {
        let Opened { array, decoders, .. } = self.opened()?;
        let shard = self.job.shard;
        let cell = each(|axis| block.start[axis] / shard[axis]);
        let mut decoders = decoders.borrow_mut();
        let decoder = match decoders.entry(cell) {
            Entry::Occupied(kept) => Arc::clone(kept.get()),
            Entry::Vacant(new) => {
                Arc::clone(new.insert(array.partial_decoder_opt(&cell, &self.options)?))
            }
        };
        let start = each(|axis| block.start[axis] % shard[axis]);
        let inside = subset(&Block { start, ..*block })?;
        // SAFETY: this view of the output is the only one.
        let mut view = unsafe { self.view(block, out)? };
        let target = ArrayBytesDecodeIntoTarget::Fixed(&mut view);
        decoder.partial_decode_into(&inside, target, &self.options)?;
        Ok(None)
    }

    /// Reads whole chunks in C order and copies them to the output in Fortran order.
    fn read_fortran(&mut self, block: &Block, out: &mut [u8]) -> Result {
        let mut buffer = match self.turned.take() {
            Some(buffer) if buffer.len() == out.len() => buffer,
            _ => aligned(out.len()),
        };
        self.read_whole(block, &mut buffer)?;
        let layout =
            Layout { element: self.job.element, inside: Order::C, outside: Order::Fortran };
        let output = Output::new(out);
        let cells: Vec<_> = block.cells(self.job.chunk).points().collect();
        cells.into_par_iter().for_each(|cell| {
            let start = each(|axis| cell[axis] * self.job.chunk[axis]);
            let Some(part) = block.overlap(&Block { start, shape: self.job.chunk }) else { return };
            let piece = Piece::new(0, 0, block, &part, block, layout);
            // SAFETY: both memories hold the block, and parts of it do not overlap.
            unsafe { scatter(&piece, buffer.as_ptr(), output.start()) };
        });
        self.turned = Some(buffer);
        Ok(())
    }

    /// Reads whole chunks into the caller's memory.
    fn read_whole(&self, block: &Block, out: &mut [u8]) -> Result {
        // SAFETY: this view of the output is the only one.
        let mut view = unsafe { self.view(block, out)? };
        let target = ArrayBytesDecodeIntoTarget::Fixed(&mut view);
        let array = &self.opened()?.array;
        Ok(array.retrieve_array_subset_into_opt(&subset(block)?, target, &self.options)?)
    }

    /// A view of all of the output.
    ///
    /// # Safety
    ///
    /// There must be no other.
    unsafe fn view<'a>(
        &self,
        block: &'a Block,
        out: &'a mut [u8],
    ) -> Result<ArrayBytesFixedDisjointView<'a>> {
        let cells = UnsafeCellSlice::new(out);
        let all = ArraySubset::new_with_shape(block.shape.to_vec());
        // SAFETY: the caller's promise.
        let view = unsafe {
            ArrayBytesFixedDisjointView::new(cells, self.job.element, &block.shape, all)?
        };
        Ok(view)
    }
}

fn store(path: &Path) -> Result<Arc<FilesystemStore>> {
    let mut options = FilesystemStoreOptions::default();
    options.file_handle_cache_size(HANDLES);
    Ok(Arc::new(FilesystemStore::new_with_options(path, options)?))
}

fn subset(block: &Block) -> Result<ArraySubset> {
    Ok(ArraySubset::new_with_start_shape(block.start.to_vec(), block.shape.to_vec())?)
}

impl Subject for Zarrs {
    fn version(&self) -> String {
        "zarrs 0.23.14".to_owned()
    }

    fn open(&mut self, path: &Path) -> Result {
        let array = Array::open(store(path)?, "/")?;
        self.opened = Some(Opened::new(array));
        Ok(())
    }

    fn create(&mut self, path: &Path) -> Result {
        std::fs::create_dir_all(path)?;
        let metadata: ArrayMetadata = serde_json::from_value(self.job.metadata.clone())?;
        let array = Array::new_with_metadata(store(path)?, "/", metadata)?;
        let options = ArrayMetadataOptions::default().with_include_zarrs_metadata(false);
        array.store_metadata_opt(&options)?;
        self.opened = Some(Opened::new(array));
        Ok(())
    }

    fn read_fresh(&mut self, block: &Block) -> Result<Vec<u8>> {
        let bytes: ArrayBytes =
            self.opened()?.array.retrieve_array_subset_opt(&subset(block)?, &self.options)?;
        Ok(bytes.into_fixed()?.into_owned())
    }

    fn read_into(&mut self, block: &Block, out: &mut [u8]) -> Result<Option<Vec<u8>>> {
        if self.job.order == Order::Fortran {
            return self.read_fortran(block, out).map(|()| None);
        }
        let Opened { array, indexes, .. } = self.opened()?;
        if self.job.index_cache && block.shape == self.job.chunk {
            return self.read_chunk(block, out);
        }
        if block.shape[2] == 1 {
            let bytes: ArrayBytes =
                array.retrieve_array_subset_sharded_opt(indexes, &subset(block)?, &self.options)?;
            return Ok(Some(bytes.into_fixed()?.into_owned()));
        }
        if self.cuts_chunks(block) {
            return self.read_fresh(block).map(Some);
        }
        self.read_whole(block, out).map(|()| None)
    }

    fn write(&mut self, block: &Block, elements: &[u8]) -> Result {
        let array = &self.opened()?.array;
        let elements = ArrayBytes::new_flen(elements);
        array.store_array_subset_opt(&subset(block)?, elements, &self.options)?;
        Ok(())
    }
}
