//! How a new array is to be stored, as data: the request, and the metadata that follows from it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use shardine_codec::{DataTypeError, codec_specs_to_json};

use super::shapes::{chunk_in_shard, element_bytes, rounded_up, shard_shape};
use super::{Packing, chunk_shape, chunks_per_shard_for};
use crate::shard::IndexLocation;
use crate::zarr::metadata::{ArrayMetadata, ChunkKeyEncoding, MetadataError, NewArray};
use crate::{CodecChoice, CodecSpec, DataType, FillValue, codec_words};

/// How a new array is to be stored. The defaults are chunks of about 64^3 elements, shards of about
/// 64 MiB before compression with at most 32,768 chunks, zstd, and a fill value of zero.
///
/// ```
/// use shardine::plan::ArrayLayout;
/// use shardine::{CodecChoice, DataType};
///
/// let mut layout = ArrayLayout::default();
/// layout.codecs = Some(CodecChoice::Words(vec!["blosc:lz4:5".to_owned()]));
/// let metadata = layout.metadata(&[512, 1024, 1024], &DataType::parse_name("uint16")?)?;
/// assert_eq!(metadata.chunk_shape(), [256, 256, 512]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ArrayLayout {
    /// The shape of chunks, in elements.
    pub chunk: Option<Vec<u64>>,
    /// How chunks are packed into shards; [`Packing::Keep`] picks a suitable shape.
    /// [`Packing::TargetSize`] uses the size of chunks before compression, unless they can be
    /// measured.
    pub packing: Packing,
    /// The codecs of the chunks.
    pub codecs: Option<CodecChoice>,
    /// The codecs of the indexes of shards.
    pub index_codecs: Option<Vec<CodecSpec>>,
    /// Where in a shard its index is; `None` is the end.
    pub index: Option<IndexLocation>,
    /// The value of elements that were never written.
    pub fill: Option<FillChoice>,
    /// A name, or none, for each axis.
    pub dimension_names: Option<Vec<Option<String>>>,
    /// The attributes stored with the array.
    pub attributes: Map<String, Value>,
    /// How the names of stored objects are formed.
    pub key_encoding: Option<ChunkKeyEncoding>,
}

/// A fill value before the type of the elements is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FillChoice {
    /// As in metadata.
    Json(Value),
    /// As typed by a person: `0`, `NaN`, `[1, 2]`, `some text`. It is JSON if that is legal for the
    /// type, otherwise a string.
    Text(String),
}

impl FillChoice {
    /// The value for elements of this type.
    pub fn value(&self, data_type: &DataType) -> Result<FillValue, DataTypeError> {
        let text = match self {
            Self::Json(json) => return data_type.fill_from_json(json),
            Self::Text(text) => text,
        };
        let as_string = data_type.fill_from_json(&json!(text));
        match serde_json::from_str::<Value>(text).ok().map(|json| data_type.fill_from_json(&json)) {
            Some(Ok(fill)) => Ok(fill),
            Some(Err(error)) => as_string.map_err(|_| error),
            None => as_string,
        }
    }
}

/// Why an array cannot be stored as requested.
#[derive(Debug, Clone, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum ArrayLayoutError {
    /// A shape that does not fit the array.
    #[error("{what} of {given:?}: one length above 0 is needed for each of the {rank} axes")]
    Rank {
        /// Which.
        what: LayoutPart,
        /// As given.
        given: Vec<u64>,
        /// Axes of the array.
        rank: usize,
    },
    /// A shard does not hold whole chunks.
    #[error(
        "a shard of {} elements along axis {axis} does not hold whole chunks of {}", shard[*axis], chunk[*axis]
    )]
    PartOfChunk {
        /// Along which axis.
        axis: usize,
        /// The shape of shards.
        shard: Vec<u64>,
        /// The shape of chunks.
        chunk: Vec<u64>,
        /// The smallest shard not below this one that does.
        fitting: Vec<u64>,
    },
    /// The length of a shard would overflow.
    #[error("shards of {counts:?} chunks are too long to count")]
    TooLong {
        /// As given.
        counts: Vec<u64>,
    },
    /// Words that name no codec.
    #[error("{reason}")]
    Codecs {
        /// What is wrong with them.
        reason: String,
    },
    /// Index codecs for an array without shards.
    #[error("index codecs are given, but without shards there is no index")]
    NoIndex,
    /// The fill value does not fit the type.
    #[error("the fill value: {source}")]
    Fill {
        /// What is wrong with it.
        source: DataTypeError,
    },
    /// The names do not match the axes.
    #[error("there are {given} names, but the array has {rank} axes")]
    Names {
        /// The number given.
        given: usize,
        /// Axes of the array.
        rank: usize,
    },
    /// The metadata would not be legal.
    #[error(transparent)]
    Metadata(#[from] Box<MetadataError>),
}

