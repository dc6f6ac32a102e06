//! What an `info` describes: a volume, or folders of values by key.

use std::sync::Arc;

use serde_json::{Map, Value};
use shardine_store::{Key, Listing, StoreExt};

use super::contents::{check_listed, contents};
use super::key_values::{KeyValueStore, PayloadKind};
use super::{INFO, InfoError, Volume, VolumeInfo, unwrapped};
use crate::anchor::Anchor;
use crate::format::{Contents, ContentsError, DocumentNames, Format};
use crate::set::{DataSet, PartContent, SetKind, SetPart};
use crate::shard::uint64::Sharding;
use crate::{Array, Engine, Error, Location};

/// Neuroglancer's precomputed format: volumes, and folders of meshes, skeletons and annotations.
pub(crate) struct Precomputed;

impl Format for Precomputed {
    fn documents(&self) -> DocumentNames {
        DocumentNames { before: &[], making: &[INFO], after: &[] }
    }

    /// One read.
    fn open(
        &self,
        engine: &Arc<Engine>,
        location: &Location,
    ) -> Result<Option<Box<dyn DataSet>>, Error> {
        // Before the document is read, so that a change in between is noticed.
        let anchor = Anchor::of(location, &[INFO])?;
        Ok(read_info(location)?.map(|info| -> Box<dyn DataSet> {
            match info {
                Info::Volume(info) => {
                    Box::new(Volume::bind(engine, location, info).with_anchor(anchor))
                }
                Info::Folders(folders) => {
                    Box::new(KeyFolders { anchor: anchor.map(Arc::new), ..folders })
                }
            }
        }))
    }

    fn contents(&self, location: &Location) -> Result<Option<Contents>, ContentsError> {
        contents(location)
    }

    fn check_inside(
        &self,
        within: &Location,
        folder: &Location,
        listing: &Listing,
    ) -> Result<(), ContentsError> {
        check_listed(within, folder, listing)
    }

    fn names_encoding(&self, name: &str) -> bool {
        unwrapped(name).is_some()
    }
}

/// What an `info` describes.
#[derive(Debug)]
pub(crate) enum Info {
    Volume(VolumeInfo),
    Folders(KeyFolders),
}

impl Info {
    pub fn document(&self) -> &Map<String, Value> {
        match self {
            Self::Volume(info) => info.document(),
            Self::Folders(folders) => folders.document(),
        }
    }
}

/// Reads the `info` at a location; `None` if there is none. One read.
pub(crate) fn read_info(location: &Location) -> Result<Option<Info>, Error> {
    let key = location.key(INFO)?;
    let Some(bytes) = location.store.get(&key)? else { return Ok(None) };
    let wrong = |source| Error::Info { object: key.clone(), source };
    let refuse = |reason: String| wrong(InfoError { member: INFO.to_owned(), reason });
    let document = match serde_json::from_slice(&bytes) {
        Ok(Value::Object(document)) => document,
        Ok(_) => return Err(refuse("is not a JSON object".to_owned())),
        Err(error) => return Err(refuse(format!("is not JSON: {error}"))),
    };
    if VolumeInfo::is_volume(&document) {
        return Ok(Some(Info::Volume(VolumeInfo::from_document(document).map_err(wrong)?)));
    }
    let location = location.clone();
    Ok(Some(Info::Folders(KeyFolders { location, info: key, document, anchor: None })))
}

/// The folders that an `info` of meshes, skeletons or annotations describes.
#[derive(Debug)]
pub struct KeyFolders {
    location: Location,
    info: Key,
    document: Map<String, Value>,
    /// Detects that another data set has replaced this one.
    anchor: Option<Arc<Anchor>>,
}

/// A folder of shards by 64-bit key.
#[derive(Debug)]
pub(crate) struct KeyFolder {
    /// Where in the `info` its sharding is.
    pub pointer: String,
    pub location: Location,
    pub sharding: Sharding,
}

impl KeyFolders {
    /// Where it is.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// Its `info`.
    pub fn document(&self) -> &Map<String, Value> {
        &self.document
    }

    /// The key of its `info`.
    pub(crate) fn info(&self) -> &Key {
        &self.info
    }

    /// What its values are.
    pub(crate) fn kind(&self) -> PayloadKind {
        PayloadKind::from_info(&self.document)
    }

