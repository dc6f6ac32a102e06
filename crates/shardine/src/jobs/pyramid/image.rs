//! The image, and the levels that it is to have.

use serde_json::{Map, Value, json};
use shardine_codec::{Downsample, DownsampleMethod, Kind};
use shardine_store::StoreExt;

use super::geometry::{Grid, SMALL_TASK, Stage, stages};
use super::{PyramidError, PyramidOptions};
use crate::jobs::JobContext;
use crate::jobs::rebuild::is_plain;
use crate::jobs::repack::{Shards, Stored, default_index_codecs, shard_shape};
use crate::ome::{AxisRole, Image, LevelPlacement, OmeMetadata, OmeRelease, length_in_nanometers};
use crate::plan::{Packing, chunk_grid, chunks_per_shard_for, sample};
use crate::shard::IndexLocation;
use crate::zarr::metadata::{ArrayMetadata, DIMENSIONS, NewArray, ZarrFormat};
use crate::{Array, ArrayNode, Error, Group, Location, Node};

/// The most levels that are made.
const MOST_LEVELS: usize = 64;

/// An OME-Zarr image.
pub(in crate::jobs) struct PyramidImage {
    pub location: Location,
    pub format: ZarrFormat,
    pub metadata: OmeMetadata,
    pub finest: ArrayNode,
    /// For version 2: the `.zarray` of the finest level, and its `.zattrs`, if there is one.
    pub v2: Option<(Value, Option<Value>)>,
}

/// A level that is to be made.
#[derive(Debug, Clone)]
pub(super) struct LevelPlan {
    /// Its path below the image.
    pub path: String,
    /// How many elements of the level before make one.
    pub factors: Vec<u64>,
    pub placement: LevelPlacement,
    pub metadata: ArrayMetadata,
    /// Its documents, by name; the one that makes it an array is the last.
    pub documents: Vec<(&'static str, Vec<u8>)>,
}

/// All levels that are to be made.
pub(super) struct Plan {
    pub method: DownsampleMethod,
    pub levels: Vec<LevelPlan>,
    pub grids: Vec<Grid>,
    pub stages: Vec<Stage>,
}

impl PyramidImage {
    pub fn open(context: &JobContext, location: &Location) -> Result<Self, Error> {
        let engine = context.engine();
        let not_an_image = |found: &str| PyramidError::NotAnImage {
            at: location.to_string(),
            found: found.to_owned(),
        };
        let group = match Node::open(engine, location)? {
            Node::Group(group) => group,
            Node::Array(_) => return Err(not_an_image("it is an array").into()),
        };
        let Some(metadata) = group.ome()? else {
            return Err(not_an_image("the group has no such metadata").into());
        };
        let Some(image) = metadata.image() else {
            let found = match (&metadata.plate, &metadata.well, &metadata.labels) {
                (Some(_), ..) => "it is a plate",
                (_, Some(_), _) => "it is a well",
                (.., Some(_)) => "it is a list of label images",
                _ => "its metadata has no multiscales",
            };
            return Err(not_an_image(found).into());
        };
        if metadata.version.release() < OmeRelease::V0_4 {
            let version = metadata.version.to_string();
            return Err(PyramidError::OldVersion { at: location.to_string(), version }.into());
        }
        let Some(level) = image.levels.first() else {
            return Err(not_an_image("it has no levels").into());
        };
        let finest = group.level(&level.path)?;
        let format = Group::zarr_format(&group);
        let v2 = match format {
            ZarrFormat::V2 => Some(v2_documents(&finest)?),
            ZarrFormat::V3 => None,
        };
        Self { location: location.clone(), format, metadata, finest, v2 }.checked()
    }

    /// The same, if its finest level has the axes of the image.
    pub fn checked(self) -> Result<Self, Error> {
        let (image, finest, location) = (self.image()?, &self.finest, &self.location);
        if finest.shape().len() != image.axes.len() {
            let reason = format!(
                "the image has {} axes, but its finest level {}",
                image.axes.len(),
                finest.shape().len()
            );
            return Err(PyramidError::Factors { at: location.to_string(), reason }.into());
        }
        Ok(self)
    }

    /// What is known of the image.
    pub fn image(&self) -> Result<&Image, Error> {
        let at = || self.location.to_string();
        self.metadata.image().ok_or_else(|| {
            PyramidError::NotAnImage { at: at(), found: "it is empty".into() }.into()
        })
    }

    /// The location of a level.
    pub fn place(&self, path: &str) -> Result<Location, Error> {
        self.location.join(path)
    }

