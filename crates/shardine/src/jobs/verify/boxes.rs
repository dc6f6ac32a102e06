//! Checks a scale whose chunks are single objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use shardine_codec::{ChunkCodec, Context, EncodedSize};
use shardine_store::{Key, Object, ReadRange, Store, StoreError, StoreExt};

use super::fill::Filling;
use crate::Error;
use crate::engine::Crew;
use crate::engine::tuning::MAX_DECOMPRESSED;
use crate::jobs::check::indexed::{Problem, Source, decode};
use crate::jobs::check::keyed::{Chunks, codec, is_gzip, last_part};
use crate::jobs::check::{BATCH, Finding, FindingKind, Run, Settled, Severity, settled};
use crate::jobs::losses::LOSS_RECORD;
use crate::precomputed::{BoxObject, Scale, Volume, compressed_ending};

/// A chunk that is an object.
struct Boxed {
    key: Key,
    cell: [u64; 3],
    len: u64,
    /// Whether its name has an extension that says how the file is compressed.
    wrapped: bool,
}

impl Boxed {
    /// The codec that its extension stands for, if known, and the magic bytes of such files.
    fn codec(&self) -> Option<(&'static str, &'static [u8])> {
        match compressed_ending(self.key.as_str()).filter(|_| self.wrapped)? {
            ".gz" => Some(("gzip", &[0x1F, 0x8B])),
            ".zstd" => Some(("zstd", &[0x28, 0xB5, 0x2F, 0xFD])),
            _ => None,
        }
    }
}

/// What is wrong with a chunk, and whether it was decoded.
struct Seen {
    problem: Option<Problem>,
    decoded: bool,
}

