//! The nodes of a new OME-Zarr hierarchy, before it is known how their arrays are stored.

use serde_json::{Map, Value};

use super::super::rebuild::AxisMap;
use super::nodes::{OldArray, OldGroup};
use super::ome_form::OmeForm;
use crate::Error;
use crate::ome::{OmeAxis, OmeError, OmeMetadata};
use crate::zarr::metadata::GroupMetadata;

/// A node of the new hierarchy.
pub(super) struct NewNode {
    pub path: String,
    pub content: NewContent,
}

#[expect(clippy::large_enum_variant, reason = "there is one for each array")]
pub(super) enum NewContent {
    Group(OldGroup),
    Array(OldArray, Option<LevelOf>),
}

/// The image that an array is a level of.
#[derive(Clone)]
pub(super) struct LevelOf {
    pub axes: Vec<OmeAxis>,
    pub map: AxisMap,
    pub number: usize,
}

pub(super) fn ome_error(at: &str) -> impl Fn(OmeError) -> Error {
    move |source| Error::Ome { at: at.to_owned(), source: Box::new(source) }
}

/// Puts OME-Zarr metadata among the attributes of a group.
pub(super) fn write(
    at: &str,
    metadata: &OmeMetadata,
    form: &OmeForm,
    group: &mut GroupMetadata,
) -> Result<(), Error> {
    let mut attributes = group.attributes().clone();
    write_into(metadata, form, &mut attributes).map_err(ome_error(at))?;
    group.set_attributes(attributes);
    Ok(())
}

fn write_into(
    metadata: &OmeMetadata,
    form: &OmeForm,
    attributes: &mut Map<String, Value>,
) -> Result<(), OmeError> {
    if form.version.release().is_zarr3() {
        return metadata.write(&form.version, attributes);
    }
    // Up to 0.4 there is no difference between what is not known and other attributes.
    let mut metadata = metadata.clone();
    let other = std::mem::take(&mut metadata.other);
    metadata.write(&form.version, attributes)?;
    for (name, value) in other {
        if attributes.contains_key(&name) {
            let what = format!("the member \"{}\" of \"ome\"", name.escape_debug());
            return Err(OmeError::NotExpressible { version: form.version.to_string(), what });
        }
        attributes.insert(name, value);
    }
    Ok(())
}
