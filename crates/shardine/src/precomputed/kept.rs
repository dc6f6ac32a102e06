//! The `info` of a volume, kept in the attributes of the group that was made from it.

use serde_json::{Map, Value, json};

use super::{AXES, InfoError, VolumeInfo};
use crate::zarr::node_names;

/// The attribute that holds what Shardine keeps.
const SHARDINE: &str = "shardine";

/// The member of it that holds an `info`.
const INFO: &str = "precomputed_info";

/// The attributes of a group that is made from a volume.
pub(crate) fn attributes(info: &VolumeInfo) -> Map<String, Value> {
    let mut attributes = Map::new();
    attributes.insert(SHARDINE.into(), json!({ INFO: info.document() }));
    attributes
}

/// The `info` kept in attributes; `None` if there is none.
pub(crate) fn find(attributes: &Map<String, Value>) -> Option<Result<VolumeInfo, String>> {
    let document = attributes.get(SHARDINE)?.get(INFO)?;
    let Value::Object(document) = document else { return Some(Err("is not an object".to_owned())) };
    Some(VolumeInfo::from_document(document.clone()).map_err(|error| error.to_string()))
}

/// The member of it that holds what an image was before it became a volume.
const OME: &str = "ome";

/// The member of it that says by how much positions were shifted, in nanometres.
const SHIFT: &str = "position_shift";

/// OME-Zarr metadata that an `info` keeps, and more attributes.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct KeptImage {
    /// All attributes of the image's group.
    pub attributes: Map<String, Value>,
    /// Those of its levels, the finest first.
    pub levels: Vec<Map<String, Value>>,
}

impl KeptImage {
    /// What is kept of an image: all but what it keeps of a volume itself.
    pub fn new(attributes: &Map<String, Value>, levels: Vec<Map<String, Value>>) -> Self {
        let mut attributes = attributes.clone();
        attributes.shift_remove(SHARDINE);
        Self { attributes, levels }
    }
}

/// The `info` of a volume, with what the image was that it is made from.
pub(crate) fn with_image(
    info: &VolumeInfo,
    image: &KeptImage,
    shift: [f64; 3],
) -> Result<VolumeInfo, InfoError> {
    let mut document = info.document().clone();
    let mut kept = json!({ OME: { "attributes": image.attributes, "levels": image.levels } });
    if shift != [0.0; 3] {
        kept[SHIFT] = json!(shift);
    }
    document.insert(SHARDINE.into(), kept);
    VolumeInfo::from_document(document)
}

/// The image that an `info` keeps; `None` if there is none.
pub(crate) fn image(info: &VolumeInfo) -> Option<KeptImage> {
    let kept = info.document().get(SHARDINE)?.get(OME)?;
    let attributes = kept.get("attributes")?.as_object()?.clone();
    let levels = kept.get("levels").and_then(Value::as_array).into_iter().flatten();
    let levels = levels.map(|level| level.as_object().cloned().unwrap_or_default()).collect();
    Some(KeptImage { attributes, levels })
}

/// Names for the arrays that the scales of a volume become.
fn names(info: &VolumeInfo) -> Vec<String> {
    let keys: Vec<&str> = info.scales().iter().map(|scale| scale.key.as_str()).collect();
    node_names(&keys)
}

/// An array, as far as it has to match an `info`.
pub(crate) struct Seen<'a> {
    pub name: &'a str,
    /// By axis of a volume.
    pub shape: [u64; AXES.len()],
    pub data_type: &'a crate::DataType,
}

/// Which array is which scale; the error says why the `info` cannot belong to the arrays. Arrays
/// `in_order` are those of the scales one by one, whatever their names.
pub(crate) fn agreeing(
    info: &VolumeInfo,
    arrays: &[Seen<'_>],
    in_order: bool,
) -> Result<Vec<usize>, String> {
    let names = match in_order {
        true => arrays.iter().map(|array| array.name.to_owned()).collect(),
        false => names(info),
    };
    if info.scales().len() != arrays.len() {
        return Err(format!("it describes {} scales, not {}", info.scales().len(), arrays.len()));
    }
    let mut order = Vec::with_capacity(names.len());
    for (scale, name) in info.scales().iter().zip(&names) {
        let Some(i) = arrays.iter().position(|array| array.name == name) else {
            return Err(format!("there is no array \"{name}\" for its scale \"{}\"", scale.key));
        };
        let [x, y, z] = scale.size;
        if arrays[i].shape != [x, y, z, info.channels()] {
            return Err(format!("array \"{name}\" does not have the shape of its scale"));
        }
        if arrays[i].data_type != info.data_type() {
            return Err(format!("array \"{name}\" does not have the type of the volume"));
        }
        if scale.chunk_sizes.len() > 1 {
            return Err(format!(
                "its scale \"{}\" has several copies, in chunks of different shapes",
                scale.key
            ));
        }
        if scale.key.split('/').any(|part| part == "..") {
            return Err(format!("its scale \"{}\" is outside the volume", scale.key));
        }
        order.push(i);
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(keys: &[&str]) -> VolumeInfo {
        let scales: Vec<Value> = keys
            .iter()
            .map(|key| {
                json!({ "key": key, "size": [1, 1, 1], "resolution": [1, 1, 1],
                        "chunk_sizes": [[1, 1, 1]], "encoding": "raw" })
            })
            .collect();
        let document = json!({ "data_type": "uint8", "num_channels": 1, "scales": scales });
        VolumeInfo::parse(document.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn keys_become_names_that_stay_in_their_group() {
        for (keys, expected) in [
            (&["8_8_40", "16_16_40"][..], &["8_8_40", "16_16_40"][..]),
            (&["../other/8_8_8", "a/b"], &["other_8_8_8", "a_b"]),
            (&["a/b", "a_b"], &["s0", "s1"]),
            (&["A", "a"], &["s0", "s1"]),
            (&["..", "a"], &["s0", "s1"]),
            (&["zarr.json"], &["s0"]),
            (&[".hidden"], &["s0"]),
            (&["__x"], &["s0"]),
            (&["a b"], &["s0"]),
        ] {
            assert_eq!(names(&info(keys)), expected, "{keys:?}");
        }
    }

    #[test]
    fn what_is_kept_is_found_again_with_all_members_in_their_order() {
        let mut document = info(&["a"]).document().clone();
        document.insert("app".into(), json!({ "z": 1, "a": [2.0, 3] }));
        let info = VolumeInfo::from_document(document).unwrap();
        let found = find(&attributes(&info)).unwrap().unwrap();
        assert_eq!(found.to_bytes(), info.to_bytes());
        assert!(find(&Map::new()).is_none());
    }

    #[test]
    fn an_image_is_kept_without_what_it_keeps_itself() {
        let info = info(&["a"]);
        assert_eq!(image(&info), None);
        let mut own = attributes(&info);
        own.insert("multiscales".into(), json!([{}]));
        let level = Map::from_iter([("n".to_owned(), json!(1))]);
        let kept = KeptImage::new(&own, vec![level]);
        assert_eq!(kept.attributes.keys().collect::<Vec<_>>(), ["multiscales"]);
        let with = with_image(&info, &kept, [0.5, 0.0, 0.0]).unwrap();
        assert_eq!(with.document()["shardine"]["position_shift"], json!([0.5, 0.0, 0.0]));
        assert_eq!(image(&with), Some(kept));
    }
}