    fn refuse_factors(&self, reason: impl Into<String>) -> Error {
        PyramidError::Factors { at: self.location.to_string(), reason: reason.into() }.into()
    }

    fn refuse_layout(&self, reason: impl Into<String>) -> Error {
        PyramidError::Layout { at: self.location.to_string(), reason: reason.into() }.into()
    }

    /// Whether the image is one of labels.
    fn is_labels(&self) -> bool {
        let data_type = self.finest.data_type();
        let is_integer = matches!(data_type.kind(), Kind::Int | Kind::UInt | Kind::Bool);
        let path = self.location.to_string();
        let below_labels = path.trim_end_matches('/').rsplit('/').nth(1) == Some("labels");
        self.metadata.image_label.is_some() || below_labels && is_integer && data_type.bits() > 16
    }

    /// The method that is meant.
    pub fn method(&self, options: &PyramidOptions) -> DownsampleMethod {
        let usual = if self.is_labels() { DownsampleMethod::Mode } else { DownsampleMethod::Mean };
        options.method.unwrap_or(usual)
    }

    /// Which axes are in space.
    pub fn spatial(&self) -> Result<Vec<bool>, Error> {
        Ok(self.image()?.axes.iter().map(|axis| axis.role() == AxisRole::Space).collect())
    }

    /// The factors that the options give, for each axis.
    fn given_factors(&self, given: &[u64], spatial: &[bool]) -> Result<Vec<u64>, Error> {
        let in_space = spatial.iter().filter(|space| **space).count();
        let factors: Vec<u64> = if given.len() == spatial.len() {
            given.to_vec()
        } else if given.len() == in_space {
            let mut given = given.iter().copied();
            spatial.iter().map(|&space| if space { given.next().unwrap_or(1) } else { 1 }).collect()
        } else {
            let (count, rank) = (given.len(), spatial.len());
            return Err(self.refuse_factors(format!(
                "{count} factors were given, but it has {rank} axes, {in_space} of them in space"
            )));
        };
        if factors.contains(&0) || factors.iter().all(|&factor| factor == 1) {
            return Err(
                self.refuse_factors(format!("factors of {factors:?} make no smaller level"))
            );
        }
        if factors.iter().zip(spatial).any(|(&factor, &space)| factor > 1 && !space) {
            return Err(self.refuse_factors("only axes in space are reduced"));
        }
        Ok(factors)
    }

    /// The distances between voxels in one unit, as far as units are known.
    fn comparable_scale(&self, scale: &[f64]) -> Result<Vec<f64>, Error> {
        let axes = &self.image()?.axes;
        let units: Vec<Option<f64>> =
            axes.iter().map(|axis| axis.unit.as_deref().and_then(length_in_nanometers)).collect();
        let in_space = self.spatial()?;
        let known = units.iter().zip(&in_space).all(|(unit, &space)| unit.is_some() || !space);
        let comparable = |(&scale, unit): (&f64, &Option<f64>)| {
            scale.abs() * unit.filter(|_| known).unwrap_or(1.0)
        };
        Ok(scale.iter().zip(&units).map(comparable).collect())
    }

