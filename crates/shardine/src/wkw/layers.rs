//! What a `datasource-properties.json` describes: layers, each at several magnifications.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use shardine_store::Key;

use super::PROPERTIES;
use super::array::{Extent, WkwArray, layer_facts, read_header};
use super::properties::{Layer, Mag, Properties, PropertiesError, VoxelSize};
use crate::set::{DataSet, PartContent, SetKind, SetPart};
use crate::{Array, Engine, Error, Location};

/// A data set: layers by name.
#[derive(Debug)]
pub(super) struct WkwDataSet {
    engine: Arc<Engine>,
    location: Location,
    properties: Arc<Properties>,
}

/// A layer: its magnifications, the finest first.
#[derive(Debug)]
pub(super) struct WkwLayer {
    engine: Arc<Engine>,
    /// That of the data set.
    root: Location,
    location: Location,
    properties: Arc<Properties>,
    layer: Layer,
}

/// What a document says of the magnification in a folder of a layer; `None` if nothing.
pub(super) fn extent(properties: &Properties, layer: &str, folder: &str) -> Option<Extent> {
    let path = format!("{layer}/{folder}");
    let in_folder = |layer: &&Layer, mag: &Mag| mag.folders(&layer.name).contains(&path);
    properties.layers.iter().find_map(|layer| {
        let mag = layer.mags.iter().find(|mag| in_folder(&layer, mag))?;
        Some(extent_of(properties, layer, mag))
    })
}

fn extent_of(properties: &Properties, layer: &Layer, mag: &Mag) -> Extent {
    let (bounds, mag, category) = (layer.bounds, mag.mag, layer.category.clone());
    Extent { bounds, mag, category, voxel_size: properties.voxel_size.clone() }
}

impl WkwDataSet {
    pub fn new(engine: &Arc<Engine>, location: &Location, properties: Properties) -> Self {
        let (engine, location) = (Arc::clone(engine), location.clone());
        Self { engine, location, properties: Arc::new(properties) }
    }
}

impl DataSet for WkwDataSet {
    fn format(&self) -> &'static str {
        "wkw"
    }

    fn kind(&self) -> SetKind {
        SetKind::Group
    }

    fn location(&self) -> &Location {
        &self.location
    }

    fn documents(&self) -> Result<Vec<Key>, Error> {
        Ok(vec![self.location.key(PROPERTIES)?])
    }

    /// No read.
    fn parts(&self) -> Result<Vec<SetPart>, Error> {
        let part = |layer: &Layer| {
            let set = WkwLayer::at(&self.engine, &self.location, &self.properties, layer);
            let content = set.map(|set| PartContent::Set(Box::new(set)));
            SetPart::new(&layer.name, content)
        };
        Ok(self.properties.layers.iter().map(part).collect())
    }

    fn facts(&self) -> Vec<(&'static str, Value)> {
        match &self.properties.voxel_size {
            Some(VoxelSize { factor, unit }) => {
                vec![("voxel size", json!(factor)), ("unit", json!(unit))]
            }
            None => Vec::new(),
        }
    }
}

impl WkwLayer {
    /// The layer at `location`, which has this name in the data set at `root`; `None` if that has
    /// no such layer.
    pub fn of(
        engine: &Arc<Engine>,
        location: &Location,
        (root, name): (&Location, &str),
        properties: Properties,
    ) -> Result<Option<Self>, Error> {
        let Some(layer) = properties.layer(name).cloned() else { return Ok(None) };
        let found = Self::at(engine, root, &Arc::new(properties), &layer)?;
        // What is below its own place is read by the store that it was named in.
        Ok(Some(Self { location: location.clone(), ..found }))
    }

    fn at(
        engine: &Arc<Engine>,
        root: &Location,
        properties: &Arc<Properties>,
        layer: &Layer,
    ) -> Result<Self, Error> {
        let set = Self {
            engine: Arc::clone(engine),
            root: root.clone(),
            location: root.join(&layer.name)?,
            properties: Arc::clone(properties),
            layer: layer.clone(),
        };
        if layer.format != "wkw" {
            let reason = format!("is \"{}\": name one of its arrays to read it", layer.format);
            return Err(set.wrong("dataFormat", reason));
        }
        Ok(set)
    }

    fn wrong(&self, member: &str, reason: String) -> Error {
        let member = format!("{}.{member}", self.layer.name);
        match self.root.key(PROPERTIES) {
            Ok(object) => {
                Error::WkwProperties { object, source: PropertiesError { member, reason } }
            }
            Err(error) => error,
        }
    }

    /// A magnification. One read; two if its folder has the longer name.
    fn open(&self, mag: &Mag) -> Result<Array, Error> {
        let folders = mag.folders(&self.layer.name);
        for folder in &folders {
            let below = folder.strip_prefix(&self.layer.name).and_then(|f| f.strip_prefix('/'));
            let location = match below {
                Some(below) => self.location.join(below)?,
                None => self.root.join(folder)?,
            };
            if let Some(header) = read_header(&location)? {
                let extent = Some(extent_of(&self.properties, &self.layer, mag));
                return WkwArray::new(&self.engine, &location, header, extent)?.open();
            }
        }
        Err(self.wrong("mags", format!("has no header.wkw in {}", folders.join(" or "))))
    }

    fn level_name(&self, mag: &Mag) -> String {
        let folder = mag.folders(&self.layer.name).into_iter().next().unwrap_or_default();
        folder.rsplit('/').next().unwrap_or_default().to_owned()
    }
}

impl DataSet for WkwLayer {
    fn format(&self) -> &'static str {
        "wkw"
    }

    fn kind(&self) -> SetKind {
        SetKind::Levels
    }

    fn location(&self) -> &Location {
        &self.location
    }

    /// None: the document is that of the data set that it is a layer of.
    fn documents(&self) -> Result<Vec<Key>, Error> {
        Ok(Vec::new())
    }

    /// One read for each magnification.
    fn parts(&self) -> Result<Vec<SetPart>, Error> {
        let part =
            |mag: &Mag| SetPart::new(self.level_name(mag), self.open(mag).map(PartContent::Array));
        Ok(self.layer.mags.iter().map(part).collect())
    }

    fn array(&self, level: usize) -> Result<Array, Error> {
        let (at, levels) = (self.location.to_string(), self.layer.mags.len());
        let mag = self.layer.mags.get(level);
        self.open(mag.ok_or(Error::NoLevel { at, level, levels })?)
    }

    fn attributes(&self, level: Option<usize>) -> Map<String, Value> {
        match level.map(|level| self.layer.mags.get(level)) {
            Some(Some(mag)) => extent_of(&self.properties, &self.layer, mag).attributes(),
            Some(None) => Map::new(),
            None => self.facts().into_iter().map(|(name, fact)| (name.to_owned(), fact)).collect(),
        }
    }

    fn facts(&self) -> Vec<(&'static str, Value)> {
        layer_facts(self.layer.category.as_deref(), &self.layer.bounds)
    }
}
