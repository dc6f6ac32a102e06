//! An array viewed with the axes x, y, z and channel, in this order, whatever its own are.

use serde_json::Value;

use super::super::rebuild::AxisMap;
use super::ConvertError;
use crate::precomputed::AXES;
use crate::{Array, Error};

/// The number of axes of a volume.
pub(super) const RANK: usize = 4;

/// Stands for a time axis, which a volume does not have: an array may have one of length 1.
pub(super) const TIME: usize = RANK;

/// The axis of a volume that a name stands for.
pub(super) fn axis_of(name: &str) -> Option<usize> {
    match name.to_ascii_lowercase().as_str() {
        "c" => Some(RANK - 1),
        "t" | "time" => Some(TIME),
        name => AXES.iter().position(|axis| *axis == name),
    }
}

/// Maps each axis of an array to one of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct View {
    axes: Vec<usize>,
    /// Whether the axes are unnamed.
    pub assumed: bool,
}

impl View {
    /// By the names of the axes, given by `said` or the array itself, or without names by their
    /// order.
    pub fn of(array: &Array, said: Option<&[String]>) -> Result<Self, Error> {
        let shape = array.shape();
        let rank = shape.len();
        let refuse = |reason: String| -> Error {
            ConvertError::Axes { at: array.location().to_string(), reason }.into()
        };
        let own = names(array);
        if let (Some(said), Some(own)) = (said, &own)
            && !(said.len() == own.len()
                && said.iter().zip(own).all(|(said, own)| axis_of(said) == axis_of(own)))
        {
            let (said, own) = (said.join(", "), own.join(", "));
            return Err(refuse(format!(
                "its axes are {own}, but those of \"multiscales\" are {said}"
            )));
        }
        let Some(names) = said.map(<[String]>::to_vec).or(own) else {
            if rank != RANK && rank != RANK - 1 {
                return Err(refuse(format!(
                    "an array of {rank} axes; a volume has x, y, z and channel"
                )));
            }
            return Ok(Self { axes: (0..rank).collect(), assumed: true });
        };
        let all = names.join(", ");
        if names.len() != rank {
            return Err(refuse(format!("it has {rank} axes, but the named axes are {all}")));
        }
        let mut axes = Vec::with_capacity(rank);
        for (name, &len) in names.iter().zip(shape) {
            match axis_of(name) {
                Some(TIME) if len != 1 => {
                    return Err(refuse(format!(
                        "its axes are {all}, and it has {len} time points along {name}; a volume \
                         has one"
                    )));
                }
                Some(axis) if !axes.contains(&axis) => axes.push(axis),
                _ => {
                    return Err(refuse(format!(
                        "its axes are {all}, not x, y, z and, if there are four, channel"
                    )));
                }
            }
        }
        if !(0..RANK - 1).all(|axis| axes.contains(&axis)) {
            return Err(refuse(format!("its axes are {all}; a volume has x, y and z")));
        }
        Ok(Self { axes, assumed: false })
    }

    /// The names of the array's axes, in order.
    pub fn names(&self) -> Vec<String> {
        let name = |&axis: &usize| AXES.get(axis).copied().unwrap_or("t").to_owned();
        self.axes.iter().map(name).collect()
    }

    /// The axis of the volume for each axis of the array.
    pub fn map(&self) -> AxisMap {
        let axis = |&axis: &usize| (axis != TIME).then_some(axis);
        AxisMap::new(self.axes.iter().map(axis).collect(), RANK)
    }
}

/// The names of an array's axes; `None` unless all have one.
fn names(array: &Array) -> Option<Vec<String>> {
    array.axis_names()?.iter().cloned().collect()
}

/// Parses an attribute as three numbers.
pub(super) fn triple<T>(
    value: Option<&Value>,
    read: impl Fn(&Value) -> Option<T>,
) -> Option<[T; 3]> {
    let items: Vec<T> = value?.as_array()?.iter().map(read).collect::<Option<_>>()?;
    items.try_into().ok()
}
