//! Converts a data set of any format to OME-Zarr.

use super::super::frame::JobContext;
use super::super::frame::place::check_apart;
use super::super::repack::Packing;
use super::super::span::job_span;
use super::ConvertError;
use super::described::{is_described, with_metadata};
use super::hierarchy::{Hierarchy, NodeForm, PlannedArray};
use super::level_array::LevelArray;
use super::lower_levels::drop_lower;
use super::new_nodes::{LevelOf, NewContent, NewNode};
use super::nodes::{OldArray, OldGroup, OldNodes};
use super::ome_form::{LevelCount, OmeForm};
use super::options::{ConvertOptions, ConvertSummary, ConvertedLevel, ZarrForm};
use super::planned::Planned;
use super::to_zarr;
use super::undescribed::as_images;
use crate::ome::{OmeRelease, is_length_of_specification};
use crate::zarr::metadata::{DIMENSIONS, Separator, ZarrFormat};
use crate::{Error, Location};

/// Makes OME-Zarr from a data set of any format: images with their labels, plates, and whatever else
/// is in the same hierarchy.
///
/// From OME-Zarr of any version, every node is converted with its attributes, and its OME-Zarr
/// metadata is written in the version asked for. Other data sets become images: an array one of a
/// single level, a group whose arrays are levels (ordered by size) one with these levels and its
/// attributes, a group `labels` in it the labels; a precomputed volume or a layer of webknossos-wrap
/// one with the axes c, z, y, x. The names of an array's axes decide which is which; time comes
/// before channels before space, whatever their order in the source.
///
/// With [`OmeForm::levels`], images with fewer levels get their lower ones from the finest, when that
/// is converted: see [`pyramid`](crate::jobs::pyramid). They then take part in everything below.
///
/// Positions of voxels stay what they are, between corners and centres too: see
/// [`LevelPlacement`](crate::ome::LevelPlacement). If a volume was made from OME-Zarr, the metadata
/// that is kept in its `info` is written back, unless its scales have changed since.
///
/// Chunks are moved without decoding, out of the shards of the source and into those of the target,
/// unless other chunks or codecs are asked for, or not every reader of Zarr knows those of the source
/// ([`OmeForm::keep_codecs`]). Every level has shards of its own, none longer than the level. Documents come after what they describe, that
/// of the root last; until then [`CONVERT_MARKER`](crate::zarr::CONVERT_MARKER) says that the result
/// is unfinished, and the same call resumes it. `tell` is called with each array when it is done.
///
/// Costs one read for each index and each chunk, and the check as much again; memory is the chunks
/// in flight.
pub fn convert_to_ome(
    context: impl Into<JobContext>,
    source: &Location,
    target: &Location,
    form: &OmeForm,
    options: &ConvertOptions,
    tell: &mut dyn FnMut(ConvertedLevel),
) -> Result<ConvertSummary, Error> {
    let _span = job_span("convert_to_ome", source);
    let context = &context.into();
    if options.part.is_some() {
        form.check_parts()?;
    }
    let _hold = source.hold()?;
    let planned = plan_to_ome(context, source, target, form, options)?;
    planned.run(context, source, target, options, tell)
}

/// Plans the conversion.
pub(in crate::jobs) fn plan_to_ome(
    context: &JobContext,
    source: &Location,
    target: &Location,
    form: &OmeForm,
    options: &ConvertOptions,
) -> Result<Planned, Error> {
    check_apart(source, target)?;
    check_form(target, form)?;
    let OldNodes { nodes, is_zarr } = OldNodes::read(context, source)?;
    let mut summary = ConvertSummary::default();
    let mut nodes = match is_described(&nodes)? {
        true => with_metadata(nodes, form)?,
        false => as_images(source, nodes, form, &mut summary)?,
    };
    let node_form = match form.version.release().is_zarr3() {
        true => NodeForm::V3,
        // Its chunks lie in folders.
        false => NodeForm::V2 { separator: Some(Separator::Slash) },
    };
    let mut hierarchy = Hierarchy::new(context, source, target, node_form);
    for dropped in drop_lower(&mut nodes, form)? {
        hierarchy.leave_out(&dropped);
    }
    let others = ZarrForm::new();
    for NewNode { path, content } in nodes {
        match content {
            NewContent::Group(OldGroup { mut metadata, consolidated, .. }) => {
                hierarchy.lower_levels(&path, &mut metadata, form)?;
                hierarchy.group(&path, metadata, consolidated)?;
            }
            NewContent::Array(old, None) => {
                let planned = to_zarr::planned(old, &others, &ConvertOptions::new(), node_form)?;
                hierarchy.array(&path, planned)?;
            }
            NewContent::Array(old, Some(level)) => {
                let LevelOf { axes, map, number } = level;
                let made = LevelArray { old: &old, map: &map, axes: &axes, form, options };
                let metadata = made.metadata()?;
                let report = ConvertedLevel {
                    axes: axes.iter().map(|axis| axis.name.clone()).collect(),
                    codecs_replaced: made.replaced_codecs(),
                    ..ConvertedLevel::default()
                };
                let named = has_xarray_names(&old);
                let planned = PlannedArray { old, axes: map, metadata, named, report };
                hierarchy.array(&path, planned)?;
                hierarchy.number_level(number);
            }
        }
    }
    Ok(hierarchy.plan(options.request(form.request()), is_zarr, summary))
}

/// Whether xarray has named the dimensions of an array of version 2, which OME-Zarr does not need.
fn has_xarray_names(old: &OldArray) -> bool {
    let own = old.metadata.as_ref();
    own.is_some_and(|own| {
        own.zarr_format() == ZarrFormat::V2 && own.attributes().contains_key(DIMENSIONS)
    })
}

/// Refuses what no image can be.
fn check_form(target: &Location, form: &OmeForm) -> Result<(), Error> {
    let refuse =
        |reason: String| Err(ConvertError::Layout { at: target.to_string(), reason }.into());
    let release = form.version.release();
    if release < OmeRelease::V0_4 {
        return refuse(format!("OME-Zarr {} is not written, only 0.4 and later", form.version));
    }
    let packs = !matches!(form.packing, Packing::Keep | Packing::Unsharded);
    if !release.is_zarr3() && (packs || form.index.is_some()) {
        return refuse(format!("OME-Zarr {} is Zarr version 2, which has no shards", form.version));
    }
    if form.levels == Some(LevelCount::Number(0)) {
        return refuse("an image has one level or more".to_owned());
    }
    match &form.unit {
        Some(unit) if !is_length_of_specification(unit) => {
            let unit = unit.escape_debug();
            refuse(format!("\"{unit}\" is not a unit of length such as micrometer or nanometer"))
        }
        _ => Ok(()),
    }
}
