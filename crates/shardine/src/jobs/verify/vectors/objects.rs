//! The objects of a level: ids, manifests, attributes and groups.

use std::collections::BTreeMap;

use shardine_geometry::zarr_vectors::rules::{self, RuleKind, Violation};
use shardine_geometry::zarr_vectors::{Block, ManifestRows, ObjectIndex, chunk_key};
use shardine_store::Key;

use super::groups::KnownIds;
use super::level::LevelCheck;
use super::{Nodes, StoreCheck};
use crate::jobs::check::vectors::each_block;
use crate::jobs::check::{Finding, FindingKind, Limit};
use crate::vectors::Manifests;
use crate::zarr::{Group, Node};
use crate::{ArrayNode, Error, ErrorKind, Location, Region};

/// How many rows of numbers are read at a time.
pub(super) const AT_ONCE: u64 = 1 << 16;

/// What was seen of manifests.
#[derive(Default)]
struct Seen {
    /// Objects with a fragment.
    present: u64,
    /// Whether some could not be read.
    partial: bool,
}

impl StoreCheck<'_, '_> {
    /// Judges the objects of a level.
    pub(super) fn objects(&self, level: &mut LevelCheck) -> Result<(), Error> {
        let index = level.nodes.remove("object_index").and_then(|node| self.group(node));
        let mut ids = KnownIds::Unknown;
        if let Some(index) = &index
            && let Some((rows, known)) = self.index(level, index)?
        {
            self.tables(level.nodes.remove("object_attributes"), rows, "objects");
            ids = known;
        }
        let groups = level.nodes.remove("groups").and_then(|node| self.array(node));
        if let Some(groups) = groups {
            let rows = groups.shape().first().copied().unwrap_or(0);
            self.tables(level.nodes.remove("group_attributes"), rows, "groups");
            self.groups(&groups, &ids)?;
        }
        Ok(())
    }

    /// Judges that the arrays of a group have a row for each of `rows` things.
    pub(super) fn tables(&self, group: Option<Node>, rows: u64, of: &str) {
        let group = group.and_then(|node| self.group(node));
        for (_, node) in group.iter().flat_map(|group| self.nodes(group).opened) {
            let Some(array) = self.array(node) else { continue };
            let found = array.shape().first().copied().unwrap_or(0);
            if found != rows {
                let message = format!("it has {found} rows for {rows} {of}");
                let found = vec![Violation::new(RuleKind::Attributes, message)];
                self.note_document(array.location(), found);
            }
        }
    }

    /// Judges the index of objects; how many it has and their ids, `None` if that is not clear.
    fn index(
        &self,
        level: &mut LevelCheck,
        index: &Group,
    ) -> Result<Option<(u64, KnownIds)>, Error> {
        let location = index.location();
        let refuse = |location: &Location, message: String| {
            self.run.note_at(location, FindingKind::VectorsMetadata, message);
        };
        let attributes = index.metadata().attributes();
        let document = match ObjectIndex::read(attributes, level.rank) {
            Ok(document) => document,
            Err(error) => {
                refuse(location, error.to_string());
                return Ok(None);
            }
        };
        let Nodes { opened, unopened } = self.nodes(index);
        let mut nodes: BTreeMap<String, Node> = opened.into_iter().collect();
        let mut take = |name: &str| nodes.remove(name).and_then(|node| self.array(node));
        let ids = take("object_ids");
        let manifests = match (take("manifests"), take("manifest_spans"), take("manifest_blocks")) {
            (Some(bytes), ..) => Manifests::Bytes(bytes),
            (None, Some(spans), Some(blocks)) => Manifests::Dense { spans, blocks },
            _ => {
                if unopened.is_empty() {
                    refuse(location, "there are no manifests".to_owned());
                }
                return Ok(None);
            }
        };
        if let Err(wrong) = manifests.check(level.rank) {
            refuse(wrong.array.location(), format!("must be {}", wrong.expected));
            return Ok(None);
        }
        let rows = manifests.rows();
        let known = match &ids {
            Some(ids) => self.ids(ids, rows, &document)?,
            // Then an id is the number of a row.
            None if unopened.is_empty() => KnownIds::Counted(rows),
            None => KnownIds::Unknown,
        };
        let seen = self.manifests(level, &manifests, &document)?;
        if self.run.is_first() && !seen.partial {
            self.owners(level, location);
            let number = |name: &str| attributes.get(name).and_then(serde_json::Value::as_u64);
            let counts = [
                ("num_objects", number("num_objects"), rows),
                ("num_present", number("num_present"), seen.present),
            ];
            let correction = rules::Correction::Objects { objects: rows, present: seen.present };
            let can_be = matches!(manifests, Manifests::Bytes(_));
            self.note_counts(location, &counts, can_be.then_some(correction));
        }
        Ok(Some((rows, known)))
    }

