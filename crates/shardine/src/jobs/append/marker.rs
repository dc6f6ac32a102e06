//! The marker of a file that is being appended, so that the same job resumes after a kill and a
//! different one is refused.

use serde_json::{Map, Value, json};

use super::AppendError;
use crate::Error;
use crate::files::FoundFile;
use crate::zarr::{AppendClaim, AppendNote};

/// An append of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    axis: usize,
    /// The array's shape before the append.
    shape: Vec<u64>,
    source: FoundFile,
}

impl Marker {
    /// For a file that is to be appended to an array of this shape.
    pub fn new(axis: usize, shape: &[u64], source: FoundFile) -> Self {
        Self { axis, shape: shape.to_vec(), source }
    }

    fn to_members(&self) -> Map<String, Value> {
        let mut members = Map::new();
        members.insert("axis".to_owned(), json!(self.axis));
        members.insert("shape".to_owned(), json!(self.shape));
        members.insert("source".to_owned(), json!(self.source));
        members
    }

    fn from_members(members: &Map<String, Value>) -> Option<Self> {
        let shape = members.get("shape")?.as_array()?;
        Some(Self {
            axis: usize::try_from(members.get("axis")?.as_u64()?).ok()?,
            shape: shape.iter().map(Value::as_u64).collect::<Option<_>>()?,
            source: serde_json::from_value(members.get("source")?.clone()).ok()?,
        })
    }

    /// Whether this is an append of the same file along the same axis, even from a different shape.
    fn is_same(&self, other: &Self) -> bool {
        (self.axis, &self.source) == (other.axis, &other.source)
    }

    /// How many planes an array of this shape has gained since; `None` if it has changed in other
    /// ways.
    fn gained(&self, shape: &[u64]) -> Option<u64> {
        let gained = shape.get(self.axis)?.checked_sub(*self.shape.get(self.axis)?)?;
        let mut before = shape.to_vec();
        before[self.axis] -= gained;
        (before == self.shape).then_some(gained)
    }

    /// Begins or resumes this append of `count` planes; returns how many of them are already in the
    /// array.
    pub fn begin(
        &self,
        claim: &mut AppendClaim,
        shape: &[u64],
        count: u64,
        forget: bool,
    ) -> Result<u64, Error> {
        match left(claim) {
            Some(Some(old)) if !forget && old.is_same(self) => {
                let gained = old.gained(shape).filter(|&gained| gained <= count);
                return gained.ok_or_else(|| {
                    let [was, shape] = [&old.shape, shape].map(<[u64]>::to_vec);
                    AppendError::Reshaped { name: old.source.name, was, shape }.into()
                });
            }
            Some(old) if !forget => return Err(refuse(old.as_ref(), Some(self), shape)),
            _ => {}
        }
        if count > 0 {
            claim.set_note(Some(self.to_members()))?;
        }
        Ok(0)
    }
}

/// Refuses to append something that cannot be resumed while an append of a file is unfinished.
pub fn check_none(claim: &mut AppendClaim, shape: &[u64], forget: bool) -> Result<(), Error> {
    match left(claim) {
        None => Ok(()),
        Some(_) if forget => claim.set_note(None),
        Some(old) => Err(refuse(old.as_ref(), None, shape)),
    }
}

/// The marker of an interrupted append; `Some(None)` if it is invalid.
fn left(claim: &AppendClaim) -> Option<Option<Marker>> {
    Some(match claim.note()? {
        AppendNote::Members(members) => Marker::from_members(members),
        AppendNote::Damaged(_) => None,
    })
}

fn refuse(old: Option<&Marker>, new: Option<&Marker>, shape: &[u64]) -> Error {
    let Some(old) = old else { return AppendError::DamagedMarker.into() };
    let (axis, name, planes) = (old.axis, old.source.name.clone(), old.gained(shape));
    match new.is_some_and(|new| new.source.name == name && new.axis == axis) {
        true => AppendError::FileChanged { name, planes },
        false => AppendError::Unfinished { name, axis, planes },
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marker() -> Marker {
        Marker {
            axis: 1,
            shape: vec![3, 4],
            source: serde_json::from_value(json!({
                "name": "/a b.npy", "bytes": u64::MAX, "modified": "1.000000002",
            }))
            .unwrap(),
        }
    }

    #[test]
    fn a_marker_is_read_as_it_was_written() {
        assert_eq!(Marker::from_members(&marker().to_members()), Some(marker()));
        for member in ["axis", "shape", "source"] {
            let mut members = marker().to_members();
            members[member] = json!("x");
            assert_eq!(Marker::from_members(&members), None, "{member}");
        }
        assert_eq!(Marker::from_members(&Map::new()), None);
    }

    #[test]
    fn what_an_array_gained_is_told_by_its_shape() {
        assert_eq!(marker().gained(&[3, 4]), Some(0));
        assert_eq!(marker().gained(&[3, 9]), Some(5));
        for shape in [&[3, 3][..], &[4, 9], &[3], &[], &[3, 9, 1]] {
            assert_eq!(marker().gained(shape), None, "{shape:?}");
        }
    }
}
