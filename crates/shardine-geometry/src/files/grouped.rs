//! Checks that the vertices of an object follow each other.

use std::collections::BTreeMap;

use super::invalid;
use crate::{GeometryError, GeometryKind};

/// The objects that have come so far.
///
/// Ids are kept as runs of consecutive numbers, so ids in order, as most files have them, take no
/// memory.
pub(super) struct Grouped {
    format: &'static str,
    /// How many vertices each object must have, if the kind says so.
    exactly: Option<u64>,
    /// First and last id of each run of ids that have ended.
    ended: BTreeMap<i64, i64>,
    current: Option<(i64, u64)>,
    row: u64,
}

impl Grouped {
    /// `None` if the vertices of this kind come in any order.
    pub fn new(format: &'static str, kind: GeometryKind) -> Option<Self> {
        let exactly = (kind == GeometryKind::Lines).then_some(2);
        let checked = kind != GeometryKind::Points;
        checked.then(|| Self { format, exactly, ended: BTreeMap::new(), current: None, row: 0 })
    }

    /// The id of the next vertex.
    pub fn push(&mut self, id: i64) -> Result<(), GeometryError> {
        self.row += 1;
        match &mut self.current {
            Some((current, vertices)) if *current == id => *vertices += 1,
            _ => {
                self.end()?;
                if self.has_ended(id) {
                    return Err(invalid(
                        self.format,
                        format!("row {}", self.row),
                        format!(
                            "object {id} comes again after another one; sort the rows by object_id"
                        ),
                    ));
                }
                self.current = Some((id, 1));
            }
        }
        Ok(())
    }

    /// The vertices of the last object have come.
    pub fn end(&mut self) -> Result<(), GeometryError> {
        let Some((id, vertices)) = self.current.take() else { return Ok(()) };
        if let Some(exactly) = self.exactly.filter(|exactly| *exactly != vertices) {
            return Err(invalid(
                self.format,
                format!("object {id}"),
                format!("a line has {exactly} vertices, and this one has {vertices}"),
            ));
        }
        let before = self.ended.range(..id).next_back().map(|(&first, &last)| (first, last));
        let joined = before.filter(|(_, last)| last.checked_add(1) == Some(id));
        let first = joined.map_or(id, |(first, _)| first);
        let after = id.checked_add(1).and_then(|next| self.ended.remove(&next));
        self.ended.insert(first, after.unwrap_or(id));
        Ok(())
    }

    fn has_ended(&self, id: i64) -> bool {
        self.ended.range(..=id).next_back().is_some_and(|(_, &last)| id <= last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push_all(kind: GeometryKind, ids: &[i64]) -> Result<usize, String> {
        let mut grouped = Grouped::new("CSV", kind).unwrap();
        for &id in ids {
            grouped.push(id).map_err(|error| error.to_string())?;
        }
        grouped.end().map_err(|error| error.to_string())?;
        Ok(grouped.ended.len())
    }

    #[test]
    fn an_object_that_comes_again_is_named() {
        for ids in [&[5, 5, 7, 5][..], &[1, 2, 3, 4, 5], &[i64::MAX, i64::MIN, 0, i64::MAX]] {
            let answer = push_all(GeometryKind::Polylines, ids);
            match ids.len() {
                5 => assert_eq!(answer, Ok(1), "ids in order take one run"),
                _ => assert!(answer.unwrap_err().contains("row 4: object")),
            }
        }
        assert_eq!(push_all(GeometryKind::Polylines, &[2, 4, 3, 1, 9]), Ok(2));
    }

    #[test]
    fn a_line_has_two_vertices() {
        assert_eq!(push_all(GeometryKind::Lines, &[1, 1, 2, 2]), Ok(1));
        let error = push_all(GeometryKind::Lines, &[1, 1, 2, 3, 3]).unwrap_err();
        assert!(error.contains("object 2"), "{error}");
        assert!(push_all(GeometryKind::Lines, &[1, 1, 2]).is_err());
    }
}