    /// The levels that the image is to have.
    pub(super) fn plan(
        &self,
        context: &JobContext,
        options: &PyramidOptions,
    ) -> Result<Plan, Error> {
        let image = self.image()?;
        let method = self.method(options);
        let spatial = self.spatial()?;
        let at = || self.location.to_string();
        let given = match &options.factors {
            Some(factors) => Some(self.given_factors(factors, &spatial)?),
            None => None,
        };
        let layout = LevelLayout::of(self, options)?;
        let chunk = layout.chunk.clone();
        let level = image.levels.first().ok_or_else(|| self.refuse_factors("it has no levels"))?;
        let mut placement = image
            .own_placement(level)
            .map_err(|source| Error::Ome { at: at(), source: Box::new(source) })?;
        let mut shape = self.finest.shape().to_vec();
        let mut levels = Vec::new();
        let wanted = match options.levels {
            Some(0 | 1) => {
                return Err(self.refuse_factors("an image with lower levels has 2 levels or more"));
            }
            Some(levels) if levels > MOST_LEVELS => {
                return Err(self.refuse_factors(format!("there can be {MOST_LEVELS} levels")));
            }
            wanted => wanted,
        };
        while levels.len() + 1 < wanted.unwrap_or(MOST_LEVELS) {
            if wanted.is_none() && fits_one_chunk(&shape, &chunk, &spatial) {
                break;
            }
            let factors = match &given {
                // There is nothing to reduce along an axis of one element.
                Some(given) => {
                    given.iter().zip(&shape).map(|(&f, &n)| if n > 1 { f } else { 1 }).collect()
                }
                None => halves(&shape, &self.comparable_scale(&placement.scale)?, &spatial),
            };
            if factors.iter().all(|&factor: &u64| factor == 1) {
                if wanted.is_some() {
                    let count = levels.len() + 1;
                    return Err(self.refuse_factors(format!(
                        "level {} is a single element in space, so there are no more than {count} \
                         levels",
                        count - 1
                    )));
                }
                break;
            }
            Downsample::new(self.finest.data_type(), method, &factors)
                .map_err(|source| PyramidError::Method { at: at(), source })?;
            shape = shape.iter().zip(&factors).map(|(&n, &f)| n.div_ceil(f)).collect();
            placement = match method {
                // The voxel that is kept stays where it is.
                DownsampleMethod::Stride => LevelPlacement::new(
                    placement.scale.iter().zip(&factors).map(|(s, &f)| s * f as f64).collect(),
                    placement.translation,
                ),
                _ => placement.downsampled(&factors),
            };
            let number = levels.len() + 1;
            let path = match image.levels.get(number) {
                Some(level) => level.path.clone(),
                None => path_of(&image.levels[0].path, number),
            };
            let (metadata, documents) = layout.level(self, &shape)?;
            let placement = placement.clone();
            levels.push(LevelPlan { path, factors, placement, metadata, documents });
        }
        if levels.is_empty() {
            let reason = "its finest level fits one chunk".to_owned();
            return Err(PyramidError::Nothing { at: at(), reason }.into());
        }
        let paths = || image.levels.first().map(|level| &level.path).into_iter();
        let all: Vec<&String> = paths().chain(levels.iter().map(|level| &level.path)).collect();
        let is_inside = |a: &str, b: &str| {
            a == b || a.strip_prefix(b).is_some_and(|rest| rest.starts_with('/'))
        };
        for (i, one) in all.iter().enumerate() {
            if all.iter().enumerate().any(|(k, other)| i != k && is_inside(one, other)) {
                let place = self.place(one)?.to_string();
                return Err(PyramidError::InTheWay { at: place }.into());
            }
        }
        let finest = grid(&self.finest, vec![1; spatial.len()]);
        let mut grids = Vec::new();
        for level in &levels {
            let place = self.place(&level.path)?;
            let array = ArrayNode::from_metadata(context.engine(), &place, level.metadata.clone())?;
            grids.push(grid(&array, level.factors.clone()));
        }
        let element = self.finest.chunks.layout.element_size() as u64;
        let small = options.task_size.unwrap_or(SMALL_TASK);
        let stages = stages(&finest, &grids, element, small);
        Ok(Plan { method, levels, grids, stages })
    }
}

/// The geometry of an array.
fn grid(array: &Array, factors: Vec<u64>) -> Grid {
    let plain = array.chunks.layout.addressable().is_some_and(is_plain)
        || matches!(array.chunks.layout, crate::layout::Layout::Chunk(_));
    let object = array.cell_shape().to_vec();
    // What cannot be encoded chunk by chunk is encoded as a whole.
    let piece = if plain { array.chunk_shape().to_vec() } else { object.clone() };
    Grid { shape: array.shape().to_vec(), piece, object, factors }
}

/// Whether a level fits one chunk, as far as it is reduced. An axis along which chunks have one
/// element never does, and does not count where others have more.
fn fits_one_chunk(shape: &[u64], chunk: &[u64], spatial: &[bool]) -> bool {
    let axes = || shape.iter().zip(chunk).zip(spatial).filter(|(_, space)| **space);
    let thick = axes().any(|((_, &chunk), _)| chunk > 1);
    axes().all(|((&len, &chunk), _)| len <= chunk || thick && chunk == 1)
}

/// Halves the axes along which voxels are shortest: those that would otherwise be further from the
/// others than they are.
fn halves(shape: &[u64], scale: &[f64], spatial: &[bool]) -> Vec<u64> {
    let can = |axis: usize| spatial[axis] && shape[axis] > 1;
    let sound = |scale: f64| if scale.is_finite() && scale > 0.0 { scale } else { 1.0 };
    let axes = || (0..shape.len()).filter(|&axis| can(axis));
    let shortest = axes().map(|axis| sound(scale[axis])).fold(f64::INFINITY, f64::min);
    let most = shortest * std::f64::consts::SQRT_2 * (1.0 + 1e-9);
    let factor = |axis: usize| if can(axis) && sound(scale[axis]) <= most { 2 } else { 1 };
    (0..shape.len()).map(factor).collect()
}

/// The path of level `number`, given that of level 0: the last number in it, and so much more.
fn path_of(finest: &str, number: usize) -> String {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let bytes = finest.as_bytes();
    let end = bytes.iter().rposition(is_digit).map_or(0, |last| last + 1);
    let start = bytes[..end].iter().rposition(|byte| !is_digit(byte)).map_or(0, |at| at + 1);
    let (before, digits, after) = (&finest[..start], &finest[start..end], &finest[end..]);
    match digits.parse::<usize>().ok().and_then(|first| first.checked_add(number)) {
        Some(next) => format!("{before}{next:0width$}{after}", width = digits.len()),
        None => number.to_string(),
    }
}

/// How levels are stored.
struct LevelLayout {
    /// The shape of chunks.
    chunk: Vec<u64>,
    stored: Stored,
    /// For version 2: the documents of the finest level.
    v2: Option<(Map<String, Value>, Option<Value>)>,
    /// For shards of a size: chunks of about this many bytes, and the size.
    sized: Option<(u64, u64)>,
}

impl LevelLayout {
    fn of(image: &PyramidImage, options: &PyramidOptions) -> Result<Self, Error> {
        let metadata = image.finest.metadata();
        let mut stored = Stored::of(metadata).map_err(|reason| image.refuse_layout(reason))?;
        if image.format == ZarrFormat::V2 {
            let same = matches!(options.packing, Packing::Keep | Packing::Unsharded)
                && options.index.is_none()
                && options.chunk.is_none()
                && options.codecs.is_none();
            if !same {
                let reason = "those of Zarr version 2 have the chunks and codecs of the finest";
                return Err(image.refuse_layout(reason));
            }
            let chunk = stored.chunk_shape.clone();
            let Some((Value::Object(zarray), zattrs)) = image.v2.clone() else {
                return Err(image.refuse_layout("the finest level has no .zarray"));
            };
            let names = zattrs.and_then(|zattrs| zattrs.get(DIMENSIONS).cloned());
            let zattrs = names.map(|names| json!({ DIMENSIONS: names }));
            return Ok(Self { chunk, stored, v2: Some((zarray, zattrs)), sized: None });
        }
        let chunk = options.chunk.clone().unwrap_or_else(|| stored.chunk_shape.clone());
        if chunk.len() != image.finest.shape().len() || chunk.contains(&0) {
            return Err(image.refuse_layout(format!("chunks of {chunk:?} elements")));
        }
        if let Some(choice) = &options.codecs {
            let codecs = choice.codecs(image.finest.data_type());
            stored.codecs = codecs.map_err(|reason| image.refuse_layout(reason))?;
        }
        let mut sized = None;
        let shape = match options.packing {
            Packing::TargetSize(target) => {
                let element = image.finest.chunks.layout.element_size() as u64;
                let decoded = chunk.iter().fold(element, |n, &len| n.saturating_mul(len));
                let sample = sample(&image.finest)?;
                let mean = sample.map_or(decoded, |sample| sample.bytes_of(&chunk)).max(1);
                sized = Some((mean, target));
                Some(chunk.clone())
            }
            _ => shard_shape(&image.finest, &stored, &chunk, &options.packing)
                .map_err(|refused| refused.into_error(|reason| image.refuse_layout(reason)))?,
        };
        stored.shards = match shape {
            None => None,
            Some(shape) => {
                let (index_codecs, location) = match stored.shards {
                    Some(shards) => (shards.index_codecs, shards.location),
                    None => {
                        let codecs = default_index_codecs();
                        let codecs = codecs.map_err(|reason| image.refuse_layout(reason))?;
                        (codecs, IndexLocation::End)
                    }
                };
                let location = options.index.unwrap_or(location);
                Some(Shards { shape, index_codecs, location, plain: true })
            }
        };
        stored.chunk_shape.clone_from(&chunk);
        Ok(Self { chunk, stored, v2: None, sized })
    }

