//! Data types as numpy has them.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use shardine::DataType;

/// The numpy type for elements as they are in memory, from `shardine._dtypes`.
pub fn of<'py>(py: Python<'py>, data_type: &DataType) -> PyResult<Bound<'py, PyAny>> {
    static OF: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let of = OF.get_or_try_init(py, || {
        Ok::<_, PyErr>(py.import("shardine._dtypes")?.getattr("of")?.unbind())
    })?;
    let size = match data_type.size() {
        shardine::ElementSize::Fixed(size) => size,
        shardine::ElementSize::Variable => 0,
    };
    of.bind(py).call1((data_type.name(), data_type.numpy_descr(), size))
}
