//! Where a data set is, as Python says it.

use std::sync::Arc;

use pyo3::prelude::*;
use shardine::zarr::metadata::ZarrFormat;
use shardine::{DataSet, Engine, Location, StoreOptions, open_in};

use crate::{engine, error, run};

/// A URL and the options for its store: all that is needed to open a data set again, in this or in
/// another process.
#[derive(Clone)]
pub struct Place {
    url: String,
    options: Arc<Options>,
}

/// The options that the command line has for stores.
#[derive(Default, FromPyObject)]
#[pyo3(from_item_all)]
pub struct Options {
    /// Names and values for a remote store.
    store_options: Vec<(String, String)>,
    anonymous: bool,
    single_writer: bool,
    zarr_format: Option<u8>,
}

impl Place {
    /// A place, from a URL and a dictionary of options, as `shardine._places.options` makes it.
    pub fn new(url: String, options: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self { url, options: Arc::new(options.extract()?) })
    }

    /// The URL as given.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The location. Makes no requests.
    pub fn location(&self, py: Python<'_>) -> PyResult<Location> {
        let options = &self.options;
        let mut store = StoreOptions::new().single_writer(options.single_writer);
        store.pairs.clone_from(&options.store_options);
        if options.anonymous {
            store = store.anonymous();
        }
        let format = match options.zarr_format {
            None => None,
            Some(2) => Some(ZarrFormat::V2),
            Some(3) => Some(ZarrFormat::V3),
            Some(other) => {
                let message = format!("zarr_format={other}: must be 2 or 3");
                return Err(error::request(py, &message, None));
            }
        };
        let location = Location::with_options(&self.url, &store);
        Ok(location.map_err(|error| error::to_py(py, &error))?.with_format(format))
    }

    /// Opens the data set.
    pub fn open(&self, py: Python<'_>) -> PyResult<Box<dyn DataSet>> {
        let (location, engine) = (self.location(py)?, engine::current(py)?);
        on(py, &location, || open_in(&engine, &location))
    }
}

/// Makes a few requests to a store: on a thread of its own if it is remote and may take long.
pub fn on<T: Send>(
    py: Python<'_>,
    location: &Location,
    work: impl FnOnce() -> Result<T, shardine::Error> + Send,
) -> PyResult<T> {
    match location.store.read_cost().local {
        true => run::short(py, work),
        false => run::long(py, |_| work()),
    }
}

/// A location and the engine to use it with.
pub fn location_of(
    py: Python<'_>,
    url: String,
    options: &Bound<'_, PyAny>,
) -> PyResult<(Location, Arc<Engine>)> {
    Ok((Place::new(url, options)?.location(py)?, engine::current(py)?))
}
