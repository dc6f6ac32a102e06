//! Which elements of an array: regions as users write them, and selections as the engine walks
//! them.

use std::fmt;
use std::str::FromStr;

use smallvec::SmallVec;

pub use crate::into_region::{AxisRange, IntoRegion};
use crate::region_item::Item;
pub use crate::region_text::{RegionAxes, RegionText};

/// What is wrong with a region.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegionError {
    /// The text is not a region.
    #[error("\"{item}\" in region \"{region}\" is not start:stop:step, an integer or ...")]
    Syntax {
        /// The whole text.
        region: String,
        /// The item that cannot be parsed.
        item: String,
    },
    /// A step is zero or negative.
    #[error("step {step} in region \"{region}\": steps must be positive")]
    Step {
        /// The whole text.
        region: String,
        /// The step as given.
        step: i128,
    },
    /// There are more items than axes.
    #[error("region has {items} items, but the array has {rank} axes")]
    Rank {
        /// Items other than `...`.
        items: usize,
        /// Axes of the array.
        rank: usize,
    },
    /// No element of an axis is selected.
    #[error("region selects nothing on axis {axis}, which has {len} elements")]
    Empty {
        /// Which axis.
        axis: usize,
        /// Its length.
        len: u64,
    },
    /// A start or an integer lies past the end of its axis.
    #[error("region begins at {start} on axis {axis}, which has {len} elements")]
    PastEnd {
        /// Which axis.
        axis: usize,
        /// As given.
        start: i128,
        /// Its length.
        len: u64,
    },
    /// Some items name their axis, and others do not.
    #[error(
        "region \"{region}\": either every item names its axis, as in z=10:20,x=5, or none does"
    )]
    Mixed {
        /// The whole text.
        region: String,
    },
    /// Two items name the same axis.
    #[error("axis \"{name}\" is named twice in a region")]
    NamedTwice {
        /// Which.
        name: String,
    },
    /// No axis has this name.
    #[error("there is no axis \"{name}\"; the axes are {}", names.join(", "))]
    UnknownAxis {
        /// As given.
        name: String,
        /// The names that there are.
        names: Vec<String>,
    },
    /// Several axes have this name.
    #[error("more than one axis is called \"{name}\"; give one item per axis, in their order")]
    SharedName {
        /// Which.
        name: String,
    },
    /// The axes have no names.
    #[error("the {rank} axes have no names; give one item per axis, in their order")]
    Unnamed {
        /// How many there are.
        rank: usize,
    },
    /// A coordinate lies outside of the data set.
    #[error("coordinate {at} is outside axis {axis}, which has the coordinates {first}:{end}")]
    Outside {
        /// Which axis.
        axis: usize,
        /// As given.
        at: i128,
        /// That of the first element.
        first: i128,
        /// One past that of the last element.
        end: i128,
    },
    /// A buffer's size does not match the region.
    #[error("region has {expected} bytes, but the buffer has {actual}")]
    BufferSize {
        /// Bytes of the region's elements.
        expected: u64,
        /// Bytes given.
        actual: u64,
    },
    /// The length of a slice of elements does not match the region.
    #[error("region of shape {shape:?} has {expected} elements, but the slice has {actual}")]
    ElementCount {
        /// Elements of the region along each axis.
        shape: Vec<u64>,
        /// Elements of the region.
        expected: u64,
        /// Elements given.
        actual: u64,
    },
    /// The shape of an in-memory array does not match the region.
    #[error("region has shape {expected:?}, but the array in memory has {actual:?}")]
    Shape {
        /// Elements of the region along each axis.
        expected: Vec<u64>,
        /// Elements given along each axis.
        actual: Vec<u64>,
    },
    /// The placement of a read's elements is invalid.
    #[error("the memory layout of the elements cannot be used: {reason}")]
    Places {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A source's element size differs from the array's.
    #[error("the source has elements of {actual} bytes, but the array has elements of {expected}")]
    ElementSize {
        /// The array's element size.
        expected: usize,
        /// The source's element size.
        actual: usize,
    },
    /// The region does not fit in memory.
    #[error("region of shape {shape:?} exceeds the address space")]
    TooLarge {
        /// Elements along each axis.
        shape: Vec<u64>,
    },
}

