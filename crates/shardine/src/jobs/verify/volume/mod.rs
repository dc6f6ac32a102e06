//! Volumes in Neuroglancer's precomputed format, and folders of meshes, skeletons and annotations.

mod boxes;
mod checked;
mod fault;
mod fill;
mod folder;
mod names;
mod shards;
mod survey;
mod values;

use std::sync::Arc;

use serde_json::{Map, Value};
use shardine_store::{Key, StoreExt};

use super::hierarchy::{Nodes, refusal, refused};
use super::{Finding, FindingKind, Run};
use crate::keyed::{KeyedShards, PayloadKind};
use crate::precomputed::{CHUNK_SIZES, INFO, InfoError, Scale, Volume, VolumeInfo};
use crate::shard::uint64::Sharding;
use crate::{Engine, Error, Location};

pub(in crate::jobs) use checked::{Checked, check_open};
pub(in crate::jobs) use fault::{Fault, ShardFault};
pub(in crate::jobs) use folder::{Chunks, Folder, Payload};
pub(in crate::jobs) use names::{Names, is_beside, last_part, unwrapped};
pub(in crate::jobs) use survey::{Form, Survey, Surveyed, codec, unpack};
pub(in crate::jobs) use values::is_readable;

/// What an `info` tells of.
pub(in crate::jobs) enum DataSet {
    Volume(Volume),
    /// Shards of meshes, skeletons or annotations.
    Folders(Vec<Folder>),
}

impl DataSet {
    /// What there is at a place; `None` if there is no `info`. One read.
    pub fn open(engine: &Arc<Engine>, location: &Location) -> Result<Option<Self>, Error> {
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
            let info = VolumeInfo::from_document(document).map_err(wrong)?;
            return Ok(Some(Self::Volume(Volume::bind(engine, location, info))));
        }
        let folders = folders(location, &key, &document)?;
        if folders.is_empty() {
            return Err(Error::NoKeyValues { at: location.to_string() });
        }
        Ok(Some(Self::Folders(folders)))
    }
}

/// The folders of shards that a document other than a volume's tells of.
fn folders(
    location: &Location,
    info: &Key,
    document: &Map<String, Value>,
) -> Result<Vec<Folder>, Error> {
    let mut found = Vec::new();
    let kind = PayloadKind::from_info(document);
    let mut add = |pointer: String, location: Location, sharding: &Value| {
        let sharding = Sharding::from_json(sharding)
            .map_err(|source| Error::Sharding { object: info.clone(), source })?;
        let shards = KeyedShards::new(Arc::clone(&location.store), location.path, sharding);
        let (info, shards) = (info.clone(), Arc::new(shards));
        found.push(Folder { info, pointer, shards, payload: Payload::Values(kind) });
        Ok::<_, Error>(())
    };
    let sharded = |part: &Value| part.get("sharding").filter(|s| !s.is_null()).cloned();
    if let Some(sharding) = document.get("sharding").filter(|sharding| !sharding.is_null()) {
        add("/sharding".to_owned(), location.clone(), sharding)?;
    }
    let parts = ["relationships", "spatial"].into_iter().flat_map(|name| {
        let list = document.get(name).and_then(Value::as_array);
        let list = list.into_iter().flatten().enumerate();
        list.map(move |(i, part)| (format!("/{name}/{i}"), part))
    });
    let by_id = document.get("by_id").map(|part| ("/by_id".to_owned(), part));
    for (pointer, part) in by_id.into_iter().chain(parts) {
        let key = part.get("key").and_then(Value::as_str);
        if let (Some(key), Some(sharding)) = (key, sharded(part)) {
            add(format!("{pointer}/sharding"), location.join(key)?, &sharding)?;
        }
    }
    Ok(found)
}

/// The shards of a scale; `None` if it is not sharded.
pub(in crate::jobs) fn scale_folder(
    volume: &Volume,
    level: usize,
    scale: &Scale,
) -> Result<Option<Folder>, Error> {
    let Some(shards) = volume.shards(scale)? else { return Ok(None) };
    let array = volume.array(level).ok();
    let chunks = Chunks::new(volume.info(), scale, array);
    Ok(Some(Folder {
        info: volume.location().key(INFO)?,
        pointer: format!("/scales/{level}/sharding"),
        shards,
        payload: Payload::Chunks(Box::new(chunks)),
    }))
}

