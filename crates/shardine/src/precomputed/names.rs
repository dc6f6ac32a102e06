//! What the objects in the folders of volumes, meshes and skeletons are, by name.

use shardine_store::{Key, Store, StoreError};

use super::{INFO, Scale, unwrapped};
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

/// Chunks that are objects of their own, each named by the range of its voxels.
#[derive(Debug, Clone)]
pub(crate) struct BoxNames {
    pub folder: Option<Key>,
    pub size: [u64; 3],
    pub chunk: [u64; 3],
    pub offset: [i64; 3],
}

impl BoxNames {
    /// The names of the chunks of a scale.
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
            // The size of a volume is limited so that the position of its last voxel does not
            // overflow.
            let at = |voxel: u64| self.offset[axis].saturating_add_unsigned(voxel);
            format!("{}-{}", at(start), at(end))
        };
        format!("{}_{}_{}", axis(0), axis(1), axis(2))
    }

    /// The chunk of this name; `None` if the name is not a chunk's.
    pub fn cell(&self, name: &str) -> Option<[u64; 3]> {
        let mut cell = [0; 3];
        let mut parts = name.split('_');
        for (axis, i) in cell.iter_mut().enumerate() {
            let part = parts.next()?;
            // The first number may have a sign.
            let dash = part.get(1..)?.find('-')? + 1;
            let start: i64 = part.get(..dash)?.parse().ok()?;
            let voxel = u64::try_from(start.checked_sub(self.offset[axis])?).ok()?;
            // Names that begin beyond the end of the volume have no voxels.
            *i = Some(voxel).filter(|&voxel| voxel < self.size[axis])? / self.chunk[axis];
        }
        // There is only one valid spelling of each.
        (parts.next().is_none() && self.name(&cell) == name).then_some(cell)
    }
}

/// A chunk that is an object of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BoxObject {
    pub cell: [u64; 3],
    /// Whether the suffix of its name says that it is compressed as a file.
    pub compressed: bool,
}

impl BoxNames {
    /// The chunk that an object of this name holds, compressed as a file or not; `None` if it is
    /// not a chunk.
    pub fn object(&self, name: &str) -> Option<BoxObject> {
        let bare = unwrapped(name);
        Some(BoxObject { cell: self.cell(bare.unwrap_or(name))?, compressed: bare.is_some() })
    }
}

/// Whether a name consists of three ranges of voxels, like that of a chunk.
fn looks_like_box(name: &str) -> bool {
    let is_range = |part: &str| {
        let dash = part.get(1..).and_then(|rest| rest.find('-'));
        let ends = dash.and_then(|dash| Some((part.get(..=dash)?, part.get(dash + 2..)?)));
        ends.is_some_and(|(start, end)| start.parse::<i64>().is_ok() && end.parse::<i64>().is_ok())
    };
    name.split('_').count() == 3 && name.split('_').all(is_range)
}

/// What an object in a folder of shards is, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShardName {
    /// A shard.
    Whole(u64),
    /// The first object of a shard in the older form, with its table.
    Index(u64),
    /// The second object of such a shard, with its values.
    Data(u64),
    /// A shard that is compressed as a file.
    Compressed(u64),
    /// Named like a shard, but no key leads to it.
    Misnamed,
    /// Named like a part of a shard, or like one that is compressed as a file, but is neither.
    Odd { compressed: bool },
    /// Something else.
    Other,
}

impl ShardName {
    /// What an object of this name is.
    pub fn of(sharding: &Sharding, name: &str) -> Self {
        let bare = unwrapped(name);
        let Some((stem, ending)) = bare.unwrap_or(name).rsplit_once('.') else {
            return Self::Other;
        };
        let is_number = !stem.is_empty() && stem.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_number || !["shard", "index", "data"].contains(&ending) {
            return Self::Other;
        }
        match (sharding.shard_number(stem), ending, bare) {
            (Some(shard), "shard", None) => Self::Whole(shard),
            (Some(shard), "index", None) => Self::Index(shard),
            (Some(shard), "data", None) => Self::Data(shard),
            (Some(shard), "shard", Some(_)) => Self::Compressed(shard),
            (None, "shard", None) => Self::Misnamed,
            (_, _, bare) => Self::Odd { compressed: bare.is_some() },
        }
    }
}

/// How the objects that hold the values of a folder are named.
#[derive(Debug, Clone)]
pub(crate) enum ValueNames {
    /// Each is a shard, or one of the two parts of a shard in the older form.
    Shards(Sharding),
    /// Each is a chunk.
    Boxes(BoxNames),
}

