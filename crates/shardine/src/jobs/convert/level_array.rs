//! How the array of an image's level is stored.

use super::super::rebuild::{AxisMap, codecs_along};
use super::super::repack::{CodecChoice, Packing, Shards, Stored, default_index_codecs};
use super::ConvertError;
use super::nodes::OldArray;
use super::ome_form::OmeForm;
use super::options::ConvertOptions;
use super::to_zarr::{MOST_CHUNKS, SHARD_BYTES, is_of_zarr, mean_chunk};
use crate::ome::{AxisRole, OmeAxis};
use crate::plan::chunks_per_shard_in_turn;
use crate::shard::IndexLocation;
use crate::zarr::SHARDING;
use crate::zarr::metadata::{
    ArrayMetadata, ChunkKeyEncoding, MetadataError, NewArray, Separator, ZarrFormat,
};
use crate::{CodecSpec, Error, codec_words};
use shardine_codec::gzip_for_zlib;

/// What a level is made from, and how.
pub(super) struct LevelArray<'a> {
    pub old: &'a OldArray,
    pub map: &'a AxisMap,
    /// The axes of the image.
    pub axes: &'a [OmeAxis],
    pub form: &'a OmeForm,
    pub options: &'a ConvertOptions,
}

/// The same codecs with gzip in the place of zlib, which has the same stream in another envelope.
fn zlib_as_gzip(codecs: &[CodecSpec]) -> Option<Vec<CodecSpec>> {
    let (last, rest) = codecs.split_last()?;
    let gzip = gzip_for_zlib(last)?;
    Some(rest.iter().cloned().chain([gzip]).collect())
}

