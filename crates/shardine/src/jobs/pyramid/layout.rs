//! How the levels of an image are stored: the chunks, shards and codecs of each.

use serde_json::{Map, Value, json};

use super::PyramidOptions;
use super::image::PyramidImage;
use crate::Error;
use crate::jobs::repack::{Shards, Stored, default_index_codecs, shard_shape};
use crate::plan::{Packing, chunk_grid, chunks_per_shard_for, sample};
use crate::shard::IndexLocation;
use crate::zarr::DOCUMENT;
use crate::zarr::metadata::{ArrayMetadata, DIMENSIONS, NewArray, ZarrFormat};

/// How levels are stored.
pub(super) struct LevelLayout {
    /// The shape of chunks.
    pub chunk: Vec<u64>,
    stored: Stored,
    /// For version 2: the documents of the finest level.
    v2: Option<(Map<String, Value>, Option<Value>)>,
    /// For shards of a size: chunks of about this many bytes, and the size.
    sized: Option<(u64, u64)>,
}

impl LevelLayout {
    pub fn of(image: &PyramidImage, options: &PyramidOptions) -> Result<Self, Error> {
        let metadata = image.finest.metadata();
        let mut stored = Stored::of(metadata).map_err(|reason| image.refuse_layout(reason))?;
        if image.format == ZarrFormat::V2 {
            let same = matches!(options.packing, Packing::Keep | Packing::Unsharded)
                && options.index.is_none()
                && options.chunk.is_none()
                && options.codecs.is_none();
            if !same {
                let reason = "those of Zarr version 2 have the chunks and codecs of the finest";
                return Err(image.refuse_layout(reason));
            }
            let chunk = stored.chunk_shape.clone();
            let Some((Value::Object(zarray), zattrs)) = image.v2.clone() else {
                return Err(image.refuse_layout("the finest level has no .zarray"));
            };
            let names = zattrs.and_then(|zattrs| zattrs.get(DIMENSIONS).cloned());
            let zattrs = names.map(|names| json!({ DIMENSIONS: names }));
            return Ok(Self { chunk, stored, v2: Some((zarray, zattrs)), sized: None });
        }
        let chunk = options.chunk.clone().unwrap_or_else(|| stored.chunk_shape.clone());
        if chunk.len() != image.finest.shape().len() || chunk.contains(&0) {
            return Err(image.refuse_layout(format!("chunks of {chunk:?} elements")));
        }
        if let Some(choice) = &options.codecs {
            let codecs = choice.codecs(image.finest.data_type());
            stored.codecs = codecs.map_err(|reason| image.refuse_layout(reason))?;
        }
        let mut sized = None;
        let shape = match options.packing {
            Packing::TargetSize(target) => {
                let element = image.finest.chunks.layout.element_size() as u64;
                let decoded = chunk.iter().fold(element, |n, &len| n.saturating_mul(len));
                let sample = sample(&image.finest)?;
                let mean = sample.map_or(decoded, |sample| sample.bytes_of(&chunk)).max(1);
                sized = Some((mean, target));
                Some(chunk.clone())
            }
            _ => shard_shape(&image.finest, &stored, &chunk, &options.packing)
                .map_err(|refused| refused.into_error(|reason| image.refuse_layout(reason)))?,
        };
        stored.shards = match shape {
            None => None,
            Some(shape) => {
                let (index_codecs, location) = match stored.shards {
                    Some(shards) => (shards.index_codecs, shards.location),
                    None => {
                        let codecs = default_index_codecs();
                        let codecs = codecs.map_err(|reason| image.refuse_layout(reason))?;
                        (codecs, IndexLocation::End)
                    }
                };
                let location = options.index.unwrap_or(location);
                Some(Shards { shape, index_codecs, location, plain: true })
            }
        };
        stored.chunk_shape.clone_from(&chunk);
        Ok(Self { chunk, stored, v2: None, sized })
    }

    /// The metadata and the documents of a level of this shape.
    #[expect(clippy::type_complexity, reason = "it is metadata and documents by name")]
    pub fn level(
        &self,
        image: &PyramidImage,
        shape: &[u64],
    ) -> Result<(ArrayMetadata, Vec<(&'static str, Vec<u8>)>), Error> {
        let refuse = |reason: String| image.refuse_layout(reason);
        if let Some((zarray, zattrs)) = &self.v2 {
            let mut zarray = zarray.clone();
            zarray.insert("shape".into(), json!(shape));
            let text = |value: &Value| format!("{value:#}\n").into_bytes();
            let zarray = text(&Value::Object(zarray));
            let zattrs = zattrs.as_ref().map(text);
            let metadata = ArrayMetadata::parse_v2(&zarray, zattrs.as_deref())
                .map_err(|error| refuse(error.to_string()))?;
            let mut documents: Vec<(&'static str, Vec<u8>)> = Vec::new();
            documents.extend(zattrs.map(|zattrs| (".zattrs", zattrs)));
            documents.push((".zarray", zarray));
            return Ok((metadata, documents));
        }
        let mut stored = self.stored.clone();
        if let Some(shards) = &mut stored.shards {
            let grid = chunk_grid(shape, &self.chunk);
            shards.shape = match self.sized {
                Some((mean, target)) => {
                    let counts = chunks_per_shard_for(&grid, mean, target);
                    counts.iter().zip(&self.chunk).map(|(&n, &c)| n.saturating_mul(c)).collect()
                }
                // No larger than the level.
                None => {
                    let axes = shards.shape.iter().zip(&self.chunk).zip(&grid);
                    axes.map(|((&shard, &chunk), &n)| shard.min(n.max(1).saturating_mul(chunk)))
                        .collect()
                }
            };
        }
        let (chunk_shape, codecs) = stored.to_layout();
        let old = image.finest.metadata();
        let names = image.image()?.axes.iter().map(|axis| Some(axis.name.clone())).collect();
        let metadata = ArrayMetadata::new(NewArray {
            shape: shape.to_vec(),
            chunk_shape,
            data_type: old.data_type().clone(),
            fill: Some(old.fill().clone()),
            codecs,
            key_encoding: *old.key_encoding(),
            dimension_names: Some(names),
            attributes: Map::new(),
        })
        .map_err(|error| refuse(error.to_string()))?;
        let document = metadata.to_bytes();
        Ok((metadata, vec![(DOCUMENT, document)]))
    }
}
