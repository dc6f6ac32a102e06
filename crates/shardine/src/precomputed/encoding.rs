use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use shardine_codec::CodecSpec;

use super::InfoError;
use crate::shard::uint64::Encoding;

/// How the chunks of a scale are encoded, before anything their shard does to them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChunkEncoding {
    /// Voxels as they lie in memory.
    Raw,
    /// Blocks of labels, each with a table of the labels in it.
    CompressedSegmentation {
        /// The shape of its blocks.
        block_size: [u64; 3],
    },
    /// JPEG, which is lossy.
    Jpeg {
        /// From 0 to 100, if the document says.
        quality: Option<u64>,
    },
    /// PNG.
    Png {
        /// The compression level, if the document says.
        level: Option<u64>,
    },
    /// JPEG XL.
    Jxl,
    /// Compresso.
    Compresso,
    /// An unknown one: chunks can be moved and counted, but not decoded.
    Other {
        /// Its name.
        name: String,
    },
}

impl ChunkEncoding {
    /// As it is spelled in documents.
    pub fn name(&self) -> &str {
        match self {
            Self::Raw => "raw",
            Self::CompressedSegmentation { .. } => "compressed_segmentation",
            Self::Jpeg { .. } => "jpeg",
            Self::Png { .. } => "png",
            Self::Jxl => "jxl",
            Self::Compresso => "compresso",
            Self::Other { name } => name,
        }
    }

    /// The encoding of this name, with its usual parameters.
    pub fn from_name(name: &str) -> Self {
        match name {
            "raw" => Self::Raw,
            "compressed_segmentation" => Self::CompressedSegmentation { block_size: [8; 3] },
            "jpeg" => Self::Jpeg { quality: None },
            "png" => Self::Png { level: None },
            "jxl" => Self::Jxl,
            "compresso" => Self::Compresso,
            name => Self::Other { name: name.to_owned() },
        }
    }

    /// Whether decoding returns exactly what was encoded.
    pub fn is_lossless(&self) -> bool {
        !matches!(self, Self::Jpeg { .. } | Self::Jxl | Self::Other { .. })
    }

    pub(super) fn from_scale(
        number: usize,
        members: &Map<String, Value>,
    ) -> Result<Self, InfoError> {
        let at = |name: &str| format!("scales[{number}].{name}");
        let name = members.get("encoding").and_then(Value::as_str);
        let Some(name) = name else {
            return Err(InfoError::new(at("encoding"), "is not the name of an encoding"));
        };
        Ok(match Self::from_name(&name.to_ascii_lowercase()) {
            Self::CompressedSegmentation { .. } => {
                let member = "compressed_segmentation_block_size";
                let size = members.get(member).and_then(Value::as_array);
                let size = size.and_then(|list| {
                    let list: Option<Vec<u64>> = list.iter().map(Value::as_u64).collect();
                    <[u64; 3]>::try_from(list?).ok()
                });
                let block_size = size
                    .filter(|size| !size.contains(&0))
                    .ok_or_else(|| InfoError::new(at(member), "is not the shape of the blocks"))?;
                Self::CompressedSegmentation { block_size }
            }
            Self::Jpeg { .. } => {
                Self::Jpeg { quality: members.get("jpeg_quality").and_then(Value::as_u64) }
            }
            Self::Png { .. } => {
                Self::Png { level: members.get("png_level").and_then(Value::as_u64) }
            }
            // As the document spells it.
            Self::Other { .. } => Self::Other { name: name.to_owned() },
            encoding => encoding,
        })
    }

    /// Its members in a document.
    pub(super) fn members(&self) -> Vec<(String, Value)> {
        let mut members = vec![("encoding".to_owned(), self.name().into())];
        match self {
            Self::CompressedSegmentation { block_size } => {
                members.push(("compressed_segmentation_block_size".into(), json!(block_size)));
            }
            Self::Jpeg { quality: Some(quality) } => {
                members.push(("jpeg_quality".into(), json!(quality)));
            }
            Self::Png { level: Some(level) } => members.push(("png_level".into(), json!(level))),
            _ => {}
        }
        members
    }

    /// The equivalent codecs of an array with the axes x, y, z and channel; `None` if there are
    /// none.
    pub(super) fn codecs(&self, values: Encoding, gzip_level: u8) -> Option<Vec<CodecSpec>> {
        let to_bytes = match self {
            Self::Raw => codec("bytes", json!({ "endian": "little" })),
            Self::CompressedSegmentation { block_size } => {
                codec("neuroglancer_compressed_segmentation", json!({ "block_size": block_size }))
            }
            Self::Jpeg { quality } => {
                codec("neuroglancer_jpeg", json!({ "quality": quality.unwrap_or(75).min(100) }))
            }
            Self::Png { level: Some(level) } => {
                codec("neuroglancer_png", json!({ "level": (*level).min(9) }))
            }
            Self::Png { level: None } => codec("neuroglancer_png", json!({})),
            Self::Jxl => codec("neuroglancer_jxl", json!({})),
            Self::Compresso => codec("neuroglancer_compresso", json!({})),
            Self::Other { .. } => return None,
        };
        // Stored with x fastest and channels slowest.
        let mut codecs = vec![codec("transpose", json!({ "order": [3, 2, 1, 0] })), to_bytes];
        if values == Encoding::Gzip {
            codecs.push(codec("gzip", json!({ "level": gzip_level })));
        }
        Some(codecs)
    }
}

fn codec(name: &str, configuration: Value) -> CodecSpec {
    let configuration = match configuration {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    CodecSpec { name: name.to_owned(), configuration, must_understand: true }
}
