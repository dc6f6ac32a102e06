//! Maps the axes of one array to those of another.

use serde::{Deserialize, Serialize};

/// Which axis of a new array each axis of an old one becomes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::jobs) struct AxisMap {
    /// By axis of the old array. `None` for an axis that the new one lacks; only its first element
    /// is used.
    axes: Vec<Option<usize>>,
    /// The number of axes of the new array. One that no old axis maps to has length 1.
    rank: usize,
}

impl AxisMap {
    /// Every axis stays where it is.
    pub fn identity(rank: usize) -> Self {
        Self { axes: (0..rank).map(Some).collect(), rank }
    }

    /// Axis `i` becomes axis `axes[i]` of `rank`.
    pub fn new(axes: Vec<Option<usize>>, rank: usize) -> Self {
        Self { axes, rank }
    }

    /// Whether it maps `old` axes into `new` ones, no two to the same.
    pub fn is_between(&self, old: usize, new: usize) -> bool {
        let mut taken: Vec<usize> = self.axes.iter().flatten().copied().collect();
        taken.sort_unstable();
        let distinct = taken.windows(2).all(|pair| pair[0] != pair[1]);
        self.axes.len() == old && self.rank == new && distinct && taken.iter().all(|&k| k < new)
    }

    pub fn is_identity(&self) -> bool {
        *self == Self::identity(self.rank)
    }

    /// The new axis for `axis` of the old array.
    pub fn new_axis(&self, axis: usize) -> Option<usize> {
        self.axes.get(axis).copied().flatten()
    }

    /// Reorders values by axis of the old array to axes of the new one; `missing` where there is no
    /// old axis.
    pub fn to_new<T: Copy>(&self, by_axis: &[T], missing: T) -> Vec<T> {
        let mut mapped = vec![missing; self.rank];
        for (axis, &value) in self.axes.iter().zip(by_axis) {
            if let Some(place) = axis.and_then(|axis| mapped.get_mut(axis)) {
                *place = value;
            }
        }
        mapped
    }

    /// Reorders values by axis of the new array to axes of the old one; `missing` where there is no
    /// new axis.
    pub fn to_old<T: Copy>(&self, by_axis: &[T], missing: T) -> Vec<T> {
        let value = |axis: &Option<usize>| axis.and_then(|axis| by_axis.get(axis).copied());
        self.axes.iter().map(|axis| value(axis).unwrap_or(missing)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_follow_their_axes_there_and_back() {
        // t, c, z, y, x becomes x, y, z, channel.
        let map = AxisMap::new(vec![None, Some(3), Some(2), Some(1), Some(0)], 4);
        assert_eq!(map.to_new(&[1, 3, 10, 20, 30], 1), [30, 20, 10, 3]);
        assert_eq!(map.to_old(&[30, 20, 10, 3], 1), [1, 3, 10, 20, 30]);
        assert!(!map.is_identity() && AxisMap::identity(3).is_identity());
        // z, y, x has no channel.
        let flat = AxisMap::new(vec![Some(2), Some(1), Some(0)], 4);
        assert_eq!(flat.to_new(&[10, 20, 30], 1), [30, 20, 10, 1]);
        assert_eq!(flat.to_old(&[30, 20, 10, 1], 1), [10, 20, 30]);
    }
}
