//! Zarr arrays and groups as data sets.

use std::sync::Arc;

use shardine_store::Key;

use super::contents::contents;
use super::node::{
    DOCUMENT, V2_ARRAY, V2_ATTRIBUTES, V2_CONSOLIDATED, V2_GROUP, node_documents_of,
};
use super::{ArrayNode, Child, Group, Node, OpaqueArray};
use crate::format::{Contents, ContentsError, DocumentNames, Format};
use crate::ome::OmeAxis;
use crate::physical::PhysicalAxis;
use crate::set::{DataSet, PartContent, SetKind, SetPart};
use crate::zarr::ZarrFormat;
use crate::{Array, Engine, Error, Location};

/// Zarr, of both versions.
pub(crate) struct Zarr;

impl Format for Zarr {
    fn documents(&self) -> DocumentNames {
        DocumentNames {
            before: &[V2_ATTRIBUTES],
            making: &[DOCUMENT, V2_ARRAY, V2_GROUP],
            after: &[V2_CONSOLIDATED],
        }
    }

    /// One read; three to five for version 2.
    fn open(
        &self,
        engine: &Arc<Engine>,
        location: &Location,
    ) -> Result<Option<Box<dyn DataSet>>, Error> {
        match Node::open(engine, location) {
            Ok(Node::Array(array)) => Ok(Some(Box::new(array))),
            Ok(Node::Group(group)) => Ok(Some(Box::new(group))),
            Err(Error::NoNode { .. }) => Ok(None),
            Err(error) => match OpaqueArray::open(engine, location, &error)? {
                Some(array) => Ok(Some(Box::new(array))),
                None => Err(error),
            },
        }
    }

    fn contents(&self, location: &Location) -> Result<Option<Contents>, ContentsError> {
        contents(location)
    }
}

fn format_word(format: ZarrFormat) -> &'static str {
    match format {
        ZarrFormat::V2 => "zarr2",
        ZarrFormat::V3 => "zarr3",
    }
}

/// The keys of a node's documents, with the one that makes it a node last.
fn documents(location: &Location, format: ZarrFormat, is_array: bool) -> Result<Vec<Key>, Error> {
    let names = node_documents_of(format, is_array).iter().rev();
    names.map(|name| location.key(name)).collect()
}

impl DataSet for ArrayNode {
    fn format(&self) -> &'static str {
        format_word(self.zarr_format())
    }

    fn kind(&self) -> SetKind {
        SetKind::Array
    }

    fn location(&self) -> &Location {
        Array::location(self)
    }

    fn documents(&self) -> Result<Vec<Key>, Error> {
        documents(Array::location(self), self.zarr_format(), true)
    }

    fn parts(&self) -> Result<Vec<SetPart>, Error> {
        Ok(vec![SetPart::new("", self.again().map(PartContent::Array))])
    }
}

impl DataSet for OpaqueArray {
    fn format(&self) -> &'static str {
        format_word(self.metadata().zarr_format())
    }

    fn kind(&self) -> SetKind {
        SetKind::Array
    }

    fn location(&self) -> &Location {
        OpaqueArray::location(self)
    }

    fn documents(&self) -> Result<Vec<Key>, Error> {
        documents(OpaqueArray::location(self), self.metadata().zarr_format(), true)
    }

    fn parts(&self) -> Result<Vec<SetPart>, Error> {
        Ok(vec![SetPart::new("", Err(self.error()))])
    }
}

impl DataSet for Group {
    fn format(&self) -> &'static str {
        format_word(self.zarr_format())
    }

    fn kind(&self) -> SetKind {
        SetKind::Group
    }

    fn location(&self) -> &Location {
        Group::location(self)
    }

    fn documents(&self) -> Result<Vec<Key>, Error> {
        documents(Group::location(self), self.zarr_format(), false)
    }

    fn levels(&self) -> Result<Vec<String>, Error> {
        let metadata = self.ome()?;
        let image = metadata.as_ref().and_then(|metadata| metadata.image());
        Ok(image
            .map(|image| image.levels.iter().map(|level| level.path.clone()).collect())
            .unwrap_or_default())
    }

    /// A level of an OME-Zarr image. One read; three for version 2.
    fn array(&self, level: usize) -> Result<Array, Error> {
        let metadata = self.ome()?;
        let image = metadata.as_ref().and_then(|metadata| metadata.image());
        let at = || Group::location(self).to_string();
        let Some(image) = image.filter(|image| !image.levels.is_empty()) else {
            return Err(Error::NotAnArray { at: at() });
        };
        let Some(found) = image.levels.get(level) else {
            return Err(Error::NoLevel { at: at(), level, levels: image.levels.len() });
        };
        let array = self.level(&found.path)?.into_array();
        // Arrays of version 2 have no names for their axes; the image has.
        let is_named = array.axis_names().is_some() || array.shape().len() != image.axes.len();
        match is_named {
            true => Ok(array),
            false => {
                let names = image.axes.iter().map(|axis| Some(axis.name.clone())).collect();
                Ok(array.with_axis_names(Some(names)))
            }
        }
    }

    fn physical(&self, level: usize) -> Result<Option<Vec<PhysicalAxis>>, Error> {
        let metadata = self.ome()?;
        let Some(image) = metadata.as_ref().and_then(|metadata| metadata.image()) else {
            return Ok(None);
        };
        let own = image.levels.get(level).is_some_and(|level| !level.transformations.is_empty());
        if !own && image.transformations.is_empty() {
            return Ok(None);
        }
        let at = || Group::location(self).to_string();
        let wrong = |source| Error::Ome { at: at(), source: Box::new(source) };
        let placed = image.placement(level).map_err(wrong)?;
        let axes = image.axes.iter().zip(placed.scale.iter().zip(&placed.translation));
        let axis = |(axis, (&scale, &first)): (&OmeAxis, (&f64, &f64))| {
            PhysicalAxis::new(&axis.name, axis.role(), axis.unit.as_deref(), scale, first)
        };
        Ok(Some(axes.map(axis).collect()))
    }

    fn parts(&self) -> Result<Vec<SetPart>, Error> {
        let part = |Child { name, node, listed }: Child| {
            let content = node.map(|node| match node {
                Node::Array(array) => PartContent::Array(array.into_array()),
                Node::Group(group) => PartContent::Set(Box::new(group)),
            });
            SetPart { listed, ..SetPart::new(name, content) }
        };
        Ok(self.children()?.into_iter().map(part).collect())
    }
}
