//! Reports as objects of Python, and documents of Python as JSON.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList};
use serde_json::{Map, Number, Value};

/// The same value in Python.
pub fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Null => Ok(py.None().into_bound(py)),
        Value::Bool(value) => value.into_bound_py_any(py),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => number.into_bound_py_any(py),
            (None, Some(number)) => number.into_bound_py_any(py),
            (None, None) => number.as_f64().into_bound_py_any(py),
        },
        Value::String(text) => text.into_bound_py_any(py),
        Value::Array(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(to_python(py, item)?)?;
            }
            Ok(list.into_any())
        }
        Value::Object(members) => {
            let dict = PyDict::new(py);
            for (name, value) in members {
                dict.set_item(name, to_python(py, value)?)?;
            }
            Ok(dict.into_any())
        }
    }
}

/// How deep a document may be.
const DEEPEST: usize = 64;

/// A document of Python, as `json.loads` would give it, as JSON; `None` if it holds anything else.
pub fn from_python(value: &Bound<'_, PyAny>) -> Option<Value> {
    document(value, DEEPEST)
}

fn document(value: &Bound<'_, PyAny>, deep: usize) -> Option<Value> {
    let deep = deep.checked_sub(1)?;
    if value.is_none() {
        return Some(Value::Null);
    }
    if let Ok(value) = value.cast::<PyBool>() {
        return Some(Value::Bool(value.is_true()));
    }
    if let Ok(text) = value.extract::<String>() {
        return Some(Value::String(text));
    }
    if let Ok(dict) = value.cast::<PyDict>() {
        let mut members = Map::new();
        for (name, value) in dict {
            members.insert(name.extract().ok()?, document(&value, deep)?);
        }
        return Some(Value::Object(members));
    }
    if let Ok(number) = value.extract::<i64>() {
        return Some(Value::Number(number.into()));
    }
    if let Ok(number) = value.extract::<u64>() {
        return Some(Value::Number(number.into()));
    }
    if let Ok(number) = value.extract::<f64>() {
        return Number::from_f64(number).map(Value::Number);
    }
    let items = value.try_iter().ok()?;
    items.map(|item| document(&item.ok()?, deep)).collect::<Option<Vec<_>>>().map(Value::Array)
}
