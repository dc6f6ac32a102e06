//! Lower levels that the source does not have.

use std::collections::HashSet;

use serde_json::Map;

use super::super::pyramid::{LowerLevels, PyramidImage};
use super::super::rebuild::{Step, TargetRef, Work};
use super::hierarchy::{Hierarchy, NodeDocuments};
use super::new_nodes::{NewContent, NewNode, ome_error, write};
use super::nodes::{OldArray, above, below};
use super::ome_form::{LevelCount, OmeForm};
use super::options::ConvertedLevel;
use crate::jobs::{PyramidError, PyramidOptions};
use crate::ome::OmeMetadata;
use crate::zarr::metadata::{ArrayMetadata, GroupMetadata, NodeMetadata, ZarrFormat};
use crate::{ArrayNode, Error};

/// Leaves out the lower levels of images that have fewer than are asked for, since all levels of a
/// pyramid are made alike. Returns their arrays.
pub(super) fn drop_lower(nodes: &mut Vec<NewNode>, form: &OmeForm) -> Result<Vec<OldArray>, Error> {
    let Some(LevelCount::Number(wanted)) = form.levels else { return Ok(Vec::new()) };
    let mut dropped = HashSet::new();
    for NewNode { path, content } in nodes.iter_mut() {
        let NewContent::Group(group) = content else { continue };
        let metadata = OmeMetadata::read(group.metadata.attributes());
        let Some(mut metadata) = metadata.map_err(ome_error(&group.at))? else { continue };
        let Some((image, others)) = metadata.images.split_first_mut() else { continue };
        if !(2..wanted).contains(&image.levels.len()) {
            continue;
        }
        let is_of_other = |path: &str| {
            others.iter().any(|image| image.levels.iter().any(|level| level.path == path))
        };
        let lower = image.levels.split_off(1);
        let unused = lower.iter().filter(|level| !is_of_other(&level.path));
        dropped.extend(unused.map(|level| below(path, &level.path)));
        // It says how they were made.
        image.other.shift_remove("metadata");
        write(&group.at, &metadata, form, &mut group.metadata)?;
    }
    let is_dropped = |node: &mut NewNode| {
        dropped.contains(&node.path) && matches!(node.content, NewContent::Array(..))
    };
    let found = nodes.extract_if(.., is_dropped).filter_map(|node| match node.content {
        NewContent::Array(old, _) => Some(old),
        NewContent::Group(_) => None,
    });
    Ok(found.collect())
}

impl OmeForm {
    fn pyramid(&self) -> PyramidOptions {
        let mut options = PyramidOptions::new();
        options.levels = match self.levels {
            Some(LevelCount::Number(levels)) => Some(levels),
            Some(LevelCount::Auto) | None => None,
        };
        options.factors.clone_from(&self.factors);
        options.method = self.method;
        options
    }
}