    /// The values by key in its own folder; [`Error::NoKeyValues`] if they are not in shards. Reads
    /// nothing.
    pub fn key_values(&self, engine: &Arc<Engine>) -> Result<KeyValueStore, Error> {
        let no_store = || Error::NoKeyValues { at: self.location.to_string() };
        let sharding = self.sharding(self.document.get("sharding").ok_or_else(no_store)?)?;
        let values = KeyValueStore::with_sharding(engine, &self.location, sharding, self.kind());
        Ok(values.with_anchor(self.anchor.clone()))
    }

    /// The error where a volume was expected.
    pub fn not_a_volume(&self) -> Error {
        match VolumeInfo::from_document(self.document.clone()) {
            Err(source) => Error::Info { object: self.info.clone(), source },
            Ok(_) => Error::NoVolume { at: self.location.to_string() },
        }
    }

    /// Meshes of the older kind, which need no `info`.
    pub(super) fn legacy_meshes(location: &Location) -> Result<Self, Error> {
        let mut document = Map::new();
        document.insert("@type".to_owned(), "neuroglancer_legacy_mesh".into());
        let (info, location) = (location.key(INFO)?, location.clone());
        Ok(Self { location, info, document, anchor: None })
    }

    pub(super) fn sharding(&self, json: &Value) -> Result<Sharding, Error> {
        Sharding::from_json(json)
            .map_err(|source| Error::Sharding { object: self.info.clone(), source })
    }

    /// The folders of shards; none if everything is stored in single objects.
    pub(crate) fn folders(&self) -> Result<Vec<KeyFolder>, Error> {
        let mut found = Vec::new();
        for part in self.parts() {
            let Some(json) = part.sharding else { continue };
            let location = match part.key {
                Some(key) => self.location.join(key)?,
                None => self.location.clone(),
            };
            let (pointer, sharding) = (format!("{}/sharding", part.pointer), self.sharding(json)?);
            found.push(KeyFolder { pointer, location, sharding });
        }
        Ok(found)
    }

    /// The folders that the `info` describes: its own, if it has shards, and for annotations those
    /// of its indexes.
    pub(crate) fn parts(&self) -> Vec<KeyPart<'_>> {
        fn sharding(part: Option<&Value>) -> Option<&Value> {
            part.filter(|sharding| !sharding.is_null())
        }
        let mut parts = Vec::new();
        if let Some(own) = sharding(self.document.get("sharding")) {
            parts.push(KeyPart { pointer: String::new(), key: None, sharding: Some(own) });
        }
        let lists = ["relationships", "spatial"].into_iter().flat_map(|name| {
            let list = self.document.get(name).and_then(Value::as_array);
            let list = list.into_iter().flatten().enumerate();
            list.map(move |(i, part)| (format!("/{name}/{i}"), part))
        });
        let by_id = self.document.get("by_id").map(|part| ("/by_id".to_owned(), part));
        for (pointer, part) in by_id.into_iter().chain(lists) {
            let Some(key) = part.get("key").and_then(Value::as_str) else { continue };
            let sharding = sharding(part.get("sharding"));
            parts.push(KeyPart { pointer, key: Some(key), sharding });
        }
        parts
    }
}

/// A folder that an `info` describes.
#[derive(Debug)]
pub(crate) struct KeyPart<'a> {
    /// Its place in the `info`.
    pub pointer: String,
    /// Its path relative to the `info`'s folder; `None` if it is the same.
    pub key: Option<&'a str>,
    /// As in the `info`; `None` if its values are single objects.
    pub sharding: Option<&'a Value>,
}

impl DataSet for KeyFolders {
    fn format(&self) -> &'static str {
        "precomputed"
    }

    fn kind(&self) -> SetKind {
        SetKind::KeyValues
    }

    fn location(&self) -> &Location {
        &self.location
    }

    fn documents(&self) -> Result<Vec<Key>, Error> {
        Ok(vec![self.info.clone()])
    }

    fn parts(&self) -> Result<Vec<SetPart>, Error> {
        let part = |folder: KeyFolder| {
            SetPart::new(folder.pointer, Ok(PartContent::Keys(folder.location)))
        };
        Ok(self.folders()?.into_iter().map(part).collect())
    }

    fn array(&self, _: usize) -> Result<Array, Error> {
        Err(self.not_a_volume())
    }
}