/// What a shape belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayoutPart {
    /// A chunk, in elements.
    Chunk,
    /// A shard, in elements.
    Shard,
    /// A shard, in chunks.
    ChunksPerShard,
}

impl std::fmt::Display for LayoutPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Chunk => "a chunk",
            Self::Shard => "a shard",
            Self::ChunksPerShard => "a number of chunks per shard",
        })
    }
}

impl ArrayLayout {
    /// The metadata of an array of this shape and type.
    pub fn metadata(
        &self,
        shape: &[u64],
        data_type: &DataType,
    ) -> Result<ArrayMetadata, ArrayLayoutError> {
        let usual = CodecChoice::Words(vec![codec_words::DEFAULT.to_owned()]);
        let codecs = self.codecs.as_ref().unwrap_or(&usual).codecs(data_type);
        let codecs = codecs.map_err(|reason| ArrayLayoutError::Codecs { reason })?;
        let nested = codecs.iter().any(|codec| codec.name == "sharding_indexed");
        let (chunk, shard) = self.shapes(shape, element_bytes(data_type), nested)?;
        let (chunk_shape, codecs) = match shard {
            Some(shard) => {
                let index_codecs = self.index_codecs.as_deref().map(codec_specs_to_json);
                let place = match self.index {
                    Some(IndexLocation::Start) => "start",
                    Some(IndexLocation::End) | None => "end",
                };
                let codecs = codec_specs_to_json(&codecs);
                (shard, vec![codec_words::sharding(&chunk, &codecs, index_codecs, place)])
            }
            None if self.index_codecs.is_some() => return Err(ArrayLayoutError::NoIndex),
            None => (chunk, codecs),
        };
        let fill = self.fill.as_ref().map(|fill| fill.value(data_type)).transpose();
        let fill = fill.map_err(|source| ArrayLayoutError::Fill { source })?;
        if let Some(names) = &self.dimension_names
            && names.len() != shape.len()
        {
            return Err(ArrayLayoutError::Names { given: names.len(), rank: shape.len() });
        }
        let metadata = ArrayMetadata::new(NewArray {
            shape: shape.to_vec(),
            chunk_shape,
            data_type: data_type.clone(),
            fill,
            codecs,
            key_encoding: self.key_encoding.unwrap_or_default(),
            dimension_names: self.dimension_names.clone(),
            attributes: self.attributes.clone(),
        });
        Ok(metadata.map_err(Box::new)?)
    }

    /// The shapes of chunks and, if there are any, of shards: as given, or a suitable choice.
    fn shapes(
        &self,
        shape: &[u64],
        element: u64,
        nested: bool,
    ) -> Result<(Vec<u64>, Option<Vec<u64>>), ArrayLayoutError> {
        let rank = shape.len();
        let check = |what: LayoutPart, given: &[u64]| {
            if given.len() == rank && !given.contains(&0) {
                return Ok(());
            }
            Err(ArrayLayoutError::Rank { what, given: given.to_vec(), rank })
        };
        if let Some(chunk) = &self.chunk {
            check(LayoutPart::Chunk, chunk)?;
        }
        if let Packing::Shard(shard) = &self.packing {
            check(LayoutPart::Shard, shard)?;
            let chunk = match &self.chunk {
                Some(chunk) => chunk.clone(),
                None => chunk_in_shard(shape, shard, element),
            };
            if let Some(axis) = (0..rank).find(|&k| shard[k] % chunk[k] != 0) {
                let (fitting, shard) = (rounded_up(shard, &chunk), shard.clone());
                return Err(ArrayLayoutError::PartOfChunk { axis, shard, chunk, fitting });
            }
            return Ok((chunk, Some(shard.clone())));
        }
        let chunk = self.chunk.clone().unwrap_or_else(|| chunk_shape(shape, element));
        let counts = match &self.packing {
            // Chunks that are shards themselves are not packed again unless requested.
            Packing::Keep if nested => None,
            Packing::Keep => {
                let shard = shard_shape(shape, &chunk, element);
                return Ok((chunk, shard));
            }
            Packing::ChunksPerShard(counts) => match counts[..] {
                [all] => {
                    check(LayoutPart::ChunksPerShard, &vec![all; rank])?;
                    Some(vec![all; rank])
                }
                _ => {
                    check(LayoutPart::ChunksPerShard, counts)?;
                    Some(counts.clone())
                }
            },
            Packing::TargetSize(target) => {
                let each = chunk.iter().fold(element, |n, &length| n.saturating_mul(length));
                Some(chunks_per_shard_for(&chunk_grid(shape, &chunk), each, *target))
            }
            _ => None,
        };
        let Some(counts) = counts.filter(|counts| counts.iter().any(|&n| n > 1)) else {
            return Ok((chunk, None));
        };
        let shard = counts.iter().zip(&chunk).map(|(&n, &c)| n.checked_mul(c));
        match shard.collect::<Option<Vec<u64>>>() {
            Some(shard) => Ok((chunk, Some(shard))),
            None => Err(ArrayLayoutError::TooLong { counts }),
        }
    }
}

