use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use shardine_codec::strided::{Placement, Window};
use shardine_codec::{ArraySpec, DataType, ElementSize, Elements, ElementsRef};
use shardine_store::{Condition, Key, Store, StoreError, StoreExt};
use smallvec::SmallVec;

use super::consolidated::{StaleCopy, renew_consolidated_above};
use super::current::{Successor, has_same_chunks};
use super::metadata::{ArrayMetadata, ChunkKeyEncoding, NodeMetadata, ZarrFormat};
use super::node::{ARRAY_DOCUMENTS, DOCUMENT, V2_DOCUMENTS, array_document, read_document};
use super::stored::GridContents;
use crate::anchor::Anchor;
use crate::engine::{
    Grid, Packing, Patch, StoredObject, WriteOptions, WriteReport, is_streamed, read, write,
};
use crate::layout::{Layout, Target, VariableTable};
use crate::precomputed::VolumeScale;
use crate::selection::{Region, RegionError, Selection};
use crate::source::{MemorySource, Source};
use crate::{Engine, Error, Location};

/// A Zarr array, of version 3 or, to be read and written as it is, of version 2.
///
/// ```
/// use std::sync::Arc;
/// use shardine::zarr::metadata::{ArrayMetadata, NodeMetadata};
/// use shardine::{Array, Elements, Engine, Location, Region, WriteOptions};
///
/// let document = br#"{
///     "zarr_format": 3, "node_type": "array", "shape": [100, 100], "data_type": "uint8",
///     "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [64, 64]}},
///     "chunk_key_encoding": {"name": "default"}, "fill_value": 0,
///     "codecs": [{"name": "sharding_indexed", "configuration": {
///         "chunk_shape": [16, 16], "codecs": ["bytes", {"name": "zstd", "configuration": {"level": 3, "checksum": false}}],
///         "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, "crc32c"]}}]
/// }"#;
/// let NodeMetadata::Array(metadata) = NodeMetadata::parse(document)? else { unreachable!() };
/// let location = Location::root(Arc::new(shardine::store::MemoryStore::new()));
/// let array = Array::create(&Engine::shared()?, &location, metadata, false)?;
///
/// let corner: Region = "90:,90:".parse()?;
/// array.write(&corner, Elements::Fixed(vec![7; 100]).as_ref(), &WriteOptions::new())?;
/// assert_eq!(array.read(&"89:91,99".parse()?)?, Elements::Fixed(vec![0, 7]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Array {
    pub(crate) engine: Arc<Engine>,
    pub(super) location: Location,
    pub(super) metadata: ArrayMetadata,
    pub(crate) grid: Grid,
    chunk_shape: Vec<u64>,
    entry_shape: Option<Vec<u64>>,
    shard_shape: Option<Vec<u64>>,
    /// If it is a scale of a volume.
    pub(super) scale: Option<VolumeScale>,
    /// By what it is told whether another array has taken its place, where that can be.
    pub(super) anchor: Option<Anchor>,
    /// The array that has.
    pub(super) successor: Successor,
    /// Groups above whose consolidated metadata is out of date.
    pub(super) stale: Vec<StaleCopy>,
}

/// Refuses to make a new array over one that has documents of version 2: they would be wrong from then on.
fn refuse_v2<'a>(
    location: &Location,
    objects: impl IntoIterator<Item = &'a Key>,
) -> Result<(), Error> {
    for key in objects {
        let name = key.as_str().rsplit('/').next().unwrap_or_default();
        if V2_DOCUMENTS.contains(&name) {
            return Err(Error::ZarrV2 { at: location.to_string(), object: key.clone() });
        }
    }
    Ok(())
}

/// Bytes from which on a caller's buffer is filled past the caches.
const STREAMED: usize = 16 << 20;

/// The keys of an array's objects.
#[derive(Debug)]
struct ArrayKeys {
    location: Location,
    encoding: ChunkKeyEncoding,
    rank: usize,
}

impl Packing for ArrayKeys {
    fn key(&self, cell: &[u64]) -> Result<Key, StoreError> {
        let name = self.encoding.key(cell);
        match &self.location.path {
            Some(path) => path.join(&name),
            None => Key::new(&name),
        }
    }

