//! Reads the metadata of every version.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::model::{CoordinateSystem, Image, Level, OmeAxis, OmeMetadata, Other, Scene};
use super::transformation::Transformation;
use super::{OmeError, OmeRelease, OmeVersion};

/// The attribute that holds all metadata from 0.5 on.
pub(super) const OME: &str = "ome";

/// An early form of 0.5 named the attribute after the version.
pub(super) const VERSIONED: &str = "https://ngff.openmicroscopy.org/";

/// The members of `ome`, which up to 0.4 are attributes among all others.
pub(super) const MEMBERS: [&str; 9] = [
    "multiscales",
    "omero",
    "labels",
    "image-label",
    "plate",
    "well",
    "bioformats2raw.layout",
    "series",
    "scene",
];

/// What every axis is called up to 0.2.
const USUAL_AXES: [&str; 5] = ["t", "c", "z", "y", "x"];

/// Where the metadata is among the attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Home<'a> {
    /// In this attribute, an object.
    Member(&'a str),
    /// Among all others.
    Attributes,
}

/// Where a group's OME-Zarr metadata is; `None` if it has none.
///
/// The attributes `labels` and `series` alone do not make it OME-Zarr up to 0.4, as anything may be
/// called that: what they hold must be paths.
pub(crate) fn home(attributes: &Map<String, Value>) -> Option<Home<'_>> {
    if attributes.get(OME).is_some_and(Value::is_object) {
        return Some(Home::Member(OME));
    }
    if let Some((name, _)) =
        attributes.iter().find(|(name, value)| name.starts_with(VERSIONED) && value.is_object())
    {
        return Some(Home::Member(name));
    }
    let is_paths = |value: &Value| {
        value
            .as_array()
            .is_some_and(|paths| paths.iter().all(Value::is_string) && !paths.is_empty())
    };
    let tells = |name: &str| match (name, attributes.get(name)) {
        (_, None) | ("scene", _) => false,
        ("labels" | "series", Some(value)) => is_paths(value),
        _ => true,
    };
    MEMBERS.iter().any(|name| tells(name)).then_some(Home::Attributes)
}

impl OmeMetadata {
    /// Reads the metadata among the attributes of a group; `None` if there is none.
    ///
    /// The document need not follow the rules of its version, only be understandable: see
    /// [`jobs::verify`](crate::jobs::verify) for those.
    pub fn read(attributes: &Map<String, Value>) -> Result<Option<Self>, OmeError> {
        match home(attributes) {
            None => Ok(None),
            Some(Home::Attributes) => {
                let own = MEMBERS.iter().filter(|name| **name != "scene");
                let own = own.filter_map(|name| Some(((*name).to_owned(), attributes.get(*name)?)));
                let members: Other = own.map(|(name, value)| (name, value.clone())).collect();
                let version = match stated_inside(&members) {
                    Some(Value::String(text)) => Some(text.parse()?),
                    _ => None,
                };
                read_members(members, version, OmeRelease::V0_4).map(Some)
            }
            Some(Home::Member(name)) => {
                let members = attributes.get(name).and_then(Value::as_object).cloned();
                let mut members = members.unwrap_or_default();
                let inside = members.shift_remove("version");
                let version = match (name.strip_prefix(VERSIONED), &inside) {
                    (Some(text), _) => Some(text.parse()?),
                    (None, Some(Value::String(text))) => Some(text.parse()?),
                    (None, Some(_)) => return Err(OmeError::member("version", "is not a string")),
                    (None, None) => None,
                };
                read_members(members, version, OmeRelease::V0_5).map(Some)
            }
        }
    }
}

impl OmeMetadata {
    /// Whether an attribute of a group is part of its OME-Zarr metadata, and not one of its own.
    pub fn is_attribute(attributes: &Map<String, Value>, name: &str) -> bool {
        match home(attributes) {
            None => false,
            Some(Home::Member(member)) => member == name,
            Some(Home::Attributes) => MEMBERS.contains(&name) && name != "scene",
        }
    }
}

/// The version that the objects of 0.4 and before state.
fn stated_inside(members: &Other) -> Option<&Value> {
    let image = members.get("multiscales").and_then(|images| images.get(0));
    image
        .and_then(|image| image.get("version"))
        .or_else(|| members.get("plate")?.get("version"))
        .or_else(|| members.get("well")?.get("version"))
        .or_else(|| members.get("image-label")?.get("version"))
        .or_else(|| members.get("omero")?.get("version"))
}

/// Reads the members of a version, or of the one that they look like; `usual` if that cannot be
/// told.
fn read_members(
    mut members: Other,
    version: Option<OmeVersion>,
    usual: OmeRelease,
) -> Result<OmeMetadata, OmeError> {
    let states_version = version.is_some();
    let version = version.unwrap_or_else(|| guess(&members, usual).into());
    let mut metadata = OmeMetadata::new(version);
    metadata.states_version = states_version;
    if let Some(images) = members.shift_remove("multiscales") {
        let Value::Array(images) = images else {
            return Err(OmeError::member("multiscales", "is not a list"));
        };
        for (number, image) in images.into_iter().enumerate() {
            let image = read_image(image, metadata.version.release())
                .map_err(|error| within(&format!("multiscales[{number}]"), error))?;
            metadata.images.push(image);
        }
    }
    metadata.omero = typed(&mut members, "omero")?;
    metadata.labels = typed(&mut members, "labels")?;
    metadata.image_label = typed(&mut members, "image-label")?;
    metadata.plate = typed(&mut members, "plate")?;
    metadata.well = typed(&mut members, "well")?;
    metadata.bioformats2raw_layout = typed(&mut members, "bioformats2raw.layout")?;
    metadata.series = typed(&mut members, "series")?;
    if let Some(scene) = members.shift_remove("scene") {
        metadata.scene = Some(read_scene(scene).map_err(|error| within("scene", error))?);
    }
    metadata.other = members;
    Ok(metadata)
}