/// Chunks along each axis.
pub(crate) fn chunk_grid(shape: &[u64], chunk: &[u64]) -> Vec<u64> {
    shape.iter().zip(chunk).map(|(&length, &n)| length.div_ceil(n.max(1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uint16() -> DataType {
        DataType::parse_name("uint16").unwrap()
    }

    fn shapes(layout: &ArrayLayout) -> Result<(Vec<u64>, Option<Vec<u64>>), ArrayLayoutError> {
        layout.shapes(&[512, 512], 2, false)
    }

    #[test]
    fn a_layout_survives_its_journey_as_json() {
        let layout = ArrayLayout {
            chunk: Some(vec![4, 4]),
            packing: Packing::TargetSize(1000),
            codecs: Some(CodecChoice::Words(vec!["none".to_owned()])),
            fill: Some(FillChoice::Text("7".to_owned())),
            dimension_names: Some(vec![None, Some("x".to_owned())]),
            key_encoding: Some(ChunkKeyEncoding::default()),
            ..ArrayLayout::default()
        };
        let text = serde_json::to_string(&layout).unwrap();
        assert_eq!(serde_json::from_str::<ArrayLayout>(&text).unwrap(), layout, "{text}");
        assert!(serde_json::from_str::<ArrayLayout>(r#"{"chunks": [1]}"#).is_err());
    }

    #[test]
    fn chunks_are_packed_by_shape_number_or_size() {
        let chunk = Some(vec![16, 16]);
        for (packing, expected) in [
            (Packing::Unsharded, None),
            (Packing::ChunksPerShard(vec![1]), None),
            (Packing::ChunksPerShard(vec![2]), Some(vec![32, 32])),
            (Packing::ChunksPerShard(vec![1, 3]), Some(vec![16, 48])),
            (Packing::Shard(vec![16, 64]), Some(vec![16, 64])),
            (Packing::TargetSize(16 * 16 * 2), None),
        ] {
            let layout = ArrayLayout { chunk: chunk.clone(), packing, ..ArrayLayout::default() };
            assert_eq!(shapes(&layout).unwrap().1, expected, "{:?}", layout.packing);
        }
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        let layout = |chunk: &[u64], packing| ArrayLayout {
            chunk: Some(chunk.to_vec()),
            packing,
            ..ArrayLayout::default()
        };
        for layout in [
            layout(&[16], Packing::Keep),
            layout(&[16, 0], Packing::Keep),
            layout(&[16, 16], Packing::Shard(vec![32])),
            layout(&[16, 16], Packing::ChunksPerShard(vec![0])),
            layout(&[16, 16], Packing::ChunksPerShard(vec![])),
            layout(&[16, 16], Packing::ChunksPerShard(vec![2, 2, 2])),
            layout(&[16, 16], Packing::ChunksPerShard(vec![u64::MAX])),
        ] {
            assert!(shapes(&layout).is_err(), "{layout:?}");
        }
        let refused = shapes(&layout(&[16, 10], Packing::Shard(vec![32, 32]))).unwrap_err();
        let ArrayLayoutError::PartOfChunk { axis: 1, fitting, .. } = refused else {
            panic!("{refused}");
        };
        assert_eq!(fitting, [32, 40]);
    }

    #[test]
    fn a_fill_value_is_json_where_that_is_legal() {
        let string = DataType::parse_name("string").unwrap();
        let text = |text: &str| FillChoice::Text(text.to_owned());
        assert_eq!(text("7").value(&uint16()).unwrap().0, [7, 0]);
        assert_eq!(text("7").value(&string).unwrap().0, b"7");
        assert!(text("seven").value(&uint16()).is_err());
        assert!(FillChoice::Json(json!("7")).value(&uint16()).is_err());
    }
}
