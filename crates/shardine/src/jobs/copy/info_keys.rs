//! The objects that an `info` tells of, each of which may be missing, for stores that cannot list;
//! and whether they all lie in the place that is copied.

use serde_json::{Map, Value};
use shardine_store::Key;

use super::CopyError;
use super::keys::{CELLS, Found, FoundObject, KeySource};
use crate::dataset::{Info, KeyFolders, read_info};
use crate::engine::{Cells, Packing, shard_numbers};
use crate::jobs::losses::LOSS_RECORD;
use crate::keyed::KeyedShards;
use crate::precomputed::{BoxNames, INFO, Scale, compressed_endings, resolved};
use crate::shard::uint64::MortonCode;
use crate::{Error, Location};

/// Members of an `info` that name a folder with an `info` of its own.
const FOLDERS: [&str; 3] = ["mesh", "skeletons", "segment_properties"];

/// The logarithm of how many shards by any key are asked for one by one.
const MOST_SHARD_BITS: u32 = 20;

/// Folders in folders that are followed: a volume has meshes, which have properties.
const MAX_DEPTH: usize = 4;

/// Where the program that made a volume is named.
const PROVENANCE: &str = "provenance";

/// The objects of a volume, or of a folder of meshes, skeletons or annotations.
pub(super) struct FromInfo<'a> {
    source: &'a Location,
    /// What is there by itself.
    objects: Vec<FoundObject>,
    grids: Vec<Grid>,
}

/// Objects whose names follow from numbers.
enum Grid {
    /// Chunks that are objects.
    Boxes(BoxNames, [u64; 3]),
    /// Shards of chunks, or of values by any key.
    Shards(Box<KeyedShards>, ShardsOf),
}

/// What shards are there for.
#[derive(Debug, Clone, Copy)]
enum ShardsOf {
    Scale(MortonCode),
    AnyKey,
}

/// Numbers of a grid that are yet to come.
pub(super) enum Numbers {
    Cells(Cells),
    Shards(Box<dyn Iterator<Item = u64> + Send>),
}

/// A part of the objects.
pub(super) enum InfoPart {
    Objects,
    Grid(usize, Numbers),
}

impl<'a> FromInfo<'a> {
    /// What an `info` at a place tells of. One read for each folder of meshes, skeletons or
    /// properties.
    pub fn of(source: &'a Location, info: Info) -> Result<Self, Error> {
        let mut found = Self { source, objects: Vec::new(), grids: Vec::new() };
        found.add(source, info, 0)?;
        Ok(found)
    }

    fn unlisted(&self, reason: &'static str) -> Error {
        CopyError::Unlisted { at: self.source.to_string(), reason }.into()
    }

    fn add(&mut self, at: &Location, info: Info, depth: usize) -> Result<(), Error> {
        check_inside(self.source, at, &info)?;
        self.object(at.key(INFO)?);
        let document = match info {
            Info::Volume(info) => {
                self.object(at.key(PROVENANCE)?);
                for scale in info.scales() {
                    self.scale(at, scale)?;
                }
                info.document().clone()
            }
            Info::Folders(folders) => {
                self.folders(&folders)?;
                folders.document().clone()
            }
        };
        for member in FOLDERS {
            let Some(name) = named(&document, member) else { continue };
            // That it lies inside has been checked.
            let Some(path) = resolved(at, name)? else { continue };
            let folder = at.at(path);
            if member == "segment_properties" {
                // All properties are in the document, which may be large.
                self.object(folder.key(INFO)?);
                continue;
            }
            match read_info(&folder)? {
                Some(info) if depth < MAX_DEPTH => self.add(&folder, info, depth + 1)?,
                _ => {
                    return Err(self.unlisted(
                        "the folder of its meshes or skeletons has no info that tells them",
                    ));
                }
            }
        }
        Ok(())
    }

    fn object(&mut self, key: Key) {
        let object = FoundObject::possible(key);
        // Two scales may share a folder, and its record of losses.
        if !self.objects.contains(&object) {
            self.objects.push(object);
        }
    }

    fn scale(&mut self, at: &Location, scale: &Scale) -> Result<(), Error> {
        let folder = resolved(at, &scale.key)?.flatten();
        // The copy has to say what is missing in it.
        self.object(at.at(folder.clone()).key(LOSS_RECORD)?);
        if let Some(sharding) = &scale.sharding {
            let of = scale.morton().map_or(ShardsOf::AnyKey, ShardsOf::Scale);
            let shards = KeyedShards::new(at.store.clone(), folder, sharding.clone());
            self.grids.push(Grid::Shards(Box::new(shards), of));
            return Ok(());
        }
        // For each size of chunks there is a copy of the data.
        for &size in &scale.chunk_sizes {
            let copy = Scale { chunk_sizes: vec![size], ..scale.clone() };
            self.grids.push(Grid::Boxes(BoxNames::of(&copy, folder.clone()), copy.grid()));
        }
        Ok(())
    }

