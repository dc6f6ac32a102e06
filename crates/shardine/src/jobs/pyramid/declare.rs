//! Lets an image name its new levels, when all of them are complete.

use serde_json::{Map, Value, json};
use shardine_codec::DownsampleMethod;
use shardine_store::{Condition, StoreExt};

use super::build::Build;
use super::places::{BuiltLevel, remove_all};
use super::plan::LevelPlan;
use crate::Error;
use crate::jobs::frame::Marker;
use crate::ome::{OmeError, OmeMetadata};
use crate::zarr::metadata::{GroupMetadata, ZarrFormat};
use crate::zarr::{DOCUMENT, change_attributes, formats_at, renew_consolidated_above};

impl Build<'_> {
    /// Declares the levels when all objects are there.
    pub(super) fn finish(
        &self,
        levels: &[BuiltLevel<'_>],
        surplus: &[String],
        in_parts: bool,
        marker: Marker,
    ) -> Result<(), Error> {
        let at = &self.image.location;
        if in_parts && !marker.is_under_way(at)? {
            // Another process has finished it, and others may have changed it since.
            return Ok(());
        }
        for level in levels.iter().filter(|level| !level.is_switched()) {
            if level.replaced.is_none() {
                self.make_groups(&level.plan.path)?;
            }
            let place = level.array.location();
            for (name, document) in &level.plan.documents {
                place.store.put(&place.key(name)?, document, Condition::None)?;
            }
        }
        if levels.iter().any(|level| level.replaced.is_some()) {
            // Until the new levels are in place, the image has none but the finest.
            self.declare(&[])?;
        }
        for level in levels {
            if let Some(replaced) = &level.replaced {
                replaced.switch()?;
            }
            if self.image.format == ZarrFormat::V3 {
                // What cannot be renewed is out of date, and `verify` says so.
                let _ = renew_consolidated_above(&level.home);
            }
        }
        self.declare(&self.plan.levels)?;
        for path in surplus {
            remove_all(&self.image.place(path)?)?;
        }
        for level in levels {
            if let Some(replaced) = &level.replaced {
                replaced.end()?;
            }
        }
        marker.end(at)
    }

    /// The paths of old levels that the image no longer has.
    pub(super) fn surplus(&self) -> Result<Vec<String>, Error> {
        let images = &self.image.metadata.images;
        let old = self.image.image()?.levels.iter().skip(1).map(|level| level.path.clone());
        let elsewhere = |path: &String| {
            images.iter().skip(1).any(|image| image.levels.iter().any(|level| level.path == *path))
        };
        let stays = |path: &String| {
            self.plan.levels.iter().any(|level| level.path == *path) || elsewhere(path)
        };
        Ok(old.filter(|path| !stays(path)).collect())
    }

    /// Makes the groups between the image and a level, if there are any.
    fn make_groups(&self, path: &str) -> Result<(), Error> {
        let names: Vec<&str> = path.split('/').collect();
        for depth in 1..names.len() {
            let group = self.image.place(&names[..depth].join("/"))?;
            if !formats_at(&group)?.is_empty() {
                continue;
            }
            let (name, document) = match self.image.format {
                ZarrFormat::V3 => (DOCUMENT, GroupMetadata::new(Map::new()).to_bytes()),
                ZarrFormat::V2 => (".zgroup", b"{\n  \"zarr_format\": 2\n}\n".to_vec()),
            };
            group.store.put(&group.key(name)?, &document, Condition::None)?;
        }
        Ok(())
    }

    /// Lets the image have these levels below the finest.
    fn declare(&self, levels: &[LevelPlan]) -> Result<(), Error> {
        let failed = std::cell::RefCell::new(None);
        let method = self.plan.method;
        let at = self.image.location.clone().with_format(Some(self.image.format));
        change_attributes(&at, &|attributes| {
            if let Err(error) = declare_in(attributes, levels, method) {
                *failed.borrow_mut() = Some(error);
            }
        })?;
        match failed.into_inner() {
            None => Ok(()),
            Some(source) => {
                Err(Error::Ome { at: self.image.location.to_string(), source: Box::new(source) })
            }
        }
    }
}

/// Changes the attributes of an image to name these levels below the finest.
pub(super) fn declare_in(
    attributes: &mut Map<String, Value>,
    levels: &[LevelPlan],
    method: DownsampleMethod,
) -> Result<(), OmeError> {
    let Some(mut metadata) = OmeMetadata::read(attributes)? else {
        return Err(OmeError::member("multiscales", "it is gone"));
    };
    let Some(image) = metadata.images.first_mut() else {
        return Err(OmeError::member("multiscales", "there is no image any more"));
    };
    let had_levels = image.levels.len() > 1;
    let old = image.levels.split_off(1.min(image.levels.len()));
    for (i, plan) in levels.iter().enumerate() {
        let mut level = old.iter().find(|old| old.path == plan.path).cloned().unwrap_or_default();
        level.path.clone_from(&plan.path);
        image.levels.push(level);
        image.set_placement(i + 1, &plan.placement);
    }
    if !levels.is_empty() {
        image.other.insert("type".to_owned(), json!(method));
    }
    if had_levels || levels.is_empty() {
        // It says how the old levels were made.
        image.other.shift_remove("metadata");
    }
    let version = metadata.version.clone();
    metadata.write(&version, attributes)
}