impl Hierarchy<'_> {
    /// Adds the lower levels that an image is to get, if this group is one, after everything else in
    /// it was added; its attributes then name them.
    pub fn lower_levels(
        &mut self,
        path: &str,
        group: &mut GroupMetadata,
        form: &OmeForm,
    ) -> Result<(), Error> {
        let Some(wanted) = form.levels else { return Ok(()) };
        let location = self.place(path)?;
        let at = location.to_string();
        let metadata = OmeMetadata::read(group.attributes()).map_err(ome_error(&at))?;
        let Some(metadata) = metadata else { return Ok(()) };
        let Some(image) = metadata.image() else { return Ok(()) };
        let has_enough = match wanted {
            LevelCount::Number(wanted) => image.levels.len() >= wanted,
            LevelCount::Auto => image.levels.len() > 1,
        };
        let Some(finest) = image.levels.first().filter(|_| !has_enough) else { return Ok(()) };
        let finest = below(path, &finest.path);
        let axes: Vec<String> = image.axes.iter().map(|axis| axis.name.clone()).collect();
        let Some(image) = self.planned_image(&finest, location, metadata)? else { return Ok(()) };
        let levels = LowerLevels::plan(self.context, image, form.pyramid())?;
        let Some(levels) = levels else { return Ok(()) };
        let mut attributes = group.attributes().clone();
        levels.declare(&mut attributes).map_err(ome_error(&at))?;
        group.set_attributes(attributes);
        self.make_levels(path, &finest, levels, &axes)
    }

    /// The image whose finest level is an array that was added.
    fn planned_image(
        &self,
        finest: &str,
        location: crate::Location,
        metadata: OmeMetadata,
    ) -> Result<Option<PyramidImage>, Error> {
        let place = self.place(finest)?;
        let mut found = self.nodes.iter().rev().filter(|(path, _)| path == finest);
        let (array, format, v2) = match found.next().map(|(_, documents)| documents) {
            Some(NodeDocuments::V3(NodeMetadata::Array(array))) => {
                (array.clone(), ZarrFormat::V3, None)
            }
            Some(NodeDocuments::V2(texts)) => {
                let text = |name: &str| {
                    texts.iter().find(|(of, _)| *of == name).map(|(_, text)| text.as_slice())
                };
                let (zarray, zattrs) = (text(".zarray").unwrap_or_default(), text(".zattrs"));
                let array = ArrayMetadata::parse_v2(zarray, zattrs).map_err(|source| {
                    super::ConvertError::Metadata { at: place.to_string(), source: source.into() }
                })?;
                let json = |bytes: &[u8]| serde_json::from_slice(bytes).unwrap_or_default();
                (array, ZarrFormat::V2, Some((json(zarray), zattrs.map(json))))
            }
            Some(NodeDocuments::V3(NodeMetadata::Group(_))) | None => return Ok(None),
        };
        let finest = ArrayNode::from_metadata(self.context.engine(), &place, array)?;
        Ok(Some(PyramidImage { location, format, metadata, finest, v2 }))
    }

    /// Adds the step that makes levels from the finest.
    fn make_levels(
        &mut self,
        path: &str,
        finest: &str,
        levels: LowerLevels,
        axes: &[String],
    ) -> Result<(), Error> {
        let Some(made_from) = self.steps.iter().rev().find(|step| step.name == finest) else {
            return Ok(());
        };
        let (folder, source) = (made_from.folder.clone(), made_from.source.clone());
        let (mut documents, mut reports, mut name) = (Vec::new(), Vec::new(), None);
        for (number, level) in levels.levels().enumerate() {
            let place = below(path, level.path);
            self.check_free(path, &place)?;
            self.add_groups_above(path, &place)?;
            for (name, bytes) in level.documents {
                documents.push(self.document(&place, name, bytes.clone())?);
            }
            let own = match level.documents {
                [(crate::zarr::DOCUMENT, _)] => {
                    NodeDocuments::V3(NodeMetadata::Array(level.metadata.clone()))
                }
                documents => NodeDocuments::V2(documents.to_vec()),
            };
            self.nodes.push((place.clone(), own));
            let (keys, rank) = (*level.metadata.key_encoding(), level.metadata.shape().len());
            self.keys.add_new_array(&place, keys, rank);
            let engine = self.context.engine();
            let array =
                ArrayNode::from_metadata(engine, &self.place(&place)?, level.metadata.clone())?;
            reports.push(ConvertedLevel {
                level: number + 1,
                source: source.path.clone(),
                target: place.clone(),
                shape: array.shape().to_vec(),
                chunk_shape: array.chunk_shape().to_vec(),
                shard_shape: array.shard_shape().map(<[u64]>::to_vec),
                axes: axes.to_vec(),
                method: Some(levels.method()),
                ..ConvertedLevel::default()
            });
            name.get_or_insert(place);
        }
        let (name, target) = (name.unwrap_or_default(), TargetRef::Levels);
        let work = Work::Levels { levels, state: None };
        self.steps.push(Step { name, folder, work, source, target, documents });
        self.reports.push(reports);
        Ok(())
    }

    /// The paths of nodes in an image, which were all added one after the other.
    fn inside_image(&self, image: &str) -> impl Iterator<Item = &str> {
        let inside = if image.is_empty() { String::new() } else { format!("{image}/") };
        let paths = self.nodes.iter().rev().map(|(path, _)| path.as_str());
        paths.take_while(move |path| path.starts_with(&inside))
    }

    /// Refuses a level where something else is to be.
    fn check_free(&self, image: &str, place: &str) -> Result<(), Error> {
        let inside = format!("{place}/");
        let is_there = |path: &str| path == place || path.starts_with(&inside);
        match self.inside_image(image).any(is_there) {
            true => Err(PyramidError::InTheWay { at: self.place(place)?.to_string() }.into()),
            false => Ok(()),
        }
    }

    /// Adds the groups between an image and a level that do not exist yet.
    fn add_groups_above(&mut self, image: &str, level: &str) -> Result<(), Error> {
        let mut missing = Vec::new();
        let mut inner = above(level);
        while let Some(folder) = inner.filter(|folder| folder.len() > image.len()) {
            if !self.inside_image(image).any(|path| path == folder) {
                missing.push(folder.to_owned());
            }
            inner = above(folder);
        }
        // They say nothing of what is in them, so they may come first.
        missing.iter().try_for_each(|path| self.group(path, GroupMetadata::new(Map::new()), false))
    }
}
