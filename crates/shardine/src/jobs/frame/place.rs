//! Names of locations, and whether two locations are disjoint.

use std::path::Path;
use std::sync::Arc;

use shardine_store::{FileStore, FolderId, Key, StoreError};

use crate::jobs::copy::CopyError;
use crate::{Error, Location};

/// The location as text that is the same in every run and holds no secrets.
pub(in crate::jobs) fn name(location: &Location) -> Result<String, Error> {
    let text = match &location.path {
        Some(path) => format!("{}/{path}", location.store.identity()),
        None => location.store.identity(),
    };
    if text.contains("://") {
        return Ok(text.trim_end_matches('/').to_owned());
    }
    if !location.store.read_cost().local {
        return Ok(text);
    }
    let path = Path::new(&text);
    let resolved = match location.store.folders() {
        Some(folders) => folders.resolved(path)?,
        None => FileStore::new(path).resolved(path)?,
    };
    Ok(resolved.display().to_string())
}

/// The path of a location in its store; empty for the root.
pub(in crate::jobs) fn path(location: &Location) -> &str {
    location.path.as_ref().map(Key::as_str).unwrap_or_default()
}

/// The path of a location relative to another in the same store; empty if they are equal.
pub(in crate::jobs) fn below<'a>(above: &Location, place: &'a Location) -> &'a str {
    let inside = path(place);
    inside.strip_prefix(path(above)).unwrap_or(inside).trim_start_matches('/')
}

/// Refuses two locations if they are equal or one contains the other.
pub(in crate::jobs) fn check_apart(source: &Location, target: &Location) -> Result<(), Error> {
    let is_url = |location: &Location| location.store.name().contains("://");
    let is_local = |location: &Location| location.store.read_cost().local && !is_url(location);
    let same_store = Arc::as_ptr(&source.store).cast::<()>() == Arc::as_ptr(&target.store).cast();
    // The names of other stores, such as those in memory, do not distinguish them.
    let comparable =
        same_store || is_url(source) && is_url(target) || is_local(source) && is_local(target);
    if !comparable {
        return Ok(());
    }
    let below = |location| -> Result<String, Error> {
        Ok(format!("{}/", name(location)?.trim_end_matches('/')))
    };
    let (from, to) = (below(source)?, below(target)?);
    if from.starts_with(&to) || to.starts_with(&from) || share_folder(source, target)? {
        let (from, to) = (source.to_string(), target.to_string());
        return Err(CopyError::Overlap { from, to }.into());
    }
    Ok(())
}

/// Whether two folders are equal or one contains the other, whatever they are called: a folder can
/// be mounted in two places, and some file systems ignore case.
fn share_folder(source: &Location, target: &Location) -> Result<bool, Error> {
    let (Some(from), Some(to)) = (source.store.folders(), target.store.folders()) else {
        return Ok(false);
    };
    let (from, from_exists) = from.folder_ids(source.path.as_ref())?;
    let (to, to_exists) = to.folder_ids(target.path.as_ref())?;
    let has = |ids: &[FolderId], id: Option<&FolderId>| id.is_some_and(|id| ids.contains(id));
    Ok(from_exists && has(&to, from.first()) || to_exists && has(&from, to.first()))
}

/// Whether the location itself is an object.
pub(in crate::jobs) fn is_object(location: &Location) -> Result<bool, Error> {
    let Some(key) = &location.path else {
        return match location.store.folders() {
            Some(folders) => Ok(folders.root_is_file()?),
            None => Ok(false),
        };
    };
    let opened = location.store.open(key, None).and_then(|object| match object.len() {
        Some(_) => Ok(()),
        // Where opening is free, only a read shows whether it exists.
        None => object.read(shardine_store::ReadRange::Bounded(0..0)).map(drop),
    });
    match opened {
        Ok(()) => Ok(true),
        Err(StoreError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use shardine_store::{MemoryStore, layer};

    use super::*;

    /// A memory store under another name.
    #[derive(Debug)]
    struct Named(MemoryStore, &'static str);

    impl layer::StoreLayer for Named {
        type Inner = MemoryStore;

        fn inner(&self) -> &MemoryStore {
            &self.0
        }

        fn name(&self) -> String {
            self.1.to_owned()
        }

        fn identity(&self) -> String {
            self.1.to_owned()
        }
    }

    fn named(text: &'static str) -> Location {
        Location::root(Arc::new(Named(MemoryStore::new(), text)))
    }

    #[test]
    fn a_name_holds_no_secrets() {
        for (url, expected) in [
            ("https://me:secret@host/a/b", "https://host/a/b"),
            ("s3://bucket/a/", "s3://aws/bucket/a"),
            ("s3a://bucket/a", "s3://aws/bucket/a"),
            ("gs://bucket", "gs://google/bucket"),
        ] {
            assert_eq!(name(&Location::parse(url).unwrap()).unwrap(), expected);
        }
    }

    #[test]
    fn places_in_each_other_are_refused_and_neighbours_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| Location::root(Arc::new(FileStore::new(folder.path().join(name))));
        std::fs::create_dir(folder.path().join("a")).unwrap();
        std::os::unix::fs::symlink("a", folder.path().join("link")).unwrap();
        for (from, to, apart) in [
            ("a", "a", false),
            ("a", "./a/", false),
            ("a", "a/b/c", false),
            ("a/b", "a", false),
            ("link", "a", false),
            ("a", "link/new", false),
            ("a", "ab", true),
            ("a", "b", true),
        ] {
            assert_eq!(check_apart(&file(from), &file(to)).is_ok(), apart, "{from} {to}");
        }
        assert!(check_apart(&named("s3://b/x"), &named("s3://b/x/y")).is_err());
        assert!(check_apart(&named("s3://b/x"), &named("s3://b/xy")).is_ok());
        assert!(check_apart(&named("memory"), &named("memory")).is_ok());
        let memory = named("memory");
        assert!(check_apart(&memory, &memory.join("a").unwrap()).is_err());
        assert!(check_apart(&memory.join("a").unwrap(), &memory.join("b").unwrap()).is_ok());
    }
}
