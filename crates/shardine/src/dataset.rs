//! What there is at a place: the one detector.

use std::sync::Arc;

pub(crate) use crate::precomputed::{Info, KeyFolder, KeyFolders, read_info};
use crate::set::DataSet;
use crate::zarr::metadata::NodeMetadata;
use crate::zarr::read_document;
use crate::{Engine, Error, Location, precomputed, wkw, zarr};

/// Opens the data set of one format at a place; `None` if none of its documents is there.
type Opener = fn(&Arc<Engine>, &Location) -> Result<Option<Box<dyn DataSet>>, Error>;

/// The formats, in the order in which they are looked for.
const FORMATS: [Opener; 3] = [zarr::open_set, precomputed::open_set, wkw::open_set];

/// Opens what is at a place.
///
/// One read for a Zarr array or group; of version 2, three to five; of what has an `info`, four; of
/// webknossos-wrap five, or six and those of all magnifications. [`Error::NoNode`] if there is no
/// document of any of these. What cannot be read is an error, never nothing.
pub fn open(engine: &Arc<Engine>, location: &Location) -> Result<Box<dyn DataSet>, Error> {
    for open in FORMATS {
        if let Some(set) = open(engine, location)? {
            return Ok(set);
        }
    }
    Err(Error::NoNode { at: location.to_string() })
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