    /// Reports fragments that belong to no object.
    fn owners(&self, level: &LevelCheck, location: &Location) {
        let Some(unowned) = level.table.unowned() else { return };
        let (chunk, fragment) = unowned.first;
        let message = format!(
            "{} fragments with vertices belong to no object; the first is fragment {fragment} of \
             chunk {}",
            unowned.count,
            chunk_key(&chunk)
        );
        // Points, graphs and meshes can be read without objects.
        let kind = match self.store.kind().has_objects() {
            true => RuleKind::Objects,
            false => RuleKind::Doubtful,
        };
        self.note_document(location, vec![Violation::new(kind, message)]);
    }

    /// Judges ids: there is one for each of `rows` manifests, they ascend if the index says so, and
    /// no two are the same. Only the first part reads them.
    fn ids(&self, ids: &ArrayNode, rows: u64, index: &ObjectIndex) -> Result<KnownIds, Error> {
        let location = ids.location();
        let tell = |kind: RuleKind, message: String| {
            self.note_document(location, vec![Violation::new(kind, message)]);
        };
        if ids.data_type().name() != "int64" || ids.shape().len() != 1 {
            let message = "must be a list of int64".to_owned();
            self.run.note_at(location, FindingKind::VectorsMetadata, message);
            return Ok(KnownIds::Unknown);
        }
        let count = ids.shape().first().copied().unwrap_or(0);
        if count != rows {
            tell(RuleKind::Objects, format!("there are {count} ids for {rows} manifests"));
        }
        if !self.run.is_first() {
            return Ok(KnownIds::Unknown);
        }
        let mut kept: Vec<i64> = Vec::new();
        let fits = count.saturating_mul(8) <= self.run.engine.memory_in_flight() / 4;
        let (mut before, mut ascend, mut start) = (None, true, 0);
        while start < count {
            self.step(location, start as usize, count as usize)?;
            let end = count.min(start + AT_ONCE);
            let read = match ids.read::<i64>(start..end) {
                Ok(read) => read,
                Err(error) => {
                    self.unread_rows(ids, start, &error);
                    return Ok(KnownIds::Unknown);
                }
            };
            for id in &read {
                ascend &= before.is_none_or(|before| before < *id);
                before = Some(*id);
            }
            if fits {
                kept.extend(read);
            }
            start = end;
        }
        if ascend {
            return Ok(if fits { KnownIds::Listed(kept) } else { KnownIds::Unknown });
        }
        kept.sort_unstable();
        let twice: Vec<&[i64]> = kept.windows(2).filter(|pair| pair[0] == pair[1]).collect();
        if let Some(first) = twice.first() {
            let message = match twice.len() {
                1 => format!("two objects have the id {}", first[0]),
                more => format!("{more} ids belong to several objects; the first is {}", first[0]),
            };
            tell(RuleKind::Objects, message);
        } else if !fits {
            let message = "whether ids are unique was not checked: there are too many for the \
                           memory";
            self.run.note_at(location, FindingKind::NotChecked, message.to_owned());
        }
        if index.sorted {
            let message = "ids do not ascend, but the index says so (object_ids_sorted): readers \
                           that rely on it miss objects";
            tell(RuleKind::Objects, message.to_owned());
        }
        Ok(if fits { KnownIds::Listed(kept) } else { KnownIds::Unknown })
    }

    /// Judges manifests against the chunks of the level. All are read by the first part; the others
    /// read their own.
    fn manifests(
        &self,
        level: &mut LevelCheck,
        manifests: &Manifests,
        index: &ObjectIndex,
    ) -> Result<Seen, Error> {
        let (array, rows) = (manifests.array(), manifests.rows());
        let step = match manifests {
            Manifests::Bytes(bytes) => bytes.chunk_shape().first().copied().unwrap_or(1).max(1),
            Manifests::Dense { .. } => AT_ONCE,
        };
        let (mut seen, mut start) = (Seen::default(), 0);
        while start < rows {
            self.step(array.location(), start as usize, rows as usize)?;
            let count = step.min(rows - start);
            let key = object_of(array, start);
            let own = key.as_ref().map_or(self.run.is_first(), |key| self.run.takes(key));
            if own || self.run.is_first() {
                let mut place =
                    Place { array, key, own, limit: Limit::new(self.run.scope.max_of_kind) };
                let place = &mut place;
                match manifests {
                    Manifests::Bytes(bytes) => {
                        self.manifest_bytes(level, bytes, start, count, index, place, &mut seen);
                    }
                    Manifests::Dense { spans, blocks } => {
                        self.manifest_rows(level, [spans, blocks], start, count, place, &mut seen);
                    }
                }
                self.run.count(&place.limit.untold);
            }
            start += count;
        }
        Ok(seen)
    }

