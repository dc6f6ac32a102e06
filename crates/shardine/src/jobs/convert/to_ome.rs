//! Converts a data set of any format to OME-Zarr.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::super::frame::JobContext;
use super::super::frame::place::check_apart;
use super::super::rebuild::{AxisMap, OutPlan, make};
use super::super::repack::Packing;
use super::super::span::job_span;
use super::ConvertError;
use super::hierarchy::{Hierarchy, NodeForm, PlannedArray};
use super::images::{NewImage, override_image, place_levels};
use super::level_array::LevelArray;
use super::nodes::{OldArray, OldContent, OldGroup, OldNode, OldNodes, above, below};
use super::ome_form::OmeForm;
use super::options::{ConvertOptions, ConvertSummary, ConvertedLevel, ZarrForm};
use super::restored::restored;
use super::to_zarr;
use crate::ome::{
    ImageLabel, OmeAxis, OmeError, OmeMetadata, OmeRelease, is_length_of_specification,
};
use crate::zarr::metadata::{DIMENSIONS, GroupMetadata, Separator, ZarrFormat};
use crate::{Error, Kind, Location};

/// The group of an image's labels.
const LABELS: &str = "labels";

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
/// Positions of voxels stay what they are, between corners and centres too: see
/// [`LevelPlacement`](crate::ome::LevelPlacement). If a volume was made from OME-Zarr, the metadata
/// that is kept in its `info` is written back, unless its scales have changed since.
///
/// Chunks are moved without decoding, out of the shards of the source and into those of the target,
/// unless other chunks or codecs are asked for, or Zarr lacks the codecs of the source. Every level
/// has shards of its own, none longer than the level. Documents come after what they describe, that
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
    let _hold = source.hold()?;
    let (plan, mut reports, summary) = plan_to_ome(context, source, target, form, options)?;
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

/// A node of the new hierarchy.
struct NewNode {
    path: String,
    content: NewContent,
}

#[expect(clippy::large_enum_variant, reason = "there is one for each array")]
enum NewContent {
    Group(OldGroup),
    Array(OldArray, Option<LevelOf>),
}

/// The image that an array is a level of.
#[derive(Clone)]
struct LevelOf {
    axes: Vec<OmeAxis>,
    map: AxisMap,
    number: usize,
}

/// The plan, a report of each step as far as known, and a summary.
type Planned = (OutPlan<'static>, Vec<ConvertedLevel>, ConvertSummary);

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
    let nodes = match described(&nodes)? {
        true => with_metadata(nodes, form)?,
        false => as_images(source, nodes, form, &mut summary)?,
    };
    let node_form = match form.version.release().is_zarr3() {
        true => NodeForm::V3,
        // Its chunks lie in folders.
        false => NodeForm::V2 { separator: Some(Separator::Slash) },
    };
    let mut hierarchy = Hierarchy::new(context, source, target, node_form);
    let others = ZarrForm::new();
    for NewNode { path, content } in nodes {
        match content {
            NewContent::Group(OldGroup { metadata, consolidated, .. }) => {
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
                    ..ConvertedLevel::default()
                };
                let named = has_xarray_names(&old);
                let planned = PlannedArray { old, axes: map, metadata, named, report };
                hierarchy.array(&path, planned)?;
                hierarchy.number_level(number);
            }
        }
    }
    let (plan, reports) = hierarchy.plan(options.request(form.request()), is_zarr);
    Ok((plan, reports, summary))
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
    match &form.unit {
        Some(unit) if !is_length_of_specification(unit) => {
            let unit = unit.escape_debug();
            refuse(format!("\"{unit}\" is not a unit of length such as micrometer or nanometer"))
        }
        _ => Ok(()),
    }
}

fn ome_error(at: &str) -> impl Fn(OmeError) -> Error {
    move |source| Error::Ome { at: at.to_owned(), source: Box::new(source) }
}

/// Whether a hierarchy is OME-Zarr: some group has its metadata.
fn described(nodes: &[OldNode]) -> Result<bool, Error> {
    let mut found = false;
    for node in nodes {
        if let OldContent::Group(group) = &node.content {
            let metadata = OmeMetadata::read(group.metadata.attributes());
            found |= metadata.map_err(ome_error(&group.at))?.is_some();
        }
    }
    Ok(found)
}

