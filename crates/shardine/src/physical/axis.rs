//! An axis with positions.

use std::ops::Range;

use super::BoxError;
use crate::ome::{AxisRole, length_in_nanometers, time_in_seconds};

/// How far from a boundary of voxels a number still counts as on it, as a share of the largest
/// coordinate in voxels: decimal fractions such as 0.1 have no exact form.
const TOLERANCE: f64 = 1e-9;

/// The most of a voxel that this may be, however far away the coordinates are.
const MOST_TOLERANCE: f64 = 1e-3;

/// An axis of an array in physical coordinates: the centre of element `i` is at `i * scale +
/// translation`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PhysicalAxis {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub role: AxisRole,
    /// The unit of its coordinates.
    pub unit: Option<String>,
    /// The distance from one element to the next; negative if coordinates fall.
    pub scale: f64,
    /// The centre of the first element.
    pub translation: f64,
}

impl PhysicalAxis {
    /// An axis.
    pub fn new(
        name: impl Into<String>,
        role: AxisRole,
        unit: Option<&str>,
        scale: f64,
        translation: f64,
    ) -> Self {
        Self { name: name.into(), role, unit: unit.map(str::to_owned), scale, translation }
    }

    /// The centre of an element.
    pub fn centre(&self, index: u64) -> f64 {
        index as f64 * self.scale + self.translation
    }

    /// The elements with their centre from `start` on and before `stop`, of so many elements; the
    /// range is empty if there are none. A missing end has no limit.
    pub fn elements(&self, start: Option<f64>, stop: Option<f64>, len: u64) -> Range<u64> {
        // In which order coordinates reach the ends decides which end counts as inside.
        let (first, end) = match self.scale < 0.0 {
            false => (
                start.map(|at| self.place(at, -1.0).ceil()),
                stop.map(|at| self.place(at, -1.0).ceil()),
            ),
            true => (
                stop.map(|at| self.place(at, 1.0).floor() + 1.0),
                start.map(|at| self.place(at, 1.0).floor() + 1.0),
            ),
        };
        // Saturates, so that what is outside becomes an end.
        let first = first.map_or(0, |first| first as u64);
        let end = end.map_or(len, |end| (end as u64).min(len));
        first..end.max(first)
    }

    /// The element that a position is in, of so many elements; `None` if it is outside. An element
    /// reaches half of the scale to both sides of its centre.
    pub fn element_at(&self, position: f64, len: u64) -> Option<u64> {
        let at = (self.place(position, 1.0) + 0.5).floor();
        (at >= 0.0 && at < len as f64).then_some(at as u64)
    }

    /// A coordinate in elements, moved by the tolerance.
    fn place(&self, at: f64, side: f64) -> f64 {
        let place = (at - self.translation) / self.scale;
        let largest = [place, at / self.scale, self.translation / self.scale];
        let largest = largest.iter().fold(1.0f64, |largest, place| largest.max(place.abs()));
        place + side * (TOLERANCE * largest).min(MOST_TOLERANCE)
    }

    /// Refuses an axis whose elements have no positions.
    pub(super) fn check_scale(&self) -> Result<(), BoxError> {
        match self.scale == 0.0 || !self.scale.is_finite() || !self.translation.is_finite() {
            true => Err(BoxError::NoScale { axis: self.name.clone() }),
            false => Ok(()),
        }
    }

    /// A number in a unit, in that of the axis.
    pub(super) fn in_own_unit(&self, number: f64, given: Option<&String>) -> Result<f64, BoxError> {
        let Some(given) = given else { return Ok(number) };
        let Some(unit) = &self.unit else {
            return Err(BoxError::NoUnit { axis: self.name.clone(), given: given.clone() });
        };
        if given == unit {
            return Ok(number);
        }
        let known = [length_in_nanometers, time_in_seconds];
        let factors = known.iter().find_map(|known| Some((known(given)?, known(unit)?)));
        match factors {
            // The exact one of two ways: most factors are powers of ten, and one is not below 1.
            Some((from, to)) if from >= to => Ok(number * (from / to)),
            Some((from, to)) => Ok(number / (to / from)),
            None => Err(BoxError::OtherUnit {
                axis: self.name.clone(),
                unit: unit.clone(),
                given: given.clone(),
            }),
        }
    }

    /// Where the centres of so many elements are, in words.
    pub(super) fn centres(&self, len: u64) -> String {
        let (first, last) = (self.centre(0), self.centre(len.saturating_sub(1)));
        let unit = self.unit.as_ref().map(|unit| format!(" {unit}")).unwrap_or_default();
        format!("from {} to {}{unit}", rounded(first), rounded(last))
    }
}

/// A number without the digits that come from computing with fractions.
fn rounded(number: f64) -> f64 {
    format!("{number:.11e}").parse().unwrap_or(number)
}
