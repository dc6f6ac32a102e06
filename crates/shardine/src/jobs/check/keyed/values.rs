//! Checks the values of a shard: whether they are stored as `info` says, and with `decode` whether
//! they can be decoded.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use shardine_codec::Context;
use shardine_store::{Key, Object, ReadRange, StoreError};

use super::super::indexed::{self, Source};
use super::super::{FindingKind, together};
use super::fault::Fault;
use super::folder::{Folder, Payload};
use super::survey::{Form, Survey, Surveyed, is_gzip, is_zlib, touches, unpack};
use crate::Engine;
use crate::engine::Crew;
use crate::engine::tuning::MAX_DECOMPRESSED;
use crate::precomputed::key_values::{PayloadKind, fragments_len};
use crate::shard::uint64::Encoding;

/// Bytes at the start of a value that reveal how it is stored.
const HEAD: u64 = 16;

/// Values handed to the workers at a time.
const SHARE: usize = 1024;

/// How thoroughly to check the values of a shard.
pub(crate) struct Look<'a> {
    pub engine: &'a Engine,
    pub folder: &'a Folder,
    pub key: &'a Key,
    pub object: &'a dyn Object,
    pub decode: bool,
    pub workers: usize,
}

/// The result of checking values.
pub(crate) struct Looked {
    /// Values decoded.
    pub decoded: u64,
    /// Values whose stored form is known.
    pub looked: u64,
    /// The ranges of mesh fragments; `None` if manifests were not read.
    pub fragments: Option<Vec<Range<u64>>>,
}

/// The result for one value.
enum Seen {
    Sound,
    Form(Form),
    Fault(Fault),
    /// A manifest that refers to this many bytes.
    Fragments(u64),
}

