//! What there is at a place: the one detector.

use std::sync::Arc;

pub(crate) use crate::precomputed::{Info, KeyFolder, KeyFolders, read_info};
use crate::set::DataSet;
use crate::zarr::metadata::NodeMetadata;
use crate::zarr::read_document;
use crate::{Array, Engine, Error, IntoLocation, Location, precomputed, wkw, zarr};

/// Opens the data set of one format at a place; `None` if none of its documents is there.
type Opener = fn(&Arc<Engine>, &Location) -> Result<Option<Box<dyn DataSet>>, Error>;

/// The formats, in the order in which they are looked for.
const FORMATS: [Opener; 3] = [zarr::open_set, precomputed::open_set, wkw::open_set];

/// Opens what is at a URL, a path or a [`Location`], in whatever format, on the shared engine.
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
/// One read for a Zarr array or group; of version 2, three to five; of what has an `info`, four; of
/// webknossos-wrap five, or six and those of all magnifications. [`Error::NoNode`] if there is no
/// document of any of these. What cannot be read is an error, never nothing.
pub fn open(at: impl IntoLocation) -> Result<Box<dyn DataSet>, Error> {
    open_in(&Engine::shared()?, at)
}

/// Opens what is at a place on an engine of the caller. See [`open`].
pub fn open_in(engine: &Arc<Engine>, at: impl IntoLocation) -> Result<Box<dyn DataSet>, Error> {
    let location = &at.into_location()?;
    let _span = tracing::debug_span!("open", at = %location).entered();
    for open in FORMATS {
        if let Some(set) = open(engine, location)? {
            return Ok(set);
        }
    }
    Err(Error::NoNode { at: location.to_string() })
}

impl Array {
    /// Opens the array at a URL, a path or a [`Location`], in whatever format, on the shared
    /// engine: the finest level of a data set that has several.
    ///
    /// [`Error::NotAnArray`] if it is a group. See [`open`] for what it costs, and
    /// [`DataSet::array`] for other levels.
    pub fn open(at: impl IntoLocation) -> Result<Self, Error> {
        open(at)?.array(0)
    }

    /// Opens the array at a place on an engine of the caller. See [`Array::open`].
    pub fn open_in(engine: &Arc<Engine>, at: impl IntoLocation) -> Result<Self, Error> {
        open_in(engine, at)?.array(0)
    }
}

/// The documents at a place, of formats that jobs on whole data sets know.
#[derive(Debug)]
pub(crate) enum Documents {
    /// Of a Zarr array or group.
    Node(NodeMetadata),
    Info(Info),
}

/// Reads the documents at a place; what they describe may be beyond what can be opened here.
/// [`Error::NoNode`] if there are none. Costs what [`open`] costs.
pub(crate) fn detect(location: &Location) -> Result<Documents, Error> {
    match read_document(location) {
        Ok(node) => Ok(Documents::Node(node)),
        Err(nothing @ Error::NoNode { .. }) => {
            Ok(Documents::Info(read_info(location)?.ok_or(nothing)?))
        }
        Err(error) => Err(error),
    }
}
