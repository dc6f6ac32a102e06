//! Converts an array, or a group whose arrays are levels, to a volume.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::super::frame::JobContext;
use super::super::frame::place::below;
use super::super::rebuild::{Document, OutPlan, SourceRef, Step, TargetRef, Work, relates};
use super::super::span::job_span;
use super::CONVERT;
use super::ConvertError;
use super::new_info::new_info;
use super::options::{ConvertOptions, ConvertSummary, ConvertedLevel, VolumeForm};
use super::planned::Planned;
use super::positions::{VolumePositions, Voxels, volume_name};
use super::undescribed::LABELS;
use super::view::{RANK, View};
use crate::jobs::losses::refuse_array;
use crate::ome::{Image, OmeMetadata};
use crate::plan::ValueSizes;
use crate::precomputed::kept::{self, KeptImage, Seen};
use crate::precomputed::{DATA_TYPES, INFO, Volume, VolumeInfo};
use crate::zarr::metadata::NodeMetadata;
use crate::zarr::read_document;
use crate::{
    Array, ArrayNode, DataSet, Engine, Error, Group, Location, Node, PartContent, open_in,
};

/// An array that is a level, and how its axes are viewed.
pub(super) struct OldLevel {
    pub name: String,
    pub array: Array,
    /// Its number in its data set.
    level: usize,
    pub attributes: Map<String, Value>,
    pub view: View,
    /// From OME-Zarr metadata.
    pub voxels: Option<Voxels>,
}

/// The levels of a source, and what their group says of them.
#[derive(Default)]
struct OldLevels {
    levels: Vec<OldLevel>,
    /// The `info` that the group keeps.
    kept: KeptInfo,
    /// Where the levels of an OME-Zarr image are, or why that is not known.
    positions: Option<Result<VolumePositions, String>>,
    /// The metadata of the image, if the source is all of it.
    image: Option<KeptImage>,
    /// The paths of its label images.
    labels: Vec<String>,
}

impl OldLevel {
    /// Its shape along the axes of a volume.
    pub fn shape(&self) -> [u64; RANK] {
        let shape = self.view.map().to_new(self.array.shape(), 1);
        std::array::from_fn(|axis| shape.get(axis).copied().unwrap_or(1))
    }
}

/// Makes a volume in Neuroglancer's precomputed format from a Zarr array, or from a group whose
/// arrays are its levels.
///
/// The names of the axes decide which is x, y, z and channel (or c); in an array without names they
/// are assumed to be in this order, which the report says. Levels are ordered by size. For an
/// OME-Zarr image, `multiscales` names levels and axes, and its scales become the resolution in
/// nanometres; a time axis is dropped if it has one point, and refused if it has more. Its
/// translations, of the centres of voxels, become voxel offsets, of their corners; as these are
/// whole numbers, all levels may be shifted by up to half a voxel of the finest
/// ([`position_shift`](ConvertSummary::position_shift)). The metadata of the image is kept in the
/// `info`, so that [`convert_to_ome`](super::convert_to_ome) makes the same image again. Chunks are
/// moved without decoding where the codecs mean the same: elements stored with x fastest and
/// channel slowest, little-endian, in gzip where the volume has it, all channels in a chunk. Those
/// cut off at an end are re-encoded without what is past it. The only fill value of a volume is 0:
/// with another one, absent chunks are written out.
///
/// If the group was made from a volume and still agrees with its `info`, and the form requests
/// nothing else, that `info` is written back. It comes last; until then
/// [`CONVERT_MARKER`](crate::zarr::CONVERT_MARKER) says that the result is unfinished, and the same
/// call resumes it. `tell` is called with each level when it is done.
///
/// Costs one read for each index and each chunk, and the check as much again; memory is the chunks
/// in flight.
pub fn convert_to_volume(
    context: impl Into<JobContext>,
    source: &Location,
    target: &Location,
    form: &VolumeForm,
    options: &ConvertOptions,
    tell: &mut dyn FnMut(ConvertedLevel),
) -> Result<ConvertSummary, Error> {
    let _span = job_span("convert_to_volume", source);
    let context = &context.into();
    let planned = plan_to_volume(context, source, target, form, options)?;
    planned.run(context, source, target, options, tell)
}

