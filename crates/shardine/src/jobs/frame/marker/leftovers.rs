//! Temporary files of processes that are gone.

use shardine_store::{Key, LeftoverKind, StoreExt};

use crate::{Error, Location};

/// Removes temporary files of processes that are gone, in a place and all folders below it. A
/// listing for each folder; nothing for a store without folders.
pub(in crate::jobs) fn remove_leftovers_below(target: &Location) -> Result<(), Error> {
    if !target.store.has_folders() {
        return Ok(());
    }
    let mut folders = vec![target.path.clone()];
    while let Some(folder) = folders.pop() {
        remove_leftovers(target, folder.as_ref())?;
        folders.extend(target.store.list(folder.as_ref())?.folders.into_iter().map(Some));
    }
    Ok(())
}

/// Removes temporary files of dead processes.
pub(in crate::jobs) fn remove_leftovers(
    target: &Location,
    folder: Option<&Key>,
) -> Result<(), Error> {
    for leftover in target.store.leftovers(folder)? {
        if leftover.kind == LeftoverKind::Temporary && !leftover.in_use {
            target.store.remove_leftover(folder, &leftover.name)?;
        }
    }
    Ok(())
}