    fn list(&self, engine: &Engine, _: &dyn Store) -> Result<Vec<StoredObject>, Error> {
        GridContents::list(engine, &self.location, &self.encoding, self.rank)?.into_objects()
    }
}

impl Array {
    /// Opens an array. One read; of version 2, three.
    pub fn open(engine: &Arc<Engine>, location: &Location) -> Result<Self, Error> {
        let anchor = Anchor::of(location, &ARRAY_DOCUMENTS)?;
        match read_document(location)? {
            NodeMetadata::Array(metadata) => {
                Ok(Self::from_metadata(engine, location, metadata)?.with_anchor(anchor))
            }
            NodeMetadata::Group(_) => Err(Error::NotAnArray { at: location.to_string() }),
        }
    }

    /// The same array, which is told from others that take its place by `anchor`.
    pub(super) fn with_anchor(mut self, anchor: Option<Anchor>) -> Self {
        let metadata = self.metadata.clone();
        let is_alike = move |document: &[u8]| has_same_chunks(&metadata, document);
        self.anchor = anchor.map(|anchor| anchor.with_alike(is_alike));
        self
    }

    /// Makes a new array, or with `overwrite` a new one in place of an old.
    ///
    /// Without `overwrite` the place must be empty. With it the old array's metadata goes first and its
    /// chunks after, so that no reader takes them for the new one's; folders that this leaves empty go
    /// last. A group is never replaced, nor is what has documents of version 2. Costs a listing and a write, and to replace an array a listing for
    /// each of its folders and a removal for each of its objects and folders.
    ///
    /// Consolidated metadata of groups above learns of the new array; see [`stale_copies`](Self::stale_copies).
    pub fn create(
        engine: &Arc<Engine>,
        location: &Location,
        metadata: ArrayMetadata,
        overwrite: bool,
    ) -> Result<Self, Error> {
        let mut array = Self::from_metadata(engine, location, metadata.into_v3())?;
        let exists = || Error::Exists { at: location.to_string() };
        let _hold = location.hold()?;
        let listing = location.store.list(location.path.as_ref())?;
        if !listing.is_empty() {
            if overwrite {
                refuse_v2(location, listing.objects.iter().map(|(key, _)| key))?;
            }
            match read_document(&location.clone().with_format(None)) {
                Ok(NodeMetadata::Group(_)) => {
                    return Err(Error::GroupExists { at: location.to_string() });
                }
                _ if !overwrite => return Err(exists()),
                Ok(NodeMetadata::Array(old)) => array.clear(Some(&old))?,
                Err(Error::NoNode { .. }) => array.clear(None)?,
                Err(error) => return Err(error),
            }
        }
        let document = location.key(DOCUMENT)?;
        match location.store.put(&document, &array.metadata.to_bytes(), Condition::Absent) {
            Ok(_) => {
                array.stale = renew_consolidated_above(location);
                Ok(array.with_anchor(Anchor::of(location, &ARRAY_DOCUMENTS)?))
            }
            Err(StoreError::Conflict { .. }) => Err(exists()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the array that stands where this one is to be made, and what could be taken for this one's.
    fn clear(&self, old: Option<&ArrayMetadata>) -> Result<(), Error> {
        let store = &self.location.store;
        store.delete(&self.location.key(DOCUMENT)?, &Condition::None)?;
        // Who believes a copy of the document would take chunks that are gone for empty ones. What cannot be renewed is told
        // once the new array is there.
        renew_consolidated_above(&self.location);
        // What was lost of the old array is not missing in the new one.
        store.delete(&self.location.key(super::LOSS_RECORD)?, &Condition::None)?;
        // An old array whose codecs are not known here still has its keys.
        for metadata in [old, Some(&self.metadata)].into_iter().flatten() {
            let rank = metadata.shape().len();
            let found =
                GridContents::list(&self.engine, &self.location, metadata.key_encoding(), rank)?;
            for object in &found.objects {
                store.delete(&object.key, &Condition::None)?;
            }
            if let Some(folders) = store.folders() {
                // Links are removed, not followed: the new array would be read and written through them.
                let keys = found.unlisted.iter().filter_map(|unlisted| unlisted.key.as_ref());
                keys.into_iter().try_for_each(|key| folders.remove_unlisted_at(key))?;
            }
            // From the inside out, so that a folder of empty ones is empty when its turn comes.
            for folder in found.folders.iter().rev() {
                store.remove_empty_folder(folder)?;
            }
        }
        Ok(())
    }

    /// Binds metadata to a place.
    pub(crate) fn from_metadata(
        engine: &Arc<Engine>,
        location: &Location,
        metadata: ArrayMetadata,
    ) -> Result<Self, Error> {
        let spec = ArraySpec {
            shape: metadata.chunk_shape().to_vec(),
            data_type: metadata.data_type().clone(),
            fill: metadata.fill().clone(),
        };
        let layout = Layout::new(metadata.codecs(), spec);
        let object = location.key(array_document(metadata.zarr_format()))?;
        let layout = layout.map_err(|source| Error::Layout { object, source: Box::new(source) })?;
        let keys = ArrayKeys {
            location: location.clone(),
            encoding: *metadata.key_encoding(),
            rank: metadata.shape().len(),
        };
        Ok(Self {
            chunk_shape: layout.innermost_chunk_shape(),
            entry_shape: layout.addressable().map(|shard| shard.to_array_order(&shard.chunk_shape)),
            shard_shape: match layout {
                Layout::Chunk(_) => None,
                _ => Some(metadata.chunk_shape().to_vec()),
            },
            engine: Arc::clone(engine),
            location: location.clone(),
            grid: Grid {
                id: engine.next_array(),
                store: Arc::clone(&location.store),
                packing: Box::new(keys),
                shape: metadata.shape().to_vec(),
                layout,
                edges: None,
                packed: None,
                lookups: AtomicU64::new(0),
            },
            metadata,
            scale: None,
            anchor: None,
            successor: Successor::default(),
            stale: Vec::new(),
        })
    }

    /// A scale of a precomputed volume.
    pub(crate) fn of_volume(
        engine: &Arc<Engine>,
        metadata: ArrayMetadata,
        grid: Grid,
        scale: VolumeScale,
    ) -> Self {
        Self {
            engine: Arc::clone(engine),
            location: scale.volume.location().clone(),
            chunk_shape: metadata.chunk_shape().to_vec(),
            entry_shape: grid.packed.as_ref().map(|_| metadata.chunk_shape().to_vec()),
            shard_shape: grid.packed.as_ref().and_then(|packed| {
                let along = |(axis, &n): (usize, &u64)| match packed.shard_box()?.get(axis) {
                    Some(&chunks) => Some(n.saturating_mul(chunks)),
                    None => Some(n),
                };
                metadata.chunk_shape().iter().enumerate().map(along).collect()
            }),
            grid,
            metadata,
            scale: Some(scale),
            anchor: None,
            successor: Successor::default(),
            stale: Vec::new(),
        }
    }

    /// Whether it is a scale of a precomputed volume: its metadata then says what the volume's `info` does, and is not stored.
    pub fn is_volume(&self) -> bool {
        self.scale.is_some()
    }

    /// An error if elements must not be written.
    fn check_writable(&self) -> Result<(), Error> {
        match self.scale {
            Some(VolumeScale { copies, .. }) if copies > 1 => {
                Err(Error::SeveralCopies { at: self.location.to_string(), copies })
            }
            _ => Ok(()),
        }
    }

    /// Groups above whose consolidated metadata could not be renewed when this array was made or last resized, and so does not
    /// say what its own metadata says.
    pub fn stale_copies(&self) -> &[StaleCopy] {
        &self.stale
    }

    /// Its metadata.
    pub fn metadata(&self) -> &ArrayMetadata {
        &self.metadata
    }

    /// The version of its documents. Those of version 2 are only read: see [`Error::ZarrV2`].
    pub fn zarr_format(&self) -> ZarrFormat {
        self.metadata.zarr_format()
    }

    /// An error if its metadata is of version 2 and so cannot be changed.
    pub(super) fn check_changeable(&self) -> Result<(), Error> {
        if self.is_volume() {
            return Err(Error::FixedVolume { at: self.location.to_string() });
        }
        match self.zarr_format() {
            ZarrFormat::V3 => Ok(()),
            format @ ZarrFormat::V2 => Err(Error::ZarrV2 {
                at: self.location.to_string(),
                object: self.location.key(array_document(format))?,
            }),
        }
    }

    /// Where it is.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Elements along each axis.
    pub fn shape(&self) -> &[u64] {
        self.metadata.shape()
    }

    /// The type of its elements.
    pub fn data_type(&self) -> &DataType {
        self.metadata.data_type()
    }

    /// The shape of its chunks: the innermost ones, where it is sharded.
    ///
    /// Where a shard can only be decoded whole (a codec such as `delta` before it), that is the shard's shape.
    pub fn chunk_shape(&self) -> &[u64] {
        &self.chunk_shape
    }

    /// The shape of its shards; `None` if it is not sharded, or the chunks of a shard are no box, as those of a volume need
    /// not be.
    pub fn shard_shape(&self) -> Option<&[u64]> {
        self.shard_shape.as_deref()
    }

    /// Whether a write streams its objects, and does not encode them in memory.
    pub(crate) fn streams(&self) -> bool {
        is_streamed(&self.grid.layout)
    }

    /// The shape of what an entry of a shard's index refers to: a chunk, or of shards in shards the next
    /// inner shard. `None` if the array is not sharded, or a codec encodes whole shards, index and all.
    ///
    /// [`shard_entries`](Self::shard_entries) tells the entries.
    pub fn entry_shape(&self) -> Option<&[u64]> {
        self.entry_shape.as_deref()
    }

    /// Reads a region into fresh memory.
    ///
    /// Costs one request for an index that is not known yet and one for each run of chunks; the memory of the
    /// region and what the engine's budget allows beside it.
    pub fn read(&self, region: &Region) -> Result<Elements, Error> {
        let selection = region.resolve(self.shape())?;
        let len = self.len_of(&selection)?;
        let memory = self.engine.memory_for_result(len);
        let mut out = memory.ok_or_else(|| RegionError::TooLarge { shape: selection.shape() })?;
        let place = self.c_order(&selection)?;
        let wanted = [(selection, place)];
        let elements = self.consistently(&wanted, &mut |array| {
            let table = VariableTable::default();
            // SAFETY: in C order no two elements have the same place.
            unsafe { array.read_selections(&wanted, &mut out, &table, false) }?;
            Ok(match array.data_type().size() {
                ElementSize::Fixed(_) => None,
                ElementSize::Variable => Some(table.resolve(&out, array.metadata.fill())),
            })
        })?;
        Ok(elements.map_or(Elements::Fixed(out), Elements::Variable))
    }

    /// Reads many regions at once, each into memory of its own.
    ///
    /// They are planned together: the index of a shard is read once for all of them, neighbours are merged, and from a
    /// remote store all come side by side. So many small regions cost little more than one large one.
    pub fn read_many(&self, regions: &[Region]) -> Result<Vec<Elements>, Error> {
        let mut wanted = Vec::with_capacity(regions.len());
        let mut ends = Vec::with_capacity(regions.len());
        let mut end = 0usize;
        for region in regions {
            let selection = region.resolve(self.shape())?;
            let mut place = self.c_order(&selection)?;
            place.start = end;
            let next =
                self.len_of(&selection)?.checked_add(end).filter(|&n| isize::try_from(n).is_ok());
            end = next.ok_or_else(|| RegionError::TooLarge { shape: selection.shape() })?;
            ends.push(end);
            wanted.push((selection, place));
        }
        let too_large = || RegionError::TooLarge { shape: vec![end as u64] };
        let mut out = self.engine.memory_for_result(end).ok_or_else(too_large)?;
        self.consistently(&wanted, &mut |array| {
            let table = VariableTable::default();
            // SAFETY: in C order no two elements have the same place, and each region begins where the last one ends.
            unsafe { array.read_selections(&wanted, &mut out, &table, false) }?;
            let mut start = 0;
            let parts = ends.iter().map(|&end| &out[std::mem::replace(&mut start, end)..end]);
            Ok(match array.data_type().size() {
                ElementSize::Fixed(_) => parts.map(|part| Elements::Fixed(part.to_vec())).collect(),
                ElementSize::Variable => {
                    let fill = array.metadata.fill();
                    parts.map(|part| Elements::Variable(table.resolve(part, fill))).collect()
                }
            })
        })
    }

    /// Reads a region of fixed-size elements into the caller's buffer, in C order.
    ///
    /// The buffer must have exactly the region's size. After an error its content is unspecified.
    pub fn read_into(&self, region: &Region, out: &mut [u8]) -> Result<(), Error> {
        let selection = region.resolve(self.shape())?;
        let expected = match self.data_type().size() {
            ElementSize::Fixed(_) => self.len_of(&selection)?,
            ElementSize::Variable => 0,
        };
        if expected != out.len() || self.data_type().size() == ElementSize::Variable {
            let (expected, actual) = (expected as u64, out.len() as u64);
            return Err(RegionError::BufferSize { expected, actual }.into());
        }
        let place = self.c_order(&selection)?;
        // SAFETY: in C order no two elements have the same place.
        unsafe { self.read_to(selection, out, place) }
    }

    /// Reads a region of fixed-size elements to places of the caller's choice: in Fortran order, or into a part of
    /// a larger array.
    ///
    /// Element `i` of the region goes to byte `place.start + sum(i[k] * place.strides[k])` of `out`; bytes between
    /// elements are left as they are. No two elements may have the same place. After an error the content of the
    /// places is unspecified.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use shardine::{Array, Engine, Location, Placement, Region, zarr::metadata::NodeMetadata};
    /// # let document = br#"{
    /// #     "zarr_format": 3, "node_type": "array", "shape": [2, 3], "data_type": "uint8",
    /// #     "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 2]}},
    /// #     "chunk_key_encoding": {"name": "default"}, "fill_value": 0, "codecs": [{"name": "bytes"}]
    /// # }"#;
    /// # let NodeMetadata::Array(metadata) = NodeMetadata::parse(document)? else { unreachable!() };
    /// # let location = Location::root(Arc::new(shardine::store::MemoryStore::new()));
    /// # let array = Array::create(&Engine::shared()?, &location, metadata, false)?;
    /// # let elements = shardine::Elements::Fixed(vec![1, 2, 3, 4, 5, 6]);
    /// # array.write(&Region::all(), elements.as_ref(), &Default::default())?;
    /// let mut columns = [0; 6];
    /// let place = Placement::fortran(&[2, 3], 1).ok_or("too large")?;
    /// array.read_placed(&Region::all(), &mut columns, &place)?;
    /// assert_eq!(columns, [1, 4, 2, 5, 3, 6]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_placed(
        &self,
        region: &Region,
        out: &mut [u8],
        place: &Placement,
    ) -> Result<(), Error> {
        let selection = region.resolve(self.shape())?;
        let ElementSize::Fixed(element) = self.data_type().size() else {
            let reason = "elements of variable length have no places";
            return Err(RegionError::Places { reason }.into());
        };
        let counts: Option<Vec<usize>> =
            selection.axes.iter().map(|axis| usize::try_from(axis.count).ok()).collect();
        let counts = counts.ok_or_else(|| RegionError::TooLarge { shape: selection.shape() })?;
        place
            .check_distinct(&counts, element, out.len())
            .map_err(|reason| RegionError::Places { reason })?;
        // SAFETY: it was checked that no two elements have the same place.
        unsafe { self.read_to(selection, out, place.clone()) }
    }

    /// The places of a selection's elements in C order.
    fn c_order(&self, selection: &Selection) -> Result<Placement, RegionError> {
        let counts: SmallVec<[u64; 6]> = selection.axes.iter().map(|axis| axis.count).collect();
        let place = Placement::contiguous(&counts, self.grid.layout.element_size());
        place.ok_or_else(|| RegionError::TooLarge { shape: selection.shape() })
    }

    /// # Safety
    /// No two elements of the selection may have the same place.
    unsafe fn read_to(
        &self,
        selection: Selection,
        out: &mut [u8],
        place: Placement,
    ) -> Result<(), Error> {
        let wanted = [(selection, place)];
        // What is larger than a cache would only push out of it what is needed there.
        let streaming = out.len() >= STREAMED;
        self.consistently(&wanted, &mut |array| {
            // SAFETY: passed on from the caller.
            unsafe { array.read_selections(&wanted, out, &VariableTable::default(), streaming) }
        })
    }

    /// Reads selections to their places in `out`, past the caches with `streaming`.
    ///
    /// # Safety
    /// No two elements may have the same place.
    unsafe fn read_selections(
        &self,
        wanted: &[(Selection, Placement)],
        out: &mut [u8],
        table: &VariableTable,
        streaming: bool,
    ) -> Result<(), Error> {
        let mut target = Target::new(&self.grid.layout, Window::new(out), table);
        if streaming {
            target = target.streaming();
        }
        // SAFETY: the window is of a borrow that nobody else has, and the caller says that places are distinct.
        unsafe { read(&self.engine, &self.grid, wanted, &target) }
    }

    /// Bytes that a selection takes while it is read.
    fn len_of(&self, selection: &Selection) -> Result<usize, RegionError> {
        let element = self.grid.layout.element_size();
        let count = |n: usize, axis: &crate::Axis| n.checked_mul(usize::try_from(axis.count).ok()?);
        let len = selection.axes.iter().try_fold(element, count);
        len.filter(|&n| isize::try_from(n).is_ok())
            .ok_or_else(|| RegionError::TooLarge { shape: selection.shape() })
    }

    /// Writes a region from memory, in C order.
    ///
    /// What becomes of each shard that is touched becomes visible at once; shards that are touched in part are
    /// rewritten, with their untouched chunks moved as bytes, or changed in place, as the options say. Other writers
    /// of a shard wait, or if they were faster, their change is kept and this one is applied on top of it.
    pub fn write(
        &self,
        region: &Region,
        elements: ElementsRef<'_>,
        options: &WriteOptions,
    ) -> Result<WriteReport, Error> {
        self.check_writable()?;
        let selection = region.resolve(self.shape())?;
        let element = match self.data_type().size() {
            ElementSize::Fixed(size) => Some(size),
            ElementSize::Variable => None,
        };
        let source = MemorySource::new(elements, &selection.shape(), element)?;
        self.write_patches(&[Patch { selection, source: &source }], options)
    }

    /// Writes many regions from memory at once; where they overlap, the later ones count.
    ///
    /// Each shard that is touched, by however many regions, is changed once and in one step. Costs what the regions
    /// would cost one by one, less the shards that they share; a chunk in which regions meet is encoded once for each
    /// of them.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use shardine::{Array, Elements, ElementsRef, Engine, Location, Region, WriteOptions};
    /// # use shardine::zarr::metadata::NodeMetadata;
    /// # let document = br#"{
    /// #     "zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "uint8",
    /// #     "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
    /// #     "chunk_key_encoding": {"name": "default"}, "fill_value": 0, "codecs": [{"name": "bytes"}]
    /// # }"#;
    /// # let NodeMetadata::Array(metadata) = NodeMetadata::parse(document)? else { unreachable!() };
    /// # let location = Location::root(Arc::new(shardine::store::MemoryStore::new()));
    /// # let array = Array::create(&Engine::shared()?, &location, metadata, false)?;
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
        self.check_writable()?;
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

    /// Writes a region from a source that is asked for its elements box by box.
    ///
    /// Memory is in proportion to the chunks in flight, whatever the size of the region. The source may read this or other
    /// arrays, but must not write to a shard that is being written: it would wait for itself.
    pub fn write_from(
        &self,
        region: &Region,
        source: &dyn Source,
        options: &WriteOptions,
    ) -> Result<WriteReport, Error> {
        self.check_writable()?;
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
        write(&array.engine, &array.grid, patches, options)
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        self.engine.close_array(self.grid.id);
    }
}
