//! A scale whose chunks are objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use shardine_codec::{Context, EncodedSize};
use shardine_store::{Key, ReadRange, Store, StoreError, StoreExt};

use super::super::object::Source;
use super::super::{Finding, FindingKind, Run, add, payload};
use super::fill::Filling;
use super::folder::Chunks;
use super::names::{last_part, unwrapped};
use super::survey::{codec, is_gzip};
use crate::Error;
use crate::engine::Crew;
use crate::engine::tuning::MAX_DECOMPRESSED;
use crate::jobs::losses::LOSS_RECORD;
use crate::precomputed::{BoxObject, Scale, Volume};

/// Chunks that are handed to the workers at a time.
const BATCH: usize = 1024;

/// A chunk that is an object.
struct Boxed {
    key: Key,
    cell: [u64; 3],
    len: u64,
    /// Whether its name has an ending that says how the file is compressed.
    wrapped: bool,
}

impl Boxed {
    /// The codec that its ending means, if that is understood, and what such files begin with.
    fn codec(&self) -> Option<(&'static str, &'static [u8])> {
        let name = self.key.as_str();
        let understood = [
            (".gz", "gzip", [0x1F, 0x8B].as_slice()),
            (".zstd", "zstd", &[0x28, 0xB5, 0x2F, 0xFD]),
        ];
        let found = understood.into_iter().find(|(ending, ..)| name.ends_with(ending));
        found.filter(|_| self.wrapped).map(|(_, codec, magic)| (codec, magic))
    }
}

/// What is wrong with one, and whether it was decoded.
struct Seen {
    problem: Option<(FindingKind, String)>,
    decoded: bool,
}

