//! Groups of objects.

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;

use super::invalid;
use super::objects::{Limits, MANIFESTS, ObjectRows, RowBlocks, join, key_of};
use super::tables::id_column;
use crate::sort::{Sorter, Spool};
use crate::{GROUP, GeometryError, OBJECT_ID};

/// The most groups: each one up to the last has a row, also where it is empty.
const MOST_GROUPS: i64 = 1 << 24;

/// Gathers the members of groups, by object.
pub(super) struct GroupTable<'a> {
    members: Sorter<'a>,
    spool: &'a dyn Spool,
    memory: u64,
}

impl<'a> GroupTable<'a> {
    pub fn new(spool: &'a dyn Spool, memory: u64) -> Self {
        Self { members: Sorter::new(spool, 8, memory), spool, memory }
    }

    /// Adds rows with the columns [`GROUP`] and [`OBJECT_ID`].
    pub fn push(&mut self, rows: &RecordBatch) -> Result<(), GeometryError> {
        let groups = id_column(rows, GROUP)?.as_primitive::<Int64Type>();
        let objects = id_column(rows, OBJECT_ID)?.as_primitive::<Int64Type>();
        for (&group, &object) in groups.values().iter().zip(objects.values()) {
            if !(0..MOST_GROUPS).contains(&group) {
                let reason = format!("the number of a group is from 0 to {}", MOST_GROUPS - 1);
                return Err(invalid(format!("group {group}"), reason));
            }
            self.members.push(key_of(object), &group.to_le_bytes())?;
        }
        Ok(())
    }

    /// The members of each group by id, each of them once.
    pub fn finish(
        self,
        objects: &ObjectRows,
        limits: &Limits<'_>,
    ) -> Result<RowBlocks, GeometryError> {
        let mut by_group = Sorter::new(self.spool, 8, self.memory);
        join(objects, self.members.merge(), "members of groups", limits, &mut |id, rows| {
            for group in rows.as_chunks::<8>().0 {
                by_group.push(u64::from_le_bytes(*group).into(), &id.to_le_bytes())?;
            }
            Ok(())
        })?;
        let mut groups = RowBlocks::new(limits.memory, MANIFESTS);
        let (mut merge, mut rows, mut members) = (by_group.merge(), Vec::new(), Vec::new());
        while let Some(group) = merge.next_group(&mut rows, limits.most)? {
            (limits.check)()?;
            while u128::from(groups.len()) < group {
                groups.push(&[], limits.spool)?;
            }
            members.clear();
            let mut last = None;
            for member in rows.as_chunks::<8>().0 {
                if last.replace(member) != Some(member) {
                    members.extend_from_slice(member);
                }
            }
            groups.push(&members, limits.spool)?;
        }
        Ok(groups)
    }
}