impl Look<'_> {
    /// Checks the values that the survey found no fault with.
    pub fn values(&self, survey: &mut Survey) -> Result<Looked, StoreError> {
        self.sizes(survey);
        let mut sound: Vec<usize> = (0..survey.entries.len())
            .filter(|&i| survey.entries[i].is_sound() && survey.entries[i].entry.len > 0)
            .collect();
        sound.sort_by_key(|&i| survey.entries[i].entry.start);
        let local = self.folder.shards.store.read_cost().local;
        let whole = self.decode || (local && self.folder.is_mesh());
        let mut fragments = Vec::new();
        let (mut decoded, mut looked) = (0, sound.len() as u64);
        if whole {
            let seen = self.whole(survey, &sound, &mut decoded)?;
            for (i, seen) in seen {
                let surveyed = &mut survey.entries[i];
                match seen {
                    Seen::Sound => {}
                    Seen::Form(form) => surveyed.form = form,
                    Seen::Fault(fault) => surveyed.set(fault),
                    Seen::Fragments(need) => fragments.push((i, need)),
                }
            }
        } else if self.needs_heads() {
            // Values of the expected length need no further check.
            let looks_right = |s: &Surveyed| self.expected(s) == Some(s.entry.len);
            sound.retain(|&i| !looks_right(&survey.entries[i]));
            // One request per value would take long on a remote store; one per shard shows what its
            // writer did.
            let (now, rest) = sound.split_at(if local { sound.len() } else { sound.len().min(1) });
            for &i in now {
                self.head(&mut survey.entries[i])?;
            }
            for &i in rest {
                let (form, faulty) = match now.first().map(|&first| &survey.entries[first]) {
                    Some(first) => (first.form, first.fault.is_some()),
                    None => continue,
                };
                let Some(expected) = self.expected(&survey.entries[i]) else {
                    looked -= 1;
                    continue;
                };
                survey.entries[i].form = form;
                if faulty {
                    survey.entries[i].set(Fault::Size { expected });
                }
            }
        }
        let fragments = self.fragments(survey, fragments);
        let fragments = (whole || !self.folder.is_mesh()).then_some(fragments);
        Ok(Looked { decoded, looked, fragments })
    }

    /// The size of a raw, uncompressed chunk, if the scale's encoding is raw.
    fn raw_len(&self, surveyed: &Surveyed) -> Option<u64> {
        match &self.folder.payload {
            Payload::Chunks(chunks) => chunks.raw_len(chunks.cell(surveyed.entry.key)?),
            Payload::Values(_) => None,
        }
    }

    /// The length that a value must have, where known.
    fn expected(&self, surveyed: &Surveyed) -> Option<u64> {
        self.raw_len(surveyed).filter(|_| self.folder.data_encoding() == Encoding::Raw)
    }

    /// Finds the faults that show in the lengths of values.
    fn sizes(&self, survey: &mut Survey) {
        let raw = self.folder.data_encoding() == Encoding::Raw;
        for surveyed in survey.entries.iter_mut().filter(|surveyed| surveyed.is_sound()) {
            match &self.folder.payload {
                Payload::Chunks(chunks) => match chunks.cell(surveyed.entry.key) {
                    None => surveyed.set(Fault::OutsideArray),
                    Some(_) if surveyed.entry.len == 0 => surveyed.set(Fault::NoBytes),
                    Some(_) => {}
                },
                Payload::Values(_) if surveyed.entry.len == 0 && !raw => {
                    surveyed.set(Fault::NoBytes);
                }
                Payload::Values(PayloadKind::MultiresolutionMesh) if surveyed.entry.len == 0 => {
                    surveyed.set(Fault::NoManifest);
                }
                Payload::Values(_) => {}
            }
        }
    }

    /// Whether the first bytes of values reveal anything.
    fn needs_heads(&self) -> bool {
        match (&self.folder.payload, self.folder.data_encoding()) {
            (Payload::Chunks(_), _) | (_, Encoding::Gzip) => true,
            (Payload::Values(kind), Encoding::Raw) => *kind != PayloadKind::Unknown,
        }
    }

    /// Checks the first bytes of a value.
    fn head(&self, surveyed: &mut Surveyed) -> Result<(), StoreError> {
        let range = surveyed.range();
        let end = range.end.min(range.start.saturating_add(HEAD));
        let head = self.object.read(ReadRange::Bounded(range.start..end))?;
        let form = self.form(surveyed, &head);
        let seen = match form {
            // Decompressing it tells real gzip from a coincidence.
            Ok(Form::Gzip) => {
                let bytes = self.object.read(ReadRange::Bounded(range))?;
                self.engine.with_context(|context| self.confirmed(context, surveyed, &bytes))
            }
            form => form,
        };
        match seen {
            Ok(form) => surveyed.form = form,
            Err(fault) => surveyed.set(fault),
        }
        Ok(())
    }

    /// How a value is stored, judging by its first bytes.
    fn form(&self, surveyed: &Surveyed, head: &[u8]) -> Result<Form, Fault> {
        let len = surveyed.entry.len;
        let raw_len = self.raw_len(surveyed);
        match self.folder.data_encoding() {
            Encoding::Gzip if is_gzip(head) => Ok(Form::AsSaid),
            Encoding::Gzip => match &self.folder.payload {
                Payload::Chunks(chunks) if raw_len == Some(len) || chunks.is_encoded(len, head) => {
                    Ok(Form::Raw)
                }
                _ if is_zlib(head) => Ok(Form::Zlib),
                Payload::Values(_) => Ok(Form::Raw),
                Payload::Chunks(_) => Err(Fault::NotGzip),
            },
            Encoding::Raw => match raw_len {
                Some(exact) if exact == len => Ok(Form::AsSaid),
                _ if is_gzip(head) && self.needs_heads() => Ok(Form::Gzip),
                Some(expected) => Err(Fault::Size { expected }),
                None => Ok(Form::AsSaid),
            },
        }
    }

    /// Whether a value that looks like gzip is gzip.
    fn confirmed(
        &self,
        context: &mut Context,
        surveyed: &Surveyed,
        bytes: &[u8],
    ) -> Result<Form, Fault> {
        let mut decoded = context.take_buffer();
        let unpacked = unpack(Form::Gzip, context, bytes, MAX_DECOMPRESSED, &mut decoded);
        let len = decoded.len() as u64;
        context.give_buffer(decoded);
        match (unpacked, self.raw_len(surveyed)) {
            (Ok(()), None) => Ok(Form::Gzip),
            (Ok(()), Some(expected)) if expected == len => Ok(Form::Gzip),
            (_, Some(expected)) => Err(Fault::Size { expected }),
            (Err(_), None) => Ok(Form::AsSaid),
        }
    }

    /// Reads whole values, in pieces, and checks them on the workers.
    fn whole(
        &self,
        survey: &Survey,
        sound: &[usize],
        decoded: &mut u64,
    ) -> Result<Vec<(usize, Seen)>, StoreError> {
        let largest = self.engine.max_merged_read();
        let mut all = Vec::new();
        let mut rest = sound;
        while let Some((&first, more)) = rest.split_first() {
            let len = survey.entries[first].entry.len;
            if len > MAX_DECOMPRESSED {
                let reason = format!("has {len} bytes, which is too large to decode");
                all.push((first, Seen::Fault(Fault::TooLarge { reason })));
                rest = more;
                continue;
            }
            let ranges = rest.iter().take(SHARE).map(|&i| survey.entries[i].range());
            let Some((count, read)) = together(ranges, largest) else { break };
            let (now, later) = rest.split_at(count);
            rest = later;
            let bytes = self.object.read(ReadRange::Bounded(read.clone()))?;
            let done = AtomicU64::new(0);
            let work = |n: usize, context: &mut Context| {
                let surveyed = &survey.entries[now[n]];
                let range = surveyed.range();
                let at = (range.start - read.start) as usize..(range.end - read.start) as usize;
                self.value(context, surveyed, bytes.get(at).unwrap_or_default(), &done)
            };
            let take = &mut |n: usize, seen| all.push((now[n], seen));
            self.engine.batch_in_order(Crew::Workers(self.workers), now.len(), &work, take);
            *decoded += done.into_inner();
        }
        Ok(all)
    }

    fn value(
        &self,
        context: &mut Context,
        surveyed: &Surveyed,
        bytes: &[u8],
        done: &AtomicU64,
    ) -> Seen {
        let head = bytes.get(..HEAD as usize).unwrap_or(bytes);
        let form = match self.form(surveyed, head) {
            Ok(Form::Gzip) => self.confirmed(context, surveyed, bytes),
            form => form,
        };
        let form = match form {
            Ok(form) => form,
            Err(fault) => return Seen::Fault(fault),
        };
        match &self.folder.payload {
            Payload::Chunks(chunks) => {
                let codec = chunks.cell(surveyed.entry.key).and_then(|cell| chunks.codec(cell));
                if form != Form::AsSaid {
                    return Seen::Form(form);
                }
                let Some(codec) = codec else { return Seen::Sound };
                done.fetch_add(1, Ordering::Relaxed);
                let (source, at) = (Source::Decoded(bytes), 0..bytes.len() as u64);
                match indexed::decode(context, source, self.key, codec, at) {
                    Ok(None) => Seen::Sound,
                    Ok(Some((FindingKind::NotChecked, reason))) => {
                        Seen::Fault(Fault::TooLarge { reason: format!("is not checked: {reason}") })
                    }
                    Ok(Some((_, reason))) => {
                        Seen::Fault(Fault::Undecodable { reason: format!("is damaged: {reason}") })
                    }
                    Err(error) => {
                        Seen::Fault(Fault::Undecodable { reason: format!("is damaged: {error}") })
                    }
                }
            }
            Payload::Values(kind) => {
                done.fetch_add(1, Ordering::Relaxed);
                let stored = match (form, self.folder.data_encoding()) {
                    (Form::AsSaid, Encoding::Gzip) => Form::Gzip,
                    (form, _) => form,
                };
                let mut value = context.take_buffer();
                let unpacked = unpack(stored, context, bytes, MAX_DECOMPRESSED, &mut value);
                let need = fragments_len(&value);
                context.give_buffer(value);
                if let Err(error) = unpacked {
                    let reason = format!("cannot be decompressed: {error}");
                    return Seen::Fault(Fault::Undecodable { reason });
                }
                match (form, kind, need) {
                    (Form::AsSaid, PayloadKind::MultiresolutionMesh, None) => {
                        Seen::Fault(Fault::NoManifest)
                    }
                    (Form::AsSaid, PayloadKind::MultiresolutionMesh, Some(need)) => {
                        Seen::Fragments(need)
                    }
                    (Form::AsSaid, ..) => Seen::Sound,
                    (form, ..) => Seen::Form(form),
                }
            }
        }
    }

    /// The ranges of fragments, which end where their manifests begin. Nothing else may be there.
    fn fragments(&self, survey: &mut Survey, told: Vec<(usize, u64)>) -> Vec<Range<u64>> {
        let mut taken = survey.indexes.clone();
        let inside = survey.entries.iter().filter(|s| s.entry.len > 0 && s.is_inside(survey.len));
        taken.extend(inside.map(Surveyed::range));
        taken.sort_unstable_by_key(|range| range.start);
        taken.dedup_by(|next, last| {
            let joined = next.start <= last.end;
            if joined {
                last.end = last.end.max(next.end);
            }
            joined
        });
        let mut places: Vec<Range<u64>> = Vec::new();
        for (i, need) in told {
            let surveyed = &mut survey.entries[i];
            let end = surveyed.entry.start;
            match end.checked_sub(need).map(|start| start..end) {
                Some(place) if !touches(&taken, &place) => places.push(place),
                _ => surveyed.set(Fault::Fragments { need }),
            }
        }
        places
    }
}

/// Whether a value can be decoded, as far as known.
pub(crate) fn is_readable(
    engine: &Engine,
    folder: &Folder,
    key: &Key,
    object: &dyn Object,
    surveyed: &Surveyed,
    bytes: &[u8],
) -> bool {
    let look = Look { engine, folder, key, object, decode: true, workers: 1 };
    let value = |context: &mut Context| look.value(context, surveyed, bytes, &AtomicU64::new(0));
    !matches!(engine.with_context(value), Seen::Fault(_))
}
