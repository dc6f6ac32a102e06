//! How the chunks of a volume are named.

use shardine_store::{Key, Store, StoreError};

use super::{Scale, compressed_ending};
use crate::EngineError;
use crate::engine::{Engine, GridKey, Packing, StoredObject};
use crate::shard::uint64::Sharding;

/// The key of an object in a folder.
pub(super) fn in_folder(folder: Option<&Key>, name: &str) -> Result<Key, StoreError> {
    match folder {
        Some(folder) => folder.join(name),
        None => Key::new(name),
    }
}

/// Chunks that are objects: each is called by the voxels that it has.
#[derive(Debug, Clone)]
pub(crate) struct BoxNames {
    pub folder: Option<Key>,
    pub size: [u64; 3],
    pub chunk: [u64; 3],
    pub offset: [i64; 3],
}

impl BoxNames {
    /// Of the chunks of a scale.
    pub fn of(scale: &Scale, folder: Option<Key>) -> Self {
        let (size, offset) = (scale.size, scale.voxel_offset);
        Self { folder, size, chunk: scale.chunk_size(), offset }
    }

    /// The name of a chunk without its folder.
    pub fn name(&self, cell: &[u64]) -> String {
        let axis = |axis: usize| {
            let i = cell.get(axis).copied().unwrap_or(0);
            let start = i.saturating_mul(self.chunk[axis]).min(self.size[axis]);
            let end = start.saturating_add(self.chunk[axis]).min(self.size[axis]);
            // The size of a volume is such that its last voxel can be counted.
            let at = |voxel: u64| self.offset[axis].saturating_add_unsigned(voxel);
            format!("{}-{}", at(start), at(end))
        };
        format!("{}_{}_{}", axis(0), axis(1), axis(2))
    }

    /// The chunk of this name; `None` if it is none.
    pub fn cell(&self, name: &str) -> Option<[u64; 3]> {
        let mut cell = [0; 3];
        let mut parts = name.split('_');
        for (axis, i) in cell.iter_mut().enumerate() {
            let part = parts.next()?;
            // The first number may have a sign.
            let dash = part.get(1..)?.find('-')? + 1;
            let start: i64 = part.get(..dash)?.parse().ok()?;
            let voxel = u64::try_from(start.checked_sub(self.offset[axis])?).ok()?;
            *i = voxel / self.chunk[axis];
        }
        // There is one way to write each.
        (parts.next().is_none() && self.name(&cell) == name).then_some(cell)
    }
}

/// A chunk that is an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BoxObject {
    pub cell: [u64; 3],
    /// Whether an ending of its name says that it is compressed as a file.
    pub compressed: bool,
}

impl BoxNames {
    /// The chunk that an object of this name in the folder is, be it compressed as a file or not; `None` if it is none.
    pub fn object(&self, name: &str) -> Option<BoxObject> {
        let bare = compressed_ending(name).and_then(|ending| name.strip_suffix(ending));
        Some(BoxObject { cell: self.cell(bare.unwrap_or(name))?, compressed: bare.is_some() })
    }
}

/// What an object in a folder of shards is, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShardName {
    /// A shard.
    Whole(u64),
    /// The first object of a shard in its older form, with its table.
    Index(u64),
    /// The second object of such a shard, with its values.
    Data(u64),
    /// A shard that is compressed as a file.
    Compressed(u64),
    /// It is called like a shard, but no key leads to it.
    Misnamed,
    /// Something else.
    Other,
}

impl ShardName {
    /// What an object of this name is.
    pub fn of(sharding: &Sharding, name: &str) -> Self {
        let bare = compressed_ending(name).and_then(|ending| name.strip_suffix(ending));
        let Some((stem, ending)) = bare.unwrap_or(name).rsplit_once('.') else {
            return Self::Other;
        };
        let is_number = !stem.is_empty() && stem.bytes().all(|byte| byte.is_ascii_hexdigit());
        match (sharding.shard_number(stem), ending, bare) {
            (Some(shard), "shard", None) => Self::Whole(shard),
            (Some(shard), "index", None) => Self::Index(shard),
            (Some(shard), "data", None) => Self::Data(shard),
            (Some(shard), "shard", Some(_)) => Self::Compressed(shard),
            (None, "shard", None) if is_number => Self::Misnamed,
            _ => Self::Other,
        }
    }
}

impl Packing for BoxNames {
    fn key(&self, cell: &[u64]) -> Result<Key, StoreError> {
        in_folder(self.folder.as_ref(), &self.name(cell))
    }

    fn named(&self, key: &Key) -> GridKey {
        let name = match &self.folder {
            Some(folder) => {
                key.as_str().strip_prefix(folder.as_str()).and_then(|n| n.strip_prefix('/'))
            }
            None => Some(key.as_str()),
        };
        let object = name.and_then(|name| self.object(name));
        object.map_or(GridKey::Other, |BoxObject { cell: [x, y, z], .. }| {
            GridKey::Object(vec![x, y, z, 0])
        })
    }

    fn list(&self, _: &Engine, store: &dyn Store) -> Result<Vec<StoredObject>, EngineError> {
        let listing = store.list(self.folder.as_ref())?;
        listing.refuse_unlisted(|name| self.object(name).is_some())?;
        let mut objects = Vec::new();
        for (key, len) in listing.objects {
            let name = key.as_str().rsplit('/').next().unwrap_or_default();
            if let Some(BoxObject { cell: [x, y, z], .. }) = self.object(name) {
                objects.push(StoredObject::new(key, vec![x, y, z, 0], len));
            }
        }
        objects.sort_by(|a, b| a.cell.cmp(&b.cell));
        // A chunk that is there compressed and as it is counts once.
        objects.dedup_by(|b, a| a.cell == b.cell);
        Ok(objects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_shard_is_written_in_one_way() {
        let sharding = Sharding::new(0, 1, 5).unwrap();
        for (name, expected) in [
            ("1f.shard", ShardName::Whole(31)),
            ("00.index", ShardName::Index(0)),
            ("00.data", ShardName::Data(0)),
            ("1f.shard.gz", ShardName::Compressed(31)),
            ("1F.shard", ShardName::Misnamed),
            ("0.shard", ShardName::Misnamed),
            ("20.shard", ShardName::Misnamed),
            ("00.data.br", ShardName::Other),
            (".shard", ShardName::Other),
            ("notes.shard", ShardName::Other),
            ("info", ShardName::Other),
        ] {
            assert_eq!(ShardName::of(&sharding, name), expected, "{name}");
        }
    }

    #[test]
    fn names_count_from_the_offset_and_end_with_the_volume() {
        let names = BoxNames {
            folder: None,
            size: [70, 64, 10],
            chunk: [64, 32, 10],
            offset: [-6, 0, 1000],
        };
        assert_eq!(names.name(&[0, 0, 0]), "-6-58_0-32_1000-1010");
        assert_eq!(names.name(&[1, 1, 0]), "58-64_32-64_1000-1010");
        for cell in [[0, 0, 0], [1, 0, 0], [1, 1, 0]] {
            assert_eq!(names.cell(&names.name(&cell)), Some(cell));
        }
        for name in [
            "",
            "0-1",
            "-6-58_0-32_1000-1011",
            "-6-58_0-32_1000-1010_0",
            "-6-58_0-32_1000-1010.gz",
            "a-b_c-d_e-f",
        ] {
            assert_eq!(names.cell(name), None, "{name}");
        }
    }
}
