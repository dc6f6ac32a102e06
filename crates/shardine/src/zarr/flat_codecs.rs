//! The codecs of a chunk, flattened out of the nesting in sharding codecs.

use shardine_codec::{Codec, CodecSpec, from_spec};

use crate::layout::{Configuration, LayoutError};

/// The name of the codec that makes shards.
pub(crate) const SHARDING: &str = "sharding_indexed";

/// The codecs of an innermost chunk, and its shape.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FlatCodecs {
    /// All codecs, those around shards before and after those inside.
    pub codecs: Vec<CodecSpec>,
    /// The shape of the innermost chunks, by axis of the array; `None` if there are no shards.
    pub chunk_shape: Option<Vec<u64>>,
}

impl FlatCodecs {
    /// Flattens the codecs that a document lists for an array.
    pub fn of(specs: &[CodecSpec]) -> Result<Self, LayoutError> {
        let Some(position) = specs.iter().position(|spec| spec.name == SHARDING) else {
            return Ok(Self { codecs: specs.to_vec(), chunk_shape: None });
        };
        let found = Configuration::parse(&specs[position].configuration, "codecs")?;
        let inner = Self::of(&found.codecs)?;
        let chunk = inner.chunk_shape.unwrap_or(found.chunk_shape);
        // Stored axis i is axis order[i] of the array.
        let mut order: Vec<usize> = (0..chunk.len()).collect();
        for spec in &specs[..position] {
            if let Ok(Codec::ArrayToArray(codec)) = from_spec(spec)
                && let Some(permutation) = codec.permutation()
            {
                order = permutation.iter().filter_map(|&k| order.get(k).copied()).collect();
            }
        }
        let mut by_axis = vec![1; chunk.len()];
        for (&k, &n) in order.iter().zip(&chunk) {
            by_axis[k] = n;
        }
        let mut codecs = specs[..position].to_vec();
        codecs.extend(inner.codecs);
        codecs.extend_from_slice(&specs[position + 1..]);
        Ok(Self { codecs, chunk_shape: Some(by_axis) })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::zarr::metadata::codec_specs_from_json;

    #[test]
    fn codecs_around_shards_stand_around_those_inside() {
        let specs = json!([
            { "name": "transpose", "configuration": { "order": [1, 0] } },
            { "name": "sharding_indexed", "configuration": {
                "chunk_shape": [8, 16],
                "codecs": [
                    { "name": "transpose", "configuration": { "order": [0, 1] } },
                    { "name": "bytes", "configuration": { "endian": "little" } },
                    { "name": "zstd", "configuration": { "level": 3, "checksum": false } },
                ],
                "index_codecs": [{ "name": "bytes", "configuration": { "endian": "little" } }],
            }},
            { "name": "crc32c" },
        ]);
        let flat = FlatCodecs::of(&codec_specs_from_json(&specs).unwrap()).unwrap();
        let names: Vec<&str> = flat.codecs.iter().map(|spec| spec.name.as_str()).collect();
        assert_eq!(names, ["transpose", "transpose", "bytes", "zstd", "crc32c"]);
        assert_eq!(flat.chunk_shape, Some(vec![16, 8]));
    }

    #[test]
    fn codecs_without_shards_stay_as_they_are() {
        let specs = codec_specs_from_json(&json!(["bytes", "crc32c"])).unwrap();
        let flat = FlatCodecs::of(&specs).unwrap();
        assert_eq!(flat, FlatCodecs { codecs: specs, chunk_shape: None });
    }
}
