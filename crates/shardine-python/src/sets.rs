//! Data sets, groups and their attributes. Documents go to Python as the text of JSON, which
//! `shardine._sets` makes objects of.

use pyo3::prelude::*;
use serde_json::{Map, Value, json};
use shardine::ome::AxisRole;
use shardine::plan::{ArrayLayout, FillChoice};
use shardine::precomputed::Volume;
use shardine::zarr::metadata::GroupMetadata;
use shardine::zarr::{ArrayNode, CreateOptions, Group, Node};
use shardine::{DataSet, DataType, ElementSize, Error, FillValue, SetKind};

use crate::place::{self, Place};
use crate::{dtype, engine, error};

/// Parses JSON that Python has made.
fn parse<T: serde::de::DeserializeOwned>(py: Python<'_>, text: &str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|error| error::request(py, &error.to_string(), None))
}

fn kind(kind: SetKind) -> &'static str {
    match kind {
        SetKind::Array => "array",
        SetKind::Levels => "levels",
        SetKind::Group => "group",
        SetKind::KeyValues => "key-values",
        _ => "other",
    }
}

fn role(role: AxisRole) -> Option<&'static str> {
    match role {
        AxisRole::Time => Some("time"),
        AxisRole::Channel => Some("channel"),
        AxisRole::Space => Some("space"),
        _ => None,
    }
}

/// What the documents of a data set say, and what is specific to OME-Zarr and volumes.
fn described(set: &dyn DataSet) -> Result<Value, Error> {
    let names = set.levels()?;
    let levels = match set.kind() {
        SetKind::Array => 1,
        _ => names.len(),
    };
    let level = |level: usize| -> Result<Value, Error> {
        let axes = set.physical(level)?.map(|axes| {
            let axis = |axis: &shardine::physical::PhysicalAxis| {
                json!({
                    "name": axis.name,
                    "type": role(axis.role),
                    "unit": axis.unit,
                    "scale": axis.scale,
                    "translation": axis.translation,
                })
            };
            axes.iter().map(axis).collect::<Vec<_>>()
        });
        Ok(json!({ "path": names.get(level), "origin": set.origin(level), "axes": axes }))
    };
    let levels = (0..levels).map(level).collect::<Result<Vec<_>, _>>()?;
    let mut facts = Map::new();
    for (name, value) in set.facts() {
        facts.insert(name.to_owned(), value);
    }
    let mut described = json!({
        "format": set.format(),
        "kind": kind(set.kind()),
        "url": set.location().url().unwrap_or_else(|| set.location().to_string()),
        "levels": levels,
        "facts": facts,
    });
    if let Some(volume) = set.downcast_ref::<Volume>() {
        described["info"] = Value::Object(volume.info().document().clone());
    }
    if let Some(group) = set.downcast_ref::<Group>()
        && let Some(ome) = group.ome()?
    {
        described["ome"] = json!({
            "version": ome.version.to_string(),
            "name": ome.image().and_then(|image| image.name.clone()),
            "is_image": ome.image().is_some(),
            "labels": ome.labels,
            "omero": ome.omero,
        });
    }
    Ok(described)
}

/// Describes what is at a URL, as JSON.
#[pyfunction]
#[pyo3(name = "_describe")]
pub fn describe(py: Python<'_>, url: String, options: &Bound<'_, PyAny>) -> PyResult<String> {
    let set = Place::new(url, options)?.open(py)?;
    let location = set.location().clone();
    Ok(place::on(py, &location, || described(&*set))?.to_string())
}

/// The names of the nodes of a Zarr group, each with what it is: `array`, `group`, or why it cannot
/// be opened.
#[pyfunction]
#[pyo3(name = "_children")]
pub fn children(
    py: Python<'_>,
    url: String,
    options: &Bound<'_, PyAny>,
) -> PyResult<Vec<(String, &'static str)>> {
    let (location, engine) = place::location_of(py, url, options)?;
    place::on(py, &location, || match Node::open(&engine, &location)? {
        Node::Array(_) => Err(Error::NotAGroup { at: location.to_string() }),
        Node::Group(group) => {
            let children = group.children()?.into_iter().map(|child| {
                let kind = match child.node {
                    Ok(Node::Array(_)) => "array",
                    Ok(Node::Group(_)) => "group",
                    Err(_) => "error",
                };
                (child.name, kind)
            });
            Ok(children.collect())
        }
    })
}

