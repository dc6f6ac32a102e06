//! An array seen with the axes x, y, z and channel, in this order, whatever its own are.

use serde_json::Value;

use super::ConvertError;
use crate::precomputed::AXES;
use crate::{Array, Error};

/// How many axes a volume has.
pub(super) const RANK: usize = 4;

/// The attribute by which version 2 names axes.
const NAMES: &str = "_ARRAY_DIMENSIONS";

/// Which axis of a volume each axis of an array is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct View {
    axes: Vec<usize>,
    /// Whether nothing names them.
    pub assumed: bool,
}

impl View {
    /// Of an array that has the axes of a volume in their order.
    pub fn straight() -> Self {
        Self { axes: (0..RANK).collect(), assumed: false }
    }

    /// By the names of the axes, or where there are none by their order.
    pub fn of(array: &Array) -> Result<Self, Error> {
        let rank = array.shape().len();
        let refuse = |reason: String| -> Error {
            ConvertError::Axes { at: array.location().to_string(), reason }.into()
        };
        if rank != RANK && rank != RANK - 1 {
            return Err(refuse(format!(
                "an array of {rank} axes; a volume has x, y, z and channel"
            )));
        }
        let Some(names) = names(array) else {
            return Ok(Self { axes: (0..rank).collect(), assumed: true });
        };
        let mut axes = Vec::with_capacity(rank);
        for name in &names {
            let known = match name.to_ascii_lowercase().as_str() {
                "c" => Some(RANK - 1),
                name => AXES.iter().position(|axis| *axis == name),
            };
            match known {
                Some(axis) if !axes.contains(&axis) => axes.push(axis),
                _ => {
                    let names = names.join(", ");
                    return Err(refuse(format!(
                        "its axes are {names}, not x, y, z and, if there are four, channel"
                    )));
                }
            }
        }
        // Three axes of which one is channel leave out one that a volume needs.
        if rank < RANK && axes.contains(&(RANK - 1)) {
            let names = names.join(", ");
            return Err(refuse(format!("its axes are {names}; a volume has x, y and z")));
        }
        Ok(Self { axes, assumed: false })
    }

    /// The names of the array's axes, in their order.
    pub fn names(&self) -> Vec<&'static str> {
        self.axes.iter().map(|&axis| AXES[axis]).collect()
    }

    /// Which axis of a volume axis `axis` of the array is.
    pub fn volume_axis(&self, axis: usize) -> usize {
        self.axes.get(axis).copied().unwrap_or(axis)
    }

    /// Lengths along the axes of the array, along those of a volume.
    pub fn to_volume(&self, by_axis: &[u64]) -> Vec<u64> {
        let mut lengths = vec![1; RANK];
        for (&axis, &n) in self.axes.iter().zip(by_axis) {
            lengths[axis] = n;
        }
        lengths
    }

    /// What is by axis of a volume, by axis of the array.
    pub fn to_array<T: Copy>(&self, by_axis: &[T]) -> Vec<T> {
        self.axes.iter().filter_map(|&axis| by_axis.get(axis).copied()).collect()
    }
}

/// The names of an array's axes; `None` if not all have one.
fn names(array: &Array) -> Option<Vec<String>> {
    let metadata = array.metadata();
    if let Some(names) = metadata.dimension_names() {
        return names.iter().cloned().collect();
    }
    let names = metadata.attributes().get(NAMES)?.as_array()?;
    let names: Vec<String> =
        names.iter().map(|name| name.as_str().map(str::to_owned)).collect::<Option<_>>()?;
    (names.len() == array.shape().len()).then_some(names)
}

/// The three numbers that an attribute is.
pub(super) fn triple<T>(
    value: Option<&Value>,
    read: impl Fn(&Value) -> Option<T>,
) -> Option<[T; 3]> {
    let items: Vec<T> = value?.as_array()?.iter().map(read).collect::<Option<_>>()?;
    items.try_into().ok()
}
