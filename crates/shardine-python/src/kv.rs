//! Values by 64-bit key, in a folder of uint64 shards.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::Value;
use shardine::precomputed::{KeyValueStore, KeyValues, PayloadKind};
use shardine::shard::uint64::Sharding;
use shardine::{Engine, Error, Location};

use crate::engine::{self, Inherited};
use crate::place::{self, Place};
use crate::{error, run};

/// How many folders above one of shards are looked at for an `info`.
const MOST_ABOVE: usize = 4;

/// An open folder and where it is.
#[derive(Clone)]
struct Folder {
    store: Arc<KeyValueStore>,
    location: Location,
}

/// A folder of uint64 shards.
#[pyclass(subclass, module = "shardine._shardine", frozen)]
pub struct KeyValueBase {
    url: String,
    options: Py<PyAny>,
    sharding: Option<String>,
    folder: Mutex<Inherited<Folder>>,
}

impl KeyValueBase {
    fn folder(&self, py: Python<'_>) -> PyResult<Folder> {
        let known = self.folder.lock().unwrap_or_else(PoisonError::into_inner).get().cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let new = open(py, &self.url, self.options.bind(py), self.sharding.as_deref())?;
        *self.folder.lock().unwrap_or_else(PoisonError::into_inner) = Inherited::new(new.clone());
        Ok(new)
    }

    fn update(&self, py: Python<'_>, values: &KeyValues) -> PyResult<()> {
        let folder = self.folder(py)?;
        run::long(py, |_| folder.store.update(values).map(drop))
    }
}

/// Opens a folder. Its sharding is given, or found in an `info`: its own, or that of the volume or
/// annotations that it belongs to.
fn open(
    py: Python<'_>,
    url: &str,
    options: &Bound<'_, PyAny>,
    sharding: Option<&str>,
) -> PyResult<Folder> {
    let at = |url: &str| Place::new(url.to_owned(), options)?.location(py);
    let (location, engine) = (at(url)?, engine::current(py)?);
    let folder = |store| Folder { store: Arc::new(store), location: location.clone() };
    if let Some(text) = sharding {
        let wrong = |message: String| error::request(py, &format!("sharding: {message}"), None);
        let document: Value =
            serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        let sharding = Sharding::from_json(&document).map_err(|error| wrong(error.to_string()))?;
        let known = place::on(py, &location, || KeyValueStore::open(&engine, &location));
        let kind = known.map_or(PayloadKind::Unknown, |known| known.kind());
        return Ok(folder(KeyValueStore::with_sharding(&engine, &location, sharding, kind)));
    }
    let mut above = vec![];
    let mut parent = url.trim_end_matches('/');
    while let Some((shorter, _)) = parent.rsplit_once('/') {
        if above.len() == MOST_ABOVE || shorter.is_empty() || shorter.ends_with('/') {
            break;
        }
        above.push((at(shorter)?, url.trim_end_matches('/')[shorter.len() + 1..].to_owned()));
        parent = shorter;
    }
    if !url.contains('/') {
        above.push((at(".")?, url.to_owned()));
    }
    place::on(py, &location, || find(&engine, &location, &above)).map(folder)
}

fn find(
    engine: &Arc<Engine>,
    location: &Location,
    above: &[(Location, String)],
) -> Result<KeyValueStore, Error> {
    match KeyValueStore::open(engine, location) {
        Err(Error::NoKeyValues { .. }) => {}
        opened => return opened,
    }
    for (parent, folder) in above {
        match KeyValueStore::open_in(engine, parent, folder) {
            Err(Error::NoKeyValues { .. }) => {}
            opened => return opened,
        }
    }
    Err(Error::NoKeyValues { at: location.to_string() })
}

#[pymethods]
impl KeyValueBase {
    #[new]
    #[pyo3(signature = (url, options, sharding))]
    fn new(
        py: Python<'_>,
        url: String,
        options: &Bound<'_, PyAny>,
        sharding: Option<String>,
    ) -> PyResult<Self> {
        let folder = Mutex::new(Inherited::new(open(py, &url, options, sharding.as_deref())?));
        Ok(Self { url, options: options.clone().unbind(), sharding, folder })
    }

    /// How keys are sharded, as JSON.
    #[getter]
    fn _sharding(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.folder(py)?.store.sharding().to_json().to_string())
    }

    /// The absolute URL of the folder.
    #[getter]
    fn url(&self, py: Python<'_>) -> PyResult<String> {
        let location = self.folder(py)?.location;
        Ok(location.url().unwrap_or_else(|| location.to_string()))
    }

    /// The value of a key; `None` if there is none.
    fn _get<'py>(&self, py: Python<'py>, key: u64) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let Folder { store, location } = self.folder(py)?;
        let value = place::on(py, &location, || store.get(key))?;
        Ok(value.map(|value| PyBytes::new(py, &value)))
    }

    /// The fragments that lie before the manifest of a mesh; `None` if there is no such key.
    fn fragments<'py>(&self, py: Python<'py>, key: u64) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let Folder { store, location } = self.folder(py)?;
        let value = place::on(py, &location, || store.get_fragments(key))?;
        Ok(value.map(|value| PyBytes::new(py, &value)))
    }

    /// All keys, ascending. Reads only indexes.
    fn _keys(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        let store = self.folder(py)?.store;
        run::long(py, |_| {
            let mut keys = Vec::new();
            store.list(|listed| keys.push(listed.key))?;
            keys.sort_unstable();
            Ok(keys)
        })
    }

    /// Stores values, those of one shard in one step; fragments belong to the manifest of a mesh.
    fn _put(&self, py: Python<'_>, values: Vec<(u64, Vec<u8>, Option<Vec<u8>>)>) -> PyResult<()> {
        let values =
            values.into_iter().fold(KeyValues::new(), |values, (key, value, fragments)| {
                match fragments {
                    Some(fragments) => values.put_mesh(key, value, fragments),
                    None => values.put(key, value),
                }
            });
        self.update(py, &values)
    }

    /// Removes keys.
    fn _remove(&self, py: Python<'_>, keys: Vec<u64>) -> PyResult<()> {
        self.update(py, &keys.into_iter().fold(KeyValues::new(), KeyValues::remove))
    }
}
