//! The `zarrs` crate: for each workload the quickest of its public calls, as measured here.
//!
//! Into the caller's buffer for whole shards and chunks, a fresh result for boxes that cut chunks, and the calls that keep
//! indexes for planes and for single chunks (where the workload allows it).

use std::path::Path;
use std::sync::Arc;

use unsafe_cell_slice::UnsafeCellSlice;
use zarrs::array::{
    Array, ArrayBytes, ArrayBytesDecodeIntoTarget, ArrayBytesFixedDisjointView,
    ArrayMetadataOptions, ArrayShardedReadableExt, ArrayShardedReadableExtCache, ArraySubset,
    CodecOptions,
};
use zarrs::filesystem::{FilesystemStore, FilesystemStoreOptions};
use zarrs::metadata::ArrayMetadata;

use super::Subject;
use crate::Result;
use crate::block::{Block, each};
use crate::job::Job;

/// Open files that the store may keep; more than any array here has shards.
const HANDLES: usize = 64;

pub struct Zarrs {
    job: Job,
    options: CodecOptions,
    opened: Option<Opened>,
}

struct Opened {
    array: Array<FilesystemStore>,
    indexes: ArrayShardedReadableExtCache,
}

impl Zarrs {
    /// `append` turns on the experimental update of shards in place.
    pub fn new(job: &Job, append: bool) -> Result<Self> {
        rayon::ThreadPoolBuilder::new().num_threads(job.threads).build_global()?;
        zarrs::config::global_config_mut().set_codec_concurrent_target(job.threads);
        let options = CodecOptions::default()
            .with_concurrent_target(job.threads)
            .with_experimental_partial_encoding(append);
        Ok(Self { job: job.clone(), options, opened: None })
    }

    fn opened(&self) -> Result<&Opened> {
        Ok(self.opened.as_ref().ok_or("no array is open")?)
    }

    /// Whether a block holds parts of chunks.
    fn cuts_chunks(&self, block: &Block) -> bool {
        let cut = |axis: usize, at: u64| at % self.job.chunk[axis] != 0;
        (0..3).any(|axis| cut(axis, block.start[axis]) || cut(axis, block.shape[axis]))
    }

    /// The inner chunk that a block is, if it is one.
    fn inner_chunk(&self, block: &Block) -> Option<[u64; 3]> {
        let chunk = self.job.chunk;
        let one = block.shape == chunk && !self.cuts_chunks(block);
        one.then(|| each(|axis| block.start[axis] / chunk[axis]))
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
        let indexes = ArrayShardedReadableExtCache::new(&array);
        self.opened = Some(Opened { array, indexes });
        Ok(())
    }

    fn create(&mut self, path: &Path) -> Result {
        std::fs::create_dir_all(path)?;
        let metadata: ArrayMetadata = serde_json::from_value(self.job.metadata.clone())?;
        let array = Array::new_with_metadata(store(path)?, "/", metadata)?;
        let options = ArrayMetadataOptions::default().with_include_zarrs_metadata(false);
        array.store_metadata_opt(&options)?;
        let indexes = ArrayShardedReadableExtCache::new(&array);
        self.opened = Some(Opened { array, indexes });
        Ok(())
    }

    fn read_fresh(&mut self, block: &Block) -> Result<Vec<u8>> {
        let bytes: ArrayBytes =
            self.opened()?.array.retrieve_array_subset_opt(&subset(block)?, &self.options)?;
        Ok(bytes.into_fixed()?.into_owned())
    }

    fn read_into(&mut self, block: &Block, out: &mut [u8]) -> Result<Option<Vec<u8>>> {
        let Opened { array, indexes } = self.opened()?;
        if self.job.index_cache
            && let Some(chunk) = self.inner_chunk(block)
        {
            let bytes: ArrayBytes = array.retrieve_subchunk_opt(indexes, &chunk, &self.options)?;
            return Ok(Some(bytes.into_fixed()?.into_owned()));
        }
        if block.shape[2] == 1 {
            let bytes: ArrayBytes =
                array.retrieve_array_subset_sharded_opt(indexes, &subset(block)?, &self.options)?;
            return Ok(Some(bytes.into_fixed()?.into_owned()));
        }
        if self.cuts_chunks(block) {
            return self.read_fresh(block).map(Some);
        }
        let shape = block.shape;
        let cells = UnsafeCellSlice::new(out);
        // SAFETY: this view of the output is the only one.
        let mut view = unsafe {
            ArrayBytesFixedDisjointView::new(
                cells,
                self.job.element,
                &shape,
                ArraySubset::new_with_shape(shape.to_vec()),
            )?
        };
        let target = ArrayBytesDecodeIntoTarget::Fixed(&mut view);
        array.retrieve_array_subset_into_opt(&subset(block)?, target, &self.options)?;
        Ok(None)
    }

    fn write(&mut self, block: &Block, elements: &[u8]) -> Result {
        let array = &self.opened()?.array;
        let elements = ArrayBytes::new_flen(elements);
        array.store_array_subset_opt(&subset(block)?, elements, &self.options)?;
        Ok(())
    }
}
