//! Writes the metadata in the form of a version.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::model::{Image, Level, OmeMetadata, Other, Scene};
use super::read::{Home, MEMBERS, OME, home};
use super::transformation::{SystemRef, Transformation, TransformationKind};
use super::{LevelPlacement, OmeError, OmeRelease, OmeVersion};

/// The name of the coordinate system of an image that had none before 0.6.
const SYSTEM: &str = "physical";

impl OmeMetadata {
    /// Puts the metadata among the attributes of a group, in the form of a version from 0.4 on;
    /// what was there in another form is removed. Other attributes stay.
    ///
    /// [`OmeError::NotExpressible`] if the version has no form for something: coordinate systems,
    /// scenes and other transformations than scale and translation before 0.6, or members of `ome`
    /// that are not known before 0.5.
    pub fn write(
        &self,
        version: &OmeVersion,
        attributes: &mut Map<String, Value>,
    ) -> Result<(), OmeError> {
        let refuse = |what: &str| {
            Err(OmeError::NotExpressible { version: version.to_string(), what: what.to_owned() })
        };
        let release = version.release();
        if release < OmeRelease::V0_4 {
            return refuse("what was read: only 0.4 and later are written");
        }
        let before_systems = release < OmeRelease::V0_6;
        if before_systems && self.scene.is_some() {
            return refuse("a scene");
        }
        if !release.is_zarr3() && !self.other.is_empty() {
            let name = self.other.keys().next().map(String::as_str).unwrap_or_default();
            return refuse(&format!("the member \"{}\" of \"ome\"", name.escape_debug()));
        }
        let mut members = Map::new();
        if !self.images.is_empty() {
            let images = self.images.iter().map(|image| write_image(image, version));
            let images: Result<Vec<Value>, OmeError> = images.collect();
            members.insert("multiscales".to_owned(), Value::Array(images?));
        }
        let stated = (!release.is_zarr3()).then_some(version);
        put(&mut members, "omero", self.omero.as_ref(), None);
        put(&mut members, "labels", self.labels.as_ref(), None);
        put(&mut members, "image-label", self.image_label.as_ref(), stated);
        // The text of 0.5 still wants the version in a plate; 0.6 does not.
        let stated_in_plate = before_systems.then_some(version);
        put(&mut members, "plate", self.plate.as_ref(), stated_in_plate);
        put(&mut members, "well", self.well.as_ref(), stated);
        let layout = self.bioformats2raw_layout.as_ref();
        put(&mut members, "bioformats2raw.layout", layout, None);
        put(&mut members, "series", self.series.as_ref(), None);
        if let Some(scene) = &self.scene {
            members.insert("scene".to_owned(), write_scene(scene));
        }
        members.extend(self.other.clone());
        match home(attributes) {
            Some(Home::Member(name)) => {
                let name = name.to_owned();
                attributes.shift_remove(&name);
            }
            Some(Home::Attributes) => {
                MEMBERS.iter().for_each(|name| drop(attributes.shift_remove(*name)));
            }
            None => {}
        }
        if release.is_zarr3() {
            let mut ome = Map::new();
            ome.insert("version".to_owned(), json!(version.to_string()));
            ome.extend(members);
            attributes.insert(OME.to_owned(), Value::Object(ome));
        } else {
            attributes.extend(members);
        }
        Ok(())
    }
}

/// Puts a member with its version, where that belongs to it.
fn put<T: Serialize>(
    members: &mut Other,
    name: &str,
    value: Option<&T>,
    version: Option<&OmeVersion>,
) {
    let Some(value) = value else { return };
    let mut value = json!(value);
    if let Value::Object(inside) = &mut value {
        inside.shift_remove("version");
        inside.extend(version.map(|version| ("version".to_owned(), json!(version.to_string()))));
    }
    members.insert(name.to_owned(), value);
}

fn write_image(image: &Image, version: &OmeVersion) -> Result<Value, OmeError> {
    let refuse =
        |what: String| Err(OmeError::NotExpressible { version: version.to_string(), what });
    let mut members = Map::new();
    if !version.release().is_zarr3() {
        members.insert("version".to_owned(), json!(version.to_string()));
    }
    members.extend(image.name.as_ref().map(|name| ("name".to_owned(), json!(name))));
    let had_systems = image.system.is_some();
    // What is applied to all levels has no other place in 0.6 than in each of them.
    let folds = version.has_systems() && !had_systems;
    if version.has_systems() {
        let name = image.system.as_deref().unwrap_or(SYSTEM);
        let own = json!({ "name": name, "axes": image.axes });
        let others = image.other_systems.iter().map(|system| json!(system));
        let systems: Vec<Value> = std::iter::once(own).chain(others).collect();
        members.insert("coordinateSystems".to_owned(), Value::Array(systems));
    } else {
        if let Some(system) = image.other_systems.first() {
            return refuse(format!("the coordinate system \"{}\"", system.name.escape_debug()));
        }
        if had_systems && !image.transformations.is_empty() {
            return refuse("transformations between coordinate systems".to_owned());
        }
        members.insert("axes".to_owned(), json!(image.axes));
    }
    let mut datasets = Vec::with_capacity(image.levels.len());
    for (number, level) in image.levels.iter().enumerate() {
        let placement = match folds {
            true => image.placement(number)?,
            false => image.own_placement(level)?,
        };
        datasets.push(write_level(level, &placement, image, version));
    }
    members.insert("datasets".to_owned(), Value::Array(datasets));
    if !image.transformations.is_empty() && !folds {
        members.insert("coordinateTransformations".to_owned(), json!(image.transformations));
    }
    members.extend(image.other.clone());
    Ok(Value::Object(members))
}

fn write_level(
    level: &Level,
    placement: &LevelPlacement,
    image: &Image,
    version: &OmeVersion,
) -> Value {
    let mut all = placement.transformations();
    // A translation of zero says something, too, if a document has it.
    let says_zero = level.transformations.iter().any(has_translation);
    if says_zero && !placement.is_translated() {
        all.push(Transformation::translation(placement.translation.clone()));
    }
    if version.has_systems() {
        let mut one = match all.len() {
            1 => all.remove(0),
            _ => Transformation::new(TransformationKind::Sequence(all)),
        };
        one.input = Some(SystemRef::array(&*level.path));
        one.output = Some(SystemRef::system(image.system.as_deref().unwrap_or(SYSTEM)));
        all = vec![one];
    }
    let mut members = Map::new();
    members.insert("path".to_owned(), json!(level.path));
    members.insert("coordinateTransformations".to_owned(), json!(all));
    members.extend(level.other.clone());
    Value::Object(members)
}

/// Whether a transformation is a translation, or a sequence with one.
fn has_translation(one: &Transformation) -> bool {
    match &one.kind {
        TransformationKind::Translation(_) => true,
        TransformationKind::Sequence(steps) => steps.iter().any(has_translation),
        _ => false,
    }
}

fn write_scene(scene: &Scene) -> Value {
    let mut members = Map::new();
    if !scene.systems.is_empty() {
        members.insert("coordinateSystems".to_owned(), json!(scene.systems));
    }
    members.insert("coordinateTransformations".to_owned(), json!(scene.transformations));
    members.extend(scene.other.clone());
    Value::Object(members)
}
