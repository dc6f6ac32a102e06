//! Compares the result with its source.

use std::sync::Arc;

use shardine_codec::Context;
use shardine_store::StoreError;

use super::objects::Kind;
use super::relation::Relation;
use super::transfer::{Transfer, read};
use super::{Note, RepackCheck, RepackError};
use crate::engine::{SharedPacking, StoredBytes};
use crate::{EngineError, Error, Placement, Region, RegionError};

/// Elements are compared in boxes of about this many bytes.
const COMPARED: u64 = 4 << 20;

impl Transfer<'_> {
    /// Compares the chunks of a new object with their sources.
    pub(super) fn check_made(&self, note: &Note) -> Result<(), Error> {
        if self.options.check == RepackCheck::None || !self.moves() {
            return Ok(());
        }
        self.compare(note, true).map(drop)
    }

    /// Counts the stored and absent chunks of an object, and with `bytes` compares them with the
    /// old ones.
    pub(super) fn compare(&self, note: &Note, bytes: bool) -> Result<(u64, u64), Error> {
        let (mut stored, mut absent) = (0, 0);
        let mut chunk = |chunk: &[u64], new: Option<StoredBytes>| -> Result<(), Error> {
            *(if new.is_some() { &mut stored } else { &mut absent }) += 1;
            if !bytes || self.is_same(chunk, new)? {
                return Ok(());
            }
            let object = match note {
                Note::Cell(cell) => self.new.chunks.packing.key(cell)?,
                Note::Shared(_) => self.new.chunks.packing.key(chunk)?,
            };
            Err(RepackError::Differs { object, chunk: chunk.to_vec() }.into())
        };
        match (note, self.kind) {
            (Note::Shared(object), Kind::Shared(shared)) => {
                for &number in &object.cells {
                    let Some(cell) = shared.cell(number) else { continue };
                    chunk(&cell, find_shared(shared, object.object, &cell)?)?;
                }
            }
            (Note::Cell(cell), Kind::Shards(shard)) => {
                let key = self.new.chunks.packing.key(cell)?;
                let gone = || RepackError::Differs { object: key.clone(), chunk: Vec::new() };
                let opened = self.new.open_shard(cell)?.ok_or_else(gone)?;
                let mut known = vec![false; shard.chunks()];
                for (entry, place) in self.entries(shard, &key, cell)? {
                    let range = opened.index.get(entry);
                    let range = range.map_err(|e| EngineError::shard(&key, cell, e))?;
                    known[entry] = true;
                    let object = Arc::clone(&opened.object);
                    chunk(&place, range.map(|range| StoredBytes { object, range: Some(range) }))?;
                }
                // Nothing may be stored outside the array.
                for (entry, _) in known.iter().enumerate().filter(|(_, known)| !**known) {
                    let range = opened.index.get(entry);
                    if range.map_err(|e| EngineError::shard(&key, cell, e))?.is_some() {
                        return Err(gone().into());
                    }
                }
            }
            (Note::Cell(cell), _) => {
                let object =
                    self.new.chunks.store.open(&self.new.chunks.packing.key(cell)?, None)?;
                let range = object.len().map(|len| 0..len);
                chunk(cell, Some(StoredBytes { object, range }))?;
            }
            (Note::Shared(_), _) => {}
        }
        Ok((stored, absent))
    }

    /// Whether a chunk of the new array matches the old one. A re-encoded chunk is assumed to.
    fn is_same(&self, chunk: &[u64], new: Option<StoredBytes>) -> Result<bool, Error> {
        if !self.is_movable(chunk) {
            return Ok(true);
        }
        let old = self.find_old(chunk)?;
        match (new, old) {
            (None, None) => Ok(self.absent_stays),
            (Some(new), Some(old)) if matches!(self.relation, Relation::Same) => {
                let same = new.has_bytes_of(&old)?;
                // In a remote store, only a read shows whether the old one exists.
                if !same && !self.absent_stays && read(Some(old))?.is_none() {
                    return Ok(true);
                }
                Ok(same)
            }
            (Some(new), Some(old)) => {
                let (Some(new), old) = (read(Some(new))?, read(Some(old))?) else {
                    return Ok(false);
                };
                let Some(old) = old else { return Ok(!self.absent_stays) };
                self.context
                    .engine()
                    .with_context(|context| self.means_same(context, chunk, &old, &new))
            }
            // It was made from the fill value.
            (Some(_), None) => Ok(!self.absent_stays),
            (None, Some(old)) => Ok(read(Some(old))?.is_none()),
        }
    }

    /// Whether a recompressed chunk is still the same. The compressor may have changed meanwhile,
    /// so the uncompressed bytes are compared.
    fn means_same(
        &self,
        context: &mut Context,
        chunk: &[u64],
        old: &[u8],
        new: &[u8],
    ) -> Result<bool, Error> {
        let (decode, encode) = match &self.relation {
            Relation::Recompressed { decode, encode } => (decode.as_ref(), encode.as_ref()),
            Relation::Rewrapped { zlib, gzip } => (Some(zlib), Some(gzip)),
            Relation::Prefixed(prefix) => {
                return Ok(new.strip_prefix(prefix.as_slice()) == Some(old));
            }
            Relation::Same | Relation::Recoded => return Ok(old == new),
        };
        let plain = |codec: Option<&Arc<dyn shardine_codec::BytesToBytes>>,
                     context: &mut Context,
                     bytes: &[u8]| {
            let mut out = context.take_buffer();
            let limit = usize::try_from(crate::engine::tuning::MAX_DECOMPRESSED);
            let done = match codec {
                Some(codec) => codec.decode(context, bytes, limit.unwrap_or(usize::MAX), &mut out),
                None => {
                    out.extend_from_slice(bytes);
                    Ok(())
                }
            };
            let damaged = |error: shardine_codec::CodecError| -> Error {
                match self.new.chunks.packing.key(&self.new_cell(chunk)) {
                    Ok(key) => {
                        let reason = format!("chunk {chunk:?}: {error}");
                        StoreError::Damaged { key, reason }.into()
                    }
                    Err(error) => error.into(),
                }
            };
            done.map(|()| out).map_err(damaged)
        };
        let (one, other) = (plain(decode, context, old)?, plain(encode, context, new)?);
        let same = one == other;
        context.give_buffer(one);
        context.give_buffer(other);
        Ok(same)
    }

    /// Decodes everything stored in both arrays, and compares.
    pub(super) fn compare_elements(&self) -> Result<(), Error> {
        let element = self.new.chunks.layout.element_size() as u64;
        let memory = self.context.engine().memory_in_flight();
        let each = memory / (4 * self.context.engine().threads().max(1) as u64);
        // With a part, only what this process has made exists.
        let unit = match self.part {
            None => grown(self.new.chunk_shape(), self.new.shape(), element, COMPARED.min(each)),
            Some(_) => self.new.chunk_shape().to_vec(),
        };
        self.context.engine().each_task(self.boxes(&unit, true)?, &|at, _| {
            self.context.check()?;
            if self.part.is_some() && !self.is_mine_chunk(&at) {
                return Ok(());
            }
            let (start, shape) = self.part_of(&at, &unit);
            self.compare_box(&start, &shape)?;
            let axes = shape.iter().zip(self.new.chunk_shape());
            self.advance(axes.map(|(&len, &n)| len.div_ceil(n.max(1))).product())
        })
    }

    /// Decodes a box of both arrays, and compares.
    pub(super) fn compare_box(&self, start: &[u64], shape: &[u64]) -> Result<(), Error> {
        match self.has_same_elements(start, shape)? {
            true => Ok(()),
            false => {
                let (start, shape) = (start.to_vec(), shape.to_vec());
                Err(RepackError::Elements { start, shape }.into())
            }
        }
    }

    fn has_same_elements(&self, start: &[u64], shape: &[u64]) -> Result<bool, Error> {
        let region = Region::of_box(start, shape);
        if self.axes.is_identity() {
            return Ok(self.old.read_elements(&region)? == self.new.read_elements(&region)?);
        }
        let new = self.new.read_elements(&region)?.into_fixed().unwrap_or_default();
        let mut old = vec![0; new.len()];
        let too_large = || RegionError::TooLarge { shape: shape.to_vec() };
        let element = self.new.chunks.layout.element_size();
        let place = Placement::contiguous(shape, element).ok_or_else(too_large)?;
        self.source.read(start, shape, &mut old, &place)?;
        Ok(old == new)
    }
}

/// Finds a cell in a shared object.
fn find_shared(
    shared: &dyn SharedPacking,
    object: u64,
    cell: &[u64],
) -> Result<Option<StoredBytes>, StoreError> {
    let Some(found) = shared.open(object, &[cell], false)? else { return Ok(None) };
    let range = found.ranges.into_iter().next().flatten();
    Ok(range.map(|range| StoredBytes { object: found.object, range: Some(range) }))
}

/// A multiple of `unit` of about `most` bytes.
fn grown(unit: &[u64], shape: &[u64], element: u64, most: u64) -> Vec<u64> {
    let bytes = |shape: &[u64]| shape.iter().fold(element, |n, &len| n.saturating_mul(len));
    let mut grown = unit.to_vec();
    for axis in (0..unit.len()).rev() {
        while grown[axis] < shape[axis] && bytes(&grown).saturating_mul(2) <= most {
            grown[axis] = grown[axis].saturating_mul(2);
        }
    }
    grown
}
