//! Which image an array is a level of.

use super::metadata::NodeMetadata;
use super::node::read_document;
use crate::ome::OmeMetadata;
use crate::{Error, Location};

/// An array as a level of an OME-Zarr image.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ImageLevel {
    /// The group of the image.
    pub image: Location,
    /// Which level; 0 is the finest.
    pub level: usize,
    /// The paths of all levels below the group, the finest first.
    pub levels: Vec<String>,
}

impl ImageLevel {
    /// Finds the image of an array, if the group directly above it says that the array is one of
    /// its levels. One read; up to five for version 2.
    pub fn of_array(location: &Location) -> Result<Option<Self>, Error> {
        let Some((image, name)) = location.parent()? else { return Ok(None) };
        let group = match read_document(&image) {
            Ok(NodeMetadata::Group(group)) => group,
            Ok(NodeMetadata::Array(_)) | Err(Error::NoNode { .. } | Error::Metadata { .. }) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        // What cannot be understood names no levels.
        let metadata = OmeMetadata::read(group.attributes()).ok().flatten();
        let Some(found) = metadata.as_ref().and_then(OmeMetadata::image) else { return Ok(None) };
        let levels: Vec<String> = found.levels.iter().map(|level| level.path.clone()).collect();
        let level = levels.iter().position(|path| *path == name);
        Ok(level.map(|level| Self { image, level, levels }))
    }

    /// The levels that are computed from this one.
    pub fn coarser(&self) -> &[String] {
        self.levels.get(self.level + 1..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use shardine_store::{Condition, Key, StoreExt};

    use super::*;

    #[test]
    fn an_array_is_a_level_if_the_group_above_says_so() {
        let root = Location::memory();
        let put = |name: &str, text: &str| {
            let key = Key::new(name).unwrap();
            root.store.put(&key, text.as_bytes(), Condition::None).unwrap();
        };
        let at = |path: &str| ImageLevel::of_array(&root.join(path).unwrap());
        assert!(at("image/1").unwrap().is_none());
        let group = |attributes: &str| {
            format!(r#"{{"zarr_format": 3, "node_type": "group", "attributes": {attributes}}}"#)
        };
        put("image/zarr.json", &group("{}"));
        assert!(at("image/1").unwrap().is_none());
        put("image/zarr.json", &group(r#"{"ome": {"version": "0.5", "multiscales": 7}}"#));
        assert!(at("image/1").unwrap().is_none());
        let image = r#"{"ome": {"version": "0.5", "multiscales": [{"axes": [],
            "datasets": [{"path": "0"}, {"path": "1"}, {"path": "2"}]}]}}"#;
        put("image/zarr.json", &group(image));
        let found = at("image/1").unwrap().unwrap();
        assert_eq!((found.level, found.coarser()), (1, &["2".to_owned()][..]));
        assert!(at("image/2").unwrap().unwrap().coarser().is_empty());
        assert!(at("image/3").unwrap().is_none());
        assert!(ImageLevel::of_array(&root).unwrap().is_none());
    }
}
