//! Which elements of an array: regions as people write them, and selections as the engine walks them.

use std::fmt;
use std::str::FromStr;

use smallvec::SmallVec;

/// What is wrong with a region.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegionError {
    /// The text is not a region.
    #[error("\"{item}\" in region \"{region}\" is not start:stop:step, an integer or ...")]
    Syntax {
        /// The whole text.
        region: String,
        /// The item that cannot be read.
        item: String,
    },
    /// A step is zero or negative.
    #[error("step {step} in region \"{region}\": steps are positive")]
    Step {
        /// The whole text.
        region: String,
        /// The step as given.
        step: i64,
    },
    /// There are more items than axes.
    #[error("region has {items} items, the array {rank} axes")]
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
        start: i64,
        /// Its length.
        len: u64,
    },
    /// A buffer does not have the size of the region.
    #[error("region has {expected} bytes, the buffer {actual}")]
    BufferSize {
        /// Bytes of the region's elements.
        expected: u64,
        /// Bytes given.
        actual: u64,
    },
    /// The region does not fit in memory.
    #[error("region of shape {shape:?} is larger than memory can be")]
    TooLarge {
        /// Elements along each axis.
        shape: Vec<u64>,
    },
}

/// A region as people write it: `0:64,:,7:8`, `::2`, `-1`, `..., 5`.
///
/// One item per axis, missing trailing axes are whole. Negative numbers count from the
/// end, stops are clipped, a bare integer is one element and keeps its axis.
///
/// ```
/// let region: shardine::Region = "0:64:2,...,-1".parse().unwrap();
/// let selection = region.resolve(&[100, 30, 8]).unwrap();
/// assert_eq!(selection.shape(), [32, 30, 1]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Region {
    text: String,
    items: Vec<Item>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Item {
    Ellipsis,
    Index(i64),
    Slice { start: Option<i64>, stop: Option<i64>, step: u64 },
}

impl Region {
    /// The whole of any array.
    pub fn all() -> Self {
        Self::default()
    }

    /// A box from `start` of `shape` elements.
    pub fn of_box(start: &[u64], shape: &[u64]) -> Self {
        let items: Vec<String> = start
            .iter()
            .zip(shape)
            .map(|(&start, &n)| format!("{start}:{}", start.saturating_add(n)))
            .collect();
        // The text is made of numbers, so it parses.
        items.join(",").parse().unwrap_or_default()
    }

    /// The elements that the region means in an array of this shape.
    pub fn resolve(&self, shape: &[u64]) -> Result<Selection, RegionError> {
        let rank = shape.len();
        let items = self.items.iter().filter(|i| **i != Item::Ellipsis).count();
        if items > rank {
            return Err(RegionError::Rank { items, rank });
        }
        let whole = Item::Slice { start: None, stop: None, step: 1 };
        let mut full: Vec<&Item> = Vec::with_capacity(rank);
        for item in &self.items {
            match item {
                Item::Ellipsis => full.extend(std::iter::repeat_n(&whole, rank - items)),
                item => full.push(item),
            }
        }
        full.resize(rank, &whole);
        let axes = full.iter().zip(shape).enumerate();
        let axes = axes.map(|(axis, (item, &len))| item.resolve(axis, len));
        Ok(Selection { axes: axes.collect::<Result<_, _>>()? })
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
        Ok(Self { text: text.to_owned(), items })
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.text.is_empty() { "..." } else { &self.text })
    }
}

impl Item {
    fn parse(region: &str, item: &str) -> Result<Self, RegionError> {
        if item == "..." {
            return Ok(Self::Ellipsis);
        }
        let refuse = || RegionError::Syntax { region: region.into(), item: item.into() };
        let number = |text: &str| -> Result<Option<i64>, RegionError> {
            match text.trim() {
                "" => Ok(None),
                text => text.parse().map(Some).map_err(|_| refuse()),
            }
        };
        let parts: Vec<&str> = item.split(':').collect();
        match parts[..] {
            [index] => Ok(Self::Index(number(index)?.ok_or_else(refuse)?)),
            [start, stop] => {
                Ok(Self::Slice { start: number(start)?, stop: number(stop)?, step: 1 })
            }
            [start, stop, step] => {
                let step = number(step)?.unwrap_or(1);
                if step < 1 {
                    return Err(RegionError::Step { region: region.into(), step });
                }
                Ok(Self::Slice {
                    start: number(start)?,
                    stop: number(stop)?,
                    step: step.unsigned_abs(),
                })
            }
            _ => Err(refuse()),
        }
    }

