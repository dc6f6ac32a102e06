//! webknossos-wrap data sets: folders with a `header.wkw`, and what a `datasource-properties.json`
//! says about them. They are read-only.
//!
//! The folder of a magnification is an array with the axes x, y, z and channel, indexed by
//! webknossos coordinates: it extends from zero to the end of the bounding box that the document
//! gives for its layer, or where there is none, to the end of the last file.

mod array;
mod contents;
mod layers;
mod properties;

use std::sync::Arc;

use shardine_store::{Listing, StoreExt};

use crate::format::{Contents, ContentsError, DocumentNames, Format};
use crate::set::DataSet;
use crate::shard::wkw::WkwHeader;
use crate::{Engine, Error, Location};

use array::{Extent, WkwArray};
use layers::{LayerPlace, WkwDataSet, WkwLayer};
use properties::Properties;
pub use properties::PropertiesError;

/// The name of the format, for display.
const NAME: &str = "webknossos-wrap";

/// The document of a data set.
const PROPERTIES: &str = "datasource-properties.json";

/// The document of a magnification.
const HEADER: &str = "header.wkw";

/// webknossos-wrap.
pub(crate) struct WebknossosWrap;

impl Format for WebknossosWrap {
    fn documents(&self) -> DocumentNames {
        DocumentNames { before: &[], making: &[PROPERTIES, HEADER], after: &[] }
    }

    /// One read for a data set; three for a magnification, and where no document above gives its
    /// extent, a listing of each folder; three for a layer, which the document above names.
    fn open(
        &self,
        engine: &Arc<Engine>,
        location: &Location,
    ) -> Result<Option<Box<dyn DataSet>>, Error> {
        Ok(match find(location)? {
            None => None,
            Some(Described::DataSet(properties)) => {
                Some(Box::new(WkwDataSet::new(engine, location, properties)))
            }
            Some(Described::Magnification(header, extent)) => {
                Some(Box::new(WkwArray::new(engine, location, header, extent)?))
            }
            Some(Described::Layer(place)) => Some(Box::new(WkwLayer::new(engine, place))),
        })
    }

    fn contents(&self, location: &Location) -> Result<Option<Contents>, ContentsError> {
        contents::contents(location)
    }

    fn check_inside(
        &self,
        within: &Location,
        folder: &Location,
        listing: &Listing,
    ) -> Result<(), ContentsError> {
        contents::check_listed(within, folder, listing)
    }
}

/// What the documents at a location, and above it, describe.
enum Described {
    DataSet(Arc<Properties>),
    /// With what a document above says about it.
    Magnification(WkwHeader, Option<Extent>),
    Layer(LayerPlace),
}

fn find(location: &Location) -> Result<Option<Described>, Error> {
    if let Some(properties) = read_properties(location)? {
        return Ok(Some(Described::DataSet(Arc::new(properties))));
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
        return Ok(Some(Described::Magnification(header, known)));
    }
    let Some((root, name)) = location.parent()? else { return Ok(None) };
    let Some(properties) = read_properties(&root)? else { return Ok(None) };
    let Some(layer) = properties.layer(&name).cloned() else { return Ok(None) };
    let place = LayerPlace::new(&root, &Arc::new(properties), &layer)?;
    // What lies below its own location is read through the store in which it was named.
    Ok(Some(Described::Layer(place.at(location))))
}

fn read_properties(location: &Location) -> Result<Option<Properties>, Error> {
    let key = location.key(PROPERTIES)?;
    let Some(bytes) = location.store.get(&key)? else { return Ok(None) };
    let wrong = |source| Error::WkwProperties { object: key, source };
    Properties::parse(&bytes).map(Some).map_err(wrong)
}
