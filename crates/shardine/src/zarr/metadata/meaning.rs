//! Whether two documents say the same, however each spells it.

use serde_json::{Map, Value};
use shardine_codec::{CodecSpec, DataType, codec_specs_from_json, means_same as same_codec};

use super::{ArrayMetadata, GroupMetadata, NodeMetadata};

/// Members of `sharding_indexed` that are lists of codecs.
const LISTS: [&str; 2] = ["codecs", "index_codecs"];

impl NodeMetadata {
    /// Whether another document says the same of the same node. Defaults may be left out or spelled
    /// out, and what a group says of other nodes does not count.
    pub(crate) fn means_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Array(one), Self::Array(other)) => one.means_same(other),
            (Self::Group(one), Self::Group(other)) => one.means_same(other),
            _ => false,
        }
    }
}

impl GroupMetadata {
    fn means_same(&self, other: &Self) -> bool {
        self.attributes() == other.attributes() && self.unknown() == other.unknown()
    }
}

impl ArrayMetadata {
    fn means_same(&self, other: &Self) -> bool {
        self.shape() == other.shape()
            && self.chunk_shape() == other.chunk_shape()
            && self.data_type() == other.data_type()
            && self.fill() == other.fill()
            && self.key_encoding() == other.key_encoding()
            && names(self) == names(other)
            && self.attributes() == other.attributes()
            && self.unknown() == other.unknown()
            && same_codecs(self.data_type(), self.codecs(), other.codecs())
    }
}

/// The names of dimensions; `None` where none has one.
fn names(array: &ArrayMetadata) -> Option<&[Option<String>]> {
    array.dimension_names().filter(|names| names.iter().any(Option::is_some))
}

fn same_codecs(data_type: &DataType, one: &[CodecSpec], other: &[CodecSpec]) -> bool {
    // Of what leaves another codec the type is not known here.
    let is_single = |codecs: &[CodecSpec], at: usize| {
        let before = codecs.get(..at).unwrap_or_default();
        data_type.swap_units().is_empty() && before.iter().all(|codec| codec.name == "transpose")
    };
    one.len() == other.len()
        && one.iter().zip(other).enumerate().all(|(at, (a, b))| {
            let sharding = super::super::flat_codecs::SHARDING;
            match (a.name.as_str(), b.name.as_str()) {
                ("bytes", "bytes") if is_single(one, at) => true,
                (x, y) if x == sharding && y == sharding => {
                    same_sharding(data_type, &a.configuration, &b.configuration)
                }
                _ => same_codec(a, b),
            }
        })
}

/// As deep as shards are nested in the document, which its parser bounds.
fn same_sharding(
    data_type: &DataType,
    one: &Map<String, Value>,
    other: &Map<String, Value>,
) -> bool {
    let location = |members: &Map<String, Value>| {
        members.get("index_location").cloned().unwrap_or_else(|| Value::from("end"))
    };
    let rest = |members: &Map<String, Value>| {
        let mut members = members.clone();
        members.retain(|name, _| name != "index_location" && !LISTS.contains(&name.as_str()));
        members
    };
    let lists = LISTS.iter().all(|&name| match (one.get(name), other.get(name)) {
        (Some(a), Some(b)) => match (codec_specs_from_json(a), codec_specs_from_json(b)) {
            (Ok(a), Ok(b)) if name == "codecs" => same_codecs(data_type, &a, &b),
            (Ok(a), Ok(b)) => a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| same_codec(a, b)),
            _ => a == b,
        },
        (a, b) => a == b,
    });
    lists && location(one) == location(other) && rest(one) == rest(other)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(json: Value) -> NodeMetadata {
        NodeMetadata::from_json(json).unwrap()
    }

    fn array() -> Value {
        json!({
            "zarr_format": 3, "node_type": "array", "shape": [8, 8], "data_type": "uint16",
            "chunk_grid": { "name": "regular", "configuration": { "chunk_shape": [8, 8] } },
            "chunk_key_encoding": { "name": "default" },
            "fill_value": 0,
            "codecs": [{ "name": "sharding_indexed", "configuration": {
                "chunk_shape": [4, 4],
                "codecs": ["bytes", { "name": "zstd", "configuration": { "level": 3 } }],
                "index_codecs": [{ "name": "bytes" }, "crc32c"],
            } }],
        })
    }

    fn with(change: impl FnOnce(&mut Value)) -> NodeMetadata {
        let mut json = array();
        change(&mut json);
        node(json)
    }

    #[test]
    fn defaults_that_are_spelled_out_change_nothing() {
        let spelled = with(|json| {
            json["attributes"] = json!({});
            json["storage_transformers"] = json!([]);
            json["dimension_names"] = json!([null, null]);
            json["chunk_key_encoding"] =
                json!({ "name": "default", "configuration": { "separator": "/" } });
            json["codecs"][0]["configuration"] = json!({
                "index_location": "end",
                "chunk_shape": [4, 4],
                "codecs": [
                    { "name": "bytes", "configuration": { "endian": "little" } },
                    { "name": "zstd", "configuration": { "checksum": false, "level": 3 } },
                ],
                "index_codecs": [
                    { "name": "bytes", "configuration": { "endian": "little" } },
                    { "name": "crc32c" },
                ],
            });
        });
        assert!(node(array()).means_same(&spelled) && spelled.means_same(&node(array())));
        let group = json!({ "zarr_format": 3, "node_type": "group" });
        let mut spelled = group.clone();
        spelled["attributes"] = json!({});
        spelled["consolidated_metadata"] = json!(null);
        assert!(node(group.clone()).means_same(&node(spelled)));
        assert!(!node(group).means_same(&node(array())));
    }

    #[test]
    fn whatever_differs_in_meaning_is_told() {
        let changes: [fn(&mut Value); 11] = [
            |json| json["shape"] = json!([8, 9]),
            |json| json["data_type"] = json!("int16"),
            |json| json["fill_value"] = json!(1),
            |json| json["attributes"] = json!({ "a": 1 }),
            |json| json["dimension_names"] = json!(["y", null]),
            |json| json["chunk_key_encoding"] = json!({ "name": "v2" }),
            |json| json["more"] = json!({ "must_understand": false }),
            |json| json["codecs"][0]["configuration"]["index_location"] = json!("start"),
            |json| json["codecs"][0]["configuration"]["index_codecs"] = json!(["bytes"]),
            |json| {
                json["codecs"][0]["configuration"]["codecs"][1]["configuration"]["level"] = json!(4)
            },
            |json| {
                json["codecs"][0]["configuration"]["codecs"][0] =
                    json!({ "name": "bytes", "configuration": { "endian": "big" } })
            },
        ];
        for change in changes {
            let changed = with(change);
            assert!(!node(array()).means_same(&changed), "{}", changed.to_json());
        }
    }

    #[test]
    fn the_order_of_single_bytes_does_not_matter() {
        let of = |codec: Value| {
            with(|json| {
                json["data_type"] = json!("uint8");
                json["codecs"] = json!([codec]);
            })
        };
        let big = json!({ "name": "bytes", "configuration": { "endian": "big" } });
        assert!(of(json!("bytes")).means_same(&of(big)));
    }
}