impl Run<'_> {
    /// Checks an unsharded scale. `known` accepts names in its folder that are something else.
    pub(super) fn boxes(
        &self,
        volume: &Volume,
        scale: &Scale,
        chunks: &Chunks,
        known: &dyn Fn(&Key) -> bool,
    ) -> Result<Filling, Error> {
        let folder = volume.folder(scale)?;
        self.begin(folder.as_ref())?;
        let mut filling = Filling::of_chunks(folder.clone(), scale.grid());
        let location = volume.location().at(folder.clone());
        let listed = self
            .leftovers(&location, folder.as_ref())
            .and_then(|()| Ok(location.store.list(folder.as_ref())?));
        let listing = match listed {
            Ok(listing) => listing,
            Err(Error::Store(StoreError::Unsupported { .. })) => {
                self.sum(|summary| summary.unlisted = true);
                let message = "the chunks are objects, and the store cannot list them".to_owned();
                self.note(Finding::new(FindingKind::NotChecked, folder, message));
                filling.unknown = true;
                return Ok(filling);
            }
            Err(error) => {
                self.unreadable(folder.as_ref(), &error);
                filling.unknown = true;
                return Ok(filling);
            }
        };
        let names = volume.box_names(scale)?;
        let has_endings = location.store.has_folders();
        let copies: Vec<_> = (1..scale.chunk_sizes.len())
            .map(|i| {
                let mut copy = scale.clone();
                copy.chunk_sizes = scale.chunk_sizes.get(i).copied().into_iter().collect();
                volume.box_names(&copy)
            })
            .collect::<Result<_, _>>()?;
        let is_other_copy = |name: &str| copies.iter().any(|names| names.object(name).is_some());
        let mut found = Vec::new();
        let mut has_record = false;
        for (key, len) in listing.objects {
            let name = last_part(&key);
            if name == LOSS_RECORD {
                has_record = true;
                continue;
            }
            match names.object(name) {
                Some(BoxObject { cell, compressed: wrapped }) => {
                    found.push(Boxed { key, cell, len, wrapped });
                }
                None if known(&key) || is_other_copy(name) => {}
                None => self.stray_box(key),
            }
        }
        listing.folders.into_iter().filter(|key| !known(key)).for_each(|key| self.stray_box(key));
        self.two_forms(&found);
        if let Some(first) = found.iter().find(|chunk| chunk.wrapped) {
            let count = found.iter().filter(|chunk| chunk.wrapped).count();
            let what = if has_endings { "not all readers" } else { "no reader" };
            let message = format!(
                "{count} of {} chunks are compressed as files, such as \"{}\": {what} look for such names",
                found.len(),
                last_part(&first.key)
            );
            self.note(Finding::new(FindingKind::WrappedChunks, folder.clone(), message));
        }
        found.iter().for_each(|chunk| filling.presence.set(chunk.cell));
        found.retain(|chunk| self.takes(&chunk.key));
        for batch in found.chunks(BATCH) {
            self.box_batch(&*location.store, chunks, batch)?;
        }
        if has_record {
            self.box_losses(&*location.store, folder.as_ref());
        }
        Ok(filling)
    }

    fn stray_box(&self, key: Key) {
        let message = "is not the name of a chunk of this scale".to_owned();
        self.note(Finding::new(FindingKind::StrayObject, Some(key), message));
    }

    /// Reports chunks that exist twice.
    fn two_forms(&self, found: &[Boxed]) {
        let plain: BTreeSet<[u64; 3]> =
            found.iter().filter(|chunk| !chunk.wrapped).map(|chunk| chunk.cell).collect();
        let mut seen: BTreeMap<[u64; 3], &Key> = BTreeMap::new();
        for chunk in found.iter().filter(|chunk| chunk.wrapped) {
            let other = seen.insert(chunk.cell, &chunk.key).map(last_part);
            if other.is_none() && !plain.contains(&chunk.cell) {
                continue;
            }
            let message = format!(
                "the chunk is also stored as {}: which one is read depends on the reader",
                other.unwrap_or("an uncompressed file")
            );
            let finding = Finding::new(FindingKind::TwoForms, Some(chunk.key.clone()), message);
            let [x, y, z] = chunk.cell;
            self.note(finding.chunk(Some(vec![x, y, z, 0])));
        }
    }

    fn box_batch(&self, store: &dyn Store, chunks: &Chunks, batch: &[Boxed]) -> Result<(), Error> {
        let crew = match store.read_cost().local {
            true => Crew::Workers(self.engine.workers_within(chunks.memory())),
            false => Crew::Waiting(self.engine.at_once(store, chunks.memory())),
        };
        let look = |chunk: &Boxed, _, context: &mut Context| {
            let seen = self.boxed(store, chunks, chunk, context)?;
            self.sum(|summary| {
                summary.bytes += chunk.len;
                summary.chunks += 1;
                summary.chunks_decoded += u64::from(seen.decoded);
            });
            Some(seen.problem)
        };
        self.batch(crew, batch, |chunk| &chunk.key, &look, &mut |chunk, problem| {
            if let Some((kind, message)) = problem {
                let [x, y, z] = chunk.cell;
                let finding = Finding::new(kind, Some(chunk.key.clone()), message);
                self.tell([finding.chunk(Some(vec![x, y, z, 0]))]);
            }
        })
    }

    /// Checks a chunk; `None` if it does not exist. Where the listing is enough, nothing is read.
    fn boxed(
        &self,
        store: &dyn Store,
        chunks: &Chunks,
        chunk: &Boxed,
        context: &mut Context,
    ) -> Option<Seen> {
        let sound = Seen { problem: None, decoded: false };
        let unknown = chunk.wrapped && chunk.codec().is_none();
        let has_length = chunks.raw_len(chunk.cell).is_none_or(|exact| exact == chunk.len);
        let is_listed = !self.scope.decode && !chunk.wrapped && has_length && chunk.len > 0;
        if (unknown && chunk.len > 0) || is_listed {
            return Some(sound);
        }
        // The file name says how it is compressed; the headers only repeat it.
        let open = || match chunk.wrapped {
            true => store.open_stored(&chunk.key),
            false => store.open(&chunk.key, None),
        };
        let look = &mut |object: &Arc<dyn Object>| {
            let seen = self.open_box(&**object, chunks, chunk, context)?;
            let is_damage = |(kind, _): &Problem| kind.severity() == Severity::Damage;
            let is_damaged = seen.problem.as_ref().is_some_and(is_damage);
            Ok((seen, is_damaged))
        };
        match settled(&chunk.key, &open, look) {
            Settled::Seen(seen) => Some(seen),
            Settled::Gone => None,
            Settled::Failed(kind, message) => {
                Some(Seen { problem: Some((kind, message)), decoded: false })
            }
        }
    }

    /// Checks one version of a chunk.
    fn open_box(
        &self,
        object: &dyn Object,
        chunks: &Chunks,
        chunk: &Boxed,
        context: &mut Context,
    ) -> Result<Seen, StoreError> {
        let seen = |problem: Option<Problem>| Ok(Seen { problem, decoded: false });
        let exact = chunks.raw_len(chunk.cell).filter(|_| !chunk.wrapped);
        let wrapping = chunk.codec();
        let chunk_codec = self.scope.decode.then(|| chunks.codec(chunk.cell)).flatten();
        // A listing gives the stored length, which headers may declare encoded. An object of the
        // wrong length is not read whole.
        let listed = object.len().unwrap_or(chunk.len);
        let fits = exact.is_none_or(|exact| exact == listed);
        let is_too_large = |codec: &ChunkCodec| {
            listed > MAX_DECOMPRESSED && codec.encoded_size() == EncodedSize::Unbounded
        };
        let bytes = match chunk_codec {
            Some(codec) if fits && !is_too_large(codec) => object.read(ReadRange::All)?,
            _ => {
                let head = |len: u64| {
                    let most = wrapping.map_or(2, |(_, magic)| magic.len() as u64);
                    object.read(ReadRange::Bounded(0..len.min(most)))
                };
                match head(listed) {
                    Err(StoreError::OutOfRange { len, .. }) => head(len)?,
                    head => head?,
                }
            }
        };
        let len = object.len().unwrap_or(listed);
        if len == 0 {
            let problem = (FindingKind::EmptyObject, "it is empty".to_owned());
            return seen(Some(problem));
        }
        if chunk.wrapped && wrapping.is_none() {
            return seen(None);
        }
        if let (Some((name, magic)), false) = (wrapping, self.scope.decode) {
            let problem = (FindingKind::Chunk, format!("is named like {name}, but is not"));
            return seen((*bytes != *magic).then_some(problem));
        }
        if let Some(exact) = exact.filter(|&exact| exact != len) {
            let why = if is_gzip(&bytes) { "; it starts like gzip" } else { "" };
            let message = format!("the chunk has {len} bytes, but should have {exact}{why}");
            return seen(Some((FindingKind::ChunkSize, message)));
        }
        let Some(chunk_codec) = chunk_codec else { return seen(None) };
        if is_too_large(chunk_codec) {
            let message = format!("a chunk of {len} bytes is too large to decode");
            return seen(Some((FindingKind::NotChecked, message)));
        }
        let bytes = if fits { bytes } else { object.read(ReadRange::All)? };
        let mut plain = context.take_buffer();
        let unpacked = wrapping.and_then(|(name, _)| {
            let limit = usize::try_from(MAX_DECOMPRESSED).unwrap_or(usize::MAX);
            let decode = codec(name).and_then(|c| c.decode(context, &bytes, limit, &mut plain));
            let error = decode.err()?;
            Some((FindingKind::Chunk, format!("the file is not {name}: {error}")))
        });
        let problem = match unpacked {
            Some(problem) => Some(problem),
            None => {
                let bytes = if chunk.wrapped { plain.as_slice() } else { &bytes };
                let (source, at) = (Source::Decoded(bytes), 0..bytes.len() as u64);
                decode(context, source, &chunk.key, chunk_codec, at)?
            }
        };
        context.give_buffer(plain);
        Ok(Seen { problem, decoded: true })
    }
}
