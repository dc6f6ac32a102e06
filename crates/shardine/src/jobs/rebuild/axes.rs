//! Which axis of one array each axis of another is.

use serde::{Deserialize, Serialize};

/// Which axis of a new array each axis of an old one becomes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::jobs) struct AxisMap {
    /// By axis of the old array. `None` for an axis that the new one lacks, of which the first
    /// element is taken.
    axes: Vec<Option<usize>>,
    /// Axes of the new array. One that no old axis becomes has length 1.
    rank: usize,
}

impl AxisMap {
    /// Every axis stays what it is.
    pub fn identity(rank: usize) -> Self {
        Self { axes: (0..rank).map(Some).collect(), rank }
    }

    /// Axis `i` becomes axis `axes[i]` of `rank`.
    pub fn new(axes: Vec<Option<usize>>, rank: usize) -> Self {
        Self { axes, rank }
    }

    /// Whether it maps so many axes to so many, each to another one.
    pub fn is_between(&self, old: usize, new: usize) -> bool {
        let mut taken: Vec<usize> = self.axes.iter().flatten().copied().collect();
        taken.sort_unstable();
        let distinct = taken.windows(2).all(|pair| pair[0] != pair[1]);
        self.axes.len() == old && self.rank == new && distinct && taken.iter().all(|&k| k < new)
    }

    pub fn is_identity(&self) -> bool {
        *self == Self::identity(self.rank)
    }

    /// What axis `axis` of the old array becomes.
    pub fn new_axis(&self, axis: usize) -> Option<usize> {
        self.axes.get(axis).copied().flatten()
    }

    /// What is by axis of the old array, by axis of the new one; `missing` where there is no old
    /// axis.
    pub fn to_new<T: Copy>(&self, by_axis: &[T], missing: T) -> Vec<T> {
        let mut mapped = vec![missing; self.rank];
        for (axis, &value) in self.axes.iter().zip(by_axis) {
            if let Some(place) = axis.and_then(|axis| mapped.get_mut(axis)) {
                *place = value;
            }
        }
        mapped
    }

    /// What is by axis of the new array, by axis of the old one; `missing` where there is no new
    /// axis.
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