/// A region as users write it: `0:64,:,7:8`, `::2`, `-1`, `..., 5`.
///
/// One item per axis; missing trailing axes are whole. Negative numbers count from the end, stops
/// are clipped, and a bare integer is one element and keeps its axis.
///
/// ```
/// # use shardine_engine::selection::{Region, RegionError};
/// let region: Region = "0:64:2,...,-1".parse()?;
/// let selection = region.resolve(&[100, 30, 8])?;
/// assert_eq!(selection.shape(), [32, 30, 1]);
/// # Ok::<(), RegionError>(())
/// ```
///
/// Rust ranges work too, see [`IntoRegion`]. Two regions are equal if they say the same for each
/// axis.
#[derive(Debug, Clone, Default)]
pub struct Region {
    /// The original text, if it was text.
    text: Option<String>,
    items: Vec<Item>,
}

impl PartialEq for Region {
    fn eq(&self, other: &Self) -> bool {
        self.items == other.items
    }
}

impl Eq for Region {}

impl Region {
    /// All of any array.
    pub fn all() -> Self {
        Self::default()
    }

    /// A box of `shape` elements starting at `start`.
    pub fn of_box(start: &[u64], shape: &[u64]) -> Self {
        let axes = start.iter().zip(shape).map(|(&start, &count)| Axis { start, step: 1, count });
        Self::from(&Selection { axes: axes.collect() })
    }

    pub(crate) fn of_items(items: impl IntoIterator<Item = Item>) -> Self {
        Self { text: None, items: items.into_iter().collect() }
    }

    /// What it says of each of so many axes.
    pub(crate) fn items_of(&self, rank: usize) -> Result<Vec<Item>, RegionError> {
        Ok(full_items(&self.items, rank)?.into_iter().cloned().collect())
    }

    /// The elements that the region selects in an array of this shape.
    pub fn resolve(&self, shape: &[u64]) -> Result<Selection, RegionError> {
        resolve_items(&self.items, shape)
    }
}

/// The elements that these items select in an array of this shape; axes after the last item are
/// whole.
pub(crate) fn resolve_items(items: &[Item], shape: &[u64]) -> Result<Selection, RegionError> {
    let full = full_items(items, shape.len())?;
    let axes = full.iter().zip(shape).enumerate();
    let axes = axes.map(|(axis, (item, &len))| item.resolve(axis, len));
    Ok(Selection { axes: axes.collect::<Result<_, _>>()? })
}

/// One item for each of so many axes.
fn full_items(items: &[Item], rank: usize) -> Result<SmallVec<[&Item; 8]>, RegionError> {
    let named = items.iter().filter(|i| **i != Item::Ellipsis).count();
    if named > rank {
        return Err(RegionError::Rank { items: named, rank });
    }
    let mut full: SmallVec<[&Item; 8]> = SmallVec::with_capacity(rank);
    for item in items {
        match item {
            Item::Ellipsis => full.extend(std::iter::repeat_n(&Item::WHOLE, rank - named)),
            item => full.push(item),
        }
    }
    full.resize(rank, &Item::WHOLE);
    Ok(full)
}

impl From<&Selection> for Region {
    /// The region that selects these elements, in any array that has them.
    fn from(selection: &Selection) -> Self {
        let items = selection.axes.iter().map(|&Axis { start, step, count }| {
            // One past the last element, so that a step past the end does not count.
            let last = u128::from(count.saturating_sub(1)) * u128::from(step);
            let stop = i128::from(start) + last as i128 + i128::from(count.min(1));
            Item::Slice { start: Some(start.into()), stop: Some(stop), step }
        });
        Self::of_items(items)
    }
}

impl FromStr for Region {
    type Err = RegionError;

    fn from_str(text: &str) -> Result<Self, RegionError> {
        let mut items = Vec::new();
        let mut ellipses = 0;
        if !text.trim().is_empty() {
            for item in text.split(',') {
                items.push(Item::parse(text, item.trim())?);
                ellipses += usize::from(items.last() == Some(&Item::Ellipsis));
            }
        }
        if ellipses > 1 {
            return Err(RegionError::Syntax { region: text.into(), item: "...".into() });
        }
        Ok(Self { text: Some(text.to_owned()), items })
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) if !text.is_empty() => f.write_str(text),
            _ if self.items.is_empty() => f.write_str("..."),
            _ => {
                let items: Vec<String> = self.items.iter().map(Item::to_string).collect();
                f.write_str(&items.join(","))
            }
        }
    }
}

/// Elements `start`, `start + step`, … along one axis, `count` of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axis {
    /// The first element.
    pub start: u64,
    /// The distance between elements; at least 1.
    pub step: u64,
    /// The number of elements.
    pub count: u64,
}

impl Axis {
    /// All `len` elements of an axis.
    pub fn whole(len: u64) -> Self {
        Self { start: 0, step: 1, count: len }
    }

