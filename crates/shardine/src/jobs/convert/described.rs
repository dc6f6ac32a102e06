//! An OME-Zarr hierarchy of any version, in another one.

use std::collections::HashMap;

use super::super::rebuild::AxisMap;
use super::ConvertError;
use super::images::{override_image, place_levels};
use super::new_nodes::{LevelOf, NewContent, NewNode, ome_error, write};
use super::nodes::{OldContent, OldNode, below};
use super::ome_form::OmeForm;
use crate::Error;
use crate::ome::OmeMetadata;

/// Whether a hierarchy is OME-Zarr: some group has its metadata.
pub(super) fn is_described(nodes: &[OldNode]) -> Result<bool, Error> {
    let mut found = false;
    for node in nodes {
        if let OldContent::Group(group) = &node.content {
            let metadata = OmeMetadata::read(group.metadata.attributes());
            found |= metadata.map_err(ome_error(&group.at))?.is_some();
        }
    }
    Ok(found)
}

/// The nodes of an OME-Zarr hierarchy, in the version asked for.
pub(super) fn with_metadata(nodes: Vec<OldNode>, form: &OmeForm) -> Result<Vec<NewNode>, Error> {
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