/// Puts OME-Zarr metadata among the attributes of a group.
fn write(
    at: &str,
    metadata: &OmeMetadata,
    form: &OmeForm,
    group: &mut GroupMetadata,
) -> Result<(), Error> {
    let mut attributes = group.attributes().clone();
    write_into(metadata, form, &mut attributes).map_err(ome_error(at))?;
    group.set_attributes(attributes);
    Ok(())
}

fn write_into(
    metadata: &OmeMetadata,
    form: &OmeForm,
    attributes: &mut Map<String, Value>,
) -> Result<(), OmeError> {
    if form.version.release().is_zarr3() {
        return metadata.write(&form.version, attributes);
    }
    // Up to 0.4 there is no difference between what is not known and other attributes.
    let mut metadata = metadata.clone();
    let other = std::mem::take(&mut metadata.other);
    metadata.write(&form.version, attributes)?;
    for (name, value) in other {
        if attributes.contains_key(&name) {
            let what = format!("the member \"{}\" of \"ome\"", name.escape_debug());
            return Err(OmeError::NotExpressible { version: form.version.to_string(), what });
        }
        attributes.insert(name, value);
    }
    Ok(())
}

/// The nodes of an OME-Zarr hierarchy, in the version asked for.
fn with_metadata(nodes: Vec<OldNode>, form: &OmeForm) -> Result<Vec<NewNode>, Error> {
    let shape = |node: &OldNode| match &node.content {
        OldContent::Array(old) => Some((node.path.clone(), old.array.shape().to_vec())),
        OldContent::Group(_) => None,
    };
    let shapes: HashMap<String, Vec<u64>> = nodes.iter().filter_map(shape).collect();
    let mut levels: HashMap<String, LevelOf> = HashMap::new();
    let mut named = 0;
    let mut new = Vec::with_capacity(nodes.len());
    for OldNode { path, content } in nodes {
        let mut group = match content {
            OldContent::Group(group) => group,
            OldContent::Array(old) => {
                new.push(NewNode { path, content: NewContent::Array(old, None) });
                continue;
            }
        };
        let metadata = OmeMetadata::read(group.metadata.attributes());
        if let Some(mut metadata) = metadata.map_err(ome_error(&group.at))? {
            let is_label = metadata.image_label.is_some();
            for image in &mut metadata.images {
                let rank = image.axes.len();
                let mut of_levels = Vec::with_capacity(image.levels.len());
                for level in &image.levels {
                    let name = level.path.escape_debug();
                    let refuse = |reason: String| {
                        Error::from(ConvertError::Image { at: group.at.clone(), reason })
                    };
                    let shape = shapes.get(&below(&path, &level.path)).ok_or_else(|| {
                        refuse(format!("its level \"{name}\" is not an array of it"))
                    })?;
                    if shape.len() != rank {
                        let count = shape.len();
                        return Err(refuse(format!(
                            "its level \"{name}\" has {count} axes, but the image has {rank}"
                        )));
                    }
                    of_levels.push(shape.clone());
                }
                place_levels(image, &of_levels);
                override_image(&group.at, image, form, is_label)?;
                for (number, level) in image.levels.iter().enumerate() {
                    let (axes, map) = (image.axes.clone(), AxisMap::identity(rank));
                    levels.insert(below(&path, &level.path), LevelOf { axes, map, number });
                }
                if let Some(name) = form.name.as_ref().filter(|_| !is_label) {
                    image.name = Some(name.clone());
                    named += 1;
                }
            }
            write(&group.at, &metadata, form, &mut group.metadata)?;
            if named > 1 {
                let reason = "there are several images, which cannot have the same name";
                let (at, reason) = (group.at, reason.to_owned());
                return Err(ConvertError::Image { at, reason }.into());
            }
        }
        new.push(NewNode { path, content: NewContent::Group(group) });
    }
    for node in &mut new {
        if let NewContent::Array(_, level) = &mut node.content {
            *level = levels.remove(&node.path);
        }
    }
    Ok(new)
}

/// The arrays and groups of a hierarchy that is not OME-Zarr, as images.
fn as_images(
    source: &Location,
    nodes: Vec<OldNode>,
    form: &OmeForm,
    summary: &mut ConvertSummary,
) -> Result<Vec<NewNode>, Error> {
    let mut images = Images::of(&nodes);
    let mut new = Vec::with_capacity(nodes.len() + 1);
    for OldNode { path, content } in nodes {
        match content {
            // Until the group that it is in has its turn, or forever.
            OldContent::Array(old) => images.waiting.push((path, old)),
            OldContent::Group(group) => images.group(path, group, form, summary, &mut new)?,
        }
    }
    if let Some((path, old)) = images.waiting.pop() {
        // The source is an array.
        let at = source.to_string();
        images.image(&path, (at, GroupMetadata::new(Map::new())), vec![old], form, &mut new)?;
    }
    if images.made == 0 {
        return Err(ConvertError::NoImage { at: source.to_string() }.into());
    }
    Ok(new)
}

