//! A magnification of a layer: one array.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use shardine_codec::{ArraySpec, CodecSpec, DataType};
use shardine_store::{Key, StoreError, StoreExt};

use super::properties::{Bounds, VoxelSize};
use super::{HEADER, NAME};
use crate::array::ArrayFormat;
use crate::engine::{ChunkSet, WkwPacking, wkw_cubes};
use crate::layout::Layout;
use crate::set::{DataSet, PartContent, SetKind, SetPart};
use crate::shard::wkw::{WkwBlocks, WkwError, WkwHeader};
use crate::{Array, Engine, Error, Location};

/// The axes of an array.
const AXES: [&str; 4] = ["x", "y", "z", "channel"];

/// What a document above says about a magnification.
#[derive(Debug, Clone)]
pub(super) struct Extent {
    pub bounds: Bounds,
    pub mag: [u64; 3],
    pub category: Option<String>,
    pub voxel_size: Option<VoxelSize>,
}

impl Extent {
    /// Voxels along x, y and z.
    pub fn size(&self) -> [u64; 3] {
        self.bounds.end(self.mag)
    }

    /// The size of its voxels, and the unit.
    fn voxel_size(&self) -> Option<(Vec<f64>, &str)> {
        let VoxelSize { factor, unit } = self.voxel_size.as_ref()?;
        let size = factor.iter().zip(self.mag).map(|(length, mag)| length * mag as f64);
        Some((size.collect(), unit))
    }

    /// The attributes to keep in an array made from it: `resolution` and `voxel_offset` mean what
    /// they mean in a precomputed volume, whose lengths are in nanometers.
    pub fn attributes(&self) -> Map<String, Value> {
        let mut attributes = Map::new();
        attributes.insert("magnification".into(), json!(self.mag));
        attributes.insert("bounding_box".into(), bounding_box(&self.bounds));
        match self.voxel_size() {
            Some((size, "nanometer")) => {
                attributes.insert("resolution".into(), json!(size));
                attributes.insert("voxel_offset".into(), json!([0, 0, 0]));
            }
            Some((size, unit)) => {
                attributes.insert("voxel_size".into(), json!(size));
                attributes.insert("unit".into(), unit.into());
            }
            None => {}
        }
        attributes
    }
}

fn bounding_box(bounds: &Bounds) -> Value {
    json!({ "top_left": bounds.top_left, "size": bounds.size })
}

/// A folder with a `header.wkw`.
#[derive(Debug)]
pub(super) struct WkwArray {
    engine: Arc<Engine>,
    location: Location,
    header: WkwHeader,
    /// Voxels along x, y and z.
    size: [u64; 3],
    extent: Option<Extent>,
}

/// Reads the `header.wkw` at a location; `None` if there is none. One read.
pub(super) fn read_header(location: &Location) -> Result<Option<WkwHeader>, Error> {
    let key = location.key(HEADER)?;
    let Some(bytes) = location.store.get(&key)? else { return Ok(None) };
    let wrong = |source| Error::WkwHeader { object: key, source };
    WkwHeader::parse(&bytes).map(Some).map_err(wrong)
}

impl WkwArray {
    /// If the extent is not known, it is that of the files: one listing per folder.
    pub fn new(
        engine: &Arc<Engine>,
        location: &Location,
        header: WkwHeader,
        extent: Option<Extent>,
    ) -> Result<Self, Error> {
        let size = match &extent {
            Some(extent) => extent.size(),
            None => stored_size(engine, location, &header)?,
        };
        let (engine, location) = (Arc::clone(engine), location.clone());
        Ok(Self { engine, location, header, size, extent })
    }

    /// The array. Reads nothing.
    pub fn open(&self) -> Result<Array, Error> {
        let (header, location) = (&self.header, &self.location);
        let (edge, channels) = (header.block_edge(), header.channels());
        let object = location.key(HEADER)?;
        let unknown = |value| Error::WkwHeader {
            object: object.clone(),
            source: WkwError::Member { member: "voxel type", value },
        };
        let data_type = DataType::parse_name(header.voxel.name())
            .map_err(|_| unknown(header.voxel as u64 + 1))?;
        let fill = data_type.default_fill();
        let codecs = codecs(header);
        let spec = ArraySpec { shape: vec![edge, edge, edge, channels], data_type, fill };
        let layout = Layout::new(&codecs, spec)
            .map_err(|source| Error::Layout { object: object.clone(), source: Box::new(source) })?;
        let packing = packing(location, header, self.size)?;
        let [x, y, z] = self.size;
        let (store, shape) = (Arc::clone(&location.store), vec![x, y, z, channels]);
        let chunks = ChunkSet::new(&self.engine, store, Box::new(packing), shape, layout);
        let format = Box::new(WkwFormat { extent: self.extent.clone() });
        let array = Array::new(location, chunks, codecs, format);
        let names = AXES.map(|name| Some(name.to_owned()));
        Ok(array.with_axis_names(Some(names.to_vec())))
    }
}

