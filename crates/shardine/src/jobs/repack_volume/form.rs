//! What the objects in a folder of values are, by their names.

use std::collections::HashSet;

use shardine_store::{Key, Store, StoreError, StoreExt};

use crate::Error;
use crate::precomputed::{BoxNames, BoxObject, Scale, compressed_ending};
use crate::shard::uint64::Sharding;

/// How the objects are called that hold the values of a folder.
#[derive(Debug, Clone)]
pub(super) enum Form {
    /// Each is a shard, or one of the two parts of one in its older form.
    Shards(Sharding),
    /// Each is a chunk.
    Chunks { names: BoxNames, grid: [u64; 3] },
}

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    /// It holds values, or is a part of what does.
    Part,
    /// It looks as if it did, but nobody finds them.
    Odd(&'static str),
    /// It is something else.
    Other,
}

impl Form {
    /// How the chunks of a scale are called.
    pub fn of_scale(scale: &Scale) -> Self {
        match &scale.sharding {
            Some(sharding) => Self::Shards(sharding.clone()),
            None => Self::Chunks { names: BoxNames::of(scale, None), grid: scale.grid() },
        }
    }

    /// Whether an object of this name, without its folder, holds values.
    pub fn has(&self, name: &str) -> bool {
        self.named(name) == Named::Part
    }

    fn named(&self, name: &str) -> Named {
        let bare = compressed_ending(name).and_then(|ending| name.strip_suffix(ending));
        match self {
            Self::Shards(sharding) => {
                let Some(stem) = shard_stem(bare.unwrap_or(name)) else { return Named::Other };
                if bare.is_some() {
                    Named::Odd(
                        "it is a shard that was compressed as a whole, which no reader finds",
                    )
                } else if sharding.shard_number(stem).is_some() {
                    Named::Part
                } else {
                    Named::Odd("it is called like a shard, but is none of this sharding")
                }
            }
            Self::Chunks { names, grid } => {
                if chunk(names, *grid, name).is_some() {
                    Named::Part
                } else if looks_like_chunk(bare.unwrap_or(name)) {
                    Named::Odd("it is called like a chunk, but is none of this scale")
                } else {
                    Named::Other
                }
            }
        }
    }
}

/// The chunk that an object of this name is in a grid; `None` if it is none.
pub(super) fn chunk(names: &BoxNames, grid: [u64; 3], name: &str) -> Option<BoxObject> {
    // Behind the end of the volume there are names of no voxels.
    names.object(name).filter(|object| object.cell.iter().zip(grid).all(|(i, cells)| *i < cells))
}

/// What names a shard in the name of one of its objects, be it one of this sharding or not.
fn shard_stem(name: &str) -> Option<&str> {
    let stem = [".shard", ".index", ".data"].iter().find_map(|end| name.strip_suffix(end))?;
    (!stem.is_empty() && stem.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(stem)
}

/// Whether a name is three ranges of voxels.
fn looks_like_chunk(name: &str) -> bool {
    let is_range = |part: &str| {
        let dash = part.get(1..).and_then(|rest| rest.find('-'));
        let ends = dash.and_then(|dash| Some((part.get(..=dash)?, part.get(dash + 2..)?)));
        ends.is_some_and(|(start, end)| start.parse::<i64>().is_ok() && end.parse::<i64>().is_ok())
    };
    name.split('_').count() == 3 && name.split('_').all(is_range)
}

/// Refuses a folder with objects that would be lost if its values were packed anew, as they look like values and nobody
/// finds them. One listing.
pub(super) fn survey(
    store: &dyn Store,
    folder: Option<&Key>,
    old: &Form,
    new: &Form,
) -> Result<(), Error> {
    let listing = store.list(folder)?;
    let name_of = |key: &Key| key.as_str().rsplit('/').next().unwrap_or_default().to_owned();
    let is_head = |name: &String| name.ends_with(".index") || name.ends_with(".shard");
    let heads: HashSet<String> =
        listing.objects.iter().map(|(key, _)| name_of(key)).filter(is_head).collect();
    let lacks_head = |stem: &str| {
        !heads.contains(&format!("{stem}.index")) && !heads.contains(&format!("{stem}.shard"))
    };
    for (key, _) in &listing.objects {
        let name = name_of(key);
        let reason = match (old, old.named(&name)) {
            (Form::Shards(_), Named::Part)
                if name.strip_suffix(".data").is_some_and(lacks_head) =>
            {
                "it holds the values of a shard whose index is missing"
            }
            (Form::Chunks { .. }, Named::Part)
                if !store.has_folders() && compressed_ending(&name).is_some() =>
            {
                "it is called like a compressed file, which no reader finds in this store"
            }
            (_, Named::Part) => continue,
            (_, Named::Odd(reason)) => reason,
            (_, Named::Other) if new.named(&name) == Named::Other => continue,
            (_, Named::Other) => {
                "it is called like what is to be made, but holds nothing of what is packed now"
            }
        };
        let reason = format!(
            "{reason}; see what `shardine verify` says, and repair it or move it away first"
        );
        return Err(StoreError::Damaged { key: key.clone(), reason }.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_values_is_told_from_what_is() {
        let shards = Form::Shards(Sharding::new(0, 0, 5).unwrap());
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
            assert_ne!(shards.named(name), Named::Other, "{name}");
        }
        for name in ["info", "x.shard", ".shard", "notes.data", "0-1_0-1_0-1", "00.gz"] {
            assert_eq!(shards.named(name), Named::Other, "{name}");
        }
        let (size, chunk, offset) = ([128, 70, 1], [64, 64, 1], [-64, 0, 0]);
        let names = BoxNames { folder: None, size, chunk, offset };
        let chunks = Form::Chunks { names, grid: [2, 2, 1] };
        for (name, expected) in [
            ("-64-0_0-64_0-1", true),
            ("0-64_64-70_0-1.gz", true),
            ("64-64_0-64_0-1", false),
            ("0-32_0-64_0-1", false),
            ("0-64_64-128_0-1.xz", false),
        ] {
            assert_eq!(chunks.has(name), expected, "{name}");
            assert_ne!(chunks.named(name), Named::Other, "{name}");
        }
        for name in ["info", "0.shard", "a_b_c", "0-1_0-1", "0-64_0-64_0-1.txt", "--_--_--"] {
            assert_eq!(chunks.named(name), Named::Other, "{name}");
        }
    }
}
