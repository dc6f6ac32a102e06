//! The objects that an `info` describes, and the folders that it names.

use serde_json::{Map, Value};
use shardine_store::{Key, Listing, StoreError};

use super::names::PROVENANCE;
use super::{BoxNames, INFO, Info, KeyFolders, Scale, compressed_endings, read_info};
use crate::engine::{Cells, Packing, shard_numbers};
use crate::format::{Contents, ContentsError, PossibleKey, folder_within};
use crate::keyed::KeyedShards;
use crate::shard::uint64::Sharding;
use crate::{Error, Location};

/// Members of an `info` that name a folder with an `info` of its own.
const FOLDERS: [&str; 3] = ["mesh", "skeletons", PROPERTIES];

/// The one whose folder has nothing but its `info`.
const PROPERTIES: &str = "segment_properties";

/// The logarithm of the most shards by arbitrary key that are probed one by one.
const MOST_SHARD_BITS: u32 = 20;

/// How deep nested folders are followed: a volume has meshes, which have properties.
const MAX_DEPTH: usize = 4;

/// The largest `info` that is searched for the folders that it names. Larger ones hold the
/// properties of segments, which name no folders.
const LARGEST_INFO: u64 = 4 << 20;

/// The objects of a volume with its meshes and skeletons, or of a folder of those; `None` if there
/// is no `info`. One read for each folder of meshes, skeletons or properties.
pub(super) fn contents(location: &Location) -> Result<Option<Contents>, ContentsError> {
    let Some(info) = read_info(location)? else { return Ok(None) };
    let mut finder = Finder { root: location, contents: Contents::default() };
    finder.add(location, info, 0)?;
    Ok(Some(finder.contents))
}

/// Refuses a folder with an `info` that names something outside `within`. One read if there is an
/// `info`.
pub(super) fn check_listed(
    within: &Location,
    folder: &Location,
    listing: &Listing,
) -> Result<(), ContentsError> {
    let info = folder.key(INFO)?;
    let is_looked_at = |(key, len): &(Key, u64)| *key == info && *len <= LARGEST_INFO;
    if !listing.objects.iter().any(is_looked_at) {
        return Ok(());
    }
    let checked = match read_info(folder) {
        Ok(Some(info)) => check_inside(within, folder, &info),
        read => read.map(drop).map_err(ContentsError::from),
    };
    match checked {
        // An invalid `info` describes nothing.
        Err(ContentsError::Other(Error::Info { .. } | Error::Store(StoreError::Key { .. }))) => {
            Ok(())
        }
        checked => checked,
    }
}

fn check_inside(within: &Location, at: &Location, info: &Info) -> Result<(), ContentsError> {
    let check = |folder: &str| folder_within(within, at, INFO, folder).map(drop);
    FOLDERS.iter().filter_map(|member| named(info.document(), member)).try_for_each(check)?;
    match info {
        Info::Volume(info) => info.scales().iter().try_for_each(|scale| check(&scale.key)),
        Info::Folders(folders) => {
            folders.parts().iter().filter_map(|part| part.key).try_for_each(check)
        }
    }
}

/// The folder that a member names; `None` if it names something elsewhere.
fn named<'a>(document: &'a Map<String, Value>, member: &str) -> Option<&'a str> {
    let name = document.get(member)?.as_str()?;
    (!name.is_empty() && !name.contains("://")).then_some(name)
}

struct Finder<'a> {
    root: &'a Location,
    contents: Contents,
}