    /// The metadata and the documents of a level of this shape.
    #[expect(clippy::type_complexity, reason = "it is metadata and documents by name")]
    fn level(
        &self,
        image: &PyramidImage,
        shape: &[u64],
    ) -> Result<(ArrayMetadata, Vec<(&'static str, Vec<u8>)>), Error> {
        let refuse = |reason: String| image.refuse_layout(reason);
        if let Some((zarray, zattrs)) = &self.v2 {
            let mut zarray = zarray.clone();
            zarray.insert("shape".into(), json!(shape));
            let text = |value: &Value| format!("{value:#}\n").into_bytes();
            let zarray = text(&Value::Object(zarray));
            let zattrs = zattrs.as_ref().map(text);
            let metadata = ArrayMetadata::parse_v2(&zarray, zattrs.as_deref())
                .map_err(|error| refuse(error.to_string()))?;
            let mut documents: Vec<(&'static str, Vec<u8>)> = Vec::new();
            documents.extend(zattrs.map(|zattrs| (".zattrs", zattrs)));
            documents.push((".zarray", zarray));
            return Ok((metadata, documents));
        }
        let mut stored = self.stored.clone();
        if let Some(shards) = &mut stored.shards {
            let grid = chunk_grid(shape, &self.chunk);
            shards.shape = match self.sized {
                Some((mean, target)) => {
                    let counts = chunks_per_shard_for(&grid, mean, target);
                    counts.iter().zip(&self.chunk).map(|(&n, &c)| n.saturating_mul(c)).collect()
                }
                // No larger than the level.
                None => {
                    let axes = shards.shape.iter().zip(&self.chunk).zip(&grid);
                    axes.map(|((&shard, &chunk), &n)| shard.min(n.max(1).saturating_mul(chunk)))
                        .collect()
                }
            };
        }
        let (chunk_shape, codecs) = stored.to_layout();
        let old = image.finest.metadata();
        let names = image.image()?.axes.iter().map(|axis| Some(axis.name.clone())).collect();
        let metadata = ArrayMetadata::new(NewArray {
            shape: shape.to_vec(),
            chunk_shape,
            data_type: old.data_type().clone(),
            fill: Some(old.fill().clone()),
            codecs,
            key_encoding: *old.key_encoding(),
            dimension_names: Some(names),
            attributes: Map::new(),
        })
        .map_err(|error| refuse(error.to_string()))?;
        let document = metadata.to_bytes();
        Ok((metadata, vec![(crate::zarr::DOCUMENT, document)]))
    }
}

/// The `.zarray` of an array, and its `.zattrs`, if there is one.
fn v2_documents(array: &ArrayNode) -> Result<(Value, Option<Value>), Error> {
    let location = array.location();
    let get = |name: &str| -> Result<Option<Value>, Error> {
        let Some(bytes) = location.store.get(&location.key(name)?)? else { return Ok(None) };
        let parsed = serde_json::from_slice(&bytes);
        let at = location.to_string();
        parsed
            .map(Some)
            .map_err(|error| PyramidError::Layout { at, reason: format!("{name}: {error}") }.into())
    };
    Ok((get(".zarray")?.unwrap_or_default(), get(".zattrs")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_named_after_the_finest() {
        for (finest, second) in [
            ("0", "2"),
            ("s0", "s2"),
            ("scale0/image", "scale2/image"),
            ("level_00", "level_02"),
            ("1", "3"),
            ("full", "2"),
            ("9/99999999999999999999999", "2"),
        ] {
            assert_eq!(path_of(finest, 2), second, "{finest}");
        }
    }

    #[test]
    fn axes_are_halved_until_voxels_are_as_long_in_all_directions() {
        let all = [false, true, true, true];
        let shape = [3, 100, 100, 100];
        assert_eq!(halves(&shape, &[1.0, 2.0, 0.5, 0.5], &all), [1, 1, 2, 2]);
        assert_eq!(halves(&shape, &[1.0, 2.0, 1.0, 1.0], &all), [1, 1, 2, 2]);
        assert_eq!(halves(&shape, &[1.0, 2.0, 2.0, 2.0], &all), [1, 2, 2, 2]);
        assert_eq!(halves(&shape, &[1.0, 1.4, 1.0, 1.0], &all), [1, 2, 2, 2]);
        // What has one element is not halved, and does not hold the others back.
        assert_eq!(halves(&[3, 1, 9, 9], &[1.0, 0.1, 1.0, 1.0], &all), [1, 1, 2, 2]);
        assert_eq!(halves(&[3, 1, 1, 1], &[1.0; 4], &all), [1; 4]);
        assert_eq!(halves(&shape, &[0.0, f64::NAN, -1.0, 0.0], &all), [1, 2, 2, 2]);
    }

    #[test]
    fn a_level_fits_one_chunk_if_it_does_along_thick_axes() {
        let all = [false, true, true, true];
        assert!(fits_one_chunk(&[9, 64, 64, 64], &[1, 64, 64, 64], &all));
        assert!(!fits_one_chunk(&[9, 65, 64, 64], &[1, 64, 64, 64], &all));
        // Planes.
        assert!(fits_one_chunk(&[9, 65, 64, 64], &[1, 1, 64, 64], &all));
        assert!(!fits_one_chunk(&[9, 2, 1, 1], &[1, 1, 1, 1], &all));
    }
}