impl LevelArray<'_> {
    fn refuse(&self, reason: String) -> Error {
        ConvertError::Layout { at: self.old.at(), reason }.into()
    }

    fn invalid(&self, source: MetadataError) -> Error {
        ConvertError::Metadata { at: self.old.at(), source: Box::new(source) }.into()
    }

    fn shape(&self) -> Vec<u64> {
        self.map.to_new(self.old.array.shape(), 1)
    }

    /// Its metadata, in terms of version 3.
    pub fn metadata(&self) -> Result<ArrayMetadata, Error> {
        let is_zarr3 = self.form.version.release().is_zarr3();
        let chunk_shape = self.chunk_shape()?;
        let codecs = self.codecs()?;
        if codecs.iter().any(|codec| codec.name == SHARDING) {
            let reason = "the chunk codecs include sharding_indexed; request shards as the packing \
                          instead";
            return Err(self.refuse(reason.to_owned()));
        }
        let shape = if is_zarr3 { self.shard_shape(&chunk_shape)? } else { None };
        let mut stored = Stored { codecs, chunk_shape, shards: None };
        if let Some(shape) = shape {
            let own = self.old.metadata.as_ref().and_then(|own| Stored::of(own).ok()?.shards);
            stored.shards = Some(Shards {
                shape,
                index_codecs: match &own {
                    Some(own) => own.index_codecs.clone(),
                    None => default_index_codecs().map_err(|reason| self.refuse(reason))?,
                },
                location: self
                    .form
                    .index
                    .or(own.map(|own| own.location))
                    .unwrap_or(IndexLocation::End),
                plain: true,
            });
        }
        let made = self.with(&stored)?;
        // Version 2 has only two orders of elements.
        let asks = self.form.codecs.is_some();
        if !is_zarr3
            && !asks
            && let Err(MetadataError::NotInV2 { name, .. }) = made.to_v2(Separator::Slash, false)
            && name == "transpose"
        {
            stored.codecs.retain(|codec| codec.name != "transpose");
            return self.with(&stored);
        }
        Ok(made)
    }

    fn with(&self, stored: &Stored) -> Result<ArrayMetadata, Error> {
        let (chunk_shape, codecs) = stored.to_layout();
        let names: Vec<Option<String>> =
            self.axes.iter().map(|axis| Some(axis.name.clone())).collect();
        let own = self.old.metadata.as_ref().filter(|_| self.map.is_identity());
        // Everything else in the document stays.
        let made = match own {
            Some(own) => {
                own.with_layout(&chunk_shape, &codecs, self.key_encoding()).and_then(|mut made| {
                    made.set_dimension_names(Some(names))?;
                    Ok(made)
                })
            }
            None => ArrayMetadata::new(NewArray {
                shape: self.shape(),
                chunk_shape,
                data_type: self.old.array.data_type().clone(),
                fill: Some(self.old.array.fill().clone()),
                codecs,
                key_encoding: self.key_encoding(),
                dimension_names: Some(names),
                attributes: self.old.attributes.clone(),
            }),
        };
        made.map_err(|source| self.invalid(source))
    }

    /// How objects are named: as before, unless that is the way of version 2.
    fn key_encoding(&self) -> ChunkKeyEncoding {
        match &self.old.metadata {
            Some(own) if own.zarr_format() == ZarrFormat::V3 => *own.key_encoding(),
            _ => ChunkKeyEncoding::default(),
        }
    }

    /// Lengths of the last axes, with others before them.
    fn along_all(&self, given: &[u64], others: &[u64], what: &str) -> Result<Vec<u64>, Error> {
        let rank = others.len();
        let Some(first) = rank.checked_sub(given.len()) else {
            let count = given.len();
            return Err(self.refuse(format!("{what} of {count} axes for an image of {rank}")));
        };
        if given.contains(&0) {
            return Err(self.refuse(format!("{what} cannot have length 0")));
        }
        Ok(others[..first].iter().chain(given).copied().collect())
    }

    /// The shape of chunks: the source's, or as requested but no longer than the level.
    fn chunk_shape(&self) -> Result<Vec<u64>, Error> {
        let own = self.map.to_new(self.old.array.chunk_shape(), 1);
        let Some(chunk) = self.options.chunk.as_deref() else { return Ok(own) };
        let chunk = self.along_all(chunk, &own, "chunks")?;
        Ok(chunk.iter().zip(self.shape()).map(|(&n, len)| n.min(len.max(1))).collect())
    }

    fn codecs(&self) -> Result<Vec<CodecSpec>, Error> {
        let data_type = self.old.array.data_type();
        let refuse = |reason| self.refuse(reason);
        if let Some(choice) = &self.form.codecs {
            return choice.codecs(data_type).map_err(refuse);
        }
        if let Some(codecs) = codecs_along(&self.old.array, self.map) {
            if codecs.iter().all(|codec| self.is_known(codec)) {
                return Ok(codecs);
            }
            if let Some(codecs) = zlib_as_gzip(&codecs).filter(|all| all.iter().all(is_of_zarr)) {
                return Ok(codecs);
            }
        }
        let usual = CodecChoice::Words(vec![codec_words::DEFAULT.to_owned()]);
        usual.codecs(data_type).map_err(refuse)
    }

    /// Whether readers of the target know a codec of the source.
    fn is_known(&self, codec: &CodecSpec) -> bool {
        let is_kept = !self.form.version.release().is_zarr3() || self.form.keep_codecs;
        is_of_zarr(codec) || self.old.metadata.is_some() && is_kept
    }

    /// Which codecs of a Zarr array are replaced because not every reader knows them, and by which.
    pub fn replaced_codecs(&self) -> Option<String> {
        self.old.metadata.as_ref().filter(|_| self.form.codecs.is_none())?;
        let old = self.old.array.codecs();
        let unknown: Vec<&str> =
            old.iter().filter(|codec| !self.is_known(codec)).map(|codec| &*codec.name).collect();
        let new = self.codecs().ok()?;
        let new: Vec<&str> = new
            .iter()
            .map(|codec| &*codec.name)
            .filter(|name| !matches!(*name, "bytes" | "transpose"))
            .collect();
        (!unknown.is_empty()).then(|| format!("{} by {}", unknown.join(", "), new.join(", ")))
    }

    /// The shape of shards; `None` if chunks are objects.
    fn shard_shape(&self, chunk: &[u64]) -> Result<Option<Vec<u64>>, Error> {
        let axes = self.shape().into_iter().zip(chunk);
        let grid: Vec<u64> = axes.map(|(len, &n)| len.div_ceil(n).max(1)).collect();
        let shard = |counts: &[u64]| -> Result<Option<Vec<u64>>, Error> {
            let shape = chunk.iter().zip(counts).map(|(&n, &count)| n.checked_mul(count));
            let shape: Option<Vec<u64>> = shape.collect();
            let large = || self.refuse("a shard would have 2^64 elements or more".to_owned());
            shape.map(Some).ok_or_else(large)
        };
        let clipped = |counts: Vec<u64>| -> Vec<u64> {
            counts.iter().zip(&grid).map(|(&count, &all)| count.min(all)).collect()
        };
        let near = |target: u64| {
            let each = mean_chunk(&self.old.array, chunk)?;
            let turns = self.turns();
            shard(&chunks_per_shard_in_turn(&grid, &turns, each, target, MOST_CHUNKS))
        };
        match &self.form.packing {
            Packing::Unsharded => Ok(None),
            Packing::Keep => match self.own_shard(chunk) {
                Some(shape) => Ok(Some(shape)),
                None => near(SHARD_BYTES),
            },
            Packing::TargetSize(target) => near(*target),
            Packing::ChunksPerShard(counts) if counts.iter().all(|&n| n == 1) => Ok(None),
            Packing::ChunksPerShard(counts) => {
                let counts = match counts.as_slice() {
                    [all] => vec![*all; grid.len()],
                    _ => counts.clone(),
                };
                let counts = self.along_all(&counts, &vec![1; grid.len()], "chunks per shard")?;
                shard(&clipped(counts))
            }
            Packing::Shard(shape) => {
                let shape = self.along_all(shape, chunk, "shards")?;
                let axes = shape.iter().zip(chunk);
                if axes.clone().any(|(&shard, &n)| shard % n != 0) {
                    let word = |shape: &[u64]| {
                        shape.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
                    };
                    let (shape, chunk) = (word(&shape), word(chunk));
                    return Err(self.refuse(format!(
                        "shards of {shape} are not a multiple of chunks of {chunk}"
                    )));
                }
                shard(&clipped(axes.map(|(&shard, &n)| shard / n).collect()))
            }
        }
    }

    /// The shards of the source, if these are boxes of the same chunks, and not too many.
    fn own_shard(&self, chunk: &[u64]) -> Option<Vec<u64>> {
        let array = &self.old.array;
        if self.old.metadata.is_none() && array.chunks.packing.shared().is_none() {
            return None;
        }
        let shape = self.map.to_new(array.shard_shape()?, 1);
        let own = self.map.to_new(array.chunk_shape(), 1);
        if own != chunk {
            return None;
        }
        if self.old.metadata.is_some() {
            return Some(shape);
        }
        let axes = shape.iter().zip(chunk).zip(self.shape());
        let counts: Vec<u64> =
            axes.map(|((&n, &chunk), len)| (n / chunk).min(len.div_ceil(chunk)).max(1)).collect();
        let count = counts.iter().fold(1u64, |n, &m| n.saturating_mul(m));
        (count <= MOST_CHUNKS)
            .then(|| counts.iter().zip(chunk).map(|(&n, &chunk)| n * chunk).collect())
    }

    /// The axes along which shards grow first: a view of an image needs space, then channels.
    fn turns(&self) -> [Vec<usize>; 3] {
        let of = |wanted: &[AxisRole]| {
            let axes = self.axes.iter().enumerate();
            axes.filter(|(_, axis)| wanted.contains(&axis.role())).map(|(k, _)| k).collect()
        };
        [of(&[AxisRole::Space]), of(&[AxisRole::Channel, AxisRole::Other]), of(&[AxisRole::Time])]
    }
}
