//! Whether a job can carry over everything in a data set, and may remove what it has to remove.

use std::collections::HashSet;

use shardine_store::{Unlisted, UnlistedKind};

use super::copy::CopyError;
use super::copy::keys::parent;
use crate::zarr::metadata::NodeMetadata;
use crate::zarr::{grid_folder, read_v3};
use crate::{Error, Location};

/// How many are named in an error.
const NAMED: usize = 20;

/// Refuses a data set that contains what listings leave out: links to folders, broken links, names
/// that cannot be keys, sockets and so on. `target` is where the result goes, which must not lie in
/// the data set by another path.
///
/// Reads the folders of a data set on files; on another store nothing is checked before the data
/// set is walked.
pub(super) fn check_whole(source: &Location, target: Option<&Location>) -> Result<(), Error> {
    let Some(folders) = source.store.folders() else { return Ok(()) };
    let unwanted: HashSet<_> = match target
        .and_then(|target| Some((target.store.folders()?, target)))
    {
        Some((store, target)) => store.folder_ids(target.path.as_ref())?.0.into_iter().collect(),
        None => HashSet::new(),
    };
    let survey = folders.survey(source.path.as_ref(), &unwanted)?;
    if let (Some(met), Some(target)) = (survey.met, target) {
        let (from, to) = (met.display().to_string(), target.to_string());
        return Err(CopyError::Overlap { from, to }.into());
    }
    refuse(source, &survey.unlisted, survey.more_unlisted)
}

/// Refuses an in-place job on files if the data set contains something that may be part of it but
/// is not walked. Everything else in its folders is carried over.
pub(super) fn check_walked(location: &Location) -> Result<(), Error> {
    let Some(folders) = location.store.folders() else { return Ok(()) };
    let survey = folders.survey(location.path.as_ref(), &HashSet::new())?;
    let mut refused = Vec::new();
    for unlisted in survey.unlisted {
        let may_hold = match unlisted.kind {
            UnlistedKind::BrokenLink => true,
            kind => kind.is_folder() && !lies_beside_chunks(location, &unlisted)?,
        };
        if may_hold {
            refused.push(unlisted);
        }
    }
    refuse(location, &refused, survey.more_unlisted)
}

/// Whether something lies in an array's folder where neither a chunk nor another node can be, so
/// that it is carried over unchanged.
fn lies_beside_chunks(location: &Location, unlisted: &Unlisted) -> Result<bool, Error> {
    let Some(key) = &unlisted.key else { return Ok(false) };
    let mut folder = parent(key);
    loop {
        match read_v3(&location.at(folder.clone()))? {
            Some(NodeMetadata::Array(array)) => {
                let skip = folder.as_ref().map_or(0, |folder| folder.as_str().len() + 1);
                let (encoding, rank) = (array.key_encoding(), array.shape().len());
                let name = &key.as_str()[skip..];
                let is_folder = |name: &str| grid_folder(encoding, name, rank).is_some();
                let of_grid = encoding.parse(name, rank).is_some() || is_folder(name);
                // Nor can anything among the chunks be told from them.
                let among = name.rsplit_once('/').is_some_and(|(folder, _)| is_folder(folder));
                return Ok(!(of_grid || among));
            }
            Some(NodeMetadata::Group(_)) => return Ok(false),
            None if folder == location.path => return Ok(false),
            None => folder = folder.as_ref().and_then(parent),
        }
    }
}

/// An error if anything was left out.
pub(super) fn refuse(source: &Location, unlisted: &[Unlisted], more: u64) -> Result<(), Error> {
    if unlisted.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = unlisted.iter().take(NAMED).map(Unlisted::to_string).collect();
    let more = more + unlisted.len().saturating_sub(NAMED) as u64;
    let mut what = names.join(", ");
    if more > 0 {
        what.push_str(&format!(" and {more} more"));
    }
    Err(Error::LeftOut { at: source.to_string(), what })
}

/// Refuses to empty a folder in which another file system is mounted: that is not part of the data
/// set.
pub(super) fn check_removable(target: &Location) -> Result<(), Error> {
    let Some(folders) = target.store.folders() else { return Ok(()) };
    match folders.mounted_inside(target.path.as_ref())? {
        Some(mount) => {
            let (at, mount) = (target.to_string(), mount.display().to_string());
            Err(CopyError::Mounted { at, mount }.into())
        }
        None => Ok(()),
    }
}
