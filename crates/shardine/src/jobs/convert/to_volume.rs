//! Converts an array, or a group whose arrays are levels, to a volume.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::super::frame::JobContext;
use super::super::frame::place::below;
use super::super::rebuild::{Document, OutPlan, SourceRef, Step, TargetRef, Work, make, relates};
use super::super::span::job_span;
use super::CONVERT;
use super::ConvertError;
use super::multiscale::{Multiscale, Said, Voxels};
use super::new_info::new_info;
use super::options::{ConvertOptions, ConvertSummary, ConvertedLevel, VolumeForm};
use super::view::{RANK, View};
use crate::jobs::losses::refuse_array;
use crate::plan::ValueSizes;
use crate::precomputed::kept::{self, Seen};
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
    pub voxels: Voxels,
    /// The same, or why it cannot be used, until it is known whether it is needed.
    said: Result<Voxels, String>,
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
/// nanometres; a time axis is dropped if it has one point, and refused if it has more. Chunks are
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
    let (plan, mut reports, summary) = plan_to_volume(context, source, target, form, options)?;
    if options.dry_run {
        reports.into_iter().for_each(tell);
        return Ok(summary);
    }
    let outcome = make(context, source, target, plan, &options.out(), &mut |i, done| {
        if let Some(report) = reports.get_mut(i) {
            tell(std::mem::take(report).done(done));
        }
    })?;
    Ok(ConvertSummary { outcome, ..summary })
}

/// The plan, a report of each step as far as known, and a summary.
type Planned = (OutPlan<'static>, Vec<ConvertedLevel>, ConvertSummary);

/// Plans the conversion.
pub(in crate::jobs) fn plan_to_volume(
    context: &JobContext,
    source: &Location,
    target: &Location,
    form: &VolumeForm,
    options: &ConvertOptions,
) -> Result<Planned, Error> {
    let engine = context.engine();
    let (mut levels, kept) = old_levels(engine, source)?;
    for level in &mut levels {
        // If the resolution is given, the metadata's is not needed.
        match std::mem::replace(&mut level.said, Ok(Voxels::default())) {
            Ok(voxels) => level.voxels = voxels,
            Err(_) if form.resolution.is_some() => {}
            Err(reason) => return Err(refuse_axes(level.array.location(), reason)),
        }
    }
    levels.iter().try_for_each(|level| refuse_array(&level.array))?;
    let mut summary = ConvertSummary::default();
    let (info, levels, measured) = chosen_info(levels, kept, form, options, &mut summary)?;
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
            ..ConvertedLevel::default()
        };
        let (name, folder) = (report.target.clone(), old.array.location().clone());
        let from = SourceRef::new(below(source, &folder), old.level);
        let info = Value::Object(volume.info().document().clone());
        let to = TargetRef::Volume { info, level: number, packed: false };
        let work = Work::Array { old: old.array, axes, new };
        steps.push(Step { name, folder, work, source: from, target: to, document: None });
        reports.push(report);
    }
    let plan = OutPlan {
        kind: &CONVERT,
        request: options.request(form.request()),
        steps,
        documents: vec![Document { key: target.key(INFO)?, bytes: volume.info().to_bytes() }],
        others: None,
        others_required: false,
        last_check: Box::new(|| Ok(())),
    };
    Ok((plan, reports, summary))
}

type KeptInfo = Option<Result<VolumeInfo, String>>;

/// The arrays that become levels, largest first, and the `info` that their group keeps.
fn old_levels(engine: &Arc<Engine>, source: &Location) -> Result<(Vec<OldLevel>, KeptInfo), Error> {
    let set = open_in(engine, source)?;
    if !set.is::<ArrayNode>() && !set.is::<Group>() {
        return Ok((foreign_levels(&*set)?, None));
    }
    let nothing = || Error::NoNode { at: source.to_string() };
    if set.is::<ArrayNode>() {
        let array = set.downcast::<ArrayNode>().ok_or_else(nothing)?;
        return Ok((vec![single_level(*array)?], None));
    }
    let group = set.downcast::<Group>().ok_or_else(nothing)?;
    let image = Multiscale::find(group.metadata().attributes()).transpose();
    let image = image.map_err(|reason| refuse_axes(source, reason))?;
    let mut levels = Vec::new();
    match &image {
        // Whatever else is in the group is not a level.
        Some(image) => {
            for said in &image.levels {
                let array = ArrayNode::open(engine, &source.join(&said.path)?)?;
                levels.push(zarr_level(said.path.clone(), array, Some((image, said)))?);
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
    Ok((levels, kept))
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

/// A single array; if it is a level of an OME-Zarr image, the group above it names its axes.
fn single_level(array: ArrayNode) -> Result<OldLevel, Error> {
    let mut image = None;
    if let Some((group, name)) = array.location().parent()? {
        let document = match read_document(&group) {
            Ok(NodeMetadata::Group(document)) => Some(document),
            Ok(NodeMetadata::Array(_)) | Err(Error::NoNode { .. } | Error::Metadata { .. }) => None,
            Err(error) => return Err(error),
        };
        let found = document.and_then(|group| Multiscale::find(group.attributes())?.ok());
        image = found.and_then(|image| {
            let at = image.levels.iter().position(|said| said.path == name)?;
            Some((image, at))
        });
    }
    let said = image.as_ref().and_then(|(image, at)| Some((image, image.levels.get(*at)?)));
    zarr_level(String::new(), array, said)
}

fn zarr_level(
    name: String,
    array: ArrayNode,
    said: Option<(&Multiscale, &Said)>,
) -> Result<OldLevel, Error> {
    let attributes = array.metadata().attributes().clone();
    old_level(name, array.into_array(), attributes, said)
}

fn old_level(
    name: String,
    array: Array,
    attributes: Map<String, Value>,
    said: Option<(&Multiscale, &Said)>,
) -> Result<OldLevel, Error> {
    let data_type = array.data_type().name();
    if !DATA_TYPES.contains(&data_type) {
        let (at, data_type) = (array.location().to_string(), data_type.to_string());
        let known = DATA_TYPES.join(", ");
        return Err(ConvertError::DataType { at, data_type, known }.into());
    }
    let view = View::of(&array, said.map(|(image, _)| image.axes.as_slice()))?;
    let said = said.map_or(Ok(Voxels::default()), |(image, level)| image.voxels(level));
    let voxels = Voxels::default();
    Ok(OldLevel { name, array, level: 0, attributes, view, voxels, said })
}

/// The `info` of a volume, the levels in its order, and what was measured of them.
type ChosenInfo = (VolumeInfo, Vec<OldLevel>, Vec<Option<ValueSizes>>);

/// Chooses the `info` of the volume: the one that was kept, if it still fits, or a new one.
fn chosen_info(
    levels: Vec<OldLevel>,
    kept: KeptInfo,
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
        let order = kept::agreeing(&info, &seen)?;
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
