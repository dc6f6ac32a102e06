//! What says that a file is being appended, so that the same command goes on after a kill and another one does not.

use std::fs::Metadata;
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde_json::{Value, json};
use shardine::Location;
use shardine::store::{Condition, StoreError, StoreExt};
use shardine::zarr::APPEND_MARKER as NAME;

use crate::failure::{Failure, quoted};
use crate::units;

/// An append of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    axis: usize,
    /// The array's before the append.
    shape: Vec<u64>,
    /// The file: its path, length and time of change.
    name: String,
    bytes: u64,
    modified: String,
}

impl Marker {
    /// Of a file that is to be appended to an array of this shape.
    pub fn new(axis: usize, shape: &[u64], path: &Path, found: &Metadata) -> Result<Self, Failure> {
        let failed = |error| Failure::file(path, &error);
        let name = path.canonicalize().map_err(failed)?.display().to_string();
        // A time before 1970 tells files apart as well as any other.
        let modified = match found.modified().map_err(failed)?.duration_since(UNIX_EPOCH) {
            Ok(after) => format!("{}.{:09}", after.as_secs(), after.subsec_nanos()),
            Err(before) => format!("-{}", before.duration().as_nanos()),
        };
        Ok(Self { axis, shape: shape.to_vec(), name, bytes: found.len(), modified })
    }

    fn to_json(&self) -> Value {
        json!({
            "shardine_append": 1,
            "axis": self.axis,
            "shape": self.shape,
            "source": { "name": self.name, "bytes": self.bytes, "modified": self.modified },
        })
    }

    fn from_json(json: &Value) -> Option<Self> {
        if json.get("shardine_append")? != &json!(1) {
            return None;
        }
        let source = json.get("source")?;
        Some(Self {
            axis: usize::try_from(json.get("axis")?.as_u64()?).ok()?,
            shape: json
                .get("shape")?
                .as_array()?
                .iter()
                .map(Value::as_u64)
                .collect::<Option<_>>()?,
            name: source.get("name")?.as_str()?.to_owned(),
            bytes: source.get("bytes")?.as_u64()?,
            modified: source.get("modified")?.as_str()?.to_owned(),
        })
    }

    /// Whether this is an append of the same file along the same axis, be it from another shape on.
    fn is_same(&self, other: &Self) -> bool {
        let Self { axis, shape: _, name, bytes, modified } = self;
        (axis, name, bytes, modified) == (&other.axis, &other.name, &other.bytes, &other.modified)
    }

    /// How many planes an array of this shape has gained since; `None` if it has changed otherwise.
    fn gained(&self, shape: &[u64]) -> Option<u64> {
        let gained = shape.get(self.axis)?.checked_sub(*self.shape.get(self.axis)?)?;
        let mut before = shape.to_vec();
        before[self.axis] -= gained;
        (before == self.shape).then_some(gained)
    }

    /// Begins or goes on with this append of `count` planes; tells how many of them are in the array already.
    pub fn begin(
        &self,
        location: &Location,
        shape: &[u64],
        count: u64,
        url: &str,
        forget: bool,
    ) -> Result<u64, Failure> {
        if !forget {
            match read(location)? {
                None => {}
                Some(Some(old)) if old.is_same(self) => {
                    let gained = old.gained(shape).filter(|&gained| gained <= count);
                    return gained.ok_or_else(|| {
                        Failure::new(format!(
                            "an append of {} to this array was interrupted, and since then the array's shape was changed \
                             from {} to {} by something else",
                            old.name,
                            units::shape(&old.shape),
                            units::shape(shape)
                        ))
                        .hint("--forget leaves what is there and appends all of the file behind it")
                    });
                }
                Some(old) => return Err(refuse(old.as_ref(), Some(self), shape, url)),
            }
        }
        if count == 0 {
            return Ok(0);
        }
        let condition = if forget { Condition::None } else { Condition::Absent };
        let text = format!("{:#}\n", self.to_json());
        match location.store.put(&location.key(NAME)?, text.as_bytes(), condition) {
            Ok(_) => Ok(0),
            Err(StoreError::Conflict { .. }) => {
                Err(Failure::new("another append to this array has just begun"))
            }
            Err(error) => Err(shardine::Error::from(error).into()),
        }
    }
}

/// Refuses to append something that cannot be gone on with while an append of a file is unfinished.
pub fn check_none(
    location: &Location,
    shape: &[u64],
    url: &str,
    forget: bool,
) -> Result<(), Failure> {
    match read(location)? {
        None => Ok(()),
        Some(_) if forget => remove(location),
        Some(old) => Err(refuse(old.as_ref(), None, shape, url)),
    }
}

/// The append is at its end.
pub fn remove(location: &Location) -> Result<(), Failure> {
    let removed = location.store.delete_last(&location.key(NAME)?);
    Ok(removed.map_err(shardine::Error::from)?)
}

/// The marker that is there; `Some(None)` if it makes no sense.
fn read(location: &Location) -> Result<Option<Option<Marker>>, Failure> {
    let bytes = location.store.get(&location.key(NAME)?).map_err(shardine::Error::from)?;
    let parse = |bytes: &[u8]| Marker::from_json(&serde_json::from_slice(bytes).ok()?);
    Ok(bytes.map(|bytes| parse(&bytes)))
}

fn refuse(old: Option<&Marker>, new: Option<&Marker>, shape: &[u64], url: &str) -> Failure {
    let Some(old) = old else {
        return Failure::new(format!(
            "{NAME}, which tells of an append that was interrupted, is damaged"
        ))
        .hint("give --forget to leave the array as it is and begin anew");
    };
    let (axis, name) = (old.axis, &old.name);
    let planes = match old.gained(shape) {
        Some(planes) => format!("{} of it are in the array", units::count(planes, "plane")),
        None => "the array's shape was changed since".to_owned(),
    };
    if new.is_some_and(|new| new.name == *name && new.axis == axis) {
        return Failure::new(format!(
            "{name} has changed since an append of it was interrupted; {planes}"
        ))
        .hint("--forget leaves what is there and appends all of the file behind it");
    }
    Failure::new(format!("an append of {name} along axis {axis} was interrupted; {planes}")).hint(
        format!(
            "finish it with `shardine append {} {} --axis {axis}`, or give --forget to leave it at that",
            quoted(url),
            quoted(name)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marker() -> Marker {
        Marker {
            axis: 1,
            shape: vec![3, 4],
            name: "/a b.npy".to_owned(),
            bytes: u64::MAX,
            modified: "1.000000002".to_owned(),
        }
    }

    #[test]
    fn a_marker_is_read_as_it_was_written() {
        assert_eq!(Marker::from_json(&marker().to_json()), Some(marker()));
        for member in ["shardine_append", "axis", "shape", "source"] {
            let mut json = marker().to_json();
            json[member] = json!("x");
            assert_eq!(Marker::from_json(&json), None, "{member}");
        }
        assert_eq!(Marker::from_json(&json!([])), None);
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
