//! Planes in memory, as the source of a write.

use shardine_codec::strided::{self, Axes, Placement};
use shardine_codec::{Elements, ElementsRef, VariableElements};

use super::slice_writer::SliceError;
use crate::selection::RegionError;
use crate::source::{Source, SourceError, extents};

/// The shape of the planes across one axis of an array.
#[derive(Debug, Clone)]
pub(super) struct Plane {
    pub axis: usize,
    /// The array's shape, with 1 along the axis.
    pub shape: Vec<u64>,
    /// Elements of a plane; at least 1.
    pub elements: usize,
    /// Bytes of an element, if it has a fixed size.
    pub element: Option<usize>,
    /// From one element of a plane to the next, in units of [`unit`](Self::unit); along the axis,
    /// from plane to plane.
    strides: Axes<usize>,
}

impl Plane {
    pub fn new(shape: &[u64], axis: usize, element: Option<usize>) -> Result<Self, RegionError> {
        let mut shape = shape.to_vec();
        shape[axis] = 1;
        let too_large = || RegionError::TooLarge { shape: shape.clone() };
        let count = |n: usize, &d: &u64| n.checked_mul(usize::try_from(d).ok()?);
        let elements = shape.iter().try_fold(1, count).ok_or_else(too_large)?;
        let unit = element.unwrap_or(1);
        let bytes = elements.checked_mul(unit).filter(|&n| isize::try_from(n).is_ok());
        let bytes = bytes.ok_or_else(too_large)?;
        let place = Placement::contiguous(&shape, unit).ok_or_else(too_large)?;
        let mut strides = place.strides;
        strides[axis] = bytes;
        Ok(Self { axis, shape, elements, element, strides })
    }

    /// The unit of lengths: bytes, or elements where those have no fixed size.
    fn unit(&self) -> usize {
        self.element.unwrap_or(1)
    }

    /// The shape of this many planes.
    pub fn shape_of(&self, count: u64) -> Vec<u64> {
        let mut shape = self.shape.clone();
        shape[self.axis] = count;
        shape
    }

    /// The number of planes that these elements make up.
    pub fn count(&self, elements: ElementsRef<'_>) -> Result<usize, SliceError> {
        let actual = match (elements, self.element) {
            (ElementsRef::Fixed(bytes), Some(_)) => bytes.len(),
            (ElementsRef::Variable(elements), None) => elements.len(),
            _ => return Err(SliceError::Kind),
        };
        let plane = self.strides[self.axis];
        if !actual.is_multiple_of(plane) {
            return Err(SliceError::PartOfPlane {
                plane: plane as u64,
                over: (actual % plane) as u64,
            });
        }
        Ok(actual / plane)
    }

    /// Plane number `at` of `count` that lie in C order in `elements`.
    pub fn split(
        &self,
        elements: ElementsRef<'_>,
        count: usize,
        at: usize,
    ) -> Result<Elements, SliceError> {
        // Treat the axes before the one that is cut as one, and those after it as another.
        let inner: usize = self.shape[self.axis..].iter().map(|&n| n as usize).product();
        let outer = self.elements / inner;
        let unit = self.unit();
        let row = inner * unit;
        let shape = [outer, inner];
        let from =
            Placement { start: at * row, strides: [count * row, unit].into_iter().collect() };
        match elements {
            ElementsRef::Fixed(bytes) => {
                let len = self.elements * unit;
                let plane = crate::memory::zeroed(len, false);
                let mut plane = plane.ok_or(SliceError::Memory { bytes: len as u64 })?;
                let to = Placement { start: 0, strides: [row, unit].into_iter().collect() };
                strided::copy(&shape, unit, bytes, &from, &mut plane, &to)
                    .map_err(|_| SliceError::Kind)?;
                Ok(Elements::Fixed(plane))
            }
            ElementsRef::Variable(elements) => {
                let mut plane = VariableElements::new();
                crate::layout::for_each_offset(&shape, &from, |at| {
                    plane.push(elements.get(at).unwrap_or_default());
                });
                Ok(Elements::Variable(plane))
            }
        }
    }
}

/// Planes one after another, each in memory of its own.
#[derive(Debug)]
pub(super) struct Planes<'a> {
    pub plane: &'a Plane,
    pub planes: &'a [Elements],
}

fn outside() -> SourceError {
    "the box is outside the planes".into()
}

impl Source for Planes<'_> {
    fn copy_box(
        &self,
        start: &[u64],
        shape: &[u64],
        target: &mut [u8],
        to: &Placement,
    ) -> Result<(), SourceError> {
        let axis = self.plane.axis;
        let mut extents = extents(shape);
        let thickness = std::mem::replace(&mut extents[axis], 1);
        let strides = &self.plane.strides;
        let within: usize =
            (0..start.len()).filter(|&k| k != axis).map(|k| start[k] as usize * strides[k]).sum();
        let from = Placement { start: within, strides: strides.clone() };
        for i in 0..thickness {
            let plane = self.planes.get(start[axis] as usize + i).ok_or_else(outside)?;
            let Elements::Fixed(bytes) = plane else { return Err(outside()) };
            let to =
                Placement { start: to.start + i * to.strides[axis], strides: to.strides.clone() };
            strided::copy(&extents, self.plane.unit(), bytes, &from, target, &to)?;
        }
        Ok(())
    }

    fn variable_box(&self, start: &[u64], shape: &[u64]) -> Result<VariableElements, SourceError> {
        let strides = &self.plane.strides;
        let first = start.iter().zip(strides).map(|(&i, &s)| i as usize * s).sum();
        let from = Placement { start: first, strides: strides.clone() };
        let mut out = VariableElements::new();
        crate::layout::for_each_offset(&extents(shape), &from, |at| {
            let (plane, within) = (at / self.plane.elements, at % self.plane.elements);
            let element = match self.planes.get(plane) {
                Some(Elements::Variable(elements)) => elements.get(within),
                _ => None,
            };
            out.push(element.unwrap_or_default());
        });
        Ok(out)
    }
}