/// The attributes of a Zarr array or group, as JSON.
#[pyfunction]
#[pyo3(name = "_attributes")]
pub fn attributes(py: Python<'_>, url: String, options: &Bound<'_, PyAny>) -> PyResult<String> {
    let location = Place::new(url, options)?.location(py)?;
    let attributes = place::on(py, &location, || shardine::zarr::attributes(&location))?;
    Ok(Value::Object(attributes).to_string())
}

/// Sets some attributes of a Zarr array or group, given as a JSON object, and removes others.
#[pyfunction]
#[pyo3(name = "_change_attributes")]
pub fn change_attributes(
    py: Python<'_>,
    url: String,
    options: &Bound<'_, PyAny>,
    set: &str,
    remove: Vec<String>,
) -> PyResult<()> {
    let set: Map<String, Value> = parse(py, set)?;
    let location = Place::new(url, options)?.location(py)?;
    place::on(py, &location, || {
        shardine::zarr::change_attributes(&location, &|attributes| {
            remove.iter().for_each(|name| drop(attributes.shift_remove(name)));
            attributes.extend(set.clone());
        })
        .map(drop)
    })
}

/// The numpy type for elements of a named type, and whether they have variable lengths.
#[pyfunction]
#[pyo3(name = "_dtype_of")]
pub fn dtype_of<'py>(py: Python<'py>, name: &str) -> PyResult<(Bound<'py, PyAny>, bool)> {
    let data_type = DataType::parse_name(name);
    let data_type = data_type.map_err(|error| error::to_py(py, &error.into()))?;
    Ok((dtype::of(py, &data_type)?, data_type.size() == ElementSize::Variable))
}

/// The URL of a node below another one, or its path if that is a path. A user and a password stay.
#[pyfunction]
#[pyo3(name = "_join")]
pub fn join(
    py: Python<'_>,
    url: String,
    options: &Bound<'_, PyAny>,
    name: &str,
) -> PyResult<String> {
    let location = Place::new(url.clone(), options)?.location(py)?;
    let below = location.join(name).map_err(|error| error::to_py(py, &error))?;
    let above = url.trim_end_matches('/');
    if !url.contains("://") {
        return Ok(format!("{above}/{name}"));
    }
    let (known, below) = (location.url().unwrap_or_default(), below.url().unwrap_or_default());
    let rest = below.strip_prefix(known.trim_end_matches('/'));
    Ok(rest.map_or_else(|| below.clone(), |rest| format!("{above}{rest}")))
}

/// Creates a Zarr array. The layout is JSON, the fill value the bytes of an element.
#[pyfunction]
#[pyo3(name = "_create_array")]
#[expect(clippy::too_many_arguments, reason = "called by one function of the package")]
pub fn create_array(
    py: Python<'_>,
    url: String,
    options: &Bound<'_, PyAny>,
    shape: Vec<u64>,
    data_type: &str,
    layout: &str,
    fill: Option<Vec<u8>>,
    overwrite: bool,
) -> PyResult<()> {
    let raise = |error: Error| error::to_py(py, &error);
    let data_type = DataType::parse_name(data_type).map_err(|error| raise(error.into()))?;
    let mut layout: ArrayLayout = parse(py, layout)?;
    if let Some(fill) = fill {
        let fill = FillValue(fill);
        data_type.check_fill(&fill).map_err(|error| raise(error.into()))?;
        layout.fill = Some(FillChoice::Json(data_type.fill_to_json(&fill)));
    }
    let metadata = layout.metadata(&shape, &data_type).map_err(|error| raise(error.into()))?;
    let (location, engine) = place::location_of(py, url, options)?;
    let options = CreateOptions::default().overwrite(overwrite);
    place::on(py, &location, || {
        ArrayNode::create_with(&engine, &location, metadata, &options).map(drop)
    })
}

/// Creates a Zarr group with attributes given as a JSON object.
#[pyfunction]
#[pyo3(name = "_create_group")]
pub fn create_group(
    py: Python<'_>,
    url: String,
    options: &Bound<'_, PyAny>,
    attributes: &str,
) -> PyResult<()> {
    let attributes = GroupMetadata::new(parse(py, attributes)?);
    let location = Place::new(url, options)?.location(py)?;
    let engine = engine::current(py)?;
    place::on(py, &location, || Group::create(&engine, &location, attributes).map(drop))
}