    fn resolve(&self, axis: usize, len: u64) -> Result<Axis, RegionError> {
        let from_end = |i: i64| match u64::try_from(i) {
            Ok(i) => i,
            Err(_) => len.saturating_sub(i.unsigned_abs()),
        };
        match *self {
            Self::Ellipsis => Ok(Axis { start: 0, step: 1, count: len }),
            Self::Index(i) => {
                let inside = if i < 0 { i.unsigned_abs() <= len } else { i.unsigned_abs() < len };
                if !inside {
                    return Err(RegionError::PastEnd { axis, start: i, len });
                }
                Ok(Axis { start: from_end(i), step: 1, count: 1 })
            }
            Self::Slice { start, stop, step } => {
                let first = start.map_or(0, from_end);
                let end = stop.map_or(len, from_end).min(len);
                if let Some(start) = start
                    && first >= len
                    && len > 0
                {
                    return Err(RegionError::PastEnd { axis, start, len });
                }
                let count = end.saturating_sub(first).div_ceil(step);
                if count == 0 && !(len == 0 && start.is_none() && stop.is_none()) {
                    return Err(RegionError::Empty { axis, len });
                }
                Ok(Axis { start: first, step, count })
            }
        }
    }
}

/// Elements `start`, `start + step`, … along one axis, `count` of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axis {
    /// The first element.
    pub start: u64,
    /// From one to the next; at least 1.
    pub step: u64,
    /// How many.
    pub count: u64,
}

impl Axis {
    /// All `len` elements of an axis.
    pub fn whole(len: u64) -> Self {
        Self { start: 0, step: 1, count: len }
    }

    /// The parts that fall into cells of `cell` elements each, in order.
    pub(crate) fn parts(self, cell: u64) -> impl Iterator<Item = Part> {
        let mut done = 0;
        std::iter::from_fn(move || {
            if done >= self.count {
                return None;
            }
            let first = self.start + done * self.step;
            let index = first / cell;
            let local = first - index * cell;
            let fit = (cell - local).div_ceil(self.step).min(self.count - done);
            let part = Part {
                cell: index,
                axis: Axis { start: local, step: self.step, count: fit },
                at: done,
            };
            done += fit;
            Some(part)
        })
    }
}

/// The part of an axis that falls into one cell of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// Which cell.
    pub cell: u64,
    /// The elements inside the cell, counted from its first.
    pub axis: Axis,
    /// How many elements of the axis come before.
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

    /// Whether it holds each element of a box of this shape.
    pub(crate) fn covers(&self, shape: &[u64]) -> bool {
        // A step does not matter where there is but one element.
        self.axes.iter().zip(shape).all(|(a, &n)| a.count >= n)
    }

    /// The cells of a grid that it touches, each with what it selects there.
    pub(crate) fn cells(&self, cell_shape: &[u64]) -> Cells {
        let parts: Vec<Vec<Part>> =
            self.axes.iter().zip(cell_shape).map(|(a, &n)| a.parts(n).collect()).collect();
        let done = parts.iter().any(Vec::is_empty);
        Cells { counters: SmallVec::from_elem(0, parts.len()), parts, done }
    }
}

/// Iterates over cells in C order.
pub(crate) struct Cells {
    parts: Vec<Vec<Part>>,
    counters: SmallVec<[usize; 4]>,
    done: bool,
}

/// One cell that a selection touches.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    /// Its place in the grid.
    pub index: SmallVec<[u64; 4]>,
    /// The elements inside it.
    pub selection: Selection,
    /// Where its first element stands in the selection, along each axis.
    pub at: SmallVec<[u64; 4]>,
}

impl Iterator for Cells {
    type Item = Cell;

    fn next(&mut self) -> Option<Cell> {
        if self.done {
            return None;
        }
        let parts = || self.counters.iter().zip(&self.parts).map(|(&i, p)| &p[i]);
        let cell = Cell {
            index: parts().map(|p| p.cell).collect(),
            selection: Selection { axes: parts().map(|p| p.axis).collect() },
            at: parts().map(|p| p.at).collect(),
        };
        self.done = true;
        for (counter, parts) in self.counters.iter_mut().zip(&self.parts).rev() {
            *counter += 1;
            if *counter < parts.len() {
                self.done = false;
                break;
            }
            *counter = 0;
        }
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
    fn parts_cover_an_axis_once_and_in_order() {
        for (start, step, count, cell) in
            [(0, 1, 10, 3), (2, 5, 4, 3), (7, 2, 9, 4), (1, 100, 3, 7), (0, 1, 1, 1)]
        {
            let axis = Axis { start, step, count };
            let mut seen = Vec::new();
            for part in axis.parts(cell) {
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
