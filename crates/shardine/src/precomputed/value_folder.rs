//! What is in folders of meshes, skeletons, annotations and properties, without looking at values.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use serde_json::{Map, Value};
use shardine_codec::Context;
use shardine_store::{Key, StoreError};

use super::documents::{Info, KeyFolders, read_info};
use super::{ShardName, Volume, is_beside, unwrapped};
use crate::engine::{in_order, tuning};
use crate::keyed::KeyedShards;
use crate::shard::uint64::Sharding;
use crate::{Engine, Error, Location};

/// What a folder with an `info` holds that is no volume, as the `@type` there says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObjectKind {
    /// `neuroglancer_multilod_draco`
    MultiresolutionMeshes,
    /// `neuroglancer_legacy_mesh`
    LegacyMeshes,
    /// `neuroglancer_skeletons`
    Skeletons,
    /// `neuroglancer_annotations_v1`
    Annotations,
    /// `neuroglancer_segment_properties`
    SegmentProperties,
    /// Anything else.
    Unknown,
}

impl ObjectKind {
    /// What an `info` says.
    pub fn from_info(document: &Map<String, Value>) -> Self {
        match document.get("@type").and_then(Value::as_str) {
            Some("neuroglancer_multilod_draco") => Self::MultiresolutionMeshes,
            Some("neuroglancer_legacy_mesh") => Self::LegacyMeshes,
            Some("neuroglancer_skeletons") => Self::Skeletons,
            Some("neuroglancer_annotations_v1") => Self::Annotations,
            Some("neuroglancer_segment_properties") => Self::SegmentProperties,
            _ => Self::Unknown,
        }
    }

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::MultiresolutionMeshes => "multi-resolution meshes",
            Self::LegacyMeshes => "single-resolution meshes",
            Self::Skeletons => "skeletons",
            Self::Annotations => "annotations",
            Self::SegmentProperties => "segment properties",
            Self::Unknown => "values by key",
        }
    }

    /// Whether an object that is no shard holds the value of a key, by its name.
    fn has_key(self, name: &str) -> bool {
        let name = unwrapped(name).unwrap_or(name);
        let is_number = |text: &str| text.parse::<u64>().is_ok();
        match self {
            Self::MultiresolutionMeshes => name.strip_suffix(".index").is_some_and(is_number),
            Self::LegacyMeshes => {
                name.split_once(':').is_some_and(|(id, lod)| is_number(id) && lod == "0")
            }
            _ => is_number(name),
        }
    }
}

/// A folder of values that an `info` tells of.
#[derive(Debug)]
#[non_exhaustive]
pub struct ValueFolder {
    /// What it is called in the `info`: empty for the folder of the `info` itself, of annotations
    /// such as `by_id`, `relationships/0` or `spatial/2`.
    pub name: String,
    /// Where it is.
    pub location: Location,
    /// How it is sharded; `None` if each value is an object.
    pub sharding: Option<Sharding>,
    kind: ObjectKind,
}

/// What is stored in a folder of values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredValues {
    /// Shards, or objects if there are none.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Keys that have a value; `None` if that is not known: values of a spatial index have none.
    pub keys: Option<u64>,
    /// Shards whose index is damaged; their keys are not counted.
    pub damaged: u64,
    /// What is wrong with the first of them.
    pub damage: Option<String>,
}

impl KeyFolders {
    /// What it holds.
    pub fn object_kind(&self) -> ObjectKind {
        ObjectKind::from_info(self.document())
    }

    /// The folders of values that the `info` tells of; none if all is in the `info`, or it is not
    /// known what it tells of. No read.
    pub fn value_folders(&self) -> Result<Vec<ValueFolder>, Error> {
        let kind = self.object_kind();
        let mut folders = Vec::new();
        for part in self.parts() {
            let location = match part.key {
                Some(key) => self.location().join(key)?,
                None => self.location().clone(),
            };
            let sharding = part.sharding.map(|json| self.sharding(json)).transpose()?;
            let name = part.pointer.trim_start_matches('/').to_owned();
            folders.push(ValueFolder { name, location, sharding, kind });
        }
        let has_own = match kind {
            ObjectKind::MultiresolutionMeshes | ObjectKind::LegacyMeshes => true,
            ObjectKind::Skeletons => true,
            ObjectKind::Annotations | ObjectKind::SegmentProperties | ObjectKind::Unknown => false,
        };
        if has_own && !folders.iter().any(|folder| folder.name.is_empty()) {
            let (name, location) = (String::new(), self.location().clone());
            folders.insert(0, ValueFolder { name, location, sharding: None, kind });
        }
        Ok(folders)
    }

