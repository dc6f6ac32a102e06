use std::ops::Range;
use std::sync::Arc;

use serde_json::{Map, Value};
use shardine_codec::{ArraySpec, CodecSpec, ElementSize};
use shardine_store::{Condition, Key, Store, StoreError, StoreExt};

use super::kept;
use super::names::BoxNames;
use super::volume_scale::VolumeScale;
use super::wrapped::WrappedStore;
use super::{ChunkEncoding, InfoError, Scale, VolumeInfo};
use crate::anchor::Anchor;
use crate::engine::tuning::GZIP_LEVEL;
use crate::engine::{ChunkSet, EdgeLayouts, Packing, Uint64Packing};
use crate::keyed::KeyedShards;
use crate::layout::Layout;
use crate::ome::AxisRole;
use crate::physical::PhysicalAxis;
use crate::precomputed::key_values::{KeyValueStore, PayloadKind};
use crate::set::{DataSet, PartContent, SetKind, SetPart};
use crate::shard::uint64::Encoding;
use crate::{Array, Engine, Error, Location};

/// The name of the document that makes a volume.
pub const INFO: &str = "info";

/// The member of a scale that lists the shapes of its chunks.
pub(crate) const CHUNK_SIZES: &str = "chunk_sizes";

/// The axes of a volume.
pub(crate) const AXES: [&str; 4] = ["x", "y", "z", "channel"];

/// A volume in Neuroglancer's precomputed format: a list of scales, each an array with the axes x,
/// y, z and channel.
///
/// ```
/// use shardine::precomputed::{Volume, VolumeInfo};
/// use shardine::{Engine, Location};
///
/// let info = VolumeInfo::parse(br#"{
///     "type": "image", "data_type": "uint8", "num_channels": 1,
///     "scales": [{
///         "key": "8_8_40", "size": [100, 100, 10], "resolution": [8, 8, 40], "voxel_offset": [0, 0, 0],
///         "chunk_sizes": [[64, 64, 8]], "encoding": "raw",
///         "sharding": {
///             "@type": "neuroglancer_uint64_sharded_v1", "hash": "identity", "preshift_bits": 1,
///             "minishard_bits": 1, "shard_bits": 1, "data_encoding": "gzip"
///         }
///     }]
/// }"#)?;
/// let volume = Volume::create(&Engine::shared()?, &Location::memory(), info)?;
/// let array = volume.array(0)?;
/// array.write((60..70, 50, 9), &[7u8; 10])?;
/// assert_eq!(array.read::<u8>((68..72, 50, 9))?, [7, 7, 0, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Volume {
    engine: Arc<Engine>,
    location: Location,
    info: Arc<VolumeInfo>,
    gzip_level: u8,
    /// Detects that another volume has replaced this one.
    anchor: Option<Arc<Anchor>>,
}

/// A stored chunk of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredChunk {
    /// The name of its object in the folder of the scale.
    pub object: String,
    /// Its key, if the object is a shard.
    pub key: Option<u64>,
    /// Its position in the grid of chunks; `None` if it is not a chunk of the volume.
    pub cell: Option<[u64; 3]>,
    /// Its bytes in the object.
    pub range: Range<u64>,
}

impl Volume {
    /// Opens a volume. One read.
    pub fn open(engine: &Arc<Engine>, location: &Location) -> Result<Self, Error> {
        let key = location.key(INFO)?;
        let anchor = Anchor::of(location, &[INFO])?;
        let bytes = location.store.get(&key)?;
        let bytes = bytes.ok_or_else(|| Error::NoVolume { at: location.to_string() })?;
        let info =
            VolumeInfo::parse(&bytes).map_err(|source| Error::Info { object: key, source })?;
        Ok(Self::bind(engine, location, info).with_anchor(anchor))
    }

