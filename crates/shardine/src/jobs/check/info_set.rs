//! What an `info` describes, from the perspective of jobs.

use std::sync::Arc;

use serde_json::Value;
use shardine_store::Key;

use super::keyed::{Chunks, Folder, Payload, last_part};
use crate::keyed::KeyedShards;
use crate::precomputed::{INFO, Info, KeyFolder, KeyFolders, Scale, Volume, is_beside, read_info};
use crate::{DataSet, Engine, Error, Location};

/// What an `info` describes.
pub(in crate::jobs) enum InfoSet {
    Volume(Volume),
    /// Shards of meshes, skeletons or annotations.
    Folders(Vec<Folder>),
}

/// A folder of shards, and the names in it that are something else.
pub(in crate::jobs) struct Place<'a> {
    pub folder: Folder,
    pub known: Box<dyn Fn(&Key) -> bool + 'a>,
}

impl InfoSet {
    /// The data set at a location; `None` if there is no `info`. [`Error::NoKeyValues`] if it
    /// describes neither a volume nor sharded values. One read.
    pub fn read(engine: &Arc<Engine>, location: &Location) -> Result<Option<Self>, Error> {
        Ok(match read_info(location)? {
            None => None,
            Some(Info::Volume(info)) => Some(Self::Volume(Volume::bind(engine, location, info))),
            Some(Info::Folders(found)) => Some(Self::Folders(folders(&found)?)),
        })
    }

    /// The same for an open data set; `None` if it is not described by an `info`.
    pub fn of(set: &dyn DataSet) -> Result<Option<Self>, Error> {
        if let Some(volume) = set.downcast_ref::<Volume>() {
            return Ok(Some(Self::Volume(volume.clone())));
        }
        let found = set.downcast_ref::<KeyFolders>();
        Ok(found.map(folders).transpose()?.map(Self::Folders))
    }
}

/// The folders of shards that a document other than a volume's describes; there must be at least
/// one.
fn folders(found: &KeyFolders) -> Result<Vec<Folder>, Error> {
    let folder = |KeyFolder { pointer, location, sharding }| {
        let shards = KeyedShards::new(location.store, location.path, sharding);
        let (info, shards) = (found.info().clone(), Arc::new(shards));
        Folder { info, pointer, shards, payload: Payload::Values(found.kind()) }
    };
    let folders: Vec<Folder> = found.folders()?.into_iter().map(folder).collect();
    match folders.is_empty() {
        true => Err(Error::NoKeyValues { at: found.location().to_string() }),
        false => Ok(folders),
    }
}

/// The folders of values by key that one document describes.
pub(in crate::jobs) fn value_places(folders: &[Folder]) -> impl Iterator<Item = Place<'_>> {
    folders.iter().map(move |folder| {
        let known = move |key: &Key| {
            let mut others = folders.iter().filter_map(|other| other.shards.folder.as_ref());
            is_beside(last_part(key))
                || others.any(|other| other.as_str().starts_with(key.as_str()))
        };
        Place { folder: folder.clone(), known: Box::new(known) }
    })
}

/// The shards of a scale; `None` if it is not sharded.
pub(in crate::jobs) fn scale_folder(
    volume: &Volume,
    level: usize,
    scale: &Scale,
) -> Result<Option<Folder>, Error> {
    let Some(shards) = volume.shards(scale)? else { return Ok(None) };
    let chunks = Chunks::new(volume.info(), scale, volume.array(level).ok());
    Ok(Some(Folder {
        info: volume.location().key(INFO)?,
        pointer: format!("/scales/{level}/sharding"),
        shards,
        payload: Payload::Chunks(Arc::new(chunks)),
    }))
}

/// The same with the names in its folder that are something else.
pub(in crate::jobs) fn scale_place<'a>(
    volume: &'a Volume,
    level: usize,
    scale: &Scale,
) -> Result<Option<Place<'a>>, Error> {
    let known = move |key: &Key| is_known_in_volume(volume, level, key);
    let place = |folder| Place { folder, known: Box::new(known) };
    Ok(scale_folder(volume, level, scale)?.map(place))
}

/// Whether a name in the folder of a scale is another part of the volume: its `info`, or the folder
/// of another scale.
pub(in crate::jobs) fn is_known_in_volume(volume: &Volume, level: usize, key: &Key) -> bool {
    let root = volume.location().path.as_ref();
    let parent = key.as_str().rsplit_once('/').map(|(parent, _)| parent);
    // Nothing else in the volume's own folder concerns its scales.
    if parent == root.map(Key::as_str) {
        return true;
    }
    volume.info().scales().iter().enumerate().any(|(other, scale)| {
        let Ok(Some(folder)) = volume.folder(scale) else { return false };
        let inside = |rest: &str| rest.is_empty() || rest.starts_with('/');
        let leads = folder.as_str().strip_prefix(key.as_str()).is_some_and(inside);
        // Two scales may even share a folder; then a name is not reported for either.
        let shared = Some(folder.as_str()) == parent;
        other != level && (leads || shared)
    })
}

/// The folders of meshes and skeletons that a volume names.
pub(in crate::jobs) fn beside(volume: &Volume) -> impl Iterator<Item = Location> {
    ["mesh", "skeletons"].into_iter().filter_map(|member| {
        let name = volume.info().document().get(member).and_then(Value::as_str)?;
        volume.location().join(name).ok()
    })
}
