//! Detects what is at a location: the one detector, and the list of formats.

use std::sync::Arc;

use shardine_store::{Key, Listing};

use crate::format::{Contents, ContentsError, DocumentNames, DocumentRank, Format};
use crate::precomputed::Precomputed;
use crate::set::DataSet;
use crate::wkw::WebknossosWrap;
use crate::zarr::Zarr;
use crate::{Array, Engine, Error, IntoLocation, Location};

/// The formats, in the order in which they are tried.
static FORMATS: [&dyn Format; 3] = [&Zarr, &Precomputed, &WebknossosWrap];

/// Opens the data set at a URL, a path or a [`Location`], in any format, on the shared engine.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("image.zarr");
/// # shardine::Array::builder([4, 4], "uint8").create(&path)?;
/// let set = shardine::open(&path)?;
/// println!("{} as {}", path.display(), set.format());
/// let array = set.array(0)?;
/// assert_eq!(array.shape(), [4, 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Costs one read for a Zarr array or group, three to five for version 2, four for anything with an
/// `info`, and for webknossos-wrap five, or six plus those of all magnifications. [`Error::NoNode`]
/// if there is no document of any of these formats. A document that cannot be read is an error,
/// never taken for missing.
pub fn open(at: impl IntoLocation) -> Result<Box<dyn DataSet>, Error> {
    open_in(&Engine::shared()?, at)
}

/// Opens a data set on the caller's engine. See [`open`].
pub fn open_in(engine: &Arc<Engine>, at: impl IntoLocation) -> Result<Box<dyn DataSet>, Error> {
    let location = &at.into_location()?;
    let _span = tracing::debug_span!("open", at = %location).entered();
    for format in FORMATS {
        if let Some(set) = format.open(engine, location)? {
            return Ok(set);
        }
    }
    Err(Error::NoNode { at: location.to_string() })
}

impl Array {
    /// Opens the array at a URL, a path or a [`Location`], in any format, on the shared engine: the
    /// finest level of a data set that has several.
    ///
    /// [`Error::NotAnArray`] if it is a group. See [`open`] for what it costs, and
    /// [`DataSet::array`] for other levels.
    pub fn open(at: impl IntoLocation) -> Result<Self, Error> {
        open(at)?.array(0)
    }

    /// Opens an array on the caller's engine. See [`Array::open`].
    pub fn open_in(engine: &Arc<Engine>, at: impl IntoLocation) -> Result<Self, Error> {
        open_in(engine, at)?.array(0)
    }
}

/// All objects that the data set at a location may have, according to its documents; `None` if
/// there is no data set. Costs what [`open`] costs, plus a read for each document that another one
/// names.
pub(crate) fn contents(location: &Location) -> Result<Option<Contents>, ContentsError> {
    for format in FORMATS {
        if let Some(contents) = format.contents(location)? {
            return Ok(Some(contents));
        }
    }
    Ok(None)
}

/// Refuses a folder with documents that name a folder outside `within`. One read for each document
/// in `listing` that names folders.
pub(crate) fn check_inside(
    within: &Location,
    folder: &Location,
    listing: &Listing,
) -> Result<(), ContentsError> {
    FORMATS.iter().try_for_each(|format| format.check_inside(within, folder, listing))
}

/// The names of the documents of each format.
pub(crate) fn document_names() -> impl Iterator<Item = DocumentNames> {
    FORMATS.iter().map(|format| format.documents())
}

/// When a document may appear among those of its folder; `None` if the object is not a document.
pub(crate) fn document_rank(key: &Key) -> Option<DocumentRank> {
    let name = last_part(key);
    document_names().find_map(|names| names.rank(name))
}

/// Whether an object describes others.
pub(crate) fn is_document(key: &Key) -> bool {
    document_rank(key).is_some()
}

/// Whether the name of an object says how it is encoded.
pub(crate) fn names_encoding(key: &Key) -> bool {
    FORMATS.iter().any(|format| format.names_encoding(last_part(key)))
}

fn last_part(key: &Key) -> &str {
    key.as_str().rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_of_all_formats_are_known_by_their_names_alone() {
        let rank = |text: &str| document_rank(&Key::new(text).unwrap());
        for (text, expected) in [
            ("zarr.json", DocumentRank::Making),
            ("a/.zarray", DocumentRank::Making),
            ("a/.zgroup", DocumentRank::Making),
            ("a/b/.zattrs", DocumentRank::Before),
            (".zmetadata", DocumentRank::After),
            ("mesh/info", DocumentRank::Making),
            ("color/1/header.wkw", DocumentRank::Making),
            ("datasource-properties.json", DocumentRank::Making),
        ] {
            assert_eq!(rank(text), Some(expected), "{text}");
        }
        for text in ["c/0/0", "zarr.json.bak", "info/0", "azarr.json", "z0/y0/x0.wkw"] {
            assert_eq!(rank(text), None, "{text}");
        }
        assert!(DocumentRank::Before < DocumentRank::Making);
        assert!(DocumentRank::Making < DocumentRank::After);
    }
}
