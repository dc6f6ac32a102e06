//! Physical coordinates: where the elements of an array are, and which of them lie in a box of
//! lengths and times.
//!
//! [`DataSet::physical`](crate::DataSet::physical) says where the elements of a data set are; an
//! OME-Zarr image and a precomputed volume say the same of the same voxels, although one gives the
//! centre of its first voxel and the other a corner.

mod axis;
mod parse;

#[cfg(test)]
mod tests;

use std::fmt;

pub use axis::PhysicalAxis;

use crate::Region;
use crate::ome::AxisRole;

/// A box in physical coordinates as people write it: `z=0:20um,y=105.5um:,c=1`.
///
/// A range holds the elements whose centre is in it: from its start, and before its stop. Either
/// end may be missing, and a box is clipped to the array. A single number is a position: the
/// element whose extent holds it. Axes of which nothing is said are whole.
///
/// Numbers are in the unit of their axis unless a unit follows; one that follows only one end of a
/// range holds for both. Along time and channels, a number without a unit counts elements from 0.
///
/// ```
/// use shardine::ome::AxisRole;
/// use shardine::physical::{BoxError, PhysicalAxis, PhysicalBox};
///
/// let z = PhysicalAxis::new("z", AxisRole::Space, Some("micrometer"), 0.1, 0.0);
/// let axes = [PhysicalAxis::new("c", AxisRole::Channel, None, 1.0, 0.0), z];
/// let twenty: PhysicalBox = "z=0:20um".parse()?;
/// assert_eq!(twenty.region(&axes, &[3, 512])?.to_string(), "0:3,0:200");
/// let voxel: PhysicalBox = "z=1234nm, c=2".parse()?;
/// assert_eq!(voxel.region(&axes, &[3, 512])?.to_string(), "2:3,12:13");
/// # Ok::<(), BoxError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct PhysicalBox {
    text: String,
    items: Vec<(String, BoxItem)>,
}

/// What a box says of an axis.
#[derive(Debug, Clone, PartialEq)]
enum BoxItem {
    Range { start: Option<Quantity>, stop: Option<Quantity> },
    Position(Quantity),
}

/// A number, and the unit after it.
#[derive(Debug, Clone, PartialEq)]
struct Quantity {
    number: f64,
    unit: Option<String>,
}

/// What is wrong with a box.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BoxError {
    /// The text is not a box.
    #[error(
        "\"{item}\" in box \"{text}\" is not AXIS=START:STOP or AXIS=POSITION, such as z=0:20um"
    )]
    Syntax {
        /// The whole text.
        text: String,
        /// The item that cannot be parsed.
        item: String,
    },
    /// Two items name the same axis.
    #[error("axis \"{axis}\" is named twice in a box")]
    NamedTwice {
        /// Which.
        axis: String,
    },
    /// No axis, or more than one, has this name.
    #[error("there is no single axis \"{axis}\"; the axes are {}", names.join(", "))]
    UnknownAxis {
        /// As given.
        axis: String,
        /// The names that there are.
        names: Vec<String>,
    },
    /// The unit is not known.
    #[error("\"{unit}\" is not a unit that is known, such as nm, um, mm, ms or s")]
    UnknownUnit {
        /// As given.
        unit: String,
    },
    /// The axis has no unit to convert to.
    #[error("axis \"{axis}\" has no unit, so {given} means nothing there")]
    NoUnit {
        /// Which axis.
        axis: String,
        /// The unit as given.
        given: String,
    },
    /// The unit measures something else than the axis.
    #[error("axis \"{axis}\" is in {unit}, which {given} cannot be converted to")]
    OtherUnit {
        /// Which axis.
        axis: String,
        /// Its unit.
        unit: String,
        /// The unit as given.
        given: String,
    },
    /// Elements are counted along the axis, and the number is no whole number.
    #[error(
        "{number} on axis \"{axis}\" is not a whole number, by which elements are counted there"
    )]
    NotAnIndex {
        /// Which axis.
        axis: String,
        /// As given.
        number: f64,
    },
    /// The elements of the axis are all in one place.
    #[error("the scale of axis \"{axis}\" is 0, so its elements have no positions")]
    NoScale {
        /// Which axis.
        axis: String,
    },
    /// No element is in the box.
    #[error("no element of axis \"{axis}\" is in the box: {there}")]
    Empty {
        /// Which axis.
        axis: String,
        /// Where its elements are.
        there: String,
    },
    /// The metadata tells of other axes than the array has.
    #[error("the metadata places {axes} axes, but the array has {rank}")]
    Rank {
        /// Axes with positions.
        axes: usize,
        /// Axes of the array.
        rank: usize,
    },
}