/// Makes images of arrays, group by group.
struct Images {
    /// Groups with arrays in them that are levels.
    groups: HashSet<String>,
    /// Groups in which every array or group is an image of labels.
    of_labels: HashSet<String>,
    /// Arrays whose group has not been seen.
    waiting: Vec<(String, OldArray)>,
    /// How many images there are, beside those of labels.
    made: usize,
}

impl Images {
    fn of(nodes: &[OldNode]) -> Self {
        let (mut groups, mut of_labels) = (HashSet::new(), HashSet::new());
        let arrays = nodes.iter().filter(|node| matches!(node.content, OldContent::Array(_)));
        groups.extend(arrays.filter_map(|node| above(&node.path)).map(str::to_owned));
        for node in nodes.iter().filter(|node| matches!(node.content, OldContent::Group(_))) {
            let name = node.path.rsplit('/').next().unwrap_or_default();
            if name == LABELS && above(&node.path).is_some_and(|path| groups.contains(path)) {
                of_labels.insert(node.path.clone());
            }
        }
        groups.retain(|group| !of_labels.contains(group));
        Self { groups, of_labels, waiting: Vec::new(), made: 0 }
    }

    /// Adds a group, after everything in it.
    fn group(
        &mut self,
        path: String,
        mut group: OldGroup,
        form: &OmeForm,
        summary: &mut ConvertSummary,
        new: &mut Vec<NewNode>,
    ) -> Result<(), Error> {
        let inside = |(array, _): &mut (String, OldArray)| above(array) == Some(path.as_str());
        let arrays: Vec<(String, OldArray)> = self.waiting.extract_if(.., inside).collect();
        if self.of_labels.contains(&path) {
            let mut names: Vec<String> =
                new.iter().filter_map(|node| label_name(&path, node)).collect();
            for (array, old) in arrays {
                names.extend(array.rsplit('/').next().map(str::to_owned));
                let group = (old.at(), GroupMetadata::new(Map::new()));
                self.image(&array, group, vec![old], form, new)?;
            }
            names.sort();
            let mut metadata = OmeMetadata::new(form.version.clone());
            metadata.labels = Some(names);
            write(&group.at, &metadata, form, &mut group.metadata)?;
        } else if self.groups.contains(&path) {
            let levels = arrays.into_iter().map(|(_, old)| old);
            if group.has_levels {
                let levels: Vec<OldArray> = levels.collect();
                return self.levels(&path, group, levels, form, summary, new);
            }
            let mut levels: Vec<OldArray> = levels.collect();
            let elements = |old: &OldArray| {
                old.array.shape().iter().fold(1u128, |n, &len| n.saturating_mul(len.into()))
            };
            // Stable: those of one size stay in the order of their names.
            levels.sort_by_key(|old| std::cmp::Reverse(elements(old)));
            let consolidated = group.consolidated;
            self.image(&path, (group.at, group.metadata), levels, form, new)?;
            if let Some(NewContent::Group(made)) = new.last_mut().map(|node| &mut node.content) {
                made.consolidated = consolidated;
            }
            return Ok(());
        }
        new.push(NewNode { path, content: NewContent::Group(group) });
        Ok(())
    }