/// Plans the conversion.
pub(in crate::jobs) fn plan_to_volume(
    context: &JobContext,
    source: &Location,
    target: &Location,
    form: &VolumeForm,
    options: &ConvertOptions,
) -> Result<Planned, Error> {
    let engine = context.engine();
    let OldLevels { mut levels, kept, positions, image, labels } = old_levels(engine, source)?;
    let positions = match positions {
        // If the resolution is given, the metadata's is not needed.
        _ if form.resolution.is_some() => None,
        Some(Err(reason)) => return Err(refuse_axes(source, reason)),
        positions => positions.and_then(Result::ok),
    };
    for (number, level) in levels.iter_mut().enumerate() {
        let found = positions.as_ref().and_then(|positions| positions.levels.get(number));
        level.voxels = found.copied().flatten();
    }
    levels.iter().try_for_each(|level| refuse_array(&level.array))?;
    let mut summary = ConvertSummary { labels_left_out: labels, ..ConvertSummary::default() };
    let kept = kept.map(|kept| kept.and_then(|info| still_there(info, positions.as_ref())));
    let is_image = image.is_some();
    let (mut info, levels, measured) =
        chosen_info(levels, kept, is_image, form, options, &mut summary)?;
    let keeps_positions = form.voxel_offset.is_none() && !summary.info_kept;
    if let Some(positions) = positions.filter(|_| keeps_positions) {
        if positions.shift != [0.0; 3] {
            summary.position_shift = Some(positions.shift);
        }
        if let Some(image) = image {
            let wrong = |error| refuse_axes(source, format!("{error}"));
            info = kept::with_image(&info, &image, positions.shift).map_err(wrong)?;
        }
    }
    let volume = Volume::bind(engine, target, info);
    let mut reports = Vec::with_capacity(levels.len());
    let mut steps = Vec::with_capacity(levels.len());
    for (number, old) in levels.into_iter().enumerate() {
        let scale = volume.scale(number)?;
        let (new, axes) = (volume.array(number)?, old.view.map());
        let report = ConvertedLevel {
            level: number,
            source: old.name.clone(),
            target: scale.key.clone(),
            shape: new.shape().to_vec(),
            chunk_shape: new.chunk_shape().to_vec(),
            shard_shape: scale.sharding.as_ref().and(new.shard_shape()).map(<[u64]>::to_vec),
            sharding: scale.sharding.clone(),
            measured: measured.get(number).copied().flatten(),
            axes: old.view.names(),
            axes_assumed: old.view.assumed,
            moves: relates(&old.array, &axes, &new),
            position_error: match form.voxel_offset {
                None => old.voxels.map_or([0.0; 3], |voxels| voxels.error),
                Some(_) => [0.0; 3],
            },
            ..ConvertedLevel::default()
        };
        let (name, folder) = (report.target.clone(), old.array.location().clone());
        let from = SourceRef::new(below(source, &folder), old.level);
        let info = Value::Object(volume.info().document().clone());
        let to = TargetRef::Volume { info, level: number, packed: false };
        let work = Work::Array { old: old.array, axes, new };
        steps.push(Step { name, folder, work, source: from, target: to, documents: Vec::new() });
        reports.push(vec![report]);
    }
    let plan = OutPlan {
        kind: &CONVERT,
        source_name: None,
        request: options.request(form.request()),
        steps,
        documents: vec![Document { key: target.key(INFO)?, bytes: volume.info().to_bytes() }],
        others: None,
        others_required: false,
        last_check: Box::new(|| Ok(())),
    };
    Ok(Planned { plan, reports, summary })
}

type KeptInfo = Option<Result<VolumeInfo, String>>;

/// An `info` that an image keeps, unless the image is no longer where the volume was.
fn still_there(
    info: VolumeInfo,
    positions: Option<&VolumePositions>,
) -> Result<VolumeInfo, String> {
    let scales = info.scales().iter().map(|scale| (scale.resolution, scale.voxel_offset));
    match positions {
        Some(positions) if !(positions.are_exact() && positions.are_at(scales)) => {
            Err("the scale or the translation of a level was changed".to_owned())
        }
        _ => Ok(info),
    }
}

