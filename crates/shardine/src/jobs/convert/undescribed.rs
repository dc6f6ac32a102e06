//! Arrays and groups that no OME-Zarr metadata describes, as images.

use std::collections::{HashMap, HashSet};

use serde_json::Map;

use super::ConvertError;
use super::images::{NewImage, override_image};
use super::new_nodes::{LevelOf, NewContent, NewNode, write};
use super::nodes::{OldArray, OldContent, OldGroup, OldNode, above, below};
use super::ome_form::OmeForm;
use super::options::ConvertSummary;
use super::restored::restored;
use crate::ome::{ImageLabel, OmeMetadata};
use crate::zarr::metadata::GroupMetadata;
use crate::{Error, Kind, Location};

/// The group of an image's labels.
pub(super) const LABELS: &str = "labels";

/// The arrays and groups of a hierarchy that is not OME-Zarr, as images.
pub(super) fn as_images(
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
            OldContent::Array(old) => {
                let group = above(&path).map(str::to_owned);
                images.waiting.entry(group).or_default().push((path, old));
            }
            OldContent::Group(group) => images.group(path, group, form, summary, &mut new)?,
        }
    }
    // The source is an array.
    for (path, old) in images.waiting.remove(&None).unwrap_or_default() {
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
    /// Arrays whose group has not been seen, by its path.
    waiting: HashMap<Option<String>, Vec<(String, OldArray)>>,
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
        Self { groups, of_labels, waiting: HashMap::new(), made: 0 }
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
        let arrays = self.waiting.remove(&Some(path.clone())).unwrap_or_default();
        if self.of_labels.contains(&path) {
            // What is in a group comes just before it.
            let inside = new.iter().rev().take_while(|node| is_inside(&path, &node.path));
            let mut names: Vec<String> =
                inside.filter_map(|node| label_name(&path, node)).collect();
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

/// Whether a node is somewhere in a group that is not the root.
fn is_inside(group: &str, node: &str) -> bool {
    node.strip_prefix(group).is_some_and(|rest| rest.starts_with('/'))
}

/// The name of a node, if it is an image directly in a group of labels.
fn label_name(labels: &str, node: &NewNode) -> Option<String> {
    let is_group = matches!(node.content, NewContent::Group(_));
    (is_group && above(&node.path) == Some(labels))
        .then(|| node.path.rsplit('/').next().unwrap_or_default().to_owned())
}