/// What an object in a folder of values is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueName {
    /// It holds values, or is part of something that does.
    Values,
    /// It looks like values, but no reader finds them; the reason.
    Unfound(&'static str),
    /// It is something else.
    Other,
}

impl ValueNames {
    /// The names for the chunks of a scale, without their folder.
    pub fn of_scale(scale: &Scale) -> Self {
        match &scale.sharding {
            Some(sharding) => Self::Shards(sharding.clone()),
            None => Self::Boxes(BoxNames::of(scale, None)),
        }
    }

    /// Whether an object of this name, without its folder, holds values.
    pub fn has(&self, name: &str) -> bool {
        self.named(name) == ValueName::Values
    }

    /// What an object of this name, without its folder, is.
    pub fn named(&self, name: &str) -> ValueName {
        match self {
            Self::Shards(sharding) => match ShardName::of(sharding, name) {
                ShardName::Whole(_) | ShardName::Index(_) | ShardName::Data(_) => ValueName::Values,
                ShardName::Compressed(_) | ShardName::Odd { compressed: true } => {
                    ValueName::Unfound(
                        "it is a shard that was compressed as a whole, which no reader finds",
                    )
                }
                ShardName::Misnamed | ShardName::Odd { compressed: false } => {
                    ValueName::Unfound("it is named like a shard, but is not one of this sharding")
                }
                ShardName::Other => ValueName::Other,
            },
            Self::Boxes(names) if names.object(name).is_some() => ValueName::Values,
            Self::Boxes(_) if looks_like_box(unwrapped(name).unwrap_or(name)) => {
                ValueName::Unfound("it is named like a chunk, but is not one of this scale")
            }
            Self::Boxes(_) => ValueName::Other,
        }
    }
}

/// The document that names the program that made a data set.
pub(super) const PROVENANCE: &str = "provenance";

/// Suffixes of files beside the shards of meshes and skeletons: where objects are, and their parts.
const BESIDE: [&str; 3] = [".spatial", ".frags", ".labels"];

/// Whether an object is usual beside the shards of meshes and skeletons.
pub(crate) fn is_beside(name: &str) -> bool {
    let name = unwrapped(name).unwrap_or(name);
    [INFO, PROVENANCE, "spatial_index"].contains(&name)
        || BESIDE.iter().any(|ending| name.ends_with(ending))
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
        // A chunk that exists both compressed and plain counts once.
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
            ("00.data.br", ShardName::Odd { compressed: true }),
            ("1F.index", ShardName::Odd { compressed: false }),
            ("20.shard.gz", ShardName::Odd { compressed: true }),
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
            "64-64_0-32_1000-1010",
            "a-b_c-d_e-f",
        ] {
            assert_eq!(names.cell(name), None, "{name}");
        }
    }

    #[test]
    fn what_looks_like_values_is_told_from_what_is() {
        let shards = ValueNames::Shards(Sharding::new(0, 0, 5).unwrap());
        for (name, expected) in [
            ("1f.shard", true),
            ("00.index", true),
            ("00.data", true),
            ("1F.shard", false),
            ("0.shard", false),
            ("20.shard", false),
            ("00.shard.gz", false),
            ("00.data.br", false),
        ] {
            assert_eq!(shards.has(name), expected, "{name}");
            assert_ne!(shards.named(name), ValueName::Other, "{name}");
        }
        for name in ["info", "x.shard", ".shard", "notes.data", "0-1_0-1_0-1", "00.gz"] {
            assert_eq!(shards.named(name), ValueName::Other, "{name}");
        }
        let (size, chunk, offset) = ([128, 70, 1], [64, 64, 1], [-64, 0, 0]);
        let chunks = ValueNames::Boxes(BoxNames { folder: None, size, chunk, offset });
        for (name, expected) in [
            ("-64-0_0-64_0-1", true),
            ("0-64_64-70_0-1.gz", true),
            ("64-64_0-64_0-1", false),
            ("0-32_0-64_0-1", false),
            ("0-64_64-128_0-1.xz", false),
        ] {
            assert_eq!(chunks.has(name), expected, "{name}");
            assert_ne!(chunks.named(name), ValueName::Other, "{name}");
        }
        for name in ["info", "0.shard", "a_b_c", "0-1_0-1", "0-64_0-64_0-1.txt", "--_--_--"] {
            assert_eq!(chunks.named(name), ValueName::Other, "{name}");
        }
    }
}
