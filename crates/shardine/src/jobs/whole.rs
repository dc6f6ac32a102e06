//! Whether a job can take along all that a data set has, and may remove what it is to remove.

use std::collections::HashSet;

use shardine_store::{Unlisted, UnlistedKind};

use super::copy::CopyError;
use super::copy::keys::parent;
use crate::zarr::metadata::NodeMetadata;
use crate::zarr::{grid_folder, read_v3};
use crate::{Error, Location};

/// So many things are told by name.
const NAMED: usize = 20;

/// Refuses a data set that holds what listings leave out: links to folders or to nowhere, names that cannot be keys, sockets and
/// so on. `target` is where the result goes, which must not lie in the data set by another way.
///
/// Reads the folders of a data set that is files; that of another store is not looked at before it is walked.
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

/// Refuses a data set of files that is to be changed in its place, if it holds what may be a part of it and is not walked. All
/// else that is in its folders is carried over.
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

/// Whether something lies in the folder of an array, where no chunk of it and no other node can be: it is carried over as it is.
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
                // Nor is anything told apart from chunks that lies among them.
                let among = name.rsplit_once('/').is_some_and(|(folder, _)| is_folder(folder));
                return Ok(!(of_grid || among));
            }
            Some(NodeMetadata::Group(_)) => return Ok(false),
            None if folder == location.path => return Ok(false),
            None => folder = folder.as_ref().and_then(parent),
        }
    }
}

/// An error if there is anything that was left out.
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

/// Refuses to empty a folder into which another one is mounted: that one is not part of it.
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