    /// The part in the same cell of `cell` elements as selected element number `at`.
    ///
    /// `None` past the last element.
    fn part_from(self, cell: u64, at: u64) -> Option<Part> {
        if at >= self.count {
            return None;
        }
        let first = self.start + at * self.step;
        let index = first / cell;
        let start = first - index * cell;
        let count = (cell - start).div_ceil(self.step).min(self.count - at);
        Some(Part { cell: index, axis: Axis { start, step: self.step, count }, at })
    }

    /// The part in cell number `index`, if any.
    pub fn part_in(self, cell: u64, index: u64) -> Option<Part> {
        let before = index.checked_mul(cell)?.saturating_sub(self.start);
        self.part_from(cell, before.div_ceil(self.step)).filter(|part| part.cell == index)
    }
}

/// The part of an axis in one cell of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Which cell.
    pub cell: u64,
    /// The elements inside the cell, counted from its first.
    pub axis: Axis,
    /// The number of selected elements before this part.
    pub at: u64,
}

/// A box of elements with a step along each axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// One per axis of the array.
    pub axes: SmallVec<[Axis; 4]>,
}

impl Selection {
    /// All of an array.
    pub fn whole(shape: &[u64]) -> Self {
        Self { axes: shape.iter().map(|&n| Axis::whole(n)).collect() }
    }

    /// How many elements along each axis.
    pub fn shape(&self) -> Vec<u64> {
        self.axes.iter().map(|a| a.count).collect()
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.axes.iter().any(|a| a.count == 0)
    }

    /// Bytes of its elements, of `element` bytes each; saturates.
    pub fn bytes(&self, element: usize) -> u64 {
        self.axes.iter().fold(element as u64, |n, a| n.saturating_mul(a.count))
    }

    /// Whether it holds every element of a box of this shape.
    pub fn covers(&self, shape: &[u64]) -> bool {
        // A step does not matter if there is only one element.
        self.axes.iter().zip(shape).all(|(a, &n)| a.count >= n)
    }

    /// What it selects in one cell of a grid; `None` if it does not touch it.
    pub fn cell(&self, cell_shape: &[u64], index: &[u64]) -> Option<Cell> {
        let axes = self.axes.iter().zip(cell_shape).zip(index);
        let parts: SmallVec<[Part; 6]> =
            axes.map(|((axis, &n), &i)| axis.part_in(n, i)).collect::<Option<_>>()?;
        Some(Cell {
            index: index.iter().copied().collect(),
            selection: Self { axes: parts.iter().map(|part| part.axis).collect() },
            at: parts.iter().map(|part| part.at).collect(),
        })
    }

    /// The cells of a grid that it touches, each with what it selects there.
    pub fn cells(&self, cell_shape: &[u64]) -> Cells {
        let axes: SmallVec<[(Axis, u64); 4]> =
            self.axes.iter().copied().zip(cell_shape.iter().copied()).collect();
        let parts: Option<SmallVec<[Part; 4]>> =
            axes.iter().map(|(axis, cell)| axis.part_from(*cell, 0)).collect();
        Cells { axes, parts }
    }
}

/// Iterates over cells in C order. Holds only the current one, however many there are.
pub struct Cells {
    axes: SmallVec<[(Axis, u64); 4]>,
    /// The parts that make up the next cell; `None` at the end.
    parts: Option<SmallVec<[Part; 4]>>,
}

/// One cell that a selection touches.
#[derive(Debug, Clone)]
pub struct Cell {
    /// Its position in the grid.
    pub index: SmallVec<[u64; 4]>,
    /// The elements inside it.
    pub selection: Selection,
    /// The offset of its first element in the selection, along each axis.
    pub at: SmallVec<[u64; 4]>,
}

impl Iterator for Cells {
    type Item = Cell;