/// The version of a document that states none.
pub(super) fn guess(members: &Other, usual: OmeRelease) -> OmeRelease {
    let image = members.get("multiscales").and_then(|images| images.get(0));
    let has = |name: &str| image.is_some_and(|image| image.get(name).is_some());
    let axes = image.and_then(|image| image.get("axes"));
    if members.contains_key("scene") || has("coordinateSystems") {
        return OmeRelease::V0_6;
    }
    match axes {
        _ if usual.is_zarr3() || image.is_none() => usual,
        None => OmeRelease::V0_2,
        Some(axes) if axes.get(0).is_some_and(Value::is_string) => OmeRelease::V0_3,
        Some(_) => usual,
    }
}

/// Puts where it is before what an error names.
fn within(place: &str, error: OmeError) -> OmeError {
    match error {
        OmeError::Member { member, reason } => {
            OmeError::Member { member: format!("{place}.{member}"), reason }
        }
        error => error,
    }
}

/// Takes a member of a known form.
fn typed<T: for<'a> Deserialize<'a>>(
    members: &mut Other,
    name: &str,
) -> Result<Option<T>, OmeError> {
    let Some(value) = members.shift_remove(name) else { return Ok(None) };
    T::deserialize(value).map(Some).map_err(|error| OmeError::member(name, error.to_string()))
}

fn object(value: Value, what: &str) -> Result<Other, OmeError> {
    match value {
        Value::Object(members) => Ok(members),
        _ => Err(OmeError::member(what, "is not an object")),
    }
}

fn read_image(image: Value, release: OmeRelease) -> Result<Image, OmeError> {
    let mut members = object(image, "image")?;
    let mut image = Image::default();
    // Up to 0.4 it is written again where it was; later versions have it elsewhere.
    members.shift_remove("version");
    image.name = match members.get("name") {
        Some(Value::String(_)) => typed(&mut members, "name")?,
        _ => None,
    };
    let mut systems: Vec<CoordinateSystem> =
        typed(&mut members, "coordinateSystems")?.unwrap_or_default();
    let axes = members.shift_remove("axes");
    image.levels = read_levels(members.shift_remove("datasets"))?;
    image.transformations = read_transformations(&mut members)?;
    match axes {
        Some(axes) if systems.is_empty() => image.axes = read_axes(axes)?,
        None if systems.is_empty() && release < OmeRelease::V0_3 => {
            image.axes = USUAL_AXES.map(OmeAxis::named).to_vec();
        }
        None if systems.is_empty() => return Err(OmeError::member("axes", "is missing")),
        axes => {
            let at = intrinsic(&systems, &image.levels);
            let own = systems.remove(at);
            (image.axes, image.system) = (own.axes, Some(own.name));
            image.other_systems = systems;
            members.extend(axes.map(|axes| ("axes".to_owned(), axes)));
        }
    }
    image.other = members;
    Ok(image)
}

/// Which of the coordinate systems the levels lead to; the first if they do not say.
fn intrinsic(systems: &[CoordinateSystem], levels: &[Level]) -> usize {
    use super::SystemRef;
    let output = levels.first().and_then(|level| level.transformations.last()?.output.as_ref());
    let name = match output {
        Some(SystemRef::Name(name)) => Some(name),
        Some(SystemRef::Path { name, .. }) => name.as_ref(),
        None => None,
    };
    systems.iter().position(|system| Some(&system.name) == name).unwrap_or(0)
}

fn read_axes(axes: Value) -> Result<Vec<OmeAxis>, OmeError> {
    let Value::Array(axes) = axes else {
        return Err(OmeError::member("axes", "is not a list"));
    };
    let read = |(number, axis): (usize, Value)| match axis {
        Value::String(name) => Ok(OmeAxis::named(name)),
        axis => OmeAxis::deserialize(axis)
            .map_err(|error| OmeError::member(format!("axes[{number}]"), error.to_string())),
    };
    axes.into_iter().enumerate().map(read).collect()
}

fn read_levels(datasets: Option<Value>) -> Result<Vec<Level>, OmeError> {
    let Some(Value::Array(datasets)) = datasets else {
        let reason = if datasets.is_some() { "is not a list" } else { "is missing" };
        return Err(OmeError::member("datasets", reason));
    };
    let read = |(number, level): (usize, Value)| {
        let place = format!("datasets[{number}]");
        let mut members = object(level, &place)?;
        let path = typed(&mut members, "path").map_err(|error| within(&place, error))?;
        let path = path.ok_or_else(|| OmeError::member(&place, "has no path"))?;
        let transformations =
            read_transformations(&mut members).map_err(|error| within(&place, error))?;
        Ok(Level { path, transformations, other: members })
    };
    datasets.into_iter().enumerate().map(read).collect()
}

fn read_transformations(members: &mut Other) -> Result<Vec<Transformation>, OmeError> {
    Ok(typed(members, "coordinateTransformations")?.unwrap_or_default())
}

fn read_scene(scene: Value) -> Result<Scene, OmeError> {
    let mut members = object(scene, "scene")?;
    let systems = typed(&mut members, "coordinateSystems")?.unwrap_or_default();
    let transformations = read_transformations(&mut members)?;
    Ok(Scene { systems, transformations, other: members })
}
