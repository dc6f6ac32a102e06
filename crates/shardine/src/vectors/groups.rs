//! Groups of objects.

use std::ops::Range;

use serde_json::Value;
use shardine_codec::ElementSize;

use super::error::VectorsError;
use super::objects::{open_array, slices};
use super::store::VectorStore;
use crate::zarr::ArrayNode;
use crate::{Error, Region};

/// Groups that are read together.
const AT_ONCE: u64 = 1 << 14;

/// The groups of a level: each is a list of ids, or a range of them.
struct GroupTable<'s> {
    store: &'s VectorStore,
    path: String,
    array: ArrayNode,
}

impl<'s> GroupTable<'s> {
    /// Opens the groups of a level; `None` if it has none.
    fn open(store: &'s VectorStore, level: u64) -> Result<Option<Self>, Error> {
        let path = format!("{level}/groups");
        let Some(array) = open_array(store, &path)? else { return Ok(None) };
        let table = Self { store, path, array };
        let is_bytes = table.array.data_type().size() == ElementSize::Variable;
        if table.array.shape().len() != 1 || !is_bytes {
            return Err(table.wrong("a list of bytes of variable length"));
        }
        Ok(Some(table))
    }

    fn wrong(&self, expected: &'static str) -> Error {
        self.store.wrong(VectorsError::Node { node: self.path.clone(), expected })
    }

    fn rows(&self) -> u64 {
        self.array.shape().first().copied().unwrap_or(0)
    }

    /// The range that a group is, if it is one.
    fn range(&self, group: u64) -> Result<Option<Range<i64>>, Error> {
        let ranges = self.array.metadata().attributes().get("group_ranges");
        let Some(range) = ranges.and_then(|ranges| ranges.get(group.to_string())) else {
            return Ok(None);
        };
        let number = |at: usize| range.get(at).and_then(Value::as_i64);
        match (number(0), number(1)) {
            (Some(start), Some(stop)) => Ok(Some(start..stop)),
            _ => Err(self.wrong("given group_ranges of two numbers each")),
        }
    }

    /// The ids in the row of a group.
    fn ids(&self, row: &[u8]) -> Result<Vec<i64>, Error> {
        match row.as_chunks::<8>() {
            (ids, []) => Ok(ids.iter().map(|id| i64::from_le_bytes(*id)).collect()),
            _ => Err(self.wrong("lists of int64")),
        }
    }
}

/// The objects of groups.
#[derive(Debug, Default)]
pub(super) struct Members {
    /// In ascending order.
    ids: Vec<i64>,
    ranges: Vec<Range<i64>>,
}

impl Members {
    pub(super) fn has(&self, id: i64) -> bool {
        self.ids.binary_search(&id).is_ok() || self.ranges.iter().any(|range| range.contains(&id))
    }

    /// Reads the objects of the given groups of a level.
    pub(super) fn read(store: &VectorStore, level: u64, groups: &[u64]) -> Result<Self, Error> {
        let Some(table) = GroupTable::open(store, level)? else {
            return Err(store.wrong(VectorsError::Question("the store has no groups".to_owned())));
        };
        let mut members = Self::default();
        for group in groups {
            if *group >= table.rows() {
                let id = i64::try_from(*group).unwrap_or(i64::MAX);
                return Err(store.wrong(VectorsError::NoSuch { what: "group", id }));
            }
            if let Some(range) = table.range(*group)? {
                members.ranges.push(range);
                continue;
            }
            let read = table.array.read_many_variable(&[Region::of_box(&[*group], &[1])])?;
            members.ids.extend(table.ids(read.get(0).unwrap_or_default())?);
        }
        members.ids.sort_unstable();
        Ok(members)
    }
}

impl VectorStore {
    /// Hands each group of a level that has members to `each`, in ascending order, with the ids of
    /// its members. Of a range of ids these are the objects that exist.
    ///
    /// Reads all groups, and all ids if there are ranges, which must fit into memory.
    pub fn each_group(
        &self,
        level: u64,
        mut each: impl FnMut(u64, &[i64]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Some(table) = GroupTable::open(self, level)? else { return Ok(()) };
        let mut known: Option<Vec<i64>> = None;
        for rows in slices(0..table.rows(), AT_ONCE) {
            let region = Region::of_box(&[rows.start], &[rows.end - rows.start]);
            let read = table.array.read_many_variable(&[region])?;
            for (group, row) in rows.zip(read.iter()) {
                let members = match table.range(group)? {
                    None => table.ids(row)?,
                    Some(range) => {
                        let known = match &mut known {
                            Some(known) => known,
                            None => known.insert(self.sorted_ids(level)?),
                        };
                        let from = known.partition_point(|id| *id < range.start);
                        let rest = known.get(from..).unwrap_or_default().iter().copied();
                        rest.take_while(|id| *id < range.end).collect()
                    }
                };
                if !members.is_empty() {
                    each(group, &members)?;
                }
            }
        }
        Ok(())
    }

    /// The ids of the objects of a level, in ascending order.
    fn sorted_ids(&self, level: u64) -> Result<Vec<i64>, Error> {
        let level = self.level(level)?;
        let Some(objects) = &level.objects else { return Ok(Vec::new()) };
        let rows = objects.select(None, None, self.engine.memory_in_flight())?;
        let mut ids: Vec<i64> = rows.into_iter().map(|(_, id)| id).collect();
        ids.sort_unstable();
        Ok(ids)
    }
}
