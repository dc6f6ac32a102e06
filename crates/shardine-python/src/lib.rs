//! The Python package `shardine`: arrays with the indexing of numpy, jobs as functions.
//!
//! This crate is the module `shardine._shardine`. What needs no engine is written in Python, in the
//! folder `python/shardine`, and so is what users see: the classes here are the bases of theirs.

mod array;
mod dtype;
mod engine;
mod error;
mod index;
mod jobs;
mod kv;
mod memory;
mod place;
mod run;
mod sets;
mod vectors;

use pyo3::prelude::*;

/// The compiled part of `shardine`.
#[pymodule]
fn _shardine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(jobs::run_job, module)?)?;
    module.add_function(wrap_pyfunction!(vectors::write, module)?)?;
    module.add_function(wrap_pyfunction!(vectors::query, module)?)?;
    module.add_function(wrap_pyfunction!(vectors::info, module)?)?;
    module.add_class::<vectors::Rows>()?;
    module.add_class::<array::ArrayBase>()?;
    module.add_class::<kv::KeyValueBase>()?;
    module.add_function(wrap_pyfunction!(engine::forked, module)?)?;
    module.add_function(wrap_pyfunction!(engine::configure, module)?)?;
    module.add_function(wrap_pyfunction!(sets::describe, module)?)?;
    module.add_function(wrap_pyfunction!(sets::children, module)?)?;
    module.add_function(wrap_pyfunction!(sets::attributes, module)?)?;
    module.add_function(wrap_pyfunction!(sets::change_attributes, module)?)?;
    module.add_function(wrap_pyfunction!(sets::dtype_of, module)?)?;
    module.add_function(wrap_pyfunction!(sets::join, module)?)?;
    module.add_function(wrap_pyfunction!(sets::create_array, module)?)?;
    module.add_function(wrap_pyfunction!(sets::create_group, module)?)?;
    Ok(())
}
