//! The names of webknossos-wrap files, `z{Z}/y{Y}/x{X}.wkw`.

use std::ops::ControlFlow;

use shardine_store::{Key, Listing, Store, StoreError};

use super::{GridKey, StoredObject};
use crate::tuning::LISTING;
use crate::{Engine, in_order};

/// The number in a name such as `z12`; each has only one spelling.
fn number_in(name: &str, before: &str, after: &str) -> Option<u64> {
    let digits = name.strip_prefix(before)?.strip_suffix(after)?;
    let number: u64 = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

/// What the name of an object or folder below the array's means.
pub(super) fn place_in(name: &str) -> GridKey {
    let mut parts = name.split('/');
    let mut next = |before, after| parts.next().map(|name| number_in(name, before, after));
    match (next("z", ""), next("y", ""), next("x", ".wkw"), next("", "")) {
        (Some(Some(z)), Some(Some(y)), Some(Some(x)), None) => GridKey::Object(vec![x, y, z, 0]),
        // Folder names give the last axes, so the positions share no prefix.
        (Some(Some(_)), None | Some(Some(_)), None, None) => GridKey::Folder(Vec::new()),
        _ => GridKey::Other,
    }
}

fn last_name(key: &Key) -> &str {
    key.as_str().rsplit('/').next().unwrap_or_default()
}

/// The listings of folders, several in parallel in a remote store.
fn listings(
    engine: &Engine,
    store: &dyn Store,
    folders: &[Key],
) -> Result<Vec<Listing>, StoreError> {
    let (mut found, mut failed) = (Vec::new(), None);
    let most = engine.at_once(store, LISTING);
    in_order(most, folders.len(), &|i| store.list(Some(&folders[i])), &mut |_, listing| {
        match listing {
            Ok(listing) => found.push(listing),
            Err(error) => {
                failed = Some(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    });
    failed.map_or(Ok(found), Err)
}

/// The files of a folder, by their positions x, y and z: one listing for the folder and one for
/// each `z` and each `y` in it. Anything where a file belongs that cannot be listed is an error.
pub fn wkw_cubes(
    engine: &Engine,
    store: &dyn Store,
    folder: Option<&Key>,
) -> Result<Vec<StoredObject>, StoreError> {
    let numbers = |listings: Vec<Listing>, letter: &str| -> Result<Vec<(Key, u64)>, StoreError> {
        let mut found = Vec::new();
        for listing in listings {
            listing.refuse_unlisted(|name| number_in(name, letter, "").is_some())?;
            let of_grid = |key: Key| number_in(last_name(&key), letter, "").map(|n| (key, n));
            found.extend(listing.folders.into_iter().filter_map(of_grid));
        }
        Ok(found)
    };
    let slices = numbers(vec![store.list(folder)?], "z")?;
    let folders: Vec<Key> = slices.iter().map(|(key, _)| key.clone()).collect();
    let mut rows = Vec::new();
    for (listing, (_, z)) in listings(engine, store, &folders)?.into_iter().zip(&slices) {
        rows.extend(numbers(vec![listing], "y")?.into_iter().map(|(key, y)| (key, y, *z)));
    }
    let folders: Vec<Key> = rows.iter().map(|(key, ..)| key.clone()).collect();
    let mut cubes = Vec::new();
    for (listing, (_, y, z)) in listings(engine, store, &folders)?.into_iter().zip(&rows) {
        listing.refuse_unlisted(|name| number_in(name, "x", ".wkw").is_some())?;
        for (key, len) in listing.objects {
            if let Some(x) = number_in(last_name(&key), "x", ".wkw") {
                cubes.push(StoredObject::new(key, vec![x, *y, *z, 0], len));
            }
        }
    }
    cubes.sort_by(|a, b| a.cell.cmp(&b.cell));
    Ok(cubes)
}
