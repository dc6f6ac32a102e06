//! What a `datasource-properties.json` describes: layers, each at several magnifications.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use shardine_store::Key;

use super::array::{Extent, WkwArray, layer_facts, read_header};
use super::properties::{Layer, Mag, Properties, PropertiesError, VoxelSize};
use super::{NAME, PROPERTIES};
use crate::set::{DataSet, PartContent, SetKind, SetPart};
use crate::shard::wkw::WkwHeader;
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
    place: LayerPlace,
}

/// A layer, and where it is.
#[derive(Debug)]
pub(super) struct LayerPlace {
    /// The location of the data set.
    pub root: Location,
    location: Location,
    properties: Arc<Properties>,
    pub layer: Layer,
}

/// What a document says about the magnification in a folder of a layer; `None` if nothing.
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
    pub fn new(engine: &Arc<Engine>, location: &Location, properties: Arc<Properties>) -> Self {
        Self { engine: Arc::clone(engine), location: location.clone(), properties }
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

    /// Reads nothing.
    fn parts(&self) -> Result<Vec<SetPart>, Error> {
        let part = |layer: &Layer| {
            let place = LayerPlace::new(&self.location, &self.properties, layer);
            let set = |place| PartContent::Set(Box::new(WkwLayer::new(&self.engine, place)));
            SetPart::new(&layer.name, place.map(set))
        };
        Ok(self.properties.layers.iter().map(part).collect())
    }

    fn only_read(&self) -> Option<&'static str> {
        Some(NAME)
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

impl LayerPlace {
    /// A layer of the data set at `root`.
    pub fn new(
        root: &Location,
        properties: &Arc<Properties>,
        layer: &Layer,
    ) -> Result<Self, Error> {
        let place = Self {
            root: root.clone(),
            location: root.join(&layer.name)?,
            properties: Arc::clone(properties),
            layer: layer.clone(),
        };
        if !layer.is_wkw() {
            let reason = format!("is \"{}\": name one of its arrays to read it", layer.format);
            return Err(place.wrong("dataFormat", reason));
        }
        Ok(place)
    }

    /// The same layer, at another location of the same folder.
    pub fn at(self, location: &Location) -> Self {
        Self { location: location.clone(), ..self }
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

    /// The location of a magnification, and its header. One read; two if its folder has the longer
    /// name.
    pub fn header(&self, mag: &Mag) -> Result<(Location, WkwHeader), Error> {
        let folders = mag.folders(&self.layer.name);
        for folder in &folders {
            let below = folder.strip_prefix(&self.layer.name).and_then(|f| f.strip_prefix('/'));
            let location = match below {
                Some(below) => self.location.join(below)?,
                None => self.root.join(folder)?,
            };
            if let Some(header) = read_header(&location)? {
                return Ok((location, header));
            }
        }
        Err(self.wrong("mags", format!("has no header.wkw in {}", folders.join(" or "))))
    }

    /// What the document says about a magnification.
    pub fn extent(&self, mag: &Mag) -> Extent {
        extent_of(&self.properties, &self.layer, mag)
    }
}

impl WkwLayer {
    pub fn new(engine: &Arc<Engine>, place: LayerPlace) -> Self {
        Self { engine: Arc::clone(engine), place }
    }

    fn mags(&self) -> &[Mag] {
        &self.place.layer.mags
    }

    /// A magnification. One read; two if its folder has the longer name.
    fn open(&self, mag: &Mag) -> Result<Array, Error> {
        let (location, header) = self.place.header(mag)?;
        WkwArray::new(&self.engine, &location, header, Some(self.place.extent(mag)))?.open()
    }

    fn level_name(&self, mag: &Mag) -> String {
        let folder = mag.folders(&self.place.layer.name).into_iter().next().unwrap_or_default();
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
        &self.place.location
    }

    /// None: the document belongs to the data set that contains the layer.
    fn documents(&self) -> Result<Vec<Key>, Error> {
        Ok(Vec::new())
    }

    /// One read for each magnification.
    fn parts(&self) -> Result<Vec<SetPart>, Error> {
        let part =
            |mag: &Mag| SetPart::new(self.level_name(mag), self.open(mag).map(PartContent::Array));
        Ok(self.mags().iter().map(part).collect())
    }

    fn array(&self, level: usize) -> Result<Array, Error> {
        let (at, levels) = (self.place.location.to_string(), self.mags().len());
        let mag = self.mags().get(level);
        self.open(mag.ok_or(Error::NoLevel { at, level, levels })?)
    }

    fn only_read(&self) -> Option<&'static str> {
        Some(NAME)
    }

    /// Arrays begin at the coordinate 0, wherever the bounding box does.
    fn origin(&self, level: usize) -> Option<Vec<i64>> {
        self.mags().get(level).map(|_| vec![0; 4])
    }

    fn attributes(&self, level: Option<usize>) -> Map<String, Value> {
        match level.map(|level| self.mags().get(level)) {
            Some(Some(mag)) => self.place.extent(mag).attributes(),
            Some(None) => Map::new(),
            None => self.facts().into_iter().map(|(name, fact)| (name.to_owned(), fact)).collect(),
        }
    }

    fn facts(&self) -> Vec<(&'static str, Value)> {
        layer_facts(self.place.layer.category.as_deref(), &self.place.layer.bounds)
    }
}