    /// Adds the levels of a data set of another format, and their group.
    fn levels(
        &mut self,
        path: &str,
        mut group: OldGroup,
        levels: Vec<OldArray>,
        form: &OmeForm,
        summary: &mut ConvertSummary,
        new: &mut Vec<NewNode>,
    ) -> Result<(), Error> {
        let found = match restored(&group, &levels) {
            Some(Ok(found)) => found,
            kept => {
                summary.image_not_kept = kept.and_then(Result::err);
                let group = (group.at, group.metadata);
                return self.image(path, group, levels, form, new);
            }
        };
        summary.image_kept = true;
        let mut metadata = found.metadata;
        let Some(image) = metadata.images.first_mut() else { return Ok(()) };
        override_image(&group.at, image, form, false)?;
        self.name(&group.at, &mut image.name, form)?;
        let mut between: Vec<String> = Vec::new();
        for (number, (mut old, level)) in levels.into_iter().zip(&image.levels).enumerate() {
            let place = below(path, &level.path);
            let mut inner = above(&place);
            while let Some(folder) = inner.filter(|folder| folder.len() > path.len()) {
                between.push(folder.to_owned());
                inner = above(folder);
            }
            old.attributes = found.level_attributes.get(number).cloned().unwrap_or_default();
            let (axes, map) = (image.axes.clone(), found.map.clone());
            let content = NewContent::Array(old, Some(LevelOf { axes, map, number }));
            new.push(NewNode { path: place, content });
        }
        // Groups that levels are in; the innermost first.
        between.sort();
        between.dedup();
        for place in between.into_iter().rev() {
            let metadata = GroupMetadata::new(Map::new());
            let at = group.at.clone();
            let inner = OldGroup { at, metadata, consolidated: false, has_levels: false };
            new.push(NewNode { path: place, content: NewContent::Group(inner) });
        }
        group.metadata.set_attributes(found.attributes);
        write(&group.at, &metadata, form, &mut group.metadata)?;
        new.push(NewNode { path: path.to_owned(), content: NewContent::Group(group) });
        self.made += 1;
        Ok(())
    }

    /// Names an image, unless another one has the name.
    fn name(&self, at: &str, name: &mut Option<String>, form: &OmeForm) -> Result<(), Error> {
        if form.name.is_none() {
            return Ok(());
        }
        if self.made > 0 {
            let reason = "there are several images, which cannot have the same name".to_owned();
            return Err(ConvertError::Image { at: at.to_owned(), reason }.into());
        }
        name.clone_from(&form.name);
        Ok(())
    }

    /// Adds an image: its levels, finest first, and its group.
    fn image(
        &mut self,
        path: &str,
        (at, mut metadata): (String, GroupMetadata),
        levels: Vec<OldArray>,
        form: &OmeForm,
        new: &mut Vec<NewNode>,
    ) -> Result<(), Error> {
        let is_label = above(path).is_some_and(|above| self.of_labels.contains(above));
        let name = |(number, old): (usize, &OldArray)| {
            own_name(path, old).unwrap_or_else(|| number.to_string())
        };
        let paths: Vec<String> = levels.iter().enumerate().map(name).collect();
        let of_levels: Vec<(String, &OldArray)> = paths.iter().cloned().zip(&levels).collect();
        let NewImage { mut image, map } = NewImage::new(&at, &of_levels, form, is_label)?;
        let mut ome = OmeMetadata::new(form.version.clone());
        match is_label {
            true => {
                let data_type = levels.first().map(|old| old.array.data_type());
                let is_whole = |kind| matches!(kind, Kind::Int | Kind::UInt | Kind::Bool);
                if let Some(other) = data_type.filter(|of| !is_whole(of.kind())) {
                    let reason = format!("labels are whole numbers, not {}", other.name());
                    return Err(ConvertError::Image { at, reason }.into());
                }
                ome.image_label = Some(ImageLabel::default());
            }
            false => {
                self.name(&at, &mut image.name, form)?;
                self.made += 1;
            }
        }
        for (number, (old, level)) in levels.into_iter().zip(&image.levels).enumerate() {
            let (axes, map) = (image.axes.clone(), map.clone());
            let content = NewContent::Array(old, Some(LevelOf { axes, map, number }));
            new.push(NewNode { path: below(path, &level.path), content });
        }
        ome.images.push(image);
        write(&at, &ome, form, &mut metadata)?;
        let group = OldGroup { at, metadata, consolidated: false, has_levels: false };
        new.push(NewNode { path: path.to_owned(), content: NewContent::Group(group) });
        Ok(())
    }
}

/// The name of a Zarr array in its group at a path, which it keeps as a level.
fn own_name(path: &str, old: &OldArray) -> Option<String> {
    old.metadata.as_ref()?;
    let name = match path {
        "" => old.name.as_str(),
        path => old.name.strip_prefix(path)?.strip_prefix('/')?,
    };
    (!name.is_empty()).then(|| name.to_owned())
}

/// The name of a node, if it is an image directly in a group of labels.
fn label_name(labels: &str, node: &NewNode) -> Option<String> {
    let is_group = matches!(node.content, NewContent::Group(_));
    (is_group && above(&node.path) == Some(labels))
        .then(|| node.path.rsplit('/').next().unwrap_or_default().to_owned())
}