    fn next(&mut self) -> Option<Cell> {
        let parts = self.parts.as_mut()?;
        let cell = Cell {
            index: parts.iter().map(|p| p.cell).collect(),
            selection: Selection { axes: parts.iter().map(|p| p.axis).collect() },
            at: parts.iter().map(|p| p.at).collect(),
        };
        for (part, (axis, len)) in parts.iter_mut().zip(&self.axes).rev() {
            if let Some(next) = axis.part_from(*len, part.at + part.axis.count) {
                *part = next;
                return Some(cell);
            }
            if let Some(first) = axis.part_from(*len, 0) {
                *part = first;
            }
        }
        self.parts = None;
        Some(cell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(region: &str, shape: &[u64]) -> Result<Vec<(u64, u64, u64)>, RegionError> {
        let selection = region.parse::<Region>()?.resolve(shape)?;
        Ok(selection.axes.iter().map(|a| (a.start, a.step, a.count)).collect())
    }

    #[test]
    fn regions_mean_what_numpy_means_by_them() {
        assert_eq!(resolve("", &[5, 6]), Ok(vec![(0, 1, 5), (0, 1, 6)]));
        assert_eq!(resolve("1:3", &[5, 6]), Ok(vec![(1, 1, 2), (0, 1, 6)]));
        assert_eq!(resolve("-2:,::4", &[5, 6]), Ok(vec![(3, 1, 2), (0, 4, 2)]));
        assert_eq!(resolve("...,-1", &[5, 6]), Ok(vec![(0, 1, 5), (5, 1, 1)]));
        assert_eq!(resolve("2,...", &[5, 6, 7]), Ok(vec![(2, 1, 1), (0, 1, 6), (0, 1, 7)]));
        assert_eq!(resolve(":99", &[5]), Ok(vec![(0, 1, 5)]));
        assert_eq!(resolve("-99:2", &[5]), Ok(vec![(0, 1, 2)]));
        assert_eq!(resolve(":", &[0]), Ok(vec![(0, 1, 0)]));
        assert_eq!(resolve("...", &[]), Ok(vec![]));
        let far = u64::MAX - 1;
        assert_eq!(resolve("-1", &[far]), Ok(vec![(far - 1, 1, 1)]));
        assert_eq!(resolve("18446744073709551607:", &[u64::MAX]), Ok(vec![(u64::MAX - 8, 1, 8)]));
        assert_eq!(resolve("::99999999999999999999", &[5]), Ok(vec![(0, u64::MAX, 1)]));
    }

    #[test]
    fn a_region_that_selects_nothing_is_an_error() {
        assert_eq!(resolve("2:2", &[5]), Err(RegionError::Empty { axis: 0, len: 5 }));
        assert_eq!(resolve("3:1", &[5]), Err(RegionError::Empty { axis: 0, len: 5 }));
        assert_eq!(resolve("7:9", &[5]), Err(RegionError::PastEnd { axis: 0, start: 7, len: 5 }));
        assert_eq!(resolve("5", &[5]), Err(RegionError::PastEnd { axis: 0, start: 5, len: 5 }));
        assert_eq!(resolve("-6", &[5]), Err(RegionError::PastEnd { axis: 0, start: -6, len: 5 }));
        assert_eq!(resolve("0:1", &[0]), Err(RegionError::Empty { axis: 0, len: 0 }));
        assert_eq!(resolve("0,0,0", &[5, 5]), Err(RegionError::Rank { items: 3, rank: 2 }));
        for bad in ["a", "1:2:3:4", "1:2:0", "1:2:-1", "1,,2", "...,..."] {
            assert!(resolve(bad, &[5, 5, 5]).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_box_is_the_same_box_wherever_it_lies() {
        for start in [0, 7, 1 << 63, u64::MAX - 4] {
            let selection = Region::of_box(&[start], &[4]).resolve(&[u64::MAX]).unwrap();
            assert_eq!(selection.axes[..], [Axis { start, step: 1, count: 4 }]);
        }
        let axes =
            [Axis { start: 3, step: 5, count: 4 }, Axis { start: 0, step: u64::MAX, count: 1 }];
        let selection = Selection { axes: axes.into_iter().collect() };
        let region = Region::from(&selection);
        assert_eq!(region.resolve(&[19, 2]).unwrap().axes[0], axes[0]);
        assert_eq!(region.to_string(), "3:19:5,0:1:18446744073709551615");
        assert!(Region::of_box(&[2], &[0]).resolve(&[5]).is_err());
    }

    #[test]
    fn parts_cover_an_axis_once_and_in_order() {
        for (start, step, count, cell) in
            [(0, 1, 10, 3), (2, 5, 4, 3), (7, 2, 9, 4), (1, 100, 3, 7), (0, 1, 1, 1)]
        {
            let axis = Axis { start, step, count };
            let mut seen = Vec::new();
            let parts = (0..=(start + count * step) / cell).filter_map(|i| axis.part_in(cell, i));
            for part in parts {
                assert_eq!(part.at, seen.len() as u64);
                for i in 0..part.axis.count {
                    let local = part.axis.start + i * part.axis.step;
                    assert!(local < cell);
                    seen.push(part.cell * cell + local);
                }
            }
            let expected: Vec<u64> = (0..count).map(|i| start + i * step).collect();
            assert_eq!(seen, expected);
        }
    }
}