/// The arrays that become levels, largest first, and what their group says.
fn old_levels(engine: &Arc<Engine>, source: &Location) -> Result<OldLevels, Error> {
    let set = open_in(engine, source)?;
    if !set.is::<ArrayNode>() && !set.is::<Group>() {
        return Ok(OldLevels { levels: foreign_levels(&*set)?, ..OldLevels::default() });
    }
    let nothing = || Error::NoNode { at: source.to_string() };
    if set.is::<ArrayNode>() {
        return single_level(*set.downcast::<ArrayNode>().ok_or_else(nothing)?);
    }
    let group = set.downcast::<Group>().ok_or_else(nothing)?;
    let image = group.ome()?.and_then(|mut metadata| match metadata.images.is_empty() {
        true => None,
        false => Some(metadata.images.remove(0)),
    });
    let mut levels = Vec::new();
    match &image {
        // Whatever else is in the group is not a level.
        Some(image) => {
            let axes = axis_names(image);
            for level in &image.levels {
                let array = group.level(&level.path)?;
                levels.push(zarr_level(level.path.clone(), array, Some(&axes))?);
            }
        }
        None => {
            for child in group.children()? {
                if let Node::Array(array) = child.node? {
                    levels.push(zarr_level(child.name, array, None)?);
                }
            }
        }
    }
    let elements = |level: &OldLevel| {
        level.shape().iter().fold(1u128, |n, &len| n.saturating_mul(u128::from(len)))
    };
    if image.is_none() {
        // Stable: those of one size stay in the order of their names.
        levels.sort_by_key(|level| std::cmp::Reverse(elements(level)));
    }
    check_alike(source, &levels)?;
    let kept = kept::find(group.metadata().attributes());
    let positions = image.as_ref().map(VolumePositions::of);
    let image = image.map(|_| {
        let of_levels = levels.iter().map(|level| level.attributes.clone()).collect();
        KeptImage::new(group.metadata().attributes(), of_levels)
    });
    let labels = if image.is_some() { label_images(engine, source)? } else { Vec::new() };
    Ok(OldLevels { levels, kept, positions, image, labels })
}