/// Whether a name in the folder of a scale is something else of the volume: its `info`, or the folder of another scale.
pub(in crate::jobs) fn is_known_in_volume(volume: &Volume, level: usize, key: &Key) -> bool {
    let root = volume.location().path.as_ref();
    let parent = key.as_str().rsplit_once('/').map(|(parent, _)| parent);
    // What else there is in the volume's own folder is none of its scales' business.
    if parent == root.map(Key::as_str) {
        return true;
    }
    volume.info().scales().iter().enumerate().any(|(other, scale)| {
        let Ok(Some(folder)) = volume.folder(scale) else { return false };
        let inside = |rest: &str| rest.is_empty() || rest.starts_with('/');
        let leads = folder.as_str().strip_prefix(key.as_str()).is_some_and(inside);
        // Two scales may even share a folder; then it is not told whose a name is.
        let shared = Some(folder.as_str()) == parent;
        other != level && (leads || shared)
    })
}

impl Run<'_> {
    /// Checks what the `info` at a place tells of; `None` if there is none.
    pub(super) fn data_set(&self, location: &Location) -> Result<Option<Nodes>, Error> {
        let mut nodes = Nodes::default();
        let _hold = self.hold(location)?;
        match DataSet::open(self.engine, location)? {
            None => return Ok(None),
            Some(DataSet::Volume(volume)) => self.volume(&volume, &mut nodes)?,
            Some(DataSet::Folders(folders)) => self.value_folders(&folders),
        }
        Ok(Some(nodes))
    }

    fn value_folders(&self, folders: &[Folder]) {
        for folder in folders {
            let others = |key: &Key| {
                let others = folders.iter().filter_map(|other| other.shards.folder.as_ref());
                { others }.any(|other| other.as_str().starts_with(key.as_str()))
            };
            self.shards(folder, &|key| is_beside(last_part(key)) || others(key));
        }
    }

    fn volume(&self, volume: &Volume, nodes: &mut Nodes) -> Result<(), Error> {
        let location = volume.location();
        nodes.groups += 1;
        match self.leftovers(location, location.path.as_ref()) {
            // It is told with the scales.
            Ok(()) | Err(Error::Store(shardine_store::StoreError::Unsupported { .. })) => {}
            Err(error) => self.unreadable(location.path.as_ref(), &error),
        }
        let mut fillings = Vec::new();
        for (level, scale) in volume.info().scales().iter().enumerate() {
            nodes.arrays += 1;
            self.decodable(volume, level)?;
            let known = |key: &Key| is_known_in_volume(volume, level, key);
            let filling = match scale_folder(volume, level, scale) {
                Ok(Some(folder)) => self.shards(&folder, &known),
                Ok(None) => {
                    let chunks = Chunks::new(volume.info(), scale, volume.array(level).ok());
                    self.boxes(volume, scale, &chunks, &known)?
                }
                Err(error) => {
                    self.tell([refused(location, &error)]);
                    continue;
                }
            };
            fillings.push((scale, filling));
        }
        self.missing(&fillings);
        for member in ["mesh", "skeletons"] {
            let name = volume.info().document().get(member).and_then(Value::as_str);
            let Some(place) = name.and_then(|name| location.join(name).ok()) else { continue };
            match DataSet::open(self.engine, &place) {
                Ok(Some(DataSet::Folders(folders))) => self.value_folders(&folders),
                // Without an `info`, or without shards, there is nothing of ours.
                Ok(_) | Err(Error::NoKeyValues { .. }) => {}
                Err(error) if refusal(&error).is_some() => self.tell([refused(&place, &error)]),
                Err(error) => self.unreadable(place.path.as_ref(), &error),
            }
        }
        Ok(())
    }

    /// Tells if the chunks of a scale cannot be decoded here, or not at all.
    fn decodable(&self, volume: &Volume, level: usize) -> Result<(), Error> {
        let Err(error) = volume.array(level) else { return Ok(()) };
        let kind = match &error {
            // An encoding that is not known here, or a folder out of reach: the chunks may be fine.
            Error::Info { source, .. } if source.member != CHUNK_SIZES => FindingKind::NotChecked,
            error => refusal(error).unwrap_or(FindingKind::NotChecked),
        };
        if kind == FindingKind::NotChecked && !self.options.decode {
            return Ok(());
        }
        let message = format!("scale {level}: {error}");
        self.tell([Finding::new(kind, Some(volume.location().key(INFO)?), message)]);
        Ok(())
    }
}