impl Finder<'_> {
    fn add(&mut self, at: &Location, info: Info, depth: usize) -> Result<(), ContentsError> {
        check_inside(self.root, at, &info)?;
        self.contents.needs(at.key(INFO)?);
        match &info {
            Info::Volume(info) => {
                self.contents.may_have(at.key(PROVENANCE)?);
                info.scales().iter().try_for_each(|scale| self.scale(at, scale))?;
            }
            Info::Folders(folders) => self.folders(folders)?,
        }
        for member in FOLDERS {
            let Some(name) = named(info.document(), member) else { continue };
            let folder = folder_within(self.root, at, INFO, name)?;
            if member == PROPERTIES {
                // All properties are in the document, which may be large.
                self.contents.needs(folder.key(INFO)?);
                continue;
            }
            match read_info(&folder)? {
                Some(info) if depth < MAX_DEPTH => self.add(&folder, info, depth + 1)?,
                _ => {
                    return Err(untold(
                        "the folder of its meshes or skeletons has no info that lists them",
                    ));
                }
            }
        }
        Ok(())
    }

    fn scale(&mut self, at: &Location, scale: &Scale) -> Result<(), ContentsError> {
        let folder = folder_within(self.root, at, INFO, &scale.key)?;
        if let Some(sharding) = &scale.sharding {
            match scale.morton() {
                Some(code) => self.shards(&folder, sharding, shard_numbers(sharding, code)),
                None => self.shards(&folder, sharding, all_shards(sharding)),
            }
            return Ok(());
        }
        // There is a copy of the data for each chunk size.
        for &size in &scale.chunk_sizes {
            let copy = Scale { chunk_sizes: vec![size], ..scale.clone() };
            let names = BoxNames::of(&copy, folder.path.clone());
            let cells = Cells::new(copy.grid().to_vec());
            self.contents.grid(&folder, cells.map(move |cell| box_key(&names, &cell)));
        }
        Ok(())
    }

    fn folders(&mut self, folders: &KeyFolders) -> Result<(), ContentsError> {
        let parts = folders.parts();
        if parts.is_empty() || parts.iter().any(|part| part.sharding.is_none()) {
            return Err(untold(
                "its meshes, skeletons or annotations are not sharded, so their names are unknown",
            ));
        }
        for folder in folders.folders()? {
            if folder.sharding.shard_bits > MOST_SHARD_BITS {
                return Err(untold(
                    "there may be too many shards of meshes, skeletons or annotations to request \
                     one by one",
                ));
            }
            self.shards(&folder.location, &folder.sharding, all_shards(&folder.sharding));
        }
        Ok(())
    }

    fn shards(
        &mut self,
        folder: &Location,
        sharding: &Sharding,
        numbers: impl Iterator<Item = u64> + Send + 'static,
    ) {
        let Location { store, path, .. } = folder.clone();
        let shards = KeyedShards::new(store, path, sharding.clone());
        self.contents.grid(folder, numbers.map(move |number| shard_key(&shards, number)));
    }
}

fn untold(reason: &'static str) -> ContentsError {
    ContentsError::Untold { reason, advice: None }
}

/// The numbers of all shards that may hold keys.
fn all_shards(sharding: &Sharding) -> impl Iterator<Item = u64> + Send + 'static {
    let unused = 64u32.saturating_sub(sharding.shard_bits);
    0..=u64::MAX.checked_shr(unused).unwrap_or(0)
}

fn box_key(names: &BoxNames, cell: &[u64]) -> Result<PossibleKey, StoreError> {
    let plain = names.key(cell)?;
    let wrapped = |ending| Key::new(&format!("{plain}{ending}")).map(PossibleKey::new);
    // Compressed files have other names; readers look for the most common one first.
    let mut endings = compressed_endings();
    let mut instead: Vec<PossibleKey> =
        endings.next().map(wrapped).transpose()?.into_iter().collect();
    if let Some(first) = instead.first_mut() {
        first.instead = endings.map(wrapped).collect::<Result<_, _>>()?;
    }
    Ok(PossibleKey { instead, ..PossibleKey::new(plain) })
}

fn shard_key(shards: &KeyedShards, number: u64) -> Result<PossibleKey, StoreError> {
    let key = shards.shard_key(number)?;
    // In the older form a shard is two objects. One that was compressed as a file is damage, and
    // stays so.
    let mut instead: Vec<PossibleKey> = shards.older_keys(number)?.map(PossibleKey::new).into();
    instead.push(PossibleKey::new(Key::new(&format!("{key}.gz"))?));
    Ok(PossibleKey { instead, ..PossibleKey::new(key) })
}