impl Run<'_> {
    /// Checks a scale that is not sharded. `known` are names in its folder that are something else.
    pub(super) fn boxes(
        &self,
        volume: &Volume,
        scale: &Scale,
        chunks: &Chunks,
        known: &dyn Fn(&Key) -> bool,
    ) -> Result<Filling, Error> {
        let folder = volume.folder(scale)?;
        let mut filling = Filling::of_chunks(folder.clone(), scale.grid());
        let location = volume.location().at(folder.clone());
        let listed = self
            .leftovers(&location, folder.as_ref())
            .and_then(|()| Ok(location.store.list(folder.as_ref())?));
        let listing = match listed {
            Ok(listing) => listing,
            Err(Error::Store(StoreError::Unsupported { .. })) => {
                self.unlisted.store(true, std::sync::atomic::Ordering::Relaxed);
                let message = "the chunks are objects, and the store cannot list them".to_owned();
                self.tell([Finding::new(FindingKind::NotChecked, folder, message)]);
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
        let is_other_copy = |name: &str| copies.iter().any(|names| names.cell(name).is_some());
        let mut found = Vec::new();
        let mut has_record = false;
        for (key, len) in listing.objects {
            let name = last_part(&key);
            if name == LOSS_RECORD {
                has_record = true;
                continue;
            }
            let plain = unwrapped(name).unwrap_or(name);
            match names.object(name) {
                Some(BoxObject { cell, compressed: wrapped }) => {
                    found.push(Boxed { key, cell, len, wrapped });
                }
                None if known(&key) || is_other_copy(plain) => {}
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
            self.tell([Finding::new(FindingKind::WrappedChunks, folder.clone(), message)]);
        }
        found.iter().for_each(|chunk| filling.presence.set(chunk.cell));
        for batch in found.chunks(BATCH) {
            self.box_batch(&location.store, chunks, batch);
        }
        if has_record {
            self.box_losses(&*location.store, folder.as_ref());
        }
        Ok(filling)
    }

    fn stray_box(&self, key: Key) {
        let message = "is not the name of a chunk of this scale".to_owned();
        self.tell([Finding::new(FindingKind::StrayObject, Some(key), message)]);
    }

    /// Tells of chunks that are there twice.
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
                "the chunk is also stored as {}: which of them is read depends on the reader",
                other.unwrap_or("a file that is not compressed")
            );
            let finding = Finding::new(FindingKind::TwoForms, Some(chunk.key.clone()), message);
            let [x, y, z] = chunk.cell;
            self.tell([finding.chunk(Some(vec![x, y, z, 0]))]);
        }
    }

    fn box_batch(&self, store: &Arc<dyn Store>, chunks: &Chunks, batch: &[Boxed]) {
        add(&self.counters.found, batch.len() as u64);
        let look = |chunk: &Boxed, context: &mut Context| {
            let seen = self.boxed(&**store, chunks, chunk, context);
            add(&self.counters.objects, 1);
            add(&self.counters.bytes, chunk.len);
            add(&self.counters.chunks, 1);
            self.progress();
            match seen {
                Ok(seen) => {
                    add(&self.counters.chunks_decoded, u64::from(seen.decoded));
                    seen.problem
                }
                // It is gone, or another one is there: of that nothing was said.
                Err(StoreError::NotFound { .. } | StoreError::Changed { .. }) => None,
                Err(error) => Some((FindingKind::Unreadable, error.to_string())),
            }
        };
        let tell = |chunk: &Boxed, problem: Option<(FindingKind, String)>| {
            if let Some((kind, message)) = problem {
                let [x, y, z] = chunk.cell;
                let finding = Finding::new(kind, Some(chunk.key.clone()), message);
                self.tell([finding.chunk(Some(vec![x, y, z, 0]))]);
            }
        };
        let crew = match store.read_cost().local {
            true => Crew::Workers(self.engine.workers_within(chunks.memory())),
            false => Crew::Waiting(self.engine.at_once(&**store, chunks.memory())),
        };
        let look = |i: usize, context: &mut Context| look(&batch[i], context);
        let tell = &mut |i: usize, problem| tell(&batch[i], problem);
        self.engine.batch_in_order(crew, batch.len(), &look, tell);
    }

    fn boxed(
        &self,
        store: &dyn Store,
        chunks: &Chunks,
        chunk: &Boxed,
        context: &mut Context,
    ) -> Result<Seen, StoreError> {
        let seen =
            |kind, message: String| Ok(Seen { problem: Some((kind, message)), decoded: false });
        if chunk.len == 0 {
            return seen(FindingKind::EmptyObject, "it has no bytes at all".to_owned());
        }
        let exact = chunks.raw_len(chunk.cell);
        let sound = Ok(Seen { problem: None, decoded: false });
        let wrapping = chunk.codec();
        if chunk.wrapped && wrapping.is_none() {
            return sound;
        }
        // Of a file whose name says how it is compressed, what its headers say beside that is the same once more.
        let object = || match chunk.wrapped {
            true => store.open_stored(&chunk.key),
            false => store.open(&chunk.key, None),
        };
        if let (Some((name, magic)), false) = (wrapping, self.options.decode) {
            let head = object()?.read(ReadRange::Bounded(0..chunk.len.min(magic.len() as u64)))?;
            return match *head == *magic {
                true => sound,
                false => seen(FindingKind::Chunk, format!("is called like {name} and is not")),
            };
        }
        if let (false, Some(exact)) = (chunk.wrapped, exact)
            && exact != chunk.len
        {
            // A listing tells how long what is stored is, which may be encoded as its headers say.
            let object = object()?;
            let head = object.read(ReadRange::Bounded(0..chunk.len.min(exact).min(2)))?;
            let len = object.len().unwrap_or(chunk.len);
            if len != exact {
                let why = if is_gzip(&head) { "; it begins like gzip" } else { "" };
                let message = format!("the chunk has {len} bytes, but should have {exact}{why}");
                return seen(FindingKind::ChunkSize, message);
            }
        }
        if !self.options.decode {
            return sound;
        }
        let Some(chunk_codec) = chunks.codec(chunk.cell) else { return sound };
        if chunk.len > MAX_DECOMPRESSED && chunk_codec.encoded_size() == EncodedSize::Unbounded {
            let message = format!("a chunk of {} bytes is not decoded", chunk.len);
            return seen(FindingKind::NotChecked, message);
        }
        let bytes = object()?.read(ReadRange::All)?;
        let mut plain = context.take_buffer();
        let unpacked = wrapping.map(|(name, _)| {
            let limit = usize::try_from(MAX_DECOMPRESSED).unwrap_or(usize::MAX);
            let decode = codec(name).and_then(|c| c.decode(context, &bytes, limit, &mut plain));
            decode
                .err()
                .map(|error| (FindingKind::Chunk, format!("the file is not {name}: {error}")))
        });
        let problem = unpacked.flatten();
        let problem = match problem {
            Some(problem) => Some(problem),
            None => {
                let bytes = if chunk.wrapped { plain.as_slice() } else { &bytes };
                let (source, at) = (Source::Decoded(bytes), 0..bytes.len() as u64);
                payload::decode(context, source, &chunk.key, chunk_codec, at)?
            }
        };
        context.give_buffer(plain);
        Ok(Seen { problem, decoded: true })
    }
}
