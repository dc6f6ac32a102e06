//! The Python package `shardine`: arrays with the indexing of numpy, jobs as functions.
//!
//! This crate is the module `shardine._shardine`. What needs no engine is written in Python, in the
//! folder `python/shardine`.

mod error;
mod run;

use pyo3::prelude::*;

/// The compiled part of `shardine`.
#[pymodule]
fn _shardine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    Ok(())
}