    #[expect(clippy::too_many_arguments, reason = "all of it is one place in one walk")]
    fn manifest_bytes(
        &self,
        level: &mut LevelCheck,
        bytes: &ArrayNode,
        start: u64,
        count: u64,
        index: &ObjectIndex,
        place: &mut Place<'_>,
        seen: &mut Seen,
    ) {
        let read = match bytes.read_many_variable(&[Region::of_box(&[start], &[count])]) {
            Ok(read) => read,
            Err(error) => {
                seen.partial = true;
                if place.own {
                    self.unread_rows(bytes, start, &error);
                }
                return;
            }
        };
        for (row, manifest) in (start..).zip(read.iter()) {
            match each_block(manifest, index.rank, |block| level.table.take(&block)) {
                Ok(present) => seen.present += u64::from(present),
                Err(reason) => self.tell_manifest(place, row, &reason, seen),
            }
        }
    }

    fn manifest_rows(
        &self,
        level: &mut LevelCheck,
        [spans, blocks]: [&ArrayNode; 2],
        start: u64,
        count: u64,
        place: &mut Place<'_>,
        seen: &mut Seen,
    ) {
        let total = blocks.shape().first().copied().unwrap_or(0);
        let columns = blocks.shape().get(1).copied().unwrap_or(1).max(1);
        let region = Region::of_box(&[start, 0], &[count, 2]);
        let read = match spans.read::<i64>(&region) {
            Ok(read) => read,
            Err(error) => {
                seen.partial = true;
                if place.own {
                    self.unread_rows(spans, start, &error);
                }
                return;
            }
        };
        for (row, span) in (start..).zip(read.as_chunks::<2>().0) {
            let span = match ManifestRows::parse(*span, total) {
                Ok(span) => span,
                Err(error) => {
                    self.tell_manifest(place, row, &error.to_string(), seen);
                    continue;
                }
            };
            seen.present += u64::from(span.count > 0);
            let mut at = span.start;
            let end = span.start + span.count;
            while at < end {
                let count = AT_ONCE.min(end - at);
                let found = match blocks.read::<i64>(&Region::of_box(&[at, 0], &[count, columns])) {
                    Ok(found) => found,
                    Err(error) => {
                        seen.partial = true;
                        if place.own {
                            self.unread_rows(blocks, at, &error);
                        }
                        break;
                    }
                };
                let wrong = found.chunks_exact(columns as usize).find_map(|block| {
                    match Block::of_row(block) {
                        Ok(block) => level.table.take(&block).err(),
                        Err(error) => Some(error.to_string()),
                    }
                });
                if let Some(reason) = wrong {
                    self.tell_manifest(place, row, &reason, seen);
                    break;
                }
                at += count;
            }
        }
    }

    fn tell_manifest(&self, place: &mut Place<'_>, row: u64, reason: &str, seen: &mut Seen) {
        seen.partial = true;
        if !place.own {
            return;
        }
        let kind = FindingKind::of_vectors_rule(RuleKind::Objects);
        if !place.limit.admits(kind) {
            return;
        }
        let object = place.key.clone().or_else(|| place.array.location().path.clone());
        let message = format!("the manifest in row {row}: {reason}");
        self.run.tell([Finding::new(kind, object, message)]);
    }

    /// Reports rows of a table that could not be read.
    pub(super) fn unread_rows(&self, array: &ArrayNode, row: u64, error: &Error) {
        let kind = match error.kind() {
            ErrorKind::Damaged if self.run.scope.decode => return,
            ErrorKind::Damaged => FindingKind::Chunk,
            _ => FindingKind::Unreadable,
        };
        let object = object_of(array, row).or_else(|| array.location().path.clone());
        let message = format!("rows from {row} on cannot be read: {error}");
        self.run.tell([Finding::new(kind, object, message)]);
    }
}

/// Where manifests are, and whether they belong to this part.
struct Place<'a> {
    array: &'a ArrayNode,
    key: Option<Key>,
    own: bool,
    limit: Limit,
}

/// The object that holds a row of a table.
pub(super) fn object_of(array: &ArrayNode, row: u64) -> Option<Key> {
    let mut place = vec![0; array.shape().len()];
    if let (Some(first), Some(len)) = (place.first_mut(), array.cell_shape().first()) {
        *first = row / (*len).max(1);
    }
    array.chunks.packing.key(&place).ok()
}
