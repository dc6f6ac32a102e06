//! Errors of the library as Python exceptions.

use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use shardine::{EngineError, Error, ErrorKind, RegionError};

/// The module that defines the exceptions.
const MODULE: &str = "shardine._errors";

/// The exception for an error of the library: its class by [`Error::kind`], the message and hint
/// that the command line prints, and for damage the object, the shard and the chunk.
pub fn to_py(py: Python<'_>, error: &Error) -> PyErr {
    if let Error::Region(RegionError::TooLarge { .. }) = error {
        return PyMemoryError::new_err(error.to_string());
    }
    let (class, kind) = class_of(error.kind());
    let raised = exception(py, class, &error.to_string(), error.hint().as_deref());
    match raised.and_then(|raised| name_damage(&raised, kind, error).map(|()| raised)) {
        Ok(raised) => PyErr::from_value(raised),
        Err(failure) => failure,
    }
}

/// A [`RequestError`](shardine::ErrorKind::Request) of the package itself.
pub fn request(py: Python<'_>, message: &str, hint: Option<&str>) -> PyErr {
    exception(py, "RequestError", message, hint).map_or_else(|e| e, PyErr::from_value)
}

/// The class of a kind of errors, and the word for the kind.
fn class_of(kind: ErrorKind) -> (&'static str, &'static str) {
    match kind {
        ErrorKind::NotFound => ("NotFoundError", "not-found"),
        ErrorKind::Damaged => ("DamagedError", "damaged"),
        ErrorKind::Request => ("RequestError", "request"),
        ErrorKind::Unsupported => ("UnsupportedError", "unsupported"),
        ErrorKind::Exists => ("ExistsError", "exists"),
        ErrorKind::Busy => ("ConflictError", "busy"),
        ErrorKind::Race => ("ConflictError", "race"),
        ErrorKind::Storage => ("StorageError", "storage"),
        ErrorKind::Cancelled => ("Cancelled", "cancelled"),
        _ => ("ShardineError", "request"),
    }
}

fn exception<'py>(
    py: Python<'py>,
    class: &str,
    message: &str,
    hint: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    static CLASSES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let classes =
        CLASSES.get_or_try_init(py, || Ok::<_, PyErr>(py.import(MODULE)?.dict().unbind()))?;
    classes.bind(py).as_any().get_item(class)?.call1((message, hint))
}

/// Sets `kind`, and says what is damaged where the error does.
fn name_damage(raised: &Bound<'_, PyAny>, kind: &str, error: &Error) -> PyResult<()> {
    raised.setattr("kind", kind)?;
    let tuple = |numbers: &[u64]| pyo3::types::PyTuple::new(raised.py(), numbers);
    match error {
        Error::Engine(EngineError::Shard { object, shard, .. }) => {
            raised.setattr("object", object.as_str())?;
            raised.setattr("shard", tuple(shard)?)?;
        }
        Error::Engine(
            EngineError::Decode { object, chunk, .. } | EngineError::Encode { object, chunk, .. },
        ) => {
            raised.setattr("object", object.as_str())?;
            raised.setattr("chunk", tuple(chunk)?)?;
        }
        Error::Metadata { object, .. }
        | Error::Layout { object, .. }
        | Error::Info { object, .. }
        | Error::Sharding { object, .. } => raised.setattr("object", object.as_str())?,
        _ => {}
    }
    Ok(())
}