    fn folders(&mut self, folders: &KeyFolders) -> Result<(), Error> {
        let parts = folders.parts();
        if parts.is_empty() || parts.iter().any(|part| part.sharding.is_none()) {
            let reason = "its meshes, skeletons or annotations are not in shards, so that nothing tells their names";
            return Err(self.unlisted(reason));
        }
        for folder in folders.folders()? {
            if folder.sharding.shard_bits > MOST_SHARD_BITS {
                let reason = "there may be more shards of meshes, skeletons or annotations than are asked for one by one";
                return Err(self.unlisted(reason));
            }
            self.object(folder.location.key(LOSS_RECORD)?);
            let Location { store, path, .. } = folder.location;
            let shards = KeyedShards::new(store, path, folder.sharding);
            self.grids.push(Grid::Shards(Box::new(shards), ShardsOf::AnyKey));
        }
        Ok(())
    }
}

impl Grid {
    fn numbers(&self) -> Numbers {
        match self {
            Self::Boxes(_, grid) => Numbers::Cells(Cells::new(grid.to_vec())),
            Self::Shards(shards, ShardsOf::Scale(code)) => {
                Numbers::Shards(shard_numbers(&shards.sharding, *code))
            }
            Self::Shards(shards, ShardsOf::AnyKey) => {
                let unused = 64u32.saturating_sub(shards.sharding.shard_bits);
                Numbers::Shards(Box::new(0..=u64::MAX.checked_shr(unused).unwrap_or(0)))
            }
        }
    }

    /// The next object that there may be, and what is there instead of it if it is not.
    fn next(&self, numbers: &mut Numbers) -> Result<Option<FoundObject>, Error> {
        match (self, numbers) {
            (Self::Boxes(names, _), Numbers::Cells(cells)) => {
                let Some(cell) = cells.next() else { return Ok(None) };
                let plain = names.key(&cell)?;
                // Compressed files have other names; readers look for the most common one first.
                let mut others = Vec::new();
                for ending in compressed_endings() {
                    let other = Key::new(&format!("{plain}{ending}"))?;
                    others.push(FoundObject::possible(other));
                }
                let mut rest = others.split_off(1.min(others.len()));
                if let Some(first) = others.first_mut() {
                    first.instead.append(&mut rest);
                }
                Ok(Some(FoundObject { instead: others, ..FoundObject::possible(plain) }))
            }
            (Self::Shards(shards, _), Numbers::Shards(numbers)) => {
                let Some(number) = numbers.next() else { return Ok(None) };
                let key = shards.shard_key(number)?;
                // In its older form a shard is two objects. One that was compressed as a file is damage, and stays so.
                let mut instead: Vec<FoundObject> =
                    shards.older_keys(number)?.map(FoundObject::possible).into();
                instead.push(FoundObject::possible(Key::new(&format!("{key}.gz"))?));
                Ok(Some(FoundObject { instead, ..FoundObject::possible(key) }))
            }
            _ => Ok(None),
        }
    }
}

impl KeySource for FromInfo<'_> {
    type Branch = InfoPart;

    fn first(&self) -> Vec<InfoPart> {
        let grids = self.grids.iter().enumerate();
        let grids = grids.map(|(i, grid)| InfoPart::Grid(i, grid.numbers()));
        std::iter::once(InfoPart::Objects).chain(grids).collect()
    }

    fn folder(&self, _: &InfoPart) -> Option<Location> {
        None
    }

    fn expand(&self, part: InfoPart) -> Result<Found<InfoPart>, Error> {
        let mut found = Found { objects: Vec::new(), branches: Vec::new() };
        let (i, mut numbers) = match part {
            InfoPart::Objects => {
                found.objects.clone_from(&self.objects);
                return Ok(found);
            }
            InfoPart::Grid(i, numbers) => (i, numbers),
        };
        let Some(grid) = self.grids.get(i) else { return Ok(found) };
        while found.objects.len() < CELLS {
            match grid.next(&mut numbers)? {
                Some(object) => found.objects.push(object),
                None => return Ok(found),
            }
        }
        found.branches.push(InfoPart::Grid(i, numbers));
        Ok(found)
    }
}

/// The folder that a member names; `None` if it names something elsewhere.
fn named<'a>(document: &'a Map<String, Value>, member: &str) -> Option<&'a str> {
    let name = document.get(member)?.as_str()?;
    (!name.is_empty() && !name.contains("://")).then_some(name)
}

/// Refuses an `info` below a place that tells of folders outside: they would not be copied.
pub(super) fn check_inside(source: &Location, at: &Location, info: &Info) -> Result<(), Error> {
    let document = |info: &'_ Map<String, Value>| -> Vec<String> {
        FOLDERS.iter().filter_map(|member| named(info, member)).map(str::to_owned).collect()
    };
    let mut folders = match info {
        Info::Volume(info) => document(info.document()),
        Info::Folders(folders) => document(folders.document()),
    };
    match info {
        Info::Volume(info) => folders.extend(info.scales().iter().map(|scale| scale.key.clone())),
        Info::Folders(found) => {
            folders.extend(found.parts().iter().filter_map(|part| part.key).map(str::to_owned));
        }
    }
    let is_inside = |path: Option<&Key>| match (&source.path, path) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(root), Some(path)) => {
            let rest = path.as_str().strip_prefix(root.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
    };
    for folder in folders {
        match resolved(at, &folder)? {
            Some(path) if is_inside(path.as_ref()) => {}
            _ => {
                let (at, info) = (source.to_string(), at.key(INFO)?);
                return Err(CopyError::Outside { at, info, folder }.into());
            }
        }
    }
    Ok(())
}