    /// Creates a new volume, without chunks. The location must be empty, and the encodings of its
    /// chunks must be ones that can be written here.
    pub fn create(
        engine: &Arc<Engine>,
        location: &Location,
        info: VolumeInfo,
    ) -> Result<Self, Error> {
        let volume = Self::bind(engine, location, info);
        for (level, scale) in volume.info.scales().iter().enumerate() {
            volume.array(level)?;
            // Each would overwrite the chunks of the other.
            let is_same = |other: &Scale| other.key == scale.key;
            if let Some(first) = volume.info.scales().iter().take(level).position(is_same) {
                let reason = format!("is that of scales[{first}], whose chunks it would overwrite");
                let source = InfoError { member: format!("scales[{level}].key"), reason };
                return Err(Error::Info { object: location.key(INFO)?, source });
            }
            if let ChunkEncoding::Jxl | ChunkEncoding::Compresso = scale.encoding {
                let reason = format!("\"{}\" can be read, but not written", scale.encoding.name());
                let source = InfoError { member: format!("scales[{level}].encoding"), reason };
                return Err(Error::Info { object: location.key(INFO)?, source });
            }
        }
        let exists = || Error::Exists { at: location.to_string() };
        let listing = location.store.list(location.path.as_ref());
        match listing {
            Ok(listing) if !listing.is_empty() => return Err(exists()),
            Ok(_) | Err(StoreError::Unsupported { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let key = location.key(INFO)?;
        match location.store.put(&key, &volume.info.to_bytes(), Condition::Absent) {
            Ok(_) => Ok(volume.with_anchor(Anchor::of(location, &[INFO])?)),
            Err(StoreError::Conflict { .. }) => Err(exists()),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn bind(engine: &Arc<Engine>, location: &Location, info: VolumeInfo) -> Self {
        let (engine, location) = (Arc::clone(engine), location.clone());
        Self { engine, location, info: Arc::new(info), gzip_level: GZIP_LEVEL, anchor: None }
    }

    pub(crate) fn with_anchor(self, anchor: Option<Anchor>) -> Self {
        let essence =
            |info: &VolumeInfo| (info.scales().to_vec(), info.data_type().clone(), info.channels());
        let known = Arc::clone(&self.info);
        let is_alike = move |document: &[u8]| {
            VolumeInfo::parse(document).is_ok_and(|info| essence(&info) == essence(&known))
        };
        let anchor = anchor.map(|anchor| Arc::new(anchor.with_alike(is_alike)));
        Self { anchor, ..self }
    }

    /// Sets the gzip level, from 0 to 9 (6 by default), for shards whose values are compressed with
    /// gzip.
    pub fn gzip_level(self, level: u8) -> Self {
        Self { gzip_level: level.min(9), ..self }
    }

    /// Its `info`.
    pub fn info(&self) -> &VolumeInfo {
        &self.info
    }

    /// Where it is.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// A scale, by number; 0 is the finest.
    pub fn scale(&self, level: usize) -> Result<&Scale, Error> {
        let levels = self.info.scales().len();
        self.info.scales().get(level).ok_or_else(|| Error::NoLevel {
            at: self.location.to_string(),
            level,
            levels,
        })
    }

    /// The folder that holds the chunks of a scale.
    pub(crate) fn folder(&self, scale: &Scale) -> Result<Option<Key>, Error> {
        let folder = self.location.resolved(&scale.key)?.ok_or_else(|| {
            self.wrong_key(format!(
                "\"{}\" leads out of {}; open a folder above it, with this volume as a path inside",
                scale.key,
                self.location.store.name()
            ))
        })?;
        Ok(folder.path)
    }

    fn wrong_key(&self, reason: String) -> Error {
        match self.location.key(INFO) {
            Ok(object) => Error::Info { object, source: InfoError::new("scales.key", reason) },
            Err(error) => error,
        }
    }

    /// The shards of a scale; `None` if it is not sharded.
    pub(crate) fn shards(&self, scale: &Scale) -> Result<Option<Arc<KeyedShards>>, Error> {
        let Some(sharding) = &scale.sharding else { return Ok(None) };
        let (store, folder) = (Arc::clone(&self.location.store), self.folder(scale)?);
        Ok(Some(Arc::new(KeyedShards::new(store, folder, sharding.clone()))))
    }

    /// The shards of a scale as a key-value store; `None` if it is not sharded.
    pub fn key_values(&self, level: usize) -> Result<Option<KeyValueStore>, Error> {
        let scale = self.scale(level)?;
        let Some(sharding) = &scale.sharding else { return Ok(None) };
        let location = self.location.at(self.folder(scale)?);
        let kind = PayloadKind::Plain;
        let values = KeyValueStore::with_sharding(&self.engine, &location, sharding.clone(), kind);
        Ok(Some(values.with_anchor(self.anchor.clone())))
    }

    /// The stored chunks of a scale, with the shard that holds each, or as objects of their own.
    ///
    /// Costs a listing, and for a sharded scale the indexes of all shards.
    pub fn stored_chunks(
        &self,
        level: usize,
        mut visit: impl FnMut(StoredChunk),
    ) -> Result<(), Error> {
        let scale = self.scale(level)?;
        if let (Some(values), Some(code)) = (self.key_values(level)?, scale.morton()) {
            return values.list(|listed| {
                let name = values.sharding().shard_name(listed.shard);
                let cell = code.decode(listed.key);
                visit(StoredChunk {
                    object: name,
                    key: Some(listed.key),
                    cell,
                    range: listed.range,
                });
            });
        }
        let names = self.box_names(scale)?;
        let listing = self.location.store.list(self.folder(scale)?.as_ref())?;
        listing.refuse_unlisted(|name| names.object(name).is_some())?;
        for (key, len) in listing.objects {
            let name = key.as_str().rsplit('/').next().unwrap_or_default();
            let cell = names.object(name).map(|object| object.cell);
            visit(StoredChunk { object: name.to_owned(), key: None, cell, range: 0..len });
        }
        Ok(())
    }

    /// The store of the chunks of an unsharded scale.
    pub(crate) fn wrapped(&self, scale: &Scale) -> WrappedStore {
        let element = match self.info.data_type().size() {
            ElementSize::Fixed(size) => size as u64,
            ElementSize::Variable => 1,
        };
        let voxels = scale.chunk_size().iter().fold(1u64, |n, &d| n.saturating_mul(d));
        let bytes = voxels.saturating_mul(self.info.channels()).saturating_mul(element);
        // Encoded data may be longer than what it encodes, but not by much.
        let limit = usize::try_from(bytes.saturating_mul(2).saturating_add(1 << 20));
        let limit = limit.unwrap_or(usize::MAX);
        WrappedStore { inner: Arc::clone(&self.location.store), limit }
    }

    /// The names of the chunks of an unsharded scale.
    pub(crate) fn box_names(&self, scale: &Scale) -> Result<BoxNames, Error> {
        Ok(BoxNames::of(scale, self.folder(scale)?))
    }

    /// A scale as an array with the axes x, y, z and channel, indexed from 0. Reads nothing.
    pub fn array(&self, level: usize) -> Result<Array, Error> {
        let scale = self.scale(level)?;
        let codecs = self.codecs(scale)?;
        self.array_of(scale, &codecs.clone(), codecs)
    }

    /// A scale as an array whose chunks are moved and never decoded, so that it does not matter
    /// whether their encoding is supported. Reads nothing.
    pub(crate) fn packed_array(&self, level: usize) -> Result<Array, Error> {
        let scale = self.scale(level)?;
        let values = scale.sharding.as_ref().map_or(Encoding::Raw, |s| s.data_encoding);
        let raw = ChunkEncoding::Raw.codecs(values, self.gzip_level).unwrap_or_default();
        let named = |codec: &CodecSpec| match codec.name.as_str() {
            "bytes" => CodecSpec { name: scale.encoding.name().to_owned(), ..codec.clone() },
            _ => codec.clone(),
        };
        let codecs = raw.iter().map(named).collect();
        self.array_of(scale, &raw, codecs)
    }

    /// The array of a scale whose chunks go through `layout_codecs`, or where they are not decoded,
    /// through `codecs`.
    fn array_of(
        &self,
        scale: &Scale,
        layout_codecs: &[CodecSpec],
        codecs: Vec<CodecSpec>,
    ) -> Result<Array, Error> {
        let (shape, cell) =
            (self.with_channels(scale.size), self.with_channels(scale.chunk_size()));
        let object = self.location.key(INFO)?;
        if cell.iter().try_fold(1_u64, |n, &len| n.checked_mul(len)).is_none() {
            let source = InfoError::new(CHUNK_SIZES, "a chunk would have 2^64 voxels or more");
            return Err(Error::Info { object, source });
        }
        let wrong = |source| Error::Layout { object: object.clone(), source: Box::new(source) };
        let layout = |shape: Vec<u64>| {
            let data_type = self.info.data_type().clone();
            let fill = data_type.default_fill();
            Layout::new(layout_codecs, ArraySpec { shape, data_type, fill })
        };
        let edges = EdgeLayouts::new(&shape, &cell, &layout).map_err(wrong)?;
        let shards = self.shards(scale)?;
        let (store, packing): (Arc<dyn Store>, Box<dyn Packing>) = match (shards, scale.morton()) {
            (Some(shards), Some(code)) => {
                let packing = Uint64Packing { shards, code, rank: shape.len() };
                (Arc::clone(&self.location.store), Box::new(packing))
            }
            _ => (Arc::new(self.wrapped(scale)), Box::new(self.box_names(scale)?)),
        };
        let layout = layout(cell).map_err(wrong)?;
        let chunks = ChunkSet::new(&self.engine, store, packing, shape, layout).with_edges(edges);
        let format = VolumeScale {
            resolution: scale.resolution,
            gzip_level: self.gzip_level,
            copies: scale.chunk_sizes.len(),
        };
        Ok(Array::new(&self.location, chunks, codecs, Box::new(format))
            .with_axis_names(Some(axis_names()))
            .with_anchor(self.anchor.clone()))
    }

    /// The codecs that a chunk of a scale goes through.
    pub(crate) fn codecs(&self, scale: &Scale) -> Result<Vec<CodecSpec>, Error> {
        let values = scale.sharding.as_ref().map_or(Encoding::Raw, |s| s.data_encoding);
        match scale.encoding.codecs(values, self.gzip_level) {
            Some(codecs) => Ok(codecs),
            None => {
                let reason = format!("\"{}\" chunks cannot be decoded here", scale.encoding.name());
                let source = InfoError::new("encoding", reason);
                Err(Error::Info { object: self.location.key(INFO)?, source })
            }
        }
    }

    /// Lengths along all axes, given those along x, y and z: chunks have all channels.
    pub(crate) fn with_channels(&self, lengths: [u64; 3]) -> Vec<u64> {
        let mut lengths = lengths.to_vec();
        lengths.push(self.info.channels());
        lengths
    }
}

/// The names of the axes, in the form that arrays use.
pub(crate) fn axis_names() -> Vec<Option<String>> {
    AXES.iter().map(|name| Some((*name).to_owned())).collect()
}

impl DataSet for Volume {
    fn format(&self) -> &'static str {
        "precomputed"
    }

    fn kind(&self) -> SetKind {
        SetKind::Levels
    }

    fn location(&self) -> &Location {
        &self.location
    }

    fn documents(&self) -> Result<Vec<Key>, Error> {
        Ok(vec![self.location.key(INFO)?])
    }

    fn parts(&self) -> Result<Vec<SetPart>, Error> {
        let scales = self.info.scales().iter().enumerate();
        let part = |(level, scale): (usize, &Scale)| {
            SetPart::new(&scale.key, Volume::array(self, level).map(PartContent::Array))
        };
        Ok(scales.map(part).collect())
    }

    fn array(&self, level: usize) -> Result<Array, Error> {
        Volume::array(self, level)
    }

    fn origin(&self, level: usize) -> Option<Vec<i64>> {
        let [x, y, z] = self.info.scales().get(level)?.voxel_offset;
        Some(vec![x, y, z, 0])
    }

    /// In nanometers. Coordinates count from the corner of a voxel, positions are those of centres.
    fn physical(&self, level: usize) -> Result<Option<Vec<PhysicalAxis>>, Error> {
        let scale = self.scale(level)?;
        let centre = |axis: usize| (scale.voxel_offset[axis] as f64 + 0.5) * scale.resolution[axis];
        let space = |(axis, name): (usize, &str)| {
            let (step, unit) = (scale.resolution[axis], Some("nanometer"));
            PhysicalAxis::new(name, AxisRole::Space, unit, step, centre(axis))
        };
        let mut axes: Vec<PhysicalAxis> =
            ["x", "y", "z"].into_iter().enumerate().map(space).collect();
        axes.push(PhysicalAxis::new("channel", AxisRole::Channel, None, 1.0, 0.0));
        Ok(Some(axes))
    }

    fn attributes(&self, level: Option<usize>) -> Map<String, Value> {
        let Some(level) = level else { return kept::attributes(&self.info) };
        let mut attributes = Map::new();
        if let Some(scale) = self.info.scales().get(level) {
            attributes.insert("resolution".into(), Value::from(scale.resolution.to_vec()));
            attributes.insert("voxel_offset".into(), Value::from(scale.voxel_offset.to_vec()));
        }
        attributes
    }
}