/// The files of an array of this many voxels along x, y and z. Reads nothing.
pub(super) fn packing(
    location: &Location,
    header: &WkwHeader,
    size: [u64; 3],
) -> Result<WkwPacking, Error> {
    let (store, edge) = (Arc::clone(&location.store), header.block_edge());
    WkwPacking::new(store, location.path.clone(), *header, size)
        .ok_or_else(|| Error::TooManyBlocks { at: location.to_string(), edge })
}

/// Voxels from zero to the end of the last file along each axis.
fn stored_size(
    engine: &Engine,
    location: &Location,
    header: &WkwHeader,
) -> Result<[u64; 3], Error> {
    let cubes = match wkw_cubes(engine, &*location.store, location.path.as_ref()) {
        Err(StoreError::Unsupported { .. }) => {
            return Err(Error::NoExtent { at: location.to_string() });
        }
        cubes => cubes?,
    };
    // Files have at most 2^17 voxels along an edge.
    let edge = header.block_edge() * header.file_edge();
    let mut size = [0u64; 3];
    for cube in &cubes {
        for (end, at) in size.iter_mut().zip(&cube.cell) {
            *end = (*end).max(at.saturating_add(1).saturating_mul(edge));
        }
    }
    Ok(size)
}

/// The codecs of a block: channels vary fastest, then x.
fn codecs(header: &WkwHeader) -> Vec<CodecSpec> {
    let codec = |name: &str, members: &[(&str, Value)]| {
        let members = members.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        let configuration: Map<String, Value> = members.collect();
        CodecSpec { name: name.to_owned(), configuration, must_understand: true }
    };
    let mut codecs = vec![
        codec("transpose", &[("order", json!([2, 1, 0, 3]))]),
        codec("bytes", &[("endian", "little".into())]),
    ];
    if header.is_compressed() {
        codecs.push(codec("wkw.lz4_block", &[]));
    }
    codecs
}

/// What an open array needs from the format.
#[derive(Debug)]
struct WkwFormat {
    extent: Option<Extent>,
}

impl ArrayFormat for WkwFormat {
    fn reopen(&self, engine: &Arc<Engine>, location: &Location) -> Result<Array, Error> {
        let header = read_header(location)?;
        let header = header.ok_or_else(|| Error::Replaced { at: location.to_string() })?;
        WkwArray::new(engine, location, header, self.extent.clone())?.open()
    }

    fn check_writable(&self, location: &Location) -> Result<(), Error> {
        Err(Error::OnlyRead { at: location.to_string(), format: NAME })
    }
}

impl DataSet for WkwArray {
    fn format(&self) -> &'static str {
        "wkw"
    }

    fn kind(&self) -> SetKind {
        SetKind::Array
    }

    fn location(&self) -> &Location {
        &self.location
    }

    fn documents(&self) -> Result<Vec<Key>, Error> {
        Ok(vec![self.location.key(HEADER)?])
    }

    fn parts(&self) -> Result<Vec<SetPart>, Error> {
        Ok(vec![SetPart::new("", self.open().map(PartContent::Array))])
    }

    fn only_read(&self) -> Option<&'static str> {
        Some(NAME)
    }

    /// Arrays begin at the coordinate 0, wherever the bounding box does.
    fn origin(&self, _: usize) -> Option<Vec<i64>> {
        Some(vec![0; AXES.len()])
    }

    fn attributes(&self, _: Option<usize>) -> Map<String, Value> {
        self.extent.as_ref().map(Extent::attributes).unwrap_or_default()
    }

    fn facts(&self) -> Vec<(&'static str, Value)> {
        let blocks = match self.header.blocks {
            WkwBlocks::Raw => "raw",
            WkwBlocks::Lz4 => "LZ4",
            WkwBlocks::Lz4Hc => "LZ4HC",
        };
        let mut facts = vec![("blocks", blocks.into())];
        let Some(extent) = &self.extent else { return facts };
        facts.extend(layer_facts(extent.category.as_deref(), &extent.bounds));
        facts.push(("magnification", json!(extent.mag)));
        if let Some((size, unit)) = extent.voxel_size() {
            facts.extend([("voxel size", json!(size)), ("unit", json!(unit))]);
        }
        facts
    }
}

/// What holds for all magnifications of a layer.
pub(super) fn layer_facts(category: Option<&str>, bounds: &Bounds) -> Vec<(&'static str, Value)> {
    let mut facts = Vec::new();
    facts.extend(category.map(|category| ("category", category.into())));
    facts.push(("bounds", bounding_box(bounds)));
    facts
}