impl fmt::Display for PhysicalBox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PhysicalBox {
    /// The elements in the box, of an array with these axes and this shape.
    pub fn region(&self, axes: &[PhysicalAxis], shape: &[u64]) -> Result<Region, BoxError> {
        if axes.len() != shape.len() {
            return Err(BoxError::Rank { axes: axes.len(), rank: shape.len() });
        }
        let (mut start, mut count) = (vec![0; shape.len()], shape.to_vec());
        for (name, item) in &self.items {
            let mut named = (0..axes.len()).filter(|&i| axes[i].name == *name);
            let (Some(at), None) = (named.next(), named.next()) else {
                let names = axes.iter().map(|axis| axis.name.clone()).collect();
                return Err(BoxError::UnknownAxis { axis: name.clone(), names });
            };
            let found = item.elements(&axes[at], shape[at])?;
            (start[at], count[at]) = (found.start, found.end - found.start);
        }
        Ok(Region::of_box(&start, &count))
    }
}

impl BoxItem {
    /// The elements of an axis that it selects: at least one.
    fn elements(&self, axis: &PhysicalAxis, len: u64) -> Result<std::ops::Range<u64>, BoxError> {
        let given = |quantity: &Option<Quantity>| quantity.as_ref().and_then(|q| q.unit.clone());
        let unit = match self {
            Self::Position(position) => position.unit.clone(),
            Self::Range { start, stop } => given(start).or_else(|| given(stop)),
        };
        let counts = match axis.role {
            AxisRole::Channel => true,
            AxisRole::Time => unit.is_none(),
            _ => false,
        };
        if counts && let Some(given) = unit {
            return Err(BoxError::NoUnit { axis: axis.name.clone(), given });
        }
        let found = match (self, counts) {
            (Self::Range { start, stop }, true) => {
                let index = |end: &Option<Quantity>, open: u64| match end {
                    Some(quantity) => quantity.index(axis),
                    None => Ok(open),
                };
                index(start, 0)?..index(stop, len)?.min(len)
            }
            (Self::Position(position), true) => {
                let index = position.index(axis)?;
                index..index.saturating_add(1).min(len)
            }
            (Self::Range { start, stop }, false) => {
                // A unit at one end is for both: 5:20um begins at 5 um.
                let convert = |end: &Quantity| {
                    axis.in_own_unit(end.number, end.unit.as_ref().or(unit.as_ref()))
                };
                axis.check_scale()?;
                let start = start.as_ref().map(convert).transpose()?;
                axis.elements(start, stop.as_ref().map(convert).transpose()?, len)
            }
            (Self::Position(position), false) => {
                axis.check_scale()?;
                let position = axis.in_own_unit(position.number, position.unit.as_ref())?;
                axis.element_at(position, len).map_or(0..0, |index| index..index + 1)
            }
        };
        if found.start < found.end {
            return Ok(found);
        }
        let there = match (len, counts) {
            (0, _) => "it has no elements".to_owned(),
            (_, true) => format!("its elements are counted from 0 to {}", len - 1),
            (_, false) => format!("their centres are {}", axis.centres(len)),
        };
        Err(BoxError::Empty { axis: axis.name.clone(), there })
    }
}

impl Quantity {
    /// A number that counts elements.
    fn index(&self, axis: &PhysicalAxis) -> Result<u64, BoxError> {
        // Whole numbers up to here are exact.
        const MOST: f64 = 9_007_199_254_740_992.0;
        if self.number.fract() != 0.0 || !(0.0..=MOST).contains(&self.number) {
            return Err(BoxError::NotAnIndex { axis: axis.name.clone(), number: self.number });
        }
        Ok(self.number as u64)
    }
}