    /// How many segments have properties in the `info`; `None` if it holds none.
    pub fn inline_ids(&self) -> Option<u64> {
        let ids = self.document().get("inline")?.get("ids")?.as_array()?;
        Some(ids.len() as u64)
    }
}

impl ValueFolder {
    /// Looks at what is stored: one listing, and with `keys` the indexes of each shard. `None` if
    /// the store cannot list.
    pub fn stored(&self, engine: &Arc<Engine>, keys: bool) -> Result<Option<StoredValues>, Error> {
        let listing = match self.location.store.list(self.location.path.as_ref()) {
            Err(StoreError::Unsupported { .. }) => return Ok(None),
            listing => listing?,
        };
        let named = listing.objects.iter().filter_map(|(key, len)| {
            Some((key.as_str().rsplit('/').next()?, *len)).filter(|(name, _)| !is_beside(name))
        });
        let mut stored = StoredValues::default();
        let Some(sharding) = &self.sharding else {
            let by_key = !self.name.starts_with("spatial");
            let mut keys = 0;
            for (name, len) in named {
                stored.objects += 1;
                stored.bytes = stored.bytes.saturating_add(len);
                keys += u64::from(by_key && self.kind.has_key(name));
            }
            stored.keys = by_key.then_some(keys);
            return Ok(Some(stored));
        };
        let mut shards = BTreeSet::new();
        for (name, len) in named {
            if let ShardName::Whole(shard) | ShardName::Index(shard) | ShardName::Data(shard) =
                ShardName::of(sharding, name)
            {
                shards.insert(shard);
                stored.bytes = stored.bytes.saturating_add(len);
            }
        }
        stored.objects = shards.len() as u64;
        if keys {
            self.count_keys(engine, sharding, &Vec::from_iter(shards), &mut stored)?;
        }
        Ok(Some(stored))
    }

    /// Reads the indexes of shards, and counts the keys in them.
    fn count_keys(
        &self,
        engine: &Arc<Engine>,
        sharding: &Sharding,
        numbers: &[u64],
        stored: &mut StoredValues,
    ) -> Result<(), Error> {
        let Location { store, path, .. } = &self.location;
        let shards = KeyedShards::new(Arc::clone(store), path.clone(), sharding.clone());
        let count = |i: usize| -> Result<Option<u64>, StoreError> {
            let Some(object) = shards.open_object(numbers[i])? else { return Ok(None) };
            let key: Key = shards.shard_key(numbers[i])?;
            let read = |context: &mut Context| shards.read_indexes(&key, &*object, context);
            Ok(Some(engine.with_context(read)?.entries().count() as u64))
        };
        let (mut keys, mut failed) = (0, Ok(()));
        let most = engine.at_once(&**store, tuning::DOCUMENT);
        in_order(most, numbers.len(), &count, &mut |_, counted| {
            match counted {
                Ok(counted) => keys += counted.unwrap_or(0),
                Err(error @ (StoreError::Damaged { .. } | StoreError::OutOfRange { .. })) => {
                    stored.damaged += 1;
                    stored.damage.get_or_insert(error.to_string());
                }
                Err(error) => {
                    failed = Err(error.into());
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
        stored.keys = Some(keys);
        failed
    }
}

/// A folder of meshes, skeletons or properties that the `info` of a volume names.
#[derive(Debug)]
#[non_exhaustive]
pub struct FolderBeside {
    /// The member that names it: `mesh`, `skeletons` or `segment_properties`.
    pub member: &'static str,
    /// Its path, relative to that of the volume.
    pub path: String,
    /// What is there, or why that cannot be told.
    pub folders: Result<KeyFolders, Error>,
}

impl Volume {
    /// The folders of meshes, skeletons and properties that its `info` names. One read for each.
    pub fn folders_beside(&self) -> Vec<FolderBeside> {
        let document = self.info().document();
        let member = |member: &'static str| {
            let path = document.get(member)?.as_str()?;
            let folders = self.folder_beside(member, path);
            Some(FolderBeside { member, path: path.to_owned(), folders })
        };
        ["mesh", "skeletons", "segment_properties"].into_iter().filter_map(member).collect()
    }

    fn folder_beside(&self, member: &str, path: &str) -> Result<KeyFolders, Error> {
        let nothing = || Error::NoKeyValues { at: format!("{}/{path}", self.location()) };
        if path.is_empty() || path.contains("://") {
            return Err(nothing());
        }
        let location = self.location().resolved(path)?.ok_or_else(nothing)?;
        match read_info(&location)? {
            Some(Info::Folders(folders)) => Ok(folders),
            // Meshes are that old if nothing says otherwise.
            None if member == "mesh" => KeyFolders::legacy_meshes(&location),
            _ => Err(nothing()),
        }
    }
}