/// The paths of the label images of an image, as far as metadata names them.
fn label_images(engine: &Arc<Engine>, source: &Location) -> Result<Vec<String>, Error> {
    let group = match Node::open(engine, &source.join(LABELS)?) {
        Ok(Node::Group(group)) => group,
        Ok(Node::Array(_)) | Err(Error::NoNode { .. } | Error::Metadata { .. }) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    let found = OmeMetadata::read(group.metadata().attributes()).ok().flatten();
    let names = found.and_then(|metadata| metadata.labels).unwrap_or_default();
    Ok(names.iter().map(|name| format!("{LABELS}/{name}")).collect())
}

/// The names of an image's axes, as a volume has them.
fn axis_names(image: &Image) -> Vec<String> {
    image.axes.iter().map(volume_name).collect()
}

/// The levels of a data set in another format, in its order.
fn foreign_levels(set: &dyn DataSet) -> Result<Vec<OldLevel>, Error> {
    let mut levels = Vec::new();
    for (number, part) in set.parts()?.into_iter().enumerate() {
        let PartContent::Array(array) = part.content? else {
            return Err(Error::NotAnArray { at: set.location().to_string() });
        };
        let level = old_level(part.name, array, set.attributes(Some(number)), None)?;
        levels.push(OldLevel { level: number, ..level });
    }
    check_alike(set.location(), &levels)?;
    Ok(levels)
}

/// Refuses levels that cannot belong to one volume.
fn check_alike(source: &Location, levels: &[OldLevel]) -> Result<(), Error> {
    let Some(first) = levels.first() else {
        return Err(ConvertError::NoArrays { at: source.to_string() }.into());
    };
    let describe = |level: &OldLevel| {
        let channels = level.shape()[RANK - 1];
        format!("the type {} and {channels} channels", level.array.data_type().name())
    };
    for level in levels {
        let (has, expected) = (describe(level), describe(first));
        if has != expected {
            let (at, first) = (level.name.clone(), first.name.clone());
            return Err(ConvertError::Levels { at, has, first, expected }.into());
        }
    }
    Ok(())
}

fn refuse_axes(location: &Location, reason: String) -> Error {
    ConvertError::Axes { at: location.to_string(), reason }.into()
}

/// A single array; if it is a level of an OME-Zarr image, the group above it names its axes, and
/// says where it is.
fn single_level(array: ArrayNode) -> Result<OldLevels, Error> {
    let mut image = None;
    if let Some((group, name)) = array.location().parent()? {
        let document = match read_document(&group) {
            Ok(NodeMetadata::Group(document)) => Some(document),
            Ok(NodeMetadata::Array(_)) | Err(Error::NoNode { .. } | Error::Metadata { .. }) => None,
            Err(error) => return Err(error),
        };
        let found = document.and_then(|group| OmeMetadata::read(group.attributes()).ok()?);
        image = found.and_then(|metadata| {
            let image = metadata.images.into_iter().next()?;
            let at = image.levels.iter().position(|level| level.path == name)?;
            Some((image, at))
        });
    }
    let axes = image.as_ref().map(|(image, _)| axis_names(image));
    let levels = vec![zarr_level(String::new(), array, axes.as_deref())?];
    let own = |(image, at): &(Image, usize)| {
        let mut positions = VolumePositions::of(image)?;
        positions.levels = positions.levels.get(*at).copied().into_iter().collect();
        Ok(positions)
    };
    let positions = image.as_ref().map(own);
    Ok(OldLevels { levels, positions, ..OldLevels::default() })
}

fn zarr_level(name: String, array: ArrayNode, axes: Option<&[String]>) -> Result<OldLevel, Error> {
    let attributes = array.metadata().attributes().clone();
    old_level(name, array.into_array(), attributes, axes)
}

fn old_level(
    name: String,
    array: Array,
    attributes: Map<String, Value>,
    axes: Option<&[String]>,
) -> Result<OldLevel, Error> {
    let data_type = array.data_type().name();
    if !DATA_TYPES.contains(&data_type) {
        let (at, data_type) = (array.location().to_string(), data_type.to_string());
        let known = DATA_TYPES.join(", ");
        return Err(ConvertError::DataType { at, data_type, known }.into());
    }
    let view = View::of(&array, axes)?;
    Ok(OldLevel { name, array, level: 0, attributes, view, voxels: None })
}

/// The `info` of a volume, the levels in its order, and what was measured of them.
type ChosenInfo = (VolumeInfo, Vec<OldLevel>, Vec<Option<ValueSizes>>);

/// Chooses the `info` of the volume: the one that was kept, if it still fits, or a new one.
fn chosen_info(
    levels: Vec<OldLevel>,
    kept: KeptInfo,
    in_order: bool,
    form: &VolumeForm,
    options: &ConvertOptions,
    summary: &mut ConvertSummary,
) -> Result<ChosenInfo, Error> {
    let kept = kept.map(|kept| {
        if *form != VolumeForm::default() || options.chunk.is_some() {
            return Err("a different layout was requested".to_owned());
        }
        let info = kept?;
        let seen: Vec<Seen<'_>> = levels
            .iter()
            .map(|level| Seen {
                name: &level.name,
                shape: level.shape(),
                data_type: level.array.data_type(),
            })
            .collect();
        let order = kept::agreeing(&info, &seen, in_order)?;
        Ok((info, order))
    });
    match kept {
        Some(Ok((info, order))) => {
            summary.info_kept = true;
            let mut levels: Vec<Option<OldLevel>> = levels.into_iter().map(Some).collect();
            let ordered = order.iter().filter_map(|&i| levels.get_mut(i)?.take()).collect();
            return Ok((info, ordered, Vec::new()));
        }
        Some(Err(reason)) => summary.info_not_kept = Some(reason),
        None => {}
    }
    let (info, measured) = new_info(&levels, form, options)?;
    Ok((info, levels, measured))
}
