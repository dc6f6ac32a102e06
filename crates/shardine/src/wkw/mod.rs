//! Data sets of webknossos-wrap: folders with a `header.wkw`, and what a
//! `datasource-properties.json` says of them. They are only read.
//!
//! A folder of a magnification is an array with the axes x, y, z and channel, whose indexes are the
//! coordinates of webknossos: it reaches from zero to the end of the bounding box that the document
//! gives to its layer, or where there is none, to the end of the last file.

mod array;
mod layers;
mod properties;

use std::sync::Arc;

use shardine_store::StoreExt;

use crate::set::DataSet;
use crate::{Engine, Error, Location};

use array::WkwArray;
use layers::{WkwDataSet, WkwLayer};
use properties::Properties;
pub use properties::PropertiesError;

/// The document of a data set.
const PROPERTIES: &str = "datasource-properties.json";

/// The document of a magnification.
const HEADER: &str = "header.wkw";

/// Opens a data set, a layer or a magnification; `None` if there is none.
///
/// One read for a data set; three for a magnification, and where no document above tells its
/// extent, a listing of each folder; three for a layer, which the document above names.
pub(crate) fn open_set(
    engine: &Arc<Engine>,
    location: &Location,
) -> Result<Option<Box<dyn DataSet>>, Error> {
    if let Some(properties) = read_properties(location)? {
        let set = WkwDataSet::new(engine, location, properties);
        return Ok(Some(Box::new(set)));
    }
    if let Some(header) = array::read_header(location)? {
        let known = match location.parent()? {
            Some((layer, mag)) => match layer.parent()? {
                Some((root, layer)) => {
                    let properties = read_properties(&root)?;
                    properties.and_then(|properties| layers::extent(&properties, &layer, &mag))
                }
                None => None,
            },
            None => None,
        };
        return Ok(Some(Box::new(WkwArray::new(engine, location, header, known)?)));
    }
    let Some((root, name)) = location.parent()? else { return Ok(None) };
    let Some(properties) = read_properties(&root)? else { return Ok(None) };
    let layer = WkwLayer::of(engine, location, (&root, &name), properties)?;
    Ok(layer.map(|layer| -> Box<dyn DataSet> { Box::new(layer) }))
}

fn read_properties(location: &Location) -> Result<Option<Properties>, Error> {
    let key = location.key(PROPERTIES)?;
    let Some(bytes) = location.store.get(&key)? else { return Ok(None) };
    let wrong = |source| Error::WkwProperties { object: key, source };
    Properties::parse(&bytes).map(Some).map_err(wrong)
}
