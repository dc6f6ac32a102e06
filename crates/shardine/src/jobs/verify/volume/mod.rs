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

use serde_json::Value;
use shardine_store::Key;

use super::hierarchy::{Nodes, refusal, refused};
use super::{Finding, FindingKind, Run};
use crate::dataset::{Info, KeyFolder, read_info};
use crate::keyed::KeyedShards;
use crate::precomputed::{CHUNK_SIZES, INFO, Scale, Volume};
use crate::{Engine, Error, KeyFolders, Location};

pub(in crate::jobs) use checked::{Checked, check_open};
pub(in crate::jobs) use fault::{Fault, ShardFault};
pub(in crate::jobs) use folder::{Chunks, Folder, Payload};
pub(in crate::jobs) use names::{Names, is_beside, last_part, unwrapped};
pub(in crate::jobs) use survey::{Form, Survey, Surveyed, codec, unpack};
pub(in crate::jobs) use values::is_readable;

/// What an `info` tells of, as jobs look at it.
pub(in crate::jobs) enum InfoSet {
    Volume(Volume),
    /// Shards of meshes, skeletons or annotations.
    Folders(Vec<Folder>),
}

impl InfoSet {
    /// What there is at a place; `None` if there is no `info`. One read.
    pub fn read(engine: &Arc<Engine>, location: &Location) -> Result<Option<Self>, Error> {
        read_info(location)?.map(|info| Self::of(engine, location, info)).transpose()
    }

    /// What an `info` at a place tells of; [`Error::NoKeyValues`] if that is neither a volume nor
    /// in shards.
    pub fn of(engine: &Arc<Engine>, location: &Location, info: Info) -> Result<Self, Error> {
        match info {
            Info::Volume(info) => Ok(Self::Volume(Volume::bind(engine, location, info))),
            Info::Folders(found) => match folders(&found)? {
                none if none.is_empty() => Err(Error::NoKeyValues { at: location.to_string() }),
                folders => Ok(Self::Folders(folders)),
            },
        }
    }
}

/// The folders of shards that a document other than a volume's tells of.
fn folders(found: &KeyFolders) -> Result<Vec<Folder>, Error> {
    let folder = |KeyFolder { pointer, location, sharding }| {
        let shards = KeyedShards::new(location.store, location.path, sharding);
        let (info, shards) = (found.info().clone(), Arc::new(shards));
        Folder { info, pointer, shards, payload: Payload::Values(found.kind()) }
    };
    Ok(found.folders()?.into_iter().map(folder).collect())
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
        // It is read while it is held in its place, so that it is the one that is checked.
        let _hold = self.hold(location)?;
        match InfoSet::read(self.engine, location)? {
            None => return Ok(None),
            Some(InfoSet::Volume(volume)) => self.volume(&volume, &mut nodes)?,
            Some(InfoSet::Folders(folders)) => self.value_folders(&folders),
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
            match InfoSet::read(self.engine, &place) {
                Ok(Some(InfoSet::Folders(folders))) => self.value_folders(&folders),
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
