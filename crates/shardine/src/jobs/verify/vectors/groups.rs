//! Groups of objects: their members exist.

use serde_json::Value;
use shardine_codec::ElementSize;
use shardine_geometry::zarr_vectors::rules::{RuleKind, Violation};

use super::StoreCheck;
use super::objects::object_of;
use crate::jobs::check::{Finding, FindingKind, Limit};
use crate::{ArrayNode, Error, Region};

/// The ids of objects, as far as they are known.
pub(super) enum KnownIds {
    /// 0, 1, 2 and so on, as many.
    Counted(u64),
    /// These, in ascending order.
    Listed(Vec<i64>),
    /// They could not be read, or are too many for the memory.
    Unknown,
}

impl KnownIds {
    /// Whether there is an object with an id; `None` if that is not known.
    fn has(&self, id: i64) -> Option<bool> {
        match self {
            Self::Counted(count) => Some(u64::try_from(id).is_ok_and(|id| id < *count)),
            Self::Listed(ids) => Some(ids.binary_search(&id).is_ok()),
            Self::Unknown => None,
        }
    }

    /// How many objects have an id from `start` to before `stop`; `None` if that is not known.
    fn between(&self, start: i64, stop: i64) -> Option<u64> {
        match self {
            Self::Counted(count) => {
                let last = |id: i64| u64::try_from(id).unwrap_or(0).min(*count);
                Some(last(stop).saturating_sub(last(start)))
            }
            Self::Listed(ids) => {
                let before = |id: i64| ids.partition_point(|known| *known < id);
                Some(before(stop).saturating_sub(before(start)) as u64)
            }
            Self::Unknown => None,
        }
    }
}

impl StoreCheck<'_, '_> {
    /// Judges the groups of objects with these ids. Only the first part does.
    pub(super) fn groups(&self, groups: &ArrayNode, known: &KnownIds) -> Result<(), Error> {
        let location = groups.location();
        let &[rows] = groups.shape() else {
            let message = "must be a list of bytes of variable length".to_owned();
            self.run.note_at(location, FindingKind::VectorsMetadata, message);
            return Ok(());
        };
        if groups.data_type().size() != ElementSize::Variable {
            let message = "must be a list of bytes of variable length".to_owned();
            self.run.note_at(location, FindingKind::VectorsMetadata, message);
            return Ok(());
        }
        if !self.run.is_first() {
            return Ok(());
        }
        let said = groups.metadata().attributes();
        let counts = [("num_groups", said.get("num_groups").and_then(Value::as_u64), rows)];
        self.note_counts(location, &counts, None);
        let mut found = Vec::new();
        if let Some(ranges) = said.get("group_ranges").filter(|ranges| !ranges.is_null()) {
            judge_ranges(ranges, rows, known, &mut found);
        }
        self.note_document(location, found);
        if self.run.scope.metadata_only {
            return Ok(());
        }
        if matches!(known, KnownIds::Unknown) {
            let message = "whether the members of groups exist was not checked: the ids of objects \
                           are not known, or too many for the memory";
            self.run.note_at(location, FindingKind::NotChecked, message.to_owned());
        }
        let step = groups.chunk_shape().first().copied().unwrap_or(1).max(1);
        let mut limit = Limit::new(self.run.scope.max_of_kind);
        let mut start = 0;
        while start < rows {
            self.step(location, start as usize, rows as usize)?;
            let count = step.min(rows - start);
            match groups.read_many_variable(&[Region::of_box(&[start], &[count])]) {
                Ok(read) => {
                    for (row, members) in (start..).zip(read.iter()) {
                        let Some(reason) = judge_members(members, known) else { continue };
                        let kind = FindingKind::of_vectors_rule(RuleKind::Objects);
                        if limit.admits(kind) {
                            let object = object_of(groups, row).or_else(|| location.path.clone());
                            let message = format!("group {row}: {reason}");
                            self.run.tell([Finding::new(kind, object, message)]);
                        }
                    }
                }
                Err(error) => self.unread_rows(groups, start, &error),
            }
            start += count;
        }
        self.run.count(&limit.untold);
        Ok(())
    }
}

/// What is wrong with the members of a group, in words.
fn judge_members(members: &[u8], known: &KnownIds) -> Option<String> {
    let (ids, rest) = members.as_chunks::<8>();
    if !rest.is_empty() {
        return Some(format!("its {} bytes are no whole number of ids", members.len()));
    }
    let ids = ids.iter().map(|id| i64::from_le_bytes(*id));
    let mut missing = ids.filter(|id| known.has(*id) == Some(false));
    let first = missing.next()?;
    Some(match missing.count() {
        0 => format!("it has object {first}, which does not exist"),
        more => format!("it has object {first} and {more} more that do not exist"),
    })
}

/// Judges the groups that are given as ranges of ids, among as many `rows`.
fn judge_ranges(ranges: &Value, rows: u64, known: &KnownIds, found: &mut Vec<Violation>) {
    let Some(ranges) = ranges.as_object() else {
        let message = "group_ranges: must name groups, each with two ids";
        found.push(Violation::new(RuleKind::Metadata, message));
        return;
    };
    for (group, range) in ranges {
        let mut tell = |kind, message: String| {
            found.push(Violation::new(kind, format!("group_ranges, group {group}: {message}")));
        };
        if !group.parse::<u64>().is_ok_and(|number| number < rows) {
            tell(RuleKind::Metadata, format!("there are {rows} groups"));
        }
        let number = |at: usize| range.get(at).and_then(Value::as_i64);
        let (Some(start), Some(stop)) = (number(0), number(1)) else {
            tell(RuleKind::Metadata, format!("{range} are not two ids"));
            continue;
        };
        let wanted = u64::try_from(i128::from(stop) - i128::from(start)).unwrap_or(0);
        if let Some(there) = known.between(start, stop).filter(|there| *there < wanted) {
            let missing = wanted - there;
            let text =
                format!("it has the objects {start} to {}, {missing} of which do not exist", {
                    i128::from(stop) - 1
                });
            tell(RuleKind::Objects, text);
        }
    }
}
